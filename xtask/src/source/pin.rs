//! Pinning: what an origin has right now, with its hash, so that an entry in the matrix file can
//! demand just that from then on; and what kind of source it is, read from its own files.

use std::path::Path;

use anyhow::Context as _;
use fs_err as fs;

use super::{archive, fetch, git, staging};
use crate::env::Env;
use crate::exit::{Code, code_of, coded};
use crate::hash::Digest;
use crate::interrupt;
use crate::matrix::model::{Engine, Origin};

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// The archive's hash, or the full revision.
    pub what: What,
    /// The engine, if the tree tells it.
    pub engine: Option<Engine>,
    /// The release, if the tree tells it.
    pub version: Option<String>,
}

/// What identifies a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An archive.
    Archive {
        /// The hash of its content.
        sha256: Digest,
        /// Bytes.
        size: u64,
    },
    /// A revision of a git repository.
    Git {
        /// 40 or 64 hex digits.
        rev: String,
    },
}

/// Fetches an archive from each origin; they must all have the same one. It is kept among the
/// downloads, so that a build does not fetch it again. An origin that cannot be reached is told.
///
/// # Errors
/// When no origin has it, two have different ones, it does not have the `expected` hash, or it is
/// no archive that can be unpacked.
pub fn archive(env: &Env, origins: &[Origin], expected: Option<Digest>) -> anyhow::Result<Pinned> {
    let task = env.reporter.task("source", None);
    let staging = staging(env)?;
    let mut first: Option<(String, Digest, std::path::PathBuf)> = None;
    for (index, origin) in origins.iter().enumerate() {
        interrupt::check()?;
        let into = staging.path().join(index.to_string());
        fs::create_dir(&into)?;
        let file = match fetch::bring(env, &task, origin, &into) {
            Ok(file) => file,
            Err(error) if code_of(&error) == Code::Interrupted => return Err(error),
            Err(error) => {
                env.reporter.warn(format!("{origin}: {error:#}"));
                continue;
            }
        };
        let sha256 = Digest::of_file(&file)?;
        if let Some(wanted) = expected.filter(|wanted| *wanted != sha256) {
            let text = format!("{origin} has sha256 {sha256}, not {wanted}");
            return Err(coded(Code::Input, text));
        }
        match &first {
            Some((other, known, _)) if *known != sha256 => {
                let text = format!(
                    "the origins have different archives: sha256 {known} from {other}, {sha256} \
                     from {origin}"
                );
                return Err(coded(Code::Input, text));
            }
            Some(_) => {}
            None => first = Some((origin.to_string(), sha256, file)),
        }
    }
    let Some((_, sha256, file)) = first else {
        return Err(coded(Code::Environment, "no origin has the archive"));
    };
    task.state("unpacking");
    let tree = staging.path().join("tree");
    archive::unpack(&file, &tree, &archive::Limits::default())
        .context("what the origin has is no archive of a source")?;
    let (engine, version) = recognise(&tree);
    let size = fs::metadata(&file)?.len();
    fs::create_dir_all(env.downloads())?;
    fs::rename(&file, env.downloads().join(sha256.to_string()))?;
    task.finish("fetched");
    Ok(Pinned { what: What::Archive { sha256, size }, engine, version })
}

/// Fetches a revision; a branch or a tag is taken as what it is now.
///
/// # Errors
/// When the repository has no such thing.
pub fn revision(env: &Env, url: &str, name: &str) -> anyhow::Result<Pinned> {
    let task = env.reporter.task("source", None);
    let rev = git::resolve(env, &task, url, name)?;
    let staging = staging(env)?;
    let tree = staging.path().join("tree");
    git::export(env, &task, url, &rev, &tree)?;
    let (engine, version) = recognise(&tree);
    task.finish("fetched");
    Ok(Pinned { what: What::Git { rev }, engine, version })
}

/// Engine and release, as the tree's own files tell them: PostgreSQL's `configure` (`configure.ac`
/// in a repository), `MYSQL_VERSION` or `VERSION` of the MySQL family.
fn recognise(tree: &Path) -> (Option<Engine>, Option<String>) {
    let read = |name: &str| fs::read(tree.join(name)).ok();
    let read = |name: &str| read(name).map(|text| String::from_utf8_lossy(&text).into_owned());
    if let Some(version) = read("configure").as_deref().and_then(postgres_configure) {
        return (Some(Engine::Postgres), Some(version));
    }
    if let Some(version) = read("configure.ac").as_deref().and_then(postgres_ac) {
        return (Some(Engine::Postgres), Some(version));
    }
    match read("MYSQL_VERSION").or_else(|| read("VERSION")).as_deref().and_then(mysql) {
        Some((engine, version)) => (Some(engine), Some(version)),
        None => (None, None),
    }
}

fn postgres_configure(text: &str) -> Option<String> {
    let field = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim().trim_matches('\'').to_owned())
    };
    (field("PACKAGE_NAME")? == "PostgreSQL").then(|| field("PACKAGE_VERSION"))?
}

/// `AC_INIT([PostgreSQL], [15.18], …`.
fn postgres_ac(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("AC_INIT([PostgreSQL], ["))?;
    Some(line.split(']').next()?.to_owned())
}

/// `MYSQL_VERSION_MAJOR=8` and so on; only MariaDB has a `SERVER_MATURITY`.
fn mysql(text: &str) -> Option<(Engine, String)> {
    let field = |key: &str| {
        let line =
            text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='))?;
        let value = line.trim().trim_matches('"');
        value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.to_owned())
    };
    let parts = ["MAJOR", "MINOR", "PATCH"].map(|part| field(&format!("MYSQL_VERSION_{part}")));
    let [Some(major), Some(minor), Some(patch)] = parts else { return None };
    let mariadb = text.lines().any(|line| line.trim().starts_with("SERVER_MATURITY"));
    let engine = if mariadb { Engine::Mariadb } else { Engine::Mysql };
    Some((engine, format!("{major}.{minor}.{patch}")))
}

/// The engine and release that an entry gets: what the user says, which must not contradict what
/// the tree tells.
///
/// # Errors
/// With [`Code::Input`] when it does, or when nobody tells.
pub fn settle(
    pinned: &Pinned,
    engine: Option<Engine>,
    version: Option<&str>,
) -> anyhow::Result<(Engine, String)> {
    let told = |what: &str, said: &str, found: &str| {
        coded(Code::Input, format!("the tree says {what} {found}, not {said}"))
    };
    if let (Some(said), Some(found)) = (engine, pinned.engine)
        // Forks of MySQL may look like MariaDB or the other way round; Postgres never does.
        && said != found
        && [said, found].contains(&Engine::Postgres)
    {
        return Err(told("engine", said.name(), found.name()));
    }
    if let (Some(said), Some(found)) = (version, pinned.version.as_deref())
        && said != found
    {
        return Err(told("version", said, found));
    }
    let Some(engine) = engine.or(pinned.engine) else {
        let text = "the tree does not tell its engine: say `--engine`";
        return Err(coded(Code::Input, text));
    };
    let Some(version) = version.or(pinned.version.as_deref()) else {
        let text = "the tree does not tell its version: say `--version`";
        return Err(coded(Code::Input, text));
    };
    Ok((engine, version.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str, text: &str) -> (Option<Engine>, Option<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(name), text).expect("written");
        recognise(folder.path())
    }

    #[test]
    fn trees_tell_what_they_are() {
        let is = |engine, version: &str| (Some(engine), Some(version.to_owned()));
        let configure = "#! /bin/sh\nPACKAGE_NAME='PostgreSQL'\nPACKAGE_VERSION='15.18'\n";
        assert_eq!(tree("configure", configure), is(Engine::Postgres, "15.18"));
        let ac = "dnl x\nAC_INIT([PostgreSQL], [18beta1], [bugs], [], [url])\n";
        assert_eq!(tree("configure.ac", ac), is(Engine::Postgres, "18beta1"));
        let numbers = "MYSQL_VERSION_MAJOR=8\nMYSQL_VERSION_MINOR=0\nMYSQL_VERSION_PATCH=39\n\
             MYSQL_VERSION_EXTRA=\n";
        assert_eq!(tree("MYSQL_VERSION", numbers), is(Engine::Mysql, "8.0.39"));
        let maria = format!("{numbers}SERVER_MATURITY=stable\n").replace("39", "\"1\"");
        assert_eq!(tree("VERSION", &maria), is(Engine::Mariadb, "8.0.1"));
        assert_eq!(tree("configure", "PACKAGE_NAME='other'\n"), (None, None));
        assert_eq!(tree("VERSION", "1.0\n"), (None, None));
    }

    #[test]
    fn what_the_user_says_must_fit() {
        let pinned = Pinned {
            what: What::Git { rev: "0".repeat(40) },
            engine: Some(Engine::Mysql),
            version: Some("8.0.39".to_owned()),
        };
        let settled = settle(&pinned, None, None).expect("the tree tells");
        assert_eq!(settled, (Engine::Mysql, "8.0.39".to_owned()));
        let error = settle(&pinned, None, Some("8.0.40")).expect_err("another version");
        assert_eq!(error.to_string(), "the tree says version 8.0.39, not 8.0.40");
        assert!(settle(&pinned, Some(Engine::Postgres), None).is_err());
        let silent = Pinned { engine: None, ..pinned };
        let error = settle(&silent, None, None).expect_err("nobody tells");
        assert!(error.to_string().contains("--engine"), "{error}");
    }
}
