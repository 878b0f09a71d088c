//! Placeholders in the words of a command: `{socket}`. A brace that stands for itself is doubled.

/// The names, and what each stands for.
pub const PLACEHOLDERS: [(&str, &str); 13] = [
    ("engine", "postgres, mysql or mariadb"),
    ("socket", "the file of the server's Unix socket"),
    ("folder", "the folder of that file, which libpq calls the host"),
    ("port", "the port in the socket's name (PostgreSQL)"),
    ("user", "the server's user, who needs no password"),
    ("database", "an empty database, or what `load` filled"),
    ("threads", "the number of clients"),
    ("seconds", "the workload's `seconds`"),
    ("seed", "a seed: the same for all targets of a block, another one in each block"),
    ("prefix", "the folder where the measured server is installed"),
    ("build", "the name of the build"),
    ("config", "the name of the config"),
    ("sql-bench-server", "what sql-bench calls the engine: pg or mysql"),
];

/// Those that differ from run to run: what fills the data that runs share cannot have them.
pub const OF_RUNS: [&str; 4] = ["threads", "seconds", "build", "config"];

/// A part of a word.
enum Part<'a> {
    Text(&'a str),
    Name(&'a str),
}

fn parts(word: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = word;
    while let Some(at) = rest.find(['{', '}']) {
        let (text, tail) = rest.split_at(at);
        parts.push(Part::Text(text));
        if tail.starts_with("{{") || tail.starts_with("}}") {
            parts.push(Part::Text(&tail[..1]));
            rest = &tail[2..];
        } else if let (true, Some(end)) = (tail.starts_with('{'), tail.find('}')) {
            parts.push(Part::Name(&tail[1..end]));
            rest = &tail[end + 1..];
        } else {
            // A brace without its partner: as a name it is unknown, which is what is wrong.
            parts.push(Part::Name(&tail[1..]));
            rest = "";
        }
    }
    parts.push(Part::Text(rest));
    parts
}

/// The first placeholder that stands for nothing.
pub fn unknown(word: &str) -> Option<&str> {
    parts(word).into_iter().find_map(|part| match part {
        Part::Name(name) if PLACEHOLDERS.iter().all(|(known, _)| *known != name) => Some(name),
        _ => None,
    })
}

/// The first placeholder of a word that is one of [`OF_RUNS`].
pub fn of_runs(word: &str) -> Option<&str> {
    parts(word).into_iter().find_map(|part| match part {
        Part::Name(name) if OF_RUNS.contains(&name) => Some(name),
        _ => None,
    })
}

/// The word with every placeholder replaced by its value.
pub fn fill(word: &str, value: impl Fn(&str) -> String) -> String {
    let text = |part| match part {
        Part::Text(text) => text.to_owned(),
        Part::Name(name) => value(name),
    };
    parts(word).into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn placeholders_are_replaced_and_braces_kept() {
        let fill = |word| fill(word, |name| format!("<{name}>"));
        assert_eq!(fill("-h{folder} -p{port}"), "-h<folder> -p<port>");
        assert_eq!(fill("{{\"a\": {seed}}}"), "{\"a\": <seed>}");
        assert_eq!(fill("plain"), "plain");
        assert_eq!(fill(""), "");
    }

    #[test]
    fn unknown_ones_are_named() {
        assert_eq!(unknown("{socket}{thread}"), Some("thread"));
        assert_eq!(unknown("a{b"), Some("b"));
        assert_eq!(unknown("a}b"), Some("b"));
        assert_eq!(unknown("{{x}} {seconds}"), None);
        assert_eq!(of_runs("{socket} {seconds}"), Some("seconds"));
        assert_eq!(of_runs("{{threads}} {seed}"), None);
        let known = |name: &&str| PLACEHOLDERS.iter().any(|(known, _)| known == name);
        assert!(OF_RUNS.iter().all(known));
    }

    proptest! {
        #[test]
        fn any_word_gets_an_answer(word in ".*") {
            let _ = unknown(&word);
            let _ = fill(&word, str::to_owned);
        }
    }
}
