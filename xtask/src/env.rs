//! Where things are and how much may be used: one value, made once by `main`, passed to every verb.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::exit::{Code, WithCode as _};
use crate::progress::Reporter;

/// The directories, limits and the reporter of this call of the tool.
#[derive(Clone, Debug)]
pub struct Env {
    /// The root of the workspace: the folder of `patches/` and `toolchains/`.
    pub root: PathBuf,
    /// The matrix file.
    pub matrix: PathBuf,
    /// Manifests and records, to be committed by users.
    pub results: PathBuf,
    /// Downloads, trees, builds, data directories: can be deleted at any time.
    pub work: PathBuf,
    /// A local mirror of source archives that is asked first.
    pub sources: Option<PathBuf>,
    /// How many jobs may run at once, over all builds.
    pub jobs: usize,
    /// Whether the cells that can be done are done although another failed.
    pub keep_going: bool,
    /// What the user sees.
    pub reporter: Reporter,
}

impl Env {
    /// `work/downloads`: archives by their sha256.
    pub fn downloads(&self) -> PathBuf {
        self.work.join("downloads")
    }

    /// `work/trees`: unpacked and patched source trees by the digest of source and patches.
    pub fn trees(&self) -> PathBuf {
        self.work.join("trees")
    }

    /// `work/builds`: finished builds, `<name>-<first 12 digits of the id>`.
    pub fn builds(&self) -> PathBuf {
        self.work.join("builds")
    }

    /// `work/staging`: what is in the making; anything here may be deleted.
    pub fn staging(&self) -> PathBuf {
        self.work.join("staging")
    }

    /// `work/snapshots`: loaded data directories.
    pub fn snapshots(&self) -> PathBuf {
        self.work.join("snapshots")
    }

    /// `work/logs`: one folder per build or run.
    pub fn logs(&self) -> PathBuf {
        self.work.join("logs")
    }

    /// `work/cache`: what was found out about compilers, keyed by their files.
    pub fn cache(&self) -> PathBuf {
        self.work.join("cache")
    }

    /// `results/manifests`: one file per build.
    pub fn manifests(&self) -> PathBuf {
        self.results.join("manifests")
    }

    /// `patches/`.
    pub fn patches(&self) -> PathBuf {
        self.root.join("patches")
    }

    /// `toolchains/`.
    pub fn toolchains(&self) -> PathBuf {
        self.root.join("toolchains")
    }

    /// Makes sure that results and work can be written, before hours are spent on them.
    ///
    /// # Errors
    /// With [`Code::Environment`] and the folder.
    pub fn check_writable(&self) -> anyhow::Result<()> {
        for (folder, option) in [(&self.work, "--work"), (&self.results, "--results")] {
            fs_err::create_dir_all(folder)
                .and_then(|()| tempfile::tempfile_in(folder))
                .with_context(|| {
                    let shown = self.shown(folder);
                    format!("cannot write into {shown}; `{option} DIR` names another folder")
                })
                .code(Code::Environment)?;
        }
        Ok(())
    }

    /// A path for people: relative to the current directory where that is shorter.
    pub fn shown(&self, path: &Path) -> String {
        std::env::current_dir()
            .ok()
            .and_then(|cwd| path.strip_prefix(cwd).ok())
            .unwrap_or(path)
            .display()
            .to_string()
    }
}
