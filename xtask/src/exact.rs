//! How alike two builds are: files, then sections, then functions.
//!
//! [`sections`] and [`functions`] read an installed tree; what they find is small enough to travel
//! with a manifest, so that [`compare`] needs only one of the two trees.

pub mod compare;
pub mod functions;
pub mod sections;
#[cfg(test)]
pub(crate) mod testing;
