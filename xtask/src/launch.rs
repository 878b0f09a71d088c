//! The launcher: a hidden call of this program (`xtask __launch SPEC PROGRAM ARGS…`) that arranges
//! what must be true before a program starts, then becomes that program.
//!
//! It can give the program canonical paths (bind mounts in a private mount namespace), an
//! unprivileged user, a set of cores, a umask, and a signal that arrives when this tool dies. Being
//! a process of its own, it needs no code between fork and exec, so the tool has no unsafe code.
//!
//! Mounts: everything lies below [`ROOT`], on a tmpfs that covers the directory only in the private
//! namespace. As root a plain mount namespace does it, otherwise a user namespace that maps the
//! caller's own user and group onto themselves.

use std::ffi::{CString, OsString};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, unshare};
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Pid, Uid, execve, setgid, setgroups, setuid};
use serde::{Deserialize, Serialize};

/// The hidden command word.
pub const COMMAND: &str = "__launch";
/// The directory below which canonical paths stand; every Linux system has it (FHS 3.0, 3.12).
pub const ROOT: &str = "/mnt";

/// What must be true before the program starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Directories or files that get a canonical path below [`ROOT`]; empty: no namespace at all.
    pub binds: Vec<Bind>,
    /// The user and group to become (only root can).
    pub user: Option<(u32, u32)>,
    /// The cores to run on; empty: all.
    pub cpus: Vec<usize>,
    /// The signal that the kernel sends when this tool dies, however it dies.
    pub death_signal: Option<i32>,
    /// The process that must still be the parent when the death signal is asked for.
    pub parent: Option<u32>,
    /// The working directory, as the program sees it.
    pub cwd: Option<PathBuf>,
    /// The file mode mask; 0o022 if not set.
    pub umask: Option<u32>,
    /// Another user or host name that the program only believes in.
    #[serde(default)]
    pub guise: Option<Guise>,
}

/// What a program is made to believe of where it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guise {
    /// The number of its user and group; files still belong to the caller. Not for root.
    pub user: Option<u32>,
    /// The host's name.
    pub host: Option<String>,
}

/// One bind mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// The real path.
    pub host: PathBuf,
    /// The canonical path, below [`ROOT`].
    pub at: PathBuf,
    /// Whether the program may only read.
    pub read_only: bool,
}

/// Runs the launcher with the arguments after [`COMMAND`]; returns only on failure.
///
/// # Errors
/// What could not be arranged, or that the program could not be started.
pub fn main(mut args: impl Iterator<Item = OsString>) -> anyhow::Result<std::convert::Infallible> {
    let spec = args.next().context("no launch specification")?;
    let spec: Spec = serde_json::from_slice(spec.as_bytes()).context("bad launch specification")?;
    let argv = args
        .map(|arg| CString::new(arg.as_bytes()))
        .collect::<Result<Vec<_>, _>>()
        .context("an argument has a NUL byte")?;
    let Some(program) = argv.first() else { bail!("no program to launch") };
    apply(&spec)?;
    let env = std::env::vars_os()
        .map(|(key, value)| CString::new([key.as_bytes(), b"=", value.as_bytes()].concat()))
        .collect::<Result<Vec<_>, _>>()
        .context("a variable has a NUL byte")?;
    execve(program, &argv, &env)
        .with_context(|| format!("cannot start {}", program.to_string_lossy()))
}

fn apply(spec: &Spec) -> anyhow::Result<()> {
    umask(Mode::from_bits_truncate(spec.umask.unwrap_or(0o022)));
    if let Some(guise) = &spec.guise {
        disguise(guise)?;
    }
    if !spec.cpus.is_empty() {
        let mut set = CpuSet::new();
        for cpu in &spec.cpus {
            set.set(*cpu).with_context(|| format!("no core {cpu}"))?;
        }
        sched_setaffinity(Pid::from_raw(0), &set)
            .with_context(|| format!("cannot run on the cores {:?}", spec.cpus))?;
    }
    if !spec.binds.is_empty() {
        enter_namespace()?;
        bind_all(&spec.binds)?;
    }
    if let Some((uid, gid)) = spec.user {
        setgroups(&[Gid::from_raw(gid)]).context("cannot drop the groups")?;
        setgid(Gid::from_raw(gid)).with_context(|| format!("cannot become group {gid}"))?;
        setuid(Uid::from_raw(uid)).with_context(|| format!("cannot become user {uid}"))?;
    }
    if let Some(signal) = spec.death_signal {
        // After the change of user: the kernel forgets the request when the user changes.
        nix::sys::prctl::set_pdeathsig(Signal::try_from(signal)?)
            .context("cannot ask for the parent's death signal")?;
        // It may have died before the request; then the signal never comes.
        let parent = nix::unistd::getppid().as_raw() as u32;
        if spec.parent.is_some_and(|expected| expected != parent) {
            bail!("the tool that wanted this program has ended");
        }
    }
    if let Some(cwd) = &spec.cwd {
        std::env::set_current_dir(cwd)
            .with_context(|| format!("cannot enter {}", cwd.display()))?;
    }
    Ok(())
}

fn disguise(guise: &Guise) -> anyhow::Result<()> {
    let (uid, gid) = (Uid::effective(), Gid::effective());
    let mut namespaces = CloneFlags::empty();
    if guise.host.is_some() {
        namespaces |= CloneFlags::CLONE_NEWUTS;
    }
    if guise.user.is_some() || !uid.is_root() {
        namespaces |= CloneFlags::CLONE_NEWUSER;
    }
    unshare(namespaces).context("the kernel allows no namespace for another name")?;
    if namespaces.contains(CloneFlags::CLONE_NEWUSER) {
        let (user, group) =
            (guise.user.map_or(uid, Uid::from_raw), guise.user.map_or(gid, Gid::from_raw));
        map_user((user, uid), (group, gid))?;
    }
    if let Some(host) = &guise.host {
        nix::unistd::sethostname(host).context("cannot set the host's name")?;
    }
    Ok(())
}

/// Maps one user and one group, each (inside, outside), in a new user namespace.
fn map_user(user: (Uid, Uid), group: (Gid, Gid)) -> anyhow::Result<()> {
    std::fs::write("/proc/self/setgroups", "deny").context("cannot write setgroups")?;
    std::fs::write("/proc/self/uid_map", format!("{} {} 1", user.0, user.1))
        .context("cannot map the user")?;
    std::fs::write("/proc/self/gid_map", format!("{} {} 1", group.0, group.1))
        .context("cannot map the group")
}

/// Enters a mount namespace in which this process may mount.
fn enter_namespace() -> anyhow::Result<()> {
    let (uid, gid) = (Uid::effective(), Gid::effective());
    if !(uid.is_root() && unshare(CloneFlags::CLONE_NEWNS).is_ok()) {
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
            .context("the kernel allows no user namespace")?;
        // The caller keeps its own number, so files belong to the same user inside and outside.
        map_user((uid, uid), (gid, gid))?;
    }
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .context("cannot make the mounts private")
}

fn bind_all(binds: &[Bind]) -> anyhow::Result<()> {
    let none: Option<&str> = None;
    // Opened before the tmpfs covers ROOT: a work directory may itself lie below it.
    let opened = binds
        .iter()
        .map(|bind| {
            use std::os::unix::fs::OpenOptionsExt as _;
            std::fs::OpenOptions::new()
                .read(true)
                .custom_flags(nix::libc::O_PATH)
                .open(&bind.host)
                .with_context(|| format!("cannot open {}", bind.host.display()))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    mount(Some("tmpfs"), ROOT, Some("tmpfs"), MsFlags::empty(), Some("mode=755"))
        .with_context(|| format!("cannot mount over {ROOT}"))?;
    for (bind, file) in binds.iter().zip(&opened) {
        let source = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        make_mount_point(&bind.at, file.metadata()?.is_dir())?;
        mount(Some(&source), &bind.at, none, MsFlags::MS_BIND, none).with_context(|| {
            format!("cannot mount {} at {}", bind.host.display(), bind.at.display())
        })?;
        if bind.read_only {
            read_only(&bind.at);
        }
    }
    Ok(())
}

fn make_mount_point(at: &Path, directory: bool) -> anyhow::Result<()> {
    if !at.starts_with(ROOT) {
        bail!("{} is not below {ROOT}", at.display());
    }
    if directory {
        std::fs::create_dir_all(at)
    } else {
        std::fs::create_dir_all(at.parent().unwrap_or(at)).and_then(|()| std::fs::write(at, ""))
    }
    .with_context(|| format!("cannot make {}", at.display()))
}

/// Best effort: a safety net against a build that writes into its source, which the caller also
/// finds by hash. The flags that the mount has already must be given again in a user namespace.
fn read_only(at: &Path) {
    let none: Option<&str> = None;
    let mut flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    if let Ok(now) = nix::sys::statvfs::statvfs(at) {
        use nix::sys::statvfs::FsFlags;
        for (has, flag) in [
            (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
            (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
            (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
            (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
            (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
            (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
        ] {
            if now.flags().contains(has) {
                flags |= flag;
            }
        }
    }
    let _ = mount(none, at, none, flags, none);
}
