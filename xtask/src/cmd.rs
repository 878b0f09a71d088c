//! The verbs: each loads, calls and renders; one file per task.

pub mod audit;
pub mod bench;
pub mod build;
pub mod compare;
pub mod doctor;
pub mod import;
pub mod load;
pub mod matrix;
pub mod plan;
pub mod reproduce;
pub mod select;
pub mod source;
pub mod toolchain;

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::cli::{Cli, Common, DoctorArgs, SourceTask, Task};
use crate::doctor::Needs;
use crate::env::Env;
use crate::exit::Code;
use crate::progress::Reporter;
use crate::toolchain::seal;

/// Runs one task and gives the exit code.
///
/// # Errors
/// Whatever stops the whole task; a failed cell is not an error but [`Code::CellFailed`].
pub fn run(cli: Cli) -> anyhow::Result<Code> {
    let env = env_of(&cli.common)?;
    let common = &cli.common;
    if matches!(cli.task, Task::Build(_) | Task::Bench(_) | Task::Reproduce(_) | Task::Import(_))
        || matches!(&cli.task, Task::Matrix(args) if !args.dry_run)
    {
        env.check_writable()?;
    }
    match &cli.task {
        Task::Toolchain(task) => toolchain::run(&env, task),
        Task::Matrix(args) => matrix::run(&env, common, args),
        Task::Plan(args) => plan::run(&env, common, args),
        Task::Build(args) => build::run(&env, common, args.experiment.as_deref()),
        Task::Bench(args) => bench::run(&env, common, args),
        Task::Audit(args) => audit::run(&env, common, args),
        Task::Reproduce(args) => reproduce::run(&env, args),
        Task::Import(args) => import::run(&env, args),
        Task::Compare(args) => compare::run(&env, common, args),
        Task::Doctor(args) => {
            let needs = needs(&env, common, args)?;
            doctor::run(args, &env, &needs)
        }
        Task::Source(SourceTask::Add(args)) => source::add(&env, args),
    }
}

/// What the experiment to be checked needs of this machine.
fn needs(env: &Env, common: &Common, args: &DoctorArgs) -> anyhow::Result<Needs> {
    let loaded = load::Loaded::read(env)?;
    let experiment = loaded.experiment(args.experiment.as_deref())?;
    let expansion = loaded.expand(experiment, &common.set)?;
    let sources: Vec<_> =
        experiment.sources.iter().map(|&source| &loaded.matrix.sources[source]).collect();
    let mut toolchains: Vec<String> = Vec::new();
    for build in 0..expansion.builds() {
        if let Some((name, _)) = expansion.toolchain(build)
            && !toolchains.iter().any(|known| known == name)
        {
            toolchains.push(name.to_owned());
        }
    }
    let mut needs = Needs::of(env, &sources, &toolchains, experiment.workload.is_some());
    if let Some(index) = experiment.workload {
        needs.workload(&loaded.matrix.workloads[index]);
    }
    let sealed = |name: &String| matches!(seal::read(&env.toolchains(), name), Ok(Some(_)));
    needs.sealed = toolchains.iter().all(sealed) && !toolchains.is_empty();
    needs.lto = expansion.lto_toolchains().into_iter().map(str::to_owned).collect();
    Ok(needs)
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
