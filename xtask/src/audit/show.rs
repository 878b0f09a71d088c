//! A report for people: the worst first, at most a screenful; what is left out is counted.

use std::io::{self, Write};

use crate::audit::judge::{Finding, Report, SHOWN, Verdict};
use crate::matrix::expand::counted;

/// How many lines of findings are printed.
const LINES: usize = 40;

/// What several binaries have in common, told once; mismatches stay one by one.
fn merged(findings: &[Finding]) -> Vec<Finding> {
    let mut merged: Vec<Finding> = Vec::new();
    for finding in findings {
        let same = merged.iter_mut().find(|other| {
            finding.verdict != Verdict::Mismatch
                && (other.verdict, other.evidence) == (finding.verdict, finding.evidence)
                && other.text == finding.text
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

/// Prints a report.
///
/// # Errors
/// When `out` cannot be written.
pub fn text(out: &mut dyn Write, name: &str, report: &Report) -> io::Result<()> {
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
    let merged = merged(&report.findings);
    let mut left = LINES;
    for (index, finding) in merged.iter().enumerate() {
        let lines = lines(finding, report.text_bytes);
        if lines.len() > left {
            let rest = &merged[index..];
            let bad = rest.iter().filter(|finding| finding.verdict == Verdict::Mismatch).count();
            return writeln!(
                out,
                "  and {} more findings, {bad} of them mismatches; `--format json` has all",
                rest.len()
            );
        }
        left -= lines.len();
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    Ok(())
}

/// One finding, its source files on lines of their own.
fn lines(finding: &Finding, all_bytes: u64) -> Vec<String> {
    let word = match finding.verdict {
        Verdict::Mismatch => "mismatch ",
        Verdict::Unknown => "unknown  ",
        Verdict::Explained | Verdict::AsAsked => "explained",
    };
    let (place, evidence) = (finding.place(), finding.evidence.name());
    let mut first = format!("  {word} {place}: {} [{evidence}", finding.text);
    if finding.unit_count > 0 {
        first.push_str(&format!("; {}", counted(finding.unit_count, "units")));
    }
    if finding.text_bytes > 0 {
        let share = 100.0 * finding.text_bytes as f64 / all_bytes.max(1) as f64;
        first.push_str(&format!(", {share:.1}% of all code"));
    }
    first.push(']');
    let mut lines = vec![first];
    if finding.verdict == Verdict::Mismatch {
        lines.extend(finding.units.iter().map(|unit| format!("            {unit}")));
        if finding.unit_count > SHOWN && !finding.units.is_empty() {
            lines.push(format!("            and {} more", finding.unit_count - SHOWN));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::judge::Evidence;

    fn finding(verdict: Verdict, text: &str, units: usize) -> Finding {
        Finding {
            verdict,
            text: text.to_owned(),
            evidence: Evidence::Producer,
            binary: "bin/postgres".to_owned(),
            units: (0..units.min(SHOWN)).map(|index| format!("file{index}.c")).collect(),
            unit_count: units,
            text_bytes: 50,
        }
    }

    fn shown(findings: Vec<Finding>) -> String {
        let mut out = Vec::new();
        let report = Report {
            verdict: findings.first().map_or(Verdict::AsAsked, |worst| worst.verdict),
            findings,
            units: 900,
            text_bytes: 1000,
        };
        text(&mut out, "pg", &report).expect("written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_mismatch_names_its_files() {
        let text = shown(vec![
            finding(Verdict::Mismatch, "asked for -O2, got -O1", 10),
            finding(Verdict::Explained, "-fPIC: libraries need it", 1),
            finding(Verdict::Explained, "-fPIC: libraries need it", 2),
        ]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "pg: MISMATCH (900 compile units, 1000 bytes of code)");
        assert_eq!(
            lines[1],
            "  mismatch  bin/postgres: asked for -O2, got -O1 [debug information; 10 units, 5.0% of all code]"
        );
        assert_eq!((lines[2], lines[10]), ("            file0.c", "            and 2 more"));
        assert!(lines[11].contains("bin/postgres and others: -fPIC") && lines[11].contains("3 un"));
        assert_eq!(lines.len(), 12);
    }

    #[test]
    fn at_most_a_screenful_and_the_rest_is_counted() {
        let many = (0..100).map(|index| finding(Verdict::Mismatch, &format!("no {index}"), 1));
        let text = shown(many.collect());
        assert_eq!(text.lines().count(), 1 + LINES + 1);
        assert!(
            text.ends_with(
                "  and 80 more findings, 80 of them mismatches; `--format json` has all\n"
            )
        );
    }
}
