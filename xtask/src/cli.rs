//! The command line: what the user typed, nothing resolved.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::report::View;

/// Builds of MySQL and Postgres from one matrix: made exactly, benchmarked, compared.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    /// The task.
    pub task: Task,
    #[command(flatten)]
    /// Options of every task.
    pub common: Common,
}

/// Options of every task.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every task")]
pub struct Common {
    /// The matrix file [default: matrix.toml at the root of the workspace]
    #[arg(long, global = true, value_name = "FILE")]
    pub matrix: Option<PathBuf>,
    /// Where manifests and records are kept [default: results]
    #[arg(long, global = true, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Where downloads, trees and builds are kept [default: work]
    #[arg(long, global = true, value_name = "DIR")]
    pub work: Option<PathBuf>,
    /// A folder with source archives, asked before any other origin
    #[arg(long, global = true, value_name = "DIR", env = "MATRIX_SOURCES")]
    pub sources: Option<PathBuf>,
    /// Only what matches: build names, targets or microbenchmarks (repeatable); `compare` knows
    /// `regressions`, `improvements` and `undecided`, too
    #[arg(long, global = true, value_name = "GLOB")]
    pub only: Vec<String>,
    /// Not what matches (repeatable)
    #[arg(long, global = true, value_name = "GLOB")]
    pub skip: Vec<String>,
    /// Fixes an axis to one setting, before the experiment's rules (repeatable)
    #[arg(long, global = true, value_name = "AXIS=SETTING")]
    pub set: Vec<String>,
    /// How many jobs may run at once, over all builds [default: the number of cores]
    #[arg(long, short, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Stop at the first failure instead of doing the other cells
    #[arg(long, global = true)]
    pub fail_fast: bool,
    /// Do the other cells when one fails (this is the default)
    #[arg(long, global = true, overrides_with = "fail_fast")]
    pub keep_going: bool,
    /// Only warnings and results
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// The tasks.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// The whole way: build what is missing, run, compare
    Matrix(MatrixArgs),
    /// What would be done and why; nothing is changed
    Plan(PlanArgs),
    /// Only the builds
    Build(ExperimentArgs),
    /// Only the runs, against builds that exist
    Bench(BenchArgs),
    /// Tables from the stored records
    Compare(CompareArgs),
    /// Other people's raw results into records, and their comparison
    Import(ImportArgs),
    /// Which flags the binaries really got, against what was asked
    Audit(AuditArgs),
    /// Makes a colleague's build again from its manifest and compares every byte
    Reproduce(ReproduceArgs),
    /// Checks tools, kernel settings, disk and privileges
    Doctor(DoctorArgs),
    /// Compilers: what each setting means here; sealing them by exact packages
    #[command(subcommand)]
    Toolchain(ToolchainTask),
    /// Pins a source: fetches it, hashes it and writes its entry
    #[command(subcommand)]
    Source(SourceTask),
}

/// What can be done with sources.
#[derive(Debug, Subcommand)]
pub enum SourceTask {
    /// Fetches an archive or a revision and adds it to the matrix file
    Add(SourceAddArgs),
}

/// Arguments of `source add`.
#[derive(Clone, Debug, Args)]
pub struct SourceAddArgs {
    /// The name of the new entry, the first part of its builds' names
    pub name: String,
    /// `https://…`, `debian:PACKAGE=VERSION` or `file:PATH`; all must have the same archive
    #[arg(value_name = "ORIGIN", conflicts_with = "git")]
    pub origins: Vec<String>,
    /// A git repository instead of an archive
    #[arg(long, value_name = "URL")]
    pub git: Option<String>,
    /// The revision; a branch or a tag is pinned as what it is now [default: HEAD]
    #[arg(long, value_name = "REV", requires = "git")]
    pub rev: Option<String>,
    /// The engine, where the tree does not tell it
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<String>,
    /// The version, where the tree does not tell it
    #[arg(long = "version", value_name = "VERSION")]
    pub release: Option<String>,
    /// What the archive's hash must be, as its publisher says
    #[arg(long, value_name = "HEX", conflicts_with = "git")]
    pub sha256: Option<String>,
}

/// The experiment to work on.
#[derive(Clone, Debug, Default, Args)]
pub struct ExperimentArgs {
    /// The experiment [default: the file's `default-experiment`]
    pub experiment: Option<String>,
}

/// What a call that measures may be told besides.
#[derive(Clone, Debug, Default, Args)]
pub struct RunArgs {
    /// Runs also builds that the audit has found to be other than asked for (all, or those whose
    /// build or target matches GLOB; repeatable); their rows are marked for ever
    #[arg(
        long,
        value_name = "GLOB",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "*"
    )]
    pub allow_mismatch: Vec<String>,
    /// Measures targets with the same code each on its own, as A/A pairs, instead of once
    #[arg(long)]
    pub aa: bool,
    /// Counts instructions per operation under valgrind instead of timing, TIMES times in all
    #[arg(
        long,
        value_name = "TIMES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = clap::value_parser!(u16).range(1..=100)
    )]
    pub count_instructions: Option<u16>,
}

/// Arguments of `bench`.
#[derive(Clone, Debug, Default, Args)]
pub struct BenchArgs {
    /// The experiment [default: the file's `default-experiment`]
    pub experiment: Option<String>,
    /// Takes a profile of each target with perf instead of timing, and draws flame graphs
    #[arg(long, conflicts_with = "count_instructions")]
    pub profile: bool,
    #[command(flatten)]
    /// What to measure.
    pub run: RunArgs,
}

/// Arguments of `matrix`.
#[derive(Clone, Debug, Args)]
pub struct MatrixArgs {
    /// The experiment [default: the file's `default-experiment`]
    pub experiment: Option<String>,
    /// Prints the plan and stops
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    /// What to measure.
    pub run: RunArgs,
    /// How the comparison is printed
    #[arg(long, value_enum, default_value_t)]
    pub format: TableFormat,
}

/// Arguments of `plan`.
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    /// The experiment [default: the file's `default-experiment`]
    pub experiment: Option<String>,
    /// Only the counts: cells, builds, targets, runs, hours
    #[arg(long)]
    pub summary: bool,
    /// How the plan is printed
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Arguments of `compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// The experiment [default: the file's `default-experiment`]
    pub experiment: Option<String>,
    /// The target that the others are compared with [default: the experiment's base]
    #[arg(long, value_name = "TARGET")]
    pub base: Option<String>,
    /// Only the table of instructions per operation
    #[arg(long)]
    pub count_instructions: bool,
    /// A gate, as in `slower > 3% in group writes` (repeatable): exit code 3 if it trips
    #[arg(long, value_name = "EXPR")]
    pub fail_on: Vec<String>,
    /// Shows only what is so, as in `lto=on` or `group!=writes,range-1` (repeatable): `host`,
    /// `target`, `build`, `config`, `group`, `microbenchmark`, `threads`, or an axis
    #[arg(long, value_name = "KEY=VALUE")]
    pub filter: Vec<String>,
    /// Which tables (repeatable) [default: full and groups]
    #[arg(long, value_enum, value_name = "VIEW", value_delimiter = ',')]
    pub view: Vec<View>,
    /// How the tables are printed
    #[arg(long, value_enum, default_value_t)]
    pub format: TableFormat,
}

/// Arguments of `import`.
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// What the files are: `auto` looks at names and texts; `sysbench`, `pgbench`, `hyperfine`, …
    pub kind: String,
    /// A file, or a folder with everything below it
    pub path: PathBuf,
    /// The name of the new experiment [default: that of the file or folder]
    #[arg(long, value_name = "NAME")]
    pub experiment: Option<String>,
    /// The target that the others are compared with [default: the first]
    #[arg(long, value_name = "TARGET")]
    pub base: Option<String>,
    /// The block device whose lines of `iostat` count
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Which tables (repeatable) [default: full and groups]
    #[arg(long, value_enum, value_name = "VIEW", value_delimiter = ',')]
    pub view: Vec<View>,
    /// How the tables are printed
    #[arg(long, value_enum, default_value_t)]
    pub format: TableFormat,
}

/// Arguments of `audit`.
#[derive(Clone, Debug, Args)]
pub struct AuditArgs {
    /// Names or globs of builds [default: all of the experiment]
    pub build: Option<String>,
    /// The experiment [default: the file's `default-experiment`]
    #[arg(long)]
    pub experiment: Option<String>,
    /// Where a flag came from: a setting, the project, the compiler, or nobody
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub why: Option<String>,
    /// Reads the binaries again instead of showing what was found when they were built
    #[arg(long, conflicts_with = "why")]
    pub again: bool,
    /// How the findings are printed
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Arguments of `reproduce`.
#[derive(Clone, Debug, Args)]
pub struct ReproduceArgs {
    /// A manifest: its file, its URL, the build's name, `NAME-ID`, or the first digits of the id
    pub manifest: String,
    /// Where names are looked up: a results folder, a checkout, or a URL [default: the results]
    #[arg(long, value_name = "DIR|URL")]
    pub from: Option<String>,
    /// Builds N times, each time as somebody else: folder, user, locale, jobs and more are varied
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: Option<u16>,
    /// Fails unless every byte is the same, those that no program loads among them
    #[arg(long)]
    pub strict: bool,
    /// Builds although the compiler is not the one that the manifest names
    #[arg(long)]
    pub anyway: bool,
    /// The toolchain to build with [default: the one of the manifest's name]
    #[arg(long, value_name = "NAME")]
    pub toolchain: Option<String>,
    /// How the findings are printed
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Arguments of `doctor`.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// The experiment whose needs are checked [default: the file's `default-experiment`]
    pub experiment: Option<String>,
    /// Runs the commands that mend what is missing
    #[arg(long)]
    pub install: bool,
    /// How the findings are printed
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// The tasks of `toolchain`.
#[derive(Clone, Debug, Subcommand)]
pub enum ToolchainTask {
    /// Each setting, what it is here, and whether it is sealed
    List {
        /// How the list is printed
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Resolves a compiler's packages, makes it in a root folder of its own, writes its lock file
    ///
    /// With `toolchains/NAME.lock.toml` the setting NAME means this very compiler on every machine.
    /// Called again, it takes what the distribution has today and tells what changed.
    Seal {
        /// The setting of the axis `toolchain`: `gcc`, `clang-14`
        name: String,
        /// Where packages are that the distribution has no more: what stands before `pool/…`
        /// (repeatable)
        #[arg(long, value_name = "URL")]
        archive: Vec<String>,
    },
    /// Removes a lock file: the setting means this machine's own compiler again
    Unseal {
        /// The setting
        name: String,
    },
}

/// Text for people or JSON for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Formats of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// Aligned, for a terminal.
    #[default]
    Text,
    /// Markdown, for a pull request or a blog.
    Md,
    /// Tab-separated.
    Tsv,
    /// Comma-separated.
    Csv,
    /// For programs.
    Json,
    /// A page for a browser, of one file.
    Html,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn allow_mismatch_takes_no_experiment_for_a_glob() {
        let parse = |words: &[&str]| match Cli::try_parse_from(words).expect("valid").task {
            Task::Bench(args) => (args.experiment, args.run.allow_mismatch),
            other => panic!("{other:?}"),
        };
        let all = parse(&["xtask", "bench", "--allow-mismatch", "quick"]);
        assert_eq!(all, (Some("quick".to_owned()), vec!["*".to_owned()]));
        let some = parse(&["xtask", "bench", "--allow-mismatch=a*", "--allow-mismatch=b"]);
        assert_eq!(some, (None, vec!["a*".to_owned(), "b".to_owned()]));
        assert_eq!(parse(&["xtask", "bench"]), (None, Vec::new()));
    }
}
