//! What the machine lacks, and what a build takes from it.

use std::sync::Arc;

use super::*;
use crate::build::cmake::vocabulary::Vocabulary;

#[test]
fn options_for_which_the_machine_lacks_something_make_cells_unavailable() {
    let text = with("cross = { toolchain = '*', lto = '*' }").replace("-flto=thin", "-flto=full");
    let matrix = read(&text);
    let all = expand(&matrix, &matrix.experiments[0], &[], &MACHINE, recipe).expect("expands");
    let lacking: Vec<_> = (0..all.builds()).filter(|b| all.unavailable(*b).is_some()).collect();
    assert_eq!((all.builds(), lacking.len(), all.distinct_builds()), (4, 1, 3));
    let reason = all.unavailable(lacking[0]).expect("a reason");
    assert_eq!(reason, "no matching lld; install with `apt-get install lld`");
    assert!(all.name(lacking[0]).contains("lto"), "{}", all.name(lacking[0]));
    assert_eq!(all.id(lacking[0]), None);
    assert!(all.spec(lacking[0]).is_err());
    // As the source's own option it holds for all cells of that compiler.
    let own = text.replace("git = \"x\"", "options.cflags = [\"-flto=full\"]\ngit = \"x\"");
    let matrix = read(&own);
    let all = expand(&matrix, &matrix.experiments[0], &[], &MACHINE, recipe).expect("expands");
    assert_eq!((0..4).filter(|build| all.unavailable(*build).is_some()).count(), 2);
}

#[test]
fn what_is_taken_from_the_system_is_part_of_the_id() {
    let system = |text: &str| {
        let matrix = read(text);
        let all = expand(&matrix, &matrix.experiments[0], &[], &MACHINE, recipe).expect("expands");
        let spec = all.spec(0).expect("available");
        let inputs = all.inputs(&spec);
        assert_eq!(inputs, Inputs { recipe: inputs.recipe.clone(), ..spec.inputs() });
        (all.id(0), spec.system.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
    };
    let text = with("cross = { opt = 'o2' }");
    let (id, names) = system(&text);
    assert_eq!(names, ["bison", "flex", "perl", "libreadline", "libz"]);
    let more = text.replace("flags = [\"-O2\"]", "flags = [\"-O2\"], configure = ['--with-lz4']");
    let (other, names) = system(&more);
    assert_eq!(names.last().map(String::as_str), Some("liblz4"));
    assert_ne!(id, other);
}

#[test]
fn compilers_that_cells_with_lto_ask_for_are_told_even_when_missing() {
    let lto = |machine: &Machine, lines: &str| -> Vec<String> {
        let matrix = read(&with(lines));
        let all = expand(&matrix, &matrix.experiments[0], &[], machine, recipe).expect("expands");
        all.lto_toolchains().into_iter().map(str::to_owned).collect()
    };
    assert!(lto(&MACHINE, "cross = { toolchain = '*' }").is_empty());
    let gcc_only = Machine { compilers: &["gcc"], ..MACHINE };
    for machine in [&MACHINE, &gcc_only] {
        let all = lto(machine, "cross = { toolchain = '*', lto = '*' }");
        assert_eq!(all, ["clang", "gcc"]);
        assert_eq!(lto(machine, "cross = { toolchain = 'clang', lto = 'on' }"), ["clang"]);
    }
}

#[test]
fn compilers_that_no_cell_has_are_not_asked_for() {
    let none = Machine { arch: "x86_64", compilers: &["gcc"] };
    let matrix = read(&with("cross = { opt = '*' }"));
    let all = expand(&matrix, &matrix.experiments[0], &[], &none, recipe).expect("expands");
    let reason = all.scope.toolchains[1].as_ref().expect_err("not there").reason.clone();
    assert_eq!(reason, "clang was not asked for");
    assert!((0..all.builds()).all(|build| all.unavailable(build).is_none()));
}

/// A machine with the tree of every source: one CMake file.
struct WithTree(&'static str);

impl Facts for WithTree {
    fn arch(&self) -> &str {
        MACHINE.arch()
    }

    fn toolchain(&self, name: &str) -> Result<Toolchain, Unavailable> {
        MACHINE.toolchain(name)
    }

    fn resolve(&self, toolchain: &Toolchain, options: &Options) -> Result<Options, Unusable> {
        MACHINE.resolve(toolchain, options)
    }

    fn source(&self, source: &Source) -> Result<SourceFacts, Unavailable> {
        MACHINE.source(source)
    }

    fn vocabulary(&self, _: &Source, _: &SourceFacts) -> Option<Arc<Vocabulary>> {
        let mut words = Vocabulary::default();
        words.add_cmake("CMakeLists.txt", self.0);
        Some(Arc::new(words.finished()))
    }
}

/// The mistakes of an experiment with this source in the place of `my`, as text.
fn mistakes(source: &str, psi: &str, machine: &dyn Facts) -> String {
    let fork = "[source.my]\nengine = \"mysql\"\nversion = \"8.0.39\"\n";
    let text = with("cross = { toolchain = '*', psi = '*' }").replace("[\"pg\"]", "[\"my\"]");
    let text = text.replace(fork, &format!("[source.my]\n{source}\n"));
    let text = text.replace("DISABLE_PSI_MUTEX = 1", psi);
    let matrix = read(&text);
    let expanded = expand(&matrix, &matrix.experiments[0], &[], machine, recipe);
    expanded.err().map(|mistakes| mistakes.to_string()).unwrap_or_default()
}

#[test]
fn variables_that_a_release_does_not_have_are_mistakes_of_the_setting() {
    let archive = "engine = 'mysql'\nversion = '5.6.21'\nsha256 = '".to_owned()
        + &"0".repeat(64)
        + "'\norigins = ['file:x']\n[source.unused]\nengine = 'mysql'\nversion = '5.6.21'";
    let text = mistakes(&archive, "DISABLE_PSI_MUTEX = 1, DISABLE_PSI_COND = 1", &MACHINE);
    // Once, though two compilers ask for it, and where the setting stands.
    assert!(text.starts_with("1 mistake in"), "{text}");
    for part in [
        "setting `less` of axis `psi`, source `my` (mysql 5.6.21): `DISABLE_PSI_MUTEX`, \
         `DISABLE_PSI_COND` came with mysql 5.7.0",
        "less = { tag = \"lessps\"",
        "this source",
        "give `-DNAME` in `flags`",
        "give the setting a `when` (`version >= 5.7.0`)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let both = mistakes(&archive, "DISABLE_PSI_MUTEX = 1, WITH_LTO = 1", &MACHINE);
    assert!(both.starts_with("1 mistake in"), "{both}");
    for part in ["2 CMake variables are of no use there", "`WITH_LTO` came with mysql 8.0.13: give"]
    {
        assert!(both.contains(part), "{part}: {both}");
    }
    // A setting that no cell has is not looked at, nor a variable that nothing is known of.
    assert_eq!(mistakes(&archive, "WITH_SOMETHING = 1", &MACHINE), "");
    assert_eq!(mistakes(&archive, "DISABLE_PSI_MUTEX = 1", &WithTree("IF(DISABLE_PSI_MUTEX)")), "");
    let text = mistakes(&archive, "WITH_SOMETHNG = 1", &WithTree("IF(WITH_SOMETHING)"));
    assert!(
        text.contains("`WITH_SOMETHNG` cannot be found in any CMake file of the tree"),
        "{text}"
    );
    assert!(text.contains("did you mean `WITH_SOMETHING`?"), "{text}");
}

#[test]
fn variables_of_the_source_itself_are_held_against_it_too() {
    let archive = format!(
        "engine = 'mysql'\nversion = '8.0.12'\nsha256 = '{}'\norigins = ['file:x']\n\
         options.cmake = {{ WITH_LTO = true }}\n[source.unused]\nengine = 'mysql'\nversion = '8.0.12'",
        "0".repeat(64)
    );
    let text = mistakes(&archive, "DISABLE_PSI_MUTEX = 1", &MACHINE);
    assert!(text.contains("options of source `my` (mysql 8.0.12): `WITH_LTO` came with"), "{text}");
    assert!(text.contains("`-flto=auto`") && !text.contains("`when`"), "{text}");
}
