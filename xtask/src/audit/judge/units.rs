//! The flags of compile units: from the debug information where the compiler wrote them down, else
//! from the compile log.

use std::collections::BTreeMap;

use crate::audit::elf::{Facts, Unit};
use crate::audit::flags::{changes_code, effective, is_recorded, kind, same, without_debug};
use crate::audit::judge::{Case, Evidence, Finding, Remarks, Verdict};
use crate::audit::log::{Call, is_cxx};
use crate::audit::producer::{Compiler, Producer};
use crate::matrix::model::Family;

/// The flags of one kind each, the last one.
type Flags<'a> = BTreeMap<String, &'a str>;

/// What is remarkable in one unit's flags.
struct Remark {
    verdict: Verdict,
    text: String,
    /// What decides there, or what is missing: for telling who gave it.
    flag: String,
    /// Whether the flag is there.
    there: bool,
    /// Whether one of its kind was asked.
    asked: bool,
}

/// Judges the units of one binary; gives the calls of the log that made them.
pub(super) fn of_binary(
    case: &Case<'_>,
    binary: &str,
    facts: &Facts,
    findings: &mut Vec<Finding>,
) -> Vec<usize> {
    let mut remarks = Remarks::new(binary);
    let any = facts.units.iter().any(|unit| {
        let compiler = Producer::parse(&unit.producer).compiler;
        !matches!(compiler, Compiler::Assembler | Compiler::GccLink)
    });
    // Where the log has sources without debug information, it tells of them, see `of_log`.
    let told = |call: &Call| without_debug(&call.words);
    if !any && !case.log.is_some_and(|log| log.calls.iter().any(told)) {
        let text = "no debug information: the flags of its units are not recorded".to_owned();
        remarks.add(Verdict::Unknown, Evidence::Producer, text, "", facts.text_bytes);
    }
    let mut used = Vec::new();
    for unit in &facts.units {
        let found = case.log.map_or_else(Vec::new, |log| log.of(unit));
        let calls: Vec<&Call> =
            found.iter().filter_map(|call| case.log?.calls.get(*call)).collect();
        one(case, unit, &calls, &mut remarks);
        used.extend(found);
    }
    compilers(case, facts, &mut remarks);
    findings.extend(remarks.into_findings());
    used
}

/// The compilers that sign in `.comment`: the one asked for must be among them, and none of another
/// family. (Start files of the C library may be of another version.)
fn compilers(case: &Case<'_>, facts: &Facts, remarks: &mut Remarks<'_>) {
    let named: Vec<&String> = facts
        .comments
        .iter()
        .filter(|line| line.starts_with("GCC: ") || line.contains("clang version "))
        .collect();
    if named.is_empty() {
        return;
    }
    let is_clang = |line: &str| line.contains("clang version ");
    let of_family = |line: &&&String| is_clang(line) == (case.asked.family == Family::Clang);
    let version = |line: &&&String| line.split_whitespace().any(|word| word == case.asked.version);
    let mut add =
        |text: String| remarks.add(Verdict::Mismatch, Evidence::Code, text, "", facts.text_bytes);
    if !named.iter().filter(of_family).any(|line| version(&line)) {
        let (name, wanted) = (case.asked.family.name(), &case.asked.version);
        let found: Vec<&str> = named.iter().map(|line| line.as_str()).collect();
        add(format!("no part was made by {name} {wanted}, only by {}", found.join("; ")));
    } else if case.asked.family == Family::Gcc
        && let Some(line) = named.iter().find(|line| is_clang(line))
    {
        add(format!("a part was made by another compiler: {line}"));
    }
}

fn one(case: &Case<'_>, unit: &Unit, calls: &[&Call], remarks: &mut Remarks<'_>) {
    let asked = case.asked;
    let own = match asked.family {
        Family::Gcc => Compiler::Gcc,
        Family::Clang => Compiler::Clang,
    };
    let producer = Producer::parse(&unit.producer);
    let mut add = |verdict, evidence, text| {
        remarks.add(verdict, evidence, text, &unit.name, unit.text_bytes);
    };
    match producer.compiler {
        // The link step's flags are not the unit's; what it made has units of its own.
        Compiler::Assembler | Compiler::GccLink => return,
        found if found != own => {
            let text = format!("made by another compiler: {}", first_words(&unit.producer));
            return add(Verdict::Mismatch, Evidence::Producer, text);
        }
        _ => {}
    }
    if producer.version != asked.version {
        let text = format!("made by version {}, asked for {}", producer.version, asked.version);
        add(Verdict::Mismatch, Evidence::Producer, text);
    }
    let cxx = is_cxx(&unit.name) || unit.producer.starts_with("GNU C++");
    if let Some(flags) = &producer.flags {
        let found = effective(flags);
        for remark in compare(case, cxx, &unit.name, &found) {
            let (verdict, text) = told(case, remark, calls);
            add(verdict, Evidence::Producer, text);
        }
    } else if calls.is_empty() {
        let text = "the compiler did not record its flags".to_owned();
        add(Verdict::Unknown, Evidence::Producer, text);
    } else {
        by_calls(case, &unit.name, calls, unit.text_bytes, remarks);
    }
}

/// Judges a source by the calls that compiled it; what several of them share is told once.
fn by_calls(
    case: &Case<'_>,
    name: &str,
    calls: &[&Call],
    text_bytes: u64,
    remarks: &mut Remarks<'_>,
) {
    let mut texts: Vec<(Verdict, String)> = Vec::new();
    for call in calls {
        for remark in compare(case, call.cxx, name, &effective(&call.words)) {
            if !texts.iter().any(|(_, text)| *text == remark.text) {
                texts.push((remark.verdict, remark.text));
            }
        }
    }
    if let Some(script) = case.script {
        let text = format!(
            "the compiler `{script}` is a script, and nothing records what it hands on to the real \
             one"
        );
        texts.push((Verdict::Unknown, text));
    }
    for (verdict, text) in texts {
        remarks.add(verdict, Evidence::Log, text, name, text_bytes);
    }
}

/// Judges the sources that no unit tells of, by the log alone. One that was compiled with debug
/// information and has no unit is in no binary.
pub(super) fn of_log(case: &Case<'_>, used: &[bool], findings: &mut Vec<Finding>) {
    let Some(log) = case.log else { return };
    let mut remarks = Remarks::new("");
    let mut by_source: BTreeMap<&std::path::Path, Vec<&Call>> = BTreeMap::new();
    for (call, used) in log.calls.iter().zip(used) {
        if !used && without_debug(&call.words) {
            by_source.entry(&call.source).or_default().push(call);
        }
    }
    for calls in by_source.values() {
        let bytes = |call: &&Call| call.object.map_or(0, |object| object.text_bytes);
        let text_bytes = calls.iter().map(bytes).sum();
        by_calls(case, &calls[0].shown(), calls, text_bytes, &mut remarks);
    }
    findings.extend(remarks.into_findings());
}

/// What differs between what was asked and what decides in a unit.
fn compare(case: &Case<'_>, cxx: bool, name: &str, found: &Flags<'_>) -> Vec<Remark> {
    let asked = case.asked;
    let wanted = effective(if cxx { &asked.cxxflags } else { &asked.cflags });
    let mut remarks = Vec::new();
    for (kind, &flag) in wanted.iter().filter(|(_, flag)| is_recorded(asked.family, flag)) {
        let (text, decides) = match found.get(kind) {
            Some(other) if same(flag, other) => continue,
            Some(&other) => (format!("asked for {flag}, got {other}"), Some(other)),
            None => (format!("asked for {flag}, which is missing"), None),
        };
        remarks.push(Remark {
            verdict: Verdict::Mismatch,
            text,
            flag: decides.unwrap_or(flag).to_owned(),
            there: decides.is_some(),
            asked: true,
        });
    }
    for (kind, &flag) in found {
        let by_option = asked.lto_by_option && flag.contains("lto");
        if wanted.contains_key(kind) || !changes_code(flag) || by_option {
            continue;
        }
        let (verdict, text) = match case.allowed.iter().find(|rule| rule.covers(name, flag)) {
            Some(rule) if rule.why.is_empty() => continue,
            Some(rule) => (Verdict::Explained, format!("{flag}: {}", rule.why)),
            None => (Verdict::Mismatch, format!("{flag} was not asked for")),
        };
        remarks.push(Remark { verdict, text, flag: flag.to_owned(), there: true, asked: false });
    }
    remarks
}

/// Adds to a mismatch who gave the flag, where the log tells: the build system's own call, or only
/// the compiler behind it.
fn told(case: &Case<'_>, remark: Remark, calls: &[&Call]) -> (Verdict, String) {
    let Remark { verdict, text, flag, there, asked } = remark;
    if verdict != Verdict::Mismatch || calls.is_empty() {
        return (verdict, text);
    }
    let gives = |call: &&Call| {
        let given = effective(&call.words);
        kind(&flag).and_then(|kind| given.get(&kind).copied()).is_some_and(|last| same(last, &flag))
    };
    let given = calls.iter().any(gives);
    let text = match (there, given, case.script) {
        (true, true, _) => format!("{text} (the project's own call gives it)"),
        (true, false, Some(script)) => {
            format!("{text} (no call gives it: the compiler `{script}`, a script, adds it)")
        }
        // Its specs say so, which are part of what identifies it.
        (true, false, None) if !asked => {
            return (Verdict::Explained, format!("{flag}: a default of this compiler"));
        }
        (true, false, None) => format!("{text} (no call gives it)"),
        (false, true, Some(script)) => {
            format!("{text} (the calls give it: the compiler `{script}`, a script, drops it)")
        }
        (false, true, None) => format!("{text} (the calls give it)"),
        (false, false, _) => format!("{text} (the project's own calls lack it)"),
    };
    (verdict, text)
}

fn first_words(producer: &str) -> String {
    producer.split_whitespace().take(4).collect::<Vec<_>>().join(" ")
}
