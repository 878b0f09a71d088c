//! A table as somebody published it, TSV or CSV: one line of names, then values; `#` begins a
//! comment.
//!
//! What a column is follows from its name: `build`, `target`, `variant`, `dbms`, ... name targets,
//! `host` hosts, `test` tests, `group` groups; metrics have the names of
//! [`metric`](crate::import::metric). Any other column is a target below a line that begins with a
//! test or a host, and a test otherwise. Cells like `1.04-1.03-1.07` are the relative rates of
//! points, ranges and writes on the host that the column names.

use crate::import::{Imported, Place, lines, metric, names, number};

/// Reads a table.
pub fn parse(place: &Place, text: &str, out: &mut Imported) {
    let comments: Vec<&str> = text.lines().filter_map(|it| it.strip_prefix('#')).collect();
    let mut rows = lines(text).filter(|(_, it)| !it.starts_with('#') && !it.trim().is_empty());
    let Some((_, header)) = rows.next() else {
        out.skip(place, 0, "a table without a line of names");
        return;
    };
    let tabs = header.contains('\t');
    let names = cells(header, tabs);
    let rows: Vec<(u32, Vec<String>)> = rows.map(|(line, it)| (line, cells(it, tabs))).collect();
    let table = Table::new(place, &comments, &names, &rows);
    if !table.columns.iter().any(|it| matches!(it, Column::Metric | Column::Other)) {
        out.skip(place, 0, "a table without a column of numbers");
        return;
    }
    for (line, row) in rows {
        if row.len() != names.len() {
            let what = format!("{} columns where the names are {}: cut", row.len(), names.len());
            out.skip(place, line, what);
            continue;
        }
        table.row(line, &row, out);
    }
}

/// The cells of a line; in CSV, one in double quotes may hold commas.
fn cells(line: &str, tabs: bool) -> Vec<String> {
    if tabs {
        return line.split('\t').map(|it| it.trim().to_owned()).collect();
    }
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(it) = chars.next() {
        match it {
            // Two quotes in a quoted cell are one.
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            other => cell.push(other),
        }
    }
    cells.push(cell.trim().to_owned());
    cells
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Column {
    Target,
    Host,
    Test,
    Group,
    Threads,
    Comparison,
    Metric,
    Other,
    /// No number in it.
    Text,
}

impl Column {
    fn of(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "build" | "target" | "dbms" | "variant" | "name" | "tag" | "server" => Self::Target,
            "host" | "machine" => Self::Host,
            "test" | "microbenchmark" | "benchmark" | "step" | "operation" => Self::Test,
            "group" => Self::Group,
            "threads" | "clients" => Self::Threads,
            "comparison" | "base" => Self::Comparison,
            _ if metric::known(name) => Self::Metric,
            _ => Self::Other,
        }
    }
}

struct Table<'a> {
    place: Place,
    names: &'a [String],
    columns: Vec<Column>,
    ratio: bool,
    base: Option<String>,
    /// What the cells of columns that name no metric are.
    metric: &'static str,
}

impl<'a> Table<'a> {
    fn new(
        place: &Place,
        comments: &[&str],
        header: &'a [String],
        rows: &[(u32, Vec<String>)],
    ) -> Self {
        let says = |word: &str| {
            let comment = comments.iter().any(|it| it.to_ascii_lowercase().contains(word));
            comment || place.name().to_ascii_lowercase().contains(word)
        };
        let seconds = says("seconds") || header.iter().any(|it| metric::canonical(it) == "seconds");
        let mut columns: Vec<Column> = header.iter().map(|it| Column::of(it)).collect();
        for (at, column) in columns.iter_mut().enumerate() {
            let mut cells = rows.iter().filter_map(|(_, row)| row.get(at));
            let any = cells.any(|it| number(it).is_some() || dense(it).is_some() || it == "inf");
            if matches!(column, Column::Other | Column::Metric) && !any {
                *column = Column::Text;
            }
        }
        let label = |it: &Column| !matches!(it, Column::Other | Column::Metric | Column::Text);
        if !columns.iter().any(label)
            && let Some(first) = columns.first_mut()
        {
            *first = Column::Target;
        }
        let mut place = place.testing(&stem(place.name()));
        place.grouped = !seconds;
        if place.grouped {
            place.test = names::test(&place.test);
        }
        Self {
            place,
            names: header,
            columns,
            ratio: says("relative") || says("rqps") || says(".rel."),
            base: comments.iter().find_map(|it| base(it)).map(str::to_owned),
            metric: if seconds { "seconds" } else { "qps" },
        }
    }

    fn row(&self, line: u32, row: &[String], out: &mut Imported) {
        let mut place = self.place.clone();
        let (mut group, mut base) = (None, self.base.clone());
        for (column, cell) in self.columns.iter().zip(row) {
            match column {
                Column::Target => place.target.clone_from(cell),
                Column::Host => place.host = Some(cell.clone()),
                Column::Test => place.test = self.test(cell),
                Column::Group => {
                    group = Some(cell.clone());
                    place.test.clone_from(cell);
                }
                Column::Threads => place.threads = cell.parse().ok(),
                Column::Comparison => base = Some(cell.clone()),
                Column::Metric | Column::Other | Column::Text => {}
            }
        }
        let wide = !self.columns.contains(&Column::Target);
        for ((column, name), cell) in self.columns.iter().zip(self.names).zip(row) {
            let (metric, place) = match column {
                _ if cell.is_empty() => continue,
                Column::Metric => (metric::canonical(name), place.clone()),
                Column::Other if dense(cell).is_some() => {
                    let place = Place { host: Some(name.clone()), ..place.clone() };
                    self.dense(line, &place, cell, base.as_deref(), out);
                    continue;
                }
                Column::Other if wide => (self.metric, place.of(name)),
                Column::Other => (self.metric, place.testing(&self.test(name))),
                _ => continue,
            };
            let figure = if self.ratio {
                out.add_ratio(&place, line, metric, cell, base.as_deref())
            } else {
                out.add(&place, line, metric, cell)
            };
            if let Some(figure) = figure.filter(|_| group.is_some()) {
                figure.group.clone_from(&group);
            }
        }
    }

    fn test(&self, name: &str) -> String {
        if self.place.grouped { names::test(name) } else { name.to_owned() }
    }

    fn dense(&self, line: u32, place: &Place, cell: &str, base: Option<&str>, out: &mut Imported) {
        let parts = dense(cell).into_iter().flatten();
        for (group, text) in ["points", "ranges", "writes"].into_iter().zip(parts) {
            let place = Place { grouped: false, ..place.testing(group) };
            if let Some(figure) = out.add_ratio(&place, line, "qps", text, base) {
                figure.group = Some(group.to_owned());
            }
        }
    }
}

/// The three numbers of `1.04-1.03-1.07`.
fn dense(cell: &str) -> Option<[&str; 3]> {
    let mut parts = cell.split('-').filter(|it| number(it).is_some());
    let found = [parts.next()?, parts.next()?, parts.next()?];
    (found.join("-") == cell).then_some(found)
}

/// What a table of this name is of, when no column tells: the name without the words that say how
/// it is written, so that an absolute and a relative table of one thing are of one thing.
fn stem(name: &str) -> String {
    const WORDS: [&str; 14] = [
        "absolute", "relative", "abs", "rel", "metrics", "seconds", "total", "rqps", "qps",
        "dense", "groups", "tests", "tsv", "csv",
    ];
    let words: Vec<&str> = name.split('.').filter(|it| !WORDS.contains(it)).collect();
    if words.is_empty() { "table".to_owned() } else { words.join(".") }
}

/// The base that a comment names: `base build NAME`, `relative to the first build (NAME)`,
/// `new build / NAME`.
fn base(comment: &str) -> Option<&str> {
    let after = |marker: &str| {
        let at = comment.to_ascii_lowercase().find(marker)?;
        let name = comment.get(at + marker.len()..)?;
        let name = name.split(|it: char| it.is_whitespace() || ",;()".contains(it)).next()?;
        Some(name.trim_end_matches('.')).filter(|it| !it.is_empty())
    };
    ["base build ", "base is ", "base ", "first build (", "relative to ", " / "]
        .into_iter()
        .find_map(|marker| after(marker).filter(|it| *it != "the"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Imported {
        let mut out = Imported::default();
        parse(&Place { file: name.into(), ..Place::default() }, text, &mut out);
        out
    }

    fn cells_of(out: &Imported) -> Vec<(&str, &str, &str, &str)> {
        out.results.iter().map(|it| (&*it.target, &*it.test, &*it.metric, &*it.text)).collect()
    }

    #[test]
    fn tests_in_columns() {
        let out = read(
            "s.tests.seconds.tsv",
            "# seconds per test\nbuild\tATIS\tinsert\n5.0.85\t7\t528\n",
        );
        let want = [("5.0.85", "ATIS", "seconds", "7"), ("5.0.85", "insert", "seconds", "528")];
        assert_eq!(cells_of(&out), want);
        // Not the microbenchmark of that name.
        assert_eq!((&*out.results[1].unit, out.results[1].group.as_deref()), ("s", None));
        assert!(out.results[1].lower_is_better);
    }

    #[test]
    fn targets_in_columns_below_hosts() {
        let text = "# relative QPS, base my1\nhost\tmy2\tmy3\nbee\t0.78\t\nbox\t0.91\t0.85\n";
        let out = read("scan.rqps.tsv", text);
        let found = cells_of(&out);
        assert_eq!(found[0], ("my2", "scan_range=100", "qps", "0.78"));
        assert_eq!((found.len(), out.results[2].host.as_deref()), (3, Some("box")));
        assert_eq!((out.results[0].base.as_deref(), out.results[0].ratio), (Some("my1"), true));
    }

    #[test]
    fn metrics_with_the_target_last_and_ratios_of_them() {
        let out = read(
            "x.metrics.absolute.tsv",
            "cpu/o\to/s\tdbms\n0.5\t872\tmy1\n0.6\t\tmy2\n0.6\tmy3\n",
        );
        let want = [
            ("my1", "x", "cpu/o", "0.5"),
            ("my1", "x", "qps", "872"),
            ("my2", "x", "cpu/o", "0.6"),
        ];
        assert_eq!(cells_of(&out), want);
        assert_eq!((out.skipped.len(), out.skipped[0].line), (1, 4));
        let text = "# relative to the first build (my1)\ncpu/o,o/s,dbms\n1.20,inf,my2\n";
        let out = read("x.metrics.relative.csv", text);
        assert_eq!(cells_of(&out)[1], ("my2", "x", "qps", "inf"));
        assert_eq!(out.results[1].base.as_deref(), Some("my1"));
    }

    #[test]
    fn dense_cells_and_groups() {
        let text = "# mean relative QPS. Base build rel_o2; one column per host\nvariant\tamd\nlto\t1.08-1.06-0.90\n";
        let out = read("o.dense.tsv", text);
        let want = [
            ("lto", "points", "qps", "1.08"),
            ("lto", "ranges", "qps", "1.06"),
            ("lto", "writes", "qps", "0.90"),
        ];
        assert_eq!(cells_of(&out), want);
        let last = &out.results[2];
        assert_eq!((last.host.as_deref(), last.base.as_deref()), (Some("amd"), Some("rel_o2")));
        let text = "# relative QPS per group\ncomparison\tbuild\tgroup\tmin\tmax\nA vs B\tb\tpoint-1\t0.9\t1.2\n";
        let out = read("g.groups.tsv", text);
        assert_eq!(cells_of(&out)[1], ("b", "point-1", "max", "1.2"));
        let (group, base) = (out.results[1].group.as_deref(), out.results[1].base.as_deref());
        assert_eq!((group, base), (Some("point-1"), Some("A vs B")));
    }

    #[test]
    fn quotes_and_names() {
        assert_eq!(cells(r#"a,"b, ""c""", d"#, false), ["a", "b, \"c\"", "d"]);
        assert_eq!(
            stem("scan-fix.bee.metrics.absolute.tsv"),
            stem("scan-fix.bee.metrics.relative.tsv")
        );
        assert_eq!(stem("abs.tsv"), "table");
        assert_eq!(base(" new build / 5.0.85, as stated"), Some("5.0.85"));
        assert_eq!(base(" relative to the first one"), None);
        let flags = read("flags.tsv", "build\tflags\nmy1\t-O2 -g\n");
        assert_eq!((flags.results.len(), flags.skipped.len()), (0, 1));
        let noted = read("a.csv", "build,note,ATIS seconds\nmy1,slow disk,7\n");
        assert_eq!((noted.results.len(), noted.skipped.len()), (1, 0));
        assert_eq!(dense("1-2"), None);
        assert_eq!(dense("a-1-2-3"), None);
    }
}
