//! Where finished builds lie: `work/builds/<name>-<first 12 digits of the id>/` with the installed
//! tree in `tree/`, the manifest, and the inputs. A build is there whole or not at all: it is made
//! in `work/staging/` and renamed into place.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use fs_err as fs;

use crate::build::manifest::{self, Manifest};
use crate::build::spec::{Inputs, Spec};
use crate::env::Env;
use crate::hash::Digest;

/// The folder of a build.
pub fn folder(env: &Env, name: &str, id: Digest) -> PathBuf {
    env.builds().join(format!("{name}-{}", id.short()))
}

/// The installed tree of a build.
pub fn tree(env: &Env, name: &str, id: Digest) -> PathBuf {
    folder(env, name, id).join("tree")
}

/// Whether a build is there.
pub fn present(env: &Env, name: &str, id: Digest) -> bool {
    let found = std::fs::read_to_string(folder(env, name, id).join("id"));
    found.is_ok_and(|text| text.trim() == id.to_string())
}

/// The inputs of the newest other build of this name, to tell what changed since.
pub fn previous(env: &Env, spec: &Spec) -> Option<Inputs> {
    let prefix = format!("{}-", spec.name);
    let own = folder(env, &spec.name, spec.id);
    let mut newest: Option<(std::time::SystemTime, PathBuf)> = None;
    for entry in std::fs::read_dir(env.builds()).ok()?.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        if path == own || digits.is_none_or(|d| d.len() != 12) {
            continue;
        }
        let Ok(time) = entry.metadata().and_then(|data| data.modified()) else { continue };
        if newest.as_ref().is_none_or(|(other, _)| *other < time) {
            newest = Some((time, path));
        }
    }
    let text = std::fs::read_to_string(newest?.1.join("inputs.json")).ok()?;
    serde_json::from_str(&text).ok()
}

/// Checks that a build's tree is still what its manifest says.
///
/// # Errors
/// When a file was changed, added or removed since; the message names the first ones.
pub fn verify(env: &Env, name: &str, id: Digest) -> anyhow::Result<Manifest> {
    let folder = folder(env, name, id);
    let manifest = Manifest::read(&folder.join("manifest.json"))?;
    let files = manifest::list(&folder.join("tree"))?;
    if manifest::tree_digest(&files) != manifest.tree {
        let changed: Vec<&str> = files
            .iter()
            .filter(|file| !manifest.files.contains(file))
            .chain(manifest.files.iter().filter(|file| !files.contains(file)))
            .map(|file| file.path.as_str())
            .take(5)
            .collect();
        bail!(
            "`{name}` was changed after it was built ({}); remove {} to build it again",
            changed.join(", "),
            env.shown(&folder)
        );
    }
    Ok(manifest)
}

/// Puts a finished build into its place and its manifest into `results/manifests/`.
///
/// `made` is the folder with `tree/`; it must be on the same disk as the store.
///
/// # Errors
/// When the disk refuses.
pub fn publish(env: &Env, made: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let place = folder(env, &manifest.name, manifest.id);
    let text = manifest.text()?;
    fs::write(made.join("manifest.json"), &text)?;
    fs::write(made.join("inputs.json"), serde_json::to_string(&manifest.inputs)?)?;
    // Last: its presence says that the rest is complete.
    fs::write(made.join("id"), manifest.id.to_string())?;
    fs::create_dir_all(env.builds())?;
    if place.exists() {
        // A leftover without an `id`, or the same build made by another process meanwhile.
        fs::remove_dir_all(&place)?;
    }
    fs::rename(made, &place).context("cannot put the build into its place")?;
    fs::create_dir_all(env.manifests())?;
    let file = format!("{}-{}.json", manifest.name, manifest.id.short());
    let temporary = env.manifests().join(format!(".{file}.{}", std::process::id()));
    fs::write(&temporary, text)?;
    fs::rename(temporary, env.manifests().join(file))?;
    Ok(())
}
