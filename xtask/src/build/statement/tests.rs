//! A manifest is written and read again, and what is none says so.

use super::*;
use crate::audit::judge::{Report, Verdict};
use crate::build::manifest::SectionDone;
use crate::build::spec::tests::spec;
use crate::matrix::model::Origin;

/// A manifest with one of everything, for tests.
pub(crate) fn manifest() -> Manifest {
    let mut spec = spec(&["-g1", "-O2"]);
    let sha256 = Digest::of(b"archive");
    let origins = vec![Origin::Https("https://example.org/a.tar.bz2".to_owned())];
    spec.source.kind = SourceKind::Archive { sha256, origins };
    let mut toolchain = spec.toolchain.clone().expect("it has one");
    toolchain.files = vec![("/usr/bin/gcc".into(), Digest::of(b"cc"))];
    let patch = b"why\n--- a/x\n\xff".to_vec();
    Manifest {
        tool: "0.1.0".to_owned(),
        tool_revision: Some("0123abc-dirty".to_owned()),
        name: spec.name.clone(),
        id: spec.id,
        settings: spec.settings.clone(),
        source: SourceDone {
            name: "pg1518".to_owned(),
            engine: spec.source.engine,
            version: "15.18".to_owned(),
            kind: spec.source.kind.clone(),
            patches: vec![PatchDone {
                path: "postgres/pg1518/001-x.patch".to_owned(),
                sha256: Digest::of(&patch),
                content: patch,
            }],
        },
        inputs: spec.inputs(),
        toolchain,
        canonical_paths: true,
        environment: vec![("TZ".to_owned(), "UTC".to_owned())],
        steps: vec![StepDone {
            name: "configure".to_owned(),
            words: vec!["/mnt/src/configure".to_owned(), "CFLAGS=-g1 -O2".to_owned()],
            cwd: "/mnt/obj".into(),
            seconds: 1.25,
            cpu_seconds: Some(2.5),
            peak_mib: None,
        }],
        host: HostDone { arch: "x86_64".to_owned(), ..HostDone::default() },
        started: "2026-01-01T00:00:00Z".to_owned(),
        finished: "2026-01-01T00:05:00Z".to_owned(),
        receipt: "postgres (PostgreSQL) 15.18".to_owned(),
        tree: Digest::of(b"tree"),
        files: vec![FileDone {
            path: "bin/postgres".to_owned(),
            mode: "0755".to_owned(),
            size: 7,
            sha256: Digest::of(b"file"),
        }],
        binaries: vec![BinaryDone {
            path: "bin/postgres".to_owned(),
            sections: vec![SectionDone {
                name: ".text".to_owned(),
                loaded: true,
                size: 7,
                sha256: "0".repeat(32),
            }],
        }],
        configuration: vec![("pg_config.h:HAVE_X".to_owned(), "1".to_owned())],
        audit: Some(Report {
            verdict: Verdict::AsAsked,
            findings: Vec::new(),
            units: 1,
            text_bytes: 7,
        }),
    }
}

#[test]
fn what_is_written_is_read() {
    let manifest = manifest();
    let text = text(&manifest).expect("written");
    assert_eq!(parse(&text).expect("read"), manifest);
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["_type"], STATEMENT);
    assert_eq!(value["subject"][0]["name"], "bin/postgres");
    assert_eq!(value["subject"][0]["digest"]["sha256"], Digest::of(b"file").to_string());
    // One file, one line.
    assert!(text.lines().any(|line| line.contains("\"bin/postgres\"") && line.contains("mode")));
    let again = super::text(&parse(&text).expect("read")).expect("written");
    assert_eq!(again, text);
}

#[test]
fn what_is_no_manifest_says_so() {
    let good = text(&manifest()).expect("written");
    let told = |text: &str| format!("{:#}", parse(text).expect_err("refused"));
    assert!(told("{").contains("not JSON"));
    assert!(told("{}").contains("no manifest"));
    assert!(told("{\"schema\": 1}").contains("older"));
    assert!(told(&good.replace(":build:2", ":build:3")).contains("schema 3"));
    assert!(told(&good.replace("\"receipt\"", "\"deceit\"")).contains("no receipt"));
    let patch = BASE64.encode(b"why\n--- a/x\n\xff");
    assert!(told(&good.replace(&patch, "YWJj")).contains("does not have the hash"));
    for cut in [good.len() / 4, good.len() / 2, good.len() - 3] {
        assert!(told(&good[..cut]).contains("not JSON"));
    }
}
