//! The comparison as one long table, one value per field: for programs and spreadsheets.

use catalog::Better;

use super::View;
use super::table::{Cell, Column, Table, TableRow};
use crate::compare::{CellResult, Comparison, HostComparison};
use crate::stats::Verdict;

/// The header: a stable interface. New columns are added at the end.
const COLUMNS: [&str; 32] = [
    "experiment",
    "host",
    "kind",
    "group",
    "name",
    "threads",
    "base",
    "target",
    "state",
    "verdict",
    "pairs",
    "ratio",
    "low",
    "high",
    "p",
    "adjusted_p",
    "more_blocks",
    "base_qps",
    "qps",
    "failed_runs",
    "reason",
    "rows",
    "min",
    "max",
    "avg",
    "median",
    "notes",
    "metric",
    "unit",
    "better",
    "base_value",
    "value",
];

/// A row in the making: fields by name, empty where nothing applies.
#[derive(Clone)]
struct Line(Vec<String>);

impl Line {
    fn set(&mut self, column: &str, value: impl ToString) {
        let index = COLUMNS.iter().position(|name| *name == column).expect("a column's name");
        self.0[index] = value.to_string();
    }

    fn row(self) -> TableRow {
        TableRow::Cells(self.0.into_iter().map(Cell::plain).collect())
    }
}

/// One row per entry of the views. `kind` is `microbenchmark` or `group`; of a group, the ratio is
/// the geometric mean.
pub fn tidy(comparison: &Comparison, views: &[View]) -> Table {
    let mut rows = Vec::new();
    for host in &comparison.hosts {
        let mut common = Line(vec![String::new(); COLUMNS.len()]);
        common.set("experiment", &comparison.experiment);
        common.set("host", &host.host);
        common.set("base", &comparison.base);
        if views.contains(&View::Full) || views.contains(&View::Compact) {
            for row in &host.rows {
                let mut of_row = common.clone();
                of_row.set("kind", "microbenchmark");
                of_row.set("group", &row.group);
                of_row.set("name", &row.microbenchmark);
                of_row.set("threads", row.threads);
                of_row.set("metric", &row.metric.name);
                of_row.set("unit", &row.metric.unit);
                of_row.set(
                    "better",
                    match row.metric.better {
                        Better::Higher => "higher",
                        Better::Lower => "lower",
                    },
                );
                if let Some(base) = row.base {
                    of_row.set("base_value", base.value);
                    if row.metric.is_qps() {
                        of_row.set("base_qps", base.value);
                    }
                }
                rows.extend(row.cells.iter().map(|cell| {
                    let mut line = of_row.clone();
                    line.set("notes", notes(comparison, host, &cell.target));
                    microbenchmark(line, cell, row.metric.is_qps())
                }));
            }
        }
        if views.contains(&View::Groups) {
            for group in &host.groups {
                let mut of_group = common.clone();
                of_group.set("kind", "group");
                of_group.set("group", &group.group);
                of_group.set("name", &group.group);
                of_group.set("threads", group.threads);
                rows.extend(group.cells.iter().map(|cell| {
                    let mut line = of_group.clone();
                    line.set("target", &cell.target);
                    line.set("notes", notes(comparison, host, &cell.target));
                    line.set("rows", format!("{}/{}", cell.rows, group.rows));
                    if let Some(spread) = cell.spread {
                        line.set("min", spread.min);
                        line.set("max", spread.max);
                        line.set("avg", spread.avg);
                        line.set("median", spread.median);
                    }
                    result(&mut line, &cell.geomean);
                    line.row()
                }));
            }
        }
    }
    let columns: Vec<Column> = COLUMNS.map(Column::left).into();
    Table { fixed: columns.len(), columns, rows, ..Table::default() }
}

/// What must be said of a target and of the base that it is compared with.
fn notes(comparison: &Comparison, host: &HostComparison, target: &str) -> String {
    let all = host.notes_of(&comparison.base).chain(host.notes_of(target));
    all.map(|note| note.text.as_str()).collect::<Vec<_>>().join("; ")
}

fn microbenchmark(mut line: Line, cell: &crate::compare::Cell, is_qps: bool) -> TableRow {
    line.set("target", &cell.target);
    line.set("failed_runs", cell.failures.len());
    if let Some(metrics) = cell.metrics {
        line.set("value", metrics.value);
        if is_qps {
            line.set("qps", metrics.value);
        }
    }
    if let Some(last) = cell.failures.last() {
        line.set("reason", &last.reason);
    }
    result(&mut line, &cell.result);
    line.row()
}

fn result(line: &mut Line, result: &CellResult) {
    let state = match result {
        CellResult::Judged(judged) => {
            line.set("verdict", judged.verdict.word());
            line.set("pairs", judged.estimate.pairs);
            line.set("ratio", judged.ratio);
            line.set("low", judged.low);
            line.set("high", judged.high);
            line.set("p", judged.p);
            line.set("adjusted_p", judged.adjusted_p);
            if let Verdict::Undecided { more_blocks: Some(more) } = judged.verdict {
                line.set("more_blocks", more);
            }
            "judged"
        }
        CellResult::Single { ratio } => {
            line.set("pairs", 1);
            line.set("ratio", ratio);
            "single"
        }
        CellResult::Failed { reason } => {
            line.set("reason", reason);
            "failed"
        }
        CellResult::NoPair => "no-pair",
        CellResult::SameCode => "same-code",
        CellResult::NotMeasured => "not-measured",
    };
    line.set("state", state);
}
