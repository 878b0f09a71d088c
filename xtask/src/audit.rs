//! The flag audit: what the compilers really did, read from the binaries, held against the plan.
//!
//! [`elf`] reads a file into [`elf::Facts`]; [`producer`] splits what a compiler wrote about itself
//! into flags; [`judge`] compares with what was asked, given what [`allowed`] expects of a project;
//! [`describe`] says what can be known of what others built. All but reading files is pure.

pub mod allowed;
pub mod describe;
pub mod elf;
pub mod judge;
pub mod producer;

use std::path::Path;

use anyhow::Context as _;
use fs_err as fs;

use crate::build::spec::Spec;
use crate::toolchain::elf::is_elf;

/// What a build asked of its compiler; `None` for an installed server.
pub fn asked(spec: &Spec) -> Option<judge::Asked> {
    let toolchain = spec.toolchain.as_ref()?;
    Some(judge::Asked {
        family: toolchain.family,
        version: toolchain.version.clone(),
        cflags: spec.options.cflags.clone(),
        cxxflags: spec.options.cxxflags.clone(),
        ldflags: spec.options.ldflags.clone(),
    })
}

/// Reads every program and library below a folder, by path.
///
/// # Errors
/// When a file cannot be read or its debug information is broken.
pub fn read_tree(tree: &Path) -> anyhow::Result<Vec<(String, elf::Facts)>> {
    let mut binaries = Vec::new();
    let mut folders = vec![tree.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let kind = fs::symlink_metadata(&path)?;
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && is_elf(&path) {
                let name = path.strip_prefix(tree).context("a file outside of its tree")?;
                binaries.push((name.display().to_string(), elf::read(&path)?));
            }
        }
    }
    binaries.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(binaries)
}
