//! Servers and runs against an installed PostgreSQL.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use xtask::exit::{Code, code_of};
use xtask::matrix::model::Engine;
use xtask::proc::Proc;
use xtask::server::access::Access;
use xtask::server::{self, Install, Server, Settings};

#[path = "bench/runs.rs"]
mod runs;

const TOOL: &str = env!("CARGO_BIN_EXE_xtask");
/// Set for the copy of this program that is killed while it has a server.
const VICTIM: &str = "MATRIX_TEST_VICTIM";

/// The installed server that these tests need; they fail without it.
fn postgres() -> Install {
    let prefix = PathBuf::from("/usr/lib/postgresql/15");
    assert!(
        prefix.join("bin/postgres").is_file(),
        "these tests need the package `postgresql-15`: apt-get install postgresql-15"
    );
    Install { engine: Engine::Postgres, prefix }
}

fn access() -> Access {
    Access::new(TOOL, Engine::Postgres).expect("a user for the server")
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

fn start(access: &Access, install: &Install, folder: &Path) -> anyhow::Result<Server> {
    let data = folder.join("data");
    server::init(access, install, &[], &data, &folder.join("init.log"))?;
    let settings = settings(&[("shared_buffers", "16MB"), ("fsync", "off")]);
    Server::start(access, install, &settings, &data, &[], &folder.join("server.log"))
}

fn alive(pid: u32) -> bool {
    // A zombie has no command line.
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn wait_until_gone(pid: u32) {
    let begin = Instant::now();
    while alive(pid) {
        assert!(begin.elapsed() < Duration::from_secs(20), "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn server_below_a_closed_folder_starts_answers_and_stops() {
    let folder = closed_folder();
    // The installation itself lies below the closed folder, too.
    let install = Install { engine: Engine::Postgres, prefix: folder.path().join("pg") };
    std::fs::create_dir_all(install.prefix.join("bin")).expect("made");
    // Their libraries and tables stay where they are.
    let lib = postgres().prefix.join("lib");
    std::os::unix::fs::symlink(lib, install.prefix.join("lib")).expect("linked");
    for name in ["postgres", "initdb"] {
        std::fs::copy(postgres().program(name), install.program(name)).expect("copied");
    }
    let access = access();
    assert!(access.canonical(), "this test needs mount namespaces");
    let mut server = start(&access, &install, folder.path()).expect("it starts");
    let (pid, socket) = (server.id(), server.socket().to_owned());
    let process = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let uid = access.account().map_or_else(|| nix_uid().to_string(), |a| a.uid.to_string());
    assert!(process.contains(&format!("Uid:\t{uid}\t{uid}")), "{process}");
    assert_ne!(uid, "0");
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
    assert_eq!(command, b"/mnt/prefix/bin/postgres\0-D\0/mnt/data\0");
    let mode = socket.parent().expect("a folder").metadata().expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    server.check().expect("it lives");
    server.pin(&[0]).expect("pinned");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
    server.stop().expect("a clean end");
    assert!(!alive(pid) && !socket.parent().expect("a folder").exists());
    let log = std::fs::read_to_string(folder.path().join("server.log")).expect("a log");
    assert!(log.contains("database system is shut down"), "{log}");
    // The data are clean: a server of another start needs no recovery.
    let again = folder.path().join("again.log");
    let data = folder.path().join("data");
    let server = Server::start(&access, &install, &settings(&[]), &data, &[0], &again);
    server.expect("it starts again").abandon();
    let log = std::fs::read_to_string(again).expect("a log");
    assert!(!log.contains("not properly shut down"), "{log}");
}

fn nix_uid() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").expect("there").uid()
}

#[test]
fn without_namespaces_an_open_folder_works_and_a_closed_one_is_explained() {
    let access = access().without_mounts();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("mode");
    let server = start(&access, &postgres(), folder.path()).expect("it starts");
    let command = std::fs::read(format!("/proc/{}/cmdline", server.id())).expect("it runs");
    assert!(command.starts_with(b"/usr/lib/postgresql/15/bin/postgres\0"));
    drop(server);
    if access.account().is_some() {
        let closed = closed_folder();
        let error = start(&access, &postgres(), closed.path()).expect_err("out of reach");
        assert_eq!(code_of(&error), Code::Environment);
        assert!(error.to_string().contains(closed.path().to_str().expect("text")), "{error:#}");
    }
}

#[test]
fn a_wrong_setting_is_reported_with_the_servers_own_words() {
    let folder = closed_folder();
    let (access, install, data) = (access(), postgres(), folder.path().join("data"));
    server::init(&access, &install, &[], &data, &folder.path().join("init.log")).expect("made");
    let wrong = settings(&[("shared_bufers", "16MB")]);
    let log = folder.path().join("server.log");
    let error = Server::start(&access, &install, &wrong, &data, &[], &log).expect_err("refused");
    let text = format!("{error:#}");
    assert!(text.contains("the server has ended"), "{text}");
    assert!(text.contains("unrecognized configuration parameter \"shared_bufers\""), "{text}");
    assert!(text.contains(log.to_str().expect("text")), "{text}");
}

#[test]
fn a_crash_is_noticed_and_dropping_stops() {
    let folder = closed_folder();
    let mut server = start(&access(), &postgres(), folder.path()).expect("it starts");
    Proc::new("/bin/kill").arg("-KILL").arg(server.id().to_string()).run().expect("killed");
    let begin = Instant::now();
    let error = loop {
        if let Err(error) = server.check() {
            break error;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "not noticed");
    };
    assert!(format!("{error:#}").contains("signal: 9"), "{error:#}");
    drop(server);

    let folder = closed_folder();
    let server = start(&access(), &postgres(), folder.path()).expect("it starts");
    let pid = server.id();
    drop(server);
    assert!(!alive(pid));
}

/// Not a test of its own: started and killed by the one below.
#[test]
#[ignore = "started by another test"]
fn hold_a_server() {
    let Some(folder) = std::env::var_os(VICTIM) else { return };
    let server = start(&access(), &postgres(), Path::new(&folder)).expect("it starts");
    println!("\nserver {}", server.id());
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_tool_leaves_no_server() {
    let folder = closed_folder();
    let mut victim = Proc::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "bench::hold_a_server", "--nocapture"])
        .env(VICTIM, folder.path())
        // What a killed tool cannot remove, its socket's folder, goes with this one.
        .env("TMPDIR", folder.path())
        .spawn()
        .expect("started");
    let lines = BufReader::new(victim.stdout().expect("a pipe")).lines();
    let pid: u32 = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("server ")?.parse().ok())
        .expect("it has a server");
    assert!(alive(pid));
    Proc::new("/bin/kill").arg("-KILL").arg(victim.id().to_string()).run().expect("killed");
    assert!(victim.wait(Some(Duration::from_secs(10))).is_ok());
    wait_until_gone(pid);
}
