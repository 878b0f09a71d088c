//! The installed `sysbench`: its version, which databases it can reach, and what it lacks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use catalog::protocol::WireProtocol;

use super::script::RUNTIME;
use crate::exit::{Code, WithCode as _, coded};
use crate::hash::Digest;
use crate::proc::Proc;

/// What to do when it is not there.
const GET: &str = "install the package `sysbench` (Debian, Ubuntu: `apt-get install sysbench`)";
/// The first version whose scripts are those of today.
const OLDEST: (u32, u32) = (1, 0);
/// The first version with `--warmup-time` and with the zipfian distribution.
const COMPLETE: (u32, u32) = (1, 1);

/// An installed sysbench that can be used.
#[derive(Clone, Debug)]
pub struct Sysbench {
    pub(super) file: PathBuf,
    /// The file of this program, for the launcher.
    pub(super) tool: PathBuf,
    /// As it says: `1.0.20`, `1.1.0-9072687`.
    version: String,
    drivers: Vec<String>,
    digest: Digest,
}

impl Sysbench {
    /// The one in the search path. `tool` is the file of this program.
    ///
    /// # Errors
    /// With [`Code::Environment`] when there is none or it is too old.
    pub fn find(tool: impl Into<PathBuf>) -> anyhow::Result<Self> {
        let file = which::which("sysbench")
            .with_context(|| format!("`sysbench` is not in the search path: {GET}"))
            .code(Code::Environment)?;
        Self::at(&file, tool)
    }

    /// The one at `file`.
    ///
    /// # Errors
    /// As [`Sysbench::find`], and when it cannot be read or run.
    pub fn at(file: &Path, tool: impl Into<PathBuf>) -> anyhow::Result<Self> {
        let ask = |option: &str| {
            let proc = Proc::new(file).arg(option).timeout(Duration::from_secs(20));
            proc.read().with_context(|| format!("cannot ask `{}` what it is", file.display()))
        };
        let content = Digest::of_file(file)
            .with_context(|| format!("cannot read `{}`", file.display()))
            .code(Code::Environment)?;
        let said = ask("--version").code(Code::Environment)?;
        let help = ask("--help").code(Code::Environment)?;
        Self::judge(file, tool.into(), &said, &help, content)
    }

    /// By what the program says of itself.
    fn judge(
        file: &Path,
        tool: PathBuf,
        said: &str,
        help: &str,
        content: Digest,
    ) -> anyhow::Result<Self> {
        let version = version(said);
        let (Some(version), Some(numbers)) = (version, version.and_then(numbers)) else {
            let text = format!("`{} --version` says `{said}`: {GET}", file.display());
            return Err(coded(Code::Environment, text));
        };
        if numbers < OLDEST {
            let text = format!(
                "`{}` is version {version}, whose scripts are others: 1.0 or newer is needed; {GET}",
                file.display()
            );
            return Err(coded(Code::Environment, text));
        }
        // Runs by another program or another script are no pair.
        let digest = Digest::of(format!("sysbench 1\n{content}\n{RUNTIME}").as_bytes());
        let (file, version) = (file.to_owned(), version.to_owned());
        Ok(Self { file, tool, version, drivers: drivers(help), digest })
    }

    /// The version as it says: `1.0.20`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The identity of the program with its script.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Whether it speaks `protocol`.
    ///
    /// # Errors
    /// With [`Code::Environment`] when it was built without that.
    pub fn check(&self, protocol: WireProtocol) -> anyhow::Result<()> {
        let name = driver(protocol);
        if self.drivers.iter().any(|driver| driver == name) {
            return Ok(());
        }
        let known: Vec<String> = self.drivers.iter().map(|name| format!("`{name}`")).collect();
        let has = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(coded(
            Code::Environment,
            format!(
                "`{}` ({}) was built without the database driver `{name}` (it has {has}): {GET}, \
                 or build it with `--with-{name}`",
                self.file.display(),
                self.version
            ),
        ))
    }

    /// What this version lacks and what is done instead, and what no version tells: sentences for
    /// the user.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let version = &self.version;
        if numbers(version).is_some_and(|numbers| numbers < COMPLETE) {
            let zipfian: Vec<String> = catalog::MICROBENCHMARKS
                .iter()
                .filter(|m| m.distribution == catalog::Distribution::Zipfian)
                .map(|m| format!("`{}`", m.name))
                .collect();
            notes.push(format!(
                "sysbench {version} has no `--warmup-time`: warm-up and window are one run that a \
                 checkpoint report divides"
            ));
            notes.push(format!(
                "sysbench {version} has no zipfian distribution: the script of {} draws by itself",
                zipfian.join(", ")
            ));
        }
        notes.push(
            "sysbench counts whole seconds only, no rows, and response times in steps of 2%"
                .to_owned(),
        );
        notes
    }
}

/// The name of sysbench's driver for a protocol.
pub(super) fn driver(protocol: WireProtocol) -> &'static str {
    match protocol {
        WireProtocol::Postgres => "pgsql",
        WireProtocol::Mysql => "mysql",
    }
}

/// The version in `sysbench 1.1.0-9072687 (using bundled LuaJIT 2.1.0-beta3)`.
fn version(said: &str) -> Option<&str> {
    let mut words = said.lines().next()?.split_whitespace();
    (words.next() == Some("sysbench")).then(|| words.next()).flatten()
}

/// Its first two numbers.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(['.', '-']).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// The drivers in the help: lines `  mysql - MySQL driver` below a heading.
fn drivers(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| line.trim() != "Compiled-in database drivers:")
        .skip(1)
        .map_while(|line| line.trim().split_once(" - "))
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::code_of;

    fn saying(version: &str, help: &str) -> anyhow::Result<Sysbench> {
        let content = Digest::of(version.as_bytes());
        Sysbench::judge(Path::new("/usr/bin/sysbench"), "/tool".into(), version, help, content)
    }

    const HELP: &str = "Usage:\n\nCompiled-in database drivers:\n  mysql - MySQL driver\n\nmysql \
                        options:\n  --mysql-host=[LIST,...] - no driver\n";

    #[test]
    fn what_a_version_lacks_is_said() {
        let old = saying("sysbench 1.0.20", HELP).expect("usable");
        assert_eq!(old.version(), "1.0.20");
        let notes = old.notes().join("\n");
        assert!(notes.contains("1.0.20 has no `--warmup-time`"), "{notes}");
        assert!(notes.contains("`update-zipf_range=100` draws by itself"), "{notes}");
        let new = saying("sysbench 1.1.0-9072687 (using bundled LuaJIT 2.1.0)", HELP);
        let new = new.expect("usable");
        assert_eq!(new.version(), "1.1.0-9072687");
        assert_eq!(new.notes().len(), 1, "{:?}", new.notes());
        assert_ne!(old.digest(), new.digest());
    }

    #[test]
    fn a_missing_driver_is_named_with_those_that_are_there() {
        let found = saying("sysbench 1.0.20", HELP).expect("usable");
        found.check(WireProtocol::Mysql).expect("there");
        let error = found.check(WireProtocol::Postgres).expect_err("not there");
        let text = error.to_string();
        assert!(text.contains("`pgsql` (it has `mysql`)") && text.contains("package"), "{text}");
        assert_eq!(code_of(&error), Code::Environment);
        let none = saying("sysbench 1.0.20", "Usage:").expect("usable");
        let error = none.check(WireProtocol::Mysql).expect_err("has none");
        assert!(error.to_string().contains("it has none"), "{error}");
    }

    #[test]
    fn what_is_no_sysbench_or_an_old_one_is_refused() {
        for (said, expected) in [
            ("sysbench 0.4.12", "is version 0.4.12"),
            ("hello", "says `hello`"),
            ("sysbench", "says `sysbench`"),
            ("sysbench new", "says `sysbench new`"),
        ] {
            let error = saying(said, HELP).expect_err("refused");
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(code_of(&error), Code::Environment);
        }
        let error = Sysbench::at(Path::new("/nonexistent/sysbench"), "/none").expect_err("missing");
        assert_eq!(code_of(&error), Code::Environment);
    }
}
