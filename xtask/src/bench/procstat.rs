//! What a server's process tree used between two moments, from `/proc` (`proc(5)`).
//!
//! CPU time: the kernel keeps it in nanoseconds and prints `utime` and `stime` in ticks of 10 ms,
//! so the total of live threads is taken from `schedstat`, in nanoseconds, and only divided into
//! user and system by the ticks. What a process used is not lost when it ends: its parent's
//! `cutime`, `cstime` and `io` hold it from then on. (A control group would count it all in one
//! file, but groups change how the scheduler divides the cores, that is, what is to be measured.)
//!
//! Context switches have no such account, so each thread's last known number is kept
//! ([`Tracker::observe`], once per second of a window): an ended process loses at most its last
//! second.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::exit::{Code, coded};
use crate::record::ServerUsage;

/// Ticks per second of the values in `/proc/<pid>/stat`: `USER_HZ`, 100 on every Linux that Rust
/// runs on (`sysconf(3)` gives it, but needs unsafe code; the kernel fixes it in its interface).
const TICKS: f64 = 100.0;
/// How often a reading is begun anew when processes came or went in the middle of it.
const ATTEMPTS: usize = 50;

/// Watches one process tree.
#[derive(Debug)]
pub struct Tracker {
    proc: PathBuf,
    root: u32,
    /// Context switches by process, start time and thread: the last known numbers.
    switches: BTreeMap<(u32, u64, u32), u64>,
}

/// Everything that a tree used since it began to be watched; two of them make a [`ServerUsage`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    user_ticks: u64,
    system_ticks: u64,
    total_seconds: f64,
    read_bytes: i64,
    written_bytes: i64,
    context_switches: u64,
}

/// The fields of `/proc/<pid>/stat` that matter, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    user: u64,
    system: u64,
    children_user: u64,
    children_system: u64,
    start: u64,
}

impl Tracker {
    /// Watches the tree below the process `root`.
    ///
    /// # Errors
    /// When the kernel does not let this user read what the tree uses.
    pub fn new(root: u32) -> anyhow::Result<Self> {
        let mut tracker = Self { proc: PathBuf::from("/proc"), root, switches: BTreeMap::new() };
        tracker.read()?;
        Ok(tracker)
    }

    /// Notes the context switches so far.
    ///
    /// # Errors
    /// When the tree is gone.
    pub fn observe(&mut self) -> anyhow::Result<()> {
        for (pid, stat) in self.tree()? {
            self.note_switches(pid, stat.start);
        }
        Ok(())
    }

    /// The live processes of the tree.
    ///
    /// # Errors
    /// When the tree is gone.
    pub fn processes(&self) -> anyhow::Result<Vec<u32>> {
        Ok(self.tree()?.into_keys().collect())
    }

    /// The live threads of all processes of the tree.
    ///
    /// # Errors
    /// When the tree is gone.
    pub fn threads(&self) -> anyhow::Result<Vec<u32>> {
        let folders = self.processes()?.into_iter().map(|pid| self.proc.join(pid.to_string()));
        Ok(folders.flat_map(|folder| threads(&folder)).map(|(thread, _)| thread).collect())
    }

    /// Memory of the tree in KiB, shared pages divided among those that share them (`Pss` of
    /// `smaps_rollup`, proc(5)); `None` where a process cannot be read.
    pub fn memory_kib(&self) -> Option<f64> {
        let mut sum = 0;
        for pid in self.processes().ok()? {
            let file = self.proc.join(pid.to_string()).join("smaps_rollup");
            let text = std::fs::read_to_string(file).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
            sum += line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()?;
        }
        Some(sum as f64)
    }

    /// Reads everything, all of it or nothing: what is left out would look like a saving.
    ///
    /// # Errors
    /// When the tree is gone, the kernel does not let this user read what it uses, or processes
    /// come and go faster than they can be read.
    pub fn read(&mut self) -> anyhow::Result<Reading> {
        for _ in 0..ATTEMPTS {
            let tree = self.tree()?;
            let mut reading = Reading::default();
            let mut whole = true;
            for (pid, stat) in &tree {
                whole &= self.add(&mut reading, *pid, *stat)?;
            }
            // A process that ended meanwhile moved its account to its parent, which may have been
            // read before or after: only a tree that stood still gives the right sum.
            let key = |tree: &BTreeMap<u32, Stat>| -> Vec<(u32, u64, u64, u64)> {
                let fields =
                    |(pid, s): (&u32, &Stat)| (*pid, s.start, s.children_user, s.children_system);
                tree.iter().map(fields).collect()
            };
            if whole && key(&self.tree()?) == key(&tree) {
                reading.context_switches = self.switches.values().sum();
                return Ok(reading);
            }
        }
        bail!(
            "the server's processes come and go faster than they can be read: tried {ATTEMPTS} times"
        )
    }

    /// The live processes of the tree, root included.
    fn tree(&self) -> anyhow::Result<BTreeMap<u32, Stat>> {
        let mut all = BTreeMap::new();
        for entry in fs_err::read_dir(&self.proc)? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            // A process that ended meanwhile has no file any more.
            if let Some(stat) = stat(&self.proc.join(&name).join("stat")) {
                all.insert(pid, stat);
            }
        }
        all.get(&self.root).with_context(|| format!("process {} is gone", self.root))?;
        let inside = |mut pid: u32| {
            // Bounded, in case the numbers were read while they changed.
            for _ in 0..64 {
                if pid == self.root {
                    return true;
                }
                match all.get(&pid) {
                    Some(stat) => pid = stat.parent,
                    None => return false,
                }
            }
            false
        };
        Ok(all.iter().filter(|(pid, _)| inside(**pid)).map(|(pid, s)| (*pid, *s)).collect())
    }

    /// Adds one process; `false` when it is proven to have ended.
    ///
    /// # Errors
    /// When it lives and cannot be read.
    fn add(&mut self, reading: &mut Reading, pid: u32, stat: Stat) -> anyhow::Result<bool> {
        let folder = self.proc.join(pid.to_string());
        let gone = || self::stat(&folder.join("stat")).is_none_or(|now| now.start != stat.start);
        let io = match fs_err::read_to_string(folder.join("io")) {
            Ok(io) => io,
            Err(_) if gone() => return Ok(false),
            Err(error) => {
                return Err(coded(
                    Code::Environment,
                    format!("cannot read what the server uses: {error}"),
                ));
            }
        };
        let field = |name: &str| -> anyhow::Result<i64> {
            io.lines()
                .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
                .with_context(|| format!("`{}/io` has no `{name}`", folder.display()))
        };
        reading.read_bytes += field("read_bytes:")?;
        // What was written and deleted before it reached the disk never will.
        reading.written_bytes += field("write_bytes:")? - field("cancelled_write_bytes:")?;
        reading.user_ticks += stat.user + stat.children_user;
        reading.system_ticks += stat.system + stat.children_system;
        let ticks = |ticks: u64| ticks as f64 / TICKS;
        reading.total_seconds += ticks(stat.children_user + stat.children_system);
        // Threads that ended are only in the ticks of their process.
        let own = ticks(stat.user + stat.system);
        let live = thread_seconds(&folder);
        reading.total_seconds += live.filter(|live| *live > own - 0.02).unwrap_or(own);
        self.note_switches(pid, stat.start);
        Ok(true)
    }

    fn note_switches(&mut self, pid: u32, start: u64) {
        let folder = self.proc.join(pid.to_string());
        for (thread, folder) in threads(&folder) {
            let Ok(text) = std::fs::read_to_string(folder.join("status")) else { continue };
            let count = text
                .lines()
                .filter_map(|line| {
                    line.strip_prefix("voluntary_ctxt_switches:")
                        .or_else(|| line.strip_prefix("nonvoluntary_ctxt_switches:"))
                })
                .filter_map(|number| number.trim().parse::<u64>().ok())
                .sum();
            self.switches.insert((pid, start, thread), count);
        }
    }
}

impl Reading {
    /// What was used from `earlier` until now.
    pub fn since(&self, earlier: &Self) -> ServerUsage {
        let user = self.user_ticks.saturating_sub(earlier.user_ticks) as f64;
        let system = self.system_ticks.saturating_sub(earlier.system_ticks) as f64;
        let total = (self.total_seconds - earlier.total_seconds).max(0.0);
        let share = if user + system > 0.0 { user / (user + system) } else { 0.0 };
        // The kernel knows no more than microseconds of it; more digits would only be noise.
        let micros = |seconds: f64| (seconds * 1e6).round() / 1e6;
        let kib = |now: i64, then: i64| (now - then).max(0) as f64 / 1024.0;
        ServerUsage {
            user_seconds: micros(total * share),
            system_seconds: micros(total * (1.0 - share)),
            context_switches: self.context_switches.saturating_sub(earlier.context_switches),
            read_kib: kib(self.read_bytes, earlier.read_bytes),
            written_kib: kib(self.written_bytes, earlier.written_bytes),
        }
    }
}

/// CPU seconds of the live threads: the first number of `schedstat`, in nanoseconds. `None` on a
/// kernel without it.
fn thread_seconds(process: &Path) -> Option<f64> {
    let mut sum = 0;
    for (_, folder) in threads(process) {
        let text = std::fs::read_to_string(folder.join("schedstat")).ok()?;
        sum += text.split(' ').next()?.parse::<u64>().ok()?;
    }
    Some(sum as f64 / 1e9)
}

fn threads(process: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(process.join("task")) else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, entry.path()))
        })
        .collect()
}

fn stat(path: &Path) -> Option<Stat> {
    parse_stat(&std::fs::read_to_string(path).ok()?)
}

/// Fields 4, 14 to 17 and 22. The second field is the name in parentheses and may itself hold
/// spaces and parentheses, so counting begins behind the last one.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        parent: u32::try_from(number(4)?).ok()?,
        user: number(14)?,
        system: number(15)?,
        children_user: number(16)?,
        children_system: number(17)?,
        start: number(22)?,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::proc::Proc;

    #[test]
    fn names_with_spaces_and_parentheses_do_not_shift_the_fields() {
        let text = "42 (a) (b c) S 7 42 42 0 -1 4194304 100 0 0 0 11 12 13 14 20 0 1 0 999 1 2";
        let stat = parse_stat(text).expect("fields");
        assert_eq!((stat.parent, stat.user, stat.system), (7, 11, 12));
        assert_eq!((stat.children_user, stat.children_system, stat.start), (13, 14, 999));
        assert_eq!(parse_stat("42 (a) S"), None);
    }

    /// A shell that burns CPU in children that end, as a server's backends do.
    #[test]
    fn ended_children_are_counted() {
        // It says when it is done, and stays so that it can be read.
        let script = "read go; \
                      for i in 1 2 3; do (n=0; while [ $n -lt 60000 ]; do n=$((n+1)); done); done; \
                      dd if=/dev/zero of=\"$0\" bs=1024 count=512 2>/dev/null; echo done; sleep 60";
        let temp = tempfile::tempdir_in(".").expect("a directory");
        let file = temp.path().join("written");
        let mut shell = Proc::new("/bin/sh")
            .args(["-c", script])
            .arg(&file)
            .stdin("go\n")
            .spawn()
            .expect("a shell");
        let mut tracker = Tracker::new(shell.id()).expect("readable");
        let before = tracker.read().expect("readable");
        let begin = Instant::now();
        let mut out = shell.stdout().expect("a pipe");
        let mut word = [0; 4];
        out.read_exact(&mut word).expect("the loops end");
        let wall = begin.elapsed();
        let usage = tracker.read().expect("readable").since(&before);
        let cpu = usage.user_seconds + usage.system_seconds;
        shell.stop(Duration::from_secs(5));
        // The shell may have begun before the first reading, so only a wide lower bound is sure.
        assert!(cpu > 0.02, "{usage:?} in {wall:?}");
        assert!(cpu < wall.as_secs_f64() + 0.1, "{usage:?} in {wall:?}");
        assert!(usage.user_seconds > usage.system_seconds, "{usage:?}");
        assert!(usage.written_kib >= 512.0 && usage.written_kib < 1024.0, "{usage:?}");
        assert!(usage.context_switches > 0, "{usage:?}");
    }

    #[test]
    fn usage_is_the_difference_and_never_negative() {
        let earlier = Reading {
            user_ticks: 100,
            system_ticks: 50,
            total_seconds: 1.5,
            read_bytes: 4096,
            written_bytes: 8192,
            context_switches: 10,
        };
        let later = Reading {
            user_ticks: 130,
            system_ticks: 60,
            total_seconds: 1.9,
            read_bytes: 6144,
            written_bytes: 4096,
            context_switches: 15,
        };
        let usage = later.since(&earlier);
        assert!(
            (usage.user_seconds - 0.3).abs() < 1e-9 && (usage.system_seconds - 0.1).abs() < 1e-9
        );
        assert_eq!((usage.read_kib, usage.written_kib, usage.context_switches), (2.0, 0.0, 5));
        assert_eq!(earlier.since(&later).user_seconds, 0.0);
    }

    #[test]
    fn a_tree_that_is_gone_is_an_error() {
        let mut shell = Proc::new("/bin/sleep").arg("60").spawn().expect("sleep");
        let mut tracker = Tracker::new(shell.id()).expect("readable");
        shell.stop(Duration::from_secs(5));
        assert!(tracker.read().expect_err("gone").to_string().contains("is gone"));
    }

    /// A folder that looks like `/proc`: process 10 has the child 11.
    fn pretended() -> (tempfile::TempDir, Tracker) {
        let temp = tempfile::tempdir().expect("a directory");
        for (pid, parent) in [(10, 1), (11, 10)] {
            let folder = temp.path().join(pid.to_string());
            std::fs::create_dir_all(folder.join("task")).expect("made");
            let stat = format!(
                "{pid} (p) S {parent} 42 42 0 -1 4194304 100 0 0 0 100 50 0 0 20 0 1 0 999 1 2"
            );
            std::fs::write(folder.join("stat"), stat).expect("written");
            let io = "read_bytes: 1024\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n";
            std::fs::write(folder.join("io"), io).expect("written");
        }
        let proc = temp.path().to_owned();
        (temp, Tracker { proc, root: 10, switches: BTreeMap::new() })
    }

    #[test]
    fn a_reading_is_whole_or_an_error() {
        let (temp, mut tracker) = pretended();
        let whole = tracker.read().expect("all is there");
        assert_eq!((whole.user_ticks, whole.read_bytes), (200, 2048));
        assert!((whole.total_seconds - 3.0).abs() < 1e-9);
        // The child lives and cannot be read: half of the sum must not pass for all of it.
        std::fs::remove_file(temp.path().join("11/io")).expect("removed");
        let error = tracker.read().expect_err("not whole");
        assert_eq!(crate::exit::code_of(&error), Code::Environment);
        assert!(error.to_string().contains("11/io"), "{error:#}");
        std::fs::write(temp.path().join("11/io"), "read_bytes: 1\n").expect("written");
        let error = tracker.read().expect_err("not whole");
        assert!(error.to_string().contains("`write_bytes:`"), "{error:#}");
        // It has ended: what it used is in its parent's account now.
        let stat = stat(&temp.path().join("11/stat")).expect("fields");
        std::fs::remove_dir_all(temp.path().join("11")).expect("removed");
        assert!(!tracker.add(&mut Reading::default(), 11, stat).expect("gone"));
        assert_eq!(tracker.read().expect("all is there").user_ticks, 100);
    }

    #[test]
    fn a_process_of_another_start_is_not_the_one_that_ended() {
        let (temp, mut tracker) = pretended();
        let mut stat = stat(&temp.path().join("11/stat")).expect("fields");
        std::fs::remove_file(temp.path().join("11/io")).expect("removed");
        stat.start -= 1;
        assert!(!tracker.add(&mut Reading::default(), 11, stat).expect("gone"));
    }
}
