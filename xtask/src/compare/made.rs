//! What a target is made of, as its records say.

use serde::{Deserialize, Serialize};

use crate::hash::Digest;
use crate::record::{Mark, Record};

/// What a target is made of, by its records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Made {
    /// The target.
    pub target: String,
    /// Name of its build.
    pub build: String,
    /// Id of its build.
    pub build_id: Digest,
    /// Equal for equal servers ([`Record::code_id`]).
    pub code_id: Option<Digest>,
    /// Whether the build was made elsewhere, so that nothing is known of how.
    pub installed: bool,
    /// Axis and setting, run-only axes among them.
    pub settings: Vec<(String, String)>,
    /// Name of the config.
    pub config: String,
    /// What the audit had against the build when any of the runs was made.
    pub audit: Option<Mark>,
    /// The target whose runs are shown, when its own were not made: the same server to the byte.
    #[serde(default)]
    pub same_as: Option<String>,
}

impl Made {
    pub(super) fn of(record: &Record) -> Self {
        Self {
            target: record.target.clone(),
            build: record.build.clone(),
            build_id: record.build_id,
            code_id: record.code_id,
            installed: record.compiler.is_none(),
            settings: record.settings.clone(),
            config: record.config.clone(),
            audit: None,
            same_as: None,
        }
    }
}
