//! Markdown, for a pull request or a blog: tables with pipes (GitHub Flavored Markdown, 4.10).

use std::io::{self, Write};

use super::table::{Align, Part, Table, TableRow};

/// Writes the parts, an empty line between them.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(parts: &[Part], out: &mut dyn Write) -> io::Result<()> {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        match part {
            Part::Text(text) => writeln!(out, "{}", escaped(text))?,
            Part::List(items) => {
                for item in items {
                    writeln!(out, "- {}", escaped(item.trim_start_matches("- ")))?;
                }
            }
            Part::Table(table) => write_table(table, out)?,
        }
    }
    Ok(())
}

fn write_table(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    if !table.title.is_empty() {
        writeln!(out, "{}\n", escaped(&table.title))?;
    }
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let headings = table.columns.iter().map(|column| escaped(&column.name));
    writeln!(out, "{}", line(headings.collect()))?;
    let rules = table.columns.iter().map(|column| match column.align {
        Align::Left => "---".to_owned(),
        Align::Right => "--:".to_owned(),
    });
    writeln!(out, "{}", line(rules.collect()))?;
    for row in &table.rows {
        let cells = match row {
            TableRow::Section(name) => std::iter::once(format!("**{}**", escaped(name)))
                .chain((1..table.columns.len()).map(|_| String::new()))
                .collect(),
            TableRow::Cells(cells) => {
                cells.iter().map(|cell| escaped(cell.text.trim_start())).collect()
            }
        };
        writeln!(out, "{}", line(cells))?;
    }
    for (mark, text) in &table.footnotes {
        writeln!(out, "\n{mark} {}", escaped(text))?;
    }
    Ok(())
}

/// Characters that would end a cell or begin markup; what stands between backticks is code and
/// stays, but for bars, which end a cell even there.
fn escaped(text: &str) -> String {
    let mut code = false;
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '`' => code = !code,
            '|' => escaped.push('\\'),
            '*' | '_' | '<' | '[' | ']' | '\\' if !code => escaped.push('\\'),
            '\n' | '\r' => {
                escaped.push(' ');
                continue;
            }
            _ => {}
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::{Cell, Column};

    #[test]
    fn tables_have_bars_and_what_would_be_markup_is_escaped() {
        let table = Table {
            title: "A title".to_owned(),
            columns: vec![Column::left("name"), Column::right("value")],
            fixed: 1,
            rows: vec![
                TableRow::Section("reads".to_owned()),
                TableRow::Cells(vec![Cell::plain("  a|b_c"), Cell::plain("1.0 [0.9, 1.1]")]),
            ],
            footnotes: vec![("(1)".to_owned(), "see `a_b`".to_owned())],
        };
        let parts = [Part::List(vec!["- one".to_owned(), "two".to_owned()]), Part::Table(table)];
        let mut out = Vec::new();
        write(&parts, &mut out).expect("written");
        assert_eq!(
            String::from_utf8(out).expect("text"),
            "- one\n- two\n\nA title\n\n| name | value |\n| --- | --: |\n| **reads** |  |\n\
             | a\\|b\\_c | 1.0 \\[0.9, 1.1\\] |\n\n(1) see `a_b`\n"
        );
    }
}
