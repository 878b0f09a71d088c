//! What is run against each target, after checking.

use catalog::Better;
use catalog::insert_benchmark::{Size, steps};
use catalog::protocol::TableLayout;
use serde::{Deserialize, Serialize};

use super::Span;

/// What is run against each target.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The key in the file.
    pub name: String,
    /// What it is made of.
    pub kind: WorkloadKind,
    /// Numbers of clients; each measurement is made once with each.
    pub threads: Vec<u32>,
    /// Seed of the data and of the keys: the same keys on every target of a block.
    pub seed: u64,
    /// Which cores server and client run on.
    pub placement: Placement,
    /// Where it stands.
    pub span: Span,
}

impl Workload {
    /// The names of what is measured, in run order.
    pub fn names(&self) -> Vec<String> {
        match &self.kind {
            WorkloadKind::Sysbench(suite) => suite.names.clone(),
            WorkloadKind::Command(command) => {
                command.tests.iter().map(|test| test.name.clone()).collect()
            }
            WorkloadKind::SqlBench(suite) => suite.tests.clone(),
            WorkloadKind::InsertBenchmark(benchmark) => {
                let steps = steps(&benchmark.size(1, self.seed));
                steps.into_iter().map(|step| step.name).collect()
            }
        }
    }

    /// Seconds before each measured window.
    pub fn warmup_seconds(&self) -> f64 {
        match &self.kind {
            WorkloadKind::Sysbench(suite) => suite.warmup_seconds,
            WorkloadKind::Command(_)
            | WorkloadKind::SqlBench(_)
            | WorkloadKind::InsertBenchmark(_) => 0.0,
        }
    }
}

/// The kind of a workload, with what only this kind has.
#[derive(Clone, Debug)]
pub enum WorkloadKind {
    /// The microbenchmarks of [`catalog`].
    Sysbench(Suite),
    /// Programs of the user's.
    Command(CommandWorkload),
    /// The Perl scripts of MySQL's and MariaDB's trees ([`crate::bench::sqlbench`]).
    SqlBench(SqlBench),
    /// The insert benchmark ([`catalog::insert_benchmark`]).
    InsertBenchmark(InsertBenchmark),
}

/// The insert benchmark.
#[derive(Clone, Debug)]
pub struct InsertBenchmark {
    /// Rows that the first step loads, over all clients.
    pub rows_to_load: u64,
    /// Rows that the write steps insert, over all clients.
    pub rows_to_write: u64,
    /// One table per client, or one for all.
    pub tables: TableLayout,
    /// Rates of the read steps, in rows per second and client.
    pub rates: Vec<u32>,
    /// Seconds of each read step.
    pub read_seconds: f64,
    /// Whether as many rows are deleted as are inserted, from l.i1 on.
    pub deletes: bool,
    /// For how many seconds at most the server may come to rest after the writes.
    pub patience_seconds: f64,
}

impl InsertBenchmark {
    /// Its size with a number of clients.
    pub fn size(&self, clients: u32, seed: u64) -> Size {
        Size {
            rows_to_load: self.rows_to_load,
            rows_to_write: self.rows_to_write,
            clients,
            tables: self.tables,
            read_seconds: self.read_seconds,
            rates: self.rates.clone(),
            deletes: self.deletes,
            seed,
        }
    }
}

/// The suite sql-bench of one tree: one client for all targets.
#[derive(Clone, Debug)]
pub struct SqlBench {
    /// Index of the source whose tree has the scripts.
    pub source: usize,
    /// What pins that source: sha256 or revision.
    pub pin: String,
    /// The tests in run order.
    pub tests: Vec<String>,
    /// How often loops are repeated; the scripts know by themselves.
    pub loop_count: Option<u32>,
    /// Further options of the scripts.
    pub options: Vec<String>,
    /// Whether each operation of a test is a metric of its own.
    pub operations: bool,
    /// How long a test may be expected to take, in seconds: what plans count with.
    pub seconds: f64,
    /// How long each test may take at most, in seconds.
    pub limit_seconds: f64,
}

/// Who sends the statements of the microbenchmarks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadDriver {
    /// The one of this tool.
    #[default]
    BuiltIn,
    /// The program `sysbench`.
    Sysbench,
}

/// Microbenchmarks and what they run on.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Who sends the statements; the tables are always loaded by the built-in driver.
    pub driver: LoadDriver,
    /// How many tables.
    pub tables: u32,
    /// Rows per table.
    pub rows: u64,
    /// Names from the catalogue, in run order.
    pub names: Vec<String>,
    /// Seconds before the measured window.
    pub warmup_seconds: f64,
    /// Length of the measured window of read microbenchmarks.
    pub read_seconds: f64,
    /// Length of the measured window of write microbenchmarks.
    pub write_seconds: f64,
    /// Whether statements are prepared.
    pub prepared: bool,
    /// For how many seconds at most the server may come to rest after writes that reads follow;
    /// 0: it is not brought to rest.
    pub patience_seconds: f64,
    /// Open loop: events per second that all clients together begin; `None`: as fast as they can.
    pub rate: Option<f64>,
    /// The largest share of events that the server may refuse before a run has failed.
    pub error_limit: f64,
}

/// Programs that measure by themselves and print what they measured.
#[derive(Clone, Debug)]
pub struct CommandWorkload {
    /// What fills an empty data directory, once for all targets that can share it; no words: the
    /// tests find an empty database.
    pub load: Vec<String>,
    /// How long each test shall take: what `{seconds}` stands for, and what plans count with.
    pub seconds: f64,
    /// How long each test may take at most, in seconds.
    pub limit_seconds: f64,
    /// The tests in run order.
    pub tests: Vec<CommandTest>,
    /// What is read from their output besides the lines that say `METRIC:`.
    pub metrics: Vec<MetricRule>,
}

/// One program with its arguments.
#[derive(Clone, Debug)]
pub struct CommandTest {
    /// The key in the file.
    pub name: String,
    /// The words, with placeholders ([`crate::matrix::placeholder::PLACEHOLDERS`]).
    pub words: Vec<String>,
}

/// How a metric is found in what a program prints, or what is known of one that it names itself.
#[derive(Clone, Debug)]
pub struct MetricRule {
    /// The metric.
    pub name: String,
    /// A regular expression whose first group is the value; `None` for a metric of the program's
    /// own `METRIC:` lines.
    pub pattern: Option<String>,
    /// Its unit.
    pub unit: Option<String>,
    /// Its good direction; `None`: what the unit suggests.
    pub better: Option<Better>,
}

/// Which cores server and client run on (see METHODOLOGY.md, "Placement").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// `split` with four physical cores or more, else `together` for one client and `free` for
    /// several.
    Auto,
    /// The kernel decides.
    Free,
    /// Server and client on one core, the same one.
    Together,
    /// The client on cores of its own: a quarter of them, the server on the others.
    Split,
}
