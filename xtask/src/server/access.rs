//! Who the server runs as and under which paths it sees its files.
//!
//! Database servers refuse to run as root. As root this tool drops to an unprivileged user; that
//! user cannot pass a folder such as `/root`, but with a mount namespace it need not: the files are
//! bound to canonical paths before the user changes.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use nix::unistd::{Uid, User};

use crate::exit::{Code, coded};
use crate::launch::{Bind, ROOT, Spec};
use crate::matrix::model::Engine;
use crate::proc::Proc;

/// An unprivileged user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// The number of its first group.
    pub gid: u32,
}

/// How servers are started by this call of the tool.
#[derive(Clone, Debug)]
pub struct Access {
    tool: PathBuf,
    account: Option<Account>,
    canonical: bool,
}

/// Paths as the server sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The installation.
    pub prefix: PathBuf,
    /// The data directory.
    pub data: PathBuf,
    /// The folder of the socket.
    pub socket: PathBuf,
    /// Whether these are canonical paths in a namespace of the server's own.
    pub mounted: bool,
}

impl Access {
    /// Finds the user for servers of `engine` and whether mount namespaces are allowed. `tool` is
    /// the file of this program.
    ///
    /// # Errors
    /// When the tool runs as root and there is no unprivileged user.
    pub fn new(tool: impl Into<PathBuf>, engine: Engine) -> anyhow::Result<Self> {
        let tool = tool.into();
        let account = if Uid::effective().is_root() { Some(unprivileged(engine)?) } else { None };
        let canonical = may_mount(&tool, account.as_ref());
        Ok(Self { tool, account, canonical })
    }

    /// The same without namespaces, as on a kernel that does not allow them.
    #[must_use]
    pub fn without_mounts(mut self) -> Self {
        self.canonical = false;
        self
    }

    /// The file of this program, for the launcher.
    pub fn tool(&self) -> &Path {
        &self.tool
    }

    /// The user that servers run as; `None`: the caller's own.
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// Whether servers see canonical paths.
    pub fn canonical(&self) -> bool {
        self.canonical
    }

    /// Makes the server's user the owner of one file or folder.
    ///
    /// # Errors
    /// When the owner cannot be changed.
    pub fn give(&self, path: &Path) -> anyhow::Result<()> {
        match &self.account {
            None => Ok(()),
            Some(Account { name, uid, gid }) => {
                std::os::unix::fs::lchown(path, Some(*uid), Some(*gid))
                    .with_context(|| format!("cannot give `{}` to user `{name}`", path.display()))
            }
        }
    }

    /// The paths as the server sees them.
    pub fn seen(&self, prefix: &Path, data: &Path, socket: &Path) -> Seen {
        let mounted = self.canonical;
        let path = |name: &str, real: &Path| {
            if mounted { Path::new(ROOT).join(name) } else { real.to_owned() }
        };
        Seen {
            prefix: path("prefix", prefix),
            data: path("data", data),
            socket: path("socket", socket),
            mounted,
        }
    }

    /// An error with advice when the server's user cannot pass a folder above one of `paths`.
    ///
    /// # Errors
    /// With [`Code::Environment`].
    pub fn check_reach(&self, paths: &[&Path]) -> anyhow::Result<()> {
        let Some(account) = self.account.as_ref().filter(|_| !self.canonical) else {
            return Ok(());
        };
        for path in paths {
            if let Some(closed) = closed_folder(account, path)? {
                return Err(coded(
                    Code::Environment,
                    format!(
                        "user `{}`, as whom the server must run, cannot pass `{}` to reach `{}`: \
                         give a work directory elsewhere (`--work DIR`), run this tool as a plain \
                         user, or allow mount namespaces (a container needs CAP_SYS_ADMIN)",
                        account.name,
                        closed.display(),
                        path.display()
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// The first of the known unprivileged users that this system has.
fn unprivileged(engine: Engine) -> anyhow::Result<Account> {
    let own = match engine {
        Engine::Postgres => "postgres",
        Engine::Mysql | Engine::Mariadb => "mysql",
    };
    for name in [own, "nobody"] {
        if let Some(user) = User::from_name(name).context("cannot read the list of users")? {
            return Ok(Account { name: user.name, uid: user.uid.as_raw(), gid: user.gid.as_raw() });
        }
    }
    Err(coded(
        Code::Environment,
        format!(
            "servers refuse to run as root and this system has neither user `{own}` nor `nobody`; \
             make one with `useradd --system {own}` or run this tool as a plain user"
        ),
    ))
}

/// Tries what the servers will need on the tool itself, the one program that is surely there.
fn may_mount(tool: &Path, account: Option<&Account>) -> bool {
    let at = Path::new(ROOT).join("tool");
    let spec = Spec {
        binds: vec![Bind { host: tool.to_owned(), at: at.clone(), read_only: true }],
        user: account.map(|account| (account.uid, account.gid)),
        ..Spec::default()
    };
    Proc::new(at)
        .arg("--version")
        .timeout(Duration::from_secs(20))
        .launch(tool, spec)
        .run_any()
        .is_ok_and(|output| output.status.success())
}

/// The first folder on the way to `path` that `account` cannot pass, by the mode bits.
fn closed_folder(account: &Account, path: &Path) -> anyhow::Result<Option<PathBuf>> {
    let mut folders: Vec<_> = path.ancestors().skip(1).collect();
    folders.reverse();
    for folder in folders {
        let meta = fs_err::metadata(folder)?;
        let bit = if meta.uid() == account.uid {
            0o100
        } else if meta.gid() == account.gid {
            0o010
        } else {
            0o001
        };
        if meta.mode() & bit == 0 {
            return Ok(Some(folder.to_owned()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn closed_folders_are_found_by_owner_group_and_others() {
        let temp = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(temp.path(), PermissionsExt::from_mode(0o755)).expect("mode");
        let (inner, leaf) = (temp.path().join("a"), temp.path().join("a/b"));
        std::fs::create_dir_all(&leaf).expect("made");
        let meta = inner.metadata().expect("there");
        let account = |uid, gid| Account { name: "x".to_owned(), uid, gid };
        let own = account(meta.uid(), 54_321);
        let group = account(54_321, meta.gid());
        let other = account(54_321, 54_321);
        for (mode, closed) in [
            (0o755, [false, false, false]),
            (0o700, [false, true, true]),
            (0o710, [false, false, true]),
            (0o071, [true, false, false]),
        ] {
            std::fs::set_permissions(&inner, PermissionsExt::from_mode(mode)).expect("mode");
            for (account, closed) in [&own, &group, &other].into_iter().zip(closed) {
                let found = closed_folder(account, &leaf).expect("readable");
                assert_eq!(found.is_some(), closed, "{mode:o} {account:?} {found:?}");
                assert!(found.is_none_or(|found| found == inner));
            }
        }
        std::fs::set_permissions(&inner, PermissionsExt::from_mode(0o755)).expect("mode");
    }

    #[test]
    fn paths_are_canonical_only_with_mounts() {
        let access = Access { tool: "/x".into(), account: None, canonical: true };
        let paths = ["/a/pg", "/b/data", "/tmp/s"].map(Path::new);
        let seen = access.seen(paths[0], paths[1], paths[2]);
        assert_eq!(seen.data, Path::new("/mnt/data"));
        let seen = access.without_mounts().seen(paths[0], paths[1], paths[2]);
        assert_eq!([&*seen.prefix, &*seen.data, &*seen.socket], paths);
    }

    #[test]
    fn unreachable_paths_are_an_environment_error_with_advice() {
        let temp = tempfile::tempdir().expect("a directory");
        let inner = temp.path().join("closed/data");
        std::fs::create_dir_all(&inner).expect("made");
        let closed = temp.path().join("closed");
        std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).expect("mode");
        std::fs::set_permissions(temp.path(), PermissionsExt::from_mode(0o755)).expect("mode");
        let account = Some(Account { name: "someone".to_owned(), uid: 54_321, gid: 54_321 });
        let access = Access { tool: "/x".into(), account, canonical: false };
        let error = access.check_reach(&[&inner]).expect_err("closed");
        assert_eq!(crate::exit::code_of(&error), Code::Environment);
        assert!(error.to_string().contains("--work DIR"), "{error}");
        assert!(error.to_string().contains(closed.to_str().expect("text")), "{error}");
    }
}
