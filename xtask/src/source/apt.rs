//! The system's own apt with lists, caches and entries of our own: nothing of the system is changed
//! or installed; its proxy and login settings (`apt.conf.d`, `auth.conf.d`) and its keys stay in
//! force. It answers as on a machine without a single package, so that what it says does not depend
//! on what is installed here.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use fs_err as fs;

use super::fetch::{NETWORK_VARIABLES, last_line, needs, watch};
use crate::host::os;
use crate::proc::Proc;
use crate::progress::Task;

/// Fields of a deb822 stanza that say nothing about what is asked for or would switch it off.
const DROPPED_FIELDS: [&str; 5] = ["types", "enabled", "architectures", "languages", "targets"];
/// The same as options of a one-line entry.
const DROPPED_OPTIONS: [&str; 3] = ["arch", "lang", "target"];

/// Which packages are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Source packages.
    Source,
    /// Packages to install, for this machine's architecture.
    Binary,
}

impl Kind {
    /// The word in apt's lists.
    fn word(self) -> &'static str {
        match self {
            Self::Source => "deb-src",
            Self::Binary => "deb",
        }
    }
}

/// This machine's architecture by Debian's name, where there is one.
pub(crate) fn architecture() -> Option<&'static str> {
    Some(match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "x86" => "i386",
        "aarch64" => "arm64",
        "arm" => "armhf",
        "powerpc64" => "ppc64el",
        other @ ("riscv64" | "s390x") => other,
        _ => return None,
    })
}

/// An apt that knows only our own folders.
pub(crate) struct Apt {
    /// Where they are.
    pub(crate) dir: PathBuf,
    lists: Vec<(String, String)>,
}

impl Apt {
    /// Prepares the folders in `dir` and reads the system's lists below `etc`.
    ///
    /// # Errors
    /// When the system has no lists, or the disk refuses.
    pub(crate) fn new(dir: &Path, etc: &Path, kind: Kind) -> anyhow::Result<Self> {
        if dir.to_string_lossy().contains(['"', '\n', '\\']) {
            bail!("apt-get cannot use the path {}", dir.display());
        }
        for sub in ["lists/partial", "cache/archives/partial", "state", "sources"] {
            fs::create_dir_all(dir.join(sub))?;
        }
        let lists = lists(etc, kind)?;
        if lists.is_empty() {
            bail!("the system has no list of packages in {}/apt", etc.display());
        }
        Ok(Self { dir: dir.to_owned(), lists })
    }

    /// Writes lists and configuration; to be called under a lock of `dir`.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn write_config(&self) -> anyhow::Result<()> {
        fs::remove_dir_all(self.dir.join("sources"))?;
        fs::create_dir(self.dir.join("sources"))?;
        for (name, text) in &self.lists {
            fs::write(self.dir.join("sources").join(name), text)?;
        }
        fs::write(self.dir.join("status"), "")?;
        fs::write(self.dir.join("apt.conf"), config(&self.dir))?;
        Ok(())
    }

    /// A call of `apt-get` or `apt-cache`.
    pub(crate) fn proc(&self, program: &str, args: &[&str]) -> Proc {
        Proc::new(program)
            .arg("--config-file")
            .arg(self.dir.join("apt.conf"))
            .args(args)
            .inherit(&NETWORK_VARIABLES)
    }

    /// Brings the lists up to date. One list of several may be out of reach without harm: whether a
    /// package can be had tells the next step, so that complaints only stand in the log.
    ///
    /// # Errors
    /// When there is no `apt-get`, or the user asks to stop.
    pub(crate) fn update(&self, task: &Task, log: &Path) -> anyhow::Result<()> {
        self.run(task, self.proc("apt-get", &["update"]).log(log), &self.dir.join("lists"))?;
        Ok(())
    }

    /// Runs a call to its end while showing how much of what it fetches has arrived in `grows`;
    /// whether it succeeded.
    ///
    /// # Errors
    /// When there is no such program, or the user asks to stop.
    pub(crate) fn run(&self, task: &Task, call: Proc, grows: &Path) -> anyhow::Result<bool> {
        let mut running = call.spawn().map_err(|error| needs(error, "apt-get"))?;
        Ok(watch(task, &mut running, grows)?.success())
    }
}

/// Why a call failed, in apt's own words; those of the update before it may tell the real reason.
pub(crate) fn reason(log: &Path, update_log: &Path) -> String {
    let mut reason = complaints(log).join("; ");
    if reason.is_empty() {
        reason = last_line(log).unwrap_or_else(|| "apt-get failed".into());
    }
    if let Some(line) = complaints(update_log).first() {
        reason.push_str(&format!(" (and apt-get update said: {line})"));
    }
    reason
}

/// The configuration, which apt reads after the system's own. The hooks of the system are for its
/// own lists. Downloading as another user would need our folders to be open to that user.
fn config(dir: &Path) -> String {
    let dir = dir.display();
    let mut text = format!(
        "Dir::State \"{dir}/state\";\n\
         Dir::State::lists \"{dir}/lists\";\n\
         Dir::State::status \"{dir}/status\";\n\
         Dir::Cache \"{dir}/cache\";\n\
         Dir::Cache::pkgcache \"\";\n\
         Dir::Cache::srcpkgcache \"\";\n\
         Dir::Etc::sourcelist \"/dev/null\";\n\
         Dir::Etc::sourceparts \"{dir}/sources\";\n\
         APT::Install-Recommends \"false\";\n\
         APT::Install-Suggests \"false\";\n\
         Acquire::Languages \"none\";\n\
         Acquire::Retries \"2\";\n"
    );
    for scheme in ["http", "https"] {
        text.push_str(&format!("Acquire::{scheme}::Timeout \"10\";\n"));
    }
    for hook in ["Pre-Invoke", "Post-Invoke", "Post-Invoke-Success"] {
        text.push_str(&format!("#clear APT::Update::{hook};\n"));
    }
    if let Some(name) = architecture() {
        text.push_str(&format!(
            "APT::Architecture \"{name}\";\n#clear APT::Architectures;\n\
             APT::Architectures {{ \"{name}\"; }};\n"
        ));
    }
    if nix::unistd::Uid::effective().is_root() {
        text.push_str("APT::Sandbox::User \"root\";\n");
    }
    text
}

/// The system's lists as lists of one kind: file name and text.
///
/// Only entries of the system's own release (`bookworm`, `bookworm-updates`, …) are taken, so that
/// the lists of other vendors cost no time; all entries if that leaves none.
fn lists(etc: &Path, kind: Kind) -> anyhow::Result<Vec<(String, String)>> {
    let codename = os::field(&os::release_in(etc), "VERSION_CODENAME");
    let mut files = vec![etc.join("apt/sources.list")];
    if let Ok(entries) = fs::read_dir(etc.join("apt/sources.list.d")) {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    files.sort();
    let mut texts = Vec::new();
    for file in files.iter().filter(|file| file.is_file()) {
        let deb822 = match file.extension().and_then(|name| name.to_str()) {
            Some("list") => false,
            Some("sources") => true,
            _ => continue,
        };
        let text = fs::read_to_string(file).context("cannot read a list of packages")?;
        texts.push((deb822, text));
    }
    for codename in [codename.as_deref(), None] {
        let mut lines: Vec<String> = Vec::new();
        let mut stanzas: Vec<String> = Vec::new();
        for (deb822, text) in &texts {
            let (into, found) = if *deb822 {
                (&mut stanzas, stanzas_of(text, codename, kind))
            } else {
                (&mut lines, lines_of(text, codename, kind))
            };
            for entry in found {
                // `deb` and `deb-src` of one place become the same.
                if !into.contains(&entry) {
                    into.push(entry);
                }
            }
        }
        let all = [("matrix.list", lines.join("")), ("matrix.sources", stanzas.join("\n"))];
        let all: Vec<_> = all.into_iter().filter(|(_, text)| !text.is_empty()).collect();
        if !all.is_empty() {
            return Ok(all.into_iter().map(|(name, text)| (name.to_owned(), text)).collect());
        }
    }
    Ok(Vec::new())
}

/// Whether a suite belongs to the system's own release.
fn own_suite(suite: &str, codename: Option<&str>) -> bool {
    let Some(codename) = codename else { return true };
    let rest = suite.strip_prefix(codename);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '/']))
}

/// One-line entries: `deb [option=value …] URI SUITE COMPONENT…`.
fn lines_of(text: &str, codename: Option<&str>, kind: Kind) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some((word, rest)) = line.split_once(char::is_whitespace) else { continue };
        if word != "deb" && word != "deb-src" {
            continue;
        }
        let rest = rest.trim_start();
        let (options, place) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((options, place)) => (options, place),
            None => ("", rest),
        };
        let options: Vec<&str> = options
            .split_whitespace()
            .filter(|option| {
                let key = option.split(['=', '+', '-']).next().unwrap_or_default();
                !DROPPED_OPTIONS.contains(&key)
            })
            .collect();
        let words: Vec<&str> = place.split_whitespace().collect();
        // A suite that ends in `/` is a plain folder without components.
        let [_, suite, ..] = words.as_slice() else { continue };
        if !own_suite(suite, codename) {
            continue;
        }
        let options = match options.join(" ") {
            none if none.is_empty() => none,
            some => format!("[{some}] "),
        };
        found.push(format!("{} {options}{}\n", kind.word(), words.join(" ")));
    }
    found
}

/// Stanzas of the deb822 format: fields `Name: value`, continued by lines that begin with a blank.
fn stanzas_of(text: &str, codename: Option<&str>, kind: Kind) -> Vec<String> {
    let mut found = Vec::new();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for stanza in lines.split(|line| line.trim().is_empty()) {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in stanza {
            if line.starts_with([' ', '\t']) {
                if let Some((_, value)) = fields.last_mut() {
                    value.push('\n');
                    value.push_str(line);
                }
            } else if let Some((name, value)) = line.split_once(':') {
                fields.push((name.trim().to_owned(), value.trim().to_owned()));
            }
        }
        let field = |wanted: &str| {
            let mut fields = fields.iter();
            fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
        };
        let off = field("Enabled").is_some_and(|value| {
            ["no", "false", "off", "0"].contains(&value.to_lowercase().as_str())
        });
        let (Some(suites), Some(_)) = (field("Suites"), field("URIs")) else { continue };
        let suites: Vec<&str> =
            suites.split_whitespace().filter(|suite| own_suite(suite, codename)).collect();
        if off || suites.is_empty() {
            continue;
        }
        let mut out = format!("Types: {}\n", kind.word());
        for (name, value) in &fields {
            let lower = name.to_lowercase();
            let base = lower.trim_end_matches("-add").trim_end_matches("-remove");
            if lower == "suites" {
                out.push_str(&format!("Suites: {}\n", suites.join(" ")));
            } else if !DROPPED_FIELDS.contains(&base) {
                out.push_str(&format!("{name}: {value}\n"));
            }
        }
        found.push(out);
    }
    found
}

/// What apt complains about in a log, without the lines on progress.
fn complaints(log: &Path) -> Vec<String> {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    text.lines()
        .filter(|line| line.starts_with("E: ") || line.starts_with("W: "))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests;
