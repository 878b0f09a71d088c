//! The job as the driver uses it: parsed, of the right version, with every value in its bounds.

use anyhow::{Context as _, bail, ensure};
use catalog::Microbenchmark;
use catalog::protocol::{self, Action, Count, Data, InsertStep, Maintain, Run, Server, StepKind};

/// A job that makes sense.
#[derive(Debug)]
pub struct Job {
    /// How to reach the server.
    pub server: Server,
    /// The tables.
    pub data: Data,
    /// What to do.
    pub task: Task,
}

/// What to do.
#[derive(Debug)]
pub enum Task {
    /// Make and fill the tables.
    Load {
        /// How many connections at once.
        connections: u32,
    },
    /// One event, compared with what the data must give.
    Verify(&'static Microbenchmark),
    /// Measure.
    Run(RunTask),
    /// A fixed number of events.
    Count(&'static Microbenchmark, Count),
    /// A step of the insert benchmark.
    InsertStep(InsertStep),
    /// Bring the server to rest.
    Maintain(Maintain),
}

/// A run whose microbenchmark is known.
#[derive(Debug)]
pub struct RunTask {
    /// What is measured.
    pub microbenchmark: &'static Microbenchmark,
    /// As asked for.
    pub asked: Run,
}

impl Job {
    /// Reads a job from JSON.
    ///
    /// # Errors
    ///
    /// When the text is not a job of this version, or a value is out of its bounds.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        // The version first: a job of another one differs in more than its number.
        let json: serde_json::Value = serde_json::from_str(text).context("it is not JSON")?;
        let version = json.get("version").and_then(serde_json::Value::as_u64);
        if version != Some(u64::from(protocol::VERSION)) {
            let found = json.get("version").map_or("none".to_owned(), ToString::to_string);
            bail!(
                "its version is {found}, this driver speaks {}: build tool and driver from the \
                 same sources",
                protocol::VERSION
            );
        }
        let job: protocol::Job = serde_json::from_str(text).context("it is not a job")?;
        if !matches!(job.action, Action::InsertStep(_) | Action::Maintain(_)) {
            check_data(&job.data)?;
        }
        let task = match job.action {
            Action::Load { connections } => {
                ensure!(connections > 0, "`connections` is 0, at least 1 must load");
                Task::Load { connections }
            }
            Action::Verify { microbenchmark } => Task::Verify(find(&microbenchmark)?),
            Action::Run(run) => Task::Run(check_run(run)?),
            Action::Count(count) => {
                ensure!(count.events > 0, "`events` is 0, at least 1 is needed");
                Task::Count(find(&count.microbenchmark)?, count)
            }
            Action::InsertStep(step) => {
                check_step(&step)?;
                Task::InsertStep(step)
            }
            Action::Maintain(maintain) => {
                check_maintain(&maintain)?;
                Task::Maintain(maintain)
            }
        };
        Ok(Self { server: job.server, data: job.data, task })
    }
}

fn check_data(data: &Data) -> anyhow::Result<()> {
    ensure!(data.tables > 0, "`tables` is 0, at least 1 is needed");
    // Ids are 4-byte integers, and inserts need room above.
    let most = i32::MAX as u64 / 2;
    ensure!((1..=most).contains(&data.rows), "`rows` is {}, it must be in 1..={most}", data.rows);
    Ok(())
}

/// A week; also keeps every sum of durations far from overflow.
const MOST_SECONDS: f64 = 7.0 * 24.0 * 3600.0;

fn check_step(step: &InsertStep) -> anyhow::Result<()> {
    /// Far below what the smallest default of `max_allowed_packet` (1 MiB) can hold.
    const MOST_ROWS: u32 = 5000;
    /// Above what is loaded in years; keeps sums far from overflow.
    const MOST_ALL_ROWS: u64 = 1 << 48;
    let InsertStep { clients, rows, rows_per_commit, .. } = *step;
    ensure!((1..=65_536).contains(&clients), "`clients` is {clients}, not 1..=65536");
    ensure!(
        (1..=MOST_ROWS).contains(&rows_per_commit),
        "`rows-per-commit` is {rows_per_commit}, not 1..={MOST_ROWS}"
    );
    ensure!(step.rate != Some(0), "`rate` is 0, at least 1 row per second is needed");
    match step.step {
        StepKind::Index => ensure!(rows == 0, "`rows` is {rows}, a step of indexes inserts none"),
        _ => ensure!((1..=MOST_ALL_ROWS).contains(&rows), "`rows` is {rows}, not 1..=2^48"),
    }
    let deletes = matches!(step.step, StepKind::Write | StepKind::Read { .. });
    ensure!(deletes || !step.deletes, "`deletes` has no place in a step that loads or indexes");
    match (step.step, step.seconds) {
        (StepKind::Read { .. }, Some(seconds)) => ensure!(
            seconds > 0.0 && seconds <= MOST_SECONDS,
            "`seconds` is {seconds}, it must be above 0 and at most {MOST_SECONDS}"
        ),
        (StepKind::Read { .. }, None) => bail!("`seconds` is missing: a read step ends by time"),
        (_, Some(_)) => bail!("`seconds` has no place in a step that ends with its rows"),
        (_, None) => {}
    }
    Ok(())
}

fn check_maintain(maintain: &Maintain) -> anyhow::Result<()> {
    let Maintain { tables, patience_seconds } = maintain;
    ensure!(!tables.is_empty(), "`tables` is empty, at least 1 is needed");
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    for table in tables {
        let begin = table.bytes().next();
        ensure!(
            begin.is_some_and(|byte| byte.is_ascii_lowercase()) && table.bytes().all(plain),
            "`{table}` is no name of a table: lower-case letters, digits and `_`, a letter first"
        );
    }
    ensure!(
        (0.0..=MOST_SECONDS).contains(patience_seconds),
        "`patience-seconds` is {patience_seconds}, it must be in 0..={MOST_SECONDS}"
    );
    Ok(())
}

fn check_run(run: Run) -> anyhow::Result<RunTask> {
    ensure!((1..=65_536).contains(&run.threads), "`threads` is {}, not 1..=65536", run.threads);
    ensure!(
        run.seconds > 0.0 && run.seconds <= MOST_SECONDS,
        "`seconds` is {}, it must be above 0 and at most {MOST_SECONDS}",
        run.seconds
    );
    ensure!(
        run.warmup_seconds >= 0.0 && run.warmup_seconds <= MOST_SECONDS,
        "`warmup-seconds` is {}, it must be in 0..={MOST_SECONDS}",
        run.warmup_seconds
    );
    if let Some(rate) = run.rate {
        ensure!(
            rate > 0.0 && rate <= 1e9,
            "`rate` is {rate}, it must be above 0 and at most 1e9 events per second"
        );
    }
    Ok(RunTask { microbenchmark: find(&run.microbenchmark)?, asked: run })
}

fn find(name: &str) -> anyhow::Result<&'static Microbenchmark> {
    catalog::find(name).with_context(|| {
        let known: Vec<String> = catalog::names().map(|name| format!("`{name}`")).collect();
        format!("there is no microbenchmark `{name}`; there are {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(data: &str, action: &str) -> String {
        format!(
            r#"{{"version": 1, "server": {{"protocol": "postgres", "socket": "/s", "user": "u",
            "database": "d"}}, "data": {data}, "action": {action}}}"#
        )
    }

    const DATA: &str = r#"{"tables": 1, "rows": 10, "seed": 1}"#;

    fn run(threads: i64, warmup: f64, seconds: f64) -> String {
        format!(
            r#"{{"run": {{"microbenchmark": "scan", "threads": {threads},
            "warmup-seconds": {warmup}, "seconds": {seconds}, "prepared": true, "seed": 7}}}}"#
        )
    }

    fn error(text: &str) -> String {
        format!("{:#}", Job::parse(text).unwrap_err())
    }

    #[test]
    fn a_short_name_is_resolved() {
        let job = Job::parse(&job(DATA, &run(2, 0.0, 1.5))).unwrap();
        let Task::Run(run) = job.task else { panic!("{job:?}") };
        assert_eq!(run.microbenchmark.name, "scan_range=100");
        assert_eq!(run.asked.seconds, 1.5);
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(error("").contains("not JSON"));
        assert!(error("[1]").contains("its version is none"));
        assert!(error(r#"{"version": 2}"#).contains("its version is 2"));
        assert!(error(r#"{"version": 1}"#).contains("missing field `server`"));
        let load = r#"{"load": {"connections": 1}}"#;
        let data = |tables, rows| format!(r#"{{"tables": {tables}, "rows": {rows}, "seed": 1}}"#);
        assert!(error(&job(&data(0, 1), load)).contains("`tables` is 0"));
        assert!(error(&job(&data(1, 0), load)).contains("`rows` is 0"));
        assert!(error(&job(&data(1, 2_000_000_000), load)).contains("`rows` is 2000000000"));
        let load = r#"{"load": {"connections": 0}}"#;
        assert!(error(&job(DATA, load)).contains("`connections` is 0"));
        let verify = r#"{"verify": {"microbenchmark": "points"}}"#;
        let message = error(&job(DATA, verify));
        assert!(message.contains("`points`") && message.contains("`scan_range=100`"), "{message}");
        let surplus = r#"{"load": {"connections": 1, "speed": 9}}"#;
        assert!(error(&job(DATA, surplus)).contains("unknown field `speed`"));
    }

    #[test]
    fn a_count_has_events() {
        let count = |events: u64| {
            format!(
                r#"{{"count": {{"microbenchmark": "scan", "events": {events}, "prepared": true,
                "seed": 7}}}}"#
            )
        };
        assert!(error(&job(DATA, &count(0))).contains("`events` is 0"));
        let job = Job::parse(&job(DATA, &count(3))).unwrap();
        let Task::Count(microbenchmark, count) = job.task else { panic!("{job:?}") };
        assert_eq!((microbenchmark.name, count.events), ("scan_range=100", 3));
    }

    /// A read step but for what `change` says: (old, new).
    fn step(changes: &[(&str, &str)]) -> String {
        let text = r#"{"insert-step": {"step": {"read": {"queries": "range"}}, "clients": 2,
            "tables": "per-client", "rows": 1000, "rows-before": 0, "rate": 100,
            "rows-per-commit": 50, "deletes": true, "seconds": 5.0, "seed": 7}}"#;
        changes.iter().fold(text.to_owned(), |text, (old, new)| {
            assert!(text.contains(old), "{old}");
            text.replace(old, new)
        })
    }

    #[test]
    fn a_step_of_the_insert_benchmark_makes_sense() {
        // Its data are its own.
        let none = r#"{"tables": 0, "rows": 0, "seed": 0}"#;
        let parsed = Job::parse(&job(none, &step(&[]))).unwrap();
        let Task::InsertStep(found) = parsed.task else { panic!("{parsed:?}") };
        assert_eq!((found.batch_rows(), found.batches_per_client()), (50, 10));

        let read = r#"{"read": {"queries": "range"}}"#;
        let write = (read, r#""write""#);
        let index = (read, r#""index""#);
        let endless = (r#""seconds": 5.0"#, r#""seconds": null"#);
        let no_deletes = (r#""deletes": true"#, r#""deletes": false"#);
        let no_rows = (r#""rows": 1000"#, r#""rows": 0"#);
        for fine in [&[write, endless][..], &[index, endless, no_deletes, no_rows]] {
            Job::parse(&job(DATA, &step(fine))).unwrap();
        }
        for (changes, said) in [
            (&[(r#""clients": 2"#, r#""clients": 0"#)][..], "`clients` is 0"),
            (&[("50", "0")], "`rows-per-commit` is 0"),
            (&[("50", "5001")], "`rows-per-commit` is 5001"),
            (&[(r#""rate": 100"#, r#""rate": 0"#)], "`rate` is 0"),
            (&[no_rows], "`rows` is 0"),
            (&[index, endless, no_deletes], "`rows` is 1000"),
            (&[index, endless, no_rows], "`deletes` has no place"),
            (&[write], "`seconds` has no place"),
            (&[endless], "`seconds` is missing"),
            (&[("5.0", "0.0")], "`seconds` is 0"),
            (&[("range", "pk")], "unknown variant `pk`"),
        ] {
            let message = error(&job(DATA, &step(changes)));
            assert!(message.contains(said), "{said}: {message}");
        }
    }

    #[test]
    fn maintenance_has_names_of_tables() {
        let maintain = |tables: &str, patience: f64| {
            let text = format!(
                r#"{{"maintain": {{"tables": {tables}, "patience-seconds": {patience}}}}}"#
            );
            job(r#"{"tables": 0, "rows": 0, "seed": 0}"#, &text)
        };
        Job::parse(&maintain(r#"["pi1", "sbtest_2"]"#, 0.0)).unwrap();
        assert!(error(&maintain("[]", 1.0)).contains("`tables` is empty"));
        for name in ["", "1a", "a; DROP TABLE b", "A"] {
            let message = error(&maintain(&format!(r#"["{name}"]"#), 1.0));
            assert!(message.contains(&format!("`{name}` is no name")), "{message}");
        }
        assert!(error(&maintain(r#"["pi1"]"#, -1.0)).contains("`patience-seconds` is -1"));
    }

    #[test]
    fn durations_and_threads_have_bounds() {
        assert!(error(&job(DATA, &run(0, 0.0, 1.0))).contains("`threads` is 0"));
        assert!(error(&job(DATA, &run(1, 0.0, 0.0))).contains("`seconds` is 0"));
        assert!(error(&job(DATA, &run(1, 0.0, -1.0))).contains("`seconds` is -1"));
        assert!(error(&job(DATA, &run(1, 0.0, 1e300))).contains("`seconds` is 1"));
        assert!(error(&job(DATA, &run(1, -0.5, 1.0))).contains("`warmup-seconds` is -0.5"));
    }
}
