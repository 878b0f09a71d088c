//! Looks at the machine; judges nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;

use super::Needs;
use super::packages::Manager;
use crate::env::Env;
use crate::launch::{Bind, ROOT, Spec};
use crate::proc::{PATH, Proc, own_file};
use crate::toolchain;

/// Users that servers may run as when the tool is root, best first.
pub const SERVER_USERS: [&str; 3] = ["postgres", "mysql", "nobody"];

/// What was seen.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Programs that were found, with their paths.
    pub programs: BTreeMap<String, String>,
    /// Compilers that were found: the version line, or why they do not work.
    pub compilers: BTreeMap<String, Result<String, String>>,
    /// Compilers with which link-time optimisation does not work, and why.
    pub no_lto: BTreeMap<String, String>,
    /// The packages that bring a compiler, and those for its link-time optimisation.
    pub compiler_packages: BTreeMap<String, [Vec<String>; 2]>,
    /// The package manager.
    pub manager: Option<Manager>,
    /// Whether this is root.
    pub root: bool,
    /// Whether `sudo -n` works.
    pub sudo: bool,
    /// Whether the launcher can give a program canonical paths.
    pub namespaces: Result<(), String>,
    /// The kernel switch that forbids namespaces, and the value that allows them.
    pub namespace_switch: Option<(&'static str, u32)>,
    /// The user that servers would run as under root.
    pub server_user: Option<String>,
    /// Free bytes where the work directory is or will be.
    pub disk_free: Option<u64>,
    /// Bytes that can be had without swapping.
    pub memory_available: Option<u64>,
    /// How many jobs may run at once.
    pub jobs: usize,
    /// Whether there is a folder with archives.
    pub mirror: bool,
    /// Settings that add noise.
    pub kernel: Kernel,
}

/// Settings of kernel and machine that add noise; what cannot be read is `None`.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Cores that this process may use.
    pub cores: usize,
    /// Load average of one minute.
    pub load: Option<f64>,
    /// Whether this is a virtual machine.
    pub hypervisor: bool,
    /// The different governors of all cores.
    pub governors: Vec<String>,
    /// Whether turbo is on, the file that switches it, and what is written there for off.
    pub turbo: Option<(bool, &'static str, &'static str)>,
    /// Whether several threads share a core.
    pub smt: Option<bool>,
    /// Nodes with memory of their own.
    pub numa_nodes: usize,
    /// `kernel.randomize_va_space`: 2 is fully on.
    pub randomize_va_space: Option<i64>,
    /// The mode of transparent huge pages.
    pub huge_pages: Option<String>,
    /// `vm.swappiness`.
    pub swappiness: Option<i64>,
    /// Whether there is swap.
    pub swap: bool,
    /// `kernel.perf_event_paranoid`.
    pub perf_paranoid: Option<i64>,
    /// Whether the processor's counters can be used.
    pub hardware_counters: bool,
}

impl Probe {
    /// Looks at everything that is to be judged.
    pub fn take(env: &Env, needs: &Needs) -> Self {
        let root = nix::unistd::Uid::effective().is_root();
        let programs = needs.programs().into_iter().filter_map(|name| {
            let path = if name == "cargo" { cargo() } else { find(name) };
            Some((name.to_owned(), path?.display().to_string()))
        });
        // As compilers are looked for in general: on the caller's own path.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let (mut compilers, mut no_lto) = (BTreeMap::new(), BTreeMap::new());
        let mut compiler_packages = BTreeMap::new();
        for name in &needs.toolchains {
            let found = toolchain::provide(env, &path, name);
            if let Ok(wanted) = toolchain::file::load(&env.toolchains(), name) {
                let packages = [wanted.packages(), wanted.lto_packages()];
                compiler_packages.insert(name.clone(), packages);
            }
            let seen = found.map(|found| {
                let refusal = found.details.lto_refusal;
                no_lto.extend(refusal.map(|refusal| (name.clone(), refusal)));
                let sealed = found.sealed.map(|sealed| format!(", sealed: {}", sealed.lock.size()));
                let version = format!("{} {}", found.family.name(), found.version);
                version + &sealed.unwrap_or_default()
            });
            compilers.insert(name.clone(), seen.map_err(|lack| lack.reason));
        }
        Self {
            programs: programs.collect(),
            compilers,
            no_lto,
            compiler_packages,
            manager: Manager::detect(),
            root,
            sudo: !root && Proc::new("sudo").args(["-n", "true"]).run().is_ok(),
            namespaces: if needs.builds { try_namespaces() } else { Ok(()) },
            namespace_switch: namespace_switch(),
            server_user: SERVER_USERS
                .into_iter()
                .find(|name| matches!(nix::unistd::User::from_name(name), Ok(Some(_))))
                .map(str::to_owned),
            disk_free: disk_free(&env.work),
            memory_available: meminfo("MemAvailable"),
            jobs: env.jobs,
            mirror: env.sources.as_ref().is_some_and(|dir| dir.is_dir()),
            kernel: Kernel::take(),
        }
    }

    /// The path of a program that was found.
    pub fn path(&self, program: &str) -> Option<&str> {
        self.programs.get(program).map(String::as_str)
    }
}

impl Kernel {
    fn take() -> Self {
        let cpu = Path::new("/sys/devices/system/cpu");
        let mut governors: Vec<String> = children(cpu, "cpu")
            .iter()
            .filter_map(|dir| text(&dir.join("cpufreq/scaling_governor")))
            .collect();
        governors.sort_unstable();
        governors.dedup();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            load: text("/proc/loadavg".as_ref())
                .and_then(|line| line.split(' ').next()?.parse().ok()),
            hypervisor: hypervisor(),
            governors,
            turbo: turbo(),
            smt: number("/sys/devices/system/cpu/smt/active").map(|active| active == 1),
            numa_nodes: children(Path::new("/sys/devices/system/node"), "node").len(),
            randomize_va_space: number("/proc/sys/kernel/randomize_va_space"),
            huge_pages: text("/sys/kernel/mm/transparent_hugepage/enabled".as_ref())
                .as_deref()
                .and_then(chosen),
            swappiness: number("/proc/sys/vm/swappiness"),
            swap: meminfo("SwapTotal").is_some_and(|bytes| bytes > 0),
            perf_paranoid: number("/proc/sys/kernel/perf_event_paranoid"),
            hardware_counters: Path::new("/sys/bus/event_source/devices/cpu").exists()
                || Path::new("/sys/bus/event_source/devices/cpu_core").exists()
                || Path::new("/sys/bus/event_source/devices/armv8_pmuv3_0").exists(),
        }
    }
}

/// A program on the search path that processes of this tool get, or a header where compilers look.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    if name.ends_with(".h") {
        let multiarch = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
        let folders = ["/usr/local/include", multiarch.as_str(), "/usr/include"];
        return folders.iter().map(|dir| Path::new(dir).join(name)).find(|path| path.is_file());
    }
    which::which_in(name, Some(PATH), "/").ok()
}

/// The cargo that runs this tool, else the one on the caller's path.
fn cargo() -> Option<PathBuf> {
    std::env::var_os("CARGO").map(PathBuf::from).or_else(|| which::which("cargo").ok())
}

/// Gives a program a canonical path, as builds get theirs.
///
/// # Errors
/// Why that is not possible here, in the launcher's own words.
pub fn try_namespaces() -> Result<(), String> {
    let attempt = || -> anyhow::Result<()> {
        let dir = tempfile::tempdir()?;
        fs::write(dir.path().join("proof"), "")?;
        let at = Path::new(ROOT).join("doctor");
        let proof = at.join("proof");
        let bind = Bind { host: dir.path().to_owned(), at, read_only: true };
        let spec = Spec { binds: vec![bind], ..Spec::default() };
        let limit = Duration::from_secs(10);
        Proc::new("/bin/ls").arg(proof).launch(own_file(), spec).timeout(limit).run()?;
        Ok(())
    };
    attempt().map_err(|error| {
        let text = format!("{error:#}");
        // The launcher's own words, not the whole command.
        let said = text.lines().find_map(|line| line.trim().strip_prefix("| error: "));
        said.map_or_else(|| text.clone(), str::to_owned)
    })
}

/// The switch of this kernel that is known to forbid namespaces to plain users.
fn namespace_switch() -> Option<(&'static str, u32)> {
    if number("/proc/sys/kernel/unprivileged_userns_clone") == Some(0) {
        Some(("kernel.unprivileged_userns_clone", 1))
    } else if number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
        Some(("kernel.apparmor_restrict_unprivileged_userns", 0))
    } else if number("/proc/sys/user/max_user_namespaces") == Some(0) {
        Some(("user.max_user_namespaces", 10_000))
    } else {
        None
    }
}

fn disk_free(work: &Path) -> Option<u64> {
    let there = work.ancestors().find(|path| path.exists())?;
    let stat = nix::sys::statvfs::statvfs(there).ok()?;
    Some(stat.blocks_available() as u64 * stat.fragment_size() as u64)
}

/// A value of `/proc/meminfo`, in bytes (the file has KiB).
fn meminfo(key: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn hypervisor() -> bool {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == "hypervisor")
        || text("/sys/hypervisor/type".as_ref()).is_some()
}

fn turbo() -> Option<(bool, &'static str, &'static str)> {
    const INTEL: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
    const OTHERS: &str = "/sys/devices/system/cpu/cpufreq/boost";
    match (number(INTEL), number(OTHERS)) {
        (Some(off), _) => Some((off == 0, INTEL, "1")),
        (None, Some(on)) => Some((on == 1, OTHERS, "0")),
        (None, None) => None,
    }
}

/// The word in brackets: `madvise` of `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word.to_owned())
}

/// The folders `<prefix><number>` in a folder.
fn children(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let all = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix));
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
    });
    all.map(|entry| entry.path()).collect()
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number(path: &str) -> Option<i64> {
    text(path.as_ref())?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_files_are_read() {
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("none"), None);
        assert!(meminfo("MemTotal").is_some_and(|bytes| bytes > 1 << 20));
        assert_eq!(meminfo("Mem"), None);
        let dir = tempfile::tempdir().expect("a folder");
        for name in ["cpu0", "cpu12", "cpufreq", "cpu"] {
            std::fs::create_dir(dir.path().join(name)).expect("a folder");
        }
        assert_eq!(children(dir.path(), "cpu").len(), 2);
        assert!(disk_free(&dir.path().join("not/yet/there")).is_some());
    }
}
