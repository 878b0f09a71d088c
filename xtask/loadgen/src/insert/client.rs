//! The connections of a client: one that inserts, one that deletes what the first has inserted as
//! much of, one that queries; and one that makes the indexes of a table. Each is a thread.
//!
//! A statement outside a transaction is one of its own, so a batch is one round trip.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use catalog::protocol::WireProtocol;

use super::pace::Pace;
use super::rows::RowSource;
use super::statements::{self, Query};
use super::tally::{Span, Tally};
use crate::admin::value_of;
use crate::connection::{Cancel, Connection, Done, Prepared};
use crate::params::Params;
use crate::rng::Rng;
use crate::window::Live;

/// How often one statement may be refused before the step fails: a deadlock ends with the first.
const MOST_REFUSALS: u32 = 1000;
/// After how many deletes the lowest id is asked for again: ids have gaps.
const DELETES_PER_MINIMUM: u64 = 1000;
/// After how many deletes of no row a batch is given up.
const MOST_IN_VAIN: u32 = 100;
/// After how many queries the highest id is asked for again.
const QUERIES_PER_MAXIMUM: u64 = 100;

/// What a connection is told when all begin.
#[derive(Clone, Copy)]
pub struct Begin<'a> {
    /// When the step begins and ends.
    pub span: Span,
    /// Whether another connection has failed: the step is lost.
    pub stop: &'a AtomicBool,
    /// Its statements so far.
    pub live: &'a Live,
}

impl Begin<'_> {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.span.is_over(Instant::now())
    }
}

/// A connection with its part of a step.
pub trait Worker: Send {
    /// The name of its stream.
    fn stream(&self) -> &'static str;

    /// What ends its statement.
    fn canceller(&self) -> anyhow::Result<Box<dyn Cancel>>;

    /// Does its part.
    ///
    /// # Errors
    ///
    /// When the connection is lost, or the server refuses what it must not refuse.
    fn work(&mut self, begin: Begin<'_>) -> anyhow::Result<Tally>;
}

/// Sends a statement until it succeeds; `None` when the step is lost meanwhile.
fn persist(
    connection: &mut dyn Connection,
    sql: &[u8],
    begin: &Begin<'_>,
    tally: &mut Tally,
) -> anyhow::Result<Option<Done>> {
    let mut refusals = 0;
    loop {
        let error = match connection.query(sql, None) {
            Ok(done) => return Ok(Some(done)),
            Err(error) => error,
        };
        let Some(code) = error.transient() else {
            return Err(anyhow::Error::from(error).context(format!("`{}` failed", short(sql))));
        };
        tally.refused(Instant::now(), &code);
        refusals += 1;
        if refusals == MOST_REFUSALS {
            bail!("`{}` was refused {refusals} times in a row: {error}", short(sql));
        }
        if begin.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
    }
}

fn short(sql: &[u8]) -> String {
    String::from_utf8_lossy(sql).chars().take(80).collect()
}

/// The lowest or highest id of a table; `None` when it is empty.
pub fn edge(
    connection: &mut dyn Connection,
    function: &str,
    table: &str,
) -> anyhow::Result<Option<u64>> {
    let sql = format!("SELECT {function}(transactionid) FROM {table}");
    let id = value_of(connection, &sql)?;
    id.map(|id| id.parse().with_context(|| format!("`{sql}` gave `{id}`"))).transpose()
}

/// Inserts batches.
pub struct Inserter {
    /// Its connection.
    pub connection: Box<dyn Connection>,
    /// The INSERT without its rows.
    pub insert: String,
    /// What it inserts.
    pub rows: RowSource,
    /// Rows of a batch.
    pub batch_rows: u32,
    /// How many batches.
    pub batches: u64,
    /// When each is due; `None`: as soon as the one before has ended.
    pub pace: Option<Pace>,
    /// Hears of each batch; its bound keeps the deleter near.
    pub deleter: Option<SyncSender<()>>,
}

impl Worker for Inserter {
    fn stream(&self) -> &'static str {
        "insert"
    }

    fn canceller(&self) -> anyhow::Result<Box<dyn Cancel>> {
        self.connection.canceller()
    }

    fn work(&mut self, begin: Begin<'_>) -> anyhow::Result<Tally> {
        // Dropped at the end of this function: the deleter ends then.
        let deleter = self.deleter.take();
        let mut tally = Tally::new(begin.span);
        let mut sql = Vec::new();
        for _ in 0..self.batches {
            sql.clear();
            sql.extend_from_slice(self.insert.as_bytes());
            self.rows.push_batch(self.batch_rows, &mut sql);
            let since = self.wait_until_due(&begin.span);
            if begin.is_over() {
                break;
            }
            let done = persist(&mut *self.connection, &sql, &begin, &mut tally)?;
            let Some(done) = done else { break };
            let rows = u64::from(self.batch_rows);
            ensure!(done.affected == rows, "the server took {} of {rows} rows", done.affected);
            tally.ended((since, Instant::now()), rows, 0, begin.live);
            if deleter.as_ref().is_some_and(|deleter| deleter.send(()).is_err()) {
                // It has failed and says so itself.
                break;
            }
        }
        Ok(tally)
    }
}

impl Inserter {
    /// Sleeps until the next batch is due, or the span ends; from when its response time counts.
    fn wait_until_due(&mut self, span: &Span) -> Instant {
        let now = Instant::now();
        let Some(pace) = &mut self.pace else { return now };
        let due = span.begin + pace.next(now.saturating_duration_since(span.begin));
        let until = span.end.map_or(due, |end| end.min(due));
        std::thread::sleep(until.saturating_duration_since(now));
        due
    }
}

/// Deletes the oldest rows, one batch for each that was inserted.
pub struct Deleter {
    /// Its connection.
    pub connection: Box<dyn Connection>,
    /// The server's dialect.
    pub protocol: WireProtocol,
    /// The table.
    pub table: String,
    /// Rows of a batch.
    pub batch_rows: u32,
    /// No row has an id below; for whoever draws ids.
    pub low: Arc<AtomicU64>,
    /// Tells of each batch that was inserted.
    pub inserted: Option<Receiver<()>>,
}

impl Worker for Deleter {
    fn stream(&self) -> &'static str {
        "delete"
    }

    fn canceller(&self) -> anyhow::Result<Box<dyn Cancel>> {
        self.connection.canceller()
    }

    fn work(&mut self, begin: Begin<'_>) -> anyhow::Result<Tally> {
        // Dropped at the end of this function: the inserter ends then.
        let inserted = self.inserted.take().context("a deleter works once")?;
        let mut tally = Tally::new(begin.span);
        // To the last, also after the end: as many as were inserted.
        for number in 1.. {
            if inserted.recv().is_err() || !self.delete_batch(&begin, &mut tally)? {
                break;
            }
            if number % DELETES_PER_MINIMUM == 0 {
                self.find_low()?;
            }
        }
        Ok(tally)
    }
}

impl Deleter {
    /// Deletes one batch; `false` when the step is lost.
    ///
    /// The deleters of one table want the same oldest rows. InnoDB's take the next ones when they
    /// have waited for a lock; PostgreSQL's find that their rows are gone, and are content with
    /// less. They are sent again for the rest here, or the table would grow, the more the better
    /// the deletes of a build get into each other's way.
    fn delete_batch(&mut self, begin: &Begin<'_>, tally: &mut Tally) -> anyhow::Result<bool> {
        let mut left = u64::from(self.batch_rows);
        let mut in_vain = 0;
        while left > 0 {
            let low = self.low.load(Ordering::Relaxed);
            let sql = statements::delete(self.protocol, &self.table, low, left);
            let since = Instant::now();
            let done = persist(&mut *self.connection, sql.as_bytes(), begin, tally)?;
            let Some(done) = done else { return Ok(false) };
            tally.ended((since, Instant::now()), done.affected, 0, begin.live);
            left = left.saturating_sub(done.affected);
            if begin.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            if done.affected == 0 {
                in_vain += 1;
                if !self.find_low()? || in_vain == MOST_IN_VAIN {
                    // There is nothing to delete.
                    return Ok(true);
                }
            }
        }
        self.low.fetch_add(u64::from(self.batch_rows), Ordering::Relaxed);
        Ok(true)
    }

    /// Asks for the lowest id; `false` when the table is empty.
    fn find_low(&mut self) -> anyhow::Result<bool> {
        let low = edge(&mut *self.connection, "min", &self.table)?;
        if let Some(low) = low {
            self.low.store(low, Ordering::Relaxed);
        }
        Ok(low.is_some())
    }
}

/// Queries in a closed loop until the step ends.
pub struct Querier {
    /// Its connection.
    pub connection: Box<dyn Connection>,
    /// The table.
    pub table: String,
    /// One of them at random is the next.
    pub queries: Vec<(Query, Option<Prepared>)>,
    /// Draws queries and values.
    pub rng: Rng,
    /// No row has an id below.
    pub low: Arc<AtomicU64>,
    /// The highest id, where it is of use.
    pub high: Option<u64>,
}

impl Worker for Querier {
    fn stream(&self) -> &'static str {
        "query"
    }

    fn canceller(&self) -> anyhow::Result<Box<dyn Cancel>> {
        self.connection.canceller()
    }

    fn work(&mut self, begin: Begin<'_>) -> anyhow::Result<Tally> {
        let mut tally = Tally::new(begin.span);
        let (mut params, mut text) = (Params::default(), Vec::new());
        for number in 1.. {
            if begin.is_over() {
                break;
            }
            let (query, prepared) =
                &self.queries[self.rng.below(self.queries.len() as u64) as usize];
            let ids = (self.low.load(Ordering::Relaxed), self.high.unwrap_or_default());
            query.draw(&mut self.rng, ids, &mut params);
            if prepared.is_none() {
                text.clear();
                query.sql.push_with_values(&params, &mut text);
            }
            let since = Instant::now();
            let result = match prepared {
                Some(prepared) => self.connection.execute(*prepared, &params, None),
                None => self.connection.query(&text, None),
            };
            let now = Instant::now();
            match result {
                Ok(done) => tally.ended((since, now), 1, done.rows, begin.live),
                Err(error) => match error.transient() {
                    Some(code) => tally.refused(now, &code),
                    None => return Err(anyhow::Error::from(error).context("a query failed")),
                },
            }
            if self.high.is_some() && number % QUERIES_PER_MAXIMUM == 0 {
                self.high = edge(&mut *self.connection, "max", &self.table)?.or(self.high);
            }
        }
        Ok(tally)
    }
}

/// Makes the indexes of a table.
pub struct Indexer {
    /// Its connection.
    pub connection: Box<dyn Connection>,
    /// What makes them, and how many each makes.
    pub statements: Vec<(String, u64)>,
}

impl Worker for Indexer {
    fn stream(&self) -> &'static str {
        "index"
    }

    fn canceller(&self) -> anyhow::Result<Box<dyn Cancel>> {
        self.connection.canceller()
    }

    fn work(&mut self, begin: Begin<'_>) -> anyhow::Result<Tally> {
        let mut tally = Tally::new(begin.span);
        for (sql, indexes) in &self.statements {
            if begin.is_over() {
                break;
            }
            let since = Instant::now();
            self.connection
                .query(sql.as_bytes(), None)
                .with_context(|| format!("`{sql}` failed"))?;
            tally.ended((since, Instant::now()), *indexes, 0, begin.live);
        }
        Ok(tally)
    }
}
