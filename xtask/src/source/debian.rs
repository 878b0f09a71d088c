//! `debian:PACKAGE=VERSION`: the system's own `apt-get source --download-only`, with lists, caches
//! and `deb-src` entries of our own below `work/apt`. Nothing of the system is changed or
//! installed; its proxy and login settings (`apt.conf.d`, `auth.conf.d`) stay in force.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use fs_err as fs;

use super::fetch::{NETWORK_VARIABLES, last_line, needs, watch};
use super::lock;
use crate::env::Env;
use crate::hash::Digest;
use crate::host::os;
use crate::proc::Proc;
use crate::progress::Task;

/// Fields of a deb822 stanza that say nothing about source packages or would switch it off.
const DROPPED_FIELDS: [&str; 5] = ["types", "enabled", "architectures", "languages", "targets"];
/// The same as options of a one-line entry.
const DROPPED_OPTIONS: [&str; 3] = ["arch", "lang", "target"];

/// Downloads the source package into `into` and returns that of its files which has the hash, or
/// without a hash the upstream archive.
///
/// # Errors
/// When there is no `apt-get`, no list has the package in that version, or no file has the hash.
pub(super) fn get(
    env: &Env,
    task: &Task,
    package: &str,
    version: &str,
    into: &Path,
    sha256: Option<Digest>,
) -> anyhow::Result<PathBuf> {
    let files = download(env, task, Path::new("/etc"), &format!("{package}={version}"), into)?;
    match sha256 {
        Some(sha256) => pick(&files, sha256),
        None => upstream(&files),
    }
}

/// The one file that upstream made: `NAME_VERSION.orig.tar.*`.
fn upstream(files: &Path) -> anyhow::Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(files)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.contains(".orig.tar.") && !name.ends_with(".asc") {
            found.push(path);
        }
    }
    match (found.pop(), found.is_empty()) {
        (Some(path), true) => Ok(path),
        _ => bail!("the package has not exactly one upstream archive (`.orig.tar.*`)"),
    }
}

/// Downloads all files of a source package into a new folder, with the lists below `etc`.
fn download(
    env: &Env,
    task: &Task,
    etc: &Path,
    wanted: &str,
    into: &Path,
) -> anyhow::Result<PathBuf> {
    let apt = Apt::new(&env.work.join("apt"), etc)?;
    let _lock = lock(env, &apt.dir.join("lock"))?;
    apt.write_config()?;
    let (update_log, source_log) = (into.join("update.log"), into.join("source.log"));
    // One list of several may be out of reach without harm: whether the package can be had tells
    // the next step.
    apt.run(task, &["update"], &update_log, &apt.dir.join("lists"))?;
    let files = into.join("files");
    fs::create_dir(&files)?;
    let args = ["source", "--download-only", "--only-source", wanted];
    if !apt.run_in(task, &args, &source_log, &files)? {
        let mut reason = complaints(&source_log).join("; ");
        if reason.is_empty() {
            reason = last_line(&source_log).unwrap_or_else(|| "apt-get source failed".into());
        }
        if let Some(line) = complaints(&update_log).first() {
            reason.push_str(&format!(" (and apt-get update said: {line})"));
        }
        bail!("{reason}");
    }
    Ok(files)
}

/// The file with the hash.
fn pick(files: &Path, sha256: Digest) -> anyhow::Result<PathBuf> {
    let mut others = Vec::new();
    for entry in fs::read_dir(files)? {
        let path = entry?.path();
        let got = Digest::of_file(&path)?;
        if got == sha256 {
            return Ok(path);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.contains(".tar") {
            others.push(format!("`{name}` has sha256 {got}"));
        }
    }
    others.sort_unstable();
    bail!("no file of the package has sha256 {sha256}: {}; none was kept", others.join(", "))
}

/// A call of apt-get that knows only our own folders.
struct Apt {
    dir: PathBuf,
    lists: Vec<(String, String)>,
}

impl Apt {
    /// Prepares the folders in `dir` and reads the system's lists below `etc`.
    fn new(dir: &Path, etc: &Path) -> anyhow::Result<Self> {
        if dir.to_string_lossy().contains(['"', '\n', '\\']) {
            bail!("apt-get cannot use the path {}", dir.display());
        }
        for sub in ["lists/partial", "cache/archives/partial", "state", "sources"] {
            fs::create_dir_all(dir.join(sub))?;
        }
        let lists = source_lists(etc)?;
        if lists.is_empty() {
            bail!("the system has no list of packages in {}/apt", etc.display());
        }
        Ok(Self { dir: dir.to_owned(), lists })
    }

    fn write_config(&self) -> anyhow::Result<()> {
        fs::remove_dir_all(self.dir.join("sources"))?;
        fs::create_dir(self.dir.join("sources"))?;
        for (name, text) in &self.lists {
            fs::write(self.dir.join("sources").join(name), text)?;
        }
        fs::write(self.dir.join("status"), "")?;
        fs::write(self.dir.join("apt.conf"), config(&self.dir))?;
        Ok(())
    }

    fn proc(&self, args: &[&str], log: &Path) -> Proc {
        Proc::new("apt-get")
            .arg("--config-file")
            .arg(self.dir.join("apt.conf"))
            .args(args)
            .inherit(&NETWORK_VARIABLES)
            .log(log)
    }

    fn run(&self, task: &Task, args: &[&str], log: &Path, grows: &Path) -> anyhow::Result<bool> {
        let mut running = self.proc(args, log).spawn().map_err(|error| needs(error, "apt-get"))?;
        Ok(watch(task, &mut running, grows)?.success())
    }

    fn run_in(&self, task: &Task, args: &[&str], log: &Path, cwd: &Path) -> anyhow::Result<bool> {
        let mut running =
            self.proc(args, log).cwd(cwd).spawn().map_err(|error| needs(error, "apt-get"))?;
        Ok(watch(task, &mut running, cwd)?.success())
    }
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
         Acquire::Languages \"none\";\n\
         Acquire::Retries \"2\";\n"
    );
    for scheme in ["http", "https"] {
        text.push_str(&format!("Acquire::{scheme}::Timeout \"10\";\n"));
    }
    for hook in ["Pre-Invoke", "Post-Invoke", "Post-Invoke-Success"] {
        text.push_str(&format!("#clear APT::Update::{hook};\n"));
    }
    if nix::unistd::Uid::effective().is_root() {
        text.push_str("APT::Sandbox::User \"root\";\n");
    }
    text
}

/// The system's lists as lists of source packages: file name and text.
///
/// Only entries of the system's own release (`bookworm`, `bookworm-updates`, …) are taken, so that
/// the lists of other vendors cost no time; all entries if that leaves none.
fn source_lists(etc: &Path) -> anyhow::Result<Vec<(String, String)>> {
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
                (&mut stanzas, stanzas_of(text, codename))
            } else {
                (&mut lines, lines_of(text, codename))
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
fn lines_of(text: &str, codename: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some((kind, rest)) = line.split_once(char::is_whitespace) else { continue };
        if kind != "deb" && kind != "deb-src" {
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
        found.push(format!("deb-src {options}{}\n", words.join(" ")));
    }
    found
}

/// Stanzas of the deb822 format: fields `Name: value`, continued by lines that begin with a blank.
fn stanzas_of(text: &str, codename: Option<&str>) -> Vec<String> {
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
        let mut out = String::from("Types: deb-src\n");
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
