//! Functions of programs from the real compiler: which one changed, and that the moved ones did
//! not; and the file that tells them.

use super::*;
use crate::build::manifest;
use crate::exact::testing;

// Without `noipa` a function's code depends on what its neighbours do with registers.
const MAIN: &str = r#"
#include <stdio.h>
#define ALONE __attribute__((noipa))
int first(int);
int last(int);
static int counter;
static ALONE int local(int x) { return x * 7 + counter++; }
int main(int n, char **a) { (void)a; printf("%d\n", first(n)); return last(local(n)); }
"#;
const PARTS: &str = r#"
#define ALONE __attribute__((noipa))
int table[] = { 3, 1, 4, 1, 5, 9, 2, 6 };
ALONE int first(int x) { int sum = 0; for (int i = 0; i < x; i++) sum += table[i & 7]; return sum; }
static ALONE int local(int x) { return table[x & 7] ^ 85; }
ALONE int middle(int x) { return local(x) + 1; }
ALONE int last(int x) { return middle(x) + first(x); }
"#;

fn of(folder: &Path, main: &str, parts: &str, flags: &[&str]) -> Functions {
    testing::compile(folder, &[("main.c", main), ("parts.c", parts)], flags);
    of_tree(folder, &manifest::list(folder).expect("listed")).expect("read")
}

/// The symbols whose hashes differ, those that only one side has among them.
fn changed(one: &Functions, two: &Functions) -> Vec<String> {
    let key = |f: &Function| (f.symbol.clone(), f.hash.clone());
    let (one, two): (Vec<_>, Vec<_>) =
        (one.list.iter().map(key).collect(), two.list.iter().map(key).collect());
    let mut symbols: Vec<String> = one
        .iter()
        .filter(|f| !two.contains(f))
        .chain(two.iter().filter(|f| !one.contains(f)))
        .map(|(symbol, _)| symbol.clone())
        .collect();
    symbols.sort();
    symbols.dedup();
    symbols
}

#[test]
fn exactly_the_changed_function_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    for (kind, flags) in [
        ("pie", ["-O2", "-fPIE", "-pie"]),
        ("fixed", ["-O2", "-fno-pie", "-no-pie"]),
        ("large", ["-O3", "-fPIE", "-pie"]),
    ] {
        let make = |name: &str, main: &str, parts: &str| {
            of(&dir.path().join(kind).join(name), main, parts, &flags)
        };
        let asked = make("asked", MAIN, PARTS);
        let names: Vec<&str> = asked.list.iter().map(|f| f.symbol.as_str()).collect();
        for name in ["first", "last", "local (main.c)", "local (parts.c)", "main", "middle"] {
            assert!(names.contains(&name), "{kind}: {name} in {names:?}");
        }
        assert!(asked.list.iter().all(|f| f.size > 0 && f.hash.len() == 16), "{asked:?}");
        assert_eq!(make("again", MAIN, PARTS), asked, "{kind}: the same bytes");
        // It grows by a few hundred bytes: whatever lies behind it moves.
        let longer: String = (0..40).map(|i| format!("sum = sum * {i} ^ (x + {i});")).collect();
        let text = PARTS.replace("return sum;", &format!("{longer} return sum;"));
        assert_eq!(changed(&asked, &make("grown", MAIN, &text)), ["first"], "{kind}");
        // The code has the same length and calls another function.
        let text = PARTS.replace("return middle(x) + first(x)", "return first(x) + middle(x)");
        assert_eq!(changed(&asked, &make("swapped", MAIN, &text)), ["last"], "{kind}");
        // Another library function is called, through a stub that has no symbol of its own.
        let text = MAIN.replace("printf(\"%d\\n\", first(n))", "scanf(\"%d\\n\", first(n))");
        assert_eq!(changed(&asked, &make("other", &text, PARTS)), ["main"], "{kind}");
        // A constant in the data moves nothing and changes no function.
        let text = PARTS.replace("3, 1, 4, 1", "2, 7, 1, 8");
        assert_eq!(changed(&asked, &make("data", MAIN, &text)), [""; 0], "{kind}");
        let text = PARTS.replace("^ 85", "^ 84");
        assert_eq!(changed(&asked, &make("number", MAIN, &text)), ["local (parts.c)"], "{kind}");
    }
}

#[test]
fn a_stripped_program_has_only_what_others_may_call() {
    let dir = tempfile::tempdir().expect("a directory");
    let stripped = of(dir.path(), MAIN, PARTS, &["-O2", "-s", "-rdynamic"]);
    let names: Vec<&str> = stripped.list.iter().map(|f| f.symbol.as_str()).collect();
    assert!(names.contains(&"first") && !names.iter().any(|n| n.contains("local")), "{names:?}");
}

#[test]
fn the_listing_comes_back_as_it_was_and_is_always_the_same_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let tree = dir.path().join("tree");
    let found = of(&tree, MAIN, PARTS, &["-O2"]);
    let files = manifest::list(&tree).expect("listed");
    let path = beside(&dir.path().join("pg_o2-0123456789ab.json"));
    assert!(path.ends_with("pg_o2-0123456789ab.functions.gz"), "{path:?}");
    write(&tree, &files, &path).expect("written");
    assert_eq!(read(&path).expect("read"), found);
    let first = std::fs::read(&path).expect("there");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    write(&tree, &files, &path).expect("written again");
    assert_eq!(std::fs::read(&path).expect("there"), first, "no time stamp");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 2, "no draft is left");
}

#[test]
fn what_is_no_listing_is_refused_with_its_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.functions.gz");
    let pack = |text: &str| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text.as_bytes()).expect("packed");
        packer.finish().expect("packed")
    };
    let whole = pack("#functions\t1\nbin/a\tf\t3\t0123456789abcdef\n");
    for (content, part) in [
        (b"plain text".to_vec(), "it is damaged"),
        (whole[..whole.len() - 6].to_vec(), "it is damaged"),
        (pack(""), "no listing of functions"),
        (pack("#functions\t2\n"), "its version is 2, this tool knows 1"),
        (pack("#functions\t1\na\tb\n"), "it is damaged: `a\tb`"),
        (pack("#functions\t1\na\tb\tmany\tc\n"), "`many` is no size"),
    ] {
        std::fs::write(&path, content).expect("written");
        let error = format!("{:#}", read(&path).expect_err("refused"));
        assert!(error.contains(part) && error.contains("x.functions.gz"), "{error}");
    }
    std::fs::write(&path, whole).expect("written");
    assert_eq!(read(&path).expect("fine").list[0].symbol, "f");
}
