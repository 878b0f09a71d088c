//! When each INSERT of a client is due, at a rate: an open loop. The moments are laid down from the
//! beginning, whatever the server does, and response times count from them, so that a stall shows
//! in the times of all that had to wait for it, not only of the one that met it ("coordinated
//! omission").
//!
//! A client that is late sends at once until it is in time again, but not for more than a second of
//! what it has missed: the rest is left out, for ever. So a stall that a server can make up for is
//! no lower rate, a server that is too slow has one, and neither gets a burst of minutes when it
//! recovers (the published client makes up for nothing, not even the last tenth of a second).
//! Response times are therefore never more than that second above what the server took.

use std::time::Duration;

/// How much of what was missed is made up for.
pub const BACKLOG: Duration = Duration::from_secs(1);

/// The moments of one client, counted from the begin of the step.
#[derive(Debug)]
pub struct Pace {
    /// The moment of batch 0; later when something was left out.
    origin: Duration,
    rows_per_batch: u32,
    rows_per_second: u32,
    /// The next batch, counted from `origin`.
    next: u64,
}

impl Pace {
    /// The moments of client `number` (from 0) of `clients`, which begin spread over the time of
    /// one batch: at one moment they would meet at every batch.
    pub fn new(rows_per_batch: u32, rows_per_second: u32, number: u32, clients: u32) -> Self {
        let batch = Duration::from_secs_f64(f64::from(rows_per_batch) / f64::from(rows_per_second));
        let origin = batch * number / clients.max(1);
        Self { origin, rows_per_batch, rows_per_second, next: 0 }
    }

    /// The moment of the next batch, when it is `now`: in the future, or at most [`BACKLOG`] ago.
    pub fn next(&mut self, now: Duration) -> Duration {
        let earliest = now.saturating_sub(BACKLOG);
        let mut due = self.origin + self.after(self.next);
        if due < earliest {
            self.origin = earliest;
            self.next = 0;
            due = earliest;
        }
        self.next += 1;
        due
    }

    /// The time of so many batches, without an error that would add up.
    fn after(&self, batches: u64) -> Duration {
        let rows = u128::from(batches) * u128::from(self.rows_per_batch);
        let ns = rows * 1_000_000_000 / u128::from(self.rows_per_second);
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn moments_do_not_depend_on_the_server() {
        let mut pace = Pace::new(50, 200, 0, 1);
        let due: Vec<_> = [0, 1, 900, 901].map(|now| pace.next(ms(now))).to_vec();
        // The third and the fourth are late, by 400 ms and 151 ms, and keep their moments.
        assert_eq!(due, [ms(0), ms(250), ms(500), ms(750)]);
    }

    #[test]
    fn no_error_adds_up() {
        let mut pace = Pace::new(1, 3, 0, 1);
        let last = (0..3001).map(|_| pace.next(ms(0))).last().unwrap();
        assert_eq!(last, Duration::from_secs(1000));
    }

    #[test]
    fn a_second_is_made_up_for_and_no_more() {
        let mut pace = Pace::new(50, 500, 0, 1);
        assert_eq!(pace.next(ms(0)), ms(0));
        // A stall of five seconds: 49 batches were missed, the 11 of the last second are sent.
        let now = ms(5000);
        let at_once = (0..100).take_while(|_| pace.next(now) <= now).count();
        assert_eq!(at_once, 11);
        // That one was due at 5.1 s; the schedule goes on from there.
        assert_eq!(pace.next(now), ms(5200));
    }

    #[test]
    fn a_server_that_is_too_slow_is_a_second_behind_and_stays_there() {
        let mut pace = Pace::new(10, 100, 0, 1);
        let mut now = ms(0);
        for batch in 0..100 {
            let due = pace.next(now);
            let late = now.saturating_sub(due);
            assert!(late <= BACKLOG, "batch {batch}: {late:?}");
            now = now.max(due) + ms(150);
        }
        // Every batch was sent as soon as the one before had ended.
        assert_eq!(now, ms(15_000));
    }

    #[test]
    fn clients_are_spread_over_the_time_of_a_batch() {
        let first = |number| Pace::new(50, 100, number, 4).next(ms(0));
        assert_eq!([0, 1, 2, 3].map(first), [ms(0), ms(125), ms(250), ms(375)]);
    }
}
