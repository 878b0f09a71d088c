//! Records: one line of JSON per run in `results/records/<experiment>/<host>.jsonl`, appended whole
//! and never changed, so that every table can be made again from `results/` alone.

use catalog::protocol::{ClientUsage, Latency};
use serde::{Deserialize, Serialize};

use crate::hash::Digest;
use crate::matrix::model::Placement;

pub mod store;
#[cfg(test)]
pub(crate) mod testing;

/// The version of the schema; readers refuse a newer one.
pub const SCHEMA: u32 = 1;

/// One run: one measured execution of one microbenchmark against one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of this tool.
    pub tool: String,
    /// The experiment.
    pub experiment: String,
    /// The block: every target once, back to back. Numbered per experiment and host.
    pub block: u32,
    /// The place of the target in the block's order, from 0.
    pub place: u32,
    /// The seed of the block's order.
    pub order_seed: u64,
    /// The invocation: restore, start, run the suite, stop. Equal for the runs of one server start.
    pub invocation: String,
    /// `build.config`.
    pub target: String,
    /// The hash of build id, resolved config and run-only settings.
    pub target_id: Digest,
    /// Name of the build.
    pub build: String,
    /// Id of the build.
    pub build_id: Digest,
    /// Axis and setting of the build and of the run-only axes.
    pub settings: Vec<(String, String)>,
    /// Name of the config.
    pub config: String,
    /// Name of the workload.
    pub workload: String,
    /// The hash of everything in the workload that determines this run's number.
    pub workload_id: Digest,
    /// The microbenchmark.
    pub microbenchmark: String,
    /// Its group: `point-1`, `point-2`, `range-1`, `range-2`, `writes`.
    pub group: String,
    /// Clients.
    pub threads: u32,
    /// The host (`results/hosts/<id>.json` describes it).
    pub host: String,
    /// Kernel boot id: two records of one boot may be compared in time.
    pub boot: String,
    /// When the warm-up began, RFC 3339, UTC.
    pub started: String,
    /// Where server and client ran.
    pub placement: PlacementUsed,
    /// What came of it.
    pub outcome: Outcome,
}

/// Where server and client ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PlacementUsed {
    /// The kind, never [`Placement::Auto`].
    pub kind: Placement,
    /// The server's cores; empty: all.
    pub server_cpus: Vec<usize>,
    /// The client's cores; empty: all.
    pub client_cpus: Vec<usize>,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "status")]
pub enum Outcome {
    /// It was measured.
    Ok(Box<Sample>),
    /// It was not; never shown as a number.
    Failed {
        /// Why.
        reason: String,
        /// The log with the rest, relative to the work directory.
        log: Option<String>,
    },
}

/// The measurement of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Sample {
    /// Length of the window, in seconds.
    pub seconds: f64,
    /// Seconds of warm-up before it.
    pub warmup_seconds: f64,
    /// Statements in the window, BEGIN and COMMIT among them.
    pub queries: u64,
    /// Events (transactions of the microbenchmark) in the window.
    pub events: u64,
    /// Events that the server refused, by SQLSTATE.
    pub errors: Vec<(String, u64)>,
    /// Statements in each whole second of the window.
    pub queries_per_second: Vec<u64>,
    /// Response times of events.
    pub latency: Latency,
    /// Use of the machine by the server's process tree in the window.
    pub server: ServerUsage,
    /// Use of the machine by the load driver in the window.
    pub client: ClientUsage,
}

impl Sample {
    /// Queries per second: the number that is compared.
    pub fn qps(&self) -> f64 {
        self.queries as f64 / self.seconds
    }
}

/// Use of the machine by the server's process tree in the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ServerUsage {
    /// CPU seconds in user mode.
    pub user_seconds: f64,
    /// CPU seconds in the kernel.
    pub system_seconds: f64,
    /// Context switches, voluntary and not.
    pub context_switches: u64,
    /// KiB (1024 bytes) read from storage.
    pub read_kib: f64,
    /// KiB written towards storage.
    pub written_kib: f64,
}
