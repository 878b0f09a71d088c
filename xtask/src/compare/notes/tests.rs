//! Records and manifests that differ in known ways, and the notes that come of them.

use std::collections::BTreeMap;

use super::*;
use crate::audit::judge::Verdict as Judgement;
use crate::build::statement::tests::manifest;
use crate::compare::{CellResult, Options, compare};
use crate::record::testing::record;
use crate::record::{Mark, Record};

/// A record of a target with these settings; its build is named like it.
fn run(target: &str, settings: &[(&str, &str)], block: u32, qps: f64) -> Record {
    let settings =
        settings.iter().map(|(axis, value)| ((*axis).to_owned(), (*value).to_owned())).collect();
    Record { settings, ..record(target, "scan", block, qps) }
}

/// Two blocks of the base and of another target.
fn two(other: &[(&str, &str)], change: &dyn Fn(&mut Record)) -> Comparison {
    let mut records = Vec::new();
    for block in 1..=2 {
        records.push(run("base", &[("opt", "o2"), ("lto", "off")], block, 100.0));
        let mut record = run("t", other, block, 110.0 + f64::from(block));
        change(&mut record);
        records.push(record);
    }
    compare(&records, "base", Options::default()).expect("comparable")
}

/// The manifests of `base` and `t`, by build id.
fn manifests(change: fn(&mut Manifest)) -> BTreeMap<Digest, Rc<Manifest>> {
    let of = |name: &str, settings: &[(&str, &str)]| {
        let mut manifest = manifest();
        manifest.id = Digest::of(name.as_bytes());
        let own = |(axis, value): &(&str, &str)| ((*axis).to_owned(), (*value).to_owned());
        manifest.settings = settings.iter().map(own).collect();
        manifest
    };
    let base = of("base", &[("opt", "o2"), ("lto", "off")]);
    let mut other = of("t", &[("opt", "o3"), ("lto", "off")]);
    change(&mut other);
    [base, other].into_iter().map(|manifest| (manifest.id, Rc::new(manifest))).collect()
}

fn annotated(mut comparison: Comparison, known: &BTreeMap<Digest, Rc<Manifest>>) -> Comparison {
    comparison.annotate(&|name, id| {
        known.get(&id).cloned().ok_or_else(|| format!("no manifest of `{name}`"))
    });
    comparison
}

fn notes(comparison: &Comparison) -> Vec<(&str, NoteKind, &str)> {
    let notes = comparison.hosts[0].notes.iter();
    notes.map(|note| (note.target.as_str(), note.kind, note.text.as_str())).collect()
}

#[test]
fn a_setting_that_explains_all_needs_no_note() {
    let comparison = two(&[("opt", "o3"), ("lto", "off")], &|_| {});
    assert_eq!(notes(&annotated(comparison, &manifests(|_| {}))), []);
}

#[test]
fn what_else_differs_is_a_footnote() {
    let comparison = two(&[("opt", "o3"), ("lto", "off")], &|_| {});
    let known = manifests(|m| {
        m.configuration = vec![("pg_config.h:USE_SSE42_CRC32C".to_owned(), "1".to_owned())];
    });
    let text = "`t` besides opt=o3: pg_config.h HAVE_X undefined instead of 1, pg_config.h \
                USE_SSE42_CRC32C 1 instead of undefined";
    let comparison = annotated(comparison, &known);
    assert_eq!(notes(&comparison), [("t", NoteKind::Besides, text)]);
    assert_eq!(comparison.hosts[0].notes[0].details.len(), 2);
}

#[test]
fn several_axes_and_another_config_are_told() {
    let comparison = two(&[("opt", "o3"), ("lto", "on")], &|record| record.config = "big".into());
    let comparison = annotated(comparison, &manifests(|_| {}));
    let text = "`t` differs from the base in opt, lto and config: which of them makes the \
                difference cannot be told";
    assert_eq!(notes(&comparison), [("t", NoteKind::Axes, text)]);
    // The same build with another config: no manifest is asked for.
    let same_build = |record: &mut Record| {
        record.config = "big".into();
        record.build_id = Digest::of(b"base");
    };
    let comparison = two(&[("opt", "o2"), ("lto", "off")], &same_build);
    assert_eq!(notes(&annotated(comparison, &BTreeMap::new())), []);
}

#[test]
fn another_source_is_an_axis() {
    let comparison = two(&[("opt", "o3"), ("lto", "off")], &|_| {});
    let known = manifests(|m| {
        m.source.name = "pg1610".to_owned();
        m.inputs.recipe = "postgres 9".to_owned();
    });
    let comparison = annotated(comparison, &known);
    let found = notes(&comparison);
    assert!(found[0].2.contains("in source and opt: which"), "{found:?}");
    assert!(found[1].2.starts_with("`t` besides source=pg1610 opt=o3: recipe "), "{found:?}");
}

#[test]
fn a_check_that_could_not_be_made_is_told() {
    let comparison = two(&[("opt", "o3"), ("lto", "off")], &|_| {});
    let found = annotated(comparison, &BTreeMap::new());
    let text = "what else differs between `t` and the base could not be checked: no manifest of \
                `base`";
    assert_eq!(notes(&found), [("t", NoteKind::Unchecked, text)]);
    let installed = two(&[], &|record| record.compiler = None);
    let found = annotated(installed, &manifests(|_| {}));
    assert!(found.hosts[0].notes[0].text.ends_with("`t` was built elsewhere"), "{found:?}");
}

#[test]
fn marked_runs_mark_their_target_for_ever() {
    let mark = |record: &mut Record| {
        // Only one of the runs: the build was mended in between, the records were not.
        if record.block == 1 {
            let findings = vec!["bin/postgres: asked for -O2, got -O1".to_owned()];
            record.audit = Some(Mark { verdict: Judgement::Mismatch, findings, count: 1 });
        }
    };
    let known = manifests(|_| {});
    let comparison = annotated(two(&[("opt", "o3"), ("lto", "off")], &mark), &known);
    let text = "`t` is NOT what was asked for: bin/postgres: asked for -O2, got -O1";
    assert_eq!(notes(&comparison), [("t", NoteKind::Mismatch, text)]);
    // The other way round it is the base, which is said aloud.
    let mut records = Vec::new();
    for block in 1..=3 {
        let mut base = run("base", &[("opt", "o2"), ("lto", "off")], block, 100.0);
        mark(&mut base);
        records.extend([base, run("t", &[("opt", "o3"), ("lto", "off")], block, 110.0)]);
    }
    let comparison = compare(&records, "base", Options::default()).expect("comparable");
    let comparison = annotated(comparison, &known);
    assert_eq!(notes(&comparison)[0].0, "base");
    let warning = &comparison.hosts[0].warnings[0];
    assert_eq!(warning.kind, WarningKind::BaseMismatch);
    assert!(warning.text.contains("THE BASE `base`"), "{}", warning.text);
}

#[test]
fn two_measured_targets_of_one_code_are_an_a_a_pair() {
    let code = Some(Digest::of(b"code"));
    let mut records = Vec::new();
    for block in 1..=5 {
        let jitter = f64::from(block % 2) / 10.0;
        for (target, qps) in [("base", 100.0), ("t", 110.0 + jitter), ("u", 120.0), ("v", 120.0)] {
            let mut record = run(target, &[("opt", target)], block, qps);
            record.code_id = if ["u", "v"].contains(&target) { None } else { code };
            records.push(record);
        }
    }
    let comparison = compare(&records, "base", Options::default()).expect("comparable");
    let comparison = annotated(comparison, &BTreeMap::new());
    let pairs: Vec<_> =
        notes(&comparison).into_iter().filter(|note| note.1 == NoteKind::AaPair).collect();
    assert_eq!(pairs.len(), 1, "unknown code is no equal code: {pairs:?}");
    assert!(pairs[0].2.contains("`t` has the same code and config as `base`"), "{pairs:?}");
    assert!(!notes(&comparison).iter().any(|note| note.0 == "t" && note.1 == NoteKind::Unchecked));
    let warned = comparison.hosts[0].warnings.iter().any(|it| it.kind == WarningKind::AaDifference);
    assert!(warned, "10% between equal servers: {:?}", comparison.hosts[0].warnings);
}

/// What this machine knows of a target, by the record that it would have.
fn known(target: &str, code: &[u8]) -> Made {
    let record = run(target, &[("opt", target)], 1, 1.0);
    Made { code_id: Some(Digest::of(code)), ..Made::of(&record) }
}

#[test]
fn runs_are_shared_by_what_has_the_same_code() {
    let mut records = Vec::new();
    for block in 1..=3 {
        for (target, qps) in [("base", 100.0), ("t", 110.0), ("w", 90.0)] {
            records.push(run(target, &[("opt", target)], block, qps));
        }
    }
    // One run from before the twin was there.
    records.push(run("few", &[("opt", "few")], 1, 50.0));
    let list = [
        known("base", b"a"),
        known("same-as-base", b"a"),
        known("t", b"b"),
        known("same-as-t", b"b"),
        known("few", b"b"),
        known("w", b"c"),
        known("nothing", b"d"),
    ];
    let mut comparison = compare(&records, "base", Options::default()).expect("comparable");
    comparison.share_runs("elsewhere", &list);
    assert_eq!(comparison.hosts[0].targets, ["t", "w", "few"], "only on its own host");
    comparison.share_runs("h", &list);
    let host = &comparison.hosts[0];
    assert_eq!(host.targets, ["t", "same-as-t", "w", "few", "same-as-base"]);
    let made: Vec<_> = host.made.iter().map(|made| made.target.as_str()).collect();
    assert_eq!(made, host.targets);
    let cells = &host.rows[0].cells;
    let names: Vec<_> = cells.iter().map(|cell| cell.target.as_str()).collect();
    assert_eq!(names, host.targets);
    assert_eq!(cells[1].result, cells[0].result);
    assert_eq!(cells[3].result, cells[0].result, "more runs stand for fewer");
    assert_eq!(cells[4].result, CellResult::SameCode);
    assert_eq!(cells[4].result.ratio(), None, "1.000 would look like a measurement");
    assert_eq!(host.groups[0].cells.len(), 5);
    let comparison = annotated(comparison, &BTreeMap::new());
    let told: Vec<_> =
        notes(&comparison).into_iter().filter(|note| note.1 == NoteKind::SameCode).collect();
    let text = |target: &str, with: &str| {
        format!("`{target}` has the same code and config as `{with}`: its runs")
    };
    let wanted =
        [("same-as-t", "t"), ("few", "t"), ("same-as-base", "base")].map(|(a, b)| (a, text(a, b)));
    let found: Vec<_> = told.iter().map(|note| (note.0, note.2.to_owned())).collect();
    assert_eq!(found, wanted);
}
