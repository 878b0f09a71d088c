//! The program sysbench as load driver, and profiles, against an installed PostgreSQL.

use crate::support::Project;

const MATRIX: &str = r#"
schema = 1
[source.distro15]
engine = "postgres"
prefix = "/usr/lib/postgresql/15"
[config.small]
engine = "postgres"
postgresql = { shared_buffers = "32MB", fsync = false }
[config.slow]
inherits = "small"
# Every row is looked for in the whole table.
postgresql = { enable_indexscan = false, enable_bitmapscan = false }
[workload.own]
kind = "sysbench"
rows = 2000
microbenchmarks = ["point-query", "update-nonindex"]
warmup-seconds = 1
read-seconds = 1
write-seconds = 1
[workload.other]
kind = "sysbench"
driver = "sysbench"
rows = 2000
microbenchmarks = ["point-query", "update-nonindex"]
warmup-seconds = 1
read-seconds = 1
write-seconds = 1
[experiment.own]
sources = ["distro15"]
configs = ["small", "slow"]
workload = "own"
base = "distro15.small"
repeats = 1
[experiment.other]
sources = ["distro15"]
configs = ["small", "slow"]
workload = "other"
base = "distro15.small"
repeats = 1
"#;

fn ratios(project: &Project, experiment: &str) -> Vec<f64> {
    let shown = project.ok(&["compare", experiment, "--format", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    let rows = json["hosts"][0]["rows"].as_array().expect("rows");
    rows.iter().map(|row| row["cells"][0]["result"]["ratio"].as_f64().expect("a ratio")).collect()
}

#[test]
fn both_drivers_see_that_a_server_without_indexes_is_slower() {
    let project = Project::with_matrix(MATRIX);
    let own = project.ok(&["bench", "own"]);
    assert!(!own.stderr.contains("load driver: sysbench"), "{}", own.stderr);
    let other = project.ok(&["bench", "other"]);
    assert!(other.stderr.contains("load driver: sysbench 1."), "{}", other.stderr);
    // What the version lacks is said.
    assert!(other.stderr.contains("sysbench: "), "{}", other.stderr);
    let snapshots = std::fs::read_dir(project.path("work/snapshots")).expect("there").count();
    assert_eq!(snapshots, 1, "both drivers measure the same pages");
    for (a, b) in ratios(&project, "own").into_iter().zip(ratios(&project, "other")) {
        assert!(a < 0.7 && b < 0.7, "{a} {b}");
    }
    let again = project.ok(&["bench", "other"]);
    assert!(again.stderr.contains("runs: all there already"), "{}", again.stderr);
}

#[test]
fn profiles_are_drawn_for_each_target_and_for_what_differs() {
    let project = Project::with_matrix(MATRIX);
    let called = project.ok(&["bench", "own", "--profile", "--only", "point-query"]);
    assert!(called.stderr.contains("profiles: 3 pictures in"), "{}", called.stderr);
    let hosts = std::fs::read_dir(project.path("results/profiles/own")).expect("there");
    let host = hosts.flatten().next().expect("one").path();
    let place = std::fs::read_dir(host).expect("there").flatten().next().expect("one").path();
    let read = |name: &str| std::fs::read_to_string(place.join(name)).expect(name);
    for target in ["distro15.small", "distro15.slow"] {
        let folded = read(&format!("{target}.folded"));
        assert!(folded.lines().count() > 10, "{folded}");
        assert!(folded.lines().all(|line| line.starts_with("postgres")), "{folded}");
        let counts = folded.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        // 499 per second and core in a window of one second.
        assert!((10..10_000).contains(&counts.sum::<u64>()), "{folded}");
        let svg = read(&format!("{target}.svg"));
        assert!(svg.starts_with("<?xml") && svg.contains(target), "{target}");
    }
    let svg = read("distro15.slow.diff.svg");
    assert!(svg.contains("distro15.slow against distro15.small"), "{svg}");
    assert!(!project.path("results/records").exists(), "a profile is no measurement");
}

#[test]
fn what_cannot_be_is_refused() {
    let text = MATRIX.replace("driver = \"sysbench\"", "driver = \"sysbnch\"\nrate = 5");
    let project = Project::with_matrix(&text);
    let called = project.call(&["bench", "other"]);
    assert_eq!(called.code, Some(2), "{}", called.stderr);
    assert!(called.stderr.contains("did you mean `sysbench`"), "{}", called.stderr);
    project.write("matrix.toml", &text.replace("sysbnch", "sysbench"));
    let called = project.call(&["bench", "other"]);
    assert!(called.stderr.contains("`rate` needs the built-in driver"), "{}", called.stderr);
}
