//! One job in, events out: the tool writes one [`Job`] as JSON to the driver's standard input and
//! closes it; it reads one [`Event`] per line from the driver's standard output. Standard error is
//! for people.
//!
//! Exit codes of the driver: 0 the job was done; 1 it failed (the last event is
//! [`Event::Failed`]); 2 the job was not understood.

use serde::{Deserialize, Serialize};

/// The version of this language; both sides refuse another one.
pub const VERSION: u32 = 1;

/// What the driver shall do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Job {
    /// [`VERSION`].
    pub version: u32,
    /// How to reach the server.
    pub server: Server,
    /// The data.
    pub data: Data,
    /// What to do with it.
    pub action: Action,
}

/// How to reach the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Server {
    /// The wire protocol.
    pub protocol: WireProtocol,
    /// The Unix socket's file (Postgres: `<dir>/.s.PGSQL.<port>`; MySQL: `--socket`).
    pub socket: String,
    /// The user.
    pub user: String,
    /// The database.
    pub database: String,
}

/// A wire protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WireProtocol {
    /// PostgreSQL's protocol 3.0.
    Postgres,
    /// The protocol and the SQL of MySQL and MariaDB.
    Mysql,
}

/// The tables `sbtest1` … `sbtestN`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Data {
    /// How many tables.
    pub tables: u32,
    /// Rows per table when loaded: ids 1..=rows.
    pub rows: u64,
    /// The seed of the content.
    pub seed: u64,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// Make the tables, fill them, make the secondary indexes, analyze, checkpoint.
    Load {
        /// How many connections load at once.
        connections: u32,
    },
    /// One event of a microbenchmark, its result compared with what the data must give.
    Verify {
        /// A name from the catalogue.
        microbenchmark: String,
    },
    /// Measure one microbenchmark.
    Run(Run),
    /// Execute a fixed number of events on one connection, for whoever counts what they cost.
    Count(Count),
    /// One step of the insert benchmark. [`Job::data`] is not looked at.
    InsertStep(InsertStep),
    /// Bring the server to rest after writes. [`Job::data`] is not looked at.
    Maintain(Maintain),
}

/// One step of the insert benchmark ([`crate::insert_benchmark`] has the standard ones).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct InsertStep {
    /// What is done.
    pub step: StepKind,
    /// How many clients. Each inserts on one connection, deletes on another (with
    /// [`Self::deletes`]) and queries on a third (in a read step).
    pub clients: u32,
    /// Which tables they use.
    pub tables: TableLayout,
    /// Rows to insert over all clients; each client's share is rounded up to whole batches. In a
    /// read step as many as are due in its seconds: with fewer, inserts end before the queries do.
    /// 0 in the step that makes the indexes, and nowhere else.
    pub rows: u64,
    /// Rows that the steps before have inserted, over all clients: the clock that the rows tell
    /// (`dateandtime`) goes on from there.
    pub rows_before: u64,
    /// Rows per second that each client inserts; `None`: as fast as possible.
    pub rate: Option<u32>,
    /// Rows of one INSERT, which is one transaction; lowered to the rate where that is less.
    pub rows_per_commit: u32,
    /// Whether as many rows are deleted at the low end of the table as are inserted.
    pub deletes: bool,
    /// When a read step ends, in seconds from its begin; the other steps end with their rows.
    pub seconds: Option<f64>,
    /// The seed of rows and keys: one of its own for each step, or two steps insert the same rows.
    pub seed: u64,
}

/// What a step of the insert benchmark does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepKind {
    /// Drop the tables of earlier runs, make new ones without secondary indexes, fill them.
    Load,
    /// Make the three secondary indexes: of all tables at once, each on a connection of its own.
    Index,
    /// Insert, and delete.
    Write,
    /// The same at a rate, and query in a closed loop.
    Read {
        /// Which queries.
        queries: Queries,
    },
}

/// The queries of a read step; each asks for ten rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queries {
    /// One of three ranges, each of a secondary index that covers it.
    Range,
    /// Ten rows by primary key.
    Point,
}

/// The tables of the insert benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TableLayout {
    /// `pi1` … `piN`, one for each client.
    PerClient,
    /// `pi1` for all.
    Shared,
}

/// What follows writes, so that the next measurement does not pay for them: PostgreSQL vacuums and
/// analyzes each table, then makes a checkpoint; the MySQL family analyzes each table, then InnoDB
/// writes its dirty pages and MyRocks its memtables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Maintain {
    /// Names of tables: lower-case letters, digits and underscores.
    pub tables: Vec<String>,
    /// For how many seconds at most InnoDB is waited for.
    pub patience_seconds: f64,
}

/// A fixed number of events on one connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Count {
    /// A name from the catalogue.
    pub microbenchmark: String,
    /// How many events.
    pub events: u64,
    /// Whether statements are prepared (those that the catalogue sends as text never are).
    pub prepared: bool,
    /// The seed of the keys: more events of one seed begin with those of fewer.
    pub seed: u64,
}

/// One measured execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Run {
    /// A name from the catalogue.
    pub microbenchmark: String,
    /// How many clients, each with a connection of its own.
    pub threads: u32,
    /// Seconds before the window; the same work, not counted.
    pub warmup_seconds: f64,
    /// Seconds of the measured window.
    pub seconds: f64,
    /// Whether statements are prepared (those that the catalogue sends as text never are).
    pub prepared: bool,
    /// The seed of the keys; each client derives its own from it.
    pub seed: u64,
    /// Open loop: events per second that all clients together begin, at moments fixed in advance;
    /// response times are counted from these. `None`: each client as fast as it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

/// What the driver says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Event {
    /// The tables are there.
    Loaded {
        /// Wall time of the whole load, in seconds.
        seconds: f64,
        /// Rows of all tables.
        rows: u64,
    },
    /// Progress of a load.
    Loading {
        /// Rows so far.
        rows: u64,
    },
    /// The result was as it must be.
    Verified {
        /// The microbenchmark.
        microbenchmark: String,
        /// What was compared, for people.
        detail: String,
    },
    /// The warm-up is over; the window starts now.
    WindowBegin,
    /// One second of the window has passed.
    Second {
        /// Which one, from 1.
        second: u32,
        /// Statements that ended in it, as far as they were seen when this was told; the exact
        /// counts are in [`Measured::queries_per_second`].
        queries: u64,
    },
    /// The window is over; nothing that ends later counts.
    WindowEnd,
    /// The measurement.
    Measured(Measured),
    /// The events were executed and the connection was closed.
    Counted(Counted),
    /// The server has come to rest.
    Maintained(Maintained),
    /// The job could not be done.
    Failed {
        /// Why.
        reason: String,
    },
}

/// What a fixed number of events did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counted {
    /// Events; none was refused.
    pub events: u64,
    /// Statements, BEGIN and COMMIT among them.
    pub queries: u64,
    /// Rows that came back.
    pub rows: u64,
    /// The id of the server's process that served the connection, where it has one of its own.
    pub process: Option<u32>,
}

/// How the server came to rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Maintained {
    /// Wall time of all of it, in seconds.
    pub seconds: f64,
    /// What was done, in order, for people, and how many seconds each took.
    pub parts: Vec<(String, f64)>,
    /// Whether few enough dirty pages were left before the patience ended (always where nothing is
    /// waited for).
    pub settled: bool,
}

/// What was measured in the window.
///
/// In a step of the insert benchmark every statement is an event, and [`Self::latency`] is that of
/// all of them; [`Self::streams`] has them apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Measured {
    /// The real length of the window, in seconds.
    pub seconds: f64,
    /// Statements that ended in the window, BEGIN and COMMIT among them.
    pub queries: u64,
    /// Events (transactions of the microbenchmark) that ended in the window.
    pub events: u64,
    /// Rows that came back.
    pub rows: u64,
    /// Events that the server refused (a deadlock, a duplicate key), by SQLSTATE (Postgres) or by
    /// the server's error number (MySQL, whose SQLSTATE of a lock timeout stands for many errors).
    pub errors: Vec<(String, u64)>,
    /// Statements that ended in each whole second of the window.
    pub queries_per_second: Vec<u64>,
    /// Response times of events.
    pub latency: Latency,
    /// The driver's own use of the machine in the window.
    pub client: ClientUsage,
    /// The insert benchmark's kinds of statements apart; nothing elsewhere.
    #[serde(default)]
    pub streams: Vec<Stream>,
}

/// One kind of statement in a step of the insert benchmark, over all clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Stream {
    /// `insert`, `delete`, `query` or `index`.
    pub name: String,
    /// Rows that were inserted or deleted, queries that were answered, indexes that were made, in
    /// the window. An INSERT that the server refused inserts nothing; one that is sent again counts
    /// when it has succeeded.
    pub operations: u64,
    /// What ended after the window (a step that ends by time): in no other figure, but in the
    /// tables.
    pub late: u64,
    /// The operations of each whole second of the window.
    pub per_second: Vec<u64>,
    /// Response times of statements, with all refusals until they succeeded. At a rate an INSERT's
    /// counts from when it was due.
    pub latency: Latency,
}

/// Response times of events, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Latency {
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: u64,
    /// 95th percentile.
    pub p95_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// Longest.
    pub max_us: u64,
    /// The whole histogram, its values in nanoseconds: HdrHistogram V2 + DEFLATE, base64 (the
    /// format of HdrHistogram logs).
    pub histogram: String,
}

/// The driver's own use of the machine in the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClientUsage {
    /// CPU seconds in user mode.
    pub user_seconds: f64,
    /// CPU seconds in the kernel.
    pub system_seconds: f64,
    /// Context switches, voluntary and not.
    pub context_switches: u64,
}
