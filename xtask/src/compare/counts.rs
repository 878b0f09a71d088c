//! Counts of instructions into a comparison. Pure. Other than QPS a count has no interval: it is
//! exact, and what two counts of the same differ by is shown beside it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::hash::Digest;
use crate::record::count::{Count, Counted};

/// The instructions per operation of all targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counts {
    /// Version of this form.
    pub schema: u32,
    /// What is compared.
    pub metric: Metric,
    /// The target that the others are compared with.
    pub base: String,
    /// One table per host.
    pub hosts: Vec<HostCounts>,
}

/// What a number is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Which of two is better.
    pub better: Better,
}

/// Which of two numbers of a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// The lower one.
    Lower,
    /// The higher one.
    Higher,
}

/// The counts of one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostCounts {
    /// Its id.
    pub host: String,
    /// What counted.
    pub instruments: Vec<String>,
    /// The targets of the columns, without the base.
    pub targets: Vec<String>,
    /// One row per microbenchmark, group by group.
    pub rows: Vec<CountRow>,
}

/// One microbenchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CountRow {
    /// Its name.
    pub microbenchmark: String,
    /// Its group.
    pub group: String,
    /// Operations that each number is the mean of.
    pub operations: u64,
    /// The base.
    pub base: Figure,
    /// The other targets, in the order of the columns; `None`: never counted.
    pub cells: Vec<Option<CountCell>>,
}

/// A target beside the base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "status")]
pub enum CountCell {
    /// Counted.
    Ok {
        /// Its own number.
        figure: Figure,
        /// (its number) / (the base's number).
        ratio: f64,
    },
    /// It could not be counted.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Instructions per operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Figure {
    /// The mean of all invocations.
    pub instructions: f64,
    /// How many there were.
    pub invocations: usize,
    /// (highest - lowest) / mean, where there are two or more.
    pub spread: Option<f64>,
}

impl Figure {
    fn of(values: &[f64]) -> Option<Self> {
        let invocations = values.len();
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        let instructions = values.iter().sum::<f64>() / invocations as f64;
        let spread = (invocations > 1).then(|| (high - low) / instructions);
        Some(Self { instructions, invocations, spread })
    }
}

impl CountRow {
    /// The largest spread of its figures.
    pub fn spread(&self) -> Option<f64> {
        let others = self.cells.iter().flatten().filter_map(|cell| match cell {
            CountCell::Ok { figure, .. } => figure.spread,
            CountCell::Failed { .. } => None,
        });
        others.chain(self.base.spread).reduce(f64::max)
    }
}

/// What must agree for two counts to be of the same: what is executed, by which driver, counted by
/// what.
type Same<'a> = (Digest, Digest, &'a str);

/// Compares counts. Of each target on each host those of its latest id enter, and only what agrees
/// with the latest count of the base. Inside a group rows are in the order of `names`.
pub fn counts(all: &[Count], base: &str, names: &[&str]) -> Counts {
    let mut hosts: BTreeMap<&str, Vec<&Count>> = BTreeMap::new();
    for count in all {
        hosts.entry(&count.host).or_default().push(count);
    }
    let hosts = hosts
        .into_iter()
        .map(|(host, mut counts)| {
            counts.sort_by(|one, other| one.started.cmp(&other.started));
            of_host(host, &counts, base, names)
        })
        .collect();
    let name = "instructions-per-operation".to_owned();
    let metric = Metric { name, better: Better::Lower };
    Counts { schema: 1, metric, base: base.to_owned(), hosts }
}

/// `counts` are in the order of time.
fn of_host(host: &str, counts: &[&Count], base: &str, names: &[&str]) -> HostCounts {
    // The id of each target is that of its last count.
    let latest: BTreeMap<&str, Digest> =
        counts.iter().map(|count| (count.target.as_str(), count.target_id)).collect();
    let targets: Vec<&str> = latest.keys().copied().filter(|target| *target != base).collect();
    let of = |target: &str, name: &str| -> Vec<&Count> {
        let wanted = |count: &&&Count| {
            count.target == target
                && count.microbenchmark == name
                && latest.get(target) == Some(&count.target_id)
        };
        counts.iter().filter(wanted).copied().collect()
    };
    let mut instruments = Vec::new();
    let mut rows = Vec::new();
    for &name in names {
        let of_base = of(base, name);
        let Some(last) = of_base.iter().rev().find(|count| measured(count).is_some()) else {
            continue;
        };
        let Counted::Ok(instructions) = last.outcome else { continue };
        let Some(figure) = Figure::of(&values(&of_base, same(last))) else { continue };
        let cells = targets.iter().map(|target| cell(&of(target, name), same(last), figure));
        rows.push(CountRow {
            microbenchmark: name.to_owned(),
            group: last.group.clone(),
            operations: instructions.operations,
            base: figure,
            cells: cells.collect(),
        });
        if !instruments.contains(&last.instrument) {
            instruments.push(last.instrument.clone());
        }
    }
    // Their names are in the order in which they are shown; inside each, rows keep theirs.
    rows.sort_by(|one: &CountRow, other| one.group.cmp(&other.group));
    let targets = targets.into_iter().map(str::to_owned).collect();
    HostCounts { host: host.to_owned(), instruments, targets, rows }
}

fn cell(counts: &[&Count], wanted: Same<'_>, base: Figure) -> Option<CountCell> {
    if let Some(figure) = Figure::of(&values(counts, wanted)) {
        return Some(CountCell::Ok { figure, ratio: figure.instructions / base.instructions });
    }
    counts.iter().rev().filter(|count| same(count) == wanted).find_map(|it| match &it.outcome {
        Counted::Failed { reason, .. } => Some(CountCell::Failed { reason: reason.clone() }),
        Counted::Ok(_) => None,
    })
}

fn values(counts: &[&Count], wanted: Same<'_>) -> Vec<f64> {
    counts.iter().filter(|count| same(count) == wanted).filter_map(|it| measured(it)).collect()
}

fn measured(count: &Count) -> Option<f64> {
    match &count.outcome {
        Counted::Ok(instructions) => Some(instructions.per_operation()),
        Counted::Failed { .. } => None,
    }
}

fn same(count: &Count) -> Same<'_> {
    (count.count_id, count.driver, &count.instrument)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::count::{COUNT_SCHEMA, Instructions};

    /// A count whose warm-up took 1,000,000 instructions.
    pub(crate) fn count(target: &str, name: &str, at: u32, per_operation: u64) -> Count {
        Count {
            schema: COUNT_SCHEMA,
            tool: "0".to_owned(),
            experiment: "e".to_owned(),
            target: target.to_owned(),
            target_id: Digest::of(target.as_bytes()),
            build: "b".to_owned(),
            build_id: Digest::of(b"b"),
            audit: None,
            compiler: None,
            server_version: None,
            settings: Vec::new(),
            config: "c".to_owned(),
            workload: "w".to_owned(),
            count_id: Digest::of(name.as_bytes()),
            microbenchmark: name.to_owned(),
            group: "point-1".to_owned(),
            host: "h".to_owned(),
            kernel: "6".to_owned(),
            driver: Digest::of(b"driver"),
            instrument: "valgrind-3.19.0".to_owned(),
            started: format!("2026-01-01T00:00:{at:02}.000Z"),
            outcome: Counted::Ok(Instructions {
                warmup: 10,
                operations: 100,
                queries: 100,
                rows: 100,
                short: 1_000_000,
                long: 1_000_000 + 100 * per_operation,
            }),
        }
    }

    const NAMES: [&str; 2] = ["points", "scan"];

    fn compared(all: &[Count]) -> HostCounts {
        let mut counts = counts(all, "base", &NAMES);
        assert_eq!((counts.hosts.len(), counts.metric.better), (1, Better::Lower));
        counts.hosts.remove(0)
    }

    #[test]
    fn what_the_warm_up_costs_does_not_count() {
        let host = compared(&[count("base", "points", 0, 2000), count("t", "points", 1, 2500)]);
        let row = &host.rows[0];
        let one = |instructions| Figure { instructions, invocations: 1, spread: None };
        assert_eq!((row.base, row.operations, row.spread()), (one(2000.0), 100, None));
        let cell = CountCell::Ok { figure: one(2500.0), ratio: 1.25 };
        assert_eq!(row.cells, [Some(cell)]);
        assert_eq!(host.instruments, ["valgrind-3.19.0"]);
    }

    #[test]
    fn two_invocations_have_a_spread() {
        let all = [
            count("t", "points", 1, 1000),
            count("base", "points", 0, 1998),
            count("t", "points", 3, 1000),
            count("base", "points", 2, 2002),
        ];
        let row = compared(&all).rows.remove(0);
        assert_eq!(row.base, Figure { instructions: 2000.0, invocations: 2, spread: Some(0.002) });
        assert_eq!(row.spread(), Some(0.002));
    }

    #[test]
    fn only_counts_of_the_same_are_compared() {
        let changes: [fn(&mut Count); 3] = [
            |count| count.count_id = Digest::of(b"other"),
            |count| count.driver = Digest::of(b"other"),
            |count| count.instrument = "valgrind-3.20.0".to_owned(),
        ];
        for change in changes {
            let mut all = [count("base", "points", 0, 2000), count("t", "points", 1, 2500)];
            change(&mut all[1]);
            assert_eq!(compared(&all).rows[0].cells, [None]);
        }
        // What a target was before is not what it is.
        let mut all = [
            count("base", "points", 0, 2000),
            count("t", "points", 1, 9999),
            count("t", "points", 2, 1000),
        ];
        all[1].target_id = Digest::of(b"before");
        let cell = compared(&all).rows[0].cells[0].clone();
        assert!(matches!(cell, Some(CountCell::Ok { ratio: 0.5, .. })), "{cell:?}");
    }

    #[test]
    fn failures_are_shown_and_rows_without_a_base_are_not() {
        let mut all = [
            count("base", "points", 0, 2000),
            count("t", "points", 1, 1),
            count("t", "scan", 2, 1),
        ];
        all[1].outcome = Counted::Failed { reason: "no".to_owned(), log: None };
        let host = compared(&all);
        assert_eq!(host.rows.len(), 1);
        assert_eq!(host.rows[0].cells, [Some(CountCell::Failed { reason: "no".to_owned() })]);
    }

    #[test]
    fn counts_are_read_as_they_are_written() {
        let record = count("base", "points", 0, 2000);
        let text = serde_json::to_string(&record).expect("JSON");
        assert!(text.contains(r#""outcome":{"status":"ok","warmup":10,"#), "{text}");
        assert_eq!(serde_json::from_str::<Count>(&text).expect("a count"), record);
        let folder = tempfile::tempdir().expect("a folder");
        let store = crate::record::store::Store::counts(folder.path());
        assert_eq!(store.append(&record).expect("appended"), None);
        assert!(folder.path().join("counts/e/h.jsonl").is_file());
        assert_eq!(store.read_all("e").expect("readable"), (vec![record], vec![]));
    }
}
