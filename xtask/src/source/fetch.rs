//! Archives by their hash: a local mirror first, then each origin in order, all checked against the
//! one sha256. What does not match is never kept.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::bail;
use fs_err as fs;

use super::{debian, lock, staging};
use crate::env::Env;
use crate::exit::{Code, code_of, coded};
use crate::hash::Digest;
use crate::interrupt;
use crate::matrix::model::Origin;
use crate::proc::{Proc, Running};
use crate::progress::Task;

/// What proxies and certificates need; everything else of the caller's environment stays outside.
pub(super) const NETWORK_VARIABLES: [&str; 12] = [
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "ftp_proxy",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    "CURL_CA_BUNDLE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "SSH_AUTH_SOCK",
];

/// The archive with this hash, downloaded if it is not there yet.
///
/// # Errors
/// When no origin has it: every origin is listed with its reason.
pub(super) fn ensure(
    env: &Env,
    task: &Task,
    sha256: Digest,
    origins: &[Origin],
) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(env.downloads())?;
    let path = env.downloads().join(sha256.to_string());
    let _lock = lock(env, &path.with_extension("lock"))?;
    if path.exists() {
        if Digest::of_file(&path)? == sha256 {
            return Ok(path);
        }
        env.reporter.warn(format!("{} is damaged; it is fetched again", env.shown(&path)));
        fs::remove_file(&path)?;
    }
    let mut failures = Vec::new();
    for place in places(env, sha256, origins) {
        interrupt::check()?;
        let staging = staging(env)?;
        match place.get(env, task, staging.path(), sha256) {
            Ok(file) => {
                fs::rename(&file, &path)?;
                return Ok(path);
            }
            Err(error) if code_of(&error) == Code::Interrupted => return Err(error),
            Err(error) => {
                env.reporter.line(format!("{place}: {error:#}"));
                failures.push((place.to_string(), error));
            }
        }
    }
    Err(none_has_it(env, sha256, &failures))
}

fn none_has_it(env: &Env, sha256: Digest, failures: &[(String, anyhow::Error)]) -> anyhow::Error {
    let mut text = format!("no origin has the archive with sha256 {sha256}");
    for (place, error) in failures {
        text.push_str(&format!("\n  {place}: {error:#}"));
    }
    let hint = match &env.sources {
        Some(dir) => format!("it is not in {} either: put it there", env.shown(dir)),
        None => {
            "put it into a folder and name that with `--sources DIR` or MATRIX_SOURCES".to_owned()
        }
    };
    text.push_str(&format!(
        "\n  without network: {hint}, under any origin's file name or the hash"
    ));
    coded(Code::Environment, text)
}

/// One place to look, and what the user calls it.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Mirror(PathBuf),
    Origin(Origin),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mirror(path) => write!(f, "{}", path.display()),
            Self::Origin(origin) => write!(f, "{origin}"),
        }
    }
}

/// The files of the mirror that may be it, then the origins.
fn places(env: &Env, sha256: Digest, origins: &[Origin]) -> Vec<Place> {
    let mut names = vec![sha256.to_string()];
    for origin in origins {
        let name = match origin {
            Origin::Https(url) => {
                let path = url.split(['?', '#']).next().unwrap_or(url);
                path.rsplit('/').next().map(str::to_owned)
            }
            Origin::File(path) => path.file_name().map(|name| name.to_string_lossy().into_owned()),
            Origin::Debian { .. } => None,
        };
        names.extend(name.filter(|name| !name.is_empty()));
    }
    names.dedup();
    let mirror = env.sources.iter().flat_map(|dir| names.iter().map(|name| dir.join(name)));
    mirror
        .filter(|path| path.is_file())
        .map(Place::Mirror)
        .chain(origins.iter().cloned().map(Place::Origin))
        .collect()
}

impl Place {
    /// Brings the archive into the folder `into`, checked.
    fn get(&self, env: &Env, task: &Task, into: &Path, sha256: Digest) -> anyhow::Result<PathBuf> {
        let file = match self {
            Self::Mirror(path) => {
                let file = into.join("archive");
                copy(path, &file)?;
                file
            }
            Self::Origin(Origin::Debian { package, version }) => {
                task.state(format!("asking apt-get for {package} {version}"));
                return debian::get(env, task, package, version, into, Some(sha256));
            }
            Self::Origin(origin) => bring(env, task, origin, into)?,
        };
        check(&file, sha256)?;
        Ok(file)
    }
}

/// Brings what an origin has into the folder `into`, whatever it is.
pub(super) fn bring(
    env: &Env,
    task: &Task,
    origin: &Origin,
    into: &Path,
) -> anyhow::Result<PathBuf> {
    let file = into.join("archive");
    match origin {
        Origin::File(path) => {
            let base = env.matrix.parent().unwrap_or(Path::new("."));
            copy(&base.join(path), &file)?;
        }
        Origin::Https(url) => {
            task.state(format!("downloading {url}"));
            download(task, url, &file)?;
        }
        Origin::Debian { package, version } => {
            task.state(format!("asking apt-get for {package} {version}"));
            return debian::get(env, task, package, version, into, None);
        }
    }
    Ok(file)
}

/// Copies a regular file.
///
/// # Errors
/// When there is none.
pub(crate) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    // Opened first: the error of a missing file should be that and no other.
    let meta = fs::metadata(from).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => anyhow::anyhow!("no such file"),
        _ => error.into(),
    })?;
    if !meta.is_file() {
        bail!("it is not a file");
    }
    fs::copy(from, to)?;
    Ok(())
}

/// Whether a file is what its hash says.
///
/// # Errors
/// When it is not: both hashes.
pub(crate) fn check(file: &Path, sha256: Digest) -> anyhow::Result<()> {
    let got = Digest::of_file(file)?;
    if got != sha256 {
        bail!(
            "wrong content: its sha256 is {got} ({} bytes), not {sha256}; it was not kept",
            fs::metadata(file)?.size()
        );
    }
    Ok(())
}

/// The download, without a time limit but with a limit for standing still. Who names a plain `http`
/// address gets it (what arrives is checked by its hash); nobody is led from `https` to it.
fn curl(url: &str, file: &Path) -> Proc {
    let schemes = if url.starts_with("http://") { "=http,https" } else { "=https" };
    Proc::new("curl")
        // Not the user's .curlrc: what is fetched should not depend on it.
        .args(["--disable", "--fail", "--location", "--silent", "--show-error"])
        .args(["--proto", schemes, "--proto-redir", schemes, "--max-redirs", "10"])
        .args(["--connect-timeout", "5", "--speed-limit", "1024", "--speed-time", "20"])
        .args(["--retry", "2", "--retry-delay", "1", "--output"])
        .arg(file)
        .args(["--url", url])
        .inherit(&NETWORK_VARIABLES)
}

/// Downloads a file by curl.
///
/// # Errors
/// When it cannot be had: curl's own words.
pub(crate) fn download(task: &Task, url: &str, file: &Path) -> anyhow::Result<()> {
    let log = file.with_extension("log");
    let mut running = curl(url, file).log(&log).spawn().map_err(|error| needs(error, "curl"))?;
    let status = watch(task, &mut running, file)?;
    if status.success() {
        return Ok(());
    }
    bail!("{}", last_line(&log).unwrap_or_else(|| format!("curl failed ({status})")))
}

/// Waits while showing how much of the file (or of the files in the folder) has arrived.
///
/// # Errors
/// When the user asks to stop; then the process is stopped.
pub(super) fn watch(
    task: &Task,
    running: &mut Running,
    path: &Path,
) -> anyhow::Result<std::process::ExitStatus> {
    let begin = Instant::now();
    loop {
        if let Some(status) = running.poll()? {
            return Ok(status);
        }
        interrupt::sleep(Duration::from_millis(50))?;
        let mib = size(path) as f64 / f64::from(1 << 20);
        if mib > 0.0 {
            let rate = mib / begin.elapsed().as_secs_f64();
            task.message(format!("{mib:.1} MiB, {rate:.1} MiB/s"));
        }
    }
}

fn size(path: &Path) -> u64 {
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => fs::read_dir(path)
            .map(|entries| entries.flatten().map(|entry| size(&entry.path())).sum())
            .unwrap_or(0),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    }
}

/// The last line of a log that is not the command itself: the program's last words.
pub(crate) fn last_line(log: &Path) -> Option<String> {
    let text = String::from_utf8_lossy(&fs::read(log).ok()?).into_owned();
    text.lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .filter(|line| !line.starts_with("$ ") && !line.starts_with("# "))
        .map(str::to_owned)
}

/// The error for a tool that is not installed, else the error itself.
pub(crate) fn needs(error: anyhow::Error, tool: &str) -> anyhow::Error {
    if code_of(&error) == Code::Environment {
        coded(
            Code::Environment,
            format!(
                "`{tool}` not found; install the package `{tool}` (`cargo xtask doctor --install`)"
            ),
        )
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curl_speaks_https_only_and_never_waits_forever() {
        let line = curl("https://example.org/a.tar.gz", Path::new("/x/archive")).line();
        assert!(line.starts_with("curl --disable "), "{line}");
        for part in [
            "--proto '=https'",
            "--proto-redir '=https'",
            "--connect-timeout 5",
            "--speed-time 20",
            "--output /x/archive --url https://example.org/a.tar.gz",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        let plain = curl("http://example.org/a.deb", Path::new("/x/archive")).line();
        assert!(plain.contains("--proto '=http,https'"), "{plain}");
    }
}
