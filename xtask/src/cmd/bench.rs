//! `bench`: makes the runs that are missing, against builds that exist.

use std::time::Duration;

use anyhow::Context as _;
use catalog::DurationClass;
use catalog::protocol::Data;

use crate::bench;
use crate::bench::driver::Driver;
use crate::bench::lock::{HostLock, Kind};
use crate::bench::placement;
use crate::bench::plan::{Measure, Plan, Target};
use crate::build::store::{self, Store as Builds};
use crate::cli::Common;
use crate::cmd::load::Loaded;
use crate::cmd::select::Selection;
use crate::env::Env;
use crate::exit::{Code, coded};
use crate::hash::Digest;
use crate::host::Here;
use crate::matrix::expand::Expansion;
use crate::matrix::formula::{self, Host};
use crate::matrix::model::{Engine, ServerOptions, SourceKind, Workload};
use crate::proc::own_file;
use crate::record::Record;
use crate::record::store::Store;
use crate::server::{Install, Settings};

/// How long a benchmark waits for builds and other benchmarks on the same host.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// What came of the runs of an experiment.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Runs that were measured now.
    pub ok: usize,
    /// Runs that failed now.
    pub failed: usize,
    /// Targets that were left out because their build is not there, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// Runs the task.
///
/// # Errors
/// As [`crate::cmd::run`].
pub fn run(env: &Env, common: &Common, experiment: Option<&str>) -> anyhow::Result<Code> {
    let loaded = Loaded::read(env)?;
    let experiment = loaded.experiment(experiment)?;
    let expansion = loaded.expand(experiment, &common.set)?;
    let selection = loaded.select(common, &expansion)?;
    let Some(outcome) = run_missing(env, &loaded, &expansion, &selection)? else {
        let text = format!("experiment `{}` has no workload: nothing to run", experiment.name);
        return Err(coded(Code::Input, text));
    };
    for (target, reason) in &outcome.left_out {
        env.reporter.line(format!("{target}: left out: {reason}"));
    }
    env.reporter.line(format!("runs: {} measured, {} failed", outcome.ok, outcome.failed));
    let bad = outcome.failed > 0 || !outcome.left_out.is_empty();
    Ok(if bad { Code::CellFailed } else { Code::Done })
}

/// Makes the selected runs that are missing; `None` when the experiment has no workload.
///
/// # Errors
/// What stops all of them, a missing base among it; a failed run is in the outcome.
pub fn run_missing(
    env: &Env,
    loaded: &Loaded,
    expansion: &Expansion<'_>,
    selection: &Selection,
) -> anyhow::Result<Option<Outcome>> {
    let Some((plan, left_out)) = plan(env, loaded, expansion, selection)? else { return Ok(None) };
    let mut outcome = Outcome { left_out, ..Outcome::default() };
    let store = Store::new(&env.results);
    let records = read_records(env, &store, &plan.experiment)?;
    let blocks = plan.blocks(&records, jiff::Timestamp::now())?;
    if blocks.is_empty() {
        return Ok(Some(outcome));
    }
    let _lock = HostLock::take(&env.work, Kind::Alone, PATIENCE, &env.reporter)?;
    for target in &plan.targets {
        if target.install.prefix.starts_with(env.builds()) {
            store::verify(env, &Builds::read(env), &target.build, target.build_id)?;
        }
    }
    let begin = std::time::Instant::now();
    let driver = Driver::build(&env.root, own_file())?;
    env.reporter.account("load driver", begin.elapsed());
    Here::look(&env.work)?.note(&env.results.join("hosts"), jiff::Timestamp::now())?;
    let begin = std::time::Instant::now();
    let mut sink = |record: Record| -> anyhow::Result<()> {
        if let Some(damage) = store.append(&record)? {
            env.reporter.warn(damage.to_string());
        }
        Ok(())
    };
    let summary = bench::run::run(env, &own_file(), &driver, &plan, &blocks, &mut sink)?;
    env.reporter.account("benchmark", begin.elapsed());
    (outcome.ok, outcome.failed) = (summary.ok, summary.failed);
    Ok(Some(outcome))
}

/// Every record of an experiment; damaged lines are told.
///
/// # Errors
/// When a file cannot be read or is of a newer schema.
pub fn read_records(env: &Env, store: &Store, experiment: &str) -> anyhow::Result<Vec<Record>> {
    let (records, damages) = store.read_all(experiment)?;
    for damage in damages {
        env.reporter.warn(damage.to_string());
    }
    Ok(records)
}

/// The runs of an experiment with nothing left to be looked up, and the targets left out. `None`
/// when the experiment has no workload.
///
/// # Errors
/// When the base cannot be measured, or a formula has no value here.
#[expect(clippy::type_complexity, reason = "the plan and the names of what it leaves out")]
pub fn plan(
    env: &Env,
    loaded: &Loaded,
    expansion: &Expansion<'_>,
    selection: &Selection,
) -> anyhow::Result<Option<(Plan, Vec<(String, String)>)>> {
    let experiment = expansion.experiment;
    let Some(workload) = experiment.workload.map(|index| &loaded.matrix.workloads[index]) else {
        return Ok(None);
    };
    let here = Here::look(&env.work)?;
    let host = host();
    let builds = Builds::read(env);
    let base = expansion.base.unwrap_or(0);
    // The base comes first and is there whatever is selected: without it nothing is compared.
    let order = std::iter::once(base).chain((0..expansion.targets()).filter(|&it| it != base));
    let (mut targets, mut left_out) = (Vec::new(), Vec::new());
    for index in order {
        let found = expansion.target(index);
        let build = expansion.name(found.build);
        if index != base && !selection.target(&found.name, &build) {
            continue;
        }
        match target(&builds, expansion, &found, host)? {
            Ok(target) => targets.push(target),
            Err(reason) if index == base => {
                return Err(coded(
                    Code::CellFailed,
                    format!("the base `{}` cannot be measured: {reason}", found.name),
                ));
            }
            Err(reason) => left_out.push((found.name, reason)),
        }
    }
    let plan = Plan {
        experiment: experiment.name.clone(),
        targets,
        workload: workload.name.clone(),
        data: Data { tables: workload.tables, rows: workload.rows, seed: workload.seed },
        warmup_seconds: workload.warmup_seconds,
        prepared: workload.prepared,
        items: items(workload, selection)?,
        placement: workload.placement,
        repeats: experiment.repeats,
        seed: experiment.seed,
        host: here.id,
        boot: here.boot,
        cores: placement::cores()?,
    };
    Ok(Some((plan, left_out)))
}

/// One target, or why it is left out.
fn target(
    builds: &Builds,
    expansion: &Expansion<'_>,
    found: &crate::matrix::expand::Target,
    host: Host,
) -> anyhow::Result<Result<Target, String>> {
    if let Some(reason) = &found.unavailable {
        return Ok(Err(format!("unavailable: {reason}")));
    }
    let spec = match expansion.spec(found.build) {
        Ok(spec) => spec,
        Err(reason) => return Ok(Err(reason)),
    };
    let prefix = match &spec.source.kind {
        SourceKind::Prefix { path } => path.clone(),
        _ => match builds.tree(spec.id) {
            Some(tree) => tree,
            None => {
                return Ok(Err("its build is not there; `cargo xtask build` makes it".to_owned()));
            }
        },
    };
    let engine = spec.source.engine;
    let Some(id) = found.id else { return Ok(Err("it has no id".to_owned())) };
    Ok(Ok(Target {
        name: found.name.clone(),
        id,
        build: spec.name.clone(),
        build_id: spec.id,
        settings: spec.settings.iter().chain(&found.run).cloned().collect(),
        config: found.config.clone(),
        install: Install { engine, prefix },
        server: settings(&found.server, engine, host)
            .with_context(|| format!("cannot compute the config of `{}`", found.name))?,
        init: found.server.init.clone(),
        source: spec.source_facts.digest,
        configure: spec.options.configure,
    }))
}

/// What the server gets on this host.
fn settings(options: &ServerOptions, engine: Engine, host: Host) -> anyhow::Result<Settings> {
    let values = match engine {
        Engine::Postgres => &options.postgresql,
        Engine::Mysql | Engine::Mariadb => &options.mysqld,
    };
    let lines = values
        .iter()
        .map(|(key, value)| Ok((key.clone(), formula::render(value, engine, host)?)))
        .collect::<Result<Vec<_>, String>>()
        .map_err(|text| coded(Code::Input, text))?;
    Ok(Settings { lines, env: options.env.clone(), preload: options.preload.clone() })
}

fn host() -> Host {
    let kib = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()
    });
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    Host { ram: kib.unwrap_or(1 << 20) * 1024, cpus }
}

/// The selected measurements in run order: with each number of clients, each microbenchmark.
///
/// # Errors
/// When a name is no longer in the catalogue.
pub fn items(workload: &Workload, selection: &Selection) -> anyhow::Result<Vec<Measure>> {
    let mut items = Vec::new();
    for &threads in &workload.threads {
        for name in workload.microbenchmarks.iter().filter(|name| selection.microbenchmark(name)) {
            let found = catalog::find(name)
                .with_context(|| format!("`{name}` is no longer in the catalogue"))?;
            let seconds = match found.duration {
                DurationClass::Read | DurationClass::Scan => workload.read_seconds,
                DurationClass::Write => workload.write_seconds,
            };
            let workload_id = workload_id(workload, name, threads, seconds, &items);
            items.push(Measure {
                microbenchmark: name.clone(),
                group: found.group.as_str().to_owned(),
                writes: !found.read_only(),
                threads,
                seconds,
                workload_id,
            });
        }
    }
    Ok(items)
}

/// The hash of everything in the workload that determines one number: the data, the run itself, and
/// what has changed the data before it in the same visit.
fn workload_id(
    workload: &Workload,
    name: &str,
    threads: u32,
    seconds: f64,
    before: &[Measure],
) -> Digest {
    let mut text = format!(
        "run 1\nprotocol {}\ntables {} rows {} seed {}\nwarmup {} prepared {}\n",
        catalog::protocol::VERSION,
        workload.tables,
        workload.rows,
        workload.seed,
        workload.warmup_seconds,
        workload.prepared,
    );
    for writer in before.iter().filter(|item| item.writes) {
        let (name, threads, seconds) = (&writer.microbenchmark, writer.threads, writer.seconds);
        text.push_str(&format!("after {name} {threads} {seconds}\n"));
    }
    text.push_str(&format!("measure {name} {threads} {seconds}\n"));
    Digest::of(text.as_bytes())
}
