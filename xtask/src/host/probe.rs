//! Reading the machine from `/proc`, `/sys` and `/etc`. What a kernel or a virtual machine does not
//! show is left out, never guessed.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context as _;
use fs_err as fs;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use super::{Hardware, State, os};
use crate::hash::Digest;

const CPUS: &str = "/sys/devices/system/cpu";

/// The kernel's boot id.
pub fn boot() -> anyhow::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// The cores that this tool may use.
///
/// # Errors
/// When the kernel does not tell the set.
pub fn allowed_cpus() -> anyhow::Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0)).context("cannot tell the allowed cores")?;
    Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect())
}

/// What stays.
pub fn hardware() -> anyhow::Result<Hardware> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
    let meminfo = fs::read_to_string("/proc/meminfo")?;
    let release = os::release();
    let (sockets, cores, threads) = topology();
    Ok(Hardware {
        arch: std::env::consts::ARCH.to_owned(),
        distribution: [os::field(&release, "ID"), os::field(&release, "VERSION_ID")]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("-"),
        machine: machine(),
        cpu_model: first(&cpuinfo, &["model name", "Model", "Processor"])
            .unwrap_or_else(|| "unknown".to_owned()),
        cpu_ids: CPU_IDS
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), first(&cpuinfo, &[key])?)))
            .collect(),
        sockets,
        cores,
        threads,
        numa_nodes: numbered(Path::new("/sys/devices/system/node"), "node").len().max(1),
        caches: caches(),
        ram_gib: ram_gib(&meminfo).context("/proc/meminfo has no `MemTotal`")?,
        hypervisor: hypervisor(&cpuinfo),
    })
}

/// What identifies the silicon, on x86 and on ARM.
const CPU_IDS: [&str; 8] = [
    "vendor_id",
    "cpu family",
    "model",
    "stepping",
    "CPU implementer",
    "CPU variant",
    "CPU part",
    "CPU revision",
];

/// What may change.
pub fn state(work: &Path) -> anyhow::Result<State> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
    let mut flags: Vec<String> = first(&cpuinfo, &["flags", "Features"])
        .unwrap_or_default()
        .split_ascii_whitespace()
        .map(str::to_owned)
        .collect();
    flags.sort();
    let (file_system, disk) = disk(work)?;
    Ok(State {
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
        os: os::field(&os::release(), "PRETTY_NAME").unwrap_or_else(|| "unknown".to_owned()),
        microcode: first(&cpuinfo, &["microcode"]),
        cpu_flags: Digest::of(flags.join(" ").as_bytes()).short(),
        mitigations: mitigations(),
        governor: read(&format!("{CPUS}/cpu0/cpufreq/scaling_governor")),
        turbo: turbo(),
        smt: read(&format!("{CPUS}/smt/control")),
        transparent_huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(|text| chosen(&text)),
        aslr: read("/proc/sys/kernel/randomize_va_space"),
        swappiness: read("/proc/sys/vm/swappiness"),
        file_system,
        disk,
    })
}

/// A hash that tells this machine from others of its kind. `machine-id(5)` asks not to publish the
/// id itself but a hash that only this application makes; without one the host's name serves.
pub fn machine() -> String {
    let id = read("/etc/machine-id").filter(|id| !id.is_empty());
    let name = id.or_else(|| read("/proc/sys/kernel/hostname")).unwrap_or_default();
    Digest::of(format!("cargo xtask matrix host {name}").as_bytes()).short()
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The first value of the first known key of `/proc/cpuinfo`.
fn first(cpuinfo: &str, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|wanted| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == *wanted).then(|| value.trim().to_owned())
        })
    })
}

fn ram_gib(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((kib / f64::from(1 << 20)).round() as u64)
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// Names such as `cpu0`: the prefix and a number.
fn numbered(folder: &Path, prefix: &str) -> BTreeSet<usize> {
    let Ok(entries) = std::fs::read_dir(folder) else { return BTreeSet::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix(prefix)?.parse().ok())
        .collect()
}

/// Sockets, physical cores and threads that are online.
fn topology() -> (usize, usize, usize) {
    let mut sockets = BTreeSet::new();
    let mut cores = BTreeSet::new();
    let mut threads = 0;
    for cpu in numbered(Path::new(CPUS), "cpu") {
        let topology = |file: &str| read(&format!("{CPUS}/cpu{cpu}/topology/{file}"));
        // A core that is offline has no topology.
        let Some(socket) = topology("physical_package_id") else { continue };
        cores.insert((socket.clone(), topology("core_id")));
        sockets.insert(socket);
        threads += 1;
    }
    let known = std::thread::available_parallelism().map_or(1, usize::from);
    if threads == 0 { (1, known, known) } else { (sockets.len(), cores.len(), threads) }
}

fn caches() -> Vec<String> {
    let folder = format!("{CPUS}/cpu0/cache");
    numbered(Path::new(&folder), "index")
        .into_iter()
        .filter_map(|index| {
            let field = |file: &str| read(&format!("{folder}/index{index}/{file}"));
            let kind = match field("type")?.as_str() {
                "Data" => "d",
                "Instruction" => "i",
                _ => "",
            };
            Some(format!("L{}{kind} {}", field("level")?, field("size")?))
        })
        .collect()
}

/// The hypervisor by its own name, else only that there is one.
fn hypervisor(cpuinfo: &str) -> Option<String> {
    let flagged = first(cpuinfo, &["flags"])
        .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let xen = read("/sys/hypervisor/type").filter(|kind| !kind.is_empty());
    let product = || {
        let vendor = read("/sys/class/dmi/id/sys_vendor")?;
        Some(format!("{vendor} {}", read("/sys/class/dmi/id/product_name").unwrap_or_default()))
    };
    match (xen, flagged) {
        (Some(name), _) => Some(name),
        (None, true) => Some(product().unwrap_or_else(|| "unnamed".to_owned())),
        (None, false) => None,
    }
}

fn turbo() -> Option<bool> {
    // Intel's driver says the opposite of the generic one.
    let off = read(&format!("{CPUS}/intel_pstate/no_turbo")).map(|text| text == "0");
    off.or_else(|| read(&format!("{CPUS}/cpufreq/boost")).map(|text| text == "1"))
}

fn mitigations() -> Vec<String> {
    let folder = format!("{CPUS}/vulnerabilities");
    let Ok(entries) = std::fs::read_dir(&folder) else { return Vec::new() };
    let mut all: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let text = read(&format!("{folder}/{name}"))?;
            (text != "Not affected").then(|| format!("{name}: {text}"))
        })
        .collect();
    all.sort();
    all
}

/// The file system of `path` with its options, and the disk below it.
fn disk(path: &Path) -> anyhow::Result<(String, Option<String>)> {
    // The work directory may not be there yet; what is above it lies on the same disk then.
    let path = std::path::absolute(path)?;
    let there = path.ancestors().find_map(|path| path.canonicalize().ok());
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let there = there.context("no folder above the work directory exists")?;
    let (device, kind, source, options) =
        mount_of(&mounts, &there).context("the work directory is on no known mount")?;
    let block = format!("/sys/dev/block/{device}");
    let model = [format!("{block}/device/model"), format!("{block}/../device/model")]
        .iter()
        .find_map(|path| read(path));
    let name = source.strip_prefix("/dev/").map(str::to_owned);
    Ok((format!("{kind} {options}"), model.or(name)))
}

/// Device, type, source and options of the innermost mount that holds `path`, by the format of
/// `/proc/<pid>/mountinfo` (`proc_pid_mountinfo(5)`).
fn mount_of<'t>(mounts: &'t str, path: &Path) -> Option<(&'t str, &'t str, &'t str, &'t str)> {
    mounts
        .lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let left: Vec<&str> = left.split(' ').collect();
            let mut right = right.split(' ');
            let point = left.get(4)?.replace("\\040", " ");
            path.starts_with(&point).then_some(())?;
            let (device, options) = (*left.get(2)?, *left.get(5)?);
            Some((point.len(), (device, right.next()?, right.next()?, options)))
        })
        // The last of equal ones is mounted over the others.
        .max_by_key(|(length, _)| *length)
        .map(|(_, mount)| mount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_understood() {
        let cpuinfo =
            "processor\t: 0\nmodel\t\t: 167\nmodel name\t: A B\nflags\t\t: fpu hypervisor\n";
        assert_eq!(first(cpuinfo, &["model name"]), Some("A B".to_owned()));
        assert_eq!(first(cpuinfo, &["model"]), Some("167".to_owned()));
        assert_eq!(first(cpuinfo, &["nothing"]), None);
        assert!(hypervisor(cpuinfo).is_some());
        assert_eq!(ram_gib("MemTotal:       16303428 kB\nMemFree: 1 kB\n"), Some(16));
        assert_eq!(chosen("always [madvise] never"), Some("madvise".to_owned()));
        assert_eq!(chosen("nothing"), None);
    }

    #[test]
    fn the_innermost_mount_counts() {
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                      30 22 8:2 / /data rw,noatime - xfs /dev/sdb1 rw\n\
                      31 22 0:5 / /dat rw - tmpfs tmpfs rw\n";
        let mount = |path: &str| mount_of(mounts, Path::new(path)).expect("a mount");
        assert_eq!(mount("/data/work"), ("8:2", "xfs", "/dev/sdb1", "rw,noatime"));
        assert_eq!(mount("/database"), ("8:1", "ext4", "/dev/sda1", "rw,relatime"));
    }
}
