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
//!
//! With a root folder of its own (a sealed toolchain) the program sees that, read-only, and nothing
//! else of this machine but `/proc`, a few devices and what is bound below [`ROOT`].

use std::ffi::{CString, OsString};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, unshare};
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Pid, Uid, chroot, execve, pivot_root, setgid, setgroups, setuid};
use serde::{Deserialize, Serialize};

/// The hidden command word.
pub const COMMAND: &str = "__launch";
/// The directory below which canonical paths stand; every Linux system has it (FHS 3.0, 3.12).
pub const ROOT: &str = "/mnt";

/// What a root folder must have, because something is mounted there.
pub const MOUNT_POINTS: [&str; 4] = ["mnt", "proc", "dev", "tmp"];
/// The devices of a root folder: those that programs may count on, none of a particular machine.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// What must be true before the program starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Directories or files that get a canonical path below [`ROOT`]; no namespace at all when
    /// there are none and no root either.
    pub binds: Vec<Bind>,
    /// A folder that becomes `/`, read-only; it must have the folders of [`MOUNT_POINTS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
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
    match &spec.root {
        Some(root) => {
            enter_namespace()?;
            let opened = open_all(&spec.binds)?;
            change_root(root, &spec.binds, &opened)?;
        }
        None if !spec.binds.is_empty() => {
            enter_namespace()?;
            let opened = open_all(&spec.binds)?;
            bind_all(Path::new(ROOT), &spec.binds, &opened)?;
        }
        None => {}
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

/// Holds what is to be bound: the tmpfs covers [`ROOT`], below which a work directory may lie, and
/// a new root covers everything.
fn open_all(binds: &[Bind]) -> anyhow::Result<Vec<File>> {
    binds.iter().map(|bind| open_path(&bind.host)).collect()
}

fn open_path(path: &Path) -> anyhow::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_PATH)
        .open(path)
        .with_context(|| format!("cannot open {}", path.display()))
}

/// The name of an opened file by which it can be mounted.
fn name_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Makes the canonical paths. `at` is where [`ROOT`] is at this moment.
fn bind_all(at: &Path, binds: &[Bind], opened: &[File]) -> anyhow::Result<()> {
    let none: Option<&str> = None;
    tmpfs(at, "mode=755")?;
    for (bind, file) in binds.iter().zip(opened) {
        let Ok(below) = bind.at.strip_prefix(ROOT) else {
            bail!("{} is not below {ROOT}", bind.at.display());
        };
        let place = at.join(below);
        make_mount_point(&place, file.metadata()?.is_dir())?;
        mount(Some(&name_of(file)), &place, none, MsFlags::MS_BIND, none).with_context(|| {
            format!("cannot mount {} at {}", bind.host.display(), bind.at.display())
        })?;
        if bind.read_only {
            read_only(&place);
        }
    }
    Ok(())
}

fn tmpfs(at: &Path, options: &str) -> anyhow::Result<()> {
    mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some(options))
        .with_context(|| format!("cannot mount over {}", at.display()))
}

fn make_mount_point(at: &Path, directory: bool) -> anyhow::Result<()> {
    if directory {
        std::fs::create_dir_all(at)
    } else {
        std::fs::create_dir_all(at.parent().unwrap_or(at)).and_then(|()| std::fs::write(at, ""))
    }
    .with_context(|| format!("cannot make {}", at.display()))
}

/// Makes `root` the root folder of this process. It is put together over [`ROOT`], which is there on
/// every machine, and then turned into `/`.
fn change_root(root: &Path, binds: &[Bind], opened: &[File]) -> anyhow::Result<()> {
    let none: Option<&str> = None;
    let folder = open_path(root)?;
    let devices = DEVICES.map(|name| (name, open_path(&Path::new("/dev").join(name))));
    let new = Path::new(ROOT);
    mount(Some(&name_of(&folder)), new, none, MsFlags::MS_BIND, none)
        .with_context(|| format!("cannot mount {}", root.display()))?;
    for name in MOUNT_POINTS {
        if !new.join(name).is_dir() {
            bail!("{} has no folder `{name}`", root.display());
        }
    }
    read_only(new);
    // A user namespace may show only the processes that can be seen already.
    mount(Some("/proc"), &new.join("proc"), none, MsFlags::MS_BIND | MsFlags::MS_REC, none)
        .context("cannot mount /proc")?;
    tmpfs(&new.join("tmp"), "mode=1777")?;
    let dev = new.join("dev");
    tmpfs(&dev, "mode=755")?;
    for (name, file) in &devices {
        // Nothing builds worse without a terminal.
        let Ok(file) = file else { continue };
        make_mount_point(&dev.join(name), false)?;
        mount(Some(&name_of(file)), &dev.join(name), none, MsFlags::MS_BIND, none)
            .with_context(|| format!("cannot mount /dev/{name}"))?;
    }
    for (name, target) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")]
    {
        std::os::unix::fs::symlink(Path::new("/proc/self").join(target), dev.join(name))
            .with_context(|| format!("cannot make /dev/{name}"))?;
    }
    bind_all(&new.join("mnt"), binds, opened)?;
    enter_root(new)
}

/// Turns the mount at `new` into `/` and lets go of everything else.
fn enter_root(new: &Path) -> anyhow::Result<()> {
    std::env::set_current_dir(new).context("cannot enter the new root")?;
    // Stacks the old root under the new one at the same place, from where it is then taken away;
    // pivot_root(2), "pivot_root(".", ".")".
    if pivot_root(".", ".").is_ok() {
        umount2(".", MntFlags::MNT_DETACH).context("cannot let go of the old root")?;
    } else {
        // The very first root of a machine (an initramfs) cannot be exchanged.
        chroot(".").context("cannot change the root")?;
    }
    std::env::set_current_dir("/").context("cannot enter the new root")
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
