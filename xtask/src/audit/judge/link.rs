//! What only whole binaries and objects tell: link-time optimisation, the linker, frame pointers.

use crate::audit::elf::{Facts, Unit};
use crate::audit::flags::{effective, lto};
use crate::audit::judge::{Asked, Case, Evidence, Finding, Remarks, Verdict};
use crate::audit::log::{Call, shown};
use crate::audit::objects::Object;
use crate::audit::producer::{Compiler, Producer};
use crate::matrix::model::Family;

/// Below this share of functions with a frame pointer, they are certainly omitted.
const OMITTED_BELOW: f64 = 0.02;
/// Above this share they are certainly kept; gcc's leaf functions never set one up.
const KEPT_ABOVE: f64 = 0.30;

/// Judges one binary as a whole; `calls` are those of the log that made its units.
pub(super) fn of_binary(
    case: &Case<'_>,
    binary: &str,
    facts: &Facts,
    calls: &[usize],
    findings: &mut Vec<Finding>,
) {
    let mut remarks = Remarks::new(binary);
    link_time(case, facts, calls, &mut remarks);
    linker(case.asked, facts, &mut remarks);
    frame_pointers(case.asked, facts, &mut remarks);
    findings.extend(remarks.into_findings());
}

/// What asks for link-time optimisation, if anything does.
fn wants_lto(asked: &Asked) -> Option<String> {
    let by_flags = lto(&asked.cflags).or(lto(&asked.cxxflags));
    let by_flags = by_flags.map(|kind| format!("-flto={kind}"));
    by_flags.or_else(|| asked.lto_by_option.then(|| "link-time optimisation".to_owned()))
}

fn link_time(case: &Case<'_>, facts: &Facts, calls: &[usize], remarks: &mut Remarks<'_>) {
    let link_units = facts
        .units
        .iter()
        .any(|unit| Producer::parse(&unit.producer).compiler == Compiler::GccLink);
    let traces = link_units || facts.lto_private + facts.thin_promoted > 0 || facts.full_lto;
    let Some(wanted) = wants_lto(case.asked) else {
        if traces {
            let text = "link-time optimisation happened and was not asked for".to_owned();
            remarks.add(Verdict::Mismatch, Evidence::Code, text, "", facts.text_bytes);
        }
        return;
    };
    // A unit that the link made code of has none of its own: its code belongs to the link's units.
    let own_code = |unit: &&Unit| {
        unit.text_bytes > 0 && Producer::parse(&unit.producer).compiler == Compiler::Gcc
    };
    let mut left_out = 0;
    for unit in facts.units.iter().filter(own_code) {
        let text = format!(
            "{wanted} was asked for, but did not happen for these files: the linker took their machine code (an archiver or a linker without the compiler's plug-in)"
        );
        remarks.add(Verdict::Mismatch, Evidence::Producer, text, &unit.name, unit.text_bytes);
        left_out += 1;
    }
    // With nothing but intermediate code to link, there is no other way to a program. Without
    // debug information nobody knows which objects are in this one: then all of the build count.
    let of_this = |index: usize| calls.is_empty() || calls.contains(&index);
    let objects: Vec<Object> = case
        .log
        .into_iter()
        .flat_map(|log| log.calls.iter().enumerate())
        .filter(|(index, _)| of_this(*index))
        .filter_map(|(_, call)| call.object)
        .collect();
    let proven = !objects.is_empty() && objects.iter().all(|object| object.is_only_intermediate());
    if !traces && left_out == 0 && !proven {
        let text = format!("{wanted} was asked for, but nothing shows that it happened");
        // gcc's link makes units of its own, and renames functions in all but small libraries. What
        // clang's ThinLTO renames are functions that another object uses, perhaps none.
        let renames = case.asked.family == Family::Gcc && facts.frames.functions >= 100;
        let tells = renames || !objects.is_empty();
        let verdict = if tells { Verdict::Mismatch } else { Verdict::Unknown };
        remarks.add(verdict, Evidence::Code, text, "", facts.text_bytes);
    }
}

/// The linker that signs in `.comment`; GNU's own do not. Distributions put their name before it:
/// `Linker: Debian LLD 14.0.6`.
fn signed(facts: &Facts) -> Option<&'static str> {
    facts.comments.iter().find_map(|line| match line.strip_prefix("Linker: ") {
        Some(rest) => rest.split_whitespace().any(|word| word == "LLD").then_some("lld"),
        None => line.starts_with("mold ").then_some("mold"),
    })
}

fn linker(asked: &Asked, facts: &Facts, remarks: &mut Remarks<'_>) {
    let wanted = asked.ldflags.iter().rev().find_map(|flag| flag.strip_prefix("-fuse-ld="));
    let signs = |name: &&str| ["lld", "mold"].contains(name);
    let text = match (wanted.filter(signs), signed(facts)) {
        (None, Some(found)) => format!("linked by {found}, not asked for"),
        (Some(wanted), None) => format!("not linked by {wanted} as asked"),
        (Some(wanted), Some(found)) if wanted != found => {
            format!("linked by {found}, asked for {wanted}")
        }
        _ => return,
    };
    remarks.add(Verdict::Mismatch, Evidence::Code, text, "", facts.text_bytes);
}

/// What was asked of the linker must be in each link of the build; and clang's LTO optimises there,
/// so that the level of the link counts, too.
pub(super) fn of_links(case: &Case<'_>, findings: &mut Vec<Finding>) {
    let Some(log) = case.log else { return };
    let asked = case.asked;
    let optimises = asked.family == Family::Clang && wants_lto(asked).is_some();
    let level = effective(&asked.cflags).remove("-O").filter(|_| optimises);
    let mut remarks = Remarks::new("");
    for link in &log.links {
        let mut add = |text: String| {
            remarks.add(Verdict::Mismatch, Evidence::Log, text, &shown(&link.output), 0);
        };
        for flag in asked.ldflags.iter().filter(|flag| !link.words.contains(flag)) {
            add(format!("asked for {flag} at the link, where it is missing"));
        }
        if let Some(level) = level {
            match effective(&link.words).get("-O") {
                Some(&found) if found == level => {}
                Some(found) => add(format!(
                    "asked for {level}, and the link, where clang optimises, got {found}"
                )),
                None => add(format!(
                    "asked for {level}, and the link, where clang optimises, got no level"
                )),
            }
        }
    }
    findings.extend(remarks.into_findings());
}

/// Frame pointers are proven in the code; a flag alone proves nothing.
fn frame_pointers(asked: &Asked, facts: &Facts, remarks: &mut Remarks<'_>) {
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
    remarks.add(Verdict::Mismatch, Evidence::Code, text, "", facts.text_bytes);
}

/// Holds the objects of the build against what was asked: intermediate code in each or in none.
pub(super) fn of_objects(case: &Case<'_>, findings: &mut Vec<Finding>) {
    let Some(log) = case.log else { return };
    let wanted = wants_lto(case.asked);
    let mut remarks = Remarks::new("");
    let known = |call: &&Call| call.object.is_some();
    for call in log.calls.iter().filter(known) {
        let Some(object) = call.object else { continue };
        // What the flags of the call already say is told as their mismatch.
        let called = lto(&call.words).is_some();
        let text = match &wanted {
            Some(wanted) if !object.intermediate => format!(
                "{wanted} was asked for, but the compiler wrote no intermediate code for these \
                 files"
            ),
            None if object.intermediate && !called => {
                let who = case.script.map_or("the compiler".to_owned(), |path| format!("`{path}`"));
                format!("{who} wrote intermediate code, which nobody asked for")
            }
            _ => continue,
        };
        let bytes = object.text_bytes;
        remarks.add(Verdict::Mismatch, Evidence::Code, text, &call.shown(), bytes);
    }
    findings.extend(remarks.into_findings());
    fat_clang(case, findings);
}

/// clang's fat objects leave it to the linker which code it takes, and nothing in a program tells.
fn fat_clang(case: &Case<'_>, findings: &mut Vec<Finding>) {
    let Some(log) = case.log.filter(|_| case.asked.family == Family::Clang) else { return };
    if wants_lto(case.asked).is_none() {
        return;
    }
    let mut remarks = Remarks::new("");
    for call in &log.calls {
        if let Some(object) = call.object
            && object.intermediate
            && !object.is_only_intermediate()
        {
            let text = "these objects have both intermediate and machine code; which of them the linker took cannot be known".to_owned();
            let (unit, bytes) = (call.shown(), object.text_bytes);
            remarks.add(Verdict::Unknown, Evidence::Code, text, &unit, bytes);
        }
    }
    findings.extend(remarks.into_findings());
}
