//! What a process that has ended used, read while the kernel still has its account.

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

/// CPU seconds in user mode and in the kernel of a child that has ended but was not waited for yet,
/// and of all that it waited for; none while it runs.
pub(super) fn of_ended(pid: u32) -> Option<(f64, f64)> {
    let id = Id::Pid(Pid::from_raw(i32::try_from(pid).ok()?));
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    match waitid(id, flags) {
        Ok(WaitStatus::StillAlive) | Err(_) => None,
        Ok(_) => cpu(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?),
    }
}

/// The CPU seconds in a line of `/proc/<pid>/stat`: `utime`, `stime`, `cutime` and `cstime`, the
/// 14th to 17th field, in ticks of 10 ms on every Linux (`proc(5)`).
fn cpu(stat: &str) -> Option<(f64, f64)> {
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
    let ticks: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let &[user, system, children_user, children_system] = ticks.as_slice() else { return None };
    let seconds = |own: u64, children: u64| (own + children) as f64 / 100.0;
    Some((seconds(user, children_user), seconds(system, children_system)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Proc;

    #[test]
    fn fields_of_a_process_with_an_odd_name() {
        let stat = "7 (a) b (c) Z 1 7 7 0 -1 4 0 0 0 0 100 20 3000 4 20 0 1 0 9";
        assert_eq!(cpu(stat), Some((31.0, 0.24)));
        assert_eq!(cpu("7 (a) Z 1 7"), None);
    }

    #[test]
    fn a_busy_child_of_a_child_is_counted() {
        // The inner shell works until it has used a tenth of a second.
        let work = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; true";
        let mut running = Proc::new("/bin/sh").args(["-c", work]).spawn().expect("started");
        assert_eq!(running.cpu_seconds(), None);
        running.wait(None).expect("ended");
        let used = running.cpu_seconds().expect("an account");
        assert!((0.02..60.0).contains(&used), "{used}");
    }
}
