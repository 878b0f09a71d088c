//! End-to-end tests: the real binary against real compilers, real sources and real servers.
//!
//! One binary for all of them; a file per subject. `support` has the project builder. What a test
//! needs and this machine lacks is a failure that names the package, never a silent pass.

mod audit;
mod bench;
mod build;
mod command;
mod count;
mod drivers;
mod import;
mod insert;
mod judge;
mod mysql;
mod plan;
mod reproduce;
mod seal;
mod source;
mod sqlbench;
mod support;
mod sysbench;
mod tidy;
mod views;
mod whole;
