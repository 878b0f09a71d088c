//! What one step of a build uses: the most memory that any of its processes had at once.
//!
//! The kernel keeps this number per process (`VmHWM` of `proc(5)`) and forgets it with the process,
//! so it is read twice a second; a process that lives for a shorter time is small.

use std::path::Path;
use std::time::{Duration, Instant};

/// How often is looked.
const EVERY: Duration = Duration::from_millis(500);

/// Watches the processes of one group.
#[derive(Debug)]
pub struct Peak {
    group: u32,
    kib: u64,
    looked: Instant,
}

impl Peak {
    /// Watches the group of this number.
    pub fn of_group(group: u32) -> Self {
        Self { group, kib: 0, looked: Instant::now() }
    }

    /// Looks, if it is time.
    pub fn look(&mut self) {
        if self.looked.elapsed() >= EVERY {
            self.looked = Instant::now();
            self.kib = self.kib.max(largest(Path::new("/proc"), self.group));
        }
    }

    /// The most memory of one process so far, in MiB (1,048,576 bytes); none for a step that was
    /// over before the first look.
    pub fn mib(&self) -> Option<u64> {
        (self.kib > 0).then_some(self.kib.div_ceil(1024))
    }
}

/// The largest process of a group, in KiB.
fn largest(proc: &Path, group: u32) -> u64 {
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
        .filter_map(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            if group_of(&stat)? != group {
                return None;
            }
            let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
            line.trim().trim_end_matches("kB").trim().parse().ok()
        })
        .max()
        .unwrap_or(0)
}

/// The process group in a line of `/proc/<pid>/stat`: the third field behind the name, which may
/// itself have blanks and parentheses.
fn group_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_the_group() {
        let proc = tempfile::tempdir().expect("a folder");
        let write = |pid: u32, group: u32, kib: u64| {
            let folder = proc.path().join(pid.to_string());
            std::fs::create_dir(&folder).expect("made");
            let stat = format!("{pid} (a (b) c) S 1 {group} 7 0");
            std::fs::write(folder.join("stat"), stat).expect("written");
            let status = format!("Name:\tx\nVmHWM:\t  {kib} kB\n");
            std::fs::write(folder.join("status"), status).expect("written");
        };
        write(10, 10, 100);
        write(11, 10, 3_000);
        write(12, 12, 9_000);
        std::fs::create_dir(proc.path().join("self")).expect("made");
        assert_eq!(largest(proc.path(), 10), 3_000);
        assert_eq!(largest(proc.path(), 13), 0);
        let peak = Peak { kib: 3_000, ..Peak::of_group(10) };
        assert_eq!((peak.mib(), Peak::of_group(10).mib()), (Some(3), None));
    }
}
