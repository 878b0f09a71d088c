//! Counts of instructions: records of a kind of their own, in `results/counts/`, so that no table
//! of timed runs can ever hold one of a server that ran under an instrument.

use serde::{Deserialize, Serialize};

use super::Mark;
use crate::hash::Digest;

/// The version of the schema of counts; readers refuse a newer one.
pub const COUNT_SCHEMA: u32 = 1;

/// One count: the instructions per operation of one microbenchmark against one target, from two
/// starts of the server on fresh copies of the same data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Count {
    /// [`COUNT_SCHEMA`].
    pub schema: u32,
    /// Version of this tool.
    pub tool: String,
    /// The experiment.
    pub experiment: String,
    /// `build.config`.
    pub target: String,
    /// The hash of build id and what the server gets ([`crate::bench::plan::target_id`]).
    pub target_id: Digest,
    /// Name of the build.
    pub build: String,
    /// Id of the build.
    pub build_id: Digest,
    /// Set when the binaries were not what was asked for and the user let them run all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Mark>,
    /// Name and version of the compiler; none for an installed server.
    pub compiler: Option<String>,
    /// The version in the running server's own words.
    pub server_version: Option<String>,
    /// Axis and setting.
    pub settings: Vec<(String, String)>,
    /// Name of the config.
    pub config: String,
    /// Name of the workload.
    pub workload: String,
    /// The hash of everything that determines what is executed: data, statements, numbers of
    /// operations, seed.
    pub count_id: Digest,
    /// The microbenchmark.
    pub microbenchmark: String,
    /// Its group.
    pub group: String,
    /// The host.
    pub host: String,
    /// Release of the kernel.
    pub kernel: String,
    /// The hash of the load driver.
    pub driver: Digest,
    /// What counted: `valgrind-3.19.0`.
    pub instrument: String,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// What came of it.
    pub outcome: Counted,
}

/// What came of a count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "status")]
pub enum Counted {
    /// It was made.
    Ok(Instructions),
    /// It was not.
    Failed {
        /// Why.
        reason: String,
        /// The log with the rest, relative to the work directory.
        log: Option<String>,
    },
}

/// The instructions of what served the connection, at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Instructions {
    /// Operations of both starts that do not count: they fill caches.
    pub warmup: u64,
    /// Operations of the second start beyond these: what is counted.
    pub operations: u64,
    /// Statements of the counted operations.
    pub queries: u64,
    /// Rows of the counted operations.
    pub rows: u64,
    /// Instructions of the start with the warm-up only.
    pub short: u64,
    /// Instructions of the start with warm-up and counted operations.
    pub long: u64,
}

impl Instructions {
    /// Instructions per operation: everything that both starts do alike cancels.
    pub fn per_operation(&self) -> f64 {
        (self.long as f64 - self.short as f64) / self.operations as f64
    }
}
