//! Makes the tables and fills them, then the secondary indexes, then what brings the server to rest
//! (statistics, pages written), so that every load of one seed leaves it the same work.
//!
//! One connection fills one table: rows then lie in the order of their ids, whatever the number of
//! connections, and plans and cache hits do not depend on it.

mod mysql;
mod postgres;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use catalog::protocol::{Event, WireProtocol};

use crate::connection::{self, Connection};
use crate::content::Content;
use crate::emit::Emitter;
use crate::job::Job;

/// A row is at most this long; pieces end before their buffer must grow.
const ROW_BYTES: usize = 256;
/// How often progress is told.
const PROGRESS: Duration = Duration::from_secs(1);

/// Loads all tables.
///
/// # Errors
///
/// When the server refuses something, for example because a table is there already.
pub fn load(job: &Job, connections: u32, emitter: &mut Emitter) -> anyhow::Result<()> {
    let begin = Instant::now();
    let loaded = AtomicU64::new(0);
    let next = AtomicU32::new(1);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let workers: Vec<_> = (0..connections.min(job.data.tables))
            .map(|_| {
                scope.spawn(|| {
                    if let Err(error) = fill_tables(job, &next, &loaded) {
                        // The others stop at their next table.
                        next.store(u32::MAX, Ordering::Relaxed);
                        failures.lock().expect("no holder panics").push(error);
                    }
                })
            })
            .collect();
        let mut told = Instant::now();
        while workers.iter().any(|worker| !worker.is_finished()) {
            std::thread::sleep(Duration::from_millis(5));
            if told.elapsed() >= PROGRESS {
                told = Instant::now();
                emitter.emit(&Event::Loading { rows: loaded.load(Ordering::Relaxed) })?;
            }
        }
        Ok(())
    })?;
    if let Some(error) = failures.into_inner().expect("no holder panics").into_iter().next() {
        return Err(error);
    }
    if job.server.protocol == WireProtocol::Postgres {
        postgres::finish(&mut *connection::connect(&job.server)?)?;
    }
    let rows = job.data.rows * u64::from(job.data.tables);
    emitter.emit(&Event::Loaded { seconds: begin.elapsed().as_secs_f64(), rows })
}

fn fill_tables(job: &Job, next: &AtomicU32, loaded: &AtomicU64) -> anyhow::Result<()> {
    let mut connection = connection::connect(&job.server)?;
    loop {
        let table = next.fetch_add(1, Ordering::Relaxed);
        if !(1..=job.data.tables).contains(&table) {
            return Ok(());
        }
        fill_table(&mut *connection, job, table, loaded)
            .with_context(|| format!("cannot load the table `sbtest{table}`"))?;
    }
}

fn fill_table(
    connection: &mut dyn Connection,
    job: &Job,
    table: u32,
    loaded: &AtomicU64,
) -> anyhow::Result<()> {
    let mut filler = Filler { content: Content::new(&job.data, table), id: 0, loaded };
    let rows = job.data.rows;
    match job.server.protocol {
        WireProtocol::Postgres => postgres::fill_table(connection, table, rows, &mut filler),
        WireProtocol::Mysql => mysql::fill_table(connection, table, rows, &mut filler),
    }
}

/// The rows of a table, one after the other.
struct Filler<'a> {
    content: Content,
    /// The last row that was given.
    id: u64,
    loaded: &'a AtomicU64,
}

impl Filler<'_> {
    /// Sends all `rows` with `sql`, in pieces of about `piece_bytes`. `push` appends one row.
    fn send(
        &mut self,
        connection: &mut dyn Connection,
        sql: &str,
        (rows, piece_bytes): (u64, usize),
        push: fn(&Content, u64, &mut Vec<u8>),
    ) -> anyhow::Result<()> {
        let mut fill = |piece: &mut Vec<u8>| {
            let before = self.id;
            while self.id < rows && piece.len() + ROW_BYTES < piece_bytes {
                self.id += 1;
                push(&self.content, self.id, piece);
            }
            self.loaded.fetch_add(self.id - before, Ordering::Relaxed);
        };
        let done = connection.bulk(sql, &mut fill).with_context(|| format!("`{sql}…` failed"))?;
        ensure!(done.affected == rows, "the server took {} of {rows} rows", done.affected);
        Ok(())
    }
}
