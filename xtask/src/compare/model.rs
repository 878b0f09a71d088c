//! What a comparison consists of; its serialised form is the tool's JSON format.

use serde::{Deserialize, Serialize};

use super::effects::Effect;
use super::{Made, Measured, Note, Warning, gate};
use crate::sizes::BuildSize;
use crate::stats::summary::Spread;
use crate::stats::{Estimate, Rule, Verdict, rank, verdict};

/// What a set of records says about targets relative to a base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Comparison {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The experiment.
    pub experiment: String,
    /// The base target.
    pub base: String,
    /// What the verdicts mean by "matters" and "shown".
    pub rule: Rule,
    /// The level of the intervals.
    pub level: f64,
    /// One comparison per host: times of different machines are never mixed.
    pub hosts: Vec<HostComparison>,
    /// Sizes and costs of the experiment's builds that are there, in its order.
    #[serde(default)]
    pub builds: Vec<BuildSize>,
    /// What the gates of the call came to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<gate::Judged>,
    /// Records that were not used, and why.
    pub left_out: LeftOut,
}

/// Records that were not used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LeftOut {
    /// Of a target that is made from something else now, or is no longer in the experiment.
    pub other_target: u64,
    /// Of a workload that has been changed since.
    pub other_workload: u64,
    /// Measured again in the same block; the latest measured run counts.
    pub repeated: u64,
    /// The base's run of the block had another boot, placement or load driver.
    pub other_boot: u64,
}

/// The comparison on one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostComparison {
    /// The host.
    pub host: String,
    /// Blocks with a record that was used.
    pub blocks: u32,
    /// The targets beside the base: the columns.
    pub targets: Vec<String>,
    /// What the base is made of; `None` when it has no record that counts.
    #[serde(default)]
    pub base_made: Option<Made>,
    /// What the targets are made of, in their order.
    #[serde(default)]
    pub made: Vec<Made>,
    /// One row per microbenchmark and number of clients, by group, in run order.
    pub rows: Vec<Row>,
    /// One row per group and number of clients.
    pub groups: Vec<GroupRow>,
    /// How the base itself changed over time; `None` with fewer than three blocks.
    pub drift: Option<Drift>,
    /// What the reader must know before believing the numbers.
    pub warnings: Vec<Warning>,
    /// What must be said of single targets beside their numbers ([`Comparison::annotate`]).
    #[serde(default)]
    pub notes: Vec<Note>,
    /// What each setting does ([`Comparison::find_effects`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
}

/// One microbenchmark with one number of clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Row {
    /// The microbenchmark.
    pub microbenchmark: String,
    /// Its group.
    pub group: String,
    /// Clients.
    pub threads: u32,
    /// What was measured.
    pub metric: Measured,
    /// Plain means of the base; `None` when it was never measured.
    pub base: Option<Metrics>,
    /// Runs of the base that failed.
    pub base_failures: Vec<Failure>,
    /// Runs of the base that did not hold the rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub base_not_held: Vec<NotHeld>,
    /// One cell per target, in the order of [`HostComparison::targets`].
    pub cells: Vec<Cell>,
}

/// One target in one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Cell {
    /// The target.
    pub target: String,
    /// What can be said.
    pub result: CellResult,
    /// Plain means of the target; `None` when it was never measured.
    pub metrics: Option<Metrics>,
    /// Runs that failed; the other blocks' pairs still count.
    pub failures: Vec<Failure>,
    /// Runs that did not hold the rate that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_held: Vec<NotHeld>,
}

/// A run that did not hold its rate ([`crate::record::Rate::held`]).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NotHeld {
    /// The block.
    pub block: u32,
    /// Events per second that were asked for.
    pub asked: f64,
    /// Events per second that came of it.
    pub got: f64,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Failure {
    /// The block.
    pub block: u32,
    /// Why.
    pub reason: String,
}

/// What can be said of a target against the base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum CellResult {
    /// Two pairs or more.
    Judged(Judged),
    /// One pair: a ratio without an interval and never with a verdict.
    Single {
        /// As [`Judged::ratio`].
        ratio: f64,
    },
    /// No pair, because runs failed.
    Failed {
        /// Why.
        reason: String,
    },
    /// Both were measured, but never in the same block, boot and placement.
    NoPair,
    /// Its code and config are the base's, so it was not measured beside it.
    SameCode,
    /// There is no record.
    NotMeasured,
}

impl CellResult {
    /// The relative QPS, where there is one.
    pub fn ratio(&self) -> Option<f64> {
        match self {
            Self::Judged(judged) => Some(judged.ratio),
            Self::Single { ratio } => Some(*ratio),
            Self::Failed { .. } | Self::NoPair | Self::SameCode | Self::NotMeasured => None,
        }
    }

    /// The judgement, where there is one.
    pub fn judged(&self) -> Option<&Judged> {
        match self {
            Self::Judged(judged) => Some(judged),
            _ => None,
        }
    }

    /// What paired differences of ln(QPS) say, with the estimate made from them (and others).
    pub(super) fn of(differences: &[f64], estimate: Option<Estimate>) -> Option<Self> {
        match (estimate, differences) {
            (Some(estimate), _) => Some(Self::Judged(Judged::new(estimate, differences))),
            (None, [one]) => Some(Self::Single { ratio: one.exp() }),
            _ => None,
        }
    }
}

/// A relative QPS with its uncertainty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Judged {
    /// Target / base of the metric, or base / target where less is better, so that more than 1 is
    /// better: the geometric mean of the pairs' ratios.
    pub ratio: f64,
    /// Lower end of the interval at [`super::LEVEL`].
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The p-value of "no difference".
    pub p: f64,
    /// The same, adjusted for everything that is shown together.
    pub adjusted_p: f64,
    /// The verdict by the adjusted p-value.
    pub verdict: Verdict,
    /// The interval by ranks and the t interval disagree on whether there is a difference
    /// (looked at from six pairs on).
    pub outliers: bool,
    /// The estimate on the scale of logarithms.
    pub estimate: Estimate,
}

impl Judged {
    fn new(estimate: Estimate, differences: &[f64]) -> Self {
        let (low, high) = estimate.interval(super::LEVEL);
        let p = estimate.p_value();
        let shown = low > 1.0 || high < 1.0;
        let outliers = rank::shift(differences, super::LEVEL)
            .is_some_and(|shift| (shift.low > 0.0 || shift.high < 0.0) != shown);
        // The verdict is replaced as soon as all p-values are known.
        let verdict = verdict::verdict(&estimate, p, &Rule::default());
        Self { ratio: estimate.ratio(), low, high, p, adjusted_p: p, verdict, outliers, estimate }
    }

    pub(super) fn adjust(&mut self, adjusted_p: f64, rule: &Rule) {
        self.adjusted_p = adjusted_p;
        self.verdict = verdict::verdict(&self.estimate, adjusted_p, rule);
    }
}

/// A group of microbenchmarks with one number of clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct GroupRow {
    /// The group.
    pub group: String,
    /// Clients.
    pub threads: u32,
    /// Rows of the group: those of queries per second where it has any, else all.
    pub rows: u32,
    /// One cell per target.
    pub cells: Vec<GroupCell>,
}

/// One target in one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct GroupCell {
    /// The target.
    pub target: String,
    /// Over the ratios of the rows that have one; `None` when none has.
    pub spread: Option<Spread>,
    /// How many rows have a ratio.
    pub rows: u32,
    /// The geometric mean of the rows' ratios. Its interval is the measurement's noise for exactly
    /// these microbenchmarks, not for others. Where pairs are missing, it is made from the rows and
    /// blocks that keep the most pairs without a gap.
    pub geomean: CellResult,
    /// How many rows are in the geometric mean.
    pub geomean_rows: u32,
}

/// Plain means over the measured runs of one target in one row. An operation is a query, or what a
/// rate counts; what is per operation is `None` where nobody counted them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Metrics {
    /// How many runs.
    pub runs: u32,
    /// The row's metric, in its unit (geometric mean).
    pub value: f64,
    /// CPU time of the server per operation, in microseconds.
    pub server_cpu_us: Option<f64>,
    /// CPU time of the load driver per operation, in microseconds.
    pub client_cpu_us: Option<f64>,
    /// Context switches of the server per operation.
    pub context_switches: Option<f64>,
    /// KiB read from storage per operation.
    pub read_kib: Option<f64>,
    /// KiB written towards storage per operation.
    pub written_kib: Option<f64>,
    /// CPU time of the whole machine per operation, in microseconds.
    pub machine_cpu_us: Option<f64>,
    /// Context switches of the whole machine per operation.
    pub machine_context_switches: Option<f64>,
    /// Reads of the data's device per operation.
    pub device_reads: Option<f64>,
    /// KiB that the data's device read per operation.
    pub device_read_kib: Option<f64>,
    /// KiB that the data's device wrote per operation.
    pub device_written_kib: Option<f64>,
    /// KiB that the server wrote towards storage per KiB of the rows that were written.
    pub write_amplification: Option<f64>,
    /// Memory of the server at the end of the window, in KiB.
    pub memory_kib: Option<f64>,
    /// The data directory at the end of the window, in KiB.
    pub data_kib: Option<f64>,
    /// 99th percentile of the response time of an event, in microseconds (mean over runs); `None`
    /// where response times were not measured.
    pub p99_us: Option<f64>,
}

/// The base over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Drift {
    /// Change of the base's QPS in percent per hour, common to all rows.
    pub percent_per_hour: f64,
    /// The longest time between first and last block of one boot, in hours.
    pub hours: f64,
}

impl Drift {
    /// The change over the session, as a ratio: 1.02 is 2% up.
    pub fn over_session(&self) -> f64 {
        (1.0 + self.percent_per_hour / 100.0).powf(self.hours)
    }

    /// Over which time, in words. Of less than an hour a rate per hour would be extrapolated.
    pub fn words(&self) -> String {
        let percent = (self.over_session() - 1.0) * 100.0;
        // Rounded first: `-0.0` is no number for people.
        let tenths = |value: f64| (value * 10.0).round() / 10.0 + 0.0;
        match self.hours {
            hours if hours < 1.0 => {
                format!("{:+.1}% in {:.0} min", tenths(percent), (hours * 60.0).max(1.0))
            }
            hours => format!(
                "{:+.1}% in {hours:.1} h ({:+.1}% per hour)",
                tenths(percent),
                tenths(self.percent_per_hour)
            ),
        }
    }
}
