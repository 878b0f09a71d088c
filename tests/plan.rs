//! Planning by the real binary: what a user sees of the matrix, and of mistakes in it.

use crate::support::{Project, root};

/// A matrix that plans without network and without a build.
const SMALL: &str = r#"
schema = 1
default-experiment = "flags"

[source.tiny]
engine = "postgres"
version = "15.99"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
origins = ["file:tiny-15.99.tar.gz"]

[axis.toolchain]
gcc = { tag = "" }

[axis.opt]
o2 = { tag = "o2", flags = ["-O2"] }
o3 = { tag = "o3", flags = ["-O3"] }
os = { tag = "os", flags = ["-Os"] }

[axis.lto]
off = { tag = "" }
on = { tag = "lto", flags = ["-flto=auto"] }

[variant]
o2 = { opt = "o2" }
o3 = { opt = "o3" }

[experiment.flags]
sources = ["tiny"]
variants = ["o2", "o3"]
"#;

fn ids(plan: &str) -> Vec<(String, String)> {
    let plan: serde_json::Value = serde_json::from_str(plan).expect("one JSON document");
    let builds = plan["builds"].as_array().expect("builds");
    let text = |value: &serde_json::Value| value.as_str().expect("a string").to_owned();
    builds.iter().map(|build| (text(&build["name"]), text(&build["id"]))).collect()
}

#[test]
fn one_more_variant_is_one_more_build() {
    let project = Project::with_matrix(SMALL);
    let before = ids(&project.ok(&["plan", "--format", "json"]).stdout);
    assert_eq!(before.len(), 2);
    let more = SMALL
        .replace("[axis.lto]", "[axis.plt]\nyes = { tag = \"\" }\nno = { tag = \"noplt\", flags = [\"-fno-plt\"] }\n\n[axis.lto]")
        .replace("o3 = { opt = \"o3\" }\n\n[exp", "o3 = { opt = \"o3\" }\no3_noplt = { opt = \"o3\", plt = \"no\" }\n\n[exp")
        .replace("variants = [\"o2\", \"o3\"]", "variants = [\"o2\", \"o3\", \"o3_noplt\"]");
    project.write("matrix.toml", &more);
    let after = ids(&project.ok(&["plan", "--format", "json"]).stdout);
    assert_eq!(after[..2], before[..], "what was there keeps its id, though an axis was added");
    assert_eq!(after.len(), 3);
    assert_eq!(after[2].0, "tiny_o3_noplt");
    let plan = project.ok(&["plan"]).stdout;
    assert!(plan.contains("cflags     -O3 -fno-plt\n"), "{plan}");
}

/// Each mistake: a piece of the file, what stands there instead, and what the message must say.
const MISTAKES: [(&str, &str, &[&str]); 12] = [
    ("schema = 1", "schema = = 1", &["matrix.toml:2:", "TOML"]),
    ("engine = \"postgres\"", "engine = \"postgras\"", &["matrix.toml:6:10", "`postgres`"]),
    ("version = ", "verzion = ", &["matrix.toml:7:1", "`version`"]),
    ("0000\"", "00\"", &["matrix.toml:8:10", "64"]),
    ("flags = [\"-O3\"]", "flags = 3", &["matrix.toml:16:", "list"]),
    ("o3 = { opt = \"o3\" }", "o3 = { opt = \"o4\" }", &["matrix.toml:25:", "`o3`"]),
    ("o3 = { opt = \"o3\" }", "o3 = { otp = \"o3\" }", &["matrix.toml:25:", "`opt`"]),
    ("\"o2\", \"o3\"]", "\"o2\", \"o33\"]", &["matrix.toml:29:", "`o3`"]),
    ("tag = \"o3\"", "tag = \"o 3\"", &["matrix.toml:16:", "tag"]),
    ("file:tiny", "ftp://tiny", &["matrix.toml:9:", "https"]),
    (
        "variants = [",
        "exclude = [{ opt = \"os\", why = \"too slow\" }]\nvariants = [",
        &["matrix.toml:29:", "opt = os"],
    ),
    (
        "flags = [\"-O3\"]",
        "flags = [\"-O3\", \"-fno-such-thing\"]",
        &["matrix.toml:16:", "-fno-such-thing"],
    ),
];

#[test]
fn mistakes_are_told_with_their_place() {
    for (right, wrong, expected) in MISTAKES {
        assert!(SMALL.contains(right), "{right}");
        let project = Project::with_matrix(&SMALL.replacen(right, wrong, 1));
        let called = project.call(&["plan"]);
        assert_eq!(called.code, Some(2), "{wrong}: {}", called.stderr);
        assert_eq!(called.stdout, "", "{wrong}");
        for words in expected {
            assert!(called.stderr.contains(words), "{wrong}: no `{words}` in\n{}", called.stderr);
        }
    }
}

/// What would defeat the tool is refused where it stands.
#[test]
fn settings_that_go_around_the_tool_are_mistakes() {
    let setting = "o3 = { tag = \"o3\", flags = [\"-O3\"]";
    for (more, expected) in [
        (", env = { MAKEFLAGS = \"-n\" }", "`MAKEFLAGS` is set by the build itself"),
        (", env = { CPATH = \"/x\" }", "`CPATH` is set by the build itself"),
        (", env = { CFLAGS = \"-O0\" }", "`CFLAGS` must not be set"),
        (", configure = [\"--prefix=/x\"]", "`--prefix` is given by the recipe"),
        (", cflags = [\"-o\"]", "`-o` is not a flag"),
    ] {
        let text = SMALL.replace(setting, &format!("{setting}{more}"));
        let called = Project::with_matrix(&text).call(&["plan"]);
        assert_eq!(called.code, Some(2), "{more}: {}", called.stderr);
        assert!(called.stderr.contains("matrix.toml:16:"), "{more}: {}", called.stderr);
        assert!(called.stderr.contains(expected), "{more}: {}", called.stderr);
    }
    for name in ["data_directory", "listen_addresses", "hba_file", "port"] {
        let config = format!(
            "{SMALL}[config.c]\nengine = \"postgres\"\npostgresql = {{ {name} = \"x\" }}\n"
        );
        let called = Project::with_matrix(&config).call(&["plan"]);
        assert_eq!(called.code, Some(2), "{name}: {}", called.stderr);
        assert!(called.stderr.contains(&format!("`{name}` must not be set")), "{}", called.stderr);
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let project = Project::with_matrix(SMALL);
    let mut command = project.command(&["plan"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    command.stdout(writer);
    let called = crate::support::finish(command);
    assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
}

#[test]
fn all_mistakes_are_told_in_one_go() {
    let wrong = SMALL
        .replace("version = ", "verzion = ")
        .replace("o3 = { opt = \"o3\" }", "o3 = { opt = \"o4\" }")
        .replace("sources = [\"tiny\"]", "sources = [\"tony\"]");
    let called = Project::with_matrix(&wrong).call(&["matrix"]);
    assert_eq!(called.code, Some(2));
    for place in ["matrix.toml:7:1", "matrix.toml:25:", "matrix.toml:28:"] {
        assert!(called.stderr.contains(place), "no {place} in\n{}", called.stderr);
    }
}

#[test]
fn wrong_command_lines_are_told() {
    let project = Project::with_matrix(SMALL);
    for (args, expected) in [
        (&["plan", "flagz"][..], "did you mean `flags`?"),
        (&["plan", "--set", "opt=o4"], "o4"),
        (&["plan", "--set", "opd=o3"], "opt"),
        (&["plan", "--only", "tiny_o4"], "did you mean `tiny_o"),
        (&["plan", "--jobs", "0"], "--jobs"),
        (&["compare"], "no record of experiment `flags`"),
        (&["bench"], "no workload"),
    ] {
        let called = project.call(args);
        assert_eq!(called.code, Some(2), "{args:?}: {}", called.stderr);
        assert!(called.stderr.contains(expected), "{args:?}: {}", called.stderr);
    }
    let nowhere = Project::new().call(&["plan"]);
    assert_eq!(nowhere.code, Some(2));
    assert!(nowhere.stderr.contains("cannot read the matrix file"), "{}", nowhere.stderr);
}

#[test]
fn a_missing_compiler_makes_its_cells_unavailable() {
    let both = SMALL
        .replace("gcc = { tag = \"\" }", "gcc = { tag = \"\" }\ngcc-99 = { tag = \"gcc99\" }")
        .replace("[variant]", "[variant]\nold = { toolchain = \"gcc-99\" }")
        .replace("[\"o2\", \"o3\"]", "[\"o2\", \"old\"]");
    let plan = Project::with_matrix(&both).ok(&["plan"]).stdout;
    assert!(plan.contains("unavailable: gcc-99 not found"), "{plan}");
    assert!(plan.contains("tiny_o2  "), "{plan}");
}

#[test]
fn set_fixes_an_axis() {
    let project = Project::with_matrix(SMALL);
    let plan = project.ok(&["plan", "--set", "lto=on"]).stdout;
    assert!(plan.contains("tiny_o2_lto  ") && plan.contains("-O2 -flto=auto\n"), "{plan}");
    assert!(!plan.contains("cflags     -O2\n"), "{plan}");
}

#[test]
fn the_shipped_file_plans() {
    let project = Project::with_matrix(
        &std::fs::read_to_string(root().join("matrix.toml")).expect("the shipped file"),
    );
    for experiment in ["quickstart", "pg-flags"] {
        let plan = project.ok(&["plan", experiment]).stdout;
        assert!(plan.contains("(base)"), "{plan}");
    }
    let plan = project.ok(&["plan", "pg-flags"]).stdout;
    let native = plan.split("\n\n").find(|part| part.contains("native")).expect("a native build");
    assert!(!native.contains("=native"), "the word must be resolved: {native}");
    assert!(native.contains("-march="), "{native}");
}

/// Six axes of ten settings: a million cells, counted, named and hashed.
#[test]
fn a_million_cells() {
    let mut matrix = SMALL.split("[axis.opt]").next().expect("the head").to_owned();
    for axis in 1..=6 {
        matrix.push_str(&format!("[axis.a{axis}]\n"));
        for setting in 0..10 {
            matrix.push_str(&format!(
                "s{setting} = {{ tag = \"a{axis}s{setting}\", flags = [\"-DA{axis}={setting}\"] }}\n"
            ));
        }
    }
    let all: Vec<String> = (1..=6).map(|axis| format!("a{axis} = \"*\"")).collect();
    matrix.push_str(&format!(
        "[experiment.million]\nsources = [\"tiny\"]\ncross = {{ {} }}\n",
        all.join(", ")
    ));
    let matrix = matrix.replace("default-experiment = \"flags\"\n", "");
    let plan = Project::with_matrix(&matrix).ok(&["plan", "million", "--summary"]).stdout;
    assert!(plan.contains("cells       1000000\n"), "{plan}");
    assert!(plan.contains("builds      1000000"), "{plan}");
    let peak = plan.lines().find_map(|line| line.strip_prefix("peak memory ")).expect("the peak");
    let peak: u64 = peak.trim_end_matches(" MB").parse().expect("a number");
    assert!(peak < 1000, "{peak} MB");
}

/// The builds of the published study, and those that it ran with the performance schema off, too.
const STUDY: [(&str, bool); 13] = [
    ("rel_o2nofp", true),
    ("rel_o2nofp_lto", false),
    ("rel", true),
    ("rel_lto", false),
    ("rel_o2nofp_less", false),
    ("rel_less", false),
    ("rel_o2nofp_lessps", false),
    ("rel_lessps", false),
    ("rel_o2nofp_less_lessps", false),
    ("rel_less_lessps", false),
    ("rel_o2nofp_less_lessps_lto", true),
    ("rel_less_lessps_lto", true),
    ("rel_osnofp", false),
];

#[test]
fn the_shipped_study_of_compile_options_is_the_published_one() {
    let shipped = std::fs::read_to_string(root().join("matrix.toml")).expect("the shipped file");
    let project = Project::with_matrix(&shipped);
    let plan = project.ok(&["plan", "innodb-compile-options", "--format", "json"]).stdout;
    let names: Vec<String> = ids(&plan).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, STUDY.map(|(name, _)| format!("my8039_{name}")));
    let plan: serde_json::Value = serde_json::from_str(&plan).expect("one JSON document");
    let targets = plan["targets"].as_array().expect("targets");
    let targets: Vec<&str> = targets.iter().filter_map(|target| target["name"].as_str()).collect();
    let mut expected = Vec::new();
    for (name, both) in STUDY {
        expected.push(format!("my8039_{name}.z11a"));
        expected.extend(both.then(|| format!("my8039_{name}.z11a_nops")));
    }
    assert_eq!(targets, expected);
    assert_eq!(targets.len(), 17);
    let flags = |name: &str| {
        let builds = plan["builds"].as_array().expect("builds");
        let build = builds.iter().find(|build| build["name"] == format!("my8039_{name}"));
        build.expect("the build")["options"].clone()
    };
    let has = |name: &str, key: &str, word: &str| {
        flags(name)[key].as_array().is_some_and(|list| list.iter().any(|flag| flag == word))
    };
    assert!(has("rel", "cflags", "-O3") && !has("rel", "cflags", "-fno-omit-frame-pointer"));
    assert!(has("rel_osnofp", "cxxflags", "-Os"));
    assert!(has("rel_o2nofp", "cxxflags", "-fno-omit-frame-pointer"));
    let cmake = |name: &str| flags(name)["cmake"].to_string();
    assert!(cmake("rel_lto").contains("WITH_LTO") && !cmake("rel").contains("WITH_LTO"));
    assert!(cmake("rel_lessps").contains("DISABLE_PSI_MUTEX"));
    assert!(!cmake("rel_less").contains("DISABLE_PSI_MUTEX"));
}

#[test]
fn the_examples_in_the_documents_plan() {
    let shipped = std::fs::read_to_string(root().join("matrix.toml")).expect("the shipped file");
    let document = std::fs::read_to_string(root().join("docs/mysql.md")).expect("the document");
    let examples: Vec<&str> = document
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().expect("the first part"))
        .collect();
    assert_eq!(examples.len(), 2);
    let mut planned = Vec::new();
    for example in examples {
        // A variant joins the table that is there.
        let (mut tables, mut variants) = (String::new(), String::new());
        for table in example.split("\n\n") {
            match table.strip_prefix("[variant]\n") {
                Some(lines) => variants.push_str(&format!("[variant]\n{lines}\n")),
                None => tables.push_str(&format!("\n{table}\n")),
            }
        }
        let matrix =
            shipped.replacen("[variant]\n", variants.as_str(), usize::from(!variants.is_empty()));
        let project = Project::with_matrix(&format!("{matrix}{tables}"));
        for line in example.lines() {
            let Some(name) = line.strip_prefix("[experiment.") else { continue };
            let name = name.trim_end_matches(']');
            let plan = project.ok(&["plan", name, "--format", "json"]).stdout;
            let plan: serde_json::Value = serde_json::from_str(&plan).expect("one JSON document");
            let targets = plan["targets"].as_array().expect("targets").iter();
            planned.extend(targets.filter_map(|target| target["name"].as_str().map(str::to_owned)));
        }
    }
    assert_eq!(
        planned,
        [
            "my8031_rel_o2nofp.z11a",
            "fix-before_rel_o2nofp.z11a",
            "fix-after_rel_o2nofp.z11a",
            "ma101118_rel_o2nofp.ma-small",
            "ma101118_rocks.ma-rocks",
            "my8031_rel_o2nofp.my-small",
            "fbmy8032_rel_o2nofp.fb-rocks",
        ]
    );
}
