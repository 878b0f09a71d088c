//! `audit`: which flags the binaries really got, against what was asked.

use std::io::Write as _;

use crate::audit::judge::{Finding, Report, SHOWN, Verdict, judge};
use crate::audit::{allowed, asked, describe, read_tree};
use crate::build::spec::Spec;
use crate::build::store::Store as Builds;
use crate::cli::{AuditArgs, Common, Format};
use crate::cmd::load::Loaded;
use crate::env::Env;
use crate::exit::{Code, coded};
use crate::matrix::model::SourceKind;
use crate::matrix::pattern::glob_matches;

/// Audits the builds of an experiment that are there.
///
/// # Errors
/// When there is nothing to audit, or a binary cannot be read.
pub fn run(env: &Env, common: &Common, args: &AuditArgs) -> anyhow::Result<Code> {
    let loaded = Loaded::read(env)?;
    let experiment = loaded.experiment(args.experiment.as_deref())?;
    let expansion = loaded.expand(experiment, &common.set)?;
    let selection = loaded.select(common, &expansion)?;
    let builds = Builds::read(env);
    let mut audited = Vec::new();
    for build in 0..expansion.builds() {
        let name = expansion.name(build);
        let wanted = args.build.as_ref().is_none_or(|glob| glob_matches(glob, &name));
        if !wanted || !selection.build(&name) {
            continue;
        }
        let Ok(spec) = expansion.spec(build) else { continue };
        let Some(report) = audit(&builds, &spec)? else {
            env.reporter.line(format!("{name}: not built yet"));
            continue;
        };
        audited.push((name, report));
    }
    if audited.is_empty() {
        let text = "nothing to audit; `cargo xtask build` makes the builds of an experiment";
        return Err(coded(Code::Input, text));
    }
    let mut out = std::io::stdout().lock();
    match args.format {
        Format::Text => {
            for (name, report) in &audited {
                print(&mut out, name, report)?;
            }
        }
        Format::Json => {
            let list: Vec<_> = audited
                .iter()
                .map(|(name, report)| serde_json::json!({ "build": name, "audit": report }))
                .collect();
            writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
        }
    }
    let mismatch = audited.iter().any(|(_, report)| report.verdict == Verdict::Mismatch);
    Ok(if mismatch { Code::CellFailed } else { Code::Done })
}

/// The audit of one build; `None` when it is not there. Of an installed server nothing was asked,
/// so only what it tells of itself can be said.
fn audit(builds: &Builds, spec: &Spec) -> anyhow::Result<Option<Report>> {
    let engine = spec.source.engine;
    let tree = match &spec.source.kind {
        SourceKind::Prefix { path } => path.clone(),
        _ => match builds.tree(spec.id) {
            Some(tree) => tree,
            None => return Ok(None),
        },
    };
    let binaries = read_tree(&tree)?;
    Ok(Some(match asked(spec) {
        Some(asked) => judge(&asked, &binaries, &allowed::allowed(engine, asked.family)),
        None => describe::describe(&binaries),
    }))
}

/// What several binaries have in common, told once; mismatches stay one by one.
fn merged(findings: &[Finding]) -> Vec<Finding> {
    let mut merged: Vec<Finding> = Vec::new();
    for finding in findings {
        let same = merged.iter_mut().find(|other| {
            finding.verdict != Verdict::Mismatch
                && (other.verdict, &other.text) == (finding.verdict, &finding.text)
        });
        match same {
            Some(other) => {
                other.unit_count += finding.unit_count;
                other.text_bytes += finding.text_bytes;
                if !other.binary.ends_with("and others") {
                    other.binary.push_str(" and others");
                }
            }
            None => merged.push(finding.clone()),
        }
    }
    merged
}

fn print(out: &mut dyn std::io::Write, name: &str, report: &Report) -> anyhow::Result<()> {
    let verdict = match report.verdict {
        Verdict::AsAsked => "as asked",
        Verdict::Explained => "as asked, and what the project adds",
        Verdict::Unknown => "unknown: not recorded",
        Verdict::Mismatch => "MISMATCH",
    };
    writeln!(
        out,
        "{name}: {verdict} ({} compile units, {} bytes of code)",
        report.units, report.text_bytes
    )?;
    for finding in &merged(&report.findings) {
        let word = match finding.verdict {
            Verdict::Mismatch => "mismatch ",
            Verdict::Unknown => "unknown  ",
            Verdict::Explained | Verdict::AsAsked => "explained",
        };
        let share = 100.0 * finding.text_bytes as f64 / report.text_bytes.max(1) as f64;
        write!(out, "  {word} {}: {}", finding.binary, finding.text)?;
        writeln!(out, " ({} units, {share:.1}% of all code)", finding.unit_count)?;
        if finding.verdict == Verdict::Mismatch {
            for unit in finding.units.iter().filter(|unit| !unit.is_empty()) {
                writeln!(out, "            {unit}")?;
            }
            if finding.unit_count > SHOWN {
                writeln!(out, "            and {} more", finding.unit_count - SHOWN)?;
            }
        }
    }
    Ok(())
}
