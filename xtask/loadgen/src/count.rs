//! A fixed number of events on one connection: no clock decides what is executed, so two calls with
//! one seed send the same bytes in the same order.

use std::ops::ControlFlow;

use anyhow::{Context as _, bail};
use catalog::Microbenchmark;
use catalog::protocol::{Count, Counted, Event};

use crate::client::Client;
use crate::emit::Emitter;
use crate::job::Job;

/// Executes the events, closes the connection and tells.
///
/// # Errors
///
/// When an event fails, whatever the reason: one that was refused does other work than the rest.
pub fn count(
    job: &Job,
    microbenchmark: &Microbenchmark,
    asked: &Count,
    emitter: &mut Emitter,
) -> anyhow::Result<()> {
    let stream = (asked.seed, 0);
    let mut client =
        Client::connect(&job.server, &job.data, microbenchmark, asked.prepared, stream)
            .context("cannot set up the client")?;
    let process = client.connection.process();
    let (mut queries, mut rows) = (0, 0);
    for number in 1..=asked.events {
        let ended = client.event(|executed| {
            queries += 1;
            rows += executed.done.rows;
            ControlFlow::Continue(())
        });
        if let Err(error) = ended {
            bail!("event {number} of {} failed: {error}", asked.events);
        }
    }
    // The server must see the end of the connection before anybody acts on the event.
    drop(client);
    emitter.emit(&Event::Counted(Counted { events: asked.events, queries, rows, process }))
}
