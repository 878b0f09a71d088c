//! The text that sysbench prints at the end of a run, as 1.0.20 and 1.1 lay it out.
//!
//! Every line is taken by its own beginning, so texts of other programs before and between (EXPLAIN
//! output of the scripts, warnings) do not matter. The rate on the line `queries:` is the one that
//! counts: the total of `Threads fairness` may hold warm-up events. BEGIN and COMMIT are queries.

use crate::import::{Imported, Place, lines, met, short};

/// Reads one run. Without a line `queries:` or `events per second:` there are no figures: the run
/// failed or the file is cut. A place without a test gets the script's name.
pub fn parse(place: &Place, text: &str, out: &mut Imported) {
    let mut run = Run::default();
    for (number, line) in lines(text) {
        run.line(number, line);
    }
    let mut place = place.clone();
    if place.test.is_empty() {
        place.test = run.script.unwrap_or("sysbench").to_owned();
    }
    place.threads = place.threads.or(run.threads);
    for (number, message) in &run.fatal {
        out.skip(&place, *number, format!("sysbench says `{}`", short(message)));
    }
    if run.rates.is_empty() {
        out.skip(&place, 0, "no line `queries:`: the run failed or the file is cut");
        return;
    }
    let scans = met::scan(&place.test) || run.script == Some("oltp_scan");
    for (number, metric, text) in &run.rates {
        if !(scans && *metric == "qps") {
            out.add(&place, *number, metric, text);
        }
    }
    if scans {
        scan(&place, &run, out);
    }
    for (number, name, text) in &run.latency {
        out.add(&place, *number, &format!("latency-{name}"), text);
    }
}

/// The rate of a scan: thousands of rows per second over all threads. A mean of few scans has more
/// digits than their rate: threads x rows of a table / mean time of a scan.
fn scan(place: &Place, run: &Run<'_>, out: &mut Imported) {
    let average = run.latency.iter().find(|(_, name, _)| name == "avg");
    let known = (average, place.threads, run.rows, run.rates.first());
    let (Some((number, _, average)), Some(threads), Some(rows), Some(_)) = known else {
        out.skip(place, 0, "a scan without `--table-size`, threads or latency: no rate in rows");
        return;
    };
    let milliseconds: f64 = average.parse().unwrap_or_default();
    if milliseconds > 0.0 {
        let rate = f64::from(threads) * rows / milliseconds;
        if let Some(figure) = out.add(place, *number, "qps", &format!("{rate:.0}")) {
            figure.unit = met::SCAN_UNIT.to_owned();
        }
    }
}

#[derive(Default)]
struct Run<'a> {
    script: Option<&'a str>,
    /// Rows of a table.
    rows: Option<f64>,
    threads: Option<u32>,
    rates: Vec<(u32, &'static str, &'a str)>,
    latency: Vec<(u32, String, &'a str)>,
    in_latency: bool,
    fatal: Vec<(u32, &'a str)>,
}

impl<'a> Run<'a> {
    fn line(&mut self, number: u32, line: &'a str) {
        if line.starts_with("FATAL:") {
            self.fatal.push((number, line));
        } else if line.contains("sysbench") && line.contains("--") {
            self.command(line);
        }
        let Some((name, value)) = line.split_once(':') else { return };
        let (name, value) = (name.trim(), value.trim());
        let indented = line.starts_with(' ');
        if !indented {
            self.in_latency = name == "Latency (ms)";
            if name == "Number of threads" {
                self.threads = value.parse().ok();
            }
            return;
        }
        let metric = match name {
            "queries" => "qps",
            "transactions" => "tps",
            "ignored errors" => "errors/s",
            "reconnects" => "reconnects/s",
            // Tests of the processor, of memory, ...
            "events per second" => {
                self.rates.push((number, "eps", value));
                return;
            }
            _ if self.in_latency => {
                let name = match name.split_once("th percentile") {
                    Some((percent, _)) => format!("p{percent}"),
                    None => name.to_owned(),
                };
                // The sum says nothing that rate and mean do not.
                if name != "sum" {
                    self.latency.push((number, name, value));
                }
                return;
            }
            _ => return,
        };
        let rate = value.split_once('(').and_then(|(_, rest)| rest.strip_suffix(" per sec.)"));
        self.rates.extend(rate.map(|rate| (number, metric, rate)));
    }

    /// The line of a script that says what it starts.
    fn command(&mut self, line: &'a str) {
        for word in line.split_whitespace() {
            if let Some(rows) = word.strip_prefix("--table-size=") {
                self.rows = crate::import::number(rows);
            } else if let Some(threads) = word.strip_prefix("--threads=") {
                self.threads = threads.parse().ok();
            } else if let Some(path) = word.strip_suffix(".lua") {
                self.script = path.rsplit('/').next();
            } else if word.starts_with("oltp_") {
                self.script = Some(word);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "/opt/sysbench --table-size=1000 --threads=2 /opt/lua/oltp_point_select.lua run\n\
                       sysbench 1.1.0-3ceba0b (using bundled LuaJIT 2.1.0-beta3)\n\n\
                       Number of threads: 2\n\
                       [ 1s ] thds: 2 tps: 9.00 qps: 9.00 (r/w/o: 9.00/0.00/0.00) \
                       lat (ms,95%): 0.10 err/s: 0.00 reconn/s: 0.00\nSQL statistics:\n\
                       \x20   queries performed:\n        read:                            900\n\
                       \x20       total:                           900\n\
                       \x20   transactions:                        900 (15.82 per sec.)\n\
                       \x20   queries:                             1800 (31.64 per sec.)\n\
                       \x20   ignored errors:                      3      (0.05 per sec.)\n\
                       \x20   reconnects:                          0      (0.00 per sec.)\n\n\
                       Throughput:\n    events/s (eps):                      15.8245\n\n\
                       Latency (ms):\n         min:                                    0.05\n\
                       \x20        avg:                                    0.06\n\
                       \x20        max:                                    0.89\n\
                       \x20        95th percentile:                        0.07\n\
                       \x20        sum:                               598812.61\n\n\
                       Threads fairness:\n    events (avg/stddev):           960.0000/0.00\n";

    fn read(test: &str, text: &str) -> Imported {
        let mut out = Imported::default();
        parse(&Place { test: test.to_owned(), ..Place::default() }, text, &mut out);
        out
    }

    fn texts(out: &Imported) -> Vec<(&str, &str)> {
        out.results.iter().map(|it| (it.metric.as_str(), it.text.as_str())).collect()
    }

    #[test]
    fn version_1_1() {
        let out = read("", NEW);
        let want = [
            ("tps", "15.82"),
            ("qps", "31.64"),
            ("errors/s", "0.05"),
            ("reconnects/s", "0.00"),
            ("latency-min", "0.05"),
            ("latency-avg", "0.06"),
            ("latency-max", "0.89"),
            ("latency-p95", "0.07"),
        ];
        assert_eq!(texts(&out), want);
        assert_eq!(
            (out.results[0].test.as_str(), out.results[0].threads),
            ("oltp_point_select", Some(2))
        );
        assert_eq!(out.skipped, []);
    }

    #[test]
    fn version_1_0_20_has_no_throughput() {
        let text = NEW.replace(
            "Throughput:\n    events/s (eps):                      15.8245\n",
            "General statistics:\n    total time:                          60.0003s\n    \
             total number of events:              900\n",
        );
        assert_eq!(texts(&read("", &text))[1], ("qps", "31.64"));
        let cpu = read("", "sysbench 1.0.20\nCPU speed:\n    events per second:  1234.56\n");
        assert_eq!(texts(&cpu), [("eps", "1234.56")]);
    }

    #[test]
    fn a_failed_or_cut_run_is_missing_and_not_zero() {
        let cut = NEW.split("SQL statistics").next().unwrap();
        let text = format!("{cut}FATAL: `thread_run' function failed: lost connection\n");
        let out = read("", &text);
        assert_eq!(out.results, []);
        let said: Vec<_> = out.skipped.iter().map(|it| (it.line, it.what.as_str())).collect();
        assert_eq!(said[0].0, 6);
        assert!(said[0].1.contains("thread_run"), "{said:?}");
        assert!(said[1].1.contains("failed or the file is cut"), "{said:?}");
    }

    #[test]
    fn a_scan_is_counted_in_rows() {
        let text = NEW.replace("avg:                                    0.06", "avg:       4.00");
        let out = read("scan_range=100", &text);
        let rate = out.results.iter().find(|it| it.metric == "qps").unwrap();
        // 2 threads x 1000 rows / 4 ms = 500,000 rows per second.
        assert_eq!((rate.text.as_str(), rate.unit.as_str()), ("500", "Krows/s"));
        let unknown = read("scan.warm_range=100", &text.replace("--table-size=1000", ""));
        assert!(!unknown.results.iter().any(|it| it.metric == "qps"));
        assert!(unknown.skipped[0].what.contains("--table-size"));
    }
}
