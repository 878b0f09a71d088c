//! `compare`: tables from the stored records.

use std::collections::BTreeMap;

use crate::bench::plan::target_id;
use crate::build::code;
use crate::build::store::Manifests;
use crate::cli::{Common, CompareArgs, TableFormat};
use crate::cmd::bench::{self, Identity, read_records};
use crate::cmd::build;
use crate::cmd::import;
use crate::cmd::load::Loaded;
use crate::cmd::select::Selection;
use crate::compare::gate::Gate;
use crate::compare::{Comparison, Current, Made, Options, compare};
use crate::env::Env;
use crate::exit::{Code, coded};
use crate::hash::Digest;
use crate::host::Here;
use crate::matrix::expand::Expansion;
use crate::matrix::model::{SameCode, Workload};
use crate::record::store::Store;
use crate::record::{Mark, Record};
use crate::report::{self, View};
use crate::server::Settings;

mod shown;

/// Runs the task.
///
/// # Errors
/// As [`crate::cmd::run`].
pub fn run(env: &Env, common: &Common, args: &CompareArgs) -> anyhow::Result<Code> {
    if let Some(name) = &args.experiment
        && let Some(code) = imported(env, common, name, args)?
    {
        return Ok(code);
    }
    let loaded = Loaded::read(env)?;
    let experiment = loaded.experiment(args.experiment.as_deref())?;
    let expansion = loaded.expand(experiment, &common.set)?;
    let base = args.base.as_deref();
    if args.count_instructions {
        bench::count::show(env, common, &loaded, &expansion, base, args.format)?;
        return Ok(Code::Done);
    }
    // A word that a name here matches is a glob, as everywhere.
    let is_name = |word: &str| {
        let only = Common { only: vec![word.to_owned()], skip: Vec::new(), ..common.clone() };
        loaded.select(&only, &expansion).is_ok()
    };
    let (common, which) = shown::split(common, &is_name);
    let common = &common;
    let mut comparison = of_experiment(env, common, &loaded, &expansion, base, Ids::Suite)?;
    judge(&mut comparison, &args.fail_on)?;
    if shown::narrow(env, &mut comparison, args, &which)? || args.format == TableFormat::Json {
        print(&comparison, &args.view, args.format)?;
    }
    // Beside the runs, for people; programs ask for either.
    if args.format == TableFormat::Text
        && let Some(found) = bench::count::stored(env, common, &loaded, &expansion, base)?
    {
        println!();
        report::counts::write(&found, args.format, &mut std::io::stdout().lock())?;
    }
    Ok(tell_gates(env, &comparison))
}

/// Tells what the gates came to: one line each, and annotations where GitHub runs this.
fn tell_gates(env: &Env, comparison: &Comparison) -> Code {
    let github = std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true");
    let mut code = Code::Done;
    for judged in &comparison.gates {
        if judged.trips.is_empty() {
            env.reporter.line(format!("gate passed: {}", judged.gate));
        }
        for trip in &judged.trips {
            code = Code::Gate;
            let text = format!("{}: {}", judged.gate, trip.text());
            env.reporter.warn(format!("gate tripped: {text}"));
            if github {
                // A workflow command; `%` begins an escape in it.
                let escaped = text.replace('%', "%25").replace(['\n', '\r'], " ");
                eprintln!("::error title=cargo xtask compare::{escaped}");
            }
        }
    }
    code
}

/// Compares an experiment whose records were all imported: the matrix file does not know it.
fn imported(
    env: &Env,
    common: &Common,
    name: &str,
    args: &CompareArgs,
) -> anyhow::Result<Option<Code>> {
    if name.contains('/') || name.starts_with('.') {
        return Ok(None);
    }
    let (records, _) = Store::new(&env.results).read_all(name)?;
    if records.is_empty() || records.iter().any(|record: &Record| record.imported.is_none()) {
        return Ok(None);
    }
    let base = import::base_of(&records, args.base.as_deref());
    let mut comparison = compare(&records, &base, import::order())?;
    judge(&mut comparison, &args.fail_on)?;
    let (_, which) = shown::split(common, &|_| false);
    if shown::narrow(env, &mut comparison, args, &which)? || args.format == TableFormat::Json {
        print(&comparison, &args.view, args.format)?;
    }
    Ok(Some(tell_gates(env, &comparison)))
}

/// Holds a comparison against gates.
fn judge(comparison: &mut Comparison, gates: &[String]) -> anyhow::Result<()> {
    for text in gates {
        let judged = Gate::parse(text).and_then(|gate| gate.judge(comparison));
        comparison.gates.push(judged.map_err(|text| coded(Code::Input, text))?);
    }
    Ok(())
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
    let (current, known) = current(env, expansion, &records, &base)?;
    let here = current.as_ref().map(|current| current.host.clone());
    let workload = experiment.workload.map(|index| &loaded.matrix.workloads[index]);
    let workloads = workload
        .map(|workload| workloads(env, workload, &selection, ids, &records))
        .transpose()?
        .flatten();
    let order = workload.map_or(Vec::new(), Workload::names);
    let options = Options { current, workloads, order, ..Options::default() };
    let mut comparison = compare(&records, &base, options)?;
    let manifests = Manifests::list(env);
    if let Some(here) = here.filter(|_| experiment.same_code == SameCode::Share) {
        let made: Vec<Made> =
            known.iter().map(|(made, id)| with_code(made, id, &manifests)).collect();
        comparison.share_runs(&here, &made);
    }
    comparison.annotate(&|name, id| manifests.get(name, id));
    comparison.builds =
        build::sizes(expansion, &selection, &|name, id| manifests.get(name, id).ok());
    let sources: BTreeMap<String, String> = (0..expansion.targets())
        .map(|index| {
            let target = expansion.target(index);
            (target.name, expansion.source(target.build).to_owned())
        })
        .collect();
    comparison.find_effects(&|target| sources.get(target).cloned());
    // Judged together, then shown in part.
    let build = |target: &str| target.split('.').next().unwrap_or(target).to_owned();
    comparison.show_only(&|target| selection.target(target, &build(target)), &|name| {
        selection.microbenchmark(name)
    });
    if comparison.hosts.iter().all(|host| host.rows.is_empty() || host.targets.is_empty()) {
        let text = if common.only.is_empty() && common.skip.is_empty() {
            "only the base has runs here: there is nothing to compare it with"
        } else {
            "`--only` and `--skip` leave nothing to show"
        };
        return Err(coded(Code::Input, text));
    }
    Ok(comparison)
}

/// A target of this machine, with what its server gets and its `initdb`.
type Known = (Made, (Settings, Vec<String>));

/// What a target's manifest adds to what is known of it: its code, and what the audit says.
fn with_code(made: &Made, (server, init): &(Settings, Vec<String>), all: &Manifests) -> Made {
    // Only a build that was made somewhere has code.
    let Ok(manifest) = all.get(&made.build, made.build_id) else { return made.clone() };
    Made {
        code_id: code::digest(&manifest).map(|code| target_id(&code, server, init)),
        audit: manifest.audit.as_ref().and_then(Mark::of),
        ..made.clone()
    }
}

/// The ids of the targets as they are on this machine, and what is known of them. Where that cannot
/// be told, because it lacks a compiler, say, a target's latest records count; `None`, for all of
/// them, where the base has records of this machine and none is of what it would be now.
fn current(
    env: &Env,
    expansion: &Expansion<'_>,
    records: &[Record],
    base: &str,
) -> anyhow::Result<(Option<Current>, Vec<Known>)> {
    let (host, size) = (Here::look(&env.work)?.id, bench::host());
    let mut targets = BTreeMap::new();
    let (mut unknown, mut known) = (Vec::new(), Vec::new());
    for index in 0..expansion.targets() {
        let found = expansion.target(index);
        let id = match bench::identify(expansion, &found, size) {
            Ok(Ok(Identity { spec, server, id })) => {
                let made = Made {
                    target: found.name.clone(),
                    build: spec.name,
                    build_id: spec.id,
                    code_id: None,
                    installed: spec.toolchain.is_none(),
                    settings: spec.settings.iter().chain(&found.run).cloned().collect(),
                    config: found.config.clone(),
                    audit: None,
                    same_as: None,
                };
                known.push((made, (server, found.server.init.clone())));
                Some(id)
            }
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
        return Ok((None, Vec::new()));
    }
    if !unknown.is_empty() {
        let names = unknown.join("`, `");
        tell(&format!("this machine cannot tell what `{names}` would be now"));
    }
    Ok((Some(Current { host, targets }), known))
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
pub fn print(comparison: &Comparison, views: &[View], format: TableFormat) -> anyhow::Result<()> {
    report::render_comparison(comparison, views, format, &mut std::io::stdout().lock())?;
    Ok(())
}
