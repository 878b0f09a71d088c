//! Statistics of paired measurements. Pure: numbers in, numbers out. METHODOLOGY.md says why these.
//!
//! An observation is y = ln(QPS) of one run. Within a block every target ran once, so the
//! difference of a target's y and the base's y in one block is free of whatever both shared. The
//! mean difference over blocks, exponentiated, is the geometric mean of the paired ratios.

pub mod estimate;
pub mod multiple;
pub mod rank;
#[cfg(test)]
mod simulation;
pub mod student;
pub mod summary;
pub mod verdict;

pub use estimate::{Estimate, Method};
pub use verdict::{Rule, Verdict};
