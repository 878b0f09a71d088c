//! Making a colleague's build again, by the real binary: two projects in different folders, the
//! stand-in for PostgreSQL, manifests as they are and changed by hand.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::support::{Called, Project, finish};

/// The colleague's project, with its build made, and an empty one of one's own.
struct Pair {
    theirs: Project,
    ours: Project,
}

impl Pair {
    /// `configure` is added to the source's options.
    fn new(configure: &str) -> Self {
        let theirs = Project::new();
        let sha256 = theirs.pack("tiny-pg", "tiny-15.99.tar.gz");
        theirs.write("matrix.toml", &matrix(&sha256, configure));
        theirs.ok(&["build"]);
        // No matrix file, no patches: a manifest is all that there is.
        Self { theirs, ours: Project::new() }
    }

    /// The path of the only manifest.
    fn manifest(&self) -> String {
        let folder = self.theirs.path("results/manifests");
        let entries = std::fs::read_dir(folder).expect("manifests");
        let mut paths = entries.map(|entry| entry.expect("an entry").path().display().to_string());
        paths.find(|path| path.ends_with(".json")).expect("a manifest")
    }

    fn name(&self) -> String {
        let path = self.manifest();
        let stem = std::path::Path::new(&path).file_stem().expect("a name");
        stem.to_string_lossy().into_owned()
    }

    /// Changes the manifest by hand.
    fn edit(&self, change: impl FnOnce(&mut Value)) {
        let path = self.manifest();
        let text = std::fs::read_to_string(&path).expect("readable");
        let mut value: Value = serde_json::from_str(&text).expect("JSON");
        change(&mut value);
        std::fs::write(path, serde_json::to_string_pretty(&value).expect("JSON")).expect("written");
    }

    /// The call in one's own project; the archive comes from the colleague's folder.
    fn command(&self, args: &[&str]) -> std::process::Command {
        let manifest = self.manifest();
        let mut all = vec!["reproduce", &manifest];
        all.extend(args);
        let mut command = self.ours.command(&all);
        command.arg("--sources").arg(self.theirs.path(""));
        command
    }

    fn call(&self, args: &[&str]) -> Called {
        finish(self.command(args))
    }
}

fn matrix(sha256: &str, configure: &str) -> String {
    format!(
        r#"
schema = 1
default-experiment = "flags"
[source.tiny]
engine = "postgres"
version = "15.99"
sha256 = "{sha256}"
origins = ["file:tiny-15.99.tar.gz"]
options.configure = [{configure}]
[axis.toolchain]
gcc = {{ tag = "" }}
[axis.opt]
o2 = {{ tag = "o2", flags = ["-g1", "-O2"] }}
[experiment.flags]
sources = ["tiny"]
"#
    )
}

/// What the user asked for, in a manifest.
fn options(manifest: &mut Value) -> &mut Value {
    &mut manifest["predicate"]["buildDefinition"]["externalParameters"]["options"]
}

fn contains(called: &Called, parts: &[&str]) {
    for part in parts {
        let (out, err) = (&called.stdout, &called.stderr);
        assert!(out.contains(part) || err.contains(part), "no `{part}` in\n{out}\n{err}");
    }
}

#[test]
fn a_colleagues_build_comes_out_identical() {
    let pair = Pair::new("");
    let called = pair.call(&[]);
    assert_eq!(called.code, Some(0), "{}\n{}", called.stdout, called.stderr);
    contains(&called, &["tiny_o2: identical: all 2 files, byte by byte"]);
    assert!(!called.stderr.contains("warning"), "{}", called.stderr);
    let made = pair.ours.path("work/reproduce").join(pair.name()).join("build/tree/bin/postgres");
    assert!(made.is_file(), "it stays for a look");
    assert!(!pair.ours.path("work/builds").exists(), "the store is not touched");

    // By name, by name and id, by the id's first digits; from a results folder, a checkout, a URL.
    let (name, results) = (pair.name(), pair.theirs.path("results").display().to_string());
    let digits = &name[name.len() - 12..name.len() - 4];
    let folder = pair.theirs.path("").display().to_string();
    let url = format!("file://{}", results);
    let sources = pair.theirs.path("").display().to_string();
    for (wanted, from) in [(name.as_str(), &results), ("tiny_o2", &folder), (digits, &url)] {
        let args = ["reproduce", wanted, "--from", from, "--sources", &sources, "--format", "json"];
        let called = pair.ours.ok(&args);
        let report: Value = serde_json::from_str(&called.stdout).expect("JSON alone on stdout");
        assert_eq!(report["verdict"], "identical", "{wanted} {from}");
        assert_eq!(report["build"], "tiny_o2");
        assert_eq!(report["notes"], serde_json::json!([]));
    }
}

/// Patches travel in the manifest: nobody else has the folder that they came from.
#[test]
fn patches_are_taken_from_the_manifest_alone() {
    let theirs = Project::new();
    let sha256 = theirs.pack("tiny-pg", "tiny-15.99.tar.gz");
    theirs.write("matrix.toml", &matrix(&sha256, ""));
    let patch = "Two blanks are easier to read.\n\n--- a/src/backend/main.c\n\
        +++ b/src/backend/main.c\n@@ -13,4 +13,4 @@\n     }\n\
        -    printf(\"%u %s\\n\", hash(__FILE__), __FILE__);\n\
        +    printf(\"%u  %s\\n\", hash(__FILE__), __FILE__);\n\
        \x20    return TINY - 1;\n }\n";
    theirs.write("checkout/patches/postgres/tiny/001-blanks.patch", patch);
    let toolchains = crate::support::root().join("toolchains");
    std::os::unix::fs::symlink(toolchains, theirs.path("checkout/toolchains")).expect("linked");
    let mut build = theirs.command(&["build"]);
    build.env("CARGO_MANIFEST_DIR", theirs.path("checkout/xtask"));
    let called = finish(build);
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    let pair = Pair { theirs, ours: Project::new() };
    let called = pair.call(&[]);
    assert_eq!(called.code, Some(0), "{}\n{}", called.stdout, called.stderr);
    contains(&called, &["tiny_o2: identical"]);
    let server = pair.ours.path("work/reproduce").join(pair.name()).join("build/tree/bin/postgres");
    let bytes = std::fs::read(server).expect("a server");
    assert!(bytes.windows(6).any(|part| part == b"%u  %s"), "it has the patch");
    // A patch that was changed does not have its hash any more.
    pair.edit(|manifest| {
        let all = &mut manifest["predicate"]["buildDefinition"]["resolvedDependencies"];
        let all = all.as_array_mut().expect("a list");
        let patch = all.iter_mut().find(|one| one["annotations"]["role"] == "patch");
        patch.expect("the patch")["content"] = "bm90aGluZw==".into();
    });
    let called = pair.call(&[]);
    assert_eq!(called.code, Some(2), "{}\n{}", called.stdout, called.stderr);
    contains(&called, &["does not have the hash that stands beside it"]);
}

#[test]
fn a_flag_that_was_changed_by_hand_is_different_and_names_functions() {
    let pair = Pair::new("");
    pair.edit(|manifest| {
        options(manifest)["cflags"] = serde_json::json!(["-g1", "-O3"]);
    });
    let called = pair.call(&[]);
    assert_eq!(called.code, Some(1), "{}\n{}", called.stdout, called.stderr);
    contains(
        &called,
        &[
            "the manifest was changed by hand since it was written: its inputs have the build id",
            "step `configure`: `CFLAGS=-g1 -O2` there, `CFLAGS=-g1 -O3` here",
            "tiny_o2: different: 2 of 2 files",
            "bin/postgres: .text (",
            "functions changed (1): total",
            "other content: share/flags.txt (8 bytes)",
            "everything that differs: ",
        ],
    );
    let file = pair.ours.path("work/reproduce").join(pair.name()).join("comparison.txt");
    let whole = std::fs::read_to_string(file).expect("the whole list");
    assert!(whole.contains(".debug_"), "{whole}");
    // Without the list of functions, sections are named and the lack is said.
    let listing = pair.manifest().replace(".json", ".functions.gz");
    std::fs::remove_file(listing).expect("it lies beside the manifest");
    let called = pair.call(&[]);
    assert_eq!(called.code, Some(1), "{}\n{}", called.stdout, called.stderr);
    contains(&called, &["bin/postgres: .text (", "functions are not told"]);
}

#[test]
fn what_no_program_loads_leaves_the_same_code() {
    let pair = Pair::new("\"--with-names\"");
    pair.edit(|manifest| options(manifest)["configure"] = serde_json::json!([]));
    let called = pair.call(&[]);
    assert_eq!(called.code, Some(0), "{}\n{}", called.stdout, called.stderr);
    contains(&called, &["same code: 1 of 2 files", "bin/postgres: not loaded: .debug_info ("]);
    let strict = pair.call(&["--strict"]);
    assert_eq!(strict.code, Some(1), "{}\n{}", strict.stdout, strict.stderr);
    contains(&strict, &["same code: 1 of 2 files"]);
}

#[test]
fn another_compiler_first_in_the_path_stops_it_by_name() {
    let pair = Pair::new("");
    let gcc = "#!/bin/sh\nexec /usr/bin/gcc \"$@\" -O1\n";
    pair.ours.write("tools/bin/gcc", gcc);
    let wrapper = pair.ours.path("tools/bin/gcc");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&wrapper, mode).expect("executable");
    let path = std::env::var("PATH").expect("a path");
    let path = format!("{}:{path}", pair.ours.path("tools/bin").display());
    let mut command = pair.command(&["--format", "json"]);
    command.env("PATH", &path);
    let called = finish(command);
    assert_eq!(called.code, Some(4), "{}\n{}", called.stdout, called.stderr);
    let found = format!("found {} first in PATH", wrapper.display());
    contains(&called, &["what built `tiny_o2` is not here", &found, "to get the right one: "]);
    let report: Value = serde_json::from_str(&called.stdout).expect("JSON");
    let all = report["differences"].as_array().expect("a list");
    let cc = all.iter().find(|one| one["what"] == "path of cc").expect("named");
    assert_eq!(cc["found"], wrapper.display().to_string());
    assert!(report["verdict"].is_null());
    assert!(!pair.ours.path("work/trees").exists(), "stopped before anything else");
    // Who insists gets the comparison.
    let mut command = pair.command(&["--anyway"]);
    command.env("PATH", &path);
    let called = finish(command);
    assert_eq!(called.code, Some(1), "{}\n{}", called.stdout, called.stderr);
    contains(&called, &["different: "]);
}

/// Toolchains are known by their content; what a setting is called is everybody's own business.
#[test]
fn a_compiler_under_another_name_is_found() {
    let pair = Pair::new("");
    pair.edit(|manifest| {
        let resolved = &mut manifest["predicate"]["buildDefinition"]["internalParameters"];
        resolved["toolchain"]["name"] = "theirs".into();
    });
    let called = pair.call(&[]);
    assert_eq!(called.code, Some(4), "{}\n{}", called.stdout, called.stderr);
    contains(&called, &["`theirs` is not described", "the very same is here: `--toolchain gcc"]);
    let called = pair.call(&["--toolchain", "gcc"]);
    assert_eq!(called.code, Some(0), "{}\n{}", called.stdout, called.stderr);
    // What is made of the system's bison cannot be made with another one.
    pair.edit(|manifest| {
        let resolved = &mut manifest["predicate"]["buildDefinition"]["internalParameters"];
        resolved["system"] = serde_json::json!([["bison", "0".repeat(64)]]);
    });
    let called = pair.call(&["--toolchain", "gcc"]);
    assert_eq!(called.code, Some(4), "{}\n{}", called.stdout, called.stderr);
    contains(&called, &["bison of the system: asked 000000000000, found ", "for the versions"]);
}

#[test]
fn rounds_vary_what_must_not_matter() {
    let pair = Pair::new("");
    // Other users must be able to read what a round starts from.
    for project in [&pair.theirs, &pair.ours] {
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(project.path(""), mode).expect("mode");
    }
    let called = pair.call(&["--rounds", "2"]);
    assert_eq!(called.code, Some(0), "{}\n{}", called.stdout, called.stderr);
    let table: Vec<&str> = called.stdout.lines().collect();
    assert!(table[0].starts_with("round  jobs  user "), "{}", called.stdout);
    assert!(table[1].ends_with("  identical") && table[2].ends_with("  identical"));
    assert!(table[2].contains(" de_DE.UTF-8 ") && table[2].contains(" 077 "), "{}", called.stdout);
    assert_eq!(table[3], "identical: all 2 rounds, byte by byte");
    // Where everything differs by what was changed, rounds still agree with each other.
    pair.edit(|manifest| {
        options(manifest)["cflags"] = serde_json::json!(["-g1", "-Os"]);
    });
    let called = pair.call(&["--rounds", "2"]);
    assert_eq!(called.code, Some(1), "{}\n{}", called.stdout, called.stderr);
    contains(&called, &["all 2 rounds have the same bytes, which are not the manifest's"]);
}

#[test]
fn an_interrupt_leaves_nothing_half_done_and_a_second_call_works() {
    let pair = Pair::new("");
    let slow = |seconds: u32| {
        let word = format!("--with-slow-code={seconds}");
        pair.edit(|manifest| options(manifest)["configure"] = serde_json::json!([word]));
    };
    slow(7);
    let mut command = pair.command(&[]);
    let mut child = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the tool starts");
    let place = pair.ours.path("work/reproduce").join(pair.name());
    let log = place.join("logs/builds/tiny_o2/04-backend.log");
    let begin = std::time::Instant::now();
    while !log.exists() {
        assert!(begin.elapsed().as_secs() < 120, "make never started");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut kill = crate::support::command("kill");
    kill.args(["-INT", &child.id().to_string()]);
    crate::support::must(kill);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let mut ps = crate::support::command("ps");
    ps.args(["-eo", "args"]);
    let ours = pair.ours.path("").display().to_string();
    let listed = crate::support::must(ps);
    let left: Vec<&str> = listed.lines().filter(|line| line.contains(&ours)).collect();
    assert_eq!(left, [""; 0], "children are left");
    assert!(!place.join("build/tree").exists() && !place.join("comparison.txt").exists());
    slow(0);
    let called = pair.call(&[]);
    assert_eq!(called.code, Some(0), "{}\n{}", called.stdout, called.stderr);
    contains(&called, &["tiny_o2: identical"]);
}

/// What the table says is what the rounds' processes see.
#[test]
fn a_round_sees_another_user_and_host() {
    let mut id = crate::support::command("id");
    id.arg("-u");
    let guise = |user: &str| format!("{{\"binds\":[],\"cpus\":[],\"umask\":63,{user}}}");
    // Root becomes the user, anybody else only seems to.
    let spec = if crate::support::must(id).trim() == "0" {
        guise("\"user\":[61001,61001],\"guise\":{\"host\":\"elsewhere\"}")
    } else {
        guise("\"guise\":{\"user\":61001,\"host\":\"elsewhere\"}")
    };
    let mut launch = crate::support::command(env!("CARGO_BIN_EXE_xtask"));
    launch.args(["__launch", &spec, "/bin/sh", "-c", "id -u; id -g; uname -n; umask"]);
    assert_eq!(crate::support::must(launch), "61001\n61001\nelsewhere\n0077\n");
}

#[test]
fn what_cannot_be_found_or_read_is_told() {
    let pair = Pair::new("");
    let results = pair.theirs.path("results").display().to_string();
    let called = pair.ours.call(&["reproduce", "tiny_02", "--from", &results]);
    assert_eq!(called.code, Some(2), "{}", called.stderr);
    contains(&called, &["no manifest `tiny_02`", "did you mean `tiny_o2`"]);
    let called = pair.ours.call(&["reproduce", "tiny_o2"]);
    assert_eq!(called.code, Some(2), "{}", called.stderr);
    contains(&called, &["has none (`--from` names another results folder"]);
    let called = pair.ours.call(&["reproduce", "no/such.json"]);
    assert_eq!(called.code, Some(2), "{}", called.stderr);
    let called = pair.ours.call(&["reproduce", "http://127.0.0.1:9/x.json"]);
    assert_eq!(called.code, Some(2), "{}", called.stderr);
    let called = pair.ours.call(&["reproduce", "x-1", "--from", "https://127.0.0.1:9"]);
    assert_eq!(called.code, Some(4), "{}", called.stderr);
    contains(&called, &["cannot fetch the manifest https://127.0.0.1:9/manifests/x-1.json"]);

    let path = pair.manifest();
    let text = std::fs::read_to_string(&path).expect("readable");
    std::fs::write(&path, &text[..text.len() / 2]).expect("written");
    let called = pair.call(&[]);
    assert_eq!(called.code, Some(2), "{}", called.stderr);
    contains(&called, &["cannot use the manifest", &path]);
    std::fs::write(&path, text.replace(":build:2", ":build:3")).expect("written");
    let called = pair.call(&[]);
    assert_eq!(called.code, Some(2), "{}", called.stderr);
    contains(&called, &["schema 3"]);

    // The source is in nobody's folder.
    std::fs::write(&path, &text).expect("written");
    let called = pair.ours.call(&["reproduce", &path]);
    assert_eq!(called.code, Some(4), "{}", called.stderr);
    contains(&called, &["no origin has the archive", "MATRIX_SOURCES"]);
}
