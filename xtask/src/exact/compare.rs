//! Compares what a manifest says came out with what came out here. Pure.
//!
//! Three verdicts: the same bytes; the same code, when only bytes differ that no program loads; or
//! different, with the files, sections and functions that do.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::build::manifest::{BinaryDone, FileDone, SectionDone};
use crate::exact::functions::Functions;

/// How alike two builds are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every file has the same bytes and mode.
    Identical,
    /// Only bytes that are not loaded differ: debug information, symbol tables, notes.
    SameCode,
    /// Something else differs.
    Different,
}

impl Verdict {
    /// The word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identical => "identical",
            Self::SameCode => "same code",
            Self::Different => "different",
        }
    }
}

/// One of the two builds.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Its files, by path.
    pub files: &'a [FileDone],
    /// Its programs and libraries.
    pub binaries: &'a [BinaryDone],
    /// Its functions, if they are known.
    pub functions: Option<&'a Functions>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Comparison {
    /// How alike they are.
    pub verdict: Verdict,
    /// How many files the first build has.
    pub file_count: usize,
    /// Files that only the first build (the manifest's) has.
    pub missing: Vec<String>,
    /// Files that only the second build (the one made here) has.
    pub added: Vec<String>,
    /// Files whose kind or permissions differ: path, mode of the first, of the second.
    pub modes: Vec<(String, String, String)>,
    /// Files whose content differs, what is loaded first.
    pub changed: Vec<FileChange>,
    /// Whether both builds' functions are known.
    pub functions_known: bool,
}

/// A file whose content differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FileChange {
    /// Below the prefix.
    pub path: String,
    /// Bytes in the first build and in the second.
    pub size: (u64, u64),
    /// What differs inside, when it is a program or library on both sides.
    pub binary: Option<BinaryChange>,
}

/// What differs inside of a program or library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct BinaryChange {
    /// Sections that are loaded.
    pub loaded: Vec<SectionChange>,
    /// Sections that are not.
    pub aside: Vec<SectionChange>,
    /// The functions, when they are known and something loaded differs.
    pub functions: Option<FunctionChanges>,
}

/// A section that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SectionChange {
    /// `.text`.
    pub name: String,
    /// Bytes in the first build; `None` when it has no such section.
    pub asked: Option<u64>,
    /// Bytes in the second build; `None` when it has no such section.
    pub found: Option<u64>,
}

/// The functions of a binary that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FunctionChanges {
    /// How many functions are the same in both.
    pub same_count: usize,
    /// In both, with other instructions.
    pub changed: Vec<String>,
    /// Only in the first build.
    pub missing: Vec<String>,
    /// Only in the second build.
    pub added: Vec<String>,
    /// Whether they were compared as raw bytes, so that what only moved counts as changed.
    pub raw: bool,
}

impl FunctionChanges {
    fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.missing.is_empty() && self.added.is_empty()
    }
}

/// Compares two builds: `asked` is the manifest's, `found` the one made here.
pub fn compare(asked: Side<'_>, found: Side<'_>) -> Comparison {
    let by_path = |side: Side<'_>| -> BTreeMap<String, FileDone> {
        side.files.iter().map(|file| (file.path.clone(), file.clone())).collect()
    };
    let (ours, theirs) = (by_path(found), by_path(asked));
    let only = |one: &BTreeMap<String, FileDone>, other: &BTreeMap<String, FileDone>| {
        one.keys().filter(|path| !other.contains_key(*path)).cloned().collect::<Vec<_>>()
    };
    let (mut modes, mut changed) = (Vec::new(), Vec::new());
    for (path, old) in &theirs {
        let Some(new) = ours.get(path) else { continue };
        if old.mode != new.mode {
            modes.push((path.clone(), old.mode.clone(), new.mode.clone()));
        }
        if (old.sha256, old.size) != (new.sha256, new.size) {
            let binary = binary(path, asked, found);
            changed.push(FileChange { path: path.clone(), size: (old.size, new.size), binary });
        }
    }
    changed.sort_by_key(|change| !is_code(change));
    let (missing, added) = (only(&theirs, &ours), only(&ours, &theirs));
    let verdict = if !(missing.is_empty() && added.is_empty() && modes.is_empty()) {
        Verdict::Different
    } else if changed.is_empty() {
        Verdict::Identical
    } else if changed.iter().all(is_aside) {
        Verdict::SameCode
    } else {
        Verdict::Different
    };
    Comparison {
        verdict,
        file_count: theirs.len(),
        missing,
        added,
        modes,
        changed,
        functions_known: asked.functions.is_some() && found.functions.is_some(),
    }
}

/// Whether a loaded section of the file differs.
fn is_code(change: &FileChange) -> bool {
    change.binary.as_ref().is_some_and(|binary| !binary.loaded.is_empty())
}

/// Whether the file differs only in what is not loaded.
fn is_aside(change: &FileChange) -> bool {
    change.binary.as_ref().is_some_and(|binary| binary.loaded.is_empty())
}

/// What differs inside of a file; `None` unless both sides know its sections.
fn binary(path: &str, asked: Side<'_>, found: Side<'_>) -> Option<BinaryChange> {
    let of = |side: Side<'_>| -> Option<BTreeMap<(bool, String, usize), SectionDone>> {
        let binary = side.binaries.iter().find(|binary| binary.path == path)?;
        // A name may be there several times; then the first is compared with the first.
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let number = |section: &SectionDone, count: usize| {
            ((section.loaded, section.name.clone(), count), section.clone())
        };
        let sections = binary.sections.iter().map(|section| {
            let count = seen.entry(&section.name).or_default();
            *count += 1;
            number(section, *count)
        });
        // Without any section nothing is known of what is loaded.
        Some(sections.collect::<BTreeMap<_, _>>()).filter(|sections| !sections.is_empty())
    };
    let (old, new) = (of(asked)?, of(found)?);
    let mut change = BinaryChange::default();
    for key in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
        let (before, after) = (old.get(key), new.get(key));
        let content = |section: &SectionDone| (section.size, section.sha256.clone());
        if before.map(content) == after.map(content) {
            continue;
        }
        let (loaded, name, _) = key;
        let size = |section: Option<&SectionDone>| section.map(|section| section.size);
        let section = SectionChange { name: name.clone(), asked: size(before), found: size(after) };
        if *loaded { &mut change.loaded } else { &mut change.aside }.push(section);
    }
    for list in [&mut change.loaded, &mut change.aside] {
        list.sort_by_key(|section| weight(&section.name));
    }
    if !change.loaded.is_empty()
        && let (Some(asked), Some(found)) = (asked.functions, found.functions)
    {
        change.functions = Some(functions(path, asked, found));
    }
    Some(change)
}

/// The order in which sections are told: code, then data, then what follows from them.
fn weight(name: &str) -> usize {
    let first = [".text", ".rodata", ".data", ".bss", ".init", ".dynamic", ".debug_info"];
    first.iter().position(|known| *known == name).unwrap_or(first.len())
}

fn functions(path: &str, asked: &Functions, found: &Functions) -> FunctionChanges {
    let of = |side: &Functions| -> BTreeMap<String, String> {
        let own = side.list.iter().filter(|function| function.binary == path);
        own.map(|function| (function.symbol.clone(), function.hash.clone())).collect()
    };
    let (old, new) = (of(asked), of(found));
    let mut changes = FunctionChanges {
        raw: [asked, found].iter().any(|side| side.raw.iter().any(|raw| raw == path)),
        ..FunctionChanges::default()
    };
    for (symbol, hash) in &old {
        match new.get(symbol) {
            None => changes.missing.push(symbol.clone()),
            Some(other) if other != hash => changes.changed.push(symbol.clone()),
            Some(_) => changes.same_count += 1,
        }
    }
    changes.added.extend(new.into_keys().filter(|symbol| !old.contains_key(symbol)));
    changes
}

/// How much a text names.
#[derive(Clone, Copy, Debug)]
struct Limits {
    binaries: usize,
    files: usize,
    sections: usize,
    functions: usize,
}

/// A screenful.
const SCREEN: Limits = Limits { binaries: 3, files: 4, sections: 4, functions: 6 };
/// Everything.
const ALL: Limits = Limits { binaries: MANY, files: MANY, sections: MANY, functions: MANY };
const MANY: usize = usize::MAX;

impl Comparison {
    /// The findings in at most a screenful, the verdict first; counts stand for the rest.
    pub fn text(&self) -> String {
        self.told(SCREEN)
    }

    /// All findings.
    pub fn whole_text(&self) -> String {
        self.told(ALL)
    }

    fn told(&self, limits: Limits) -> String {
        let mut lines = vec![self.headline()];
        let code: Vec<&FileChange> = self.changed.iter().filter(|c| is_code(c)).collect();
        let data: Vec<&FileChange> = self.changed.iter().filter(|c| c.binary.is_none()).collect();
        let aside: Vec<&FileChange> = self.changed.iter().filter(|c| is_aside(c)).collect();
        for change in code.iter().take(limits.binaries) {
            lines.extend(of_binary(change, limits));
        }
        lines.extend(rest(code.len(), limits.binaries, "programs or libraries with other code"));
        let named = |files: &[&FileChange]| {
            let told: Vec<String> = files.iter().map(|change| size(change)).collect();
            few(&told, limits.files)
        };
        if !data.is_empty() {
            lines.push(format!("  other content: {}", named(&data)));
        }
        if code.is_empty() || limits.files == MANY {
            for change in aside.iter().take(limits.files) {
                lines.push(format!("  {}: {}", change.path, not_loaded(change, limits)));
            }
            lines.extend(rest(aside.len(), limits.files, "files"));
        } else if !aside.is_empty() {
            lines.push(format!("  only in what is not loaded: {}", named(&aside)));
        }
        if !self.missing.is_empty() {
            lines.push(format!("  not made here: {}", few(&self.missing, limits.files)));
        }
        if !self.added.is_empty() {
            lines.push(format!("  only made here: {}", few(&self.added, limits.files)));
        }
        if !self.modes.is_empty() {
            let told = self.modes.iter().map(|(path, old, new)| format!("{path} {old} -> {new}"));
            lines.push(format!("  other mode: {}", few(&told.collect::<Vec<_>>(), limits.files)));
        }
        if !code.is_empty() && !self.functions_known {
            lines.push(
                "  functions are not told: the list beside the manifest (.functions.gz) is not \
                 to be had"
                    .to_owned(),
            );
        }
        lines.join("\n") + "\n"
    }

    fn headline(&self) -> String {
        let files = self.file_count;
        match self.verdict {
            Verdict::Identical => format!("identical: all {files} files, byte by byte"),
            Verdict::SameCode => format!(
                "same code: {} of {files} files differ, only in bytes that no program loads",
                self.changed.len()
            ),
            Verdict::Different => {
                let paths = self.changed.iter().map(|change| &change.path);
                let paths = paths.chain(self.modes.iter().map(|(path, _, _)| path));
                let differ = paths.chain(&self.missing).collect::<BTreeSet<_>>().len();
                let added = match self.added.len() {
                    0 => String::new(),
                    count => format!(", {count} more were made"),
                };
                format!("different: {differ} of {files} files{added}")
            }
        }
    }
}

fn of_binary(change: &FileChange, limits: Limits) -> Vec<String> {
    let Some(binary) = &change.binary else { return Vec::new() };
    let mut lines = vec![format!(
        "  {}: {}",
        change.path,
        few(&binary.loaded.iter().map(section).collect::<Vec<_>>(), limits.sections)
    )];
    if limits.files == MANY && !binary.aside.is_empty() {
        lines.push(format!("    {}", not_loaded(change, limits)));
    }
    if let Some(functions) = &binary.functions {
        let note = if functions.raw {
            " (as raw bytes: what only moved counts, since this processor's code is not decoded)"
        } else {
            ""
        };
        if functions.is_empty() && functions.same_count > 0 {
            lines.push(format!(
                "    functions: all {} have the same instructions; data, order or alignment \
                 differ{note}",
                functions.same_count
            ));
        }
        for (word, list) in [
            ("changed", &functions.changed),
            ("not made here", &functions.missing),
            ("only made here", &functions.added),
        ] {
            if !list.is_empty() {
                let (count, names) = (list.len(), few(list, limits.functions));
                lines.push(format!("    functions {word} ({count}): {names}{note}"));
            }
        }
    }
    lines
}

fn rest(count: usize, limit: usize, what: &str) -> Option<String> {
    let more = count.saturating_sub(limit);
    (more > 0).then(|| format!("  and {more} more {what}"))
}

fn not_loaded(change: &FileChange, limits: Limits) -> String {
    let sections = change.binary.as_ref().map_or(&[][..], |binary| &binary.aside);
    if sections.is_empty() {
        // The table of sections itself, or bytes between them.
        return "not loaded: bytes outside of all sections".to_owned();
    }
    let told: Vec<String> = sections.iter().map(section).collect();
    format!("not loaded: {}", few(&told, limits.sections))
}

fn section(change: &SectionChange) -> String {
    let name = &change.name;
    match (change.asked, change.found) {
        (Some(old), Some(new)) if old == new => format!("{name} ({old} bytes)"),
        (Some(old), Some(new)) => format!("{name} ({old} -> {new} bytes)"),
        (Some(old), None) => format!("{name} ({old} bytes, not made here)"),
        (None, Some(new)) => format!("{name} ({new} bytes, only made here)"),
        (None, None) => name.clone(),
    }
}

fn size(change: &FileChange) -> String {
    let (old, new) = change.size;
    if old == new {
        format!("{} ({old} bytes)", change.path)
    } else {
        format!("{} ({old} -> {new} bytes)", change.path)
    }
}

/// The first ones and how many more.
fn few(list: &[String], limit: usize) -> String {
    let shown = list.iter().take(limit).map(String::as_str).collect::<Vec<_>>().join(", ");
    match list.len().saturating_sub(limit) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests;
