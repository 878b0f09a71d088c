//! The system's lists become lists of source packages.

use super::*;
use crate::progress::Reporter;

#[test]
fn one_line_entries() {
    let text = "\
# a comment
deb http://deb.example.org/debian bookworm main contrib # why
  deb-src [ arch=amd64 signed-by=/k.gpg trusted=yes ]  http://b.example.org/ bookworm-updates main
deb [arch=amd64] https://vendor.example.org/apt cloud-sdk-bookworm main
deb http://deb.example.org/security bookworm/updates main
deb cdrom:
";
    assert_eq!(
        lines_of(text, Some("bookworm")),
        [
            "deb-src http://deb.example.org/debian bookworm main contrib\n",
            "deb-src [signed-by=/k.gpg trusted=yes] http://b.example.org/ bookworm-updates main\n",
            "deb-src http://deb.example.org/security bookworm/updates main\n",
        ]
    );
    assert_eq!(lines_of(text, None).len(), 4);
}

#[test]
fn stanzas() {
    let text = "\
Types: deb
# http://snapshot.example.org/
URIs: http://deb.example.org/debian
Suites: bookworm other bookworm-updates
Components: main
Architectures: amd64
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc

Types: deb
URIs: https://vendor.example.org/
Suites: nodistro
Components: main

Enabled: no
Types: deb deb-src
URIs: http://deb.example.org/off
Suites: bookworm
";
    let key = "Signed-By: \n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n";
    assert_eq!(
        stanzas_of(text, Some("bookworm")),
        [format!(
            "Types: deb-src\nURIs: http://deb.example.org/debian\n\
             Suites: bookworm bookworm-updates\nComponents: main\n{key}"
        )]
    );
    assert_eq!(stanzas_of(text, None).len(), 2);
}

#[test]
fn lists_of_a_system() {
    let etc = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = etc.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("written");
    };
    assert!(source_lists(etc.path()).expect("readable").is_empty());
    write("os-release", "ID=debian\nVERSION_CODENAME=bookworm\n");
    write("apt/sources.list", "deb http://a bookworm main\ndeb-src http://a bookworm main\n");
    write("apt/sources.list.d/v.list", "deb http://vendor vendor main\n");
    write("apt/sources.list.d/v.list.bak", "deb http://old bookworm main\n");
    let all = source_lists(etc.path()).expect("readable");
    assert_eq!(all, [("matrix.list".into(), "deb-src http://a bookworm main\n".into())]);
    // A system whose lists name no release of its own: all of them.
    write("os-release", "ID=debian\nVERSION_CODENAME=trixie\n");
    let all = source_lists(etc.path()).expect("readable");
    assert!(all[0].1.contains("http://vendor") && all[0].1.contains("http://a"), "{all:?}");
}

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
