//! One short cell per target and host: the mean relative QPS of points, ranges and writes, as
//! published tables have it (`1.04-1.03-1.07`). Hosts stand side by side.

use super::table::{Cell, Column, Table, TableRow, Tone};
use crate::compare::{CellResult, Comparison, HostComparison};
use crate::stats::Verdict;
use crate::stats::summary::mean;

/// The parts of a cell: a word, and the groups whose microbenchmarks are in it.
const PARTS: [(&str, &[&str]); 3] = [
    ("points", &["point-1", "point-2"]),
    ("ranges", &["range-1", "range-2"]),
    ("writes", &["writes"]),
];

/// Rows: targets of any host. Columns: hosts, and numbers of clients where there are several.
/// `None` when no queries per second were measured in any of the groups.
pub fn table(comparison: &Comparison) -> Option<Table> {
    let columns = columns(comparison);
    if columns.is_empty() {
        return None;
    }
    let several = columns.iter().any(|(_, threads)| *threads != columns[0].1);
    let mut table = Table {
        title: "Arithmetic means of the relative QPS over the microbenchmarks of points, ranges \
                and writes: points-ranges-writes."
            .to_owned(),
        columns: vec![Column::left("target")],
        fixed: 1,
        ..Table::default()
    };
    for (host, threads) in &columns {
        let clients = if several { format!(" x{threads}") } else { String::new() };
        table.columns.push(Column::left(format!("{}{clients}", host.host)));
    }
    let mut targets: Vec<&String> = Vec::new();
    for target in comparison.hosts.iter().flat_map(|host| &host.targets) {
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    let mut unsure = false;
    for target in targets {
        let mut name = target.clone();
        for (place, (host, _)) in columns.iter().enumerate() {
            if columns[..place].iter().any(|(other, _)| other.host == host.host) {
                continue;
            }
            for note in host.notes_of(target) {
                name = format!("{name} {}", table.footnote(note.text.clone()));
            }
        }
        let mut cells = vec![Cell::plain(name)];
        for (host, threads) in &columns {
            cells.push(cell(&mut table, host, *threads, target, &mut unsure));
        }
        table.rows.push(TableRow::Cells(cells));
    }
    if unsure {
        let text = "in one of its groups nothing may be claimed: undecided, one pair only, or none";
        table.footnotes.insert(0, ("*".to_owned(), text.to_owned()));
    }
    Some(table)
}

/// Hosts and numbers of clients that have a row of any part.
fn columns(comparison: &Comparison) -> Vec<(&HostComparison, u32)> {
    let mut columns: Vec<(&HostComparison, u32)> = Vec::new();
    for host in &comparison.hosts {
        let shown = |group: &str| PARTS.iter().any(|(_, groups)| groups.contains(&group));
        let rows = host.rows.iter().filter(|row| row.metric.is_qps() && shown(&row.group));
        let mut threads: Vec<u32> = rows.map(|row| row.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        columns.extend(threads.into_iter().map(|threads| (host, threads)));
    }
    columns
}

fn cell(
    table: &mut Table,
    host: &HostComparison,
    threads: u32,
    target: &str,
    unsure: &mut bool,
) -> Cell {
    let faint = |text: &str| Cell { text: text.to_owned(), tone: Tone::Faint };
    let Some(index) = host.targets.iter().position(|name| name == target) else {
        return faint("-");
    };
    let rows = |groups: &'static [&str]| {
        host.rows.iter().filter(move |row| {
            row.metric.is_qps() && row.threads == threads && groups.contains(&row.group.as_str())
        })
    };
    let all = || PARTS.iter().flat_map(|(_, groups)| rows(groups)).map(|row| &row.cells[index]);
    if !all().any(|cell| cell.result.ratio().is_some()) {
        let same = all().any(|cell| cell.result == CellResult::SameCode);
        return match all().any(|cell| matches!(cell.result, CellResult::Failed { .. })) {
            true => Cell { text: "failed".to_owned(), tone: Tone::Bad },
            false => faint(if same { "same code" } else { "-" }),
        };
    }
    let (mut texts, mut marks) = (Vec::new(), Vec::new());
    for (word, groups) in PARTS {
        let results: Vec<&CellResult> = rows(groups).map(|row| &row.cells[index].result).collect();
        // The same server as the base's to the byte has its speed.
        let ratio = |result: &&CellResult| match result {
            CellResult::SameCode => Some(1.0),
            result => result.ratio(),
        };
        let ratios: Vec<f64> = results.iter().filter_map(ratio).collect();
        if ratios.is_empty() {
            texts.push("n/a".to_owned());
            continue;
        }
        let mark = if claimed(host, threads, groups, index) { "" } else { "*" };
        *unsure |= !mark.is_empty();
        texts.push(format!("{:.2}{mark}", mean(&ratios)));
        if ratios.len() < results.len() {
            let (some, all) = (ratios.len(), results.len());
            marks.push(format!("{word} over {some} of {all} microbenchmarks"));
        }
    }
    let mut text = texts.join("-");
    if !marks.is_empty() {
        let mark = table.footnote(marks.join(", "));
        text = format!("{text} {mark}");
    }
    Cell::plain(text)
}

/// Whether every group has a verdict: a difference is shown, or one that matters is ruled out.
fn claimed(host: &HostComparison, threads: u32, groups: &[&str], index: usize) -> bool {
    host.groups
        .iter()
        .filter(|group| group.threads == threads && groups.contains(&group.group.as_str()))
        .all(|group| match &group.cells[index].geomean {
            CellResult::SameCode => true,
            result => result
                .judged()
                .is_some_and(|judged| !matches!(judged.verdict, Verdict::Undecided { .. })),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Options, compare};
    use crate::record::Record;
    use crate::record::testing::{failed, record};

    fn texts(records: &[Record]) -> (Vec<Vec<String>>, Vec<(String, String)>) {
        let comparison = compare(records, "base", Options::default()).expect("comparable");
        let table = table(&comparison).expect("queries per second");
        let line = |row: &TableRow| match row {
            TableRow::Cells(cells) => cells.iter().map(|cell| cell.text.clone()).collect(),
            TableRow::Section(name) => vec![name.clone()],
        };
        let mut lines = vec![table.columns.iter().map(|column| column.name.clone()).collect()];
        lines.extend(table.rows.iter().map(line));
        (lines, table.footnotes)
    }

    #[test]
    fn hosts_stand_side_by_side_and_what_is_not_sure_is_marked() {
        let mut records = Vec::new();
        for block in 1..=4 {
            let noise = 1.0 + 0.001 * f64::from(block % 2);
            for (name, group, ratio) in [
                ("a", "point-1", 1.10),
                ("b", "point-2", 1.20),
                ("c", "range-1", 0.90),
                ("d", "writes", 1.30),
            ] {
                for (target, factor) in [("base", 1.0), ("t", ratio * noise)] {
                    let mut run = record(target, name, block, 1000.0 * factor);
                    run.group = group.to_owned();
                    if name == "d" && target == "t" && block > 1 {
                        run.outcome = failed(target, name, block, "disk full").outcome;
                    }
                    if block == 1 {
                        records.push(Record { host: "i".to_owned(), ..run.clone() });
                    }
                    records.push(run);
                }
            }
        }
        records.retain(|run| run.host == "h" || run.microbenchmark != "b");
        let (lines, notes) = texts(&records);
        assert_eq!(lines[0], ["target", "h", "i"]);
        // (1.10 + 1.20) / 2, times the noise; of the writes one pair is left.
        assert_eq!(lines[1], ["t", "1.15-0.90-1.30*", "1.10*-0.90*-1.30*"]);
        assert_eq!(notes[0].0, "*");
    }

    #[test]
    fn a_part_that_lacks_rows_says_so() {
        let mut records = Vec::new();
        for name in ["a", "b"] {
            for target in ["base", "t"] {
                let mut run = record(target, name, 1, 100.0);
                run.group = "writes".to_owned();
                if (target, name) == ("t", "b") {
                    run.outcome = failed(target, name, 1, "disk full").outcome;
                }
                records.push(run);
            }
        }
        let (lines, notes) = texts(&records);
        assert_eq!(lines[1], ["t", "n/a-n/a-1.00* (1)"]);
        assert_eq!(notes[1].1, "writes over 1 of 2 microbenchmarks");
    }
}
