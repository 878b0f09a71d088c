//! One benchmark on a host at a time, over all processes and users: a build or another benchmark
//! beside it would be measured with it.
//!
//! A benchmark takes two file locks for itself: one at a well-known place of the host, one in the
//! work directory (containers share a host, but not always a temporary folder). Builds share them
//! with other builds. Locks of the kernel end with the process that holds them, so none is stale.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use nix::fcntl::OFlag;

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
            let file = open(path).with_context(|| {
                format!("cannot use the lock file `{0}`: look at `ls -l {0}`", path.display())
            })?;
            let mut told = false;
            while !held(&file, kind).with_context(|| format!("cannot lock `{}`", path.display()))? {
                let holder = holder(&file);
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
            // For the message above only: without it the others wait just the same.
            let text = format!("{}\n", std::process::id());
            let _ = file.set_len(0).and_then(|()| file.write_all_at(text.as_bytes(), 0));
            files.push(file);
        }
        Ok(Self { _files: files })
    }
}

/// Opens the lock file, or makes it so that every user can lock it. Anybody may put anything at a
/// well-known place of `/tmp`: a link is not followed, a pipe does not hang, and only a plain file
/// with this one name is written to.
fn open(path: &Path) -> anyhow::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let options = || {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags.bits());
        options
    };
    let existing = || match options().write(true).open(path) {
        // Reading is enough for a lock.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => options().open(path),
        other => other,
    };
    let file = match existing() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            match options().write(true).create_new(true).open(path) {
                Ok(file) => {
                    // Whatever the umask says.
                    file.set_permissions(Permissions::from_mode(0o666))?;
                    file
                }
                // Somebody else was faster.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => existing()?,
                Err(error) => return Err(error.into()),
            }
        }
        other => other?,
    };
    let found = file.metadata()?;
    ensure!(found.is_file(), "it is no plain file");
    ensure!(found.nlink() == 1, "it has {} names, so it may be another file", found.nlink());
    Ok(file)
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

fn holder(file: &File) -> String {
    let mut bytes = [0; 20];
    let length = file.read_at(&mut bytes, 0).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes[..length]);
    text.trim().parse::<u32>().map_or_else(|_| String::new(), |id| format!(" (process {id})"))
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

    #[test]
    fn every_user_can_lock_and_what_is_no_plain_file_is_refused() {
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("a.lock");
        let take = |path: &Path| {
            let reporter = Reporter::new(true);
            HostLock::take_files(&[path.to_owned()], Kind::Alone, Duration::ZERO, &reporter)
        };
        drop(take(&path).expect("free"));
        assert_eq!(path.metadata().expect("there").mode() & 0o777, 0o666);
        let own = format!("{}\n", std::process::id());
        assert_eq!(std::fs::read_to_string(&path).expect("text"), own);

        let victim = temp.path().join("victim");
        std::fs::write(&victim, "precious").expect("written");
        let (link, name, pipe) =
            (temp.path().join("link"), temp.path().join("name"), temp.path().join("pipe"));
        std::os::unix::fs::symlink(&victim, &link).expect("linked");
        std::os::unix::fs::symlink(temp.path().join("new"), temp.path().join("loose"))
            .expect("linked");
        std::fs::hard_link(&victim, &name).expect("linked");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("made");
        for bad in [&link, &temp.path().join("loose"), &name, &pipe, &temp.path().to_owned()] {
            let error = take(bad).expect_err("refused");
            assert!(error.to_string().contains(&bad.display().to_string()), "{error:#}");
        }
        assert_eq!(std::fs::read_to_string(&victim).expect("there"), "precious");
        assert!(!temp.path().join("new").exists());
    }
}
