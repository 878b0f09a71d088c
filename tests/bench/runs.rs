//! Whole runs: snapshots, servers, driver, records, and what becomes of failures.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use catalog::protocol::{ClientUsage, Data, Event, Latency, Measured};
use jiff::Timestamp;
use xtask::bench::driver::Driver;
use xtask::bench::placement;
use xtask::bench::plan::{Measure, Plan, Target, Work};
use xtask::bench::run::{Summary, run};
use xtask::bench::snapshot::Fill;
use xtask::env::Env;
use xtask::hash::Digest;
use xtask::matrix::model::Placement;
use xtask::proc::Proc;
use xtask::progress::Reporter;
use xtask::record::{Outcome, Record};

use super::{TOOL, VICTIM, closed_folder, postgres, settings, wait_until_gone};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_owned()
}

fn env(folder: &Path) -> Env {
    Env {
        root: root(),
        matrix: folder.join("matrix.toml"),
        results: folder.join("results"),
        work: folder.join("work"),
        sources: None,
        jobs: 2,
        keep_going: true,
        reporter: Reporter::new(true),
    }
}

fn target(config: &str, lines: &[(&str, &str)]) -> Target {
    Target {
        name: format!("pg15.{config}"),
        id: Digest::of(config.as_bytes()),
        build: "pg15".to_owned(),
        build_id: Digest::of(b"pg15"),
        code_id: None,
        audit: None,
        compiler: None,
        settings: vec![("opt".to_owned(), "o2".to_owned())],
        config: config.to_owned(),
        install: postgres(),
        server: settings(lines),
        init: Vec::new(),
        source: Digest::of(b"source"),
        configure: Vec::new(),
    }
}

fn measure(microbenchmark: &str, writes: bool, seconds: f64) -> Measure {
    Measure {
        microbenchmark: microbenchmark.to_owned(),
        group: if writes { "writes" } else { "point-1" }.to_owned(),
        writes,
        threads: 1,
        seconds,
        workload_id: Digest::of(microbenchmark.as_bytes()),
        work: Work::Microbenchmark,
        maintain: None,
    }
}

fn plan(targets: Vec<Target>, items: Vec<Measure>) -> Plan {
    Plan {
        experiment: "e".to_owned(),
        targets,
        workload: "w".to_owned(),
        fill: Fill::Tables(Data { tables: 1, rows: 2_000, seed: 1 }),
        key_seed: 1,
        warmup_seconds: 0.1,
        prepared: true,
        rate: None,
        error_limit: 0.01,
        items,
        placement: Placement::Auto,
        repeats: 2,
        seed: 1,
        host: "h".to_owned(),
        boot: "b".to_owned(),
        kernel: "6.1.0".to_owned(),
        sysbench: None,
        profile: None,
        folder: None,
        driver: None,
        cores: placement::cores().expect("cores"),
    }
}

const SMALL: [(&str, &str); 2] = [("shared_buffers", "16MB"), ("fsync", "off")];
const LARGE: [(&str, &str); 2] = [("shared_buffers", "32MB"), ("fsync", "off")];

fn execute(env: &Env, driver: &Driver, plan: &Plan, records: &mut Vec<Record>) -> Summary {
    let blocks = plan.blocks(records, Timestamp::now()).expect("a schedule");
    let measured = plan.base_measured(records);
    let mut sink = |record| {
        records.push(record);
        Ok(())
    };
    run(env, Path::new(TOOL), Some(driver), plan, &blocks, measured, &mut sink).expect("it runs")
}

#[test]
fn two_configs_of_an_installed_server_are_measured_in_two_blocks() {
    let folder = closed_folder();
    let env = env(folder.path());
    let driver = Driver::build(&root(), TOOL).expect("cargo makes the driver");
    let items = vec![
        measure("point-query_range=100", false, 0.2),
        measure("update-nonindex_range=100", true, 0.2),
    ];
    let plan = plan(vec![target("small", &SMALL), target("large", &LARGE)], items);
    let mut records = Vec::new();
    let summary = execute(&env, &driver, &plan, &mut records);
    assert_eq!(summary, Summary { ok: 8, failed: 0 }, "{records:#?}");
    check(&plan, &records);
    assert_eq!(std::fs::read_dir(env.snapshots()).expect("there").count(), 1, "one source");
    assert!(!env.work.join("run").exists());
    assert_eq!(std::fs::read_dir(env.staging()).expect("there").count(), 0, "nothing half done");
    // Done is done, and no server was left.
    assert_eq!(plan.blocks(&records, Timestamp::now()).expect("a schedule"), []);
    assert_eq!(execute(&env, &driver, &plan, &mut records), Summary::default());
}

/// Whether the kernel counts what is written where the tests' data lie: not in memory (tmpfs).
fn writes_are_counted() -> bool {
    let written = || -> u64 {
        let text = std::fs::read_to_string("/proc/self/io").expect("the kernel's count");
        let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        line.and_then(|number| number.parse().ok()).expect("a number")
    };
    let before = written();
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), vec![1; 1 << 20]).expect("written");
    file.as_file().sync_all().expect("on disk");
    written() > before
}

fn check(plan: &Plan, records: &[Record]) {
    for block in [1, 2] {
        let of_block: Vec<_> = records.iter().filter(|record| record.block == block).collect();
        assert_eq!(of_block.len(), 4);
        assert!(of_block.iter().all(|record| record.order_seed == of_block[0].order_seed));
    }
    assert_ne!(records[0].target, records[4].target, "the order alternates");
    let mut invocations: Vec<_> = records.iter().map(|record| &record.invocation).collect();
    invocations.dedup();
    assert_eq!(invocations.len(), 4);
    let counted = writes_are_counted();
    for record in records {
        let Outcome::Ok(sample) = &record.outcome else { panic!("{record:#?}") };
        let (server, client) = (&sample.server, &sample.client);
        let version = record.server_version.as_deref().expect("it answered");
        assert!(version.starts_with("15."), "{version}");
        assert!(sample.rows > 0 || record.group == "writes", "{sample:?}");
        assert!((0.15..0.4).contains(&sample.seconds), "{sample:?}");
        assert!(sample.queries > 20 && sample.events > 0 && sample.events <= sample.queries);
        assert!(sample.errors.is_empty() && sample.latency.mean_us > 0.0, "{sample:?}");
        let cpu = server.user_seconds + server.system_seconds;
        // The ticks of a process that ended count 10 ms, and the window ends while it is read.
        let most = 2.0 * (sample.seconds + 0.1);
        assert!(cpu > 0.005 && cpu < most, "{server:?} in {} s", sample.seconds);
        // One per query and more, but the reading may be late on a busy machine.
        assert!(server.context_switches > sample.queries / 10, "{sample:?}");
        assert!(client.user_seconds + client.system_seconds > 0.001, "{client:?}");
        let seen = server.written_kib > 0.0 || record.group != "writes";
        assert!(seen || !counted, "{server:?}");
        assert_ne!(record.placement.kind, Placement::Auto);
        assert!(plan.targets.iter().any(|target| target.id == record.target_id));
        let text = serde_json::to_string(record).expect("JSON");
        assert_eq!(&serde_json::from_str::<Record>(&text).expect("JSON"), record);
    }
}

/// A driver that does what the name of the microbenchmark says.
fn pretender(folder: &Path, work: &Path) -> Driver {
    let file = folder.join("driver");
    let script = r#"#!/bin/sh
job=$(cat)
case "$job" in
*'"load"'*) echo '{"event":"loaded","seconds":0.1,"rows":2000}';;
*'"fails"'*) echo '{"event":"failed","reason":"as told"}'; exit 1;;
*'"kills"'*) kill -9 $(head -n 1 WORK/run/*/data/postmaster.pid); sleep 0.1
  echo '{"event":"failed","reason":"connection lost"}'; exit 1;;
*'"dies"'*) echo "out of luck" >&2; exit 3;;
*'"lasts"'*) echo '{"event":"window-begin"}'; sleep 60;;
*) echo '{"event":"window-begin"}'; sleep 0.1; echo '{"event":"window-end"}'
  echo 'MEASURED';;
esac
"#;
    let measured = Event::Measured(Measured {
        seconds: 0.1,
        queries: 7,
        events: 7,
        rows: 7,
        errors: Vec::new(),
        queries_per_second: Vec::new(),
        latency: Latency::default(),
        streams: Vec::new(),
        client: ClientUsage::default(),
    });
    let script = script
        .replace("WORK", work.to_str().expect("text"))
        .replace("MEASURED", &serde_json::to_string(&measured).expect("JSON"));
    std::fs::write(&file, script).expect("written");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("mode");
    Driver::at(file, TOOL).expect("a driver")
}

fn reasons(records: &[Record], target: &str) -> Vec<(String, String)> {
    records
        .iter()
        .filter(|record| record.target == target)
        .map(|record| {
            let how = match &record.outcome {
                Outcome::Ok(_) => "ok".to_owned(),
                Outcome::Failed { reason, .. } => reason.clone(),
            };
            (record.microbenchmark.clone(), how)
        })
        .collect()
}

#[test]
fn failures_are_records_and_the_others_go_on() {
    let folder = closed_folder();
    let env = env(folder.path());
    let driver = pretender(folder.path(), &env.work);
    let names = ["reads", "fails", "dies", "kills", "goes-on"];
    let items = names.map(|name| measure(name, false, 0.1)).to_vec();
    let wrong = target("wrong", &[("shared_bufers", "1")]);
    let mut plan = plan(vec![target("small", &SMALL), wrong], items);
    let mut records = Vec::new();
    let summary = execute(&env, &driver, &plan, &mut records);
    // Two blocks of the base; the other target is given up after its first visit.
    assert_eq!(summary, Summary { ok: 4, failed: 6 + 5 });
    let base = reasons(&records, "pg15.small");
    assert_eq!(base.len(), 10);
    assert_eq!(base[0], ("reads".to_owned(), "ok".to_owned()));
    assert_eq!(base[1], ("fails".to_owned(), "as told".to_owned()));
    assert!(
        base[2].1.contains("exit status: 3") && base[2].1.contains("| out of luck"),
        "{base:?}"
    );
    assert!(base[3].1.contains("the server has ended") && base[3].1.contains("signal: 9"));
    assert_eq!(base[4], ("goes-on".to_owned(), "ok".to_owned()), "the server is started again");
    let of_base: Vec<_> = records.iter().filter(|r| r.target == "pg15.small").collect();
    assert_eq!(of_base[4].invocation, format!("{}-s2", of_base[0].invocation));
    let wrong = reasons(&records, "pg15.wrong");
    assert_eq!(wrong.len(), 5);
    assert!(wrong.iter().all(|(_, how)| how.contains("unrecognized configuration parameter")));
    let Outcome::Failed { log: Some(log), .. } = &of_base[3].outcome else { panic!("no log") };
    let log = std::fs::read_to_string(env.work.join(log)).expect("a log");
    assert!(log.contains("ready to accept connections"), "{log}");

    // The next call tries the target anew, mended or not, with the base beside it.
    let again = plan.blocks(&records, Timestamp::now()).expect("a schedule");
    // It joins the block that it was left out of; two more are for what the base failed in.
    assert!(again[0].resumed && again[0].visits.len() == 1 && again[0].number == 2);
    assert_eq!(again.iter().map(|block| block.number).collect::<Vec<_>>(), [2, 3, 4]);
    assert!(again[1..].iter().all(|block| block.visits.len() == 2));
    // A change of the target makes it another one, whose records are not there yet.
    plan.targets[1] = target("large", &LARGE);
    let other = plan.blocks(&records, Timestamp::now()).expect("a schedule");
    assert!(other.iter().any(|block| block.visits.iter().any(|visit| visit.target == 1)));
}

#[test]
fn a_base_that_cannot_run_ends_the_benchmark() {
    let folder = closed_folder();
    let env = env(folder.path());
    let driver = pretender(folder.path(), &env.work);
    let base = target("wrong", &[("shared_bufers", "1")]);
    let plan = plan(vec![base, target("small", &SMALL)], vec![measure("reads", false, 0.1)]);
    let blocks = plan.blocks(&[], Timestamp::now()).expect("a schedule");
    let mut failed = 0;
    let mut sink = |record: Record| {
        failed += usize::from(matches!(record.outcome, Outcome::Failed { .. }));
        Ok(())
    };
    let result = run(&env, Path::new(TOOL), Some(&driver), &plan, &blocks, false, &mut sink);
    let error = result.expect_err("no base");
    assert!(error.to_string().contains("the base `pg15.wrong`"), "{error:#}");
    assert_eq!(failed, 1);
    assert!(!env.work.join("run").exists());
}

#[test]
fn what_always_fails_on_the_base_ends_no_later_call() {
    let folder = closed_folder();
    let env = env(folder.path());
    let driver = pretender(folder.path(), &env.work);
    let items = ["reads", "fails"].map(|name| measure(name, false, 0.1)).to_vec();
    let plan = plan(vec![target("small", &SMALL), target("large", &LARGE)], items);
    let mut records = Vec::new();
    assert_eq!(execute(&env, &driver, &plan, &mut records), Summary { ok: 4, failed: 4 });
    for _ in 0..2 {
        // One block of what lacks pairs, and no further one without the base.
        let summary = execute(&env, &driver, &plan, &mut records);
        assert_eq!(summary.ok, 0);
        assert!((1..=2).contains(&summary.failed), "{summary:?}");
    }
}

#[test]
fn fail_fast_ends_with_the_first_failure() {
    let folder = closed_folder();
    let env = Env { keep_going: false, ..env(folder.path()) };
    let driver = pretender(folder.path(), &env.work);
    let items = ["reads", "fails", "goes-on"].map(|name| measure(name, false, 0.1)).to_vec();
    let plan = plan(vec![target("small", &SMALL), target("large", &LARGE)], items);
    let mut records = Vec::new();
    assert_eq!(execute(&env, &driver, &plan, &mut records), Summary { ok: 1, failed: 1 });
    assert_eq!(records.len(), 2);
}

/// Not a test of its own: started and interrupted by the one below.
#[test]
#[ignore = "started by another test"]
fn run_until_interrupted() {
    let Some(folder) = std::env::var_os(VICTIM) else { return };
    let folder = Path::new(&folder);
    xtask::interrupt::install().expect("handlers");
    let env = env(folder);
    let driver = pretender(folder, &env.work);
    let plan = plan(vec![target("small", &SMALL)], vec![measure("lasts", false, 60.0)]);
    let blocks = plan.blocks(&[], Timestamp::now()).expect("a schedule");
    let mut sink = |_| {
        println!("\na record");
        Ok(())
    };
    let error = run(&env, Path::new(TOOL), Some(&driver), &plan, &blocks, false, &mut sink)
        .expect_err("stopped");
    println!("\ncode {}", xtask::exit::code_of(&error) as u8);
}

#[test]
fn an_interrupt_stops_all_and_leaves_nothing_half_done() {
    let folder = closed_folder();
    let mut victim = Proc::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "bench::runs::run_until_interrupted", "--nocapture"])
        .env(VICTIM, folder.path())
        .env("TMPDIR", folder.path())
        .spawn()
        .expect("started");
    let run = folder.path().join("work/run");
    let begin = Instant::now();
    let server: u32 = loop {
        assert!(begin.elapsed() < Duration::from_secs(60), "no server");
        std::thread::sleep(Duration::from_millis(20));
        let Ok(mut entries) = std::fs::read_dir(&run) else { continue };
        let Some(Ok(entry)) = entries.next() else { continue };
        let pid = std::fs::read_to_string(entry.path().join("data/postmaster.pid"));
        let Ok(pid) = pid else { continue };
        if pid.contains("ready") {
            break pid.lines().next().and_then(|pid| pid.parse().ok()).expect("a number");
        }
    };
    std::thread::sleep(Duration::from_millis(300));
    Proc::new("/bin/kill").arg("-INT").arg(victim.id().to_string()).run().expect("sent");
    let mut said = String::new();
    let mut stdout = victim.stdout().expect("a pipe");
    std::io::Read::read_to_string(&mut stdout, &mut said).expect("text");
    assert!(said.contains("\ncode 130\n"), "{said}");
    assert!(!said.contains("a record"), "{said}");
    wait_until_gone(server);
    assert!(!run.exists());
    assert!(begin.elapsed() < Duration::from_secs(60));
}
