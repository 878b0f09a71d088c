//! The content of a source tree as one value: what is in it, its hash, whether links stay inside.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, bail};
use fs_err as fs;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::hash::Digest;

/// How many links one path may lead through; Linux itself stops at 40.
const MAX_LINKS: usize = 40;

/// One thing in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A folder.
    Dir,
    /// A regular file.
    File {
        /// Whether its owner may execute it.
        executable: bool,
        /// Seconds and nanoseconds since 1970.
        mtime: (i64, i64),
    },
    /// A symbolic link.
    Link(PathBuf),
}

/// Everything in a tree by its path below the tree's root, sorted.
pub(super) type Listing = BTreeMap<PathBuf, Entry>;

/// The two hashes of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Hashes {
    /// Over names, executable bits, targets of links and contents.
    pub(crate) content: Digest,
    /// Over the time stamps of files, by which make decides what is out of date.
    pub(crate) times: Digest,
}

/// Lists a tree; links are not followed.
///
/// # Errors
/// When something cannot be read or is neither file, folder nor link.
pub(super) fn list(root: &Path) -> anyhow::Result<Listing> {
    let mut listing = Listing::new();
    let mut open = vec![PathBuf::new()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(root.join(&dir))? {
            let entry = entry?;
            let path = dir.join(entry.file_name());
            let meta = entry.metadata()?;
            let found = if meta.is_dir() {
                open.push(path.clone());
                Entry::Dir
            } else if meta.is_file() {
                Entry::File {
                    executable: meta.mode() & 0o100 != 0,
                    mtime: (meta.mtime(), meta.mtime_nsec()),
                }
            } else if meta.is_symlink() {
                Entry::Link(fs::read_link(entry.path())?)
            } else {
                bail!("`{}` is neither a file, a folder nor a link", path.display());
            };
            listing.insert(path, found);
        }
    }
    Ok(listing)
}

/// Hashes a tree, on all cores: every file is read.
///
/// # Errors
/// As [`list`].
pub(crate) fn hashes(root: &Path) -> anyhow::Result<Hashes> {
    let listing = list(root)?;
    let files: Vec<&PathBuf> = listing
        .iter()
        .filter_map(|(path, entry)| matches!(entry, Entry::File { .. }).then_some(path))
        .collect();
    let contents = hash_files(root, &files)?;
    let (mut content, mut times) = (Sha256::new(), Sha256::new());
    for (path, entry) in &listing {
        // A name cannot contain a NUL, so the fields cannot run into each other.
        let mut field = |kind: &[u8], value: &[u8]| {
            for part in [kind, path.as_os_str().as_bytes(), value] {
                content.update(part);
                content.update([0]);
            }
        };
        match entry {
            Entry::Dir => field(b"dir", b""),
            Entry::Link(target) => field(b"link", target.as_os_str().as_bytes()),
            Entry::File { executable, mtime } => {
                let kind: &[u8] = if *executable { b"program" } else { b"file" };
                let hash = contents.get(path).context("a file was not hashed")?;
                field(kind, &hash.0);
                times.update(mtime.0.to_le_bytes());
                times.update(mtime.1.to_le_bytes());
            }
        }
    }
    Ok(Hashes {
        content: Digest(content.finalize().into()),
        times: Digest(times.finalize().into()),
    })
}

fn hash_files(root: &Path, files: &[&PathBuf]) -> anyhow::Result<BTreeMap<PathBuf, Digest>> {
    let next = AtomicUsize::new(0);
    let work = || -> std::io::Result<Vec<(PathBuf, Digest)>> {
        let mut done = Vec::new();
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push(((*path).clone(), Digest::of(&fs::read(root.join(path))?)));
        }
        Ok(done)
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut all = BTreeMap::new();
        for handle in handles {
            match handle.join() {
                Ok(done) => all.extend(done?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(all)
    })
}

/// Refuses links that lead out of the tree, alone or together, whether or not their target exists.
///
/// # Errors
/// Names the first such link and its target.
pub(super) fn check_links(listing: &Listing) -> anyhow::Result<()> {
    for (path, entry) in listing {
        if let Entry::Link(target) = entry
            && let Err(reason) = resolve(listing, path.parent().unwrap_or(Path::new("")), target)
        {
            bail!("the link `{}` to `{}` {reason}", path.display(), target.display());
        }
    }
    Ok(())
}

/// Follows `target` from the folder `from` as the kernel would, but only in the listing.
fn resolve(listing: &Listing, from: &Path, target: &Path) -> Result<PathBuf, &'static str> {
    let mut at: PathBuf = from.to_owned();
    let mut todo = steps(target);
    let mut links = 0;
    while let Some(step) = todo.pop() {
        match step.as_bytes() {
            b"/" => return Err("is absolute"),
            b".." => {
                if !at.pop() {
                    return Err("leads out of the tree");
                }
            }
            _ => {
                at.push(&step);
                if let Some(Entry::Link(next)) = listing.get(&at) {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err("leads through too many links");
                    }
                    at.pop();
                    todo.extend(steps(next));
                }
            }
        }
    }
    Ok(at)
}

/// The components of a path, last one first.
fn steps(path: &Path) -> Vec<OsString> {
    let all = path.components().filter(|part| *part != Component::CurDir);
    all.map(|part| part.as_os_str().to_owned()).rev().collect()
}

/// Gives everything plain modes: folders and programs 0755, other files 0644.
///
/// # Errors
/// When a mode cannot be set.
pub(super) fn plain_modes(root: &Path, listing: &Listing) -> anyhow::Result<()> {
    for (path, entry) in listing {
        let mode = match entry {
            Entry::Link(_) => continue,
            Entry::Dir | Entry::File { executable: true, .. } => 0o755,
            Entry::File { executable: false, .. } => 0o644,
        };
        fs::set_permissions(root.join(path), std::fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// A time stamp, from whole seconds since 1970.
///
/// # Errors
/// When there is no such time on this system.
pub(crate) fn time(seconds: u64) -> anyhow::Result<std::time::SystemTime> {
    std::time::UNIX_EPOCH
        .checked_add(std::time::Duration::from_secs(seconds))
        .with_context(|| format!("the time stamp {seconds} is out of range"))
}

/// Sets the time stamp of a file or folder, in whole seconds since 1970.
///
/// # Errors
/// When it cannot be set.
pub(super) fn set_mtime(path: &Path, seconds: u64) -> anyhow::Result<()> {
    let time = time(seconds)?;
    let times = std::fs::FileTimes::new().set_modified(time).set_accessed(time);
    let file = fs::File::open(path)?.into_parts().0;
    file.set_times(times).with_context(|| format!("cannot set the time of {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(all: &[(&str, &str)]) -> Listing {
        let mut listing = Listing::from([("d".into(), Entry::Dir), ("d/e".into(), Entry::Dir)]);
        for (path, target) in all {
            listing.insert(path.into(), Entry::Link(target.into()));
        }
        listing
    }

    #[test]
    fn links_inside_are_fine() {
        for ok in [
            &[("a", "d/e")][..],
            &[("d/up", "..")],
            &[("d/e/x", "../../d/./e/none/../none")],
            &[("a", "b"), ("b", "d/e")],
        ] {
            check_links(&links(ok)).expect("stays inside");
        }
    }

    #[test]
    fn links_that_escape_are_refused() {
        for (bad, reason) in [
            (&[("a", "/etc/passwd")][..], "is absolute"),
            (&[("a", "..")], "leads out"),
            (&[("d/a", "../..")], "leads out"),
            (&[("a", "none/../..")], "leads out"),
            // Each for itself looks harmless by its letters.
            (&[("d/l1", ".."), ("l2", "d/l1/..")], "leads out"),
            (&[("a", "d/b"), ("d/b", "e/../../..")], "leads out"),
            (&[("a", "b"), ("b", "a")], "too many links"),
        ] {
            let error = check_links(&links(bad)).expect_err("it escapes").to_string();
            assert!(error.contains(reason), "{bad:?}: {error}");
        }
    }

    #[test]
    fn hash_sees_names_contents_modes_links_and_times() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path();
        let hash = || hashes(root).expect("readable");
        std::fs::create_dir(root.join("d")).expect("a folder");
        std::fs::write(root.join("d/f"), "one").expect("a file");
        std::os::unix::fs::symlink("d/f", root.join("l")).expect("a link");
        set_mtime(&root.join("d/f"), 1000).expect("a time");
        let first = hash();
        assert_eq!(hash(), first);
        set_mtime(&root.join("d/f"), 1001).expect("a time");
        assert_eq!(hash().content, first.content);
        assert_ne!(hash().times, first.times);
        let mut seen = vec![first.content];
        let mut changed = || {
            let now = hash().content;
            assert!(!seen.contains(&now));
            seen.push(now);
        };
        std::fs::write(root.join("d/f"), "two").expect("a file");
        changed();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(root.join("d/f"), mode).expect("a mode");
        changed();
        std::fs::rename(root.join("d/f"), root.join("d/g")).expect("renamed");
        changed();
        std::fs::remove_file(root.join("l")).expect("removed");
        std::os::unix::fs::symlink("d/g", root.join("l")).expect("a link");
        changed();
        std::fs::create_dir(root.join("empty")).expect("a folder");
        changed();
    }
}
