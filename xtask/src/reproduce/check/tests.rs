//! What is told of toolchains, of manifests that were changed, and of words.

use super::*;
use crate::build::manifest::StepDone;
use crate::build::statement;

/// A manifest that does not contradict itself.
pub(crate) fn manifest() -> Manifest {
    let mut manifest = statement::tests::manifest();
    let patches = manifest.source.patches.iter().map(|patch| (patch.path.clone(), patch.sha256));
    manifest.inputs.source_facts.patches = patches.collect();
    let spec = manifest.spec(manifest.toolchain.clone());
    let layout = Layout::canonical(Path::new("/a"), Path::new("/b"));
    let steps = recipe::steps(&spec, &layout).expect("steps");
    let done = |step: Step| StepDone {
        name: step.name,
        words: step.words,
        cwd: step.cwd,
        seconds: 1.0,
        cpu_seconds: None,
        peak_mib: None,
    };
    manifest.steps = steps.into_iter().map(done).collect();
    manifest.environment = recipe::environment(&spec, &layout, 1_700_000_000);
    manifest.tree = tree_digest(&manifest.files);
    let inputs = &manifest.inputs;
    manifest.id = build_id(
        &inputs.recipe,
        &inputs.source_facts.digest,
        inputs.toolchain.as_ref().map(|(_, _, digest)| digest),
        &inputs.options,
        &inputs.system,
    );
    manifest
}

fn texts(differences: &[Difference]) -> Vec<String> {
    differences.iter().map(ToString::to_string).collect()
}

#[test]
fn equal_bytes_are_the_same_toolchain_wherever_they_lie() {
    let asked = manifest().toolchain;
    let mut elsewhere = asked.clone();
    elsewhere.tools = vec![("cc".to_owned(), "/opt/gcc/bin/gcc".into())];
    elsewhere.details.packages = vec![("gcc".to_owned(), "9".to_owned())];
    assert_eq!(toolchain(&asked, &elsewhere), []);
}

#[test]
fn every_difference_of_a_toolchain_is_told() {
    let mut asked = manifest().toolchain;
    let hash = |text: &str| Digest::of(text.as_bytes());
    asked.files = vec![
        ("/usr/lib/cc1".into(), hash("cc1")),
        ("/usr/bin/as".into(), hash("as")),
        ("/usr/bin/ld".into(), hash("ld")),
    ];
    asked.details.packages = vec![
        ("gcc-12".to_owned(), "12.2.0-14".to_owned()),
        ("binutils".to_owned(), "2.40".to_owned()),
    ];
    let mut found = asked.clone();
    found.digest = hash("other");
    found.version = "13.1.0".to_owned();
    found.tools[0].1 = "/opt/x/bin/gcc".into();
    found.files[0] = ("/opt/x/cc1".into(), hash("cc2"));
    found.files[1].0 = "/opt/x/as".into();
    found.files.pop();
    found.details.packages.remove(0);
    let all = toolchain(&asked, &found);
    let told = texts(&all);
    assert_eq!(
        told,
        [
            "version: asked 12.2.0, found 13.1.0".to_owned(),
            "path of cc: asked /usr/bin/gcc, found /opt/x/bin/gcc".to_owned(),
            format!(
                "file cc1: asked /usr/lib/cc1 {}, found /opt/x/cc1 {}",
                hash("cc1").short(),
                hash("cc2").short()
            ),
            format!("file ld: asked /usr/bin/ld {}, found nothing", hash("ld").short()),
            "package gcc-12: asked 12.2.0-14, found nothing".to_owned(),
        ]
    );
    assert_eq!(install(&all).as_deref(), Some("apt-get install gcc-12=12.2.0-14"));
    assert_eq!(install(&all[..2]), None);
    // A package that is only here is nothing to install.
    assert_eq!(install(&toolchain(&found, &asked)), None);
}

#[test]
fn needs_of_the_system_are_told_by_name() {
    let hash = |text: &str| Digest::of(text.as_bytes());
    let asked = [("bison".to_owned(), hash("3.8")), ("libz".to_owned(), hash("z"))];
    assert_eq!(system(&asked, &asked), []);
    let found = [("libz".to_owned(), hash("other")), ("perl".to_owned(), hash("p"))];
    let told = texts(&system(&asked, &found));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].starts_with("bison of the system: asked ") && told[0].ends_with("found nothing")
    );
    assert!(told[1].contains(&format!("found {}", hash("other").short())), "{told:?}");
}

#[test]
fn a_manifest_that_was_changed_is_known_by_its_contradictions() {
    assert_eq!(altered(&manifest()), Vec::<String>::new());
    let with = |change: fn(&mut Manifest)| {
        let mut manifest = manifest();
        change(&mut manifest);
        altered(&manifest)
    };
    let told = with(|m| m.inputs.options.cflags = vec!["-g1".to_owned(), "-O3".to_owned()]);
    assert!(told.len() == 1 && told[0].starts_with("its inputs have the build id "), "{told:?}");
    let told = with(|m| m.toolchain.digest = Digest::of(b"another"));
    assert_eq!(told, ["its toolchain is not the one that its inputs name"]);
    let told = with(|m| m.files[0].mode = "0777".to_owned());
    assert_eq!(told, ["its list of files does not have the hash of its tree"]);
    let told = with(|m| m.source.patches.clear());
    assert_eq!(told, ["its patches are not those that its inputs name"]);
    // The name, the times, the host: nobody's bytes.
    let told = with(|m| {
        m.name = "other".to_owned();
        m.started = String::new();
    });
    assert_eq!(told, Vec::<String>::new());
}

#[test]
fn words_that_this_tool_gives_otherwise_are_told() {
    let whole = manifest();
    let spec = |of: &Manifest| of.spec(of.toolchain.clone());
    let told = |of: &Manifest| words(of, &spec(of)).expect("words");
    assert_eq!(told(&whole), Vec::<String>::new());
    let mut flag = whole.clone();
    flag.inputs.options.cflags = vec!["-g1".to_owned(), "-O3".to_owned()];
    assert_eq!(told(&flag), ["step `configure`: `CFLAGS=-g1 -O2` there, `CFLAGS=-g1 -O3` here"]);
    let mut more = whole.clone();
    more.steps[0].words.push("--with-more".to_owned());
    more.steps[1].words.swap(1, 2);
    let last = more.steps.len() - 1;
    more.steps[last].name = "polish".to_owned();
    more.environment[0].1 = "/home/me".to_owned();
    more.environment.push(("CFLAGS".to_owned(), "-O1".to_owned()));
    let told_of_more = told(&more);
    for part in [
        "step `configure`: `--with-more` only there",
        "the manifest has no such step",
        "step `polish`: this tool has no such step",
        "variable HOME: the manifest has `/home/me`, this tool gives `/mnt/tmp`",
        "variable CFLAGS: the manifest has `-O1`, this tool does not set it",
    ] {
        assert!(told_of_more.iter().any(|line| line.contains(part)), "{part}: {told_of_more:?}");
    }
    assert!(!told_of_more.iter().any(|line| line.contains("SOURCE_DATE_EPOCH")));
    // Real paths of another machine are nobody's business.
    more.canonical_paths = false;
    assert_eq!(told(&more), Vec::<String>::new());
}

#[test]
fn a_source_of_another_time_or_hash_is_told() {
    let whole = manifest();
    let digest = whole.inputs.source_facts.digest;
    let tree = |epoch| Tree { path: "/t".into(), digest, source_date_epoch: epoch };
    assert_eq!(source(&whole, &digest, &tree(1_700_000_000)), Vec::<String>::new());
    let told = source(&whole, &Digest::of(b"x"), &tree(7));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].contains("of 1700000000 (SOURCE_DATE_EPOCH), the one here of 7"), "{told:?}");
}
