//! A [`Comparison`] for people and for programs.
//!
//! A view ([`view`]) turns the comparison into [`Table`]s and text around them; a format
//! ([`text`], [`tsv`], JSON) writes what it is given and knows nothing of views.

use std::io::{IsTerminal as _, Write};

use anyhow::Context as _;

use crate::cli::TableFormat;
use crate::compare::Comparison;

pub mod counts;
pub mod dense;
pub mod effects;
pub mod html;
pub mod markdown;
pub mod metrics;
pub mod table;
pub mod text;
pub mod tidy;
pub mod times;
pub mod tsv;
pub mod view;

pub use table::Table;
pub use view::View;

/// The width of text that does not go to a terminal.
const PLAIN_WIDTH: usize = 120;

/// How text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns of characters that a line may have.
    pub width: usize,
    /// Whether verdicts are coloured.
    pub colour: bool,
}

impl Style {
    /// The style for standard output: the terminal's width (`COLUMNS` overrides it), colour only on
    /// a terminal and only while `NO_COLOR` is unset or empty (no-color.org).
    pub fn of_stdout() -> Self {
        let terminal = std::io::stdout().is_terminal();
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        let width = columns.or_else(|| {
            let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
            Some(usize::from(width.0))
        });
        Self { width: width.unwrap_or(PLAIN_WIDTH).max(40), colour: terminal && !no_colour }
    }
}

/// Writes a comparison in the style of standard output; no views are the usual ones.
///
/// # Errors
/// When `out` cannot be written.
pub fn render_comparison(
    comparison: &Comparison,
    views: &[View],
    format: TableFormat,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    // A page has room for all that there is.
    let usual = views.is_empty() && format != TableFormat::Html;
    let views = if usual { &[View::Full, View::Groups] } else { views };
    render_with(comparison, views, format, Style::of_stdout(), out)
}

/// Writes views of a comparison. JSON is the comparison itself, whatever the views; of the views
/// with ratios, TSV and CSV have one value per field ([`tidy`]), the others as they are shown.
///
/// # Errors
/// When `out` cannot be written.
pub fn render_with(
    comparison: &Comparison,
    views: &[View],
    format: TableFormat,
    style: Style,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let written = match format {
        TableFormat::Text => text::write(&view::document(comparison, views), style, out),
        TableFormat::Md => markdown::write(&view::document(comparison, views), out),
        TableFormat::Tsv => data(comparison, views, &|table, out| tsv::write(table, out), out),
        TableFormat::Csv => data(comparison, views, &|table, out| tsv::write_csv(table, out), out),
        TableFormat::Html => html::write(comparison, views, out),
        TableFormat::Json => serde_json::to_writer_pretty(&mut *out, comparison)
            .map_err(std::io::Error::from)
            .and_then(|()| writeln!(out)),
    };
    written.and_then(|()| out.flush()).context("cannot write the comparison")
}

type WriteTable = dyn Fn(&Table, &mut dyn Write) -> std::io::Result<()>;

/// Tables for programs, an empty line between them.
fn data(
    comparison: &Comparison,
    views: &[View],
    write: &WriteTable,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let judged = |view: &&View| matches!(view, View::Full | View::Compact | View::Groups);
    let mut tables = Vec::new();
    if views.iter().any(|view| judged(&view)) {
        tables.push(tidy::tidy(comparison, views));
    }
    if views.contains(&View::Dense) {
        tables.extend(dense::table(comparison));
    }
    for view in views.iter().filter(|view| !judged(view)) {
        for host in &comparison.hosts {
            match view {
                View::Metrics => tables.extend(metrics::tables(&comparison.base, host)),
                View::Effects => tables.extend(effects::table(host)),
                View::Times => tables.extend(times::table(&comparison.base, host)),
                View::Full | View::Compact | View::Groups | View::Dense => {}
            }
        }
    }
    for (index, table) in tables.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        write(&table.with_sections_as_column(), out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
