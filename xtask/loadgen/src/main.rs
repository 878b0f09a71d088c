//! The built-in load driver: reads one job from standard input, does it, writes events to standard
//! output (`catalog::protocol` has both). A process of its own, so that its CPU can be pinned and
//! accounted and its dependencies stay out of the tool.

mod admin;
mod client;
mod connection;
mod content;
mod count;
mod draw;
mod emit;
mod insert;
mod job;
mod latency;
mod load;
mod maintain;
mod params;
mod rng;
mod run;
mod schedule;
mod sql;
mod usage;
mod verify;
mod window;
mod zipf;

use std::io::Read as _;
use std::process::ExitCode;

use catalog::protocol::Event;

use crate::emit::Emitter;
use crate::job::{Job, Task};

/// The job failed; the last event says why.
const FAILED: u8 = 1;
/// The job was not understood.
const NOT_UNDERSTOOD: u8 = 2;

fn main() -> ExitCode {
    let mut text = String::new();
    let job = std::io::stdin()
        .read_to_string(&mut text)
        .map_err(anyhow::Error::from)
        .and_then(|_| Job::parse(&text));
    let job = match job {
        Ok(job) => job,
        Err(error) => {
            eprintln!("loadgen: cannot understand the job on standard input: {error:#}");
            return ExitCode::from(NOT_UNDERSTOOD);
        }
    };
    let mut emitter = Emitter::stdout();
    let done = match &job.task {
        Task::Load { connections } => load::load(&job, *connections, &mut emitter),
        Task::Verify(microbenchmark) => verify::verify(&job, microbenchmark, &mut emitter),
        Task::Run(run) => run::run(&job, run, &mut emitter),
        Task::Count(microbenchmark, asked) => {
            count::count(&job, microbenchmark, asked, &mut emitter)
        }
        Task::InsertStep(step) => insert::step(&job, step, &mut emitter),
        Task::Maintain(asked) => maintain::maintain(&job, asked, &mut emitter),
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    let reason = format!("{error:#}");
    if emitter.emit(&Event::Failed { reason: reason.clone() }).is_err() {
        eprintln!("loadgen: {reason}");
    }
    ExitCode::from(FAILED)
}
