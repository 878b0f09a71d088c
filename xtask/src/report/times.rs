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
    total(host, &mut table);
    Some(table)
}

/// The sum over the tests of sql-bench, as the suite's own summary has it: of all targets that have
/// every test.
fn total(host: &HostComparison, table: &mut Table) {
    let tests: Vec<_> = host
        .rows
        .iter()
        .filter(|row| row.group == "sql-bench" && row.metric.name == "seconds")
        .collect();
    if tests.len() < 2 {
        return;
    }
    let sum = |values: Vec<Option<f64>>| values.into_iter().sum::<Option<f64>>();
    let of_base = sum(tests.iter().map(|row| row.base.map(|it| it.value)).collect());
    let shown = |value: Option<f64>| Cell::plain(value.map_or("-".to_owned(), quantity));
    let mut cells = vec![Cell::plain("TOTALS seconds"), Cell::plain("s"), shown(of_base)];
    for target in 0..host.targets.len() {
        let of_target =
            sum(tests.iter().map(|row| row.cells[target].metrics.map(|it| it.value)).collect());
        cells.push(shown(of_target));
        cells.push(Cell::plain(match (of_target, of_base) {
            (Some(value), Some(base)) => relative_to(value, base),
            _ => "-".to_owned(),
        }));
    }
    table.rows.push(TableRow::Cells(cells));
}

#[cfg(test)]
mod tests {
    use catalog::{Better, Metric};

    use super::*;
    use crate::compare::{Options, compare};
    use crate::record::testing::record;
    use crate::record::{Outcome, Record};

    #[test]
    fn seconds_stand_in_their_own_direction_and_are_summed() {
        let told = |target: &str, test: &str, seconds: f64| -> Record {
            let mut record = record(target, test, 1, 1.0);
            record.group = "sql-bench".to_owned();
            let Outcome::Ok(sample) = &mut record.outcome else { panic!("measured") };
            let (name, unit) = ("seconds".to_owned(), "s".to_owned());
            sample.metrics = vec![Metric { name, value: seconds, unit, better: Better::Lower }];
            record
        };
        let records = [
            told("base", "ATIS", 7.0),
            told("t", "ATIS", 14.0),
            told("base", "create", 13.0),
            told("t", "create", 11.0),
        ];
        let comparison = compare(&records, "base", Options::default()).expect("comparable");
        let table = table("base", &comparison.hosts[0]).expect("times");
        let texts: Vec<Vec<&str>> = table
            .rows
            .iter()
            .map(|row| match row {
                TableRow::Cells(cells) => cells.iter().map(|cell| cell.text.as_str()).collect(),
                TableRow::Section(name) => vec![name.as_str()],
            })
            .collect();
        assert_eq!(texts[0], ["ATIS seconds", "s", "7.00", "14.0", "2.00"]);
        assert_eq!(texts[2], ["TOTALS seconds", "s", "20.0", "25.0", "1.25"]);
    }
}
