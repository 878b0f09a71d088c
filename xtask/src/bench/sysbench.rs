//! The program `sysbench` as the other load driver: the same microbenchmarks with the same
//! statements against the same tables, so that two drivers can be held against each other.
//!
//! [`probe`] finds it and says what its version lacks, [`script`] makes the Lua of one
//! microbenchmark from the catalogue, [`run`] runs it, and [`parse`] reads what it prints.

pub mod parse;
pub mod probe;
pub mod run;
pub mod script;

pub use probe::Sysbench;
