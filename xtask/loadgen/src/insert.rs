//! One step of the insert benchmark (`catalog::insert_benchmark` has the list): all connections are
//! made, begin together, and each does its part ([`client`]); this thread keeps the time.
//!
//! Against the published client: one process for all clients instead of four for each, which takes
//! little of the CPU; a refused INSERT is sent again and not counted as inserted; tables are made
//! and clients connected before the clock starts.

mod client;
mod pace;
mod rows;
mod setup;
mod statements;
mod tally;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use catalog::protocol::{Event, InsertStep, Measured};

use self::client::{Begin, Worker};
use self::tally::{Span, Tally};
use crate::connection::Cancel;
use crate::emit::Emitter;
use crate::job::Job;
use crate::usage::Usage;
use crate::window::Live;

/// How long the statements that run when a step ends by time may take: they are not cancelled,
/// because what they write belongs to the table.
const DRAIN: Duration = Duration::from_secs(120);
/// As in `run`: connections stay open until whoever measures the server has read it.
const HOLD: Duration = Duration::from_millis(50);

/// A connection, and what it is to people.
type Member = (String, Box<dyn Worker>);

/// The message of a connection that has done its part: its number, itself, and what came of it.
type Ended = (usize, Box<dyn Worker>, anyhow::Result<Tally>);

/// What all connections share.
struct Shared {
    start: Barrier,
    span: OnceLock<Span>,
    stop: AtomicBool,
    live: Vec<Live>,
}

/// Does one step.
///
/// # Errors
///
/// When a connection is lost or the server refuses what it must not refuse; when nothing was done
/// within the seconds of the step.
pub fn step(job: &Job, step: &InsertStep, emitter: &mut Emitter) -> anyhow::Result<()> {
    let members = setup::members(&job.server, step)?;
    let cancels =
        members.iter().map(|(_, worker)| worker.canceller()).collect::<anyhow::Result<Vec<_>>>()?;
    let names = members.iter().map(|(name, _)| name.clone()).collect();
    let streams = members.iter().map(|(_, worker)| worker.stream()).collect();
    let shared = Shared {
        start: Barrier::new(members.len() + 1),
        span: OnceLock::new(),
        stop: AtomicBool::new(false),
        live: members.iter().map(|_| Live::default()).collect(),
    };
    let (sender, receiver) = mpsc::channel();
    let measured = std::thread::scope(|scope| {
        for (number, (_, mut worker)) in members.into_iter().enumerate() {
            let (sender, shared) = (sender.clone(), &shared);
            scope.spawn(move || {
                shared.start.wait();
                let tally = work(&mut *worker, number, shared);
                // The receiver is gone only when the step has failed already.
                let _ = sender.send((number, worker, tally));
            });
        }
        drop(sender);
        let ended = Vec::new();
        let mut conductor = Conductor { receiver, cancels, names, streams, ended, shared: &shared };
        let result = conductor.conduct(step, emitter);
        conductor.release();
        result
    })?;
    emitter.emit(&Event::Measured(measured))
}

fn work(worker: &mut dyn Worker, number: usize, shared: &Shared) -> anyhow::Result<Tally> {
    let span = *shared.span.get().context("the begin was not set before the start")?;
    worker.work(Begin { span, stop: &shared.stop, live: &shared.live[number] })
}

/// The thread that keeps the time.
struct Conductor<'a> {
    receiver: Receiver<Ended>,
    cancels: Vec<Box<dyn Cancel>>,
    /// Of all connections, by their numbers.
    names: Vec<String>,
    streams: Vec<&'static str>,
    /// Connections that have done their part, still open.
    ended: Vec<(usize, Box<dyn Worker>, Tally)>,
    shared: &'a Shared,
}

impl Conductor<'_> {
    fn conduct(&mut self, step: &InsertStep, emitter: &mut Emitter) -> anyhow::Result<Measured> {
        let begin = Instant::now();
        let end = step.seconds.map(|seconds| begin + Duration::from_secs_f64(seconds));
        let span = Span { begin, end };
        let set = self.shared.span.set(span);
        let before = Usage::now()?;
        self.shared.start.wait();
        ensure!(set.is_ok(), "the begin was set twice");
        emitter.emit(&Event::WindowBegin)?;
        self.seconds(span, emitter)?;
        let client = Usage::now()?.since(&before);
        emitter.emit(&Event::WindowEnd)?;
        let told = Instant::now();
        self.wait_for_all(told + DRAIN)?;
        let (all, ended) = (self.names.len(), self.ended.len());
        ensure!(ended == all, "{} of {all} connections did not come to an end", all - ended);
        std::thread::sleep(HOLD.saturating_sub(told.elapsed()));

        let mut sum = Tally::new(span);
        let mut streams: BTreeMap<&str, Tally> = BTreeMap::new();
        for (number, _, tally) in &self.ended {
            sum.add(tally)?;
            let stream = streams.entry(self.streams[*number]);
            stream.or_insert_with(|| Tally::new(span)).add(tally)?;
        }
        if let Some((name, _)) = streams.iter().find(|(_, tally)| tally.statements == 0) {
            bail!(
                "no {name} of the step ended in {} s: measure for longer",
                step.seconds.unwrap_or_default()
            );
        }
        let length = tally::length(span, &sum);
        let whole = length.as_secs();
        // In the order in which people think of them.
        let order = ["insert", "delete", "query", "index"];
        let streams = order
            .iter()
            .filter_map(|name| streams.get(name).map(|tally| tally.report(name, whole)))
            .collect::<anyhow::Result<_>>()?;
        Ok(Measured {
            seconds: length.as_secs_f64(),
            queries: sum.statements,
            events: sum.statements,
            rows: sum.rows,
            queries_per_second: sum.statements_per_second(whole),
            latency: sum.latencies.report()?,
            errors: sum.errors.into_iter().collect(),
            client,
            streams,
        })
    }

    /// Tells of each second until the span ends, or all have done their part.
    fn seconds(&mut self, span: Span, emitter: &mut Emitter) -> anyhow::Result<()> {
        let mut shown = 0;
        for second in 1.. {
            let tick = span.begin + Duration::from_secs(second.into());
            let until = span.end.map_or(tick, |end| end.min(tick));
            if self.wait_for_all(until)? {
                // Before the end of a step by time only with nothing left to do, which is waited
                // out: its rates are per second of it.
                let Some(end) = span.end else { return Ok(()) };
                std::thread::sleep(end.min(tick).saturating_duration_since(Instant::now()));
            }
            if tick <= until {
                let queries: u64 = self.shared.live.iter().map(Live::queries).sum();
                emitter.emit(&Event::Second { second, queries: queries - shown })?;
                shown = queries;
            }
            if span.is_over(Instant::now()) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits until all have done their part, or the moment has come; whether they have.
    fn wait_for_all(&mut self, until: Instant) -> anyhow::Result<bool> {
        while self.ended.len() < self.names.len() {
            let left = until.saturating_duration_since(Instant::now());
            match self.receiver.recv_timeout(left) {
                Ok((number, worker, tally)) => {
                    let tally = tally.with_context(|| format!("{} failed", self.names[number]))?;
                    self.ended.push((number, worker, tally));
                }
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => bail!("a client has vanished"),
            }
        }
        Ok(true)
    }

    /// After a failure: no connection may keep the process alive.
    fn release(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for (number, cancel) in self.cancels.iter().enumerate() {
            if !self.ended.iter().any(|(ended, ..)| *ended == number) {
                // The statement may be over; a server that is gone needs no cancelling.
                let _ = cancel.cancel();
                cancel.hang_up();
            }
        }
    }
}
