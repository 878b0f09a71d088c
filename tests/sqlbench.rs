//! sql-bench: a small suite with the options and the lines of the real one, against an installed
//! MariaDB and an installed PostgreSQL.

use crate::support::Project;

fn matrix(project: &Project, engine: &str, prefix: &str, options: &str) -> String {
    let sha256 = project.pack("sql-bench", "suite-1.tar.gz");
    format!(
        r#"
schema = 1
[source.suite]
engine = "mysql"
version = "5.6.51"
sha256 = "{sha256}"
origins = ["file:suite-1.tar.gz"]
[source.server]
engine = "{engine}"
prefix = "{prefix}"
[config.plain]
engine = "{engine}"
[config.other]
engine = "{engine}"
[workload.w]
kind = "sql-bench"
source = "suite"
tests = ["insert", "transactions"]
loop-count = 200
operations = true
options = [{options}]
[experiment.e]
sources = ["server"]
configs = ["plain", "other"]
workload = "w"
base = "server.plain"
repeats = 2
"#
    )
}

#[test]
fn times_of_each_test_and_operation_are_compared_and_less_is_better() {
    for (engine, prefix, options) in [
        ("mariadb", "/usr", "\"--create-options=engine=innodb\""),
        ("postgres", "/usr/lib/postgresql/15", ""),
    ] {
        let project = Project::new();
        project.write("matrix.toml", &matrix(&project, engine, prefix, options));
        let called = project.call(&["bench", "e"]);
        assert_eq!(called.code, Some(1), "a test that skips itself has failed: {}", called.stderr);
        assert!(called.stderr.contains("the test skipped itself"), "{}", called.stderr);
        let shown = project.ok(&["compare", "e", "--format", "json"]).stdout;
        let json: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        let rows = json["hosts"][0]["rows"].as_array().expect("rows");
        let names: Vec<&str> =
            rows.iter().map(|row| row["metric"]["name"].as_str().expect("a name")).collect();
        assert_eq!(names, ["seconds", "insert", "count", "qps"], "{engine}");
        let value = |row: usize| rows[row]["base"]["value"].as_f64().expect("seconds");
        assert!(value(0) >= value(1) + value(2) && value(1) > 0.0, "{engine}: {shown}");
        assert_eq!(rows[0]["metric"]["better"], "lower");
        assert!(rows[0]["cells"][0]["result"]["ratio"].as_f64().expect("a ratio") > 0.0);
        assert_eq!(rows[3]["cells"][0]["result"]["state"], "failed");
        let times = project.ok(&["compare", "e", "--view", "times", "--format", "tsv"]).stdout;
        let line = times.lines().find(|line| line.starts_with("insert seconds\ts\t"));
        let fields: Vec<f64> =
            line.expect("a row").split('\t').skip(2).map(|it| it.parse().expect("one")).collect();
        assert!((fields[1] / fields[0] - fields[2]).abs() < 0.02 * fields[2].max(1.0), "{times}");
        assert_eq!(std::fs::read_dir(project.path("work/sql-bench")).expect("there").count(), 1);
    }
}

#[test]
fn mistakes_name_the_tests_and_a_tree_without_the_suite_is_refused() {
    let project = Project::new();
    let text = matrix(&project, "postgres", "/usr/lib/postgresql/15", "\"--dir={x}\"");
    project.write("matrix.toml", &text.replace("\"insert\"", "\"inserts\""));
    let called = project.call(&["bench", "e"]);
    assert_eq!(called.code, Some(2), "{}", called.stderr);
    assert!(called.stderr.contains("`inserts` is no test of sql-bench"), "{}", called.stderr);
    assert!(called.stderr.contains("did you mean `insert`"), "{}", called.stderr);
    assert!(called.stderr.contains("`{x}` stands for nothing here"), "{}", called.stderr);
    let sha256 = project.pack("tiny-pg", "tree-1.tar.gz");
    let start = text.find("sha256 = ").expect("the key");
    let mut text = text.replace("suite-1.tar.gz", "tree-1.tar.gz").replace("--dir={x}", "--hires");
    text.replace_range(start + 10..start + 74, &sha256);
    project.write("matrix.toml", &text);
    let called = project.call(&["bench", "e"]);
    assert_eq!(called.code, Some(2), "{}", called.stderr);
    assert!(called.stderr.contains("source `suite` has no sql-bench"), "{}", called.stderr);
}
