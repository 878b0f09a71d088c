//! `bench`: makes the runs that are missing, against builds that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use catalog::protocol::{Data, WireProtocol};

use crate::bench;
use crate::bench::driver::Driver;
use crate::bench::lock::{HostLock, Kind};
use crate::bench::placement;
use crate::bench::plan::{Plan, Work};
use crate::bench::share::{Shared, share};
use crate::bench::snapshot::Fill;
use crate::bench::sysbench::Sysbench;
use crate::build::store::{self, Store as Builds};
use crate::cli::{BenchArgs, Common, RunArgs};
use crate::cmd::load::Loaded;
use crate::cmd::select::Selection;
use crate::env::Env;
use crate::exit::{Code, coded};
use crate::hash::Digest;
use crate::host::Here;
use crate::matrix::expand::Expansion;
use crate::matrix::model::{Engine, LoadDriver, SameCode, Suite, Workload, WorkloadKind};
use crate::matrix::pattern::glob_matches;
use crate::proc::own_file;
use crate::record::Record;
use crate::record::store::Store;

pub mod count;
mod items;
pub mod profile;
mod target;

pub use items::items;
pub use target::{Identity, host, identify};

/// How long a benchmark waits for builds and other benchmarks on the same host.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// A target that is left out, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The target.
    pub target: String,
    /// Why, in words.
    pub reason: String,
    /// Why.
    pub cause: Cause,
}

/// Why a target is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The matrix file says so itself: its build cannot be had on this machine.
    Unavailable,
    /// Its build is not there.
    NotBuilt,
    /// Its binaries are not what was asked for.
    Mismatch,
    /// Something is damaged or missing.
    Broken,
}

/// What came of the runs of an experiment.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Runs that were measured now.
    pub ok: usize,
    /// Runs that failed now.
    pub failed: usize,
    /// Targets that were left out.
    pub left_out: Vec<LeftOut>,
    /// Targets that another one's runs stand for.
    pub shared: Vec<Shared>,
}

impl Outcome {
    /// The exit code: a target that cannot be had here is no failure; a failed run, a build that is
    /// missing, damaged or not what was asked for and a missing library are.
    pub fn code(&self) -> Code {
        let fails =
            self.failed > 0 || self.left_out.iter().any(|left| left.cause != Cause::Unavailable);
        if fails { Code::CellFailed } else { Code::Done }
    }
}

/// What is to be run, and what is not.
pub struct Planned {
    /// The runs, with nothing left to be looked up.
    pub plan: Plan,
    /// Targets that are left out.
    pub left_out: Vec<LeftOut>,
    /// Targets that another one's runs stand for.
    pub shared: Vec<Shared>,
}

/// Runs the task.
///
/// # Errors
/// As [`crate::cmd::run`].
pub fn run(env: &Env, common: &Common, args: &BenchArgs) -> anyhow::Result<Code> {
    let loaded = Loaded::read(env)?;
    let experiment = loaded.experiment(args.experiment.as_deref())?;
    let expansion = loaded.expand(experiment, &common.set)?;
    let selection = loaded.select(common, &expansion)?;
    let none = || {
        let text = format!("experiment `{}` has no workload: nothing to run", experiment.name);
        coded(Code::Input, text)
    };
    if let Some(times) = args.run.count_instructions {
        let (run, select) = (&args.run, &selection);
        return count::count_missing(env, &loaded, &expansion, select, run, times)?
            .ok_or_else(none);
    }
    if args.profile {
        return profile::run(env, &loaded, &expansion, &selection, &args.run)?.ok_or_else(none);
    }
    let outcome = run_missing(env, &loaded, &expansion, &selection, &args.run)?.ok_or_else(none)?;
    report(env, &outcome);
    Ok(outcome.code())
}

/// Tells what came of the runs.
pub fn report(env: &Env, outcome: &Outcome) {
    tell_left_out(env, outcome);
    if outcome.ok + outcome.failed > 0 {
        env.reporter.line(format!("runs: {} measured, {} failed", outcome.ok, outcome.failed));
    } else {
        env.reporter.line("runs: all there already");
    }
}

/// Tells what is not run.
fn tell_left_out(env: &Env, outcome: &Outcome) {
    for LeftOut { target, reason, .. } in &outcome.left_out {
        env.reporter.line(format!("{target}: left out: {reason}"));
    }
    for Shared { target, with } in &outcome.shared {
        env.reporter.line(format!(
            "{target}: same code and config as {with}, whose runs stand for both (`--aa` measures \
             each)"
        ));
    }
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
    args: &RunArgs,
) -> anyhow::Result<Option<Outcome>> {
    check_globs(expansion, &args.allow_mismatch)?;
    let store = Store::new(&env.results);
    let name = &expansion.experiment.name;
    let (records, _) = store.read_all(name)?;
    let Some(planned) = plan(env, loaded, expansion, selection, args, &records)? else {
        return Ok(None);
    };
    // A call that has nothing to do waits for nobody.
    if planned.plan.blocks(&records, jiff::Timestamp::now())?.is_empty() {
        let Planned { left_out, shared, .. } = planned;
        return Ok(Some(Outcome { left_out, shared, ..Outcome::default() }));
    }
    let _lock = HostLock::take(&env.work, Kind::Alone, PATIENCE, &env.reporter)?;
    // Whoever held the lock may have made builds and runs meanwhile: look again.
    let records = read_records(env, &store, name)?;
    let Some(mut planned) = plan(env, loaded, expansion, selection, args, &records)? else {
        return Ok(None);
    };
    leave_out_damaged(env, &mut planned)?;
    warn_of_marked(env, &planned.plan);
    let Planned { mut plan, left_out, shared } = planned;
    let mut outcome = Outcome { left_out, shared, ..Outcome::default() };
    let begin = std::time::Instant::now();
    let workload = expansion.experiment.workload.map(|index| &loaded.matrix.workloads[index]);
    let driver = driver(env, loaded, workload, &mut plan)?;
    env.reporter.account("load driver", begin.elapsed());
    let blocks = plan.blocks(&records, jiff::Timestamp::now())?;
    Here::look(&env.work)?.note(&env.results.join("hosts"), jiff::Timestamp::now())?;
    let begin = std::time::Instant::now();
    let mut sink = |record: Record| -> anyhow::Result<()> {
        if let Some(damage) = store.append(&record)? {
            env.reporter.warn(damage.to_string());
        }
        Ok(())
    };
    let measured = plan.base_measured(&records);
    let summary =
        bench::run::run(env, &own_file(), driver.as_ref(), &plan, &blocks, measured, &mut sink)?;
    env.reporter.account("benchmark", begin.elapsed());
    (outcome.ok, outcome.failed) = (summary.ok, summary.failed);
    Ok(Some(outcome))
}

/// Makes what measures ready and notes it in the plan: the load driver, or the workload's programs.
fn driver(
    env: &Env,
    loaded: &Loaded,
    workload: Option<&Workload>,
    plan: &mut Plan,
) -> anyhow::Result<Option<Driver>> {
    let commands: Vec<&[String]> = plan
        .items
        .iter()
        .filter_map(|item| match &item.work {
            Work::Command(command) => Some(command.words.as_slice()),
            Work::Microbenchmark | Work::Insert(_) => None,
        })
        .collect();
    if commands.is_empty() {
        let driver = Driver::build(&env.root, own_file())?;
        plan.driver = Some(driver.digest());
        if let Some(WorkloadKind::Sysbench(Suite { driver: LoadDriver::Sysbench, .. })) =
            workload.map(|workload| &workload.kind)
        {
            let sysbench = sysbench(env, plan)?;
            plan.driver = Some(sysbench.digest());
            plan.sysbench = Some(sysbench);
        }
        return Ok(Some(driver));
    }
    if let Some(WorkloadKind::SqlBench(suite)) = workload.map(|workload| &workload.kind) {
        plan.folder = Some(bench::sqlbench::prepare(env, &loaded.matrix.sources[suite.source])?);
    }
    let root = plan.folder.as_ref().unwrap_or(&env.root);
    plan.driver = Some(bench::command::digest(root, commands.into_iter())?);
    Ok(None)
}

/// The program `sysbench`, which must speak to all targets; what it lacks is told.
fn sysbench(env: &Env, plan: &Plan) -> anyhow::Result<Sysbench> {
    let sysbench = Sysbench::find(own_file())?;
    for target in &plan.targets {
        sysbench.check(match target.install.engine {
            Engine::Postgres => WireProtocol::Postgres,
            Engine::Mysql | Engine::Mariadb => WireProtocol::Mysql,
        })?;
    }
    env.reporter.line(format!("load driver: sysbench {}", sysbench.version()));
    for note in sysbench.notes() {
        env.reporter.line(format!("sysbench: {note}"));
    }
    Ok(sysbench)
}

/// A glob of `--allow-mismatch` that matches nothing is a slip of the pen.
fn check_globs(expansion: &Expansion<'_>, globs: &[String]) -> anyhow::Result<()> {
    for glob in globs {
        let build = |build| glob_matches(glob, &expansion.name(build));
        let target = |target| glob_matches(glob, &expansion.target(target).name);
        if !(0..expansion.builds()).any(build) && !(0..expansion.targets()).any(target) {
            let text = format!("`--allow-mismatch={glob}` matches no build and no target");
            return Err(coded(Code::Input, text));
        }
    }
    Ok(())
}

/// Says of which targets the runs will be marked, before hours are spent on them.
fn warn_of_marked(env: &Env, plan: &Plan) {
    for (index, target) in plan.targets.iter().enumerate() {
        let Some(mark) = &target.audit else { continue };
        let (name, text) = (&target.name, mark.text());
        let base = if index == 0 { "THE BASE IS NOT WHAT WAS ASKED FOR: " } else { "" };
        env.reporter.warn(format!(
            "{base}`{name}` runs although its binaries are not what was asked for ({text}); its \
             rows are marked for ever"
        ));
    }
}

/// Takes targets whose build was changed since it was made out of the plan, and with each of them
/// those that its runs would have stood for.
fn leave_out_damaged(env: &Env, planned: &mut Planned) -> anyhow::Result<()> {
    let Planned { plan, left_out, shared } = planned;
    let builds = Builds::read(env);
    let mut damaged: BTreeMap<Digest, Option<String>> = BTreeMap::new();
    let mut targets = Vec::new();
    let mut gone = BTreeSet::new();
    for (index, target) in std::mem::take(&mut plan.targets).into_iter().enumerate() {
        let found = damaged.entry(target.build_id).or_insert_with(|| {
            let own = target.install.prefix.starts_with(env.builds());
            let verify = || store::verify(env, &builds, &target.build, target.build_id).err();
            own.then(verify).flatten().map(|error| format!("{error:#}"))
        });
        match found.clone() {
            None => targets.push(target),
            Some(reason) if index == 0 => return Err(no_base(&target.name, &reason)),
            Some(reason) => {
                gone.insert(target.name.clone());
                left_out.push(LeftOut { target: target.name, reason, cause: Cause::Broken });
            }
        }
    }
    plan.targets = targets;
    shared.retain(|Shared { target, with }| {
        let lost = gone.contains(with);
        if lost {
            let reason = format!("it has the same code as `{with}`, which is left out");
            left_out.push(LeftOut { target: target.clone(), reason, cause: Cause::Broken });
        }
        !lost
    });
    Ok(())
}

fn no_base(name: &str, reason: &str) -> anyhow::Error {
    coded(Code::CellFailed, format!("the base `{name}` cannot be measured: {reason}"))
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

/// The runs of an experiment, given its records; `None` when it has no workload.
///
/// # Errors
/// When the base cannot be measured, or a formula has no value here.
pub fn plan(
    env: &Env,
    loaded: &Loaded,
    expansion: &Expansion<'_>,
    selection: &Selection,
    args: &RunArgs,
    records: &[Record],
) -> anyhow::Result<Option<Planned>> {
    let experiment = expansion.experiment;
    let Some(workload) = experiment.workload.map(|index| &loaded.matrix.workloads[index]) else {
        return Ok(None);
    };
    let here = Here::look(&env.work)?;
    let mut finder = target::Finder::new(env, expansion, &args.allow_mismatch);
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
        match finder.target(&found)? {
            Ok(target) => targets.push(target),
            Err(left) if index == base => return Err(no_base(&found.name, &left.reason)),
            Err(left) => left_out.push(left),
        }
    }
    let suite = match &workload.kind {
        WorkloadKind::Sysbench(suite) => Some(suite),
        _ => None,
    };
    let mut plan = Plan {
        experiment: experiment.name.clone(),
        targets,
        workload: workload.name.clone(),
        fill: fill(env, workload)?,
        key_seed: workload.seed,
        warmup_seconds: workload.warmup_seconds(),
        prepared: suite.is_some_and(|suite| suite.prepared),
        rate: suite.and_then(|suite| suite.rate),
        error_limit: suite.map_or(0.0, |suite| suite.error_limit),
        items: items(workload, selection)?,
        placement: workload.placement,
        repeats: experiment.repeats,
        seed: experiment.seed,
        host: here.id,
        boot: here.boot,
        kernel: here.state.kernel,
        sysbench: None,
        profile: None,
        folder: None,
        driver: None,
        cores: placement::cores()?,
    };
    let each = args.aa || experiment.same_code == SameCode::Aa;
    let shared = if each { Vec::new() } else { share(&mut plan, records) };
    Ok(Some(Planned { plan, left_out, shared }))
}

/// What fills the data directories of a workload.
fn fill(env: &Env, workload: &Workload) -> anyhow::Result<Fill> {
    Ok(match &workload.kind {
        WorkloadKind::Sysbench(suite) => {
            Fill::Tables(Data { tables: suite.tables, rows: suite.rows, seed: workload.seed })
        }
        WorkloadKind::SqlBench(_) | WorkloadKind::InsertBenchmark(_) => Fill::Nothing,
        WorkloadKind::Command(command) if command.load.is_empty() => Fill::Nothing,
        WorkloadKind::Command(command) => Fill::Program {
            words: command.load.clone(),
            program: bench::command::digest(&env.root, std::iter::once(command.load.as_slice()))?,
            seed: workload.seed,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_cannot_be_had_are_no_failure_and_missing_ones_are() {
        let left = |cause| LeftOut { target: "t".to_owned(), reason: String::new(), cause };
        let code = |failed, left_out: &[LeftOut]| {
            Outcome { ok: 1, failed, left_out: left_out.to_vec(), ..Outcome::default() }.code()
        };
        assert_eq!(code(0, &[]), Code::Done);
        assert_eq!(code(0, &[left(Cause::Unavailable)]), Code::Done);
        for cause in [Cause::NotBuilt, Cause::Mismatch, Cause::Broken] {
            assert_eq!(code(0, &[left(Cause::Unavailable), left(cause)]), Code::CellFailed);
        }
        assert_eq!(code(1, &[]), Code::CellFailed);
    }
}
