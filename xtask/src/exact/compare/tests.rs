//! Every verdict, and what is told of it.

use super::*;
use crate::exact::functions::Function;
use crate::hash::Digest;
use expect_test::expect;

fn file(path: &str, content: &str) -> FileDone {
    let (size, sha256) = (content.len() as u64, Digest::of(content.as_bytes()));
    FileDone { path: path.into(), mode: "0644".into(), size, sha256 }
}

fn section(name: &str, loaded: bool, content: &str) -> SectionDone {
    let sha256 = Digest::of(content.as_bytes()).to_string()[..32].to_owned();
    SectionDone { name: name.into(), loaded, size: content.len() as u64, sha256 }
}

/// A build of one server and one data file.
#[derive(Clone)]
struct Build {
    files: Vec<FileDone>,
    binaries: Vec<BinaryDone>,
    functions: Functions,
}

fn build(text: &str, debug: &str) -> Build {
    let sections = vec![
        section(".note.gnu.build-id", false, &format!("{text}{debug}")),
        section(".text", true, text),
        section(".rodata", true, "3.14"),
        section(".debug_info", false, debug),
    ];
    let function = |symbol: &str, hash: &str| Function {
        binary: "bin/postgres".into(),
        symbol: symbol.into(),
        size: 8,
        hash: hash.into(),
    };
    Build {
        files: vec![
            file("bin/postgres", &format!("{text} {debug}")),
            file("share/system.sql", "select 1;"),
        ],
        binaries: vec![BinaryDone { path: "bin/postgres".into(), sections }],
        functions: Functions {
            list: vec![function("main", "0"), function("hash (hash.c)", text)],
            raw: Vec::new(),
        },
    }
}

fn compared(one: &Build, two: &Build) -> Comparison {
    fn side(build: &Build) -> Side<'_> {
        let Build { files, binaries, functions } = build;
        Side { files, binaries, functions: Some(functions) }
    }
    compare(side(one), side(two))
}

#[test]
fn the_same_bytes_are_identical() {
    let result = compared(&build("code", "names"), &build("code", "names"));
    assert_eq!(result.verdict, Verdict::Identical);
    expect!["identical: all 2 files, byte by byte\n"].assert_eq(&result.text());
}

#[test]
fn what_is_not_loaded_leaves_the_same_code() {
    let result = compared(&build("code", "names"), &build("code", "other names"));
    assert_eq!(result.verdict, Verdict::SameCode);
    expect![[r#"
        same code: 1 of 2 files differ, only in bytes that no program loads
          bin/postgres: not loaded: .debug_info (5 -> 11 bytes), .note.gnu.build-id (9 -> 15 bytes)
    "#]]
    .assert_eq(&result.text());
    // No debug information at all.
    let mut bare = build("code", "names");
    bare.files[0] = file("bin/postgres", "code");
    bare.binaries[0].sections.pop();
    let result = compared(&build("code", "names"), &bare);
    assert_eq!(result.verdict, Verdict::SameCode);
    assert!(result.text().contains(".debug_info (5 bytes, not made here)"), "{}", result.text());
    // All sections are equal, and yet the files are not.
    let mut table = build("code", "names");
    table.files[0] = file("bin/postgres", "a shuffled table of sections");
    let result = compared(&build("code", "names"), &table);
    assert_eq!(result.verdict, Verdict::SameCode);
    assert!(result.text().contains("bytes outside of all sections"), "{}", result.text());
}

#[test]
fn other_code_is_different_and_names_functions() {
    let result = compared(&build("code", "names"), &build("coda", "namen"));
    assert_eq!(result.verdict, Verdict::Different);
    expect![[r#"
        different: 1 of 2 files
          bin/postgres: .text (4 bytes)
            functions changed (1): hash (hash.c)
    "#]]
    .assert_eq(&result.text());
    let mut moved = build("coda", "names");
    moved.functions = build("code", "names").functions;
    let text = compared(&build("code", "names"), &moved).text();
    assert!(text.contains("all 2 have the same instructions; data, order or"), "{text}");
    moved.functions.list[1].symbol = "hash_fast".into();
    moved.functions.raw.push("bin/postgres".into());
    let text = compared(&build("code", "names"), &moved).text();
    assert!(text.contains("functions not made here (1): hash (hash.c) (as raw bytes"), "{text}");
    assert!(text.contains("functions only made here (1): hash_fast (as raw"), "{text}");
}

#[test]
fn without_the_functions_of_one_side_sections_are_told() {
    let (one, two) = (build("code", "names"), build("longer code", "names"));
    let result = compare(
        Side { files: &one.files, binaries: &one.binaries, functions: None },
        Side { files: &two.files, binaries: &two.binaries, functions: Some(&two.functions) },
    );
    let text = result.text();
    assert!(text.contains("bin/postgres: .text (4 -> 11 bytes)\n"), "{text}");
    assert!(text.contains("functions are not told"), "{text}");
}

#[test]
fn data_and_modes_and_lists_of_files_are_different() {
    let one = build("code", "names");
    let mut data = one.clone();
    data.files[1] = file("share/system.sql", "select 2;");
    let result = compared(&one, &data);
    assert_eq!(result.verdict, Verdict::Different, "a data file is read by the server");
    assert!(result.text().contains("  other content: share/system.sql (9 bytes)\n"));

    let mut mode = one.clone();
    mode.files[0].mode = "0755".into();
    let result = compared(&one, &mode);
    assert_eq!(result.verdict, Verdict::Different);
    assert!(result.text().contains("  other mode: bin/postgres 0644 -> 0755\n"));

    let mut list = one.clone();
    list.files[1].path = "share/other.sql".into();
    let result = compared(&one, &list);
    assert_eq!(result.verdict, Verdict::Different);
    expect![[r#"
        different: 1 of 2 files, 1 more were made
          not made here: share/system.sql
          only made here: share/other.sql
    "#]]
    .assert_eq(&result.text());

    // Sections that are known on one side only say nothing.
    let mut unknown = build("code", "other names");
    unknown.binaries.clear();
    assert_eq!(compared(&one, &unknown).verdict, Verdict::Different);
    unknown.binaries = vec![BinaryDone { path: "bin/postgres".into(), sections: Vec::new() }];
    assert_eq!(compared(&unknown, &unknown.clone()).verdict, Verdict::Identical);
    assert_eq!(compared(&one, &unknown).verdict, Verdict::Different);
}

#[test]
fn a_section_that_is_loaded_on_one_side_only_is_different() {
    let one = build("code", "names");
    let mut two = build("code", "names");
    two.files[0] = file("bin/postgres", "changed");
    two.binaries[0].sections[3].loaded = true;
    let result = compared(&one, &two);
    assert_eq!(result.verdict, Verdict::Different);
    assert!(result.text().contains(".debug_info (5 bytes, only made here)"), "{}", result.text());
}

#[test]
fn a_text_fills_no_more_than_a_screen_and_the_file_has_everything() {
    let many = |text: &str, debug: &str| {
        let mut all =
            Build { files: Vec::new(), binaries: Vec::new(), functions: Default::default() };
        for number in 0..30 {
            let one = build(text, debug);
            let path = format!("bin/program{number:02}");
            all.files.push(FileDone { path: path.clone(), ..one.files[0].clone() });
            all.files.push(file(&format!("share/{number:02}.sql"), text));
            all.files.push(file(&format!("{text}/{number:02}"), ""));
            let mut sections = one.binaries[0].sections.clone();
            let more = |n| section(&format!(".s{n:02}"), true, text);
            sections.extend((0..30).map(more));
            all.binaries.push(BinaryDone { path: path.clone(), sections });
            all.functions.list.extend((0..50).map(|n| Function {
                binary: path.clone(),
                symbol: format!("f{n:02}"),
                size: 1,
                hash: text.to_owned(),
            }));
        }
        all
    };
    let result = compared(&many("code", "names"), &many("more", "words"));
    let text = result.text();
    assert!(text.lines().count() <= 20, "{text}");
    for part in [
        "different: 90 of 90 files, 30 more were made",
        "bin/program00: .text (4 bytes), .s00 (4 bytes), .s01 (4 bytes), .s02 (4 bytes) and 27 more",
        "functions changed (50): f00, f01, f02, f03, f04, f05 and 44 more",
        "and 27 more programs or libraries with other code",
        "share/03.sql (4 bytes) and 26 more",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    let whole = result.whole_text();
    assert!(whole.contains("bin/program29") && whole.contains("f49"), "{whole}");
    assert!(!whole.contains(" more\n"), "{whole}");
    let aside = compared(&many("code", "names"), &many("code", "words")).text();
    assert!(aside.lines().count() <= 20 && aside.starts_with("same code: 30 of 90"), "{aside}");
}
