//! What a measurement does.

use std::path::PathBuf;
use std::time::Duration;

use catalog::protocol::InsertStep;

use crate::bench::profile::Perf;
use crate::matrix::model::MetricRule;

/// What a measurement does.
#[derive(Clone, Debug)]
pub enum Work {
    /// Statements of a microbenchmark, by the load driver.
    Microbenchmark,
    /// A program of the user's.
    Command(Command),
    /// A step of the insert benchmark, by the load driver; its seed is xored with the block's.
    Insert(InsertStep),
}

/// A program that measures by itself.
#[derive(Clone, Debug)]
pub struct Command {
    /// The words, with placeholders.
    pub words: Vec<String>,
    /// What is read from its output.
    pub reading: Reading,
    /// How long it may take.
    pub limit: Duration,
}

/// What is read from a program's output.
#[derive(Clone, Debug)]
pub enum Reading {
    /// Lines that say a metric, and what these rules find.
    Metrics(Vec<MetricRule>),
    /// The times of a test of sql-bench.
    SqlBench {
        /// Those of each operation, too.
        operations: bool,
    },
}

/// Profiles that are taken while runs are made.
#[derive(Clone, Debug)]
pub struct Profile {
    /// What takes them.
    pub perf: Perf,
    /// The folder for them.
    pub folder: PathBuf,
}
