//! A private database server: initialised, started, waited for, stopped, whatever happens.
//!
//! Private means: reachable only through a Unix socket in a folder of mode 0700, an unprivileged
//! user when the tool runs as root, a data directory of its own. The server runs in the foreground
//! as a child of this tool, so that its end is seen at once; when the tool is killed the kernel
//! sends it the signal that ends it ([`crate::launch`]).
//!
//! Servers of all builds see the same paths (`/mnt/prefix`, `/mnt/data`, `/mnt/socket`) where the
//! kernel allows mount namespaces: paths lie in the memory of a process, and their lengths shift
//! what stands behind them, so they must not differ between the builds that are compared.

pub mod access;
pub mod config;
pub mod mycnf;
pub mod mysql;
pub mod postgres;
pub mod preload;
pub mod under;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use fs_err as fs;
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::bench::procstat::Tracker;
use crate::exit::{Code, coded};
use crate::interrupt;
use crate::launch::{Bind, Spec};
use crate::matrix::model::Engine;
use crate::proc::{Output, Proc, Running};
use access::{Access, Seen};
use preload::Library;
use under::Under;

/// The superuser of every private PostgreSQL server.
pub const USER: &str = "matrix";
/// The database of the measured tables in PostgreSQL.
pub const DATABASE: &str = "postgres";
/// How long a server may take until it answers; crash recovery is the longest case.
pub const START_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a clean stop may take: it writes out every changed page.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(300);
/// Nobody else can reach the socket's folder, so the usual port is free.
const PORT: u16 = 5432;
/// The kernel's limit for the path of a Unix socket (108 bytes with the final NUL, `unix(7)`).
const SOCKET_PATH_LIMIT: usize = 107;

/// An installed server, built here or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// The DBMS family.
    pub engine: Engine,
    /// The folder that has `bin/`.
    pub prefix: PathBuf,
}

/// What a config gives the server, with every formula computed for this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Lines of the server's configuration file, later ones win.
    pub lines: Vec<(String, String)>,
    /// Variables of the server's environment.
    pub env: Vec<(String, String)>,
    /// Libraries to preload.
    pub preload: Vec<Library>,
}

impl Install {
    /// The path of one program as this tool sees it.
    pub fn program(&self, name: &str) -> PathBuf {
        self.prefix.join("bin").join(name)
    }

    fn check(&self) -> anyhow::Result<()> {
        if self.engine != Engine::Postgres {
            return mysql::check(self);
        }
        for name in ["postgres", "initdb"] {
            let path = self.program(name);
            if !path.is_file() {
                return Err(coded(
                    Code::Environment,
                    format!("no server in `{}`: `bin/{name}` is missing", self.prefix.display()),
                ));
            }
        }
        Ok(())
    }
}

/// Makes a new data directory; `data` must not exist. The server's own messages go to `log`.
///
/// # Errors
/// When the installation is not complete, a path cannot be reached or the server's own program for
/// it fails.
pub fn init(
    access: &Access,
    install: &Install,
    init_args: &[String],
    data: &Path,
    log: &Path,
) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    install.check()?;
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(data)
        .with_context(|| format!("cannot make the data directory `{}`", data.display()))?;
    access.give(data)?;
    access.check_reach(&[&install.prefix, data])?;
    match install.engine {
        Engine::Postgres => initdb(access, install, init_args, data, log),
        Engine::Mysql | Engine::Mariadb => mysql::init(access, install, init_args, data, log),
    }
    .with_context(|| format!("cannot make a data directory with `{}`", install.prefix.display()))
}

/// Locale `C` and encoding `UTF8` on every host, so that the order of text and its cost are equal;
/// no fsync, because a directory that is lost in a crash is made again.
fn initdb(
    access: &Access,
    install: &Install,
    init_args: &[String],
    data: &Path,
    log: &Path,
) -> anyhow::Result<()> {
    let seen = access.seen(&install.prefix, data, Path::new("/"));
    let binds = binds(&seen, install, data, None);
    Proc::new(seen.prefix.join("bin/initdb"))
        .arg("-D")
        .arg(&seen.data)
        .args(["--locale=C", "--encoding=UTF8", "--auth=trust", "--no-sync"])
        .arg(format!("--username={USER}"))
        .args(init_args)
        .log(log)
        .timeout(START_TIMEOUT)
        .launch(access.tool(), spec(access, &seen, binds, &[], Signal::SIGQUIT))
        .run()
        .map(drop)
}

/// What is worth a warning about a config before the server is started with it.
///
/// # Errors
/// With [`Code::Input`] when the server is known to refuse it; when it is not whole.
pub fn check_settings(install: &Install, settings: &Settings) -> anyhow::Result<Vec<String>> {
    match install.engine {
        Engine::Postgres => Ok(Vec::new()),
        engine => mycnf::check(engine, &mysql::version(install)?, &settings.lines),
    }
}

/// A running server; stopped when dropped.
///
/// The thread that starts it must outlive it: the kernel counts the end of that thread as the death
/// of the parent (`PR_SET_PDEATHSIG` in `prctl(2)`).
#[derive(Debug)]
pub struct Server {
    // Dropped first: the socket's folder goes only after the server.
    running: Running,
    proc: Proc,
    engine: Engine,
    kill: Signal,
    socket: PathBuf,
    log: PathBuf,
    version: Option<String>,
    _socket_folder: TempDir,
}

impl Server {
    /// Writes the configuration into `data`, starts the server on `cpus` (empty: all) and waits
    /// until it answers.
    ///
    /// # Errors
    /// When the configuration is refused, the server ends, or it does not answer in
    /// [`START_TIMEOUT`]; with the tail of its log.
    pub fn start(
        access: &Access,
        install: &Install,
        settings: &Settings,
        data: &Path,
        cpus: &[usize],
        log: &Path,
    ) -> anyhow::Result<Self> {
        Self::start_under(None, access, install, settings, data, cpus, log)
    }

    /// The same under another program. Nobody connects before the server is ready then, so that it
    /// does the same work at every start.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_under(
        under: Option<&Under>,
        access: &Access,
        install: &Install,
        settings: &Settings,
        data: &Path,
        cpus: &[usize],
        log: &Path,
    ) -> anyhow::Result<Self> {
        install.check()?;
        let folder = socket_folder(&std::env::temp_dir())?;
        access.give(folder.path())?;
        access.check_reach(&[&install.prefix, data, folder.path()])?;
        let seen = access.seen(&install.prefix, data, folder.path());
        // How it is stopped at once: when this tool dies, or its data are of no use any more.
        let (proc, socket, kill) = match install.engine {
            Engine::Postgres => {
                let proc = postgres_command(access, settings, &seen, data)?;
                (proc, format!(".s.PGSQL.{PORT}"), Signal::SIGQUIT)
            }
            Engine::Mysql | Engine::Mariadb => {
                let proc = mysql::command(access, install, &settings.lines, &seen, data)?;
                (proc, mysql::SOCKET.to_owned(), Signal::SIGKILL)
            }
        };
        let binds = binds(&seen, install, data, Some(folder.path()));
        let mut proc = proc.log(log).launch(access.tool(), spec(access, &seen, binds, cpus, kill));
        if let Some(Under { program, args }) = under {
            proc = proc.under(program, args);
        }
        for (key, value) in &settings.env {
            proc = proc.env(key, value);
        }
        if !settings.preload.is_empty() {
            let paths: Vec<_> =
                settings.preload.iter().map(|it| it.path.to_string_lossy()).collect();
            proc = proc.env("LD_PRELOAD", paths.join(":"));
        }
        let mut server = Self {
            running: proc.spawn()?,
            proc,
            engine: install.engine,
            kill,
            version: None,
            socket: folder.path().join(socket),
            log: log.to_owned(),
            _socket_folder: folder,
        };
        if under.is_some() && install.engine == Engine::Postgres {
            server.wait_written(data)?;
        }
        server.wait_ready(START_TIMEOUT)?;
        preload::check(&settings.preload, server.id())?;
        Ok(server)
    }

    /// Waits until the server has written that it is ready.
    fn wait_written(&mut self, data: &Path) -> anyhow::Result<()> {
        let begin = Instant::now();
        while !postgres::says_ready(data) && begin.elapsed() < START_TIMEOUT {
            interrupt::check()?;
            self.check()?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The Unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The server's address for the load driver.
    pub fn endpoint(&self) -> catalog::protocol::Server {
        use catalog::protocol::WireProtocol;
        let (protocol, user, database) = match self.engine {
            Engine::Postgres => (WireProtocol::Postgres, USER, DATABASE),
            Engine::Mysql | Engine::Mariadb => (WireProtocol::Mysql, mysql::USER, mysql::DATABASE),
        };
        catalog::protocol::Server {
            protocol,
            socket: self.socket.to_string_lossy().into_owned(),
            user: user.to_owned(),
            database: database.to_owned(),
        }
    }

    /// Moves the running server to these cores: what it has started already and what it will start.
    ///
    /// # Errors
    /// When it is gone or the kernel refuses.
    pub fn pin(&self, cpus: &[usize]) -> anyhow::Result<()> {
        let mut set = CpuSet::new();
        for cpu in cpus {
            set.set(*cpu).with_context(|| format!("no core {cpu}"))?;
        }
        let pin = |id: u32| sched_setaffinity(Pid::from_raw(id as i32), &set);
        // The first process first: what it starts from now on inherits.
        pin(self.id()).with_context(|| format!("cannot run the server on the cores {cpus:?}"))?;
        let tracker = Tracker::new(self.id())?;
        let mut seen = BTreeSet::new();
        loop {
            let before = seen.len();
            for thread in tracker.threads()? {
                match if seen.insert(thread) { pin(thread) } else { Ok(()) } {
                    // It ended meanwhile.
                    Ok(()) | Err(Errno::ESRCH) => {}
                    Err(error) => {
                        return Err(error).context(format!("cannot move {thread} to {cpus:?}"));
                    }
                }
            }
            // What a thread started before it was moved itself is seen when looking again.
            if seen.len() == before {
                return Ok(());
            }
        }
    }

    /// The version in the server's own words, when it has told it.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The id of the server's first process, the root of its process tree.
    pub fn id(&self) -> u32 {
        self.running.id()
    }

    /// Waits until the server accepts connections (again, after a crash of one of its processes).
    ///
    /// # Errors
    /// When it has ended, refuses for good, or the time is up.
    pub fn wait_ready(&mut self, timeout: Duration) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            interrupt::check()?;
            self.check()?;
            let answer = match self.engine {
                Engine::Postgres => postgres::ping(&self.socket, USER, DATABASE),
                _ => mysql::greeting::hear(&self.socket).map(Some),
            };
            let refusal = match answer {
                Ok(version) => {
                    self.version = version;
                    return Ok(());
                }
                Err(error) => error,
            };
            if begin.elapsed() > timeout {
                let tail = crate::proc::tail_of(&self.log);
                bail!(
                    "the server does not answer after {timeout:?}: {refusal:#}{tail}\n  \
                     whole log: {}",
                    self.log.display()
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// An error when the server has ended by itself.
    ///
    /// # Errors
    /// With how it ended and the tail of its log.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.running.poll()? {
            None => Ok(()),
            Some(status) => {
                let (stdout, stderr) = (Vec::new(), Vec::new());
                let output = Output { status, stdout, stderr, elapsed: Duration::ZERO };
                let words = match self.engine {
                    Engine::Postgres => None,
                    _ => mysql::complaint(&self.log),
                };
                let words = words.map_or_else(String::new, |words| format!(": {words}"));
                Err(self.proc.failure(&output).context(format!("the server has ended{words}")))
            }
        }
    }

    /// Stops the server cleanly: everything is on disk afterwards.
    ///
    /// # Errors
    /// When it had to be killed or ended with an error.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.check()?;
        match self.running.stop(STOP_TIMEOUT) {
            Some(status) if status.success() => Ok(()),
            status => bail!(
                "the server did not stop cleanly ({}); its log: {}",
                status.map_or_else(|| "no exit status".to_owned(), |status| status.to_string()),
                self.log.display()
            ),
        }
    }

    /// Stops the server at once; its data directory is of no further use.
    pub fn abandon(mut self) {
        // Without a checkpoint, which could take longer than the measurement.
        let _ = nix::sys::signal::kill(Pid::from_raw(self.running.id() as i32), self.kill);
        let _ = self.running.wait(Some(Duration::from_secs(10)));
    }
}

/// A new folder for a socket, of mode 0700 and with a path that is short enough.
fn socket_folder(temp: &Path) -> anyhow::Result<TempDir> {
    let longest = format!("/matrix-XXXXXX/.s.PGSQL.{PORT}").len();
    let long = temp.as_os_str().len() + longest > SOCKET_PATH_LIMIT;
    let base = if long { Path::new("/tmp") } else { temp };
    tempfile::Builder::new()
        .prefix("matrix-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .tempdir_in(base)
        .with_context(|| {
            format!("cannot make a folder for the server's socket in {}", base.display())
        })
}

fn binds(seen: &Seen, install: &Install, data: &Path, socket: Option<&Path>) -> Vec<Bind> {
    if !seen.mounted {
        return Vec::new();
    }
    let bind = |host: &Path, at: &Path, read_only| Bind {
        host: host.to_owned(),
        at: at.to_owned(),
        read_only,
    };
    let mut binds = vec![bind(&install.prefix, &seen.prefix, true), bind(data, &seen.data, false)];
    binds.extend(socket.map(|socket| bind(socket, &seen.socket, false)));
    binds
}

fn postgres_command(
    access: &Access,
    settings: &Settings,
    seen: &Seen,
    data: &Path,
) -> anyhow::Result<Proc> {
    let text = config::postgresql_conf(&settings.lines, &seen.socket, PORT)?;
    let file = data.join("postgresql.conf");
    fs::write(&file, text)?;
    access.give(&file)?;
    let proc = Proc::new(seen.prefix.join("bin/postgres")).arg("-D").arg(&seen.data);
    // Fast shutdown: ends sessions, writes a checkpoint.
    Ok(proc.stop_signal(Signal::SIGINT))
}

fn spec(
    access: &Access,
    seen: &Seen,
    binds: Vec<Bind>,
    cpus: &[usize],
    death_signal: Signal,
) -> Spec {
    Spec {
        binds,
        user: access.account().map(|account| (account.uid, account.gid)),
        cpus: cpus.to_vec(),
        death_signal: Some(death_signal as i32),
        cwd: Some(seen.data.clone()),
        umask: Some(0o077),
        ..Spec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_folder_is_private_and_short() {
        use std::os::unix::fs::PermissionsExt as _;
        let temp = tempfile::tempdir().expect("a directory");
        let deep = temp.path().join("x".repeat(90));
        std::fs::create_dir(&deep).expect("made");
        let near = socket_folder(temp.path()).expect("a folder");
        assert!(near.path().starts_with(temp.path()));
        assert_eq!(near.path().metadata().expect("there").permissions().mode() & 0o777, 0o700);
        let far = socket_folder(&deep).expect("a folder");
        assert!(far.path().starts_with("/tmp") && !far.path().starts_with(&deep));
    }

    #[test]
    fn incomplete_installations_are_named() {
        let temp = tempfile::tempdir().expect("a directory");
        let install = |engine| Install { engine, prefix: temp.path().to_owned() };
        let error = install(Engine::Postgres).check().expect_err("nothing there");
        assert_eq!(crate::exit::code_of(&error), Code::Environment);
        assert!(error.to_string().contains("`bin/postgres` is missing"), "{error}");
        let error = install(Engine::Mariadb).check().expect_err("nothing there");
        assert_eq!(crate::exit::code_of(&error), Code::Environment);
        assert!(error.to_string().contains("`mariadbd`"), "{error}");
    }
}
