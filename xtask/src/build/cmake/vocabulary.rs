//! The words of a source tree's CMake files: which variables something there may read. Pure; the
//! files are found and read by [`crate::source::words`].
//!
//! A CMake file may make the name of a variable from pieces: `WITH_${plugin}_STORAGE_ENGINE`. Such
//! a shape stands for every name whose pieces are words of the tree's CMake files, in capitals or
//! not. So a name that is neither there nor made from pieces that are there is read by nothing. A
//! shape without two letters of its own counts only where its value is asked for
//! (`${${prefix}${option}}`): elsewhere (`set(${prefix}_${option} …)`) it is how CMake's own
//! argument parser names its results, and no option of a user.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// How deep references within references are looked into.
const DEPTH: usize = 8;

/// What CMake files say of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It is named, or is one of CMake's own.
    Read,
    /// It is not named, but could be made from pieces that are there.
    Composed,
    /// It is declared as an option, and nothing reads it.
    Declared,
    /// No file has it.
    Unknown,
}

/// The words, as far as they matter for variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Vocabulary {
    /// Every word that stands anywhere but in a declaration.
    words: BTreeSet<String>,
    /// The names of options and of what is marked as advanced.
    declared: BTreeSet<String>,
    /// Packages that are looked for, in capitals: CMake's modules for them read `<package>_…`.
    packages: BTreeSet<String>,
    /// Names made from pieces, with `*` for each piece.
    shapes: BTreeSet<String>,
    /// `words` in capitals.
    #[serde(skip)]
    capitals: BTreeSet<String>,
}

/// What the next words mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Anything,
    /// The first word behind `option(`.
    Option,
    /// The first word behind `find_package(`.
    Package,
    /// All words behind `mark_as_advanced(`.
    Advanced,
}

impl Vocabulary {
    /// Takes in a CMake file; the words of its path count, too, for files are found by globs.
    pub fn add_cmake(&mut self, path: &str, text: &str) {
        self.scan(path, 0);
        self.scan(text, 0);
    }

    /// Takes in another file that CMake may fill in: of it only `@NAME@` and `${NAME}`.
    pub fn add_template(&mut self, text: &str) {
        let bytes = text.as_bytes();
        for (at, _) in text.match_indices('@') {
            let end = word_end(bytes, at + 1);
            if end > at + 1 && bytes.get(end) == Some(&b'@') {
                self.words.insert(text[at + 1..end].to_owned());
            }
        }
        for (at, _) in text.match_indices("${") {
            let end = word_end(bytes, at + 2);
            if end > at + 2 && bytes.get(end) == Some(&b'}') {
                self.words.insert(text[at + 2..end].to_owned());
            }
        }
    }

    /// To be called when everything is taken in or the whole was read from a file.
    #[must_use]
    pub fn finished(mut self) -> Self {
        self.capitals = self.words.iter().map(|word| word.to_uppercase()).collect();
        self
    }

    /// What the files say of a variable.
    pub fn reading(&self, name: &str) -> Reading {
        if self.words.contains(name) || self.is_cmakes_own(name) {
            return Reading::Read;
        }
        if self.shapes.iter().any(|shape| self.fits(shape, name)) {
            Reading::Composed
        } else if self.declared.contains(name) {
            Reading::Declared
        } else {
            Reading::Unknown
        }
    }

    /// The names that look like options of a project.
    pub fn options(&self) -> impl Iterator<Item = &str> {
        let option = |word: &&String| {
            let fits =
                |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
            word.contains('_') && word.bytes().all(fits)
        };
        self.words.iter().filter(option).map(String::as_str)
    }

    /// Whether CMake itself or one of its modules may read it: those are not part of the tree.
    fn is_cmakes_own(&self, name: &str) -> bool {
        const STARTS: [&str; 5] = ["CMAKE_", "CPACK_", "CTEST_", "FETCHCONTENT_", "PKG_CONFIG_"];
        const ENDS: [&str; 8] = [
            "_ROOT",
            "_DIR",
            "_DIRS",
            "_LIBRARY",
            "_LIBRARIES",
            "_LIBRARYDIR",
            "_EXECUTABLE",
            "_INCLUDEDIR",
        ];
        const WHOLE: [&str; 4] =
            ["BUILD_SHARED_LIBS", "BUILD_TESTING", "EXECUTABLE_OUTPUT_PATH", "LIBRARY_OUTPUT_PATH"];
        let capitals = name.to_uppercase();
        let package = |package: &String| {
            capitals.strip_prefix(package.as_str()).is_some_and(|rest| rest.starts_with('_'))
        };
        WHOLE.contains(&name)
            || STARTS.iter().any(|start| capitals.starts_with(start))
            || ENDS.iter().any(|end| capitals.ends_with(end))
            || self.packages.iter().any(package)
    }

    fn scan(&mut self, text: &str, depth: usize) {
        let bytes = text.as_bytes();
        let (mut at, mut within, mut last) = (0, Within::Anything, String::new());
        while at < bytes.len() {
            if let Some((end, shape)) = self.run(text, at, depth) {
                if shape.contains('*') {
                    if has_letters(&shape) || (depth > 0 && shape != "*") {
                        self.shapes.insert(shape);
                    }
                    last.clear();
                } else {
                    self.word(&shape, within);
                    last = shape;
                }
                if within != Within::Advanced {
                    within = Within::Anything;
                }
                at = end;
                continue;
            }
            match bytes[at] {
                b'(' => {
                    within = match last.to_lowercase().as_str() {
                        "option" => Within::Option,
                        "find_package" => Within::Package,
                        "mark_as_advanced" => Within::Advanced,
                        _ => Within::Anything,
                    };
                }
                b')' => within = Within::Anything,
                _ => {}
            }
            if !bytes[at].is_ascii_whitespace() {
                last.clear();
            }
            at += 1;
        }
    }

    fn word(&mut self, word: &str, within: Within) {
        match within {
            Within::Option | Within::Advanced => {
                self.declared.insert(word.to_owned());
            }
            Within::Package => {
                self.packages.insert(word.to_uppercase());
                self.words.insert(word.to_owned());
            }
            Within::Anything => {
                self.words.insert(word.to_owned());
            }
        }
    }

    /// The run of letters, digits, `_` and references that begins here: where it ends, and its text
    /// with `*` for each reference. What is within a reference is taken in on the way.
    fn run(&mut self, text: &str, from: usize, depth: usize) -> Option<(usize, String)> {
        let bytes = text.as_bytes();
        let (mut at, mut shape) = (from, String::new());
        loop {
            let end = word_end(bytes, at);
            if end > at {
                shape.push_str(&text[at..end]);
                at = end;
            }
            let Some(length) = reference(&bytes[at..]).filter(|_| depth < DEPTH) else { break };
            self.scan(&text[at + 2..at + length - 1], depth + 1);
            shape.push('*');
            at += length;
        }
        (at > from).then_some((at, shape))
    }

    fn fits(&self, shape: &str, name: &str) -> bool {
        let mut literals = shape.split('*');
        let first = literals.next().unwrap_or_default();
        let literals: Vec<&str> = literals.collect();
        // Else a shape of pieces alone would stand for each word, however it is written.
        let may_be_empty = has_letters(shape);
        name.strip_prefix(first).is_some_and(|rest| self.pieces(rest, &literals, may_be_empty))
    }

    /// Whether `rest` is a piece and a literal, again and again.
    fn pieces(&self, rest: &str, literals: &[&str], may_be_empty: bool) -> bool {
        let is_piece = |piece: &str| match piece {
            "" => may_be_empty,
            _ => self.capitals.contains(&piece.to_uppercase()),
        };
        let Some((literal, more)) = literals.split_first() else { return rest.is_empty() };
        if more.is_empty() {
            return rest.strip_suffix(literal).is_some_and(is_piece);
        }
        rest.match_indices(literal).any(|(at, _)| {
            is_piece(&rest[..at]) && self.pieces(&rest[at + literal.len()..], more, may_be_empty)
        })
    }
}

/// Where the word that begins at `from` ends.
fn word_end(bytes: &[u8], from: usize) -> usize {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let length = bytes.get(from..).unwrap_or_default().iter().take_while(|b| is_word(b)).count();
    from + length
}

/// The length of the reference `${…}` at the beginning, whatever is nested in it.
fn reference(bytes: &[u8]) -> Option<usize> {
    if !bytes.starts_with(b"${") {
        return None;
    }
    let mut open = 0_usize;
    for (at, byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            b'{' => open += 1,
            b'}' if open == 1 => return Some(at + 1),
            b'}' => open -= 1,
            b'\n' => return None,
            _ => {}
        }
    }
    None
}

fn has_letters(shape: &str) -> bool {
    shape.as_bytes().windows(2).any(|pair| pair.iter().all(u8::is_ascii_alphabetic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLUGIN: &str = r#"
        MACRO(MYSQL_ADD_PLUGIN plugin_arg)
          IF(WITH_${plugin}_STORAGE_ENGINE OR WITH_${plugin})
            SET(${prefix}_${arg} 1)
          ENDIF()
          SET(x ${${kind}_DEPTH})
          SET(kind SUB_)
          SET(${arg} ${${kind}${arg}})
        ENDMACRO()
    "#;
    const TOP: &str = r#"
        OPTION(WITH_LTO "Enable the link-time optimizer" ${WITH_LTO_DEFAULT})
        option( DISABLE_PSI_DATA_LOCK "of locks" OFF )
        OPTION(DISABLE_PSI_MUTEX "of mutexes" OFF)
        MARK_AS_ADVANCED(DISABLE_PSI_DATA_LOCK DISABLE_PSI_MUTEX
          DISABLE_PSI_LATE)
        IF(WITH_LTO)
        ENDIF()
        FIND_PACKAGE(OpenSSL 1.1)
        MYSQL_ADD_PLUGIN(archive ha_archive.cc STORAGE_ENGINE)
    "#;

    fn vocabulary() -> Vocabulary {
        let mut all = Vocabulary::default();
        all.add_cmake("cmake/plugin.cmake", PLUGIN);
        all.add_cmake("CMakeLists.txt", TOP);
        all.add_cmake("storage/blackhole/CMakeLists.txt", "");
        all.add_cmake("config.h.cmake", "#cmakedefine DISABLE_PSI_MUTEX 1\n");
        all.add_template("port=@MYSQL_TCP_PORT@ ${IN_BRACES} me@example.org $ORDINARY\n");
        all.finished()
    }

    #[test]
    fn what_is_read_declared_and_unknown() {
        let all = vocabulary();
        let long = "LEVEL_".repeat(3);
        for (name, expected) in [
            ("WITH_LTO", Reading::Read),
            ("WITH_LTO_DEFAULT", Reading::Read),
            ("DISABLE_PSI_MUTEX", Reading::Read),
            ("DISABLE_PSI_DATA_LOCK", Reading::Declared),
            ("DISABLE_PSI_LATE", Reading::Declared),
            ("DISABLE_TLS_CHANNEL", Reading::Unknown),
            ("with_lto", Reading::Unknown),
            ("MYSQL_TCP_PORT", Reading::Read),
            ("IN_BRACES", Reading::Read),
            ("ORDINARY", Reading::Unknown),
            // From pieces.
            ("WITH_ARCHIVE_STORAGE_ENGINE", Reading::Composed),
            ("WITH_ARCHIVE", Reading::Composed),
            ("WITH_BLACKHOLE_STORAGE_ENGINE", Reading::Composed),
            ("WITH_PERF_SCHEMA_STORAGE_ENGINE", Reading::Unknown),
            ("WITH_RAPID", Reading::Unknown),
            ("ARCHIVE_DEPTH", Reading::Composed),
            ("RAPID_DEPTH", Reading::Unknown),
            ("ARCHIVE_OPTION", Reading::Unknown),
            ("SUB_WITH_LTO", Reading::Composed),
            ("SUB_WITH_RAPID", Reading::Unknown),
            // CMake's own.
            ("CMAKE_CXX_STANDARD", Reading::Read),
            ("OPENSSL_ROOT_DIR", Reading::Read),
            ("OpenSSL_USE_STATIC_LIBS", Reading::Read),
            ("OPENSSLISH_THING", Reading::Unknown),
            (&long, Reading::Unknown),
            ("", Reading::Unknown),
        ] {
            assert_eq!(all.reading(name), expected, "{name}");
        }
        assert!(all.options().any(|name| name == "WITH_LTO"));
        assert!(all.options().all(|name| name != "archive" && name != "ha_archive"));
    }

    #[test]
    fn is_the_same_after_it_was_stored() {
        let text = serde_json::to_string(&vocabulary()).expect("written");
        let back: Vocabulary = serde_json::from_str(&text).expect("read");
        assert_eq!(back.finished(), vocabulary());
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in "(?s)[a-b${}()\\n é*@_]{0,60}", any in "(?s).{0,40}") {
            let mut all = Vocabulary::default();
            all.add_cmake("a", &text);
            all.add_cmake("b", &any);
            all.add_template(&text);
            let all = all.finished();
            prop_assert_eq!(all.reading("ZZ_NOT_THERE_QQ"), Reading::Unknown);
            let _ = all.reading(&any);
        }
    }
}
