//! What explains a difference: metrics per operation of every target, absolute and relative to the
//! base, as `vmstat` and `iostat` would give them and by the server's own processes.

use super::table::{Cell, Column, Table, TableRow, Tone};
use super::view::quantity;
use crate::compare::{HostComparison, Metrics, Row};

/// A column: its heading, and where its number is.
struct Figure {
    heading: &'static str,
    of: fn(&Metrics) -> Option<f64>,
}

/// In the order of the published tables (`cpu/o cs/o r/o rKB/o wKB/o o/s`), then what they lack.
const FIGURES: [Figure; 13] = [
    Figure { heading: "o/s", of: |m| Some(m.value) },
    Figure { heading: "cpu/o us", of: |m| m.machine_cpu_us },
    Figure { heading: "cs/o", of: |m| m.machine_context_switches },
    Figure { heading: "r/o", of: |m| m.device_reads },
    Figure { heading: "rKB/o", of: |m| m.device_read_kib },
    Figure { heading: "wKB/o", of: |m| m.device_written_kib },
    Figure { heading: "server us/o", of: |m| m.server_cpu_us },
    Figure { heading: "client us/o", of: |m| m.client_cpu_us },
    Figure { heading: "client %", of: client_share },
    Figure { heading: "p99 us", of: |m| m.p99_us },
    Figure { heading: "write amp", of: |m| m.write_amplification },
    Figure { heading: "memory MiB", of: |m| m.memory_kib.map(|kib| kib / 1024.0) },
    Figure { heading: "data MiB", of: |m| m.data_kib.map(|kib| kib / 1024.0) },
];

/// The client's share of the CPU time of server and client, in percent: where it is large the
/// client is what is measured.
fn client_share(metrics: &Metrics) -> Option<f64> {
    let (client, server) = (metrics.client_cpu_us?, metrics.server_cpu_us?);
    (client + server > 0.0).then(|| 100.0 * client / (client + server))
}

/// The absolute and the relative table of a host; rows that are no rate (times) are in neither.
pub fn tables(base: &str, host: &HostComparison) -> [Table; 2] {
    let mut absolute = table(
        "Per operation: CPU, context switches and I/O of the whole machine (cpu/o, cs/o, r/o, rKB/o, \
         wKB/o); CPU of server and client alone; sizes at the end of the window. Plain means over \
         runs, without intervals.",
    );
    let mut relative = table(
        "The same relative to the base; 0/0 is 1. Above 1 is more, which is better of o/s alone.",
    );
    for row in host.rows.iter().filter(|row| row.metric.unit == "1/s") {
        let name = heading(host, row);
        for table in [&mut absolute, &mut relative] {
            table.rows.push(TableRow::Section(name.clone()));
        }
        let Some(of_base) = &row.base else { continue };
        absolute.rows.push(line(base, |figure| (figure.of)(of_base).map(quantity)));
        for cell in &row.cells {
            let Some(metrics) = &cell.metrics else { continue };
            absolute.rows.push(line(&cell.target, |figure| (figure.of)(metrics).map(quantity)));
            relative.rows.push(line(&cell.target, |figure| {
                Some(relative_to((figure.of)(metrics)?, (figure.of)(of_base)?))
            }));
        }
    }
    [absolute, relative]
}

fn heading(host: &HostComparison, row: &Row) -> String {
    let several = host.rows.iter().any(|other| other.threads != row.threads);
    let threads = if several { format!(" x{}", row.threads) } else { String::new() };
    let metric = if row.metric.is_qps() { "" } else { row.metric.name.as_str() };
    format!("{}{threads} {metric}", row.microbenchmark).trim_end().to_owned()
}

fn table(title: &str) -> Table {
    let mut columns = vec![Column::left("target")];
    columns.extend(FIGURES.iter().map(|figure| Column::right(figure.heading)));
    Table { title: title.to_owned(), columns, fixed: 1, ..Table::default() }
}

fn line(target: &str, text: impl Fn(&Figure) -> Option<String>) -> TableRow {
    let mut cells = vec![Cell::plain(format!("  {target}"))];
    cells.extend(FIGURES.iter().map(|figure| match text(figure) {
        Some(text) => Cell::plain(text),
        None => Cell { text: "-".to_owned(), tone: Tone::Faint },
    }));
    TableRow::Cells(cells)
}

/// A ratio as the published tables have it: 0/0 is 1, x/0 is inf.
pub fn relative_to(value: f64, base: f64) -> String {
    match (value == 0.0, base == 0.0) {
        (true, true) => "1.00".to_owned(),
        (false, true) => "inf".to_owned(),
        _ => format!("{:.2}", value / base),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Options, compare};
    use crate::record::testing::record;
    use crate::record::{DeviceUsage, MachineUsage, Outcome, Record};

    #[test]
    fn ratios_of_nothing() {
        let cases = [(0.0, 0.0, "1.00"), (2.0, 0.0, "inf"), (0.0, 2.0, "0.00"), (1.0, 3.0, "0.33")];
        for (value, base, text) in cases {
            assert_eq!(relative_to(value, base), text);
        }
    }

    #[test]
    fn absolute_and_relative_stand_beside_each_other() {
        let run = |target: &str, qps: f64, cpu: f64| -> Record {
            let mut record = record(target, "scan", 1, qps);
            let Outcome::Ok(sample) = &mut record.outcome else { panic!("measured") };
            let queries = sample.queries as f64;
            sample.machine = Some(MachineUsage {
                user_seconds: cpu * queries * 1e-6,
                context_switches: 3 * sample.queries,
                device: Some(DeviceUsage { written_kib: queries / 4.0, ..DeviceUsage::default() }),
                ..MachineUsage::default()
            });
            record
        };
        let records = [run("base", 100.0, 50.0), run("t", 200.0, 25.0)];
        let comparison = compare(&records, "base", Options::default()).expect("comparable");
        let [absolute, relative] = tables("base", &comparison.hosts[0]);
        let texts = |table: &Table, row: usize| -> Vec<String> {
            match &table.rows[row] {
                TableRow::Cells(cells) => cells.iter().map(|cell| cell.text.clone()).collect(),
                TableRow::Section(name) => vec![name.clone()],
            }
        };
        assert_eq!(texts(&absolute, 0), ["scan"]);
        let expected = ["  base", "100", "50.0", "3.00", "0", "0", "0.250"];
        assert_eq!(texts(&absolute, 1)[..7], expected);
        let expected = ["  t", "2.00", "0.50", "1.00", "1.00", "1.00", "1.00"];
        assert_eq!(texts(&relative, 1)[..7], expected);
        assert_eq!(texts(&relative, 1)[11], "-", "memory was not noted");
    }
}
