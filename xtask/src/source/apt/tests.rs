//! The system's lists become lists of our own.

use super::*;

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
        lines_of(text, Some("bookworm"), Kind::Source),
        [
            "deb-src http://deb.example.org/debian bookworm main contrib\n",
            "deb-src [signed-by=/k.gpg trusted=yes] http://b.example.org/ bookworm-updates main\n",
            "deb-src http://deb.example.org/security bookworm/updates main\n",
        ]
    );
    assert_eq!(lines_of(text, None, Kind::Source).len(), 4);
    let binary = lines_of(text, Some("bookworm"), Kind::Binary);
    assert_eq!(binary[0], "deb http://deb.example.org/debian bookworm main contrib\n");
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
        stanzas_of(text, Some("bookworm"), Kind::Source),
        [format!(
            "Types: deb-src\nURIs: http://deb.example.org/debian\n\
             Suites: bookworm bookworm-updates\nComponents: main\n{key}"
        )]
    );
    assert_eq!(stanzas_of(text, None, Kind::Source).len(), 2);
    assert!(stanzas_of(text, None, Kind::Binary)[1].starts_with("Types: deb\nURIs: https://v"));
}

#[test]
fn lists_of_a_system() {
    let etc = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = etc.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("written");
    };
    assert!(lists(etc.path(), Kind::Source).expect("readable").is_empty());
    write("os-release", "ID=debian\nVERSION_CODENAME=bookworm\n");
    write("apt/sources.list", "deb http://a bookworm main\ndeb-src http://a bookworm main\n");
    write("apt/sources.list.d/v.list", "deb http://vendor vendor main\n");
    write("apt/sources.list.d/v.list.bak", "deb http://old bookworm main\n");
    let all = lists(etc.path(), Kind::Source).expect("readable");
    assert_eq!(all, [("matrix.list".into(), "deb-src http://a bookworm main\n".into())]);
    // A system whose lists name no release of its own: all of them.
    write("os-release", "ID=debian\nVERSION_CODENAME=trixie\n");
    let all = lists(etc.path(), Kind::Source).expect("readable");
    assert!(all[0].1.contains("http://vendor") && all[0].1.contains("http://a"), "{all:?}");
}
