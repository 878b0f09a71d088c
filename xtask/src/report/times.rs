//! Metrics of which less is better, in their own direction: relative to the base, above 1 is
//! slower, as tables of times are published.

use super::metrics::relative_to;
use super::table::{Cell, Column, Table, TableRow, Tone};
use super::view::quantity;
use crate::compare::HostComparison;

/// The table of a host; `None` when there is no such metric.
pub fn table(base: &str, host: &HostComparison) -> Option<Table> {
    use catalog::Better;
    let rows: Vec<_> = host.rows.iter().filter(|row| row.metric.better == Better::Lower).collect();
    if rows.is_empty() {
        return None;
    }
    let mut columns = vec![Column::left("what"), Column::left("unit"), Column::right(base)];
    for target in &host.targets {
        columns.push(Column::right(target));
        columns.push(Column::right("relative"));
    }
    let several = rows.iter().any(|row| row.threads != rows[0].threads);
    let mut table = Table {
        title: "Less is better; relative to the base, so above 1 is slower. Geometric means over \
                runs, without intervals."
            .to_owned(),
        columns,
        fixed: 3,
        ..Table::default()
    };
    for row in rows {
        let threads = if several { format!(" x{}", row.threads) } else { String::new() };
        let faint = || Cell { text: "-".to_owned(), tone: Tone::Faint };
        let shown = |value: Option<f64>| value.map_or_else(faint, |it| Cell::plain(quantity(it)));
        let of_base = row.base.map(|metrics| metrics.value);
        let mut cells = vec![
            Cell::plain(format!("{}{threads} {}", row.microbenchmark, row.metric.name)),
            Cell::plain(&row.metric.unit),
            shown(of_base),
        ];
        for cell in &row.cells {
            let value = cell.metrics.map(|metrics| metrics.value);
            cells.push(shown(value));
            cells.push(match (value, of_base) {
                (Some(value), Some(base)) => Cell::plain(relative_to(value, base)),
                _ => faint(),
            });
        }
        table.rows.push(TableRow::Cells(cells));
    }
    Some(table)
}
