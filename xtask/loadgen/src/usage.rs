//! What the driver itself uses of the machine: getrusage(2) of the whole process, all threads.

use anyhow::Context as _;
use catalog::protocol::ClientUsage;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// The counters since the process began.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    user_seconds: f64,
    system_seconds: f64,
    context_switches: u64,
}

impl Usage {
    /// The counters now.
    pub fn now() -> anyhow::Result<Self> {
        let usage =
            getrusage(UsageWho::RUSAGE_SELF).context("cannot read the driver's own usage")?;
        let switches = usage.voluntary_context_switches() + usage.involuntary_context_switches();
        Ok(Self {
            user_seconds: seconds(usage.user_time()),
            system_seconds: seconds(usage.system_time()),
            context_switches: u64::try_from(switches).unwrap_or_default(),
        })
    }

    /// What was used since `earlier`.
    pub fn since(&self, earlier: &Self) -> ClientUsage {
        // The kernel scales user and system time to their exact sum: one of them may step back.
        ClientUsage {
            user_seconds: (self.user_seconds - earlier.user_seconds).max(0.0),
            system_seconds: (self.system_seconds - earlier.system_seconds).max(0.0),
            context_switches: self.context_switches.saturating_sub(earlier.context_switches),
        }
    }
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn busy_time_and_sleeps_are_seen() {
        let before = Usage::now().unwrap();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(30) {}
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let used = Usage::now().unwrap().since(&before);
        let cpu = used.user_seconds + used.system_seconds;
        // At most what the other tests' threads add; at least what a busy machine leaves of it.
        assert!(cpu > 0.003, "{used:?}");
        assert!(used.context_switches >= 5, "{used:?}");
    }
}
