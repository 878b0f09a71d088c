//! Servers of the MySQL family: where an installation has its parts, how a data directory is made
//! and how the server is started.
//!
//! Data directories are made by the server itself, never by `mysql_install_db` or its successors:
//! these are Perl or shell programs that look for files at paths of their own, need helper programs
//! that a measured server lacks otherwise, and do nothing but feed SQL files to the server.

pub mod greeting;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, ensure};
use fs_err as fs;
use nix::sys::signal::Signal;

use super::access::{Access, Seen};
use super::{Install, START_TIMEOUT, binds, mycnf, socket_folder, spec};
use crate::exit::{Code, WithCode as _, coded};
use crate::matrix::model::Engine;
use crate::matrix::version::Version;
use crate::proc::Proc;
use crate::source::installed;

/// The superuser that every data directory has from the beginning; without a password, as nobody
/// else reaches the socket.
pub const USER: &str = "root";
/// The database of the measured tables, made with the data directory.
pub const DATABASE: &str = "sbtest";
/// The socket's file.
pub const SOCKET: &str = "mysql.sock";
/// Where installations have messages, character sets and system tables, below their prefix: as
/// upstream's archives have it, and as distributions do.
const SHARES: [&str; 3] = ["share", "share/mysql", "share/mariadb"];
/// Where installations have plug-ins.
const PLUGINS: [&str; 6] = [
    "lib/plugin",
    "lib64/plugin",
    "lib/mysql/plugin",
    "lib64/mysql/plugin",
    "lib/mariadb/plugin",
    "lib64/mariadb/plugin",
];
/// The files that make the system tables, in their order; MariaDB has renamed them.
const SYSTEM_TABLES: [[&str; 2]; 3] = [
    ["mysql_system_tables.sql", "mariadb_system_tables.sql"],
    ["mysql_performance_tables.sql", "mariadb_performance_tables.sql"],
    ["mysql_system_tables_data.sql", "mariadb_system_tables_data.sql"],
];

/// The parts of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    /// The server's program, from the prefix.
    server: PathBuf,
    /// The folder of messages and character sets, from the prefix.
    share: PathBuf,
    /// The folder of plug-ins, from the prefix.
    plugins: PathBuf,
}

impl Parts {
    fn of(install: &Install) -> anyhow::Result<Self> {
        let Install { engine, prefix } = install;
        let server = installed::program(*engine, prefix)
            .map_err(|lack| coded(Code::Environment, lack.to_string()))?;
        let share = share(prefix).ok_or_else(|| {
            let places = SHARES.map(|share| format!("`{share}`")).join(", ");
            let prefix = prefix.display();
            coded(
                Code::Environment,
                format!("the server in `{prefix}` has no messages: looked for `english/errmsg.sys` in {places}"),
            )
        })?;
        let plugins = PLUGINS.iter().find(|folder| prefix.join(folder).is_dir());
        Ok(Self {
            server: server.strip_prefix(prefix).unwrap_or(&server).to_owned(),
            share: share.into(),
            // Named also when there is none: the default may lie in another installation.
            plugins: plugins.unwrap_or(&PLUGINS[0]).into(),
        })
    }

    /// The variables that hold the server to this installation.
    fn variables(&self, seen: &Seen) -> [(&'static str, String); 4] {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let share = seen.prefix.join(&self.share);
        [
            ("basedir", text(seen.prefix.clone())),
            ("character_sets_dir", text(share.join("charsets"))),
            ("lc_messages_dir", text(share)),
            ("plugin_dir", text(seen.prefix.join(&self.plugins))),
        ]
    }
}

fn share(prefix: &Path) -> Option<&'static str> {
    SHARES.into_iter().find(|share| prefix.join(share).join("english/errmsg.sys").is_file())
}

/// The files of an installation that make the system tables, in their order; those that it lacks
/// are left out. MySQL 5.7 and later have them in the server.
pub fn system_tables(prefix: &Path) -> Vec<PathBuf> {
    let Some(share) = share(prefix) else { return Vec::new() };
    let find = |names: [&str; 2]| {
        names.map(|name| prefix.join(share).join(name)).into_iter().find(|path| path.is_file())
    };
    SYSTEM_TABLES.into_iter().filter_map(find).collect()
}

/// Demands that the installation is whole.
///
/// # Errors
/// With [`Code::Environment`]; says what is missing.
pub fn check(install: &Install) -> anyhow::Result<()> {
    Parts::of(install).map(drop)
}

/// The server's version, by its own words.
///
/// # Errors
/// When it cannot be started or is of another engine.
pub fn version(install: &Install) -> anyhow::Result<Version> {
    let server = install.prefix.join(Parts::of(install)?.server);
    let said = installed::ask(install.engine, &server)?;
    said.parse::<Version>().map_err(anyhow::Error::msg).code(Code::Environment)
}

/// Fills the empty data directory. `init_args` are arguments of the server for this one time; what
/// must hold at later starts, too, stands in the config.
///
/// # Errors
/// When the server fails.
pub fn init(
    access: &Access,
    install: &Install,
    init_args: &[String],
    data: &Path,
    log: &Path,
) -> anyhow::Result<()> {
    let parts = Parts::of(install)?;
    let itself = makes_its_tables(install.engine, &version(install)?);
    // For what the server reads and for its temporary files: the data directory must be empty.
    let folder = socket_folder(&std::env::temp_dir())?;
    access.give(folder.path())?;
    access.check_reach(&[folder.path()])?;
    let seen = access.seen(&install.prefix, data, folder.path());
    let mut proc = Proc::new(seen.prefix.join(&parts.server)).arg("--no-defaults");
    proc = proc.arg(if itself { "--initialize-insecure" } else { "--bootstrap" });
    for (name, value) in parts.variables(&seen) {
        proc = proc.arg(format!("--{name}={value}"));
    }
    proc = proc
        .arg(format!("--datadir={}", seen.data.display()))
        .arg(format!("--tmpdir={}", seen.socket.display()));
    let database = format!("CREATE DATABASE {DATABASE};\n");
    if itself {
        let file = folder.path().join("init.sql");
        fs::write(&file, database)?;
        access.give(&file)?;
        proc = proc.arg(format!("--init-file={}", seen.socket.join("init.sql").display()));
    } else {
        if install.engine == Engine::Mysql {
            // The statement below finds it; making it by SQL is not possible in this mode.
            let folder = data.join("mysql");
            std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
            access.give(&folder)?;
        }
        proc = proc.stdin(bootstrap(install)? + &database);
        // Lines of the files are longer than the defaults allow.
        proc = proc.args(["--max_allowed_packet=8M", "--net_buffer_length=16K"]);
    }
    let binds = binds(&seen, install, data, Some(folder.path()));
    proc.args(init_args)
        .log(log)
        .timeout(START_TIMEOUT)
        .launch(access.tool(), spec(access, &seen, binds, &[], Signal::SIGKILL))
        .run()
        .map(drop)
}

/// Whether the server makes the system tables by itself: MySQL does from 5.7.6 on.
fn makes_its_tables(engine: Engine, version: &Version) -> bool {
    engine == Engine::Mysql && since(version, [5, 7, 6])
}

/// Whether `version` is at least this one.
fn since(version: &Version, first: [u32; 3]) -> bool {
    [0, 1, 2].map(|index| version.number(index)) >= first
}

/// The statements that make the system tables.
fn bootstrap(install: &Install) -> anyhow::Result<String> {
    let mut text = match install.engine {
        // Root without a password instead of root by the name of the system's user.
        Engine::Mariadb => {
            "create database if not exists mysql;\nuse mysql;\nSET @auth_root_socket=NULL;\n"
        }
        _ => "use mysql;\n",
    }
    .to_owned();
    let files = system_tables(&install.prefix);
    for wanted in [SYSTEM_TABLES[0], SYSTEM_TABLES[2]] {
        ensure!(
            files.iter().any(|file| wanted.iter().any(|name| file.ends_with(name))),
            coded(
                Code::Environment,
                format!("`{}` has no `{}`", install.prefix.display(), wanted[0])
            )
        );
    }
    for file in files {
        // Comments may be in any encoding.
        text.push_str(&String::from_utf8_lossy(&fs::read(&file)?));
        text.push('\n');
    }
    Ok(text)
}

/// Writes the configuration and gives the server's command.
///
/// # Errors
/// When the installation is not whole or the config has what the server would refuse.
pub fn command(
    access: &Access,
    install: &Install,
    lines: &[(String, String)],
    seen: &Seen,
    data: &Path,
) -> anyhow::Result<Proc> {
    let parts = Parts::of(install)?;
    let version = version(install)?;
    mycnf::check(install.engine, &version, lines)?;
    let text = mycnf::text(lines, &private(&parts, install.engine, &version, seen))?;
    let file = data.join("my.cnf");
    fs::write(&file, text)?;
    access.give(&file)?;
    // The first argument, or the files in /etc would be read, too.
    let defaults = format!("--defaults-file={}", seen.data.join("my.cnf").display());
    Ok(Proc::new(seen.prefix.join(&parts.server)).arg(defaults))
}

/// The variables that make the server private.
fn private(
    parts: &Parts,
    engine: Engine,
    version: &Version,
    seen: &Seen,
) -> Vec<(&'static str, String)> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut private = parts.variables(seen).to_vec();
    private.extend([
        ("datadir", text(&seen.data)),
        ("tmpdir", text(&seen.data)),
        ("socket", text(&seen.socket.join(SOCKET))),
        ("pid_file", text(&seen.socket.join("mysqld.pid"))),
        ("skip_networking", "1".to_owned()),
    ]);
    if engine == Engine::Mysql && since(version, [5, 7, 6]) {
        // The default is a folder of a packaged server, without which it does not start.
        private.push(("secure_file_priv", "NULL".to_owned()));
    }
    if engine == Engine::Mysql && since(version, [8, 0, 11]) {
        // A second door, where it was built.
        private.push(("loose_mysqlx", "0".to_owned()));
    }
    private
}

/// For loading only: nothing is logged or synced twice, because a load that is cut off is repeated
/// from the start. At the end everything is purged and merged, so that a copy of the data has no
/// work left that would be done within a measurement.
///
/// # Errors
/// When the server does not tell its version.
pub fn load_settings(install: &Install) -> anyhow::Result<Vec<(String, String)>> {
    let mut lines = vec![
        ("innodb_buffer_pool_size", "268435456"),
        ("innodb_flush_log_at_trx_commit", "0"),
        ("innodb_doublewrite", "0"),
        ("innodb_fast_shutdown", "0"),
        // What was in memory would be read in again at the start of every copy.
        ("innodb_buffer_pool_dump_at_shutdown", "0"),
        // It may not have been built.
        ("loose_performance_schema", "0"),
    ];
    if install.engine == Engine::Mysql && since(&version(install)?, [8, 0, 0]) {
        // On by default since then.
        lines.push(("skip_log_bin", "1"));
    }
    Ok(lines.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Removes from the data of a server that has stopped what no copy shall have: its UUID, and the
/// list of what was in memory, which would be read in at every start.
///
/// # Errors
/// When a file cannot be removed.
pub fn tidy(data: &Path) -> anyhow::Result<()> {
    for name in ["auto.cnf", "ib_buffer_pool"] {
        match fs::remove_file(data.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => bail!(error),
            _ => {}
        }
    }
    Ok(())
}

/// What the server itself has against its start, from its log.
pub fn complaint(log: &Path) -> Option<String> {
    let text = fs::read(log).ok()?;
    let text = String::from_utf8_lossy(&text);
    let errors: Vec<&str> = text
        .lines()
        .filter_map(|line| Some(line.split_once("[ERROR] ")?.1.trim()))
        .filter(|text| !text.ends_with("Aborting"))
        .take(3)
        .collect();
    (!errors.is_empty()).then(|| errors.join("; "))
}

/// How long a server may take to say its version.
pub const ASK_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn install(engine: Engine, files: &[&str]) -> (tempfile::TempDir, Install) {
        let temp = tempfile::tempdir().expect("a folder");
        for file in files {
            let path = temp.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, format!("-- {file}")).expect("written");
        }
        let prefix = temp.path().to_owned();
        (temp, Install { engine, prefix })
    }

    fn version(text: &str) -> Version {
        text.parse().expect("a version")
    }

    fn seen() -> Seen {
        let path = |name: &str| Path::new("/mnt").join(name);
        Seen { prefix: path("prefix"), data: path("data"), socket: path("socket"), mounted: true }
    }

    #[test]
    fn upstreams_and_distributions_layouts_are_found() {
        let (_temp, upstream) =
            install(Engine::Mysql, &["bin/mysqld", "share/english/errmsg.sys", "lib/plugin/a.so"]);
        let parts = Parts::of(&upstream).expect("whole");
        assert_eq!(parts.server, Path::new("bin/mysqld"));
        let variables = parts.variables(&seen());
        assert_eq!(variables[0], ("basedir", "/mnt/prefix".to_owned()));
        assert_eq!(variables[1].1, "/mnt/prefix/share/charsets");
        assert_eq!(variables[3].1, "/mnt/prefix/lib/plugin");
        let (_temp, debian) = install(
            Engine::Mariadb,
            &["sbin/mariadbd", "share/mysql/english/errmsg.sys", "lib/mysql/plugin/a.so"],
        );
        let parts = Parts::of(&debian).expect("whole");
        assert_eq!(parts.server, Path::new("sbin/mariadbd"));
        assert_eq!(parts.share, Path::new("share/mysql"));
        assert_eq!(parts.plugins, Path::new("lib/mysql/plugin"));
    }

    #[test]
    fn what_an_installation_lacks_is_named() {
        let text = |files: &[&str]| {
            let (_temp, install) = install(Engine::Mysql, files);
            let error = check(&install).expect_err("not whole");
            assert_eq!(crate::exit::code_of(&error), Code::Environment);
            error.to_string()
        };
        assert!(text(&[]).contains("`mysqld`"));
        assert!(text(&["bin/mysqld"]).contains("english/errmsg.sys"));
    }

    #[test]
    fn system_tables_come_in_order_and_are_needed() {
        let base = ["bin/mysqld", "share/english/errmsg.sys", "share/mysql_system_tables.sql"];
        let (_temp, without) = install(Engine::Mariadb, &base);
        let error = bootstrap(&without).expect_err("no data");
        assert!(error.to_string().contains("mysql_system_tables_data.sql"), "{error}");
        let files = [base[0], base[1], base[2], "share/mariadb_system_tables_data.sql"];
        let (_temp, whole) = install(Engine::Mariadb, &files);
        let text = bootstrap(&whole).expect("whole");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[2..],
            [
                "SET @auth_root_socket=NULL;",
                "-- share/mysql_system_tables.sql",
                "-- share/mariadb_system_tables_data.sql"
            ]
        );
        let mysql = Install { engine: Engine::Mysql, ..whole };
        assert!(bootstrap(&mysql).expect("whole").starts_with("use mysql;\n--"));
    }

    #[test]
    fn who_makes_the_system_tables() {
        let itself = |engine, text| makes_its_tables(engine, &version(text));
        assert!(!itself(Engine::Mysql, "5.6.51") && !itself(Engine::Mysql, "5.7.5"));
        assert!(itself(Engine::Mysql, "5.7.6") && itself(Engine::Mysql, "9.4.0"));
        assert!(!itself(Engine::Mariadb, "10.11.6") && !itself(Engine::Mariadb, "11.8.2"));
    }

    #[test]
    fn private_lines_follow_the_version() {
        let parts = Parts { server: "s".into(), share: "share".into(), plugins: "p".into() };
        let names = |engine, text: &str| -> Vec<&str> {
            private(&parts, engine, &version(text), &seen()).iter().map(|(name, _)| *name).collect()
        };
        let old = names(Engine::Mysql, "5.6.21");
        assert!(old.contains(&"skip_networking") && !old.contains(&"secure_file_priv"));
        assert!(names(Engine::Mysql, "5.7.44").ends_with(&["secure_file_priv"]));
        assert!(names(Engine::Mysql, "8.4.0").ends_with(&["secure_file_priv", "loose_mysqlx"]));
        assert_eq!(names(Engine::Mariadb, "11.8.2"), old);
    }

    #[test]
    fn the_servers_own_complaint_is_found() {
        let log = tempfile::NamedTempFile::new().expect("a file");
        assert_eq!(complaint(log.path()), None);
        let text = "2026-01-01 0 [Note] InnoDB: x\n\
            2026-01-01 0 [ERROR] mariadbd: unknown variable 'a=1'\n2026-01-01 0 [ERROR] Aborting\n";
        std::fs::write(log.path(), text).expect("written");
        assert_eq!(complaint(log.path()).as_deref(), Some("mariadbd: unknown variable 'a=1'"));
    }

    #[test]
    fn what_no_copy_shall_have_goes_and_the_data_stay() {
        let temp = tempfile::tempdir().expect("a folder");
        tidy(temp.path()).expect("nothing to do");
        for name in ["auto.cnf", "ib_buffer_pool", "ibdata1"] {
            std::fs::write(temp.path().join(name), "x").expect("written");
        }
        tidy(temp.path()).expect("removed");
        let left: Vec<_> = std::fs::read_dir(temp.path()).expect("there").flatten().collect();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].file_name(), "ibdata1");
    }
}
