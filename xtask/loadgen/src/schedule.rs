//! When events shall begin: at once after each other, or (open loop) at a fixed rate.
//!
//! At a rate the moments are fixed in advance and do not move when the server is slow: an event
//! that begins late is begun as soon as its client is free, and its response time is counted from
//! the moment at which it should have begun. A client that waited with its next event until the
//! last one is over would leave out just those events that a stall would have met (coordinated
//! omission; G. Tene, "How NOT to Measure Latency").

use std::time::{Duration, Instant};

/// A sleeping thread wakes late by about this much, so the last part of a wait is spun.
const SPIN: Duration = Duration::from_micros(80);
/// A wait is divided, so that a client that is told to stop does so soon.
const NAP: Duration = Duration::from_millis(50);

/// The moments of one client.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    first: Instant,
    /// Seconds between two events of this client; `None`: no schedule.
    every: Option<f64>,
    done: u64,
}

impl Schedule {
    /// The schedule of client `number` of `clients` that begin at `start`: together they begin
    /// `rate` events per second, evenly spread.
    pub fn new(start: Instant, rate: Option<f64>, number: usize, clients: usize) -> Self {
        let every = rate.map(|rate| clients as f64 / rate);
        let offset = every.map_or(0.0, |every| every * number as f64 / clients as f64);
        Self { first: start + Duration::from_secs_f64(offset), every, done: 0 }
    }

    /// When the next event should begin; `None` without a rate: as soon as the last one is over.
    pub fn next(&mut self) -> Option<Instant> {
        let moment = self.first + Duration::from_secs_f64(self.every? * self.done as f64);
        self.done += 1;
        Some(moment)
    }
}

/// Waits until `moment`; `false` when `stop` said so before.
pub fn wait(moment: Instant, stop: impl Fn() -> bool) -> bool {
    loop {
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        if stop() {
            return false;
        }
        match left.checked_sub(SPIN) {
            Some(nap) if !nap.is_zero() => std::thread::sleep(nap.min(NAP)),
            _ => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_share_the_rate_evenly() {
        let start = Instant::now();
        let mut moments: Vec<Duration> = (0..4)
            .flat_map(|number| {
                let mut schedule = Schedule::new(start, Some(100.0), number, 4);
                (0..25).map(move |_| schedule.next().expect("a moment") - start).collect::<Vec<_>>()
            })
            .collect();
        moments.sort();
        for (index, moment) in moments.iter().enumerate() {
            let expected = index as f64 / 100.0;
            assert!((moment.as_secs_f64() - expected).abs() < 1e-6, "{index}: {moment:?}");
        }
        assert_eq!(Schedule::new(start, None, 0, 1).next(), None);
    }

    #[test]
    fn waiting_ends_in_time_or_when_told() {
        let begin = Instant::now();
        assert!(wait(begin + Duration::from_millis(5), || false));
        assert!(begin.elapsed() >= Duration::from_millis(5));
        assert!(!wait(begin + Duration::from_secs(3600), || true));
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
}
