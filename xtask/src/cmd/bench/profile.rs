//! `bench --profile`: one window of each target and microbenchmark under perf, and the pictures.

use std::collections::BTreeMap;
use std::path::Path;

use fs_err as fs;

use super::{Outcome, PATIENCE, Planned, leave_out_damaged, plan, report, warn_of_marked};
use crate::bench;
use crate::bench::driver::Driver;
use crate::bench::lock::{HostLock, Kind};
use crate::bench::plan::{Plan, Profile, Work};
use crate::bench::profile::{Perf, difference, flame, place};
use crate::cli::RunArgs;
use crate::cmd::load::Loaded;
use crate::cmd::select::Selection;
use crate::env::Env;
use crate::exit::{Code, coded};
use crate::host::Here;
use crate::matrix::expand::Expansion;
use crate::proc::own_file;
use crate::record::{Outcome as Came, Record};

/// Profiles what is selected; `None` when the experiment has no workload. No records are made:
/// sampling slows the server down.
///
/// # Errors
/// With [`Code::Environment`] without perf; what stops all runs.
pub fn run(
    env: &Env,
    loaded: &Loaded,
    expansion: &Expansion<'_>,
    selection: &Selection,
    args: &RunArgs,
) -> anyhow::Result<Option<Code>> {
    let perf = Perf::find()?;
    let Some(mut planned) = plan(env, loaded, expansion, selection, args, &[])? else {
        return Ok(None);
    };
    if planned.plan.items.iter().any(|item| !matches!(item.work, Work::Microbenchmark)) {
        return Err(coded(Code::Input, "only microbenchmarks can be profiled"));
    }
    let _lock = HostLock::take(&env.work, Kind::Alone, PATIENCE, &env.reporter)?;
    leave_out_damaged(env, &mut planned)?;
    warn_of_marked(env, &planned.plan);
    let Planned { mut plan, left_out, shared } = planned;
    let experiment = &plan.experiment;
    let folder = env.results.join("profiles").join(experiment).join(&plan.host);
    fs::create_dir_all(&folder)?;
    Here::look(&env.work)?.note(&env.results.join("hosts"), jiff::Timestamp::now())?;
    let driver = Driver::build(&env.root, own_file())?;
    plan.driver = Some(driver.digest());
    plan.repeats = 1;
    plan.profile = Some(Profile { perf, folder: folder.clone() });
    let blocks = plan.blocks(&[], jiff::Timestamp::now())?;
    let mut failed = Vec::new();
    let mut sink = |record: Record| {
        if matches!(record.outcome, Came::Failed { .. }) {
            failed.push((record.target, record.microbenchmark));
        }
        Ok(())
    };
    let tool = own_file();
    let summary = bench::run::run(env, &tool, Some(&driver), &plan, &blocks, false, &mut sink)?;
    let outcome = Outcome { ok: summary.ok, failed: summary.failed, left_out, shared };
    report(env, &outcome);
    let drawn = draw(env, &plan, &folder)?;
    env.reporter.line(format!("profiles: {drawn} pictures in {}", folder.display()));
    Ok(Some(outcome.code()))
}

/// Draws every profile of the plan, and of each target what differs from the base.
fn draw(env: &Env, plan: &Plan, folder: &Path) -> anyhow::Result<usize> {
    let mut drawn = 0;
    for item in &plan.items {
        let place = folder.join(place(&item.microbenchmark, item.threads));
        let mut texts = BTreeMap::new();
        for (index, target) in plan.targets.iter().enumerate() {
            let Ok(text) = fs::read_to_string(place.join(format!("{}.folded", target.name))) else {
                continue;
            };
            let samples = text.lines().filter_map(|line| line.rsplit_once(' '));
            let samples: u64 = samples.filter_map(|(_, count)| count.parse::<u64>().ok()).sum();
            let name = &item.microbenchmark;
            let title = format!("{name}, {}, {samples} samples", target.name);
            fs::write(place.join(format!("{}.svg", target.name)), flame(&text, &title)?)?;
            drawn += 1;
            texts.insert(index, text);
        }
        let Some(base) = texts.remove(&0) else { continue };
        for (index, text) in texts {
            let (target, name) = (&plan.targets[index].name, &item.microbenchmark);
            let title = format!("{name}, {target} against {}", plan.targets[0].name);
            let file = place.join(format!("{target}.diff.svg"));
            fs::write(&file, difference(&base, &text, &title)?)?;
            env.reporter.line(format!("profile: {}", file.display()));
            drawn += 1;
        }
    }
    Ok(drawn)
}
