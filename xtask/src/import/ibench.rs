//! The insert benchmark: raw logs of clients (`o.ib.dop<D>.<n>`), the summary of a step (`o.res.*`)
//! and tables of one line per target and step (`o.sum.t.*`, `mrg.<step>`, `rel.<step>`).
//!
//! Runs until 2023 (generation A) make no deletes; their logs have 12 columns, later ones (B) 17.

use crate::import::{Imported, Place, lines, number};

/// Steps of a summary of one build, by how many there are: the file does not name them.
const STEPS: [&[&str]; 3] = [
    &["l.i0", "l.x", "l.i1", "q100", "q500", "q1000"],
    &["l.i0", "l.x", "l.i1", "l.i2", "qr100", "qp100", "qr500", "qp500", "qr1000", "qp1000"],
    &[
        "l.i0", "l.x", "l.i1", "q100.1", "q100.2", "q200.1", "q200.2", "q400.1", "q400.2",
        "q600.1", "q600.2", "q800.1", "q800.2", "q1000.1", "q1000.2",
    ],
];

/// Whether a folder's or a file's name is a step of the benchmark.
pub fn step(name: &str) -> bool {
    let mut load = ["l.i0", "l.x", "l.i1", "l.i2"].iter();
    let query = || {
        let rest = name.strip_prefix('q')?;
        let rest = rest.strip_prefix(['r', 'p']).unwrap_or(rest);
        let rest = rest.strip_prefix(".L").unwrap_or(rest);
        Some(rest.starts_with(|it: char| it.is_ascii_digit()))
    };
    load.any(|it| *it == name) || query() == Some(true)
}

/// Reads a table of 20 columns and a tag. A line `-` or of names begins a group, whose first line
/// is its base; a line of one word names the step of what follows, otherwise the place does. In a
/// summary of one build (`o.sum.t.*`) each line is a step.
///
/// Cells `NA` (too short a step for percentiles) are no figures. In `rel.*` the base is not
/// printed: the group's place in the file tells which one it is, `bases` has the targets of `mrg.*`
/// by group.
pub fn table(place: &Place, text: &str, bases: &[String], out: &mut Imported) {
    let ratio = place.name().starts_with("rel.");
    let summary = place.name().starts_with("o.sum");
    let rows = lines(text).filter(|(_, it)| it.contains('\t') && !it.starts_with("ips\t")).count();
    let steps = STEPS.into_iter().find(|it| it.len() == rows).filter(|_| summary);
    let (mut header, mut base): (Vec<&str>, Option<&str>) = (Vec::new(), None);
    let (mut groups, mut row, mut place) = (0_usize, 0_usize, place.clone());
    for (line, text) in lines(text) {
        let cells: Vec<&str> = text.split('\t').collect();
        let names = cells[0] == "ips";
        if names || text == "-" {
            groups += 1;
            base = None;
            if names {
                header = cells;
            }
            continue;
        }
        if cells.len() == 1 {
            if !text.trim().is_empty() {
                place.test = text.trim().to_owned();
            }
            continue;
        }
        if cells.len() != header.len() {
            let (is, wants) = (cells.len(), header.len());
            out.skip(&place, line, format!("{is} columns where the header has {wants}: cut"));
            continue;
        }
        let Some((tag, values)) = cells.split_last() else { continue };
        place.target = (*tag).to_owned();
        if summary {
            place.test = match steps {
                Some(steps) => steps[row].to_owned(),
                None => format!("step-{}", row + 1),
            };
            row += 1;
        }
        let first = *base.get_or_insert(tag);
        for (metric, text) in header.iter().zip(values).filter(|(_, text)| **text != "NA") {
            if ratio {
                let base = bases.get(groups.wrapping_sub(1)).map(String::as_str);
                out.add_ratio(&place, line, metric, text, base);
            } else if let Some(figure) = out.add(&place, line, metric, text) {
                figure.base = (!summary).then(|| first.to_owned());
            }
        }
    }
    if header.is_empty() {
        out.skip(&place, 0, "no line of names that begins with `ips`: cut");
    }
}

/// The first target of every group of a table, in order.
pub fn bases(text: &str) -> Vec<String> {
    let mut bases: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.starts_with("ips\t") || line == "-" {
            bases.push(String::new());
        } else if let Some((_, tag)) = line.rsplit_once('\t')
            && let Some(base) = bases.last_mut().filter(|it| it.is_empty())
        {
            tag.clone_into(base);
        }
    }
    bases
}

/// Reads the summary of one step: its first line, and of the percentiles the 50th and the 99th of a
/// single client.
pub fn result(place: &Place, text: &str, out: &mut Imported) {
    let Some((line, first)) = lines(text).find(|(_, it)| it.contains("rows-per-process")) else {
        out.skip(place, 0, "no line with `rows-per-process`: cut");
        return;
    };
    let words: Vec<&str> = first.split([' ', ',']).filter(|it| !it.is_empty()).collect();
    let value = |name: &str| {
        let at = words.iter().position(|it| *it == name)?;
        Some(words[at.checked_sub(1)?])
    };
    let clients = value("processes").and_then(|it| it.parse().ok());
    let place = Place { threads: place.threads.or(clients), ..place.clone() };
    let metrics =
        [("seconds", "seconds"), ("rows-per-second", "ips"), ("queries-per-second", "qps")];
    for (name, metric) in metrics {
        match value(name) {
            Some(text) => drop(out.add(&place, line, metric, text)),
            None => out.skip(&place, line, format!("no `{name}`: cut")),
        }
    }
    let queries = value("queries-per-second").and_then(number).is_some_and(|it| it > 0.0);
    for (name, metric) in [("50th,", "p50"), ("99th,", "p99")] {
        let mut found = lines(text).filter(|(_, it)| it.starts_with(name));
        let (Some((line, text)), None) = (found.next(), found.next()) else { continue };
        let rates: Vec<&str> = text.split_whitespace().collect();
        let kind = if queries { "query" } else { "insert," };
        let at = rates.iter().position(|it| *it == kind).and_then(|it| it.checked_sub(1));
        if let Some(rate) = at.map(|it| rates[it]).filter(|it| *it != "NA") {
            out.add(&place, line, metric, rate);
        }
    }
}

/// What the log of one client tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Client {
    /// The line of the last interval, from 1.
    pub line: u32,
    /// Seconds from its start to the last interval's end.
    pub seconds: f64,
    /// Rows inserted, rows deleted, queries.
    pub totals: [f64; 3],
    /// The worst response time of an insert, a delete and a query, in microseconds.
    pub worst: [f64; 3],
    /// Retries of any kind.
    pub retries: f64,
    /// (inserts, queries) per second by interval.
    pub intervals: Vec<(f64, f64)>,
}

/// Reads the log of one client; none without a single whole interval.
pub fn client(place: &Place, text: &str, out: &mut Imported) -> Option<Client> {
    let (mut header, mut client): (Vec<&str>, Client) = (Vec::new(), Client::default());
    for (line, text) in lines(text) {
        let cells: Vec<&str> = text.split('\t').collect();
        if cells[0] == "i_sec" {
            header = cells;
            continue;
        }
        // Histograms and totals are lines without tabs or of other words.
        if header.is_empty() || number(cells[0]).is_none() || !text.contains('\t') {
            continue;
        }
        let values: Option<Vec<f64>> = cells.iter().map(|it| number(it)).collect();
        let Some(values) = values.filter(|it| it.len() == header.len()) else {
            out.skip(place, line, "an interval without all its columns: cut");
            continue;
        };
        // Deletes are not there in logs of generation A.
        let at = |name: &str| {
            let at = header.iter().position(|it| *it == name);
            at.and_then(|at| values.get(at)).copied().unwrap_or_default()
        };
        client.line = line;
        client.seconds = at("t_sec");
        client.totals = ["t_ins", "t_del", "t_query"].map(at);
        for (worst, name) in client.worst.iter_mut().zip(["max_i", "max_d", "max_q"]) {
            *worst = worst.max(at(name));
        }
        client.retries = ["retry_i", "retry_d", "retry_q"].map(at).iter().sum();
        client.intervals.push((at("i_ips"), at("i_qps")));
    }
    if client.intervals.is_empty() || client.seconds <= 0.0 {
        out.skip(place, 0, "no whole interval below a line that begins with `i_sec`: cut");
        return None;
    }
    Some(client)
}

/// The figures of a step out of the logs of all its clients: totals per second of the longest one
/// (the summary `o.res` divides by the wall clock, which is somewhat longer), the 50th and 99th
/// percentile of the intervals' summed rates, from 10 intervals on, and the worst response times.
pub fn clients(place: &Place, clients: &[Client], out: &mut Imported) {
    let seconds = clients.iter().map(|it| it.seconds).fold(0.0, f64::max);
    let Some(first) = clients.first().filter(|_| seconds > 0.0) else { return };
    let count = u32::try_from(clients.len()).ok();
    let place = Place { threads: place.threads.or(count), ..place.clone() };
    let sum = |of: usize| clients.iter().map(|it| it.totals[of]).sum::<f64>();
    let mut tell = |metric: &str, decimals: usize, value: f64| {
        let text = format!("{value:.decimals$}");
        out.results.push(place.figure(first.line, metric, &text, value));
    };
    for (at, metric) in ["ips", "dps", "qps"].into_iter().enumerate() {
        tell(metric, 1, sum(at) / seconds);
    }
    for (at, metric) in ["max-insert", "max-delete", "max-query"].into_iter().enumerate() {
        let worst = clients.iter().map(|it| it.worst[at]).fold(0.0, f64::max);
        tell(metric, 3, worst / 1e6);
    }
    tell("retries", 0, clients.iter().map(|it| it.retries).sum());
    let length = clients.iter().map(|it| it.intervals.len()).min().unwrap_or_default();
    if length < 10 {
        return;
    }
    let queries = sum(2) > 0.0;
    let rate = |at: usize| {
        let rates =
            clients.iter().map(|it| if queries { it.intervals[at].1 } else { it.intervals[at].0 });
        rates.sum::<f64>()
    };
    let mut rates: Vec<f64> = (0..length).map(rate).collect();
    rates.sort_by(|a, b| b.total_cmp(a));
    for (metric, share) in [("p50", 0.5), ("p99", 0.99)] {
        // From the best down, so 99% of the intervals were as good.
        let at = (share * length as f64).round_ties_even().max(1.0) as usize;
        tell(metric, 0, rates[at.min(length) - 1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "ips\tqps\trps\tp50\tp99\ttag\n";

    fn read(name: &str, text: &str, bases: &[String]) -> Imported {
        let mut out = Imported::default();
        let test = name.split_once('.').map_or("", |(_, step)| step);
        let place = Place { file: name.into(), test: test.to_owned(), ..Place::default() };
        table(&place, text, bases, &mut out);
        out
    }

    #[test]
    fn tables_have_groups_with_bases() {
        let mrg = format!(
            "{NAMES}10\t0\t0\tNA\tNA\tmy1.c\n20\t0\t3\tNA\tNA\tmy2.c\n-\n5\t0\t0\t4\t3\tpg1.c\n5\t0\n"
        );
        let out = read("mrg.l.x", &mrg, &[]);
        assert_eq!((out.results.len(), out.skipped.len(), out.skipped[0].line), (11, 1, 6));
        let by_base: Vec<_> = out.results.iter().map(|it| it.base.as_deref().unwrap()).collect();
        assert_eq!((by_base[3], by_base[10]), ("my1.c", "pg1.c"));
        let first = &out.results[0];
        assert_eq!((&*first.test, &*first.build, &*first.config), ("l.x", "my1", "c"));
        assert_eq!(bases(&mrg), ["my1.c", "pg1.c"]);
        let rel = format!("{NAMES}2.00\t1\tinf\tNA\tNA\tmy2.c\n-\n1.00\t1\t1\t1.00\t1.00\tpg2.c\n");
        let out = read("rel.l.x", &rel, &bases(&mrg));
        assert_eq!(out.results.len(), 8);
        assert!(out.results.iter().all(|it| it.ratio && it.base.is_some()));
        assert_eq!(out.results[7].base.as_deref(), Some("pg1.c"));
    }

    #[test]
    fn sections_and_summaries_name_their_steps() {
        let out = read(
            "mrg.some",
            &format!("\nl.i0\n{NAMES}1\t0\t0\t1\t1\ta\n\nq100.2\n{NAMES}2\t1\t1\t1\t1\ta\n"),
            &[],
        );
        assert_eq!((&*out.results[0].test, &*out.results[9].test), ("l.i0", "q100.2"));
        let lines = "1\t0\t0\t1\t1\ta\n".repeat(6);
        let out = read("o.sum.t.a", &format!("{NAMES}{lines}"), &[]);
        assert_eq!((&*out.results[0].test, &*out.results[29].test), ("l.i0", "q1000"));
        let out = read("o.sum.t.a", &format!("{NAMES}1\t0\t0\t1\t1\ta\n"), &[]);
        assert_eq!((&*out.results[0].test, out.results[0].base.as_deref()), ("step-1", None));
        for name in ["l.i0", "l.x", "q100", "qr100.L1", "qp1000.L6", "q.L1.ips100", "q100.2"] {
            assert!(step(name), "{name}");
        }
        assert!(!step("results") && !step("q") && !step("query"));
    }

    #[test]
    fn the_summary_of_a_step() {
        let text = "2 processes, 10000000 rows-per-process, 194 seconds, 103092.7 rows-per-second, \
                    51546.3 rows-per-second-per-user, 0 queries, 0 queries-per-second, 1 deletes\n\
                    50th, 97 / 194 = 51000 insert, 50900 delete, 0 query\n\
                    99th, 192 / 194 = NA insert, NA delete, NA query\n";
        let mut out = Imported::default();
        result(&Place::default(), text, &mut out);
        let found: Vec<_> = out.results.iter().map(|it| (&*it.metric, &*it.text)).collect();
        let want = [("seconds", "194"), ("ips", "103092.7"), ("qps", "0"), ("p50", "51000")];
        assert_eq!(found, want);
        assert_eq!(out.results[0].threads, Some(2));
        let mut out = Imported::default();
        result(&Place::default(), "2 processes, 1 rows-per-process", &mut out);
        assert_eq!((out.results.len(), out.skipped.len()), (0, 3));
    }

    #[test]
    fn raw_logs_of_both_generations() {
        let b = "cmd\ni_sec\tt_sec\ti_ips\tt_ips\ti_dps\tt_dps\ti_qps\tt_qps\tmax_i\tmax_d\tmax_q\tt_ins\tt_del\tt_query\tretry_i\tretry_d\tretry_q\n";
        let a = "cmd\ni_sec\tt_sec\ti_ips\tt_ips\ti_qps\tt_qps\tmax_i\tmax_q\tt_ins\tt_query\tretry_i\tretry_q\n";
        let mut out = Imported::default();
        let log_b: String = (1..=10)
            .map(|it| {
                format!(
                    "1.0\t{it}.0\t{it}\t5\t{it}\t5\t0\t0\t2000\t9\t0\t{}\t7\t0\t1\t0\t2\n",
                    it * 10
                )
            })
            .collect();
        let place = Place::default();
        let new =
            client(&place, &format!("{b}{log_b}1.0\t11\nInsert rt:\t256us\nDone\n"), &mut out)
                .unwrap();
        assert_eq!((new.seconds, new.totals, new.retries), (10.0, [100.0, 7.0, 0.0], 3.0));
        assert_eq!((out.skipped.len(), out.skipped[0].line), (1, 13));
        let old =
            client(&place, &format!("{a}1.0\t1.0\t3\t3\t4\t4\t100\t50\t3\t4\t0\t0\n"), &mut out)
                .unwrap();
        assert_eq!((old.totals, old.worst), ([3.0, 0.0, 4.0], [100.0, 0.0, 50.0]));
        assert_eq!(client(&place, "cmd\n", &mut out), None);
        let mut out = Imported::default();
        clients(&place, &[new.clone(), new], &mut out);
        let find = |metric: &str| &*out.results.iter().find(|it| it.metric == metric).unwrap().text;
        assert_eq!([find("ips"), find("dps"), find("max-insert")], ["20.0", "1.4", "0.002"]);
        // Rates 20, 18 .. 2 downwards: the fifth and the tenth.
        assert_eq!([find("p50"), find("p99")], ["12", "2"]);
        assert_eq!(out.results[0].threads, Some(2));
    }
}
