//! Holds this machine and this tool against a manifest before anything is built. Pure: what the
//! machine has is found out elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use crate::build::layout::Layout;
use crate::build::manifest::{Manifest, tree_digest};
use crate::build::recipe::{self, Step};
use crate::build::spec::Spec;
use crate::facts::Toolchain;
use crate::hash::Digest;
use crate::matrix::expand::build_id;
use crate::source::Tree;

/// Something that is not here as it was when the manifest was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Difference {
    /// What it is: `version`, `file cc1`, `package gcc-12`.
    pub what: String,
    /// What the manifest has.
    pub asked: String,
    /// What was found here.
    pub found: String,
}

impl Difference {
    fn new(what: impl Into<String>, asked: impl Into<String>, found: impl Into<String>) -> Self {
        Self { what: what.into(), asked: asked.into(), found: found.into() }
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: asked {}, found {}", self.what, self.asked, self.found)
    }
}

const NOTHING: &str = "nothing";
/// The end of what a difference is called that is none of the toolchain's.
pub(super) const SYSTEM: &str = " of the system";

/// Every difference between the toolchain of a manifest and the one that is here; none when they
/// give the same bytes.
pub fn toolchain(asked: &Toolchain, found: &Toolchain) -> Vec<Difference> {
    if asked.digest == found.digest {
        return Vec::new();
    }
    let mut all = Vec::new();
    let mut one = |what: &str, asked: &str, found: &str| {
        if asked != found {
            all.push(Difference::new(what, asked, found));
        }
    };
    one("family", asked.family.name(), found.family.name());
    one("version", &asked.version, &found.version);
    one("target", &asked.target, &found.target);
    let roles: BTreeSet<&str> =
        asked.tools.iter().chain(&found.tools).map(|(role, _)| role.as_str()).collect();
    for role in roles {
        let path = |of: &Toolchain| {
            of.tool(role).map_or(NOTHING.to_owned(), |path| path.display().to_string())
        };
        one(&format!("path of {role}"), &path(asked), &path(found));
    }
    all.extend(files(asked, found));
    all.extend(packages(asked, found));
    let headers = |of: &Toolchain| match &of.details.headers {
        Some((count, digest)) => format!("{count} files, {}", digest.short()),
        None => NOTHING.to_owned(),
    };
    if headers(asked) != headers(found) {
        all.push(Difference::new("headers of the C library", headers(asked), headers(found)));
    }
    all
}

/// The files that determine the bytes, by their names: the folder does not count.
fn files(asked: &Toolchain, found: &Toolchain) -> Vec<Difference> {
    type ByName<'a> = BTreeMap<String, Vec<(&'a Path, &'a Digest)>>;
    fn by_name(of: &Toolchain) -> ByName<'_> {
        let mut names = ByName::new();
        for (path, digest) in &of.files {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            names.entry(name).or_default().push((path, digest));
        }
        for files in names.values_mut() {
            files.sort_by_key(|(_, digest)| *digest);
        }
        names
    }
    let (old, new) = (by_name(asked), by_name(found));
    let told = |files: Option<&Vec<(&Path, &Digest)>>| match files {
        None => NOTHING.to_owned(),
        Some(files) => {
            let told =
                files.iter().map(|(path, hash)| format!("{} {}", path.display(), hash.short()));
            told.collect::<Vec<_>>().join(" and ")
        }
    };
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let hashes = |files: Option<&Vec<(&Path, &Digest)>>| -> Vec<Digest> {
        files.into_iter().flatten().map(|(_, digest)| **digest).collect()
    };
    names
        .into_iter()
        .filter(|name| hashes(old.get(*name)) != hashes(new.get(*name)))
        .map(|name| {
            Difference::new(format!("file {name}"), told(old.get(name)), told(new.get(name)))
        })
        .collect()
}

fn packages(asked: &Toolchain, found: &Toolchain) -> Vec<Difference> {
    let of = |toolchain: &Toolchain| -> BTreeMap<String, String> {
        let sealed = toolchain.sealed.iter().flat_map(|sealed| &sealed.lock.packages);
        let sealed = sealed.map(|package| (package.name.clone(), package.version.clone()));
        toolchain.details.packages.iter().cloned().chain(sealed).collect()
    };
    let (old, new) = (of(asked), of(found));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    names
        .into_iter()
        .filter(|name| old.get(*name) != new.get(*name))
        .map(|name| {
            let version = |of: &BTreeMap<String, String>| {
                of.get(name).cloned().unwrap_or_else(|| NOTHING.to_owned())
            };
            Difference::new(format!("package {name}"), version(&old), version(&new))
        })
        .collect()
}

/// What the build takes from the system besides its compiler: asked, and found by name.
pub fn system(asked: &[(String, Digest)], found: &[(String, Digest)]) -> Vec<Difference> {
    let mut all = Vec::new();
    for (name, digest) in asked {
        let here = found.iter().find(|(other, _)| other == name).map(|(_, digest)| digest);
        if here != Some(digest) {
            let told = here.map_or(NOTHING.to_owned(), Digest::short);
            all.push(Difference::new(format!("{name}{SYSTEM}"), digest.short(), told));
        }
    }
    all
}

/// The command that installs the packages that the manifest names and that are not here as asked;
/// `None` when it names none.
pub fn install(differences: &[Difference]) -> Option<String> {
    let wanted: Vec<String> = differences
        .iter()
        .filter(|difference| difference.asked != NOTHING)
        .filter_map(|difference| {
            let name = difference.what.strip_prefix("package ")?;
            Some(format!("{name}={}", difference.asked))
        })
        .collect();
    (!wanted.is_empty()).then(|| format!("apt-get install {}", wanted.join(" ")))
}

/// Where a manifest contradicts itself, so that somebody changed it after it was written: each in a
/// sentence. Empty for one that is as the tool wrote it.
pub fn altered(manifest: &Manifest) -> Vec<String> {
    let inputs = &manifest.inputs;
    let mut all = Vec::new();
    let toolchain = inputs.toolchain.as_ref().map(|(_, _, digest)| digest);
    let id = build_id(
        &inputs.recipe,
        &inputs.source_facts.digest,
        toolchain,
        &inputs.options,
        &inputs.system,
    );
    if id != manifest.id {
        all.push(format!(
            "its inputs have the build id {}, not {}",
            id.short(),
            manifest.id.short()
        ));
    }
    if toolchain != Some(&manifest.toolchain.digest) {
        all.push("its toolchain is not the one that its inputs name".to_owned());
    }
    if tree_digest(&manifest.files) != manifest.tree {
        all.push("its list of files does not have the hash of its tree".to_owned());
    }
    let patches = manifest.source.patches.iter().map(|patch| &patch.sha256);
    if !patches.eq(inputs.source_facts.patches.iter().map(|(_, digest)| digest)) {
        all.push("its patches are not those that its inputs name".to_owned());
    }
    all
}

/// Which words of commands and environment this tool would give otherwise than the manifest has
/// them, each in a sentence. A build without canonical paths has real ones in them, which nobody
/// else has: nothing is said of it.
///
/// # Errors
/// When the recipe of this tool cannot build such a thing.
pub fn words(manifest: &Manifest, spec: &Spec) -> anyhow::Result<Vec<String>> {
    if !manifest.canonical_paths {
        return Ok(Vec::new());
    }
    // The paths that a build sees do not depend on these.
    let layout = Layout::canonical(Path::new("/"), Path::new("/"));
    let mut all = Vec::new();
    let (asked, given) = (&manifest.steps, recipe::steps(spec, &layout)?);
    for step in &given {
        match asked.iter().find(|done| done.name == step.name) {
            None => all.push(format!("step `{}`: the manifest has no such step", step.name)),
            Some(done) => all.extend(of_step(step, &done.words)),
        }
    }
    for done in asked.iter().filter(|done| given.iter().all(|step| step.name != done.name)) {
        all.push(format!("step `{}`: this tool has no such step", done.name));
    }
    let noted = |name: &str| {
        let found = manifest.environment.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.clone())
    };
    // Of the source's time more is known when it is there, see [`source`].
    let epoch = noted("SOURCE_DATE_EPOCH").and_then(|text| text.parse().ok());
    let environment = recipe::environment(spec, &layout, epoch.unwrap_or_default());
    for (key, value) in &environment {
        if noted(key).as_ref() != Some(value) {
            let old = noted(key).map_or("does not set it".to_owned(), |old| format!("has `{old}`"));
            all.push(format!("variable {key}: the manifest {old}, this tool gives `{value}`"));
        }
    }
    for (key, value) in &manifest.environment {
        if environment.iter().all(|(known, _)| known != key) {
            all.push(format!(
                "variable {key}: the manifest has `{value}`, this tool does not set it"
            ));
        }
    }
    Ok(all)
}

fn of_step(step: &Step, asked: &[String]) -> Option<String> {
    if step.words == asked {
        return None;
    }
    // Words at the same place are told in pairs; else those that only one side has.
    let told = if step.words.len() == asked.len() {
        let pairs = asked.iter().zip(&step.words).filter(|(old, new)| old != new);
        pairs.map(|(old, new)| format!("`{old}` there, `{new}` here")).collect::<Vec<_>>()
    } else {
        let only = |one: &[String], other: &[String], place: &str| {
            let own = one.iter().filter(|word| !other.contains(word));
            own.map(|word| format!("`{word}` only {place}")).collect::<Vec<_>>()
        };
        [only(asked, &step.words, "there"), only(&step.words, asked, "here")].concat()
    };
    let told = if told.is_empty() { "other order of words".to_owned() } else { told.join(", ") };
    Some(format!("step `{}`: {told}", step.name))
}

/// What is wrong with a source tree that was made from a manifest, if anything.
pub fn source(manifest: &Manifest, digest: &Digest, tree: &Tree) -> Vec<String> {
    let mut all = Vec::new();
    if *digest != manifest.inputs.source_facts.digest {
        all.push("its source and patches do not have the hash that its inputs name".to_owned());
    }
    let noted = manifest.environment.iter().find(|(key, _)| key == "SOURCE_DATE_EPOCH");
    if let Some((_, noted)) = noted
        && *noted != tree.source_date_epoch.to_string()
    {
        all.push(format!(
            "its source is of {noted} (SOURCE_DATE_EPOCH), the one here of {}",
            tree.source_date_epoch
        ));
    }
    all
}

#[cfg(test)]
pub(crate) mod tests;
