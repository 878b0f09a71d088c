//! What a source package gives.

use super::*;
use crate::proc::Proc;
use crate::progress::Reporter;

#[test]
fn the_file_with_the_hash_is_picked() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("p.dsc"), "dsc").expect("written");
    std::fs::write(dir.path().join("p.orig.tar.gz"), "tar").expect("written");
    let found = pick(dir.path(), Digest::of(b"tar")).expect("found");
    assert_eq!(found, dir.path().join("p.orig.tar.gz"));
    let error = pick(dir.path(), Digest::of(b"other")).expect_err("none").to_string();
    let hash = Digest::of(b"tar");
    assert!(
        error.contains(&format!("`p.orig.tar.gz` has sha256 {hash}; none was kept")),
        "{error}"
    );
}

/// Needs the network and a Debian-like system: a list that cannot be reached does no harm, and a
/// version that does not exist is said so.
#[test]
fn an_unreachable_list_does_no_harm() {
    let dir = tempfile::tempdir().expect("a folder");
    let etc = dir.path().join("etc");
    std::fs::create_dir_all(etc.join("apt")).expect("a folder");
    std::fs::copy("/etc/os-release", etc.join("os-release")).expect("copied");
    let parts = Proc::new("cp").args(["-r", "/etc/apt/sources.list.d"]).arg(etc.join("apt"));
    parts.run().expect("copied");
    let release = std::fs::read_to_string("/etc/os-release").expect("readable");
    let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    // Nobody listens at that port.
    let bad = format!("deb http://127.0.0.1:9/debian {} main\n", codename.expect("a release"));
    std::fs::write(etc.join("apt/sources.list"), bad).expect("written");
    let root = dir.path().to_owned();
    let env = Env {
        matrix: root.join("matrix.toml"),
        results: root.join("results"),
        work: root.join("work"),
        sources: None,
        jobs: 1,
        keep_going: true,
        reporter: Reporter::new(true),
        root,
    };
    let task = env.reporter.task("test", None);
    let get = |wanted: &str, name: &str| {
        let into = dir.path().join(name);
        std::fs::create_dir(&into).expect("a folder");
        download(&env, &task, &etc, wanted, &into)
    };
    let files = get("hello", "one").expect("downloaded");
    let names: Vec<_> = std::fs::read_dir(files).expect("readable").flatten().collect();
    assert!(names.iter().any(|entry| entry.path().extension().is_some_and(|end| end == "dsc")));
    let error = get("hello=99.9-9", "two").expect_err("no such version").to_string();
    assert!(error.contains("'99.9-9'") && error.contains("hello"), "{error}");
    assert!(error.contains("127.0.0.1"), "{error}");
}
