//! The recipe for the MySQL family: CMake and make, out of tree.
//!
//! A build type has flags of its own, and CMake puts them *behind* `CMAKE_<LANG>_FLAGS`: `Release`
//! would turn every `-O2` into `-O3`. So the flags of the build type are given, too, without any
//! level, and what the plan shows decides. The `cmake` crate is not used: it adds flags of its own,
//! prints where it likes and panics where it fails (ARCHITECTURE.md, "Crates that are not used").
//!
//! Only the folders are built and installed that a server needs: each by the targets that CMake's
//! makefiles have for it, so that no list of programs has to follow the releases. What else CMake
//! is given is in [`fixed`]; which variables of settings a release has no use for, in [`known`].

pub mod fixed;
pub mod known;
pub mod vocabulary;

use crate::build::layout::{Layout, tool_name};
use crate::build::recipe::{Step, prefix};
use crate::build::spec::Spec;
use crate::exit::{Code, coded};
use crate::facts::Toolchain;
use crate::matrix::model::Engine;

/// The folders of the build tree that are built with all that they depend on, in this order.
const BUILT: [&str; 3] = ["sql", "scripts", "client"];
/// Where releases have the messages and character sets, of which there is one: 5.7 and older and
/// MariaDB below the server, 8.0 and later beside it.
const SHARES: &str = "sql/share share";
/// Libraries that MySQL 8.0 and later make of what they carry and load at the start, where they lie
/// in the build tree: their folders follow the release of what is carried, so no rule of a folder
/// is called for them.
const CARRIED: &str = "library_output_directory/libprotobuf-lite.so.* \
                       library_output_directory/libabsl_*.so.*";
/// Where the server looks for them, below the prefix.
const PRIVATE: &str = "lib/private";

/// The build type where no setting names one.
const BUILD_TYPE: &str = "Release";

/// The flags of a build type without its level and its debug information.
fn type_flags(build_type: &str) -> &'static str {
    match build_type.to_uppercase().as_str() {
        "RELEASE" | "RELWITHDEBINFO" | "MINSIZEREL" => "-DNDEBUG",
        _ => "",
    }
}

/// The steps, see [`crate::build::recipe::steps`].
///
/// # Errors
/// With [`Code::Input`] when no setting gives an optimisation level.
pub fn steps(spec: &Spec, layout: &Layout) -> anyhow::Result<Vec<Step>> {
    let step = |name: &str, words: Vec<String>, make: bool| Step {
        name: name.to_owned(),
        words,
        cwd: layout.object.clone(),
        make,
    };
    let mut steps = vec![step("configure", configure(spec, layout)?, false)];
    for folder in BUILT {
        let words = ["make", "--no-print-directory", "-C", folder, "all"];
        steps.push(step(folder, words.map(str::to_owned).into(), true));
    }
    for folder in BUILT {
        steps.push(step(&format!("install {folder}"), install(folder, layout), false));
    }
    let script = format!(
        "for folder in {SHARES}; do if [ -d $folder ]; then {}; fi; done",
        install("$folder", layout).join(" ")
    );
    let words = ["sh", "-e", "-c", &script].map(str::to_owned).into();
    steps.push(step("install share", words, false));
    let private = format!("{}{}/{PRIVATE}", layout.stage.display(), prefix(spec.source.engine));
    let script = format!(
        "for file in {CARRIED}; do if [ -f $file ]; then install -D -t {private} $file; fi; done"
    );
    let words = ["sh", "-e", "-c", &script].map(str::to_owned).into();
    steps.push(step("install private libraries", words, false));
    Ok(steps)
}

/// Installs one folder without those below it, and without asking anew whether all is built. As a
/// variable of make, `DESTDIR` is in the environment of what it runs, where CMake looks for it.
fn install(folder: &str, layout: &Layout) -> Vec<String> {
    let destination = format!("DESTDIR={}", layout.stage.display());
    let words = ["make", "--no-print-directory", "-C", folder, "install/local/fast", &destination];
    words.map(str::to_owned).into()
}

fn configure(spec: &Spec, layout: &Layout) -> anyhow::Result<Vec<String>> {
    let Some(toolchain) = &spec.toolchain else {
        return Err(coded(Code::Input, format!("`{}`: no toolchain", spec.name)));
    };
    let mut words = vec![
        "cmake".to_owned(),
        "-S".to_owned(),
        layout.source.display().to_string(),
        "-B".to_owned(),
        layout.object.display().to_string(),
        // Shares the job tokens, which Ninja does not before its release 1.13.
        "-G".to_owned(),
        "Unix Makefiles".to_owned(),
    ];
    let mut given = tools(toolchain, layout);
    let own = spec.options.cmake.iter().any(|(name, _)| name == "WITH_BOOST");
    if let Some(folder) = fixed::boost(&spec.source).filter(|_| !own) {
        let path = layout.source.join(folder).display().to_string();
        given.push(("WITH_BOOST".to_owned(), path));
    }
    given.extend(defines(spec)?);
    words.extend(given.into_iter().map(|(name, value)| format!("-D{name}={value}")));
    Ok(words)
}

/// The tools. The compilers by name, since a server may tell it; the others by path, since CMake
/// takes a bare name for a file in the current folder.
fn tools(toolchain: &Toolchain, layout: &Layout) -> Vec<(String, String)> {
    let mut list = Vec::new();
    for (language, role) in [("C", "cc"), ("CXX", "cxx")] {
        if toolchain.tool(role).is_some()
            && let Some(name) = tool_name(toolchain.family, role)
        {
            list.push((format!("CMAKE_{language}_COMPILER"), name.to_owned()));
        }
    }
    for (tool, role) in [("AR", "ar"), ("RANLIB", "ranlib"), ("NM", "nm")] {
        let Some(name) = tool_name(toolchain.family, role) else { continue };
        if toolchain.tool(role).is_none() {
            continue;
        }
        let path = layout.tools.join(name).display().to_string();
        list.push((format!("CMAKE_{tool}"), path.clone()));
        // What CMake takes instead where a project turns on its own switch for LTO.
        if tool != "NM" {
            for language in ["C", "CXX"] {
                list.push((format!("CMAKE_{language}_COMPILER_{tool}"), path.clone()));
            }
        }
    }
    list
}

/// The variables that CMake is given, besides the tools: the recipe's own, then those of the
/// settings, which may replace one of the recipe's.
///
/// # Errors
/// With [`Code::Input`] when no setting gives an optimisation level.
pub fn defines(spec: &Spec) -> anyhow::Result<Vec<(String, String)>> {
    let options = &spec.options;
    for (language, flags) in [("C", &options.cflags), ("C++", &options.cxxflags)] {
        if !flags.iter().any(|flag| flag.starts_with("-O")) {
            return Err(coded(
                Code::Input,
                format!(
                    "`{}`: no setting gives an optimisation level for {language}, and the build \
                     type's own is left out: the server would be built without optimisation; name \
                     a setting of the axis `opt`",
                    spec.name
                ),
            ));
        }
    }
    let asked = |name: &str| options.cmake.iter().rfind(|(key, _)| key == name);
    let build_type = asked("CMAKE_BUILD_TYPE").map_or(BUILD_TYPE, |(_, value)| value.as_str());
    let suffix = build_type.to_uppercase();
    let mut list: Vec<(String, String)> = vec![
        ("CMAKE_BUILD_TYPE".to_owned(), build_type.to_owned()),
        ("CMAKE_INSTALL_PREFIX".to_owned(), prefix(spec.source.engine).to_owned()),
    ];
    for (language, flags) in [("C", &options.cflags), ("CXX", &options.cxxflags)] {
        list.push((format!("CMAKE_{language}_FLAGS"), flags.join(" ")));
        list.push((format!("CMAKE_{language}_FLAGS_{suffix}"), type_flags(build_type).to_owned()));
    }
    for kind in ["EXE", "SHARED", "MODULE"] {
        list.push((format!("CMAKE_{kind}_LINKER_FLAGS"), options.ldflags.join(" ")));
        list.push((format!("CMAKE_{kind}_LINKER_FLAGS_{suffix}"), String::new()));
    }
    // Run paths that do not depend on where the build or the installation lies.
    list.push(("CMAKE_INSTALL_RPATH".to_owned(), "$ORIGIN/../lib".to_owned()));
    list.push(("CMAKE_BUILD_RPATH_USE_ORIGIN".to_owned(), "ON".to_owned()));
    let fixed = fixed::variables(&spec.source).into_iter();
    list.extend(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())));
    if spec.source.engine == Engine::Mysql {
        // Else it depends on whether lld is installed and on LTO.
        let linker = options.ldflags.iter().rfind(|flag| flag.starts_with("-fuse-ld="));
        let lld = linker.is_some_and(|flag| flag == "-fuse-ld=lld");
        let value = if lld { "ON" } else { "OFF" };
        list.push(("USE_LD_LLD".to_owned(), value.to_owned()));
    }
    for (name, value) in &options.cmake {
        match list.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => known.clone_from(value),
            None => list.push((name.clone(), value.clone())),
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::spec::tests::spec;
    use std::path::Path;

    fn mysql(flags: &[&str], cmake: &[(&str, &str)]) -> Spec {
        let mut spec = spec(flags);
        spec.source.engine = Engine::Mysql;
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        spec.options.cmake = cmake.iter().map(pair).collect();
        spec
    }

    #[test]
    fn cmake_gets_the_flags_and_nothing_else() {
        let spec = mysql(&["-g1", "-O2"], &[("WITH_LTO", "ON")]);
        let layout = Layout::canonical(Path::new("/s"), Path::new("/t"));
        let steps = steps(&spec, &layout).expect("steps");
        let words = &steps[0].words;
        assert_eq!(
            words[..7],
            ["cmake", "-S", "/mnt/src", "-B", "/mnt/obj", "-G", "Unix Makefiles"]
        );
        let own = fixed::variables(&spec.source);
        let mut expected: Vec<String> = [
            "-DCMAKE_C_COMPILER=gcc",
            "-DCMAKE_AR=/mnt/bin/gcc-ar",
            "-DCMAKE_C_COMPILER_AR=/mnt/bin/gcc-ar",
            "-DCMAKE_CXX_COMPILER_AR=/mnt/bin/gcc-ar",
            "-DCMAKE_BUILD_TYPE=Release",
            "-DCMAKE_INSTALL_PREFIX=/opt/matrix/mysql",
            "-DCMAKE_C_FLAGS=-g1 -O2",
            "-DCMAKE_C_FLAGS_RELEASE=-DNDEBUG",
            "-DCMAKE_CXX_FLAGS=-g1 -O2",
            "-DCMAKE_CXX_FLAGS_RELEASE=-DNDEBUG",
            "-DCMAKE_EXE_LINKER_FLAGS=",
            "-DCMAKE_EXE_LINKER_FLAGS_RELEASE=",
            "-DCMAKE_SHARED_LINKER_FLAGS=",
            "-DCMAKE_SHARED_LINKER_FLAGS_RELEASE=",
            "-DCMAKE_MODULE_LINKER_FLAGS=",
            "-DCMAKE_MODULE_LINKER_FLAGS_RELEASE=",
            "-DCMAKE_INSTALL_RPATH=$ORIGIN/../lib",
            "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON",
        ]
        .map(str::to_owned)
        .into();
        expected.extend(own.iter().map(|(name, value)| format!("-D{name}={value}")));
        expected.extend(["-DUSE_LD_LLD=OFF".to_owned(), "-DWITH_LTO=ON".to_owned()]);
        assert_eq!(words[7..], expected);
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "configure",
                "sql",
                "scripts",
                "client",
                "install sql",
                "install scripts",
                "install client",
                "install share",
                "install private libraries"
            ]
        );
        assert_eq!(steps[1].words[2..], ["-C", "sql", "all"]);
        assert_eq!(steps[4].words[2..], ["-C", "sql", "install/local/fast", "DESTDIR=/mnt/stage"]);
        let last = &steps[8].words[3];
        let copied = "then install -D -t /mnt/stage/opt/matrix/mysql/lib/private $file";
        assert!(last.contains("/libprotobuf-lite.so.*") && last.contains(copied), "{last}");
        assert!(steps[1].make && !steps[4].make && !steps[0].make);
    }

    #[test]
    fn boost_is_named_where_releases_carry_it() {
        let layout = Layout::canonical(Path::new("/s"), Path::new("/t"));
        let given = |version: &str, cmake: &[(&str, &str)]| {
            let mut spec = mysql(&["-O2"], cmake);
            spec.source.version = version.parse().ok();
            let words = steps(&spec, &layout).expect("steps").remove(0).words;
            let boost = words.into_iter().filter(|word| word.starts_with("-DWITH_BOOST="));
            boost.collect::<Vec<_>>()
        };
        assert_eq!(given("8.0.39", &[]), ["-DWITH_BOOST=/mnt/src/boost"]);
        assert_eq!(given("8.0.39", &[("WITH_BOOST", "/own")]), ["-DWITH_BOOST=/own"]);
        assert!(given("5.6.51", &[]).is_empty() && given("8.4.0", &[]).is_empty());
    }

    #[test]
    fn the_build_type_brings_no_level() {
        let value = |spec: &Spec, name: &str| {
            let list = defines(spec).expect("variables");
            list.into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
        };
        let spec = mysql(&["-O3"], &[("CMAKE_BUILD_TYPE", "RelWithDebInfo")]);
        let flags = value(&spec, "CMAKE_CXX_FLAGS_RELWITHDEBINFO");
        assert_eq!(flags.as_deref(), Some("-DNDEBUG"));
        assert_eq!(value(&spec, "CMAKE_CXX_FLAGS_RELEASE"), None);
        let debug = mysql(&["-O0"], &[("CMAKE_BUILD_TYPE", "Debug")]);
        assert_eq!(value(&debug, "CMAKE_C_FLAGS_DEBUG").as_deref(), Some(""));
        // A setting may replace what the recipe gives; the audit holds it against the level.
        let own = mysql(&["-O2"], &[("CMAKE_C_FLAGS_RELEASE", "-O3")]);
        assert_eq!(value(&own, "CMAKE_C_FLAGS_RELEASE").as_deref(), Some("-O3"));
        let mut lld = mysql(&["-O2"], &[]);
        lld.options.ldflags.push("-fuse-ld=lld".to_owned());
        assert_eq!(value(&lld, "USE_LD_LLD").as_deref(), Some("ON"));
    }

    #[test]
    fn missing_level_is_an_error() {
        let error = defines(&mysql(&["-g1"], &[])).expect_err("no -O");
        assert!(error.to_string().contains("without optimisation"), "{error}");
        assert_eq!(crate::exit::code_of(&error), Code::Input);
    }
}
