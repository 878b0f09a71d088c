//! What configure and CMake themselves said and wrote, held against what they were given: options
//! that they do not know, values that the project replaced, flags that did not arrive. Pure but for
//! [`read`].

use std::collections::BTreeMap;
use std::path::Path;

use crate::audit::judge::{Evidence, Finding, Verdict};
use crate::build::cmake;
use crate::build::spec::Spec;
use crate::matrix::model::Engine;

/// What configuring left behind, as text; empty where a file is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// What configure or CMake printed.
    pub output: String,
    /// `CMakeCache.txt`.
    pub cache: String,
    /// `src/Makefile.global` (PostgreSQL).
    pub makefile: String,
    /// The configured header of the MySQL family.
    pub header: String,
}

/// Reads what configuring left in a build tree and in the folder with the logs of the steps.
pub fn read(object: &Path, logs: &Path) -> Left {
    let text = |path: &Path| {
        let bytes = std::fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    // The log of the step `configure`, whatever number it has.
    let entries = std::fs::read_dir(logs).into_iter().flatten().flatten();
    let mut named: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with("-configure.log"))
        .collect();
    named.sort();
    Left {
        output: named.first().map_or_else(String::new, |path| text(path)),
        cache: text(&object.join("CMakeCache.txt")),
        makefile: text(&object.join("src/Makefile.global")),
        header: text(&object.join("include/my_config.h")),
    }
}

/// What is wrong with it.
pub fn findings(spec: &Spec, left: &Left) -> Vec<Finding> {
    let texts = match spec.source.engine {
        Engine::Postgres => {
            let mut texts = unknown_to_configure(&left.output);
            texts.extend(lost_in_makefile(spec, &left.makefile));
            texts
        }
        Engine::Mysql | Engine::Mariadb => {
            let mut texts = unknown_to_cmake(spec, &left.output);
            texts.extend(replaced_in_cache(spec, &left.cache));
            texts.extend(without_effect(spec, &left.header));
            texts
        }
    };
    let finding = |text| Finding::of_build(Verdict::Mismatch, Evidence::Configured, text);
    texts.into_iter().map(finding).collect()
}

/// Autoconf goes on with options that it does not know; it tells them in one line.
fn unknown_to_configure(output: &str) -> Vec<String> {
    const WARNING: &str = "configure: WARNING: unrecognized options: ";
    let options = output.lines().filter_map(|line| line.strip_prefix(WARNING));
    options
        .flat_map(|list| list.split(", "))
        .map(|option| format!("configure does not know `{}`: it had no effect", option.trim()))
        .collect()
}

/// The variables that CMake was given and the project never looked at.
pub fn unused_variables(output: &str) -> Vec<&str> {
    const WARNING: &str = "Manually-specified variables were not used by the project:";
    let mut lines = output.lines().skip_while(|line| line.trim() != WARNING).skip(1);
    // An empty line, one indented name a line, an empty line.
    let first = lines.find(|line| !line.trim().is_empty());
    first
        .into_iter()
        .chain(lines.take_while(|line| !line.trim().is_empty()))
        .map(str::trim)
        .collect()
}

/// Only those that the matrix asks for: the recipe gives some to projects that do not know them.
fn unknown_to_cmake(spec: &Spec, output: &str) -> Vec<String> {
    let asked = |name: &&str| spec.options.cmake.iter().any(|(key, _)| key == name);
    let unused = unused_variables(output).into_iter().filter(asked);
    unused
        .map(|name| {
            format!("the project does not use the CMake variable `{name}`: it had no effect")
        })
        .collect()
}

/// The entries of a CMake cache: `NAME:TYPE=VALUE`.
pub fn cache_entries(cache: &str) -> BTreeMap<&str, &str> {
    cache
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("//"))
        .filter_map(|line| {
            let (key, value) = line.split_once('=')?;
            let (name, _) = key.split_once(':')?;
            Some((name, value))
        })
        .collect()
}

/// What the project put in the place of what it was given.
fn replaced_in_cache(spec: &Spec, cache: &str) -> Vec<String> {
    let entries = cache_entries(cache);
    let Ok(given) = cmake::defines(spec) else { return Vec::new() };
    let mut texts = Vec::new();
    for (name, value) in given {
        let Some(&found) = entries.get(name.as_str()) else { continue };
        if !same_value(&value, found) {
            texts.push(format!(
                "CMake was given `{name}={value}`, and its cache has `{name}={found}`"
            ));
        }
    }
    texts
}

/// Equal, or two words for one truth value.
pub fn same_value(given: &str, found: &str) -> bool {
    let truth = |text: &str| match text.to_uppercase().as_str() {
        "1" | "ON" | "TRUE" | "YES" | "Y" => Some(true),
        "0" | "OFF" | "FALSE" | "NO" | "N" => Some(false),
        _ => None,
    };
    // CMake writes blanks at the ends of a value in quotes.
    let bare = found.trim_matches('\'');
    given == found || given == bare || (truth(given).is_some() && truth(given) == truth(found))
}

/// Switches of the performance schema act through the configured header alone; the project accepts
/// some that its header does not have.
fn without_effect(spec: &Spec, header: &str) -> Vec<String> {
    if header.is_empty() {
        return Vec::new();
    }
    let on = |value: &str| same_value("ON", value);
    let has = |name: &str| {
        let mut lines = header.lines().filter_map(|line| line.strip_prefix("#define "));
        lines.any(|rest| rest.split_whitespace().next() == Some(name))
    };
    let asked = spec
        .options
        .cmake
        .iter()
        .filter(|(name, value)| name.starts_with("DISABLE_PSI_") && on(value));
    asked
        .filter(|(name, _)| !has(name))
        .map(|(name, _)| {
            format!("`{name}` is not in the configured header my_config.h: it changes no code")
        })
        .collect()
}

/// The value of a variable of a makefile.
pub fn make_variable<'a>(makefile: &'a str, name: &str) -> Option<&'a str> {
    makefile.lines().find_map(|line| {
        let value = line.strip_prefix(name)?.trim_start().strip_prefix('=')?;
        Some(value.trim())
    })
}

/// PostgreSQL's own flags come first and ours last, so that ours win; anything behind ours, or
/// something of ours that is gone, is a fault.
fn lost_in_makefile(spec: &Spec, makefile: &str) -> Vec<String> {
    let mut texts = Vec::new();
    for (name, given) in [("CFLAGS", &spec.options.cflags), ("CXXFLAGS", &spec.options.cxxflags)] {
        let Some(found) = make_variable(makefile, name) else { continue };
        let words: Vec<&str> = found.split_whitespace().collect();
        let ours: Vec<&str> = given.iter().flat_map(|flag| flag.split_whitespace()).collect();
        if !words.ends_with(&ours) {
            texts.push(format!(
                "configure made `{name} = {found}`, which does not end with the flags that it was \
                 given, `{}`",
                ours.join(" ")
            ));
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::spec::tests::spec;

    fn texts(spec: &Spec, left: &Left) -> Vec<String> {
        findings(spec, left).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn options_that_configure_does_not_know() {
        let output = "checking for gcc... gcc\n\
            configure: WARNING: unrecognized options: --with-foo, --enable-bar\nchecking\n";
        let left = Left { output: output.to_owned(), ..Left::default() };
        assert_eq!(
            texts(&spec(&["-O2"]), &left),
            [
                "configure does not know `--with-foo`: it had no effect",
                "configure does not know `--enable-bar`: it had no effect",
            ]
        );
        assert!(texts(&spec(&["-O2"]), &Left::default()).is_empty());
    }

    #[test]
    fn flags_that_did_not_reach_the_makefiles() {
        let spec = spec(&["-g1", "-O3"]);
        let with = |line: &str| Left { makefile: format!("CC = gcc\n{line}\n"), ..Left::default() };
        assert!(texts(&spec, &with("CFLAGS = -Wall -fwrapv -g1 -O3")).is_empty());
        let found = texts(&spec, &with("CFLAGS = -Wall -g1 -O3 -O2"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("`CFLAGS = -Wall -g1 -O3 -O2`, which does not end"), "{found:?}");
        assert_eq!(make_variable("CFLAGS_SL = -fPIC\nCFLAGS=-O1\n", "CFLAGS"), Some("-O1"));
    }

    fn mysql(cmake: &[(&str, &str)]) -> Spec {
        let mut spec = spec(&["-g1", "-O2"]);
        spec.source.engine = Engine::Mysql;
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        spec.options.cmake = cmake.iter().map(pair).collect();
        spec
    }

    #[test]
    fn variables_that_cmake_accepts_in_silence() {
        let spec = mysql(&[("DISABLE_PSI_MUTEX", "1"), ("WITH_NONSENSE", "ON")]);
        let output = "-- Configuring done\nCMake Warning:\n  Manually-specified variables were not \
            used by the project:\n\n    WITH_NONSENSE\n    WITH_PACKAGE_FLAGS\n\n\n-- Build files\n";
        assert_eq!(unused_variables(output), ["WITH_NONSENSE", "WITH_PACKAGE_FLAGS"]);
        assert_eq!(unused_variables("-- Configuring done\n"), [""; 0]);
        let left = Left { output: output.to_owned(), ..Left::default() };
        assert_eq!(
            texts(&spec, &left),
            ["the project does not use the CMake variable `WITH_NONSENSE`: it had no effect"],
            "what only the recipe gives is no fault"
        );
        let left = Left { header: "#define DISABLE_PSI_FILE 1\n".to_owned(), ..Left::default() };
        let found = texts(&spec, &left);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("`DISABLE_PSI_MUTEX` is not in"), "{found:?}");
    }

    #[test]
    fn values_that_the_project_replaced() {
        let spec = mysql(&[("CMAKE_BUILD_TYPE", "Release"), ("WITH_SSL", "system")]);
        let cache = "# comment\n//Flags\nCMAKE_C_FLAGS:STRING=-g1 -O2\n\
            CMAKE_C_FLAGS_RELEASE:STRING=-DNDEBUG -O3\nCMAKE_BUILD_TYPE:STRING=Release\n\
            WITH_PACKAGE_FLAGS:BOOL=FALSE\nWITH_SSL:STRING=bundled\nMISC-ADVANCED:INTERNAL=1\n";
        let left = Left { cache: cache.to_owned(), ..Left::default() };
        let mut found = texts(&spec, &left);
        found.sort();
        assert_eq!(
            found,
            [
                "CMake was given `CMAKE_C_FLAGS_RELEASE=-DNDEBUG`, and its cache has `CMAKE_C_FLAGS_RELEASE=-DNDEBUG -O3`",
                "CMake was given `WITH_SSL=system`, and its cache has `WITH_SSL=bundled`",
            ]
        );
    }
}
