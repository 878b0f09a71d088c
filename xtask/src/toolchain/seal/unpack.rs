//! Unpacks packages into one root folder. Owners, devices and special bits stay outside; links are
//! followed only inside of the root, so that no package can write anywhere else, and no package can
//! replace what another one brought.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use fs_err as fs;
use tar::EntryType;

use crate::interrupt;
use crate::source::tree;
use crate::toolchain::place::follow;

/// Documentation and translations: half of all files, and no build reads them.
const LEFT_OUT: [&str; 6] = [
    "usr/share/doc",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/doc-base",
];
/// Bytes that a toolchain may have, unpacked; far above any.
const LIMIT: u64 = 32 << 30;

/// A root folder in the making.
pub(super) struct Unpacker<'a> {
    root: &'a Path,
    left: u64,
    /// Which package brought a file.
    owners: BTreeMap<PathBuf, String>,
}

impl<'a> Unpacker<'a> {
    /// For a root that has nothing but folders and links of ours.
    pub(super) fn new(root: &'a Path) -> Self {
        Self { root, left: LIMIT, owners: BTreeMap::new() }
    }

    /// Unpacks the content of one package, `label` for messages.
    ///
    /// # Errors
    /// Names the entry that is refused: one that leads out of the root, a device, or a file that
    /// another package has.
    pub(super) fn package(&mut self, label: &str, content: &mut impl Read) -> anyhow::Result<()> {
        let mut archive = tar::Archive::new(content);
        for entry in archive.entries()? {
            interrupt::check()?;
            let mut entry = entry.context("it is damaged or cut short")?;
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            self.entry(label, &mut entry).with_context(|| format!("the entry `{name}`"))?;
        }
        Ok(())
    }

    fn entry<R: Read>(&mut self, label: &str, entry: &mut tar::Entry<'_, R>) -> anyhow::Result<()> {
        let path = plain(&entry.path_bytes())?;
        if path.as_os_str().is_empty() || LEFT_OUT.iter().any(|folder| path.starts_with(folder)) {
            return Ok(());
        }
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            self.folder(&path)?;
            return Ok(());
        }
        let name = path.file_name().context("it has no name")?.to_owned();
        let place = self.folder(path.parent().unwrap_or(Path::new("")))?.join(name);
        let host = self.root.join(&place);
        if let Ok(there) = std::fs::symlink_metadata(&host) {
            let target = entry.link_name()?.map(|target| target.into_owned());
            if kind == EntryType::Symlink
                && there.is_symlink()
                && fs::read_link(&host).ok() == target
            {
                return Ok(());
            }
            let owner = self.owners.get(&place).map_or("the layout of the root", String::as_str);
            bail!("it is in `{owner}`, too");
        }
        match kind {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                self.file(&host, entry)?;
            }
            EntryType::Symlink => {
                let target = entry.link_name()?.context("it has no target")?.into_owned();
                fs::os::unix::fs::symlink(target, &host)?;
            }
            EntryType::Link => {
                let target = entry.link_name_bytes().context("it has no target")?.into_owned();
                let target = follow(self.root, &plain(&target)?).map(|path| self.root.join(path));
                let target = target.filter(|path| path.is_file());
                // Nobody writes into a finished root: two names of one file are no danger.
                fs::hard_link(target.context("its target is no file that came before")?, &host)?;
            }
            other => bail!("its type `{}` is none for a root", other.as_byte().escape_ascii()),
        }
        self.owners.insert(place, label.to_owned());
        Ok(())
    }

    /// The real path of a folder below the root, made if it is not there.
    fn folder(&self, path: &Path) -> anyhow::Result<PathBuf> {
        let mut at = PathBuf::new();
        for part in path.components() {
            let next = at.join(part);
            let host = self.root.join(&next);
            match std::fs::symlink_metadata(&host) {
                Ok(there) if there.is_dir() => at = next,
                Ok(there) if there.is_symlink() => {
                    at = follow(self.root, &next)
                        .filter(|path| self.root.join(path).is_dir())
                        .with_context(|| format!("`{}` leads to no folder", next.display()))?;
                }
                Ok(_) => bail!("`{}` is a file", next.display()),
                Err(_) => {
                    fs::create_dir(&host)?;
                    at = next;
                }
            }
        }
        Ok(at)
    }

    fn file<R: Read>(&mut self, host: &Path, entry: &mut tar::Entry<'_, R>) -> anyhow::Result<()> {
        let executable = entry.header().mode()? & 0o111 != 0;
        let mtime = entry.header().mtime()?;
        let mut file = fs::File::create_new(host)?;
        let length = std::io::copy(&mut entry.take(self.left), &mut file)
            .context("it is damaged or cut short")?;
        self.left -= length;
        if self.left == 0 {
            bail!("the packages have more than {LIMIT} bytes");
        }
        let mode = if executable { 0o755 } else { 0o644 };
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        let time = tree::time(mtime)?;
        let times = std::fs::FileTimes::new().set_modified(time).set_accessed(time);
        file.file().set_times(times).context("cannot set its time stamp")?;
        Ok(())
    }
}

/// The path of an entry below the root: without `./`, and nothing that leads upwards.
fn plain(name: &[u8]) -> anyhow::Result<PathBuf> {
    let mut path = PathBuf::new();
    for part in Path::new(std::ffi::OsStr::from_bytes(name)).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir => bail!("its path has `..`"),
            Component::RootDir | Component::Prefix(_) => bail!("its path is absolute"),
        }
    }
    Ok(path)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A tar with these entries: a name that ends in `/` is a folder, `a -> b` a symbolic link,
    /// `a => b` a hard link; all else is a program with this content.
    pub(crate) fn tar(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, content) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o4755);
            header.set_mtime(1_700_000_000);
            header.set_size(0);
            let link = [(" -> ", EntryType::Symlink), (" => ", EntryType::Link)];
            let found = link.iter().find_map(|(mark, kind)| {
                name.split_once(mark).map(|(name, target)| (*kind, name, target))
            });
            let name = if let Some((kind, name, target)) = found {
                header.set_entry_type(kind);
                header.set_link_name_literal(target).unwrap();
                name
            } else if name.ends_with('/') {
                header.set_entry_type(EntryType::Directory);
                name
            } else {
                header.set_size(content.len() as u64);
                name
            };
            // By hand: the builder refuses names that a test must have.
            let bytes = name.as_bytes();
            header.as_old_mut().name[..bytes.len()].copy_from_slice(bytes);
            header.set_cksum();
            builder
                .append(&header, if found.is_some() { &b""[..] } else { content.as_bytes() })
                .unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("usr/bin")).unwrap();
        symlink("usr/bin", root.path().join("bin")).unwrap();
        root
    }

    #[test]
    fn packages_share_folders_and_old_places_lead_to_new_ones() {
        let root = root();
        let mut unpacker = Unpacker::new(root.path());
        let first = tar(&[
            ("./", ""),
            ("./bin/", ""),
            ("./bin/sh", "shell"),
            ("./usr/share/doc/sh/x", "left out"),
            ("./etc/alternatives/sh -> /bin/sh", ""),
            ("./usr/lib/c => ./bin/sh", ""),
        ]);
        unpacker.package("dash", &mut first.as_slice()).unwrap();
        let second = tar(&[("./usr/bin/", ""), ("./usr/bin/cc", "cc"), ("./bin -> usr/bin", "")]);
        unpacker.package("gcc", &mut second.as_slice()).unwrap();
        let read = |path: &str| fs::read_to_string(root.path().join(path)).unwrap();
        assert_eq!((read("usr/bin/sh"), read("usr/bin/cc")), ("shell".into(), "cc".into()));
        assert_eq!(read("usr/lib/c"), "shell");
        assert!(!root.path().join("usr/share/doc").exists());
        let data = fs::metadata(root.path().join("usr/bin/sh")).unwrap();
        assert_eq!(data.permissions().mode() & 0o7777, 0o755, "no special bits");
    }

    #[test]
    fn what_does_not_belong_is_refused_by_name() {
        let outside = tempfile::tempdir().unwrap();
        let place = outside.path().display().to_string();
        let out = format!("out -> {place}");
        let up = "up -> ../../../../../../../../../../tmp";
        for (entries, why) in [
            (&[("../x", "")][..], "its path has `..`"),
            (&[("/etc/passwd", "")], "its path is absolute"),
            (&[(out.as_str(), ""), ("out/x", "")], "`out` leads to no folder"),
            (&[(up, ""), ("up/x", "")], "`up` leads to no folder"),
            (&[("usr/bin/cc", "1"), ("bin/cc", "2")], "it is in `odd`, too"),
            (&[("a", "1"), ("a/b", "2")], "`a` is a file"),
            (&[("bin -> sbin", "")], "it is in `the layout of the root`, too"),
            (&[("b => ../x", "")], "its path has `..`"),
            (&[("b => none", "")], "no file that came before"),
        ] {
            let root = root();
            let mut unpacker = Unpacker::new(root.path());
            let error = unpacker.package("odd", &mut tar(entries).as_slice()).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(why), "{entries:?}: {error}");
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0, "nothing is written there");
    }
}
