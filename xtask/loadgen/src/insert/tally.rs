//! What one connection of a step did, or all of one kind: by the moment at which each statement
//! ended, like [`crate::window::Counts`], but for a step whose end may not be known at its begin.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use catalog::protocol::Stream;

use crate::latency::Latencies;
use crate::window::Live;

/// From when to when is measured.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The first moment inside.
    pub begin: Instant,
    /// The first moment after; `None`: the step ends when its work is done.
    pub end: Option<Instant>,
}

impl Span {
    /// Whether it is over at `now`.
    #[inline]
    pub fn is_over(&self, now: Instant) -> bool {
        self.end.is_some_and(|end| now >= end)
    }
}

/// What was done.
pub struct Tally {
    span: Span,
    /// Statements that ended inside.
    pub statements: u64,
    /// What they did: rows, or as many as the statements.
    pub operations: u64,
    /// What those did that ended after it.
    pub late: u64,
    /// Rows that came back.
    pub rows: u64,
    /// Refusals by the code of [`crate::connection::Error::transient`].
    pub errors: BTreeMap<String, u64>,
    /// Response times of statements.
    pub latencies: Latencies,
    /// When the last statement ended.
    pub last: Instant,
    seconds: Vec<Second>,
}

#[derive(Clone, Copy, Default)]
struct Second {
    statements: u64,
    operations: u64,
}

impl Tally {
    /// Nothing yet.
    pub fn new(span: Span) -> Self {
        Self {
            span,
            statements: 0,
            operations: 0,
            late: 0,
            rows: 0,
            errors: BTreeMap::new(),
            latencies: Latencies::new(),
            last: span.begin,
            seconds: Vec::new(),
        }
    }

    /// A statement that was due, or sent, at `since` ended at `now`. It did so many `operations`
    /// and returned so many `rows`.
    #[inline]
    pub fn ended(
        &mut self,
        (since, now): (Instant, Instant),
        operations: u64,
        rows: u64,
        live: &Live,
    ) {
        if self.span.is_over(now) {
            self.late += operations;
            return;
        }
        self.statements += 1;
        self.operations += operations;
        self.rows += rows;
        self.latencies.record(now.saturating_duration_since(since));
        self.last = self.last.max(now);
        let second = now.saturating_duration_since(self.span.begin).as_secs() as usize;
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, Second::default());
        }
        self.seconds[second].statements += 1;
        self.seconds[second].operations += operations;
        live.set(self.statements);
    }

    /// The server refused a statement at `now`, which is sent again.
    pub fn refused(&mut self, now: Instant, code: &str) {
        if !self.span.is_over(now) {
            *self.errors.entry(code.to_owned()).or_default() += 1;
        }
    }

    /// What another connection did too.
    ///
    /// # Errors
    ///
    /// As [`Latencies::add`].
    pub fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        self.statements += other.statements;
        self.operations += other.operations;
        self.late += other.late;
        self.rows += other.rows;
        self.last = self.last.max(other.last);
        for (code, count) in &other.errors {
            *self.errors.entry(code.clone()).or_default() += count;
        }
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize(other.seconds.len(), Second::default());
        }
        for (sum, second) in self.seconds.iter_mut().zip(&other.seconds) {
            sum.statements += second.statements;
            sum.operations += second.operations;
        }
        self.latencies.add(&other.latencies)
    }

    /// The statements of each of so many seconds.
    pub fn statements_per_second(&self, whole: u64) -> Vec<u64> {
        self.per_second(whole, |second| second.statements)
    }

    /// In the form of the protocol, when the step had so many whole seconds.
    ///
    /// # Errors
    ///
    /// As [`Latencies::report`].
    pub fn report(&self, name: &str, whole: u64) -> anyhow::Result<Stream> {
        Ok(Stream {
            name: name.to_owned(),
            operations: self.operations,
            late: self.late,
            per_second: self.per_second(whole, |second| second.operations),
            latency: self.latencies.report()?,
        })
    }

    fn per_second(&self, whole: u64, of: fn(&Second) -> u64) -> Vec<u64> {
        let mut list: Vec<u64> = self.seconds.iter().map(of).collect();
        list.resize(whole as usize, 0);
        list
    }
}

/// The length of a step that is over, whose statements are all in `all`.
pub fn length(span: Span, all: &Tally) -> Duration {
    span.end.unwrap_or(all.last) - span.begin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn span(length: Option<u64>) -> Span {
        let begin = Instant::now();
        Span { begin, end: length.map(|length| begin + ms(length)) }
    }

    #[test]
    fn a_step_without_an_end_is_as_long_as_its_last_statement() {
        let span = span(None);
        let mut tally = Tally::new(span);
        let live = Live::default();
        for (since, now) in [(0, 10), (10, 999), (1000, 3200)] {
            tally.ended((span.begin + ms(since), span.begin + ms(now)), 50, 0, &live);
        }
        assert_eq!(length(span, &tally), ms(3200));
        assert_eq!((tally.statements, tally.operations, live.queries()), (3, 150, 3));
        let stream = tally.report("insert", 3).unwrap();
        assert_eq!(stream.per_second, [100, 0, 0]);
        assert_eq!((stream.operations, stream.late), (150, 0));
        assert_eq!(stream.latency.max_us, 2_200_000);
        assert_eq!(tally.statements_per_second(4), [2, 0, 0, 1]);
    }

    #[test]
    fn what_ends_after_the_end_is_late_and_nothing_else() {
        let span = span(Some(1500));
        let mut tally = Tally::new(span);
        let live = Live::default();
        let at = |now| (span.begin, span.begin + ms(now));
        tally.ended(at(1499), 5, 2, &live);
        tally.refused(span.begin + ms(1499), "1213");
        tally.ended(at(1500), 7, 9, &live);
        tally.refused(span.begin + ms(1500), "1213");
        assert_eq!((tally.statements, tally.operations, tally.late, tally.rows), (1, 5, 7, 2));
        assert_eq!(tally.errors["1213"], 1);
        assert_eq!(tally.report("query", 1).unwrap().per_second, [0]);
        assert_eq!(length(span, &tally), ms(1500));
    }

    #[test]
    fn connections_add_up() {
        let span = span(None);
        let live = Live::default();
        let mut one = Tally::new(span);
        one.ended((span.begin, span.begin + ms(100)), 1, 10, &live);
        let mut other = Tally::new(span);
        other.ended((span.begin, span.begin + ms(2500)), 2, 20, &live);
        other.refused(span.begin, "40P01");
        one.add(&other).unwrap();
        assert_eq!((one.statements, one.operations, one.rows), (2, 3, 30));
        assert_eq!(length(span, &one), ms(2500));
        assert_eq!(one.report("delete", 2).unwrap().per_second, [1, 0]);
        assert_eq!(one.errors["40P01"], 1);
    }
}
