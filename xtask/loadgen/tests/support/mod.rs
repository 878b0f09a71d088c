//! What the tests of all servers share: a server's process as an unprivileged user, and the driver
//! as a process.

pub mod insert;

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use catalog::Microbenchmark;
use catalog::protocol::{Action, Data, Event, Job, Measured, Run, Server, VERSION};

pub const DATA: Data = Data { tables: 2, rows: 3000, seed: 42 };
/// Whom a server runs as when the test runs as root, which servers refuse.
const NOBODY: u32 = 65_534;

/// A folder for a server, removed at the end.
pub fn folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("loadgen").tempdir().unwrap();
    if is_root() {
        std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    folder
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// An installed program as an unprivileged user.
pub fn unprivileged(program: &Path, package: &str) -> Command {
    assert!(
        program.exists(),
        "this test needs {}: install the package `{package}`",
        program.display()
    );
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let id = NOBODY.to_string();
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(program);
    command
}

/// Sends a signal to a server, which may have ended already.
pub fn signal(server: &Child, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(server.id().try_into().unwrap());
    let _ = nix::sys::signal::kill(pid, signal);
}

/// Waits until `done`, or panics with what `state` says.
pub fn wait_for(done: impl Fn() -> bool, state: impl Fn() -> String) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "{}", state());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs the driver.
pub fn loadgen(job: &str, environment: &[(&str, &str)]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(job.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The exit code of the driver and its events.
pub fn drive(
    server: Server,
    data: Data,
    action: Action,
    environment: &[(&str, &str)],
) -> (i32, Vec<Event>) {
    let job = Job { version: VERSION, server, data, action };
    let output = loadgen(&serde_json::to_string(&job).unwrap(), environment);
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let events = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (output.status.code().unwrap(), events)
}

/// The last event of a job that must succeed.
#[track_caller]
pub fn last((code, mut events): (i32, Vec<Event>)) -> Event {
    assert_eq!(code, 0, "{events:?}");
    events.pop().unwrap()
}

/// What a job that must succeed has measured.
#[track_caller]
pub fn measured(driven: (i32, Vec<Event>)) -> Measured {
    match last(driven) {
        Event::Measured(measured) => measured,
        other => panic!("{other:?}"),
    }
}

/// Why a job has failed, which must fail.
#[track_caller]
pub fn failure(driven: (i32, Vec<Event>)) -> String {
    match driven {
        (1, events) => match events.last() {
            Some(Event::Failed { reason }) => reason.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

pub fn run(name: &str, threads: u32, seconds: f64, prepared: bool) -> Action {
    Action::Run(Run {
        microbenchmark: name.to_owned(),
        threads,
        warmup_seconds: 0.05,
        seconds,
        prepared,
        seed: 7,
        rate: None,
    })
}

/// The same in open loop.
#[allow(dead_code, reason = "one of the two servers is enough for it")]
pub fn run_at(rate: f64, name: &str, threads: u32, seconds: f64) -> Action {
    match run(name, threads, seconds, true) {
        Action::Run(run) => Action::Run(Run { rate: Some(rate), ..run }),
        other => other,
    }
}

pub fn verify(name: &str) -> Action {
    Action::Verify { microbenchmark: name.to_owned() }
}

/// Whether the numbers of a short run with two clients fit each other; `refusals` may occur.
#[track_caller]
pub fn is_plausible(microbenchmark: &Microbenchmark, measured: &Measured, refusals: &[&str]) {
    let name = microbenchmark.name;
    let events = measured.events;
    let per_event = u64::from(microbenchmark.queries_per_event());
    assert!(measured.queries > 0, "{name}: {measured:?}");
    // Two clients may each be inside an event at both ends of the window; a refused event has run
    // some of its statements.
    let refused: u64 = measured.errors.iter().map(|(_, count)| count).sum();
    let slack = (4 + refused) * per_event;
    assert!(measured.queries.abs_diff(events * per_event) <= slack, "{name}: {measured:?}");
    for (code, _) in &measured.errors {
        assert!(refusals.contains(&code.as_str()), "{name}: {code}");
    }
    if per_event == 1 {
        assert!(measured.errors.is_empty(), "{name}: {measured:?}");
        assert!(measured.latency.max_us > 0 && measured.latency.mean_us > 0.0, "{name}");
    }
    let returns_rows =
        (microbenchmark.read_only() && !name.starts_with("scan")) || name.starts_with("read-write");
    assert_eq!(measured.rows > 0, returns_rows, "{name}: {measured:?}");
}
