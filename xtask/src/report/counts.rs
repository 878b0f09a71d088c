//! The table of instructions per operation, in all formats.

use std::io::Write;

use anyhow::Context as _;

use super::table::{Cell, Column, Part, Table, TableRow, Tone};
use super::{Style, html, markdown, text, tsv};
use crate::cli::TableFormat;
use crate::compare::counts::{CountCell, Counts, Figure, HostCounts};

/// Writes the counts.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(counts: &Counts, format: TableFormat, out: &mut dyn Write) -> anyhow::Result<()> {
    let written = match format {
        TableFormat::Text => text::write(&document(counts), Style::of_stdout(), out),
        TableFormat::Md => markdown::write(&document(counts), out),
        TableFormat::Html => {
            html::write_parts("Instructions per operation", &document(counts), out)
        }
        TableFormat::Tsv => tsv::write(&tidy(counts), out),
        TableFormat::Csv => tsv::write_csv(&tidy(counts), out),
        TableFormat::Json => serde_json::to_writer_pretty(&mut *out, counts)
            .map_err(std::io::Error::from)
            .and_then(|()| writeln!(out)),
    };
    written.and_then(|()| out.flush()).context("cannot write the counts")
}

/// A number with its thousands apart: `31,234`; below 1000 with one digit behind the point.
pub fn grouped(value: f64) -> String {
    if value < 1000.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// For people: a head, then a table per host.
fn document(counts: &Counts) -> Vec<Part> {
    let mut parts = Vec::new();
    for host in &counts.hosts {
        parts.push(Part::Text(format!(
            "Instructions per operation on host {}, in user mode, by {}: lower is better. Exact, so \
             without an interval; `repeat` is by how much invocations of one target differ, at \
             most. Beside each number that of {} is 1.",
            host.host,
            host.instruments.join(", "),
            counts.base
        )));
        parts.push(Part::Table(table(&counts.base, host)));
    }
    parts
}

fn table(base: &str, host: &HostCounts) -> Table {
    let mut table = Table { fixed: 2, ..Table::default() };
    table.columns = vec![Column::left("microbenchmark"), Column::right("exact, N")];
    table.columns.extend([Column::right("repeat"), Column::right(base)]);
    table.columns.extend(host.targets.iter().map(Column::right));
    let mut group = "";
    for row in &host.rows {
        if row.group != group {
            group = &row.group;
            table.rows.push(TableRow::Section(group.to_owned()));
        }
        let spread = row.spread().map_or_else(|| "n=1".to_owned(), percent);
        let mut cells = vec![
            Cell::plain(&row.microbenchmark),
            Cell::plain(row.operations.to_string()),
            Cell::plain(spread),
            Cell::plain(grouped(row.base.instructions)),
        ];
        for cell in &row.cells {
            cells.push(match cell {
                None => Cell { text: "-".to_owned(), tone: Tone::Faint },
                Some(CountCell::Failed { reason }) => {
                    let mark = table.footnote(reason.clone());
                    Cell { text: format!("failed {mark}"), tone: Tone::Bad }
                }
                Some(CountCell::Ok { figure, ratio }) => {
                    let text = format!("{}  {ratio:.4}", grouped(figure.instructions));
                    Cell { text, tone: tone(*ratio) }
                }
            });
        }
        table.rows.push(TableRow::Cells(cells));
    }
    table
}

/// Half a percent is worth a colour.
fn tone(ratio: f64) -> Tone {
    match ratio {
        ratio if ratio <= 0.995 => Tone::Good,
        ratio if ratio >= 1.005 => Tone::Bad,
        _ => Tone::Plain,
    }
}

fn percent(share: f64) -> String {
    format!("{:.3}%", 100.0 * share)
}

/// For programs: a row per host, microbenchmark and target, the base among them.
fn tidy(counts: &Counts) -> Table {
    const COLUMNS: [&str; 11] = [
        "host",
        "group",
        "microbenchmark",
        "operations",
        "target",
        "base",
        "instructions_per_operation",
        "ratio",
        "invocations",
        "spread",
        "failure",
    ];
    let mut table = Table { columns: COLUMNS.map(Column::left).into(), ..Table::default() };
    for host in &counts.hosts {
        for row in &host.rows {
            let mut add = |target: &str, figure: Option<&Figure>, ratio: Option<f64>, why: &str| {
                let number = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
                let fields = [
                    host.host.clone(),
                    row.group.clone(),
                    row.microbenchmark.clone(),
                    row.operations.to_string(),
                    target.to_owned(),
                    counts.base.clone(),
                    number(figure.map(|figure| figure.instructions)),
                    number(ratio),
                    figure.map_or_else(String::new, |figure| figure.invocations.to_string()),
                    number(figure.and_then(|figure| figure.spread)),
                    why.to_owned(),
                ];
                table.rows.push(TableRow::Cells(fields.map(Cell::plain).into()));
            };
            add(&counts.base, Some(&row.base), Some(1.0), "");
            for (target, cell) in host.targets.iter().zip(&row.cells) {
                match cell {
                    None => {}
                    Some(CountCell::Failed { reason }) => add(target, None, None, reason),
                    Some(CountCell::Ok { figure, ratio }) => {
                        add(target, Some(figure), Some(*ratio), "");
                    }
                }
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::counts::{counts, tests::count};
    use crate::record::count::Counted;

    fn sample() -> Counts {
        let mut all = vec![
            count("base", "points", 0, 31_234),
            count("t", "points", 1, 35_000),
            count("base", "points", 2, 31_234),
            count("u", "points", 3, 1),
        ];
        all[3].outcome = Counted::Failed { reason: "valgrind does not\tknow".into(), log: None };
        counts(&all, "base", &["points"])
    }

    fn written(format: TableFormat) -> String {
        let mut bytes = Vec::new();
        write(&sample(), format, &mut bytes).expect("written");
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn text_has_numbers_ratios_and_reasons() {
        let text = written(TableFormat::Text);
        let line = text.lines().find(|line| line.starts_with("points")).expect("a row");
        let cells: Vec<&str> = line.split_whitespace().collect();
        let wanted = ["points", "100", "0.000%", "31,234", "35,000", "1.1206", "failed", "(1)"];
        assert_eq!(cells, wanted, "{text}");
        assert!(text.contains("(1) valgrind does not know"), "{text}");
        assert!(text.contains("lower is better"), "{text}");
    }

    #[test]
    fn programs_get_a_row_per_target() {
        let tsv = written(TableFormat::Tsv);
        let lines: Vec<&str> = tsv.lines().collect();
        assert_eq!(lines.len(), 4, "{tsv}");
        assert_eq!(lines[1], "h\tpoint-1\tpoints\t100\tbase\tbase\t31234\t1\t2\t0\t");
        assert!(lines[3].ends_with("\tu\tbase\t\t\t\t\tvalgrind does not know"), "{tsv}");
        let json: Counts = serde_json::from_str(&written(TableFormat::Json)).expect("JSON");
        assert_eq!(json, sample());
    }

    #[test]
    fn numbers_read_well() {
        let texts = [12.34, 999.0, 1000.4, 31_234.0, 1_234_567.0].map(grouped);
        assert_eq!(texts, ["12.3", "999.0", "1,000", "31,234", "1,234,567"]);
    }
}
