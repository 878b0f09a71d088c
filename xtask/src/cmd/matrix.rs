//! `matrix`: the whole way. What is done already is not done again.

use crate::cli::{Common, Format, MatrixArgs, PlanArgs};
use crate::cmd::load::Loaded;
use crate::cmd::{bench, build, compare, plan};
use crate::env::Env;
use crate::exit::Code;
use crate::progress::seconds;

/// Runs the task.
///
/// # Errors
/// As [`crate::cmd::run`].
pub fn run(env: &Env, common: &Common, args: &MatrixArgs) -> anyhow::Result<Code> {
    let result = stages(env, common, args);
    // Also after a failure: the reader wants to know what the time went into.
    let (spent, wall) = env.reporter.spent();
    if wall.as_secs() >= 2 && !spent.is_empty() {
        env.reporter.line(format!("time spent ({} in all; builds overlap):", seconds(wall)));
        for (what, time) in spent {
            env.reporter.line(format!("  {:>12}  {what}", seconds(time)));
        }
    }
    result
}

fn stages(env: &Env, common: &Common, args: &MatrixArgs) -> anyhow::Result<Code> {
    let loaded = Loaded::read(env)?;
    let experiment = loaded.experiment(args.experiment.as_deref())?;
    let expansion = loaded.expand(experiment, &common.set)?;
    let selection = loaded.select(common, &expansion)?;
    if args.dry_run {
        let experiment = Some(experiment.name.clone());
        let args = PlanArgs { experiment, summary: false, format: Format::Text };
        plan::print(env, &loaded, &expansion, &selection, &args)?;
        return Ok(Code::Done);
    }
    let builds = build::make_missing(env, &expansion, &selection)?;
    build::report(env, &builds);
    let Some(runs) = bench::run_missing(env, &loaded, &expansion, &selection)? else {
        env.reporter.line("this experiment has no workload: only the builds were made");
        return Ok(builds.code());
    };
    if runs.ok + runs.failed > 0 {
        env.reporter.line(format!("runs: {} measured, {} failed", runs.ok, runs.failed));
    } else {
        env.reporter.line("runs: all there already");
    }
    for (target, reason) in &runs.left_out {
        env.reporter.line(format!("{target}: left out: {reason}"));
    }
    let comparison = compare::of_experiment(env, common, &loaded, &expansion, None)?;
    compare::print(&comparison, args.format)?;
    Ok(if runs.failed > 0 { Code::CellFailed } else { builds.code() })
}
