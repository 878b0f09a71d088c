//! The judge against units as gcc and clang write them, and against a program that a real gcc made.

use super::*;
use crate::audit::elf::{self, Frames, Unit};
use crate::proc::Proc;

const BASE: &str = "GNU C17 12.2.0 -mtune=generic -march=x86-64";
const ALLOWED: [Allowed; 5] = [
    Allowed { file: "", flag: "-mtune=generic", why: "" },
    Allowed { file: "", flag: "-march=x86-64", why: "" },
    Allowed { file: "", flag: "-fasynchronous-unwind-tables", why: "" },
    Allowed { file: "", flag: "-fwrapv", why: "the project relies on wrapping integers" },
    Allowed { file: "checksum.c", flag: "-funroll-loops", why: "the project tunes this file" },
];

fn asked(flags: &[&str]) -> Asked {
    let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
    Asked {
        family: Family::Gcc,
        version: "12.2.0".to_owned(),
        cflags: flags.clone(),
        cxxflags: flags,
        ldflags: Vec::new(),
    }
}

fn binary(units: &[(&str, &str)]) -> Vec<(String, Facts)> {
    let units = units
        .iter()
        .map(|(name, producer)| Unit {
            name: (*name).to_owned(),
            producer: (*producer).to_owned(),
            text_bytes: 100,
        })
        .collect();
    vec![("bin/postgres".to_owned(), Facts { units, text_bytes: 1000, ..Facts::default() })]
}

fn texts(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|finding| finding.text.as_str()).collect()
}

#[test]
fn as_asked() {
    let report = judge(
        &asked(&["-g1", "-O2", "-O3"]),
        &binary(&[("a.c", &format!("{BASE} -g1 -O2 -O3"))]),
        &ALLOWED,
    );
    assert_eq!((report.verdict, report.units), (Verdict::AsAsked, 1), "{report:?}");
}

#[test]
fn the_last_level_wins() {
    let units = [("a.c", format!("{BASE} -O2")), ("b.c", format!("{BASE} -O2 -O1"))];
    let units = units.each_ref().map(|(name, producer)| (*name, producer.as_str()));
    let report = judge(&asked(&["-O2"]), &binary(&units), &ALLOWED);
    assert_eq!(report.verdict, Verdict::Mismatch);
    assert_eq!(texts(&report), ["asked for -O2, got -O1"]);
    assert_eq!(
        (&report.findings[0].units[..], report.findings[0].text_bytes),
        (&["b.c".to_owned()][..], 100)
    );
}

#[test]
fn project_flags_are_explained_only_where_they_belong() {
    let with = format!("{BASE} -O2 -fwrapv -funroll-loops");
    let fine = judge(&asked(&["-O2"]), &binary(&[("src/checksum.c", &with)]), &ALLOWED);
    assert_eq!(fine.verdict, Verdict::Explained, "{fine:?}");
    assert!(texts(&fine).contains(&"-funroll-loops: the project tunes this file"));
    let odd = judge(&asked(&["-O2"]), &binary(&[("src/other.c", &with)]), &ALLOWED);
    assert_eq!(texts(&odd)[0], "-funroll-loops was not asked for");
}

#[test]
fn another_compiler_or_version_is_found() {
    let units = [
        ("a.c", "GNU C17 13.1.0 -O2"),
        ("b.c", "clang version 14.0.6 /usr/bin/clang -O2"),
        ("c.s", "GNU AS 2.40"),
    ];
    let report = judge(&asked(&["-O2"]), &binary(&units), &ALLOWED);
    assert_eq!(
        texts(&report),
        [
            "made by another compiler: clang version 14.0.6 /usr/bin/clang",
            "made by version 13.1.0, asked for 12.2.0"
        ]
    );
}

#[test]
fn lto_must_be_proven_and_must_not_be_added() {
    let plain = format!("{BASE} -O2");
    let lto = format!("{BASE} -O2 -flto=auto");
    let link = "GNU GIMPLE 12.2.0 -O2 -fltrans";
    let wanted = asked(&["-O2", "-flto=auto"]);
    let none = judge(&wanted, &binary(&[("a.c", &lto)]), &ALLOWED);
    assert_eq!(texts(&none), ["-flto=auto was asked for, but nothing shows that it happened"]);
    let both = judge(&wanted, &binary(&[("a.c", &lto), ("<artificial>", link)]), &ALLOWED);
    assert_eq!(both.verdict, Verdict::AsAsked, "{both:?}");
    let added = judge(&asked(&["-O2"]), &binary(&[("a.c", &plain), ("x", link)]), &ALLOWED);
    assert_eq!(texts(&added), ["link-time optimisation happened and was not asked for"]);
}

#[test]
fn frame_pointers_are_judged_by_the_code() {
    let facts = |by_frame_pointer| {
        let mut found = binary(&[("a.c", &format!("{BASE} -O2 -fno-omit-frame-pointer"))]);
        found[0].1.frames = Frames { functions: 1000, by_frame_pointer };
        found
    };
    let wanted = asked(&["-O2", "-fno-omit-frame-pointer"]);
    assert_eq!(judge(&wanted, &facts(840), &ALLOWED).verdict, Verdict::AsAsked);
    let report = judge(&wanted, &facts(3), &ALLOWED);
    assert_eq!(
        texts(&report),
        ["frame pointers asked for, but only 0.3% of the functions have one"]
    );
}

#[test]
fn what_is_not_recorded_is_unknown_not_fine() {
    let report = judge(&asked(&["-O2"]), &binary(&[]), &ALLOWED);
    assert_eq!(report.verdict, Verdict::Unknown);
    let report = judge(&asked(&["-O2"]), &binary(&[("a.c", "GNU C17 12.2.0")]), &ALLOWED);
    assert_eq!(report.verdict, Verdict::Unknown);
}

/// A real gcc, a wrapper's hidden `-O1` on one of two files.
#[test]
fn a_real_program() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let main = file("main.c", "int f(int); int main(int c, char **v) { (void)v; return f(c); }");
    let other = file("other.c", "int f(int c) { int s = 0; while (c > 0) s += c--; return s; }");
    let gcc = |args: &[&str]| {
        Proc::new("/usr/bin/gcc").args(args).cwd(dir.path()).run().expect("gcc works");
    };
    let path = |path: &std::path::Path| path.display().to_string();
    gcc(&["-g1", "-O2", "-c", "-o", "main.o", &path(&main)]);
    gcc(&["-g1", "-O2", "-O1", "-c", "-o", "other.o", &path(&other)]);
    gcc(&["-o", "program", "main.o", "other.o"]);
    let facts = elf::read(&dir.path().join("program")).expect("readable");
    assert!(facts.needed.iter().any(|name| name.starts_with("libc.so")), "{:?}", facts.needed);
    let version = Proc::new("/usr/bin/gcc").arg("-dumpfullversion").read().expect("a version");
    let mut wanted = asked(&["-g1", "-O2"]);
    wanted.version = version;
    let report = judge(&wanted, &[("program".to_owned(), facts)], &ALLOWED);
    let found: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Mismatch)
        .map(|finding| (finding.text.as_str(), finding.units[0].ends_with("other.c")))
        .collect();
    assert_eq!(found, [("asked for -O2, got -O1", true)], "{report:?}");
}
