//! The numbers of records, indexed by row and target, and the choice of those that count.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use catalog::{Better, Metric};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{LeftOut, Made, Metrics, Options};
use crate::hash::Digest;
use crate::record::{
    DeviceUsage, MachineUsage, Mark, Outcome, PlacementUsed, QPS, Rate, Record, Sample,
};

/// Groups in the order in which they are shown; others follow.
const GROUPS: [&str; 5] = ["point-1", "point-2", "range-1", "range-2", "writes"];

/// Values numbered in the order of their first appearance.
#[derive(Debug)]
struct Names<T> {
    values: Vec<T>,
    numbers: HashMap<T, usize>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self { values: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Names<T> {
    fn number(&mut self, value: &T) -> usize {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = self.values.len();
        self.values.push(value.clone());
        self.numbers.insert(value.clone(), number);
        number
    }
}

/// Where and as what a run was made: two runs with different ones are no pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Context {
    /// Boot id.
    pub boot: String,
    placement: PlacementUsed,
    driver: Digest,
}

/// One record, reduced.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The block.
    pub block: u32,
    /// When it began, in seconds since 1970; `None` when the record's time cannot be read.
    pub started: Option<f64>,
    /// Index of its [`Context`].
    pub context: usize,
    target_id: usize,
    workload_id: usize,
    /// What the audit had against the build.
    mark: Option<Box<Mark>>,
    /// The numbers, or why there are none.
    pub outcome: Result<Numbers, String>,
}

/// The numbers of a measured run, per operation where they are an amount.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    /// ln of the metric's value, or minus that where less is better: the observation. More of it is
    /// better, whatever the metric.
    pub ln_good: f64,
    /// Events per second that were asked for and that came of it, where that was less.
    pub not_held: Option<Rate>,
    metrics: Metrics,
}

/// A metric without its value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Its good direction.
    pub better: Better,
}

impl Measured {
    /// Queries per second.
    pub fn qps() -> Self {
        let (name, unit) = (QPS.0.to_owned(), QPS.1.to_owned());
        Self { name, unit, better: Better::Higher }
    }

    /// Whether this is queries per second, which need no name in a table.
    pub fn is_qps(&self) -> bool {
        self.name == QPS.0
    }
}

/// A row's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The microbenchmark.
    pub microbenchmark: String,
    /// Its group.
    pub group: String,
    /// Clients.
    pub threads: u32,
    /// What was measured.
    pub metric: Measured,
}

impl Key {
    fn of(record: &Record, metric: Measured) -> Self {
        Self {
            microbenchmark: record.microbenchmark.clone(),
            group: record.group.clone(),
            threads: record.threads,
            metric,
        }
    }

    /// Whether two rows are of the same runs.
    fn same_runs(&self, other: &Self) -> bool {
        (&self.microbenchmark, &self.group, self.threads)
            == (&other.microbenchmark, &other.group, other.threads)
    }
}

/// All runs of one host.
#[derive(Debug, Default)]
pub(super) struct Host {
    targets: Names<String>,
    keys: Names<Key>,
    contexts: Vec<Context>,
    target_ids: Names<Digest>,
    workload_ids: Names<Digest>,
    /// What a target with this id is made of: the first record says.
    made: HashMap<(usize, usize), Made>,
    runs: HashMap<(usize, usize), Vec<Run>>,
    /// Runs that failed, with their target and a key whose metric is not known: they belong to
    /// every row that measured runs of their kind have.
    failed: Vec<(Key, usize, Run)>,
}

/// The runs that count.
#[derive(Debug, Default)]
pub(super) struct Selected {
    /// Blocks, sorted.
    pub blocks: Vec<u32>,
    /// Targets in the order of their first record.
    pub targets: Vec<String>,
    /// Rows in the order in which they are shown: key, and per target the run of each block.
    pub rows: Vec<(Key, Vec<Vec<Option<Run>>>)>,
    /// Where runs were made.
    pub contexts: Vec<Context>,
    /// What each target is made of.
    pub made: Vec<Made>,
}

impl Host {
    /// The targets that have records.
    pub(super) fn targets(&self) -> impl Iterator<Item = &str> {
        self.targets.values.iter().map(String::as_str)
    }

    /// One more record.
    pub(super) fn add(&mut self, record: &Record) {
        let target = self.targets.number(&record.target);
        let run = |outcome: Result<Numbers, String>, this: &mut Self| Run {
            block: record.block,
            started: record.started.parse().ok().map(|time: Timestamp| {
                time.as_second() as f64 + f64::from(time.subsec_nanosecond()) * 1e-9
            }),
            context: this.context(record),
            target_id: this.target_ids.number(&record.target_id),
            workload_id: this.workload_ids.number(&record.workload_id),
            mark: record.audit.clone().map(Box::new),
            outcome,
        };
        let id = self.target_ids.number(&record.target_id);
        self.made.entry((target, id)).or_insert_with(|| Made::of(record));
        match &record.outcome {
            Outcome::Ok(sample) => {
                for figure in sample.figures() {
                    let outcome = numbers(sample, &figure);
                    let Metric { name, unit, better, .. } = figure;
                    let key = Key::of(record, Measured { name, unit, better });
                    let key = self.keys.number(&key);
                    let run = run(outcome, self);
                    self.runs.entry((key, target)).or_default().push(run);
                }
            }
            Outcome::Failed { reason, .. } => {
                let run = run(Err(reason.clone()), self);
                self.failed.push((Key::of(record, Measured::qps()), target, run));
            }
        }
    }

    /// Gives each failed run to the rows that it would have had values in.
    fn spread_failures(&mut self) {
        for (key, target, run) in std::mem::take(&mut self.failed) {
            let mut rows: Vec<usize> = (0..self.keys.values.len())
                .filter(|row| self.keys.values[*row].same_runs(&key))
                .collect();
            if rows.is_empty() {
                rows.push(self.keys.number(&key));
            }
            for row in rows {
                self.runs.entry((row, target)).or_default().push(run.clone());
            }
        }
    }

    /// A host has few boots, placements and drivers, so a search from the end is short.
    fn context(&mut self, record: &Record) -> usize {
        let same = |context: &Context| {
            context.boot == record.boot
                && context.placement == record.placement
                && context.driver == record.driver
        };
        self.contexts.iter().rposition(same).unwrap_or_else(|| {
            let (boot, placement) = (record.boot.clone(), record.placement.clone());
            self.contexts.push(Context { boot, placement, driver: record.driver });
            self.contexts.len() - 1
        })
    }

    /// The runs that count: of one target id each (the options' have been picked already, else the
    /// latest), of the options' workload id of each row (else the latest), and one per block.
    pub(super) fn select(mut self, options: &Options, left_out: &mut LeftOut) -> Selected {
        self.spread_failures();
        self.keep_latest(
            |(_, target), run| (*target, run.target_id),
            |counts| {
                left_out.other_target += counts;
            },
        );
        if let Some(wanted) = &options.workloads {
            left_out.other_workload += self.keep_workloads(wanted);
        } else {
            self.keep_latest(
                |(key, _), run| (*key, run.workload_id),
                |counts| {
                    left_out.other_workload += counts;
                },
            );
        }
        let blocks: BTreeSet<u32> = self.runs.values().flatten().map(|run| run.block).collect();
        let blocks: Vec<u32> = blocks.into_iter().collect();
        let made = (0..self.targets.values.len()).map(|target| self.made_of(target)).collect();
        let rows = order(&self.keys.values, &options.order)
            .into_iter()
            .map(|key| {
                let of_target = |target| {
                    let runs = self.runs.remove(&(key, target)).unwrap_or_default();
                    per_block(runs, &blocks, left_out)
                };
                (
                    self.keys.values[key].clone(),
                    (0..self.targets.values.len()).map(of_target).collect(),
                )
            })
            .collect();
        Selected { blocks, targets: self.targets.values, rows, contexts: self.contexts, made }
    }

    /// What a target is made of, by the runs that are left: all of one target id by now. Of a
    /// target without any, what its last id says.
    fn made_of(&self, target: usize) -> Made {
        let runs = self.runs.iter().filter(|(place, _)| place.1 == target);
        let runs: Vec<&Run> = runs.flat_map(|(_, runs)| runs).collect();
        let known = self.made.iter().filter(|(place, _)| place.0 == target);
        let of_runs = |id| runs.first().is_none_or(|run| run.target_id == id);
        let (_, made) = known
            .filter(|((_, id), _)| of_runs(*id))
            .max_by_key(|((_, id), _)| *id)
            .expect("a target is noted with its first record");
        // The latest mark, if there are several; one is enough to mark the target.
        let last = runs.iter().filter(|run| run.mark.is_some()).max_by_key(|run| run.block);
        Made { audit: last.and_then(|run| run.mark.as_deref().cloned()), ..made.clone() }
    }

    /// Of each row's runs keeps those with the first wanted id that any of them has; gives how many
    /// go.
    fn keep_workloads(&mut self, wanted: &BTreeMap<(String, u32), Vec<Digest>>) -> u64 {
        let ids = &self.workload_ids.values;
        let chosen: Vec<Option<Digest>> = (0..self.keys.values.len())
            .map(|key| {
                let Key { microbenchmark, threads, .. } = &self.keys.values[key];
                let here = |id: &&Digest| {
                    let runs = self.runs.iter().filter(|(place, _)| place.0 == key);
                    runs.flat_map(|(_, runs)| runs).any(|run| ids[run.workload_id] == **id)
                };
                wanted.get(&(microbenchmark.clone(), *threads))?.iter().find(here).copied()
            })
            .collect();
        let mut gone = 0;
        for ((key, _), runs) in &mut self.runs {
            let before = runs.len();
            runs.retain(|run| chosen[*key] == Some(ids[run.workload_id]));
            gone += (before - runs.len()) as u64;
        }
        gone
    }

    /// Of the runs whose `name` has the same first half, keeps those with the second half of the
    /// latest; tells how many go.
    fn keep_latest(
        &mut self,
        name: impl Fn(&(usize, usize), &Run) -> (usize, usize),
        told: impl FnOnce(u64),
    ) {
        let mut latest: HashMap<usize, (f64, usize)> = HashMap::new();
        for (place, runs) in &self.runs {
            for run in runs {
                let (thing, id) = name(place, run);
                // Ids are numbered as they appear, so the later one wins where times are equal.
                let this = (run.started.unwrap_or(f64::NEG_INFINITY), id);
                let best = latest.entry(thing).or_insert(this);
                if this.0.total_cmp(&best.0).then(this.1.cmp(&best.1)).is_gt() {
                    *best = this;
                }
            }
        }
        let mut gone = 0;
        for (place, runs) in &mut self.runs {
            let before = runs.len();
            runs.retain(|run| {
                let (thing, id) = name(place, run);
                latest.get(&thing).is_some_and(|best| best.1 == id)
            });
            gone += (before - runs.len()) as u64;
        }
        told(gone);
    }
}

/// The run of each block: the latest measured one, else the latest failure.
fn per_block(runs: Vec<Run>, blocks: &[u32], left_out: &mut LeftOut) -> Vec<Option<Run>> {
    let mut places = vec![None; blocks.len()];
    for run in runs {
        let Ok(index) = blocks.binary_search(&run.block) else { continue };
        let place: &mut Option<Run> = &mut places[index];
        if let Some(earlier) = place {
            left_out.repeated += 1;
            if earlier.outcome.is_ok() && run.outcome.is_err() {
                continue;
            }
        }
        *place = Some(run);
    }
    places
}

/// Rows by group, then in run order, then by number of clients.
fn order(keys: &[Key], microbenchmarks: &[String]) -> Vec<usize> {
    let places: HashMap<&str, usize> =
        microbenchmarks.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
    // The first appearance stands for names and groups that are not in the lists.
    let mut first: HashMap<&str, usize> = HashMap::new();
    for (index, key) in keys.iter().enumerate() {
        first.entry(&key.microbenchmark).or_insert(index);
        first.entry(&key.group).or_insert(index);
    }
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by_key(|index| {
        let key = &keys[*index];
        let group = GROUPS.iter().position(|group| *group == key.group);
        (
            group.unwrap_or(GROUPS.len()),
            if group.is_none() { first[key.group.as_str()] } else { 0 },
            places.get(key.microbenchmark.as_str()).copied().unwrap_or(usize::MAX),
            first[key.microbenchmark.as_str()],
            key.threads,
            // Metrics in the order in which they are told.
            *index,
        )
    });
    order
}

/// The numbers of one metric of a sample, or why it cannot be compared.
fn numbers(sample: &Sample, figure: &Metric) -> Result<Numbers, String> {
    let Metric { name, value, unit, better } = figure;
    if name == QPS.0 && sample.queries == 0 && sample.metrics.is_empty() {
        return Err(format!("0 queries in {} s are no throughput", sample.seconds));
    }
    if !value.is_finite() || *value <= 0.0 {
        return Err(format!("{value} {unit} of `{name}` can be no part of a ratio"));
    }
    // What a metric that is a rate counts is an operation; of others nobody knows how many.
    let operations = match (sample.metrics.is_empty(), unit.as_str()) {
        // An imported figure tells no window.
        _ if sample.seconds <= 0.0 => None,
        (true, _) => Some(sample.queries as f64),
        (false, "1/s") => Some(value * sample.seconds),
        (false, _) => None,
    };
    let per_operation = |amount: f64| operations.map(|operations| amount / operations);
    let server_cpu = sample.server.user_seconds + sample.server.system_seconds;
    let client_cpu = sample.client.user_seconds + sample.client.system_seconds;
    let machine = sample.machine.as_ref();
    let device = machine.and_then(|machine| machine.device.as_ref());
    let of_machine = |of: fn(&MachineUsage) -> f64| machine.and_then(|it| per_operation(of(it)));
    let of_device = |of: fn(&DeviceUsage) -> f64| device.and_then(|it| per_operation(of(it)));
    let metrics = Metrics {
        runs: 1,
        value: *value,
        server_cpu_us: per_operation(server_cpu * 1e6),
        client_cpu_us: per_operation(client_cpu * 1e6),
        context_switches: per_operation(sample.server.context_switches as f64),
        read_kib: per_operation(sample.server.read_kib),
        written_kib: per_operation(sample.server.written_kib),
        machine_cpu_us: of_machine(|it| (it.user_seconds + it.system_seconds) * 1e6),
        machine_context_switches: of_machine(|it| it.context_switches as f64),
        device_reads: of_device(|it| it.reads as f64),
        device_read_kib: of_device(|it| it.read_kib),
        device_written_kib: of_device(|it| it.written_kib),
        write_amplification: sample.rows_written_kib.map(|rows| sample.server.written_kib / rows),
        memory_kib: sample.sizes.and_then(|sizes| sizes.memory_kib),
        data_kib: sample.sizes.map(|sizes| sizes.data_kib),
        p99_us: (sample.latency.max_us > 0).then_some(sample.latency.p99_us as f64),
    };
    let ln_good = match better {
        Better::Higher => value.ln(),
        Better::Lower => -value.ln(),
    };
    Ok(Numbers { ln_good, not_held: sample.rate.filter(|rate| !rate.held()), metrics })
}

/// Plain means over the measured runs; the metric itself by the geometric mean, as ratios are.
pub(super) fn means<'a>(runs: impl Iterator<Item = &'a Run>) -> Option<Metrics> {
    let all: Vec<&Numbers> = runs.filter_map(|run| run.outcome.as_ref().ok()).collect();
    let count = all.len() as f64;
    let mean = |of: fn(&Metrics) -> Option<f64>| {
        let values: Option<Vec<f64>> = all.iter().map(|numbers| of(&numbers.metrics)).collect();
        Some(values?.iter().sum::<f64>() / count)
    };
    (!all.is_empty()).then(|| Metrics {
        runs: all.len() as u32,
        value: (all.iter().map(|n| n.metrics.value.ln()).sum::<f64>() / count).exp(),
        server_cpu_us: mean(|m| m.server_cpu_us),
        client_cpu_us: mean(|m| m.client_cpu_us),
        context_switches: mean(|m| m.context_switches),
        read_kib: mean(|m| m.read_kib),
        written_kib: mean(|m| m.written_kib),
        machine_cpu_us: mean(|m| m.machine_cpu_us),
        machine_context_switches: mean(|m| m.machine_context_switches),
        device_reads: mean(|m| m.device_reads),
        device_read_kib: mean(|m| m.device_read_kib),
        device_written_kib: mean(|m| m.device_written_kib),
        write_amplification: mean(|m| m.write_amplification),
        memory_kib: mean(|m| m.memory_kib),
        data_kib: mean(|m| m.data_kib),
        p99_us: mean(|m| m.p99_us),
    })
}
