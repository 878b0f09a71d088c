//! What the whole machine used between two moments, as `vmstat` and `iostat` count it: CPU time and
//! context switches from `/proc/stat`, the device below a folder from `/proc/diskstats` (`proc(5)`,
//! and the kernel's Documentation/admin-guide/iostats.rst).
//!
//! Other load of the machine is in these, which is what they are for beside the use of the server's
//! own processes ([`super::procstat`]): what they have more, something else used.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fs_err as fs;

use crate::record::{DeviceUsage, MachineUsage};

/// Ticks per second of `/proc/stat`: `USER_HZ`.
const TICKS: f64 = 100.0;
/// KiB of a sector of `/proc/diskstats`, 512 bytes whatever the device.
const SECTOR_KIB: f64 = 0.5;

/// Watches the machine and one device.
#[derive(Debug)]
pub struct Machine {
    proc: PathBuf,
    device: Option<(u64, u64)>,
}

/// Counts since the machine was booted; two of them make a [`MachineUsage`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    user: u64,
    system: u64,
    stolen: u64,
    context_switches: u64,
    device: Option<Device>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Device {
    name: String,
    reads: u64,
    sectors_read: u64,
    writes: u64,
    sectors_written: u64,
}

impl Machine {
    /// Watches the machine and the device that holds `folder`; a folder in memory or on a network
    /// has none.
    ///
    /// # Errors
    /// When the folder cannot be looked at.
    pub fn new(folder: &Path) -> anyhow::Result<Self> {
        let number = fs::metadata(folder)?.dev();
        let device = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
        Ok(Self { proc: "/proc".into(), device: Some(device) }.with_source(folder))
    }

    /// File systems that span devices (Btrfs, overlays) have numbers of their own: then the device
    /// is the one that the mount names.
    fn with_source(mut self, folder: &Path) -> Self {
        let listed = |device: &(u64, u64)| self.device_now(*device).ok().flatten().is_some();
        if self.device.as_ref().is_some_and(listed) {
            return self;
        }
        let mounts = fs::read_to_string(self.proc.join("self/mountinfo")).unwrap_or_default();
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        self.device = source_of(&mounts, &folder).and_then(|source| {
            let number = fs::metadata(source).ok()?.rdev();
            Some((nix::sys::stat::major(number), nix::sys::stat::minor(number)))
        });
        self
    }

    /// Reads everything.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn read(&self) -> anyhow::Result<Reading> {
        let stat = fs::read_to_string(self.proc.join("stat"))?;
        let mut reading = parse_stat(&stat).context("`/proc/stat` is not as expected")?;
        reading.device = self.device.map(|device| self.device_now(device)).transpose()?.flatten();
        Ok(reading)
    }

    fn device_now(&self, device: (u64, u64)) -> anyhow::Result<Option<Device>> {
        let text = fs::read_to_string(self.proc.join("diskstats"))?;
        Ok(text.lines().find_map(|line| parse_device(line, device)))
    }
}

/// The device file of the mount that holds a folder: the last of the longest mount points above it.
fn source_of(mounts: &str, folder: &Path) -> Option<PathBuf> {
    let lines = mounts.lines().filter_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let point = PathBuf::from(head.split(' ').nth(4)?);
        let source = tail.split(' ').nth(1)?;
        folder.starts_with(&point).then(|| (point.components().count(), source.to_owned()))
    });
    let (_, source) = lines.max_by_key(|(depth, _)| *depth)?;
    source.starts_with("/dev/").then(|| source.into())
}

/// The first line and `ctxt` of `/proc/stat`.
fn parse_stat(text: &str) -> Option<Reading> {
    let cpu: Vec<u64> = text
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))?
        .split_ascii_whitespace()
        .map(|number| number.parse().ok())
        .collect::<Option<_>>()?;
    let at = |index: usize| cpu.get(index).copied().unwrap_or(0);
    let switches = text.lines().find_map(|line| line.strip_prefix("ctxt "))?;
    Some(Reading {
        // As vmstat has them: `us` is user and nice, `sy` system, irq and softirq.
        user: at(0) + at(1),
        system: at(2) + at(5) + at(6),
        stolen: at(7),
        context_switches: switches.trim().parse().ok()?,
        device: None,
    })
}

/// One line of `/proc/diskstats`, if it is of this device.
fn parse_device(line: &str, device: (u64, u64)) -> Option<Device> {
    let mut fields = line.split_ascii_whitespace();
    let major: u64 = fields.next()?.parse().ok()?;
    let minor: u64 = fields.next()?.parse().ok()?;
    if (major, minor) != device {
        return None;
    }
    let name = fields.next()?.to_owned();
    let numbers: Vec<u64> = fields.map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let at = |index: usize| numbers.get(index).copied();
    Some(Device {
        name,
        reads: at(0)?,
        sectors_read: at(2)?,
        writes: at(4)?,
        sectors_written: at(6)?,
    })
}

impl Reading {
    /// What was used from `earlier` until now.
    pub fn since(&self, earlier: &Self) -> MachineUsage {
        let seconds = |now: u64, then: u64| now.saturating_sub(then) as f64 / TICKS;
        let kib = |now: u64, then: u64| now.saturating_sub(then) as f64 * SECTOR_KIB;
        let device = match (&self.device, &earlier.device) {
            (Some(now), Some(then)) if now.name == then.name => Some(DeviceUsage {
                name: now.name.clone(),
                reads: now.reads.saturating_sub(then.reads),
                read_kib: kib(now.sectors_read, then.sectors_read),
                writes: now.writes.saturating_sub(then.writes),
                written_kib: kib(now.sectors_written, then.sectors_written),
            }),
            _ => None,
        };
        MachineUsage {
            user_seconds: seconds(self.user, earlier.user),
            system_seconds: seconds(self.system, earlier.system),
            stolen_seconds: seconds(self.stolen, earlier.stolen),
            context_switches: self.context_switches.saturating_sub(earlier.context_switches),
            device,
        }
    }
}

/// KiB that a folder's files take on disk, without those that vanish meanwhile.
pub fn size_kib(folder: &Path) -> f64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0.0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => size_kib(&entry.path()),
        Ok(meta) => meta.blocks() as f64 * SECTOR_KIB,
        Err(_) => 0.0,
    };
    entries.flatten().map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 20 30 4000 50 6 7 8 0 0\ncpu0 1 2 3\nctxt 12345\nbtime 1\n";
    const DISK: &str = " 254 0 vda 10 1 200 3 40 5 600 7 0 8 9 1 2 3 4 5 6";

    #[test]
    fn counts_are_those_of_vmstat_and_iostat() {
        let reading = parse_stat(STAT).expect("counts");
        assert_eq!((reading.user, reading.system, reading.stolen), (120, 43, 8));
        assert_eq!(reading.context_switches, 12_345);
        let device = parse_device(DISK, (254, 0)).expect("the device");
        assert_eq!((device.reads, device.sectors_read), (10, 200));
        assert_eq!((device.writes, device.sectors_written), (40, 600));
        assert_eq!(parse_device(DISK, (254, 1)), None);
        assert_eq!(parse_stat("cpu x"), None);
        let earlier = Reading { device: Some(device.clone()), ..reading.clone() };
        let later = Reading {
            user: 220,
            context_switches: 12_400,
            device: Some(Device { sectors_written: 608, writes: 41, ..device }),
            ..reading
        };
        let usage = later.since(&earlier);
        assert_eq!((usage.user_seconds, usage.system_seconds), (1.0, 0.0));
        assert_eq!(usage.context_switches, 55);
        let device = usage.device.expect("the device");
        assert_eq!((device.writes, device.written_kib, device.read_kib), (1, 4.0, 0.0));
        assert_eq!(earlier.since(&later).context_switches, 0);
    }

    #[test]
    fn the_device_is_that_of_the_deepest_mount() {
        let mounts = "20 1 0:30 / / rw - btrfs /dev/sda2 rw\n\
                      21 20 8:1 / /data rw - ext4 /dev/sdb1 rw\n\
                      22 20 0:40 / /data/mem rw - tmpfs tmpfs rw\n";
        let of = |folder: &str| source_of(mounts, Path::new(folder));
        assert_eq!(of("/home/x"), Some("/dev/sda2".into()));
        assert_eq!(of("/data/pg"), Some("/dev/sdb1".into()));
        assert_eq!(of("/data/mem/x"), None);
        assert_eq!(of("/database"), Some("/dev/sda2".into()));
    }

    #[test]
    fn this_machine_can_be_read_and_a_folder_has_a_size() {
        let temp = tempfile::tempdir_in(".").expect("a folder");
        std::fs::create_dir(temp.path().join("below")).expect("made");
        std::fs::write(temp.path().join("below/file"), vec![1; 100_000]).expect("written");
        let machine = Machine::new(temp.path()).expect("readable");
        let before = machine.read().expect("readable");
        std::thread::sleep(std::time::Duration::from_millis(30));
        let usage = machine.read().expect("readable").since(&before);
        assert!(usage.context_switches > 0, "{usage:?}");
        let size = size_kib(temp.path());
        assert!((97.0..200.0).contains(&size) || size == 0.0, "{size}");
    }
}
