//! Makes the build of a manifest in a folder of its own and compares it with what the manifest
//! says.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fs_err as fs;
use serde::Serialize;

use crate::build::manifest::Manifest;
use crate::build::spec::Spec;
use crate::build::{recipe, run};
use crate::env::Env;
use crate::exact::compare::{Comparison, Side, Verdict, compare};
use crate::exact::{functions, sections};
use crate::exit::{Code, WithCode as _, coded};
use crate::facts::{Facts as _, Toolchain};
use crate::matrix::model::{Source, SourceKind};
use crate::proc;
use crate::reproduce::check::{self, Difference};
use crate::reproduce::find::Found;
use crate::reproduce::rounds::Round;
use crate::source::{self, Tree};
use crate::toolchain::seal;
use crate::toolchain::system::{self, Need};
use crate::world::World;

/// How many differences an error shows; the rest are in a file.
const SHOWN: usize = 24;

/// What came of it, for people and programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    /// The build's name.
    pub build: String,
    /// The build id that the manifest has.
    pub id: String,
    /// Where the manifest is from.
    pub manifest: String,
    /// What is out of the ordinary about the manifest or this tool.
    pub notes: Vec<String>,
    /// What is not here as the manifest has it.
    pub differences: Vec<Difference>,
    /// How alike the two builds are; none when it was not built.
    pub verdict: Option<Verdict>,
    /// The hash over all files that were made here.
    pub tree: Option<String>,
    /// Where they lie.
    pub folder: Option<PathBuf>,
    /// What differs.
    pub comparison: Option<Comparison>,
    /// The rounds, if several were asked for.
    pub rounds: Vec<Round>,
}

impl Report {
    /// A report of nothing yet.
    pub fn new(found: &Found) -> Self {
        Self {
            build: found.manifest.name.clone(),
            id: found.manifest.id.to_string(),
            manifest: found.origin.clone(),
            notes: check::altered(&found.manifest),
            differences: Vec::new(),
            verdict: None,
            tree: None,
            folder: None,
            comparison: None,
            rounds: Vec::new(),
        }
    }
}

/// The folder of everything that belongs to a manifest here.
///
/// # Errors
/// With [`Code::Input`] when the names in the manifest are none that this tool gives: they become
/// names of folders.
pub fn place(env: &Env, manifest: &Manifest) -> anyhow::Result<PathBuf> {
    for name in [&manifest.name, &manifest.source.name] {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+.=".contains(&byte);
        if name.is_empty() || name.starts_with('.') || !name.bytes().all(plain) {
            return Err(coded(
                Code::Input,
                format!("the manifest has a name that is none: `{name}`"),
            ));
        }
    }
    Ok(env.work.join("reproduce").join(format!("{}-{}", manifest.name, manifest.id.short())))
}

/// What must be there before a build: the compiler that the manifest names, proven.
///
/// # Errors
/// With [`Code::Environment`] when this machine has none, or another one is asked for; the report
/// has all differences, the message the first ones and the way to get the right one.
pub fn toolchain(
    env: &Env,
    manifest: &Manifest,
    name: Option<&str>,
    anyway: bool,
    report: &mut Report,
) -> anyhow::Result<Toolchain> {
    let asked = &manifest.toolchain;
    let arch = std::env::consts::ARCH;
    if manifest.host.arch != arch {
        let text = format!("it was built on {}, this machine is {arch}", manifest.host.arch);
        return Err(coded(Code::Environment, text));
    }
    let world = world(env);
    let found = match (&asked.sealed, name) {
        // The manifest holds all that makes it: what is called so here has no say.
        (Some(sealed), None) => seal::from_lock(env, &sealed.lock),
        _ => world.toolchain(name.unwrap_or(&asked.name)),
    };
    let found = found.map_err(|reason| {
        let packages =
            asked.details.packages.iter().map(|(name, version)| format!("{name}={version}"));
        let packages: Vec<String> = packages.collect();
        let mut text = format!(
            "it was built by {} {} (`{}`), and here: {reason}",
            asked.family.name(),
            asked.version,
            asked.name
        );
        if let Some(hint) = elsewhere(env, asked, &world) {
            text.push_str(&format!("\n  the very same is here: {hint}"));
        } else if !packages.is_empty() {
            text.push_str(&format!("\n  it was made with: apt-get install {}", packages.join(" ")));
        }
        coded(Code::Environment, text)
    })?;
    let mut differences = check::toolchain(asked, &found);
    let system = world.system(&found, &needs(manifest));
    differences.extend(check::system(&manifest.inputs.system, &system));
    let recipe = recipe::revision(manifest.source.engine);
    if recipe != manifest.inputs.recipe {
        differences.push(Difference {
            what: "recipe".to_owned(),
            asked: manifest.inputs.recipe.clone(),
            found: recipe.to_owned(),
        });
    }
    report.differences = differences;
    if report.differences.is_empty() {
        let own = env!("CARGO_PKG_VERSION");
        if manifest.tool != own {
            let note =
                format!("it was built by version {} of this tool, this is {own}", manifest.tool);
            env.reporter.line(&note);
            report.notes.push(note);
        }
        return Ok(found);
    }
    let text = told(env, manifest, &world, &found, report)?;
    if anyway {
        env.reporter.warn(text);
        return Ok(found);
    }
    Err(coded(Code::Environment, text + "\n  `--anyway` builds all the same"))
}

fn world(env: &Env) -> World {
    let for_sources = env.clone();
    World::new(env.clone(), Box::new(move |source: &_| source::facts(&for_sources, source)))
}

/// What the build may take from the system; whoever wrote the manifest knows which of it counts.
fn needs(manifest: &Manifest) -> Vec<Need> {
    let spec = manifest.spec(manifest.toolchain.clone());
    let mut needs = system::of_source(&spec.source);
    let options = &manifest.inputs.options;
    needs.extend(system::of_source(&Source { options: options.clone(), ..spec.source.clone() }));
    // What the source itself asked for and a setting took back is in neither.
    needs.extend(system::of_options(manifest.source.engine, options, &[]));
    needs.sort_unstable();
    needs.dedup();
    needs
}

/// The differences and what to do about them.
fn told(
    env: &Env,
    manifest: &Manifest,
    world: &World,
    found: &Toolchain,
    report: &Report,
) -> anyhow::Result<String> {
    let all = &report.differences;
    let mut text = format!("what built `{}` is not here as it was there:", manifest.name);
    for difference in all.iter().take(SHOWN) {
        text.push_str(&format!("\n  {difference}"));
    }
    if all.len() > SHOWN {
        let folder = place(env, manifest)?;
        fs::create_dir_all(&folder)?;
        let file = folder.join("differences.txt");
        let lines: Vec<String> = all.iter().map(|difference| format!("{difference}\n")).collect();
        fs::write(&file, lines.concat())?;
        text.push_str(&format!("\n  and {} more, see {}", all.len() - SHOWN, env.shown(&file)));
    }
    let asked = &manifest.toolchain;
    if found.digest != asked.digest {
        if let (Some(cc), Some(first)) = (asked.tool("cc"), found.tool("cc"))
            && cc != first
        {
            text.push_str(&format!("\n  found {} first in PATH", first.display()));
        }
        for hint in elsewhere(env, asked, world).into_iter().chain(check::install(all)) {
            text.push_str(&format!("\n  to get the right one: {hint}"));
        }
        if asked.details.packages.is_empty() && asked.sealed.is_none() {
            text.push_str("\n  its files belong to no package: ask who built it for the compiler");
        }
    }
    if all.iter().any(|difference| difference.what.ends_with(check::SYSTEM)) {
        text.push_str(
            "\n  what is taken from the system is known by content only: ask who built it for the \
             versions",
        );
    }
    if manifest.inputs.recipe != recipe::revision(manifest.source.engine) {
        let revision = manifest.tool_revision.as_deref().unwrap_or("not known");
        text.push_str(&format!(
            "\n  to get the right recipe: the tool of the version {} (revision {revision})",
            manifest.tool
        ));
    }
    Ok(text)
}

/// The very compiler that is asked for, if this machine has it under another name or further back
/// in the search path.
fn elsewhere(env: &Env, asked: &Toolchain, world: &World) -> Option<String> {
    let major = asked.version.split('.').next().unwrap_or_default();
    let versioned = format!("{}-{major}", asked.family.name());
    for name in [versioned.as_str(), asked.family.name()] {
        if name != asked.name
            && world.toolchain(name).is_ok_and(|other| other.digest == asked.digest)
        {
            return Some(format!("`--toolchain {name}`"));
        }
    }
    let ask = Box::new(|_: &Source| unreachable_source());
    let usual = World::with_path(env.clone(), ask, proc::PATH.into());
    let same = usual.toolchain(&asked.name).is_ok_and(|other| other.digest == asked.digest);
    same.then(|| format!("call this with PATH={}", proc::PATH))
}

fn unreachable_source() -> Result<crate::facts::SourceFacts, crate::facts::Unavailable> {
    let reason = "no source is asked for here".to_owned();
    Err(crate::facts::Unavailable { reason, hint: None })
}

/// A build that can be made: its source is there and everything was checked.
#[derive(Debug)]
pub struct Ready {
    /// The folder of everything that belongs to it.
    pub place: PathBuf,
    /// Patches and logs lie in that folder.
    env: Env,
    spec: Spec,
    tree: Tree,
}

/// Provides the source, from the manifest alone, and tells what this tool would do otherwise.
///
/// # Errors
/// When no origin has the source or a patch does not apply.
pub fn ready(
    env: &Env,
    found: &Found,
    toolchain: Toolchain,
    report: &mut Report,
) -> anyhow::Result<Ready> {
    let manifest = &found.manifest;
    if let SourceKind::Prefix { path } = &manifest.source.kind {
        let text = format!("{} was installed by others: there is nothing to build", path.display());
        return Err(coded(Code::Input, text));
    }
    let place = place(env, manifest)?;
    let mut spec = manifest.spec(toolchain);
    let words = check::words(manifest, &spec).code(Code::Input)?;
    tell(env, "this tool does otherwise than the manifest has it", &words);
    report.notes.extend(words);
    let root = place.join("root");
    spec.source.patches = write_patches(&root.join("patches"), manifest)?;
    let env_of_source = Env { root, ..env.clone() };
    let facts = source::facts(&env_of_source, &spec.source);
    let facts = facts.map_err(|reason| coded(Code::Input, reason))?;
    let tree = source::ensure(&env_of_source, &spec.source)?;
    let notes = check::source(manifest, &facts.digest, &tree);
    tell(env, "the manifest was changed by hand since it was written", &notes);
    report.notes.extend(notes);
    spec.source_facts = facts;
    let env = Env { work: place.clone(), ..env_of_source };
    Ok(Ready { place, env, spec, tree })
}

/// Says what is out of the ordinary, if anything is.
pub fn tell(env: &Env, what: &str, notes: &[String]) {
    if !notes.is_empty() {
        env.reporter.warn(format!("{what}: {}", notes.join("; ")));
    }
}

/// Writes the patches of the manifest; their paths below `root`, in order. The names in a manifest
/// are only a part of the files' names: they are somebody else's.
fn write_patches(root: &Path, manifest: &Manifest) -> anyhow::Result<Vec<String>> {
    if root.exists() {
        fs::remove_dir_all(root)?;
    }
    let folder = "manifest";
    fs::create_dir_all(root.join(folder))?;
    let mut paths = Vec::new();
    for (index, patch) in manifest.source.patches.iter().enumerate() {
        let last = patch.path.rsplit('/').next().unwrap_or_default();
        let keep = |letter: &char| letter.is_ascii_alphanumeric() || "._-".contains(*letter);
        let name: String = last.chars().filter(keep).take(80).collect();
        let path = format!("{folder}/{:03}-{name}", index + 1);
        fs::write(root.join(&path), &patch.content)?;
        paths.push(path);
    }
    Ok(paths)
}

/// Builds and compares; what is to be kept for a look lies in the place of the build.
///
/// # Errors
/// When the build fails.
pub fn make(ready: &Ready, found: &Found, report: &mut Report) -> anyhow::Result<Verdict> {
    let into = ready.place.join("build");
    let made = run::make_apart(&ready.env, &ready.spec, &ready.tree, &into)?;
    let tree = into.join("tree");
    let asked = &found.manifest;
    let binaries = sections::binaries(&tree, &made.files)?;
    let theirs = found.functions();
    // Only where something differs are functions of interest.
    let ours = match made.tree == asked.tree || theirs.is_err() {
        true => None,
        false => Some(functions::of_tree(&tree, &made.files)?),
    };
    let comparison = compare(
        Side { files: &asked.files, binaries: &asked.binaries, functions: theirs.as_ref().ok() },
        Side { files: &made.files, binaries: &binaries, functions: ours.as_ref() },
    );
    if let (Err(reason), Verdict::Different) = (&theirs, comparison.verdict) {
        let note = format!("functions cannot be compared: {reason}");
        ready.env.reporter.warn(&note);
        report.notes.push(note);
    }
    let verdict = comparison.verdict;
    fs::write(details(ready), comparison.whole_text()).context("cannot write the comparison")?;
    report.verdict = Some(verdict);
    report.tree = Some(made.tree.to_string());
    report.folder = Some(tree);
    report.comparison = Some(comparison);
    Ok(verdict)
}

/// The file with everything that a comparison found.
pub fn details(ready: &Ready) -> PathBuf {
    ready.place.join("comparison.txt")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Reporter;
    use crate::reproduce::check::tests::manifest;

    fn env(work: &Path) -> Env {
        Env {
            root: Path::new(env!("CARGO_MANIFEST_DIR")).join(".."),
            matrix: work.join("matrix.toml"),
            results: work.join("results"),
            work: work.to_owned(),
            sources: None,
            jobs: 1,
            keep_going: true,
            reporter: Reporter::new(true),
        }
    }

    #[test]
    fn names_from_elsewhere_stay_inside_of_the_work_folder() {
        let env = env(Path::new("/w"));
        let mut manifest = manifest();
        let at = place(&env, &manifest).expect("a plain name");
        assert_eq!(
            at,
            Path::new("/w/reproduce").join(format!("pg1518_test-{}", manifest.id.short()))
        );
        for bad in ["../../etc", "", ".hidden", "a/b", "a b", "a\u{1b}[31m"] {
            manifest.name = bad.to_owned();
            let error = place(&env, &manifest).expect_err("refused");
            assert_eq!(crate::exit::code_of(&error), Code::Input, "{bad}");
            manifest.name = "pg".to_owned();
            manifest.source.name = bad.to_owned();
            place(&env, &manifest).expect_err("refused");
            manifest.source.name = "pg".to_owned();
        }
    }

    #[test]
    fn patches_are_written_in_order_whatever_they_are_called() {
        use crate::build::manifest::PatchDone;
        use crate::hash::Digest;
        let dir = tempfile::tempdir().expect("a directory");
        let mut manifest = manifest();
        let patch = |path: &str, text: &str| PatchDone {
            path: path.to_owned(),
            sha256: Digest::of(text.as_bytes()),
            content: text.as_bytes().to_vec(),
        };
        manifest.source.patches = vec![
            patch("postgres/pg/002-b.patch", "second"),
            patch("../../../x/ \u{7}e.patch", "evil"),
        ];
        let root = dir.path().join("patches");
        std::fs::create_dir_all(root.join("manifest")).expect("made");
        std::fs::write(root.join("manifest/001-old.patch"), "left from before").expect("written");
        let paths = write_patches(&root, &manifest).expect("written");
        assert_eq!(paths, ["manifest/001-002-b.patch", "manifest/002-e.patch"]);
        let read = |path: &String| std::fs::read_to_string(root.join(path)).expect("there");
        assert_eq!(paths.iter().map(read).collect::<Vec<_>>(), ["second", "evil"]);
        assert_eq!(std::fs::read_dir(root.join("manifest")).expect("there").count(), 2);
    }
}
