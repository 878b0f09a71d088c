//! Good archives come out as they went in; evil and broken ones are refused and touch nothing.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;

use proptest::prelude::*;

use super::*;

/// One entry of an archive that is made by hand: any name, any kind.
#[derive(Clone, Debug)]
struct Made {
    kind: u8,
    name: String,
    target: String,
    content: Vec<u8>,
    mode: u32,
    mtime: u64,
}

fn file(name: &str, content: &str) -> Made {
    Made {
        kind: b'0',
        name: name.into(),
        target: String::new(),
        content: content.into(),
        mode: 0o640,
        mtime: 1_000_000,
    }
}

fn other(kind: u8, name: &str, target: &str) -> Made {
    Made { kind, target: target.into(), ..file(name, "") }
}

fn tar(entries: &[Made]) -> Vec<u8> {
    let mut out = Vec::new();
    for made in entries {
        let mut header = tar::Header::new_ustar();
        // Written by hand: the crate's own setters refuse what is to be tested.
        header.as_mut_bytes()[..made.name.len()].copy_from_slice(made.name.as_bytes());
        header.as_mut_bytes()[157..157 + made.target.len()].copy_from_slice(made.target.as_bytes());
        header.set_entry_type(EntryType::new(made.kind));
        header.set_size(made.content.len() as u64);
        header.set_mode(made.mode);
        header.set_mtime(made.mtime);
        header.set_cksum();
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(&made.content);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}

fn try_unpack(bytes: &[u8], limits: &Limits) -> (tempfile::TempDir, anyhow::Result<u64>) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("archive");
    std::fs::write(&path, bytes).expect("written");
    let result = unpack(&path, &dir.path().join("tree"), limits);
    (dir, result)
}

fn refused(entries: &[Made], reason: &str) {
    let (dir, result) = try_unpack(&tar(entries), &Limits::default());
    let error = format!("{:#}", result.expect_err("it is refused"));
    assert!(error.contains(reason), "{error}");
    let mut names: Vec<_> = std::fs::read_dir(dir.path())
        .expect("readable")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["archive", "tree"], "nothing is written beside the tree");
}

#[test]
fn plain_modes_time_stamps_and_no_top_folder() {
    let mut program = file("p-1.0/bin/run", "#!");
    program.mode = 0o700;
    program.mtime = 2_000_000;
    let entries = [
        other(b'5', "p-1.0/", ""),
        other(b'5', "./p-1.0/bin/", ""),
        program,
        file("p-1.0/no/folder/entry", "text"),
        other(b'2', "p-1.0/link", "bin/../no/./folder"),
        other(b'1', "p-1.0/hard", "p-1.0/bin/run"),
        Made { kind: b'0', name: "p-1.0/old/".into(), ..other(b'0', "", "") },
    ];
    let (dir, epoch) = try_unpack(&tar(&entries), &Limits::default());
    assert_eq!(epoch.expect("it is fine"), 2_000_000);
    let meta = |name: &str| std::fs::metadata(dir.path().join("tree").join(name)).expect(name);
    let seen = |name: &str| (meta(name).mode() & 0o7777, meta(name).mtime());
    assert_eq!(seen("bin/run"), (0o755, 2_000_000));
    assert_eq!(seen("no/folder/entry"), (0o644, 1_000_000));
    assert_eq!(seen("link/entry").0, 0o644);
    assert_eq!(seen("hard"), (0o755, 1_000_000));
    assert_ne!(meta("hard").ino(), meta("bin/run").ino());
    assert_eq!((meta("old").is_dir(), meta("no").mtime()), (true, 2_000_000));
}

#[test]
fn every_compression_gives_the_same_tree() {
    let plain = tar(&[file("p/a", "one"), file("p/b", &"two".repeat(100_000))]);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&plain).expect("compressed");
    let mut bz = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bz.write_all(&plain).expect("compressed");
    let (gz, bz) = (gz.finish().expect("complete"), bz.finish().expect("complete"));
    // Made by `tar -cJf` of `p/a` with the content `one`.
    let xz = include_bytes!("../../../../tests/fixtures/source/small.tar.xz");
    let read = |bytes: &[u8]| {
        let (dir, result) = try_unpack(bytes, &Limits::default());
        result.expect("it unpacks");
        std::fs::read_to_string(dir.path().join("tree/a")).expect("a file")
    };
    for (bytes, end) in [(&plain, 1024), (&gz, 1), (&bz, 1), (&xz.to_vec(), 1)] {
        assert_eq!(read(bytes), "one");
        for cut in [bytes.len() / 2, bytes.len() - end] {
            let (_dir, result) = try_unpack(&bytes[..cut], &Limits::default());
            let error = format!("{:#}", result.expect_err("it is cut short"));
            assert!(error.contains("cut short") || error.contains("empty"), "{cut}: {error}");
        }
    }
    let mut damaged = bz.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x40;
    let (_dir, result) = try_unpack(&damaged, &Limits::default());
    assert!(format!("{:#}", result.expect_err("it is damaged")).contains("broken"));
}

#[test]
fn evil_entries_are_refused_by_name() {
    refused(&[file("p/../../evil", "x")], "`p/../../evil` is refused: its path has `..`");
    refused(&[file("/etc/evil", "x")], "its path is absolute");
    refused(&[file("p/a", ""), file("q/b", "")], "second top folder");
    refused(&[file("p", "")], "beside the top folder");
    refused(&[file("p/a", "1"), file("p/a", "2")], "its name is there already");
    refused(&[file("p/a", ""), file("p/a/b", "")], "`a` is a file");
    refused(&[other(b'3', "p/null", "")], "it is a device");
    refused(&[other(b'4', "p/sda", "")], "it is a device");
    refused(&[other(b'6', "p/pipe", "")], "it is a named pipe");
    refused(&[other(b'Z', "p/what", "")], "its type `Z` is unknown");
}

#[test]
fn evil_links_are_refused() {
    refused(&[other(b'2', "p/l", "/etc/passwd")], "`l` to `/etc/passwd` is absolute");
    refused(&[other(b'2', "p/l", "../other")], "leads out of the tree");
    refused(&[other(b'2', "p/l", "."), file("p/l/a", "x")], "it leads through the link `l`");
    refused(&[other(b'2', "p/l", "/etc"), file("p/l", "x")], "its name is there already");
    // The link is harmless when it comes and escapes by one that comes later.
    refused(&[other(b'2', "p/a", "d/b/.."), other(b'2', "p/d/b", "..")], "leads out of the tree");
    refused(&[other(b'1', "p/h", "/etc/passwd")], "its path is absolute");
    refused(&[other(b'1', "p/h", "p/../../archive")], "its path has `..`");
    refused(&[other(b'1', "p/h", "p/none")], "which is no file that came before");
    refused(
        &[other(b'2', "p/l", "none"), other(b'1', "p/h", "p/l")],
        "which is no file that came before",
    );
}

#[test]
fn time_stamps_of_every_kind_are_bounded() {
    for made in [
        file("p/far", "x"),
        other(b'5', "p/far", ""),
        other(b'2', "p/far", "none"),
        other(b'1', "p/far", "p/a"),
    ] {
        // The field holds up to 11 octal digits, or by GNU's form any number.
        for mtime in [NEWEST + 1, u64::MAX >> 1, u64::MAX] {
            let late = Made { mtime, ..made.clone() };
            refused(&[file("p/a", "x"), late.clone()], "the entry `p/far` is refused");
            refused(&[file("p/a", "x"), late], "out of range");
        }
        let last = Made { mtime: 8_000_000_000, ..made };
        let newest = try_unpack(&tar(&[file("p/a", "x"), last]), &Limits::default()).1;
        assert_eq!(newest.expect("unpacks"), 8_000_000_000);
    }
}

#[test]
fn limits_hold() {
    let entries = [file("p/a", "12345"), file("p/b", "12345")];
    let limits = |entries, bytes| Limits { entries, bytes };
    assert!(try_unpack(&tar(&entries), &limits(2, 10)).1.is_ok());
    let error = try_unpack(&tar(&entries), &limits(2, 9)).1.expect_err("too large");
    assert!(format!("{error:#}").contains("more than 9 bytes"), "{error:#}");
    let error = try_unpack(&tar(&entries), &limits(1, 10)).1.expect_err("too many");
    assert!(format!("{error:#}").contains("more than 1 entries"), "{error:#}");
}

#[test]
fn what_is_no_archive_is_said_so() {
    for bytes in [&b""[..], b"hello", &[0; 4096], &[7; 4096], b"BZh9no", b"\x1f\x8bno"] {
        assert!(try_unpack(bytes, &Limits::default()).1.is_err(), "{bytes:?}");
    }
}

fn paths() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "..", ".", ""]), 1..5)
        .prop_map(|parts| parts.join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512, failure_persistence: None, ..Default::default()
    })]

    /// Whatever an archive says: nothing appears outside of the tree, and in a tree that is
    /// accepted every link leads to a place inside, as the kernel sees it.
    #[test]
    fn nothing_escapes(
        parts in prop::collection::vec(
            (prop::sample::select(b"00255512".to_vec()), paths(), paths(), any::<bool>()), 1..8),
    ) {
        let entries: Vec<Made> = parts
            .into_iter()
            .map(|(kind, name, target, below)| {
                let name = if below { format!("p/{name}") } else { name };
                let target = if kind == b'1' { format!("p/{target}") } else { target };
                let content = if kind == b'0' { b"x".to_vec() } else { Vec::new() };
                Made { content, ..other(kind, &name, &target) }
            })
            .collect();
        let (dir, result) = try_unpack(&tar(&entries), &Limits::default());
        let entries = std::fs::read_dir(dir.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        prop_assert_eq!(names, ["archive", "tree"]);
        if result.is_ok() {
            let root = dir.path().canonicalize().unwrap().join("tree");
            for (path, entry) in tree::list(&root).unwrap() {
                if let Entry::Link(_) = entry
                    && let Ok(real) = root.join(&path).canonicalize()
                {
                    prop_assert!(real.starts_with(&root), "{path:?} leads to {real:?}");
                }
            }
        }
    }
}
