//! Instructions per operation: counted twice under Valgrind on an installed PostgreSQL.

use crate::support::{Called, Project};

const MATRIX: &str = r#"
schema = 1
[source.distro15]
engine = "postgres"
prefix = "/usr/lib/postgresql/15"
[config.small]
engine = "postgres"
postgresql = { shared_buffers = "32MB", fsync = false }
[workload.short]
kind = "sysbench"
rows = "5k"
microbenchmarks = ["point-query", "random-points_range=1000", "update-nonindex"]
[experiment.count]
sources = ["distro15"]
configs = ["small"]
workload = "short"
base = "distro15.small"
"#;

fn counts(called: &Called) -> Vec<(String, f64, f64)> {
    let json: serde_json::Value = serde_json::from_str(&called.stdout).expect("JSON");
    assert_eq!(json["metric"]["better"], "lower");
    let rows = json["hosts"][0]["rows"].as_array().expect("rows").clone();
    let number =
        |row: &serde_json::Value, name: &str| row["base"][name].as_f64().expect("a number");
    let name = |row: &serde_json::Value| row["microbenchmark"].as_str().expect("a name").to_owned();
    rows.iter().map(|row| (name(row), number(row, "instructions"), number(row, "spread"))).collect()
}

#[test]
fn two_counts_are_equal_and_more_work_is_more_instructions() {
    let project = Project::with_matrix(MATRIX);
    let called = project.ok(&["bench", "count", "--count-instructions=2"]);
    assert!(called.stderr.contains("counts: 6 made, 0 failed"), "{}", called.stderr);
    let shown = project.ok(&["compare", "count", "--count-instructions", "--format", "json"]);
    let counts = counts(&shown);
    let of = |start: &str| {
        let (_, instructions, spread) =
            counts.iter().find(|(name, ..)| name.starts_with(start)).expect("a row");
        assert!(*spread <= 0.001, "{start}: {counts:?}");
        *instructions
    };
    let (point, points) = (of("point-query_"), of("random-points_range=1000"));
    // A thousand rows are looked up in the same index and sent; planning is done before.
    assert!(points > 50.0 * point && points < 1000.0 * point, "{counts:?}");
    assert!(point > 5_000.0 && of("update-nonindex_") > 1.2 * point, "{counts:?}");

    // A second call has nothing to do; no timed run was made.
    let again = project.ok(&["bench", "count", "--count-instructions=2"]);
    assert!(again.stderr.contains("counts: all there already"), "{}", again.stderr);
    assert!(!project.path("results/records").exists());
    let timed = project.call(&["compare", "count"]);
    assert_eq!(timed.code, Some(2), "{}", timed.stderr);
    let text = project.ok(&["compare", "count", "--count-instructions"]).stdout;
    assert!(
        text.contains("lower is better") && text.contains("random-points_range=1000"),
        "{text}"
    );
}
