//! What follows writes: the server does now, and not in the next measurement, what they have left
//! it to do.
//!
//! - PostgreSQL: VACUUM and ANALYZE of each table with its indexes, then a checkpoint.
//! - The MySQL family: ANALYZE of each table. Then InnoDB writes its dirty pages: its limits for
//!   them are lowered to 1% until few enough are left, and are then what they were; MyRocks writes
//!   its memtables and compacts the first level.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use catalog::protocol::{Event, Maintain, Maintained, WireProtocol};

use crate::admin::{analyze, engine, execute, rows_of, value_of};
use crate::connection::{self, Connection};
use crate::emit::Emitter;
use crate::job::Job;

/// From this release on VACUUM has to be told not to spare the indexes.
const INDEX_CLEANUP_SINCE: u32 = 120_000;
/// The two limits, the one that bounds the other last.
const LIMITS: [&str; 2] = ["innodb_max_dirty_pages_pct_lwm", "innodb_max_dirty_pages_pct"];
/// Dirty pages that may be left, in percent of all: the server itself stops at about 1%, by a count
/// of its own.
const LEFT_PERCENT: u64 = 2;
/// How often the server is asked how many are left.
const PAUSE: Duration = Duration::from_millis(100);

/// Brings the server to rest.
///
/// # Errors
///
/// When the server refuses a statement. Dirty pages that are left when the patience ends are none:
/// the event says so.
pub fn maintain(job: &Job, asked: &Maintain, emitter: &mut Emitter) -> anyhow::Result<()> {
    let mut connection = connection::connect(&job.server)?;
    let begin = Instant::now();
    let mut parts = Vec::new();
    let settled = match job.server.protocol {
        WireProtocol::Postgres => postgres(&mut *connection, asked, &mut parts)?,
        WireProtocol::Mysql => mysql(&mut *connection, asked, &mut parts)?,
    };
    let seconds = begin.elapsed().as_secs_f64();
    emitter.emit(&Event::Maintained(Maintained { seconds, parts, settled }))
}

type Parts = Vec<(String, f64)>;

/// Does one part and notes how long it took.
fn timed<T>(
    parts: &mut Parts,
    name: String,
    part: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let begin = Instant::now();
    let done = part()?;
    parts.push((name, begin.elapsed().as_secs_f64()));
    Ok(done)
}

fn postgres(
    connection: &mut dyn Connection,
    asked: &Maintain,
    parts: &mut Parts,
) -> anyhow::Result<bool> {
    let number = value_of(connection, "SHOW server_version_num")?;
    let release: u32 = number
        .as_deref()
        .and_then(|text| text.parse().ok())
        .with_context(|| format!("the server's `server_version_num` is {number:?}"))?;
    for table in &asked.tables {
        let sql = vacuum(release, table);
        timed(parts, sql.clone(), || execute(connection, &sql))?;
    }
    timed(parts, "CHECKPOINT".to_owned(), || execute(connection, "CHECKPOINT"))?;
    Ok(true)
}

fn vacuum(release: u32, table: &str) -> String {
    // Before release 12 it never spares them.
    let indexes = if release >= INDEX_CLEANUP_SINCE { ", INDEX_CLEANUP ON" } else { "" };
    format!("VACUUM (ANALYZE{indexes}) {table}")
}

fn mysql(
    connection: &mut dyn Connection,
    asked: &Maintain,
    parts: &mut Parts,
) -> anyhow::Result<bool> {
    let (mut innodb, mut rocksdb) = (false, false);
    for table in &asked.tables {
        timed(parts, format!("ANALYZE TABLE {table}"), || analyze(connection, table))?;
        match engine(connection, table)?.as_deref() {
            Some("InnoDB") => innodb = true,
            Some("ROCKSDB") => rocksdb = true,
            _ => {}
        }
    }
    if rocksdb {
        let sql = "SET GLOBAL rocksdb_force_flush_memtable_and_lzero_now = 1";
        timed(parts, sql.to_owned(), || execute(connection, sql))?;
    }
    if !innodb {
        return Ok(true);
    }
    let patience = Duration::from_secs_f64(asked.patience_seconds);
    timed(parts, "write dirty pages".to_owned(), || write_pages(connection, patience))
}

/// Has InnoDB write its dirty pages; whether few enough were left in time.
fn write_pages(connection: &mut dyn Connection, patience: Duration) -> anyhow::Result<bool> {
    let mut before = Vec::new();
    for name in LIMITS {
        let value = value_of(connection, &format!("SELECT @@GLOBAL.{name}"))?;
        before.push((name, value.with_context(|| format!("the server has no `{name}`"))?));
    }
    let written = lower_and_wait(connection, patience);
    // In the other order: one bounds the other. Also after a failure.
    for (name, value) in before.iter().rev() {
        execute(connection, &format!("SET GLOBAL {name} = {value}"))?;
    }
    written
}

fn lower_and_wait(connection: &mut dyn Connection, patience: Duration) -> anyhow::Result<bool> {
    for name in LIMITS {
        execute(connection, &format!("SET GLOBAL {name} = 1"))?;
    }
    let begin = Instant::now();
    loop {
        if is_settled(&pages(connection)?) {
            return Ok(true);
        }
        if begin.elapsed() >= patience {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
}

/// How many pages the buffer pool has.
#[derive(Debug)]
struct Pages {
    dirty: u64,
    all: u64,
}

fn is_settled(pages: &Pages) -> bool {
    pages.dirty * 100 <= pages.all * LEFT_PERCENT
}

fn pages(connection: &mut dyn Connection) -> anyhow::Result<Pages> {
    let sql = "SHOW GLOBAL STATUS LIKE 'Innodb\\_buffer\\_pool\\_pages\\_%'";
    let rows = rows_of(connection, sql)?;
    let number = |name: &str| -> anyhow::Result<u64> {
        let has = |row: &&Vec<Option<String>>| {
            let found = row.first().and_then(Option::as_deref);
            found.is_some_and(|found| found.eq_ignore_ascii_case(name))
        };
        let value = rows.iter().find(has).and_then(|row| row.get(1)?.as_deref());
        let value = value.with_context(|| format!("`{sql}` has no `{name}`"))?;
        value.parse().with_context(|| format!("`{name}` is `{value}`"))
    };
    Ok(Pages {
        dirty: number("Innodb_buffer_pool_pages_dirty")?,
        all: number("Innodb_buffer_pool_pages_total")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_not_spared() {
        assert_eq!(vacuum(90_624, "pi1"), "VACUUM (ANALYZE) pi1");
        assert_eq!(vacuum(110_022, "pi1"), "VACUUM (ANALYZE) pi1");
        assert_eq!(vacuum(120_000, "pi1"), "VACUUM (ANALYZE, INDEX_CLEANUP ON) pi1");
    }

    #[test]
    fn a_few_pages_may_be_left() {
        let settled = |dirty, all| is_settled(&Pages { dirty, all });
        assert!(settled(0, 500) && settled(10, 500));
        assert!(!settled(11, 500));
    }

    #[test]
    fn parts_are_noted_in_order_and_only_when_done() {
        let mut parts = Parts::new();
        let sleep = || {
            std::thread::sleep(PAUSE / 10);
            Ok(())
        };
        timed(&mut parts, "one".to_owned(), sleep).unwrap();
        timed(&mut parts, "two".to_owned(), || Ok(())).unwrap();
        timed::<()>(&mut parts, "no".to_owned(), || anyhow::bail!("no")).unwrap_err();
        let names: Vec<_> = parts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["one", "two"]);
        assert!(parts[0].1 >= 0.01);
    }
}
