//! One build as it will be made: everything that determines its bytes, resolved. Pure.

use serde::{Deserialize, Serialize};

use crate::facts::{SourceFacts, Toolchain};
use crate::hash::Digest;
use crate::matrix::model::{Options, Source};

/// What is to be built. `id` is the hash of everything in here that determines the bytes.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The readable name: `pg1518_o2_lto`.
    pub name: String,
    /// The build id.
    pub id: Digest,
    /// The source.
    pub source: Source,
    /// What determines the source tree.
    pub source_facts: SourceFacts,
    /// The compiler; `None` for an installed server.
    pub toolchain: Option<Toolchain>,
    /// Axis and setting, in the order of the axes.
    pub settings: Vec<(String, String)>,
    /// The source's options, then those of each setting in the order of the axes, resolved.
    pub options: Options,
}

/// The inputs of a build in a form that is stored beside it, so that the next plan can tell what
/// changed since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Inputs {
    /// The revision of the recipe: part of the build id, raised when a recipe changes the bytes.
    pub recipe: String,
    /// Name of the source.
    pub source: String,
    /// What determines the source tree.
    pub source_facts: SourceFacts,
    /// Name, version and digest of the toolchain.
    pub toolchain: Option<(String, String, Digest)>,
    /// The options, resolved.
    pub options: Options,
}
