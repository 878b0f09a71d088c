//! What makes numbers noisy: settings of the kernel and the machine. Findings here are warnings,
//! and `--install` never changes these settings: they are the owner's decision.

use super::probe::{Kernel, Probe};
use super::{Finding, as_root};

/// Judges what was seen of kernel and machine. Pure.
pub(super) fn evaluate(kernel: &Kernel, probe: &Probe) -> Vec<Finding> {
    vec![
        cores(kernel),
        load(kernel),
        hypervisor(kernel),
        governor(kernel, probe),
        turbo(kernel, probe),
        smt(kernel, probe),
        numa(kernel),
        aslr(kernel, probe),
        huge_pages(kernel, probe),
        swappiness(kernel, probe),
        perf(kernel, probe),
    ]
}

/// A write to a file below `/sys`, as this user must type it.
fn write(probe: &Probe, value: &str, path: &str) -> String {
    if probe.root {
        format!("echo {value} > {path}")
    } else {
        format!("echo {value} | sudo tee {path}")
    }
}

fn cores(kernel: &Kernel) -> Finding {
    let check = "cores";
    match kernel.cores {
        0..=1 => Finding::warning(check, "one core: server and client get in each other's way"),
        2..=3 => Finding::ok(check, format!("{}: server and client share them", kernel.cores)),
        many => Finding::ok(check, many.to_string()),
    }
}

fn load(kernel: &Kernel) -> Finding {
    let check = "load";
    let Some(load) = kernel.load else { return Finding::ok(check, "unknown") };
    // A tenth of the machine, but not what a quiet small machine has anyway.
    if load > (kernel.cores as f64 * 0.1).max(0.5) {
        Finding::warning(check, format!("{load:.2} in the last minute: other programs are at work"))
            .mend("top")
    } else {
        Finding::ok(check, format!("{load:.2} in the last minute"))
    }
}

fn hypervisor(kernel: &Kernel) -> Finding {
    let check = "hypervisor";
    if kernel.hypervisor {
        Finding::warning(check, "a virtual machine: its neighbours show in the numbers")
    } else {
        Finding::ok(check, "none")
    }
}

fn governor(kernel: &Kernel, probe: &Probe) -> Finding {
    let check = "CPU governor";
    let names = kernel.governors.join(", ");
    if kernel.governors.is_empty() {
        Finding::ok(check, "not under this kernel's control")
    } else if names == "performance" {
        Finding::ok(check, names)
    } else {
        Finding::warning(check, format!("{names}: the clock follows the load"))
            .mend(as_root(probe, "cpupower frequency-set -g performance"))
    }
}

fn turbo(kernel: &Kernel, probe: &Probe) -> Finding {
    let check = "turbo";
    match kernel.turbo {
        None => Finding::ok(check, "not under this kernel's control"),
        Some((false, ..)) => Finding::ok(check, "off"),
        Some((true, path, off)) => {
            Finding::warning(check, "on: the clock depends on heat and on the other cores")
                .mend(write(probe, off, path))
        }
    }
}

fn smt(kernel: &Kernel, probe: &Probe) -> Finding {
    let check = "SMT";
    match kernel.smt {
        Some(true) => Finding::warning(check, "on: two threads share one core's units")
            .mend(write(probe, "off", "/sys/devices/system/cpu/smt/control")),
        Some(false) => Finding::ok(check, "off"),
        None => Finding::ok(check, "not under this kernel's control"),
    }
}

fn numa(kernel: &Kernel) -> Finding {
    let check = "NUMA";
    match kernel.numa_nodes {
        0..=1 => Finding::ok(check, "one node"),
        many => Finding::warning(check, format!("{many} nodes: memory may be near or far"))
            .mend("numactl --cpunodebind=0 --membind=0 cargo xtask bench"),
    }
}

/// Off is the problem: a difference may then be that of one memory layout. On, each start of a
/// server gets another layout, and the blocks average over them.
fn aslr(kernel: &Kernel, probe: &Probe) -> Finding {
    let check = "ASLR";
    match kernel.randomize_va_space {
        Some(2) => Finding::ok(check, "on: repeats average over memory layouts"),
        Some(_) => {
            let reason = "not fully on: all repeats may share one lucky or unlucky memory layout";
            Finding::warning(check, reason)
                .mend(as_root(probe, "sysctl -w kernel.randomize_va_space=2"))
        }
        None => Finding::ok(check, "unknown"),
    }
}

fn huge_pages(kernel: &Kernel, probe: &Probe) -> Finding {
    let check = "transparent huge pages";
    match kernel.huge_pages.as_deref() {
        Some("always") => {
            Finding::warning(check, "always: the kernel gathers pages while the server works")
                .mend(write(probe, "madvise", "/sys/kernel/mm/transparent_hugepage/enabled"))
        }
        Some(other) => Finding::ok(check, other),
        None => Finding::ok(check, "not in this kernel"),
    }
}

fn swappiness(kernel: &Kernel, probe: &Probe) -> Finding {
    let check = "swap";
    match (kernel.swap, kernel.swappiness) {
        (false, _) => Finding::ok(check, "none"),
        (true, Some(value)) if value > 10 => {
            let reason = format!("swappiness {value}: a server's memory may be swapped out");
            Finding::warning(check, reason).mend(as_root(probe, "sysctl -w vm.swappiness=1"))
        }
        (true, Some(value)) => Finding::ok(check, format!("swappiness {value}")),
        (true, None) => Finding::ok(check, "swappiness unknown"),
    }
}

fn perf(kernel: &Kernel, probe: &Probe) -> Finding {
    let check = "perf events";
    match kernel.perf_paranoid {
        None => Finding::warning(check, "not in this kernel: no profiles, no counters"),
        // From 3 on (a patch of distributions) only root may; from 2 on not the kernel's part.
        Some(level) if level > 1 && !probe.root => {
            Finding::warning(check, format!("restricted (level {level}): profiles lack the kernel"))
                .mend("sudo sysctl -w kernel.perf_event_paranoid=1")
        }
        Some(_) if !kernel.hardware_counters => {
            Finding::warning(check, "no hardware counters, as in most virtual machines")
        }
        Some(level) => Finding::ok(check, format!("level {level}, with hardware counters")),
    }
}
