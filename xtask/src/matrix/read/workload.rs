//! `[workload.NAME]`: what is run against each target.

use crate::diag::Diagnostic;
use crate::matrix::decode::{Entry, Mistakes, Node, Table, Text};
use crate::matrix::model::{LoadDriver, Placement, Source, Suite, Workload, WorkloadKind};
use crate::matrix::pattern::{glob_matches, is_glob};

mod command;
mod insert;
mod sqlbench;

/// The kinds of workloads.
const KINDS: [&str; 4] = ["sysbench", "command", "sql-bench", "insert-benchmark"];

/// The microbenchmarks that a workload may name.
#[derive(Clone, Debug)]
pub struct Known {
    /// All full names (`points-covered-si_range=100`), in run order.
    pub names: Vec<&'static str>,
    /// The full name that a full or short name means.
    pub find: fn(&str) -> Option<&'static str>,
}

/// A table of this size no longer fits any machine that runs this tool.
const ROWS_LIMIT: u64 = 100_000_000_000;

pub fn read(
    tables: Vec<(Entry<'_>, Table<'_>)>,
    sources: &[Source],
    known: &Known,
    mistakes: &mut Mistakes,
) -> Vec<Workload> {
    tables
        .into_iter()
        .map(|(entry, mut table)| {
            let workload = workload(&entry, &mut table, sources, known, mistakes);
            table.finish(mistakes);
            workload
        })
        .collect()
}

fn workload(
    entry: &Entry<'_>,
    table: &mut Table<'_>,
    sources: &[Source],
    known: &Known,
    mistakes: &mut Mistakes,
) -> Workload {
    let kind = table.need("kind", mistakes).and_then(|entry| entry.text(mistakes));
    let kind = match kind.as_ref().map_or(KINDS[0], |kind| kind.text) {
        "command" => WorkloadKind::Command(command::read(entry, table, mistakes)),
        "sql-bench" => WorkloadKind::SqlBench(sqlbench::read(entry, table, sources, mistakes)),
        "insert-benchmark" => WorkloadKind::InsertBenchmark(insert::read(table, mistakes)),
        "sysbench" => WorkloadKind::Sysbench(suite(entry, table, known, mistakes)),
        other => {
            let message = format!("`{other}` is not a kind of workload");
            let span = kind.as_ref().map_or(entry.key_span.clone(), |kind| kind.span.clone());
            mistakes.push(Diagnostic::at(&span, message).nearest(other, KINDS));
            // Most keys are those of this one: they are checked as well as can be.
            WorkloadKind::Sysbench(suite(entry, table, known, mistakes))
        }
    };
    let threads = table.get("threads").map_or(vec![1], |entry| threads(&entry, mistakes));
    let seed = integer(table, "seed", 0, i64::MAX as u64, mistakes).unwrap_or(1);
    let placement = table.get("placement").and_then(|entry| entry.text(mistakes));
    Workload {
        name: entry.key.to_owned(),
        kind,
        threads,
        seed,
        placement: placement.map_or(Placement::Auto, |word| self::placement(&word, mistakes)),
        span: entry.key_span.clone(),
    }
}

/// The keys of `kind = "sysbench"`.
fn suite(
    entry: &Entry<'_>,
    table: &mut Table<'_>,
    known: &Known,
    mistakes: &mut Mistakes,
) -> Suite {
    let tables = integer(table, "tables", 1, 10_000, mistakes).unwrap_or(1);
    let rows = table.need("rows", mistakes).and_then(|entry| rows(&entry, mistakes));
    let names = match table.get("microbenchmarks") {
        Some(entry) => microbenchmarks(&entry, known, mistakes),
        None => known.names.iter().map(|name| (*name).to_owned()).collect(),
    };
    let warmup_seconds = seconds(table, "warmup-seconds", 5.0, mistakes);
    let read_seconds = seconds(table, "read-seconds", 60.0, mistakes);
    let write_seconds = seconds(table, "write-seconds", 60.0, mistakes);
    for (key, value) in [("read-seconds", read_seconds), ("write-seconds", write_seconds)] {
        if value < 1.0 {
            let span = table.get(key).map_or(entry.key_span.clone(), |entry| entry.node.span());
            mistakes.push(Diagnostic::at(&span, format!("`{key}` is at least 1")));
        }
    }
    let prepared = table.get("prepared").and_then(|entry| entry.boolean(mistakes)).unwrap_or(true);
    let rate = table.get("rate").and_then(|entry| entry.number(1e-3, 1e9, mistakes));
    let error_limit = table.get("error-limit").and_then(|entry| entry.number(0.0, 1.0, mistakes));
    let driver = table.get("driver").and_then(|entry| entry.text(mistakes));
    let driver = driver.map_or(LoadDriver::BuiltIn, |word| driver_of(&word, mistakes));
    if let (LoadDriver::Sysbench, Some(entry)) = (driver, table.get("rate")) {
        let message = "`rate` needs the built-in driver: sysbench's own rate is another thing";
        mistakes.push(Diagnostic::at(&entry.key_span, message));
    }
    Suite {
        driver,
        tables: tables as u32,
        rows: rows.unwrap_or(1),
        names,
        warmup_seconds,
        read_seconds,
        write_seconds,
        prepared,
        patience_seconds: seconds(table, "patience-seconds", 1200.0, mistakes),
        rate,
        error_limit: error_limit.unwrap_or(0.01),
    }
}

fn driver_of(word: &Text<'_>, mistakes: &mut Mistakes) -> LoadDriver {
    match word.text {
        "built-in" => LoadDriver::BuiltIn,
        "sysbench" => LoadDriver::Sysbench,
        other => {
            let message = format!("`{other}` is not a load driver");
            let item = Diagnostic::at(&word.span, message);
            mistakes.push(item.nearest(other, ["built-in", "sysbench"]));
            LoadDriver::BuiltIn
        }
    }
}

/// A number of seconds of a key that may be missing.
fn seconds(table: &mut Table<'_>, key: &'static str, default: f64, mistakes: &mut Mistakes) -> f64 {
    table.get(key).and_then(|entry| entry.seconds(mistakes)).unwrap_or(default)
}

/// A whole number of a key that may be missing.
pub fn integer(
    table: &mut Table<'_>,
    key: &'static str,
    low: u64,
    high: u64,
    mistakes: &mut Mistakes,
) -> Option<u64> {
    let entry = table.get(key)?;
    entry.integer(entry.node, low, high, mistakes)
}

/// `30M`, `100k` (of 1000 each) or a plain number.
fn rows(entry: &Entry<'_>, mistakes: &mut Mistakes) -> Option<u64> {
    let Some(text) = entry.node.get_ref().as_str() else {
        return entry.integer(entry.node, 1, ROWS_LIMIT, mistakes);
    };
    let (digits, factor) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 1_000),
        Some('M') => (&text[..text.len() - 1], 1_000_000),
        Some('G' | 'B') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    let number = number.filter(|number| (1..=ROWS_LIMIT).contains(number));
    if number.is_none() {
        let needed = "a number of rows: 100000, \"100k\", \"30M\" (at most 100000M)";
        entry.wrong(entry.node, needed, mistakes);
    }
    number
}

fn threads(entry: &Entry<'_>, mistakes: &mut Mistakes) -> Vec<u32> {
    let one = [entry.node];
    let nodes: Vec<&Node<'_>> = match entry.node.get_ref().as_array() {
        Some(list) => list.iter().collect(),
        None => one.to_vec(),
    };
    if nodes.is_empty() {
        entry.wrong(entry.node, "at least one number of clients", mistakes);
    }
    let mut threads = Vec::new();
    for node in nodes {
        let Some(count) = entry.integer(node, 1, 10_000, mistakes) else { continue };
        if threads.contains(&(count as u32)) {
            mistakes.push(Diagnostic::at(&node.span(), format!("`{count}` is given twice")));
        }
        threads.push(count as u32);
    }
    threads
}

fn placement(word: &Text<'_>, mistakes: &mut Mistakes) -> Placement {
    let all = [
        ("auto", Placement::Auto),
        ("free", Placement::Free),
        ("together", Placement::Together),
        ("split", Placement::Split),
    ];
    let found = all.iter().find(|(name, _)| *name == word.text);
    if found.is_none() {
        let message = format!("`{}` is not a placement", word.text);
        let item = Diagnostic::at(&word.span, message);
        mistakes.push(item.nearest(word.text, all.iter().map(|(name, _)| *name)));
    }
    found.map_or(Placement::Auto, |(_, placement)| *placement)
}

/// Full names in the order of the words; a glob gives its matches in run order.
fn microbenchmarks(entry: &Entry<'_>, known: &Known, mistakes: &mut Mistakes) -> Vec<String> {
    let words = entry.one_or_more(mistakes);
    if entry.node.get_ref().as_array().is_some_and(|list| list.is_empty()) {
        entry.wrong(entry.node, "at least one microbenchmark", mistakes);
    }
    let mut chosen: Vec<String> = Vec::new();
    for word in words {
        let found: Vec<&str> = match is_glob(word.text) {
            true => known.names.iter().filter(|n| glob_matches(word.text, n)).copied().collect(),
            false => (known.find)(word.text).into_iter().collect(),
        };
        if found.is_empty() {
            let message = format!("microbenchmark `{}` is not known", word.text);
            let names = known.names.iter().copied();
            mistakes.push(Diagnostic::at(&word.span, message).nearest(word.text, names));
        }
        for name in found {
            if !chosen.iter().any(|known| known == name) {
                chosen.push(name.to_owned());
            } else if !is_glob(word.text) {
                let message = format!("microbenchmark `{name}` is given twice");
                mistakes.push(Diagnostic::at(&word.span, message));
            }
        }
    }
    chosen
}
