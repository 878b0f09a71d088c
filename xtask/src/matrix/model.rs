//! The nouns of `matrix.toml` after checking: every reference exists, every value has its type.
//! What the words mean stands in ARCHITECTURE.md, "Words".

use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::diag::File;
use crate::hash::Digest;
use crate::matrix::expr::Expr;
use crate::matrix::pattern::Pattern;
use crate::matrix::version::Version;

mod workload;

pub use workload::{
    CommandTest, CommandWorkload, InsertBenchmark, LoadDriver, MetricRule, Placement, SqlBench,
    Suite, Workload, WorkloadKind,
};

/// A DBMS family with a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// PostgreSQL: configure and make.
    Postgres,
    /// MySQL and its forks: CMake.
    Mysql,
    /// MariaDB: CMake.
    Mariadb,
}

impl Engine {
    /// All engines, in the order in which they are listed to people.
    pub const ALL: [Self; 3] = [Self::Postgres, Self::Mysql, Self::Mariadb];

    /// The word in `matrix.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Mariadb => "mariadb",
        }
    }
}

/// A family of compilers that take the same options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// GCC.
    Gcc,
    /// LLVM's clang.
    Clang,
}

impl Family {
    /// The word in `matrix.toml` and in `toolchains/*.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gcc => "gcc",
            Self::Clang => "clang",
        }
    }
}

/// A byte range in the matrix file, for messages about things found later.
pub type Span = Range<usize>;

/// The whole file.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The file itself, for messages about what is found later.
    pub file: File,
    /// The experiment of `cargo xtask matrix` without a name.
    pub default_experiment: Option<String>,
    /// All sources in written order.
    pub sources: Vec<Source>,
    /// The build axes in written order; the order of their flags on the command line.
    pub axes: Vec<Axis>,
    /// The axes that change only how a server runs; they never rebuild.
    pub run_axes: Vec<RunAxis>,
    /// Named points.
    pub variants: Vec<Variant>,
    /// Server configurations, inheritance resolved.
    pub configs: Vec<Config>,
    /// What is run.
    pub workloads: Vec<Workload>,
    /// What is compared.
    pub experiments: Vec<Experiment>,
}

/// One pinned source tree, or an installed server.
#[derive(Clone, Debug)]
pub struct Source {
    /// The key in the file; the first part of every build name.
    pub name: String,
    /// The DBMS family.
    pub engine: Engine,
    /// The release; `None` only for an installed server, which is asked.
    pub version: Option<Version>,
    /// Where it comes from.
    pub kind: SourceKind,
    /// Patches, as paths below `patches/`, besides those of `patches/<engine>/<source>/`.
    pub patches: Vec<String>,
    /// What this source always needs, besides the axes.
    pub options: Options,
    /// Where the entry stands.
    pub span: Span,
}

/// Where a source comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// An archive, known by its content, from any of several origins.
    Archive {
        /// The hash of the archive.
        sha256: Digest,
        /// Where to look, in order.
        origins: Vec<Origin>,
    },
    /// A git revision.
    Git {
        /// A URL or a local path.
        url: String,
        /// The full revision: 40 or 64 hex digits.
        rev: String,
    },
    /// An installed server: measured, never built.
    Prefix {
        /// The folder that has `bin/`.
        path: PathBuf,
    },
}

/// One place that may have an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// `https://…`, by curl.
    Https(String),
    /// `debian:PACKAGE=VERSION`, by the system's own `apt-get source --download-only`.
    Debian {
        /// The source package.
        package: String,
        /// Its full version.
        version: String,
    },
    /// `file:PATH`; a relative path counts from the folder of the matrix file.
    File(PathBuf),
}

impl std::fmt::Display for Origin {
    /// As in the matrix file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Https(url) => write!(f, "{url}"),
            Self::Debian { package, version } => write!(f, "debian:{package}={version}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// What a setting adds to a build. Flags keep their order; later ones win, as compilers have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Options {
    /// For the C compiler.
    pub cflags: Vec<String>,
    /// For the C++ compiler.
    pub cxxflags: Vec<String>,
    /// For the linker, as the compiler driver takes them.
    pub ldflags: Vec<String>,
    /// Arguments of `configure` (Postgres).
    pub configure: Vec<String>,
    /// `-D` options of CMake (the MySQL family), without `-D`.
    pub cmake: Vec<(String, String)>,
    /// Variables of the build's environment.
    pub env: Vec<(String, String)>,
}

impl Options {
    /// Whether nothing is added.
    pub fn is_empty(&self) -> bool {
        let Self { cflags, cxxflags, ldflags, configure, cmake, env } = self;
        let texts = [cflags, cxxflags, ldflags, configure];
        texts.iter().all(|list| list.is_empty()) && cmake.is_empty() && env.is_empty()
    }

    /// Appends another setting's options behind these.
    pub fn extend(&mut self, other: &Self) {
        self.cflags.extend_from_slice(&other.cflags);
        self.cxxflags.extend_from_slice(&other.cxxflags);
        self.ldflags.extend_from_slice(&other.ldflags);
        self.configure.extend_from_slice(&other.configure);
        self.cmake.extend_from_slice(&other.cmake);
        self.env.extend_from_slice(&other.env);
    }
}

/// A build axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The key in the file.
    pub name: String,
    /// Its settings in written order; the first is the default.
    pub settings: Vec<Setting>,
    /// Where it stands.
    pub span: Span,
}

/// One setting of a build axis.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The key in the file.
    pub name: String,
    /// Its part of a build's name; empty for the setting that goes without saying.
    pub tag: String,
    /// What it adds for every engine and compiler.
    pub common: Options,
    /// What it adds for one engine (`mysql.cmake = …`), one compiler family (`clang.flags = …`) or
    /// both (`postgres.clang.flags = …`), in written order.
    pub special: Vec<Special>,
    /// Where the setting exists at all; elsewhere its cells are left out and counted.
    pub when: Option<Expr>,
    /// What the setting needs; a cell without it is reported as unavailable with this reason.
    pub requires: Option<Expr>,
    /// Where it stands.
    pub span: Span,
}

/// Options that a setting adds for one engine or compiler family only.
#[derive(Clone, Debug)]
pub struct Special {
    /// Only for this engine.
    pub engine: Option<Engine>,
    /// Only for this family of compilers.
    pub family: Option<Family>,
    /// What is added.
    pub options: Options,
}

/// An axis that changes only how a server runs.
#[derive(Clone, Debug)]
pub struct RunAxis {
    /// The key in the file.
    pub name: String,
    /// Its settings in written order; the first is the default.
    pub settings: Vec<RunSetting>,
    /// Where it stands.
    pub span: Span,
}

/// One setting of a run-only axis.
#[derive(Clone, Debug)]
pub struct RunSetting {
    /// The key in the file.
    pub name: String,
    /// Its part of a target's name, behind the config.
    pub tag: String,
    /// Server variables that it sets.
    pub server: ServerOptions,
    /// Where the setting exists.
    pub when: Option<Expr>,
    /// What the setting needs.
    pub requires: Option<Expr>,
    /// Where it stands.
    pub span: Span,
}

/// What a config or a run-only setting gives the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ServerOptions {
    /// Lines of `postgresql.conf`.
    pub postgresql: Vec<(String, ServerValue)>,
    /// Lines of the `[mysqld]` group.
    pub mysqld: Vec<(String, ServerValue)>,
    /// Variables of the server's environment.
    pub env: Vec<(String, String)>,
    /// A library to preload (a memory allocator, say).
    pub preload: Option<String>,
    /// Arguments of `initdb` or its like; they are part of what determines a loaded data directory.
    pub init: Vec<String>,
}

/// A server variable's value: as written, or to be computed on the host that runs the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerValue {
    /// As written.
    Text(String),
    /// `{ram * 0.25}`: a formula of `ram` (bytes) and `cpus`, see [`crate::matrix::formula`].
    Formula(String),
}

impl Eq for ServerValue {}

/// A named point: axes that it does not name take their first setting.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The key in the file; also the build's name behind the source's.
    pub name: String,
    /// Index of axis, index of setting.
    pub settings: Vec<(usize, usize)>,
    /// Where it stands.
    pub span: Span,
}

/// A server configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The key in the file.
    pub name: String,
    /// The engine; mariadb configs are not mysql configs.
    pub engine: Engine,
    /// The builds that it applies to, as globs on build names; empty: all of the engine.
    pub builds: Vec<String>,
    /// What it gives the server, inheritance resolved.
    pub options: ServerOptions,
    /// Where it stands.
    pub span: Span,
}

/// What is compared.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The key in the file.
    pub name: String,
    /// Indexes of sources.
    pub sources: Vec<usize>,
    /// Indexes of variants.
    pub variants: Vec<usize>,
    /// Products of axes, each a list of (axis, settings).
    pub cross: Vec<Vec<(usize, Vec<usize>)>>,
    /// Lock-step lists: (axis, settings), all lists of one zip equally long.
    pub zip: Vec<Vec<(usize, Vec<usize>)>>,
    /// `include`, `exclude` and `only` in written order.
    pub rules: Vec<Rule>,
    /// Indexes of configs.
    pub configs: Vec<usize>,
    /// Run-only axes: (axis, settings); those not named take their first setting.
    pub run: Vec<(usize, Vec<usize>)>,
    /// Index of the workload; an experiment without one only builds.
    pub workload: Option<usize>,
    /// The target that the others are compared with.
    pub base: Option<String>,
    /// Where the base is named.
    pub base_span: Span,
    /// How many blocks.
    pub repeats: u32,
    /// Seed of the order of targets in each block.
    pub seed: u64,
    /// What becomes of targets with the same code.
    pub same_code: SameCode,
    /// Where it stands.
    pub span: Span,
}

/// What becomes of targets with the same code and config ([`crate::bench::share`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SameCode {
    /// One is measured, and its runs stand for the others, too.
    #[default]
    Share,
    /// Each is measured: A/A pairs, which show the noise of the machine.
    Aa,
}

/// One rule of an experiment.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What it does.
    pub kind: RuleKind,
    /// What it matches: all conditions must hold.
    pub conditions: Vec<Condition>,
    /// The conditions as they are written: `opt = os, lto = on`.
    pub text: String,
    /// Why it is there, in the author's words.
    pub why: String,
    /// Where it stands.
    pub span: Span,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleKind {
    /// Adds the product of the named settings, the other axes at their first setting.
    Include,
    /// Removes what matches.
    Exclude,
    /// Removes what does not match.
    Only,
}

/// One condition of a rule: a key and the values that it may have, one of which must match.
#[derive(Clone, Debug)]
pub enum Condition {
    /// One of these sources.
    Source(Vec<usize>),
    /// One of these engines.
    Engine(Vec<Engine>),
    /// One of these releases.
    Version(Vec<Pattern>),
    /// One of these variants.
    Variant(Vec<usize>),
    /// A build whose name matches.
    Build(Vec<Pattern>),
    /// One of these settings of a build axis.
    Axis(usize, Vec<usize>),
    /// One of these configs.
    Config(Vec<usize>),
    /// One of these settings of a run-only axis.
    RunAxis(usize, Vec<usize>),
}

impl Condition {
    /// Whether it looks at how a server runs and not only at what is built.
    pub fn is_about_runs(&self) -> bool {
        matches!(self, Self::Config(_) | Self::RunAxis(..))
    }
}
