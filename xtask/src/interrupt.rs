//! Ctrl-C and termination: one flag for the whole process and the list of live process groups.
//!
//! Children run in process groups of their own, so a terminal's Ctrl-C reaches only this tool; it
//! stops each group with the signal that the group wants, waits, and kills what is left. A second
//! Ctrl-C kills at once.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::{Code, coded};

/// How long a process group gets between the polite signal and SIGKILL.
pub const GRACE: Duration = Duration::from_secs(10);

static REQUESTS: AtomicUsize = AtomicUsize::new(0);
static GROUPS: Mutex<BTreeMap<i32, Signal>> = Mutex::new(BTreeMap::new());

/// Installs the handlers; called once by `main`.
///
/// # Errors
/// When the kernel refuses a handler.
pub fn install() -> anyhow::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            let earlier = REQUESTS.fetch_add(1, Ordering::SeqCst);
            if earlier == 0 {
                eprintln!("stopping: waiting for the children (again to kill them at once)");
                std::thread::spawn(|| stop_all(GRACE));
            } else {
                signal_groups(Some(Signal::SIGKILL));
            }
        }
    })?;
    Ok(())
}

/// Whether the user asked to stop.
pub fn requested() -> bool {
    REQUESTS.load(Ordering::SeqCst) > 0
}

/// An error as soon as the user asked to stop; called between steps.
///
/// # Errors
/// With [`Code::Interrupted`] after a stop was asked for.
pub fn check() -> anyhow::Result<()> {
    if requested() { Err(coded(Code::Interrupted, "stopped by the user")) } else { Ok(()) }
}

/// Sleeps, but wakes up and returns the error of [`check`] when the user asks to stop.
///
/// # Errors
/// As [`check`].
pub fn sleep(duration: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + duration;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Registers a live process group with the signal that stops it politely.
pub fn register(group: u32, stop: Signal) {
    lock().insert(group as i32, stop);
}

/// Forgets a process group that has ended.
pub fn unregister(group: u32) {
    lock().remove(&(group as i32));
}

/// Sends every live group its stop signal, waits up to `grace`, then kills what is left.
pub fn stop_all(grace: Duration) {
    signal_groups(None);
    let end = Instant::now() + grace;
    while Instant::now() < end && !lock().is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    signal_groups(Some(Signal::SIGKILL));
}

fn signal_groups(signal: Option<Signal>) {
    for (group, stop) in lock().iter() {
        // A group that is gone already is no error.
        let _ = killpg(Pid::from_raw(*group), signal.unwrap_or(*stop));
    }
}

fn lock() -> std::sync::MutexGuard<'static, BTreeMap<i32, Signal>> {
    GROUPS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
