//! Tab-separated values: one header line, one line per row. A tab or line break inside a value
//! becomes a space, so that every line has the same number of fields. And the same with commas
//! (RFC 4180), where fields with a comma or a quote stand in quotes.

use std::io::{self, Write};

use super::table::{Table, TableRow};

/// Writes a table's columns and rows; titles, sections and footnotes have no place here.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let line = |fields: Vec<&str>| {
        let clean = fields.iter().map(|field| field.replace(['\t', '\n', '\r'], " "));
        clean.collect::<Vec<_>>().join("\t")
    };
    writeln!(out, "{}", line(table.columns.iter().map(|column| column.name.as_str()).collect()))?;
    for row in &table.rows {
        if let TableRow::Cells(cells) = row {
            writeln!(out, "{}", line(cells.iter().map(|cell| cell.text.as_str()).collect()))?;
        }
    }
    Ok(())
}

/// Writes a table as comma-separated values.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_csv(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let field = |text: &str| match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let line = |fields: Vec<&str>| fields.into_iter().map(field).collect::<Vec<_>>().join(",");
    writeln!(out, "{}", line(table.columns.iter().map(|column| column.name.as_str()).collect()))?;
    for row in &table.rows {
        if let TableRow::Cells(cells) = row {
            writeln!(out, "{}", line(cells.iter().map(|cell| cell.text.as_str()).collect()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::{Cell, Column};

    #[test]
    fn fields_with_commas_and_quotes_stand_in_quotes() {
        let cells = vec![Cell::plain("a, b"), Cell::plain("say \"x\""), Cell::plain("1.5")];
        let table = Table {
            columns: ["one", "two", "three"].map(Column::left).into(),
            rows: vec![TableRow::Section("s".to_owned()), TableRow::Cells(cells)],
            ..Table::default()
        };
        let mut out = Vec::new();
        write_csv(&table, &mut out).expect("written");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text, "one,two,three\n\"a, b\",\"say \"\"x\"\"\",1.5\n");
    }
}
