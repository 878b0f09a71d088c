//! `kind = "insert-benchmark"`.

use catalog::insert_benchmark::RATES;
use catalog::protocol::TableLayout;

use super::{rows, seconds};
use crate::diag::Diagnostic;
use crate::matrix::decode::{Mistakes, Table};
use crate::matrix::model::InsertBenchmark;

/// Reads the keys of this kind.
pub fn read(table: &mut Table<'_>, mistakes: &mut Mistakes) -> InsertBenchmark {
    let mut count = |key: &'static str, mistakes: &mut Mistakes| {
        table.need(key, mistakes).and_then(|entry| rows(&entry, mistakes)).unwrap_or(1)
    };
    let rows_to_load = count("rows", mistakes);
    let rows_to_write = count("write-rows", mistakes);
    let rates = match table.get("rates") {
        None => RATES.to_vec(),
        Some(entry) => {
            let Some(list) = entry.node.get_ref().as_array() else {
                entry.wrong(entry.node, "a list of rates, as in [100, 500, 1000]", mistakes);
                return fallback(rows_to_load, rows_to_write);
            };
            let mut rates = Vec::new();
            for node in list.iter() {
                let Some(rate) = entry.integer(node, 1, 1_000_000, mistakes) else { continue };
                if rates.contains(&(rate as u32)) {
                    let message = format!("rate `{rate}` is given twice");
                    mistakes.push(Diagnostic::at(&node.span(), message));
                }
                rates.push(rate as u32);
            }
            rates
        }
    };
    let read_seconds = seconds(table, "read-seconds", 300.0, mistakes);
    if read_seconds < 1.0 {
        mistakes.push(Diagnostic::at(&table.span, "`read-seconds` is at least 1"));
    }
    let mut flag = |key: &'static str, default: bool, mistakes: &mut Mistakes| {
        table.get(key).and_then(|entry| entry.boolean(mistakes)).unwrap_or(default)
    };
    let shared = flag("shared-table", false, mistakes);
    let deletes = flag("deletes", true, mistakes);
    InsertBenchmark {
        tables: if shared { TableLayout::Shared } else { TableLayout::PerClient },
        rates,
        read_seconds,
        deletes,
        patience_seconds: seconds(table, "patience-seconds", 1200.0, mistakes),
        ..fallback(rows_to_load, rows_to_write)
    }
}

fn fallback(rows_to_load: u64, rows_to_write: u64) -> InsertBenchmark {
    InsertBenchmark {
        rows_to_load,
        rows_to_write,
        tables: TableLayout::PerClient,
        rates: RATES.to_vec(),
        read_seconds: 300.0,
        deletes: true,
        patience_seconds: 1200.0,
    }
}
