//! `toolchain`: what each setting of the axis means here; sealing and unsealing.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use fs_err as fs;
use serde::Serialize;

use crate::cli::{Format, ToolchainTask};
use crate::env::Env;
use crate::exit::{Code, coded};
use crate::toolchain::seal::{self, Report, lock, root};
use crate::toolchain::{file, find};

/// How many changes of a lock are told one by one.
const SHOWN: usize = 20;

/// Runs the task.
///
/// # Errors
/// As [`crate::cmd::run`].
pub fn run(env: &Env, task: &ToolchainTask) -> anyhow::Result<Code> {
    match task {
        ToolchainTask::List { format } => {
            let rows = list(env);
            let text = match format {
                Format::Text => render(&rows),
                Format::Json => serde_json::to_string_pretty(&rows)? + "\n",
            };
            std::io::Write::write_all(&mut std::io::stdout().lock(), text.as_bytes())?;
        }
        ToolchainTask::Seal { name, archive } => {
            env.check_writable()?;
            tell(env, &seal::seal(env, name, archive)?);
        }
        ToolchainTask::Unseal { name } => unseal(env, name)?,
    }
    Ok(Code::Done)
}

/// One setting.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    name: String,
    sealed: bool,
    /// Family and version; `None` when it cannot be had.
    compiler: Option<String>,
    /// Where it is, or why it cannot be had.
    about: String,
}

/// All settings that are described or sealed. Nothing is fetched.
fn list(env: &Env) -> Vec<Row> {
    let folder = env.toolchains();
    let mut names: BTreeSet<String> = file::names(&folder).into_iter().collect();
    for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        names.extend(name.strip_suffix(lock::SUFFIX).map(str::to_owned));
    }
    names.into_iter().map(|name| row(env, name)).collect()
}

fn row(env: &Env, name: String) -> Row {
    let (sealed, compiler, about) = match seal::read(&env.toolchains(), &name) {
        Err(reason) => (true, None, reason),
        Ok(Some(lock)) => {
            let compiler = format!("{} {}", lock.family.name(), lock.version);
            let there = if root::is_there(env, &lock) { "fetched" } else { "to be fetched" };
            let about = format!(
                "{} {} {}, {}, sealed {}, {there}",
                lock.distribution,
                lock.codename,
                lock.architecture,
                lock.size(),
                lock.sealed
            );
            (true, Some(compiler), about)
        }
        Ok(None) => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            match find(&env.toolchains(), &env.cache(), &path, &name) {
                Err(lack) => (false, None, lack.to_string()),
                Ok(found) => {
                    let cc = found.tool("cc").map(|cc| cc.display().to_string());
                    let compiler = format!("{} {}", found.family.name(), found.version);
                    (false, Some(compiler), cc.unwrap_or_default())
                }
            }
        }
    };
    Row { name, sealed, compiler, about }
}

fn render(rows: &[Row]) -> String {
    let cells = rows.iter().map(|row| {
        let kind = if row.sealed { "sealed" } else { "machine" };
        [row.name.as_str(), kind, row.compiler.as_deref().unwrap_or("-"), &row.about]
    });
    let all: Vec<[&str; 4]> =
        std::iter::once(["setting", "from", "compiler", "about"]).chain(cells).collect();
    let width =
        |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let [name, kind, compiler] = [0, 1, 2].map(width);
    let mut text = String::new();
    for row in &all {
        // The last column is as wide as it is; a reason may have several lines.
        let about = row[3].replace('\n', "\n    ");
        let _ = writeln!(text, "{:name$}  {:kind$}  {:compiler$}  {about}", row[0], row[1], row[2]);
    }
    text
}

fn tell(env: &Env, report: &Report) {
    let Report { lock, toolchain, path, changes } = report;
    if let Some(changes) = changes {
        let none = changes.is_empty();
        env.reporter.line(match none {
            true => "no package has changed".to_owned(),
            false => format!("{} packages have changed:", changes.len()),
        });
        for line in changes.iter().take(SHOWN) {
            env.reporter.line(format!("  {line}"));
        }
        if changes.len() > SHOWN {
            env.reporter.line(format!("  and {} more", changes.len() - SHOWN));
        }
    }
    for note in &toolchain.details.notes {
        env.reporter.warn(note);
    }
    if let Some(refusal) = &toolchain.details.lto_refusal {
        env.reporter.warn(format!("no link-time optimisation: {refusal}"));
    }
    env.reporter.line(format!(
        "sealed: {} {} of {}, in {}; commit that file",
        toolchain.family.name(),
        toolchain.version,
        lock.size(),
        env.shown(path)
    ));
}

fn unseal(env: &Env, name: &str) -> anyhow::Result<()> {
    let path = seal::path(&env.toolchains(), name);
    if name.contains('/') || !path.is_file() {
        return Err(coded(Code::Input, format!("`{name}` is not sealed: no {}", env.shown(&path))));
    }
    fs::remove_file(&path)?;
    env.reporter.line(format!(
        "`{name}` is this machine's own compiler again; {} can be deleted at any time",
        env.shown(&env.work.join("toolchains"))
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Reporter;

    #[test]
    fn each_setting_tells_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let env = Env {
            root: root.to_owned(),
            matrix: root.join("matrix.toml"),
            results: root.join("results"),
            work: root.join("work"),
            sources: None,
            jobs: 1,
            keep_going: true,
            reporter: Reporter::new(true),
        };
        fs::create_dir(env.toolchains()).unwrap();
        let write = |name: &str, text: &str| fs::write(env.toolchains().join(name), text).unwrap();
        write("gcc.toml", "family = \"gcc\"\ncc = [\"no-such-compiler\"]\n");
        write("odd.lock.toml", "schema = 7\n");
        let text = lock::tests::lock("gcc-12").text();
        write("gcc-12.lock.toml", &text);
        let text = render(&list(&env));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[1], "gcc      machine  -           no-such-compiler not found");
        let sealed = "gcc-12   sealed   gcc 12.2.0  debian bookworm amd64, 2 packages, 19 MB, \
                      sealed 2026-12-01, to be fetched";
        assert_eq!(lines[2], sealed);
        assert!(lines[3].starts_with("odd      sealed   -           toolchains/odd.lock.toml has"));
        unseal(&env, "gcc-12").unwrap();
        let error = unseal(&env, "gcc-12").unwrap_err();
        assert_eq!(crate::exit::code_of(&error), Code::Input);
        assert!(error.to_string().starts_with("`gcc-12` is not sealed"), "{error}");
    }
}
