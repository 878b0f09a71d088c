//! A run: clients that start together, a warm-up, a window, and the sum of what ended in it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use catalog::protocol::{Event, Measured};

use crate::client::Client;
use crate::connection::{Cancel, Error};
use crate::emit::Emitter;
use crate::job::{Job, RunTask};
use crate::schedule::{Schedule, wait};
use crate::usage::Usage;
use crate::window::{Counts, Live, Window};

/// How long a client that is in a statement when the window ends may take to come back by itself.
const GRACE: Duration = Duration::from_millis(50);
/// How long the server may take to cancel a statement before its connection is closed.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// How long connections stay open after the window: a server's process that ends takes its number
/// of context switches with it, so whoever measures the server must be able to read it first.
const HOLD: Duration = Duration::from_millis(50);

/// What all clients share.
struct Shared {
    start: Barrier,
    window: OnceLock<Window>,
    /// Another client has failed: the run is lost.
    stop: AtomicBool,
    live: Vec<Live>,
}

impl Shared {
    /// Waits until the server has been looked at.
    fn hold(&self) {
        if let Some(window) = self.window.get() {
            let end = window.end + HOLD;
            std::thread::sleep(end.saturating_duration_since(Instant::now()).min(HOLD));
        }
    }
}

/// The message of a client that has ended: its number and what came of it.
type Ended = (usize, anyhow::Result<Counts>);

/// Measures one microbenchmark.
///
/// # Errors
///
/// When a connection is lost, the server refuses what it must not refuse, or no statement ended
/// inside the window.
pub fn run(job: &Job, run: &RunTask, emitter: &mut Emitter) -> anyhow::Result<()> {
    let clients = (0..run.asked.threads)
        .map(|number| {
            let stream = (run.asked.seed, number);
            let prepared = run.asked.prepared;
            Client::connect(&job.server, &job.data, run.microbenchmark, prepared, stream)
                .with_context(|| format!("cannot set up client {number}"))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let cancels = clients
        .iter()
        .map(|client| client.connection.canceller())
        .collect::<anyhow::Result<Vec<_>>>()?;
    let shared = Shared {
        start: Barrier::new(clients.len() + 1),
        window: OnceLock::new(),
        stop: AtomicBool::new(false),
        live: clients.iter().map(|_| Live::default()).collect(),
    };
    let (sender, receiver) = mpsc::channel();
    let measured = std::thread::scope(|scope| {
        for (number, client) in clients.into_iter().enumerate() {
            let (sender, shared) = (sender.clone(), &shared);
            let rate = run.asked.rate;
            scope.spawn(move || {
                let mut client = client;
                // The receiver is gone only when the run has failed already.
                let _ = sender.send((number, work(&mut client, number, rate, shared)));
                shared.hold();
            });
        }
        drop(sender);
        let mut conductor = Conductor { receiver, cancels, ended: Vec::new(), shared: &shared };
        let result = conductor.conduct(run, emitter);
        conductor.release();
        result
    })?;
    emitter.emit(&Event::Measured(measured))
}

/// One client from the start to the end of the window.
fn work(
    client: &mut Client,
    number: usize,
    rate: Option<f64>,
    shared: &Shared,
) -> anyhow::Result<Counts> {
    shared.start.wait();
    let window = *shared.window.get().context("the window was not set before the start")?;
    let live = &shared.live[number];
    let mut counts = Counts::new(window);
    let mut begun = Instant::now();
    let mut schedule = Schedule::new(begun, rate, number, shared.live.len());
    let over = || Instant::now() >= window.end || shared.stop.load(Ordering::Relaxed);
    loop {
        if let Some(moment) = schedule.next() {
            if !wait(moment, over) {
                return Ok(counts);
            }
            // Counted from here, however late it is.
            begun = moment;
        }
        let mut now = begun;
        let result = client.event(|executed| {
            now = Instant::now();
            match counts.statement(now, executed.done.rows, live) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        match result {
            Ok(ControlFlow::Continue(())) => {
                counts.event(now, now - begun);
                begun = now;
            }
            Ok(ControlFlow::Break(())) => return Ok(counts),
            Err(error) => {
                if Instant::now() >= window.end || shared.stop.load(Ordering::Relaxed) {
                    // Cancelled, or broken off in its last moment: nothing of it counts.
                    return Ok(counts);
                }
                if !go_on(client, &error, &mut counts)? {
                    return Err(error.into());
                }
                begun = Instant::now();
            }
        }
        if shared.stop.load(Ordering::Relaxed) {
            return Ok(counts);
        }
    }
}

/// Counts and rolls back an event that was refused; `false` when the error must end the run.
fn go_on(client: &mut Client, error: &Error, counts: &mut Counts) -> anyhow::Result<bool> {
    let Some(code) = error.expected() else { return Ok(false) };
    counts.refused(Instant::now(), &code);
    client.roll_back().context("cannot roll back an event that the server refused")?;
    Ok(true)
}

/// The thread that keeps the time.
struct Conductor<'a> {
    receiver: Receiver<Ended>,
    cancels: Vec<Box<dyn Cancel>>,
    ended: Vec<(usize, Counts)>,
    shared: &'a Shared,
}

impl Conductor<'_> {
    fn conduct(&mut self, run: &RunTask, emitter: &mut Emitter) -> anyhow::Result<Measured> {
        let window = Window::after(
            Instant::now(),
            Duration::from_secs_f64(run.asked.warmup_seconds),
            Duration::from_secs_f64(run.asked.seconds),
        );
        let set = self.shared.window.set(window);
        self.shared.start.wait();
        ensure!(set.is_ok(), "the window was set twice");

        self.wait_until(window.begin)?;
        let before = Usage::now()?;
        emitter.emit(&Event::WindowBegin)?;
        let mut shown = 0;
        for second in 1..=window.length().as_secs() {
            self.wait_until(window.begin + Duration::from_secs(second))?;
            let queries: u64 = self.shared.live.iter().map(Live::queries).sum();
            let second = u32::try_from(second)?;
            emitter.emit(&Event::Second { second, queries: queries - shown })?;
            shown = queries;
        }
        self.wait_until(window.end)?;
        let client = Usage::now()?.since(&before);
        emitter.emit(&Event::WindowEnd)?;
        self.collect(window.end)?;

        let mut all = Counts::new(window);
        for (_, counts) in &self.ended {
            all.add(counts)?;
        }
        if all.queries == 0 {
            bail!(
                "no statement of `{}` ended in the window of {} s: one takes longer than that on \
                 these tables; measure for longer or with fewer rows",
                run.microbenchmark.name,
                run.asked.seconds
            );
        }
        Ok(Measured {
            seconds: window.length().as_secs_f64(),
            queries: all.queries,
            events: all.events,
            rows: all.rows,
            queries_per_second: all.whole_seconds().to_vec(),
            latency: all.latencies.report()?,
            errors: all.errors.into_iter().collect(),
            client,
            streams: Vec::new(),
        })
    }

    /// Sleeps; wakes early when a client has failed.
    fn wait_until(&mut self, moment: Instant) -> anyhow::Result<()> {
        loop {
            let left = moment.saturating_duration_since(Instant::now());
            match self.receiver.recv_timeout(left) {
                Ok(ended) => self.take(ended)?,
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                // All have ended, which is right only at the end.
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(moment.saturating_duration_since(Instant::now()));
                    return Ok(());
                }
            }
        }
    }

    /// Waits for all clients; cancels the statements that run on after the window.
    fn collect(&mut self, end: Instant) -> anyhow::Result<()> {
        self.wait_for_all(end + GRACE)?;
        self.break_off(|cancel| {
            if let Err(error) = cancel.cancel() {
                eprintln!("loadgen: cannot cancel a statement after the window: {error:#}");
            }
        });
        self.wait_for_all(Instant::now() + CANCEL_GRACE)?;
        self.break_off(|cancel| cancel.hang_up());
        self.wait_for_all(Instant::now() + CANCEL_GRACE)?;
        let (all, ended) = (self.shared.live.len(), self.ended.len());
        ensure!(ended == all, "{} of {all} clients did not come to an end", all - ended);
        Ok(())
    }

    fn wait_for_all(&mut self, until: Instant) -> anyhow::Result<()> {
        while self.ended.len() < self.shared.live.len() {
            let left = until.saturating_duration_since(Instant::now());
            match self.receiver.recv_timeout(left) {
                Ok(ended) => self.take(ended)?,
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn take(&mut self, (number, result): Ended) -> anyhow::Result<()> {
        let counts = result.with_context(|| format!("client {number} failed"))?;
        self.ended.push((number, counts));
        Ok(())
    }

    fn break_off(&self, how: impl Fn(&dyn Cancel)) {
        for (number, cancel) in self.cancels.iter().enumerate() {
            if !self.ended.iter().any(|(ended, _)| *ended == number) {
                how(&**cancel);
            }
        }
    }

    /// After a failure: no client may keep the process alive.
    fn release(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.break_off(|cancel| {
            // The statement may be over; a server that is gone needs no cancelling.
            let _ = cancel.cancel();
            cancel.hang_up();
        });
    }
}
