//! The words of a source tree's CMake files, read once per tree: the plan asks for them each time,
//! and walking a tree of MySQL takes longer than everything else that a plan does.

use std::path::Path;
use std::process;

use fs_err as fs;

use super::tree::{self, Entry};
use crate::build::cmake::vocabulary::Vocabulary;
use crate::env::Env;
use crate::hash::Digest;

/// What a file is to CMake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It is run, or filled in with `#cmakedefine` lines.
    Cmake,
    /// It may be filled in.
    Template,
}

/// By the file's name: real projects name what CMake runs and fills in so.
fn kind(name: &str) -> Option<Kind> {
    if name == "CMakeLists.txt" || name.ends_with(".cmake") || name.ends_with(".cmake.in") {
        return Some(Kind::Cmake);
    }
    (name.ends_with(".in") || name.ends_with(".sh")).then_some(Kind::Template)
}

/// The words of the tree at `path`, whose hash is `digest`: those of an earlier call, or read now.
///
/// # Errors
/// When the tree cannot be read.
pub fn of_tree(env: &Env, path: &Path, digest: Digest) -> anyhow::Result<Vocabulary> {
    // The number is raised when what is taken from the files changes.
    let cache = env.cache().join("cmake-words").join(format!("1-{}.json", digest.short()));
    if let Ok(text) = std::fs::read(&cache)
        && let Ok(known) = serde_json::from_slice::<Vocabulary>(&text)
    {
        return Ok(known.finished());
    }
    let found = read(path)?;
    // Without it the next call reads the tree again.
    let _ = store(&cache, &found);
    Ok(found)
}

fn read(root: &Path) -> anyhow::Result<Vocabulary> {
    let mut all = Vocabulary::default();
    for (path, entry) in tree::list(root)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let (Some(kind), Entry::File { .. }) = (kind(name), entry) else { continue };
        let bytes = fs::read(root.join(&path))?;
        let text = String::from_utf8_lossy(&bytes);
        match kind {
            Kind::Cmake => all.add_cmake(&path.to_string_lossy(), &text),
            Kind::Template => all.add_template(&text),
        }
    }
    Ok(all.finished())
}

/// Two calls of the tool may do so at once: each writes a draft of its own.
fn store(cache: &Path, words: &Vocabulary) -> anyhow::Result<()> {
    let draft = cache.with_extension(format!("{}.draft", process::id()));
    fs::create_dir_all(cache.parent().unwrap_or(Path::new(".")))?;
    fs::write(&draft, serde_json::to_vec(words)?)?;
    fs::rename(draft, cache)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::cmake::vocabulary::Reading;
    use crate::progress::Reporter;

    #[test]
    fn files_that_count() {
        for (name, expected) in [
            ("CMakeLists.txt", Some(Kind::Cmake)),
            ("ssl.cmake", Some(Kind::Cmake)),
            ("config.h.cmake", Some(Kind::Cmake)),
            ("info_macros.cmake.in", Some(Kind::Cmake)),
            ("mysqld_safe.sh", Some(Kind::Template)),
            ("version.h.in", Some(Kind::Template)),
            ("main.cc", None),
            ("in", None),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }

    #[test]
    fn a_tree_is_read_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().to_owned();
        let tree = root.join("tree");
        let write = |name: &str, text: &str| {
            let path = tree.join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("written");
        };
        write(
            "CMakeLists.txt",
            "option(WITH_A \"\" OFF)\nif(WITH_A)\nendif()\noption(B_B \"\" ON)",
        );
        write("sub/config.h.cmake", "#cmakedefine WITH_C 1\n");
        write("sub/start.sh", "port=@D_PORT@\n");
        write("main.c", "#ifdef WITH_E\n");
        let env = Env {
            matrix: root.join("matrix.toml"),
            results: root.join("results"),
            work: root.join("work"),
            sources: None,
            jobs: 1,
            keep_going: true,
            reporter: Reporter::new(true),
            root,
        };
        let digest = Digest::of(b"tree");
        let words = of_tree(&env, &tree, digest).expect("read");
        for name in ["WITH_A", "WITH_C", "D_PORT"] {
            assert_eq!(words.reading(name), Reading::Read, "{name}");
        }
        assert_eq!(words.reading("B_B"), Reading::Declared);
        assert_eq!(words.reading("WITH_E"), Reading::Unknown, "no CMake file");
        fs::remove_dir_all(&tree).expect("removed");
        assert_eq!(of_tree(&env, &tree, digest).expect("from the cache"), words);
        assert!(of_tree(&env, &tree, Digest::of(b"other")).is_err(), "another tree is not there");
        // What cannot be read is made again.
        let cache = env.cache().join("cmake-words");
        let entry = fs::read_dir(cache).expect("a folder").next().expect("one").expect("entry");
        fs::write(entry.path(), "{").expect("broken");
        assert!(of_tree(&env, &tree, digest).is_err());
    }
}
