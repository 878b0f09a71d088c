//! The manifest: how a build was made and what came out, enough to make it again. One JSON file per
//! build, beside the build and in `results/manifests/`; [`super::statement`] gives its form.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::audit::judge::Report;
use crate::build::spec::{Inputs, Spec};
use crate::build::statement;
use crate::facts::Toolchain;
use crate::hash::Digest;
use crate::host::os;
use crate::matrix::model::{Engine, Source, SourceKind};
use crate::toolchain::cpu::Cpu;

/// The version of the schema; readers refuse any other.
pub const SCHEMA: u32 = 2;

/// How a build was made and what came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Version of this tool.
    pub tool: String,
    /// The revision of the repository that the tool ran in, `-dirty` behind it when files were
    /// changed; none outside of a repository.
    pub tool_revision: Option<String>,
    /// The readable name of the build.
    pub name: String,
    /// The build id.
    pub id: Digest,
    /// Axis and setting.
    pub settings: Vec<(String, String)>,
    /// Where the source comes from.
    pub source: SourceDone,
    /// Everything that determines the bytes.
    pub inputs: Inputs,
    /// The compiler and the files that it consists of.
    pub toolchain: Toolchain,
    /// Whether the build ran under its canonical paths; else compilers mapped the real ones.
    pub canonical_paths: bool,
    /// The variables of every step.
    pub environment: Vec<(String, String)>,
    /// The commands, in order.
    pub steps: Vec<StepDone>,
    /// The host that built, for people: the bytes do not depend on it.
    pub host: HostDone,
    /// When the build began, RFC 3339, UTC.
    pub started: String,
    /// When it was finished.
    pub finished: String,
    /// What the built server says of itself.
    pub receipt: String,
    /// The hash over all installed files: path, mode, content or link.
    pub tree: Digest,
    /// The installed files, by path.
    pub files: Vec<FileDone>,
    /// The sections of the installed programs and libraries, by path.
    pub binaries: Vec<BinaryDone>,
    /// What configuring came to, by key: `pg_config.h:HAVE_X`, `needed:bin/postgres`…
    pub configuration: Vec<(String, String)>,
    /// Which flags the binaries really got.
    pub audit: Option<Report>,
}

/// A source, in a form that needs no matrix file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SourceDone {
    /// The name in the matrix file.
    pub name: String,
    /// The DBMS family.
    pub engine: Engine,
    /// The release.
    pub version: String,
    /// Where it comes from, with its hash or revision.
    pub kind: SourceKind,
    /// The patches in order, whole.
    #[serde(skip)]
    pub patches: Vec<PatchDone>,
}

/// One patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchDone {
    /// Path below `patches/`.
    pub path: String,
    /// The hash of the text.
    pub sha256: Digest,
    /// The patch itself.
    pub content: Vec<u8>,
}

/// The host that built.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostDone {
    /// The architecture as Rust names it.
    pub arch: String,
    /// The distribution: `Debian GNU/Linux 12 (bookworm)`.
    pub os: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor: what `native` was resolved for.
    pub cpu: String,
}

impl HostDone {
    /// This machine.
    pub fn this() -> Self {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            arch: std::env::consts::ARCH.to_owned(),
            os: os::field(&os::release(), "PRETTY_NAME").unwrap_or_default(),
            kernel: kernel.trim().to_owned(),
            cpu: Cpu::this().model,
        }
    }
}

/// The sections of one program or library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct BinaryDone {
    /// Below the prefix, with `/`.
    pub path: String,
    /// Its sections, in the file's order.
    pub sections: Vec<SectionDone>,
}

/// One section of a program or library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SectionDone {
    /// `.text`.
    pub name: String,
    /// Whether a program that runs has it in memory.
    pub loaded: bool,
    /// Bytes.
    pub size: u64,
    /// The first 32 hex digits of the content's sha256; empty for a section without content.
    pub sha256: String,
}

/// One command as it was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StepDone {
    /// `configure`, `backend`…
    pub name: String,
    /// Program and arguments.
    pub words: Vec<String>,
    /// The working directory, as the build saw it.
    pub cwd: PathBuf,
    /// Wall time in seconds, waiting for job tokens not included.
    pub seconds: f64,
    /// CPU time of all its processes, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// The most memory of one of its processes, in MiB; none for a step of less than half a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_mib: Option<u64>,
}

/// One installed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FileDone {
    /// Below the prefix, with `/`.
    pub path: String,
    /// Permission bits in octal; `link` for a symbolic link.
    pub mode: String,
    /// Length in bytes (of the target's name for a link).
    pub size: u64,
    /// Hash of the content (of the target's name for a link).
    pub sha256: Digest,
}

/// Lists a tree: every file with mode, size and hash, sorted by path.
///
/// # Errors
/// When something cannot be read, or a name is not UTF-8.
pub fn list(tree: &Path) -> anyhow::Result<Vec<FileDone>> {
    let mut files = Vec::new();
    let mut folders = vec![tree.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let kind = fs::symlink_metadata(&path)?;
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(tree)?.to_str();
            let name = name.with_context(|| format!("{} is not UTF-8", path.display()))?.to_owned();
            files.push(if kind.is_symlink() {
                let target = fs::read_link(&path)?;
                let target = target.as_os_str().as_encoded_bytes();
                let (size, sha256) = (target.len() as u64, Digest::of(target));
                FileDone { path: name, mode: "link".into(), size, sha256 }
            } else {
                let mode = format!("{:04o}", kind.permissions().mode() & 0o7777);
                let sha256 = Digest::of_file(&path)?;
                FileDone { path: name, mode, size: kind.len(), sha256 }
            });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// The hash over a listed tree: one line per file, `MODE SHA256 PATH`.
pub fn tree_digest(files: &[FileDone]) -> Digest {
    let mut text = String::new();
    for file in files {
        text.push_str(&format!("{} {} {}\n", file.mode, file.sha256, file.path));
    }
    Digest::of(text.as_bytes())
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// When the file cannot be read or is not a manifest of the known schema.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path)?;
        Self::parse(&text).with_context(|| format!("cannot use {}", path.display()))
    }

    /// Reads the text of a manifest.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        statement::parse(text)
    }

    /// The manifest as it is written: readable, one thing per line, ending in a newline.
    ///
    /// # Errors
    /// When it cannot be serialised (a path that is not UTF-8).
    pub fn text(&self) -> anyhow::Result<String> {
        statement::text(self)
    }

    /// What is to be built to make this build again, with this toolchain.
    pub fn spec(&self, toolchain: Toolchain) -> Spec {
        let source = &self.source;
        Spec {
            name: self.name.clone(),
            id: self.id,
            source: Source {
                name: source.name.clone(),
                engine: source.engine,
                version: source.version.parse().ok(),
                kind: source.kind.clone(),
                patches: source.patches.iter().map(|patch| patch.path.clone()).collect(),
                options: Default::default(),
                span: 0..0,
            },
            source_facts: self.inputs.source_facts.clone(),
            toolchain: Some(toolchain),
            settings: self.settings.clone(),
            options: self.inputs.options.clone(),
            system: self.inputs.system.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_hash_sees_content_mode_name_and_link() {
        let dir = tempfile::tempdir().expect("a directory");
        let tree = dir.path();
        std::fs::create_dir(tree.join("bin")).expect("made");
        std::fs::write(tree.join("bin/a"), "one").expect("written");
        std::os::unix::fs::symlink("a", tree.join("bin/b")).expect("linked");
        let digest = || tree_digest(&list(tree).expect("listed"));
        let first = digest();
        assert_eq!(first, digest());
        let mut seen = vec![first];
        let mut changed = |what: &str| {
            assert!(!seen.contains(&digest()), "{what}");
            seen.push(digest());
        };
        std::fs::write(tree.join("bin/a"), "two").expect("written");
        changed("content");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(tree.join("bin/a"), mode).expect("mode");
        changed("mode");
        std::fs::rename(tree.join("bin/a"), tree.join("bin/c")).expect("renamed");
        changed("name");
        std::fs::remove_file(tree.join("bin/b")).expect("removed");
        std::os::unix::fs::symlink("c", tree.join("bin/b")).expect("linked");
        changed("link");
    }
}
