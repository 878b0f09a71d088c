//! The flag audit, end to end: each way in which a build gets other flags than its owner believes,
//! in a tiny project of autoconf's or CMake's kind, found by name.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::support::{Called, Project, command, finish, must};

/// A project with the stand-in for PostgreSQL; `setting` is what the one setting of its axis adds.
fn autoconf(setting: &str) -> Project {
    let project = Project::new();
    let sha256 = project.pack("tiny-pg", "tiny-15.99.tar.gz");
    project.write("matrix.toml", &matrix("postgres", "15.99", &sha256, setting));
    project
}

/// A project with the stand-in for MySQL.
fn cmake(setting: &str) -> Project {
    let project = Project::new();
    let sha256 = project.pack("tiny-cmake", "tiny-8.0.99.tar.gz");
    project.write("matrix.toml", &matrix("mysql", "8.0.99", &sha256, setting));
    project
}

fn matrix(engine: &str, version: &str, sha256: &str, setting: &str) -> String {
    format!(
        r#"
schema = 1
default-experiment = "one"
[source.tiny]
engine = "{engine}"
version = "{version}"
sha256 = "{sha256}"
origins = ["file:tiny-{version}.tar.gz"]
[axis.toolchain]
gcc = {{ tag = "" }}
clang = {{ tag = "clang" }}
[axis.flags]
all = {{ tag = "", {setting} }}
[experiment.one]
sources = ["tiny"]
[experiment.clang]
sources = ["tiny"]
cross = {{ toolchain = "clang" }}
"#
    )
}

/// The name of the only build of the experiment `one`.
const NAME: &str = "tiny_default";

/// Builds, audits, and demands the exit code of a mismatch.
fn mismatch(project: &Project) -> Called {
    let built = project.call(&["build"]);
    assert_eq!(built.code, Some(1), "{}", built.stderr);
    assert!(
        built.stderr.contains(&format!("{NAME} did not get what was asked")),
        "{}",
        built.stderr
    );
    let audit = project.call(&["audit"]);
    assert_eq!(audit.code, Some(1), "{}\n{}", audit.stdout, audit.stderr);
    assert!(audit.stdout.contains("MISMATCH"), "{}", audit.stdout);
    audit
}

fn as_asked(project: &Project) -> String {
    project.ok(&["build"]);
    let audit = project.ok(&["audit"]);
    assert!(audit.stdout.contains(&format!("{NAME}: as asked")), "{}", audit.stdout);
    audit.stdout
}

/// The line of a text that has these words.
#[track_caller]
fn line<'a>(text: &'a str, words: &[&str]) -> &'a str {
    let has = |line: &&str| words.iter().all(|word| line.contains(word));
    text.lines().find(has).unwrap_or_else(|| panic!("no line with {words:?} in\n{text}"))
}

/// The audit that the build's manifest holds.
fn stored(project: &Project) -> serde_json::Value {
    let folder = std::fs::read_dir(project.path("work/builds")).expect("builds");
    let mut folders = folder.flatten().map(|entry| entry.path().join("manifest.json"));
    let text = std::fs::read_to_string(folders.next().expect("a build")).expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let all = manifest["predicate"]["runDetails"]["byproducts"].as_array().expect("a list");
    let audit = all.iter().find(|byproduct| byproduct["name"] == "audit").expect("an audit");
    audit["annotations"]["audit"].clone()
}

#[test]
fn a_cmake_build_is_as_asked_and_says_so_in_its_manifest() {
    let project = cmake(r#"flags = ["-g1", "-O2"]"#);
    let text = as_asked(&project);
    assert!(!text.contains("mismatch"), "{text}");
    // The library that the project carries is code for any address, and nothing else is special.
    assert_eq!(stored(&project)["verdict"], "explained");
    let explained: Vec<&str> = text.lines().filter(|line| line.contains("  explained ")).collect();
    assert_eq!(explained.len(), 1, "{text}");
    let library = "lib/private/libprotobuf-lite.so.1.2.3";
    assert!(explained[0].contains(library) && explained[0].contains("-fPIC"), "{text}");
    // The installed server finds that library; it would not start without.
    let builds = std::fs::read_dir(project.path("work/builds")).expect("there");
    let tree = builds.flatten().next().expect("one").path().join("tree");
    assert!(tree.join(library).is_file(), "{}", tree.display());
    must(command(tree.join("bin/mysqld")));
    // Reading again needs nothing but the installed tree and the log.
    let again = project.ok(&["audit", "--again"]);
    assert!(again.stdout.contains(": as asked"), "{}", again.stdout);
    // The plan shows what the recipe gives: the build type without its level.
    let plan = project.ok(&["plan"]).stdout;
    assert!(plan.contains("-DCMAKE_C_FLAGS_RELEASE=-DNDEBUG"), "{plan}");
    assert!(plan.contains("-DWITH_PACKAGE_FLAGS=OFF"), "{plan}");
}

#[test]
fn a_cmake_build_without_a_namespace_has_the_same_bytes() {
    let tree = |project: &Project, variables: &[(&str, &str)]| {
        let mut command = project.command(&["build"]);
        command.envs(variables.iter().copied());
        let called = finish(command);
        assert_eq!(called.code, Some(0), "{}", called.stderr);
        let folder = std::fs::read_dir(project.path("work/builds")).expect("builds");
        let build = folder.flatten().next().expect("a build").path();
        std::fs::read(build.join("tree/bin/mysqld")).expect("the server")
    };
    let setting = r#"flags = ["-g1", "-O2"]"#;
    let one = tree(&cmake(setting), &[]);
    let caller = [
        ("CFLAGS", "-O0"),
        ("CXXFLAGS", "-O0"),
        ("CMAKE_GENERATOR", "Ninja"),
        ("TZ", "Asia/Tokyo"),
    ];
    assert!(one == tree(&cmake(setting), &caller), "the caller's environment changes nothing");
    assert!(one == tree(&cmake(setting), &[("MATRIX_NO_NAMESPACE", "1")]), "nor do real folders");
}

#[test]
fn a_build_type_with_a_level_of_its_own() {
    let project = cmake(r#"flags = ["-g1", "-O2"], mysql.cmake = { LEVEL_OF_ITS_OWN = "ON" }"#);
    let text = mismatch(&project).stdout;
    line(
        &text,
        &["mismatch  bin/mysqld: asked for -O2, got -O3 (the project's own call gives it)"],
    );
    assert!(text.contains("main.c") && text.contains("hash.c"), "{text}");
    assert!(!text.contains("version.cc"), "only the flags for C were changed: {text}");
    let why = project.ok(&["audit", "--why", "-O3"]).stdout;
    line(&why, &["the project's own build gives it for 4 of 5 files", "hash.c", "main.c"]);
    let why = project.ok(&["audit", "--why", "-O2"]).stdout;
    line(&why, &["flags = all (", "matrix.toml:", "gives `-O2`"]);
    line(&why, &["`-O3` comes behind it in 4 files"]);
}

#[test]
fn a_level_in_a_build_types_variable_of_the_matrix() {
    let project =
        cmake(r#"flags = ["-g1", "-O2"], mysql.cmake = { CMAKE_C_FLAGS_RELEASE = "-O3" }"#);
    line(&mismatch(&project).stdout, &["asked for -O2, got -O3"]);
}

#[test]
fn packaging_flags_of_the_distribution() {
    let project = cmake(r#"flags = ["-g1", "-O2"], mysql.cmake = { WITH_PACKAGE_FLAGS = "ON" }"#);
    let text = mismatch(&project).stdout;
    line(&text, &["mismatch", "-flto was not asked for (the project's own call gives it)"]);
    line(&text, &["mismatch", "-fstack-protector-strong was not asked for"]);
    line(&text, &["mismatch", "link-time optimisation happened and was not asked for"]);
    let why = project.ok(&["audit", "--why", "-fstack-protector-strong"]).stdout;
    line(&why, &["the project's own build gives it for 4 of 5 files"]);
    line(&why, &["the distribution's packaging flags have it (`dpkg-buildflags`)"]);
}

#[test]
fn a_variable_that_cmake_accepts_in_silence() {
    // Some CMake file has each name, so that only configuring shows that two of them do nothing.
    let project = cmake(
        r#"flags = ["-g1", "-O2"], mysql.cmake = { WITH_WINDOWS_THING = "ON", DISABLE_PSI_MUTEX = 1, DISABLE_PSI_IDLE = 1 }"#,
    );
    let text = mismatch(&project).stdout;
    line(&text, &["the build: the project does not use the CMake variable `WITH_WINDOWS_THING`"]);
    line(&text, &["`DISABLE_PSI_IDLE` is not in the configured header"]);
    assert!(!text.contains("DISABLE_PSI_MUTEX"), "{text}");
    assert!(!text.contains("REPRODUCIBLE_BUILD"), "the recipe's own are no fault: {text}");
}

#[test]
fn a_variable_of_no_use_is_told_before_anything_is_configured() {
    let with =
        |names: &str| cmake(&format!("flags = [\"-g1\", \"-O2\"], mysql.cmake = {{ {names} }}"));
    // What a table of facts knows of the release: nothing is fetched.
    let known = with("DISABLE_PSI_DATA_LOCK = 1").call(&["plan"]);
    assert_eq!(known.code, Some(2), "{}", known.stderr);
    for part in
        ["matrix.toml:13:", "source `tiny` (mysql 8.0.99): `DISABLE_PSI_DATA_LOCK` can be given"]
    {
        assert!(known.stderr.contains(part), "{part}: {}", known.stderr);
    }
    // What only the tree shows: the plan cannot know it, unpacking does, and nothing is configured.
    let project = with("TUNED_HASHH = 1, WITH_NONSENSE = 1, CMAKE_CXX_EXTENSIONS = \"OFF\"");
    project.ok(&["plan"]);
    let built = project.call(&["build"]);
    assert_eq!(built.code, Some(1), "{}", built.stderr);
    for part in [
        "`TUNED_HASHH` cannot be found in any CMake file of the tree (did you mean `TUNED_HASH`?)",
        "`WITH_NONSENSE` cannot be found in any CMake file of the tree",
        "0 made, 0 there already, 1 failed",
    ] {
        assert!(built.stderr.contains(part), "{part}: {}", built.stderr);
    }
    assert!(!built.stderr.contains("EXTENSIONS"), "CMake's own: {}", built.stderr);
    assert!(!project.path("work/logs/builds").join(NAME).exists(), "not configured");
    // From now on the plan knows it, too.
    let planned = project.call(&["plan"]);
    assert_eq!(planned.code, Some(2), "{}", planned.stderr);
    assert!(planned.stderr.contains("did you mean `TUNED_HASH`?"), "{}", planned.stderr);
}

#[test]
fn a_value_that_the_project_replaced() {
    let project =
        cmake(r#"flags = ["-g1", "-O2"], mysql.cmake = { WITH_SSL = "system", REPLACED = "ON" }"#);
    let text = mismatch(&project).stdout;
    line(&text, &["CMake was given `WITH_SSL=system`, and its cache has `WITH_SSL=bundled`"]);
}

#[test]
fn a_file_that_the_project_compiles_its_own_way() {
    let project = cmake(r#"flags = ["-g1", "-Os"], mysql.cmake = { TUNED_HASH = "ON" }"#);
    let text = mismatch(&project).stdout;
    line(&text, &["asked for -Os, got -O2 (the project's own call gives it)", "; 1 unit"]);
    assert!(text.contains("hash.c") && !text.contains("main.c"), "{text}");
    let project = autoconf(r#"flags = ["-g1", "-Os"], configure = ["--with-sly-code=-O2"]"#);
    let text = mismatch(&project).stdout;
    line(&text, &["asked for -Os, got -O2 (the project's own call gives it)"]);
    assert!(text.contains("hash.c") && !text.contains("main.c"), "{text}");
}

#[test]
fn link_time_optimisation_that_happened_and_that_did_not() {
    let flags = r#"flags = ["-g1", "-O2", "-flto=auto", "-ffat-lto-objects"]"#;
    as_asked(&cmake(flags));
    // The archive's members have both codes, and the linker takes the wrong one.
    let project = cmake(&format!("{flags}, mysql.cmake = {{ NO_PLUGIN = \"ON\" }}"));
    let text = mismatch(&project).stdout;
    line(&text, &["-flto=auto was asked for, but did not happen for these files"]);
    assert!(text.contains("hash.c") && !text.contains("main.c"), "{text}");
}

#[test]
fn clangs_link_time_optimisation_is_proven_by_its_objects() {
    // Nothing in so small a program is renamed; its objects hold nothing but intermediate code.
    for debug in ["-g1", "-g0"] {
        let flags =
            format!(r#"flags = ["{debug}", "-O2", "-flto=thin"], ldflags = ["-fuse-ld=lld"]"#);
        let project = cmake(&flags);
        // gcc would refuse `thin`.
        let text = project.read("matrix.toml").replace("gcc = { tag = \"\" }\n", "");
        project.write("matrix.toml", &text);
        project.ok(&["build", "clang"]);
        let audit = project.ok(&["audit", "--experiment", "clang"]);
        // `-fPIC` of the library that the project carries is explained.
        let verdict = audit.stdout.lines().next().unwrap_or_default();
        assert!(verdict.contains(": as asked, and what the project adds ("), "{}", audit.stdout);
        let others = audit.stdout.lines().filter(|line| line.contains("  explained "));
        assert!(others.into_iter().all(|line| line.contains("-fPIC")), "{}", audit.stdout);
    }
}

#[test]
fn an_option_that_configure_does_not_know() {
    let project = autoconf(r#"flags = ["-g1", "-O2"], configure = ["--with-foo=3"]"#);
    let found = "the build: configure does not know `--with-foo`: it had no effect [configure]";
    line(&mismatch(&project).stdout, &[found]);
    // The build tree is gone, what was found in it is not.
    let again = project.call(&["audit", "--again"]);
    assert_eq!(again.code, Some(1), "{}", again.stdout);
    line(&again.stdout, &[found]);
}

#[test]
fn flags_that_configure_put_behind_ours() {
    let project = autoconf(r#"flags = ["-g1", "-O2"], configure = ["--with-warped-flags"]"#);
    line(&mismatch(&project).stdout, &["configure made `CFLAGS = -Wall -g1 -O2 -O1`"]);
}

/// A folder with a compiler that gives every tenth file a level of its own.
fn sly_compiler(project: &Project, name: &str) -> PathBuf {
    let folder = project.path("sly");
    std::fs::create_dir_all(&folder).expect("made");
    let script = format!(
        "#!/bin/sh\nfor word; do case $word in *more*0.c) set -- \"$@\" -O1 ;; esac; done\n\
         exec /usr/bin/{name} \"$@\"\n"
    );
    let file = folder.join(name);
    std::fs::write(&file, script).expect("written");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("mode");
    folder
}

fn with_path(project: &Project, folder: &std::path::Path, args: &[&str]) -> Called {
    let mut command = project.command(args);
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    finish(command)
}

#[test]
fn a_compiler_that_adds_a_level_to_every_tenth_file() {
    let setting = r#"flags = ["-g1", "-O2"], configure = ["--with-many-files=25"]"#;
    let project = autoconf(setting);
    let sly = sly_compiler(&project, "gcc");
    let built = with_path(&project, &sly, &["build"]);
    assert_eq!(built.code, Some(1), "{}", built.stderr);
    let audit = with_path(&project, &sly, &["audit"]);
    assert_eq!(audit.code, Some(1), "{}", audit.stdout);
    let script = sly.join("gcc").display().to_string();
    let words = ["asked for -O2, got -O1 (no call gives it: the compiler `", &script, "2 units"];
    line(&audit.stdout, &words);
    let named: Vec<&str> =
        audit.stdout.lines().map(str::trim).filter(|line| line.ends_with(".c")).collect();
    assert_eq!(named, ["more10.c", "more20.c"], "{}", audit.stdout);
    let why = with_path(&project, &sly, &["audit", "--why", "-O1"]);
    line(
        &why.stdout,
        &["no call gives it, but 2 files have it: the compiler `", "a script, adds it"],
    );
    // The plan knows which compiler it is: with the real one this build is another.
    let plan = project.ok(&["plan"]).stdout;
    assert!(plan.contains("stale: files of toolchain gcc"), "{plan}");
}

#[test]
fn clang_is_known_by_its_calls_and_a_script_around_it_is_not() {
    let setting = r#"flags = ["-g1", "-O2"], configure = ["--with-many-files=11"]"#;
    let project = autoconf(setting);
    project.ok(&["build", "clang"]);
    let audit = project.ok(&["audit", "--experiment", "clang"]);
    assert!(audit.stdout.contains("tiny_clang: as asked"), "{}", audit.stdout);
    // Without canonical paths the log has real names and the units mapped ones.
    let mapped = autoconf(setting);
    let mut command = mapped.command(&["build", "clang"]);
    command.env("MATRIX_NO_NAMESPACE", "1");
    assert_eq!(finish(command).code, Some(0));
    let audit = mapped.ok(&["audit", "--experiment", "clang"]);
    assert!(audit.stdout.contains("tiny_clang: as asked"), "{}", audit.stdout);
    let project =
        autoconf(&setting.replace("[\"--with-many", "[\"--with-sly-code\", \"--with-many"));
    assert_eq!(project.call(&["build", "clang"]).code, Some(1));
    let audit = project.call(&["audit", "--experiment", "clang"]);
    assert_eq!(audit.code, Some(1), "{}", audit.stdout);
    line(&audit.stdout, &["asked for -O2, got -O1", "[compile log; 1 unit"]);
    // What a script hands on stands nowhere: not known, and said so.
    let project = autoconf(setting);
    let sly = sly_compiler(&project, "clang");
    assert_eq!(with_path(&project, &sly, &["build", "clang"]).code, Some(0));
    let audit = with_path(&project, &sly, &["audit", "--experiment", "clang"]);
    assert_eq!(audit.code, Some(0), "{}", audit.stdout);
    assert!(audit.stdout.contains("tiny_clang: unknown"), "{}", audit.stdout);
    line(&audit.stdout, &["unknown", "is a script, and nothing records what it hands on"]);
}

#[test]
fn without_debug_information_the_log_tells() {
    let project = autoconf(r#"flags = ["-g0", "-O2"]"#);
    as_asked(&project);
    let project = autoconf(r#"flags = ["-g0", "-O2"], configure = ["--with-sly-code"]"#);
    let text = mismatch(&project).stdout;
    line(&text, &["the build: asked for -O2, got -O1", "[compile log; 1 unit", "% of all code"]);
    assert!(text.contains("hash.c"), "{text}");
}

#[test]
fn the_callers_flags_have_no_effect() {
    let project = autoconf(r#"flags = ["-g1", "-O2"]"#);
    let mut command = project.command(&["build"]);
    command.env("CFLAGS", "-O0 -ffast-math").env("CPPFLAGS", "-DFROM_THE_CALLER");
    assert_eq!(finish(command).code, Some(0));
    let audit = project.ok(&["audit"]).stdout;
    assert!(audit.contains(&format!("{NAME}: as asked")), "{audit}");
    let why = project.ok(&["audit", "--why", "-ffast-math"]).stdout;
    line(&why, &["nobody gives `-ffast-math`", "not the caller's environment"]);
}

#[test]
fn a_description_of_a_compiler_that_lies_is_refused_at_plan_time() {
    let project = autoconf(r#"flags = ["-g1", "-O2"]"#);
    let text = project.read("matrix.toml").replace("gcc = {", "gcc-3 = {");
    project.write("matrix.toml", &text);
    // `gcc-3` that is some other gcc: its own version is asked, not its name.
    let folder = project.path("lies");
    std::fs::create_dir_all(&folder).expect("made");
    std::os::unix::fs::symlink("/usr/bin/gcc", folder.join("gcc-3")).expect("linked");
    let plan = with_path(&project, &folder, &["plan"]);
    let reason = line(&plan.stdout, &["unavailable", "toolchains/gcc.toml wants 3"]);
    assert!(reason.contains("it says "), "{reason}");
}

#[test]
fn an_installed_postgres_says_what_it_can_and_cannot() {
    let project = Project::with_matrix(&installed("postgres", "/usr/lib/postgresql/15"));
    let text = project.ok(&["audit"]).stdout;
    assert!(text.contains("there: unknown: not recorded"), "{text}");
    // Packages strip what the compiler signs; the server's own words are only a claim.
    line(&text, &["bin/postgres", "no .comment section"]);
    line(&text, &["its version string says: PostgreSQL 15", "compiled by gcc", "[claim]"]);
    line(&text, &["pg_config says its flags were: ", "-O2", "[claim]"]);
    line(&text, &["lib/", "more: ", "of the functions have a frame pointer"]);
    assert!(text.lines().count() < 24, "{text}");
    line(&text, &["bin/postgres", "no debug information: its flags cannot be known"]);
    line(&text, &["of the functions have a frame pointer"]);
    line(&text, &["hardened: -fstack-protector"]);
    line(&text, &["says of itself: postgres (PostgreSQL) 15", "[claim]"]);
    line(&text, &["belongs to the package postgresql-15 15."]);
    let why = project.call(&["audit", "--why", "-O2"]);
    assert_eq!(why.code, Some(2), "{}", why.stdout);
    assert!(why.stderr.contains("of an installed server nobody knows"), "{}", why.stderr);
}

/// Of `/usr` only the server and its plug-ins are read.
#[test]
fn an_installed_mariadb_says_what_it_can_and_cannot() {
    let project = Project::with_matrix(&installed("mariadb", "/usr"));
    let text = project.ok(&["audit"]).stdout;
    line(&text, &["sbin/mariadbd", "of the functions have a frame pointer"]);
    line(&text, &["no debug information: its flags cannot be known"]);
    line(&text, &["says of itself", "MariaDB", "[claim]"]);
    line(&text, &["nothing that the server says names its flags"]);
    line(&text, &["belongs to the package mariadb-server-core"]);
    assert!(!text.contains("bin/tar"), "{text}");
}

fn installed(engine: &str, prefix: &str) -> String {
    format!(
        r#"
schema = 1
default-experiment = "one"
[source.there]
engine = "{engine}"
prefix = "{prefix}"
[axis.toolchain]
gcc = {{ tag = "" }}
[experiment.one]
sources = ["there"]
"#
    )
}
