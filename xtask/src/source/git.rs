//! Git sources: one full revision from any URL or local path, with its submodules at the revisions
//! that it records. The user's and the system's git configuration have no say.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use fs_err as fs;

use super::fetch::{NETWORK_VARIABLES, last_line, needs};
use super::{lock, staging, tree};
use crate::env::Env;
use crate::interrupt;
use crate::proc::Proc;
use crate::progress::Task;

/// The only configuration that git sees: any owner of a local repository is fine, since what counts
/// is the revision, and line ends stay as they are.
const CONFIG: &str = "\
[safe]\n\tdirectory = *\n\
[core]\n\tautocrlf = false\n\tsymlinks = true\n\tfileMode = true\n\thooksPath = /dev/null\n\
[protocol \"file\"]\n\tallow = always\n\
[advice]\n\tdetachedHead = false\n\
[gc]\n\tauto = 0\n";
/// How deep submodules may nest.
const MAX_DEPTH: usize = 8;

/// Puts the files of a revision into the new folder `into`, all with the time of the commit, which
/// is returned in seconds since 1970.
///
/// # Errors
/// When the revision cannot be had, or the tree has a link that leads out of it.
pub(super) fn export(
    env: &Env,
    task: &Task,
    url: &str,
    rev: &str,
    into: &Path,
) -> anyhow::Result<u64> {
    let config = staging(env)?;
    let git = Git { env, task, config: config.path().join("gitconfig") };
    fs::write(&git.config, CONFIG)?;
    let base = env.matrix.parent().unwrap_or(Path::new("."));
    // A local path counts from the folder of the matrix file.
    let url = match url {
        local if is_local(local) => base.join(local).to_string_lossy().into_owned(),
        url => url.to_owned(),
    };
    let epoch = git.tree(&url, rev, into, 0)?;
    let listing = tree::list(into)?;
    tree::check_links(&listing)?;
    tree::plain_modes(into, &listing)?;
    for (path, entry) in listing.iter().rev() {
        if !matches!(entry, tree::Entry::Link(_)) {
            tree::set_mtime(&into.join(path), epoch)?;
        }
    }
    tree::set_mtime(into, epoch)?;
    Ok(epoch)
}

/// The full revision that a branch or a tag (of an annotated one, its commit) is now.
pub(super) fn resolve(env: &Env, task: &Task, url: &str, name: &str) -> anyhow::Result<String> {
    if [40, 64].contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(name.to_lowercase());
    }
    let folder = staging(env)?;
    let git = Git { env, task, config: folder.path().join("gitconfig") };
    fs::write(&git.config, CONFIG)?;
    let base = env.matrix.parent().unwrap_or(Path::new("."));
    let place = if is_local(url) { base.join(url).display().to_string() } else { url.to_owned() };
    task.state(format!("asking {url} for {name}"));
    let peeled = format!("{name}^{{}}");
    let list = git
        .proc(folder.path())
        .args(["ls-remote", "--", &place, name, &peeled])
        .timeout(Duration::from_secs(120))
        .read()
        .map_err(|error| needs(error, "git"))?;
    let refs: Vec<(&str, &str)> = list.lines().filter_map(|line| line.split_once('\t')).collect();
    let commit = refs.iter().find(|(_, of)| of.ends_with("^{}"));
    match (commit, refs.as_slice()) {
        (Some((rev, _)), _) | (None, [(rev, _)]) => Ok((*rev).to_owned()),
        (None, []) => bail!("{url} has no branch and no tag `{name}`"),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|(_, of)| *of).collect();
            bail!("`{name}` is not one thing in {url}: {}", names.join(", "))
        }
    }
}

/// Whether git takes this for a path: no `scheme://` and no `host:path`.
fn is_local(url: &str) -> bool {
    match url.split_once(':') {
        None => true,
        Some((before, _)) => before.contains('/'),
    }
}

struct Git<'a> {
    env: &'a Env,
    task: &'a Task,
    config: PathBuf,
}

impl Git<'_> {
    fn proc(&self, repository: &Path) -> Proc {
        Proc::new("git")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", &self.config)
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh")
            .env("GIT_DIR", repository)
            .inherit(&NETWORK_VARIABLES)
    }

    fn tree(&self, url: &str, rev: &str, into: &Path, depth: usize) -> anyhow::Result<u64> {
        interrupt::check()?;
        if depth > MAX_DEPTH {
            bail!("the submodules nest more than {MAX_DEPTH} deep");
        }
        if !(rev.len() == 40 || rev.len() == 64) || !rev.bytes().all(|b| b.is_ascii_hexdigit()) {
            bail!("`{rev}` is not a full revision: 40 or 64 hex digits are needed");
        }
        let repository = self
            .repository(url, rev)
            .with_context(|| format!("cannot get revision {rev} from {url}"))?;
        let epoch = self.proc(&repository).args(["show", "-s", "--format=%ct", rev]).read()?;
        let epoch = epoch.parse().with_context(|| format!("`{epoch}` is no commit time"))?;
        self.task.state(format!("checking out {}", &rev[..12]));
        fs::create_dir_all(into)?;
        let index = self.config.with_file_name(format!("index-{depth}"));
        self.proc(&repository)
            .env("GIT_WORK_TREE", into)
            .env("GIT_INDEX_FILE", &index)
            .args(["read-tree", "--reset", "-u", rev])
            .cwd(into)
            .run()?;
        for (path, commit) in self.submodules(&repository, rev)? {
            let from = self.submodule_url(&repository, url, rev, &path)?;
            self.tree(&from, &commit, &into.join(&path), depth + 1)
                .with_context(|| format!("cannot get the submodule `{path}`"))?;
        }
        Ok(epoch)
    }

    /// A bare repository that has the revision, fetched if it is not there yet.
    fn repository(&self, url: &str, rev: &str) -> anyhow::Result<PathBuf> {
        fs::create_dir_all(self.env.downloads())?;
        let path = self.env.downloads().join(format!("git-{rev}"));
        let _lock = lock(self.env, &path.with_extension("lock"))?;
        if path.exists() {
            // Checks every object's hash, and that none is missing.
            let all = ["fsck", "--no-dangling", "--no-progress", "--connectivity-only", rev];
            if self.has(&path, rev) && self.proc(&path).args(all).run().is_ok() {
                return Ok(path);
            }
            fs::remove_dir_all(&path)?;
        }
        let staging = staging(self.env)?;
        let made = staging.path().join("repository");
        let log = staging.path().join("git.log");
        let format = if rev.len() == 64 { "sha256" } else { "sha1" };
        self.proc(&made)
            .args(["init", "--bare", "--quiet", "--template="])
            .arg(format!("--object-format={format}"))
            .run()
            .map_err(|error| needs(error, "git"))?;
        self.task.state(format!("fetching {} from {url}", &rev[..12]));
        let shallow: &[&str] = &["--depth=1", "--", url, rev];
        // Some servers give only what a branch or a tag points to.
        let whole: &[&str] = &["--", url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
        let mut reason = None;
        for what in [shallow, whole] {
            let fetched = self
                .proc(&made)
                .args(["fetch", "--no-tags", "--no-write-fetch-head", "--quiet"])
                .args(what)
                .log(&log)
                .timeout(Duration::from_secs(4 * 3600))
                .run_any()?;
            if fetched.status.success() && self.has(&made, rev) {
                fs::rename(&made, &path)?;
                return Ok(path);
            }
            reason = reason.or_else(|| last_line(&log));
        }
        bail!("{}", reason.unwrap_or_else(|| "no branch or tag there contains it".to_owned()))
    }

    fn has(&self, repository: &Path, rev: &str) -> bool {
        let asked = self
            .proc(repository)
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg(format!("{rev}^{{commit}}"))
            .read();
        asked.is_ok_and(|answer| answer.eq_ignore_ascii_case(rev))
    }

    /// Path and revision of each submodule.
    fn submodules(&self, repository: &Path, rev: &str) -> anyhow::Result<Vec<(String, String)>> {
        let text = self.proc(repository).args(["ls-tree", "-r", "-z", rev]).read()?;
        Ok(parse_gitlinks(&text))
    }

    fn submodule_url(
        &self,
        repository: &Path,
        parent: &str,
        rev: &str,
        path: &str,
    ) -> anyhow::Result<String> {
        let list = self
            .proc(repository)
            .args(["config", "--null", "--list", "--blob"])
            .arg(format!("{rev}:.gitmodules"))
            .read()
            .with_context(|| format!("cannot read `.gitmodules` for the submodule `{path}`"))?;
        let url = parse_modules(&list, path)
            .with_context(|| format!("`.gitmodules` has no URL for the submodule `{path}`"))?;
        Ok(relative_url(parent, &url))
    }
}

/// The submodules in the output of `git ls-tree -r -z`: `160000 commit REV<tab>PATH`.
fn parse_gitlinks(text: &str) -> Vec<(String, String)> {
    text.split('\0')
        .filter_map(|line| {
            let (meta, path) = line.trim_start_matches('\n').split_once('\t')?;
            let rev = meta.strip_prefix("160000 commit ")?;
            Some((path.to_owned(), rev.to_owned()))
        })
        .collect()
}

/// The URL of the submodule at `path`, from `git config --null --list`: `key<newline>value<NUL>`.
fn parse_modules(list: &str, path: &str) -> Option<String> {
    let pairs: Vec<(&str, &str)> =
        list.split('\0').filter_map(|pair| pair.split_once('\n')).collect();
    let name = pairs.iter().find_map(|(key, value)| {
        let name = key.strip_prefix("submodule.")?.strip_suffix(".path")?;
        (*value == path).then_some(name)
    })?;
    let key = format!("submodule.{name}.url");
    pairs.iter().find(|(other, _)| *other == key).map(|(_, url)| (*url).to_owned())
}

/// A submodule's URL; one that begins with `./` or `../` counts from the parent's.
fn relative_url(parent: &str, url: &str) -> String {
    if !url.starts_with("./") && !url.starts_with("../") {
        return url.to_owned();
    }
    let (mut base, mut rest) = (parent.trim_end_matches('/'), url);
    loop {
        if let Some(next) = rest.strip_prefix("./") {
            rest = next;
        } else if let Some(next) = rest.strip_prefix("../") {
            rest = next;
            base = base.rfind(['/', ':']).map_or("", |at| &base[..at]);
        } else {
            return format!("{base}/{rest}");
        }
    }
}

#[cfg(test)]
mod tests;
