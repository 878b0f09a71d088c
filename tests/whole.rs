//! The whole way on real input: the real PostgreSQL 15.18 from its tarball in two variants, and an
//! installed PostgreSQL beside them; built, run, compared; and a second call that does nothing.
//!
//! The work directory is kept below cargo's target folder, so that only the first call of this test
//! builds (about six minutes on two cores); build ids decide, as for users. Records are made anew.

use std::path::PathBuf;

use crate::support::{Project, finish};

const MATRIX: &str = r#"
schema = 1
default-experiment = "whole"
[source.pg1518]
engine = "postgres"
version = "15.18"
sha256 = "11df0df97fe3ea4ba9a791faaf39cee1d2fe571e78885b5b55d8517d27c323b4"
origins = [
  "debian:postgresql-15=15.18-0+deb12u1",
  "https://ftp.postgresql.org/pub/source/v15.18/postgresql-15.18.tar.bz2",
]
options.configure = ["--without-readline", "--without-zlib"]
[source.installed]
engine = "postgres"
prefix = "/usr/lib/postgresql/15"
[axis.toolchain]
gcc = { tag = "" }
[axis.opt]
o2 = { tag = "o2", flags = ["-g1", "-O2"] }
os = { tag = "os", flags = ["-g1", "-Os", "-fno-omit-frame-pointer"] }
[variant]
o2 = { opt = "o2" }
os = { opt = "os" }
[config.small]
engine = "postgres"
postgresql = { shared_buffers = "{min(ram * 0.1, 268435456)}", fsync = false }
[workload.short]
kind = "sysbench"
rows = "20k"
microbenchmarks = ["point-query", "random-points", "range-covered-pk", "read-only", "scan", "update-nonindex", "insert"]
warmup-seconds = 0.2
read-seconds = 1
write-seconds = 1
[experiment.whole]
sources = ["pg1518", "installed"]
variants = ["o2", "os"]
configs = ["small"]
workload = "short"
base = "pg1518_o2.small"
repeats = 2
"#;

#[test]
fn from_the_tarball_to_the_comparison() {
    let work = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("whole");
    let project = Project::with_matrix(MATRIX).work_at(work);
    let call = |args: &[&str]| {
        let mut command = project.command(args);
        // Where the archive cannot be fetched, the caller may have it.
        command.envs(std::env::var_os("MATRIX_SOURCES").map(|folder| ("MATRIX_SOURCES", folder)));
        finish(command)
    };
    let first = call(&["matrix", "--format", "json"]);
    assert_eq!(first.code, Some(0), "{}\n{}", first.stdout, first.stderr);

    // Three targets, two blocks, seven microbenchmarks: every run is a record with numbers in it.
    let folder = project.path("results/records/whole");
    let files: Vec<_> = std::fs::read_dir(folder).expect("records").flatten().collect();
    assert_eq!(files.len(), 1);
    let text = std::fs::read_to_string(files[0].path()).expect("readable");
    let records: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    assert_eq!(records.len(), 3 * 2 * 7);
    for record in &records {
        let outcome = &record["outcome"];
        assert_eq!(outcome["status"], "ok", "{record}");
        assert!(outcome["queries"].as_u64() > Some(0), "{record}");
        let cpu = outcome["server"]["user-seconds"].as_f64().expect("a number")
            + outcome["server"]["system-seconds"].as_f64().expect("a number");
        assert!(cpu > 0.0 && cpu < 60.0, "{record}");
        // A driver that waits for scans hardly uses the CPU in user mode.
        let client = outcome["client"]["user-seconds"].as_f64().expect("a number")
            + outcome["client"]["system-seconds"].as_f64().expect("a number");
        assert!(client > 0.0 && client < 60.0, "{record}");
        assert!(outcome["latency"]["p50-us"].as_u64() <= outcome["latency"]["max-us"].as_u64());
    }
    // Each block has every target once, each in a visit of its own: on fresh data.
    let mut visits = std::collections::BTreeMap::new();
    for record in &records {
        let visit = (record["block"].as_u64(), record["target"].to_string());
        let invocation = record["invocation"].as_str().expect("a name");
        assert_eq!(*visits.entry(invocation).or_insert_with(|| visit.clone()), visit);
    }
    assert_eq!(visits.len(), 3 * 2, "{visits:?}");
    for block in [1, 2] {
        let of_block = records.iter().filter(|record| record["block"] == block);
        let mut targets: Vec<_> = of_block.map(|record| record["target"].to_string()).collect();
        targets.dedup();
        targets.sort();
        let wanted = ["installed.small", "pg1518_o2.small", "pg1518_os.small"];
        assert_eq!(targets, wanted.map(|name| format!("\"{name}\"")));
    }

    let comparison: serde_json::Value = serde_json::from_str(&first.stdout).expect("JSON");
    assert_eq!(comparison["base"], "pg1518_o2.small");
    let rows = comparison["hosts"][0]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 7);
    for row in rows {
        assert_eq!(row["cells"].as_array().map(Vec::len), Some(2), "{row}");
    }

    // Size and cost of each build: the file's, the section's, and that of an installed one, too.
    let sizes = comparison["builds"].as_array().expect("builds");
    assert_eq!(sizes.len(), 3, "{sizes:?}");
    for size in sizes {
        let name = size["build"].as_str().expect("a name");
        let program = if name == "installed" {
            "/usr/lib/postgresql/15/bin/postgres".into()
        } else {
            let found = std::fs::read_dir(project.work.join("builds")).expect("builds").flatten();
            let prefix = format!("{name}-");
            let mut folders = found.map(|entry| entry.path());
            let is_it = |folder: &PathBuf| {
                folder.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&prefix))
            };
            folders.find(is_it).expect("its folder").join("tree/bin/postgres")
        };
        let length = std::fs::metadata(&program).expect("the server").len();
        assert_eq!(size["file-bytes"].as_u64(), Some(length), "{size}");
        let text = size["text-bytes"].as_u64().expect("a number");
        assert!(text > 2_000_000 && text < length, "{size}");
        let cpu = size["cost"]["cpu-seconds"].as_f64();
        assert_eq!(cpu.is_some_and(|cpu| cpu > 60.0), name != "installed", "{size}");
    }

    let second = call(&["matrix", "--format", "tsv"]);
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert!(second.stderr.contains("builds: 0 made, 3 there already"), "{}", second.stderr);
    assert!(second.stderr.contains("runs: all there already"), "{}", second.stderr);
    let header = second.stdout.lines().next().expect("a header");
    assert!(header.starts_with("experiment\thost\tkind\tgroup\tname\t"), "{header}");

    let text = call(&["compare"]);
    assert!(text.stdout.contains("point-query_range=100"), "{}", text.stdout);
    assert!(text.stdout.contains("geometric mean"), "{}", text.stdout);
    assert!(text.stdout.contains("Size of the server's program"), "{}", text.stdout);
    let other = call(&["compare", "--base", "installed.small"]);
    assert!(other.stdout.contains("base `installed.small`"), "{}", other.stdout);
}
