//! One benchmark on a host at a time, over all processes and users: a build or another benchmark
//! beside it would be measured with it.
//!
//! A benchmark takes two file locks for itself: one at a well-known place of the host, one in the
//! work directory (containers share a host, but not always a temporary folder). Builds share them
//! with other builds. Locks of the kernel end with the process that holds them, so none is stale.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::interrupt;
use crate::progress::Reporter;

/// The host's lock. Not below `$TMPDIR`, which may differ from user to user.
const HOST: &str = "/tmp/cargo-xtask-matrix.lock";
const PAUSE: Duration = Duration::from_millis(200);

/// How the lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Alone: benchmarks.
    Alone,
    /// Together with others that share: builds.
    Shared,
}

/// The held locks; freed when dropped.
#[derive(Debug)]
pub struct HostLock {
    _files: Vec<File>,
}

impl HostLock {
    /// Takes both locks, waiting up to `patience` with a message that says for whom.
    ///
    /// # Errors
    /// When the time is up, the user asks to stop, or a lock file cannot be made.
    pub fn take(
        work: &Path,
        kind: Kind,
        patience: Duration,
        reporter: &Reporter,
    ) -> anyhow::Result<Self> {
        fs_err::create_dir_all(work)?;
        Self::take_files(&[PathBuf::from(HOST), work.join("host.lock")], kind, patience, reporter)
    }

    fn take_files(
        paths: &[PathBuf],
        kind: Kind,
        patience: Duration,
        reporter: &Reporter,
    ) -> anyhow::Result<Self> {
        let begin = Instant::now();
        let mut files = Vec::new();
        for path in paths {
            let file = open(path)
                .with_context(|| format!("cannot open the lock file `{}`", path.display()))?;
            let mut told = false;
            while !held(&file, kind).with_context(|| format!("cannot lock `{}`", path.display()))? {
                let holder = holder(path);
                if begin.elapsed() >= patience {
                    bail!(
                        "another call of this tool builds or measures on this host{holder}; \
                         measuring beside it would be wrong: try again when it is done (lock \
                         `{}`)",
                        path.display()
                    );
                }
                if !told {
                    reporter.line(format!("waiting for another call of this tool{holder}"));
                    told = true;
                }
                interrupt::sleep(PAUSE)?;
            }
            // For the message above; a file of another user cannot be written, which is no harm.
            if let Ok(mut file) = OpenOptions::new().write(true).truncate(true).open(path) {
                let _ = write!(file, "{}", std::process::id());
            }
            files.push(file);
        }
        Ok(Self { _files: files })
    }
}

/// Opens for reading, which is enough for a lock and works on another user's file; makes the file
/// when it is not there.
fn open(path: &Path) -> std::io::Result<File> {
    match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            match OpenOptions::new().read(true).write(true).create_new(true).open(path) {
                // Somebody else was faster.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => File::open(path),
                other => other,
            }
        }
        other => other,
    }
}

fn held(file: &File, kind: Kind) -> std::io::Result<bool> {
    let result = match kind {
        Kind::Alone => file.try_lock(),
        Kind::Shared => file.try_lock_shared(),
    };
    match result {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn holder(path: &Path) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(20).read_to_string(&mut text));
    match (read, text.parse::<u32>()) {
        (Ok(_), Ok(id)) => format!(" (process {id})"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alone_excludes_and_shared_does_not() {
        let temp = tempfile::tempdir().expect("a directory");
        let paths = [temp.path().join("a.lock"), temp.path().join("b.lock")];
        let reporter = Reporter::new(true);
        let take = |kind| HostLock::take_files(&paths, kind, Duration::ZERO, &reporter);
        let shared = [take(Kind::Shared).expect("free"), take(Kind::Shared).expect("shared")];
        let error = take(Kind::Alone).expect_err("builds run");
        let id = std::process::id();
        assert!(error.to_string().contains(&format!("(process {id})")), "{error}");
        drop(shared);
        let alone = take(Kind::Alone).expect("free again");
        assert!(take(Kind::Shared).is_err() && take(Kind::Alone).is_err());
        drop(alone);
        take(Kind::Shared).expect("free again");
    }

    #[test]
    fn waiting_ends_when_the_other_does() {
        let temp = tempfile::tempdir().expect("a directory");
        let paths = [temp.path().join("a.lock")];
        let reporter = Reporter::new(true);
        let first = HostLock::take_files(&paths, Kind::Alone, Duration::ZERO, &reporter);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                drop(first);
            });
            HostLock::take_files(&paths, Kind::Alone, Duration::from_secs(30), &reporter)
                .expect("free after a while");
        });
    }
}
