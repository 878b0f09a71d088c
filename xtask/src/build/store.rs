//! Where finished builds lie: `work/builds/<name>-<first 12 digits of the id>/` with the installed
//! tree in `tree/`, the manifest, and the inputs. A build is there whole or not at all: it is made
//! in `work/staging/` and renamed into place.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, bail};
use fs_err as fs;

use crate::build::manifest::{self, Manifest};
use crate::build::spec::{Inputs, Spec};
use crate::env::Env;
use crate::exact::functions;
use crate::hash::Digest;

/// The list of functions in a build's folder, and the end of its name beside the manifest.
const FUNCTIONS: &str = "functions.gz";

/// The builds that are there, read once from the disk.
#[derive(Clone, Debug, Default)]
pub struct Store {
    root: PathBuf,
    by_id: BTreeMap<Digest, PathBuf>,
}

impl Store {
    /// Looks at what is there. A folder without a readable `id` is no build.
    pub fn read(env: &Env) -> Self {
        let root = env.builds();
        let mut by_id = BTreeMap::new();
        for entry in std::fs::read_dir(&root).into_iter().flatten().flatten() {
            let folder = entry.path();
            let id = std::fs::read_to_string(folder.join("id")).ok();
            if let Some(id) = id.and_then(|text| text.trim().parse().ok()) {
                by_id.insert(id, folder);
            }
        }
        Self { root, by_id }
    }

    /// The folder of a build, under whatever name it was made: the id says what it is.
    pub fn folder(&self, id: Digest) -> Option<&Path> {
        self.by_id.get(&id).map(PathBuf::as_path)
    }

    /// Whether a build is there.
    pub fn has(&self, id: Digest) -> bool {
        self.by_id.contains_key(&id)
    }

    /// The installed tree of a build.
    pub fn tree(&self, id: Digest) -> Option<PathBuf> {
        Some(self.folder(id)?.join("tree"))
    }

    /// What is written down about a build.
    ///
    /// # Errors
    /// When it is not there, or its manifest cannot be read.
    pub fn manifest(&self, id: Digest) -> anyhow::Result<Manifest> {
        let folder = self.folder(id).context("the build is not there")?;
        Manifest::read(&folder.join("manifest.json"))
    }

    /// The folder that holds all builds.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The inputs of the newest other build of this name, to tell what changed since.
    pub fn previous(&self, spec: &Spec) -> Option<Inputs> {
        let prefix = format!("{}-", spec.name);
        let newest = self
            .by_id
            .iter()
            .filter(|(id, folder)| {
                let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let digits = name.strip_prefix(&prefix);
                **id != spec.id && digits.is_some_and(|digits| digits.len() == 12)
            })
            .filter_map(|(_, folder)| Some((folder.metadata().ok()?.modified().ok()?, folder)))
            .max()?;
        let text = std::fs::read_to_string(newest.1.join("inputs.json")).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// The manifests of `results/manifests/`, found by build id, each read once and when it is wanted.
#[derive(Debug, Default)]
pub struct Manifests {
    /// By the first digits of the id, which the file's name ends with.
    files: BTreeMap<String, PathBuf>,
    read: RefCell<BTreeMap<Digest, Result<Rc<Manifest>, String>>>,
}

impl Manifests {
    /// Looks at what is there; nothing is read yet.
    pub fn list(env: &Env) -> Self {
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(env.manifests()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let stem = name.to_str().and_then(|name| name.strip_suffix(".json"));
            // What begins with a dot is being written.
            if let Some((_, digits)) = stem
                .filter(|stem| !stem.starts_with('.'))
                .and_then(|stem| stem.rsplit_once('-').filter(|(_, digits)| digits.len() == 12))
            {
                files.insert(digits.to_owned(), entry.path());
            }
        }
        Self { files, read: RefCell::default() }
    }

    /// The manifest of a build, or why there is none.
    ///
    /// # Errors
    /// In one sentence for people: it is not there, or cannot be used.
    pub fn get(&self, name: &str, id: Digest) -> Result<Rc<Manifest>, String> {
        let read = || {
            let file = self.files.get(&id.short());
            let file = file.ok_or_else(|| format!("no manifest of `{name}` ({})", id.short()))?;
            match Manifest::read(file) {
                Ok(manifest) if manifest.id == id => Ok(Rc::new(manifest)),
                Ok(_) => Err(format!("{} is of another build", file.display())),
                Err(error) => Err(format!("{error:#}")),
            }
        };
        self.read.borrow_mut().entry(id).or_insert_with(read).clone()
    }
}

/// The folder that a new build of this name gets.
fn place(env: &Env, name: &str, id: Digest) -> PathBuf {
    env.builds().join(format!("{name}-{}", id.short()))
}

/// The manifest of a build of which all files are there with their sizes: quick enough for every
/// call. Changed bytes are found by [`verify`], before a benchmark.
pub fn whole(folder: &Path) -> Option<Manifest> {
    let manifest = Manifest::read(&folder.join("manifest.json")).ok()?;
    let there = manifest.files.iter().all(|file| {
        let data = std::fs::symlink_metadata(folder.join("tree").join(&file.path));
        data.is_ok_and(|data| data.is_symlink() || data.len() == file.size)
    });
    there.then_some(manifest)
}

/// Checks that a build's tree is still what its manifest says.
///
/// # Errors
/// When a file was changed, added or removed since; the message names the first ones.
pub fn verify(env: &Env, store: &Store, name: &str, id: Digest) -> anyhow::Result<Manifest> {
    let folder = store.folder(id).with_context(|| format!("build `{name}` is not there"))?;
    let manifest = Manifest::read(&folder.join("manifest.json"))?;
    let files = manifest::list(&folder.join("tree"))?;
    if manifest::tree_digest(&files) != manifest.tree {
        let changed: Vec<&str> = files
            .iter()
            .filter(|file| !manifest.files.contains(file))
            .chain(manifest.files.iter().filter(|file| !files.contains(file)))
            .map(|file| file.path.as_str())
            .take(5)
            .collect();
        bail!(
            "`{name}` was changed after it was built ({}); remove {} to build it again",
            changed.join(", "),
            env.shown(folder)
        );
    }
    Ok(manifest)
}

/// Puts a finished build into its place and its manifest into `results/manifests/`.
///
/// `made` is the folder with `tree/`; it must be on the same disk as the store.
///
/// # Errors
/// When the disk refuses.
pub fn publish(env: &Env, made: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let place = place(env, &manifest.name, manifest.id);
    fs::write(made.join("manifest.json"), manifest.text()?)?;
    functions::write(&made.join("tree"), &manifest.files, &made.join(FUNCTIONS))?;
    fs::write(made.join("inputs.json"), serde_json::to_string(&manifest.inputs)?)?;
    // Last: its presence says that the rest is complete.
    fs::write(made.join("id"), manifest.id.to_string())?;
    // On the disk before it has its name: a power cut must not leave a build of empty files.
    nix::unistd::syncfs(fs::File::open(made)?.into_parts().0)
        .context("cannot write the build out")?;
    fs::create_dir_all(env.builds())?;
    if place.exists() {
        // A leftover without an `id`, or a build that was changed by hand and is made again.
        fs::remove_dir_all(&place)?;
    }
    fs::rename(made, &place).context("cannot put the build into its place")?;
    publish_manifest(env, &place, &manifest.name, manifest.id)
}

/// Puts a build's manifest into `results/manifests/`, if it is not there (a crash came between, or
/// the results are those of another folder).
///
/// # Errors
/// When the disk refuses.
pub fn publish_manifest(env: &Env, folder: &Path, name: &str, id: Digest) -> anyhow::Result<()> {
    // The manifest last: who finds it finds the list of functions as well.
    for (kept, end) in [(FUNCTIONS, FUNCTIONS), ("manifest.json", "json")] {
        let file = format!("{name}-{}.{end}", id.short());
        let path = env.manifests().join(&file);
        let content = match fs::read(folder.join(kept)) {
            // A build that another version of the tool made has none.
            Err(error) if kept == FUNCTIONS && error.kind() == ErrorKind::NotFound => continue,
            other => other?,
        };
        if std::fs::read(&path).is_ok_and(|old| old == content) {
            continue;
        }
        fs::create_dir_all(env.manifests())?;
        let temporary = env.manifests().join(format!(".{file}.{}", std::process::id()));
        fs::write(&temporary, content)?;
        fs::rename(temporary, path)?;
    }
    Ok(())
}
