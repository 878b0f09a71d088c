//! Judging: each state of each check, on machines that exist only here.

use std::path::PathBuf;

use super::probe::Kernel;
use super::*;
use crate::matrix::model::Options;
use crate::progress::Reporter;

/// A quiet machine with everything that a quickstart needs.
fn machine() -> Probe {
    let programs = ["cargo", "make", "curl", "apt-get"];
    Probe {
        programs: programs.map(|name| (name.to_owned(), format!("/usr/bin/{name}"))).into(),
        compilers: [("gcc".to_owned(), Ok("gcc 12.2.0".to_owned()))].into(),
        no_lto: Default::default(),
        compiler_packages: ["", "-14"]
            .into_iter()
            .flat_map(|suffix| [("gcc", suffix), ("clang", suffix)])
            .map(|(family, suffix)| {
                let name = format!("{family}{suffix}");
                let lto = format!("lld{suffix}");
                (name.clone(), [vec![name, "libc6-dev".to_owned()], vec![lto]])
            })
            .collect(),
        manager: Some(Manager::Apt),
        root: true,
        sudo: false,
        namespaces: Ok(()),
        namespace_switch: None,
        server_user: Some("postgres".to_owned()),
        disk_free: Some(100 << 30),
        memory_available: Some(16 << 30),
        jobs: 4,
        mirror: false,
        kernel: Kernel {
            cores: 4,
            load: Some(0.1),
            governors: vec!["performance".into()],
            turbo: Some((false, "/sys/t", "1")),
            smt: Some(false),
            numa_nodes: 1,
            randomize_va_space: Some(2),
            huge_pages: Some("madvise".into()),
            swappiness: Some(1),
            swap: true,
            perf_paranoid: Some(2),
            hardware_counters: true,
            hypervisor: false,
        },
    }
}

fn env(root: &std::path::Path) -> Env {
    Env {
        matrix: root.join("matrix.toml"),
        results: root.join("results"),
        work: root.join("work"),
        sources: None,
        jobs: 4,
        keep_going: true,
        reporter: Reporter::new(true),
        root: root.to_owned(),
    }
}

fn source(engine: Engine, version: &str, kind: SourceKind) -> Source {
    Source {
        name: "s".into(),
        engine,
        version: version.parse().ok(),
        kind,
        patches: Vec::new(),
        options: Options::default(),
        span: 0..0,
    }
}

fn archive_kind() -> SourceKind {
    SourceKind::Archive {
        sha256: crate::hash::Digest::of(b"a"),
        origins: vec![Origin::Https("https://example.org/a.tar".into())],
    }
}

fn needs_of(source: &Source) -> Needs {
    let root = tempfile::tempdir().expect("a folder");
    Needs::of(&env(root.path()), &[source], &["gcc".to_owned()], true)
}

/// The finding of one check.
fn finding(needs: &Needs, probe: &Probe, check: &str) -> Finding {
    let all = evaluate(needs, probe);
    all.into_iter().find(|finding| finding.check == check).expect(check)
}

#[test]
fn a_good_machine_has_no_complaint() {
    let needs = needs_of(&source(Engine::Postgres, "15.18", archive_kind()));
    let all = evaluate(&needs, &machine());
    assert!(all.iter().all(|finding| finding.state == State::Ok), "{}", render::text(&all));
    let checks: Vec<&str> = all.iter().map(|finding| finding.check.as_str()).collect();
    let first = ["cargo", "gcc", "make", "download of s", "namespaces", "user for servers", "disk"];
    assert_eq!(checks[..7], first);
    assert!(missing_packages(&all).is_empty());
}

#[test]
fn headers_are_looked_for_where_compilers_do() {
    assert!(probe::find("stdio.h").is_some(), "the C library's headers are there");
    assert_eq!(probe::find("no/such.h"), None);
}

#[test]
fn sources_tell_what_they_need() {
    let tools = |source: &Source| -> Vec<&str> {
        needs_of(source).tools.into_iter().map(|(tool, _)| tool).collect()
    };
    let git = || SourceKind::Git { url: "x".into(), rev: "0".repeat(40) };
    assert!(tools(&source(Engine::Postgres, "16.9", archive_kind())).is_empty());
    let parsers = ["bison", "flex", "perl"];
    assert_eq!(tools(&source(Engine::Postgres, "17.0", archive_kind())), parsers);
    let all = ["git", "bison", "flex", "perl"];
    assert_eq!(tools(&source(Engine::Postgres, "15.18", git())), all);
    let family = |engine, version| tools(&source(engine, version, archive_kind())).join(" ");
    let new = "cmake bison curses.h libaio.h openssl/ssl.h";
    assert_eq!(family(Engine::Mysql, "8.0.39"), new);
    let old = "cmake bison curses.h libaio.h";
    assert_eq!(family(Engine::Mysql, "5.6.51"), old, "it carries its own library");
    assert_eq!(family(Engine::Mariadb, "10.11.18"), format!("{new} pcre2.h fmt/core.h"));
    let mut patched = source(Engine::Postgres, "15.18", archive_kind());
    patched.patches = vec!["a.patch".into()];
    assert_eq!(tools(&patched), ["patch"]);
    let installed = SourceKind::Prefix { path: PathBuf::from("/usr") };
    let needs = needs_of(&source(Engine::Postgres, "", installed));
    assert_eq!((needs.builds, needs.toolchains.len(), needs.servers), (false, 0, true));
}

#[test]
fn sealed_toolchains_bring_the_programs_of_a_build() {
    let git = SourceKind::Git { url: "x".into(), rev: "0".repeat(40) };
    let mut needs = needs_of(&source(Engine::Postgres, "15.18", git));
    let mut probe = machine();
    probe.programs.remove("make");
    let missing = |needs: &Needs| -> Vec<String> {
        let all = evaluate(needs, &probe).into_iter();
        all.filter(|found| found.state == State::Missing).map(|found| found.check).collect()
    };
    assert_eq!(missing(&needs), ["make", "git", "bison", "flex", "perl"]);
    needs.sealed = true;
    assert_eq!(missing(&needs), ["git"], "the source is got outside of the build");
}

#[test]
fn a_download_that_is_there_needs_no_tool() {
    let root = tempfile::tempdir().expect("a folder");
    let env = env(root.path());
    let source = source(Engine::Postgres, "15.18", archive_kind());
    let archives = || Needs::of(&env, &[&source], &[], false).archives.len();
    assert_eq!(archives(), 1);
    std::fs::create_dir_all(env.downloads()).expect("a folder");
    let name = crate::hash::Digest::of(b"a").to_string();
    std::fs::write(env.downloads().join(name), "a").expect("written");
    assert_eq!(archives(), 0);
}

#[test]
fn what_is_missing_names_the_package() {
    let mut needs = needs_of(&source(Engine::Postgres, "17.5", archive_kind()));
    needs.toolchains.push("clang-14".into());
    let mut probe = machine();
    probe.programs.remove("make");
    let bad = "it makes no program that runs: stdio.h: No such file";
    probe.compilers.insert("gcc".into(), Err(bad.into()));
    let all = evaluate(&needs, &probe);
    assert_eq!(
        missing_packages(&all),
        ["bison", "clang-14", "flex", "gcc", "libc6-dev", "make", "perl"]
    );
    let make = finding(&needs, &probe, "make");
    assert_eq!(make.reason, "not found; every recipe runs it");
    let line = "apt-get install -y --no-install-recommends --no-upgrade make";
    assert_eq!(make.mend.as_deref(), Some(line));
    probe.root = false;
    let make = finding(&needs, &probe, "make");
    assert_eq!(make.mend, Some(format!("sudo {line}")));
    probe.manager = None;
    assert_eq!(finding(&needs, &probe, "make").mend, None);
}

#[test]
fn one_origin_that_can_be_asked_is_enough() {
    let mut needs = needs_of(&source(Engine::Postgres, "15.18", archive_kind()));
    let mut probe = machine();
    probe.programs.remove("curl");
    let state = |needs: &Needs, probe: &Probe| finding(needs, probe, "download of s").state;
    assert_eq!(state(&needs, &probe), State::Missing);
    probe.mirror = true;
    assert_eq!(state(&needs, &probe), State::Ok);
    probe.mirror = false;
    needs.archives[0].1.push(Origin::Debian { package: "p".into(), version: "1".into() });
    assert_eq!(finding(&needs, &probe, "download of s").reason, "by apt-get");
    probe.programs.remove("apt-get");
    assert_eq!(state(&needs, &probe), State::Missing);
}

#[test]
fn privileges_disk_and_memory() {
    let needs = needs_of(&source(Engine::Postgres, "15.18", archive_kind()));
    let mut probe = machine();
    probe.namespaces = Err("the kernel allows no user namespace".into());
    probe.namespace_switch = Some(("kernel.unprivileged_userns_clone", 1));
    probe.root = false;
    let seen = finding(&needs, &probe, "namespaces");
    assert_eq!(seen.state, State::Warning, "there is a fallback");
    let line = "sudo sysctl -w kernel.unprivileged_userns_clone=1";
    assert_eq!(seen.mend.as_deref(), Some(line));
    probe.server_user = None;
    assert_eq!(finding(&needs, &probe, "user for servers").state, State::Ok);
    probe.root = true;
    assert_eq!(finding(&needs, &probe, "user for servers").state, State::Missing);
    for (gib, state) in [(1, State::Missing), (5, State::Warning), (10, State::Ok)] {
        probe.disk_free = Some(gib << 30);
        assert_eq!(finding(&needs, &probe, "disk").state, state, "{gib} GiB");
    }
    probe.memory_available = Some(700 << 20);
    let seen = finding(&needs, &probe, "memory");
    assert_eq!(seen.state, State::Warning);
    assert_eq!(seen.mend.as_deref(), Some("cargo xtask matrix --jobs 2"));
}

#[test]
fn noise_is_a_warning_with_its_command_and_never_installed() {
    let needs = Needs::default();
    let mut probe = machine();
    probe.root = false;
    probe.kernel = Kernel {
        cores: 1,
        load: Some(3.0),
        hypervisor: true,
        governors: vec!["ondemand".into(), "performance".into()],
        turbo: Some((true, "/sys/t", "1")),
        smt: Some(true),
        numa_nodes: 2,
        randomize_va_space: Some(0),
        huge_pages: Some("always".into()),
        swappiness: Some(60),
        swap: true,
        perf_paranoid: Some(3),
        hardware_counters: false,
    };
    let all = noise::evaluate(&probe.kernel, &probe);
    for finding in &all {
        assert_eq!(finding.state, State::Warning, "{}", finding.check);
        assert!(finding.packages.is_empty(), "{}", finding.check);
    }
    let mend = |check: &str| finding(&needs, &probe, check).mend.unwrap_or_default();
    assert_eq!(mend("CPU governor"), "sudo cpupower frequency-set -g performance");
    assert_eq!(mend("turbo"), "echo 1 | sudo tee /sys/t");
    assert_eq!(mend("ASLR"), "sudo sysctl -w kernel.randomize_va_space=2");
    assert_eq!(mend("swap"), "sudo sysctl -w vm.swappiness=1");
    probe.kernel.swap = false;
    assert_eq!(finding(&needs, &probe, "swap").state, State::Ok);
}

#[test]
fn text_and_json() {
    let findings = [
        Finding::ok("make", "/usr/bin/make"),
        Finding::missing("clang-14", "it fails:\nbadly").mend("apt-get install clang-14"),
    ];
    expect_test::expect![[r#"
        ok       make      /usr/bin/make
        MISSING  clang-14  it fails:
                           badly
                           mend: apt-get install clang-14
        2 checks: 1 missing, 0 warnings
    "#]]
    .assert_eq(&render::text(&findings));
    let json: serde_json::Value =
        serde_json::from_str(&render::json(&findings).expect("JSON")).expect("JSON");
    assert_eq!(json["schema"], 1);
    assert_eq!(json["findings"][1]["state"], "missing");
    assert_eq!(json["findings"][1]["mend"], "apt-get install clang-14");
}

#[test]
fn link_time_optimisation_is_a_check_of_its_own() {
    let mut needs = needs_of(&source(Engine::Postgres, "15.18", archive_kind()));
    let mut probe = machine();
    let has = |needs: &Needs, probe: &Probe| {
        evaluate(needs, probe).iter().any(|finding| finding.check.starts_with("LTO"))
    };
    assert!(!has(&needs, &probe), "nothing asks for it");
    needs.toolchains.push("clang".into());
    needs.lto.push("clang".into());
    assert_eq!(finding(&needs, &probe, "LTO with clang").state, State::Missing);
    assert_eq!(missing_packages(&evaluate(&needs, &probe)), ["clang", "libc6-dev", "lld"]);
    probe.compilers.insert("clang".into(), Ok("clang 14.0.6".into()));
    assert_eq!(finding(&needs, &probe, "LTO with clang").state, State::Ok);
    probe.no_lto.insert("clang".into(), "no matching lld".into());
    let seen = finding(&needs, &probe, "LTO with clang");
    assert_eq!((seen.state, seen.reason.as_str()), (State::Missing, "no matching lld"));
    assert_eq!(seen.packages, ["lld"]);
}

#[test]
fn compilers_are_looked_for_as_builds_do_it() {
    let root = tempfile::tempdir().expect("a folder");
    let mut env = env(root.path());
    env.root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let toolchains = ["gcc".to_owned(), "gcc-1".to_owned()];
    let source = source(Engine::Postgres, "15.18", archive_kind());
    let needs = Needs::of(&env, &[&source], &toolchains, false);
    let probe = Probe::take(&env, &needs);
    assert!(probe.compilers["gcc"].as_ref().is_ok_and(|text| text.starts_with("gcc ")));
    assert_eq!(probe.compilers["gcc-1"], Err("gcc-1 not found".to_owned()));
    assert_eq!(probe.compiler_packages.len(), 2);
}

#[test]
fn workloads_tell_what_they_run() {
    let file = crate::diag::File::new(
        "matrix.toml",
        "schema = 1\n[source.s]\nengine = 'mysql'\nversion = '5.6.51'\n\
         sha256 = '0000000000000000000000000000000000000000000000000000000000000000'\n\
         origins = ['https://example.org/s.tar.gz']\n\
         [workload.a]\nkind = 'sysbench'\nrows = 1\ndriver = 'sysbench'\n\
         [workload.b]\nkind = 'sysbench'\nrows = 1\n\
         [workload.c]\nkind = 'sql-bench'\nsource = 's'\n",
    );
    let known = crate::matrix::read::Known { names: vec!["scan"], find: |_| Some("scan") };
    let matrix = crate::matrix::read::parse(&file, &known).unwrap_or_else(|e| panic!("{e}"));
    let tools = |index: usize| -> Vec<&str> {
        let mut needs = Needs::default();
        needs.workload(&matrix.workloads[index]);
        needs.tools.into_iter().map(|(tool, _)| tool).collect()
    };
    assert_eq!([tools(0), tools(1), tools(2)], [vec!["sysbench"], vec![], vec!["perl"]]);
}
