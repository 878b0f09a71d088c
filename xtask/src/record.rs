//! Records: one line of JSON per run in `results/records/<experiment>/<host>.jsonl`, appended whole
//! and never changed, so that every table can be made again from `results/` alone.

use catalog::protocol::{ClientUsage, Latency, Maintained, Stream};
use catalog::{Better, Metric};
use serde::{Deserialize, Serialize};

use crate::audit::judge::{Finding, Report, Verdict};
use crate::hash::Digest;
use crate::matrix::model::Placement;

pub mod count;
pub mod store;
#[cfg(test)]
pub(crate) mod testing;

/// The version of the schema; readers refuse a newer one.
pub const SCHEMA: u32 = 1;

/// Name and unit of the metric of the microbenchmarks: queries per second.
pub const QPS: (&str, &str) = ("qps", "1/s");

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
    /// The hash of build id and what the server got, formulas computed
    /// ([`crate::bench::plan::target_id`]).
    pub target_id: Digest,
    /// Name of the build.
    pub build: String,
    /// Id of the build.
    pub build_id: Digest,
    /// [`crate::bench::plan::target_id`] with the code ([`crate::build::code`]) in the place of the
    /// build id: two targets with one of these are the same server. None where the code is not
    /// known (an installed server).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_id: Option<Digest>,
    /// Set when the binaries were not what was asked for and the user let them run all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Mark>,
    /// Name and version of the compiler: `gcc 12.2.0`; none for an installed server.
    pub compiler: Option<String>,
    /// The version in the running server's own words; none when it never answered.
    pub server_version: Option<String>,
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
    /// Release of the kernel.
    pub kernel: String,
    /// The hash of the load driver: runs of different drivers are no pair.
    pub driver: Digest,
    /// When the warm-up began, RFC 3339, UTC.
    pub started: String,
    /// Where server and client ran.
    pub placement: PlacementUsed,
    /// Where an imported figure stands: file and line. None: this tool measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<String>,
    /// What came of it.
    pub outcome: Outcome,
}

/// What the flag audit had against a build whose runs were made all the same. It stays with the
/// record whatever becomes of the build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Mark {
    /// Always [`Verdict::Mismatch`] so far.
    pub verdict: Verdict,
    /// The worst findings, one phrase each.
    pub findings: Vec<String>,
    /// How many findings there are in all.
    pub count: usize,
}

impl Mark {
    /// How many findings a mark names.
    const NAMED: usize = 3;

    /// The mark that a build's audit puts on its runs; `None` unless something does not match.
    pub fn of(report: &Report) -> Option<Self> {
        let wrong = || report.findings.iter().filter(|it| it.verdict == Verdict::Mismatch);
        let phrase = |finding: &Finding| {
            let share = 100.0 * finding.text_bytes as f64 / report.text_bytes.max(1) as f64;
            let Finding { binary, text, unit_count, .. } = finding;
            format!("{binary}: {text} ({unit_count} units, {share:.1}% of all code)")
        };
        (report.verdict == Verdict::Mismatch).then(|| Self {
            verdict: Verdict::Mismatch,
            findings: wrong().take(Self::NAMED).map(phrase).collect(),
            count: wrong().count(),
        })
    }

    /// All that the mark knows, in one line.
    pub fn text(&self) -> String {
        let more = self.count.saturating_sub(self.findings.len());
        let named = self.findings.join("; ");
        if more > 0 { format!("{named}; and {more} more findings") } else { named }
    }
}

/// Where server and client ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PlacementUsed {
    /// The kind, never [`Placement::Auto`].
    pub kind: Placement,
    /// The server's cores, each of them, also where it may use all that the tool may.
    pub server_cpus: Vec<usize>,
    /// The client's cores, likewise.
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
    /// Rows that came back.
    pub rows: u64,
    /// Events that the server refused, by SQLSTATE (Postgres) or error number (MySQL family).
    pub errors: Vec<(String, u64)>,
    /// Statements in each whole second of the window.
    pub queries_per_second: Vec<u64>,
    /// Response times of events.
    pub latency: Latency,
    /// Use of the machine by the server's process tree in the window.
    pub server: ServerUsage,
    /// Use of the machine by the load driver in the window.
    pub client: ClientUsage,
    /// Use of the whole machine in the window; none in records of before it was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineUsage>,
    /// Sizes at the end of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
    /// KiB of the rows that were inserted, changed or deleted, by their mean size; none where
    /// nobody knows (a program of the user's), or nothing was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_written_kib: Option<f64>,
    /// The kinds of statements apart, in a step of the insert benchmark.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<Stream>,
    /// How the server came to rest afterwards, where it was brought to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintained: Option<Maintained>,
    /// Open loop: the rate that was asked for, and what came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// What the workload says that it measured; none: queries per second are compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
}

impl Sample {
    /// Queries per second.
    pub fn qps(&self) -> f64 {
        self.queries as f64 / self.seconds
    }

    /// The numbers that are compared.
    pub fn figures(&self) -> Vec<Metric> {
        if !self.metrics.is_empty() {
            return self.metrics.clone();
        }
        let (name, unit) = (QPS.0.to_owned(), QPS.1.to_owned());
        vec![Metric { name, value: self.qps(), unit, better: Better::Higher }]
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

/// Use of the whole machine in the window, as `vmstat` and `iostat` count it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MachineUsage {
    /// CPU seconds in user mode, of all cores (`us`).
    pub user_seconds: f64,
    /// CPU seconds in the kernel (`sy`).
    pub system_seconds: f64,
    /// CPU seconds that the hypervisor gave to others (`st`).
    pub stolen_seconds: f64,
    /// Context switches (`cs`).
    pub context_switches: u64,
    /// The device that holds the data; none where there is none (memory, network).
    pub device: Option<DeviceUsage>,
}

/// Use of a block device in the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DeviceUsage {
    /// Its name in `/proc/diskstats`.
    pub name: String,
    /// Requests to read that it completed (`r`).
    pub reads: u64,
    /// KiB read (`rkB`).
    pub read_kib: f64,
    /// Requests to write that it completed (`w`).
    pub writes: u64,
    /// KiB written (`wkB`).
    pub written_kib: f64,
}

/// A rate that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Rate {
    /// Events per second that were to be begun.
    pub asked: f64,
    /// Events per second that ended.
    pub got: f64,
}

impl Rate {
    /// The share of the rate that must have come of it: 95%, as in reports of the insert benchmark.
    pub const HELD: f64 = 0.95;

    /// Whether the server kept up.
    pub fn held(&self) -> bool {
        self.got >= Self::HELD * self.asked
    }
}

/// Sizes at the end of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Sizes {
    /// Memory of the server's processes, shared pages divided among those that share them (`Pss`),
    /// in KiB; none where the kernel does not tell.
    pub memory_kib: Option<f64>,
    /// The data directory on disk, log files included, in KiB.
    pub data_kib: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_the_worst_findings_and_counts_the_others() {
        let finding = |verdict, text: &str, text_bytes| Finding {
            verdict,
            text: text.to_owned(),
            evidence: Default::default(),
            binary: "bin/postgres".to_owned(),
            units: Vec::new(),
            unit_count: 80,
            text_bytes,
        };
        let wrong = |text| finding(Verdict::Mismatch, text, 99);
        let mut report = Report {
            verdict: Verdict::Mismatch,
            findings: vec![
                wrong("asked for -O2, got -O1"),
                wrong("b"),
                wrong("c"),
                wrong("d"),
                finding(Verdict::Explained, "-msse4.2: its own", 1),
            ],
            units: 800,
            text_bytes: 1000,
        };
        let mark = Mark::of(&report).expect("marked");
        assert_eq!((mark.findings.len(), mark.count), (3, 4));
        let first = "bin/postgres: asked for -O2, got -O1 (80 units, 9.9% of all code)";
        assert!(mark.text().starts_with(&format!("{first}; ")), "{}", mark.text());
        assert!(mark.text().ends_with("; and 1 more findings"), "{}", mark.text());
        report.verdict = Verdict::Unknown;
        assert_eq!(Mark::of(&report), None);
    }

    #[test]
    fn records_of_before_the_mark_are_read_and_written_as_before() {
        let record = testing::record("t.c", "scan", 1, 10.0);
        let text = serde_json::to_string(&record).expect("JSON");
        assert!(!text.contains("audit") && !text.contains("code-id"), "{text}");
        assert_eq!(serde_json::from_str::<Record>(&text).expect("a record"), record);
        let audit = Some(Mark { verdict: Verdict::Mismatch, findings: Vec::new(), count: 1 });
        let marked = Record { audit, code_id: Some(Digest::of(b"code")), ..record };
        let text = serde_json::to_string(&marked).expect("JSON");
        assert!(text.contains(r#""audit":{"verdict":"mismatch""#), "{text}");
        assert_eq!(serde_json::from_str::<Record>(&text).expect("a record"), marked);
    }
}
