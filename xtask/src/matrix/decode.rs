//! The small decoder below `read`: walks TOML with places, collects every mistake and goes on.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diag::Diagnostic;
use crate::matrix::model::Span;
use crate::matrix::pattern::{glob_matches, is_glob};

/// Mistakes, as they are found.
pub type Mistakes = Vec<Diagnostic>;

/// A value with its place.
pub type Node<'a> = Spanned<DeValue<'a>>;

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a str,
    /// Where the key stands.
    pub key_span: Span,
    /// The value.
    pub node: &'a Node<'a>,
}

/// A table whose keys are taken one by one; what nobody took is an unknown key.
#[derive(Debug)]
pub struct Table<'a> {
    what: String,
    /// Where the table's own key stands.
    pub span: Span,
    entries: Vec<Entry<'a>>,
    known: Vec<&'static str>,
}

impl<'a> Table<'a> {
    /// The entries in written order.
    pub fn new(what: String, span: Span, table: &'a DeTable<'a>) -> Self {
        let mut entries: Vec<Entry<'a>> = table
            .iter()
            .map(|(key, node)| Entry { key: key.get_ref(), key_span: key.span(), node })
            .collect();
        entries.sort_by_key(|entry| entry.key_span.start);
        Self { what, span, entries, known: Vec::new() }
    }

    /// All entries in written order.
    pub fn entries(&self) -> &[Entry<'a>] {
        &self.entries
    }

    /// The entry of a key that may be missing.
    pub fn get(&mut self, key: &'static str) -> Option<Entry<'a>> {
        self.known.push(key);
        self.entries.iter().find(|entry| entry.key == key).cloned()
    }

    /// The entry of a key that must be there.
    pub fn need(&mut self, key: &'static str, mistakes: &mut Mistakes) -> Option<Entry<'a>> {
        let found = self.get(key);
        if found.is_none() {
            let message = format!("{} needs the key `{key}`", self.what);
            mistakes.push(Diagnostic::at(&self.span, message));
        }
        found
    }

    /// Reports the keys that nobody took.
    pub fn finish(self, mistakes: &mut Mistakes) {
        for entry in &self.entries {
            if !self.known.contains(&entry.key) {
                let message = format!("unknown key `{}` in {}", entry.key, self.what);
                let known = self.known.iter().copied();
                mistakes.push(Diagnostic::at(&entry.key_span, message).nearest(entry.key, known));
            }
        }
    }
}

/// A text with its place.
#[derive(Clone, Debug)]
pub struct Text<'a> {
    /// The text.
    pub text: &'a str,
    /// Where.
    pub span: Span,
}

/// What a value is, in words.
fn kind(node: &Node<'_>) -> &'static str {
    match node.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

impl<'a> Entry<'a> {
    /// Reports that something else is needed.
    pub fn wrong(&self, node: &Node<'_>, needed: &str, mistakes: &mut Mistakes) {
        let message = format!("`{}` needs {needed}", self.key);
        mistakes
            .push(Diagnostic::at(&node.span(), message).label(format!("this is {}", kind(node))));
    }

    /// A text.
    pub fn text(&self, mistakes: &mut Mistakes) -> Option<Text<'a>> {
        let found = text_of(self.node);
        if found.is_none() {
            self.wrong(self.node, "a text", mistakes);
        }
        found
    }

    /// A list of texts.
    pub fn texts(&self, mistakes: &mut Mistakes) -> Vec<Text<'a>> {
        let Some(list) = self.node.get_ref().as_array() else {
            self.wrong(self.node, "a list of texts, as in [\"a\", \"b\"]", mistakes);
            return Vec::new();
        };
        list.iter()
            .filter_map(|node| {
                let found = text_of(node);
                if found.is_none() {
                    self.wrong(node, "a list of texts", mistakes);
                }
                found
            })
            .collect()
    }

    /// A text or a list of texts.
    pub fn one_or_more(&self, mistakes: &mut Mistakes) -> Vec<Text<'a>> {
        match text_of(self.node) {
            Some(text) => vec![text],
            None => self.texts(mistakes),
        }
    }

    /// A table.
    pub fn table(&self, what: String, mistakes: &mut Mistakes) -> Option<Table<'a>> {
        let Some(table) = self.node.get_ref().as_table() else {
            self.wrong(self.node, "a table, as in { key = \"value\" }", mistakes);
            return None;
        };
        Some(Table::new(what, self.key_span.clone(), table))
    }

    /// A table or a list of tables.
    pub fn tables(&self, what: &str, mistakes: &mut Mistakes) -> Vec<Table<'a>> {
        let Some(list) = self.node.get_ref().as_array() else {
            return self.table(what.to_owned(), mistakes).into_iter().collect();
        };
        list.iter()
            .filter_map(|node| {
                let Some(table) = node.get_ref().as_table() else {
                    self.wrong(node, "a list of tables, as in [{ key = \"value\" }]", mistakes);
                    return None;
                };
                Some(Table::new(what.to_owned(), node.span(), table))
            })
            .collect()
    }

    /// A whole number within bounds.
    pub fn integer(
        &self,
        node: &Node<'_>,
        low: u64,
        high: u64,
        mistakes: &mut Mistakes,
    ) -> Option<u64> {
        let found = integer_of(node).and_then(|number| u64::try_from(number).ok());
        let found = found.filter(|number| (low..=high).contains(number));
        if found.is_none() {
            let needed = match high {
                u64::MAX => format!("a whole number from {low}"),
                _ => format!("a whole number from {low} to {high}"),
            };
            self.wrong(node, &needed, mistakes);
        }
        found
    }

    /// A number of seconds: finite, not negative, at most a week.
    pub fn seconds(&self, mistakes: &mut Mistakes) -> Option<f64> {
        let found = match self.node.get_ref() {
            DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
            _ => integer_of(self.node).map(|number| number as f64),
        };
        let found = found.filter(|seconds| (0.0..=604_800.0).contains(seconds));
        if found.is_none() {
            self.wrong(self.node, "a number of seconds from 0 to 604800", mistakes);
        }
        found
    }

    /// A number within bounds.
    pub fn number(&self, low: f64, high: f64, mistakes: &mut Mistakes) -> Option<f64> {
        let found = match self.node.get_ref() {
            DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
            _ => integer_of(self.node).map(|number| number as f64),
        };
        let found = found.filter(|number| (low..=high).contains(number));
        if found.is_none() {
            self.wrong(self.node, &format!("a number from {low} to {high}"), mistakes);
        }
        found
    }

    /// True or false.
    pub fn boolean(&self, mistakes: &mut Mistakes) -> Option<bool> {
        let found = self.node.get_ref().as_bool();
        if found.is_none() {
            self.wrong(self.node, "true or false", mistakes);
        }
        found
    }

    /// A text, number or truth value as text; truth values as the two words given.
    pub fn scalar(&self, truth: [&str; 2], mistakes: &mut Mistakes) -> Option<String> {
        let found = match self.node.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(_) => integer_of(self.node).map(|number| number.to_string()),
            DeValue::Float(float) => float
                .as_str()
                .parse::<f64>()
                .is_ok_and(f64::is_finite)
                .then(|| float.as_str().to_owned()),
            DeValue::Boolean(value) => Some(truth[usize::from(!*value)].to_owned()),
            _ => None,
        };
        match &found {
            None => self.wrong(self.node, "a text, a number, true or false", mistakes),
            Some(text) if text.contains(['\n', '\r', '\0']) => {
                self.wrong(self.node, "a text of one line", mistakes);
                return None;
            }
            Some(_) => {}
        }
        found
    }
}

fn text_of<'a>(node: &'a Node<'a>) -> Option<Text<'a>> {
    node.get_ref().as_str().map(|text| Text { text, span: node.span() })
}

/// A whole number that fits 64 bits.
pub fn integer_of(node: &Node<'_>) -> Option<i64> {
    let integer = node.get_ref().as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// The index of a name that must be defined.
pub fn lookup<'n>(
    what: &str,
    word: &Text<'_>,
    names: impl Iterator<Item = &'n str> + Clone,
    mistakes: &mut Mistakes,
) -> Option<usize> {
    let found = names.clone().position(|name| name == word.text);
    if found.is_none() {
        let message = format!("{what} `{}` is not defined", word.text);
        mistakes.push(Diagnostic::at(&word.span, message).nearest(word.text, names));
    }
    found
}

/// The indexes that names, globs and (where the order means something) ranges stand for: in the
/// order of the words, each once.
pub fn select<'n>(
    what: &str,
    words: &[Text<'_>],
    names: impl Iterator<Item = &'n str> + Clone,
    ranges: bool,
    mistakes: &mut Mistakes,
) -> Vec<usize> {
    let mut chosen = Vec::new();
    for word in words {
        let before = mistakes.len();
        let found: Vec<usize> =
            if let Some((from, to)) = word.text.split_once("..").filter(|_| ranges) {
                let mut end = |text: &str| {
                    let word = Text { text: text.trim(), span: word.span.clone() };
                    lookup(what, &word, names.clone(), mistakes)
                };
                match (end(from), end(to)) {
                    (Some(from), Some(to)) => (from..=to).collect(),
                    _ => Vec::new(),
                }
            } else if is_glob(word.text) {
                let matches =
                    |(index, name): (usize, &str)| glob_matches(word.text, name).then_some(index);
                names.clone().enumerate().filter_map(matches).collect()
            } else {
                lookup(what, word, names.clone(), mistakes).into_iter().collect()
            };
        if found.is_empty() && mistakes.len() == before {
            let message = format!("`{}` matches no {what}", word.text);
            mistakes.push(Diagnostic::at(&word.span, message).nearest(word.text, names.clone()));
        }
        for index in found {
            if !chosen.contains(&index) {
                chosen.push(index);
            }
        }
    }
    chosen
}

/// Checks that a key can be part of a file name.
pub fn check_name(what: &str, name: &str, span: &Span, mistakes: &mut Mistakes) {
    let fits = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= 64;
    if !fits {
        let message = format!("`{name}` cannot be the name of {what}");
        let help = "names become parts of file names: letters, digits, `_` and `-`, beginning with \
                    a letter or a digit, at most 64 of them";
        mistakes.push(Diagnostic::at(span, message).help(help));
    }
}
