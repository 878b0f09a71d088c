//! The machine: what it is and how it is set, so that numbers are compared only where they may be.
//!
//! A host's *id* stands for what stays: the hardware, the distribution and the machine itself. What
//! an administrator or an update changes (kernel, microcode, governor, …) is its *state*; the file
//! `results/hosts/<id>.json` lists every state that was seen, with the time since when it holds. A
//! record names host, boot and time, so its state is the last one that began before it. A new
//! kernel is a new state and not a new host: it takes a boot, and blocks never span boots.
//!
//! The host's name is not written anywhere: only a hash tells two equal machines apart.

pub mod os;
pub mod probe;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fs_err as fs;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::hash::Digest;

/// The version of the file's schema.
pub const SCHEMA: u32 = 1;

/// One machine: the content of `results/hosts/<id>.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Host {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `<architecture>-<distribution>-<first 8 digits of the hash over the hardware>`.
    pub id: String,
    /// What stays.
    pub hardware: Hardware,
    /// Every state that was seen, oldest first.
    pub states: Vec<Since>,
}

/// A state and when it was first seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Since {
    /// RFC 3339, UTC.
    pub since: String,
    /// The kernel's boot id.
    pub boot: String,
    /// The state.
    pub state: State,
}

/// What stays. All of it is part of the id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Hardware {
    /// The architecture as Rust names it.
    pub arch: String,
    /// The distribution: `debian-12`.
    pub distribution: String,
    /// A hash that tells machines of one kind apart; see [`probe::machine`].
    pub machine: String,
    /// The CPU's name.
    pub cpu_model: String,
    /// Vendor, family, model and stepping as the kernel has them.
    pub cpu_ids: Vec<(String, String)>,
    /// Sockets.
    pub sockets: usize,
    /// Physical cores over all sockets.
    pub cores: usize,
    /// Hardware threads.
    pub threads: usize,
    /// NUMA nodes.
    pub numa_nodes: usize,
    /// Caches of the first core: `L1d 48K`.
    pub caches: Vec<String>,
    /// RAM in GiB (2^30 bytes), rounded: the exact size depends on the kernel.
    pub ram_gib: u64,
    /// The hypervisor, if the kernel or the firmware names one.
    pub hypervisor: Option<String>,
}

/// What may change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct State {
    /// The kernel's release.
    pub kernel: String,
    /// The distribution in its own words.
    pub os: String,
    /// The CPU's microcode.
    pub microcode: Option<String>,
    /// The hash over the CPU's flags, which a hypervisor or kernel may hide.
    pub cpu_flags: String,
    /// Weaknesses of the CPU against which the kernel defends: `meltdown: Mitigation: PTI`.
    pub mitigations: Vec<String>,
    /// The frequency governor.
    pub governor: Option<String>,
    /// Whether the CPU may go above its nominal frequency.
    pub turbo: Option<bool>,
    /// Simultaneous multithreading: `on`, `off`, `notsupported`, …
    pub smt: Option<String>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// `kernel.randomize_va_space`.
    pub aslr: Option<String>,
    /// `vm.swappiness`.
    pub swappiness: Option<String>,
    /// The file system of the work directory and its mount options.
    pub file_system: String,
    /// The disk below it: its model, or its device's name.
    pub disk: Option<String>,
}

/// The machine as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Here {
    /// The host's id.
    pub id: String,
    /// The kernel's boot id.
    pub boot: String,
    /// What stays.
    pub hardware: Hardware,
    /// What may change.
    pub state: State,
}

impl Here {
    /// Looks at this machine; `work` is the directory whose disk counts.
    ///
    /// # Errors
    /// When a file that every Linux system has cannot be read.
    pub fn look(work: &Path) -> anyhow::Result<Self> {
        let hardware = probe::hardware()?;
        let state = probe::state(work)?;
        Ok(Self { id: id(&hardware)?, boot: probe::boot()?, hardware, state })
    }

    /// Writes `<folder>/<id>.json`, or adds the state to it when it differs from the last one.
    /// Returns the path.
    ///
    /// # Errors
    /// When the file cannot be read, is of a newer schema, or cannot be written.
    pub fn note(&self, folder: &Path, now: Timestamp) -> anyhow::Result<PathBuf> {
        let path = folder.join(format!("{}.json", self.id));
        let mut host = match fs::read_to_string(&path) {
            Ok(text) => parse(&text).with_context(|| format!("cannot use `{}`", path.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Host {
                schema: SCHEMA,
                id: self.id.clone(),
                hardware: self.hardware.clone(),
                states: Vec::new(),
            },
            Err(error) => return Err(error.into()),
        };
        if host.states.last().is_some_and(|last| last.state == self.state) {
            return Ok(path);
        }
        host.states.push(Since {
            since: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            boot: self.boot.clone(),
            state: self.state.clone(),
        });
        let text = serde_json::to_string_pretty(&host).context("cannot write a host")? + "\n";
        fs::create_dir_all(folder)?;
        // Whole or not at all.
        let new = folder.join(format!(".{}.json.{}", self.id, std::process::id()));
        fs::write(&new, text)?;
        fs::rename(&new, &path)?;
        Ok(path)
    }
}

fn parse(text: &str) -> anyhow::Result<Host> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let version: Version = serde_json::from_str(text)?;
    anyhow::ensure!(
        version.schema == SCHEMA,
        "its schema is {} and this tool knows {SCHEMA}: use the tool that wrote it",
        version.schema
    );
    Ok(serde_json::from_str(text)?)
}

fn id(hardware: &Hardware) -> anyhow::Result<String> {
    let bytes = serde_json::to_vec(hardware).context("cannot write the hardware")?;
    let slug = |text: &str| -> String {
        let letters = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
        letters.collect::<String>().to_ascii_lowercase()
    };
    let digest = Digest::of(&bytes).to_string();
    Ok(format!("{}-{}-{}", slug(&hardware.arch), slug(&hardware.distribution), &digest[..8]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Here {
        Here::look(Path::new(".")).expect("Linux")
    }

    #[test]
    fn looking_twice_sees_the_same() {
        let (first, second) = (here(), here());
        assert_eq!(first, second);
        assert!(first.id.starts_with(std::env::consts::ARCH), "{}", first.id);
        assert!(first.hardware.threads >= first.hardware.cores && first.hardware.cores >= 1);
        assert!(!first.state.kernel.is_empty() && !first.hardware.cpu_model.is_empty());
        assert_eq!(first.boot.len(), 36);
    }

    #[test]
    fn the_id_follows_the_hardware_and_not_the_state() {
        let mut hardware = here().hardware;
        let before = id(&hardware).expect("an id");
        hardware.ram_gib += 1;
        assert_ne!(before, id(&hardware).expect("an id"));
    }

    #[test]
    fn no_name_of_the_machine_is_written() {
        let name = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let folder = tempfile::tempdir().expect("a folder");
        let path = here().note(folder.path(), Timestamp::UNIX_EPOCH).expect("written");
        let text = fs::read_to_string(path).expect("there");
        for secret in [name.trim(), machine.trim()] {
            assert!(secret.len() < 4 || !text.contains(secret), "{secret}");
        }
    }

    #[test]
    fn states_are_added_only_when_they_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut here = here();
        let read = || {
            let path = folder.path().join(format!("{}.json", here.id));
            parse(&fs::read_to_string(path).expect("there")).expect("good")
        };
        let hour = |hour: i64| Timestamp::from_second(3600 * hour).expect("a time");
        here.note(folder.path(), hour(1)).expect("written");
        here.note(folder.path(), hour(2)).expect("written");
        assert_eq!(read().states.len(), 1);
        let changed = Here {
            state: State { governor: Some("performance".to_owned()), ..here.state.clone() },
            ..here.clone()
        };
        changed.note(folder.path(), hour(3)).expect("written");
        assert_eq!(read().states.len(), 2);
        assert_eq!(read().states[1].since, "1970-01-01T03:00:00Z");
        here.note(folder.path(), hour(4)).expect("written");
        assert_eq!(read().states.len(), 3, "back again is a change, too");
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1, "nothing else is left");
        here.id = "other".to_owned();
        fs::write(folder.path().join("other.json"), r#"{"schema": 2}"#).expect("written");
        let error = here.note(folder.path(), hour(5)).expect_err("newer");
        assert!(format!("{error:#}").contains("its schema is 2"), "{error:#}");
    }
}
