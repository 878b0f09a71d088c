//! Installed servers: asked for their version and known by the content of their programs.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::env::Env;
use crate::facts::{SourceFacts, Unavailable};
use crate::hash::Digest;
use crate::matrix::model::Engine;
use crate::proc::Proc;

/// Folders below a prefix that have servers.
const FOLDERS: [&str; 3] = ["bin", "sbin", "libexec"];

/// What was found out about an installed server, and about which files it holds.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Known {
    /// Path to device, inode, size, seconds and nanoseconds of the last change of content and of
    /// the file itself: when one differs, the file is read again.
    files: BTreeMap<PathBuf, [i64; 7]>,
    facts: SourceFacts,
}

/// The version and the digest of the server in `prefix`.
///
/// # Errors
/// When there is no server or it does not tell its version.
pub(super) fn facts(env: &Env, engine: Engine, prefix: &Path) -> Result<SourceFacts, Unavailable> {
    let server = server(engine, prefix)?;
    let unavailable = |error: anyhow::Error| Unavailable {
        reason: format!("the server {} cannot be used: {error:#}", server.display()),
        hint: None,
    };
    known(env, engine, prefix, &server).map_err(unavailable)
}

/// The server's program.
fn server(engine: Engine, prefix: &Path) -> Result<PathBuf, Unavailable> {
    let names = servers(engine);
    FOLDERS
        .iter()
        .flat_map(|dir| names.iter().map(move |name| prefix.join(dir).join(name)))
        .find(|path| path.is_file())
        .ok_or_else(|| Unavailable {
            reason: format!(
                "no {} server in {}: looked for {} in {}",
                engine.name(),
                prefix.display(),
                names.map(|name| format!("`{name}`")).join(" and "),
                FOLDERS.map(|dir| format!("`{dir}`")).join(", "),
            ),
            hint: None,
        })
}

fn servers(engine: Engine) -> [&'static str; 2] {
    match engine {
        Engine::Postgres => ["postgres", "postmaster"],
        Engine::Mysql => ["mysqld", "mysqld-debug"],
        Engine::Mariadb => ["mariadbd", "mysqld"],
    }
}

/// Programs besides the server whose bytes matter for a run: what makes the data directory.
fn companions(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::Postgres => &["initdb", "pg_ctl"],
        Engine::Mysql => &[],
        Engine::Mariadb => &["mariadb-install-db"],
    }
}

fn known(env: &Env, engine: Engine, prefix: &Path, server: &Path) -> anyhow::Result<SourceFacts> {
    let mut paths = vec![server.to_owned()];
    for name in companions(engine) {
        let mut all = FOLDERS.iter().chain(&["scripts"]).map(|dir| prefix.join(dir).join(name));
        paths.extend(all.find(|path| path.is_file()));
    }
    let mut files = BTreeMap::new();
    for path in &paths {
        files.insert(path.clone(), identity(path)?);
    }
    let key = Digest::of(format!("{} {}", engine.name(), server.display()).as_bytes());
    let cache = env.cache().join(format!("installed-{}.json", key.short()));
    if let Ok(text) = fs::read(&cache)
        && let Ok(known) = serde_json::from_slice::<Known>(&text)
        && known.files == files
    {
        return Ok(known.facts);
    }
    let said = Proc::new(server).arg("--version").timeout(Duration::from_secs(10)).read()?;
    let version = parse_version(&said)
        .with_context(|| format!("its `--version` says no version: `{said}`"))?;
    let mut text = format!("installed {} {version}\n", engine.name());
    for path in &paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        text.push_str(&format!("{name} {}\n", Digest::of_file(path)?));
    }
    let facts = SourceFacts { version, digest: Digest::of(text.as_bytes()), patches: Vec::new() };
    let known = Known { files, facts };
    // Without the cache the next call takes longer, nothing else.
    let _ = write(&cache, &known);
    Ok(known.facts)
}

fn write(cache: &Path, known: &Known) -> anyhow::Result<()> {
    let dir = cache.parent().context("no folder")?;
    fs::create_dir_all(dir)?;
    let draft = tempfile::NamedTempFile::new_in(dir)?;
    fs::write(draft.path(), serde_json::to_vec_pretty(known)?)?;
    draft.persist(cache)?;
    Ok(())
}

fn identity(path: &Path) -> anyhow::Result<[i64; 7]> {
    let meta = fs::metadata(path)?;
    Ok([
        meta.dev().cast_signed(),
        meta.ino().cast_signed(),
        meta.size().cast_signed(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec(),
    ])
}

/// The first word that begins with a digit, up to what is no number: `15.18` of
/// `postgres (PostgreSQL) 15.18 (Debian …)`, `10.11.6` of `mariadbd  Ver 10.11.6-MariaDB …`.
fn parse_version(text: &str) -> Option<String> {
    let word = text
        .split_whitespace()
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    Some(word[..end].trim_end_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_all_families() {
        for (text, version) in [
            ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "15.18"),
            ("postgres (PostgreSQL) 18beta1", "18"),
            ("/usr/sbin/mysqld  Ver 8.0.39 for Linux on x86_64 (Source distribution)", "8.0.39"),
            ("mariadbd  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64", "10.11.6"),
            ("/opt/8x/bin/mysqld  Ver 5.6.35-80.0 for Linux", "5.6.35"),
        ] {
            assert_eq!(parse_version(text).as_deref(), Some(version), "{text}");
        }
        assert_eq!(parse_version("no number at all"), None);
    }
}
