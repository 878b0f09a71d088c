//! Records into a [`Comparison`]: every target relative to the base in what was measured, with
//! what may be claimed of it. Pure; formats and views come after ([`crate::report`]).
//!
//! A pair is a run of the base and a run of a target that were both measured and agree in
//! experiment, host, boot, block, placement, load driver, workload id, threads and microbenchmark.
//! Only pairs enter a ratio. The serialised form of [`Comparison`] is the tool's JSON format.

use std::collections::BTreeMap;

use anyhow::ensure;

use crate::exit::{Code, coded};
use crate::hash::Digest;
use crate::record::Record;
use crate::stats::Rule;

mod collect;
pub mod counts;
pub mod effects;
pub mod filter;
pub mod gate;
mod host;
mod made;
mod model;
mod notes;
mod same_code;
pub mod show;
mod warnings;

pub use collect::Measured;
pub use made::Made;
pub use model::{
    Cell, CellResult, Comparison, Drift, Failure, GroupCell, GroupRow, HostComparison, Judged,
    LeftOut, Metrics, NotHeld, Row,
};
pub use notes::{Note, NoteKind};
pub use warnings::{Warning, WarningKind};

/// The version of the JSON format.
pub const SCHEMA: u32 = 2;
/// The level of the intervals that are shown.
pub const LEVEL: f64 = 0.95;

/// What the caller knows beside the records.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What matters and how sure to be.
    pub rule: Rule,
    /// The targets of the experiment as it stands now. `None`: every target, each with the id of
    /// its latest record.
    pub current: Option<Current>,
    /// The ids that each row (microbenchmark, clients) may have now, the best one first: the first
    /// that a host has counts there; records with others are left out and counted. `None`: the
    /// latest id of each row.
    pub workloads: Option<BTreeMap<(String, u32), Vec<Digest>>>,
    /// Microbenchmarks in run order; others follow in the order of the records.
    pub order: Vec<String>,
}

/// The targets of an experiment as it stands now. Records of other targets, and of the same target
/// made from something else, are left out and counted.
#[derive(Clone, Debug, Default)]
pub struct Current {
    /// The host that the ids were computed for: they depend on its size. On others the latest id of
    /// each target counts.
    pub host: String,
    /// The id of each target; `None` where it cannot be told here: then its latest counts.
    pub targets: BTreeMap<String, Option<Digest>>,
}

impl Current {
    fn has(&self, record: &Record) -> bool {
        let known = |id: &Option<Digest>| id.is_none_or(|id| id == record.target_id);
        self.targets.get(&record.target).is_some_and(|id| record.host != self.host || known(id))
    }
}

/// Compares records that are all in memory; see [`Collector`] for a stream.
///
/// # Errors
/// As [`Collector::finish`].
pub fn compare(records: &[Record], base: &str, options: Options) -> anyhow::Result<Comparison> {
    let mut collector = Collector::new(base, options);
    records.iter().for_each(|record| collector.add(record));
    collector.finish()
}

/// Takes records one by one, in the order in which they were appended, and keeps of each only the
/// numbers.
#[derive(Debug)]
pub struct Collector {
    base: String,
    options: Options,
    experiments: Vec<String>,
    hosts: BTreeMap<String, collect::Host>,
    left_out: LeftOut,
}

impl Collector {
    /// A collector of one experiment's records.
    pub fn new(base: &str, options: Options) -> Self {
        Self {
            base: base.into(),
            options,
            experiments: Vec::new(),
            hosts: BTreeMap::new(),
            left_out: LeftOut::default(),
        }
    }

    /// One more record.
    pub fn add(&mut self, record: &Record) {
        if !self.experiments.contains(&record.experiment) {
            self.experiments.push(record.experiment.clone());
        }
        if let Some(current) = &self.options.current
            && !current.has(record)
        {
            self.left_out.other_target += 1;
            return;
        }
        match self.hosts.get_mut(&record.host) {
            Some(host) => host.add(record),
            None => self.hosts.entry(record.host.clone()).or_default().add(record),
        }
    }

    /// The comparison of everything that was added.
    ///
    /// # Errors
    /// When there is nothing to compare, the records are of more than one experiment, or the base
    /// has no record on any host.
    pub fn finish(mut self) -> anyhow::Result<Comparison> {
        ensure!(
            self.experiments.len() <= 1,
            "records of one experiment are compared at a time, these are of `{}`",
            self.experiments.join("`, `")
        );
        let Some(experiment) = self.experiments.pop() else {
            return Err(coded(Code::Input, "there are no records to compare: run `bench` first"));
        };
        self.check_base()?;
        let mut hosts: Vec<HostComparison> = std::mem::take(&mut self.hosts)
            .into_iter()
            .map(|(name, data)| {
                let selected = data.select(&self.options, &mut self.left_out);
                host::compare(name, &selected, &self.base, &mut self.left_out)
            })
            .collect();
        adjust(&mut hosts, &self.options.rule);
        for host in &mut hosts {
            host.warnings = warnings::of(host, &self.base, &self.options.rule);
        }
        Ok(Comparison {
            builds: Vec::new(),
            gates: Vec::new(),
            schema: SCHEMA,
            experiment,
            base: self.base,
            rule: self.options.rule,
            level: LEVEL,
            hosts,
            left_out: self.left_out,
        })
    }

    fn check_base(&self) -> anyhow::Result<()> {
        let mut known: Vec<&str> = self.hosts.values().flat_map(|host| host.targets()).collect();
        known.sort_unstable();
        known.dedup();
        if known.contains(&self.base.as_str()) {
            return Ok(());
        }
        let text = match known.as_slice() {
            [] => "no target of the experiment as it stands now has records: run `bench`".into(),
            _ => format!(
                "the base `{}` has no records; these targets have: `{}`",
                self.base,
                known.join("`, `")
            ),
        };
        Err(coded(Code::Input, text))
    }
}

/// Adjusts the p-values: of all cells of the report together (Benjamini-Hochberg), and of all
/// groups together (Holm: there are few, and each is a headline).
fn adjust(hosts: &mut [HostComparison], rule: &Rule) {
    let mut cells = Vec::new();
    let mut groups = Vec::new();
    for host in hosts {
        cells.extend(host.rows.iter_mut().flat_map(|row| &mut row.cells).map(|c| &mut c.result));
        groups.extend(host.groups.iter_mut().flat_map(|g| &mut g.cells).map(|c| &mut c.geomean));
    }
    adjust_by(crate::stats::multiple::benjamini_hochberg, cells, rule);
    adjust_by(crate::stats::multiple::holm, groups, rule);
}

fn adjust_by(method: fn(&[f64]) -> Vec<f64>, results: Vec<&mut CellResult>, rule: &Rule) {
    let judged = |result| match result {
        &mut CellResult::Judged(ref mut judged) => Some(judged),
        _ => None,
    };
    let mut judged: Vec<&mut Judged> = results.into_iter().filter_map(judged).collect();
    let p_values: Vec<f64> = judged.iter().map(|judged| judged.p).collect();
    for (judged, adjusted) in judged.iter_mut().zip(method(&p_values)) {
        judged.adjust(adjusted, rule);
    }
}

#[cfg(test)]
mod tests;
