//! Servers of the MySQL family, against an installed MariaDB.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use xtask::bench::placement;
use xtask::exit::{Code, code_of};
use xtask::matrix::model::Engine;
use xtask::proc::Proc;
use xtask::server::access::Access;
use xtask::server::mysql::greeting;
use xtask::server::{self, Install, Server, Settings};

use crate::support::Project;

const TOOL: &str = env!("CARGO_BIN_EXE_xtask");
/// Set for the copy of this program that is interrupted while it has a server.
const VICTIM: &str = "MATRIX_TEST_MARIADB";

/// The installed server that these tests need; they fail without it.
fn mariadb() -> Install {
    assert!(
        Path::new("/usr/sbin/mariadbd").is_file(),
        "these tests need the package `mariadb-server-core`: apt-get install mariadb-server-core"
    );
    Install { engine: Engine::Mariadb, prefix: PathBuf::from("/usr") }
}

fn access() -> Access {
    Access::new(TOOL, Engine::Mariadb).expect("a user for the server")
}

/// A folder that only its owner can pass.
fn closed_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).expect("mode");
    folder
}

fn settings(lines: &[(&str, &str)]) -> Settings {
    let lines = lines.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Settings { lines, ..Settings::default() }
}

fn made(access: &Access, folder: &Path) -> PathBuf {
    let data = folder.join("data");
    server::init(access, &mariadb(), &[], &data, &folder.join("init.log")).expect("made");
    data
}

fn start(access: &Access, folder: &Path, lines: &[(&str, &str)]) -> anyhow::Result<Server> {
    let (data, log) = (folder.join("data"), folder.join("server.log"));
    Server::start(access, &mariadb(), &settings(lines), &data, &[], &log)
}

const SMALL: [(&str, &str); 2] =
    [("innodb_buffer_pool_size", "16777216"), ("performance_schema", "0")];

fn alive(pid: u32) -> bool {
    // A zombie has no command line.
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

#[test]
fn a_server_starts_says_its_version_moves_and_stops() {
    let folder = closed_folder();
    let access = access();
    assert!(access.canonical(), "this test needs mount namespaces");
    made(&access, folder.path());
    assert!(folder.path().join("data/sbtest").is_dir(), "the database of the tables");
    let mut server = start(&access, folder.path(), &SMALL).expect("it starts");
    let (pid, socket) = (server.id(), server.socket().to_owned());
    let version = server.version().expect("it greeted").to_owned();
    let asked = server::mysql::version(&mariadb()).expect("it answers").to_string();
    assert!(version.starts_with(&asked) && version.contains("MariaDB"), "{version} {asked}");
    assert_eq!(greeting::hear(&socket).expect("it greets everyone"), version);
    let process = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let uid = access.account().map_or_else(nix_uid, |account| account.uid);
    assert!(process.contains(&format!("Uid:\t{uid}\t{uid}")), "{process}");
    assert_ne!(uid, 0);
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
    assert_eq!(command, b"/mnt/prefix/sbin/mariadbd\0--defaults-file=/mnt/data/my.cnf\0");
    server.check().expect("it lives");
    // It listens nowhere but on its socket.
    let tcp = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).expect("readable");
    assert!(!tcp.contains(":0CEA "), "port 3306 is open: {tcp}");
    // Every thread moves, those of InnoDB among them.
    let core = placement::cores().expect("cores").concat().into_iter().min().expect("one");
    server.pin(&[core]).expect("pinned");
    let mut threads = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten() {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        assert!(status.contains(&format!("Cpus_allowed_list:\t{core}\n")), "{status}");
        threads += 1;
    }
    assert!(threads > 3, "{threads} threads");
    server.stop().expect("a clean end");
    assert!(!alive(pid) && !socket.parent().expect("a folder").exists());
    let log = std::fs::read_to_string(folder.path().join("server.log")).expect("a log");
    assert!(log.contains("Shutdown complete"), "{log}");
    // The data are clean: another start needs no recovery. Stopping at once leaves nothing.
    let server = start(&access, folder.path(), &SMALL).expect("it starts again");
    let pid = server.id();
    server.abandon();
    assert!(!alive(pid));
    let log = std::fs::read_to_string(folder.path().join("server.log")).expect("a log");
    assert!(!log.contains("crash recovery"), "{log}");
}

fn nix_uid() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").expect("there").uid()
}

#[test]
fn without_namespaces_it_runs_under_its_real_paths() {
    let access = access().without_mounts();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("mode");
    made(&access, folder.path());
    let server = start(&access, folder.path(), &SMALL).expect("it starts");
    let command = std::fs::read(format!("/proc/{}/cmdline", server.id())).expect("it runs");
    assert!(command.starts_with(b"/usr/sbin/mariadbd\0--defaults-file="));
}

#[test]
fn variables_of_the_data_hold_when_they_are_made_and_when_they_are_used() {
    let folder = closed_folder();
    let (access, data) = (access(), folder.path().join("data"));
    let log = folder.path().join("init.log");
    let wide = ["--innodb_page_size=8k".to_owned()];
    server::init(&access, &mariadb(), &wide, &data, &log).expect("made");
    let error = start(&access, folder.path(), &SMALL).expect_err("pages of another size");
    assert!(format!("{error:#}").contains("page size"), "{error:#}");
    let lines = [SMALL[0], ("innodb_page_size", "8k")];
    start(&access, folder.path(), &lines).expect("it starts").stop().expect("a clean end");
}

#[test]
fn a_wrong_variable_is_told_in_the_servers_own_words() {
    let folder = closed_folder();
    let access = access();
    made(&access, folder.path());
    let wrong = [("innodb_bufer_pool_size", "16M")];
    let error = start(&access, folder.path(), &wrong).expect_err("refused");
    let text = format!("{error:#}");
    let words = "the server has ended: /mnt/prefix/sbin/mariadbd: unknown variable \
                 'innodb_bufer_pool_size=16M'";
    assert!(text.contains(words), "{text}");
    assert!(text.contains(folder.path().join("server.log").to_str().expect("text")), "{text}");
    // One whose fate is known is told before the server is asked.
    let error = start(&access, folder.path(), &[("tx_isolation", "x")]).expect_err("refused");
    assert_eq!(code_of(&error), Code::Input);
    assert!(error.to_string().contains("`transaction_isolation`"), "{error:#}");
    let ignored = settings(&[("innodb_buffer_pool_instances", "4")]);
    let warnings = server::check_settings(&mariadb(), &ignored).expect("it would start");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn the_server_of_another_engine_is_refused() {
    mariadb();
    let install = Install { engine: Engine::Mysql, prefix: PathBuf::from("/usr") };
    let error = server::mysql::version(&install).expect_err("MariaDB's mysqld");
    assert!(error.to_string().contains("it is of engine `mariadb`, not `mysql`"), "{error:#}");
}

/// Not a test of its own: started and interrupted by the one below.
#[test]
#[ignore = "started by another test"]
fn hold_a_server() {
    let Some(folder) = std::env::var_os(VICTIM) else { return };
    xtask::interrupt::install().expect("handlers");
    let server = start(&access(), Path::new(&folder), &SMALL).expect("it starts");
    println!("\nserver {}", server.id());
    let _ = xtask::interrupt::sleep(Duration::from_secs(60));
    drop(server);
}

fn held(folder: &Path) -> (xtask::proc::Running, u32) {
    let mut victim = Proc::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "mysql::hold_a_server", "--nocapture"])
        .env(VICTIM, folder)
        .env("TMPDIR", folder)
        .spawn()
        .expect("started");
    let lines = BufReader::new(victim.stdout().expect("a pipe")).lines();
    let pid = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("server ")?.parse().ok())
        .expect("it has a server");
    (victim, pid)
}

#[test]
fn a_tool_that_is_interrupted_or_killed_leaves_no_server() {
    let folder = closed_folder();
    made(&access(), folder.path());
    for signal in ["-INT", "-KILL"] {
        let (mut victim, pid) = held(folder.path());
        assert!(alive(pid));
        Proc::new("/bin/kill").arg(signal).arg(victim.id().to_string()).run().expect("sent");
        assert!(victim.wait(Some(Duration::from_secs(20))).is_ok());
        let begin = Instant::now();
        while alive(pid) {
            assert!(begin.elapsed() < Duration::from_secs(20), "{signal}: it is still there");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The whole way: data made and loaded once, two configs measured in two blocks, compared.
#[test]
fn two_configs_are_benchmarked_and_compared() {
    mariadb();
    let project = Project::with_matrix(MATRIX);
    let called = project.ok(&["matrix"]);
    assert!(called.stderr.contains("runs: 8 measured, 0 failed"), "{}", called.stderr);
    assert!(called.stderr.contains("`innodb_buffer_pool_instances` does nothing since"));
    assert!(called.stdout.contains("distro.small_nops"), "{}", called.stdout);
    let snapshots = std::fs::read_dir(project.path("work/snapshots")).expect("there");
    assert_eq!(snapshots.count(), 1, "one source");
    let again = project.ok(&["bench"]);
    assert!(again.stderr.contains("runs: all there already"), "{}", again.stderr);
    // A variable that the server lacks fails its target, and says so before data are loaded.
    project.write("matrix.toml", &MATRIX.replace("performance_schema = 0", "tx_isolation = 1"));
    let called = project.call(&["bench"]);
    assert_eq!(called.code, Some(1), "{}", called.stderr);
    assert!(called.stderr.contains("in files its name is `transaction_isolation`"));
}

const MATRIX: &str = r#"
schema = 1
default-experiment = "e"

[axis.toolchain]
gcc = { tag = "" }

[source.distro]
engine = "mariadb"
prefix = "/usr"

[config.small]
engine = "mariadb"
mysqld = { innodb_buffer_pool_size = "{min(ram / 4, 33554432)}", innodb_buffer_pool_instances = 1 }

[config.small_nops]
inherits = "small"
mysqld = { performance_schema = 0 }

[workload.w]
kind = "sysbench"
rows = 2000
microbenchmarks = ["point-query", "update-nonindex"]
warmup-seconds = 0
read-seconds = 1
write-seconds = 1

[experiment.e]
sources = ["distro"]
configs = ["small", "small_nops"]
workload = "w"
base = "distro.small"
repeats = 2
"#;
