//! Lists of words: what one has and the other has not. Pure.

/// A phrase names so many words of a kind; the others are counted.
const WORDS: usize = 6;

/// The words of a value without quotes around them, and without the name of a variable in front
/// (`CFLAGS=-O2`).
pub(super) fn split(value: &str) -> Vec<String> {
    let bare = |word: &str| {
        let word = word.trim_matches(['\'', '"']);
        let value = word.split_once('=').and_then(|(name, value)| {
            let upper = |c: char| c.is_ascii_uppercase() || c == '_';
            (!name.is_empty() && name.chars().all(upper)).then_some(value)
        });
        value.unwrap_or(word).to_owned()
    };
    value.split_whitespace().map(bare).filter(|word| !word.is_empty()).collect()
}

/// Whether a word is about the compiler's messages and not about its code.
pub(super) fn is_warning(word: &str) -> bool {
    let hands_on = ["-Wl,", "-Wa,", "-Wp,"].iter().any(|start| word.starts_with(start));
    word.starts_with("-W") && !hands_on
}

/// The words that only the first list has, and those that only the second has; of a word that
/// occurs several times, as many as are too many.
pub(super) fn difference(a: &[String], b: &[String]) -> (Vec<String>, Vec<String>) {
    let only = |here: &[String], there: &[String]| {
        let mut left = there.to_vec();
        let is_new = |word: &&String| match left.iter().position(|other| other == *word) {
            Some(at) => {
                left.swap_remove(at);
                false
            }
            None => true,
        };
        here.iter().filter(is_new).cloned().collect()
    };
    (only(a, b), only(b, a))
}

/// How the second list differs from the first: `with -O3, without -O2`; `None` when it does not.
pub(super) fn change(a: &[String], b: &[String]) -> Option<String> {
    if a == b {
        return None;
    }
    let (gone, new) = difference(a, b);
    let part = |word: &str, words: &[String]| {
        (!words.is_empty()).then(|| format!("{word} {}", shortened(words)))
    };
    let parts: Vec<String> =
        [part("with", &new), part("without", &gone)].into_iter().flatten().collect();
    Some(if parts.is_empty() { "in another order".to_owned() } else { parts.join(" and ") })
}

/// The first words, the others counted.
pub(super) fn shortened(words: &[String]) -> String {
    let text = words[..words.len().min(WORDS)].join(" ");
    match words.len().saturating_sub(WORDS) {
        0 => text,
        more => format!("{text} (and {more} more words)"),
    }
}
