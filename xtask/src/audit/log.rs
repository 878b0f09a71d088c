//! The compile log, as far as an audit needs it: which source was compiled with which words, into
//! which object. Pure; the objects' own facts are put in by who can read them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::audit::elf::Unit;
use crate::audit::flags;
use crate::audit::objects::Object;
use crate::build::commands::Command;

/// One source compiled once.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The source file, absolute, as the build saw it.
    pub source: PathBuf,
    /// The object that it became, absolute; `None` where the driver linked at once.
    pub output: Option<PathBuf>,
    /// Whether the compiler for C++ was called, or for a source of C++.
    pub cxx: bool,
    /// All words, values joined with their options where both are one thing.
    pub words: Vec<String>,
    /// What the object was, where it could be read.
    pub object: Option<Object>,
}

impl Call {
    /// The source's name for people: its last three parts.
    pub fn shown(&self) -> String {
        shown(&self.source)
    }
}

/// One program or library linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// What came out, absolute, as the build saw it.
    pub output: PathBuf,
    /// All words.
    pub words: Vec<String>,
}

/// The calls of a build that made code, without the trials of configure and CMake.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// In the order of the log.
    pub calls: Vec<Call>,
    /// Those that linked objects.
    pub links: Vec<Link>,
    by_name: BTreeMap<String, Vec<usize>>,
}

/// Options whose value is the next word.
const VALUED: [&str; 26] = [
    "-o",
    "-I",
    "-D",
    "-U",
    "-L",
    "-l",
    "-x",
    "-u",
    "-z",
    "-e",
    "-T",
    "-include",
    "-imacros",
    "-isystem",
    "-idirafter",
    "-iquote",
    "-isysroot",
    "-MF",
    "-MT",
    "-MQ",
    "-Xlinker",
    "-Xassembler",
    "-Xpreprocessor",
    "-Xclang",
    "-target",
    "--param",
];

/// Calls that make no code.
const NO_CODE: [&str; 7] = ["-E", "-M", "-MM", "-fsyntax-only", "-###", "-dM", "--version"];

impl Log {
    /// Takes the calls apart.
    pub fn new(commands: &[Command]) -> Self {
        let mut this = Self::default();
        for command in commands {
            this.links.extend(link(command));
            for call in calls(command) {
                let name = file_name(&call.source);
                this.by_name.entry(name).or_default().push(this.calls.len());
                this.calls.push(call);
            }
        }
        this
    }

    /// The calls that may have made a unit: those of the source that it names. Where a build has no
    /// canonical paths the unit's are mapped and the log's are real; then the longest common end
    /// decides.
    pub fn of(&self, unit: &Unit) -> Vec<usize> {
        let path = absolute(Path::new(&unit.folder), Path::new(&unit.name));
        let Some(named) = self.by_name.get(&file_name(&path)) else { return Vec::new() };
        let alike = |index: usize| common_end(&self.calls[index].source, &path);
        let best = named.iter().map(|index| alike(*index)).max().unwrap_or_default();
        let found: Vec<usize> =
            named.iter().copied().filter(|index| alike(*index) == best).collect();
        let whole = best == path.components().count();
        // A name alone decides only where nothing else has it.
        if !whole && (self.sources(&found) > 1 || (best < 2 && self.sources(named) > 1)) {
            return Vec::new();
        }
        found
    }

    fn sources(&self, named: &[usize]) -> usize {
        let mut sources: Vec<&Path> =
            named.iter().map(|index| self.calls[*index].source.as_path()).collect();
        sources.sort_unstable();
        sources.dedup();
        sources.len()
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The last three parts of a path: enough to find a file in a project.
pub fn shown(path: &Path) -> String {
    let parts: Vec<_> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy()),
            _ => None,
        })
        .collect();
    parts[parts.len().saturating_sub(3)..].join("/")
}

/// How many parts two paths have in common at their ends.
fn common_end(one: &Path, two: &Path) -> usize {
    one.components().rev().zip(two.components().rev()).take_while(|(a, b)| a == b).count()
}

/// A path below a folder, without `.` and `..`. Names only: what links there are is not asked.
pub fn absolute(folder: &Path, path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            part => clean.push(part),
        }
    }
    clean
}

/// What configure and CMake compile to try the compiler.
fn is_trial(cwd: &Path, source: &Path) -> bool {
    let name = source.file_name().unwrap_or_default().as_encoded_bytes();
    let tried = |path: &Path| {
        path.components().any(|part| {
            let name = part.as_os_str();
            name == "CMakeFiles" || name == "meson-private"
        })
    };
    name.starts_with(b"conftest") || tried(cwd) || tried(source)
}

fn is_source(word: &str) -> bool {
    let end = Path::new(word).extension().and_then(|end| end.to_str()).unwrap_or_default();
    end == "c" || end == "i" || is_cxx(word)
}

/// Whether a file is C++ by its name.
pub fn is_cxx(word: &str) -> bool {
    let end = Path::new(word).extension().and_then(|end| end.to_str()).unwrap_or_default();
    ["cc", "cp", "cpp", "cxx", "c++", "C", "CPP", "ii"].contains(&end)
}

/// A command line, taken apart.
#[derive(Default)]
struct Parts<'a> {
    sources: Vec<&'a str>,
    objects: bool,
    output: Option<&'a str>,
    language: &'a str,
    compiles: bool,
    /// Asks or prints, or joins objects to an object.
    makes_nothing: bool,
}

fn parts(command: &Command) -> Parts<'_> {
    let mut parts = Parts::default();
    let Parts { sources, objects, output, language, compiles, makes_nothing } = &mut parts;
    let mut words = command.words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        *makes_nothing |= NO_CODE.contains(&word) || word == "-r";
        *compiles |= matches!(word, "-c" | "-S");
        if VALUED.contains(&word) {
            match (word, words.next()) {
                ("-o", value) => *output = value,
                ("-x", Some(value)) => *language = value,
                _ => {}
            }
        } else if let Some(value) = word.strip_prefix("-o").filter(|value| !value.is_empty()) {
            *output = Some(value);
        } else if let Some(value) = word.strip_prefix("-x").filter(|value| !value.is_empty()) {
            *language = value;
        } else if is_source(word) && !word.starts_with('-') {
            sources.push(word);
        } else {
            *objects |= [".o", ".a", ".so"].iter().any(|end| word.ends_with(end));
        }
    }
    parts
}

fn calls(command: &Command) -> Vec<Call> {
    let Parts { sources, output, language, compiles, makes_nothing, .. } = parts(command);
    if makes_nothing {
        return Vec::new();
    }
    let joined = flags::joined(&command.words);
    let call = |source: &&str| {
        let path = absolute(&command.cwd, Path::new(source));
        if is_trial(&command.cwd, &path) {
            return None;
        }
        let object = || PathBuf::from(source).with_extension("o");
        let output = compiles.then(|| match output {
            Some(named) => absolute(&command.cwd, Path::new(named)),
            None => absolute(&command.cwd, Path::new(object().file_name().unwrap_or_default())),
        });
        let cxx = match language {
            "" => command.program.contains("++") || is_cxx(source),
            named => named.starts_with("c++"),
        };
        Some(Call { source: path, output, cxx, words: joined.clone(), object: None })
    };
    sources.iter().filter_map(call).collect()
}

fn link(command: &Command) -> Option<Link> {
    let Parts { objects, output, compiles, makes_nothing, .. } = parts(command);
    let output = absolute(&command.cwd, Path::new(output.filter(|_| objects)?));
    let links = !compiles && !makes_nothing && !is_trial(&command.cwd, &output);
    links.then(|| Link { output, words: command.words.clone() })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A call in a folder, for tests.
    pub(crate) fn command(cwd: &str, line: &str) -> Command {
        let mut words = line.split_whitespace().map(str::to_owned);
        let program = words.next().expect("a program");
        Command { cwd: cwd.into(), program, words: words.collect() }
    }

    fn unit(folder: &str, name: &str) -> Unit {
        Unit { name: name.to_owned(), folder: folder.to_owned(), ..Unit::default() }
    }

    #[test]
    fn what_makes_code_and_what_does_not() {
        let log = Log::new(&[
            command("/mnt/obj", "gcc -c -I . -D X.c -O2 -o lib/a.o ../src/lib/a.c"),
            command("/mnt/obj", "gcc -O2 -o tool tool.c b.o"),
            command("/mnt/obj", "g++ -c x.c"),
            command("/mnt/obj", "gcc -E a.c"),
            command("/mnt/obj", "gcc --version"),
            command("/mnt/obj", "gcc -O2 -c conftest.c"),
            command("/mnt/obj/CMakeFiles/CMakeScratch/TryCompile-1", "gcc -o a.o -c /x/t.c"),
            command("/mnt/obj", "gcc -o program a.o b.o -lm"),
            command("/mnt/obj", "gcc -c -o s.o s.S"),
            command("/mnt/obj", "gcc -r -o joined.o a.o b.o"),
            command("/mnt/obj", "gcc -o conftest conftest.o"),
        ]);
        let found: Vec<_> = log
            .calls
            .iter()
            .map(|call| (call.source.to_str().unwrap_or(""), call.output.clone(), call.cxx))
            .collect();
        assert_eq!(
            found,
            [
                ("/mnt/src/lib/a.c", Some("/mnt/obj/lib/a.o".into()), false),
                ("/mnt/obj/tool.c", None, false),
                ("/mnt/obj/x.c", Some("/mnt/obj/x.o".into()), true),
            ]
        );
        let linked: Vec<_> = log.links.iter().map(|link| link.output.to_str()).collect();
        assert_eq!(linked, [Some("/mnt/obj/tool"), Some("/mnt/obj/program")]);
    }

    #[test]
    fn units_find_their_calls() {
        let log = Log::new(&[
            command("/mnt/obj/one", "gcc -c -O2 /mnt/src/one/main.c"),
            command("/mnt/obj/two", "gcc -c -O2 /mnt/src/two/main.c"),
            command("/mnt/obj/two", "gcc -c -O3 -o again.o /mnt/src/two/main.c"),
            command("/home/x/staging/obj", "gcc -c -O2 /home/x/trees/1f/deep/only.c"),
        ]);
        assert_eq!(log.of(&unit("/mnt/obj/one", "/mnt/src/one/main.c")), [0]);
        assert_eq!(log.of(&unit("/mnt/obj/two", "../../src/two/main.c")), [1, 2]);
        // Real paths in the log, mapped ones in the unit.
        assert_eq!(log.of(&unit("/mnt/obj", "/mnt/src/deep/only.c")), [3]);
        assert_eq!(log.of(&unit("/mnt/obj", "/mnt/src/one/main.c")), [0]);
        assert_eq!(log.of(&unit("/mnt/obj", "/mnt/src/three/main.c")), [0_usize; 0]);
        assert_eq!(log.of(&unit("/mnt/obj", "none.c")), [0_usize; 0]);
        assert_eq!(shown(Path::new("/mnt/src/a/b/c.c")), "a/b/c.c");
    }
}
