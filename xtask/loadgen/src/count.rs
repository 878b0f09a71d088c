//! A fixed number of events on one connection: no clock decides what is executed, so two calls with
//! one seed send the same bytes in the same order.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use catalog::Microbenchmark;
use catalog::protocol::{Count, Counted, Event};

use crate::client::Client;
use crate::emit::Emitter;
use crate::job::Job;

/// How long a server that has answered may take to wait for the next statement.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause between statements where nobody can see whether the server waits.
const PAUSE: Duration = Duration::from_millis(1);

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
    settle(process);
    for number in 1..=asked.events {
        let ended = client.event(|executed| {
            queries += 1;
            rows += executed.done.rows;
            settle(process);
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

/// Waits until the server waits for the next statement. A statement that is there already when the
/// server looks saves it the instructions of waiting, so chance would decide what is counted.
fn settle(process: Option<u32>) {
    let Some(process) = process else {
        std::thread::sleep(PAUSE);
        return;
    };
    let path = format!("/proc/{process}/stat");
    let begin = Instant::now();
    // A file that cannot be read leaves chance in, which is no failure.
    while std::fs::read_to_string(&path).is_ok_and(|text| !is_asleep(&text)) {
        if begin.elapsed() > PATIENCE {
            return;
        }
        std::thread::yield_now();
    }
}

/// Whether a process sleeps until something happens, by its `stat`: the field behind the name
/// (`proc(5)`), which is in parentheses and may hold some itself.
fn is_asleep(stat: &str) -> bool {
    stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('S'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_stands_behind_the_name() {
        assert!(is_asleep("42 (postgres) S 1 42"));
        assert!(is_asleep("42 (a) R (b) S 1 42"));
        for running in ["42 (S) R 1 42", "42 (postgres) D 1", "", "42 (S"] {
            assert!(!is_asleep(running), "{running}");
        }
    }
}
