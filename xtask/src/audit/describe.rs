//! What can and cannot be known of a server that others built: nothing was asked, so nothing can be
//! wrong; what its binaries tell is said, and what they do not tell is said, too. Pure; what the
//! server and its package say of themselves comes from [`super::installed`].

use crate::audit::elf::Facts;
use crate::audit::judge::{Evidence, Finding, Report, Verdict};
use crate::audit::producer::Producer;

/// Describes binaries, the server first and what belongs to it as a whole, with what is claimed.
pub fn describe(binaries: &[(String, Facts)], claims: &[String]) -> Report {
    let mut findings = Vec::new();
    let mut rest = binaries.iter();
    if let Some((name, facts)) = rest.next() {
        findings.extend(of_one(name, facts));
    }
    let claim = |text: &String| Finding::of_build(Verdict::Unknown, Evidence::Claim, text.clone());
    findings.extend(claims.iter().map(claim));
    if let Some((name, facts)) = together(rest.as_slice()) {
        findings.extend(of_one(&name, &facts));
    }
    Report {
        verdict: Verdict::Unknown,
        // In the order of what is asked first: not sorted.
        findings,
        units: binaries.iter().map(|(_, facts)| facts.units.len()).sum(),
        text_bytes: binaries.iter().map(|(_, facts)| facts.text_bytes).sum(),
    }
}

/// Modules are many and small: their facts as those of one.
fn together(binaries: &[(String, Facts)]) -> Option<(String, Facts)> {
    let ((first, facts), rest) = binaries.split_first()?;
    let mut all = facts.clone();
    for (_, facts) in rest {
        for line in &facts.comments {
            if !all.comments.contains(line) {
                all.comments.push(line.clone());
            }
        }
        all.units.extend(facts.units.iter().cloned());
        all.frames.functions += facts.frames.functions;
        all.frames.by_frame_pointer += facts.frames.by_frame_pointer;
        all.lto_private += facts.lto_private;
        all.thin_promoted += facts.thin_promoted;
        all.full_lto |= facts.full_lto;
        all.text_bytes += facts.text_bytes;
        let (sum, one) = (&mut all.hardening, facts.hardening);
        sum.relocatable &= one.relocatable;
        sum.bind_now &= one.bind_now;
        // Small modules have nothing in them that these would change.
        sum.stack_protector |= one.stack_protector;
        sum.fortified += one.fortified;
    }
    let name = match rest.len() {
        0 => first.clone(),
        more => format!("{first} and {more} more"),
    };
    Some((name, all))
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
    texts.extend(hardening(facts));
    texts
        .into_iter()
        .map(|text| Finding {
            verdict: Verdict::Unknown,
            text,
            evidence: Evidence::Code,
            binary: binary.to_owned(),
            units: Vec::new(),
            unit_count: facts.units.len(),
            text_bytes: facts.text_bytes,
        })
        .collect()
}

/// The hardening flags that show in the file, as one line.
fn hardening(facts: &Facts) -> Option<String> {
    let found = facts.hardening;
    let mut words = Vec::new();
    if found.stack_protector {
        words.push("-fstack-protector (which of its forms is not known)".to_owned());
    }
    if found.fortified > 0 {
        words.push(format!("-D_FORTIFY_SOURCE ({} checked functions)", found.fortified));
    }
    if found.bind_now {
        words.push("-Wl,-z,now".to_owned());
    }
    if found.relocatable {
        words.push("position-independent code".to_owned());
    }
    (!words.is_empty()).then(|| format!("hardened: {}", words.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::elf::{Frames, Hardening};

    #[test]
    fn a_stripped_binary_tells_little_and_says_so() {
        let facts = Facts {
            comments: vec!["GCC: (Debian 12.2.0) 12.2.0".to_owned()],
            frames: Frames { functions: 1000, by_frame_pointer: 840 },
            hardening: Hardening { stack_protector: true, bind_now: true, ..Default::default() },
            ..Facts::default()
        };
        let claims = ["the package says 15.18".to_owned()];
        let module =
            Facts { frames: Frames { functions: 10, by_frame_pointer: 1 }, ..Facts::default() };
        let binaries = [
            ("bin/postgres".to_owned(), facts),
            ("lib/a.so".to_owned(), module.clone()),
            ("lib/b.so".to_owned(), module),
        ];
        let report = describe(&binaries, &claims);
        assert_eq!(report.verdict, Verdict::Unknown);
        let texts: Vec<_> = report.findings.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "made by GCC: (Debian 12.2.0) 12.2.0",
                "no debug information: its flags cannot be known from the file",
                "84% of the functions have a frame pointer",
                "no trace of link-time optimisation, which a stripped file would not show",
                "hardened: -fstack-protector (which of its forms is not known), -Wl,-z,now",
                "the package says 15.18",
                "no .comment section: its compiler is not known",
                "no debug information: its flags cannot be known from the file",
                "10% of the functions have a frame pointer",
                "no trace of link-time optimisation, which a stripped file would not show",
            ]
        );
        assert_eq!(report.findings[6].binary, "lib/a.so and 1 more");
        assert_eq!(report.findings[5].evidence, Evidence::Claim);
    }
}
