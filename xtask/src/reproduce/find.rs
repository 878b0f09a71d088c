//! Finds a manifest by what a colleague may have named: a file, a URL, the build's name, name and
//! id, or the first digits of the id; and the list of functions that lies beside it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fs_err as fs;

use crate::build::manifest::Manifest;
use crate::diag::nearest;
use crate::env::Env;
use crate::exact::functions::{self, Functions};
use crate::exit::{Code, WithCode as _, coded};
use crate::source;

/// So many digits of an id are enough to ask for it.
const DIGITS: usize = 4;
/// So many digits of the id are in the name of a manifest's file.
const SHORT: usize = 12;

/// A manifest and what belongs to it.
#[derive(Debug)]
pub struct Found {
    /// The manifest.
    pub manifest: Manifest,
    /// Its own text.
    pub text: String,
    /// Where it is from, for people.
    pub origin: String,
    /// The functions of the build, packed as they are beside the manifest, or why not.
    pub functions: Result<Vec<u8>, String>,
}

impl Found {
    /// The functions of the build, if they are there and can be used; else the reason.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn functions(&self) -> Result<Functions, String> {
        let packed = self.functions.as_deref().map_err(String::clone)?;
        Functions::unpack(packed).map_err(|error| format!("{error:#}"))
    }
}

/// Finds the manifest `wanted`; names are looked up in `from`, or in the results.
///
/// # Errors
/// With [`Code::Input`] when there is none, several fit, or it cannot be used; the message names
/// what there is.
pub fn find(env: &Env, wanted: &str, from: Option<&str>) -> anyhow::Result<Found> {
    let wanted = wanted.strip_prefix("file:").map_or(wanted, plain_path);
    if is_url(wanted) {
        return fetched(env, wanted, "");
    }
    let named = Path::new(wanted);
    let as_path = wanted.contains('/') || wanted.ends_with(".json");
    if named.is_file() {
        return local(env, named);
    }
    let default = env.results.display().to_string();
    let from = from.unwrap_or(&default);
    let from = from.strip_prefix("file:").map_or(from, plain_path);
    if is_url(from) {
        let help =
            " (a name is looked up as `<URL>/manifests/<name>-<id>.json`, so it must be whole)";
        return fetched(env, &url_of(from, wanted), help);
    }
    if as_path {
        let inside = Path::new(from).join(named);
        if inside.is_file() {
            return local(env, &inside);
        }
        return Err(coded(
            Code::Input,
            format!("no manifest {wanted}: there is no such file, neither here nor in {from}"),
        ));
    }
    local(env, &lookup(Path::new(from), wanted).code(Code::Input)?)
}

fn is_url(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

/// `file:///a`, `file:/a` and `file:a` all name a path.
fn plain_path(text: &str) -> &str {
    if text.starts_with("///") { &text[2..] } else { text }
}

/// The URL of a name below a base: of a file where that is what was given.
fn url_of(base: &str, name: &str) -> String {
    let base = base.trim_end_matches('/');
    if name.contains('/') || name.ends_with(".json") {
        return format!("{base}/{name}");
    }
    let folder =
        if base.ends_with("/manifests") { base.to_owned() } else { format!("{base}/manifests") };
    format!("{folder}/{name}.json")
}

fn local(env: &Env, path: &Path) -> anyhow::Result<Found> {
    let text = fs::read_to_string(path).code(Code::Input)?;
    let beside = functions::beside(path);
    let functions = match std::fs::read(&beside) {
        Ok(packed) => Ok(packed),
        Err(error) => Err(format!("{}: {error}", env.shown(&beside))),
    };
    whole(text, env.shown(path), functions)
}

fn fetched(env: &Env, url: &str, help: &str) -> anyhow::Result<Found> {
    if !url.starts_with("https://") {
        let text = format!("{url}: only https, since anybody on the way could change a manifest");
        return Err(coded(Code::Input, text));
    }
    let folder = tempfile::tempdir().context("cannot make a folder for the download")?;
    let file = folder.path().join("manifest.json");
    source::download(env, url, &file)
        .with_context(|| format!("cannot fetch the manifest {url}{help}"))
        .code(Code::Environment)?;
    let text = fs::read_to_string(&file).code(Code::Input)?;
    let beside = url.strip_suffix(".json").unwrap_or(url).to_owned() + ".functions.gz";
    let packed = folder.path().join("functions.gz");
    let functions = source::download(env, &beside, &packed)
        .and_then(|()| Ok(fs::read(&packed)?))
        .map_err(|error| format!("{beside}: {error:#}"));
    whole(text, url.to_owned(), functions)
}

fn whole(
    text: String,
    origin: String,
    functions: Result<Vec<u8>, String>,
) -> anyhow::Result<Found> {
    let manifest = Manifest::parse(&text)
        .with_context(|| format!("cannot use the manifest {origin}"))
        .code(Code::Input)?;
    Ok(Found { manifest, text, origin, functions })
}

/// The manifests of a results folder, a checkout, or a plain folder: file name without its end, and
/// path; sorted.
fn manifests(from: &Path) -> Vec<(String, PathBuf)> {
    for folder in [from.join("manifests"), from.join("results/manifests"), from.to_owned()] {
        let mut found: Vec<(String, PathBuf)> = std::fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let stem = name.strip_suffix(".json").filter(|stem| !stem.starts_with('.'))?;
                // Of a manifest's name the end is the id.
                let (_, id) = stem.rsplit_once('-')?;
                let is_id = id.len() == SHORT && id.bytes().all(|byte| byte.is_ascii_hexdigit());
                is_id.then(|| (stem.to_owned(), entry.path()))
            })
            .collect();
        if !found.is_empty() {
            found.sort();
            return found;
        }
    }
    Vec::new()
}

/// The manifest of this name, name and id, or beginning of an id.
fn lookup(from: &Path, wanted: &str) -> anyhow::Result<PathBuf> {
    let all = manifests(from);
    anyhow::ensure!(
        !all.is_empty(),
        "no manifest `{wanted}`: {} has none (`--from` names another results folder, a checkout \
         or a URL)",
        from.display()
    );
    if let Some((_, path)) = all.iter().find(|(stem, _)| stem == wanted) {
        return Ok(path.clone());
    }
    let hex = wanted.len() >= DIGITS && wanted.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digits = wanted.to_ascii_lowercase();
    let fits = |(stem, path): &&(String, PathBuf)| {
        let Some((name, id)) = stem.rsplit_once('-') else { return false };
        if name == wanted {
            return true;
        }
        if !hex || !id.starts_with(&digits[..digits.len().min(SHORT)]) {
            return false;
        }
        // More digits than the name has are held against the manifest's own.
        digits.len() <= SHORT
            || Manifest::read(path).is_ok_and(|found| found.id.to_string().starts_with(&digits))
    };
    let found: Vec<&(String, PathBuf)> = all.iter().filter(fits).collect();
    match found[..] {
        [(_, path)] => Ok(path.clone()),
        [] => {
            // A name alone serves as well as name and id.
            let names: BTreeSet<&str> = all
                .iter()
                .flat_map(|(stem, _)| [stem.as_str(), stem.rsplit_once('-').map_or("", |(n, _)| n)])
                .collect();
            let help = nearest(wanted, names).map_or(String::new(), |help| format!("; {help}"));
            anyhow::bail!("no manifest `{wanted}` in {}{help}", from.display())
        }
        _ => {
            let names: Vec<String> =
                found.iter().take(12).map(|(stem, _)| format!("`{stem}`")).collect();
            let more = match found.len().saturating_sub(12) {
                0 => String::new(),
                count => format!(" and {count} more"),
            };
            anyhow::bail!(
                "`{wanted}` stands for {} manifests, name one of them: {}{more}",
                found.len(),
                names.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(folder.path().join("results/manifests")).expect("made");
        for name in names {
            let path = folder.path().join("results/manifests").join(name);
            std::fs::write(path, "{}").expect("written");
        }
        folder
    }

    #[test]
    fn names_and_ids_stand_for_manifests() {
        let folder = folder(&[
            "pg_o2-0123456789ab.json",
            "pg_o2-o3-0123ffffffff.json",
            "pg_lto-aaaaaaaaaaaa.json",
            "pg_lto-bbbbbbbbbbbb.json",
            "pg_o2-0123456789ab.functions.gz",
            ".pg_o2-0123456789ab.json.77",
            "notes.json",
        ]);
        let results = folder.path().join("results");
        for from in [folder.path(), &results, &results.join("manifests")] {
            let stem = |wanted: &str| -> Result<String, String> {
                let path = lookup(from, wanted).map_err(|error| error.to_string())?;
                Ok(path.file_stem().expect("a name").to_string_lossy().into_owned())
            };
            let is = |name: &str| Ok(name.to_owned());
            assert_eq!(stem("pg_o2"), is("pg_o2-0123456789ab"));
            assert_eq!(stem("pg_o2-o3"), is("pg_o2-o3-0123ffffffff"));
            assert_eq!(stem("pg_lto-bbbbbbbbbbbb"), is("pg_lto-bbbbbbbbbbbb"));
            assert_eq!(stem("01234"), is("pg_o2-0123456789ab"));
            assert_eq!(stem("BBBB"), is("pg_lto-bbbbbbbbbbbb"));
            let error = stem("0123").expect_err("two begin so");
            assert!(error.contains("stands for 2 manifests"), "{error}");
            assert!(error.contains("`pg_o2-0123456789ab`, `pg_o2-o3-0123ffffffff`"), "{error}");
            let error = stem("pg_lto").expect_err("two are called so");
            assert!(error.contains("`pg_lto-aaaaaaaaaaaa`"), "{error}");
            let error = stem("pg_02").expect_err("a slip");
            assert!(error.contains("did you mean `pg_o2`"), "{error}");
            assert!(stem("012").is_err(), "too few digits");
            // More digits than the file's name has, and the file does not have them.
            assert!(stem("0123456789abc").is_err());
        }
        let empty = tempfile::tempdir().expect("a directory");
        let error = lookup(empty.path(), "x").expect_err("nothing there").to_string();
        assert!(error.contains("has none (`--from`"), "{error}");
    }

    #[test]
    fn urls_of_names_and_files() {
        for (base, name, expected) in [
            (
                "https://a.example/r/",
                "pg-0123456789ab",
                "https://a.example/r/manifests/pg-0123456789ab.json",
            ),
            ("https://a.example/manifests", "pg-1", "https://a.example/manifests/pg-1.json"),
            ("https://a.example/r", "x/y.json", "https://a.example/r/x/y.json"),
        ] {
            assert_eq!(url_of(base, name), expected);
        }
        assert_eq!(plain_path("///home/x"), "/home/x");
        assert_eq!(plain_path("/home/x"), "/home/x");
        assert_eq!(plain_path("x/y"), "x/y");
    }
}
