//! `matrix`: the whole way. What is done already is not done again.

use crate::cli::{Common, Format, MatrixArgs, PlanArgs, TableFormat};
use crate::cmd::load::Loaded;
use crate::cmd::{bench, build, compare, plan};
use crate::env::Env;
use crate::exit::{Code, code_of};
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
        let format = if args.format == TableFormat::Json { Format::Json } else { Format::Text };
        let experiment = Some(experiment.name.clone());
        let args = PlanArgs { experiment, summary: false, format };
        plan::print(env, &loaded, &expansion, &selection, &args)?;
        return Ok(Code::Done);
    }
    let builds = build::make_missing(env, &expansion, &selection)?;
    build::report(env, &builds);
    if let Some(times) = args.run.count_instructions {
        let (run, select) = (&args.run, &selection);
        let counted = bench::count::count_missing(env, &loaded, &expansion, select, run, times)?;
        let Some(code) = counted else {
            env.reporter.line("this experiment has no workload: only the builds were made");
            return Ok(builds.code());
        };
        bench::count::show(env, common, &loaded, &expansion, None, args.format)?;
        return Ok(if builds.code() == Code::Done { code } else { builds.code() });
    }
    let runs = match bench::run_missing(env, &loaded, &expansion, &selection, &args.run) {
        Ok(Some(runs)) => {
            bench::report(env, &runs);
            Ok(if builds.code() == Code::Done { runs.code() } else { builds.code() })
        }
        Ok(None) => {
            env.reporter.line("this experiment has no workload: only the builds were made");
            return Ok(builds.code());
        }
        Err(error) if code_of(&error) == Code::Interrupted => return Err(error),
        Err(error) => Err(error),
    };
    // Whatever became of the runs: what is there is shown.
    let ids = compare::Ids::Selected;
    let shown = compare::of_experiment(env, common, &loaded, &expansion, None, ids)
        .and_then(|comparison| compare::print(&comparison, &[], args.format));
    match (runs, shown) {
        (Ok(code), Ok(())) => Ok(code),
        (Ok(_), Err(error)) => Err(error),
        (Err(error), Ok(())) => Err(error),
        (Err(error), Err(other)) => {
            env.reporter.line(format!("nothing to compare: {other:#}"));
            Err(error)
        }
    }
}
