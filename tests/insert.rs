//! The insert benchmark as a workload, on an installed PostgreSQL and an installed MariaDB.

use crate::support::Project;

const STEPS: [&str; 6] = ["l.i0", "l.x", "l.i1", "l.i2", "qr50", "qp50"];

fn matrix(engine: &str, prefix: &str, lines: &str) -> String {
    format!(
        r#"
schema = 1
[source.server]
engine = "{engine}"
prefix = "{prefix}"
[config.a]
engine = "{engine}"
{lines}
[config.b]
inherits = "a"
[workload.w]
kind = "insert-benchmark"
rows = 4000
write-rows = 1000
rates = [50]
read-seconds = 1
patience-seconds = 5
[experiment.e]
sources = ["server"]
configs = ["a", "b"]
workload = "w"
base = "server.a"
repeats = 1
same-code = "aa"
"#
    )
}

#[test]
fn every_step_is_measured_and_compared_and_rates_are_judged() {
    for (engine, prefix, lines) in [
        ("postgres", "/usr/lib/postgresql/15", "postgresql = { fsync = false }"),
        ("mariadb", "/usr", "mysqld = { innodb_flush_log_at_trx_commit = 2 }"),
    ] {
        let project = Project::with_matrix(&matrix(engine, prefix, lines));
        let called = project.ok(&["bench", "e"]);
        assert!(called.stderr.contains("runs: 12 measured, 0 failed"), "{}", called.stderr);
        let records = project.records("e");
        let mut seen = Vec::new();
        for record in &records {
            let name = record["microbenchmark"].as_str().expect("a name");
            let sample = &record["outcome"];
            let operations = |stream: &str| {
                let streams = sample["streams"].as_array().expect("streams");
                let found = streams.iter().find(|it| it["name"] == stream);
                found.map_or(0, |it| it["operations"].as_u64().expect("a number"))
            };
            match name {
                "l.i0" => assert_eq!(operations("insert"), 4000),
                "l.i1" => assert_eq!((operations("insert"), operations("delete")), (800, 800)),
                "l.i2" => assert_eq!((operations("insert"), operations("delete")), (200, 200)),
                "qr50" | "qp50" => {
                    assert!(operations("query") > 10, "{sample}");
                    assert_eq!(sample["rate"]["asked"], 50.0);
                }
                _ => {}
            }
            assert_eq!(sample["maintained"].is_object(), name == "l.i2", "{engine} {name}");
            assert!(sample["sizes"]["data-kib"].as_f64().expect("a size") > 100.0);
            seen.push(name);
        }
        assert_eq!(seen[..6], STEPS, "{engine}");
        let shown = project.ok(&["compare", "e", "--format", "json"]).stdout;
        let json: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        let rows = json["hosts"][0]["rows"].as_array().expect("rows");
        let metrics: Vec<&str> =
            rows.iter().map(|row| row["metric"]["name"].as_str().expect("a name")).collect();
        let write = ["inserts", "insert-p99"];
        let read = ["queries", "query-p99"];
        let expected = [&write[..], &["seconds"], &write, &write, &read, &read].concat();
        assert_eq!(metrics, expected, "{engine}");
        let again = project.ok(&["bench", "e", "--only", "qr50"]);
        assert!(again.stderr.contains("runs: all there already"), "{}", again.stderr);
    }
}

#[test]
fn a_rate_that_no_server_holds_is_marked_and_a_failed_step_fails_the_rest() {
    let lines = "postgresql = { fsync = false }";
    let text = matrix("postgres", "/usr/lib/postgresql/15", lines);
    let fast = text.replace("rates = [50]", "rates = [1000000]").replace("4000", "1000");
    let project = Project::with_matrix(&fast);
    project.ok(&["bench", "e"]);
    let text = project.ok(&["compare", "e"]).stdout;
    assert!(text.contains("did not hold the rate in block 1"), "{text}");

    // No room for a hundred thousand rows: the load fails, and with it what needs it.
    let full = fast.replace(
        "fsync = false",
        "fsync = false, temp_file_limit = 1, \
                             default_transaction_read_only = true",
    );
    project.write("matrix.toml", &full);
    let called = project.call(&["bench", "e"]);
    assert_eq!(called.code, Some(1), "{}", called.stderr);
    assert!(called.stderr.contains("an earlier step of the insert benchmark failed"), "{called:?}");
}

#[test]
fn mistakes_are_told_in_their_places() {
    let text = matrix("postgres", "/usr/lib/postgresql/15", "")
        .replace("rates = [50]", "rates = [50, 50]\nrow-count = 3")
        .replace("read-seconds = 1", "read-seconds = 0");
    let project = Project::with_matrix(&text);
    let called = project.call(&["bench", "e"]);
    assert_eq!(called.code, Some(2), "{}", called.stderr);
    for expected in
        ["rate `50` is given twice", "unknown key `row-count`", "`read-seconds` is at least 1"]
    {
        assert!(called.stderr.contains(expected), "{expected}: {}", called.stderr);
    }
}
