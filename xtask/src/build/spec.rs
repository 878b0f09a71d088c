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
    /// What the build takes from the system besides its compiler: generators, libraries; with hash.
    pub system: Vec<(String, Digest)>,
}

impl Spec {
    /// The inputs in the form that is stored beside the build.
    pub fn inputs(&self) -> Inputs {
        Inputs {
            recipe: crate::build::recipe::revision(self.source.engine).to_owned(),
            source: self.source.name.clone(),
            source_facts: self.source_facts.clone(),
            toolchain: self
                .toolchain
                .as_ref()
                .map(|found| (found.name.clone(), found.version.clone(), found.digest)),
            options: self.options.clone(),
            system: self.system.clone(),
        }
    }
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
    /// What the build takes from the system besides its compiler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub system: Vec<(String, Digest)>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::matrix::model::{Engine, Family, SourceKind};

    /// A Postgres spec with these flags, for the tests of recipes.
    pub(crate) fn spec(flags: &[&str]) -> Spec {
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let options = Options {
            cflags: flags.clone(),
            cxxflags: flags,
            configure: vec!["--without-zlib".to_owned()],
            ..Options::default()
        };
        Spec {
            name: "pg1518_test".to_owned(),
            id: Digest::of(b"spec"),
            source: Source {
                name: "pg1518".to_owned(),
                engine: Engine::Postgres,
                version: "15.18".parse().ok(),
                kind: SourceKind::Archive { sha256: Digest::of(b"archive"), origins: Vec::new() },
                patches: Vec::new(),
                options: Options::default(),
                span: 0..0,
            },
            source_facts: SourceFacts {
                version: "15.18".to_owned(),
                digest: Digest::of(b"archive"),
                patches: Vec::new(),
            },
            toolchain: Some(Toolchain {
                name: "gcc".to_owned(),
                family: Family::Gcc,
                version: "12.2.0".to_owned(),
                target: "x86_64-linux-gnu".to_owned(),
                tools: vec![
                    ("cc".to_owned(), "/usr/bin/gcc".into()),
                    ("ar".to_owned(), "/usr/bin/gcc-ar".into()),
                ],
                files: Vec::new(),
                digest: Digest::of(b"gcc"),
                details: Default::default(),
                sealed: None,
            }),
            settings: vec![("opt".to_owned(), "o3".to_owned())],
            options,
            system: Vec::new(),
        }
    }
}
