//! `plan`: what would be done and why; nothing is changed.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

use crate::bench::share::Shared;
use crate::build::layout::Layout;
use crate::build::spec::Spec;
use crate::build::store::Store as Builds;
use crate::build::{recipe, run};
use crate::cli::{Common, Format, PlanArgs, RunArgs};
use crate::cmd::bench::{self, Cause, LeftOut, Planned};
use crate::cmd::load::Loaded;
use crate::cmd::select::Selection;
use crate::env::Env;
use crate::exit::Code;
use crate::matrix::expand::Expansion;
use crate::matrix::plan::{self, Caller, Outlook, State};
use crate::matrix::why::why;
use crate::record::store::Store;

/// CPU seconds of one build of PostgreSQL 15 (METHODOLOGY.md, "Cost of builds"); the estimate until
/// a build here tells better.
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
    let (to_build, missing_runs) = missing(env, loaded, expansion, selection)?;
    let builds = to_build.unwrap_or(expansion.distinct_builds()) as f64;
    let cpu_seconds = run::cpu_seconds(env).unwrap_or(BUILD_CPU_SECONDS);
    let seconds = builds * cpu_seconds / env.jobs as f64 + missing_runs.seconds;
    let asked = Asked {
        outlook: Outlook { to_build, hours: Some(seconds / 3600.0) },
        builds: Builds::read(env),
        selection,
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match (args.format, args.summary) {
        (Format::Text, true) => plan::summary(&mut out, expansion, asked.outlook)?,
        (Format::Json, _) => plan::json(&mut out, expansion, &asked)?,
        (Format::Text, false) => plan::text(&mut out, expansion, &asked)?,
    }
    if args.format == Format::Text {
        if let Some(line) = missing_runs.line {
            writeln!(out, "{}{line}", if args.summary { "" } else { "\n" })?;
        }
        if args.summary {
            writeln!(out, "peak memory {} MB", peak_memory_mb())?;
        }
    }
    out.flush()?;
    Ok(())
}

/// The answers to what the plan asks.
struct Asked<'a> {
    outlook: Outlook,
    builds: Builds,
    selection: &'a Selection,
}

impl Caller for Asked<'_> {
    fn outlook(&self) -> Outlook {
        self.outlook
    }

    fn state(&self, spec: &Spec) -> State {
        if self.builds.has(spec.id) {
            return State::Present;
        }
        match self.builds.previous(spec) {
            Some(old) => State::Stale(why(&old, &spec.inputs())),
            None => State::Missing,
        }
    }

    fn command(&self, spec: &Spec) -> Option<Vec<String>> {
        spec.toolchain.as_ref()?;
        // The canonical paths do not depend on the real ones.
        let layout = Layout::canonical(Path::new("/"), Path::new("/"));
        Some(recipe::steps(spec, &layout).ok()?.first()?.words.clone())
    }

    fn shows_build(&self, name: &str) -> bool {
        self.selection.build(name)
    }

    fn shows_target(&self, name: &str, build: &str) -> bool {
        self.selection.target(name, build)
    }
}

/// What is to be run.
#[derive(Default)]
struct MissingRuns {
    /// Warm-ups and windows.
    seconds: f64,
    /// For people; `None` when the experiment has no workload.
    line: Option<String>,
}

/// How many builds are to be made (`None`: too many to ask), and the runs.
fn missing(
    env: &Env,
    loaded: &Loaded,
    expansion: &Expansion<'_>,
    selection: &Selection,
) -> anyhow::Result<(Option<usize>, MissingRuns)> {
    if expansion.builds() > ASKED {
        return Ok((None, MissingRuns::default()));
    }
    let store = Builds::read(env);
    let missing: BTreeSet<_> = (0..expansion.builds())
        .filter(|&build| !expansion.is_installed(build) && selection.build(&expansion.name(build)))
        .filter_map(|build| expansion.id(build).filter(|id| !store.has(*id)))
        .collect();
    let runs = runs(env, loaded, expansion, selection)?;
    Ok((Some(missing.len()), runs))
}

/// The runs that are missing: those of targets whose builds are there, by the records; those of the
/// others, all.
fn runs(
    env: &Env,
    loaded: &Loaded,
    expansion: &Expansion<'_>,
    selection: &Selection,
) -> anyhow::Result<MissingRuns> {
    let experiment = expansion.experiment;
    let Some(workload) = experiment.workload.map(|index| &loaded.matrix.workloads[index]) else {
        return Ok(MissingRuns::default());
    };
    let windows: f64 = bench::items(workload, selection)?
        .iter()
        .map(|item| item.seconds + workload.warmup_seconds())
        .sum();
    let visits = f64::from(experiment.repeats);
    let selected = (0..expansion.targets())
        .filter(|&target| {
            let found = expansion.target(target);
            let shown = selection.target(&found.name, &expansion.name(found.build));
            found.unavailable.is_none() && (shown || expansion.base == Some(target))
        })
        .count();
    // A base that is not built yet has no plan: then everything is missing.
    let records = bench::read_records(env, &Store::new(&env.results), &experiment.name)?;
    let args = RunArgs::default();
    let planned = match bench::plan(env, loaded, expansion, selection, &args, &records) {
        Ok(Some(planned)) => planned,
        Ok(None) => return Ok(MissingRuns::default()),
        Err(error) => {
            let line = format!("runs: all of {selected} targets missing: {error:#}");
            let seconds = windows * visits * selected as f64;
            return Ok(MissingRuns { seconds, line: Some(line) });
        }
    };
    let Planned { plan, left_out, shared } = planned;
    let blocks = plan.blocks(&records, jiff::Timestamp::now())?;
    let count: usize =
        blocks.iter().flat_map(|block| &block.visits).map(|visit| visit.items.len()).sum();
    let mut line = match count {
        0 => "runs: none missing for the builds that are there".to_owned(),
        _ => format!("runs: {count} missing, in {} blocks", blocks.len()),
    };
    let (refused, unbuilt): (Vec<_>, Vec<_>) =
        left_out.iter().partition(|left| left.cause == Cause::Mismatch);
    if !unbuilt.is_empty() {
        line.push_str(&format!("; and all of {} targets without a build", unbuilt.len()));
    }
    for LeftOut { target, reason, .. } in &refused {
        line.push_str(&format!("\n{target}: not measured: {reason}"));
    }
    for Shared { target, with } in &shared {
        line.push_str(&format!("\n{target}: same code and config as {with}: measured once"));
    }
    let settled = plan.targets.len() + refused.len() + shared.len();
    let unbuilt = selected.saturating_sub(settled) as f64;
    let seconds = plan.seconds(&blocks) + windows * visits * unbuilt;
    Ok(MissingRuns { seconds, line: Some(line) })
}

/// The most memory that this process has had, in MB of 1,000,000 bytes (`VmHWM`, proc(5)).
fn peak_memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap_or(0);
    kib * 1024 / 1_000_000
}
