//! Programs of the user's as workloads, against an installed PostgreSQL: pgbench, and a script.

use crate::support::{Called, Project, finish};

const HEAD: &str = r#"
schema = 1
[source.distro15]
engine = "postgres"
prefix = "/usr/lib/postgresql/15"
[config.small]
engine = "postgres"
postgresql = { shared_buffers = "32MB", fsync = false }
[config.slow]
inherits = "small"
postgresql = { log_statement = "all" }
[experiment.e]
sources = ["distro15"]
configs = ["small", "slow"]
workload = "w"
base = "distro15.small"
repeats = 2
"#;

const PGBENCH: &str = r#"
[workload.w]
kind = "command"
load = ["pgbench", "-i", "-q", "-s", "1", "{database}"]
seconds = 1
[workload.w.tests]
select-only = ["pgbench", "-n", "-S", "-c", "{threads}", "-T", "{seconds}", "{database}"]
tpcb-like = ["pgbench", "-n", "-c", "{threads}", "-T", "{seconds}", "--random-seed={seed}"]
[workload.w.metrics]
tps = { pattern = '^tps = ([0-9.]+) \(without', unit = "1/s" }
latency-average = { pattern = '^latency average = ([0-9.]+) ms', unit = "ms" }
"#;

fn rows(called: &Called) -> Vec<serde_json::Value> {
    let json: serde_json::Value = serde_json::from_str(&called.stdout).expect("JSON");
    json["hosts"][0]["rows"].as_array().expect("rows").clone()
}

#[test]
fn pgbench_is_loaded_once_measured_in_blocks_and_compared_by_each_metric() {
    let project = Project::with_matrix(&format!("{HEAD}{PGBENCH}"));
    let called = project.ok(&["bench", "e"]);
    assert!(called.stderr.contains("runs: 8 measured, 0 failed"), "{}", called.stderr);
    let snapshots = std::fs::read_dir(project.path("work/snapshots")).expect("there").count();
    assert_eq!(snapshots, 1, "both configs start from the same data");
    for record in project.records("e") {
        let outcome = &record["outcome"];
        let names: Vec<&str> = outcome["metrics"]
            .as_array()
            .expect("metrics")
            .iter()
            .map(|metric| metric["name"].as_str().expect("a name"))
            .collect();
        assert_eq!(names, ["tps", "latency-average"]);
        let server = &outcome["server"];
        assert!(server["user-seconds"].as_f64().expect("a number") > 0.01, "{outcome}");
        assert!(outcome["client"]["user-seconds"].as_f64().expect("a number") > 0.0, "{outcome}");
        assert_eq!(record["workload"], "w");
    }
    let compared = project.ok(&["compare", "e", "--format", "json"]);
    let rows = rows(&compared);
    let names: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| {
            let name = row["microbenchmark"].as_str().expect("a name");
            (name, row["metric"]["better"].as_str().expect("a direction"))
        })
        .collect();
    let expected = ["select-only", "tpcb-like"].into_iter();
    let expected: Vec<_> = expected.flat_map(|name| [(name, "higher"), (name, "lower")]).collect();
    assert_eq!(names, expected);
    for pair in rows.chunks(2) {
        // With one client the latency is the inverse of the rate, so both ratios say the same.
        let ratios: Vec<f64> = pair
            .iter()
            .map(|row| row["cells"][0]["result"]["ratio"].as_f64().expect("a ratio"))
            .collect();
        assert!((ratios[0] / ratios[1] - 1.0).abs() < 0.1, "{ratios:?}");
        assert!(pair[0]["base"]["server-cpu-us"].as_f64().expect("per transaction") > 1.0);
    }
    let text = project.ok(&["compare", "e"]).stdout;
    assert!(text.contains("tpcb-like latency-average (ms, less is better)"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("base / target where less is better"), "{text}");
    let metrics = project.ok(&["compare", "e", "--view", "metrics,times"]).stdout;
    assert!(metrics.contains("wKB/o") && metrics.contains("less is better"), "{metrics}");
    let csv = project.ok(&["compare", "e", "--view", "metrics", "--format", "csv"]).stdout;
    let line = csv.lines().find(|line| line.starts_with("tpcb-like tps,distro15.small,"));
    let fields: Vec<&str> = line.expect("the base").split(',').collect();
    let number = |index: usize| fields[index].parse::<f64>().expect("a number");
    // Rate, CPU and context switches of the machine; it does at least what the server does.
    assert!(number(2) > 10.0 && number(3) > 1.0 && number(4) > 0.1, "{csv}");
    assert!(number(3) > 0.5 * number(8), "{csv}");
    let markdown = project.ok(&["compare", "e", "--view", "compact", "--format", "md"]).stdout;
    assert!(markdown.contains("| --- | --: | --: |"), "{markdown}");
    let effects = project.ok(&["compare", "e", "--view", "effects"]).stdout;
    assert!(effects.contains("config: small to slow") && effects.contains("n=1"), "{effects}");
    // What is there is not made again.
    let again = project.ok(&["bench", "e"]);
    assert!(again.stderr.contains("runs: all there already"), "{}", again.stderr);
}

#[test]
fn a_script_says_what_it_measured_and_its_failures_are_rows() {
    let project = Project::new();
    project.write(
        "test.sh",
        "set -e\n\
         rows=$(psql -Atc \"select count(*) from t\")\n\
         echo METRIC:rows:$rows:rows\n\
         echo '{\"metric\": \"seconds\", \"value\": 0.5, \"unit\": \"s\"}'\n\
         test \"$1\" = good\n",
    );
    let script = project.path("test.sh");
    let script = script.display();
    let workload = format!(
        "[workload.w]\nkind = 'command'\nseconds = 1\n\
         load = ['psql', '-qc', 'create table t as select generate_series(1, 42) as id']\n\
         [workload.w.tests]\ngood = ['sh', '{script}', 'good']\nbad = ['sh', '{script}', 'bad']\n\
         silent = ['true']\n"
    );
    project.write("matrix.toml", &format!("{HEAD}{workload}"));
    let called = project.call(&["bench", "e"]);
    assert_eq!(called.code, Some(1), "{}", called.stderr);
    assert!(called.stderr.contains("the program printed no metric"), "{}", called.stderr);
    assert!(called.stderr.contains("42.0 rows rows, 0.50 s seconds"), "{}", called.stderr);
    let compared = project.ok(&["compare", "e", "--format", "json"]);
    let rows = rows(&compared);
    assert_eq!(rows.len(), 4, "two metrics, and a row for each test without any");
    let value = rows[0]["base"]["value"].as_f64().expect("a number");
    assert!((value - 42.0).abs() < 1e-9, "{value}");
    assert_eq!(rows[0]["cells"][0]["result"]["ratio"], 1.0);

    let passed = project.ok(&["compare", "e", "--fail-on", "failed in good"]);
    assert!(passed.stderr.contains("gate passed: failed in good"), "{}", passed.stderr);
    let gates = ["compare", "e", "--fail-on", "failed in *", "--fail-on", "failed in good"];
    let mut command = project.command(&gates);
    command.env("GITHUB_ACTIONS", "true");
    let tripped = finish(command);
    assert_eq!(tripped.code, Some(3), "{}", tripped.stderr);
    assert!(tripped.stderr.contains("::error title=cargo xtask compare::failed in *: "));
    let wrong = project.call(&["compare", "e", "--fail-on", "slowr > 3%"]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
    let nothing = project.call(&["compare", "e", "--fail-on", "slower in group writes"]);
    assert_eq!(nothing.code, Some(2), "a gate that cannot trip is a mistake: {}", nothing.stderr);

    // Another program is another measurement: an old run is no partner of a new one.
    let before = project.records("e");
    let text = project.read("test.sh").replace("0.5", "0.25");
    project.write("test.sh", &text);
    let drivers = |records: &[serde_json::Value]| {
        records.iter().map(|r| r["driver"].to_string()).collect::<std::collections::BTreeSet<_>>()
    };
    project.call(&["bench", "e", "--only", "bad"]);
    let all = project.records("e");
    assert!(all.len() > before.len());
    assert_eq!((drivers(&before).len(), drivers(&all).len()), (1, 2));
}

#[test]
fn a_program_that_is_not_there_is_a_matter_of_the_environment() {
    let workload = "[workload.w]\nkind = 'command'\ntests = { a = ['no-such-program'] }\n";
    let project = Project::with_matrix(&format!("{HEAD}{workload}"));
    let called = project.call(&["bench", "e"]);
    assert_eq!(called.code, Some(4), "{}", called.stderr);
    assert!(
        called.stderr.contains("`no-such-program` is not in the search path"),
        "{}",
        called.stderr
    );
    let called = project.call(&["bench", "e", "--count-instructions"]);
    assert_eq!(called.code, Some(2), "{}", called.stderr);
}

#[test]
fn in_open_loop_response_times_are_compared_and_a_rate_that_was_not_held_is_marked() {
    // A server that is late by less than a twentieth of the window holds the rate.
    let workload = |rate: u32, seconds: u32| {
        format!(
            "[workload.w]\nkind = 'sysbench'\nrows = 1000\nthreads = 2\nrate = {rate}\n\
             microbenchmarks = ['point-query']\nwarmup-seconds = 0.1\nread-seconds = {seconds}\n"
        )
    };
    let project = Project::with_matrix(&format!("{HEAD}{}", workload(50, 4)));
    project.ok(&["bench", "e"]);
    for record in project.records("e") {
        let rate = &record["outcome"]["rate"];
        assert_eq!(rate["asked"], 50.0);
        assert!((rate["got"].as_f64().expect("a rate") - 50.0).abs() < 8.0, "{rate}");
    }
    let text = project.ok(&["compare", "e"]).stdout;
    assert!(text.contains("p99 (us, less is better)") && !text.contains("hold the rate"), "{text}");

    project.write("matrix.toml", &format!("{HEAD}{}", workload(10_000_000, 1)));
    project.ok(&["bench", "e"]);
    let text = project.ok(&["compare", "e"]).stdout;
    assert!(text.contains("`distro15.small` did not hold the rate in blocks 3, 4"), "{text}");
    assert!(text.contains("of 10000000 per second at the worst"), "{text}");
}
