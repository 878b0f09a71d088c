//! What expanding must know of the world: compilers, files, this machine. Expanding itself is pure;
//! it asks this trait, which the tool answers from the disk and tests answer from a table.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::build::cmake::vocabulary::Vocabulary;
use crate::hash::Digest;
use crate::matrix::model::{Family, Options, Source};
use crate::toolchain::place::Place;
use crate::toolchain::seal::lock::Lock;
use crate::toolchain::system::Need;

/// A compiler and its tools, found and proven on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Toolchain {
    /// The setting of the axis `toolchain`: `gcc`, `clang-14`.
    pub name: String,
    /// The family, as the compiler itself says.
    pub family: Family,
    /// The version, as the compiler itself says: `12.2.0`.
    pub version: String,
    /// The target triple: `x86_64-linux-gnu`.
    pub target: String,
    /// Role (`cc`, `cxx`, `ar`, `ranlib`, `nm`, `ld`, …) to absolute path.
    pub tools: Vec<(String, PathBuf)>,
    /// Every file that determines the bytes that come out, with its hash: driver, cc1, as, ld,
    /// libc…
    pub files: Vec<(PathBuf, Digest)>,
    /// The hash over all that determines the bytes; part of every build id.
    pub digest: Digest,
    /// What else was found out about it; for people, manifests and `doctor`.
    #[serde(default)]
    pub details: ToolchainDetails,
    /// What it was made from, if it is a sealed one; its paths count from its own root then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
}

/// A toolchain that was made from a lock file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Sealed {
    /// The whole lock: enough to make it again anywhere.
    pub lock: Lock,
    /// The root folder on this machine; empty when this was read from a file, and then nothing can
    /// be run with it.
    #[serde(skip)]
    pub root: PathBuf,
}

/// What is known of a toolchain besides what identifies it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ToolchainDetails {
    /// Name and version of the system packages that its files belong to, where that can be asked.
    pub packages: Vec<(String, String)>,
    /// How many headers of the C library were looked at, and the hash over them.
    pub headers: Option<(usize, Digest)>,
    /// Why link-time optimisation does not work; `None` when a program was built and run with it.
    pub lto_refusal: Option<String>,
    /// What is out of the ordinary: a driver that is a script, a missing C++ compiler.
    pub notes: Vec<String>,
}

impl Toolchain {
    /// The absolute path of one tool.
    pub fn tool(&self, role: &str) -> Option<&std::path::Path> {
        self.tools.iter().find(|(name, _)| name == role).map(|(_, path)| path.as_path())
    }

    /// Where its files are, and how its programs are run.
    pub fn place(&self) -> Place {
        self.sealed.as_ref().map_or_else(Place::here, |sealed| Place::sealed(&sealed.root))
    }
}

/// Why something cannot be had on this machine, and how to get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// `clang not found`.
    pub reason: String,
    /// `apt-get install clang`, if known.
    pub hint: Option<String>,
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.reason)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; install with `{hint}`"))
    }
}

/// What determines the content of a source tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SourceFacts {
    /// The release; asked from the server itself for an installed one.
    pub version: String,
    /// The hash over archive or revision and all patches; for an installed server over its
    /// binaries.
    pub digest: Digest,
    /// The patches in the order in which they are applied: path below `patches/`, hash.
    pub patches: Vec<(String, Digest)>,
}

/// Why options are not given as they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The compiler refuses one: a mistake in the matrix. Its own words.
    Refused(String),
    /// This machine lacks what they need; its cells are unavailable.
    Unavailable(Unavailable),
}

impl From<String> for Unusable {
    fn from(words: String) -> Self {
        Self::Refused(words)
    }
}

/// The world, as far as expanding needs it.
pub trait Facts {
    /// The machine's architecture as Rust names it: `x86_64`, `aarch64`.
    fn arch(&self) -> &str;

    /// A toolchain by the name of its setting.
    ///
    /// # Errors
    /// When this machine does not have it.
    fn toolchain(&self, name: &str) -> Result<Toolchain, Unavailable>;

    /// The options as they will really be given: `native` replaced by what it stands for here.
    ///
    /// # Errors
    /// The compiler's own words when it refuses a flag; what this machine lacks for them.
    fn resolve(&self, toolchain: &Toolchain, options: &Options) -> Result<Options, Unusable>;

    /// The hashes of what a build takes from the system besides its compiler, by name; what is not
    /// there is left out. A world without a system knows nothing of it.
    fn system(&self, _toolchain: &Toolchain, _needs: &[Need]) -> Vec<(String, Digest)> {
        Vec::new()
    }

    /// What determines a source tree.
    ///
    /// # Errors
    /// When a patch cannot be read or an installed server is not there.
    fn source(&self, source: &Source) -> Result<SourceFacts, Unavailable>;

    /// The words of the CMake files of a source's tree, if that is there already. A world without
    /// trees knows nothing of them.
    fn vocabulary(&self, _source: &Source, _facts: &SourceFacts) -> Option<Arc<Vocabulary>> {
        None
    }
}
