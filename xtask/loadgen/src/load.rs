//! Makes the tables and fills them: COPY, then the secondary indexes, then VACUUM, ANALYZE and a
//! checkpoint, so that every load of one seed leaves the server the same work.
//!
//! One connection fills one table: rows then lie in the order of their ids, whatever the number of
//! connections, and plans and cache hits do not depend on it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use catalog::protocol::Event;

use crate::connection::{self, Connection};
use crate::content::Content;
use crate::emit::Emitter;
use crate::job::Job;

/// About as much as a socket takes at once.
const PIECE_BYTES: usize = 128 * 1024;
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
    let mut connection = connection::connect(&job.server)?;
    execute(&mut *connection, "CHECKPOINT")?;
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
    let rows = job.data.rows;
    execute(connection, "BEGIN")?;
    execute(connection, &create_table(table))?;
    let copied = copy(connection, &Content::new(&job.data, table), table, rows, loaded)?;
    ensure!(copied == rows, "the server took {copied} of {rows} rows");
    execute(connection, &format!("SELECT setval('sbtest{table}_id_seq', {rows})"))?;
    execute(connection, "COMMIT")?;
    execute(connection, &format!("CREATE INDEX k_{table} ON sbtest{table} (k)"))?;
    execute(connection, &format!("VACUUM (ANALYZE) sbtest{table}"))
}

/// sysbench's table. The primary key is there from the beginning, as it is with sysbench.
fn create_table(table: u32) -> String {
    format!(
        "CREATE TABLE sbtest{table} (id SERIAL PRIMARY KEY, k INTEGER DEFAULT 0 NOT NULL, \
         c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL)"
    )
}

fn copy(
    connection: &mut dyn Connection,
    content: &Content,
    table: u32,
    rows: u64,
    loaded: &AtomicU64,
) -> anyhow::Result<u64> {
    let mut id = 0;
    let mut fill = |piece: &mut Vec<u8>| {
        let before = id;
        while id < rows && piece.len() + ROW_BYTES < PIECE_BYTES {
            id += 1;
            content.push_copy_line(id, piece);
        }
        loaded.fetch_add(id - before, Ordering::Relaxed);
    };
    let sql = format!("COPY sbtest{table} (id, k, c, pad) FROM STDIN");
    Ok(connection.copy_in(&sql, &mut fill)?.affected)
}

fn execute(connection: &mut dyn Connection, sql: &str) -> anyhow::Result<()> {
    connection.query(sql.as_bytes(), None).with_context(|| format!("`{sql}` failed"))?;
    Ok(())
}
