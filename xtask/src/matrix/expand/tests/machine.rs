//! What the machine lacks, and what a build takes from it.

use super::*;

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
