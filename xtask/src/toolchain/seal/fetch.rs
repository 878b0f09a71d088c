//! The packages of a lock as files, each checked by its hash: what is there already, a mirror here,
//! the system's own apt, then the archives that the lock names. What does not match is never kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::env::Env;
use crate::exit::{Code, code_of, coded};
use crate::hash::Digest;
use crate::host::os;
use crate::interrupt;
use crate::progress::Task;
use crate::source::fetch::{check, copy, download};
use crate::source::{apt, staging};
use crate::toolchain::seal::closure;
use crate::toolchain::seal::lock::{Lock, Package};

/// How many packages that cannot be had are named one by one.
const SHOWN: usize = 8;

/// The file of each package, in the order of the lock.
///
/// # Errors
/// When one cannot be had: each with the reason of every place that was asked.
pub(super) fn ensure(env: &Env, task: &Task, lock: &Lock) -> anyhow::Result<Vec<PathBuf>> {
    fs::create_dir_all(env.downloads())?;
    let mut missing = Missing { env, task, lock, left: BTreeMap::new() };
    for (index, package) in lock.packages.iter().enumerate() {
        interrupt::check()?;
        let path = missing.place(package);
        if path.exists() && Digest::of_file(&path)? != package.sha256 {
            env.reporter.warn(format!("{} is damaged; it is fetched again", env.shown(&path)));
            fs::remove_file(&path)?;
        }
        if !path.exists() {
            missing.left.insert(index, Vec::new());
        }
    }
    if !missing.left.is_empty() {
        task.state(format!("fetching {} of {}", missing.left.len(), lock.size()));
        missing.from_mirror()?;
        missing.from_apt()?;
        missing.from_archives()?;
    }
    missing.finish()?;
    Ok(lock.packages.iter().map(|package| missing.place(package)).collect())
}

/// What is still to be had, with the reasons why it was not so far.
struct Missing<'a> {
    env: &'a Env,
    task: &'a Task,
    lock: &'a Lock,
    left: BTreeMap<usize, Vec<String>>,
}

impl Missing<'_> {
    fn place(&self, package: &Package) -> PathBuf {
        self.env.downloads().join(package.sha256.to_string())
    }

    fn packages(&self) -> Vec<(usize, Package)> {
        self.left.keys().map(|&index| (index, self.lock.packages[index].clone())).collect()
    }

    /// Takes a file if it is the package, else remembers why not.
    fn take(&mut self, index: usize, from: &str, file: anyhow::Result<PathBuf>) {
        let package = &self.lock.packages[index];
        let kept = file.and_then(|file| {
            check(&file, package.sha256)?;
            Ok(fs::rename(&file, self.place(package))?)
        });
        match kept {
            Ok(()) => {
                self.left.remove(&index);
            }
            Err(error) => self.left.entry(index).or_default().push(format!("{from}: {error:#}")),
        }
    }

    /// A folder of files by their own names, by their path in the distribution, or by their hash.
    fn from_mirror(&mut self) -> anyhow::Result<()> {
        let Some(mirror) = self.env.sources.clone() else { return Ok(()) };
        let staging = staging(self.env)?;
        for (index, package) in self.packages() {
            let hash = package.sha256.to_string();
            for name in [hash.as_str(), package.file_name(), &package.file] {
                let from = mirror.join(name);
                if from.is_file() && self.left.contains_key(&index) {
                    let file = staging.path().join("package");
                    let copied = copy(&from, &file).map(|()| file);
                    self.take(index, &from.display().to_string(), copied);
                }
            }
        }
        Ok(())
    }

    /// The system's own apt, for what its lists still have.
    fn from_apt(&mut self) -> anyhow::Result<()> {
        let own = os::field(&os::release(), "ID").unwrap_or_default();
        if self.left.is_empty() || own != self.lock.distribution {
            return Ok(());
        }
        let asked = self.ask_apt();
        match asked {
            Err(error) if code_of(&error) == Code::Interrupted => Err(error),
            Err(error) => {
                for reasons in self.left.values_mut() {
                    reasons.push(format!("apt-get: {error:#}"));
                }
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn ask_apt(&mut self) -> anyhow::Result<()> {
        let (apt, _held) = closure::apt(self.env, self.task)?;
        let asked: Vec<_> = (self.packages().into_iter())
            .map(|(_, package)| (package.name, package.version, package.architecture))
            .collect();
        let known = closure::records(&apt, &asked)?;
        let (mut there, mut gone) = (Vec::new(), Vec::new());
        for (index, package) in self.packages() {
            let same = |record: &&Package| {
                record.name == package.name && record.architecture == package.architecture
            };
            let all: Vec<&Package> = known.iter().filter(same).collect();
            if all.iter().any(|record| record.sha256 == package.sha256) {
                there.push((index, package));
            } else {
                let has: Vec<_> = all.iter().map(|record| record.version.as_str()).collect();
                gone.push((index, has.join(", ")));
            }
        }
        for (index, has) in gone {
            let has = if has.is_empty() { "no version of it".to_owned() } else { has };
            let reason = format!("apt-get: the system's lists have {has}");
            self.left.entry(index).or_default().push(reason);
        }
        if there.is_empty() {
            return Ok(());
        }
        let bytes: u64 = there.iter().map(|(_, package)| package.size).sum();
        let (count, megabytes) = (there.len(), bytes as f64 / 1e6);
        self.task.state(format!("fetching {count} packages, {megabytes:.0} MB, by apt-get"));
        let staging = staging(self.env)?;
        let (files, log) = (staging.path().join("files"), staging.path().join("download.log"));
        fs::create_dir(&files)?;
        let names = there.iter().map(|(_, package)| match package.architecture.as_str() {
            "all" => format!("{}={}", package.name, package.version),
            other => format!("{}:{other}={}", package.name, package.version),
        });
        let call = apt.proc("apt-get", &["download"]).args(names).cwd(&files).log(&log);
        let fetched = apt.run(self.task, call, &files)?;
        let by_hash = hashes(&files)?;
        for (index, package) in there {
            let reason = || match fetched {
                true => "it brought other content".to_owned(),
                false => apt::reason(&log, Path::new("")),
            };
            let file = by_hash.get(&package.sha256).cloned();
            self.take(index, "apt-get", file.ok_or_else(|| anyhow::anyhow!(reason())));
        }
        Ok(())
    }

    /// The addresses in the lock.
    fn from_archives(&mut self) -> anyhow::Result<()> {
        let staging = staging(self.env)?;
        for archive in &self.lock.archives {
            let base = archive.trim_end_matches('/');
            for (index, package) in self.packages() {
                interrupt::check()?;
                let file = staging.path().join("package");
                let url = format!("{base}/{}", package.file);
                let got = match base.strip_prefix("file:") {
                    Some(folder) => copy(&Path::new(folder).join(&package.file), &file),
                    None => {
                        self.task.state(format!("downloading {url}"));
                        download(self.task, &url, &file)
                    }
                };
                match got {
                    Err(error) if code_of(&error) == Code::Interrupted => return Err(error),
                    got => self.take(index, &url, got.map(|()| file)),
                }
            }
        }
        Ok(())
    }

    fn finish(&self) -> anyhow::Result<()> {
        if self.left.is_empty() {
            return Ok(());
        }
        let (left, all) = (self.left.len(), self.lock.packages.len());
        let mut text = format!("{left} of {all} packages cannot be had:");
        for (index, reasons) in self.left.iter().take(SHOWN) {
            let package = &self.lock.packages[*index];
            text.push_str(&format!("\n  {} (sha256 {})", package.label(), package.sha256));
            for reason in reasons {
                text.push_str(&format!("\n    {reason}"));
            }
        }
        if left > SHOWN {
            text.push_str(&format!("\n  and {} more", left - SHOWN));
        }
        let lock = self.lock;
        text.push_str(&format!(
            "\n  `--sources DIR` names a folder with their files; an archive that keeps old \
             versions of {} {} can be put into the lock by `archives`",
            lock.distribution, lock.codename
        ));
        Err(coded(Code::Environment, text))
    }
}

/// The files of a folder by their hash.
fn hashes(folder: &Path) -> anyhow::Result<BTreeMap<Digest, PathBuf>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            found.insert(Digest::of_file(&path)?, path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Reporter;
    use crate::toolchain::seal::lock::tests::lock;

    fn env(folder: &Path) -> Env {
        Env {
            root: folder.to_owned(),
            matrix: folder.join("matrix.toml"),
            results: folder.join("results"),
            work: folder.join("work"),
            sources: Some(folder.join("mirror")),
            jobs: 1,
            keep_going: true,
            reporter: Reporter::new(true),
        }
    }

    #[test]
    fn a_package_with_other_bytes_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let env = env(folder.path());
        let mut lock = lock("gcc");
        // No system is this one: apt is not asked.
        lock.distribution = "nowhere".to_owned();
        lock.archives = vec![format!("file:{}", folder.path().join("archive").display())];
        let mirror = folder.path().join("mirror");
        fs::create_dir(&mirror).unwrap();
        let archive = folder.path().join("archive/pool/main/x");
        fs::create_dir_all(&archive).unwrap();
        fs::write(mirror.join("gcc-12_12.2.0-14_amd64.deb"), "gcc-12").unwrap();
        fs::write(archive.join("make_4.3_amd64.deb"), "other bytes").unwrap();
        let task = env.reporter.task("test", None);
        let error = format!("{:#}", ensure(&env, &task, &lock).unwrap_err());
        for part in [
            "1 of 2 packages cannot be had",
            "make 4.3 amd64",
            &Digest::of(b"make").to_string(),
            "make_4.3_amd64.deb: wrong content",
            &Digest::of(b"other bytes").to_string(),
        ] {
            assert!(error.contains(part), "no `{part}` in {error}");
        }
        assert!(!error.contains("gcc-12 "), "that one is there: {error}");
        let kept: Vec<_> = fs::read_dir(env.downloads()).unwrap().flatten().collect();
        assert_eq!(kept.len(), 1, "what does not match is not kept");
        // The right bytes, under the path in the archive; the first one is there by now.
        fs::write(archive.join("make_4.3_amd64.deb"), "make").unwrap();
        fs::remove_dir_all(&mirror).unwrap();
        let files = ensure(&env, &task, &lock).unwrap();
        assert_eq!(fs::read_to_string(&files[0]).unwrap(), "gcc-12");
        assert_eq!(fs::read_to_string(&files[1]).unwrap(), "make");
        // Damaged on the disk: not believed.
        fs::write(&files[1], "damaged").unwrap();
        assert_eq!(fs::read_to_string(&ensure(&env, &task, &lock).unwrap()[1]).unwrap(), "make");
    }
}
