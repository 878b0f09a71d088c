//! Mistakes in an input file, all reported together: file, line, column, the source line with a
//! caret, and what to do. Pure; the caller says whether colours are wanted.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::exit::{Code, WithCode as _};

/// A text and the name under which people know it; cheap to clone.
#[derive(Clone, Debug)]
pub struct File {
    /// How the file is called in messages.
    pub path: Arc<str>,
    /// Its content; spans are byte ranges in here.
    pub text: Arc<str>,
}

impl File {
    /// A file with this name and content.
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.into() }
    }
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, in one line.
    pub message: String,
    /// Where; `None` for what stands nowhere in the file (the command line, say).
    pub span: Option<Range<usize>>,
    /// A word or two at the caret.
    pub label: String,
    /// Other places that take part in it, each with a word or two.
    pub also: Vec<(Range<usize>, String)>,
    /// What to do next.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// A mistake at a place.
    pub fn at(span: &Range<usize>, message: impl Into<String>) -> Self {
        Self { span: Some(span.clone()), ..Self::nowhere(message) }
    }

    /// A mistake that stands nowhere in the file.
    pub fn nowhere(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            span: None,
            label: String::new(),
            also: Vec::new(),
            help: Vec::new(),
        }
    }

    /// Adds words at the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds another place.
    #[must_use]
    pub fn also(mut self, span: &Range<usize>, label: impl Into<String>) -> Self {
        self.also.push((span.clone(), label.into()));
        self
    }

    /// Adds a help line.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Adds the help line of [`nearest`].
    #[must_use]
    pub fn nearest<'a>(self, word: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match nearest(word, known) {
            Some(help) => self.help(help),
            None => self,
        }
    }
}

/// Names near to a word that is not known, or all names when none is near and they are few.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut known: Vec<(f64, &str)> = known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&word.to_lowercase(), &name.to_lowercase()), name))
        .collect();
    // Stable: names equally near stay in the order in which they were written.
    known.sort_by(|a, b| b.0.total_cmp(&a.0));
    let quoted = |names: &mut dyn Iterator<Item = &str>| {
        names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let near = quoted(&mut known.iter().take(3).filter(|(s, _)| *s >= 0.75).map(|(_, n)| *n));
    match known.len() {
        0 => None,
        _ if !near.is_empty() => Some(format!("did you mean {near}?")),
        count => {
            let shown = quoted(&mut known.iter().take(12).map(|(_, name)| *name));
            let more = if count > 12 { format!(" and {} more", count - 12) } else { String::new() };
            Some(format!("known: {shown}{more}"))
        }
    }
}

/// All mistakes of one file; an error that maps to exit code 2.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    file: File,
    items: Vec<Diagnostic>,
    styled: bool,
}

impl Diagnostics {
    /// These mistakes, in the order of their places; those without a place first.
    pub fn new(file: &File, mut items: Vec<Diagnostic>) -> Self {
        items.sort_by_key(|item| item.span.as_ref().map(|span| (span.start, span.end)));
        items.dedup();
        Self { file: file.clone(), items, styled: false }
    }

    /// The mistakes.
    pub fn items(&self) -> &[Diagnostic] {
        &self.items
    }

    /// With colours, for a terminal, or without (the default).
    #[must_use]
    pub fn styled(mut self, styled: bool) -> Self {
        self.styled = styled;
        self
    }

    /// As an error that leads to exit code 2.
    pub fn into_error(self) -> anyhow::Error {
        match Err::<(), _>(self).code(Code::Input) {
            Err(error) => error,
            Ok(()) => unreachable!("made from an error"),
        }
    }

    fn render(&self, item: &Diagnostic) -> String {
        let mut group = Group::with_title(Level::ERROR.primary_title(item.message.as_str()));
        if let Some(span) = &item.span {
            let text = &*self.file.text;
            let primary = AnnotationKind::Primary.span(clamp(text, span)).label(&*item.label);
            let others = item.also.iter().map(|(span, label)| {
                AnnotationKind::Context.span(clamp(text, span)).label(label.as_str())
            });
            group = group.element(
                Snippet::source(text)
                    .path(&*self.file.path)
                    .annotation(primary)
                    .annotations(others),
            );
        }
        for help in &item.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        let renderer = if self.styled { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }
}

/// A span that lies inside the text, on character boundaries and within one line, so that a mistake
/// in a table is shown at its first line and not with the whole table.
fn clamp(text: &str, span: &Range<usize>) -> Range<usize> {
    let floor = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = floor(span.start);
    let end = floor(span.end).max(start);
    let line = text[start..end].find('\n').map_or(end, |length| start + length);
    start..line
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.items.len();
        let mistakes = if count == 1 { "mistake" } else { "mistakes" };
        write!(f, "{count} {mistakes} in `{}`", self.file.path)?;
        self.items.iter().try_for_each(|item| write!(f, "\n\n{}", self.render(item)))
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::code_of;
    use expect_test::expect;
    use proptest::prelude::*;

    #[test]
    fn shows_place_line_caret_and_help() {
        let file = File::new("matrix.toml", "schema = 1\nrepaets = 5\n");
        let first = Diagnostic::at(&(11..18), "unknown key `repaets`")
            .nearest("repaets", ["seed", "repeats", "base"]);
        let second = Diagnostic::at(&(0..6), "other").label("here").also(&(21..22), "there");
        let all = Diagnostics::new(&file, vec![first, second]);
        expect![[r#"
            2 mistakes in `matrix.toml`

            error: other
             --> matrix.toml:1:1
              |
            1 | schema = 1
              | ^^^^^^ here
            2 | repaets = 5
              |           - there

            error: unknown key `repaets`
             --> matrix.toml:2:1
              |
            2 | repaets = 5
              | ^^^^^^^
              |
              = help: did you mean `repeats`?"#]]
        .assert_eq(&all.to_string());
        assert_eq!(code_of(&all.into_error()), Code::Input);
    }

    #[test]
    fn names_near_and_far() {
        assert_eq!(nearest("x", []), None);
        assert_eq!(nearest("O2", ["o2", "o3"]).as_deref(), Some("did you mean `o2`?"));
        assert_eq!(nearest("zzz", ["o2", "o3"]).as_deref(), Some("known: `o2`, `o3`"));
    }

    proptest! {
        #[test]
        fn any_span_of_any_text_is_drawn(text in "(?s).{0,40}", a in 0usize..60, b in 0usize..60) {
            let item = Diagnostic::at(&(a..b), "m").also(&(b..a), "l");
            let shown = Diagnostics::new(&File::new("f", &text), vec![item]).to_string();
            prop_assert!(shown.contains("error: m"));
        }
    }
}
