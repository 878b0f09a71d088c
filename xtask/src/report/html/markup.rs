//! Writes elements: every text is escaped here, every element that is opened is closed, and what
//! comes out is well-formed XML as well as HTML.

use std::fmt::{Display, Write as _};

/// Attributes of an element, in order.
pub type Attributes<'a> = &'a [(&'a str, &'a dyn Display)];

/// Elements that have no end tag in HTML.
const VOID: [&str; 3] = ["meta", "br", "hr"];

/// A document in the making.
#[derive(Clone, Debug, Default)]
pub struct Markup {
    text: String,
}

impl Markup {
    /// What was written.
    pub fn finish(self) -> String {
        self.text
    }

    /// An element with elements inside, which `inside` writes.
    pub fn within(
        &mut self,
        tag: &str,
        attributes: Attributes<'_>,
        inside: impl FnOnce(&mut Self),
    ) {
        debug_assert!(!VOID.contains(&tag), "`{tag}` has nothing inside");
        self.open(tag, attributes);
        self.text.push('>');
        inside(self);
        let _ = write!(self.text, "</{tag}>");
    }

    /// An element with text.
    pub fn leaf(&mut self, tag: &str, attributes: Attributes<'_>, text: impl Display) {
        self.within(tag, attributes, |m| m.text(text));
    }

    /// An element with a sentence in which backticks stand around names.
    pub fn sentence(&mut self, tag: &str, attributes: Attributes<'_>, text: &str) {
        self.within(tag, attributes, |m| m.prose(text));
    }

    /// An element with nothing inside: one without an end tag, or a shape of a drawing.
    pub fn empty(&mut self, tag: &str, attributes: Attributes<'_>) {
        self.open(tag, attributes);
        self.text.push_str("/>");
    }

    /// Text.
    pub fn text(&mut self, text: impl Display) {
        let _ = write!(Escaping(&mut self.text), "{text}");
    }

    /// Text in which backticks stand around names; one without a partner stays as it is.
    pub fn prose(&mut self, text: &str) {
        let mut rest = text;
        while let Some((before, name, after)) = quoted(rest) {
            self.text(before);
            self.leaf("code", &[], name);
            rest = after;
        }
        self.text(rest);
    }

    /// A line break in the file, so that its lines stay short enough to read.
    pub fn line(&mut self) {
        self.text.push('\n');
    }

    /// The head of a document, or a style or script of our own: written as it is.
    pub fn raw(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn open(&mut self, tag: &str, attributes: Attributes<'_>) {
        let _ = write!(self.text, "<{tag}");
        for (name, value) in attributes {
            let _ = write!(self.text, " {name}=\"");
            self.text(value);
            self.text.push('"');
        }
    }
}

/// Text before a name in backticks, the name, and what is behind it.
fn quoted(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (name, after) = rest.split_once('`')?;
    (!name.is_empty()).then_some((before, name, after))
}

/// Passes text on so that it is nothing but text, between tags and inside of quotes.
struct Escaping<'a>(&'a mut String);

impl std::fmt::Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' | '\t' => self.0.push(c),
                // The pictures of control characters, which no document may hold.
                '\0'..='\x1f' => self.0.extend(char::from_u32(0x2400 + c as u32)),
                // Others that may not be there, and those that turn the order of text around, so
                // that a name could look like another one.
                '\x7f'..='\u{9f}'
                | '\u{200e}'..='\u{200f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{fdd0}'..='\u{fdef}' => self.0.push(char::REPLACEMENT_CHARACTER),
                _ if c as u32 & 0xfffe == 0xfffe => self.0.push(char::REPLACEMENT_CHARACTER),
                _ => self.0.push(c),
            }
        }
        Ok(())
    }
}

/// A length or place in a drawing: one digit behind the point, and none that says nothing.
#[derive(Clone, Copy, Debug)]
pub struct Px(pub f64);

impl Display for Px {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // `-0` is no place; what is no number stands at the edge rather than spoiling the file.
        let tenths = if self.0.is_finite() { (self.0 * 10.0).round() as i64 } else { 0 };
        let (sign, tenths) = (if tenths < 0 { "-" } else { "" }, tenths.unsigned_abs());
        match tenths % 10 {
            0 => write!(f, "{sign}{}", tenths / 10),
            rest => write!(f, "{sign}{}.{rest}", tenths / 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hostile_text_is_text() {
        let mut m = Markup::default();
        let name = "</script><script>alert('1')</script>]]>\"&\0\x1b[1m\u{202e}";
        m.leaf("td", &[("title", &name)], name);
        assert_eq!(
            m.finish(),
            "<td title=\"&lt;/script&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;]]&gt;&quot;\
             &amp;␀␛[1m\u{fffd}\">&lt;/script&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;]]\
             &gt;&quot;&amp;␀␛[1m\u{fffd}</td>"
        );
    }

    #[test]
    fn names_in_backticks_are_code() {
        let mut m = Markup::default();
        m.sentence("p", &[], "the base `a<b` and `` and one ` alone");
        assert_eq!(m.finish(), "<p>the base <code>a&lt;b</code> and `` and one ` alone</p>");
    }

    #[test]
    fn places_are_short() {
        let shown = |value: f64| Px(value).to_string();
        let all = [1.0, 1.25, -0.04, -1.5, 1e3, f64::NAN].map(shown);
        assert_eq!(all, ["1", "1.3", "0", "-1.5", "1000", "0"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_back_as_it_was(text in "\\PC{0,60}", any in any::<String>()) {
            let mut m = Markup::default();
            m.within("p", &[("title", &any)], |m| {
                m.leaf("b", &[("title", &text)], &text);
                m.prose(&any);
                m.empty("br", &[]);
            });
            let written = m.finish();
            let document = roxmltree::Document::parse(&written).expect("well-formed");
            let root = document.root_element();
            let inner = root.first_element_child().expect("an element");
            prop_assert_eq!(inner.text().unwrap_or_default(), &text);
            prop_assert_eq!(inner.attribute("title").unwrap_or_default(), &text);
            let names = root.children().filter(|it| it.is_element()).map(|it| it.tag_name().name());
            prop_assert!(names.clone().all(|name| ["b", "code", "br"].contains(&name)));
        }
    }
}
