//! Installed servers: which of their files are read, and what they and their package say of
//! themselves. Whatever they say is a claim; nothing of it can be proven from the files.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use crate::audit::elf::{self, Facts};
use crate::matrix::model::Engine;
use crate::proc::{PATH, Proc};
use crate::source::installed;
use crate::toolchain::elf::is_elf;

/// How long a server may take to say its version.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads the server and the modules that belong to it, by path below the prefix. A prefix such as
/// `/usr` holds much else, which is not looked at.
///
/// # Errors
/// When there is no server in the prefix, or a file cannot be read.
pub fn binaries(engine: Engine, prefix: &Path) -> anyhow::Result<Vec<(String, Facts)>> {
    let mut found = Vec::new();
    for path in installed::binaries(engine, prefix)? {
        if !is_elf(&path) {
            continue;
        }
        let name = path.strip_prefix(prefix).context("a file outside of its prefix")?;
        found.push((name.display().to_string(), elf::read(&path)?));
    }
    Ok(found)
}

/// What the server and its package say of themselves, one sentence each; what they cannot say is
/// said, too.
pub fn claims(engine: Engine, prefix: &Path) -> Vec<String> {
    let mut claims = Vec::new();
    let Some(server) =
        installed::binaries(engine, prefix).ok().and_then(|all| all.into_iter().next())
    else {
        return claims;
    };
    let ask = |program: &Path, argument: &str| {
        Proc::new(program).arg(argument).timeout(PATIENCE).read().ok()
    };
    if let Some(version) = ask(&server, "--version") {
        claims.push(format!("says of itself: {version}"));
    }
    if let Some(text) = compiled_by(&server) {
        claims.push(format!("its version string says: {text}"));
    }
    match engine {
        Engine::Postgres => {
            let tool = prefix.join("bin/pg_config");
            let mut any = false;
            for (what, argument) in [("flags", "--cflags"), ("options", "--configure")] {
                if let Some(text) = ask(&tool, argument) {
                    claims.push(format!("pg_config says its {what} were: {text}"));
                    any = true;
                }
            }
            claims.push(if any {
                "what pg_config says was written down by configure: extras of single files, the \
                 compiler's defaults and flags given to make are not in it"
                    .to_owned()
            } else {
                "no pg_config in its prefix: not even its flags as configured are known".to_owned()
            });
        }
        Engine::Mysql | Engine::Mariadb => {
            claims.push("nothing that the server says names its flags".to_owned());
        }
    }
    claims.push(match package(&server) {
        Some(package) => format!(
            "belongs to the package {package}; how packages are hardened in general \
             (`dpkg-buildflags` tells) proves nothing about this one"
        ),
        None => "belongs to no package that dpkg knows".to_owned(),
    });
    claims
}

/// The text in a server that says which compiler made it: packages strip `.comment`, but PostgreSQL
/// keeps what its configure was told.
fn compiled_by(server: &Path) -> Option<String> {
    const WORDS: &[u8] = b", compiled by ";
    let data = std::fs::read(server).ok()?;
    let mut texts = data.split(|byte| *byte == 0);
    let found = texts
        .find(|text| text.len() < 300 && text.windows(WORDS.len()).any(|part| part == WORDS))?;
    String::from_utf8(found.to_vec()).ok()
}

/// Name and version of the package that a file belongs to, where the package manager is dpkg.
fn package(file: &Path) -> Option<String> {
    let dpkg = which::which_in("dpkg-query", Some(PATH), "/").ok()?;
    let real = file.canonicalize().ok()?;
    let owner = Proc::new(&dpkg).arg("-S").arg(&real).timeout(PATIENCE).read().ok()?;
    let (name, _) = owner.lines().find_map(|line| line.split_once(": /"))?;
    let format = "--showformat=${Package} ${Version}";
    Proc::new(dpkg).args(["-W", format, name]).timeout(PATIENCE).read().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_without_a_server_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = binaries(Engine::Mariadb, folder.path()).expect_err("nothing there");
        assert!(error.to_string().contains("no mariadb server in"), "{error}");
        assert!(claims(Engine::Mariadb, folder.path()).is_empty());
    }
}
