//! What configuring a build came to, as sorted pairs of key and value, so that two builds can be
//! compared in what nobody asked for: a header's `#define`s, the variables of the makefiles or of
//! CMake's cache, and how the installed programs are linked.
//!
//! | key | value |
//! | --- | --- |
//! | `pg_config.h:HAVE_X` | what the macro is defined as; a macro that is not defined is not listed: that is all that a compiler can tell of it |
//! | `Makefile.global:CFLAGS` | the first value that configure gave the variable; empty ones are not listed |
//! | `CMakeCache.txt:WITH_X` | the entry's value; of the internal ones only results of checks |
//! | `compiled-by`, `linked-by` | the distinct signatures in the binaries' `.comment`; GNU ld does not sign |
//! | `needed:bin/postgres` | the libraries that are loaded with it, in order |
//! | `run-path:bin/postgres` | where they are looked for first |
//!
//! Nothing in here is a time or a path outside of the canonical ones: real paths of a build that
//! did not run under its canonical ones are replaced by these.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context as _;
use fs_err as fs;
use object::read::elf::{Dyn as _, FileHeader as _, SectionHeader as _};

use crate::launch::ROOT;
use crate::matrix::model::Engine;
use crate::toolchain::elf::is_elf;

/// Headers that configuring makes, by path below the build tree.
const POSTGRES_HEADERS: [&str; 2] = ["src/include/pg_config.h", "src/include/pg_config_ext.h"];
/// The same of the MySQL family; where its CMake files put them differs from release to release.
const MYSQL_HEADERS: [&str; 3] = ["include/my_config.h", "include/config.h", "config.h"];

/// Variables of `Makefile.global` that say something about the code that is made. Its paths, tools
/// for documentation and tests do not.
const VARIABLES: [&str; 14] = [
    "AR",
    "BISON",
    "CC",
    "CLANG",
    "CPP",
    "CXX",
    "FLEX",
    "GCC",
    "LD",
    "LIBOBJS",
    "LIBS",
    "PORTNAME",
    "TAS",
    "host_tuple",
];
/// The same by the beginnings of their names.
const FAMILIES: [&str; 12] = [
    "BITCODE_", "CFLAGS", "CPPFLAGS", "CXXFLAGS", "ICU_", "LDAP_", "LDFLAGS", "LLVM_", "PTHREAD_",
    "UUID_", "enable_", "with_",
];

/// The configuration of a finished build: `object` is its build tree, `tree` what it installed.
/// Sorted by key, each key once. A header or makefile that is not there gives no pairs.
///
/// # Errors
/// When a file cannot be read.
pub fn read(engine: Engine, object: &Path, tree: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = BTreeMap::new();
    let headers: &[&str] = match engine {
        Engine::Postgres => &POSTGRES_HEADERS,
        Engine::Mysql | Engine::Mariadb => &MYSQL_HEADERS,
    };
    for header in headers {
        if let Some(text) = text(&object.join(header))? {
            put(&mut found, header, defines(&text));
        }
    }
    let real = match engine {
        Engine::Postgres => {
            let makefile = text(&object.join("src/Makefile.global"))?.unwrap_or_default();
            let all = variables(&makefile);
            let real = Real::new(all.get("abs_top_srcdir"), all.get("abs_top_builddir"));
            let told = all.into_iter().filter(|(name, value)| is_told(name) && !value.is_empty());
            put(&mut found, "Makefile.global", told);
            real
        }
        Engine::Mysql | Engine::Mariadb => {
            let cache = text(&object.join("CMakeCache.txt"))?.unwrap_or_default();
            let (entries, real) = cache_entries(&cache);
            put(&mut found, "CMakeCache.txt", entries);
            real
        }
    };
    binaries(tree, &mut found)?;
    Ok(found.into_iter().map(|(key, value)| (key, real.hidden(value))).collect())
}

fn put(
    found: &mut BTreeMap<String, String>,
    file: &str,
    pairs: impl IntoIterator<Item = (String, String)>,
) {
    let file = file.rsplit('/').next().unwrap_or(file);
    found.extend(pairs.into_iter().map(|(name, value)| (format!("{file}:{name}"), value)));
}

/// The text of a file, if it is there.
fn text(path: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// The real paths of a build that did not run under its canonical ones.
#[derive(Default)]
struct Real {
    /// Real path and what it is called; the longest first, since one may lie in the other.
    paths: Vec<(String, String)>,
}

impl Real {
    fn new(source: Option<&String>, object: Option<&String>) -> Self {
        let mut paths: Vec<(String, String)> = Vec::new();
        paths.extend(source.map(|path| (path.clone(), format!("{ROOT}/src"))));
        if let Some(object) = object {
            paths.push((object.clone(), format!("{ROOT}/obj")));
            // Its neighbours: the tools, the stage, temporary files.
            if let Some((folder, "obj")) = object.rsplit_once('/') {
                paths.push((folder.to_owned(), ROOT.to_owned()));
            }
        }
        paths.retain(|(real, name)| real != name && real.len() > 1);
        paths.sort_by_key(|(real, _)| std::cmp::Reverse(real.len()));
        Self { paths }
    }

    fn hidden(&self, value: String) -> String {
        self.paths.iter().fold(value, |value, (real, name)| value.replace(real, name))
    }
}

/// The macros that a header defines, with their values: white space at the ends is dropped,
/// continued lines are joined.
fn defines(text: &str) -> Vec<(String, String)> {
    let text = text.replace("\\\n", " ");
    let define = |line: &str| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define")?;
        let rest = rest.strip_prefix([' ', '\t'])?.trim();
        // The parameters of a macro belong to its name.
        let end = match rest.find([' ', '\t', '(']) {
            Some(at) if rest[at..].starts_with('(') => rest.find(')').map_or(rest.len(), |e| e + 1),
            Some(at) => at,
            None => rest.len(),
        };
        Some((rest[..end].to_owned(), words(&rest[end..])))
    };
    text.lines().filter_map(define).collect()
}

/// White space between words is one space.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The variables of a makefile, each with its first value: what comes later in `Makefile.global`
/// is the same for every build.
fn variables(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for line in text.replace("\\\n", " ").lines() {
        // A tab begins a command.
        if line.starts_with('\t') {
            continue;
        }
        let line = line.trim_start();
        let line = line.strip_prefix("override ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else { continue };
        let name = name.trim_end_matches([':', '+', '?']).trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.is_empty() && name.chars().all(is_name) {
            found.entry(name.to_owned()).or_insert_with(|| words(value));
        }
    }
    found
}

fn is_told(name: &str) -> bool {
    // Only `-L` of folders in the build tree.
    let internal = name == "LDFLAGS_INTERNAL";
    !internal && (VARIABLES.contains(&name) || FAMILIES.iter().any(|start| name.starts_with(start)))
}

/// The entries of CMake's cache, and the real paths of the build.
fn cache_entries(text: &str) -> (Vec<(String, String)>, Real) {
    let mut entries = Vec::new();
    let (mut source, mut object) = (None, None);
    for line in text.lines() {
        if line.starts_with(['#', '/']) {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else { continue };
        let Some((name, kind)) = name.rsplit_once(':') else { continue };
        let (name, value) = (name.trim_matches('"'), value.trim());
        match name {
            "CMAKE_HOME_DIRECTORY" => source = Some(value.to_owned()),
            "CMAKE_CACHEFILE_DIR" => object = Some(value.to_owned()),
            _ => {}
        }
        if is_entry(name, kind, value) {
            entries.push((name.to_owned(), words(value)));
        }
    }
    (entries, Real::new(source.as_ref(), object.as_ref()))
}

fn is_entry(name: &str, kind: &str, value: &str) -> bool {
    // Properties of another entry, for editors of the cache.
    const PROPERTIES: [&str; 3] = ["-ADVANCED", "-STRINGS", "-MODIFIED"];
    // What a project's own name gives, and where its targets link: the same for every build.
    const DERIVED: [&str; 4] = ["_BINARY_DIR", "_SOURCE_DIR", "_IS_TOP_LEVEL", "_LIB_DEPENDS"];
    if PROPERTIES.iter().chain(&DERIVED).any(|end| name.ends_with(end)) {
        return false;
    }
    match kind {
        "STATIC" => false,
        // Results of checks are numbers and truth values; CMake's own notes are about itself.
        "INTERNAL" => {
            let result = ["", "TRUE", "FALSE", "ON", "OFF"].contains(&value)
                || value.bytes().all(|byte| byte.is_ascii_digit());
            result && !name.starts_with("CMAKE_") && !name.starts_with('_')
        }
        _ => !value.is_empty(),
    }
}

/// How the programs and libraries of a tree are linked.
fn binaries(tree: &Path, found: &mut BTreeMap<String, String>) -> anyhow::Result<()> {
    let (mut compilers, mut linkers) = (BTreeSet::new(), BTreeSet::new());
    let mut folders = vec![tree.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let kind = fs::symlink_metadata(&path)?;
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && is_elf(&path) {
                let name = path.strip_prefix(tree).context("a file outside of its tree")?;
                let linked = linked(&fs::read(&path)?);
                // A file that only begins like one says nothing.
                let Ok(linked) = linked else { continue };
                for line in linked.comments {
                    match line.strip_prefix("Linker: ") {
                        Some(linker) => linkers.insert(linker.to_owned()),
                        None => compilers.insert(line),
                    };
                }
                let name = name.display();
                if !linked.needed.is_empty() {
                    found.insert(format!("needed:{name}"), linked.needed.join(" "));
                }
                if let Some(path) = linked.run_path {
                    found.insert(format!("run-path:{name}"), path);
                }
            }
        }
    }
    for (key, names) in [("compiled-by", compilers), ("linked-by", linkers)] {
        if !names.is_empty() {
            let names: Vec<String> = names.into_iter().collect();
            found.insert(key.to_owned(), names.join("; "));
        }
    }
    Ok(())
}

/// What the dynamic section and `.comment` of an ELF file say.
#[derive(Debug, Default)]
struct Linked {
    comments: BTreeSet<String>,
    needed: Vec<String>,
    run_path: Option<String>,
}

/// Reads these two sections only: the audit has already been through the debug information.
/// Format: System V ABI, "Dynamic Section"; 64-bit files, as both engines' servers are.
fn linked(data: &[u8]) -> object::Result<Linked> {
    let header = object::elf::FileHeader64::<object::Endianness>::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let mut linked = Linked::default();
    if let Some((_, comment)) = sections.section_by_name(endian, b".comment") {
        let lines = comment.data(endian, data)?.split(|byte| *byte == 0);
        let lines = lines.map(|line| String::from_utf8_lossy(line).trim().to_owned());
        linked.comments = lines.filter(|line| !line.is_empty()).collect();
    }
    let Some((entries, link)) = sections.dynamic(endian, data)? else { return Ok(linked) };
    let strings = sections.strings(endian, data, link)?;
    for entry in entries {
        let text = || {
            let offset = u32::try_from(entry.val(endian)).ok()?;
            Some(String::from_utf8_lossy(strings.get(offset).ok()?).into_owned())
        };
        match entry.tag(endian) {
            object::elf::DT_NEEDED => linked.needed.extend(text()),
            object::elf::DT_RUNPATH | object::elf::DT_RPATH => linked.run_path = text(),
            _ => {}
        }
    }
    Ok(linked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    #[test]
    fn macros_are_those_that_are_defined() {
        let header = "/* made by configure */\n\
                      #define BLCKSZ 8192\n\
                      /* #undef HAVE_ATOMIC_H */\n\
                      #  define gettimeofday(a,b) gettimeofday(a)\n\
                      #define EMPTY\n\
                      #define\tTABS\t\"a  b\"\n\
                      #define LONG 1 + \\\n  2\n\
                      #defined NOT\n\
                      #ifndef X\n";
        let wanted = [
            ("BLCKSZ", "8192"),
            ("gettimeofday(a,b)", "gettimeofday(a)"),
            ("EMPTY", ""),
            ("TABS", "\"a b\""),
            ("LONG", "1 + 2"),
        ];
        assert_eq!(defines(header), pairs(&wanted));
    }

    #[test]
    fn a_variable_has_its_first_value() {
        let makefile = "VERSION = 15.18\n\
                        CFLAGS = -Wall  -O2\n\
                        override CPPFLAGS := -I$(top_srcdir)/src/include $(CPPFLAGS)\n\
                        CFLAGS += -g\n\
                        LDFLAGS_EX = \n\
                        \tCC = not this\n\
                        all: CC=neither\n\
                        with_icu\t= no\n";
        let found = variables(makefile);
        let get = |name: &str| found.get(name).map(String::as_str);
        assert_eq!(get("CFLAGS"), Some("-Wall -O2"));
        assert_eq!(get("CPPFLAGS"), Some("-I$(top_srcdir)/src/include $(CPPFLAGS)"));
        assert_eq!((get("CC"), get("LDFLAGS_EX"), get("with_icu")), (None, Some(""), Some("no")));
        assert!(is_told("CFLAGS_SL") && is_told("with_icu") && is_told("LD"));
        assert!(!is_told("LDFLAGS_INTERNAL") && !is_told("bindir") && !is_told("LDOUT"));
    }

    #[test]
    fn postgres_without_its_canonical_paths_reads_as_with_them() {
        let made = |folder: &Path, source: &str, object: &str| {
            let header = "#define USE_SSE42_CRC32C 1\n";
            write(folder, "obj/src/include/pg_config.h", header);
            let makefile = format!(
                "abs_top_builddir = {object}\nabs_top_srcdir = {source}\n\
                 LDFLAGS = -L{object}/x -L{source}/y\nAR = {}/bin/gcc-ar\nCXX = \n",
                object.trim_end_matches("/obj")
            );
            write(folder, "obj/src/Makefile.global", &makefile);
            write(folder, "tree/share/a.txt", "no program");
            read(Engine::Postgres, &folder.join("obj"), &folder.join("tree")).expect("read")
        };
        let temp = tempfile::tempdir().expect("a folder");
        let wanted = [
            ("Makefile.global:AR", "/mnt/bin/gcc-ar"),
            ("Makefile.global:LDFLAGS", "-L/mnt/obj/x -L/mnt/src/y"),
            ("pg_config.h:USE_SSE42_CRC32C", "1"),
        ];
        let canonical = made(&temp.path().join("a"), "/mnt/src", "/mnt/obj");
        assert_eq!(canonical, pairs(&wanted));
        let mapped = made(&temp.path().join("b"), "/w/staging/b/src", "/w/staging/b/obj");
        assert_eq!(mapped, canonical);
        let elsewhere = made(&temp.path().join("c"), "/w/trees/pg", "/w/staging/c/obj");
        assert_eq!(elsewhere, canonical);
    }

    #[test]
    fn of_a_cache_options_and_results_of_checks_are_told() {
        let cache = "# This is the CMakeCache file.\n\
                     //Path to a program.\n\
                     CMAKE_CXX_COMPILER:FILEPATH=/mnt/bin/g++\n\
                     CMAKE_CXX_FLAGS:STRING= -g1  -O2\n\
                     CMAKE_C_FLAGS:STRING=\n\
                     MySQL_BINARY_DIR:STATIC=/w/obj\n\
                     WITH_LTO:BOOL=ON\n\
                     WITH_SSL:UNINITIALIZED=/w/obj/ssl\n\
                     CMAKE_HOME_DIRECTORY:INTERNAL=/w/source\n\
                     CMAKE_CACHEFILE_DIR:INTERNAL=/w/obj\n\
                     CMAKE_NUMBER_OF_MAKEFILES:INTERNAL=4\n\
                     HAVE_EPOLL:INTERNAL=1\n\
                     HAVE_KQUEUE:INTERNAL=\n\
                     WITH_LTO-ADVANCED:INTERNAL=1\n\
                     FIND_PACKAGE_MESSAGE_DETAILS_X:INTERNAL=[/usr/lib]\n\
                     \"odd:name\":STRING=x=y\n";
        let temp = tempfile::tempdir().expect("a folder");
        write(temp.path(), "obj/CMakeCache.txt", cache);
        write(temp.path(), "obj/include/my_config.h", "#define HAVE_EPOLL 1\n");
        std::fs::create_dir(temp.path().join("tree")).expect("made");
        let (object, tree) = (temp.path().join("obj"), temp.path().join("tree"));
        let wanted = [
            ("CMakeCache.txt:CMAKE_CXX_COMPILER", "/mnt/bin/g++"),
            ("CMakeCache.txt:CMAKE_CXX_FLAGS", "-g1 -O2"),
            ("CMakeCache.txt:HAVE_EPOLL", "1"),
            ("CMakeCache.txt:HAVE_KQUEUE", ""),
            ("CMakeCache.txt:WITH_LTO", "ON"),
            ("CMakeCache.txt:WITH_SSL", "/mnt/obj/ssl"),
            ("CMakeCache.txt:odd:name", "x=y"),
            ("my_config.h:HAVE_EPOLL", "1"),
        ];
        assert_eq!(read(Engine::Mysql, &object, &tree).expect("read"), pairs(&wanted));
    }

    #[test]
    fn programs_tell_how_they_are_linked() {
        let temp = tempfile::tempdir().expect("a folder");
        let tree = temp.path().join("tree");
        std::fs::create_dir_all(tree.join("bin")).expect("made");
        std::fs::copy(std::env::current_exe().expect("this program"), tree.join("bin/t"))
            .expect("copied");
        std::fs::write(tree.join("bin/broken"), b"\x7fELF and no more").expect("written");
        std::os::unix::fs::symlink("t", tree.join("bin/again")).expect("linked");
        let found = read(Engine::Postgres, temp.path(), &tree).expect("read");
        let get = |key: &str| found.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str());
        let needed = get("needed:bin/t").expect("the C library at least");
        assert!(needed.split(' ').any(|name| name.starts_with("libc.so")), "{needed}");
        assert!(get("compiled-by").is_some_and(|by| by.contains("rustc version")), "{found:?}");
        assert!(found.iter().all(|(key, _)| !key.contains("broken") && !key.contains("again")));
        assert!(found.is_sorted(), "{found:?}");
    }
}
