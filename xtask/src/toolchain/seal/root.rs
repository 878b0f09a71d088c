//! The root folder of a sealed toolchain: `work/toolchains/<first 12 digits of the lock's digest>/`
//! with the packages unpacked in `root/` and a stamp beside it. It is made in `work/staging` and
//! renamed into place; who changed it since is found out each time it is used.
//!
//! Nothing of a package is run to make it. What installation scripts would do and a build needs is
//! done here: one place for programs and libraries (`/bin` is `/usr/bin`), and the names that
//! distributions leave to a choice (`awk`, `cc`).

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fs_err as fs;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::env::Env;
use crate::hash::Digest;
use crate::launch::MOUNT_POINTS;
use crate::matrix::model::Family;
use crate::source::{self, staging, tree};
use crate::toolchain::seal::deb::Data;
use crate::toolchain::seal::fetch;
use crate::toolchain::seal::lock::Lock;
use crate::toolchain::seal::unpack::Unpacker;

/// Raised when the way of making a root changes; part of what identifies a sealed toolchain.
pub const REVISION: u32 = 1;

/// Folders that older packages still have at the top.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];
/// Names that installation scripts choose a program for, and the programs in the order of choice.
const CHOICES: [(&str, &[&str]); 5] = [
    ("awk", &["mawk", "gawk", "original-awk"]),
    ("sh", &["dash", "bash"]),
    ("yacc", &["bison.yacc", "byacc"]),
    ("lex", &["flex"]),
    ("which", &["which.debianutils"]),
];
/// Programs ask for the name of their user.
const USERS: &str = "root:x:0:0:root:/root:/bin/sh\n\
                     nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
const GROUPS: &str = "root:x:0:\nnogroup:x:65534:\n";

/// What is written beside a root when it is complete.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Stamp {
    revision: u32,
    /// [`Lock::digest`].
    lock: Digest,
    /// Names, executable bits, targets of links and contents of all files.
    content: Digest,
    /// [`seen`], by which a change shows without reading all files.
    seen: Digest,
}

/// The folder of a lock's root, there or not.
pub fn folder(env: &Env, lock: &Lock) -> PathBuf {
    let digest = Digest::of(format!("{REVISION} {}", lock.digest()).as_bytes());
    env.work.join("toolchains").join(digest.short())
}

/// Whether the root seems to be there; only [`ensure`] looks closely.
pub fn is_there(env: &Env, lock: &Lock) -> bool {
    folder(env, lock).join("root.json").is_file()
}

/// The root of a lock: the one that is there, if it is still as it was made, else a new one.
///
/// # Errors
/// When a package cannot be had or unpacked.
pub(super) fn ensure(env: &Env, lock: &Lock) -> anyhow::Result<PathBuf> {
    let folder = folder(env, lock);
    fs::create_dir_all(&folder)?;
    let _held = source::lock(env, &folder.with_extension("lock"))?;
    let (root, stamp_path) = (folder.join("root"), folder.join("root.json"));
    if reuse(env, lock, &root, &stamp_path)? {
        return Ok(root);
    }
    let task = env.reporter.task(format!("toolchain {}", lock.name), None);
    let files = fetch::ensure(env, &task, lock)?;
    task.state(format!("unpacking {}", lock.size()));
    let staging = staging(env)?;
    let made = staging.path().join("root");
    fs::create_dir(&made)?;
    make(&made, lock, &files)?;
    let content = tree::hashes(&made)?.content;
    // The old stamp goes first, the new one comes last.
    if stamp_path.exists() {
        fs::remove_file(&stamp_path)?;
    }
    if root.symlink_metadata().is_ok() {
        fs::rename(&root, staging.path().join("old"))?;
    }
    fs::rename(&made, &root)?;
    let stamp = Stamp { revision: REVISION, lock: lock.digest(), content, seen: seen(&root)? };
    write(&stamp_path, &stamp)?;
    task.finish(format!("unpacked into {}", env.shown(&root)));
    Ok(root)
}

fn write(path: &Path, stamp: &Stamp) -> anyhow::Result<()> {
    let draft = path.with_extension("draft");
    fs::write(&draft, serde_json::to_vec_pretty(stamp)?)?;
    Ok(fs::rename(draft, path)?)
}

/// Whether the root that is there is finished and untouched.
fn reuse(env: &Env, lock: &Lock, root: &Path, stamp_path: &Path) -> anyhow::Result<bool> {
    let Ok(text) = fs::read(stamp_path) else { return Ok(false) };
    let Ok(mut stamp) = serde_json::from_slice::<Stamp>(&text) else { return Ok(false) };
    if stamp.revision != REVISION || stamp.lock != lock.digest() || !root.is_dir() {
        return Ok(false);
    }
    let now = seen(root)?;
    if now == stamp.seen {
        return Ok(true);
    }
    // Another disk or a restored copy has other numbers and times: what counts is the content.
    if tree::hashes(root).is_ok_and(|hashes| hashes.content == stamp.content) {
        stamp.seen = now;
        write(stamp_path, &stamp)?;
        return Ok(true);
    }
    env.reporter.warn(format!(
        "{} was changed since it was unpacked; it is unpacked again",
        env.shown(root)
    ));
    Ok(false)
}

/// A hash over what the system knows of each file without opening it. The time of the last change
/// (`ctime`) cannot be set back.
fn seen(root: &Path) -> anyhow::Result<Digest> {
    let mut lines: Vec<(PathBuf, [i64; 7])> = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let data = entry.metadata()?;
            if data.is_dir() {
                open.push(entry.path());
            }
            let numbers = [
                i64::from(data.mode()),
                data.size().cast_signed(),
                data.ino().cast_signed(),
                data.mtime(),
                data.mtime_nsec(),
                data.ctime(),
                data.ctime_nsec(),
            ];
            lines.push((entry.path().strip_prefix(root)?.to_owned(), numbers));
        }
    }
    lines.sort();
    let mut hasher = Sha256::new();
    for (path, numbers) in lines {
        hasher.update(path.as_os_str().as_bytes());
        hasher.update([0]);
        numbers.iter().for_each(|number| hasher.update(number.to_le_bytes()));
    }
    Ok(Digest(hasher.finalize().into()))
}

/// Makes a root from the files of a lock's packages.
fn make(root: &Path, lock: &Lock, files: &[PathBuf]) -> anyhow::Result<()> {
    for name in MERGED {
        fs::create_dir_all(root.join("usr").join(name))?;
        fs::os::unix::fs::symlink(Path::new("usr").join(name), root.join(name))?;
    }
    let mut unpacker = Unpacker::new(root);
    for (package, file) in lock.packages.iter().zip(files) {
        let label = package.label();
        let mut unpack = || -> anyhow::Result<()> {
            let mut data = Data::open(file)?;
            unpacker.package(&label, &mut data)?;
            data.finish()
        };
        unpack().with_context(|| format!("cannot unpack package {label}"))?;
    }
    for name in MOUNT_POINTS.into_iter().chain(["etc", "root"]) {
        fs::create_dir_all(root.join(name))?;
    }
    let (cc, cxx) = match lock.family {
        Family::Gcc => ("gcc", "g++"),
        Family::Clang => ("clang", "clang++"),
    };
    choose(root, "cc", lock.programs.cc.iter().map(String::as_str).chain([cc]))?;
    choose(root, "c++", lock.programs.cxx.iter().map(String::as_str).chain([cxx]))?;
    for (name, programs) in CHOICES {
        choose(root, name, programs.iter().copied())?;
    }
    for (name, text) in [("etc/passwd", USERS), ("etc/group", GROUPS)] {
        if !root.join(name).exists() {
            fs::write(root.join(name), text)?;
        }
    }
    Ok(())
}

/// Gives a name to the first of these programs that is there, unless the name is taken.
fn choose<'a>(
    root: &Path,
    name: &str,
    mut programs: impl Iterator<Item = &'a str>,
) -> anyhow::Result<()> {
    let bin = root.join("usr/bin");
    if bin.join(name).symlink_metadata().is_ok() {
        return Ok(());
    }
    if let Some(program) = programs.find(|program| bin.join(program).symlink_metadata().is_ok()) {
        fs::os::unix::fs::symlink(program, bin.join(name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Reporter;
    use crate::toolchain::place::Place;
    use crate::toolchain::seal::deb::tests::package;
    use crate::toolchain::seal::lock::tests::lock;
    use crate::toolchain::seal::unpack::tests::tar;

    /// A lock whose two packages lie in a mirror, with these entries.
    fn sealed(folder: &Path, gcc: &[(&str, &str)], make: &[(&str, &str)]) -> (Env, Lock) {
        let env = Env {
            root: folder.to_owned(),
            matrix: folder.join("matrix.toml"),
            results: folder.join("results"),
            work: folder.join("work"),
            sources: Some(folder.join("mirror")),
            jobs: 1,
            keep_going: true,
            reporter: Reporter::new(true),
        };
        let mut lock = lock("gcc");
        lock.distribution = "nowhere".to_owned();
        fs::create_dir_all(folder.join("mirror")).unwrap();
        for (package, entries) in lock.packages.iter_mut().zip([gcc, make]) {
            let bytes = self::package(&tar(entries));
            package.sha256 = Digest::of(&bytes);
            package.size = bytes.len() as u64;
            fs::write(folder.join("mirror").join(package.file_name()), bytes).unwrap();
        }
        (env, lock)
    }

    #[test]
    fn a_root_has_one_layout_and_the_usual_names() {
        let folder = tempfile::tempdir().unwrap();
        let gcc = [("./usr/bin/gcc", "cc"), ("./lib/libgcc.so", "lib"), ("./bin/dash", "sh")];
        let make = [("./usr/bin/make", "make"), ("./usr/bin/mawk", "awk")];
        let (env, lock) = sealed(folder.path(), &gcc, &make);
        assert!(!is_there(&env, &lock));
        let root = ensure(&env, &lock).unwrap();
        assert!(is_there(&env, &lock));
        let place = Place::sealed(&root);
        for (name, real) in [
            ("cc", "/usr/bin/gcc"),
            ("awk", "/usr/bin/mawk"),
            ("/bin/sh", "/usr/bin/dash"),
            ("make", "/usr/bin/make"),
        ] {
            assert_eq!(place.real(&place.which(name).unwrap()), Path::new(real), "{name}");
        }
        assert!(root.join("usr/lib/libgcc.so").is_file());
        assert!(MOUNT_POINTS.iter().all(|name| root.join(name).is_dir()));
        assert!(fs::read_to_string(root.join("etc/passwd")).unwrap().starts_with("root:"));
        // The same packages under another name share it.
        let other = Lock { name: "gcc-12".to_owned(), ..lock.clone() };
        assert_eq!(ensure(&env, &other).unwrap(), root);
    }

    #[test]
    fn a_changed_root_is_noticed_and_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let (env, lock) =
            sealed(folder.path(), &[("./usr/bin/gcc", "gcc")], &[("./usr/bin/make", "make")]);
        let root = ensure(&env, &lock).unwrap();
        let cc = root.join("usr/bin/gcc");
        let made = fs::metadata(&cc).unwrap();
        ensure(&env, &lock).unwrap();
        assert_eq!(fs::metadata(&cc).unwrap().ino(), made.ino(), "untouched: nothing is done");
        // Same length, same time stamp: only the content and the time of change tell.
        fs::write(&cc, "GCC").unwrap();
        let times = std::fs::FileTimes::new().set_modified(made.modified().unwrap());
        std::fs::File::open(&cc).unwrap().set_times(times).unwrap();
        ensure(&env, &lock).unwrap();
        assert_eq!(fs::read_to_string(&cc).unwrap(), "gcc");
        fs::write(root.join("usr/bin/extra"), "").unwrap();
        ensure(&env, &lock).unwrap();
        assert!(!root.join("usr/bin/extra").exists());
        // A copy has other times but the same content, and is believed.
        let inode = fs::metadata(&cc).unwrap().ino();
        std::fs::File::open(&cc).unwrap().set_times(times).unwrap();
        ensure(&env, &lock).unwrap();
        assert_eq!(fs::metadata(&cc).unwrap().ino(), inode);
        // Half done is not done.
        fs::remove_file(root.with_file_name("root.json")).unwrap();
        fs::remove_file(&cc).unwrap();
        ensure(&env, &lock).unwrap();
        assert!(cc.is_file());
    }

    #[test]
    fn a_file_of_two_packages_is_told_with_both_names() {
        let folder = tempfile::tempdir().unwrap();
        let (env, lock) = sealed(folder.path(), &[("./bin/x", "1")], &[("./usr/bin/x", "2")]);
        let error = format!("{:#}", ensure(&env, &lock).unwrap_err());
        let wanted = "cannot unpack package make 4.3 amd64: the entry `./usr/bin/x`: \
                      it is in `gcc-12 12.2.0-14 amd64`, too";
        assert_eq!(error, wanted);
        assert!(!is_there(&env, &lock));
    }
}
