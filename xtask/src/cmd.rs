//! The verbs: each loads, calls and renders; one file per task.

pub mod doctor;

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::cli::{Cli, Common, Task};
use crate::env::Env;
use crate::exit::Code;
use crate::progress::Reporter;

/// Runs one task and gives the exit code.
///
/// # Errors
/// Whatever stops the whole task; a failed cell is not an error but [`Code::CellFailed`].
pub fn run(cli: Cli) -> anyhow::Result<Code> {
    let env = env_of(&cli.common)?;
    let _ = env;
    match cli.task {
        Task::Matrix(_)
        | Task::Plan(_)
        | Task::Build(_)
        | Task::Bench(_)
        | Task::Compare(_)
        | Task::Doctor(_) => Ok(Code::Done),
    }
}

fn env_of(common: &Common) -> anyhow::Result<Env> {
    let root = root()?;
    let absolute = |path: &Option<PathBuf>, default: &str| -> anyhow::Result<PathBuf> {
        match path {
            Some(path) => std::path::absolute(path).context("cannot tell the current directory"),
            None => Ok(root.join(default)),
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Env {
        matrix: absolute(&common.matrix, "matrix.toml")?,
        results: absolute(&common.results, "results")?,
        work: absolute(&common.work, "work")?,
        sources: common.sources.as_ref().map(std::path::absolute).transpose()?,
        jobs: common.jobs.map_or(cores, usize::from),
        keep_going: !common.fail_fast,
        reporter: Reporter::new(common.quiet),
        root,
    })
}

/// The root of the workspace: where cargo found it, else where this program was built.
fn root() -> anyhow::Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map(Path::to_owned).context("no folder above the manifest of xtask")
}
