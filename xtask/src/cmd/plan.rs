//! `plan`: what would be done and why; nothing is changed.

use std::io::Write as _;

use crate::build::manifest::Manifest;
use crate::build::spec::Spec;
use crate::build::store;
use crate::cli::{Common, Format, PlanArgs};
use crate::cmd::bench;
use crate::cmd::load::Loaded;
use crate::cmd::select::Selection;
use crate::env::Env;
use crate::exit::Code;
use crate::matrix::expand::Expansion;
use crate::matrix::plan::{self, Outlook, State};
use crate::matrix::why::why;
use crate::record::store::Store;

/// CPU seconds of one build of PostgreSQL 15 (measured: METHODOLOGY.md, "Cost of a build"); the
/// estimate while no manifest tells better.
const BUILD_CPU_SECONDS: f64 = 300.0;
/// Above this number of builds the disk is not asked about each of them.
const ASKED: usize = 10_000;

/// Runs the task.
///
/// # Errors
/// As [`crate::cmd::run`].
pub fn run(env: &Env, common: &Common, args: &PlanArgs) -> anyhow::Result<Code> {
    let loaded = Loaded::read(env)?;
    let experiment = loaded.experiment(args.experiment.as_deref())?;
    let expansion = loaded.expand(experiment, &common.set)?;
    let selection = loaded.select(common, &expansion)?;
    print(env, &loaded, &expansion, &selection, args)?;
    Ok(Code::Done)
}

/// Prints the plan of an expansion.
///
/// # Errors
/// When standard output is closed, or the records cannot be read.
pub fn print(
    env: &Env,
    loaded: &Loaded,
    expansion: &Expansion<'_>,
    selection: &Selection,
    args: &PlanArgs,
) -> anyhow::Result<()> {
    let outlook = outlook(env, loaded, expansion, selection);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut state = |spec: &Spec| state(env, spec);
    match (args.format, args.summary) {
        (Format::Text, true) => plan::summary(&mut out, expansion, outlook)?,
        (Format::Json, _) => plan::json(&mut out, expansion, outlook, &mut state)?,
        (Format::Text, false) => {
            plan::text(&mut out, expansion, outlook, &mut state)?;
            if let Some(line) = runs(env, loaded, expansion, selection) {
                writeln!(out, "\n{line}")?;
            }
        }
    }
    if args.summary && args.format == Format::Text {
        writeln!(out, "peak memory {} MB", peak_memory_mb())?;
    }
    out.flush()?;
    Ok(())
}

fn state(env: &Env, spec: &Spec) -> State {
    if store::present(env, &spec.name, spec.id) {
        return State::Present;
    }
    match store::previous(env, spec) {
        Some(old) => State::Stale(why(&old, &spec.inputs())),
        None => State::Missing,
    }
}

/// How much is to be done. A build takes its share of all cores, a run its warm-up and window.
fn outlook(
    env: &Env,
    loaded: &Loaded,
    expansion: &Expansion<'_>,
    selection: &Selection,
) -> Outlook {
    let to_build = (expansion.builds() <= ASKED).then(|| {
        let missing = |build: &usize| {
            let name = expansion.name(*build);
            selection.build(&name)
                && !expansion.is_installed(*build)
                && expansion.id(*build).is_some_and(|id| !store::present(env, &name, id))
        };
        (0..expansion.builds()).filter(missing).count()
    });
    let builds = to_build.unwrap_or(expansion.distinct_builds()) as f64;
    let mut seconds = builds * cpu_seconds_of_a_build(env) / env.jobs as f64;
    let experiment = expansion.experiment;
    if let Some(workload) = experiment.workload.map(|index| &loaded.matrix.workloads[index]) {
        let windows: f64 = workload
            .microbenchmarks
            .iter()
            .filter(|name| selection.microbenchmark(name))
            .map(|name| match catalog::find(name) {
                Some(found) if !found.read_only() => workload.write_seconds,
                _ => workload.read_seconds,
            })
            .map(|window| window + workload.warmup_seconds)
            .sum();
        let visits = expansion.targets() as f64 * f64::from(experiment.repeats);
        seconds += windows * visits * workload.threads.len() as f64;
    }
    Outlook { to_build, hours: Some(seconds / 3600.0) }
}

/// The CPU seconds that the last build here took: its steps, over the jobs that they ran with.
fn cpu_seconds_of_a_build(env: &Env) -> f64 {
    let newest = std::fs::read_dir(env.builds()).ok().and_then(|entries| {
        let folders = entries.flatten().map(|entry| entry.path().join("manifest.json"));
        folders.filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path))).max()
    });
    newest
        .and_then(|(_, path)| Manifest::read(&path).ok())
        .map_or(BUILD_CPU_SECONDS, |manifest| manifest.steps.iter().map(|step| step.seconds).sum())
}

/// How many runs are there already and how many blocks are missing.
fn runs(
    env: &Env,
    loaded: &Loaded,
    expansion: &Expansion<'_>,
    selection: &Selection,
) -> Option<String> {
    let (plan, left_out) = bench::plan(env, loaded, expansion, selection).ok()??;
    let records = Store::new(&env.results).read_all(&plan.experiment).ok()?.0;
    let blocks = plan.blocks(&records, jiff::Timestamp::now()).ok()?;
    let runs: usize =
        blocks.iter().flat_map(|block| &block.visits).map(|visit| visit.items.len()).sum();
    let mut line = match runs {
        0 => "runs: all of the builds that are there have been made".to_owned(),
        _ => format!("runs: {runs} missing, in {} blocks", blocks.len()),
    };
    if !left_out.is_empty() {
        line.push_str(&format!(", and all of {} targets whose build is missing", left_out.len()));
    }
    Some(line)
}

/// The most memory that this process has had, in MB of 1,000,000 bytes (`VmHWM`, proc(5)).
fn peak_memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap_or(0);
    kib * 1024 / 1_000_000
}
