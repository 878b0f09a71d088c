//! Other people's raw results, imported and compared by the real binary.

use crate::support::{Project, root};

#[test]
fn a_folder_of_results_is_imported_compared_and_kept() {
    let project = Project::with_matrix("schema = 1\n");
    let folder = root().join("tests/fixtures/import/sysbench");
    let folder = folder.to_str().expect("text");
    let called = project.ok(&["import", "auto", folder, "--experiment", "old", "--format", "json"]);
    assert!(called.stderr.contains("records of experiment `old`"), "{}", called.stderr);
    let json: serde_json::Value = serde_json::from_str(&called.stdout).expect("JSON");
    let rows = json["hosts"][0]["rows"].as_array().expect("rows");
    assert!(rows.len() > 3, "{}", called.stdout);
    for row in rows {
        assert!(row["base"]["value"].as_f64().is_none_or(|value| value > 0.0), "{row}");
        // Nobody measured these: they are unknown, not 0.
        assert!(row["base"].is_null() || row["base"]["server-cpu-us"].is_null(), "{row}");
        // One run has no verdict.
        for cell in row["cells"].as_array().expect("cells") {
            assert_ne!(cell["result"]["state"], "judged", "{row}");
        }
    }
    // Without the matrix file's knowing the experiment, and with the gate of any comparison.
    let again = project.ok(&["compare", "old", "--format", "json"]);
    assert_eq!(again.stdout, called.stdout);
    assert!(called.stdout.contains("\"state\": \"single\""), "{}", called.stdout);
    let twice = project.call(&["import", "auto", folder, "--experiment", "old"]);
    assert_eq!(twice.code, Some(2), "{}", twice.stderr);
    assert!(twice.stderr.contains("has records already"), "{}", twice.stderr);
}

#[test]
fn the_text_of_a_single_run_and_what_is_no_result() {
    let project = Project::with_matrix("schema = 1\n");
    project.write(
        "pgbench.txt",
        "transaction type: <builtin: TPC-B (sort of)>\nscaling factor: 10\nquery mode: simple\n\
         number of clients: 4\nnumber of threads: 1\nduration: 10 s\n\
         number of transactions actually processed: 5000\nlatency average = 8.000 ms\n\
         initial connection time = 5.0 ms\ntps = 500.123456 (without initial connection time)\n",
    );
    let file = project.path("pgbench.txt");
    let file = file.to_str().expect("text");
    let called = project.ok(&["import", "auto", file, "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&called.stdout).expect("JSON");
    assert_eq!(json["experiment"], "pgbench.txt");
    let text = json["hosts"][0]["rows"].to_string();
    assert!(text.contains("500.12345"), "{text}");

    project.write("notes.txt", "nothing of interest\n");
    let notes = project.path("notes.txt");
    for (args, expected) in [
        (["import", "auto", notes.to_str().expect("text")], "can be compared"),
        (["import", "sysbnch", file], "`sysbnch` is no kind of results; there are auto, "),
        (["import", "auto", "/nowhere"], "nothing to import"),
    ] {
        let called = project.call(&args);
        assert_eq!(called.code, Some(2), "{}", called.stderr);
        assert!(called.stderr.contains(expected), "{expected}: {}", called.stderr);
    }
}
