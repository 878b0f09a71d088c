//! Patches: `patches/<engine>/<source>/NNN-name.patch` in the order of their numbers, then those
//! that the source's entry lists. Applied strictly: no fuzz, no rejects, no patch that is in
//! already.
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
use crate::proc::Proc;

/// The patches of a source in the order in which they are applied: path below `patches/`, hash.
///
/// # Errors
/// When a name does not fit the format, a number is there twice, a patch is listed twice, cannot be
/// read, or does not say at its top why it is there.
pub(super) fn list(root: &Path, source: &Source) -> anyhow::Result<Vec<(String, Digest)>> {
    let folder = format!("{}/{}", source.engine.name(), source.name);
    let mut numbered: BTreeMap<u32, String> = BTreeMap::new();
    let dir = root.join(&folder);
    if dir.is_dir() {
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
    }
    let mut seen = BTreeSet::new();
    let all = numbered.into_values().chain(source.patches.iter().cloned());
    all.map(|path| {
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
    })
    .collect()
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
    fn a_patch_says_why() {
        assert!(has_header(b"Builds with GCC 14.\n\n--- a/x\n+++ b/x\n"));
        assert!(!has_header(b"\n\ndiff --git a/x b/x\n"));
        assert!(!has_header(b""));
    }
}
