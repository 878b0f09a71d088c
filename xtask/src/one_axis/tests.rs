//! Two manifests that differ in known ways, and what must be told.

use super::*;
use crate::audit::judge::{Finding, Report};
use crate::build::statement::tests::manifest;
use crate::hash::Digest;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn pairs(pairs: Pairs<'_>) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// A build with these settings, flags and configuration.
fn build(settings: Pairs<'_>, cflags: &str, configuration: Pairs<'_>) -> Manifest {
    let mut manifest = manifest();
    manifest.settings = pairs(settings);
    manifest.inputs.options.cflags = words(cflags);
    manifest.configuration = pairs(configuration);
    manifest
}

#[test]
fn native_drops_the_run_time_choice_of_crc() {
    let base = build(
        &[("opt", "o2"), ("cpu", "off")],
        "-g1 -O2",
        &[
            ("Makefile.global:CFLAGS", "-Wall -fwrapv -g1 -O2"),
            ("Makefile.global:CFLAGS_SSE42", "-msse4.2"),
            ("pg_config.h:CONFIGURE_ARGS", "\" '--without-zlib' 'CFLAGS=-g1 -O2'\""),
            ("pg_config.h:USE_SSE42_CRC32C_WITH_RUNTIME_CHECK", "1"),
            ("pg_config.h:BLCKSZ", "8192"),
        ],
    );
    let native = build(
        &[("opt", "o2"), ("cpu", "native")],
        "-g1 -O2 -march=znver3 -mavx2",
        &[
            ("Makefile.global:CFLAGS", "-Wall -fwrapv -g1 -O2 -march=znver3 -mavx2"),
            ("pg_config.h:CONFIGURE_ARGS", "\" 'CFLAGS=-g1 -O2 -march=znver3 -mavx2'\""),
            ("pg_config.h:USE_SSE42_CRC32C", "1"),
            ("pg_config.h:BLCKSZ", "8192"),
        ],
    );
    let told = [
        "pg_config.h USE_SSE42_CRC32C 1 instead of undefined",
        "pg_config.h USE_SSE42_CRC32C_WITH_RUNTIME_CHECK undefined instead of 1",
        "Makefile.global CFLAGS_SSE42 none instead of -msse4.2",
    ];
    assert_eq!(besides(&base, &native), told);
    assert_eq!(axes(&base.settings, &native.settings), ["cpu"]);
    // Nobody's fault but the setting's: nothing is told.
    let mut explained = native.clone();
    explained.configuration = base.configuration.clone();
    explained.configuration[0] = native.configuration[0].clone();
    assert_eq!(besides(&base, &explained), [""; 0]);
    assert_eq!(besides(&base, &base), [""; 0]);
}

#[test]
fn lto_that_changes_the_linker_is_told() {
    let base = build(
        &[("toolchain", "clang"), ("lto", "off")],
        "-O2",
        &[
            ("compiled-by", "clang 14"),
            ("needed:bin/postgres", "libm.so.6 libc.so.6"),
            ("needed:bin/initdb", "libpq.so.5 libc.so.6"),
            ("needed:lib/gone.so", "libc.so.6"),
            ("run-path:bin/initdb", "$ORIGIN/../lib"),
        ],
    );
    let lto = build(
        &[("toolchain", "clang"), ("lto", "on")],
        "-O2 -flto=thin",
        &[
            ("compiled-by", "clang 14"),
            ("linked-by", "LLD 14.0.6"),
            ("needed:bin/postgres", "libm.so.6 libatomic.so.1 libc.so.6"),
            ("needed:bin/initdb", "libpq.so.5 libatomic.so.1 libc.so.6"),
            ("run-path:bin/initdb", "/opt/lib"),
        ],
    );
    let told = [
        "linked by LLD 14.0.6 instead of a linker that does not sign",
        "bin/initdb and 1 more linked with libatomic.so.1",
        "lib/gone.so only in the base",
        "bin/initdb run path /opt/lib instead of $ORIGIN/../lib",
    ];
    assert_eq!(besides(&base, &lto), told);
}

#[test]
fn another_compiler_explains_its_names_and_not_what_configure_dropped() {
    let gcc = build(
        &[("toolchain", "gcc")],
        "-O2",
        &[
            ("Makefile.global:CC", "gcc"),
            ("Makefile.global:GCC", "yes"),
            ("Makefile.global:CFLAGS", "-Wall -fwrapv -fexcess-precision=standard -O2"),
            ("compiled-by", "GCC: (Debian 12.2.0) 12.2.0"),
            ("pg_config.h:PG_VERSION_STR", "\"PostgreSQL 15.18, compiled by gcc\""),
        ],
    );
    let mut clang = build(
        &[("toolchain", "clang")],
        "-O2",
        &[
            ("Makefile.global:CC", "clang"),
            ("Makefile.global:GCC", "yes"),
            ("Makefile.global:CFLAGS", "-Wall -Wno-unused-command-line-argument -fwrapv -O2"),
            ("compiled-by", "clang 14"),
            ("pg_config.h:PG_VERSION_STR", "\"PostgreSQL 15.18, compiled by clang\""),
        ],
    );
    clang.toolchain.digest = Digest::of(b"clang");
    let told = ["Makefile.global CFLAGS without -fexcess-precision=standard"];
    assert_eq!(besides(&gcc, &clang), told);
}

#[test]
fn a_compiler_that_changed_in_between_is_told() {
    let base = build(&[("opt", "o2")], "-O2", &[]);
    let newer = |change: fn(&mut Manifest)| {
        let mut other = build(&[("opt", "o3")], "-O3", &[]);
        other.toolchain.digest = Digest::of(b"other");
        change(&mut other);
        besides(&base, &other)
    };
    assert_eq!(
        newer(|m| m.toolchain.version = "13.1.0".into()),
        ["gcc 13.1.0 instead of gcc 12.2.0"]
    );
    let file = |m: &mut Manifest| m.toolchain.files[0].1 = Digest::of(b"patched");
    assert_eq!(newer(file), ["another /usr/bin/gcc of gcc 12.2.0"]);
    assert_eq!(newer(|_| {}), ["another gcc 12.2.0"]);
}

#[test]
fn source_patches_recipe_and_system_are_told_unless_the_source_is_the_axis() {
    let base = build(&[("opt", "o2")], "-O2", &[]);
    let of = |change: fn(&mut Manifest)| {
        let mut other = build(&[("opt", "o3")], "-O3", &[]);
        change(&mut other);
        besides(&base, &other)
    };
    let patch = |m: &mut Manifest| {
        m.inputs.source_facts.patches.push(("postgres/a.patch".into(), Digest::of(b"a")));
        m.inputs.source_facts.digest = Digest::of(b"patched");
    };
    assert_eq!(of(patch), ["patches with postgres/a.patch"]);
    let content = |m: &mut Manifest| m.inputs.source_facts.digest = Digest::of(b"other");
    assert_eq!(of(content), ["source `pg1518` of other content"]);
    assert_eq!(of(|m| m.inputs.recipe = "postgres 9".into()).len(), 1);
    assert_eq!(of(|m| m.canonical_paths = false), ["made not under the canonical paths"]);
    assert_eq!(of(|m| m.inputs.system.push(("zlib".into(), Digest::of(b"z")))), [""; 0]);
    // Two sources of one archive: the patch is what is compared.
    let mut fork = base.clone();
    fork.source.name = "pg1518_fork".to_owned();
    patch(&mut fork);
    assert_eq!(besides(&base, &fork), [""; 0]);
    // Two releases, and one of them is patched: that is something else.
    fork.source.kind = crate::matrix::model::SourceKind::Git { url: "u".into(), rev: "r".into() };
    assert_eq!(besides(&base, &fork), ["patches with postgres/a.patch"]);
    let mut with_system = base.clone();
    with_system.inputs.system = vec![("zlib".into(), Digest::of(b"old"))];
    let mut other = with_system.clone();
    other.inputs.system[0].1 = Digest::of(b"new");
    assert_eq!(besides(&with_system, &other), ["another zlib of the system"]);
}

#[test]
fn options_are_told_when_no_setting_stands_for_them() {
    let base = build(&[("opt", "o2")], "-g1 -O2", &[("Makefile.global:CFLAGS", "-g1 -O2")]);
    let edited = build(&[("opt", "o2")], "-g1 -O3", &[("Makefile.global:CFLAGS", "-g1 -O3")]);
    assert_eq!(besides(&base, &edited), ["cflags with -O3 and without -O2"]);
    let turned = build(&[("opt", "o2")], "-O2 -g1", &[("Makefile.global:CFLAGS", "-g1 -O2")]);
    assert_eq!(besides(&base, &turned), ["cflags in another order"]);
    let configured = |with: &str| {
        let mut one = build(&[("ssl", with)], "-O2", &[("Makefile.global:with_ssl", with)]);
        one.inputs.options.configure = vec![format!("--with-ssl={with}")];
        one
    };
    assert_eq!(besides(&configured("no"), &configured("openssl")), [""; 0]);
    let cmake = |value: &str| {
        let cache = [("CMakeCache.txt:WITH_LTO", value), ("CMakeCache.txt:USE_LD_LLD", value)];
        let mut one = build(&[("lto", value)], "-O2", &cache);
        one.inputs.options.cmake = pairs(&[("WITH_LTO", value)]);
        one.configuration[1].1 = if value == "ON" { "0" } else { "1" }.to_owned();
        one
    };
    let told = ["CMakeCache.txt USE_LD_LLD 0 instead of 1"];
    assert_eq!(besides(&cmake("OFF"), &cmake("ON")), told);
}

#[test]
fn flags_of_single_files_and_missing_records_are_told() {
    let audited = |settings: Pairs<'_>, texts: &[&str]| {
        let mut one = build(settings, "-O2", &[("pg_config.h:A", "1")]);
        let finding = |text: &&str| Finding {
            verdict: Verdict::Explained,
            text: (*text).to_owned(),
            evidence: Default::default(),
            binary: "bin/postgres".to_owned(),
            units: vec!["port/pg_crc32c_sse42.c".to_owned()],
            unit_count: 1,
            text_bytes: 1,
        };
        one.audit = Some(Report {
            verdict: Verdict::Explained,
            findings: texts.iter().map(finding).collect(),
            units: 1,
            text_bytes: 1,
        });
        one
    };
    let base = audited(&[("cpu", "off")], &["-msse4.2: the file's own", "-ftree-vectorize: sums"]);
    let other = audited(&[("cpu", "v3")], &["-ftree-vectorize: sums", "frame pointers 84%"]);
    assert_eq!(besides(&base, &other), ["-msse4.2 for pg_crc32c_sse42.c only in the base"]);
    let unrecorded = Manifest { configuration: Vec::new(), ..other };
    assert_eq!(besides(&base, &unrecorded)[0], "how one of the two was configured is not recorded");
}

#[test]
fn what_is_too_long_is_counted() {
    let many: Vec<String> = (0..7).map(|number| format!("h A{number} 1 instead of 2")).collect();
    assert!(listed(&many).ends_with("h A3 1 instead of 2 and 3 more"));
    assert_eq!(listed(&many[..1]), "h A0 1 instead of 2");
    let long = words::change(&[], &words("a b c d e f g h"));
    assert_eq!(long.as_deref(), Some("with a b c d e f (and 2 more words)"));
}

#[test]
fn words_are_compared_without_quotes_and_as_often_as_they_stand_there() {
    assert_eq!(words::split("'CFLAGS=-O2 -g' \"x\" --with=y"), ["-O2", "-g", "x", "--with=y"]);
    let (gone, new) = words::difference(&words("a b a c"), &words("a c d"));
    assert_eq!((gone, new), (words("b a"), words("d")));
    assert!(words::is_warning("-Wall") && !words::is_warning("-Wl,--as-needed"));
    let a = axes(&pairs(&[("x", "1"), ("y", "1")]), &pairs(&[("y", "2"), ("z", "1")]));
    assert_eq!(a, ["x", "y", "z"]);
}
