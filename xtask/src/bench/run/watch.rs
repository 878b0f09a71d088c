//! The use of server and machine in one window.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::bench::machine::{self, Machine, size_kib};
use crate::bench::procstat::{self, Tracker};
use crate::record::{MachineUsage, ServerUsage, Sizes};
use crate::server::Server;

/// Watches server and machine.
pub(super) struct Watch {
    tracker: Tracker,
    machine: Machine,
    data: PathBuf,
    before: Option<(procstat::Reading, machine::Reading)>,
    after: Option<(procstat::Reading, machine::Reading)>,
}

/// What was used in a window.
pub(super) struct Used {
    pub server: ServerUsage,
    pub machine: MachineUsage,
    pub sizes: Sizes,
}

impl Watch {
    /// A watch of a server with this data directory.
    pub(super) fn new(server: &Server, data: PathBuf) -> anyhow::Result<Self> {
        let tracker = Tracker::new(server.id())?;
        let machine = Machine::new(&data)?;
        Ok(Self { tracker, machine, data, before: None, after: None })
    }

    /// The window begins.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        self.before = Some((self.tracker.read()?, self.machine.read()?));
        Ok(())
    }

    /// The server's processes.
    pub(super) fn processes(&self) -> anyhow::Result<Vec<u32>> {
        self.tracker.processes()
    }

    /// Once per second of the window.
    pub(super) fn observe(&mut self) -> anyhow::Result<()> {
        self.tracker.observe()
    }

    /// The window ends.
    pub(super) fn end(&mut self) -> anyhow::Result<()> {
        let machine = self.machine.read()?;
        self.after = Some((self.tracker.read()?, machine));
        Ok(())
    }

    /// What was used; sizes are those of now.
    ///
    /// # Errors
    /// When the window did not begin and end.
    pub(super) fn used(&self) -> anyhow::Result<Used> {
        let missing = "the load driver did not tell when its window began and ended";
        let before = self.before.as_ref().context(missing)?;
        let after = self.after.as_ref().context(missing)?;
        Ok(Used {
            server: after.0.since(&before.0),
            machine: after.1.since(&before.1),
            sizes: Sizes { memory_kib: self.tracker.memory_kib(), data_kib: size_kib(&self.data) },
        })
    }
}
