//! Where a flag came from: a setting, the source's options, the recipe, the project, the
//! distribution, the compiler; or nobody. Pure.

use std::collections::BTreeSet;

use crate::audit::elf::{Facts, Unit};
use crate::audit::flags::{effective, joined, kind};
use crate::audit::judge::Allowed;
use crate::audit::log::{Call, Log, shown};
use crate::audit::producer::{Compiler, Producer};
use crate::build::spec::Spec;
use crate::matrix::expand::counted;
use crate::matrix::model::Options;
use crate::toolchain::native::mentions_native;

/// How many files an answer names.
const NAMED: usize = 5;

/// Options as the matrix file has them, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// `opt = o2 (matrix.toml:12)`, `the options of source pg1518 (matrix.toml:3)`.
    pub place: String,
    /// What stands there, not resolved.
    pub options: Options,
}

/// What is known of a build.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The build as it is planned.
    pub spec: &'a Spec,
    /// What its settings and its source say.
    pub written: &'a [Written],
    /// The words of the command that configures.
    pub configure: &'a [String],
    /// What configuring came to, by key.
    pub configuration: &'a [(String, String)],
    /// The compile log, where it was kept.
    pub log: Option<&'a Log>,
    /// The binaries, where there are any.
    pub binaries: &'a [(String, Facts)],
    /// What the project is expected to add.
    pub allowed: &'a [Allowed],
    /// The flags that the distribution's packages are built with, if it tells.
    pub distribution: &'a [String],
    /// The compiler's path when it is a script.
    pub script: Option<&'a str>,
}

/// The answer, one sentence a line.
pub fn why(flag: &str, known: &Known<'_>) -> Vec<String> {
    let mut lines = ours(flag, known);
    lines.extend(recipe(flag, known));
    let is_ours = !lines.is_empty();
    let by_project = project(flag, known, is_ours);
    lines.extend(by_project);
    lines.extend(compiler(flag, known, is_ours));
    for (key, value) in known.configuration {
        if words(value).iter().any(|word| fits(flag, word)) {
            lines.push(format!("configuring left it in `{key}`"));
        }
    }
    if lines.is_empty() {
        lines.push(nobody(flag, known));
    }
    lines
}

/// Whether a word is the flag that is asked about: itself, or one with any value where none is
/// given (`-O`, `-march`, `WITH_LTO`).
fn fits(flag: &str, word: &str) -> bool {
    let of_kind = || kind(flag).is_some_and(|wanted| kind(word) == Some(wanted));
    let bare = flag == "-O" || (!flag.contains('=') && !flag.starts_with("-O"));
    word == flag
        || (bare && word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')))
        || (flag == "-O" && of_kind())
}

fn words(text: &str) -> Vec<String> {
    joined(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

/// All words of options, variables of CMake as they are given.
fn all_words(options: &Options) -> Vec<String> {
    let Options { cflags, cxxflags, ldflags, configure, cmake, env } = options;
    let lists = [cflags, cxxflags, ldflags, configure];
    let mut all: Vec<String> = lists.into_iter().flat_map(|list| joined(list)).collect();
    for (key, value) in cmake {
        all.extend([format!("-D{key}={value}"), format!("{key}={value}")]);
        all.extend(words(value));
    }
    all.extend(env.iter().map(|(key, value)| format!("{key}={value}")));
    all
}

fn ours(flag: &str, known: &Known<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for Written { place, options } in known.written {
        let found: BTreeSet<String> =
            all_words(options).into_iter().filter(|word| fits(flag, word)).collect();
        if !found.is_empty() {
            let found: Vec<String> = found.into_iter().collect();
            lines.push(format!("{place} gives `{}`", found.join("`, `")));
        }
    }
    let resolved = all_words(&known.spec.options);
    if lines.is_empty() && resolved.iter().any(|word| fits(flag, word)) {
        let native = known.written.iter().find(|written| {
            let Options { cflags, cxxflags, .. } = &written.options;
            mentions_native(cflags) || mentions_native(cxxflags)
        });
        lines.push(match native {
            Some(native) => format!("{} stands for it on the planning host", native.place),
            None => "the plan has it, but no setting of the matrix file as it is now".to_owned(),
        });
    }
    lines
}

/// What the recipe gives by itself: the build type's flags, the linker, run paths.
fn recipe(flag: &str, known: &Known<'_>) -> Vec<String> {
    let ours = all_words(&known.spec.options);
    let given = known.configure.iter().filter(|word| {
        let value = word.split_once('=').map_or("", |(_, value)| value);
        let hit = fits(flag, word) || words(value).iter().any(|word| fits(flag, word));
        let is_ours = ours.contains(word) || words(value).iter().any(|word| ours.contains(word));
        hit && !is_ours
    });
    given.map(|word| format!("the recipe gives it to configure: `{word}`")).collect()
}

fn named(sources: &BTreeSet<String>) -> String {
    let shown: Vec<&str> = sources.iter().take(NAMED).map(String::as_str).collect();
    match sources.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn reason(flag: &str, source: &str, known: &Known<'_>) -> String {
    let rule = known.allowed.iter().find(|rule| rule.covers(source, flag));
    match rule.filter(|rule| !rule.why.is_empty()) {
        Some(rule) => format!(" ({}; the audit allows it)", rule.why),
        None => String::new(),
    }
}

/// What the compile log has.
fn project(flag: &str, known: &Known<'_>, is_ours: bool) -> Vec<String> {
    let Some(log) = known.log else { return Vec::new() };
    let all: BTreeSet<String> = log.calls.iter().map(Call::shown).collect();
    let has = |call: &&Call| call.words.iter().any(|word| fits(flag, word));
    let with: BTreeSet<String> = log.calls.iter().filter(has).map(Call::shown).collect();
    let mut lines = Vec::new();
    if is_ours {
        let without: BTreeSet<String> = all.difference(&with).cloned().collect();
        // A flag for the linker or a variable stands in no call that compiles.
        if !with.is_empty() && !without.is_empty() {
            lines.push(format!(
                "{} of {} files were compiled without it: {}",
                without.len(),
                all.len(),
                named(&without)
            ));
        }
    } else if let Some(first) = with.first() {
        let of = if with.len() == all.len() {
            format!("all {} files", all.len())
        } else {
            format!("{} of {} files ({})", with.len(), all.len(), named(&with))
        };
        lines.push(format!(
            "the project's own build gives it for {of}{}",
            reason(flag, first, known)
        ));
        if known.distribution.iter().any(|word| fits(flag, word)) {
            lines.push(
                "the distribution's packaging flags have it (`dpkg-buildflags`): an option of the \
                 project may take them from there"
                    .to_owned(),
            );
        }
    }
    lines.extend(overruled(flag, log));
    lines
}

/// Where the flag is given and another one of its kind comes later.
fn overruled(flag: &str, log: &Log) -> Vec<String> {
    let mut by_winner: std::collections::BTreeMap<&str, BTreeSet<String>> = Default::default();
    for call in &log.calls {
        let decides = effective(&call.words);
        let Some(word) = call.words.iter().find(|word| fits(flag, word)) else { continue };
        if let Some(last) = kind(word).and_then(|kind| decides.get(&kind).copied())
            && !fits(flag, last)
        {
            by_winner.entry(last).or_default().insert(call.shown());
        }
    }
    let line = |(winner, files): (&str, BTreeSet<String>)| {
        let count = counted(files.len(), "files");
        format!("`{winner}` comes behind it in {count}: {}", named(&files))
    };
    by_winner.into_iter().map(line).collect()
}

/// What the units have although no call gives it.
fn compiler(flag: &str, known: &Known<'_>, is_ours: bool) -> Vec<String> {
    if is_ours && known.log.is_none() {
        return Vec::new();
    }
    let units = known.binaries.iter().flat_map(|(_, facts)| &facts.units);
    let has = |unit: &&Unit| {
        let producer = Producer::parse(&unit.producer);
        producer.compiler != Compiler::GccLink
            && producer.flags.is_some_and(|flags| flags.iter().any(|word| fits(flag, word)))
    };
    let given = |unit: &Unit| {
        known.log.is_some_and(|log| {
            let calls = log.of(unit).into_iter().filter_map(|call| log.calls.get(call));
            calls.into_iter().any(|call| call.words.iter().any(|word| fits(flag, word)))
        })
    };
    let files: BTreeSet<String> = units
        .filter(has)
        .filter(|unit| !given(unit))
        .map(|unit| shown(std::path::Path::new(&unit.name)))
        .collect();
    let Some(first) = files.first() else { return Vec::new() };
    let (count, verb) = match files.len() {
        1 => ("1 file".to_owned(), "has"),
        count => (format!("{count} files"), "have"),
    };
    vec![match (known.log, known.script) {
        (None, _) => format!(
            "{count} {verb} it: {}{}; the compile log was not kept, so whether the project or \
             the compiler adds it is not known",
            named(&files),
            reason(flag, first, known)
        ),
        (Some(_), Some(script)) => format!(
            "no call gives it, but {count} {verb} it: the compiler `{script}`, a script, adds \
             it: {}",
            named(&files)
        ),
        (Some(_), None) => {
            let compiler = known.spec.toolchain.as_ref().map_or("the compiler", |t| &t.name);
            format!("no call gives it, but {count} {verb} it: a default of {compiler}")
        }
    }]
}

fn nobody(flag: &str, known: &Known<'_>) -> String {
    let log = match known.log {
        Some(log) => format!("none of the {} calls in the compile log", log.calls.len()),
        None => "no compile unit that tells (the compile log was not kept)".to_owned(),
    };
    format!(
        "nobody gives `{flag}`: no setting, not the source, not the recipe, {log}, and not the \
         caller's environment, which no build sees"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::allowed::allowed;
    use crate::audit::log::tests::command;
    use crate::build::spec::tests::spec;
    use crate::matrix::model::{Engine, Family};

    fn written(place: &str, flags: &str) -> Written {
        let flags = words(flags);
        let options = Options { cflags: flags.clone(), cxxflags: flags, ..Options::default() };
        Written { place: place.to_owned(), options }
    }

    fn ask(flag: &str) -> Vec<String> {
        let spec = spec(&["-g1", "-O2", "-mavx"]);
        let written = [
            written("opt = o2 (m.toml:4)", "-g1 -O2"),
            written("cpu = native (m.toml:9)", "-march=native"),
        ];
        let log = Log::new(&[
            command("/mnt/obj", "gcc -Wall -fwrapv -g1 -O2 -mavx -c a.c"),
            command(
                "/mnt/obj",
                "gcc -Wall -fwrapv -g1 -O2 -mavx -c /mnt/src/storage/page/checksum.c -funroll-loops",
            ),
            command("/mnt/obj", "gcc -Wall -fwrapv -g1 -O2 -mavx -O1 -c odd.c"),
        ]);
        let unit = |name: &str, flags: &str| Unit {
            name: name.to_owned(),
            folder: "/mnt/obj".to_owned(),
            producer: format!("GNU C17 12.2.0 -mtune=generic {flags}"),
            text_bytes: 1,
        };
        let units = vec![unit("a.c", "-g1 -O2 -fwrapv"), unit("odd.c", "-O2 -O1")];
        let binaries = [("bin/postgres".to_owned(), Facts { units, ..Facts::default() })];
        why(
            flag,
            &Known {
                spec: &spec,
                written: &written,
                configure: &words("/mnt/src/configure CFLAGS=-g1 -DCMAKE_C_FLAGS_RELEASE=-DNDEBUG"),
                configuration: &[(
                    "Makefile.global:CFLAGS_UNROLL_LOOPS".into(),
                    "-funroll-loops".into(),
                )],
                log: Some(&log),
                binaries: &binaries,
                allowed: &allowed(Engine::Postgres, Family::Gcc),
                distribution: &words("-g -O2 -fwrapv"),
                script: None,
            },
        )
    }

    #[test]
    fn each_origin() {
        assert_eq!(
            ask("-O2"),
            ["opt = o2 (m.toml:4) gives `-O2`", "`-O1` comes behind it in 1 file: mnt/obj/odd.c",]
        );
        assert_eq!(ask("-mavx"), ["cpu = native (m.toml:9) stands for it on the planning host"]);
        assert_eq!(
            ask("-DNDEBUG"),
            ["the recipe gives it to configure: `-DCMAKE_C_FLAGS_RELEASE=-DNDEBUG`"]
        );
        assert_eq!(
            ask("-fwrapv"),
            [
                "the project's own build gives it for all 3 files (PostgreSQL relies on integers that wrap; the audit allows it)",
                "the distribution's packaging flags have it (`dpkg-buildflags`): an option of the project may take them from there",
            ]
        );
        assert_eq!(
            ask("-funroll-loops"),
            [
                "the project's own build gives it for 1 of 3 files (storage/page/checksum.c) (PostgreSQL tunes its page checksum; the audit allows it)",
                "configuring left it in `Makefile.global:CFLAGS_UNROLL_LOOPS`",
            ]
        );
        assert_eq!(ask("-mtune"), ["no call gives it, but 2 files have it: a default of gcc"]);
        let none = ask("-flto");
        assert!(
            none.len() == 1 && none[0].starts_with("nobody gives `-flto`: no setting"),
            "{none:?}"
        );
        assert!(none[0].contains("none of the 3 calls"), "{none:?}");
    }

    #[test]
    fn a_kind_without_a_value_means_all_of_it() {
        assert!(fits("-O", "-O3") && fits("-march", "-march=znver3") && fits("-O2", "-O2"));
        assert!(!fits("-O2", "-O3") && !fits("-O", "-o") && !fits("-f", "-fwrapv"));
        assert!(fits("WITH_LTO", "WITH_LTO=ON") && !fits("-flto", "-fno-lto"));
    }
}
