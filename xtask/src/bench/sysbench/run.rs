//! A measured run by sysbench, in the shape of the other driver's: the same job, the same events.
//!
//! Warm-up and window are one run of sysbench. A checkpoint report ends the warm-up: sysbench then
//! counts from nothing, on the same connections. (`--warmup-time` exists only from 1.1 on.) The
//! window ends when every client has ended its last event; like sysbench's own figures it counts
//! that event to its end.

use std::io::Read as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use catalog::Microbenchmark;
use catalog::protocol::{
    Action, ClientUsage, Event, Job, Latency, Measured, Run, Server, WireProtocol,
};
use nix::sys::signal::Signal;

use super::parse::{self, Output};
use super::probe::{Sysbench, driver};
use super::script::{self, ENDED, HOLD};
use crate::bench::driver::lines_of;
use crate::bench::procstat::{Reading, Tracker};
use crate::interrupt;
use crate::launch::Spec;
use crate::proc::Proc;

/// What sysbench shall go on after: those of the other driver (its own list lacks 1062, the
/// duplicate key). For PostgreSQL it has a fixed list, which is the same.
const IGNORED: &str = "1020,1062,1205,1213";
/// The name under which refused events are told; sysbench does not tell which error it was.
const REFUSED: &str = "ignored";
/// A week.
const MOST_SECONDS: f64 = 7.0 * 24.0 * 3600.0;

/// A run as sysbench can make it.
struct Asked<'a> {
    microbenchmark: &'static Microbenchmark,
    run: &'a Run,
    /// Whole seconds.
    warmup: u64,
    /// Whole seconds.
    seconds: u64,
}

impl<'a> Asked<'a> {
    fn of(job: &'a Job) -> anyhow::Result<Self> {
        let Action::Run(run) = &job.action else {
            bail!("sysbench only measures: tables are loaded and verified by `loadgen`");
        };
        let name = &run.microbenchmark;
        let microbenchmark = catalog::find(name).with_context(|| {
            let known: Vec<String> = catalog::names().map(|name| format!("`{name}`")).collect();
            format!("there is no microbenchmark `{name}`; there are {}", known.join(", "))
        })?;
        ensure!(run.threads > 0, "`threads` is 0, at least 1 is needed");
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
        ensure!(
            run.rate.is_none(),
            "sysbench cannot keep a rate as `loadgen` does: its own `--rate` begins events at random \
             moments and gives up when it falls behind; leave out the rate or the driver"
        );
        // Up: a part of a second would be none.
        let whole = |seconds: f64| seconds.ceil() as u64;
        let (warmup, seconds) = (whole(run.warmup_seconds), whole(run.seconds));
        Ok(Self { microbenchmark, run, warmup, seconds })
    }
}

impl Sysbench {
    /// Does one measured run ([`Action::Run`]) on `cpus` (empty: all) and gives
    /// [`Event::Measured`]. Events go to `heed` as soon as they are seen. The script is kept
    /// beside `log` (with the extension `lua`), which gets all that sysbench prints. Warm-up and
    /// window are rounded up to whole seconds; [`Measured::seconds`] is the real length.
    ///
    /// # Errors
    /// When the job is none that sysbench can do, when sysbench fails, ends without its report or
    /// takes longer than `timeout`, and whatever `heed` returns.
    pub fn run(
        &self,
        job: &Job,
        cpus: &[usize],
        timeout: Duration,
        log: &Path,
        mut heed: impl FnMut(&Event) -> anyhow::Result<()>,
    ) -> anyhow::Result<Event> {
        interrupt::check()?;
        let asked = Asked::of(job)?;
        self.check(job.server.protocol)?;
        let script = std::path::absolute(log.with_extension("lua"))?;
        let (protocol, prepared) = (job.server.protocol, asked.run.prepared);
        let lua = script::script(protocol, asked.microbenchmark, &job.data, prepared);
        fs_err::write(&script, lua)?;
        let spec = Spec {
            cpus: cpus.to_vec(),
            death_signal: Some(Signal::SIGKILL as i32),
            ..Spec::default()
        };
        let proc = self.process(&job.server, &asked, &script)?;
        let mut running = proc.clone().launch(&self.tool, spec).spawn()?;
        let lines = lines_of(running.stdout().context("sysbench has no standard output")?);
        let mut stderr = running.stderr().context("sysbench has no standard error")?;
        let complaints = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // What was read before an error is still worth showing.
            let _ = stderr.read_to_end(&mut bytes);
            bytes
        });
        let mut listener = Listener::new(&asked, running.id());
        let heard = listener.listen(&lines, timeout, &mut heed);
        let status = match &heard {
            Ok(()) => running.wait(Some(Duration::from_secs(10)))?,
            Err(_) => running.stop(Duration::from_secs(1)).context("sysbench cannot be stopped")?,
        };
        let complaints = complaints.join().unwrap_or_default();
        let complaints = String::from_utf8_lossy(&complaints);
        let said = format!("{}{complaints}", listener.text);
        fs_err::write(log, format!("$ {}\n{said}", proc.line()))?;
        interrupt::check()?;
        heard?;
        let output = parse::parse(&said);
        if !status.success() && output.complaints.is_empty() {
            bail!("sysbench ended early ({status}){}", crate::proc::tail_of(log));
        }
        if let Some(complaint) = output.complaints.first().filter(|_| !status.success()) {
            bail!("sysbench ended early ({status}): {complaint}");
        }
        Ok(Event::Measured(measured(&asked, &output, listener.used()?)?))
    }

    /// The call of a script against a server, still without what it shall do.
    ///
    /// # Errors
    /// When the server's socket is none that sysbench can be told.
    pub fn connecting(&self, server: &Server, script: &Path) -> anyhow::Result<Proc> {
        let name = driver(server.protocol);
        let proc = Proc::new(&self.file)
            .arg(script)
            .arg(format!("--db-driver={name}"))
            .arg(format!("--{name}-user={}", server.user))
            .arg(format!("--{name}-db={}", server.database));
        Ok(match server.protocol {
            WireProtocol::Postgres => {
                let (folder, port) = folder_and_port(&server.socket)?;
                proc.arg(format!("--pgsql-host={folder}")).arg(format!("--pgsql-port={port}"))
            }
            WireProtocol::Mysql => proc
                .arg(format!("--mysql-socket={}", server.socket))
                .arg(format!("--mysql-ignore-errors={IGNORED}")),
        })
    }

    fn process(&self, server: &Server, asked: &Asked<'_>, script: &Path) -> anyhow::Result<Proc> {
        let Run { threads, seed, .. } = asked.run;
        let mut proc = self.connecting(server, script)?;
        if asked.warmup > 0 {
            proc = proc.arg(format!("--report-checkpoints={}", asked.warmup));
        }
        Ok(proc
            .arg(format!("--threads={threads}"))
            .arg(format!("--time={}", asked.warmup + asked.seconds))
            .args(["--events=0", "--report-interval=1", "--histogram=on", "--percentile=95"])
            // 0 would mean the clock, and the option is an `int`.
            .arg(format!("--rand-seed={}", seed % (i32::MAX as u64 - 1) + 1))
            .arg("run"))
    }
}

/// What libpq wants to know instead of the socket's file `<folder>/.s.PGSQL.<port>`.
fn folder_and_port(socket: &str) -> anyhow::Result<(&str, u16)> {
    let split = socket.rsplit_once("/.s.PGSQL.");
    split.and_then(|(folder, port)| Some((folder, port.parse().ok()?))).with_context(|| {
        format!(
            "the socket `{socket}` is no `<folder>/.s.PGSQL.<port>`, so sysbench cannot reach it"
        )
    })
}

/// Makes events of lines.
struct Listener {
    warmup: u64,
    seconds: u64,
    threads: usize,
    /// The process.
    id: u32,
    /// All lines so far.
    text: String,
    /// Clients that have ended.
    ended: usize,
    client: Option<(Tracker, Reading)>,
    after: Option<Reading>,
}

impl Listener {
    fn new(asked: &Asked<'_>, id: u32) -> Self {
        Self {
            warmup: asked.warmup,
            seconds: asked.seconds,
            threads: asked.run.threads as usize,
            id,
            text: String::new(),
            ended: 0,
            client: None,
            after: None,
        }
    }

    /// Hears lines until the stream ends.
    fn listen(
        &mut self,
        lines: &Receiver<std::io::Result<String>>,
        timeout: Duration,
        heed: &mut impl FnMut(&Event) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            interrupt::check()?;
            match lines.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => self.line(&line.context("cannot read from sysbench")?, heed)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if begin.elapsed() > timeout {
                bail!("sysbench takes longer than {timeout:?}");
            }
        }
    }

    fn line(
        &mut self,
        line: &str,
        heed: &mut impl FnMut(&Event) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.text.push_str(line);
        self.text.push('\n');
        let Some((tracker, _)) = &mut self.client else {
            let begins = match self.warmup {
                0 => line == "Threads started!",
                _ => parse::is_checkpoint(line),
            };
            if begins {
                let mut tracker = Tracker::new(self.id)?;
                let before = tracker.read()?;
                self.client = Some((tracker, before));
                heed(&Event::WindowBegin)?;
            }
            return Ok(());
        };
        if self.after.is_some() {
            return Ok(());
        }
        self.ended += line.matches(ENDED.1).count();
        if self.ended >= self.threads {
            self.after = Some(tracker.read().context(
                "sysbench was gone before its use of the machine was read: this machine has too \
                 much to do",
            )?);
            return heed(&Event::WindowEnd);
        }
        let interval = parse::interval_of(line);
        if let Some((second, queries)) =
            interval.and_then(|interval| within(&interval, self.warmup, self.seconds))
        {
            tracker.observe()?;
            heed(&Event::Second { second: u32::try_from(second)?, queries })?;
        }
        Ok(())
    }

    fn used(&self) -> anyhow::Result<ClientUsage> {
        let (Some((_, before)), Some(after)) = (&self.client, &self.after) else {
            bail!("sysbench did not tell when its window began and ended");
        };
        let used = after.since(before);
        Ok(ClientUsage {
            user_seconds: used.user_seconds,
            system_seconds: used.system_seconds,
            context_switches: used.context_switches,
        })
    }
}

/// Which second of the window an interval is, from 1, and its queries.
fn within(interval: &parse::Interval, warmup: u64, seconds: u64) -> Option<(u64, u64)> {
    let second = interval.second.checked_sub(warmup)?;
    // One second long, so the rate is the number.
    (1..=seconds).contains(&second).then_some((second, interval.queries?.round() as u64))
}

/// What the text says of the window.
fn measured(asked: &Asked<'_>, output: &Output, client: ClientUsage) -> anyhow::Result<Measured> {
    let (totals, queries) = output.measured().map_err(anyhow::Error::msg)?;
    let seconds = seconds(asked, output)?;
    let name = asked.microbenchmark.name;
    if queries.count == 0 {
        bail!(
            "no statement of `{name}` ended in the window of {seconds:.1} s: one takes longer than \
             that on these tables; measure for longer or with fewer rows"
        );
    }
    let events = totals.events.or(totals.transactions.map(|transactions| transactions.count));
    let events = events.context("sysbench's report does not say how many events there were")?;
    let counts = [(REFUSED, totals.ignored_errors), ("reconnect", totals.reconnects)];
    let errors = counts
        .into_iter()
        .filter_map(|(name, rated)| Some((name.to_owned(), rated?.count)))
        .filter(|(_, count)| *count > 0)
        .collect();
    let within = |interval| within(interval, asked.warmup, asked.seconds);
    Ok(Measured {
        seconds,
        queries: queries.count,
        events,
        // sysbench reads rows and does not count them.
        rows: 0,
        errors,
        queries_per_second: output.intervals.iter().filter_map(within).map(|it| it.1).collect(),
        latency: latency(output, events)?,
        client,
        streams: Vec::new(),
    })
}

/// The length of the window, in seconds.
fn seconds(asked: &Asked<'_>, output: &Output) -> anyhow::Result<f64> {
    let totals = output.totals.as_ref().context("sysbench printed no report")?;
    let seconds = match (totals.elapsed, totals.since_start) {
        (Some(elapsed), _) => elapsed,
        (None, Some(all)) if asked.warmup == 0 => all,
        (None, Some(all)) => {
            let checkpoint = output.checkpoints.last().and_then(|report| report.since_start);
            all - checkpoint.context("sysbench's checkpoint report has no `total time:`")?
        }
        (None, None) => bail!("sysbench's report does not say how long it was"),
    };
    let seconds = seconds - HOLD.as_secs_f64();
    ensure!(seconds > 0.0, "sysbench's report says that the window was {seconds:.4} s long");
    Ok(seconds)
}

/// Response times; percentiles are as coarse as sysbench's histogram.
fn latency(output: &Output, events: u64) -> anyhow::Result<Latency> {
    let said = output.totals.as_ref().map(|totals| totals.latency).unwrap_or_default();
    let missing = "sysbench's report has no response times";
    let max = said.max_ms.context(missing)?;
    // The mean has two decimals of a millisecond, too few for point queries; the sum has enough.
    let mean = match said.sum_ms {
        Some(sum) if events > 0 => sum / events as f64,
        _ => said.avg_ms.context(missing)?,
    };
    let us = |ms: f64| (ms * 1000.0).round() as u64;
    let quantile = |q| -> anyhow::Result<u64> {
        let value = output.quantile(q).context("sysbench printed no histogram")?;
        Ok(us(value.min(max)))
    };
    Ok(Latency {
        mean_us: mean * 1000.0,
        p50_us: quantile(0.50)?,
        p95_us: quantile(0.95)?,
        p99_us: quantile(0.99)?,
        max_us: us(max),
        // Another format than the other driver's.
        histogram: String::new(),
    })
}

#[cfg(test)]
mod tests;
