//! Installed servers: asked for their version and known by the content of their programs.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use fs_err as fs;

use crate::env::Env;
use crate::facts::{SourceFacts, Unavailable};
use crate::hash::Digest;
use crate::matrix::model::Engine;
use crate::proc::Proc;
use crate::server::mysql;
use crate::toolchain::{cache, identity};

/// Folders below a prefix that have servers.
const FOLDERS: [&str; 3] = ["bin", "sbin", "libexec"];

/// The version and the digest of the server in `prefix`.
///
/// # Errors
/// When there is no server or it does not tell its version.
pub(super) fn facts(env: &Env, engine: Engine, prefix: &Path) -> Result<SourceFacts, Unavailable> {
    let server = program(engine, prefix)?;
    let unavailable = |error: anyhow::Error| Unavailable {
        reason: format!("the server {} cannot be used: {error:#}", server.display()),
        hint: None,
    };
    known(env, engine, prefix, &server).map_err(unavailable)
}

/// The server's program.
///
/// # Errors
/// When there is none.
pub fn program(engine: Engine, prefix: &Path) -> Result<PathBuf, Unavailable> {
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

/// Files besides the server whose bytes matter for a run: what makes the data directory.
fn companions(engine: Engine, prefix: &Path) -> Vec<PathBuf> {
    if engine != Engine::Postgres {
        return mysql::system_tables(prefix);
    }
    let find = |name: &str| {
        let mut all = FOLDERS.iter().map(|dir| prefix.join(dir).join(name));
        all.find(|path| path.is_file())
    };
    ["initdb", "pg_ctl"].into_iter().filter_map(find).collect()
}

/// The version, by the server's own words.
///
/// # Errors
/// When it does not start, tells no version or is of another engine.
pub fn ask(engine: Engine, server: &Path) -> anyhow::Result<String> {
    let mut proc = Proc::new(server).timeout(mysql::ASK_TIMEOUT);
    if engine != Engine::Postgres {
        // The first argument: files in /etc may have what it does not know.
        proc = proc.arg("--no-defaults");
    }
    let said = proc.arg("--version").read()?;
    let is_mariadb = said.contains("MariaDB");
    if engine != Engine::Postgres && is_mariadb != (engine == Engine::Mariadb) {
        let other = if is_mariadb { Engine::Mariadb } else { Engine::Mysql };
        bail!("it is of engine `{}`, not `{}`: `{said}`", other.name(), engine.name());
    }
    parse_version(&said).with_context(|| format!("its `--version` says no version: `{said}`"))
}

fn known(env: &Env, engine: Engine, prefix: &Path, server: &Path) -> anyhow::Result<SourceFacts> {
    let key = cache::key(&(engine.name(), server));
    cache::stamped(&env.cache(), "installed", &key, |watched| {
        let version = ask(engine, server)?;
        let mut paths = vec![server.to_owned()];
        paths.extend(companions(engine, prefix));
        paths.extend(modules(prefix, watched));
        paths.extend(identity::loaded_libraries(server));
        let mut lines = Vec::new();
        for path in &paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            lines.push(format!("{name} {}", watched.digest(path)?));
        }
        // A library of the prefix may also be one that the server loads.
        lines.sort_unstable();
        lines.dedup();
        let text = format!("installed {} {version}\n{}\n", engine.name(), lines.join("\n"));
        Ok(SourceFacts { version, digest: Digest::of(text.as_bytes()), patches: Vec::new() })
    })
}

/// The server, then the shared libraries and modules that belong to it.
///
/// # Errors
/// When there is no server in the prefix.
pub fn binaries(engine: Engine, prefix: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let server = program(engine, prefix).map_err(|lack| anyhow::anyhow!("{lack}"))?;
    let mut paths = vec![server];
    for dir in module_folders(prefix) {
        paths.extend(modules_in(&dir));
    }
    paths[1..].sort_unstable();
    Ok(paths)
}

/// The folders that may have shared libraries and modules of the server: those in its prefix, but
/// of a prefix that the whole system shares only those in folders of the engines.
fn module_folders(prefix: &Path) -> Vec<PathBuf> {
    const LIBRARIES: [&str; 2] = ["lib", "lib64"];
    const OWN: [&str; 6] =
        ["postgresql", "pgsql", "plugin", "mysql/plugin", "mariadb/plugin", "mysql/private"];
    let is_shared = ["/", "/usr", "/usr/local"].iter().any(|shared| prefix == Path::new(shared));
    let mut folders = Vec::new();
    for folder in LIBRARIES {
        let folder = prefix.join(folder);
        let top = (!is_shared).then(|| folder.clone());
        folders.extend(top.into_iter().chain(OWN.map(|own| folder.join(own))));
    }
    folders
}

fn modules_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let is_module = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        (name.ends_with(".so") || name.contains(".so.")) && path.is_file()
    };
    paths.filter(is_module).collect()
}

/// The shared libraries and modules. A folder counts as changed when a file comes or goes.
fn modules(prefix: &Path, watched: &mut cache::Watched) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for dir in module_folders(prefix) {
        // A folder that is not there yet shows as a change of the one above.
        watched.path(dir.ancestors().find(|above| above.is_dir()).unwrap_or(prefix));
        found.extend(modules_in(&dir));
    }
    found.sort_unstable();
    found
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
