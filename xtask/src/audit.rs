//! The flag audit: what the compilers really did, read from the binaries, held against the plan.
//!
//! [`elf`] reads a file into [`elf::Facts`] and [`objects`] an object of the build; [`producer`]
//! splits what a compiler wrote about itself into flags, which [`flags`] understands; [`log`] has
//! the compilers' calls as the build system made them. [`judge`] compares all that with what was
//! asked, given what [`allowed`] expects of a project; [`configured`] does the same with what
//! configure and CMake said. [`describe`] and [`installed`] say what can be known of what others
//! built, [`why`] where a flag came from, [`show`] prints. All but reading files is pure.

pub mod allowed;
pub mod configured;
pub mod describe;
pub mod elf;
pub mod flags;
pub mod installed;
pub mod judge;
pub mod log;
pub mod objects;
pub mod producer;
pub mod show;
pub mod why;

use std::path::Path;

use anyhow::Context as _;
use fs_err as fs;

use crate::build::commands::Command;
use crate::build::layout::Layout;
use crate::build::spec::Spec;
use crate::facts::Toolchain;
use crate::toolchain::elf::is_elf;
use judge::{Case, Report};
use log::Log;

/// What a build asked of its compiler; `None` for an installed server.
pub fn asked(spec: &Spec) -> Option<judge::Asked> {
    Some(asked_of(spec, spec.toolchain.as_ref()?))
}

fn asked_of(spec: &Spec, toolchain: &Toolchain) -> judge::Asked {
    let options = &spec.options;
    let switches = ["WITH_LTO", "CMAKE_INTERPROCEDURAL_OPTIMIZATION"];
    judge::Asked {
        family: toolchain.family,
        version: toolchain.version.clone(),
        cflags: options.cflags.clone(),
        cxxflags: options.cxxflags.clone(),
        ldflags: options.ldflags.clone(),
        lto_by_option: options.cmake.iter().any(|(name, value)| {
            switches.contains(&name.as_str()) && configured::same_value("ON", value)
        }),
    }
}

/// Audits a build that was just installed: the installed `tree`, the build tree `object` on the
/// host, the compilers' calls, and the folder with one log for each step.
///
/// # Errors
/// When a binary cannot be read or its debug information is broken.
pub fn after_build(
    spec: &Spec,
    toolchain: &Toolchain,
    tree: &Path,
    object: &Path,
    commands: &[Command],
    logs: &Path,
) -> anyhow::Result<Report> {
    let mut log = Log::new(commands);
    let canonical = Layout::canonical(Path::new("/"), Path::new("/")).object;
    for call in &mut log.calls {
        let Some(output) = &call.output else { continue };
        // Without canonical paths the log has the real ones.
        let path = output.strip_prefix(&canonical).map_or(output.clone(), |rest| object.join(rest));
        call.object = objects::read(&path);
    }
    let report = report(spec, toolchain, tree, Some(&log))?;
    Ok(report.with(configured::findings(spec, &configured::read(object, logs))))
}

/// Audits a build by its installed tree and, if it was kept, its compile log: what the build tree
/// had is not known any more.
///
/// # Errors
/// As [`after_build`].
pub fn again(
    spec: &Spec,
    toolchain: &Toolchain,
    tree: &Path,
    commands: Option<&[Command]>,
) -> anyhow::Result<Report> {
    report(spec, toolchain, tree, commands.map(Log::new).as_ref())
}

fn report(
    spec: &Spec,
    toolchain: &Toolchain,
    tree: &Path,
    log: Option<&Log>,
) -> anyhow::Result<Report> {
    Ok(judge::judge(&Case {
        asked: &asked_of(spec, toolchain),
        binaries: &read_tree(tree)?,
        allowed: &allowed::allowed(spec.source.engine, toolchain.family),
        log,
        script: script(toolchain).as_deref(),
    }))
}

/// The compiler's path when it is a script: what it hands on to the real one stands in no log.
pub fn script(toolchain: &Toolchain) -> Option<String> {
    let compilers = ["cc", "cxx"].into_iter().filter_map(|role| toolchain.tool(role));
    let place = toolchain.place();
    let mut scripts = compilers.filter(|path| {
        let real = place.host(path).canonicalize();
        real.is_ok_and(|real| real.is_file() && !is_elf(&real))
    });
    scripts.next().map(|path| path.display().to_string())
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
