//! What a name or a version may match: a literal, a glob, a range of versions.
//!
//! Versions are compared up to the numbers that are written: `8.4` stands for all of 8.4, so
//! `8.4.3` is `= 8.4`, `<= 8.4`, not `> 8.4`, and within `8.0.13..8.4`.

use std::cmp::Ordering;
use std::fmt;

use crate::matrix::version::Version;

/// Something that a value may match.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Exactly this text.
    Literal(String),
    /// `*` any text, `?` one character, `[abc]` and `[!abc]` one of, or none of, these.
    Glob(String),
    /// A version, by the numbers written.
    Version(Version),
    /// From the first to the last version, both included.
    Versions(Version, Version),
}

impl Pattern {
    /// A literal, or a glob when the text has a character of one.
    pub fn name(text: &str) -> Self {
        if is_glob(text) { Self::Glob(text.to_owned()) } else { Self::Literal(text.to_owned()) }
    }

    /// A version, a glob of versions, or a range.
    ///
    /// # Errors
    /// Names the part that is not a version, or a range that runs backwards.
    pub fn version(text: &str) -> Result<Self, String> {
        if let Some((from, to)) = text.split_once("..") {
            let (from, to) = (from.trim().parse::<Version>()?, to.trim().parse::<Version>()?);
            if up_to(&from, &to).is_gt() {
                return Err(format!("the range `{text}` runs backwards"));
            }
            return Ok(Self::Versions(from, to));
        }
        if is_glob(text) {
            Ok(Self::Glob(text.to_owned()))
        } else {
            Ok(Self::Version(text.parse()?))
        }
    }

    /// Whether the text matches; a text that is no version matches no version.
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Self::Literal(literal) => literal == text,
            Self::Glob(glob) => glob_matches(glob, text),
            Self::Version(bound) => {
                text.parse().is_ok_and(|version| up_to(&version, bound).is_eq())
            }
            Self::Versions(from, to) => text
                .parse()
                .is_ok_and(|version| up_to(&version, from).is_ge() && up_to(&version, to).is_le()),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(text) | Self::Glob(text) => f.write_str(text),
            Self::Version(version) => write!(f, "{version}"),
            Self::Versions(from, to) => write!(f, "{from}..{to}"),
        }
    }
}

/// Compares a version with a bound by as many numbers as the bound has.
pub fn up_to(version: &Version, bound: &Version) -> Ordering {
    if version.starts_with(bound) { Ordering::Equal } else { version.cmp(bound) }
}

/// Whether the text has a character that makes it a glob.
pub fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Whether all of `text` matches the glob: `*` any text, `?` one character, `[abc]` one of these,
/// `[!abc]` none of these. A `[` without its `]` stands for itself.
///
/// Goes back only to the last `*`, so the time is at most the product of the lengths.
pub fn glob_matches(glob: &str, text: &str) -> bool {
    let glob: Vec<char> = glob.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut g, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if glob.get(g) == Some(&'*') {
            star = Some((g + 1, t));
            g += 1;
        } else if let Some(length) = one(&glob[g..], text[t]) {
            g += length;
            t += 1;
        } else if let Some((after, from)) = star {
            g = after;
            t = from + 1;
            star = Some((after, t));
        } else {
            return false;
        }
    }
    glob[g..].iter().all(|c| *c == '*')
}

/// The length of the glob's first part, if that part matches this character.
fn one(glob: &[char], c: char) -> Option<usize> {
    match glob.first()? {
        '?' => Some(1),
        '[' => {
            let Some(close) = glob.iter().skip(2).position(|g| *g == ']').map(|at| at + 2) else {
                return (c == '[').then_some(1);
            };
            let (negated, set) = match &glob[1..close] {
                ['!', set @ ..] if !set.is_empty() => (true, set),
                set => (false, set),
            };
            (set.contains(&c) != negated).then_some(close + 1)
        }
        literal => (*literal == c).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn globs() {
        let table = [
            ("*", "", true),
            ("*", "abc", true),
            ("pg*_o2", "pg1518_o2", true),
            ("pg*_o2", "pg1518_o2_lto", false),
            ("*_o2*", "pg_o2_o2", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("o[23]", "o3", true),
            ("o[23]", "os", false),
            ("o[!23]", "os", true),
            ("o[!23]", "o3", false),
            ("o[", "o[", true),
            ("", "", true),
            ("", "a", false),
            ("*a*a*a*b", "aaaaaaaaaaaaaaaaaaaa", false),
        ];
        for (glob, text, expected) in table {
            assert_eq!(glob_matches(glob, text), expected, "{glob} {text}");
        }
    }

    #[test]
    fn versions() {
        let range = Pattern::version("8.0.13..8.4").expect("a range");
        for (text, expected) in [
            ("8.0.12", false),
            ("8.0.13", true),
            ("8.1.0", true),
            ("8.4.3", true),
            ("8.5", false),
            ("x", false),
        ] {
            assert_eq!(range.matches(text), expected, "{text}");
        }
        assert!(Pattern::version("8.0").expect("a version").matches("8.0.39"));
        assert!(!Pattern::version("8.0").expect("a version").matches("8.10"));
        assert!(Pattern::version("8.*").expect("a glob").matches("8.10"));
        for bad in ["8..", "9..8", "new", ".."] {
            assert!(Pattern::version(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken(glob in "[ab*?\\[\\]!]{0,12}", text in "[ab\\[]{0,12}") {
            let _ = glob_matches(&glob, &text);
            prop_assert!(glob_matches("*", &text));
            prop_assert!(text.contains('[') || glob_matches(&text, &text));
        }
    }
}
