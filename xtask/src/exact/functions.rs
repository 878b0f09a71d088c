//! A hash per function that does not depend on where the function lies, so that a build that came
//! out different can be told by the functions that changed and not by all that were moved.
//!
//! What is hashed is the function's instructions; a reference to something outside of it counts by
//! the target's name where it has one ([`image`]) and else not at all. So a function that only
//! calls another one now is changed, and one whose callee was moved is not. On x86-64 and aarch64
//! instructions are decoded; elsewhere the raw bytes are hashed, and the listing says so.
//!
//! The listing is a text of its own beside the manifest (`<name>-<id>.functions.gz`): a line with
//! `#functions` and the version, a line `#raw` for each binary that is told as raw bytes, then per
//! function binary, symbol, size in bytes and the first 16 digits of the hash, separated by tabs,
//! sorted. The same functions give the same bytes.

mod aarch64;
mod image;
mod x86;

use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use fs_err as fs;
use object::{Architecture, Object as _};

use crate::build::manifest::FileDone;
use crate::exact::sections;
use crate::hash::Digest;
use image::Image;

/// The version of the listing and of what the hashes mean; others are not compared.
const VERSION: u32 = 1;
/// The first word of a listing.
const MARK: &str = "#functions";
/// How much a listing may hold, in bytes; far above any server's.
const LIMIT: u64 = 1 << 30;

/// One function of a binary.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// The binary's path below the prefix.
    pub binary: String,
    /// The symbol; of a local function with its source file, `step (main.c)`.
    pub symbol: String,
    /// Length in bytes. It may differ while the hash does not: a branch can be encoded shorter.
    pub size: u64,
    /// 16 hex digits.
    pub hash: String,
}

/// The functions of an installed tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    /// Sorted by binary and symbol.
    pub list: Vec<Function>,
    /// Binaries whose functions are compared as raw bytes, since their architecture is not decoded:
    /// there a function that was only moved counts as changed.
    pub raw: Vec<String>,
}

/// The place of the listing that belongs to a manifest: beside it.
pub fn beside(manifest: &Path) -> PathBuf {
    manifest.with_extension("functions.gz")
}

/// The functions of every linked ELF file among the listed files of `tree` that has symbols.
///
/// # Errors
/// When a file cannot be read.
pub fn of_tree(tree: &Path, files: &[FileDone]) -> anyhow::Result<Functions> {
    let mut found = Functions::default();
    for file in files.iter().filter(|file| file.mode != "link") {
        let Some(bytes) = sections::binary(&tree.join(&file.path))? else { continue };
        if sections::is_archive(&bytes) {
            continue;
        }
        // Whatever cannot be understood is compared by its sections or as a whole.
        if let Ok(binary) = object::File::parse(&*bytes)
            && let Ok((list, raw)) = of_binary(&binary, &file.path)
        {
            found.list.extend(list);
            found.raw.extend(raw.then(|| file.path.clone()));
        }
    }
    found.list.sort();
    found.raw.sort();
    Ok(found)
}

/// The functions of one file, and whether they are told as raw bytes.
fn of_binary(file: &object::File<'_>, path: &str) -> object::Result<(Vec<Function>, bool)> {
    let image = Image::read(file)?;
    let architecture = file.architecture();
    let mut list = Vec::new();
    for function in &image.functions {
        let Some(bytes) = image.code(function) else { continue };
        let normal = match architecture {
            Architecture::X86_64 => x86::normal(&image, function, bytes),
            Architecture::Aarch64 => aarch64::normal(&image, function, bytes),
            _ => bytes.to_vec(),
        };
        list.push(Function {
            binary: path.to_owned(),
            symbol: function.symbol.clone(),
            size: function.end - function.start,
            hash: Digest::of(&normal).to_string()[..16].to_owned(),
        });
    }
    let raw = !matches!(architecture, Architecture::X86_64 | Architecture::Aarch64);
    let raw = raw && !list.is_empty();
    Ok((list, raw))
}

/// Writes the listing of a tree; a reader sees all of it or nothing.
///
/// # Errors
/// When a file of the tree cannot be read or the disk refuses.
pub fn write(tree: &Path, files: &[FileDone], path: &Path) -> anyhow::Result<()> {
    let functions = of_tree(tree, files)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut draft = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("cannot write into {}", folder.display()))?;
    draft.write_all(&functions.packed()?)?;
    // A temporary file is private; this one is as public as the manifest beside it.
    draft.as_file().set_permissions(Permissions::from_mode(0o644))?;
    draft.persist(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

/// Reads a listing.
///
/// # Errors
/// When the file cannot be read, is damaged, or has another version than this tool writes.
pub fn read(path: &Path) -> anyhow::Result<Functions> {
    let packed = fs::read(path)?;
    Functions::unpack(&packed).with_context(|| format!("cannot use {}", path.display()))
}

impl Functions {
    fn packed(&self) -> anyhow::Result<Vec<u8>> {
        let mut text = format!("{MARK}\t{VERSION}\n");
        for path in &self.raw {
            text.push_str(&format!("#raw\t{path}\n"));
        }
        for Function { binary, symbol, size, hash } in &self.list {
            // A name may hold anything but a NUL byte.
            let symbol = symbol.replace(['\t', '\n'], " ");
            text.push_str(&format!("{binary}\t{symbol}\t{size}\t{hash}\n"));
        }
        // No time stamp, no name, no operating system: the same text is always the same file.
        let mut packer = flate2::GzBuilder::new()
            .mtime(0)
            .operating_system(255)
            .write(Vec::new(), flate2::Compression::best());
        packer.write_all(text.as_bytes())?;
        Ok(packer.finish()?)
    }

    /// Reads a listing as it lies beside a manifest.
    ///
    /// # Errors
    /// As [`read`].
    pub fn unpack(packed: &[u8]) -> anyhow::Result<Self> {
        let mut text = String::new();
        flate2::read::GzDecoder::new(packed)
            .take(LIMIT)
            .read_to_string(&mut text)
            .context("it is damaged")?;
        let mut lines = text.lines();
        let first: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
        let [MARK, version] = first[..] else { bail!("it is no listing of functions") };
        ensure!(
            version == VERSION.to_string(),
            "its version is {version}, this tool knows {VERSION}"
        );
        let mut found = Self::default();
        for line in lines {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[..] {
                ["#raw", path] => found.raw.push(path.to_owned()),
                [binary, symbol, size, hash] => found.list.push(Function {
                    binary: binary.to_owned(),
                    symbol: symbol.to_owned(),
                    size: size.parse().with_context(|| format!("`{size}` is no size"))?,
                    hash: hash.to_owned(),
                }),
                _ => bail!("it is damaged: `{line}`"),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
