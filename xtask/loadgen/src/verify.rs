//! Verifies a microbenchmark: one event prepared and one as text, by the code that a run uses, each
//! statement's result compared with what the rows of the seed must give. What was written is read
//! back, and then the rows are put back as they were loaded, so that one load serves for all.
//!
//! Valid on freshly loaded data only: after a run that writes, rows are not those of the seed.

mod truth;

use std::ops::ControlFlow;

use anyhow::{Context as _, anyhow};
use catalog::Microbenchmark;
use catalog::protocol::{Event, WireProtocol};

use self::truth::Truth;
use crate::client::Client;
use crate::connection::{Connection, Rows};
use crate::emit::Emitter;
use crate::job::Job;

/// Separates the values that are verified from those of any client of a run.
const VERIFYING: u32 = u32::MAX;

/// Verifies `microbenchmark`.
///
/// # Errors
///
/// When a result is not what it must be; the message says which statement, and how it differs.
pub fn verify(
    job: &Job,
    microbenchmark: &Microbenchmark,
    emitter: &mut Emitter,
) -> anyhow::Result<()> {
    let mut compared = Vec::new();
    for prepared in [true, false] {
        if prepared && !microbenchmark.prepared {
            continue;
        }
        let how = if prepared { "prepared" } else { "text" };
        let (statements, rows) = one_event(job, microbenchmark, prepared).with_context(|| {
            format!(
                "`{}` ({how}) is not as it must be on freshly loaded data of {} rows and seed {}",
                microbenchmark.name, job.data.rows, job.data.seed
            )
        })?;
        compared.push(format!("{how}: {statements} statements, {rows} rows"));
    }
    emitter.emit(&Event::Verified {
        microbenchmark: microbenchmark.name.to_owned(),
        detail: compared.join("; "),
    })
}

/// Statements and rows that were compared.
fn one_event(
    job: &Job,
    microbenchmark: &Microbenchmark,
    prepared: bool,
) -> anyhow::Result<(u64, u64)> {
    let stream = (job.data.seed, VERIFYING);
    let mut client = Client::connect(&job.server, &job.data, microbenchmark, prepared, stream)?;
    client.keep_rows();
    let mut truth = Truth::new(&job.data);
    let (mut statements, mut rows) = (0, 0);
    let mut wrong = None;
    let ended = client.event(|executed| {
        statements += 1;
        rows += executed.done.rows;
        match truth.check(executed) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                wrong = Some(error.context(format!("statement {statements} of the event")));
                ControlFlow::Break(())
            }
        }
    });
    if let Err(error) = ended {
        wrong = Some(error.into());
    }
    // Also after a wrong result: what it wrote must not be found by the next.
    client.roll_back()?;
    let read_back = match wrong {
        Some(error) => Err(error),
        None => read_back(&mut *client.connection, &truth),
    };
    put_back(&mut *client.connection, &truth, job.server.protocol)?;
    Ok((statements, rows + read_back?))
}

/// Every row that the event has touched, compared with what it must be now.
fn read_back(connection: &mut dyn Connection, truth: &Truth) -> anyhow::Result<u64> {
    let mut compared = 0;
    for (table, id, expected) in truth.touched() {
        let sql = format!("SELECT k, c, pad FROM sbtest{table} WHERE id = {id}");
        let mut rows = Rows::new();
        connection.query(sql.as_bytes(), Some(&mut rows))?;
        let expected: Vec<_> = expected.into_iter().collect();
        truth::compare(&rows, &expected, false)
            .with_context(|| format!("`{sql}` after the event"))?;
        compared += rows.len() as u64;
    }
    Ok(compared)
}

/// Makes the touched rows again what they were when loaded.
fn put_back(
    connection: &mut dyn Connection,
    truth: &Truth,
    protocol: WireProtocol,
) -> anyhow::Result<()> {
    for sql in truth.undo(protocol) {
        connection
            .query(sql.as_bytes(), None)
            .map_err(|error| anyhow!(error).context("cannot put the rows back; load again"))?;
    }
    Ok(())
}
