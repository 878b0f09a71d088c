//! The flag audit: what the compilers really did, read from the binaries, held against the plan.
//!
//! [`elf`] reads a file into [`elf::Facts`]; [`producer`] splits what a compiler wrote about itself
//! into flags; [`judge`] compares with what was asked. The last two are pure.

pub mod elf;
pub mod judge;
pub mod producer;
