//! Which cores server and client run on. [`resolve`] is pure; [`cores`] asks the kernel.
//!
//! On a virtual machine one client and one server on different cores measure mostly how long a
//! sleeping core takes to wake; on one core they measure the code. So the choice is explicit, and
//! each record holds the cores that were used.

use crate::exit::{Code, coded};
use crate::host::probe::allowed_cpus;
use crate::matrix::model::Placement;
use crate::record::PlacementUsed;

/// Fewer physical cores than this are not split.
const SPLIT_FROM: usize = 4;

/// The cores that this tool may use, grouped by physical core: threads of one core stay together,
/// because they slow each other down.
///
/// # Errors
/// When the kernel does not tell the set.
pub fn cores() -> anyhow::Result<Vec<Vec<usize>>> {
    let allowed = allowed_cpus()?;
    let siblings = |cpu: usize| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        // Without the file (a container may hide it) each core stands alone.
        let text = std::fs::read_to_string(path).ok()?;
        list(text.trim())
    };
    Ok(group(&allowed, siblings))
}

fn group(allowed: &[usize], siblings: impl Fn(usize) -> Option<Vec<usize>>) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for cpu in allowed {
        if groups.iter().flatten().any(|seen| seen == cpu) {
            continue;
        }
        let mut core: Vec<usize> = siblings(*cpu).unwrap_or_default();
        core.retain(|sibling| allowed.contains(sibling));
        if !core.contains(cpu) {
            core.push(*cpu);
        }
        groups.push(core);
    }
    groups
}

/// Numbers of the kernel's list format: `0-3,8,10-11` (`cpuset(7)`, "List format").
fn list(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        numbers.extend(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?);
    }
    Some(numbers)
}

/// The cores for `clients` clients and the server. The client gets the last cores: the first ones
/// serve most interrupts, and the server's share must not depend on how many clients there are.
///
/// # Errors
/// With [`Code::Environment`] when `split` is asked for and there is one core only.
pub fn resolve(
    wanted: Placement,
    clients: u32,
    cores: &[Vec<usize>],
) -> anyhow::Result<PlacementUsed> {
    let kind = match wanted {
        Placement::Auto if cores.len() >= SPLIT_FROM => Placement::Split,
        Placement::Auto if clients == 1 => Placement::Together,
        Placement::Auto => Placement::Free,
        kind => kind,
    };
    let (server_cpus, client_cpus) = match kind {
        Placement::Auto | Placement::Free => {
            // Named one by one: with fewer allowed cores (`taskset`, a cpuset) it is another one.
            let mut all = cores.concat();
            all.sort_unstable();
            (all.clone(), all)
        }
        Placement::Together => {
            let cpu: Vec<usize> =
                cores.last().and_then(|core| core.first()).copied().into_iter().collect();
            (cpu.clone(), cpu)
        }
        Placement::Split => {
            if cores.len() < 2 {
                return Err(coded(
                    Code::Environment,
                    "placement `split` needs two physical cores and this host gives one; \
                     `together` and `free` do not",
                ));
            }
            let client = (cores.len() / 4).max(1);
            let (server, client) = cores.split_at(cores.len() - client);
            (server.concat(), client.concat())
        }
    };
    Ok(PlacementUsed { kind, server_cpus, client_cpus })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cores: usize, threads: usize) -> Vec<Vec<usize>> {
        (0..cores).map(|core| (0..threads).map(|thread| core + thread * cores).collect()).collect()
    }

    fn used(wanted: Placement, clients: u32, cores: &[Vec<usize>]) -> PlacementUsed {
        resolve(wanted, clients, cores).expect("possible")
    }

    #[test]
    fn auto_follows_cores_and_clients() {
        let kind = |clients, cores| used(Placement::Auto, clients, &machine(cores, 1)).kind;
        assert_eq!(kind(1, 2), Placement::Together);
        assert_eq!(kind(2, 2), Placement::Free);
        assert_eq!(kind(1, 4), Placement::Split);
        assert_eq!(kind(16, 32), Placement::Split);
        // Four threads of two cores are two cores.
        assert_eq!(used(Placement::Auto, 1, &machine(2, 2)).kind, Placement::Together);
    }

    #[test]
    fn split_keeps_threads_of_a_core_together() {
        let split = used(Placement::Split, 1, &machine(8, 2));
        assert_eq!(split.client_cpus, [6, 14, 7, 15]);
        assert_eq!(split.server_cpus.len(), 12);
        assert!(split.server_cpus.iter().all(|cpu| !split.client_cpus.contains(cpu)));
        assert_eq!(used(Placement::Split, 1, &machine(2, 1)).client_cpus, [1]);
        let error = resolve(Placement::Split, 1, &machine(1, 2)).expect_err("one core");
        assert_eq!(crate::exit::code_of(&error), Code::Environment);
    }

    #[test]
    fn together_is_one_core_and_free_all_that_are_allowed() {
        let together = used(Placement::Together, 4, &machine(4, 2));
        assert_eq!((together.server_cpus, together.client_cpus), (vec![3], vec![3]));
        let free = used(Placement::Free, 4, &machine(4, 2));
        assert_eq!(free.server_cpus, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(free.client_cpus, free.server_cpus);
        let fewer = used(Placement::Free, 4, &machine(4, 2)[..3]);
        assert_ne!(fewer, free, "a smaller set of allowed cores is another placement");
    }

    #[test]
    fn groups_respect_the_allowed_set() {
        assert_eq!(list("0-2,8"), Some(vec![0, 1, 2, 8]));
        assert_eq!(list("x"), None);
        let siblings = |cpu: usize| Some(vec![cpu % 4, cpu % 4 + 4]);
        assert_eq!(group(&[1, 2, 5], siblings), [vec![1, 5], vec![2]]);
        assert_eq!(group(&[0, 3], |_| None), [vec![0], vec![3]]);
    }

    #[test]
    fn this_machine_has_cores() {
        let cores = cores().expect("known").concat();
        assert!(!cores.is_empty());
        let mut once = cores.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), cores.len());
    }
}
