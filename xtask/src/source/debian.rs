//! `debian:PACKAGE=VERSION`: the system's own `apt-get source --download-only`, with lists, caches
//! and `deb-src` entries of our own below `work/apt`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use fs_err as fs;

use super::apt::{self, Apt, Kind};
use super::lock;
use crate::env::Env;
use crate::hash::Digest;
use crate::progress::Task;

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
    let apt = Apt::new(&env.work.join("apt"), etc, Kind::Source)?;
    let _lock = lock(env, &apt.dir.join("lock"))?;
    apt.write_config()?;
    let (update_log, source_log) = (into.join("update.log"), into.join("source.log"));
    apt.update(task, &update_log)?;
    let files = into.join("files");
    fs::create_dir(&files)?;
    let args = ["source", "--download-only", "--only-source", wanted];
    let call = apt.proc("apt-get", &args).log(&source_log).cwd(&files);
    if !apt.run(task, call, &files)? {
        bail!("{}", apt::reason(&source_log, &update_log));
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

#[cfg(test)]
mod tests;
