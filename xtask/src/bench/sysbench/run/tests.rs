//! Jobs to commands, lines to events, reports to measurements. Against servers: `tests/`.

use std::sync::mpsc::channel;

use catalog::protocol::{Data, VERSION};

use super::*;

fn job(warmup_seconds: f64, seconds: f64, threads: u32) -> Job {
    Job {
        version: VERSION,
        server: Server {
            protocol: WireProtocol::Postgres,
            socket: "/s/.s.PGSQL.5432".to_owned(),
            user: "u".to_owned(),
            database: "d".to_owned(),
        },
        data: Data { tables: 1, rows: 10, seed: 1 },
        action: Action::Run(Run {
            microbenchmark: "point-query".to_owned(),
            threads,
            warmup_seconds,
            seconds,
            prepared: true,
            seed: u64::MAX,
            rate: None,
        }),
    }
}

#[test]
fn seconds_are_rounded_up_and_have_bounds() {
    let job = |warmup, seconds| job(warmup, seconds, 1);
    let whole = |job: &Job| Asked::of(job).map(|asked| (asked.warmup, asked.seconds)).ok();
    assert_eq!(whole(&job(0.0, 0.2)), Some((0, 1)));
    assert_eq!(whole(&job(0.1, 5.0)), Some((1, 5)));
    for (warmup, seconds) in [(0.0, 0.0), (0.0, f64::NAN), (-1.0, 1.0), (f64::NAN, 1.0), (0.0, 1e9)]
    {
        assert_eq!(whole(&job(warmup, seconds)), None, "{warmup} {seconds}");
    }
}

#[test]
fn a_job_that_is_none_for_sysbench_is_refused() {
    let mut wrong = job(0.0, 1.0, 1);
    wrong.action = Action::Load { connections: 1 };
    let error = Asked::of(&wrong).err().expect("refused").to_string();
    assert!(error.contains("only measures"), "{error}");
    wrong = job(0.0, 1.0, 1);
    let Action::Run(run) = &mut wrong.action else { unreachable!() };
    run.microbenchmark = "points".to_owned();
    let error = Asked::of(&wrong).err().expect("refused").to_string();
    assert!(error.contains("`points`") && error.contains("`scan_range=100`"), "{error}");
    assert!(Asked::of(&job(0.0, 1.0, 0)).is_err());
    wrong = job(0.0, 1.0, 1);
    let Action::Run(run) = &mut wrong.action else { unreachable!() };
    run.rate = Some(100.0);
    let error = Asked::of(&wrong).err().expect("refused").to_string();
    assert!(error.contains("cannot keep a rate"), "{error}");
}

#[test]
fn a_socket_of_postgres_is_a_folder_and_a_port() {
    assert_eq!(folder_and_port("/a/b/.s.PGSQL.5432").expect("one"), ("/a/b", 5432));
    for wrong in ["/a/mysql.sock", "/a/.s.PGSQL.", "/a/.s.PGSQL.99999"] {
        let error = folder_and_port(wrong).expect_err("none").to_string();
        assert!(error.contains(wrong), "{error}");
    }
}

/// Hears lines; the process that is looked at is this test.
fn hear(warmup: f64, threads: u32, lines: &[&str]) -> (Listener, anyhow::Result<()>, Vec<Event>) {
    let job = job(warmup, 2.0, threads);
    let asked = Asked::of(&job).expect("a run");
    let mut listener = Listener::new(&asked, std::process::id());
    let (sender, receiver) = channel();
    lines.iter().for_each(|line| sender.send(Ok((*line).to_owned())).expect("open"));
    drop(sender);
    let mut heard = Vec::new();
    let result = listener.listen(&receiver, Duration::from_secs(60), &mut |event: &Event| {
        heard.push(event.clone());
        Ok(())
    });
    (listener, result, heard)
}

#[test]
fn the_window_is_from_the_checkpoint_to_the_end_of_the_last_client() {
    let (listener, result, heard) = hear(
        1.0,
        2,
        &[
            "Threads started!",
            "[ 1s ] Checkpoint report:",
            "[ 1s ] thds: 2 qps: 9.00",
            "[ 2s ] thds: 2 qps: 7.60",
            // Two threads at once, amid a line.
            "[ 3s ] matrix: client 1 has ended",
            "matrix: client 0 has ended",
            "[ 3s ] thds: 0 qps: 5.00",
        ],
    );
    result.expect("heard");
    let second = Event::Second { second: 1, queries: 8 };
    assert_eq!(heard, [Event::WindowBegin, second, Event::WindowEnd]);
    listener.used().expect("begun and ended");
    assert_eq!(listener.text.lines().count(), 7);
}

#[test]
fn without_warm_up_the_window_begins_with_the_threads() {
    let (listener, result, heard) =
        hear(0.0, 1, &["sysbench 1.0.20", "Threads started!", "[ 1s ] thds: 1 qps: 3.00"]);
    result.expect("heard");
    assert_eq!(heard, [Event::WindowBegin, Event::Second { second: 1, queries: 3 }]);
    let error = listener.used().expect_err("it did not end").to_string();
    assert!(error.contains("when its window began and ended"), "{error}");
}

const REPORT: &str = "\
[ 1s ] Checkpoint report:
SQL statistics:
    queries:                             9      (9.00 per sec.)
General statistics:
    total time:                          1.0100s
[ 1s ] thds: 1 qps: 9.00
[ 2s ] thds: 1 qps: 30.40
[ 3s ] thds: 1 qps: 29.60
Latency histogram (values are in milliseconds)
       1.000 |*****                                    59
       9.000 |*                                        1
SQL statistics:
    transactions:                        60     (28.57 per sec.)
    queries:                             60     (28.57 per sec.)
    ignored errors:                      4      (2.00 per sec.)
    reconnects:                          0      (0.00 per sec.)
General statistics:
    total time:                          3.1150s
    total number of events:              60
Latency (ms):
         avg:                                    1.13
         max:                                    8.90
         sum:                                   67.90
";

#[test]
fn a_report_is_a_measurement_of_the_window() {
    let job = job(1.0, 2.0, 1);
    let asked = Asked::of(&job).expect("a run");
    let used = ClientUsage { user_seconds: 0.5, ..ClientUsage::default() };
    let measured = measured(&asked, &parse::parse(REPORT), used.clone()).expect("whole");
    // From the checkpoint on, without the time for which connections were held.
    assert!((measured.seconds - 2.005).abs() < 1e-9, "{}", measured.seconds);
    assert_eq!((measured.queries, measured.events, measured.rows), (60, 60, 0));
    assert_eq!(measured.errors, [("ignored".to_owned(), 4)]);
    assert_eq!(measured.queries_per_second, [30, 30]);
    let latency = measured.latency;
    assert!((latency.mean_us - 67_900.0 / 60.0).abs() < 1e-9, "{}", latency.mean_us);
    // A step of the histogram may lie above the longest.
    assert_eq!((latency.p50_us, latency.p99_us, latency.max_us), (1000, 8900, 8900));
    assert_eq!(measured.client, used);
}

#[test]
fn a_report_of_1_1_has_the_length_of_its_window() {
    let job = job(1.0, 2.0, 1);
    let asked = Asked::of(&job).expect("a run");
    let text = REPORT.replace("total time:                          3.1150s", "time elapsed: 2.1s");
    assert!((seconds(&asked, &parse::parse(&text)).expect("one") - 2.0).abs() < 1e-9);
}

#[test]
fn what_a_report_lacks_is_said() {
    let job = job(1.0, 2.0, 1);
    let asked = Asked::of(&job).expect("a run");
    let reason = |from: &str, to: &str| {
        assert!(REPORT.contains(from), "{from}");
        let output = parse::parse(&REPORT.replace(from, to));
        let error = measured(&asked, &output, ClientUsage::default());
        error.expect_err("refused").to_string()
    };
    assert!(reason("queries:  ", "q: ").contains("no line `queries:`"));
    assert!(reason("1.0100s", "").contains("checkpoint report has no `total time:`"));
    assert!(reason("3.1150s", "").contains("how long"));
    assert!(reason("3.1150s", "1.1s").contains("was -0.01"));
    assert!(reason("        60     (28", "         0     (0").contains("no statement"));
    assert!(reason("max:", "m:").contains("no response times"));
    assert!(reason("Latency histogram", "").contains("no histogram"));
}
