//! What a step needs before it begins: tables, connections, prepared statements, the ends of the
//! tables.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;

use anyhow::Context as _;
use catalog::protocol::{InsertStep, Queries, Server, StepKind, WireProtocol};

use super::Member;
use super::client::{Deleter, Indexer, Inserter, Querier, edge};
use super::pace::Pace;
use super::rows::{Purpose, RowSource, stream};
use super::statements;
use crate::admin::{engine, execute, rows_of};
use crate::connection;

/// How many statements a deleter may be behind its inserter.
const QUEUE: usize = 8;

/// The connections of a step, ready to begin.
///
/// # Errors
///
/// When the server refuses a connection or a statement.
pub fn members(server: &Server, step: &InsertStep) -> anyhow::Result<Vec<Member>> {
    match step.step {
        StepKind::Index => return indexers(server, step),
        StepKind::Load => make_tables(server, step).context("cannot make the tables")?,
        StepKind::Write | StepKind::Read { .. } => {}
    }
    let mut members = Vec::new();
    for client in 0..step.clients {
        add_client(server, step, client, &mut members)
            .with_context(|| format!("cannot set up client {client} (were the tables loaded?)"))?;
    }
    Ok(members)
}

/// Drops the tables of earlier runs, also those of more clients, and makes new ones.
fn make_tables(server: &Server, step: &InsertStep) -> anyhow::Result<()> {
    let mut connection = connection::connect(server)?;
    let schema = match server.protocol {
        WireProtocol::Postgres => "current_schema()",
        WireProtocol::Mysql => "DATABASE()",
    };
    let sql = format!(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = {schema} AND \
         table_name LIKE 'pi%'"
    );
    let rows = rows_of(&mut *connection, &sql)?;
    for name in rows.into_iter().flatten().flatten().filter(|name| is_ours(name)) {
        execute(&mut *connection, &format!("DROP TABLE {name}"))?;
    }
    for table in step.table_names() {
        for sql in statements::create_table(server.protocol, &table) {
            execute(&mut *connection, &sql)?;
        }
    }
    Ok(())
}

/// Whether this is the name of a table of the insert benchmark, whatever the number of clients.
fn is_ours(name: &str) -> bool {
    name.strip_prefix("pi")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

fn indexers(server: &Server, step: &InsertStep) -> anyhow::Result<Vec<Member>> {
    let indexer = |table: String| {
        let mut connection = connection::connect(server)?;
        // MyRocks needs memory for each index that it makes at once.
        let at_once = server.protocol == WireProtocol::Postgres
            || engine(&mut *connection, &table)?.as_deref() != Some("ROCKSDB");
        let statements = statements::create_indexes(server.protocol, &table, at_once);
        let each = (statements::INDEXES.len() / statements.len()) as u64;
        let statements = statements.into_iter().map(|sql| (sql, each)).collect();
        let indexer: Member =
            (format!("indexing `{table}`"), Box::new(Indexer { connection, statements }));
        Ok(indexer)
    };
    step.table_names().into_iter().map(indexer).collect()
}

/// The connections of client number `client`, from 0.
fn add_client(
    server: &Server,
    step: &InsertStep,
    client: u32,
    members: &mut Vec<Member>,
) -> anyhow::Result<()> {
    let tables = step.table_names();
    let table = &tables[client as usize % tables.len()];
    let batch_rows = step.batch_rows();
    let mut connection = connection::connect(server)?;
    let first = edge(&mut *connection, "min", table)?.unwrap_or(1);
    let low = Arc::new(AtomicU64::new(first));
    let mut deleter = None;
    if step.deletes {
        let (sender, receiver) = mpsc::sync_channel(QUEUE);
        deleter = Some(sender);
        let worker = Deleter {
            connection: connection::connect(server)?,
            protocol: server.protocol,
            table: table.clone(),
            batch_rows,
            low: Arc::clone(&low),
            inserted: Some(receiver),
        };
        members.push((format!("the deletes of client {client}"), Box::new(worker)));
    }
    let before = step.rows_before / u64::from(step.clients);
    let worker = Inserter {
        connection,
        insert: statements::insert(table),
        rows: RowSource::new(step.seed, client, before),
        batch_rows,
        batches: step.batches_per_client(),
        pace: step.rate.map(|rate| Pace::new(batch_rows, rate, client, step.clients)),
        deleter,
    };
    members.push((format!("the inserts of client {client}"), Box::new(worker)));
    if let StepKind::Read { queries } = step.step {
        let worker = querier(server, (step.seed, client), table, queries, low)?;
        members.push((format!("the queries of client {client}"), Box::new(worker)));
    }
    Ok(())
}

fn querier(
    server: &Server,
    (seed, client): (u64, u32),
    table: &str,
    kind: Queries,
    low: Arc<AtomicU64>,
) -> anyhow::Result<Querier> {
    let mut connection = connection::connect(server)?;
    let high = match kind {
        Queries::Point => Some(edge(&mut *connection, "max", table)?.unwrap_or(1)),
        Queries::Range => None,
    };
    let queries = statements::queries(server.protocol, table, kind)
        .into_iter()
        .map(|query| {
            // As the published client does: MySQL gets its queries as text.
            let prepared = match server.protocol {
                WireProtocol::Postgres => Some(connection.prepare(&query.sql.to_prepare())?),
                WireProtocol::Mysql => None,
            };
            Ok((query, prepared))
        })
        .collect::<anyhow::Result<_>>()?;
    let rng = stream(seed, client, Purpose::Queries);
    Ok(Querier { connection, table: table.to_owned(), queries, rng, low, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_tables_are_dropped() {
        assert!(["pi1", "pi12"].into_iter().all(is_ours));
        assert!(["pi", "pi1x", "pictures", "api1", "pi_1"].into_iter().all(|name| !is_ours(name)));
    }
}
