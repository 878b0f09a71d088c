//! `--count-instructions`: makes the counts that are missing, and shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::{
    Identity, LeftOut, PATIENCE, Planned, host, identify, leave_out_damaged, plan, tell_left_out,
    warn_of_marked,
};
use crate::bench::callgrind::Valgrind;
use crate::bench::count::{Counter, count_id};
use crate::bench::driver::Driver;
use crate::bench::lock::{HostLock, Kind};
use crate::bench::plan::{Measure, Plan, Target};
use crate::bench::snapshot;
use crate::cli::{Common, RunArgs, TableFormat};
use crate::cmd::load::Loaded;
use crate::cmd::select::Selection;
use crate::compare::counts::{Counts, counts};
use crate::env::Env;
use crate::exit::{Code, coded};
use crate::hash::Digest;
use crate::host::Here;
use crate::matrix::expand::Expansion;
use crate::matrix::model::Engine;
use crate::proc::own_file;
use crate::record::count::{Count, Counted};
use crate::record::store::Store;
use crate::report as render;

/// Makes the selected counts that are missing, until each target has `times` of each
/// microbenchmark; `None` when the experiment has no workload.
///
/// # Errors
/// What stops all of them; with [`Code::Environment`] when there is no Valgrind. A failed count is
/// in the outcome.
pub fn count_missing(
    env: &Env,
    loaded: &Loaded,
    expansion: &Expansion<'_>,
    selection: &Selection,
    args: &RunArgs,
    times: u16,
) -> anyhow::Result<Option<Code>> {
    super::check_globs(expansion, &args.allow_mismatch)?;
    let valgrind = Valgrind::find()?;
    let store = Store::counts(&env.results);
    let experiment = &expansion.experiment.name;
    let Some(mut planned) = plan(env, loaded, expansion, selection, args, &[])? else {
        return Ok(None);
    };
    if let Some(target) =
        planned.plan.targets.iter().find(|it| it.install.engine != Engine::Postgres)
    {
        let text = format!(
            "instructions of `{}` cannot be counted: that is possible for PostgreSQL only, where each \
             connection has a process of its own; time it instead",
            target.name
        );
        return Err(coded(Code::Input, text));
    }
    let _lock = HostLock::take(&env.work, Kind::Alone, PATIENCE, &env.reporter)?;
    leave_out_damaged(env, &mut planned)?;
    warn_of_marked(env, &planned.plan);
    let Planned { plan, left_out, shared } = planned;
    // Whoever held the lock may have counted meanwhile.
    let (known, damages) = store.read_all(experiment)?;
    for damage in damages {
        env.reporter.warn(damage.to_string());
    }
    let begin = Instant::now();
    let driver = Driver::build(&env.root, own_file())?;
    env.reporter.account("load driver", begin.elapsed());
    let counter =
        Counter { env, tool: &own_file(), driver: &driver, plan: &plan, valgrind: &valgrind };
    let jobs = missing(&plan, &known, &driver, &valgrind, times)?;
    let mut outcome = super::Outcome { left_out, shared, ..super::Outcome::default() };
    if !jobs.is_empty() {
        Here::look(&env.work)?.note(&env.results.join("hosts"), jiff::Timestamp::now())?;
        // Left over from a call that was killed: nobody else can be here.
        snapshot::remove_unfinished(&env.staging())?;
    }
    let task = env.reporter.task("count", Some(jobs.len() as u64));
    for (done, (target, item)) in jobs.into_iter().enumerate() {
        let name = format!("{} {}", target.name, item.microbenchmark);
        task.message(name.clone());
        let count = counter.count(target, item)?;
        match &count.outcome {
            Counted::Ok(found) => {
                outcome.ok += 1;
                let each = render::counts::grouped(found.per_operation());
                env.reporter.line(format!("{name} {each} instructions per operation"));
            }
            Counted::Failed { reason, .. } => {
                outcome.failed += 1;
                env.reporter.warn(format!("{name} failed: {reason}"));
            }
        }
        if let Some(damage) = store.append(&count)? {
            env.reporter.warn(damage.to_string());
        }
        task.position(done as u64 + 1);
        if outcome.failed > 0 && !env.keep_going {
            break;
        }
    }
    task.finish(format!("{} counts", outcome.ok));
    tell_left_out(env, &outcome);
    env.reporter.line(match outcome.ok + outcome.failed {
        0 => "counts: all there already".to_owned(),
        _ => format!("counts: {} made, {} failed", outcome.ok, outcome.failed),
    });
    Ok(Some(outcome.code()))
}

/// What is still to be counted, in the order in which it is: a round of all targets for each
/// microbenchmark, then the next round. Counts of another driver or Valgrind are others.
fn missing<'a>(
    plan: &'a Plan,
    known: &[Count],
    driver: &Driver,
    valgrind: &Valgrind,
    times: u16,
) -> anyhow::Result<Vec<(&'a Target, &'a Measure)>> {
    let mut jobs = Vec::new();
    let mut names = BTreeSet::new();
    for item in &plan.items {
        // One connection, whatever the numbers of clients.
        if !names.insert(&item.microbenchmark) {
            continue;
        }
        let id = count_id(plan, item)?;
        for target in &plan.targets {
            let there = known.iter().filter(|count| {
                count.host == plan.host
                    && (count.target_id, count.count_id) == (target.id, id)
                    && count.target == target.name
                    && count.driver == driver.digest()
                    && count.instrument == valgrind.version
                    && matches!(count.outcome, Counted::Ok(_))
            });
            let there = there.count();
            jobs.extend((there..usize::from(times)).map(|round| (round, (target, item))));
        }
    }
    jobs.sort_by_key(|(round, _)| *round);
    Ok(jobs.into_iter().map(|(_, job)| job).collect())
}

/// Prints the table of the stored counts of an experiment.
///
/// # Errors
/// With [`Code::Input`] when there is none of the base and another target.
pub fn show(
    env: &Env,
    common: &Common,
    loaded: &Loaded,
    expansion: &Expansion<'_>,
    base: Option<&str>,
    format: TableFormat,
) -> anyhow::Result<()> {
    let Some(found) = stored(env, common, loaded, expansion, base)? else {
        let name = &expansion.experiment.name;
        let text = format!(
            "no count of experiment `{name}` to compare; `cargo xtask bench {name} \
             --count-instructions` makes them"
        );
        return Err(coded(Code::Input, text));
    };
    render::counts::write(&found, format, &mut std::io::stdout().lock())
}

/// The stored counts of an experiment; `None` when there are none to compare.
///
/// # Errors
/// When a file cannot be read, or what is selected matches nothing.
pub fn stored(
    env: &Env,
    common: &Common,
    loaded: &Loaded,
    expansion: &Expansion<'_>,
    base: Option<&str>,
) -> anyhow::Result<Option<Counts>> {
    let (mut all, damages) = Store::counts(&env.results).read_all(&expansion.experiment.name)?;
    if all.is_empty() {
        return Ok(None);
    }
    for damage in damages {
        env.reporter.warn(damage.to_string());
    }
    let base = match base {
        Some(name) => name.to_owned(),
        None => expansion.target(expansion.base.unwrap_or(0)).name,
    };
    let selection = loaded.select(common, expansion)?;
    all.retain(|count| {
        selection.microbenchmark(&count.microbenchmark)
            && (count.target == base || selection.target(&count.target, &count.build))
    });
    let (here, mut ids) = (Here::look(&env.work)?.id, BTreeMap::new());
    let size = host();
    for index in 0..expansion.targets() {
        let found = expansion.target(index);
        let known: Result<Identity, LeftOut> = match identify(expansion, &found, size) {
            Ok(known) => known,
            Err(_) => continue,
        };
        ids.extend(known.ok().map(|Identity { id, .. }| (found.name, id)));
    }
    // On this machine a target is what it would be now; elsewhere what it was last.
    let current = |count: &Count| -> Option<Digest> {
        ids.get(&count.target).copied().filter(|_| count.host == here)
    };
    all.retain(|count| current(count).is_none_or(|id| id == count.target_id));
    let found = counts(&all, &base, &catalog::names().collect::<Vec<_>>());
    Ok(found.hosts.iter().any(|host| !host.rows.is_empty()).then_some(found))
}
