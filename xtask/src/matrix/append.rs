//! Adds an entry to the text of a matrix file, leaving every other byte as it is. Pure.

/// The text with `entry` behind the last source, or at the end of a file that has none.
pub fn with_source(text: &str, entry: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let last = lines.iter().rposition(|line| is_header(line, true));
    let place = last.map_or(lines.len(), |last| {
        let rest = lines[last + 1..].iter().position(|line| is_header(line, false));
        let end = rest.map_or(lines.len(), |rest| last + 1 + rest);
        // What stands above the next header, blank lines and comments, belongs to it.
        let written = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        last + 1
            + lines[last + 1..end].iter().rposition(|line| written(&line)).map_or(0, |at| at + 1)
    });
    let mut out = lines[..place].concat();
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(entry.trim_end());
    out.push('\n');
    out.push_str(&lines[place..].concat());
    out
}

/// Whether a line is the header of a table; if `source`, of one below `source`. A line inside of a
/// list can begin with a bracket, too, but it does not end like a header.
fn is_header(line: &str, source: bool) -> bool {
    let line = line.split('#').next().unwrap_or_default().trim();
    let inner = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|name| {
        let name = name.trim_matches(['[', ']']).trim();
        let plain = !name.is_empty() && !name.contains([',', '[', ']', '=']);
        plain && !name.starts_with(['"', '\'']) && (!source || name.starts_with("source."))
    })
}

/// A text as TOML writes it: JSON's strings are TOML's basic strings.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = "[source.new]\nengine = \"mysql\"\n";

    #[test]
    fn behind_the_last_source_and_before_what_is_said_of_the_next() {
        let text = "# top\nschema = 1\n\n[source.a]\norigins = [\n  \"x\", # why\n]\n\n\
                    # ---- axes\n\n# flags\n[axis.opt]\no2 = {}\n";
        let made = with_source(text, ENTRY);
        let wanted = text.replace("]\n\n# ---- axes", &format!("]\n\n{ENTRY}\n# ---- axes"));
        assert_eq!(made, wanted);
    }

    #[test]
    fn subtables_and_files_without_sources_or_last_newline() {
        let text = "schema = 1\n[source.a]\nengine = \"mysql\"\n[source.a.options]\ncmake = {}";
        assert_eq!(with_source(text, ENTRY), format!("{text}\n\n{ENTRY}"));
        assert_eq!(with_source("", ENTRY), ENTRY);
        let none = "schema = 1\n[axis.a]\nx = {}\n";
        assert_eq!(with_source(none, ENTRY), format!("{none}\n{ENTRY}"));
        let list = "[source.a]\nx = [\n  [\"b\"],\n]\ny = 1\n";
        assert_eq!(with_source(list, ENTRY), format!("{list}\n{ENTRY}"));
    }

    #[test]
    fn texts_are_quoted() {
        assert_eq!(quoted("a\"b\n"), "\"a\\\"b\\n\"");
        assert_eq!(quoted("plain"), "\"plain\"");
    }
}
