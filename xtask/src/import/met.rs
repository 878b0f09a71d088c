//! `sb.met` (what the scripts condense one test to) and `o.met` (all tests of all targets).

use crate::import::{Imported, Place, lines, metric, names};

/// Reads an `sb.met`: two tables of one line, found by their headers. A test that made no operation
/// did not run: it is missing, not zero.
///
/// The rate of a load's (`sb.prepare.met`) operations is `ips`, of all others `qps`; that of a scan
/// is in thousands of rows per second.
pub fn single(place: &Place, text: &str, out: &mut Imported) {
    let load = names::file(place.name()).is_some_and(|it| it.kind == "prepare.met");
    let mut header: Option<Vec<&str>> = None;
    let (mut found, before) = (false, out.results.len());
    for (number, line) in lines(text) {
        let cells: Vec<&str> = line.split('\t').collect();
        if cells[0] == "samp" {
            header = Some(cells);
            continue;
        }
        let Some(names) = header.take() else { continue };
        if cells.len() != names.len() {
            let (is, wants) = (cells.len(), names.len());
            out.skip(place, number, format!("{is} columns where the header has {wants}: cut"));
            continue;
        }
        found = true;
        let rate = names.iter().position(|it| *it == "o/s").map(|at| cells[at]);
        if rate.is_some_and(|it| it.trim().is_empty() || it.parse() == Ok(0.0)) {
            out.results.truncate(before);
            out.skip(place, number, "no operations: the test failed");
            return;
        }
        for (name, cell) in names.iter().zip(&cells).filter(|(name, _)| **name != "samp") {
            let metric = if load && *name == "o/s" { "ips" } else { metric::canonical(name) };
            if let Some(figure) = out.add(place, number, metric, cell)
                && metric == "qps"
                && scan(&place.test)
            {
                figure.unit = scan_unit(place, &figure.text, figure.value).to_owned();
            }
        }
    }
    if !found {
        out.skip(place, 0, "no line of values below a header that begins with `samp`: cut");
    }
}

/// The usual unit of a scan's rate.
pub(super) const SCAN_UNIT: &str = "Krows/s";

/// The unit of a scan's rate as it is printed. It changed over the years: rows per second, then
/// thousands; one-line summaries and tables have millions with decimals. Nobody scans a million
/// times a thousand rows per second yet, so such a number counts rows.
pub(super) fn scan_unit(place: &Place, text: &str, value: f64) -> &'static str {
    let summary = place.name().starts_with("qps.") || place.name().starts_with("sb.r.");
    if summary && text.contains('.') {
        "Mrows/s"
    } else if value >= 1e6 {
        "rows/s"
    } else {
        SCAN_UNIT
    }
}

/// Whether a test is the scan or one of its warm-ups.
pub(super) fn scan(test: &str) -> bool {
    test == "scan" || test.starts_with("scan.") || test.starts_with("scan_")
}

/// Reads an `o.met`: per test a line with the name of the `sb.met`, then tables below
/// `--- absolute` and `--- relative ...`, whose header names the columns. Older ones lack `cs/o`.
///
/// The header and the relative lines have two tabs behind the first column, so empty columns do not
/// count; a line with fewer values than columns is left out.
pub fn all(place: &Place, text: &str, out: &mut Imported) {
    let mut state = Section { place: place.clone(), header: Vec::new(), base: None, part: None };
    for (number, line) in lines(text) {
        if line.trim().is_empty() {
            continue;
        }
        if let Some(part) = line.strip_prefix("---") {
            state.part = Some(if part.contains("absolute") { Part::Absolute } else { Part::Ratio });
            continue;
        }
        let cells: Vec<&str> = line.split('\t').filter(|it| !it.is_empty()).collect();
        if cells.len() == 1 {
            state.begin(place, cells[0]);
        } else if cells.last() == Some(&"dbms") {
            state.header = cells.iter().map(|it| metric::canonical(it)).collect();
        } else {
            state.row(number, &cells, out);
        }
    }
    if state.part.is_none() {
        out.skip(place, 0, "no line `--- absolute`");
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Absolute,
    Ratio,
}

struct Section<'a> {
    place: Place,
    header: Vec<&'a str>,
    /// The first target of the section.
    base: Option<&'a str>,
    part: Option<Part>,
}

impl<'a> Section<'a> {
    fn begin(&mut self, place: &Place, name: &str) {
        self.place = located(place, name);
        (self.base, self.part) = (None, None);
    }

    fn row(&mut self, number: u32, cells: &[&'a str], out: &mut Imported) {
        let (is, wants) = (cells.len(), self.header.len());
        let Some(part) = self.part.filter(|_| is == wants) else {
            out.skip(&self.place, number, format!("{is} values where {wants} are expected: cut"));
            return;
        };
        let Some((target, values)) = cells.split_last() else { return };
        let place = self.place.of(target);
        let base = *self.base.get_or_insert(target);
        let load = place.test == LOAD;
        for (name, text) in self.header.iter().zip(values) {
            let metric = if load && *name == "qps" { "ips" } else { name };
            if part == Part::Ratio {
                out.add_ratio(&place, number, metric, text, Some(base));
            } else if let Some(figure) = out.add(&place, number, metric, text) {
                figure.base = Some(base.to_owned());
                if metric == "qps" && scan(&place.test) {
                    figure.unit = scan_unit(&place, &figure.text, figure.value).to_owned();
                }
            }
        }
    }
}

/// The test that a load is called.
pub(super) const LOAD: &str = "load";

/// The place of a section or a file that is called like an `sb.*` file; another name is the test.
pub(super) fn located(place: &Place, name: &str) -> Place {
    match names::file(name) {
        Some(it) if it.kind.starts_with("prepare") => {
            Place { threads: None, grouped: false, ..place.testing(LOAD) }
        }
        Some(it) => Place { threads: it.dop, grouped: true, ..place.testing(&it.full()) },
        None => place.testing(name.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> Place {
        located(&Place { file: name.into(), target: "t".to_owned(), ..Place::default() }, name)
    }

    const MET: &str = "title\nsamp\tr/s\trMB/s\tw/s\twMB/s\tr/o\trKB/o\twKB/o\to/s\n\
                       904\t0.0\t0.0\t1055.5\t38.1\t0.000\t0.000\t5.038\t7742.59\n\n\
                       samp\tcs/s\tcpu/s\tcs/o\tcpu/o\n948\t44384\t12.9\t5.732\t0.001662\n";

    fn read(name: &str, text: &str) -> Imported {
        let mut out = Imported::default();
        single(&place(name), text, &mut out);
        out
    }

    #[test]
    fn one_test_has_twelve_figures_by_name() {
        let out = read("sb.met.insert.range100.pk1.dop1", MET);
        assert_eq!((out.results.len(), out.skipped.len()), (12, 0));
        let find = |metric: &str| out.results.iter().find(|it| it.metric == metric).unwrap();
        assert_eq!((find("qps").text.as_str(), find("qps").line), ("7742.59", 3));
        assert_eq!((find("cpu/o").value, find("cpu/o").line), (0.001662, 6));
        let insert = find("wKB/o");
        assert_eq!((insert.test.as_str(), insert.threads), ("insert_range=100", Some(1)));
        assert_eq!((insert.group.as_deref(), insert.lower_is_better), (Some("writes"), true));
        assert!(!find("qps").lower_is_better);
        let load = read("sb.prepare.met.point-query.warm.range100.pk1", MET);
        let rate = load.results.iter().find(|it| it.metric == "ips").unwrap();
        assert_eq!((rate.test.as_str(), rate.group.as_deref()), (LOAD, None));
        let scan = read("sb.met.scan.range100.pk1.dop1", MET);
        assert!(scan.results.iter().any(|it| it.unit == SCAN_UNIT));
    }

    #[test]
    fn scans_are_counted_in_three_units() {
        let table = Place { file: "qps.abs.all.tsv".into(), ..Place::default() };
        let old = scan_unit(&Place::default(), "3875218", 3_875_218.0);
        let units = [old, scan_unit(&table, "3.875", 3.875), scan_unit(&table, "97900", 97_900.0)];
        assert_eq!(units, ["rows/s", "Mrows/s", "Krows/s"]);
    }

    #[test]
    fn failed_and_cut_tests_are_missing() {
        for (rate, what) in [("0", "no operations"), ("", "no operations")] {
            let out = read("sb.met.insert.range100.pk1.dop1", &MET.replace("7742.59", rate));
            assert_eq!(out.results, []);
            assert!(out.skipped[0].what.starts_with(what), "{:?}", out.skipped);
            assert_eq!(out.skipped[0].line, 3);
        }
        let cut = read("sb.met.insert.range100.pk1.dop1", "title\nsamp\tr/s\to/s\n904\t0.0");
        assert_eq!(cut.results, []);
        assert_eq!(
            cut.skipped[0].to_string(),
            "sb.met.insert.range100.pk1.dop1:3: 2 columns where \
                                                the header has 3: cut"
        );
        let nan = read("sb.met.insert.range100.pk1.dop1", &MET.replace("0.001662", "-nan"));
        assert_eq!((nan.results.len(), nan.skipped.len()), (11, 1));
        assert!(read("sb.met.x.range1.pk1.dop1", "").skipped[0].what.contains("cut"));
    }

    #[test]
    fn all_tests_of_all_targets() {
        let text = "sb.met.scan.range100.pk1.dop4\n--- absolute\n\
                    cpu/o\t\tr/o\trKB/o\twKB/o\to/s\tdbms\n\
                    0.5\t0\t0\t0.25\t33\tx.my1.c.pk1\n0.7\t0\t0.1\t0\t30\tx.my2.c.pk1\n\
                    0.7\tx.my3.c.pk1\n\
                    --- relative to first result\n1.40\t\t1\tinf\t0.00\t0.91\tx.my2.c.pk1\n";
        let mut out = Imported::default();
        all(&Place::default(), text, &mut out);
        let absolute: Vec<_> = out.results.iter().filter(|it| !it.ratio).collect();
        assert_eq!((absolute.len(), out.results.len(), out.skipped.len()), (10, 15, 1));
        assert_eq!(out.skipped[0].line, 6);
        assert_eq!((absolute[0].threads, absolute[0].test.as_str()), (Some(4), "scan_range=100"));
        assert_eq!(absolute[9].base.as_deref(), Some("x.my1.c.pk1"));
        let inf = out.results.iter().find(|it| it.text == "inf").unwrap();
        assert_eq!((inf.metric.as_str(), inf.value), ("rKB/o", f64::INFINITY));
    }
}
