//! The measured window: what counts is decided by one clock, by the moment at which a statement
//! ended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::latency::Latencies;

/// From when to when is measured.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The first moment inside.
    pub begin: Instant,
    /// The first moment after.
    pub end: Instant,
}

impl Window {
    /// A window of `length` that begins `warmup` after `start`.
    pub fn after(start: Instant, warmup: Duration, length: Duration) -> Self {
        let begin = start + warmup;
        Self { begin, end: begin + length }
    }

    /// Its length.
    pub fn length(&self) -> Duration {
        self.end - self.begin
    }
}

/// The statements of one client in the window so far, for whoever shows progress. A cache line of
/// its own, written by one thread only.
#[derive(Default)]
#[repr(align(128))]
pub struct Live(AtomicU64);

impl Live {
    /// The number now.
    pub fn queries(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// From now on it is this.
    #[inline]
    pub fn set(&self, queries: u64) {
        self.0.store(queries, Ordering::Relaxed);
    }
}

/// What one client, or all of them, did in the window.
pub struct Counts {
    window: Window,
    /// Statements.
    pub queries: u64,
    /// Events.
    pub events: u64,
    /// Rows that came back.
    pub rows: u64,
    /// Refused events by the code of [`crate::connection::Error::expected`].
    pub errors: BTreeMap<String, u64>,
    /// Statements in each second, the last of which may be cut short by the end.
    pub seconds: Vec<u64>,
    /// Response times of events.
    pub latencies: Latencies,
}

impl Counts {
    /// Nothing yet.
    pub fn new(window: Window) -> Self {
        let seconds = window.length().as_secs_f64().ceil() as usize;
        Self {
            window,
            queries: 0,
            events: 0,
            rows: 0,
            errors: BTreeMap::new(),
            seconds: vec![0; seconds],
            latencies: Latencies::new(),
        }
    }

    /// A statement that returned `rows` ended at `now`. `false` when the window is over.
    #[inline]
    pub fn statement(&mut self, now: Instant, rows: u64, live: &Live) -> bool {
        if now >= self.window.end {
            return false;
        }
        if let Some(since) = now.checked_duration_since(self.window.begin) {
            self.queries += 1;
            self.rows += rows;
            self.seconds[since.as_secs() as usize] += 1;
            live.set(self.queries);
        }
        true
    }

    /// An event ended at `now`, which is before the window's end, after `time`.
    #[inline]
    pub fn event(&mut self, now: Instant, time: Duration) {
        if now >= self.window.begin {
            self.events += 1;
            self.latencies.record(time);
        }
    }

    /// An event was refused at `now`. `false` when the window is over.
    pub fn refused(&mut self, now: Instant, code: &str) -> bool {
        if now >= self.window.end {
            return false;
        }
        if now >= self.window.begin {
            *self.errors.entry(code.to_owned()).or_default() += 1;
        }
        true
    }

    /// What another client did too.
    ///
    /// # Errors
    ///
    /// As [`Latencies::add`].
    pub fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        self.queries += other.queries;
        self.events += other.events;
        self.rows += other.rows;
        for (sqlstate, count) in &other.errors {
            *self.errors.entry(sqlstate.clone()).or_default() += count;
        }
        for (sum, count) in self.seconds.iter_mut().zip(&other.seconds) {
            *sum += count;
        }
        self.latencies.add(&other.latencies)
    }

    /// The statements of each whole second of the window.
    pub fn whole_seconds(&self) -> &[u64] {
        let whole = self.window.length().as_secs() as usize;
        &self.seconds[..whole]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn window() -> Window {
        Window::after(Instant::now(), ms(1000), ms(2500))
    }

    #[test]
    fn only_what_ends_inside_counts() {
        let window = window();
        let mut counts = Counts::new(window);
        let live = Live::default();
        let last = window.end - Duration::from_nanos(1);
        assert!(counts.statement(window.begin - Duration::from_nanos(1), 5, &live));
        assert!(counts.statement(window.begin, 1, &live));
        assert!(counts.statement(window.begin + ms(999), 1, &live));
        assert!(counts.statement(window.begin + ms(1000), 1, &live));
        assert!(counts.statement(last, 1, &live));
        assert!(!counts.statement(window.end, 9, &live));
        assert_eq!((counts.queries, counts.rows, live.queries()), (4, 4, 4));
        assert_eq!(counts.seconds, [2, 1, 1]);
        // The last half second is in the sum and in no whole second.
        assert_eq!(counts.whole_seconds(), [2, 1]);
    }

    #[test]
    fn events_and_refusals_count_from_the_beginning_on() {
        let window = window();
        let mut counts = Counts::new(window);
        counts.event(window.begin - ms(1), ms(7));
        counts.event(window.begin, ms(3));
        assert!(counts.refused(window.begin - ms(1), "40001"));
        assert!(counts.refused(window.begin, "40P01"));
        assert!(!counts.refused(window.end, "40001"));
        assert_eq!(counts.events, 1);
        assert_eq!(counts.errors, BTreeMap::from([("40P01".to_owned(), 1)]));
        assert_eq!(counts.latencies.report().unwrap().max_us, 3000);
    }

    #[test]
    fn clients_add_up() {
        let window = window();
        let mut all = Counts::new(window);
        for _ in 0..2 {
            let mut one = Counts::new(window);
            one.statement(window.begin, 10, &Live::default());
            one.event(window.begin, ms(1));
            one.refused(window.begin, "23505");
            all.add(&one).unwrap();
        }
        assert_eq!((all.queries, all.events, all.rows), (2, 2, 20));
        assert_eq!(all.errors["23505"], 2);
        assert_eq!(all.seconds, [2, 0, 0]);
    }

    #[test]
    fn a_window_below_a_second_has_no_whole_second() {
        let window = Window::after(Instant::now(), ms(0), ms(300));
        let mut counts = Counts::new(window);
        assert!(counts.statement(window.begin + ms(299), 0, &Live::default()));
        assert_eq!((counts.queries, counts.whole_seconds().len()), (1, 0));
    }
}
