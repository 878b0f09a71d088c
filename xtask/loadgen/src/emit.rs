//! Events to standard output, one line each, flushed at once: the tool acts on them in time.

use std::io::Write;

use anyhow::Context as _;
use catalog::protocol::Event;

/// Where events go.
pub struct Emitter {
    to: Box<dyn Write>,
}

impl Emitter {
    /// Writes to standard output.
    pub fn stdout() -> Self {
        Self { to: Box::new(std::io::stdout()) }
    }

    /// Writes one event.
    ///
    /// # Errors
    ///
    /// When nobody reads any more: the job is then pointless and ends.
    pub fn emit(&mut self, event: &Event) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(event).context("cannot write an event as JSON")?;
        line.push(b'\n');
        let written = self.to.write_all(&line).and_then(|()| self.to.flush());
        written.context("cannot write an event to standard output")
    }
}
