//! Tab-separated values: one header line, one line per row. A tab or line break inside a value
//! becomes a space, so that every line has the same number of fields.

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
