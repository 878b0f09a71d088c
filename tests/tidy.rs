//! House rules that a compiler does not check: what every file starts with, how long it may be,
//! and words that do not belong here.

use crate::support::root;

/// Files that may be longer than the limit, each with its reason.
const LONG: [(&str, &str); 0] = [];

const LINES: usize = 500;
const COLUMNS: usize = 100;

fn rust_files() -> Vec<(String, String)> {
    let mut folders = vec![root().join("xtask"), root().join("tests")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root()).expect("below the root").display().to_string();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") {
                files.push((name, std::fs::read_to_string(path).expect("UTF-8")));
            }
        }
    }
    assert!(files.len() > 20, "the walk found only {} files", files.len());
    files
}

#[test]
fn every_file_says_what_it_is_for_and_is_short() {
    let mut wrong = Vec::new();
    for (name, text) in rust_files() {
        if !text.starts_with("//! ") {
            wrong.push(format!("{name}:1: does not start with `//!` and what it is for"));
        }
        let lines = text.lines().count();
        if lines > LINES && !LONG.iter().any(|(long, _)| *long == name) {
            wrong.push(format!("{name}: {lines} lines, the limit is {LINES}; cut it"));
        }
        for (index, line) in text.lines().enumerate() {
            // What a test expects to be printed is as wide as it is printed.
            let printed = name.ends_with("tests.rs");
            if !printed && line.trim_end() != line {
                wrong.push(format!("{name}:{}: white space at the end", index + 1));
            }
            // A text and a row of a table are not torn apart for the sake of a column.
            let text = line.contains('"') || line.contains("https://") || line.contains("//! |");
            if !printed && !text && line.chars().count() > COLUMNS {
                wrong.push(format!("{name}:{}: more than {COLUMNS} columns", index + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_is_left_undone() {
    let words = ["todo!(", "unimplemented!(", "dbg!(", "#[ignore"];
    let mut wrong = Vec::new();
    for (name, text) in rust_files().iter().filter(|(name, _)| name != "tests/tidy.rs") {
        for (index, line) in text.lines().enumerate() {
            // Not tests of their own: another test runs them as a process that it can kill.
            if line.trim() == "#[ignore = \"started by another test\"]" {
                continue;
            }
            for word in words.iter().filter(|word| line.contains(**word)) {
                wrong.push(format!("{name}:{}: `{word}`", index + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_is_on_the_map() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    let mut missing = Vec::new();
    for entry in std::fs::read_dir(root().join("xtask/src")).expect("the sources") {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        let stem = name.trim_end_matches(".rs");
        let known = map.contains(&format!("{stem}.rs")) || map.contains(&format!("{stem}/`"));
        if !known && stem != "lib" && stem != "cmd" {
            missing.push(name);
        }
    }
    assert!(missing.is_empty(), "not in ARCHITECTURE.md's code map: {missing:?}");
}
