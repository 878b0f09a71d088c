//! What a compiler writes about itself into `DW_AT_producer`: its name and version and, from gcc
//! always and from clang with `-grecord-command-line`, the flags that it got.
//!
//! gcc writes `GNU C17 12.2.0 -mtune=generic -march=x86-64 -g1 -O2`, for the units that LTO makes
//! at link time `GNU GIMPLE 12.2.0 …`; clang writes `clang version 14.0.6` followed, if recorded,
//! by its whole command line with backslashes before blanks.

/// One unit's producer, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Producer {
    /// Who made the unit.
    pub compiler: Compiler,
    /// The compiler's version: `12.2.0`.
    pub version: String,
    /// The flags in the order in which they were given; `None` when they are not recorded.
    pub flags: Option<Vec<String>>,
}

/// Who made a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compiler {
    /// gcc, for C, C++ and the like.
    Gcc,
    /// gcc at link time: its flags are those of the link step, not those of the unit.
    GccLink,
    /// clang.
    Clang,
    /// An assembler; has no flags that matter here.
    Assembler,
    /// Something else (another language's compiler).
    Other,
}

impl Producer {
    /// Takes a producer's text apart.
    pub fn parse(text: &str) -> Self {
        if let Some(rest) = text.strip_prefix("GNU ") {
            return Self::gnu(rest);
        }
        if let Some(place) = text.find("clang version ") {
            return Self::clang(&text[place + "clang version ".len()..]);
        }
        Self { compiler: Compiler::Other, version: String::new(), flags: None }
    }

    fn gnu(rest: &str) -> Self {
        let mut words = rest.split_whitespace();
        let language = words.next().unwrap_or_default();
        let version = words.next().unwrap_or_default().to_owned();
        let compiler = match language {
            "AS" => Compiler::Assembler,
            "GIMPLE" => Compiler::GccLink,
            _ => Compiler::Gcc,
        };
        // `--param name=value` is one flag in two words.
        let mut flags: Vec<String> = Vec::new();
        for word in words {
            match flags.last_mut() {
                Some(last) if last == "--param" => *last = format!("{last} {word}"),
                _ => flags.push(word.to_owned()),
            }
        }
        let flags = (compiler != Compiler::Assembler && !flags.is_empty()).then_some(flags);
        Self { compiler, version, flags }
    }

    fn clang(rest: &str) -> Self {
        let words = split_recorded(rest);
        let version = words.first().cloned().unwrap_or_default();
        // Behind the version stand perhaps a distribution's suffix and a revision in parentheses,
        // then the path of the compiler, which is the first word with a slash, then its flags.
        let command = words.iter().position(|word| word.starts_with('/'));
        let flags = command.map(|at| words[at + 1..].to_vec()).filter(|flags| !flags.is_empty());
        Self { compiler: Compiler::Clang, version, flags }
    }

    /// The optimisation level that counts: the last one.
    pub fn level(&self) -> Option<&str> {
        last(self.flags.as_deref()?, |flag| {
            flag.strip_prefix("-O").is_some_and(|level| {
                matches!(level, "" | "0" | "1" | "2" | "3" | "s" | "z" | "g" | "fast")
            })
        })
    }

    /// The last flag that begins so, or equals it.
    pub fn last(&self, prefix: &str) -> Option<&str> {
        last(self.flags.as_deref()?, |flag| flag.starts_with(prefix))
    }
}

fn last(flags: &[String], wanted: impl Fn(&str) -> bool) -> Option<&str> {
    flags.iter().rev().map(String::as_str).find(|flag| wanted(flag))
}

/// Splits a command line as clang records it: a backslash before each blank, quote and backslash
/// of a word, words separated by single blanks.
pub fn split_recorded(text: &str) -> Vec<String> {
    let (mut words, mut word, mut escaped) = (Vec::new(), String::new(), false);
    for character in text.chars() {
        match character {
            _ if escaped => {
                word.push(character);
                escaped = false;
            }
            '\\' => escaped = true,
            ' ' => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            _ => word.push(character),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gcc() {
        let unit = Producer::parse(
            "GNU C17 12.2.0 -march=znver3 --param l1-cache-size=32 -g1 -O2 -O3 -fPIC",
        );
        assert_eq!((unit.compiler, unit.version.as_str()), (Compiler::Gcc, "12.2.0"));
        assert_eq!(unit.level(), Some("-O3"));
        assert_eq!(unit.last("-march="), Some("-march=znver3"));
        let flags = unit.flags.expect("flags");
        assert_eq!(flags[1], "--param l1-cache-size=32");
        let link = Producer::parse("GNU GIMPLE 12.2.0 -O2 -fltrans");
        assert_eq!(link.compiler, Compiler::GccLink);
        assert_eq!(Producer::parse("GNU AS 2.40").compiler, Compiler::Assembler);
        assert_eq!(Producer::parse("GNU C17 12.2.0").flags, None);
    }

    #[test]
    fn clang_with_and_without_a_recorded_command_line() {
        let bare = Producer::parse("Debian clang version 14.0.6");
        assert_eq!((bare.compiler, bare.version.as_str()), (Compiler::Clang, "14.0.6"));
        assert_eq!((bare.flags.as_ref(), bare.level()), (None, None));
        let unit = Producer::parse(
            "Debian clang version 14.0.6 /usr/lib/llvm-14/bin/clang -O2 -D A=\"-O0\\ x\" -c a.c",
        );
        assert_eq!(unit.level(), Some("-O2"));
        assert_eq!(unit.flags.expect("flags")[2], "A=\"-O0 x\"");
    }

    #[test]
    fn other_words_that_begin_with_a_capital_o_are_no_level() {
        let unit = Producer::parse("GNU C17 12.2.0 -O2 -Oops");
        assert_eq!(unit.level(), Some("-O2"));
        assert_eq!(Producer::parse("rustc version 1.95.0").compiler, Compiler::Other);
    }
}
