//! The conditions of `when` and `requires`: `engine = mysql and version >= 8.0.13`.
//!
//! ```text
//! or    = and { "or" and }
//! and   = not { "and" not }
//! not   = "not" not | "(" or ")" | test
//! test  = key ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value
//!       | key "in" "[" value { "," value } "]"
//! ```
//!
//! Keys are `engine`, `version`, `source`, `toolchain`, `family`, `arch` and the build axes. Values
//! are words or quoted text, and globs with `=`, `!=` and `in`; only `version` has an order.

use std::fmt;
use std::ops::Range;

use crate::matrix::pattern::{Pattern, up_to};
use crate::matrix::version::Version;

/// Keys that are not axes.
pub const KEYS: [&str; 6] = ["engine", "version", "source", "toolchain", "family", "arch"];

/// A condition, with the text that it was read from.
#[derive(Clone, Debug)]
pub struct Expr {
    text: String,
    node: Node,
}

#[derive(Clone, Debug)]
enum Node {
    /// One of the values matches.
    Is {
        key: String,
        values: Vec<Pattern>,
        negated: bool,
    },
    /// The version compares so with the bound.
    Compare {
        key: String,
        order: Order,
        bound: Version,
    },
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What is wrong, and the bytes of the text where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExprError {
    /// In one line.
    pub message: String,
    /// A range inside the expression's text.
    pub span: Range<usize>,
}

/// Deeper nesting than anyone writes; a limit keeps the parser off the end of the stack.
const DEPTH_LIMIT: usize = 64;

impl Expr {
    /// Reads a condition.
    ///
    /// # Errors
    /// The first mistake and its place in the text.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        let node = parser.or()?;
        parser.blank();
        if parser.at < text.len() {
            return Err(parser.wrong("`and`, `or` or the end is expected here"));
        }
        Ok(Self { text: text.to_owned(), node })
    }

    /// Whether it holds; `None` when that depends on a key whose value is not known.
    pub fn holds<'a>(&self, value: &dyn Fn(&str) -> Option<&'a str>) -> Option<bool> {
        holds(&self.node, value)
    }

    /// Every key with the values that it is compared with, for checking that all of them exist.
    pub fn visit(&self, see: &mut dyn FnMut(&str, &[Pattern])) {
        visit(&self.node, see);
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn holds<'a>(node: &Node, value: &dyn Fn(&str) -> Option<&'a str>) -> Option<bool> {
    match node {
        Node::Is { key, values, negated } => {
            let text = value(key)?;
            Some(values.iter().any(|pattern| pattern.matches(text)) != *negated)
        }
        Node::Compare { key, order, bound } => {
            let ordering = up_to(&value(key)?.parse::<Version>().ok()?, bound);
            Some(match order {
                Order::Less => ordering.is_lt(),
                Order::LessOrEqual => ordering.is_le(),
                Order::Greater => ordering.is_gt(),
                Order::GreaterOrEqual => ordering.is_ge(),
            })
        }
        Node::Not(inner) => holds(inner, value).map(|held| !held),
        Node::And(parts) => fold(parts, value, false),
        Node::Or(parts) => fold(parts, value, true),
    }
}

/// `or` ends at a part that is true, `and` at one that is false; else an unknown part decides.
fn fold<'a>(
    parts: &[Node],
    value: &dyn Fn(&str) -> Option<&'a str>,
    decisive: bool,
) -> Option<bool> {
    let mut result = Some(!decisive);
    for part in parts {
        match holds(part, value) {
            Some(held) if held == decisive => return Some(decisive),
            Some(_) => {}
            None => result = None,
        }
    }
    result
}

fn visit(node: &Node, see: &mut dyn FnMut(&str, &[Pattern])) {
    match node {
        Node::Is { key, values, .. } => see(key, values),
        Node::Compare { key, .. } => see(key, &[]),
        Node::Not(inner) => visit(inner, see),
        Node::And(parts) | Node::Or(parts) => parts.iter().for_each(|part| visit(part, see)),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn or(&mut self) -> Result<Node, ExprError> {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return Err(self.wrong("too many parentheses"));
        }
        let mut parts = vec![self.and()?];
        while self.word("or") {
            parts.push(self.and()?);
        }
        self.depth -= 1;
        Ok(if parts.len() == 1 { parts.remove(0) } else { Node::Or(parts) })
    }

    fn and(&mut self) -> Result<Node, ExprError> {
        let mut parts = vec![self.not()?];
        while self.word("and") {
            parts.push(self.not()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Node::And(parts) })
    }

    fn not(&mut self) -> Result<Node, ExprError> {
        let mut negations = 0;
        while self.word("not") {
            negations += 1;
        }
        let inner = if self.sign("(") {
            let inner = self.or()?;
            if !self.sign(")") {
                return Err(self.wrong("`)` is expected here"));
            }
            inner
        } else {
            self.test()?
        };
        Ok(if negations % 2 == 1 { Node::Not(Box::new(inner)) } else { inner })
    }

    fn test(&mut self) -> Result<Node, ExprError> {
        let (key, _) = self.value("a key (`engine`, `version`, an axis, …) is expected here")?;
        if self.word("in") {
            if !self.sign("[") {
                return Err(self.wrong("`[` is expected after `in`"));
            }
            let mut values = vec![self.pattern(&key)?];
            while self.sign(",") {
                values.push(self.pattern(&key)?);
            }
            if !self.sign("]") {
                return Err(self.wrong("`,` or `]` is expected here"));
            }
            return Ok(Node::Is { key, values, negated: false });
        }
        for (sign, order) in [
            ("<=", Order::LessOrEqual),
            (">=", Order::GreaterOrEqual),
            ("<", Order::Less),
            (">", Order::Greater),
        ] {
            if self.sign(sign) {
                return self.compare(key, order);
            }
        }
        let negated = self.sign("!=");
        if !negated && !self.sign("=") {
            return Err(self.wrong("one of `=`, `!=`, `<`, `<=`, `>`, `>=`, `in` is expected here"));
        }
        Ok(Node::Is { values: vec![self.pattern(&key)?], key, negated })
    }

    fn compare(&mut self, key: String, order: Order) -> Result<Node, ExprError> {
        let (text, span) = self.value("a version is expected here")?;
        if key != "version" {
            let message =
                format!("only `version` has an order; `{key}` can be tested with `=`, `!=`, `in`");
            return Err(ExprError { message, span });
        }
        match text.parse() {
            Ok(bound) => Ok(Node::Compare { key, order, bound }),
            Err(message) => Err(ExprError { message, span }),
        }
    }

    fn pattern(&mut self, key: &str) -> Result<Pattern, ExprError> {
        let (text, span) = self.value("a value is expected here")?;
        if key == "version" {
            return Pattern::version(&text).map_err(|message| ExprError { message, span });
        }
        Ok(Pattern::name(&text))
    }

    /// A word, or a text in single or double quotes.
    fn value(&mut self, expected: &str) -> Result<(String, Range<usize>), ExprError> {
        self.blank();
        let start = self.at;
        let rest = &self.text[start..];
        if let Some(quote) = rest.chars().next().filter(|c| *c == '\'' || *c == '"') {
            let Some(length) = rest[1..].find(quote) else {
                return Err(self.wrong("the quotation does not end"));
            };
            self.at += length + 2;
            return Ok((rest[1..=length].to_owned(), start..self.at));
        }
        let length = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        // `in [a, b]`: the closing bracket is part of a word only after an opening one (a glob).
        let mut open = false;
        let length = rest[..length]
            .find(|c| {
                open |= c == '[';
                c == ']' && !std::mem::take(&mut open)
            })
            .unwrap_or(length);
        if length == 0 {
            return Err(self.wrong(expected));
        }
        self.at += length;
        Ok((rest[..length].to_owned(), start..self.at))
    }

    fn blank(&mut self) {
        self.at = self.text.len() - self.text[self.at..].trim_start().len();
    }

    fn sign(&mut self, sign: &str) -> bool {
        self.blank();
        let found = self.text[self.at..].starts_with(sign);
        self.at += if found { sign.len() } else { 0 };
        found
    }

    fn word(&mut self, word: &str) -> bool {
        self.blank();
        let rest = &self.text[self.at..];
        let length = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let found = rest[..length] == *word || (word == "in" && rest.starts_with("in["));
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn wrong(&self, message: &str) -> ExprError {
        let rest = &self.text[self.at..];
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        ExprError { message: message.to_owned(), span: self.at..self.at + length }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || "_-.+*?[]/".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn eval(text: &str) -> Option<bool> {
        let value = |key: &str| match key {
            "engine" => Some("mysql"),
            "version" => Some("8.0.39"),
            "opt" => Some("o2"),
            _ => None,
        };
        Expr::parse(text).unwrap_or_else(|e| panic!("{text}: {}", e.message)).holds(&value)
    }

    #[test]
    fn holds_or_not() {
        for (text, expected) in [
            ("engine = mysql", Some(true)),
            ("engine=postgres", Some(false)),
            ("engine != my*", Some(false)),
            ("opt in [o2, o3]", Some(true)),
            ("opt in[os]", Some(false)),
            ("opt = o[23]", Some(true)),
            ("version >= 8.0.13 and version < 8.4", Some(true)),
            ("version <= 8.0", Some(true)),
            ("version > 8.0", Some(false)),
            ("version = 8.0.13..8.4", Some(true)),
            ("not engine = mysql", Some(false)),
            ("not not engine = 'mysql'", Some(true)),
            ("engine = postgres or (opt = o2 and not version = 5.7)", Some(true)),
            ("engine = postgres or opt = o2 and engine = postgres", Some(false)),
            ("arch = x86_64", None),
            ("arch = x86_64 or opt = o2", Some(true)),
            ("arch = x86_64 and opt = o2", None),
            ("arch = x86_64 and opt = o3", Some(false)),
            ("not arch = x86_64", None),
        ] {
            assert_eq!(eval(text), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_have_a_place() {
        for (text, at, part) in [
            ("", 0, "a key"),
            ("engine", 6, "one of"),
            ("engine ~ mysql", 7, "one of"),
            ("engine =", 8, "a value"),
            ("engine = mysql mariadb", 15, "`and`"),
            ("(engine = mysql", 15, "`)`"),
            ("opt in [a b]", 10, "`,` or `]`"),
            ("opt in a", 7, "`[`"),
            ("opt < o2", 6, "only `version`"),
            ("version >= new", 11, "not a version"),
            ("opt = 'o2", 6, "does not end"),
        ] {
            let error = Expr::parse(text).expect_err(text);
            assert!(error.message.contains(part), "{text}: {}", error.message);
            assert_eq!(error.span.start, at, "{text}");
        }
        assert!(Expr::parse(&"(".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "(?s).{0,30}", near in "[a-z=<>!()\\[\\], '\".é]{0,30}") {
            for text in [text, near] {
                if let Err(error) = Expr::parse(&text) {
                    prop_assert!(text.get(error.span).is_some());
                }
            }
        }
    }
}
