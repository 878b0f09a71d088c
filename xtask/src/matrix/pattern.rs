//! placeholder
/// placeholder
#[derive(Clone, Debug)]
pub struct Pattern;
