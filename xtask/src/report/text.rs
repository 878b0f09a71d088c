//! Aligned text for a terminal. A table that is wider than the terminal is cut into several, each
//! with the columns that name its rows.

use std::io::{self, Write};

use super::Style;
use super::table::{Align, Cell, Part, Table, TableRow, Tone};

/// The widest lines of running text, for the eye's sake.
const READABLE: usize = 100;
/// Between columns.
const GAP: &str = "  ";

/// Writes the parts, an empty line between them.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(parts: &[Part], style: Style, out: &mut dyn Write) -> io::Result<()> {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        match part {
            Part::Text(text) => paragraph("", text, style.width, out)?,
            Part::List(items) => {
                for item in items {
                    paragraph("", item, style.width, out)?;
                }
            }
            Part::Table(table) => write_table(table, style, out)?,
        }
    }
    Ok(())
}

fn write_table(table: &Table, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if !table.title.is_empty() {
        paragraph("", &table.title, style.width, out)?;
    }
    let widths = widths(table);
    for (index, columns) in chunks(table, &widths, style.width).iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let heading = |column: &usize| Cell::plain(table.columns[*column].name.clone());
        let headings: Vec<Cell> = columns.iter().map(heading).collect();
        write_line(table, columns, &widths, &headings.iter().collect::<Vec<_>>(), style, out)?;
        for row in &table.rows {
            match row {
                TableRow::Section(name) => writeln!(out, "{name}")?,
                TableRow::Cells(cells) => {
                    let cells: Vec<&Cell> = columns.iter().map(|column| &cells[*column]).collect();
                    write_line(table, columns, &widths, &cells, style, out)?;
                }
            }
        }
    }
    for (mark, text) in &table.footnotes {
        paragraph(&format!("{mark} "), text, style.width, out)?;
    }
    Ok(())
}

/// The width of each column: its widest cell or heading.
fn widths(table: &Table) -> Vec<usize> {
    let mut widths: Vec<usize> =
        table.columns.iter().map(|column| column.name.chars().count()).collect();
    for row in &table.rows {
        if let TableRow::Cells(cells) = row {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.text.chars().count());
            }
        }
    }
    widths
}

/// Which columns stand beside each other: the fixed ones and as many others as fit, at least one.
fn chunks(table: &Table, widths: &[usize], width: usize) -> Vec<Vec<usize>> {
    let fixed: Vec<usize> = (0..table.fixed).collect();
    let fixed_width: usize = fixed.iter().map(|column| widths[*column] + GAP.len()).sum();
    let mut chunks = vec![fixed.clone()];
    let mut used = fixed_width;
    for (column, own) in widths.iter().enumerate().skip(table.fixed) {
        let current = &mut chunks[..];
        if used + own > width && current.last().is_some_and(|chunk| chunk.len() > fixed.len()) {
            chunks.push(fixed.clone());
            used = fixed_width;
        }
        used += own + GAP.len();
        if let Some(chunk) = chunks.last_mut() {
            chunk.push(column);
        }
    }
    chunks
}

fn write_line(
    table: &Table,
    columns: &[usize],
    widths: &[usize],
    cells: &[&Cell],
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut line = String::new();
    for (place, (column, cell)) in columns.iter().zip(cells).enumerate() {
        let space = " ".repeat(widths[*column] - cell.text.chars().count());
        let text = if style.colour { coloured(cell) } else { cell.text.clone() };
        if place > 0 {
            line.push_str(GAP);
        }
        match table.columns[*column].align {
            Align::Left => line.extend([text, space]),
            Align::Right => line.extend([space, text]),
        }
    }
    writeln!(out, "{}", line.trim_end())
}

/// The text between the terminal's codes for its tone.
fn coloured(cell: &Cell) -> String {
    let code = match cell.tone {
        Tone::Plain => return cell.text.clone(),
        Tone::Good => "32",
        Tone::Bad => "31",
        Tone::Faint => "2",
    };
    format!("\u{1b}[{code}m{}\u{1b}[0m", cell.text)
}

/// Breaks text at spaces; later lines are indented by the width of `lead`, two at least.
fn paragraph(lead: &str, text: &str, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let indent = " ".repeat(if lead.is_empty() { 2 } else { lead.chars().count() });
    let width = width.min(READABLE);
    let mut line = lead.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            writeln!(out, "{line}")?;
            line.clone_from(&indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(out, "{line}")
}
