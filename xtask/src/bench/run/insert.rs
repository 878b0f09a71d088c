//! A step of the insert benchmark.

use std::time::Duration;

use anyhow::{Context as _, bail};
use catalog::insert_benchmark::ROW_BYTES;
use catalog::protocol::{
    Action, Data, Event, InsertStep, Job, Measured, StepKind, Stream, VERSION,
};
use catalog::{Better, Metric};

use super::visit::{thousands, title};
use super::watch::Watch;
use super::{Runner, Visiting};
use crate::record::{PlacementUsed, Rate, Sample};
use crate::server::Server;

/// What a step may take: its rows decide.
const LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);

impl Runner<'_> {
    pub(super) fn insert_step(
        &self,
        visiting: &Visiting<'_>,
        server: &Server,
        item: usize,
        step: &InsertStep,
        placement: &PlacementUsed,
        head: &str,
    ) -> anyhow::Result<Sample> {
        let mut step = step.clone();
        step.seed ^= self.plan.seed_of_block(visiting.block.number);
        let measure = &self.plan.items[item];
        let name = title(&measure.microbenchmark, measure.threads);
        let mut watch = Watch::new(server, visiting.data())?;
        let job = Job {
            version: VERSION,
            server: server.endpoint(),
            data: Data { tables: 1, rows: 1, seed: 0 },
            action: Action::InsertStep(step.clone()),
        };
        let log = visiting.log(self, item);
        let driver = self.driver.context("the insert benchmark needs the load driver")?;
        let ended = driver.run(&job, &placement.client_cpus, LIMIT, &log, |event| {
            match event {
                Event::WindowBegin => watch.begin()?,
                Event::WindowEnd => watch.end()?,
                Event::Second { second, queries } => {
                    watch.observe()?;
                    self.task.position(self.done_ms + u64::from(*second) * 1000);
                    let rate = thousands(*queries as f64);
                    let target = &visiting.target.name;
                    self.task.message(format!("{head} {target} {name} {second} s, {rate} 1/s"));
                }
                _ => {}
            }
            Ok(())
        })?;
        let Event::Measured(measured) = ended else {
            bail!("the load driver ended a step with {ended:?}");
        };
        let used = watch.used()?;
        let metrics = metrics(&step, &measured)?;
        let asked = step.rate.map(|rate| f64::from(rate) * f64::from(step.clients));
        let inserted = stream(&measured, "insert").map_or(0.0, |it| it.operations as f64);
        let deleted = stream(&measured, "delete").map_or(0.0, |it| it.operations as f64);
        let written = (inserted + deleted) * f64::from(ROW_BYTES) / 1024.0;
        let rate = asked.map(|asked| Rate { asked, got: inserted / measured.seconds });
        Ok(Sample {
            seconds: measured.seconds,
            warmup_seconds: 0.0,
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
            rows_written_kib: (written > 0.0).then_some(written),
            streams: measured.streams,
            maintained: None,
            rate,
            metrics,
        })
    }
}

fn stream<'a>(measured: &'a Measured, name: &str) -> Option<&'a Stream> {
    measured.streams.iter().find(|stream| stream.name == name)
}

/// What a step is compared by: the rate of what it is about, and the tail of its response times.
/// The time of the step that makes the indexes.
fn metrics(step: &InsertStep, measured: &Measured) -> anyhow::Result<Vec<Metric>> {
    let seconds = measured.seconds;
    if seconds.is_nan() || seconds <= 0.0 {
        bail!("the load driver measured for {seconds} seconds");
    }
    let metric = |name: &str, value: f64, unit: &str, better| {
        let (name, unit) = (name.to_owned(), unit.to_owned());
        Metric { name, value, unit, better }
    };
    let (from, rate, tail) = match step.step {
        StepKind::Index => return Ok(vec![metric("seconds", seconds, "s", Better::Lower)]),
        StepKind::Load | StepKind::Write => ("insert", "inserts", "insert-p99"),
        StepKind::Read { .. } => ("query", "queries", "query-p99"),
    };
    let stream = stream(measured, from)
        .with_context(|| format!("the load driver did not tell of its stream `{from}`"))?;
    Ok(vec![
        metric(rate, stream.operations as f64 / seconds, "1/s", Better::Higher),
        metric(tail, stream.latency.p99_us as f64, "us", Better::Lower),
    ])
}
