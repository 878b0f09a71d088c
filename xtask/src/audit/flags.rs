//! What a compiler's flags decide: of several of one kind the last one counts. Pure.

use std::collections::BTreeMap;

use crate::matrix::model::Family;

/// Options of which the value is a word of its own and belongs to what they decide.
const PAIRS: [&str; 4] = ["--param", "-mllvm", "-Xclang", "-Xassembler"];

/// Joins options whose value is a word of its own with that value, as gcc records `--param`.
pub fn joined(words: &[String]) -> Vec<String> {
    let mut flags: Vec<String> = Vec::new();
    for word in words {
        match flags.last_mut() {
            Some(last) if PAIRS.contains(&last.as_str()) => *last = format!("{last} {word}"),
            _ => flags.push(word.clone()),
        }
    }
    flags
}

/// Of each kind of flag the last one.
pub fn effective(flags: &[String]) -> BTreeMap<String, &str> {
    flags.iter().filter_map(|flag| Some((kind(flag)?, flag.as_str()))).collect()
}

/// What a flag decides: two flags of one kind exclude each other. `None` for flags that say
/// nothing about code (`-I`, `-D`, `-W…`, `-o`).
pub fn kind(flag: &str) -> Option<String> {
    if let Some(rest) = flag.strip_prefix("--param") {
        let name = rest.trim_start_matches(['=', ' ']).split('=').next().unwrap_or_default();
        return Some(format!("--param {name}"));
    }
    // What is handed through can be anything: only the same words are the same.
    if PAIRS.iter().any(|pair| flag.starts_with(&format!("{pair} "))) {
        return Some(flag.to_owned());
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
pub fn is_recorded(family: Family, flag: &str) -> bool {
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
pub fn changes_code(flag: &str) -> bool {
    // Bookkeeping of the compilers: messages, debug paths, what the recording itself adds, what
    // only the link step acts on.
    const HARMLESS: [&str; 14] = [
        "-fdiagnostics",
        "-fno-diagnostics",
        "-fmessage-length",
        "-ffile-prefix-map",
        "-fdebug-prefix-map",
        "-fmacro-prefix-map",
        "-fcolor-diagnostics",
        "-fno-color-diagnostics",
        "-frandom-seed",
        "-fltrans",
        "-fresolution",
        "-fcf-protection=none",
        "-fuse-ld",
        "-frecord-command-line",
    ];
    !HARMLESS.iter().any(|start| flag.starts_with(start))
}

/// Equal, or two spellings of one thing.
pub fn same(asked: &str, found: &str) -> bool {
    // gcc records `-flto=auto` with or without its value, depending on the version.
    asked == found || (asked.starts_with("-flto") && found.starts_with("-flto"))
}

/// The kind of link-time optimisation that a list asks for: the value of the last `-flto`.
pub fn lto(flags: &[String]) -> Option<&str> {
    let last = flags.iter().rev().find_map(|flag| match flag.as_str() {
        "-fno-lto" => Some(None),
        "-flto" => Some(Some("full")),
        _ => flag.strip_prefix("-flto=").map(Some),
    });
    last.flatten()
}

/// Whether a list leaves debug information out: the last `-g…` decides, none at all leaves it out.
pub fn without_debug(flags: &[String]) -> bool {
    let level = |flag: &&String| {
        // `-gcc-toolchain`, `-grecord-…` and `-gno-…` say nothing about the amount.
        let rest = flag.strip_prefix("-g");
        rest.is_some_and(|rest| {
            rest.is_empty()
                || rest.starts_with(|first: char| first.is_ascii_digit())
                || ["gdb", "dwarf", "line-tables-only"].iter().any(|form| rest.starts_with(form))
        })
    };
    flags.iter().rfind(level).is_none_or(|flag| flag == "-g0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_last_of_a_kind_counts() {
        let flags = joined(&words("-O2 -fwrapv --param l1-cache-size=32 -DO=-O9 -O3 -fno-wrapv"));
        let found: Vec<_> = effective(&flags).into_values().collect();
        assert_eq!(found, ["--param l1-cache-size=32", "-O3", "-fno-wrapv"]);
        assert_eq!(kind("-march=x86-64-v3").as_deref(), Some("-march"));
        assert_eq!(kind("-mno-avx"), kind("-mavx"));
        assert_eq!(kind("--param=a=1"), kind("--param a=2"));
        for other in ["-Wall", "-Ifoo", "-DX=1", "-g1", "-c", "x.c", "-Wl,-z,now"] {
            assert_eq!(kind(other), None, "{other}");
        }
        assert_eq!(joined(&words("-mllvm -inline=1 -O2")), ["-mllvm -inline=1", "-O2"]);
    }

    #[test]
    fn link_time_optimisation_and_debug_information() {
        assert_eq!(lto(&words("-O2 -flto=auto")), Some("auto"));
        assert_eq!(lto(&words("-flto -fno-lto")), None);
        assert_eq!(lto(&words("-flto=thin -flto")), Some("full"));
        for (text, without) in [
            ("-O2", true),
            ("-g -g0", true),
            ("-g0 -g1", false),
            ("-O2 -gdwarf-5", false),
            ("-grecord-command-line", true),
        ] {
            assert_eq!(without_debug(&words(text)), without, "{text}");
        }
    }
}
