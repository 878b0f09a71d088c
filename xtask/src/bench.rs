//! Runs: which are still to be made ([`schedule`]), on which cores ([`placement`]), against which
//! data ([`snapshot`]), and the making itself ([`run`]).

pub mod driver;
pub mod lock;
pub mod placement;
pub mod plan;
pub mod procstat;
pub mod run;
pub mod schedule;
pub mod snapshot;
