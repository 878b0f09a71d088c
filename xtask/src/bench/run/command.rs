//! A program of the user's as a measurement: called, watched, what it printed read.

use std::time::{Duration, Instant};

use anyhow::bail;
use catalog::protocol::{ClientUsage, Latency};
use fs_err as fs;
use nix::sys::signal::Signal;

use super::visit::title;
use super::watch::Watch;
use super::{Runner, Visiting};
use crate::bench::command::{self, Surroundings};
use crate::bench::plan::{Command, Reading};
use crate::bench::sqlbench;
use crate::proc::{own_file, tail_of};
use crate::record::{PlacementUsed, Sample};
use crate::server::Server;
use crate::{interrupt, launch};

impl Runner<'_> {
    /// Runs a program of the user's; the window is its whole life.
    pub(super) fn command(
        &mut self,
        visiting: &Visiting<'_>,
        server: &Server,
        item: usize,
        command: &Command,
        placement: &PlacementUsed,
        head: &str,
    ) -> anyhow::Result<Sample> {
        let measure = &self.plan.items[item];
        let target = visiting.target;
        let endpoint = server.endpoint();
        let surroundings = Surroundings {
            engine: target.install.engine,
            server: &endpoint,
            threads: measure.threads,
            seconds: measure.seconds,
            seed: self.plan.seed_of_block(visiting.block.number),
            prefix: &target.install.prefix,
            build: &target.build,
            config: &target.config,
        };
        let spec = launch::Spec {
            cpus: placement.client_cpus.clone(),
            death_signal: Some(Signal::SIGKILL as i32),
            ..launch::Spec::default()
        };
        let log = visiting.log(self, item);
        let proc = surroundings
            .process(self.plan.folder.as_ref().unwrap_or(&self.env.root), &command.words)?
            .log(&log)
            .launch(own_file(), spec);
        let mut watch = Watch::new(server, visiting.data())?;
        watch.begin()?;
        let begin = Instant::now();
        let mut running = proc.spawn()?;
        let mut seconds = 0;
        let status = loop {
            interrupt::check()?;
            if let Some(status) = running.poll()? {
                break status;
            }
            std::thread::sleep(Duration::from_millis(5));
            if begin.elapsed() > command.limit {
                bail!("`{}` takes longer than {:?}", proc.line(), command.limit);
            }
            if begin.elapsed().as_secs() > seconds {
                seconds = begin.elapsed().as_secs();
                watch.observe()?;
                let title = title(&measure.microbenchmark, measure.threads);
                self.task.position(self.done_ms + seconds * 1000);
                self.task.message(format!("{head} {} {title} {seconds} s", target.name));
            }
        };
        let elapsed = begin.elapsed();
        watch.end()?;
        let text = fs::read(&log)?;
        let text = String::from_utf8_lossy(&text);
        // The log begins with the variables and the command.
        let output = text.split_once("\n$ ").and_then(|(_, rest)| rest.split_once('\n'));
        let output = output.map_or("", |(_, output)| output);
        if !status.success() {
            bail!("`{}` failed ({status}){}", proc.line(), tail_of(&log));
        }
        let used = watch.used()?;
        let (user_seconds, system_seconds) = running.cpu_times().unwrap_or_default();
        Ok(Sample {
            seconds: elapsed.as_secs_f64(),
            warmup_seconds: 0.0,
            queries: 0,
            events: 0,
            rows: 0,
            errors: Vec::new(),
            queries_per_second: Vec::new(),
            latency: Latency::default(),
            server: used.server,
            client: ClientUsage { user_seconds, system_seconds, context_switches: 0 },
            machine: Some(used.machine),
            sizes: Some(used.sizes),
            rows_written_kib: None,
            streams: Vec::new(),
            maintained: None,
            rate: None,
            metrics: match &command.reading {
                Reading::Metrics(rules) => command::metrics(output, rules)?,
                Reading::SqlBench { operations } => sqlbench::metrics(output, *operations)?,
            },
        })
    }
}
