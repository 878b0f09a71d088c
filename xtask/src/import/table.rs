//! Tables of rates with one column per target: `qps.abs.*`, `qps.rel.*` (`.tsv`, `.csv`, and
//! hand-edited), and the one-line summaries `sb.r.*`.

use crate::import::{Imported, Place, lines, met, names};

/// The names that stand above a table: which target a column is, and what ratios are relative to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Legend {
    /// The base of ratios; none: the table is absolute.
    pub base: Option<String>,
    /// The targets, by column.
    pub columns: Vec<String>,
}

/// Reads the lines `Relative to: NAME` and `col-N : NAME`.
pub fn legend(text: &str) -> Legend {
    let mut legend = Legend::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let (name, value) = (name.trim(), value.trim());
        if name == "Relative to" {
            legend.base = Some(value.to_owned());
        } else if name.strip_prefix("col-").is_some_and(|it| it.parse::<u32>().is_ok()) {
            legend.columns.push(value.to_owned());
        }
    }
    legend
}

/// Reads a table of rates. `legend` is that of the table's twin: a `.csv` has none of its own, only
/// rows that begin with the test; without one its columns are called `col-N`.
///
/// Columns were pasted together by their position, so a test that one target lacks shifts the rest
/// of its column: a row that is too short tells of it, a table that is still full cannot.
pub fn rates(place: &Place, text: &str, twin: Option<&Legend>, out: &mut Imported) {
    let own = legend(text);
    let mut legend = if own.columns.is_empty() { twin.cloned().unwrap_or_default() } else { own };
    let relative = legend.base.is_some() || place.name().starts_with("qps.rel");
    for (number, line) in lines(text) {
        let Some((test, cells)) = row(line) else { continue };
        if legend.columns.is_empty() {
            legend.columns = (1..=cells.len()).map(|it| format!("col-{it}")).collect();
        }
        let (is, wants) = (cells.len(), legend.columns.len());
        if is != wants {
            let what =
                format!("{is} values of `{test}` for {wants} columns: a target lacks a test");
            out.skip(place, number, what);
            continue;
        }
        let place = Place { grouped: true, ..place.testing(&names::test(test)) };
        for (target, cell) in legend.columns.iter().zip(cells) {
            let place = place.of(target);
            let figure = if relative {
                out.add_ratio(&place, number, "qps", cell, legend.base.as_deref())
            } else {
                out.add(&place, number, "qps", cell)
            };
            if let Some(figure) = figure.filter(|it| !it.ratio) {
                figure.base = legend.columns.first().cloned();
                if met::scan(&place.test) {
                    figure.unit = met::scan_unit(&place, &figure.text, figure.value).to_owned();
                }
            }
        }
    }
}

/// (test, values) of a row; none for legend, headers, headings and blank lines.
fn row(line: &str) -> Option<(&str, Vec<&str>)> {
    let heading = line.starts_with("- ") || line.starts_with("col-") || line.contains(" : ");
    if heading || line.starts_with("Relative to") {
        return None;
    }
    let separator = if line.contains('\t') { '\t' } else { ',' };
    let mut cells: Vec<&str> = line.split(separator).map(str::trim).collect();
    if cells.len() < 2 {
        return None;
    }
    let test = if separator == ',' { cells.remove(0) } else { cells.pop()? };
    Some((test, cells))
}

/// Reads `sb.r.<what>`: one value per number of clients, then `<engine> <test> range=<R>`. The line
/// does not tell the numbers of clients: `dops` are those of the other files of this test.
pub fn one_line(place: &Place, text: &str, dops: &[u32], out: &mut Imported) {
    let metric = match names::file(place.name()).map(|it| it.kind) {
        Some("r.qps") => "qps",
        Some("r.trx") => "tps",
        Some("r.rtavg") => "latency-avg",
        Some("r.rtmax") => "latency-max",
        Some("r.rt95") => "latency-p95",
        _ => {
            out.skip(place, 0, "a summary whose name does not tell what it is of");
            return;
        }
    };
    let Some((number, line)) = lines(text).find(|(_, line)| !line.trim().is_empty()) else {
        out.skip(place, 0, "empty");
        return;
    };
    let mut values: Vec<&str> = line.split('\t').map(str::trim).collect();
    values.pop();
    if values.is_empty() {
        out.skip(place, number, "no value before the name of the test: cut");
        return;
    }
    if values.len() > 1 && values.len() != dops.len() {
        let what =
            format!("{} values, but files of {} numbers of clients", values.len(), dops.len());
        out.skip(place, number, what);
        return;
    }
    for (at, value) in values.iter().enumerate() {
        let place = Place { threads: dops.get(at).copied(), grouped: true, ..place.clone() };
        let scan = metric == "qps" && met::scan(&place.test);
        if let Some(figure) = out.add(&place, number, metric, value)
            && scan
        {
            figure.unit = met::scan_unit(&place, value, figure.value).to_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str, twin: Option<&Legend>) -> Imported {
        let mut out = Imported::default();
        rates(&Place { file: name.into(), ..Place::default() }, text, twin, &mut out);
        out
    }

    const ABSOLUTE: &str = "col-1 : x.my1.c.pk1\ncol-2 : x.my2.c.pk1\n\ncol-1\tcol-2\n\
                            100\t90\thot-points_range=100\n3\t4\tscan_range=100\n7\tinsert_range=100\n";

    #[test]
    fn a_table_and_its_twin() {
        let out = read("qps.abs.all.tsv", ABSOLUTE, None);
        let cells: Vec<_> =
            out.results.iter().map(|it| (&*it.target, &*it.test, &*it.text, it.line)).collect();
        let want = [
            ("x.my1.c.pk1", "hot-points_range=100", "100", 5),
            ("x.my2.c.pk1", "hot-points_range=100", "90", 5),
            ("x.my1.c.pk1", "scan_range=100", "3", 6),
            ("x.my2.c.pk1", "scan_range=100", "4", 6),
        ];
        assert_eq!(cells, want);
        assert_eq!(out.results[1].base.as_deref(), Some("x.my1.c.pk1"));
        assert_eq!(
            (out.results[0].unit.as_str(), out.results[2].unit.as_str()),
            ("queries/s", "Krows/s")
        );
        assert_eq!((out.skipped[0].line, out.skipped.len()), (7, 1));
        let csv = "hot-points_range=100,100,90\nscan_range=100,3,4\n";
        let twin = read("qps.abs.all.csv", csv, Some(&legend(ABSOLUTE)));
        let same: Vec<_> =
            twin.results.iter().map(|it| (&*it.target, &*it.test, &*it.text)).collect();
        assert_eq!(same, want.map(|(target, test, text, _)| (target, test, text)));
        assert_eq!(read("a.csv", csv, None).results[1].target, "col-2");
    }

    #[test]
    fn ratios_and_hand_edited_tables() {
        let text = "Relative to: my1.c\ncol-1 : my2.c\n\n- point queries\ncol-1\n0.90\thot-points\n\n\
                    - writes\ncol-1\ninf\tinsert\nNA\tdelete\n?\tupdate-one\n";
        let out = read("qps.rel.all.tsv.edit", text, None);
        let cells: Vec<_> = out.results.iter().map(|it| (&*it.test, &*it.text, it.ratio)).collect();
        assert_eq!(
            cells,
            [("hot-points_range=100", "0.90", true), ("insert_range=100", "inf", true)]
        );
        assert_eq!(out.results[0].base.as_deref(), Some("my1.c"));
        assert_eq!(out.results[0].group.as_deref(), Some("point-1"));
        assert_eq!((out.skipped.len(), out.skipped[0].line), (1, 12));
    }

    #[test]
    fn one_line_per_test() {
        let read = |name: &str, text: &str, dops: &[u32]| {
            let place = met::located(&Place { file: name.into(), ..Place::default() }, name);
            let mut out = Imported::default();
            one_line(&place, text, dops, &mut out);
            out
        };
        let name = "sb.r.qps.read-only.range100.pk1";
        let out = read(name, "490591\t5\tpgsql read-only range=100\n", &[1, 40]);
        let found: Vec<_> = out.results.iter().map(|it| (&*it.text, it.threads)).collect();
        assert_eq!(found, [("490591", Some(1)), ("5", Some(40))]);
        assert_eq!(read(name, "1\t2\tpgsql read-only range=100", &[]).results, []);
        assert_eq!(read(name, "1\tpgsql read-only range=100", &[]).results[0].threads, None);
        assert_eq!(read(name, "", &[]).skipped[0].what, "empty");
        let old = read("sb.r.qps.scan.range100.pk1", "3.456\tinnodb scan range=100", &[]);
        assert_eq!(old.results[0].unit, "Mrows/s");
    }
}
