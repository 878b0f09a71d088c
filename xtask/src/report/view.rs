//! Views: which tables a comparison is shown as.

use catalog::Better;
use clap::ValueEnum;

use crate::compare::{
    Cell as Compared, CellResult, Comparison, GroupCell, HostComparison, Judged, LeftOut, Measured,
    NotHeld, NoteKind, Row,
};
use crate::sizes;
use crate::stats::{Method, Verdict};

use super::table::{Align, Cell, Column, Part, Table, TableRow, Tone};
use super::{dense, effects, metrics, times};

/// A way to look at a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum View {
    /// Every microbenchmark against every target, with intervals and verdicts.
    Full,
    /// The same with ratios only.
    Compact,
    /// Minimum, maximum, average, median and geometric mean per group.
    Groups,
    /// CPU, context switches and I/O per operation, absolute and relative.
    Metrics,
    /// Metrics of which less is better, relative in their own direction.
    Times,
    /// One cell per target and host: mean relative QPS of points, ranges and writes.
    Dense,
    /// What each setting does, from pairs of targets that differ in nothing else.
    Effects,
}

/// The text report: what it is, per host the tables of each view, verdicts and warnings.
pub fn document(comparison: &Comparison, views: &[View]) -> Vec<Part> {
    let mut parts = vec![Part::List(explanation(comparison))];
    if views.contains(&View::Dense) {
        let none = "dense: no queries per second of points, ranges or writes were measured";
        parts.push(dense::table(comparison).map_or(Part::Text(none.to_owned()), Part::Table));
    }
    for host in &comparison.hosts {
        parts.push(Part::Text(host_line(comparison, host)));
        for (index, view) in views.iter().enumerate() {
            // All notes below the first table; the gravest below each.
            let notes = Notes { host, all: index == 0 };
            match view {
                View::Full => parts.push(Part::Table(full(&comparison.base, host, notes))),
                View::Compact => parts.push(Part::Table(compact(&comparison.base, host, notes))),
                View::Groups => parts.push(Part::Table(groups(host, notes))),
                View::Metrics => {
                    parts.extend(metrics::tables(&comparison.base, host).map(Part::Table));
                }
                // All hosts are in one table, above.
                View::Dense => {}
                View::Effects => {
                    parts.extend(effects::table(host).map(Part::Table));
                    let sentences = effects::sentences(host);
                    if !sentences.is_empty() {
                        parts.push(Part::List(sentences));
                    }
                }
                View::Times => {
                    parts.extend(times::table(&comparison.base, host).map(Part::Table));
                }
            }
        }
        let verdicts = verdicts(host);
        if !verdicts.is_empty() {
            parts.push(Part::List(verdicts));
        }
        if !host.warnings.is_empty() {
            let line = |warning: &crate::compare::Warning| format!("warning: {}", warning.text);
            parts.push(Part::List(host.warnings.iter().map(line).collect()));
        }
    }
    if !comparison.builds.is_empty() {
        let base = comparison.base.split('.').next();
        parts.push(Part::Table(sizes::table(&comparison.builds, base)));
    }
    parts.extend(left_out(&comparison.left_out).map(Part::Text));
    parts
}

fn explanation(comparison: &Comparison) -> Vec<String> {
    let delta = comparison.rule.delta * 100.0;
    let rows = || comparison.hosts.iter().flat_map(|host| &host.rows);
    let (what, of) = match rows().all(|row| row.metric.is_qps()) {
        true => ("QPS of each target", "QPS of the target / QPS of the base"),
        false if rows().all(|row| row.metric.better == Better::Higher) => {
            ("each target", "target / base")
        }
        false => ("each target", "target / base (base / target where less is better)"),
    };
    vec![
        format!(
            "Experiment `{}`: {what} relative to the base `{}`; above 1 is faster.",
            comparison.experiment, comparison.base
        ),
        format!(
            "An entry is `ratio [low, high] verdict`: the geometric mean over blocks of {of}, its \
             {:.0}% interval, and what may be claimed:",
            comparison.level * 100.0
        ),
        format!("- faster, slower: a difference is shown, and it is {delta}% or more"),
        format!("- small: a difference is shown, and it is less than {delta}%"),
        format!("- same: no difference is shown, and one of {delta}% is ruled out"),
        "- undecided (+N): neither; about N more blocks would tell".to_owned(),
        "- n=1: one pair only, so no interval and no verdict".to_owned(),
    ]
}

fn host_line(comparison: &Comparison, host: &HostComparison) -> String {
    let noun = if host.blocks == 1 { "block" } else { "blocks" };
    let judged = host.rows.iter().flat_map(|row| &row.cells).filter_map(|c| c.result.judged());
    let pooled = judged.filter(|judged| judged.estimate.method == Method::Pooled).count();
    let pooled = match pooled {
        0 => String::new(),
        count => format!("; the variance of {count} entries is pooled over targets"),
    };
    let drift = host
        .drift
        .map_or_else(String::new, |drift| format!("; the base moved by {}", drift.words()));
    format!(
        "Host `{}`, base `{}`, {} {noun}{pooled}{drift}",
        host.host, comparison.base, host.blocks
    )
}

/// The notes on targets that a table has.
#[derive(Clone, Copy)]
struct Notes<'a> {
    host: &'a HostComparison,
    /// Or only that binaries are not what was asked for.
    all: bool,
}

impl Notes<'_> {
    /// A text with the marks of all footnotes on a target behind it.
    fn marked(self, table: &mut Table, text: &str, target: &str) -> String {
        let mut text = text.to_owned();
        for note in self.host.notes_of(target) {
            if self.all || note.kind == NoteKind::Mismatch {
                text.push(' ');
                text.push_str(&table.footnote(note.text.clone()));
            }
        }
        text
    }
}

/// As [`full`], a ratio of two digits per entry; `*` where no difference is shown.
fn compact(base: &str, host: &HostComparison, notes: Notes<'_>) -> Table {
    let mut unsure = false;
    let mut short = |table: &mut Table, result: &CellResult| {
        let Some(ratio) = result.ratio() else { return entry(table, result) };
        let verdict = result.judged().map(|judged| judged.verdict);
        let (mark, tone) = match verdict {
            Some(Verdict::Faster) => ("", Tone::Good),
            Some(Verdict::Slower) => ("", Tone::Bad),
            Some(Verdict::Same | Verdict::Small) => ("", Tone::Plain),
            Some(Verdict::Undecided { .. }) | None => ("*", Tone::Faint),
        };
        unsure |= !mark.is_empty();
        Cell { text: format!("{ratio:.2}{mark}"), tone }
    };
    let mut table = rows(base, host, notes, &mut short);
    for column in table.columns.iter_mut().skip(2) {
        column.align = Align::Right;
    }
    if unsure {
        let text = "undecided, or one pair only: no difference may be claimed";
        table.footnotes.insert(0, ("*".to_owned(), text.to_owned()));
    }
    table
}

/// Rows: microbenchmarks by group. Columns: the base's QPS, then the targets.
fn full(base: &str, host: &HostComparison, notes: Notes<'_>) -> Table {
    rows(base, host, notes, &mut entry)
}

fn rows(
    base: &str,
    host: &HostComparison,
    notes: Notes<'_>,
    entry: &mut dyn FnMut(&mut Table, &CellResult) -> Cell,
) -> Table {
    let several = host.rows.iter().any(|row| row.threads != host.rows[0].threads);
    let mut table = Table { fixed: 2, ..Table::default() };
    let only_qps = host.rows.iter().all(|row| row.metric.is_qps());
    let base_qps = notes.marked(&mut table, if only_qps { "base QPS" } else { "base" }, base);
    table.columns = vec![Column::left("microbenchmark"), Column::right(base_qps)];
    for target in &host.targets {
        let heading = notes.marked(&mut table, target, target);
        table.columns.push(Column::left(heading));
    }
    let mut group = "";
    for row in &host.rows {
        if row.group != group {
            group = &row.group;
            table.rows.push(TableRow::Section(group.to_owned()));
        }
        let threads = if several { format!(" x{}", row.threads) } else { String::new() };
        let mut cells = vec![
            Cell::plain(format!("  {}{threads}{}", row.microbenchmark, metric(row))),
            Cell::default(),
        ];
        let of_base = base_cell(&mut table, row, base);
        cells[1] = mark_rate(&mut table, of_base, base, &row.base_not_held);
        for cell in &row.cells {
            let shown = entry(&mut table, &cell.result);
            let shown = mark_failures(&mut table, shown, cell);
            cells.push(mark_rate(&mut table, shown, &cell.target, &cell.not_held));
        }
        table.rows.push(TableRow::Cells(cells));
    }
    table
}

/// What a row's name says of its metric: nothing of queries per second.
fn metric(row: &Row) -> String {
    let Measured { name, unit, better } = &row.metric;
    let less = if *better == Better::Lower { ", less is better" } else { "" };
    match (row.metric.is_qps(), unit.is_empty() && less.is_empty()) {
        (true, _) => String::new(),
        (false, true) => format!(" {name}"),
        (false, false) => format!(" {name} ({})", format!("{unit}{less}").trim_start_matches(", ")),
    }
}

fn base_cell(table: &mut Table, row: &Row, base: &str) -> Cell {
    let text = row.base.map_or_else(|| "-".to_owned(), |metrics| quantity(metrics.value));
    let Some(last) = row.base_failures.last() else { return Cell::plain(text) };
    let text = if row.base.is_some() { text } else { "failed".to_owned() };
    let note = format!(
        "`{base}` failed in {}: {}",
        in_blocks(row.base_failures.iter().map(|failure| failure.block)),
        last.reason
    );
    let mark = table.footnote(note);
    Cell { text: format!("{text} {mark}"), tone: Tone::Bad }
}

/// `1.034 [1.021, 1.047] faster`
fn entry(table: &mut Table, result: &CellResult) -> Cell {
    match result {
        CellResult::Judged(judged) => judged_cell(judged),
        CellResult::Single { ratio } => Cell { text: format!("{ratio:.3} n=1"), tone: Tone::Faint },
        CellResult::Failed { .. } => Cell { text: "failed".into(), tone: Tone::Bad },
        CellResult::NoPair => {
            let mark = table.footnote(
                "measured, but never in the same block, boot and placement as the base".into(),
            );
            Cell { text: format!("no pair {mark}"), tone: Tone::Faint }
        }
        CellResult::SameCode => Cell { text: "same code".into(), tone: Tone::Faint },
        CellResult::NotMeasured => Cell { text: "-".into(), tone: Tone::Faint },
    }
}

fn judged_cell(judged: &Judged) -> Cell {
    let (word, tone) = match judged.verdict {
        Verdict::Faster => ("faster".to_owned(), Tone::Good),
        Verdict::Slower => ("slower".to_owned(), Tone::Bad),
        Verdict::Undecided { more_blocks: Some(more) } => {
            (format!("undecided (+{more})"), Tone::Faint)
        }
        Verdict::Undecided { more_blocks: None } => ("undecided (>1000)".to_owned(), Tone::Faint),
        other => (other.word().to_owned(), Tone::Plain),
    };
    let text = format!("{:.3} [{:.3}, {:.3}] {word}", judged.ratio, judged.low, judged.high);
    Cell { text, tone }
}

/// Adds a footnote for the runs of this cell that failed.
fn mark_failures(table: &mut Table, mut shown: Cell, cell: &Compared) -> Cell {
    let note = match (&cell.result, cell.failures.last()) {
        (CellResult::Failed { reason }, None) => format!("`{}`: {reason}", cell.target),
        (_, Some(last)) => format!(
            "`{}` failed in {}: {}",
            cell.target,
            in_blocks(cell.failures.iter().map(|failure| failure.block)),
            last.reason
        ),
        (_, None) => return shown,
    };
    let mark = table.footnote(note);
    shown.text = format!("{} {mark}", shown.text);
    shown
}

/// Adds a footnote for the runs that did not hold the rate.
fn mark_rate(table: &mut Table, mut shown: Cell, target: &str, runs: &[NotHeld]) -> Cell {
    let Some(worst) = runs.iter().min_by(|a, b| (a.got / a.asked).total_cmp(&(b.got / b.asked)))
    else {
        return shown;
    };
    let mark = table.footnote(format!(
        "`{target}` did not hold the rate in {}: {} of {} per second at the worst",
        in_blocks(runs.iter().map(|run| run.block)),
        quantity(worst.got),
        quantity(worst.asked)
    ));
    shown.text = format!("{} {mark}", shown.text);
    shown
}

fn in_blocks(blocks: impl Iterator<Item = u32>) -> String {
    let blocks: Vec<String> = blocks.map(|block| block.to_string()).collect();
    let noun = if blocks.len() == 1 { "block" } else { "blocks" };
    format!("{noun} {}", blocks.join(", "))
}

/// Rows: groups and targets.
fn groups(host: &HostComparison, notes: Notes<'_>) -> Table {
    let mut table = Table {
        columns: vec![
            Column::left("group"),
            Column::left("target"),
            Column::right("rows"),
            Column::right("min"),
            Column::right("max"),
            Column::right("avg"),
            Column::right("median"),
            Column::left("geometric mean"),
        ],
        fixed: 2,
        ..Table::default()
    };
    let several = host.groups.iter().any(|group| group.threads != host.groups[0].threads);
    for group in &host.groups {
        let threads = if several { format!(" x{}", group.threads) } else { String::new() };
        for (index, cell) in group.cells.iter().enumerate() {
            let name = if index == 0 { format!("{}{threads}", group.group) } else { String::new() };
            let target = notes.marked(&mut table, &cell.target, &cell.target);
            let mut cells = vec![
                Cell::plain(name),
                Cell::plain(target),
                Cell::plain(format!("{}/{}", cell.rows, group.rows)),
            ];
            match &cell.spread {
                Some(spread) => cells.extend(
                    [spread.min, spread.max, spread.avg, spread.median]
                        .map(|value| Cell::plain(format!("{value:.3}"))),
                ),
                None => cells.extend((0..4).map(|_| Cell::plain("-"))),
            }
            cells.push(geomean(&mut table, cell, host.blocks));
            table.rows.push(TableRow::Cells(cells));
        }
    }
    table
}

fn geomean(table: &mut Table, cell: &GroupCell, blocks: u32) -> Cell {
    let mut shown = entry(table, &cell.geomean);
    let used = match &cell.geomean {
        CellResult::Judged(judged) => judged.estimate.pairs,
        CellResult::Single { .. } => 1,
        _ => return shown,
    };
    if cell.geomean_rows < cell.rows || used < blocks {
        let mark = table.footnote(format!(
            "over {} of {} rows in {used} of {blocks} blocks: the others lack a pair",
            cell.geomean_rows, cell.rows
        ));
        shown.text = format!("{} {mark}", shown.text);
    }
    shown
}

/// What [`word`] gives, in the order in which it is counted.
const WORDS: [&str; 10] = [
    "faster",
    "slower",
    "small",
    "same",
    "undecided",
    "n=1",
    "failed",
    "no pair",
    "same code",
    "-",
];

/// One line per target: how many microbenchmarks got which word.
fn verdicts(host: &HostComparison) -> Vec<String> {
    host.targets
        .iter()
        .enumerate()
        .map(|(index, target)| {
            let results = host.rows.iter().map(|row| &row.cells[index].result);
            let words: Vec<&str> = results.map(word).collect();
            let counts: Vec<String> = WORDS
                .iter()
                .map(|word| (word, words.iter().filter(|other| other == &word).count()))
                .filter(|(_, count)| *count > 0)
                .map(|(word, count)| {
                    format!("{count} {}", if *word == "-" { "not measured" } else { word })
                })
                .collect();
            format!("{target}: {}", counts.join(", "))
        })
        .collect()
}

/// The verdict's word, or what stands in its place.
fn word(result: &CellResult) -> &'static str {
    match result {
        CellResult::Judged(judged) => judged.verdict.word(),
        CellResult::Single { .. } => "n=1",
        CellResult::Failed { .. } => "failed",
        CellResult::NoPair => "no pair",
        CellResult::SameCode => "same code",
        CellResult::NotMeasured => "-",
    }
}

fn left_out(left_out: &LeftOut) -> Option<String> {
    let parts = [
        (left_out.other_target, "of targets that are made from something else now"),
        (left_out.other_workload, "of a workload that was changed since"),
        (left_out.repeated, "measured again in the same block"),
        (left_out.other_boot, "under another boot, placement or load driver than the base's run"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{count} {why}"))
        .collect();
    (!parts.is_empty()).then(|| format!("Records left out: {}.", parts.join("; ")))
}

/// A quantity with three digits or more: `12345`, `12.3`, `0.123`, `0.00123`.
pub fn quantity(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value if value > 0.0 => {
            let zeros = (-value.log10()).floor().clamp(0.0, 9.0) as usize;
            format!("{value:.*}", zeros + 3)
        }
        _ => "0".to_owned(),
    }
}
