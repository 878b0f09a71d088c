//! The report that pgbench prints at the end of a run, of any version since 9.

use crate::import::{Imported, Place, lines};

/// Reads one run: `tps` without the time to connect, and latencies in milliseconds. With several
/// scripts, each one's rate and latency are of the test `<test>/<script>`. A place without a test
/// gets the kind of transaction.
pub fn parse(place: &Place, text: &str, out: &mut Imported) {
    let mut place = place.clone();
    let header = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)).map(|it| it.trim_matches([':', ' ']))
    };
    if place.test.is_empty() {
        // Since 9.6 `<builtin: select only>`, before `SELECT only`.
        let kind = header("transaction type").unwrap_or("pgbench");
        let kind = kind.trim_matches(['<', '>']);
        place.test = kind.strip_prefix("builtin: ").unwrap_or(kind).to_owned();
    }
    place.threads = place.threads.or(header("number of clients").and_then(|it| it.parse().ok()));
    let (mut script, mut found) = (None, false);
    for (number, line) in lines(text) {
        if let Some(rest) = line.strip_prefix("SQL script ") {
            let name = rest.split_once(": ").map_or(rest, |(_, name)| name);
            let name = name.trim_matches(['<', '>']);
            let name = name.strip_prefix("builtin: ").unwrap_or(name);
            script = Some(place.testing(&format!("{}/{name}", place.test)));
            continue;
        }
        let place = script.as_ref().unwrap_or(&place);
        let line = line.strip_prefix(" - ").unwrap_or(line);
        if let Some((metric, value)) = figure(line) {
            found |= metric == "tps";
            out.add(place, number, metric, value);
        }
    }
    if !found {
        out.skip(&place, 0, "no line `tps = `: the run failed or the file is cut");
    }
}

/// The metric and the value of a line of the report.
fn figure(line: &str) -> Option<(&'static str, &str)> {
    if let Some(rest) = line.strip_prefix("tps = ") {
        // Before 14 there are two lines; the one that includes connecting is another figure.
        let (value, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        return if rest.contains("including") { None } else { Some(("tps", value)) };
    }
    if let Some((_, rest)) = line.split_once("% of total, tps = ") {
        return Some(("tps", rest.trim_end_matches(')')));
    }
    let (name, value) = line.split_once(" = ")?;
    let metric = match name {
        "latency average" => "latency-avg",
        "latency stddev" => "latency-stddev",
        "initial connection time" => "latency-connect",
        _ => return None,
    };
    value.strip_suffix(" ms").map(|value| (metric, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Imported {
        let mut out = Imported::default();
        parse(&Place::default(), text, &mut out);
        out
    }

    fn cells(out: &Imported) -> Vec<(&str, &str, &str)> {
        out.results.iter().map(|it| (&*it.test, &*it.metric, &*it.text)).collect()
    }

    #[test]
    fn since_14() {
        let out = read(
            "pgbench (15.4)\ntransaction type: <builtin: select only>\nscaling factor: 100\n\
             query mode: prepared\nnumber of clients: 8\nnumber of threads: 8\nduration: 60 s\n\
             number of transactions actually processed: 5000\n\
             number of failed transactions: 0 (0.000%)\nlatency average = 0.096 ms\n\
             latency stddev = 0.021 ms\ninitial connection time = 12.345 ms\n\
             tps = 83333.123456 (without initial connection time)\n",
        );
        let want = [
            ("select only", "latency-avg", "0.096"),
            ("select only", "latency-stddev", "0.021"),
            ("select only", "latency-connect", "12.345"),
            ("select only", "tps", "83333.123456"),
        ];
        assert_eq!(cells(&out), want);
        assert_eq!((out.results[0].threads, out.skipped.len()), (Some(8), 0));
    }

    #[test]
    fn before_14_and_cut() {
        let text = "transaction type: TPC-B (sort of)\nnumber of clients: 1\n\
                    tps = 100.5 (including connections establishing)\n\
                    tps = 101.5 (excluding connections establishing)\n";
        assert_eq!(cells(&read(text)), [("TPC-B (sort of)", "tps", "101.5")]);
        let cut = read("transaction type: <builtin: select only>\nscaling");
        assert_eq!((cut.results.len(), cut.skipped[0].line), (0, 0));
    }

    #[test]
    fn several_scripts() {
        let out = read(
            "transaction type: multiple scripts\ntps = 30.0 (without initial connection time)\n\
             SQL script 1: <builtin: TPC-B (sort of)>\n - weight: 1 (targets 50.0% of total)\n \
             - 500 transactions (49.0% of total, tps = 14.5)\n - latency average = 1.5 ms\n\
             SQL script 2: read.sql\n - 510 transactions (51.0% of total, tps = 15.5)\n",
        );
        let want = [
            ("multiple scripts", "tps", "30.0"),
            ("multiple scripts/TPC-B (sort of)", "tps", "14.5"),
            ("multiple scripts/TPC-B (sort of)", "latency-avg", "1.5"),
            ("multiple scripts/read.sql", "tps", "15.5"),
        ];
        assert_eq!(cells(&out), want);
    }
}
