//! Counting instructions per operation: where clocks are noisy and the processor lets nobody count,
//! a difference of half a percent still shows.
//!
//! Each count is two starts of the server under Valgrind on fresh copies of the same data, the
//! first with W operations, the second with the same W and N more; what differs is the cost of N.
//! So start, connecting, planning and the filling of caches cancel, and nothing must be switched on
//! while the server runs. Operations are of fixed number and seed, on one connection; what would
//! act by the clock is turned off.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use catalog::protocol::{self, Action, Event, Job, VERSION};
use catalog::{Microbenchmark, Statement};
use fs_err as fs;
use jiff::Timestamp;

use super::callgrind::{self, Valgrind};
use super::driver::Driver;
use super::plan::{Measure, Plan, Target};
use super::snapshot::{self, Contents};
use crate::env::Env;
use crate::hash::Digest;
use crate::interrupt;
use crate::record::count::{COUNT_SCHEMA, Count, Counted, Instructions};
use crate::server::access::Access;
use crate::server::{self, Server, Settings};

/// How many instructions, in thousands, the counted operations shall have about: some seconds.
const BUDGET: u64 = 25_000;
/// More operations than this say nothing more.
const MOST: u64 = 1_000;
/// Fewer are no mean.
const FEWEST: u64 = 4;
/// PostgreSQL plans a prepared statement anew for its first five executions.
const WARMUP: u64 = 6;
/// Under Valgrind everything takes about fifty times as long.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How long a process may take to write its file when its connection has ended.
const WRITING: Duration = Duration::from_secs(120);

/// What acts by the clock in PostgreSQL is turned off or put off, and parallel workers, whose share
/// depends on chance, stay out.
const QUIET: [(&str, &str); 6] = [
    ("autovacuum", "off"),
    ("bgwriter_delay", "10s"),
    ("bgwriter_lru_maxpages", "0"),
    ("wal_writer_delay", "10s"),
    ("checkpoint_timeout", "1h"),
    ("max_parallel_workers_per_gather", "0"),
];

/// How many operations are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operations {
    /// In both starts; they do not count.
    pub warmup: u64,
    /// In the second start only.
    pub counted: u64,
}

impl Operations {
    /// By what one event does: a statement is taken for 25,000 instructions, a row for 1,000. Only
    /// the length of a count depends on how good that is. Pure, so equal for all targets.
    pub fn of(microbenchmark: &Microbenchmark, rows: u64) -> Self {
        let steps = microbenchmark.steps.iter();
        let thousands: u64 =
            steps.map(|step| u64::from(step.times) * (25 + touched(step.statement, rows))).sum();
        let counted = (BUDGET / thousands.max(1)).clamp(FEWEST, MOST);
        Self { warmup: (counted / 4).max(WARMUP), counted }
    }
}

/// Rows that a statement touches.
fn touched(statement: Statement, rows: u64) -> u64 {
    match statement {
        Statement::Begin | Statement::Commit => 0,
        Statement::SelectPoint
        | Statement::UpdateIndex
        | Statement::UpdateNonindex
        | Statement::Delete
        | Statement::Reinsert
        | Statement::Insert => 1,
        // Each is looked up on its own.
        Statement::SelectIn { count, .. }
        | Statement::SelectHot { count }
        | Statement::UpdateIn { count } => 3 * u64::from(count),
        Statement::SelectRange { distance, .. }
        | Statement::SelectSum { distance }
        | Statement::SelectOrder { distance }
        | Statement::SelectDistinct { distance } => u64::from(distance) + 1,
        Statement::Scan => rows,
    }
}

/// The hash of everything that determines what is executed.
///
/// # Errors
/// For a microbenchmark that is not in the catalogue.
pub fn count_id(plan: &Plan, item: &Measure) -> anyhow::Result<Digest> {
    let data = plan.tables()?;
    let found = find(item)?;
    let operations = Operations::of(found, data.rows);
    Ok(Digest::of(
        format!(
            "count 1\nprotocol {VERSION}\nzipf {}\n{:?} prepared {}\n{operations:?} {found:?}\n",
            catalog::ZIPF_EXPONENT,
            data,
            plan.prepared
        )
        .as_bytes(),
    ))
}

fn find(item: &Measure) -> anyhow::Result<&'static Microbenchmark> {
    let name = &item.microbenchmark;
    catalog::find(name).with_context(|| format!("`{name}` is no longer in the catalogue"))
}

/// Makes counts, one after the other. The caller holds the lock of the host.
pub struct Counter<'a> {
    /// Where everything is.
    pub env: &'a Env,
    /// The file of this program.
    pub tool: &'a Path,
    /// The load driver.
    pub driver: &'a Driver,
    /// What is counted.
    pub plan: &'a Plan,
    /// With what.
    pub valgrind: &'a Valgrind,
}

impl Counter<'_> {
    /// One count of a target and an item, whatever comes of it.
    ///
    /// # Errors
    /// When the user asks to stop, or nothing can be counted here at all.
    pub fn count(&self, target: &Target, item: &Measure) -> anyhow::Result<Count> {
        let begin = Timestamp::now();
        let access = Access::new(self.tool, target.install.engine)?;
        let name = format!(
            "{}-{}-{}",
            begin.strftime("%Y%m%dT%H%M%S%3fZ"),
            target.name,
            item.microbenchmark
        );
        let logs = self.env.logs().join("count").join(&self.plan.experiment).join(name);
        fs::create_dir_all(&logs)?;
        let mut version = None;
        let outcome = match self.instructions(&access, target, item, &logs, &mut version) {
            Ok(instructions) => Counted::Ok(instructions),
            Err(error) => {
                interrupt::check()?;
                let log = logs.strip_prefix(&self.env.work).unwrap_or(&logs);
                let log = Some(log.to_string_lossy().into_owned());
                Counted::Failed { reason: format!("{error:#}"), log }
            }
        };
        let (plan, target) = (self.plan, target.clone());
        Ok(Count {
            schema: COUNT_SCHEMA,
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            experiment: plan.experiment.clone(),
            target: target.name,
            target_id: target.id,
            build: target.build,
            build_id: target.build_id,
            audit: target.audit,
            compiler: target.compiler,
            server_version: version,
            settings: target.settings,
            config: target.config,
            workload: plan.workload.clone(),
            count_id: count_id(plan, item)?,
            microbenchmark: item.microbenchmark.clone(),
            group: item.group.clone(),
            host: plan.host.clone(),
            kernel: plan.kernel.clone(),
            driver: self.driver.digest(),
            instrument: self.valgrind.version.clone(),
            started: begin.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            outcome,
        })
    }

    fn instructions(
        &self,
        access: &Access,
        target: &Target,
        item: &Measure,
        logs: &Path,
        version: &mut Option<String>,
    ) -> anyhow::Result<Instructions> {
        let contents = Contents::new(
            target.install.engine,
            target.source,
            &target.configure,
            (&target.init, &target.server.lines),
            &self.plan.fill,
            Some(self.driver),
        );
        for warning in server::check_settings(&target.install, &target.server)? {
            self.env.reporter.warn(format!("{}: {warning}", target.config));
        }
        let loaded =
            snapshot::ensure(self.env, access, &target.install, &contents, Some(self.driver))?;
        let Operations { warmup, counted } = Operations::of(find(item)?, self.plan.tables()?.rows);
        let mut start = |name: &str, events: u64| {
            let logs = Logs { server: logs.join(format!("{name}.log")), folder: logs };
            let begin = Instant::now();
            let part = self.part(access, target, item, &loaded, events, &logs);
            self.env.reporter.account("count instructions", begin.elapsed());
            let (part, said) = part.map_err(|error| explained(error, &logs.server))?;
            *version = said;
            Ok::<Part, anyhow::Error>(part)
        };
        let (short, long) = (start("short", warmup)?, start("long", warmup + counted)?);
        let (before, after) = (short.instructions, long.instructions);
        if after <= before {
            bail!("{counted} operations more took no instruction more ({before}, then {after})");
        }
        Ok(Instructions {
            warmup,
            operations: counted,
            queries: long.done.queries.saturating_sub(short.done.queries),
            rows: long.done.rows.saturating_sub(short.done.rows),
            short: before,
            long: after,
        })
    }

    /// One start: fresh data, `events` operations, the count of what served them.
    fn part(
        &self,
        access: &Access,
        target: &Target,
        item: &Measure,
        loaded: &Path,
        events: u64,
        logs: &Logs<'_>,
    ) -> anyhow::Result<(Part, Option<String>)> {
        let folder = Folder(self.env.work.join("run").join("count"));
        snapshot::remove(&folder.0)?;
        fs::create_dir_all(&folder.0)?;
        let data = folder.0.join("data");
        snapshot::restore(loaded, &data, access).context("cannot restore the data")?;
        let install = &target.install;
        let settings = quiet(&target.server);
        let under = self.valgrind.under();
        let mut server = Server::start_under(
            Some(&under),
            access,
            install,
            &settings,
            &data,
            &[],
            &logs.server,
        )?;
        let version = server.version().map(str::to_owned);
        let job = Job {
            version: VERSION,
            server: server.endpoint(),
            data: self.plan.tables()?.clone(),
            action: Action::Count(protocol::Count {
                microbenchmark: item.microbenchmark.clone(),
                events,
                prepared: self.plan.prepared,
                seed: self.plan.key_seed,
            }),
        };
        let log = logs.folder.join("driver.log");
        let done = match self.driver.run(&job, &[], PATIENCE, &log, |_| Ok(())) {
            Ok(Event::Counted(done)) => done,
            Ok(other) => bail!("the load driver ended a count with {other:?}"),
            Err(error) => {
                // The server's death explains more than the driver's lost connection.
                server.check()?;
                return Err(error);
            }
        };
        let id = done.process.context("the server did not tell its process")?;
        let instructions = callgrind::of_process(&data, id, WRITING)?;
        server.abandon();
        Ok((Part { instructions, done }, version))
    }
}

/// What one start gave.
struct Part {
    instructions: u64,
    done: protocol::Counted,
}

/// Where the logs of one start go.
struct Logs<'a> {
    server: PathBuf,
    folder: &'a Path,
}

/// A folder that goes with its last user.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is removed before the next use.
        let _ = snapshot::remove(&self.0);
    }
}

/// The config without what acts by the clock.
fn quiet(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    settings.lines.extend(QUIET.map(|(name, value)| (name.to_owned(), value.to_owned())));
    settings
}

/// An instruction that Valgrind does not know explains more than the crash that it leads to.
fn explained(error: anyhow::Error, log: &Path) -> anyhow::Error {
    let text = fs::read(log).unwrap_or_default();
    match callgrind::unknown_instruction(&String::from_utf8_lossy(&text)) {
        Some(reason) => anyhow::anyhow!(reason),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cheap_operations_are_counted_more_often() {
        let of = |name: &str, rows| Operations::of(catalog::find(name).expect("known"), rows);
        assert_eq!(of("point-query", 1000), Operations { warmup: 240, counted: 961 });
        let points = of("random-points_range=1000", 1000);
        assert_eq!(points, Operations { warmup: 6, counted: 8 });
        assert_eq!(of("scan", 20_000), Operations { warmup: 6, counted: 4 });
        assert_eq!(of("scan", 1000).counted, 24);
    }

    #[test]
    fn every_microbenchmark_has_a_count_of_its_own() {
        let plan = super::super::plan::tests::plan();
        let mut ids: Vec<Digest> = catalog::names()
            .map(|name| {
                let item = Measure { microbenchmark: name.to_owned(), ..plan.items[0].clone() };
                count_id(&plan, &item).expect("known")
            })
            .collect();
        let all = ids.len();
        ids.sort_by_key(|id| id.0);
        ids.dedup();
        assert_eq!(ids.len(), all);
        let other = Plan { prepared: false, ..plan.clone() };
        let id = |plan: &Plan| count_id(plan, &plan.items[0]).expect("known");
        assert_ne!(id(&plan), id(&other));
    }

    #[test]
    fn what_acts_by_the_clock_is_off_whatever_the_config_says() {
        let line = ("autovacuum".to_owned(), "on".to_owned());
        let settings = Settings { lines: vec![line], ..Settings::default() };
        let lines = quiet(&settings).lines;
        // The last one holds.
        assert_eq!(lines.iter().rfind(|(name, _)| name == "autovacuum").expect("there").1, "off");
    }
}
