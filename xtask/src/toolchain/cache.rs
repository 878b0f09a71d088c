//! What was found out about compilers, kept until one of their files changes.
//!
//! A file that cannot be read back counts as not there: everything in here can be found out again.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::facts::Toolchain;
use crate::hash::Digest;
use crate::toolchain::probe::Probed;
use crate::toolchain::search::Search;

/// Raised when what is kept, or how it is found out, changes.
const REVISION: u32 = 1;

/// What tells that a file was not touched, without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    path: PathBuf,
    modified_ns: i128,
    changed_ns: i128,
    size: u64,
    inode: u64,
}

impl Stamp {
    /// The stamp of a file as it is now; `None` if there is none.
    pub fn of(path: &Path) -> Option<Self> {
        let meta = std::fs::metadata(path).ok()?;
        let ns = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Some(Self {
            path: path.to_owned(),
            modified_ns: ns(meta.mtime(), meta.mtime_nsec()),
            // The change time cannot be set back, as `cp -p` does with the other.
            changed_ns: ns(meta.ctime(), meta.ctime_nsec()),
            size: meta.size(),
            inode: meta.ino(),
        })
    }
}

/// The files that an answer comes from, each stamped before it is read.
#[derive(Debug, Default)]
pub struct Watched {
    stamps: Vec<Stamp>,
}

impl Watched {
    /// The hash of a file's content.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn digest(&mut self, path: &Path) -> std::io::Result<Digest> {
        self.path(path);
        Digest::of_file(path)
    }

    /// A file or a folder (that is, which names are in it) on which the answer depends.
    pub fn path(&mut self, path: &Path) {
        self.stamps.extend(Stamp::of(path));
    }
}

/// The kept answer while none of its files has changed, else a new one.
///
/// # Errors
/// Those of `ask`; they are not kept.
pub fn stamped<T: Serialize + DeserializeOwned>(
    cache: &Path,
    kind: &str,
    key: &Digest,
    ask: impl FnOnce(&mut Watched) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    if let Some((answer, stamps)) = get::<(T, Vec<Stamp>)>(cache, kind, key)
        && fresh(&stamps)
    {
        return Ok(answer);
    }
    let mut watched = Watched::default();
    let answer = ask(&mut watched)?;
    // A cache that cannot be written costs time, nothing else.
    let _ = put(cache, kind, key, &(&answer, &watched.stamps));
    Ok(answer)
}

fn fresh(stamps: &[Stamp]) -> bool {
    stamps.iter().all(|stamp| Stamp::of(&stamp.path).as_ref() == Some(stamp))
}

#[derive(Serialize, Deserialize)]
struct Kept {
    toolchain: Toolchain,
    stamps: Vec<Stamp>,
    lookups: Vec<(String, Option<PathBuf>)>,
}

/// A key from everything that an answer depends on.
pub fn key(what: &impl Serialize) -> Digest {
    Digest::of(&serde_json::to_vec(&(REVISION, what)).unwrap_or_default())
}

/// A toolchain that was probed before and of which nothing has changed.
pub fn toolchain(cache: &Path, key: &Digest, search: &mut Search) -> Option<Toolchain> {
    let kept: Kept = get(cache, "toolchain", key)?;
    (fresh(&kept.stamps) && search.same(&kept.lookups)).then_some(kept.toolchain)
}

/// Keeps a probed toolchain.
///
/// # Errors
/// When the cache cannot be written.
pub fn keep_toolchain(
    cache: &Path,
    key: &Digest,
    probed: &Probed,
    search: &Search,
) -> anyhow::Result<()> {
    let kept = Kept {
        toolchain: probed.toolchain.clone(),
        stamps: probed.stamps.clone(),
        lookups: search.lookups.clone(),
    };
    put(cache, "toolchain", key, &kept)
}

/// What was kept under this key.
pub fn get<T: DeserializeOwned>(cache: &Path, kind: &str, key: &Digest) -> Option<T> {
    serde_json::from_slice(&std::fs::read(file(cache, kind, key)).ok()?).ok()
}

/// Keeps a value; another process that reads at the same time sees all of it or nothing.
///
/// # Errors
/// When the cache cannot be written.
pub fn put(cache: &Path, kind: &str, key: &Digest, value: &impl Serialize) -> anyhow::Result<()> {
    fs::create_dir_all(cache)?;
    let mut temporary = tempfile::NamedTempFile::new_in(cache)?;
    serde_json::to_writer(&mut temporary, value)?;
    temporary.persist(file(cache, kind, key))?;
    Ok(())
}

fn file(cache: &Path, kind: &str, key: &Digest) -> PathBuf {
    cache.join(format!("{kind}-{}.json", &key.to_string()[..32]))
}
