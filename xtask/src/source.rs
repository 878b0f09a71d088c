//! Sources: what determines a source tree ([`facts`]) and the tree itself ([`ensure`]).
//!
//! Archives lie in `work/downloads/<sha256>`, git repositories in `work/downloads/git-<revision>`,
//! unpacked and patched trees in `work/trees/<name>-<digest>` with a stamp beside them. Each is
//! made in `work/staging` and renamed into place; a lock keeps a second call of the tool away.
//!
//! A tree is meant to be mounted read-only. Its files keep plain modes (0644, 0755), because build
//! systems copy modes into what they install; an edit is found by the tree's hash instead, which is
//! checked each time a tree is used, and the tree is unpacked again.

pub(crate) mod apt;
pub(crate) mod archive;
mod debian;
pub(crate) mod fetch;
mod git;
pub mod installed;
mod patches;
pub mod pin;
pub(crate) mod tree;
pub mod words;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::env::Env;
use crate::exit::{Code, coded};
use crate::facts::{SourceFacts, Unavailable};
use crate::hash::Digest;
use crate::interrupt;
use crate::matrix::model::{Source, SourceKind};

/// A source tree, unpacked and patched, as its digest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The folder that has `configure` or `CMakeLists.txt`.
    pub path: PathBuf,
    /// The hash over names, executable bits, targets of links and contents of the tree.
    pub digest: Digest,
    /// Seconds since 1970: the newest time stamp in the archive, or the time of the git commit.
    pub source_date_epoch: u64,
}

/// What is written beside a tree when it is complete.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Stamp {
    /// Raised when the way of unpacking changes.
    format: u32,
    /// [`SourceFacts::digest`].
    source: Digest,
    /// [`tree::Hashes`] of the finished tree.
    tree: tree::Hashes,
    source_date_epoch: u64,
}

/// The present value of [`Stamp::format`].
const FORMAT: u32 = 1;

/// What determines the content of a source tree; nothing is downloaded.
///
/// # Errors
/// When a patch cannot be read or is badly named, or an installed server is not there.
pub fn facts(env: &Env, source: &Source) -> Result<SourceFacts, Unavailable> {
    if let SourceKind::Prefix { path } = &source.kind {
        return installed::facts(env, source.engine, path);
    }
    let unavailable = |error: anyhow::Error| Unavailable {
        reason: format!("source `{}`: {error:#}", source.name),
        hint: None,
    };
    let patches = patches::list(&env.patches(), source).map_err(unavailable)?;
    Ok(SourceFacts {
        version: source.version.as_ref().map(ToString::to_string).unwrap_or_default(),
        digest: digest(&source.kind, &patches),
        patches,
    })
}

/// The hash over archive or revision and all patches. The names of patches do not count.
fn digest(kind: &SourceKind, patches: &[(String, Digest)]) -> Digest {
    let mut text = match kind {
        SourceKind::Archive { sha256, .. } => format!("archive {sha256}\n"),
        SourceKind::Git { rev, .. } => format!("git {rev}\n"),
        SourceKind::Prefix { path } => format!("prefix {}\n", path.display()),
    };
    for (_, hash) in patches {
        text.push_str(&format!("patch {hash}\n"));
    }
    Digest::of(text.as_bytes())
}

/// Whether patches are applied to a source. Ones that cannot be listed are there, too: the plan
/// tells what is wrong with them.
pub fn patched(env: &Env, source: &Source) -> bool {
    patches::list(&env.patches(), source).map_or(true, |list| !list.is_empty())
}

/// The source's tree: the one that is there, if it is still as it was made, else a new one.
///
/// # Errors
/// When no origin has the archive, the archive is malicious or broken, or a patch does not apply.
pub fn ensure(env: &Env, source: &Source) -> anyhow::Result<Tree> {
    ensure_inner(env, source).with_context(|| format!("cannot provide source `{}`", source.name))
}

fn ensure_inner(env: &Env, source: &Source) -> anyhow::Result<Tree> {
    if let SourceKind::Prefix { path } = &source.kind {
        bail!("{} is an installed server: it has no source tree", path.display());
    }
    // Without a download all that can be wrong are the patches, which are the user's input.
    let facts = facts(env, source).map_err(|error| coded(Code::Input, error))?;
    let name = format!("{}-{}", source.name, facts.digest.short());
    let path = env.trees().join(&name);
    let stamp_path = env.trees().join(format!("{name}.json"));
    fs::create_dir_all(env.trees())?;
    let _lock = lock(env, &env.trees().join(format!("{name}.lock")))?;
    if let Some(tree) = reuse(env, &path, &stamp_path, facts.digest)? {
        return Ok(tree);
    }
    let staging = staging(env)?;
    let made = staging.path().join("tree");
    let task = env.reporter.task(format!("source {}", source.name), None);
    let epoch = match &source.kind {
        SourceKind::Archive { sha256, origins } => {
            let file = fetch::ensure(env, &task, *sha256, origins)?;
            task.state("unpacking");
            archive::unpack(&file, &made, &archive::Limits::default())
                .with_context(|| format!("cannot unpack {}", env.shown(&file)))?
        }
        SourceKind::Git { url, rev } => git::export(env, &task, url, rev, &made)?,
        SourceKind::Prefix { .. } => bail!("an installed server has no source tree"),
    };
    interrupt::check()?;
    if !facts.patches.is_empty() {
        task.state(format!("applying {} patches", facts.patches.len()));
        patches::apply(&env.patches(), &facts.patches, &made, epoch)?;
    }
    let tree = tree::hashes(&made)?;
    let stamp = Stamp {
        format: FORMAT,
        source: facts.digest,
        tree: tree.clone(),
        source_date_epoch: epoch,
    };
    install(&made, &path, &stamp_path, &stamp)?;
    task.finish(format!("unpacked into {}", env.shown(&path)));
    Ok(Tree { path, digest: tree.content, source_date_epoch: epoch })
}

/// The source's tree, if it lies there finished: its folder and its hash. Unlike [`ensure`] this
/// changes nothing and does not look whether anything in it was edited.
pub fn unpacked(env: &Env, source: &Source, facts: &SourceFacts) -> Option<(PathBuf, Digest)> {
    let name = format!("{}-{}", source.name, facts.digest.short());
    let path = env.trees().join(&name);
    let stamp = stamp(&env.trees().join(format!("{name}.json")))?;
    let fits = stamp.format == FORMAT && stamp.source == facts.digest && path.is_dir();
    fits.then_some((path, stamp.tree.content))
}

fn stamp(path: &Path) -> Option<Stamp> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Downloads a file over https as archives are, but nothing vouches for its content.
///
/// # Errors
/// In the words of curl.
pub fn download(env: &Env, url: &str, file: &Path) -> anyhow::Result<()> {
    let task = env.reporter.task("download", None);
    task.state(url);
    fetch::download(&task, url, file)
}

/// The tree that is there, if its stamp says that it is finished and its hash that it is untouched.
fn reuse(env: &Env, path: &Path, stamp: &Path, source: Digest) -> anyhow::Result<Option<Tree>> {
    let Some(stamp) = self::stamp(stamp) else { return Ok(None) };
    if stamp.format != FORMAT || stamp.source != source || !path.is_dir() {
        return Ok(None);
    }
    if tree::hashes(path).ok().as_ref() != Some(&stamp.tree) {
        env.reporter.warn(format!(
            "{} was changed since it was unpacked; it is unpacked again \
             (a change that is wanted belongs into a patch below `patches/`)",
            env.shown(path)
        ));
        return Ok(None);
    }
    Ok(Some(Tree {
        path: path.to_owned(),
        digest: stamp.tree.content,
        source_date_epoch: stamp.source_date_epoch,
    }))
}

/// Puts a finished tree into its place: the old stamp goes first, the new one comes last.
fn install(made: &Path, path: &Path, stamp_path: &Path, stamp: &Stamp) -> anyhow::Result<()> {
    if stamp_path.exists() {
        fs::remove_file(stamp_path)?;
    }
    if path.symlink_metadata().is_ok() {
        // Moved away first: deleting takes a while, renaming does not.
        let old = made.with_file_name("old");
        fs::rename(path, &old)?;
        fs::remove_dir_all(&old)?;
    }
    fs::rename(made, path)?;
    let draft = made.with_file_name("stamp.json");
    fs::write(&draft, serde_json::to_vec_pretty(stamp)?)?;
    fs::rename(&draft, stamp_path)?;
    Ok(())
}

/// A folder below `work/staging` that goes away by itself. Its name has the process's number, so
/// that what a killed call left behind is known as such and removed.
pub(crate) fn staging(env: &Env) -> anyhow::Result<tempfile::TempDir> {
    fs::create_dir_all(env.staging())?;
    for entry in fs::read_dir(env.staging())? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let owner = name.strip_prefix("source-").and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another call may remove it at the same time.
            let _ = fs::remove_dir_all(path);
        }
    }
    tempfile::Builder::new()
        .prefix(&format!("source-{}-", std::process::id()))
        .tempdir_in(env.staging())
        .with_context(|| format!("cannot make a folder in {}", env.staging().display()))
}

/// Waits for the lock, which ends when the file is dropped (or this process dies).
pub(crate) fn lock(env: &Env, path: &Path) -> anyhow::Result<std::fs::File> {
    let file = fs::File::create(path)?.into_parts().0;
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(std::fs::TryLockError::WouldBlock) if !told => {
                told = true;
                env.reporter.line(format!("waiting for {}: it is in use", env.shown(path)));
            }
            Err(std::fs::TryLockError::WouldBlock) => interrupt::sleep(Duration::from_millis(50))?,
            Err(std::fs::TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
    }
}

#[cfg(test)]
mod tests;
