//! `build`: makes what is missing.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use crate::audit::judge::Verdict;
use crate::bench::lock::{HostLock, Kind};
use crate::build::cmake::known;
use crate::build::manifest::Manifest;
use crate::build::run;
use crate::build::spec::Spec;
use crate::build::store::{self, Manifests, Store};
use crate::cli::Common;
use crate::cmd::load::Loaded;
use crate::cmd::select::Selection;
use crate::env::Env;
use crate::exit::Code;
use crate::hash::Digest;
use crate::interrupt;
use crate::matrix::expand::Expansion;
use crate::matrix::model::SourceKind;
use crate::report;
use crate::report::table::Part;
use crate::sizes::{self, BuildSize};
use crate::source::{self, Tree};

/// How long a build waits for a benchmark on the same host.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// What came of the builds of an experiment.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Names of the builds that were made now.
    pub made: Vec<String>,
    /// Builds that were there already, installed servers among them.
    pub present: usize,
    /// Names of the builds that failed, with the reason.
    pub failed: BTreeMap<String, String>,
    /// Names of the builds that cannot be had here, with the reason.
    pub unavailable: BTreeMap<String, String>,
    /// Names of the builds that are there but did not get what was asked, with the first finding.
    pub mismatched: BTreeMap<String, String>,
}

impl Outcome {
    /// Notes a build whose audit found a mismatch.
    fn audited(&mut self, manifest: &Manifest) {
        let Some(audit) = &manifest.audit else { return };
        let worst = audit.findings.iter().find(|found| found.verdict == Verdict::Mismatch);
        if let Some(finding) = worst {
            let files = finding.units.first().map(|unit| format!(" ({unit})")).unwrap_or_default();
            let text = format!("{}: {}{files}", finding.place(), finding.text);
            self.mismatched.insert(manifest.name.clone(), text);
        }
    }

    /// The exit code: a cell that cannot be had is no failure, unless none can.
    pub fn code(&self) -> Code {
        if !self.failed.is_empty() {
            Code::CellFailed
        } else if self.made.is_empty() && self.present == 0 && !self.unavailable.is_empty() {
            Code::Environment
        } else {
            Code::Done
        }
    }
}

/// Runs the task.
///
/// # Errors
/// As [`crate::cmd::run`].
pub fn run(env: &Env, common: &Common, experiment: Option<&str>) -> anyhow::Result<Code> {
    let loaded = Loaded::read(env)?;
    let experiment = loaded.experiment(experiment)?;
    let expansion = loaded.expand(experiment, &common.set)?;
    let selection = loaded.select(common, &expansion)?;
    let outcome = make_missing(env, &expansion, &selection)?;
    report(env, &outcome);
    let manifests = Manifests::list(env);
    let sizes = sizes(&expansion, &selection, &|name, id| manifests.get(name, id).ok());
    if !sizes.is_empty() {
        let base = expansion.base.map(|index| expansion.target(index).name);
        let base = base.as_deref().and_then(|target| target.split('.').next());
        let table = Part::Table(sizes::table(&sizes, base));
        report::text::write(&[table], report::Style::of_stdout(), &mut std::io::stdout().lock())?;
    }
    let code = outcome.code();
    Ok(if code == Code::Done && !outcome.mismatched.is_empty() { Code::CellFailed } else { code })
}

/// Sizes and costs of the selected builds that are there, in the experiment's order; `manifest`
/// finds what is known of a build.
pub fn sizes(
    expansion: &Expansion<'_>,
    selection: &Selection,
    manifest: &dyn Fn(&str, Digest) -> Option<Rc<Manifest>>,
) -> Vec<BuildSize> {
    let mut found = Vec::new();
    for build in 0..expansion.builds() {
        let name = expansion.name(build);
        let Ok(spec) = expansion.spec(build) else { continue };
        if !selection.build(&name) {
            continue;
        }
        let size = match &spec.source.kind {
            SourceKind::Prefix { path } => sizes::installed(&name, spec.source.engine, path),
            // A build may have been made under another name.
            _ => manifest(&name, spec.id)
                .and_then(|manifest| BuildSize::of(&manifest))
                .map(|size| BuildSize { build: name, ..size }),
        };
        found.extend(size);
    }
    found
}

/// Makes the selected builds that are not there.
///
/// # Errors
/// What stops all of them; a failed build is in the outcome.
pub fn make_missing(
    env: &Env,
    expansion: &Expansion<'_>,
    selection: &Selection,
) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut missing: Vec<Spec> = Vec::new();
    let store = Store::read(env);
    for build in 0..expansion.builds() {
        let name = expansion.name(build);
        if !selection.build(&name) {
            continue;
        }
        match expansion.spec(build) {
            Err(reason) => {
                outcome.unavailable.insert(name, reason);
            }
            Ok(_) if expansion.is_installed(build) => outcome.present += 1,
            Ok(spec) => match store.folder(spec.id) {
                Some(folder) => match store::whole(folder) {
                    Some(manifest) => {
                        store::publish_manifest(env, folder, &folder_name(folder), spec.id)?;
                        outcome.present += 1;
                        outcome.audited(&manifest);
                    }
                    None => {
                        let shown = env.shown(folder);
                        env.reporter.warn(format!("{shown} has lost files: it is made again"));
                        // Without its id it is no build any more.
                        fs_err::remove_file(folder.join("id"))?;
                        missing.push(spec);
                    }
                },
                // Two names of one build: the id says that nothing differs.
                None if missing.iter().any(|other| other.id == spec.id) => outcome.present += 1,
                None => missing.push(spec),
            },
        }
    }
    if missing.is_empty() {
        return Ok(outcome);
    }
    let _lock = HostLock::take(&env.work, Kind::Shared, PATIENCE, &env.reporter)?;
    let mut ready = Vec::new();
    for (spec, tree) in with_trees(env, missing)? {
        match tree.and_then(|tree| takes_all(env, &spec, tree)) {
            Ok(tree) => ready.push((spec, tree)),
            Err(reason) => {
                outcome.failed.insert(spec.name, reason);
            }
        }
    }
    for ended in run::run(env, &ready)? {
        let name = ready[ended.index].0.name.clone();
        match ended.result {
            Ok(manifest) => {
                outcome.audited(&manifest);
                outcome.made.push(name);
            }
            Err(error) => {
                env.reporter.warn(format!("{error:#}"));
                outcome.failed.insert(name, format!("{error:#}"));
            }
        }
    }
    Ok(outcome)
}

/// The name under which a build was made: its folder's without the id.
fn folder_name(folder: &Path) -> String {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.rsplit_once('-').map_or(name, |(name, _)| name).to_owned()
}

/// Provides the source of each spec, once per source; a source that cannot be had fails its builds.
fn with_trees(env: &Env, specs: Vec<Spec>) -> anyhow::Result<Vec<(Spec, Result<Tree, String>)>> {
    let mut trees: BTreeMap<String, Result<Tree, String>> = BTreeMap::new();
    let mut pairs = Vec::new();
    for spec in specs {
        interrupt::check()?;
        let tree = match trees.get(&spec.source.name) {
            Some(tree) => tree.clone(),
            None => {
                let begin = std::time::Instant::now();
                let tree = source::ensure(env, &spec.source).map_err(|error| {
                    env.reporter.warn(format!("{error:#}"));
                    format!("{error:#}")
                });
                env.reporter.account(format!("source {}", spec.source.name), begin.elapsed());
                trees.insert(spec.source.name.clone(), tree.clone());
                tree
            }
        };
        pairs.push((spec, tree));
    }
    Ok(pairs)
}

/// The tree, unless it has no use for a variable that it is to be configured with. When the plan
/// was made the tree may not have been there, and configuring says it only when all is done.
fn takes_all(env: &Env, spec: &Spec, tree: Tree) -> Result<Tree, String> {
    if spec.options.cmake.is_empty() {
        return Ok(tree);
    }
    let words = source::words::of_tree(env, &tree.path, tree.digest);
    let words = words.map_err(|error| format!("cannot read the CMake files: {error:#}"))?;
    let patched = !spec.source_facts.patches.is_empty();
    let faults = known::faults(&spec.source, &spec.options.cmake, patched, Some(&words));
    if faults.is_empty() {
        return Ok(tree);
    }
    let told: Vec<String> = faults
        .iter()
        .map(|fault| match &fault.advice {
            Some(advice) => format!("{fault} ({advice})"),
            None => fault.to_string(),
        })
        .collect();
    let reason = format!("CMake variables of no use to its source: {}", told.join("; "));
    env.reporter.warn(format!("{}: not built: {reason}", spec.name));
    Err(reason)
}

/// Tells what came of the builds.
pub fn report(env: &Env, outcome: &Outcome) {
    for (name, reason) in &outcome.unavailable {
        env.reporter.line(format!("{name}: unavailable: {reason}"));
    }
    for (name, reason) in &outcome.failed {
        env.reporter.line(format!("{name}: failed: {}", reason.lines().next().unwrap_or_default()));
    }
    for (name, finding) in &outcome.mismatched {
        env.reporter.warn(format!(
            "{name} did not get what was asked: {finding}; `cargo xtask audit {name}` tells all"
        ));
    }
    env.reporter.line(format!(
        "builds: {} made, {} there already, {} failed, {} unavailable",
        outcome.made.len(),
        outcome.present,
        outcome.failed.len(),
        outcome.unavailable.len()
    ));
}
