//! Holds what the binaries tell against what was asked. Pure.
//!
//! For every compile unit the *effective* flags are compared: of several flags of one kind the last
//! one counts (`-O2 … -O3` is `-O3`, `-fwrapv … -fno-wrapv` is off). What was asked must be
//! effective in each unit; what was not asked must stand on the recipe's list of what the project
//! itself adds, with the reason.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::audit::elf::Facts;
use crate::audit::producer::{Compiler, Producer};
use crate::matrix::model::Family;

/// Below this share of functions with a frame pointer, they are certainly omitted.
const OMITTED_BELOW: f64 = 0.02;
/// Above this share they are certainly kept; gcc's leaf functions never set one up.
const KEPT_ABOVE: f64 = 0.30;

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

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    /// How bad it is.
    pub verdict: Verdict,
    /// What was found, in one sentence.
    pub text: String,
    /// The binary, below the prefix.
    pub binary: String,
    /// The source files concerned (at most [`SHOWN`]).
    pub units: Vec<String>,
    /// How many there are in all.
    pub unit_count: usize,
    /// Bytes of code of all of them.
    pub text_bytes: u64,
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

/// Compares.
pub fn judge(asked: &Asked, binaries: &[(String, Facts)], allowed: &[Allowed]) -> Report {
    let mut findings = Vec::new();
    for (name, facts) in binaries {
        units(asked, name, facts, allowed, &mut findings);
        link(asked, name, facts, &mut findings);
        frame_pointers(asked, name, facts, &mut findings);
    }
    findings.sort_by(|a, b| b.verdict.cmp(&a.verdict).then(b.text_bytes.cmp(&a.text_bytes)));
    Report {
        verdict: findings.first().map_or(Verdict::AsAsked, |worst| worst.verdict),
        findings,
        units: binaries.iter().map(|(_, facts)| facts.units.len()).sum(),
        text_bytes: binaries.iter().map(|(_, facts)| facts.text_bytes).sum(),
    }
}

/// Gathers equal remarks over units, so that one fault in 800 files is one finding.
struct Remarks<'a> {
    binary: &'a str,
    by_text: BTreeMap<(Verdict, String), (Vec<String>, usize, u64)>,
}

impl Remarks<'_> {
    fn add(&mut self, verdict: Verdict, text: String, unit: &str, bytes: u64) {
        let (units, count, sum) = self.by_text.entry((verdict, text)).or_default();
        if units.len() < SHOWN {
            units.push(unit.to_owned());
        }
        *count += 1;
        *sum += bytes;
    }

    fn into_findings(self) -> impl Iterator<Item = Finding> {
        let binary = self.binary.to_owned();
        self.by_text.into_iter().map(move |((verdict, text), (units, unit_count, text_bytes))| {
            Finding { verdict, text, binary: binary.clone(), units, unit_count, text_bytes }
        })
    }
}

fn units(
    asked: &Asked,
    binary: &str,
    facts: &Facts,
    allowed: &[Allowed],
    findings: &mut Vec<Finding>,
) {
    let mut remarks = Remarks { binary, by_text: BTreeMap::new() };
    if facts.units.is_empty() {
        remarks.add(
            Verdict::Unknown,
            "no debug information: the flags of its units are not recorded".to_owned(),
            "",
            facts.text_bytes,
        );
    }
    let own = match asked.family {
        Family::Gcc => Compiler::Gcc,
        Family::Clang => Compiler::Clang,
    };
    let (c, cxx) = (effective(&asked.cflags), effective(&asked.cxxflags));
    for unit in &facts.units {
        let producer = Producer::parse(&unit.producer);
        let mut add = |verdict, text| remarks.add(verdict, text, &unit.name, unit.text_bytes);
        match producer.compiler {
            // The link step's flags are not the unit's; what it made has units of its own.
            Compiler::Assembler | Compiler::GccLink => continue,
            found if found != own => {
                let text = format!("made by another compiler: {}", first_words(&unit.producer));
                add(Verdict::Mismatch, text);
                continue;
            }
            _ => {}
        }
        if producer.version != asked.version {
            let (found, wanted) = (&producer.version, &asked.version);
            add(Verdict::Mismatch, format!("made by version {found}, asked for {wanted}"));
        }
        let Some(flags) = &producer.flags else {
            add(Verdict::Unknown, "the compiler did not record its flags".to_owned());
            continue;
        };
        let wanted = if is_cxx(&unit.name) { &cxx } else { &c };
        let found = effective(flags);
        for (kind, flag) in wanted.iter().filter(|(_, flag)| is_recorded(asked.family, flag)) {
            match found.get(kind) {
                Some(other) if same(flag, other) => {}
                Some(other) => add(Verdict::Mismatch, format!("asked for {flag}, got {other}")),
                None => add(Verdict::Mismatch, format!("asked for {flag}, which is missing")),
            }
        }
        for (kind, flag) in &found {
            if wanted.contains_key(kind) || !changes_code(flag) {
                continue;
            }
            match allowed.iter().find(|rule| rule.covers(&unit.name, flag)) {
                Some(rule) if rule.why.is_empty() => {}
                Some(rule) => add(Verdict::Explained, format!("{flag}: {}", rule.why)),
                None => add(Verdict::Mismatch, format!("{flag} was not asked for")),
            }
        }
    }
    findings.extend(remarks.into_findings());
}

impl Allowed {
    fn covers(&self, unit: &str, flag: &str) -> bool {
        let flag_fits = match self.flag.strip_suffix('*') {
            Some(start) => flag.starts_with(start),
            None => flag == self.flag,
        };
        flag_fits && (self.file.is_empty() || unit.ends_with(self.file))
    }
}

fn whole(binary: &str, verdict: Verdict, text: String, facts: &Facts) -> Finding {
    Finding {
        verdict,
        text,
        binary: binary.to_owned(),
        units: Vec::new(),
        unit_count: facts.units.len(),
        text_bytes: facts.text_bytes,
    }
}

/// Whether LTO happened, and which linker it was.
fn link(asked: &Asked, binary: &str, facts: &Facts, findings: &mut Vec<Finding>) {
    let wants_lto = asked.cflags.iter().rev().find_map(|flag| match flag.as_str() {
        "-fno-lto" => Some(None),
        "-flto" => Some(Some("full")),
        _ => flag.strip_prefix("-flto=").map(Some),
    });
    let link_units = facts
        .units
        .iter()
        .any(|unit| Producer::parse(&unit.producer).compiler == Compiler::GccLink);
    let traces = facts.lto_private + facts.thin_promoted;
    let proven = link_units || traces > 0 || facts.full_lto;
    match (wants_lto.flatten(), proven) {
        (Some(kind), false) => {
            let text = format!("-flto={kind} was asked for, but nothing shows that it happened");
            findings.push(whole(binary, Verdict::Mismatch, text, facts));
        }
        (None, true) => {
            let text = "link-time optimisation happened and was not asked for".to_owned();
            findings.push(whole(binary, Verdict::Mismatch, text, facts));
        }
        _ => {}
    }
    let lld = facts.comments.iter().any(|line| line.starts_with("Linker: LLD"));
    let wants_lld = asked.ldflags.iter().any(|flag| flag.starts_with("-fuse-ld=lld"));
    if lld != wants_lld {
        let text = if lld { "linked by lld, not asked for" } else { "not linked by lld as asked" };
        findings.push(whole(binary, Verdict::Mismatch, text.to_owned(), facts));
    }
}

/// Frame pointers are proven in the code; a flag alone proves nothing.
fn frame_pointers(asked: &Asked, binary: &str, facts: &Facts, findings: &mut Vec<Finding>) {
    // Too few functions to judge by shares.
    if facts.frames.functions < 100 {
        return;
    }
    let wanted = asked.cflags.iter().rev().find_map(|flag| match flag.as_str() {
        "-fno-omit-frame-pointer" => Some(true),
        "-fomit-frame-pointer" => Some(false),
        _ => None,
    });
    let share = facts.frames.share();
    let percent = share * 100.0;
    let text = match wanted {
        Some(true) if share < KEPT_ABOVE => {
            format!("frame pointers asked for, but only {percent:.1}% of the functions have one")
        }
        Some(false) if share > OMITTED_BELOW => {
            format!("no frame pointers asked for, but {percent:.1}% of the functions have one")
        }
        _ => return,
    };
    findings.push(whole(binary, Verdict::Mismatch, text, facts));
}

fn is_cxx(unit: &str) -> bool {
    [".cc", ".cpp", ".cxx", ".C"].iter().any(|end| unit.ends_with(end))
}

fn first_words(producer: &str) -> String {
    producer.split_whitespace().take(4).collect::<Vec<_>>().join(" ")
}

/// Of each kind of flag the last one.
fn effective(flags: &[String]) -> BTreeMap<String, &str> {
    flags.iter().filter_map(|flag| Some((kind(flag)?, flag.as_str()))).collect()
}

/// What a flag decides: two flags of one kind exclude each other. `None` for flags that say
/// nothing about code (`-I`, `-D`, `-W…`, `-o`).
fn kind(flag: &str) -> Option<String> {
    if let Some(rest) = flag.strip_prefix("--param") {
        let name = rest.trim_start_matches(['=', ' ']).split('=').next().unwrap_or_default();
        return Some(format!("--param {name}"));
    }
    if flag.starts_with("-O") {
        return Some("-O".to_owned());
    }
    let (letter, rest) = match (flag.strip_prefix("-f"), flag.strip_prefix("-m")) {
        (Some(rest), _) => ("-f", rest),
        (_, Some(rest)) => ("-m", rest),
        _ => return None,
    };
    let rest = rest.strip_prefix("no-").unwrap_or(rest);
    Some(format!("{letter}{}", rest.split('=').next().unwrap_or(rest)))
}

/// Whether the compiler writes such a flag into a unit.
fn is_recorded(family: Family, flag: &str) -> bool {
    match family {
        // What the linker or the driver alone acts on.
        Family::Gcc => {
            !["-fuse-ld", "-ffile-prefix-map", "-fdebug-prefix-map", "-fmacro-prefix-map"]
                .iter()
                .any(|start| flag.starts_with(start))
        }
        Family::Clang => true,
    }
}

/// Whether a flag that nobody asked for matters.
fn changes_code(flag: &str) -> bool {
    // Bookkeeping of the compilers: messages, debug paths, what the recording itself adds.
    const HARMLESS: [&str; 9] = [
        "-fdiagnostics",
        "-ffile-prefix-map",
        "-fdebug-prefix-map",
        "-fmacro-prefix-map",
        "-fcolor-diagnostics",
        "-frandom-seed",
        "-fltrans",
        "-fresolution",
        "-fcf-protection=none",
    ];
    !HARMLESS.iter().any(|start| flag.starts_with(start))
}

/// Equal, or two spellings of one thing.
fn same(asked: &str, found: &str) -> bool {
    // gcc records `-flto=auto` with or without its value, depending on the version.
    asked == found || (asked.starts_with("-flto") && found.starts_with("-flto"))
}

#[cfg(test)]
mod tests;
