//! Holds what the binaries and the compile log tell against what was asked. Pure.
//!
//! For every compile unit the *effective* flags are compared: of several flags of one kind the last
//! one counts (`-O2 … -O3` is `-O3`, `-fwrapv … -fno-wrapv` is off). What was asked must be
//! effective in each unit; what was not asked must stand on the recipe's list of what the project
//! itself adds, with the reason. [`units`] does that; [`link`] judges whole binaries.

mod link;
#[cfg(test)]
mod tests;
mod units;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::audit::elf::Facts;
use crate::audit::log::Log;
use crate::matrix::model::Family;

/// What was asked of the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The family of the compiler.
    pub family: Family,
    /// Its version.
    pub version: String,
    /// The flags for C, in order.
    pub cflags: Vec<String>,
    /// The flags for C++, in order.
    pub cxxflags: Vec<String>,
    /// The flags for the linker.
    pub ldflags: Vec<String>,
    /// Whether an option of the project asks for link-time optimisation (`WITH_LTO=ON`); it then
    /// gives the flags itself.
    pub lto_by_option: bool,
}

/// A flag that the project adds by itself, and why that is no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The end of the unit's file name; empty: every unit.
    pub file: &'static str,
    /// The flag as recorded; a `*` at the end stands for any value.
    pub flag: &'static str,
    /// The reason, for people.
    pub why: &'static str,
}

impl Allowed {
    /// Whether the rule explains a flag of a unit.
    pub fn covers(&self, unit: &str, flag: &str) -> bool {
        let flag_fits = match self.flag.strip_suffix('*') {
            Some(start) => flag.starts_with(start),
            None => flag == self.flag,
        };
        flag_fits && (self.file.is_empty() || unit.ends_with(self.file))
    }
}

/// The verdict on one build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every unit has what was asked and nothing else.
    AsAsked,
    /// What is more was expected, each with its reason.
    Explained,
    /// The binaries do not record enough to tell.
    Unknown,
    /// Something was asked and is not there, or is there and was not asked.
    Mismatch,
}

/// What a finding rests on.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// What the compiler wrote about itself into the debug information.
    #[default]
    Producer,
    /// The compiler's calls, as they were noted during the build.
    Log,
    /// The code itself, symbols and sections of binaries and objects.
    Code,
    /// What configure or CMake said or wrote.
    Configured,
    /// What a program or a package says of itself; nothing proves it.
    Claim,
}

impl Evidence {
    /// The words for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Producer => "debug information",
            Self::Log => "compile log",
            Self::Code => "code",
            Self::Configured => "configure",
            Self::Claim => "claim",
        }
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    /// How bad it is.
    pub verdict: Verdict,
    /// What was found, in one sentence.
    pub text: String,
    /// What it rests on.
    #[serde(default)]
    pub evidence: Evidence,
    /// The binary, below the prefix; empty for what concerns the build as a whole.
    pub binary: String,
    /// The source files concerned (at most [`SHOWN`]).
    pub units: Vec<String>,
    /// How many there are in all.
    pub unit_count: usize,
    /// Bytes of code of all of them.
    pub text_bytes: u64,
}

impl Finding {
    /// What it concerns, for people.
    pub fn place(&self) -> &str {
        if self.binary.is_empty() { "the build" } else { &self.binary }
    }

    /// A finding about the build as a whole, without code of its own.
    pub fn of_build(verdict: Verdict, evidence: Evidence, text: String) -> Self {
        Self {
            verdict,
            text,
            evidence,
            binary: String::new(),
            units: Vec::new(),
            unit_count: 0,
            text_bytes: 0,
        }
    }
}

/// How many source files a finding names.
pub const SHOWN: usize = 8;

/// All findings, and the worst of their verdicts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    /// The worst verdict.
    pub verdict: Verdict,
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
    /// Compile units that were read.
    pub units: usize,
    /// Bytes of code of all binaries.
    pub text_bytes: u64,
}

impl Report {
    /// A report on binaries.
    pub fn new(findings: Vec<Finding>, binaries: &[(String, Facts)]) -> Self {
        let empty = Self {
            verdict: Verdict::AsAsked,
            findings: Vec::new(),
            units: binaries.iter().map(|(_, facts)| facts.units.len()).sum(),
            text_bytes: binaries.iter().map(|(_, facts)| facts.text_bytes).sum(),
        };
        empty.with(findings)
    }

    /// The same with more findings: sorted again, and the worst of their verdicts.
    #[must_use]
    pub fn with(mut self, more: Vec<Finding>) -> Self {
        self.findings.extend(more);
        let key = |finding: &Finding| std::cmp::Reverse((finding.verdict, finding.text_bytes));
        self.findings.sort_by_key(key);
        self.verdict = self.findings.first().map_or(Verdict::AsAsked, |worst| worst.verdict);
        self
    }
}

/// What is held against each other.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// What was asked.
    pub asked: &'a Asked,
    /// The binaries, by path below the prefix.
    pub binaries: &'a [(String, Facts)],
    /// What is expected besides.
    pub allowed: &'a [Allowed],
    /// The compile log; `None` when it was not kept.
    pub log: Option<&'a Log>,
    /// The compiler's path when it is a script: what it hands on to the real compiler then stands
    /// in no log.
    pub script: Option<&'a str>,
}

/// Compares.
pub fn judge(case: &Case<'_>) -> Report {
    let mut findings = Vec::new();
    let mut used = vec![false; case.log.map_or(0, |log| log.calls.len())];
    for (name, facts) in case.binaries {
        let calls = units::of_binary(case, name, facts, &mut findings);
        link::of_binary(case, name, facts, &calls, &mut findings);
        calls.into_iter().for_each(|call| used[call] = true);
    }
    units::of_log(case, &used, &mut findings);
    link::of_objects(case, &mut findings);
    link::of_links(case, &mut findings);
    Report::new(findings, case.binaries)
}

/// Gathers equal remarks over units, so that one fault in 800 files is one finding.
struct Remarks<'a> {
    binary: &'a str,
    by_text: BTreeMap<(Verdict, Evidence, String), Concerned>,
}

/// The units that one remark concerns.
#[derive(Default)]
struct Concerned {
    shown: Vec<String>,
    count: usize,
    text_bytes: u64,
}

impl<'a> Remarks<'a> {
    fn new(binary: &'a str) -> Self {
        Self { binary, by_text: BTreeMap::new() }
    }

    fn add(&mut self, verdict: Verdict, evidence: Evidence, text: String, unit: &str, bytes: u64) {
        let concerned = self.by_text.entry((verdict, evidence, text)).or_default();
        if concerned.shown.len() < SHOWN && !unit.is_empty() {
            concerned.shown.push(unit.to_owned());
        }
        concerned.count += 1;
        concerned.text_bytes += bytes;
    }

    fn into_findings(self) -> impl Iterator<Item = Finding> {
        let binary = self.binary.to_owned();
        self.by_text.into_iter().map(move |((verdict, evidence, text), concerned)| Finding {
            verdict,
            text,
            evidence,
            binary: binary.clone(),
            units: concerned.shown,
            unit_count: concerned.count,
            text_bytes: concerned.text_bytes,
        })
    }
}
