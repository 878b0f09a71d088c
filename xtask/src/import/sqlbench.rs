//! sql-bench: the output of one test (`<test>-<server>-<machine>`) and the summary of all
//! (`RUN-<server>-<machine>`). Seconds of the wall clock, lower is better.
//!
//! Lines that begin with `Estimated` and rows marked `+` are extrapolated from loops that were cut
//! at a time limit: they are no measurements and are left out.

use catalog::SQL_BENCH_TESTS;

use crate::import::{Imported, Place, lines, short};

/// (test, server with its suffix) of a file's name; the summary's test is empty.
pub fn name(name: &str) -> Option<(&'static str, &str)> {
    let (test, rest) = match name.strip_prefix("RUN-") {
        Some(rest) => ("", rest),
        None => SQL_BENCH_TESTS
            .iter()
            .find_map(|test| Some((*test, name.strip_prefix(test)?.strip_prefix('-')?)))?,
    };
    // The machine is behind the last hyphen: `mysql-5.6.21-ps-Linux_3.13_x86_64`.
    let server = rest.rsplit_once('-').map_or(rest, |(server, _)| server);
    Some((test, server))
}

/// Reads the output of one test: an operation per line, `<test>/<operation>`, and the total as the
/// test itself.
pub fn test(place: &Place, text: &str, out: &mut Imported) {
    let mut last = None;
    for (line, text) in lines(text) {
        let text = text.trim();
        if !text.is_empty() {
            last = Some((line, text));
        }
        let Some(it) = timed(text) else { continue };
        let place = match it.what {
            Some(operation) => place.testing(&format!("{}/{operation}", place.test)),
            None => place.clone(),
        };
        if it.estimated {
            out.skip(&place, line, format!("`{}` is an estimate", place.test));
        } else {
            out.add(&place, line, "seconds", it.seconds);
        }
    }
    match last {
        Some((_, text)) if text.contains("otal time:") => {}
        Some((line, text)) => {
            out.skip(
                place,
                line,
                format!("ends with `{}` and not with a total: failed", short(text)),
            );
        }
        None => out.skip(place, 0, "empty"),
    }
}

/// One line with a time.
struct Timed<'a> {
    /// The operation; none for the total.
    what: Option<&'a str>,
    seconds: &'a str,
    estimated: bool,
}

/// `Time for|to <name> (<counts>)...: <W> wallclock secs (...)` and `Total time: ...`, with
/// `Estimated` before an extrapolation.
fn timed(line: &str) -> Option<Timed<'_>> {
    let (head, _) = line.split_once(" wallclock sec")?;
    let (head, seconds) = head.rsplit_once(' ')?;
    let estimated = head.starts_with("Estimated");
    let head = head.strip_prefix("Estimated ").unwrap_or(head);
    let head = head.trim_end().strip_suffix(':')?;
    if head.eq_ignore_ascii_case("total time") {
        return Some(Timed { what: None, seconds, estimated });
    }
    let rest = head.strip_prefix("Time ").or_else(|| head.strip_prefix("time "))?;
    let rest = rest.strip_prefix("for ").or_else(|| rest.strip_prefix("to "))?;
    let operation = rest.split(" (").next()?.trim();
    Some(Timed { what: Some(operation), seconds, estimated })
}

/// Reads the summary: the total of every test, and from the table below `Totals per operation` the
/// operations as `operation/<name>` and all together as `total`.
///
/// A failed test leaves the totals smaller without a mark beside them, so it is said.
pub fn run(place: &Place, text: &str, out: &mut Imported) {
    let (mut table, mut total) = (false, false);
    for (line, text) in lines(text) {
        if text.starts_with("Totals per operation") {
            table = true;
        } else if table {
            total |= operation(place, line, text, out);
        } else if text.starts_with("Of ") && text.contains("didn't work") {
            out.skip(place, line, format!("{}: `total` is of fewer tests", short(text)));
        } else if let Some((test, rest)) = text.split_once(": ") {
            let test = test.trim();
            if !SQL_BENCH_TESTS.contains(&test) {
                continue;
            }
            match timed(rest.trim()) {
                Some(it) if it.what.is_none() && !it.estimated => {
                    out.add(&place.testing(test), line, "seconds", it.seconds);
                }
                Some(_) => out.skip(place, line, format!("`{test}` is an estimate")),
                None => out.skip(place, line, format!("`{test}`: {}", short(rest))),
            }
        }
    }
    if !total {
        out.skip(place, 0, "no line `TOTALS`: cut");
    }
}

/// A row of the table: name, seconds, usr, sys, CPU, tests, and flags. Whether it is the last one.
fn operation(place: &Place, line: u32, text: &str, out: &mut Imported) -> bool {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let flags = |it: &&str| it.bytes().all(|it| it == b'+' || it == b'?');
    let estimated = words.last().is_some_and(|it| flags(it) && it.contains('+'));
    if words.last().is_some_and(flags) {
        words.pop();
    }
    let Some(at) = words.len().checked_sub(5).filter(|it| *it > 0) else { return false };
    if words[0] == "Operation" {
        return false;
    }
    let name = words[..at].join(" ");
    let total = name == "TOTALS";
    let test = if total { "total".to_owned() } else { format!("operation/{name}") };
    if estimated {
        out.skip(place, line, format!("`{test}` holds an estimate"));
    } else {
        out.add(&place.testing(&test), line, "seconds", words[at]);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parse: fn(&Place, &str, &mut Imported), text: &str) -> Imported {
        let mut out = Imported::default();
        parse(&Place { test: "insert".to_owned(), ..Place::default() }, text, &mut out);
        out
    }

    fn cells(out: &Imported) -> Vec<(&str, &str, u32)> {
        out.results.iter().map(|it| (&*it.test, &*it.text, it.line)).collect()
    }

    #[test]
    fn one_test() {
        let text = "Testing server 'MySQL 5.6.21' at 2014-10-01\n\n\
                    Time for insert (300000): 27 wallclock secs ( 5.76 usr  2.94 sys =  8.70 CPU)\n\
                    Estimated time for select_big (70:17207): 12 wallclock secs ( 0.17 CPU)\n\
                    Time to drop table (1:2) on all: 0.5 wallclock secs ( 0.00 usr =  0.00 CPU)\n\
                    Total time: 553 wallclock secs (100.63 usr 28.40 sys +  0.00 cusr =  129.03 CPU)\n\n";
        let out = read(test, text);
        let want =
            [("insert/insert", "27", 3), ("insert/drop table", "0.5", 5), ("insert", "553", 6)];
        assert_eq!(cells(&out), want);
        assert!(out.results[0].lower_is_better);
        assert_eq!(out.skipped.len(), 1, "{:?}", out.skipped);
        assert_eq!(out.skipped[0].line, 4);
        let failed = read(test, "Time for insert (1): 27 wallclock secs ( 5 usr)\nDied at x\n");
        assert_eq!((failed.results.len(), failed.skipped[0].line), (1, 2));
        assert_eq!(read(test, "").skipped[0].what, "empty");
    }

    #[test]
    fn the_summary() {
        let text = "Benchmark DBD suite: 2.15\nDate of test:        2014-10-01\n\n\
                    alter-table: Total time: 18 wallclock secs ( 0.10 usr  0.07 sys =  0.17 CPU)\n\
                    ATIS: Failed (output/ATIS-mysql)\n\
                    create: Estimated total time: 99 wallclock secs ( 0.10 usr =  0.17 CPU)\n\n\
                    Of 3 tests, 1 tests didn't work\n\nTotals per operation:\n\
                    Operation             seconds     usr     sys     cpu   tests\n\
                    alter_table_add                      10.00    0.02    0.01    0.03     100 \n\
                    select_big                           12.00    0.02    0.01    0.03     100 +\n\
                    TOTALS                             1080.00  200.02   50.01  250.03 3000000 ?\n";
        let out = read(run, text);
        let want = [
            ("alter-table", "18", 4),
            ("operation/alter_table_add", "10.00", 12),
            ("total", "1080.00", 14),
        ];
        assert_eq!(cells(&out), want);
        let said: Vec<u32> = out.skipped.iter().map(|it| it.line).collect();
        assert_eq!(said, [5, 6, 8, 13]);
        assert_eq!(read(run, "RUN\n").skipped[0].what, "no line `TOTALS`: cut");
    }

    #[test]
    fn names_of_files() {
        assert_eq!(name("alter-table-mysql-Linux_3.13_x86_64"), Some(("alter-table", "mysql")));
        assert_eq!(name("RUN-mysql-5.6.21-ps-Linux_3"), Some(("", "mysql-5.6.21-ps")));
        assert_eq!(name("selection-mysql-x"), None);
    }
}
