//! What can and cannot be known of a server that others built: nothing was asked, so nothing can be
//! wrong; what its binaries tell is said, and what they do not tell is said, too. Pure.

use crate::audit::elf::Facts;
use crate::audit::judge::{Finding, Report, Verdict};
use crate::audit::producer::Producer;

/// Describes binaries.
pub fn describe(binaries: &[(String, Facts)]) -> Report {
    let findings: Vec<Finding> =
        binaries.iter().flat_map(|(name, facts)| of_one(name, facts)).collect();
    Report {
        verdict: Verdict::Unknown,
        findings,
        units: binaries.iter().map(|(_, facts)| facts.units.len()).sum(),
        text_bytes: binaries.iter().map(|(_, facts)| facts.text_bytes).sum(),
    }
}

fn of_one(binary: &str, facts: &Facts) -> Vec<Finding> {
    let mut texts = Vec::new();
    let compilers = facts.comments.join("; ");
    texts.push(if compilers.is_empty() {
        "no .comment section: its compiler is not known".to_owned()
    } else {
        format!("made by {compilers}")
    });
    let mut levels: Vec<String> = Vec::new();
    for unit in &facts.units {
        let level = Producer::parse(&unit.producer).level().unwrap_or("unknown").to_owned();
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    texts.push(if facts.units.is_empty() {
        "no debug information: its flags cannot be known from the file".to_owned()
    } else {
        format!("optimisation level: {}", levels.join(", "))
    });
    if facts.frames.functions > 0 {
        let percent = facts.frames.share() * 100.0;
        texts.push(format!("{percent:.0}% of the functions have a frame pointer"));
    }
    texts.push(match (facts.lto_private + facts.thin_promoted, facts.full_lto) {
        (0, false) => {
            "no trace of link-time optimisation, which a stripped file would not show".into()
        }
        _ => "link-time optimisation left its traces".to_owned(),
    });
    texts
        .into_iter()
        .map(|text| Finding {
            verdict: Verdict::Unknown,
            text,
            binary: binary.to_owned(),
            units: Vec::new(),
            unit_count: facts.units.len(),
            text_bytes: facts.text_bytes,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::elf::Frames;

    #[test]
    fn a_stripped_binary_tells_little_and_says_so() {
        let facts = Facts {
            comments: vec!["GCC: (Debian 12.2.0) 12.2.0".to_owned()],
            frames: Frames { functions: 1000, by_frame_pointer: 840 },
            ..Facts::default()
        };
        let report = describe(&[("bin/postgres".to_owned(), facts)]);
        assert_eq!(report.verdict, Verdict::Unknown);
        let texts: Vec<_> = report.findings.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "made by GCC: (Debian 12.2.0) 12.2.0",
                "no debug information: its flags cannot be known from the file",
                "84% of the functions have a frame pointer",
                "no trace of link-time optimisation, which a stripped file would not show",
            ]
        );
    }
}
