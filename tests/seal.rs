//! Sealed toolchains by the real binary: a real compiler from the distribution's packages, in a root
//! folder of its own, building the stand-in for PostgreSQL.
//!
//! Needs apt and the distribution's archive. Packages are kept below cargo's target folder, so that
//! only the first call downloads them (about 100 MB).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{Called, Project, finish, root};

/// The work folder that outlives the tests.
fn kept() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("seal")
}

/// A project with a `toolchains` folder of its own and the packed stand-in, which notes whether its
/// build sees `look`.
fn project(lock: Option<&str>, look: &Path) -> Project {
    let project = Project::new();
    let sha256 = project.pack("tiny-pg", "tiny-15.99.tar.gz");
    let matrix = format!(
        r#"
schema = 1
default-experiment = "sealed"
[source.tiny]
engine = "postgres"
version = "15.99"
sha256 = "{sha256}"
origins = ["file:tiny-15.99.tar.gz"]
options.configure = ["--without-readline", "--without-zlib", "--with-look-for={}"]
[axis.toolchain]
gcc = {{ tag = "" }}
[axis.opt]
o2 = {{ tag = "o2", flags = ["-g1", "-O2"] }}
[experiment.sealed]
sources = ["tiny"]
cross = {{ opt = ["o2"] }}
"#,
        look.display()
    );
    project.write("matrix.toml", &matrix);
    let gcc = std::fs::read_to_string(root().join("toolchains/gcc.toml")).expect("the description");
    project.write("toolchains/gcc.toml", &gcc);
    if let Some(lock) = lock {
        project.write("toolchains/gcc.lock.toml", lock);
    }
    project
}

/// The tool, which finds the folder `toolchains` beside that of cargo's manifest.
fn command(project: &Project, args: &[&str]) -> Command {
    let mut command = project.command(args);
    command.env("CARGO_MANIFEST_DIR", project.path("xtask"));
    command
}

fn call(project: &Project, args: &[&str]) -> Called {
    finish(command(project, args))
}

fn ok(project: &Project, args: &[&str]) -> Called {
    let called = call(project, args);
    assert_eq!(called.code, Some(0), "{args:?}\n{}\n{}", called.stdout, called.stderr);
    called
}

/// A lock that was made here and now, once for all tests.
fn lock() -> &'static str {
    static LOCK: OnceLock<String> = OnceLock::new();
    LOCK.get_or_init(|| {
        let project = project(None, root()).work_at(kept());
        let before = ok(&project, &["toolchain", "list"]).stdout;
        assert!(before.lines().any(|line| line.starts_with("gcc") && line.contains("machine")));
        let sealed = ok(&project, &["toolchain", "seal", "gcc"]);
        assert!(sealed.stderr.contains("sealed: gcc "), "{}", sealed.stderr);
        let after = ok(&project, &["toolchain", "list"]).stdout;
        let line = after.lines().find(|line| line.starts_with("gcc")).expect("a line");
        assert!(line.contains("sealed") && line.ends_with(", fetched"), "{line}");
        let text = project.read("toolchains/gcc.lock.toml");
        // Sealed again on the same day from the same lists: the same file.
        let again = ok(&project, &["toolchain", "seal", "gcc"]);
        assert!(again.stderr.contains("no package has changed"), "{}", again.stderr);
        assert_eq!(project.read("toolchains/gcc.lock.toml"), text);
        text
    })
}

/// The packages that were downloaded, as a mirror for other projects.
fn mirror() -> String {
    kept().join("downloads").display().to_string()
}

fn built(project: &Project) -> PathBuf {
    let builds = std::fs::read_dir(project.path("work/builds")).expect("builds");
    let mut paths: Vec<_> = builds.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.is_dir());
    assert_eq!(paths.len(), 1, "{paths:?}");
    paths.remove(0)
}

fn manifest(folder: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(folder.join("manifest.json")).expect("a manifest");
    serde_json::from_str(&text).expect("JSON")
}

/// The value of the first key of this name, at any depth.
fn find<'a>(value: &'a serde_json::Value, key: &str) -> Option<&'a serde_json::Value> {
    match value {
        serde_json::Value::Object(map) => {
            map.get(key).or_else(|| map.values().find_map(|value| find(value, key)))
        }
        serde_json::Value::Array(list) => list.iter().find_map(|value| find(value, key)),
        _ => None,
    }
}

#[test]
fn one_lock_is_one_compiler_whatever_the_machine_has() {
    let look = root().join("Cargo.toml");
    assert!(look.is_file());
    let one = project(Some(lock()), &look);
    ok(&one, &["build", "--sources", &mirror()]);

    // Another folder, and compilers, make and shell that are none, first on the search path.
    let other = project(Some(lock()), &look);
    for name in ["gcc", "gcc-12", "g++", "make", "sh", "as", "ld"] {
        other.write(&format!("bin/{name}"), "#!/bin/false\n");
        let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        std::fs::set_permissions(other.path(&format!("bin/{name}")), mode).expect("a mode");
    }
    let mut build = command(&other, &["build", "--sources", &mirror(), "--jobs", "1"]);
    let path = std::env::var("PATH").expect("a path");
    build.env("PATH", format!("{}:{path}", other.path("bin").display()));
    let called = finish(build);
    assert_eq!(called.code, Some(0), "{}", called.stderr);

    let (a, b) = (built(&one), built(&other));
    assert_eq!(a.file_name(), b.file_name(), "the same build id");
    let bytes = |folder: &Path| std::fs::read(folder.join("tree/bin/postgres")).expect("a server");
    assert_eq!(bytes(&a), bytes(&b));
    let seen = std::fs::read_to_string(a.join("tree/share/look.txt")).expect("a note");
    assert_eq!(seen, "absent\n", "the build sees nothing of this machine");

    // The manifest has the whole lock, and no folder of this machine.
    let manifest = manifest(&a);
    let sealed = find(&manifest, "sealed").expect("the lock is in it");
    let packages = sealed["lock"]["packages"].as_array().expect("packages");
    assert_eq!(packages.len(), lock().lines().filter(|line| line.contains("sha256 = ")).count());
    assert!(!manifest.to_string().contains(&one.path("work").display().to_string()));

    // A colleague without lock and matrix file, whose gcc is none: the manifest is enough.
    let colleague = project(None, &look);
    colleague.write("bin/gcc", "#!/bin/false\n");
    let from = a.join("manifest.json").display().to_string();
    std::fs::copy(one.path("tiny-15.99.tar.gz"), Path::new(&mirror()).join("tiny-15.99.tar.gz"))
        .expect("the source is in the mirror, too");
    std::fs::remove_file(colleague.path("matrix.toml")).expect("removed");
    let mut again = command(&colleague, &["reproduce", &from, "--sources", &mirror()]);
    again.env("PATH", format!("{}:{path}", colleague.path("bin").display()));
    let called = finish(again);
    assert_eq!(called.code, Some(0), "{}\n{}", called.stdout, called.stderr);
    assert!(called.stdout.contains("identical"), "{}", called.stdout);

    // Without the lock it is another compiler, and a build that sees the machine: the note tells.
    ok(&one, &["toolchain", "unseal", "gcc"]);
    std::fs::remove_dir_all(&a).expect("removed");
    ok(&one, &["build"]);
    let open = built(&one);
    assert_ne!(open.file_name(), a.file_name());
    let seen = std::fs::read_to_string(open.join("tree/share/look.txt")).expect("a note");
    assert_eq!(seen, "there\n");
}

#[test]
fn a_package_that_is_not_the_one_of_the_lock_is_not_used() {
    let line = lock().lines().find(|line| line.contains("{ name = \"make\"")).expect("make");
    let (start, end) = (line.find("sha256 = \"").expect("a hash") + 10, line.len());
    let hash = &line[start..end][..64];
    let other = format!("{}{}", if hash.starts_with('0') { "1" } else { "0" }, &hash[1..]);
    let project = project(Some(&lock().replace(hash, &other)), root());
    let called = call(&project, &["build", "--sources", &mirror()]);
    assert_eq!(called.code, Some(4), "{}", called.stderr);
    let told = called.stderr + &called.stdout;
    for part in ["1 of ", " packages cannot be had", "\n  make ", &other, "--sources DIR"] {
        assert!(told.contains(part), "no `{part}` in\n{told}");
    }
    let list = ok(&project, &["toolchain", "list"]).stdout;
    assert!(list.contains("to be fetched"), "{list}");
}

#[test]
fn what_cannot_be_sealed_or_used_is_told() {
    let project = project(Some(lock()), root());
    let mut build = command(&project, &["build", "--sources", &mirror()]);
    build.env("MATRIX_NO_NAMESPACE", "1");
    let called = finish(build);
    assert_eq!(called.code, Some(4), "{}", called.stderr);
    assert!(called.stderr.contains("root folder of its own"), "{}", called.stderr);
    assert!(called.stderr.contains("MATRIX_NO_NAMESPACE is set"), "{}", called.stderr);

    let called = call(&project, &["toolchain", "seal", "tcc"]);
    assert_eq!(called.code, Some(2), "{}", called.stderr);
    assert!(called.stderr.contains("known: gcc"), "{}", called.stderr);
    let called = call(&project, &["toolchain", "seal", "gcc", "--archive", "ftp://x"]);
    assert_eq!(called.code, Some(2), "{}", called.stderr);
    let called = call(&project, &["toolchain", "unseal", "clang"]);
    assert_eq!(called.code, Some(2), "{}", called.stderr);

    // A lock of another setting is no lock of this one.
    let text = lock().replace("name = \"gcc\"\n", "name = \"gcc-11\"\n");
    project.write("toolchains/gcc.lock.toml", &text);
    let called = call(&project, &["build"]);
    assert_eq!(called.code, Some(4), "{}", called.stderr);
    assert!(called.stderr.contains("is the lock of `gcc-11`"), "{}", called.stderr);
}
