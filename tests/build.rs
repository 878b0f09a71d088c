//! Building by the real binary: real compilers and make on a stand-in for PostgreSQL that is made
//! in a second. The real PostgreSQL is built in `whole.rs`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::support::{Project, finish};

/// A project with the packed stand-in; `configure` is added to its source's options.
fn tiny(configure: &str) -> Project {
    let project = Project::new();
    let sha256 = project.pack("tiny-pg", "tiny-15.99.tar.gz");
    project.write("matrix.toml", &matrix(&sha256, configure, "\"-O3\""));
    project
}

fn matrix(sha256: &str, configure: &str, o3: &str) -> String {
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
o3 = {{ tag = "o3", flags = ["-g1", {o3}] }}
[axis.broken]
no = {{ tag = "" }}
yes = {{ tag = "broken", configure = ["--with-broken-code"] }}
[variant]
o2 = {{ opt = "o2" }}
o3 = {{ opt = "o3" }}
bad = {{ opt = "o3", broken = "yes" }}
[experiment.flags]
sources = ["tiny"]
variants = ["o2", "o3"]
[experiment.with-bad]
sources = ["tiny"]
variants = ["bad", "o2"]
"#
    )
}

fn entries(project: &Project, folder: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(project.path(folder)) else { return Vec::new() };
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
    let mut names: Vec<String> = names.map(|name| name.expect("UTF-8")).collect();
    names.retain(|name| !name.ends_with(".lock"));
    names.sort();
    names
}

/// The build's folder.
fn folder(project: &Project, name: &str) -> PathBuf {
    let prefix = format!("{name}-");
    let found = entries(project, "work/builds").into_iter().find(|n| n.starts_with(&prefix));
    project.path("work/builds").join(found.unwrap_or_else(|| panic!("no build `{name}`")))
}

fn manifest(project: &Project, name: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(folder(project, name).join("manifest.json"));
    serde_json::from_str(&text.expect("a manifest")).expect("JSON")
}

/// The hash over all installed files, from a manifest.
fn tree(manifest: &serde_json::Value) -> String {
    let byproducts = &manifest["predicate"]["runDetails"]["byproducts"];
    let tree = byproducts.as_array().expect("a list").iter().find(|of| of["name"] == "tree");
    tree.expect("a tree hash")["digest"]["sha256"].as_str().expect("a hash").to_owned()
}

/// What the build was resolved to, from a manifest.
fn resolved<'m>(manifest: &'m serde_json::Value, key: &str) -> &'m serde_json::Value {
    &manifest["predicate"]["buildDefinition"]["internalParameters"][key]
}

#[test]
fn builds_once_and_tells_why_it_builds_again() {
    let project = tiny("");
    let first = project.ok(&["build"]);
    assert!(first.stderr.contains("builds: 2 made, 0 there already"), "{}", first.stderr);
    assert_eq!(entries(&project, "work/builds").len(), 2);
    assert_eq!(entries(&project, "results/manifests").len(), 4, "with a list of functions each");
    assert_eq!(entries(&project, "work/staging/builds"), [""; 0], "nothing is left in the making");
    let flags = std::fs::read_to_string(folder(&project, "tiny_o3").join("tree/share/flags.txt"));
    assert_eq!(flags.expect("the stand-in wrote its flags"), "-g1 -O3\n");

    let second = project.ok(&["build"]);
    assert!(second.stderr.contains("builds: 0 made, 2 there already"), "{}", second.stderr);

    let text = project.read("matrix.toml").replace("\"-O3\"", "\"-O3\", \"-fno-plt\"");
    project.write("matrix.toml", &text);
    let plan = project.ok(&["plan"]).stdout;
    assert!(plan.contains("stale: cflags") && plan.contains("-fno-plt"), "{plan}");
    let third = project.ok(&["build"]);
    assert!(third.stderr.contains("builds: 1 made, 1 there already"), "{}", third.stderr);
}

#[test]
fn a_failed_build_is_told_and_the_others_are_made() {
    let project = tiny("");
    let called = project.call(&["build", "with-bad"]);
    assert_eq!(called.code, Some(1), "{}", called.stderr);
    assert!(called.stderr.contains("1 made, 0 there already, 1 failed"), "{}", called.stderr);
    for words in ["cannot build `tiny_bad`", "this_is_not_declared", "whole log: "] {
        assert!(called.stderr.contains(words), "no `{words}` in\n{}", called.stderr);
    }
    assert_eq!(entries(&project, "work/builds").len(), 1, "a failed build is not there");
    let strict = project.call(&["build", "with-bad", "--fail-fast"]);
    assert_eq!(strict.code, Some(1), "{}", strict.stderr);
}

#[test]
fn the_callers_variables_change_nothing() {
    let one = tiny("");
    one.ok(&["build", "--only", "tiny_o2"]);
    let other = tiny("");
    let mut command = other.command(&["build", "--only", "tiny_o2", "--jobs", "1"]);
    command
        .env("CFLAGS", "-O0 -DFROM_THE_CALLER")
        .env("CC", "false")
        .env("LDFLAGS", "-Wl,--nonsense")
        .env("MAKEFLAGS", "-n")
        .env("TZ", "Asia/Tokyo")
        .env("LC_ALL", "de_DE.UTF-8")
        .env("SOURCE_DATE_EPOCH", "1");
    let called = finish(command);
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    let (a, b) = (manifest(&one, "tiny_o2"), manifest(&other, "tiny_o2"));
    assert_eq!(tree(&a), tree(&b), "two folders, two environments, the same bytes");
    let id = |of: &serde_json::Value| {
        of["predicate"]["runDetails"]["metadata"]["invocationId"].as_str().map(str::to_owned)
    };
    assert!(id(&a).is_some_and(|digits| digits.len() == 64));
    assert_eq!(id(&a), id(&b));
    assert!(resolved(&a, "environment").is_array());
    assert_eq!(resolved(&a, "environment"), resolved(&b, "environment"));
}

/// What takes no job tokens (the link-time optimiser under make before 4.4) starts as many jobs as
/// it sees cores.
#[test]
fn jobs_bound_the_cores_too() {
    let project = tiny("");
    project.ok(&["build", "--only", "tiny_o2", "--jobs", "1"]);
    let log = project.read("work/logs/builds/tiny_o2/00-configure.log");
    assert!(log.contains("on 1 cores"), "{log}");
}

#[test]
fn without_a_namespace_the_bytes_are_the_same() {
    let with = tiny("");
    with.ok(&["build", "--only", "tiny_o2"]);
    let without = tiny("");
    let mut command = without.command(&["build", "--only", "tiny_o2"]);
    command.env("MATRIX_NO_NAMESPACE", "1");
    let called = finish(command);
    assert_eq!(called.code, Some(0), "{}", called.stderr);
    assert!(called.stderr.contains("no mount namespace"), "{}", called.stderr);
    let (a, b) = (manifest(&with, "tiny_o2"), manifest(&without, "tiny_o2"));
    let canonical = |of| resolved(of, "canonical-paths") == true;
    assert_eq!((canonical(&a), canonical(&b)), (true, false));
    assert_eq!(tree(&a), tree(&b), "the map gives the same names as the mount");
}

/// Ctrl-C in the middle of make: children end, nothing half done is left, the next call goes on.
#[test]
fn an_interrupt_leaves_nothing_half_done() {
    for signal in ["-INT", "-KILL"] {
        let project = tiny("\"--with-slow-code=7\"");
        let mut command = project.command(&["build", "--only", "tiny_o2"]);
        let mut child = command
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("the tool starts");
        let log = project.path("work/logs/builds/tiny_o2");
        let begin = Instant::now();
        let slow = || {
            let Ok(entries) = std::fs::read_dir(&log) else { return false };
            entries.flatten().any(|entry| entry.path().ends_with("04-backend.log"))
        };
        while !slow() {
            assert!(begin.elapsed() < Duration::from_secs(120), "make never started");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(300));
        let mut kill = crate::support::command("kill");
        kill.args([signal, &child.id().to_string()]);
        crate::support::must(kill);
        let status = child.wait().expect("it ends");
        if signal == "-INT" {
            assert_eq!(status.code(), Some(130));
            assert_eq!(entries(&project, "work/staging/builds"), [""; 0]);
        }
        assert_eq!(entries(&project, "work/builds"), [""; 0], "{signal}");
        assert_eq!(entries(&project, "results/manifests"), [""; 0], "{signal}");
        std::thread::sleep(Duration::from_millis(500));
        let mut ps = crate::support::command("ps");
        ps.args(["-eo", "args"]);
        let place = project.path("").display().to_string();
        let left: Vec<String> = crate::support::must(ps)
            .lines()
            .filter(|line| line.contains(&place) || line.contains("sleep 7"))
            .map(str::to_owned)
            .collect();
        assert_eq!(left, [""; 0], "{signal}: children are left");
        let text = project.read("matrix.toml").replace("slow-code=7", "slow-code=0");
        project.write("matrix.toml", &text);
        project.ok(&["build", "--only", "tiny_o2"]);
    }
}

#[test]
fn sources_that_are_not_what_they_should_be() {
    let project = tiny("");
    std::fs::write(project.path("tiny-15.99.tar.gz"), "something else").expect("written");
    let called = project.call(&["build"]);
    assert_ne!(called.code, Some(0));
    assert!(called.stderr.contains("file:"), "it names the origin: {}", called.stderr);
    assert!(called.stderr.contains("sha256"), "{}", called.stderr);
    assert_eq!(entries(&project, "work/downloads"), [""; 0], "a wrong archive is not kept");

    std::fs::remove_file(project.path("tiny-15.99.tar.gz")).expect("removed");
    let called = project.call(&["build"]);
    assert_ne!(called.code, Some(0));
    assert!(called.stderr.contains("MATRIX_SOURCES"), "it tells the way out: {}", called.stderr);
}

#[test]
fn a_build_that_lost_files_is_made_again() {
    let project = tiny("");
    project.ok(&["build", "--only", "tiny_o2"]);
    let program = folder(&project, "tiny_o2").join("tree/bin/postgres");
    std::fs::remove_file(&program).expect("removed");
    let again = project.ok(&["build", "--only", "tiny_o2"]);
    assert!(again.stderr.contains("has lost files"), "{}", again.stderr);
    assert!(again.stderr.contains("builds: 1 made"), "{}", again.stderr);
    assert!(program.is_file());
}

#[test]
fn folders_that_cannot_be_written_are_told_before_the_work() {
    let project = tiny("");
    project.write("results", "a file, not a folder");
    let called = project.call(&["build"]);
    assert_eq!(called.code, Some(4), "{}", called.stderr);
    assert!(called.stderr.contains("`--results DIR` names another folder"), "{}", called.stderr);
    assert_eq!(entries(&project, "work/builds"), [""; 0]);
}

/// The audit finds by name the file for which a lying compiler got another level.
#[test]
fn the_audit_names_what_was_not_asked() {
    let project = tiny("");
    project.ok(&["build"]);
    let audit = project.ok(&["audit"]);
    assert!(audit.stdout.contains("tiny_o2: as asked"), "{}", audit.stdout);
    // The plan's flags are the same, but the makefile adds one of its own.
    let sly = tiny("\"--with-sly-code\"");
    let built = sly.call(&["build", "--only", "tiny_o2"]);
    assert_eq!(built.code, Some(1), "{}", built.stderr);
    assert!(built.stderr.contains("tiny_o2 did not get what was asked"), "{}", built.stderr);
    let audit = sly.call(&["audit", "tiny_o2"]);
    assert_eq!(audit.code, Some(1), "{}", audit.stdout);
    assert!(audit.stdout.contains("tiny_o2: MISMATCH"), "{}", audit.stdout);
    assert!(audit.stdout.contains("asked for -O2, got -O1"), "{}", audit.stdout);
    assert!(
        audit.stdout.contains("hash.c") && !audit.stdout.contains("main.c"),
        "{}",
        audit.stdout
    );
}

#[test]
fn a_mirror_folder_serves_sources() {
    let project = tiny("");
    std::fs::create_dir(project.path("mirror")).expect("made");
    std::fs::rename(project.path("tiny-15.99.tar.gz"), project.path("mirror/tiny-15.99.tar.gz"))
        .expect("moved");
    let mirror = project.path("mirror").display().to_string();
    project.ok(&["build", "--sources", &mirror]);
}
