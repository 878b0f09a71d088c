//! The plan of a small matrix, as people and programs get it.

use expect_test::expect;

use super::*;
use crate::diag::File;
use crate::facts::{Facts, SourceFacts, Toolchain, Unavailable, Unusable};
use crate::matrix::model::{Engine, Family, Source};
use crate::matrix::{Known, expand, parse};

struct GccOnly;

impl Facts for GccOnly {
    fn arch(&self) -> &str {
        "x86_64"
    }

    fn toolchain(&self, name: &str) -> Result<Toolchain, Unavailable> {
        if name != "gcc" {
            return Err(Unavailable { reason: format!("{name} not found"), hint: None });
        }
        Ok(Toolchain {
            name: name.to_owned(),
            family: Family::Gcc,
            version: "12.2.0".to_owned(),
            target: "x86_64-linux-gnu".to_owned(),
            tools: Vec::new(),
            files: Vec::new(),
            digest: Digest::of(b"gcc"),
            details: Default::default(),
            sealed: None,
        })
    }

    fn resolve(&self, _: &Toolchain, options: &Options) -> Result<Options, Unusable> {
        Ok(options.clone())
    }

    fn source(&self, source: &Source) -> Result<SourceFacts, Unavailable> {
        let digest = Digest::of(source.name.as_bytes());
        Ok(SourceFacts { version: "15.18".to_owned(), digest, patches: Vec::new() })
    }
}

const TEXT: &str = r#"schema = 1
[source.pg]
engine = "postgres"
version = "15.18"
git = "x"
rev = "0123456789012345678901234567890123456789"
[axis.toolchain]
gcc = {}
clang = {}
[axis.opt]
o2 = { flags = ["-O2"], tag = "o2", env = { A = "b c" } }
o3 = { flags = ["-O3"] }
os = { flags = ["-Os"] }
[axis.psi]
full = {}
less = { when = "engine = mysql" }
[config.c]
engine = "postgres"
postgresql = { jit = false }
[workload.w]
kind = "sysbench"
rows = 10
[experiment.e]
sources = ["pg"]
cross = { toolchain = "*", opt = "*", psi = "*" }
exclude = [{ opt = "os", why = "not of interest" }, { toolchain = "clang", opt = "o3", why = "no" }]
configs = ["c"]
workload = "w"
base = "pg_o2.c"
"#;

fn with_expansion(check: impl FnOnce(&Expansion<'_>)) {
    let known = Known { names: vec!["scan_range=100"], find: |_| None };
    let matrix = parse(&File::new("m", TEXT), &known).unwrap_or_else(|error| panic!("{error}"));
    let recipe = |_: Engine| "r1";
    let all = expand(&matrix, &matrix.experiments[0], &[], &GccOnly, recipe);
    check(&all.unwrap_or_else(|error| panic!("{error}")));
}

struct Told(Outlook);

impl Caller for Told {
    fn outlook(&self) -> Outlook {
        self.0
    }

    fn state(&self, spec: &Spec) -> State {
        state(spec)
    }

    fn command(&self, spec: &Spec) -> Option<Vec<String>> {
        Some(vec!["./configure".to_owned(), format!("CFLAGS={}", spec.options.cflags.join(" "))])
    }

    fn shows_build(&self, name: &str) -> bool {
        name != "pg_hidden"
    }

    fn shows_target(&self, _: &str, build: &str) -> bool {
        self.shows_build(build)
    }
}

fn state(spec: &Spec) -> State {
    match spec.name.as_str() {
        "pg_o2" => State::Present,
        _ => State::Stale(vec!["cflags -O2 -> -O3".to_owned()]),
    }
}

#[test]
fn for_people() {
    with_expansion(|all| {
        let mut out = Vec::new();
        let outlook = Outlook { to_build: Some(1), hours: Some(0.25) };
        text(&mut out, all, &Told(outlook)).expect("writes");
        expect![[r#"
            experiment  e
            cells       3 (1 unavailable on this machine)
            builds      2 (1 to make)
            targets     3
            runs        15
            hours       0.2 (estimate)

            rules, in written order
              6 cells left out: `psi = less` only when engine = mysql
              exclude opt = os: 2 cells removed (not of interest)
              exclude toolchain = clang, opt = o3: 1 cell removed (no)

            pg_o2  675c58d26663  present
              toolchain  gcc 12.2.0 (x86_64-linux-gnu)
              cflags     -O2
              cxxflags   -O2
              env        'A=b c'
              command    ./configure CFLAGS=-O2

            pg_o3  0c8cdf47d8d3  stale: cflags -O2 -> -O3
              toolchain  gcc 12.2.0 (x86_64-linux-gnu)
              cflags     -O3
              cxxflags   -O3
              command    ./configure CFLAGS=-O3

            pg_clang_o2  unavailable: clang not found

            targets
              pg_o2.c  (base)
              pg_o3.c
              pg_clang_o2.c  unavailable: clang not found
        "#]]
        .assert_eq(&String::from_utf8(out).expect("UTF-8"));
    });
}

#[test]
fn for_programs() {
    with_expansion(|all| {
        let mut out = Vec::new();
        json(&mut out, all, &Told(Outlook::default())).expect("writes");
        let document: serde_json::Value = serde_json::from_slice(&out).expect("one document");
        assert_eq!(document["schema"], 1);
        assert_eq!(document["counts"]["cells"], 3);
        assert_eq!(document["rules"][0]["count"], 2);
        assert_eq!(document["left-out"][0]["count"], 6);
        let builds = document["builds"].as_array().expect("a list");
        assert_eq!(builds.len(), 3);
        assert_eq!(builds[0]["state"], "present");
        assert_eq!(builds[1]["why"][0], "cflags -O2 -> -O3");
        assert_eq!(builds[0]["options"]["cflags"][0], "-O2");
        assert_eq!(builds[2]["unavailable"], "clang not found");
        assert_eq!(builds[2]["id"], serde_json::Value::Null);
        let targets = document["targets"].as_array().expect("a list");
        assert_eq!((targets.len(), &targets[0]["base"]), (3, &true.into()));
        assert_eq!(targets[0]["id"].as_str().map(str::len), Some(64));
    });
}
