//! `import`: other people's raw results into records, so that they are compared as one's own are.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use catalog::protocol::{ClientUsage, Latency};
use catalog::{Better, Metric};

use crate::cli::ImportArgs;
use crate::cmd::compare;
use crate::compare::{Options, compare as compared};
use crate::env::Env;
use crate::exit::{Code, coded};
use crate::hash::Digest;
use crate::import::kind::Kind;
use crate::import::{self, Figure, Imported};
use crate::matrix::model::Placement;
use crate::record::store::Store;
use crate::record::{Outcome, PlacementUsed, Record, SCHEMA, Sample, ServerUsage};

/// What stands for facts that imported results do not tell.
const UNKNOWN: &str = "imported";
/// How many of the things that were left out are told one by one.
const TOLD: usize = 20;

/// Runs the task.
///
/// # Errors
/// With [`Code::Input`] when nothing can be read, or the experiment has records already.
pub fn run(env: &Env, args: &ImportArgs) -> anyhow::Result<Code> {
    let kind = match args.kind.as_str() {
        "auto" => None,
        name => Some(Kind::named(name).with_context(|| {
            let known: Vec<&str> = Kind::ALL.iter().map(|(name, _)| *name).collect();
            format!("`{name}` is no kind of results; there are auto, {}", known.join(", "))
        }))
        .transpose()
        .map_err(|error| coded(Code::Input, format!("{error:#}")))?,
    };
    let options = import::Options { kind, device: args.device.clone(), ..Default::default() };
    let found = import::read::path(&args.path, &options)
        .map_err(|error| coded(Code::Input, format!("{error:#}")))?;
    tell(env, &found);
    let experiment = match &args.experiment {
        Some(name) => name.clone(),
        None => name_of(&args.path),
    };
    let store = Store::new(&env.results);
    if !store.read_all(&experiment)?.0.is_empty() {
        let text = format!(
            "experiment `{experiment}` has records already: choose another name by `--experiment`"
        );
        return Err(coded(Code::Input, text));
    }
    let records = records(&experiment, &found.results);
    if records.is_empty() {
        let text = format!("no figure in `{}` can be compared", args.path.display());
        return Err(coded(Code::Input, text));
    }
    store.append_all(&records)?;
    env.reporter.line(format!(
        "import: {} figures in {} records of experiment `{experiment}`; `cargo xtask compare \
         {experiment}` shows them again",
        records.iter().map(figures).sum::<usize>(),
        records.len()
    ));
    let comparison = compared(&records, &base_of(&records, args.base.as_deref()), order())?;
    compare::print(&comparison, &args.view, args.format)?;
    Ok(Code::Done)
}

/// What was left out, and what was checked.
fn tell(env: &Env, found: &Imported) {
    for skip in found.skipped.iter().take(TOLD) {
        env.reporter.line(format!("left out: {skip}"));
    }
    if found.skipped.len() > TOLD {
        env.reporter.line(format!("left out: {} more", found.skipped.len() - TOLD));
    }
    if found.checked > 0 {
        env.reporter.line(format!(
            "{} printed ratios come out of the absolute figures as printed",
            found.checked
        ));
    }
    let ratios = found.results.iter().filter(|figure| figure.ratio).count();
    if ratios > 0 {
        env.reporter.line(format!("left out: {ratios} ratios without absolute figures"));
    }
    let nothing = found.results.iter().filter(|it| !it.ratio && it.value <= 0.0).count();
    if nothing > 0 {
        env.reporter
            .line(format!("left out: {nothing} figures of 0, which can be no part of a ratio"));
    }
}

/// A name for an experiment: that of the file or folder, in characters that names may have.
fn name_of(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let fits = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '-' };
    let name: String = name.chars().map(fits).collect();
    let name = name.trim_start_matches(['.', '-', '_']);
    if name.is_empty() { UNKNOWN.to_owned() } else { name.to_owned() }
}

/// The microbenchmarks in run order.
pub fn order() -> Options {
    let order = catalog::names().map(str::to_owned).collect();
    Options { order, ..Options::default() }
}

/// The base of imported records: as asked, else the first target.
pub fn base_of(records: &[Record], asked: Option<&str>) -> String {
    let first = || records.first().map_or(String::new(), |record| record.target.clone());
    asked.map_or_else(first, str::to_owned)
}

fn figures(record: &Record) -> usize {
    match &record.outcome {
        Outcome::Ok(sample) => sample.metrics.len(),
        Outcome::Failed { .. } => 0,
    }
}

/// Records of the absolute figures: what one target did in one test is one record.
fn records(experiment: &str, figures: &[Figure]) -> Vec<Record> {
    type Place = (String, String, String, u32, u32);
    let mut places: BTreeMap<Place, usize> = BTreeMap::new();
    let mut records: Vec<Record> = Vec::new();
    for figure in figures.iter().filter(|figure| !figure.ratio && figure.value > 0.0) {
        let host = figure.host.clone().unwrap_or_else(|| UNKNOWN.to_owned());
        let threads = figure.threads.unwrap_or(1);
        let place =
            (host.clone(), figure.target.clone(), figure.test.clone(), threads, figure.repeat);
        let index = *places.entry(place).or_insert_with(|| {
            records.push(record(experiment, figure, host, threads));
            records.len() - 1
        });
        let Outcome::Ok(sample) = &mut records[index].outcome else { continue };
        let metric = metric(figure);
        // Files that tell one figure twice have been merged; of two that differ the first stays.
        if !sample.metrics.iter().any(|known| known.name == metric.name) {
            sample.metrics.push(metric);
        }
    }
    records
}

fn metric(figure: &Figure) -> Metric {
    let unit = match (figure.metric.as_str(), figure.unit.as_str()) {
        ("qps", "" | "ops/s" | "q/s" | "queries/s") => "1/s",
        (_, unit) => unit,
    };
    Metric {
        name: figure.metric.clone(),
        value: figure.value,
        unit: unit.to_owned(),
        better: if figure.lower_is_better { Better::Lower } else { Better::Higher },
    }
}

fn record(experiment: &str, figure: &Figure, host: String, threads: u32) -> Record {
    let id = |what: &str| Digest::of(format!("imported {what}").as_bytes());
    let group = figure.group.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    Record {
        schema: SCHEMA,
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        experiment: experiment.to_owned(),
        block: figure.repeat + 1,
        place: 0,
        order_seed: 0,
        invocation: UNKNOWN.to_owned(),
        target: figure.target.clone(),
        target_id: id(&figure.target),
        build: figure.build.clone(),
        build_id: id(&figure.build),
        code_id: None,
        audit: None,
        compiler: None,
        server_version: None,
        settings: Vec::new(),
        config: figure.config.clone(),
        workload: UNKNOWN.to_owned(),
        workload_id: id(&figure.test),
        microbenchmark: figure.test.clone(),
        group,
        threads,
        host,
        boot: UNKNOWN.to_owned(),
        kernel: String::new(),
        driver: id("driver"),
        // When they were measured is not told; the order of repeats is.
        started: format!("1970-01-01T{:02}:{:02}:00Z", figure.repeat / 60 % 24, figure.repeat % 60),
        placement: PlacementUsed {
            kind: Placement::Free,
            server_cpus: Vec::new(),
            client_cpus: Vec::new(),
        },
        imported: Some(format!("{}:{}", figure.file.display(), figure.line)),
        outcome: Outcome::Ok(Box::new(Sample {
            seconds: 0.0,
            warmup_seconds: 0.0,
            queries: 0,
            events: 0,
            rows: 0,
            errors: Vec::new(),
            queries_per_second: Vec::new(),
            latency: Latency::default(),
            server: ServerUsage::default(),
            client: ClientUsage::default(),
            machine: None,
            sizes: None,
            rows_written_kib: None,
            streams: Vec::new(),
            maintained: None,
            rate: None,
            metrics: Vec::new(),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_one_run_are_one_record_and_zeros_and_ratios_stay_out() {
        let figure = |target: &str, metric: &str, value: f64| Figure {
            target: target.to_owned(),
            build: "my8039_rel".to_owned(),
            config: "z11a".to_owned(),
            host: None,
            test: "scan_range=100".to_owned(),
            group: Some("range-1".to_owned()),
            threads: Some(2),
            repeat: 0,
            metric: metric.to_owned(),
            value,
            text: value.to_string(),
            unit: if metric == "qps" { "ops/s" } else { "us" }.to_owned(),
            lower_is_better: metric != "qps",
            base: None,
            ratio: false,
            file: "a/sb.met.x".into(),
            line: 3,
        };
        let all = [
            figure("a", "qps", 10.0),
            figure("a", "cpu/o", 5.0),
            figure("a", "r/o", 0.0),
            Figure { ratio: true, ..figure("b", "qps", 1.5) },
            figure("b", "qps", 20.0),
        ];
        let records = records("e", &all);
        assert_eq!(records.len(), 2);
        assert_eq!(figures(&records[0]), 2);
        assert_eq!(records[0].imported.as_deref(), Some("a/sb.met.x:3"));
        let comparison = compared(&records, &base_of(&records, None), order()).expect("two");
        let rows = &comparison.hosts[0].rows;
        let ratio = rows[0].cells[0].result.ratio().expect("one pair");
        assert!((ratio - 2.0).abs() < 1e-9, "{ratio}");
        let base = rows[0].base.expect("measured");
        assert_eq!((base.server_cpu_us, base.p99_us), (None, None), "not measured, not zero");
        assert_eq!(name_of(Path::new("/x/some results (old)")), "some-results--old-");
    }
}
