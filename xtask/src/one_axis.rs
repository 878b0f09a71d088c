//! The one-axis check: two builds are said to differ in a setting; what else differs? Pure.
//!
//! Everything that two manifests hold is compared, what configuring came to above all. What the
//! settings themselves explain is not told again: a flag of the setting inside of `CFLAGS`, the
//! name of the compiler where the compiler is the setting. The rest is told, because a reader would
//! take its effect for that of the setting.

use std::collections::{BTreeMap, BTreeSet};

use crate::audit::judge::Verdict;
use crate::build::manifest::Manifest;
use crate::matrix::model::Options;

mod words;

/// The axis whose settings are compilers.
const TOOLCHAIN: &str = "toolchain";
/// How many differences a sentence names; the others are counted.
pub const SHOWN: usize = 4;
/// What a macro is that no header defines.
const UNDEFINED: &str = "undefined";

/// What differs between two builds besides what is said: one phrase each, `other`'s state against
/// that of `base`, what matters most first. Empty when the settings explain all.
pub fn besides(base: &Manifest, other: &Manifest) -> Vec<String> {
    let said = Said::new(base, other);
    let mut found = Vec::new();
    source(base, other, &said, &mut found);
    toolchain(base, other, &said, &mut found);
    if said.axes.is_empty() {
        options(&base.inputs.options, &other.inputs.options, &mut found);
    }
    configuration(base, other, &said, &mut found);
    per_file(base, other, &said, &mut found);
    found
}

/// The phrases in one text: the first [`SHOWN`] of them, the others counted.
pub fn listed(phrases: &[String]) -> String {
    let mut text = phrases[..phrases.len().min(SHOWN)].join(", ");
    match phrases.len().saturating_sub(SHOWN) {
        0 => {}
        more => text.push_str(&format!(" and {more} more")),
    }
    text
}

/// The names of the axes in which two lists of settings differ, in the first one's order.
pub fn axes(base: &[(String, String)], other: &[(String, String)]) -> Vec<String> {
    let setting = |list: &[(String, String)], axis: &str| {
        list.iter().find(|(name, _)| name == axis).map(|(_, setting)| setting.clone())
    };
    let mut names: Vec<String> = Vec::new();
    for (axis, _) in base.iter().chain(other) {
        if setting(base, axis) != setting(other, axis) && !names.contains(axis) {
            names.push(axis.clone());
        }
    }
    names
}

/// What is said to differ, and what follows from that.
struct Said {
    axes: Vec<String>,
    /// Two sources.
    source: bool,
    /// Two compilers.
    toolchain: bool,
    /// Flags and options that only one of the two builds was given.
    words: BTreeSet<String>,
    /// CMake's variables and configure's features that were asked for differently.
    names: BTreeSet<String>,
}

impl Said {
    fn new(base: &Manifest, other: &Manifest) -> Self {
        let axes = axes(&base.settings, &other.settings);
        let (a, b) = (&base.inputs.options, &other.inputs.options);
        let mut words = BTreeSet::new();
        for (a, b) in flags(a).into_iter().zip(flags(b)) {
            let (gone, new) = words::difference(a.1, b.1);
            // An option may be several words.
            words.extend(gone.iter().chain(&new).flat_map(|word| words::split(word)));
        }
        let (gone, new) = words::difference(&a.configure, &b.configure);
        let mut names: BTreeSet<String> =
            gone.iter().chain(&new).filter_map(|option| feature(option)).collect();
        for (key, value) in a.cmake.iter().chain(&b.cmake) {
            let of = |list: &[(String, String)]| {
                list.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.clone())
            };
            if of(&a.cmake) != of(&b.cmake) {
                // `KEY` or `KEY:TYPE`.
                names.insert(key.split(':').next().unwrap_or(key).to_owned());
                words.extend(words::split(value));
            }
        }
        Self {
            toolchain: axes.iter().any(|axis| axis == TOOLCHAIN)
                || base.toolchain.digest != other.toolchain.digest,
            source: base.source.name != other.source.name,
            axes,
            words,
            names,
        }
    }
}

/// The lists of options with their names for people.
fn flags(options: &Options) -> [(&'static str, &[String]); 4] {
    [
        ("cflags", &options.cflags),
        ("cxxflags", &options.cxxflags),
        ("ldflags", &options.ldflags),
        ("configure", &options.configure),
    ]
}

/// The variable of the makefile that an option of configure decides: `--with-icu=x`, `with_icu`.
fn feature(option: &str) -> Option<String> {
    let name = option.strip_prefix("--")?.split('=').next()?.replace('-', "_");
    let (kind, rest) = name.split_once('_')?;
    match kind {
        "with" | "without" => Some(format!("with_{rest}")),
        "enable" | "disable" => Some(format!("enable_{rest}")),
        _ => None,
    }
}

fn source(base: &Manifest, other: &Manifest, said: &Said, found: &mut Vec<String>) {
    let (a, b) = (&base.inputs, &other.inputs);
    let patched = a.source_facts.patches != b.source_facts.patches;
    // Two sources of one archive differ by their patches: that is what is compared then.
    if patched && (!said.source || base.source.kind != other.source.kind) {
        let names = |inputs: &crate::build::spec::Inputs| -> Vec<String> {
            inputs.source_facts.patches.iter().map(|(path, _)| path.clone()).collect()
        };
        let change = words::change(&names(a), &names(b));
        found.push(format!("patches {}", change.unwrap_or("of other content".to_owned())));
    }
    if !said.source && !patched && a.source_facts.digest != b.source_facts.digest {
        found.push(format!("source `{}` of other content", b.source));
    }
    if a.recipe != b.recipe {
        found.push(format!("recipe {} instead of {}", b.recipe, a.recipe));
    }
    for (name, digest) in &b.system {
        if a.system.iter().any(|(known, was)| known == name && was != digest) {
            found.push(format!("another {name} of the system"));
        }
    }
    if base.canonical_paths != other.canonical_paths {
        let word = if other.canonical_paths { "under" } else { "not under" };
        found.push(format!("made {word} the canonical paths"));
    }
}

fn toolchain(base: &Manifest, other: &Manifest, said: &Said, found: &mut Vec<String>) {
    let (a, b) = (&base.toolchain, &other.toolchain);
    if said.axes.iter().any(|axis| axis == TOOLCHAIN) || a.digest == b.digest {
        return;
    }
    let named = |of: &crate::facts::Toolchain| format!("{} {}", of.name, of.version);
    if named(a) != named(b) {
        return found.push(format!("{} instead of {}", named(b), named(a)));
    }
    let known = |path| a.files.iter().find(|(known, _)| known == path).map(|(_, digest)| *digest);
    let changed = b.files.iter().filter(|(path, digest)| known(path) != Some(*digest));
    let changed: Vec<String> = changed.map(|(path, _)| path.display().to_string()).collect();
    match changed.split_first() {
        None => found.push(format!("another {}", named(b))),
        Some((first, [])) => found.push(format!("another {first} of {}", named(b))),
        Some((first, rest)) => {
            found.push(format!("another {first} and {} more files of {}", rest.len(), named(b)));
        }
    }
}

/// Options that differ although no setting does: the matrix file was changed in between, or two
/// sources have options of their own.
fn options(base: &Options, other: &Options, found: &mut Vec<String>) {
    for ((name, a), (_, b)) in flags(base).into_iter().zip(flags(other)) {
        found.extend(words::change(a, b).map(|change| format!("{name} {change}")));
    }
    for (name, a, b) in [("cmake", &base.cmake, &other.cmake), ("env", &base.env, &other.env)] {
        let joined = |list: &[(String, String)]| -> Vec<String> {
            list.iter().map(|(key, value)| format!("{key}={value}")).collect()
        };
        let change = words::change(&joined(a), &joined(b));
        found.extend(change.map(|change| format!("{name} {change}")));
    }
}

/// The parts of a configuration, in the order in which they are told.
fn rank(key: &str) -> usize {
    let part = key.split(':').next().unwrap_or(key);
    match part {
        "linked-by" => 0,
        "compiled-by" => 1,
        "needed" => 2,
        "run-path" => 3,
        part if part.ends_with(".h") => 4,
        "CMakeCache.txt" => 5,
        _ => 6,
    }
}

fn configuration(base: &Manifest, other: &Manifest, said: &Said, found: &mut Vec<String>) {
    let map = |manifest: &Manifest| -> BTreeMap<String, String> {
        manifest.configuration.iter().cloned().collect()
    };
    let (a, b) = (map(base), map(other));
    if a.is_empty() != b.is_empty() {
        return found.push("how one of the two was configured is not recorded".to_owned());
    }
    let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
    keys.sort_by_key(|key| (rank(key), key.as_str()));
    keys.dedup();
    // What several programs have in common is told once.
    let mut programs: Vec<(String, Vec<&str>)> = Vec::new();
    let mut rest = Vec::new();
    for key in keys {
        let (part, name) = key.split_once(':').unwrap_or((key, ""));
        let (was, is) = (a.get(key).map(String::as_str), b.get(key).map(String::as_str));
        if was == is || said.explains(part, name) {
            continue;
        }
        let Some(change) = said.change(part, was, is) else { continue };
        match part {
            "needed" | "run-path" => {
                let text = match (part, was, is) {
                    ("needed", None, _) => "only in the other".to_owned(),
                    ("needed", _, None) => "only in the base".to_owned(),
                    ("needed", ..) => format!("linked {change}"),
                    _ => format!("run path {change}"),
                };
                match programs.iter_mut().find(|(known, _)| *known == text) {
                    Some((_, names)) => names.push(name),
                    None => programs.push((text, vec![name])),
                }
            }
            "linked-by" => found.push(format!("linked by {change}")),
            "compiled-by" => found.push(format!("compiled by {change}")),
            _ => rest.push(format!("{part} {name} {change}")),
        }
    }
    found.extend(programs.into_iter().map(|(text, names)| match names.as_slice() {
        [first, others @ ..] if !others.is_empty() => {
            format!("{first} and {} more {text}", others.len())
        }
        names => format!("{} {text}", names.concat()),
    }));
    found.extend(rest);
}

impl Said {
    /// Whether what is said to differ names this very thing.
    fn explains(&self, part: &str, name: &str) -> bool {
        // The call of configure: its options, its compiler and the recipe are compared themselves.
        if name == "CONFIGURE_ARGS" || self.names.contains(name) {
            return true;
        }
        let tools = ["AR", "CC", "CLANG", "CPP", "CXX", "GCC", "LD", "NM", "RANLIB"];
        let of_toolchain = part == "compiled-by"
            || name == "PG_VERSION_STR"
            || (part == "Makefile.global" && tools.contains(&name))
            || (part == "CMakeCache.txt" && is_tool_of_cmake(name));
        let of_source = name.contains("VERSION") || name == "PACKAGE_STRING";
        (self.toolchain && of_toolchain) || (self.source && of_source)
    }

    /// How a value differs once all words that are said to differ are left out; `None`: not at all.
    fn change(&self, part: &str, was: Option<&str>, is: Option<&str>) -> Option<String> {
        let absent = match part {
            part if part.ends_with(".h") => UNDEFINED,
            "linked-by" => "a linker that does not sign",
            _ => "none",
        };
        let kept = |value: Option<&str>| -> Vec<String> {
            let all = value.map(words::split).unwrap_or_default();
            let kept = |word: &String| !self.words.contains(word) && !words::is_warning(word);
            all.into_iter().filter(kept).collect()
        };
        let (a, b) = (kept(was), kept(is));
        // An empty value is still another one than none.
        let both = was.is_some() == is.is_some();
        if a == b && (both || was.or(is).is_some_and(|value| !value.is_empty())) {
            return None;
        }
        if a.len() > 1 && b.len() > 1 {
            return words::change(&a, &b);
        }
        let shown = |value: Option<&str>, kept: &[String]| match value {
            None => absent.to_owned(),
            Some(_) if kept.is_empty() => "empty".to_owned(),
            Some(_) => words::shortened(kept),
        };
        Some(format!("{} instead of {}", shown(is, &b), shown(was, &a)))
    }
}

/// Whether an entry of CMake's cache is about which compiler and tools are used.
fn is_tool_of_cmake(name: &str) -> bool {
    const TOOLS: [&str; 9] =
        ["AR", "RANLIB", "NM", "LINKER", "OBJCOPY", "OBJDUMP", "READELF", "STRIP", "ADDR2LINE"];
    let Some(rest) = name.strip_prefix("CMAKE_") else { return false };
    TOOLS.contains(&rest) || rest.contains("_COMPILER")
}

/// Flags that the project adds to some of its files, as the audit found them: one that only one of
/// the builds has makes a part of it another program.
fn per_file(base: &Manifest, other: &Manifest, said: &Said, found: &mut Vec<String>) {
    // Compilers spell such flags differently.
    if said.toolchain || said.source {
        return;
    }
    let extras = |manifest: &Manifest| -> BTreeMap<String, String> {
        let findings = manifest.audit.iter().flat_map(|report| &report.findings);
        findings
            .filter(|finding| finding.verdict == Verdict::Explained)
            .filter_map(|finding| {
                let flag = finding.text.split([':', ' ']).next()?;
                let told = flag.starts_with('-') && !said.words.contains(flag);
                told.then(|| (flag.to_owned(), finding.units.first().cloned().unwrap_or_default()))
            })
            .collect()
    };
    if base.audit.is_none() || other.audit.is_none() {
        return;
    }
    let (a, b) = (extras(base), extras(other));
    for (have, lack, whose) in [(&a, &b, "the base"), (&b, &a, "the other")] {
        for (flag, unit) in have.iter().filter(|(flag, _)| !lack.contains_key(*flag)) {
            let file = unit.rsplit('/').next().unwrap_or_default();
            found.push(format!("{flag} for {file} only in {whose}"));
        }
    }
}

#[cfg(test)]
mod tests;
