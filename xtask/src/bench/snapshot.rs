//! Loaded data directories: each made once, then copied for every invocation.
//!
//! All builds of one source share one, so they start from the same bytes; loading takes longer than
//! most measurements, copying does not. Files are copied with `copy_file_range(2)`, which shares
//! the blocks on file systems that can (XFS, Btrfs) and copies inside the kernel elsewhere.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use catalog::protocol::{Action, Data, Event, Job, VERSION};
use fs_err as fs;
use serde::Serialize;

use super::command::Surroundings;
use super::driver::Driver;
use crate::env::Env;
use crate::hash::Digest;
use crate::matrix::model::Engine;
use crate::proc::own_file;
use crate::progress::{Task, seconds};
use crate::server::access::Access;
use crate::server::{self, Install, Server, Settings, mycnf, mysql};
use crate::{interrupt, launch};

/// Raised when this file changes what a snapshot holds.
const FORMAT: u32 = 2;
/// Loading may take this long at most.
const LOAD_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// For loading PostgreSQL only: nothing is logged or synced twice, because a load that is cut off
/// is repeated from the start. The files that come out do not depend on these.
const LOAD_SETTINGS: [(&str, &str); 10] = [
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("synchronous_commit", "off"),
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "1h"),
    ("autovacuum", "off"),
    ("shared_buffers", "256MB"),
    ("maintenance_work_mem", "256MB"),
];
/// Options of `configure` and of CMake that change the files of a data directory.
const LAYOUT: [&str; 7] = [
    "--with-blocksize",
    "--with-segsize",
    "--with-segsize-blocks",
    "--with-wal-blocksize",
    "--disable-float8-byval",
    // What a table is made with that names nothing else.
    "-DDEFAULT_CHARSET",
    "-DDEFAULT_COLLATION",
];
/// How long the load took, beside the data: the file's name.
const LOAD_SECONDS: &str = "load-seconds";
/// What the folders of loads that are under way begin with.
const UNFINISHED: &str = "snapshot-";

/// Everything that determines a loaded data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Contents {
    format: u32,
    engine: Engine,
    source: Digest,
    layout: Vec<String>,
    init: Vec<String>,
    /// Lines of the config without which a server could not use the files (MySQL family).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    variables: Vec<(String, String)>,
    data: Fill,
    #[serde(skip_serializing_if = "Option::is_none")]
    loader: Option<Digest>,
}

/// What fills a data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// The tables of the microbenchmarks, by the load driver.
    Tables(Data),
    /// A program of the user's.
    Program {
        /// Its words, with placeholders.
        words: Vec<String>,
        /// The identity of its files ([`super::command::digest`]).
        program: Digest,
        /// The workload's seed.
        seed: u64,
    },
    /// Nothing: the workload finds an empty database.
    Nothing,
}

impl Fill {
    /// How many rows are loaded, where that is known.
    fn rows(&self) -> Option<u64> {
        match self {
            Self::Tables(data) => Some(data.rows * u64::from(data.tables)),
            Self::Program { .. } | Self::Nothing => None,
        }
    }
}

impl Contents {
    /// `source` is the digest of the source tree, `configure` the options of the build, of which
    /// those that change the files on disk count; `init` are the arguments of `initdb` or its like;
    /// of the config's `lines` those count that change the files, too.
    pub fn new(
        engine: Engine,
        source: Digest,
        configure: &[String],
        (init, lines): (&[String], &[(String, String)]),
        fill: &Fill,
        driver: Option<&Driver>,
    ) -> Self {
        let layout = configure
            .iter()
            .filter(|option| LAYOUT.contains(&option.split('=').next().unwrap_or_default()))
            .cloned()
            .collect();
        let variables = match engine {
            Engine::Postgres => Vec::new(),
            Engine::Mysql | Engine::Mariadb => mycnf::layout(lines),
        };
        let (init, data) = (init.to_vec(), fill.clone());
        let loader = driver.filter(|_| matches!(fill, Fill::Tables(_))).map(Driver::digest);
        Self { format: FORMAT, engine, source, layout, init, variables, data, loader }
    }

    /// The arguments that the data directory is made with.
    fn init_args(&self) -> Vec<String> {
        let variables = self.variables.iter().map(|(name, value)| format!("--{name}={value}"));
        variables.chain(self.init.iter().cloned()).collect()
    }

    /// What the server gets while it loads.
    fn settings(&self, install: &Install) -> anyhow::Result<Settings> {
        let mut lines = self.variables.clone();
        match self.engine {
            Engine::Postgres => {
                lines.extend(LOAD_SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())))
            }
            Engine::Mysql | Engine::Mariadb => lines.extend(mysql::load_settings(install)?),
        }
        Ok(Settings { lines, ..Settings::default() })
    }

    /// The name of the snapshot: a hash over the contents.
    pub fn key(&self) -> anyhow::Result<Digest> {
        Ok(Digest::of(&serde_json::to_vec(self).context("cannot write a snapshot's contents")?))
    }
}

/// The data directory of the snapshot, which is loaded now if it does not exist.
///
/// # Errors
/// When initialising, starting, loading or stopping fails; nothing is kept then.
pub fn ensure(
    env: &Env,
    access: &Access,
    install: &Install,
    contents: &Contents,
    driver: Option<&Driver>,
) -> anyhow::Result<PathBuf> {
    let key = contents.key()?.short();
    let done = env.snapshots().join(&key);
    if done.join("data").is_dir() {
        return Ok(done.join("data"));
    }
    let begin = Instant::now();
    let staging = env.staging().join(format!("{UNFINISHED}{key}"));
    let logs = env.logs().join("snapshots").join(&key);
    remove(&staging)?;
    fs::create_dir_all(&staging)?;
    fs::create_dir_all(&logs)?;
    let loaded = load(env, access, install, contents, driver, &staging, &logs);
    if let Err(error) = loaded {
        remove(&staging)?;
        return Err(error.context("cannot load the data"));
    }
    let text = serde_json::to_string_pretty(contents).context("cannot write the contents")?;
    fs::write(staging.join("snapshot.json"), text + "\n")?;
    fs::write(staging.join(LOAD_SECONDS), format!("{:.3}\n", begin.elapsed().as_secs_f64()))?;
    // Nothing was synced while loading.
    sync(&staging)?;
    fs::create_dir_all(env.snapshots())?;
    fs::rename(&staging, &done)?;
    env.reporter.account("load data", begin.elapsed());
    Ok(done.join("data"))
}

/// How long the data directory `data` took to load, in seconds; `None` where that is not known.
pub fn load_seconds(data: &Path) -> Option<f64> {
    let file = data.parent()?.join(LOAD_SECONDS);
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn load(
    env: &Env,
    access: &Access,
    install: &Install,
    contents: &Contents,
    driver: Option<&Driver>,
    staging: &Path,
    logs: &Path,
) -> anyhow::Result<()> {
    let data = staging.join("data");
    let task = env.reporter.task("load data", contents.data.rows());
    server::init(access, install, &contents.init_args(), &data, &logs.join("init.log"))?;
    let settings = contents.settings(install)?;
    let log = logs.join("server.log");
    let mut server = Server::start(access, install, &settings, &data, &[], &log)?;
    let filled = match &contents.data {
        Fill::Tables(tables) => by_driver(env, &server, tables, driver, logs, &task),
        Fill::Program { words, seed, .. } => {
            by_program(env, &server, install, words, *seed, logs, &task)
        }
        Fill::Nothing => Ok("an empty database".to_owned()),
    };
    // The server's death explains more than a lost connection.
    let what = filled.or_else(|error| server.check().and(Err(error)))?;
    server.stop()?;
    if install.engine != Engine::Postgres {
        mysql::tidy(&data)?;
    }
    task.finish(format!("{what} with `{}`", install.prefix.display()));
    Ok(())
}

/// The tables of the microbenchmarks.
fn by_driver(
    env: &Env,
    server: &Server,
    tables: &Data,
    driver: Option<&Driver>,
    logs: &Path,
    task: &Task,
) -> anyhow::Result<String> {
    let rows = tables.rows * u64::from(tables.tables);
    task.state(format!("{rows} rows"));
    let job = Job {
        version: VERSION,
        server: server.endpoint(),
        data: tables.clone(),
        action: Action::Load { connections: tables.tables.clamp(1, env.jobs as u32) },
    };
    let driver = driver.context("tables are loaded by the load driver, and there is none")?;
    let ended = driver.run(&job, &[], LOAD_TIMEOUT, &logs.join("driver.log"), |event| {
        if let Event::Loading { rows } = event {
            task.position(*rows);
        }
        Ok(())
    })?;
    match ended {
        Event::Loaded { seconds: took, .. } => {
            Ok(format!("{rows} rows in {}", seconds(Duration::from_secs_f64(took))))
        }
        other => bail!("the load driver ended a load with {other:?}"),
    }
}

/// Whatever a program of the user's makes.
fn by_program(
    env: &Env,
    server: &Server,
    install: &Install,
    words: &[String],
    seed: u64,
    logs: &Path,
    task: &Task,
) -> anyhow::Result<String> {
    task.state(words.join(" "));
    let endpoint = server.endpoint();
    let surroundings = Surroundings {
        engine: install.engine,
        server: &endpoint,
        threads: 1,
        seconds: 0.0,
        seed,
        prefix: &install.prefix,
        build: "",
        config: "",
    };
    let spec = launch::Spec {
        death_signal: Some(nix::sys::signal::Signal::SIGKILL as i32),
        ..launch::Spec::default()
    };
    surroundings
        .process(&env.root, words)?
        .log(logs.join("load.log"))
        .timeout(LOAD_TIMEOUT)
        .launch(own_file(), spec)
        .run()?;
    Ok(format!("`{}`", words.join(" ")))
}

/// Copies a data directory with all modes, for the server's user, and waits until it is on disk:
/// what the kernel wrote back later would be measured.
///
/// # Errors
/// When something cannot be read or written; `to` may be half there then.
pub fn restore(from: &Path, to: &Path, access: &Access) -> anyhow::Result<()> {
    let mut files = Vec::new();
    copy_folders(from, to, access, &mut files)?;
    // Largest last, as they are taken from the end.
    files.sort_by_key(|(size, _, _)| *size);
    let queue = Mutex::new(files);
    let next = || {
        let mut queue = queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        queue.pop()
    };
    let worker = || -> anyhow::Result<()> {
        while let Some((_, from, to)) = next() {
            interrupt::check()?;
            // Keeps the mode.
            fs::copy(&from, &to)?;
            access.give(&to)?;
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
    })?;
    sync(to)
}

fn copy_folders(
    from: &Path,
    to: &Path,
    access: &Access,
    files: &mut Vec<(u64, PathBuf, PathBuf)>,
) -> anyhow::Result<()> {
    let mode = fs::metadata(from)?.permissions().mode();
    std::fs::DirBuilder::new()
        .mode(mode)
        .create(to)
        .with_context(|| format!("cannot make the folder `{}`", to.display()))?;
    access.give(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_folders(&entry.path(), &target, access, files)?;
        } else if kind.is_file() {
            files.push((entry.metadata()?.len(), entry.path(), target));
        } else {
            // A tablespace elsewhere, say: a copy would share it with the snapshot.
            bail!("`{}` is neither a file nor a folder", entry.path().display());
        }
    }
    Ok(())
}

/// Writes everything of the file system that holds `path` to disk.
fn sync(path: &Path) -> anyhow::Result<()> {
    let folder = std::fs::File::open(path)?;
    nix::unistd::syncfs(folder).with_context(|| format!("cannot sync `{}`", path.display()))
}

/// Removes what loads that were killed have left in `staging`. The caller holds the lock of the
/// host alone, so no load is under way.
///
/// # Errors
/// When something cannot be read or removed.
pub fn remove_unfinished(staging: &Path) -> anyhow::Result<()> {
    if !staging.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(staging)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a folder that may not be there.
pub fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove `{}`", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(configure: &[&str], init: &[&str], rows: u64) -> Digest {
        let driver = Driver::at("/dev/null", "/dev/null").expect("readable");
        let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let data = Fill::Tables(Data { tables: 1, rows, seed: 1 });
        let source = Digest::of(b"source");
        let given = (&words(init)[..], &[("innodb_page_size".to_owned(), "8k".to_owned())][..]);
        Contents::new(Engine::Postgres, source, &words(configure), given, &data, Some(&driver))
            .key()
            .expect("a key")
    }

    #[test]
    fn variables_of_the_files_are_part_of_a_mysql_snapshot() {
        let driver = Driver::at("/dev/null", "/dev/null").expect("readable");
        let contents = |lines: &[(&str, &str)]| {
            let lines: Vec<_> =
                lines.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let data = Fill::Tables(Data { tables: 1, rows: 1, seed: 1 });
            let init = ["--x=1".to_owned()];
            let source = Digest::of(b"source");
            Contents::new(Engine::Mariadb, source, &[], (&init, &lines), &data, Some(&driver))
        };
        let plain = contents(&[("innodb_buffer_pool_size", "1G")]);
        assert_eq!(plain, contents(&[("innodb_doublewrite", "0")]));
        let small = contents(&[("innodb_page_size", "8k"), ("innodb_doublewrite", "0")]);
        assert_ne!(plain.key().expect("a key"), small.key().expect("a key"));
        assert_eq!(small.init_args(), ["--innodb_page_size=8k", "--x=1"]);
        assert_eq!(plain.init_args(), ["--x=1"]);
    }

    #[test]
    fn key_follows_what_determines_the_files_and_nothing_else() {
        let plain = contents(&[], &[], 10);
        assert_eq!(plain, contents(&["--without-readline", "--enable-debug"], &[], 10));
        let others = [
            contents(&["--with-blocksize=16"], &[], 10),
            contents(&["--with-segsize=2"], &[], 10),
            contents(&["--disable-float8-byval"], &[], 10),
            contents(&[], &["--data-checksums"], 10),
            contents(&[], &[], 11),
        ];
        for (index, other) in others.iter().enumerate() {
            assert_ne!(plain, *other);
            assert!(!others[..index].contains(other));
        }
    }

    #[test]
    fn only_loads_that_were_killed_are_cleared() {
        let temp = tempfile::tempdir().expect("a folder");
        let staging = temp.path().join("staging");
        remove_unfinished(&staging).expect("nothing to do");
        for name in ["snapshot-0123456789ab/data", "build-1/obj"] {
            std::fs::create_dir_all(staging.join(name)).expect("made");
        }
        remove_unfinished(&staging).expect("cleared");
        let left: Vec<_> = std::fs::read_dir(&staging).expect("there").flatten().collect();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].file_name(), "build-1");
    }

    #[test]
    fn restoring_keeps_content_and_modes_and_refuses_links() {
        let temp = tempfile::tempdir().expect("a folder");
        let (from, to) = (temp.path().join("from"), temp.path().join("to"));
        std::fs::DirBuilder::new().mode(0o700).create(&from).expect("made");
        std::fs::create_dir_all(from.join("base/1/empty")).expect("made");
        for (name, size, mode) in [("base/1/a", 100_000, 0o600), ("PG_VERSION", 3, 0o640)] {
            std::fs::write(from.join(name), vec![7; size]).expect("written");
            std::fs::set_permissions(from.join(name), PermissionsExt::from_mode(mode))
                .expect("mode");
        }
        let access = Access::new("/nonexistent", Engine::Postgres).expect("a user");
        restore(&from, &to, &access).expect("copied");
        let mode = |name: &str| to.join(name).metadata().expect("there").permissions().mode();
        assert_eq!(
            [mode(""), mode("base/1/a"), mode("PG_VERSION")].map(|m| m & 0o777),
            [0o700, 0o600, 0o640]
        );
        assert!(to.join("base/1/empty").is_dir());
        assert_eq!(std::fs::read(to.join("base/1/a")).expect("there"), vec![7; 100_000]);
        let owner =
            |path: &Path| std::os::unix::fs::MetadataExt::uid(&path.metadata().expect("there"));
        let expected = access.account().map_or_else(|| owner(&from), |account| account.uid);
        assert_eq!(owner(&to.join("base/1/a")), expected);

        std::os::unix::fs::symlink("/etc", from.join("link")).expect("linked");
        let error = restore(&from, &temp.path().join("again"), &access).expect_err("a link");
        assert!(error.to_string().contains("neither a file nor a folder"), "{error}");
    }
}
