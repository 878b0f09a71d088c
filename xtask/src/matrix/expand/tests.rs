//! Expanding, with a table instead of a machine.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::diag::File;
use crate::facts::{SourceFacts, Unavailable, Unusable};
use crate::matrix::model::{Engine, Family, Source};
use crate::matrix::{Known, parse};
use crate::toolchain::system::Need;

mod machine;

/// A machine: gcc and clang, one of which may be missing.
#[derive(Clone, Debug)]
struct Machine {
    arch: &'static str,
    compilers: &'static [&'static str],
}

const MACHINE: Machine = Machine { arch: "x86_64", compilers: &["gcc", "clang"] };

impl Facts for Machine {
    fn arch(&self) -> &str {
        self.arch
    }

    fn toolchain(&self, name: &str) -> Result<Toolchain, Unavailable> {
        if !self.compilers.contains(&name) {
            let hint = Some(format!("apt-get install {name}"));
            return Err(Unavailable { reason: format!("{name} not found"), hint });
        }
        let family = if name.starts_with("gcc") { Family::Gcc } else { Family::Clang };
        Ok(Toolchain {
            name: name.to_owned(),
            family,
            version: "1.2.3".to_owned(),
            target: format!("{}-linux-gnu", self.arch),
            tools: Vec::new(),
            files: Vec::new(),
            digest: Digest::of(name.as_bytes()),
            details: Default::default(),
            sealed: None,
        })
    }

    fn resolve(&self, of: &Toolchain, options: &Options) -> Result<Options, Unusable> {
        if of.family == Family::Clang && options.cflags.iter().any(|flag| flag == "-flto=full") {
            let (reason, hint) = ("no matching lld".to_owned(), Some("apt-get install lld".into()));
            return Err(Unusable::Unavailable(Unavailable { reason, hint }));
        }
        let mut resolved = options.clone();
        for flag in resolved.cflags.iter_mut().chain(&mut resolved.cxxflags) {
            if flag == "-fbogus" {
                return Err("unrecognized command-line option `-fbogus`".to_owned().into());
            }
            *flag = flag.replace("=native", "=znver3");
        }
        Ok(resolved)
    }

    fn system(&self, _: &Toolchain, needs: &[Need]) -> Vec<(String, Digest)> {
        needs.iter().map(|need| (need.name(), Digest::of(need.name().as_bytes()))).collect()
    }

    fn source(&self, source: &Source) -> Result<SourceFacts, Unavailable> {
        let version = source.version.as_ref().map_or("15.9".to_owned(), ToString::to_string);
        let digest = Digest::of(source.name.as_bytes());
        Ok(SourceFacts { version, digest, patches: Vec::new() })
    }
}

fn recipe(_: Engine) -> &'static str {
    "r1"
}

fn known() -> Known {
    let names = vec![
        "point-query_range=100",
        "random-points_range=100",
        "range-covered-pk_range=100",
        "read-only_range=100",
        "scan_range=100",
        "update-nonindex_range=100",
        "insert_range=100",
    ];
    Known { names, find: |name| known().names.into_iter().find(|full| full.starts_with(name)) }
}

fn read(text: &str) -> Matrix {
    parse(&File::new("matrix.toml", text), &known()).unwrap_or_else(|error| panic!("{error}"))
}

/// Names and ids, or all mistakes.
fn names(text: &str, set: &[&str]) -> Result<Vec<(String, Option<Digest>)>, String> {
    names_on(&MACHINE, text, set)
}

fn names_on(
    facts: &Machine,
    text: &str,
    set: &[&str],
) -> Result<Vec<(String, Option<Digest>)>, String> {
    let matrix = parse(&File::new("m", text), &known()).map_err(|error| error.to_string())?;
    let set: Vec<String> = set.iter().map(|word| (*word).to_owned()).collect();
    let experiment = &matrix.experiments[0];
    match expand(&matrix, experiment, &set, facts, recipe) {
        Ok(all) => Ok((0..all.builds()).map(|build| (all.name(build), all.id(build))).collect()),
        Err(error) => Err(error.to_string()),
    }
}

fn only_names(text: &str) -> Vec<String> {
    only_names_set(text, &[])
}

fn only_names_set(text: &str, set: &[&str]) -> Vec<String> {
    let found = names(text, set).unwrap_or_else(|error| panic!("{error}"));
    found.into_iter().map(|(name, _)| name).collect()
}

/// Two engines, four axes; the experiment's lines come behind.
fn with(experiment: &str) -> String {
    format!("{HEAD}[experiment.e]\nsources = [\"pg\"]\n{experiment}\n")
}

const HEAD: &str = r#"schema = 1
[source.pg]
engine = "postgres"
version = "15.18"
git = "x"
rev = "0123456789012345678901234567890123456789"
[source.my]
engine = "mysql"
version = "8.0.39"
git = "x"
rev = "0123456789012345678901234567890123456789"
[source.inst]
engine = "postgres"
prefix = "/usr"
[axis.toolchain]
gcc = { tag = "" }
clang = { tag = "clang" }
[axis.opt]
o1 = { flags = ["-O1"], tag = "o1" }
o2 = { flags = ["-O2"], tag = "o2" }
o3 = { flags = ["-O3"], tag = "o3" }
[axis.lto]
off = { tag = "" }
on = { gcc.flags = ["-flto=auto"], clang.flags = ["-flto=thin"], tag = "lto" }
[axis.psi]
full = { tag = "" }
less = { tag = "lessps", when = "engine = mysql", mysql.cmake = { DISABLE_PSI_MUTEX = 1 } }
[run-axis.jit]
off = { tag = "", postgresql = { jit = false } }
on = { tag = "jit", postgresql = { jit = true }, when = "opt != o1" }
[variant]
a = { opt = "o2" }
b = { opt = "o3", lto = "on" }
[config.c]
engine = "postgres"
postgresql = { work_mem = "4MB", jit = true }
[config.d]
inherits = "c"
postgresql = { work_mem = "8MB" }
[config.my]
engine = "mysql"
[workload.w]
kind = "sysbench"
rows = 10
"#;

#[test]
fn products_variants_and_zips_have_names() {
    let cross = with("variants = ['b', 'a']\ncross = { opt = ['o1', 'o2'], lto = '*' }");
    // `opt = o2` alone is the variant `a`, met first as a variant.
    assert_eq!(only_names(&cross), ["pg_b", "pg_a", "pg_o1", "pg_o1_lto", "pg_o2_lto"]);
    let zip = with("zip = { opt = ['o1', 'o3'], toolchain = ['clang', 'gcc'] }");
    assert_eq!(only_names(&zip), ["pg_clang_o1", "pg_o3"]);
    assert_eq!(only_names(&with("cross = { opt = 'o1..o3' }")), ["pg_o1", "pg_o2", "pg_o3"]);
    assert_eq!(only_names(&with("cross = { opt = 'o[23]' }")), ["pg_o2", "pg_o3"]);
    assert_eq!(only_names(&with("")), ["pg_o1"]);
    let installed = with("").replace("[\"pg\"]", "[\"pg\", \"inst\"]");
    assert_eq!(only_names(&installed), ["pg_o1", "inst"]);
}

#[test]
fn rules_apply_in_written_order() {
    let text = with(
        "cross = { opt = '*', lto = '*' }
        [[experiment.e.exclude]]
        opt = 'o3'
        why = 'slow'
        [[experiment.e.include]]
        opt = 'o3'
        toolchain = 'clang'
        why = 'but this one'
        [[experiment.e.only]]
        lto = 'off'
        why = 'no lto'",
    );
    assert_eq!(only_names(&text), ["pg_o1", "pg_o2", "pg_clang_o3"]);
    let matrix = read(&text);
    let all = expand(&matrix, &matrix.experiments[0], &[], &MACHINE, recipe).expect("expands");
    let counts: Vec<_> = all.rules.iter().map(|rule| (rule.text.as_str(), rule.count)).collect();
    assert_eq!(counts, [("opt = o3", 2), ("opt = o3, toolchain = clang", 1), ("lto = off", 2)]);
}

#[test]
fn rules_by_version_name_source_and_variant() {
    let two = |rule: &str| {
        with(&format!("variants = ['a', 'b']\n{rule}")).replace("[\"pg\"]", "[\"pg\", \"my\"]")
    };
    for (rule, expected) in [
        ("only = [{ version = '8.0.13..8.4', why = 'x' }]", vec!["my_a", "my_b"]),
        ("exclude = [{ engine = 'mysql', why = 'x' }]", vec!["pg_a", "pg_b"]),
        ("exclude = [{ source = 'pg', variant = 'a', why = 'x' }]", vec!["pg_b", "my_a", "my_b"]),
        ("only = [{ build = ['*_b', 'my_*'], why = 'x' }]", vec!["pg_b", "my_a", "my_b"]),
        ("exclude = [{ version = ['15'], lto = 'on', why = 'x' }]", vec!["pg_a", "my_a", "my_b"]),
    ] {
        assert_eq!(only_names(&two(rule)), expected, "{rule}");
    }
}

fn targets_of(text: &str) -> Vec<String> {
    let matrix = read(text);
    let all = expand(&matrix, &matrix.experiments[0], &[], &MACHINE, recipe)
        .unwrap_or_else(|error| panic!("{error}"));
    (0..all.targets()).map(|target| all.target(target).name).collect()
}

#[test]
fn targets_of_configs_and_run_axes() {
    let base = "variants = ['a']\nconfigs = ['c', 'd']\nrun = { jit = '*' }\n";
    let all = ["pg_a.c", "pg_a.c_jit", "pg_a.d", "pg_a.d_jit"];
    assert_eq!(targets_of(&with(base)), all);
    let rule = "exclude = [{ config = 'd', jit = 'on', why = 'x' }]";
    assert_eq!(targets_of(&with(&format!("{base}{rule}"))), &all[..3]);
    // `when` on a run-only setting: not for the build with -O1.
    let o1 = "configs = ['c']\nrun = { jit = '*' }\n";
    assert_eq!(targets_of(&with(o1)), ["pg_o1.c"]);
    let builds = with(base).replace("inherits = \"c\"", "inherits = \"c\"\nbuilds = [\"*_b\"]");
    assert_eq!(targets_of(&builds), &all[..2]);
    let matrix = read(&with(base));
    let all = expand(&matrix, &matrix.experiments[0], &[], &MACHINE, recipe).expect("expands");
    let server = all.target(2).server.postgresql;
    let server: Vec<_> = server.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
    assert_eq!(server, ["work_mem=Text(\"8MB\")", "jit=Text(\"off\")"]);
    assert_ne!(all.target(0).id, all.target(1).id);
    assert_ne!(all.target(0).id, all.target(2).id);
}

#[test]
fn set_replaces_collapses_and_renames() {
    let text = with("variants = ['a', 'b']\nconfigs = ['c']\nbase = 'pg_b.c'");
    assert_eq!(only_names_set(&text, &["toolchain=clang"]), ["pg_clang_o2", "pg_clang_o3_lto"]);
    assert_eq!(only_names_set(&text, &["opt=o3"]), ["pg_o3", "pg_b"]);
    assert_eq!(only_names_set(&text, &["opt=o3", "lto=on"]), ["pg_b"]);
    // The base is meant by the name that it has without `--set`, also when a run-axis is fixed.
    let matrix = read(&text);
    let set = ["jit=on".to_owned()];
    let all = expand(&matrix, &matrix.experiments[0], &set, &MACHINE, recipe).expect("expands");
    assert_eq!(all.base.map(|base| all.target(base).name), Some("pg_b.c_jit".to_owned()));
    let error = names(&text, &["optt=o3", "opt=o9", "x"]).expect_err("mistakes");
    for part in ["axis `optt` is not defined", "did you mean `opt`", "`o9`", "AXIS=SETTING"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn missing_compilers_make_cells_unavailable() {
    let gcc_only = Machine { arch: "x86_64", compilers: &["gcc"] };
    let matrix = read(&with("cross = { toolchain = '*' }"));
    let all = expand(&matrix, &matrix.experiments[0], &[], &gcc_only, recipe).expect("expands");
    assert_eq!((all.unavailable(0), all.id(1)), (None, None));
    let reason = all.unavailable(1).expect("unavailable");
    assert_eq!(reason, "clang not found; install with `apt-get install clang`");
    assert_eq!(all.spec(1).map(|spec| spec.name), Err(reason.to_owned()));
}

#[test]
fn mistakes_of_an_experiment() {
    for (lines, parts) in [
        ("exclude = [{ psi = 'less', why = 'x' }]", vec!["matches nothing: `psi = less`"]),
        ("exclude = [{ opt = '*', why = 'x' }]", vec!["removes the last 1 cell"]),
        ("cross = { psi = 'less' }", vec!["has no cells", "1 cell left out", "engine = mysql"]),
        ("configs = ['c']\nbase = 'pg_o1.x'", vec!["is not a target", "did you mean `pg_o1.c`"]),
        ("include = [{ opt = 'o1', why = 'x' }, { opt = 'o1', why = 'y' }]", vec!["adds no cells"]),
    ] {
        let error = names(&with(lines), &[]).expect_err(lines);
        assert!(parts.iter().all(|part| error.contains(part)), "{lines}: {error}");
    }
    let refused = with("cross = { opt = '*' }").replace("-O3", "-fbogus");
    let error = names(&refused, &[]).expect_err("a refusal");
    assert!(error.contains("setting `o3` of axis `opt`: `gcc` refuses: unrecognized"), "{error}");
    assert!(names(&refused.replace("'*'", "'o1'"), &[]).is_ok(), "nothing asks for the flag");
    let same = with("cross = { opt = '*' }").replace("tag = \"o3\"", "tag = \"o2\"");
    let error = names(&same, &[]).expect_err("one name");
    assert!(error.contains("two different cells have the name `pg_o2`"), "{error}");
    assert!(error.contains("one has opt = o2, the other opt = o3"), "{error}");
    let both = with("").replace("[\"-O1\"]", "[\"-O1\"], env = { A = 1 }");
    let both = both.replace("off = { tag = \"\" }", "off = { tag = \"\", env = { A = 2 } }");
    let error = names(&both, &[]).expect_err("a contradiction");
    assert!(error.contains("`opt = o1` and `lto = off` give `A` different values"), "{error}");
    assert!(names(&both.replace("A = 2", "A = 1"), &[]).is_ok(), "one value twice is fine");
}

#[test]
fn ids_depend_on_what_is_given_and_on_nothing_else() {
    let text = with("variants = ['a', 'b']");
    let before = names(&text, &[]).expect("expands");
    // Names of settings, tags, an axis that adds nothing: no id changes.
    let renamed = text.replace("o2", "oh2").replace("[run-axis", "[axis.new]\nx = {}\n[run-axis");
    let after = names(&renamed, &[]).expect("expands");
    assert_eq!(before, after);
    let changed = names(&text.replace("-O2", "-O1"), &[]).expect("expands");
    assert_ne!(before[0].1, changed[0].1);
    assert_eq!(before[1], changed[1]);
}

#[test]
fn the_fast_way_to_an_id_agrees_with_the_definition() {
    let two = with("cross = { opt = '*', lto = '*', toolchain = '*', psi = '*' }");
    let two = two.replace("[\"pg\"]", "[\"pg\", \"my\", \"inst\"]");
    // With and without variables that two axes set.
    let overlap =
        two.replace("gcc = { tag", "gcc = { mysql.cmake = { DISABLE_PSI_MUTEX = 1 }, tag");
    let library =
        "{ postgres.configure = ['--with-lz4'], mysql.cmake = { WITH_LZ4 = 'system' }, tag";
    let system = overlap.replace("clang = { tag", &format!("clang = {library}"));
    assert_ne!(system, overlap);
    for text in [two, overlap, system] {
        let matrix = read(&text);
        let all = expand(&matrix, &matrix.experiments[0], &[], &MACHINE, recipe).expect("expands");
        assert_eq!(all.builds(), 12 + 24 + 1);
        for build in 0..all.builds() {
            let spec = all.spec(build).expect("available");
            let inputs = all.inputs(&spec);
            let toolchain = inputs.toolchain.as_ref().map(|(_, _, digest)| digest);
            let id = build_id(
                &inputs.recipe,
                &spec.source_facts.digest,
                toolchain,
                &spec.options,
                &spec.system,
            );
            assert_eq!(Some(id), all.id(build), "{}", spec.name);
        }
    }
}

proptest! {
    /// One more variant is one more build; all others keep their ids.
    #[test]
    fn a_new_variant_is_one_new_id(
        opts in proptest::sample::subsequence(vec!["o1", "o2", "o3"], 1..=3),
        lto in proptest::sample::subsequence(vec!["off", "on"], 1..=2),
    ) {
        let list = |words: &[&str]| format!("['{}']", words.join("', '"));
        let lines = format!("cross = {{ opt = {}, lto = {} }}\n", list(&opts), list(&lto));
        let before = names(&with(&lines), &[]).expect("expands");
        let axis = "[axis.plt]\nplt = { tag = '' }\nno = { flags = ['-fno-plt'] }\n[run-axis";
        let text = with(&format!("{lines}variants = ['new']\n"))
            .replace("[run-axis", axis)
            .replace("[variant]\n", "[variant]\nnew = { opt = 'o2', plt = 'no' }\n");
        let after = names(&text, &[]).expect("expands");
        prop_assert_eq!(after.len(), before.len() + 1);
        let new: Vec<_> = after.iter().filter(|cell| !before.contains(cell)).collect();
        prop_assert_eq!(new.len(), 1);
        prop_assert!(before.iter().all(|cell| cell.1 != new[0].1));
    }

    /// Rules only ever do what they say: the cells left are those that a plain filter leaves.
    #[test]
    fn exclude_is_a_filter(opt in 0usize..3, lto in 0usize..2) {
        let (opt, lto) = (["o1", "o2", "o3"][opt], ["off", "on"][lto]);
        let cross = "cross = { opt = '*', lto = '*' }\n";
        let rule = format!("{cross}exclude = [{{ opt = '{opt}', lto = '{lto}', why = 'x' }}]");
        let gone = format!("pg_{opt}{}", if lto == "on" { "_lto" } else { "" });
        let mut expected = only_names(&with(cross));
        expected.retain(|name| *name != gone);
        prop_assert_eq!(only_names(&with(&rule)), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever of a broken file still reads is expanded or told about.
    #[test]
    fn a_broken_file_that_reads_expands_or_tells(
        edits in proptest::collection::vec((0..HEAD.len(), 0usize..3, "[a-z*'0-9]{0,2}"), 0..4),
        lines in proptest::sample::subsequence(LINES.to_vec(), 0..LINES.len()),
    ) {
        let mut text = with(&lines.join("\n"));
        for (at, length, put) in edits {
            let end = (at + length).min(text.len());
            text.replace_range(at..end, &put);
        }
        match names(&text, &[]) {
            Ok(found) => prop_assert!(!found.is_empty()),
            Err(error) => prop_assert!(error.contains("error: "), "{}", error),
        }
    }
}

const LINES: [&str; 9] = [
    "variants = '*'",
    "cross = [{ opt = '*', psi = '*' }, { lto = 'on' }]",
    "zip = { opt = ['o1', 'o2'], toolchain = ['gcc', 'clang'] }",
    "configs = ['c', 'd']",
    "run = { jit = '*' }",
    "only = [{ build = '*', jit = 'off', why = 'x' }]",
    "exclude = [{ opt = 'o1', why = 'x' }, { config = 'd', why = 'y' }]",
    "include = [{ config = 'd', lto = 'on', jit = 'on', why = 'x' }]",
    "base = 'pg_a.c'",
];

fn shipped(experiment: &str, expected: Expect) {
    let text = include_str!("../../../../matrix.toml");
    let matrix = read(text);
    let experiment = matrix.experiments.iter().find(|e| e.name == experiment).expect("defined");
    let all = expand(&matrix, experiment, &[], &MACHINE, recipe)
        .unwrap_or_else(|error| panic!("{error}"));
    let mut shown = String::new();
    for build in 0..all.builds() {
        let spec = all.spec(build).expect("available");
        let toolchain = spec.toolchain.as_ref().map(|toolchain| toolchain.name.as_str());
        shown += &format!("{} {} {}\n", spec.name, spec.id.short(), toolchain.unwrap_or("-"));
        shown += &format!("  {}\n", spec.options.cflags.join(" "));
        shown += &format!("  {:?} {:?}\n", spec.options.ldflags, spec.options.configure);
    }
    for target in 0..all.targets() {
        let mark = if all.base == Some(target) { " (base)" } else { "" };
        shown += &format!("{}{mark}\n", all.target(target).name);
    }
    shown += &format!("{} runs\n", all.runs());
    expected.assert_eq(&shown);
}

#[test]
fn shipped_quickstart() {
    shipped(
        "quickstart",
        expect![[r#"
        pg1518_o2 882e262d7f8e gcc
          -g1 -O2
          [] ["--without-readline", "--without-zlib"]
        pg1518_o3 ece706a39d58 gcc
          -g1 -O3
          [] ["--without-readline", "--without-zlib"]
        pg1518_o2_nofp 32bc182fb3ea gcc
          -g1 -O2 -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer
          [] ["--without-readline", "--without-zlib"]
        pg1518_o2.pg-small (base)
        pg1518_o3.pg-small
        pg1518_o2_nofp.pg-small
        105 runs
    "#]],
    );
}

#[test]
fn shipped_pg_flags() {
    shipped(
        "pg-flags",
        expect![[r#"
        pg1518_o2 882e262d7f8e gcc
          -g1 -O2
          [] ["--without-readline", "--without-zlib"]
        pg1518_o3 ece706a39d58 gcc
          -g1 -O3
          [] ["--without-readline", "--without-zlib"]
        pg1518_os 1f46c5615ac9 gcc
          -g1 -Os
          [] ["--without-readline", "--without-zlib"]
        pg1518_o3_lto 01137f1a0480 gcc
          -g1 -O3 -flto=auto
          [] ["--without-readline", "--without-zlib"]
        pg1518_o3_native c9142e78a4c2 gcc
          -g1 -O3 -march=znver3
          [] ["--without-readline", "--without-zlib"]
        pg1518_clang_o2 1da5532257e7 clang
          -g1 -O2
          [] ["--without-readline", "--without-zlib"]
        pg1518_clang_o2_lto 0bc01cfc7d25 clang
          -g1 -O2 -flto=thin
          ["-fuse-ld=lld"] ["--without-readline", "--without-zlib"]
        pg1518_o2.pg-small (base)
        pg1518_o3.pg-small
        pg1518_os.pg-small
        pg1518_o3_lto.pg-small
        pg1518_o3_native.pg-small
        pg1518_clang_o2.pg-small
        pg1518_clang_o2_lto.pg-small
        245 runs
    "#]],
    );
}
