//! The judge against units as gcc and clang write them, and against a program that a real gcc made.

use super::*;
use crate::audit::elf::{self, Frames, Unit};
use crate::audit::log::tests::command;
use crate::audit::objects::Object;
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
        lto_by_option: false,
    }
}

/// Judges without a log.
fn judge(asked: &Asked, binaries: &[(String, Facts)], allowed: &[Allowed]) -> Report {
    super::judge(&Case { asked, binaries, allowed, log: None, script: None })
}

/// Judges with the log of these command lines, which `compiler` got.
fn with_log(
    asked: &Asked,
    binaries: &[(String, Facts)],
    lines: &[&str],
    script: Option<&str>,
) -> Report {
    let log = log(lines);
    super::judge(&Case { asked, binaries, allowed: &ALLOWED, log: Some(&log), script })
}

fn log(lines: &[&str]) -> Log {
    Log::new(&lines.iter().map(|line| command("/mnt/obj", line)).collect::<Vec<_>>())
}

fn binary(units: &[(&str, &str)]) -> Vec<(String, Facts)> {
    let units = units
        .iter()
        .map(|(name, producer)| Unit {
            name: (*name).to_owned(),
            folder: "/mnt/obj".to_owned(),
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

/// Units as they are in a program that gcc's LTO made: their code belongs to the link's units.
fn lto_binary(own_bytes: u64, link: bool) -> Vec<(String, Facts)> {
    let lto = format!("{BASE} -O2 -flto=auto");
    let mut found = binary(&[("a.c", &lto), ("<artificial>", "GNU GIMPLE 12.2.0 -O2 -fltrans")]);
    found[0].1.units[0].text_bytes = own_bytes;
    if !link {
        found[0].1.units.pop();
    }
    found
}

#[test]
fn lto_must_be_proven_and_must_not_be_added() {
    let plain = format!("{BASE} -O2");
    let wanted = asked(&["-O2", "-flto=auto"]);
    let none = judge(&wanted, &lto_binary(0, false), &ALLOWED);
    // Few functions and no object that tells: not known.
    assert_eq!(none.verdict, Verdict::Unknown, "{none:?}");
    let mut large = lto_binary(0, false);
    large[0].1.frames.functions = 100;
    let none = judge(&wanted, &large, &ALLOWED);
    assert_eq!(texts(&none), ["-flto=auto was asked for, but nothing shows that it happened"]);
    // What clang's ThinLTO renames is what other objects use: none is no proof.
    large[0].1.units.clear();
    assert_eq!(judge(&wanted, &large, &ALLOWED).verdict, Verdict::Mismatch);
    let clang = Asked { family: Family::Clang, ..asked(&["-O2", "-flto=thin"]) };
    assert_eq!(judge(&clang, &large, &ALLOWED).verdict, Verdict::Unknown);
    assert_eq!(none.verdict, Verdict::Mismatch);
    let both = judge(&wanted, &lto_binary(0, true), &ALLOWED);
    assert_eq!(both.verdict, Verdict::AsAsked, "{both:?}");
    let link = ("x", "GNU GIMPLE 12.2.0 -O2 -fltrans");
    let added = judge(&asked(&["-O2"]), &binary(&[("a.c", &plain), link]), &ALLOWED);
    assert_eq!(texts(&added), ["link-time optimisation happened and was not asked for"]);
}

#[test]
fn lto_that_left_out_fat_objects_names_them() {
    let wanted = asked(&["-O2", "-flto=auto"]);
    let report = judge(&wanted, &lto_binary(70, true), &ALLOWED);
    assert_eq!(report.verdict, Verdict::Mismatch);
    assert!(report.findings[0].text.contains("did not happen for these files"), "{report:?}");
    assert_eq!(
        (&report.findings[0].units[..], report.findings[0].text_bytes),
        (&["a.c".to_owned()][..], 70)
    );
}

#[test]
fn objects_prove_lto_where_binaries_are_silent() {
    let wanted = asked(&["-O2", "-flto=auto"]);
    let found = lto_binary(0, false);
    let report = |object: Object| {
        let mut log = log(&["gcc -g1 -O2 -flto=auto -c a.c"]);
        log.calls[0].object = Some(object);
        super::judge(&Case {
            asked: &wanted,
            binaries: &found,
            allowed: &ALLOWED,
            log: Some(&log),
            script: None,
        })
    };
    let slim = report(Object { intermediate: true, text_bytes: 0 });
    assert_eq!(slim.verdict, Verdict::AsAsked, "{slim:?}");
    let fat = report(Object { intermediate: true, text_bytes: 9 });
    assert_eq!(texts(&fat), ["-flto=auto was asked for, but nothing shows that it happened"]);
    let none = report(Object { intermediate: false, text_bytes: 9 });
    assert!(
        texts(&none)
            .iter()
            .any(|text| text.ends_with("wrote no intermediate code for these files")),
        "{none:?}"
    );
}

#[test]
fn the_log_tells_who_gave_a_flag() {
    let units = [("a.c", format!("{BASE} -O2 -O1"))];
    let units = units.each_ref().map(|(name, producer)| (*name, producer.as_str()));
    let wanted = asked(&["-O2"]);
    let first = |lines: &[&str], script| {
        let report = with_log(&wanted, &binary(&units), lines, script);
        assert_eq!(report.findings[0].evidence, Evidence::Producer);
        (report.verdict, report.findings[0].text.clone())
    };
    let project = first(&["gcc -g -O2 -O1 -c a.c"], None);
    let text = "asked for -O2, got -O1 (the project's own call gives it)";
    assert_eq!(project, (Verdict::Mismatch, text.to_owned()));
    let script = first(&["gcc -g -O2 -c a.c"], Some("/home/x/bin/gcc"));
    let text = "asked for -O2, got -O1 (no call gives it: the compiler `/home/x/bin/gcc`, a script, adds it)";
    assert_eq!(script, (Verdict::Mismatch, text.to_owned()));
    // A default of the compiler is part of what identifies it.
    let units = [("a.c", format!("{BASE} -O2 -fstack-protector-strong"))];
    let units = units.each_ref().map(|(name, producer)| (*name, producer.as_str()));
    let with = |script| with_log(&wanted, &binary(&units), &["gcc -g -O2 -c a.c"], script);
    let report = with(None);
    assert_eq!(report.verdict, Verdict::Explained, "{report:?}");
    assert_eq!(texts(&report), ["-fstack-protector-strong: a default of this compiler"]);
    assert_eq!(with(Some("/x/gcc")).verdict, Verdict::Mismatch);
}

#[test]
fn clang_is_judged_by_its_calls() {
    let mut wanted = asked(&["-g1", "-O2"]);
    (wanted.family, wanted.version) = (Family::Clang, "14.0.6".to_owned());
    let clang = "Debian clang version 14.0.6";
    let found = binary(&[("a.c", clang), ("checksum.c", clang), ("odd.c", clang)]);
    let lines = [
        "clang -Wall -fwrapv -g1 -O2 -c a.c",
        "clang -fwrapv -funroll-loops -g1 -O2 -c checksum.c",
        "clang -fwrapv -g1 -O2 -ffast-math -O3 -c odd.c",
        "clang -O0 -g -c helper-that-is-in-no-binary.c",
    ];
    let report = with_log(&wanted, &found, &lines, None);
    assert_eq!(
        texts(&report),
        [
            "-ffast-math was not asked for",
            "asked for -O2, got -O3",
            "-fwrapv: the project relies on wrapping integers",
            "-funroll-loops: the project tunes this file",
        ],
        "{report:?}"
    );
    assert!(report.findings.iter().all(|finding| finding.evidence == Evidence::Log));
    assert_eq!(
        (&report.findings[0].units[..], report.findings[0].text_bytes),
        (&["odd.c".to_owned()][..], 100)
    );
    let script = with_log(&wanted, &binary(&[("a.c", clang)]), &lines[..1], Some("/x/clang"));
    assert_eq!(script.verdict, Verdict::Unknown, "{script:?}");
}

#[test]
fn without_debug_information_the_log_is_all() {
    let lines = ["gcc -O2 -g0 -c a.c", "gcc -O2 -g0 -Os -c lib/b.c"];
    let report = with_log(&asked(&["-O2", "-g0"]), &binary(&[]), &lines, None);
    assert_eq!(texts(&report), ["asked for -O2, got -Os"], "{report:?}");
    assert_eq!(report.findings[0].units, ["obj/lib/b.c"]);
    let fine = with_log(&asked(&["-O2"]), &binary(&[]), &lines[..1], None);
    assert_eq!(fine.verdict, Verdict::AsAsked, "{fine:?}");
}

#[test]
fn comments_name_the_compiler_and_the_linker() {
    let with = |lines: &[&str]| {
        let mut found = binary(&[("a.c", &format!("{BASE} -O2"))]);
        found[0].1.comments = lines.iter().map(|line| (*line).to_owned()).collect();
        judge(&asked(&["-O2"]), &found, &ALLOWED)
    };
    assert_eq!(with(&["GCC: (Debian 12.2.0-14) 12.2.0"]).verdict, Verdict::AsAsked);
    assert_eq!(
        texts(&with(&["GCC: (GNU) 13.1.0"])),
        ["no part was made by gcc 12.2.0, only by GCC: (GNU) 13.1.0"]
    );
    let clang = with(&["GCC: (Debian 12.2.0-14) 12.2.0", "Debian clang version 14.0.6"]);
    assert_eq!(texts(&clang), ["a part was made by another compiler: Debian clang version 14.0.6"]);
    let lld = with(&["GCC: (Debian 12.2.0-14) 12.2.0", "Linker: LLD 14.0.6"]);
    assert_eq!(texts(&lld), ["linked by lld, not asked for"]);
    let debian = with(&["GCC: (Debian 12.2.0-14) 12.2.0", "Linker: Debian LLD 14.0.6"]);
    assert_eq!(texts(&debian), ["linked by lld, not asked for"]);
}

#[test]
fn links_have_what_was_asked_of_the_linker() {
    let found = binary(&[("a.c", &format!("{BASE} -O2"))]);
    let mut wanted = asked(&["-O2"]);
    wanted.ldflags = vec!["-Wl,-z,now".to_owned()];
    let call = "gcc -g -O2 -c a.c";
    let fine = with_log(&wanted, &found, &[call, "gcc -o p a.o -Wl,-z,now"], None);
    assert_eq!(fine.verdict, Verdict::AsAsked, "{fine:?}");
    let report = with_log(&wanted, &found, &[call, "gcc -o p a.o"], None);
    assert_eq!(texts(&report), ["asked for -Wl,-z,now at the link, where it is missing"]);
    assert_eq!(report.findings[0].units, ["mnt/obj/p"]);
    // clang makes the code at the link.
    let mut wanted = asked(&["-O3", "-flto=thin"]);
    (wanted.family, wanted.version) = (Family::Clang, "14.0.6".to_owned());
    let mut found = binary(&[("a.c", "clang version 14.0.6")]);
    found[0].1.thin_promoted = 7;
    let lines = ["clang -g -O3 -flto=thin -c a.c", "clang -O3 -flto=thin -o p a.o -O1"];
    let report = with_log(&wanted, &found, &lines, None);
    assert_eq!(texts(&report), ["asked for -O3, and the link, where clang optimises, got -O1"]);
}

#[test]
fn lto_that_an_option_asks_for_is_asked_for() {
    let mut wanted = asked(&["-O2"]);
    wanted.lto_by_option = true;
    let report = judge(&wanted, &lto_binary(0, true), &ALLOWED);
    assert_eq!(report.verdict, Verdict::AsAsked, "{report:?}");
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
