//! What every recipe gives: the steps that turn a source tree into an installed tree. Pure.

use std::path::PathBuf;

use crate::build::layout::Layout;
use crate::build::spec::Spec;
use crate::matrix::model::{Engine, Options, Source};

/// One command of a build, as it is written into the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Short, for progress and the log's file name: `configure`, `backend`.
    pub name: String,
    /// Program and arguments.
    pub words: Vec<String>,
    /// The working directory, as the build sees it.
    pub cwd: PathBuf,
    /// Whether the command is GNU make, which can share job tokens.
    pub make: bool,
}

/// The revision of an engine's recipe: part of the build id. Raise it with every change of a recipe
/// that changes what comes out.
pub fn revision(engine: Engine) -> &'static str {
    match engine {
        Engine::Postgres => "postgres-2",
        Engine::Mysql => "mysql-3",
        Engine::Mariadb => "mariadb-3",
    }
}

/// The options that every build of a source gets before those of settings: the flags that its
/// release needs, then what the source's entry asks for.
pub fn own_options(source: &Source) -> Options {
    let (cflags, cxxflags) = crate::build::cmake::fixed::flags(source);
    let text = |flags: Vec<&str>| flags.into_iter().map(str::to_owned).collect();
    let mut options =
        Options { cflags: text(cflags), cxxflags: text(cxxflags), ..Options::default() };
    options.extend(&source.options);
    options
}

/// The prefix that an engine is configured with. It is constant, since it stands in the binaries;
/// the installed tree is moved away by `DESTDIR`.
pub fn prefix(engine: Engine) -> &'static str {
    match engine {
        // Postgres appends "/postgresql" to folders of a prefix that does not contain this word.
        Engine::Postgres => "/opt/matrix/pgsql",
        Engine::Mysql => "/opt/matrix/mysql",
        Engine::Mariadb => "/opt/matrix/mariadb",
    }
}

/// Where an engine's server may lie below its prefix; the first that is there is asked for its
/// version.
pub fn servers(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::Postgres => &["bin/postgres"],
        Engine::Mysql => &["bin/mysqld", "sbin/mysqld", "libexec/mysqld"],
        Engine::Mariadb => &["bin/mariadbd", "sbin/mariadbd", "bin/mysqld", "sbin/mysqld"],
    }
}

/// The steps of a build, in order.
///
/// # Errors
/// When the spec cannot be built by this recipe; the message says why.
pub fn steps(spec: &Spec, layout: &Layout) -> anyhow::Result<Vec<Step>> {
    match spec.source.engine {
        Engine::Postgres => crate::build::postgres::steps(spec, layout),
        Engine::Mysql | Engine::Mariadb => crate::build::cmake::steps(spec, layout),
    }
}

/// The variables of every step: nothing of the caller's own.
pub fn environment(spec: &Spec, layout: &Layout, epoch: u64) -> Vec<(String, String)> {
    let temp = layout.temp.display();
    let mut env = vec![
        ("HOME".into(), temp.to_string()),
        ("LC_ALL".into(), "C".into()),
        ("PATH".into(), format!("{}:{}", layout.tools.display(), crate::proc::PATH)),
        ("SOURCE_DATE_EPOCH".into(), epoch.to_string()),
        ("TMPDIR".into(), temp.to_string()),
        ("TZ".into(), "UTC".into()),
    ];
    env.extend(spec.options.env.iter().cloned());
    env
}
