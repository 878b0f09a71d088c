//! `compare`: tables from the stored records.

use std::collections::BTreeMap;

use crate::cli::{Common, CompareArgs, TableFormat};
use crate::cmd::bench::{self, read_records};
use crate::cmd::load::Loaded;
use crate::cmd::select::Selection;
use crate::compare::{Comparison, Current, Options, compare};
use crate::env::Env;
use crate::exit::{Code, coded};
use crate::hash::Digest;
use crate::host::Here;
use crate::matrix::expand::Expansion;
use crate::matrix::model::Workload;
use crate::record::Record;
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
    let base = args.base.as_deref();
    let comparison = of_experiment(env, common, &loaded, &expansion, base, Ids::Suite)?;
    print(&comparison, args.format)?;
    Ok(Code::Done)
}

/// What was run alone with `--only` had other items before it than in the whole suite, so it has
/// another workload id. Which of the two is shown where there are both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// The whole suite's.
    Suite,
    /// The selection's.
    Selected,
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
    ids: Ids,
) -> anyhow::Result<Comparison> {
    let experiment = expansion.experiment;
    let records = read_records(env, &Store::new(&env.results), &experiment.name)?;
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
    let current = current(env, expansion, &records, &base)?;
    let workload = experiment.workload.map(|index| &loaded.matrix.workloads[index]);
    let workloads = workload
        .map(|workload| workloads(env, workload, &selection, ids, &records))
        .transpose()?
        .flatten();
    let order = workload.map_or(Vec::new(), |workload| workload.microbenchmarks.clone());
    let options = Options { current, workloads, order, ..Options::default() };
    let mut comparison = compare(&records, &base, options)?;
    // Judged together, then shown in part.
    let build = |target: &str| target.split('.').next().unwrap_or(target).to_owned();
    comparison.show_only(&|target| selection.target(target, &build(target)), &|name| {
        selection.microbenchmark(name)
    });
    if comparison.hosts.iter().all(|host| host.rows.is_empty() || host.targets.is_empty()) {
        return Err(coded(Code::Input, "`--only` and `--skip` leave nothing to show"));
    }
    Ok(comparison)
}

/// The ids of the targets as they are on this machine. Where that cannot be told, because it lacks
/// a compiler, say, a target's latest records count; `None`, for all of them, where the base has
/// records of this machine and none is of what it would be now.
fn current(
    env: &Env,
    expansion: &Expansion<'_>,
    records: &[Record],
    base: &str,
) -> anyhow::Result<Option<Current>> {
    let (host, size) = (Here::look(&env.work)?.id, bench::host());
    let mut targets = BTreeMap::new();
    let mut unknown = Vec::new();
    for index in 0..expansion.targets() {
        let found = expansion.target(index);
        let id = match bench::identify(expansion, &found, size) {
            Ok(Ok(identity)) => Some(identity.id),
            Ok(Err(_)) | Err(_) => None,
        };
        if id.is_none() && records.iter().any(|record| record.target == found.name) {
            unknown.push(found.name.clone());
        }
        targets.insert(found.name, id);
    }
    let mut of_base = records.iter().filter(|it| it.host == host && it.target == base).peekable();
    let wanted = targets.get(base).copied().flatten();
    let tell = |what: &str| {
        env.reporter.warn(format!("{what}: the latest records are shown, whatever made them"));
    };
    if of_base.peek().is_some() && wanted.is_some_and(|id| of_base.all(|it| it.target_id != id)) {
        tell(&format!("no record of the base `{base}` is of what this machine would make it now"));
        return Ok(None);
    }
    if !unknown.is_empty() {
        let names = unknown.join("`, `");
        tell(&format!("this machine cannot tell what `{names}` would be now"));
    }
    Ok(Some(Current { host, targets }))
}

/// The ids that each row may have, the best one first; `None` where no record has one of them.
#[expect(clippy::type_complexity, reason = "the field of the options")]
fn workloads(
    env: &Env,
    workload: &Workload,
    selection: &Selection,
    ids: Ids,
    records: &[Record],
) -> anyhow::Result<Option<BTreeMap<(String, u32), Vec<Digest>>>> {
    let suite = bench::items(workload, &Selection::default())?;
    let selected = bench::items(workload, selection)?;
    let (first, second) = match ids {
        Ids::Suite => (suite, selected),
        Ids::Selected => (selected, suite),
    };
    let mut rows: BTreeMap<_, Vec<Digest>> = BTreeMap::new();
    for item in first.into_iter().chain(second) {
        rows.entry((item.microbenchmark, item.threads)).or_default().push(item.workload_id);
    }
    let known = |record: &Record| {
        let row = rows.get(&(record.microbenchmark.clone(), record.threads));
        row.is_some_and(|ids| ids.contains(&record.workload_id))
    };
    if records.is_empty() || records.iter().any(known) {
        return Ok(Some(rows));
    }
    env.reporter
        .warn("no record is of the workload as it stands now: the latest of each row are shown");
    Ok(None)
}

/// Prints a comparison to standard output.
///
/// # Errors
/// When standard output is closed.
pub fn print(comparison: &Comparison, format: TableFormat) -> anyhow::Result<()> {
    report::render_comparison(comparison, format, &mut std::io::stdout().lock())?;
    Ok(())
}
