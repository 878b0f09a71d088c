//! Views of the comparison, filters and the words of `--only`, by the real binary.

use crate::support::{Project, root};

/// A project with the records of a published result: one run of each target.
fn project() -> Project {
    let project = Project::with_matrix("schema = 1\n");
    let folder = root().join("tests/fixtures/import/sysbench");
    let folder = folder.to_str().expect("text");
    project.ok(&["import", "auto", folder, "--experiment", "old", "--format", "json"]);
    project
}

#[test]
fn dense_has_a_cell_per_target_in_every_format() {
    let project = project();
    for format in ["text", "md", "tsv", "csv"] {
        let called = project.ok(&["compare", "old", "--view", "dense", "--format", format]);
        // One run of each: nothing may be claimed, so every mean is marked.
        let cells: Vec<&str> = called
            .stdout
            .split(|c: char| c.is_whitespace() || c == ',' || c == '|')
            .filter(|word| word.matches("*-").count() + word.matches("/a-").count() == 2)
            .collect();
        assert!(cells.len() >= 2, "{format}: {}", called.stdout);
    }
}

#[test]
fn a_filter_hides_and_never_judges_again() {
    let project = project();
    let value = |args: &[&str]| -> serde_json::Value {
        let called = project.ok(&[&["compare", "old", "--format", "json"], args].concat());
        serde_json::from_str(&called.stdout).expect("JSON")
    };
    let all = value(&[]);
    let host = &all["hosts"][0];
    let target = host["targets"][0].as_str().expect("a target");
    let group = host["groups"][0]["group"].as_str().expect("a group");
    let filters = [format!("target={target}"), format!("group={group}")];
    let some = value(&["--filter", &filters[0], "--filter", &filters[1]]);
    let shown = &some["hosts"][0];
    assert_eq!(shown["targets"], serde_json::json!([target]));
    let rows = shown["rows"].as_array().expect("rows");
    assert!(!rows.is_empty() && rows.len() < host["rows"].as_array().expect("rows").len());
    for row in rows {
        assert_eq!(row["group"], group);
        let before = host["rows"].as_array().expect("rows").iter().find(|other| {
            other["microbenchmark"] == row["microbenchmark"] && other["metric"] == row["metric"]
        });
        assert_eq!(row["cells"][0], before.expect("a row")["cells"][0]);
    }
    for (filter, expected) in [
        ("colour=red", "there is no key `colour`; there are "),
        ("group=red", "`group` is never `red` here; it is "),
        ("group", "is not KEY=VALUE"),
        ("group!=red", "`group` is never `red` here"),
    ] {
        let called = project.call(&["compare", "old", "--filter", filter]);
        assert_eq!(called.code, Some(2), "{}", called.stderr);
        assert!(called.stderr.contains(expected), "{expected}: {}", called.stderr);
    }
}

#[test]
fn only_regressions_says_how_many_are_not_known() {
    let project = project();
    let called = project.ok(&["compare", "old", "--only", "regressions"]);
    assert_eq!(called.stdout, "");
    assert!(called.stderr.contains("no regression is shown; "), "{}", called.stderr);
    assert!(!called.stderr.contains("; 0 entries are undecided"), "{}", called.stderr);
    let called = project.ok(&["compare", "old", "--only", "undecided"]);
    assert!(called.stdout.contains("n=1"), "{}", called.stdout);
}
