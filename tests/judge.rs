//! What the audit and the one-axis check have to say about runs, and targets with the same code: by
//! the real binary, with an installed PostgreSQL in the place of what the stand-in would build.

use std::path::PathBuf;

use xtask::audit::judge::{Finding, Report, Verdict};
use xtask::build::manifest::{BinaryDone, Manifest, SectionDone, list, tree_digest};
use xtask::hash::Digest;

use crate::support::Project;

const INSTALLED: &str = "/usr/lib/postgresql/15";

/// Four builds: two levels, each twice, the second time with a variable that nothing reads.
fn project(same_code: &str) -> Project {
    let project = Project::new();
    let sha256 = project.pack("tiny-pg", "tiny-15.99.tar.gz");
    let matrix = format!(
        r#"
schema = 1
default-experiment = "e"
[source.tiny]
engine = "postgres"
version = "15.99"
sha256 = "{sha256}"
origins = ["file:tiny-15.99.tar.gz"]
[axis.toolchain]
gcc = {{ tag = "" }}
[axis.opt]
o2 = {{ tag = "o2", flags = ["-g1", "-O2"] }}
o3 = {{ tag = "o3", flags = ["-g1", "-O3"] }}
[axis.again]
no = {{ tag = "" }}
yes = {{ tag = "again", env = {{ NOBODY_READS_THIS = "1" }} }}
[config.small]
engine = "postgres"
postgresql = {{ shared_buffers = "16MB", fsync = false }}
[workload.short]
kind = "sysbench"
rows = 1000
microbenchmarks = ["point-query"]
warmup-seconds = 0.1
read-seconds = 1
write-seconds = 1
[experiment.e]
sources = ["tiny"]
cross = {{ opt = ["o2", "o3"], again = ["no", "yes"] }}
configs = ["small"]
workload = "short"
base = "tiny_o2.small"
repeats = 1
{same_code}
"#
    );
    project.write("matrix.toml", &matrix);
    project.ok(&["build"]);
    project
}

/// The folder of a build and its manifest in the results.
fn places(project: &Project, name: &str) -> (PathBuf, PathBuf) {
    let of = |folder: &str| {
        let entries = std::fs::read_dir(project.path(folder)).expect("a folder").flatten();
        let mut found = entries.map(|entry| entry.path()).filter(|path| {
            let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
            // `tiny_o2-` and twelve digits, not `tiny_o2_again-`, nor what lies beside a manifest.
            let of_it = file.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
            of_it && !file.ends_with(".functions.gz")
        });
        found.next().unwrap_or_else(|| panic!("no `{name}` in {folder}"))
    };
    (of("work/builds"), of("results/manifests"))
}

/// Changes what is written down about a build, in both places.
fn change(project: &Project, name: &str, change: impl FnOnce(&mut Manifest)) {
    let (folder, result) = places(project, name);
    let mut manifest = Manifest::read(&folder.join("manifest.json")).expect("a manifest");
    change(&mut manifest);
    let text = manifest.text().expect("written");
    std::fs::write(folder.join("manifest.json"), &text).expect("written");
    std::fs::write(result, text).expect("written");
}

/// Puts the installed server into the place of a build, with sections that say that its code is
/// `code`, and an audit that has nothing against it.
fn disguise(project: &Project, name: &str, code: &str) {
    let tree = places(project, name).0.join("tree");
    std::fs::remove_dir_all(&tree).expect("removed");
    std::fs::create_dir(&tree).expect("made");
    for part in ["bin", "lib"] {
        let target = format!("{INSTALLED}/{part}");
        std::os::unix::fs::symlink(target, tree.join(part)).expect("linked");
    }
    let section = |name: &str, content: &str| SectionDone {
        name: name.to_owned(),
        loaded: true,
        size: 7,
        sha256: Digest::of(content.as_bytes()).to_string()[..32].to_owned(),
    };
    change(project, name, |manifest| {
        manifest.files = list(&tree).expect("listed");
        manifest.tree = tree_digest(&manifest.files);
        let sections = vec![section(".text", code), section(".note.gnu.build-id", name)];
        manifest.binaries = vec![BinaryDone { path: "bin/postgres".to_owned(), sections }];
        manifest.configuration = Vec::new();
        manifest.audit = None;
    });
}

fn disguised(same_code: &str) -> Project {
    let project = project(same_code);
    for (name, code) in
        [("tiny_o2", "a"), ("tiny_o2_again", "a"), ("tiny_o3", "b"), ("tiny_o3_again", "b")]
    {
        disguise(&project, name, code);
    }
    project
}

fn mismatch() -> Report {
    let finding = Finding {
        verdict: Verdict::Mismatch,
        text: "asked for -O3, got -O1".to_owned(),
        evidence: Default::default(),
        binary: "bin/postgres".to_owned(),
        units: vec!["main.c".to_owned()],
        unit_count: 1,
        text_bytes: 10,
    };
    Report { verdict: Verdict::Mismatch, findings: vec![finding], units: 10, text_bytes: 100 }
}

/// Targets of the measured records, in their order, and whether each is marked.
fn records(project: &Project) -> Vec<(String, bool)> {
    let Ok(folder) = std::fs::read_dir(project.path("results/records/e")) else {
        return Vec::new();
    };
    let file = folder.flatten().next().expect("a file").path();
    let text = std::fs::read_to_string(file).expect("records");
    text.lines()
        .map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).expect("a record");
            assert_eq!(record["outcome"]["status"], "ok", "{line}");
            (record["target"].as_str().expect("a name").to_owned(), !record["audit"].is_null())
        })
        .collect()
}

fn targets(project: &Project) -> Vec<String> {
    let mut names: Vec<String> = records(project).into_iter().map(|(name, _)| name).collect();
    names.sort();
    names
}

#[test]
fn a_mismatch_stops_the_benchmark_of_its_build_and_marks_allowed_runs_for_ever() {
    let project = disguised("same-code = \"aa\"");
    for name in ["tiny_o3", "tiny_o3_again"] {
        change(&project, name, |manifest| manifest.audit = Some(mismatch()));
    }
    let plan = project.ok(&["plan"]).stdout;
    assert!(plan.contains("tiny_o3.small: not measured: its binaries are not"), "{plan}");

    let stopped = project.call(&["bench"]);
    assert_eq!(stopped.code, Some(1), "{}", stopped.stderr);
    let reason = "tiny_o3.small: left out: its binaries are not what was asked for: bin/postgres: \
                  asked for -O3, got -O1 (1 units, 10.0% of all code); `cargo xtask audit \
                  'tiny_o3'` tells all, `--allow-mismatch='tiny_o3'` measures it all the same";
    assert!(stopped.stderr.contains(reason), "{}", stopped.stderr);
    assert_eq!(targets(&project), ["tiny_o2.small", "tiny_o2_again.small"]);

    let slip = project.call(&["bench", "--allow-mismatch=tiny_o4"]);
    assert_eq!(slip.code, Some(2), "{}", slip.stderr);
    assert!(slip.stderr.contains("matches no build and no target"), "{}", slip.stderr);

    let allowed = project.call(&["bench", "--allow-mismatch=tiny_o3"]);
    assert_eq!(allowed.code, Some(1), "the other one is still left out: {}", allowed.stderr);
    assert!(allowed.stderr.contains("its rows are marked for ever"), "{}", allowed.stderr);
    let marked: Vec<_> = records(&project).into_iter().filter(|(_, marked)| *marked).collect();
    assert_eq!(marked, [("tiny_o3.small".to_owned(), true)]);

    // Whatever is said of the build later, its rows stay marked, in every format.
    change(&project, "tiny_o3", |manifest| manifest.audit = None);
    let wrong = "`tiny_o3.small` is NOT what was asked for: bin/postgres: asked for -O3, got -O1";
    for format in ["text", "tsv", "json"] {
        let shown = project.ok(&["compare", "--format", format]).stdout;
        let line = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(line.contains(wrong), "{format}: {shown}");
        assert!(!line.contains("`tiny_o2_again.small` is NOT"), "{format}: {shown}");
    }
}

#[test]
fn a_base_that_is_not_what_was_asked_for_stops_all() {
    let project = disguised("");
    change(&project, "tiny_o2", |manifest| manifest.audit = Some(mismatch()));
    let stopped = project.call(&["bench"]);
    assert_eq!(stopped.code, Some(1), "{}", stopped.stderr);
    let text = "the base `tiny_o2.small` cannot be measured: its binaries are not what was asked";
    assert!(stopped.stderr.contains(text), "{}", stopped.stderr);
    assert_eq!(targets(&project), [""; 0]);
    let allowed = project.ok(&["bench", "--allow-mismatch"]);
    assert!(allowed.stderr.contains("THE BASE IS NOT WHAT WAS ASKED FOR"), "{}", allowed.stderr);
    let shown = project.ok(&["compare"]).stdout;
    assert!(shown.contains("warning: THE BASE `tiny_o2.small`"), "{shown}");
}

#[test]
fn the_same_code_is_measured_once_unless_pairs_are_wanted() {
    let project = disguised("");
    change(&project, "tiny_o3", |manifest| {
        manifest.configuration = vec![("pg_config.h:USE_SSE42_CRC32C".into(), "1".into())];
    });
    change(&project, "tiny_o2", |manifest| {
        manifest.configuration = vec![("pg_config.h:HAVE_X".into(), "1".into())];
    });
    let plan = project.ok(&["plan"]).stdout;
    let shared = "tiny_o3_again.small: same code and config as tiny_o3.small: measured once";
    assert!(plan.contains(shared) && plan.contains("runs: 2 missing"), "{plan}");

    let bench = project.ok(&["bench"]);
    assert!(bench.stderr.contains("tiny_o2_again.small: same code and config as tiny_o2.small"));
    assert_eq!(targets(&project), ["tiny_o2.small", "tiny_o3.small"]);
    assert!(project.ok(&["bench"]).stderr.contains("runs: all there already"));

    let json = project.ok(&["compare", "--format", "json"]).stdout;
    let shown: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let cells = &shown["hosts"][0]["rows"][0]["cells"];
    let of = |name: &str| {
        let cells = cells.as_array().expect("cells");
        cells.iter().find(|cell| cell["target"] == name).unwrap_or_else(|| panic!("{name}: {json}"))
    };
    assert_eq!(of("tiny_o2_again.small")["result"]["state"], "same-code");
    assert_eq!(of("tiny_o3_again.small")["result"], of("tiny_o3.small")["result"]);
    assert_eq!(of("tiny_o3.small")["result"]["state"], "single");
    let text = project.ok(&["compare"]).stdout;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(line.contains("`tiny_o3_again.small` has the same code and config as"), "{text}");
    let besides = "`tiny_o3.small` besides opt=o3: pg_config.h HAVE_X undefined instead of 1, \
                   pg_config.h USE_SSE42_CRC32C 1 instead of undefined";
    assert!(line.contains(besides), "{text}");

    // As pairs: what was not measured is, and its own numbers are shown from then on.
    project.ok(&["bench", "--aa"]);
    let measured = targets(&project);
    for name in ["tiny_o2_again.small", "tiny_o3_again.small"] {
        assert!(measured.iter().any(|target| target == name), "{measured:?}");
    }
    let text = project.ok(&["compare"]).stdout;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(line.contains("A/A pair: `tiny_o2_again.small` has the same code"), "{text}");
}

#[test]
fn a_check_that_lacks_its_manifest_says_so() {
    let project = disguised("");
    project.ok(&["bench", "--only", "tiny_o3"]);
    std::fs::remove_file(places(&project, "tiny_o3").1).expect("removed");
    let text = project.ok(&["compare"]).stdout;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let lacks =
        "between `tiny_o3.small` and the base could not be checked: no manifest of `tiny_o3`";
    assert!(line.contains(lacks), "{text}");
}
