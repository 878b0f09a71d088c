//! `compare`: tables from the stored records.

use std::collections::BTreeMap;

use crate::cli::{Common, CompareArgs, TableFormat};
use crate::cmd::bench::read_records;
use crate::cmd::load::Loaded;
use crate::compare::{Comparison, Options, compare};
use crate::env::Env;
use crate::exit::{Code, coded};
use crate::matrix::expand::Expansion;
use crate::record::store::Store;
use crate::report;

/// Runs the task.
///
/// # Errors
/// As [`crate::cmd::run`].
pub fn run(env: &Env, common: &Common, args: &CompareArgs) -> anyhow::Result<Code> {
    let loaded = Loaded::read(env)?;
    let experiment = loaded.experiment(args.experiment.as_deref())?;
    let expansion = loaded.expand(experiment, &common.set)?;
    let comparison = of_experiment(env, common, &loaded, &expansion, args.base.as_deref())?;
    print(&comparison, args.format)?;
    Ok(Code::Done)
}

/// Compares the stored records of an experiment, selected microbenchmarks and targets only.
///
/// # Errors
/// When there is no record, or the base is not among them.
pub fn of_experiment(
    env: &Env,
    common: &Common,
    loaded: &Loaded,
    expansion: &Expansion<'_>,
    base: Option<&str>,
) -> anyhow::Result<Comparison> {
    let experiment = expansion.experiment;
    let mut records = read_records(env, &Store::new(&env.results), &experiment.name)?;
    if records.is_empty() {
        return Err(coded(
            Code::Input,
            format!(
                "no record of experiment `{0}`; `cargo xtask matrix {0}` makes them",
                experiment.name
            ),
        ));
    }
    let base = match (base, expansion.base) {
        (Some(name), _) => name.to_owned(),
        (None, index) => expansion.target(index.unwrap_or(0)).name,
    };
    let selection = loaded.select(common, expansion)?;
    records.retain(|record| {
        selection.microbenchmark(&record.microbenchmark)
            && (record.target == base || selection.target(&record.target, &record.build))
    });
    let current: BTreeMap<_, _> = (0..expansion.targets())
        .map(|index| expansion.target(index))
        .filter_map(|target| Some((target.name, target.id?)))
        .collect();
    let order = experiment
        .workload
        .map_or(Vec::new(), |index| loaded.matrix.workloads[index].microbenchmarks.clone());
    compare(&records, &base, Options { current: Some(current), order, ..Options::default() })
}

/// Prints a comparison to standard output.
///
/// # Errors
/// When standard output is closed.
pub fn print(comparison: &Comparison, format: TableFormat) -> anyhow::Result<()> {
    report::render_comparison(comparison, format, &mut std::io::stdout().lock())?;
    Ok(())
}
