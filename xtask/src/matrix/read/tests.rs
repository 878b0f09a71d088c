//! Reading: mistakes are all told, in their places, and nothing makes the reader panic.

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::matrix::model::{Placement, RuleKind, ServerValue, SourceKind, WorkloadKind};

fn known() -> Known {
    let names = vec!["point-query_range=100", "scan_range=100", "insert_range=100"];
    Known { names, find: |name| known().names.into_iter().find(|full| full.starts_with(name)) }
}

fn read(text: &str) -> Result<Matrix, Diagnostics> {
    parse(&File::new("matrix.toml", text), &known())
}

fn mistakes(text: &str) -> Vec<String> {
    let error = read(text).expect_err("mistakes");
    error.items().iter().map(|item| item.message.clone()).collect()
}

#[test]
fn all_mistakes_are_told_together() {
    let text = r#"schema = 1
default-experiment = "quikstart"
[source.pg]
engine = "postgers"
version = "15.x"
sha256 = "11"
origins = ["ftp://x"]
[axis.opt]
o2 = { flgs = ["-O2"] }
o3 = { flags = "-O3", when = "engine = mysql adn version > 8" }
[variant.fast]
opt = "o4"
[config.c]
engine = "postgres"
postgresql = { shared_buffers = "{ram * }" }
[experiment.quickstart]
sources = ["pg"]
variants = ["fats"]
exclude = [{ opt = "o2" }]
repaets = 5
"#;
    let shown = read(text).expect_err("mistakes").to_string();
    expect![[r#"
        13 mistakes in `matrix.toml`

        error: experiment `quikstart` is not defined
         --> matrix.toml:2:22
          |
        2 | default-experiment = "quikstart"
          |                      ^^^^^^^^^^^
          |
          = help: did you mean `quickstart`?

        error: engine `postgers` is not defined
         --> matrix.toml:4:10
          |
        4 | engine = "postgers"
          |          ^^^^^^^^^^
          |
          = help: did you mean `postgres`?

        error: `15.x` is not a version: numbers with dots are needed, as in 15.18
         --> matrix.toml:5:11
          |
        5 | version = "15.x"
          |           ^^^^^^

        error: `11` is not a sha256: 64 hex digits are needed
         --> matrix.toml:6:10
          |
        6 | sha256 = "11"
          |          ^^^^

        error: `ftp://x` is not an origin
         --> matrix.toml:7:12
          |
        7 | origins = ["ftp://x"]
          |            ^^^^^^^^^
          |
          = help: origins are `https://…`, `debian:PACKAGE=VERSION` and `file:PATH`

        error: unknown key `flgs` in setting `o2` of axis `opt`
         --> matrix.toml:9:8
          |
        9 | o2 = { flgs = ["-O2"] }
          |        ^^^^
          |
          = help: did you mean `flags`, `cflags`?

        error: `flags` needs a list of texts, as in ["a", "b"]
          --> matrix.toml:10:16
           |
        10 | o3 = { flags = "-O3", when = "engine = mysql adn version > 8" }
           |                ^^^^^ this is a text

        error: `when`: `and`, `or` or the end is expected here
          --> matrix.toml:10:46
           |
        10 | o3 = { flags = "-O3", when = "engine = mysql adn version > 8" }
           |                                              ^^^

        error: setting of axis `opt`: `o4` is not defined
          --> matrix.toml:12:7
           |
        12 | opt = "o4"
           |       ^^^^
           |
           = help: known: `o2`, `o3`

        error: formula `{ram * }`: a number, `ram`, `cpus`, `min(`, `max(` or `(` is expected
          --> matrix.toml:15:41
           |
        15 | postgresql = { shared_buffers = "{ram * }" }
           |                                         ^
           |
           = help: as in "{ram * 0.25}" or "{max(1, cpus / 2)}"

        error: variant `fats` is not defined
          --> matrix.toml:18:13
           |
        18 | variants = ["fats"]
           |             ^^^^^^
           |
           = help: did you mean `fast`?

        error: a rule of `exclude` needs the key `why`
          --> matrix.toml:19:12
           |
        19 | exclude = [{ opt = "o2" }]
           |            ^^^^^^^^^^^^^^

        error: unknown key `repaets` in experiment `quickstart`
          --> matrix.toml:20:1
           |
        20 | repaets = 5
           | ^^^^^^^
           |
           = help: did you mean `repeats`?"#]]
    .assert_eq(&shown);
}

#[test]
fn syntax_mistakes_have_places() {
    let error = read("schema = 1\n[axis.opt\no2 = {}\nx = = 1\n").expect_err("mistakes");
    let shown = error.to_string();
    assert!(error.items().len() >= 2, "{shown}");
    assert!(shown.contains("matrix.toml:2:10") && shown.contains("matrix.toml:4:"), "{shown}");
    assert_eq!(mistakes("schema = 1\nschema = 1\n"), ["this is not TOML: duplicate key"]);
}

#[test]
fn ten_kinds_of_wrong_input() {
    let source = "[source.s]\nengine = 'postgres'\nversion = '15'\n";
    let rev = format!("git = 'u'\nrev = '{}'\n", "0".repeat(40));
    for (text, message) in [
        ("".to_owned(), "the matrix file needs the key `schema`"),
        ("schema = 2".to_owned(), "this tool reads `schema = 1`"),
        ("schema = 1\nsorce = {}".to_owned(), "unknown key `sorce` in the matrix file"),
        ("schema = 1\naxis = 5".to_owned(), "`axis` needs a table, as in { key = \"value\" }"),
        (format!("schema = 1\n{source}"), "a source comes from exactly one place"),
        (
            format!("schema = 1\n{source}git = 'u'\nrev = 'main'"),
            "`main` is not a full git revision",
        ),
        (
            "schema = 1\n[axis.version]\na = {}".to_owned(),
            "`version` cannot be the name of an axis",
        ),
        ("schema = 1\n[axis.a]\n'x y' = {}".to_owned(), "`x y` cannot be the name of a setting"),
        (
            "schema = 1\n[axis.a]\nx = { flags = ['-O2 -g'] }".to_owned(),
            "`-O2 -g` is not one option",
        ),
        (
            "schema = 1\n[axis.a]\nx = { env = { CFLAGS = '-O3' } }".to_owned(),
            "`CFLAGS` must not be set by `env`",
        ),
        (
            "schema = 1\n[axis.a]\nx = { when = 'colour = red' }".to_owned(),
            "`when = \"colour = red\"`: `colour` is neither a key nor an axis",
        ),
        (
            "schema = 1\n[config.a]\ninherits = 'b'\n[config.b]\ninherits = 'a'".to_owned(),
            "configs inherit in a circle: `a` -> `b` -> `a`",
        ),
        (
            "schema = 1\n[workload.w]\nkind = 'sysbench'\nrows = '3T'".to_owned(),
            "`rows` needs a number of rows: 100000, \"100k\", \"30M\" (at most 100000M)",
        ),
        (
            "schema = 1\n[workload.w]\nkind = 'sysbench'\nrows = 1\nmicrobenchmarks = ['pint']"
                .to_owned(),
            "microbenchmark `pint` is not known",
        ),
        (
            format!("schema = 1\n{source}{rev}[experiment.e]\nsources = 's'\nvariants = []"),
            "`variants` names none",
        ),
        (
            format!(
                "schema = 1\n{source}{rev}[config.c]\nengine = 'postgres'\n\
                 [config.my]\nengine = 'mysql'\n\
                 [experiment.e]\nsources = 's'\nconfigs = ['c', 'my']"
            ),
            "config `my` of experiment `e` is for no source of it",
        ),
    ] {
        let found = mistakes(&text);
        assert!(found.iter().any(|known| known == message), "{text}: {found:?}");
    }
}

#[test]
fn values_as_written() {
    let text = r#"schema = 1
[config.base]
engine = "mysql"
mysqld = { innodb-buffer-pool-size = "{ram * 0.75}", innodb_doublewrite = 0, a = true, b = 0.5 }
env = { TZ = "UTC" }
[config.child]
inherits = "base"
mysqld = { innodb_buffer_pool_size = "1G", c = 0x10 }
[workload.w]
kind = "sysbench"
rows = "30M"
threads = [1, 16]
microbenchmarks = ["scan", "*"]
placement = "split"
"#;
    let matrix = read(text).unwrap_or_else(|error| panic!("{error}"));
    let child = &matrix.configs[1];
    let expected = [
        ("innodb_buffer_pool_size", "1G"),
        ("innodb_doublewrite", "0"),
        ("a", "1"),
        ("b", "0.5"),
        ("c", "16"),
    ];
    let expected = expected.map(|(k, v)| (k.to_owned(), ServerValue::Text(v.to_owned())));
    assert_eq!(child.options.mysqld, expected);
    assert_eq!(child.options.env, [("TZ".to_owned(), "UTC".to_owned())]);
    let formula = ServerValue::Formula("ram * 0.75".to_owned());
    assert_eq!(matrix.configs[0].options.mysqld[0].1, formula);
    let workload = &matrix.workloads[0];
    let WorkloadKind::Sysbench(suite) = &workload.kind else { panic!("{workload:?}") };
    assert_eq!((suite.rows, workload.threads.as_slice()), (30_000_000, &[1, 16][..]));
    let order = ["scan_range=100", "point-query_range=100", "insert_range=100"];
    assert_eq!(suite.names, order);
    assert_eq!(workload.placement, Placement::Split);
}

#[test]
fn rules_keep_their_written_order_across_keys() {
    let text = SHIPPED.replace(
        "[experiment.pg-flags]\n",
        "[experiment.pg-flags]\nonly = [{ opt = 'o3', why = '1' }]\n\
         exclude = [{ opt = 'os', why = '2' }]\ninclude = [{ lto = 'on', why = '3' }]\n",
    );
    let matrix = parse_shipped(&text).unwrap_or_else(|error| panic!("{error}"));
    let flags = matrix.experiments.iter().find(|e| e.name == "pg-flags").expect("defined");
    let kinds: Vec<_> = flags.rules.iter().map(|rule| rule.kind).collect();
    assert_eq!(kinds, [RuleKind::Only, RuleKind::Exclude, RuleKind::Include]);
}

const SHIPPED: &str = include_str!("../../../../matrix.toml");

fn parse_shipped(text: &str) -> Result<Matrix, Diagnostics> {
    let known = Known {
        names: catalog::names().collect(),
        find: |name| catalog::find(name).map(|found| found.name),
    };
    parse(&File::new("matrix.toml", text), &known)
}

#[test]
fn shipped_file_is_right() {
    let matrix = parse_shipped(SHIPPED).unwrap_or_else(|error| panic!("{error}"));
    let axes: Vec<_> = matrix.axes.iter().map(|axis| axis.name.as_str()).collect();
    assert_eq!(
        axes,
        ["toolchain", "build-type", "debug", "opt", "fp", "lto", "cpu", "psi", "less"]
    );
    assert!(matches!(matrix.sources[1].kind, SourceKind::Prefix { .. }));
    assert_eq!(matrix.default_experiment.as_deref(), Some("quickstart"));
}

#[test]
fn a_command_is_a_workload() {
    let head = "schema = 1\n[workload.w]\nkind = 'command'\n";
    let text = head.to_owned()
        + r#"
load = ["pgbench", "-i", "{database}"]
seconds = 30
threads = [1, 4]
[workload.w.tests]
tpcb = ["pgbench", "-T", "{seconds}", "{database}"]
select-only = ["pgbench", "-S"]
[workload.w.metrics]
tps = { pattern = 'tps = ([0-9.]+)', unit = "1/s" }
score = { better = "lower" }
"#;
    let matrix = read(&text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(matrix.workloads[0].names(), ["tpcb", "select-only"]);
    let WorkloadKind::Command(command) = &matrix.workloads[0].kind else { panic!("a command") };
    assert_eq!((command.seconds, command.limit_seconds), (30.0, 900.0));
    assert_eq!(command.metrics[1].better, Some(catalog::Better::Lower));
    for (wrong, expected) in [
        ("tests = { a = ['x', '{sokcet}'] }", "`{sokcet}` stands for nothing here"),
        ("load = ['x', '{threads}']\ntests = { a = ['x'] }", "`{threads}` differs from run to run"),
        ("tests = { a = [] }", "`a` needs a program and its arguments"),
        ("tests = {}", "`tests` needs at least one test"),
        ("", "workload `w` needs the key `tests`"),
        ("rows = 5\ntests = { a = ['x'] }", "unknown key `rows` in workload `w`"),
        ("tests = { a = ['x'] }\nmetrics = { m = { pattern = '(', unit = 's' } }", "no regular"),
        ("tests = { a = ['x'] }\nmetrics = { m = { pattern = 'x', unit = 's' } }", "no group"),
        ("tests = { a = ['x'] }\nmetrics = { m = { pattern = '(x)' } }", "needs the key `unit`"),
        ("tests = { a = ['x'] }\nmetrics = { m = { better = 'more' } }", "is no direction"),
        ("seconds = 0\ntests = { a = ['x'] }", "`seconds` is more than 0"),
    ] {
        let all = mistakes(&format!("{head}{wrong}"));
        assert!(all.iter().any(|one| one.contains(expected)), "{wrong}: {all:?}");
    }
}

#[test]
fn shipped_configs_have_nothing_that_their_releases_refuse() {
    let matrix = parse_shipped(SHIPPED).unwrap_or_else(|error| panic!("{error}"));
    let mut checked = 0;
    for experiment in &matrix.experiments {
        let configs = experiment.configs.iter().map(|index| &matrix.configs[*index]);
        for config in configs.filter(|config| !config.options.mysqld.is_empty()) {
            let lines = config.options.mysqld.iter();
            let lines: Vec<_> = lines.map(|(name, _)| (name.clone(), String::new())).collect();
            let sources = experiment.sources.iter().map(|index| &matrix.sources[*index]);
            for source in sources.filter(|source| source.engine == config.engine) {
                let Some(version) = &source.version else { continue };
                let found = crate::server::mycnf::check(config.engine, version, &lines);
                let (experiment, config) = (&experiment.name, &config.name);
                found.unwrap_or_else(|error| panic!("{experiment}, {config}: {error}"));
                checked += 1;
            }
        }
    }
    assert!(checked >= 8, "{checked}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_gets_an_answer(text in "(?s).{0,60}", near in "[a-z.\\[\\]{}=\"', \n1]{0,80}") {
        for text in [text, near] {
            if let Err(error) = read(&text) {
                prop_assert!(error.to_string().contains("error: "));
            }
        }
    }

    /// The shipped file with a few bytes cut out, put in, or doubled.
    #[test]
    fn a_broken_file_gets_an_answer(
        at in 0..SHIPPED.len(),
        length in 0usize..40,
        put in "[a-z\"'{}\\[\\]=.,\n#é]{0,4}",
    ) {
        let floor = |mut at: usize| { while !SHIPPED.is_char_boundary(at) { at -= 1; } at };
        let (start, end) = (floor(at), floor((at + length).min(SHIPPED.len())));
        let text = format!("{}{put}{}", &SHIPPED[..start], &SHIPPED[end..]);
        if let Err(error) = parse_shipped(&text) {
            prop_assert!(error.to_string().contains("error: "));
        }
    }
}

#[test]
fn versions_without_a_recipe_are_refused_in_their_place() {
    let text = |version: &str| {
        format!(
            "schema = 1\n[source.pg]\nengine = \"postgres\"\nversion = \"{version}\"\n\
             git = \"x\"\nrev = \"0123456789012345678901234567890123456789\"\n"
        )
    };
    for good in ["13.0", "15.18", "18"] {
        assert!(read(&text(good)).is_ok(), "{good}");
    }
    for bad in ["9.6.24", "12.22", "19.1"] {
        let shown = read(&text(bad)).expect_err("a mistake").to_string();
        assert!(shown.contains(&format!("PostgreSQL {bad} cannot be built")), "{shown}");
        assert!(shown.contains("matrix.toml:4:11"), "{shown}");
        assert!(shown.contains("the recipe builds 13 to 18"), "{shown}");
    }
    // An installed server is not built, and asked for its version; other engines count otherwise.
    let installed = "schema = 1\n[source.pg]\nengine = \"postgres\"\nprefix = \"/opt/pg\"\n";
    assert!(read(installed).is_ok());
    let shown = read(&format!("{installed}version = \"15.1\"\n")).expect_err("a mistake");
    assert!(shown.to_string().contains("leave `version` out: the server is asked"), "{shown}");
    assert!(read(&text("8.0.39").replace("postgres", "mysql")).is_ok());
}
