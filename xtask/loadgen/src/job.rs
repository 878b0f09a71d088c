//! The job as the driver uses it: parsed, of the right version, with every value in its bounds.

use anyhow::{Context as _, bail, ensure};
use catalog::Microbenchmark;
use catalog::protocol::{self, Action, Count, Data, Run, Server};

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
        check_data(&job.data)?;
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

fn check_run(run: Run) -> anyhow::Result<RunTask> {
    /// A week; also keeps every sum of durations far from overflow.
    const MOST_SECONDS: f64 = 7.0 * 24.0 * 3600.0;
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

    #[test]
    fn durations_and_threads_have_bounds() {
        assert!(error(&job(DATA, &run(0, 0.0, 1.0))).contains("`threads` is 0"));
        assert!(error(&job(DATA, &run(1, 0.0, 0.0))).contains("`seconds` is 0"));
        assert!(error(&job(DATA, &run(1, 0.0, -1.0))).contains("`seconds` is -1"));
        assert!(error(&job(DATA, &run(1, 0.0, 1e300))).contains("`seconds` is 1"));
        assert!(error(&job(DATA, &run(1, -0.5, 1.0))).contains("`warmup-seconds` is -0.5"));
    }
}
