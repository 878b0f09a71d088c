//! Patches: those of the folders `patches/<engine>/<from>..<to>/` in whose range the source's
//! release lies, folder by folder in the order of their names; then those of
//! `patches/<engine>/<source>/`; then those that the source's entry lists. In a folder
//! `NNN-name.patch`, in the order of their numbers. Applied strictly: no fuzz, no rejects, no patch
//! that is in already.
//!
//! Time stamps: everything that a patch touches gets the tree's newest time stamp plus one second.
//! So what is generated from a patched file (a parser from its grammar) is out of date for make and
//! is generated again in the build, unless the patch changes the generated file as well, when both
//! are equally new, which make takes as up to date. Who patches `configure.ac` patches `configure`.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use fs_err as fs;

use super::fetch::needs;
use super::tree::{self, Entry};
use crate::exit::{Code, code_of};
use crate::hash::Digest;
use crate::interrupt;
use crate::matrix::model::Source;
use crate::matrix::pattern::Pattern;
use crate::proc::Proc;

/// The patches of a source in the order in which they are applied: path below `patches/`, hash.
///
/// # Errors
/// When a name does not fit the format, a number is there twice in a folder, a patch is listed
/// twice, cannot be read, or does not say at its top why it is there.
pub(super) fn list(root: &Path, source: &Source) -> anyhow::Result<Vec<(String, Digest)>> {
    let mut paths = Vec::new();
    for folder in ranges(root, source)? {
        paths.extend(numbered(root, &folder)?);
    }
    paths.extend(numbered(root, &format!("{}/{}", source.engine.name(), source.name))?);
    paths.extend(source.patches.iter().cloned());
    let mut seen = BTreeSet::new();
    let read = |path: String| {
        let plain = |part| matches!(part, Component::Normal(_));
        if !Path::new(&path).components().all(plain) {
            bail!("the patch `{path}` must be a plain path below `patches/`");
        }
        if !seen.insert(path.clone()) {
            bail!("the patch `patches/{path}` is listed twice");
        }
        let text = fs::read(root.join(&path))?;
        if !has_header(&text) {
            bail!(
                "the patch `patches/{path}` does not say why it is there: \
                 lines of text are needed before its first `diff` or `---`"
            );
        }
        Ok((path, Digest::of(&text)))
    };
    paths.into_iter().map(read).collect()
}

/// The folders of an engine that are named by a range with the source's release in it, by name. No
/// source has such a name, so a name with `..` that is no range is a mistake.
fn ranges(root: &Path, source: &Source) -> anyhow::Result<Vec<String>> {
    let engine = source.engine.name();
    let dir = root.join(engine);
    let mut found = Vec::new();
    if !dir.is_dir() {
        return Ok(found);
    }
    for entry in fs::read_dir(&dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_hidden = name.starts_with('.') && !name.starts_with("..");
        if is_hidden || !name.contains("..") {
            continue;
        }
        let range = match Pattern::version(&name) {
            Ok(range @ Pattern::Versions(..)) if range.to_string() == name => range,
            other => bail!(
                "`patches/{engine}/{name}` is no range of releases{}: `<from>..<to>` is needed, \
                 both included, as in `5.6.0..5.6.41`",
                other.err().map(|why| format!(" ({why})")).unwrap_or_default()
            ),
        };
        let version = source.version.as_ref().map(ToString::to_string);
        if version.is_some_and(|version| range.matches(&version)) {
            found.push(format!("{engine}/{name}"));
        }
    }
    found.sort();
    Ok(found)
}

/// The patches of one folder below `patches/`, by number; none when it is not there.
fn numbered(root: &Path, folder: &str) -> anyhow::Result<Vec<String>> {
    let mut numbered: BTreeMap<u32, String> = BTreeMap::new();
    let dir = root.join(folder);
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    for entry in fs::read_dir(&dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        let Some(number) = number(&name) else {
            bail!(
                "`patches/{folder}/{name}` is no name of a patch: `NNN-name.patch` is needed \
                 (three digits, letters, digits, `.`, `_` and `-`)"
            );
        };
        if let Some(other) = numbered.insert(number, format!("{folder}/{name}")) {
            bail!("`patches/{other}` and `patches/{folder}/{name}` have the same number");
        }
    }
    Ok(numbered.into_values().collect())
}

/// The number of a well-formed name.
fn number(name: &str) -> Option<u32> {
    let stem = name.strip_suffix(".patch")?;
    let (digits, rest) = stem.split_at_checked(3)?;
    let rest = rest.strip_prefix('-')?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let ok = digits.bytes().all(|byte| byte.is_ascii_digit())
        && !rest.is_empty()
        && rest.bytes().all(plain);
    if ok { digits.parse().ok() } else { None }
}

fn has_header(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.lines()
        .take_while(|line| {
            !["diff ", "--- ", "Index: ", "*** "].iter().any(|mark| line.starts_with(mark))
        })
        .any(|line| !line.trim().is_empty())
}

/// Applies the patches to the tree, whose newest time stamp is `epoch`.
///
/// # Errors
/// When a patch changed since it was listed or does not apply exactly.
pub(super) fn apply(
    root: &Path,
    patches: &[(String, Digest)],
    tree: &Path,
    epoch: u64,
) -> anyhow::Result<()> {
    let before = inodes(tree)?;
    for (path, digest) in patches {
        interrupt::check()?;
        let text = fs::read(root.join(path))?;
        if Digest::of(&text) != *digest {
            bail!("`patches/{path}` changed while the tool was running; start again");
        }
        apply_one(path, text, tree)?;
    }
    let listing = tree::list(tree)?;
    tree::check_links(&listing).context("a patch makes a link that is refused")?;
    tree::plain_modes(tree, &listing)?;
    for (path, _) in inodes(tree)?.into_iter().filter(|(path, id)| before.get(path) != Some(id)) {
        tree::set_mtime(&tree.join(path), epoch + 1)?;
    }
    // The folders last: making, renaming and removing files in them changed their times.
    for path in listing.iter().filter(|(_, entry)| **entry == Entry::Dir).map(|(path, _)| path) {
        tree::set_mtime(&tree.join(path), epoch)?;
    }
    tree::set_mtime(tree, epoch)
}

fn apply_one(path: &str, text: Vec<u8>, tree: &Path) -> anyhow::Result<()> {
    let result = Proc::new("patch")
        .args(["-p1", "--batch", "--forward", "--fuzz=0", "--no-backup-if-mismatch"])
        .args(["--reject-file=-", "--unified"])
        .stdin(text)
        .cwd(tree)
        .run();
    match result {
        Ok(_) => Ok(()),
        Err(error) if code_of(&error) == Code::Environment => Err(needs(error, "patch")),
        Err(error) => Err(error.context(format!("`patches/{path}` does not apply"))),
    }
}

/// What tells a rewritten file from an untouched one: `patch` replaces files, it never edits them.
fn inodes(tree: &Path) -> anyhow::Result<BTreeMap<PathBuf, (u64, i64, i64)>> {
    let mut all = BTreeMap::new();
    for (path, entry) in tree::list(tree)? {
        if matches!(entry, Entry::File { .. }) {
            let meta = fs::symlink_metadata(tree.join(&path))?;
            all.insert(path, (meta.ino(), meta.mtime(), meta.mtime_nsec()));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::spec::tests::spec;
    use crate::matrix::model::Engine;

    #[test]
    fn names_are_strict() {
        assert_eq!(number("001-fix.patch"), Some(1));
        assert_eq!(number("120-a_b.c-d.patch"), Some(120));
        for bad in
            ["1-a.patch", "001-.patch", "001a.patch", "001-a.diff", "00x-a.patch", "é-a.patch"]
        {
            assert_eq!(number(bad), None, "{bad}");
        }
    }

    #[test]
    fn ranges_hold_both_ends_and_come_before_the_sources_own() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path();
        let put = |path: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, "Why.\n\n--- a/x\n+++ b/x\n").expect("written");
        };
        for path in [
            "mysql/5.6.0..5.6.41/020-two.patch",
            "mysql/5.6.0..5.6.41/010-one.patch",
            "mysql/5.6.21..8.0/010-both.patch",
            "mysql/my/005-own.patch",
            "mysql/more/010-named.patch",
            "mariadb/5.6.0..5.6.41/010-other.patch",
        ] {
            put(path);
        }
        let listed = |version: &str| {
            let mut source = spec(&[]).source;
            source.engine = Engine::Mysql;
            source.name = "my".to_owned();
            source.version = version.parse().ok();
            source.patches = vec!["mysql/more/010-named.patch".to_owned()];
            let list = list(root, &source).map_err(|error| error.to_string())?;
            Ok::<_, String>(list.into_iter().map(|(path, _)| path).collect::<Vec<_>>())
        };
        let own = ["mysql/my/005-own.patch", "mysql/more/010-named.patch"];
        let range = ["mysql/5.6.0..5.6.41/010-one.patch", "mysql/5.6.0..5.6.41/020-two.patch"];
        assert_eq!(listed("5.5.62").expect("listed"), own);
        assert_eq!(listed("5.6.0").expect("listed"), [&range[..], &own].concat());
        let both = ["mysql/5.6.21..8.0/010-both.patch"];
        assert_eq!(listed("5.6.41").expect("listed"), [&range[..], &both, &own].concat());
        // By as many numbers as are written, as in conditions.
        assert_eq!(listed("8.0.39").expect("listed"), [&both[..], &own].concat());
        assert_eq!(listed("8.4.0").expect("listed"), own);
        for bad in ["5.6..", "..5.6", "5.7..5.6", "5.6.0 .. 5.6.41", "5.6...5.7", "new..old"] {
            let folder = root.join("mysql").join(bad);
            fs::create_dir(&folder).expect("a folder");
            let error = listed("9.0.0").expect_err("it is told whatever the release");
            assert!(error.contains(&format!("`patches/mysql/{bad}` is no range")), "{error}");
            fs::remove_dir(&folder).expect("removed");
        }
        put("mysql/5.6.0..5.6.41/010-again.patch");
        let error = listed("5.6.0").expect_err("one number twice");
        assert!(error.contains("have the same number"), "{error}");
    }

    #[test]
    fn a_patch_says_why() {
        assert!(has_header(b"Builds with GCC 14.\n\n--- a/x\n+++ b/x\n"));
        assert!(!has_header(b"\n\ndiff --git a/x b/x\n"));
        assert!(!has_header(b""));
    }
}
