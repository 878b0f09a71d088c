//! Runs: which are still to be made ([`schedule`]), which of them are the same ([`share`]), on
//! which cores ([`placement`]), against which data ([`snapshot`]), by which load driver
//! ([`driver`], [`sysbench`]), and the making itself ([`run`]).

pub mod callgrind;
pub mod command;
pub mod count;
pub mod driver;
pub mod lock;
pub mod machine;
pub mod placement;
pub mod plan;
pub mod procstat;
pub mod profile;
pub mod run;
pub mod schedule;
pub mod share;
pub mod snapshot;
pub mod sqlbench;
pub mod sysbench;
