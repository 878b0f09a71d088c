//! One run and its record.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use catalog::protocol::{Action, Data, Event, Job, Maintain, Maintained, Measured, Run, VERSION};
use catalog::{Better, Metric};
use fs_err as fs;
use jiff::Timestamp;

use super::watch::Watch;
use super::{Runner, Visiting};
use crate::bench::driver::Driver;
use crate::bench::placement::resolve;
use crate::bench::plan::Work;
use crate::bench::profile::{self, Recording, place};
use crate::record::{Outcome, PlacementUsed, QPS, Rate, Record, SCHEMA, Sample};
use crate::server::Server;

/// What a run may take besides its warm-up and window: connecting, and an event that was begun
/// before the end (a scan of a large table).
const SLACK: Duration = Duration::from_secs(120);
/// What vacuuming or analyzing the tables may take besides the patience.
const MAINTENANCE: Duration = Duration::from_secs(24 * 3600);

impl Runner<'_> {
    pub(super) fn placement(&self, item: usize) -> anyhow::Result<PlacementUsed> {
        resolve(self.plan.placement, self.plan.items[item].threads, &self.plan.cores)
    }

    /// Measures one item.
    pub(super) fn measure(
        &mut self,
        visiting: &Visiting<'_>,
        server: &mut Server,
        item: usize,
    ) -> anyhow::Result<Sample> {
        let placement = self.placement(item)?;
        server.pin(&placement.server_cpus)?;
        let measure = &self.plan.items[item];
        let name = title(&measure.microbenchmark, measure.threads);
        let head = format!("block {}/{}", visiting.block.number, self.last_block);
        self.task.message(format!("{head} {} {name}", visiting.target.name));
        let maintain = measure.maintain.clone();
        let mut sample = match &measure.work {
            Work::Microbenchmark => self.statements(visiting, server, item, &placement, &head),
            Work::Command(command) => {
                self.command(visiting, server, item, command, &placement, &head)
            }
            Work::Insert(step) => self.insert_step(visiting, server, item, step, &placement, &head),
        }?;
        if let Some(maintain) = maintain {
            self.task.message(format!("{head} {} {name}: to rest", visiting.target.name));
            sample.maintained = Some(self.maintain(visiting, server, item, maintain)?);
        }
        Ok(sample)
    }

    /// Begins a profile, if these runs are made for one.
    fn begin_profile(
        &self,
        visiting: &Visiting<'_>,
        item: usize,
        watch: &Watch,
    ) -> anyhow::Result<Option<Recording>> {
        let Some(profile) = &self.plan.profile else { return Ok(None) };
        let data = visiting.log(self, item).with_extension("perf");
        profile.perf.record(&watch.processes()?, &data).map(Some)
    }

    /// Ends a profile and keeps its stacks.
    fn fold(
        &self,
        visiting: &Visiting<'_>,
        item: usize,
        recording: Recording,
    ) -> anyhow::Result<()> {
        let Some(profile) = &self.plan.profile else { return Ok(()) };
        let measure = &self.plan.items[item];
        let folder = profile.folder.join(place(&measure.microbenchmark, measure.threads));
        fs::create_dir_all(&folder)?;
        let folded = profile::fold(&profile.perf.script(recording)?)?;
        fs::write(folder.join(format!("{}.folded", visiting.target.name)), folded.text)?;
        Ok(())
    }

    /// Brings the server to rest.
    fn maintain(
        &self,
        visiting: &Visiting<'_>,
        server: &Server,
        item: usize,
        maintain: Maintain,
    ) -> anyhow::Result<Maintained> {
        let limit = Duration::try_from_secs_f64(maintain.patience_seconds)
            .context("the workload's patience is no duration")?
            + MAINTENANCE;
        let job = Job {
            version: VERSION,
            server: server.endpoint(),
            data: Data { tables: 1, rows: 1, seed: 0 },
            action: Action::Maintain(maintain),
        };
        let log = visiting.log(self, item).with_extension("rest.log");
        let driver = self.driver.context("the load driver brings a server to rest")?;
        match driver.run(&job, &[], limit, &log, |_| Ok(()))? {
            Event::Maintained(maintained) => Ok(maintained),
            other => bail!("the load driver ended maintenance with {other:?}"),
        }
    }

    /// Measures a microbenchmark by the load driver.
    fn statements(
        &mut self,
        visiting: &Visiting<'_>,
        server: &Server,
        item: usize,
        placement: &PlacementUsed,
        head: &str,
    ) -> anyhow::Result<Sample> {
        let measure = &self.plan.items[item];
        let limit = Duration::try_from_secs_f64(2.0 * (self.plan.warmup_seconds + measure.seconds))
            .context("the workload's seconds are no duration")?
            + SLACK;
        let mut watch = Watch::new(server, visiting.data())?;
        let mut recording = None;
        let job = self.job(visiting, server, item)?;
        let log = visiting.log(self, item);
        let heed = |event: &Event| {
            match event {
                Event::WindowBegin => {
                    watch.begin()?;
                    recording = self.begin_profile(visiting, item, &watch)?;
                }
                Event::WindowEnd => {
                    watch.end()?;
                    // While the clients' connections, each a process of PostgreSQL, still live.
                    if let Some(recording) = recording.take() {
                        self.fold(visiting, item, recording)?;
                    }
                }
                Event::Second { second, queries } => {
                    watch.observe()?;
                    let seconds = self.plan.warmup_seconds + f64::from(*second);
                    self.task.position(self.done_ms + (seconds * 1000.0) as u64);
                    self.task.message(format!(
                        "{head} {} {} {} qps",
                        visiting.target.name,
                        title(&measure.microbenchmark, measure.threads),
                        thousands(*queries as f64)
                    ));
                }
                _ => {}
            }
            Ok(())
        };
        let ended = match &self.plan.sysbench {
            Some(sysbench) => sysbench.run(&job, &placement.client_cpus, limit, &log, heed),
            None => {
                let driver = self.driver.context("microbenchmarks need the load driver")?;
                driver.run(&job, &placement.client_cpus, limit, &log, heed)
            }
        }?;
        let Event::Measured(measured) = ended else {
            bail!("the load driver ended a run with {ended:?}");
        };
        let used = watch.used()?;
        if !(measured.seconds > 0.0 && measured.seconds.is_finite()) {
            bail!("the load driver measured for {} seconds", measured.seconds);
        }
        if measured.queries == 0 {
            bail!("no statement ended within the window of {:.1} s", measured.seconds);
        }
        let refused: u64 = measured.errors.iter().map(|(_, count)| count).sum();
        let limit = self.plan.error_limit;
        if refused as f64 > limit * (measured.events + refused) as f64 {
            let codes = measured.errors.iter().map(|(code, count)| format!("{count} x {code}"));
            bail!(
                "the server refused {refused} of {} events ({}), more than `error-limit = {limit}` \
                 allows",
                measured.events + refused,
                codes.collect::<Vec<_>>().join(", ")
            );
        }
        let rate = self
            .plan
            .rate
            .map(|asked| Rate { asked, got: measured.events as f64 / measured.seconds });
        let metrics = match rate {
            Some(_) => response_times(&measured),
            None => Vec::new(),
        };
        Ok(Sample {
            seconds: measured.seconds,
            warmup_seconds: self.plan.warmup_seconds,
            queries: measured.queries,
            events: measured.events,
            rows: measured.rows,
            errors: measured.errors,
            queries_per_second: measured.queries_per_second,
            latency: measured.latency,
            server: used.server,
            client: measured.client,
            machine: Some(used.machine),
            sizes: Some(used.sizes),
            rows_written_kib: rows_written(&measure.microbenchmark, measured.events),
            streams: Vec::new(),
            maintained: None,
            rate,
            metrics,
        })
    }

    fn job(&self, visiting: &Visiting<'_>, server: &Server, item: usize) -> anyhow::Result<Job> {
        let measure = &self.plan.items[item];
        Ok(Job {
            version: VERSION,
            server: server.endpoint(),
            data: self.plan.tables()?.clone(),
            action: Action::Run(Run {
                microbenchmark: measure.microbenchmark.clone(),
                threads: measure.threads,
                warmup_seconds: self.plan.warmup_seconds,
                seconds: measure.seconds,
                prepared: self.plan.prepared,
                seed: self.plan.seed_of_block(visiting.block.number),
                rate: self.plan.rate,
            }),
        })
    }

    pub(super) fn ok(
        &mut self,
        visiting: &Visiting<'_>,
        item: usize,
        begin: Timestamp,
        sample: Sample,
    ) -> anyhow::Result<()> {
        self.summary.ok += 1;
        self.told(visiting, item, Ok(figures(&sample.figures())));
        let measured = Duration::try_from_secs_f64(sample.warmup_seconds + sample.seconds);
        self.env.reporter.account("measure", measured.unwrap_or_default());
        self.record(visiting, item, begin, Outcome::Ok(Box::new(sample)))
    }

    pub(super) fn fail(
        &mut self,
        visiting: &Visiting<'_>,
        item: usize,
        begin: Timestamp,
        reason: &str,
        log: Option<&Path>,
    ) -> anyhow::Result<()> {
        self.summary.failed += 1;
        self.stopped |= !self.env.keep_going;
        self.told(visiting, item, Err(reason));
        let log = log.filter(|log| log.exists()).map(|log| {
            log.strip_prefix(&self.env.work).unwrap_or(log).to_string_lossy().into_owned()
        });
        self.record(visiting, item, begin, Outcome::Failed { reason: reason.to_owned(), log })
    }

    pub(super) fn fail_all(
        &mut self,
        visiting: &Visiting<'_>,
        items: &[usize],
        reason: &str,
        log: Option<&Path>,
    ) -> anyhow::Result<()> {
        items.iter().try_for_each(|item| self.fail(visiting, *item, Timestamp::now(), reason, log))
    }

    /// One line per finished run, and the bar; a failure is told also when quiet.
    fn told(&mut self, visiting: &Visiting<'_>, item: usize, how: Result<String, &str>) {
        let measure = &self.plan.items[item];
        self.done_ms += ((self.plan.warmup_seconds + measure.seconds) * 1000.0) as u64;
        self.task.position(self.done_ms);
        let head = format!(
            "block {}/{} {} {}",
            visiting.block.number,
            self.last_block,
            visiting.target.name,
            title(&measure.microbenchmark, measure.threads),
        );
        match how {
            Ok(rate) => self.env.reporter.line(format!("{head} {rate}")),
            Err(reason) => self.env.reporter.warn(format!("{head} failed: {reason}")),
        }
    }

    fn record(
        &mut self,
        visiting: &Visiting<'_>,
        item: usize,
        begin: Timestamp,
        outcome: Outcome,
    ) -> anyhow::Result<()> {
        let placement = self.placement(item)?;
        let (plan, target) = (self.plan, visiting.target);
        let measure = &plan.items[item];
        (self.sink)(Record {
            schema: SCHEMA,
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            experiment: plan.experiment.clone(),
            block: visiting.block.number,
            place: visiting.visit.place,
            order_seed: visiting.block.seed,
            invocation: visiting.invocation(),
            target: target.name.clone(),
            target_id: target.id,
            build: target.build.clone(),
            build_id: target.build_id,
            code_id: target.code_id,
            audit: target.audit.clone(),
            compiler: target.compiler.clone(),
            server_version: visiting.version.clone(),
            settings: target.settings.clone(),
            config: target.config.clone(),
            workload: plan.workload.clone(),
            workload_id: measure.workload_id,
            microbenchmark: measure.microbenchmark.clone(),
            group: measure.group.clone(),
            threads: measure.threads,
            host: plan.host.clone(),
            boot: plan.boot.clone(),
            kernel: plan.kernel.clone(),
            driver: plan
                .driver
                .or(self.driver.map(Driver::digest))
                .context("a plan without a driver")?,
            started: begin.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            placement,
            imported: None,
            outcome,
        })
        .context("cannot store a record")
    }
}

/// KiB of the rows that so many events wrote; none for one that only reads.
fn rows_written(microbenchmark: &str, events: u64) -> Option<f64> {
    let rows = catalog::find(microbenchmark)?.rows_written();
    let bytes = events as f64 * f64::from(rows) * f64::from(catalog::ROW_BYTES);
    (rows > 0).then_some(bytes / 1024.0)
}

/// What is compared in open loop, where the rate is given: response times.
fn response_times(measured: &Measured) -> Vec<Metric> {
    let latency = &measured.latency;
    let (name, unit) = ("events".to_owned(), "1/s".to_owned());
    let value = measured.events as f64 / measured.seconds;
    let events = Metric { name, value, unit, better: Better::Higher };
    let times = [
        ("p50", latency.p50_us),
        ("p95", latency.p95_us),
        ("p99", latency.p99_us),
        ("max", latency.max_us),
    ];
    let metric = |(name, us): (&str, u64)| Metric {
        name: name.to_owned(),
        value: us as f64,
        unit: "us".to_owned(),
        better: Better::Lower,
    };
    std::iter::once(events).chain(times.map(metric)).collect()
}

/// The first metrics of a run, for people: `23,100 qps`, `99.5 1/s tps, 3.50 ms latency-average`.
fn figures(figures: &[Metric]) -> String {
    const SHOWN: usize = 3;
    let text = |it: &Metric| match it.unit.as_str() {
        unit if it.name == QPS.0 || unit.is_empty() => {
            format!("{} {}", thousands(it.value), it.name)
        }
        unit => format!("{} {unit} {}", thousands(it.value), it.name),
    };
    let mut shown: Vec<String> = figures.iter().take(SHOWN).map(text).collect();
    if figures.len() > SHOWN {
        shown.push(format!("{} more", figures.len() - SHOWN));
    }
    shown.join(", ")
}

pub(super) fn title(microbenchmark: &str, threads: u32) -> String {
    match threads {
        1 => microbenchmark.to_owned(),
        threads => format!("{microbenchmark} x{threads}"),
    }
}

/// A rate for people: `23,100`, `9.52`.
pub(super) fn thousands(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.3}").chars().take(4).collect();
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_events_write_are_counted() {
        assert_eq!(rows_written("point-query", 5), None);
        assert_eq!(rows_written("update-nonindex", 1024), Some(186.0));
        // Two updates, a delete and its insert.
        assert_eq!(rows_written("read-write_range=100", 1024), Some(4.0 * 186.0));
    }

    #[test]
    fn rates_read_well() {
        let texts = [23_100.4, 1_234_567.0, 999.6, 100.0, 9.5234, 0.25].map(thousands);
        assert_eq!(texts, ["23,100", "1,234,567", "1,000", "100", "9.52", "0.25"]);
        assert_eq!(title("scan", 1), "scan");
        assert_eq!(title("scan", 16), "scan x16");
    }
}
