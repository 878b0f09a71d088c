//! What sysbench prints, read: versions 1.0 and 1.1, whole or cut off, with whatever else stands
//! between. Pure, and independent of how the text came about.
//!
//! The rate of queries is the one in parentheses on the line that begins with blanks and
//! `queries:`. A run that failed has no such line: that is a missing value, not 0. The number of
//! events under `Threads fairness` counts the warm-up, too, and is not read.

/// Everything that was understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// The version, as in the line `sysbench 1.1.0-9072687 (using …)`.
    pub version: Option<String>,
    /// Threads.
    pub threads: Option<u32>,
    /// Seconds of `--warmup-time` (1.1).
    pub warmup_seconds: Option<f64>,
    /// The lines of `--report-interval`, in their order.
    pub intervals: Vec<Interval>,
    /// The reports of `--report-checkpoints`: each since the one before.
    pub checkpoints: Vec<Report>,
    /// The report at the end: since the last checkpoint, or the end of the warm-up.
    pub totals: Option<Report>,
    /// The lines of `--histogram`: response time in ms, number of events.
    pub histogram: Vec<(f64, u64)>,
    /// Lines that begin with `FATAL:`, `ALERT:` or `WARNING:`, each kind of text once.
    pub complaints: Vec<String>,
}

/// A line of `--report-interval`: `[ 1s ] thds: 1 tps: 2.00 qps: 2.00 (r/w/o: 2.00/0.00/0.00) …`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interval {
    /// Seconds since the start.
    pub second: u64,
    /// Threads that were running.
    pub threads: Option<u32>,
    /// Transactions per second (`tps:`, or `eps:` without a database).
    pub transactions: Option<f64>,
    /// Queries per second.
    pub queries: Option<f64>,
    /// The percentile of response times, in ms.
    pub latency_ms: Option<f64>,
    /// Ignored errors per second.
    pub errors: Option<f64>,
    /// Reconnects per second.
    pub reconnects: Option<f64>,
}

/// A count and its rate per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rated {
    /// How many.
    pub count: u64,
    /// Per second.
    pub rate: f64,
}

/// A report: what is missing in the text is missing here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Queries that returned rows.
    pub reads: Option<u64>,
    /// Queries that changed rows.
    pub writes: Option<u64>,
    /// Other queries.
    pub others: Option<u64>,
    /// Transactions.
    pub transactions: Option<Rated>,
    /// All queries, BEGIN and COMMIT among them.
    pub queries: Option<Rated>,
    /// Events that the server refused and that were begun anew.
    pub ignored_errors: Option<Rated>,
    /// Connections that were made anew.
    pub reconnects: Option<Rated>,
    /// `total number of events:`
    pub events: Option<u64>,
    /// `total time:` (1.0): seconds since the start, also of a report that counts from later on.
    pub since_start: Option<f64>,
    /// `time elapsed:` (1.1): seconds that this report counts.
    pub elapsed: Option<f64>,
    /// Response times of events.
    pub latency: Latency,
}

/// Response times, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Shortest.
    pub min_ms: Option<f64>,
    /// Mean.
    pub avg_ms: Option<f64>,
    /// Longest.
    pub max_ms: Option<f64>,
    /// Which percentile (`--percentile`) and its value.
    pub percentile: Option<(f64, f64)>,
    /// All together.
    pub sum_ms: Option<f64>,
}

impl Output {
    /// The report at the end with its queries.
    ///
    /// # Errors
    /// When there is none: what sysbench complained of, or where its output ends.
    pub fn measured(&self) -> Result<(&Report, Rated), String> {
        let totals = self.totals.as_ref();
        if let Some((totals, queries)) = totals.and_then(|totals| Some((totals, totals.queries?))) {
            return Ok((totals, queries));
        }
        if !self.complaints.is_empty() {
            return Err(format!("sysbench failed: {}", self.complaints.join("; ")));
        }
        let seconds = self.intervals.last().map(|interval| interval.second);
        Err(match (totals, seconds) {
            (Some(_), _) => "sysbench's report has no line `queries:`".to_owned(),
            (None, Some(second)) => format!("sysbench's output ends after second {second}"),
            (None, None) => "sysbench printed no report".to_owned(),
        })
    }

    /// The response time in ms that the share `quantile` of the histogram's events did not exceed
    /// (each step of the histogram is about 2% above the one before).
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        let all: u64 = self.histogram.iter().map(|(_, count)| count).sum();
        // The nearest rank, from 1.
        let rank = ((all as f64 * quantile).ceil() as u64).max(1);
        let mut so_far = 0;
        let reached = self.histogram.iter().find(|(_, count)| {
            so_far += count;
            so_far >= rank
        });
        reached.map(|(value, _)| *value)
    }
}

/// Where in the text the reader is.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Before any report.
    Head,
    /// In a checkpoint's report.
    Checkpoint,
    /// In the report at the end.
    End,
}

/// Reads any text.
pub fn parse(text: &str) -> Output {
    let mut output = Output::default();
    let mut place = Place::Head;
    // The next heading belongs to a checkpoint.
    let mut announced = false;
    let mut histogram = false;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("[ ") {
            announced |= is_checkpoint(line);
            output.intervals.extend(interval(rest));
            continue;
        }
        let words = line.trim();
        if line.starts_with("Latency histogram") {
            // Only the one at the end counts all that the report at the end does.
            output.histogram.clear();
            histogram = true;
        } else if histogram && let Some(bar) = bar(words) {
            output.histogram.push(bar);
        } else if words == "SQL statistics:" {
            place = open(&mut output, announced);
            announced = false;
        } else if ["General statistics:", "Throughput:"].contains(&words) {
            // Without a database this is the first heading of a report.
            if announced || place == Place::Head {
                place = open(&mut output, announced);
                announced = false;
            }
        } else if let Some(report) = match place {
            Place::Head => None,
            Place::Checkpoint => output.checkpoints.last_mut(),
            Place::End => output.totals.as_mut(),
        } {
            report.line(line, words);
        } else {
            output.head(line);
        }
        complaint(&mut output.complaints, words);
    }
    output
}

/// Whether a line is the first of a checkpoint's report: `[ 5s ] Checkpoint report:`.
pub fn is_checkpoint(line: &str) -> bool {
    line.starts_with("[ ") && line.trim_end().ends_with("] Checkpoint report:")
}

/// The interval in a line, if it is such a line.
pub fn interval_of(line: &str) -> Option<Interval> {
    interval(line.strip_prefix("[ ")?)
}

fn open(output: &mut Output, checkpoint: bool) -> Place {
    if checkpoint {
        output.checkpoints.push(Report::default());
        Place::Checkpoint
    } else {
        output.totals = Some(Report::default());
        Place::End
    }
}

impl Output {
    /// A line before any report.
    fn head(&mut self, line: &str) {
        // The command itself may stand above: no version begins with a dash.
        if let Some(rest) = line.strip_prefix("sysbench ")
            && self.version.is_none()
            && rest.starts_with(|c: char| c.is_ascii_digit())
        {
            self.version = rest.split_whitespace().next().map(str::to_owned);
        } else if let Some(rest) = line.strip_prefix("Number of threads:") {
            self.threads = rest.trim().parse().ok();
        } else if let Some(rest) = line.strip_prefix("Warmup time:") {
            self.warmup_seconds = seconds(rest);
        }
    }
}

impl Report {
    /// A line of the report; `words` is the same without the blanks around it.
    fn line(&mut self, line: &str, words: &str) {
        let Some((name, value)) = words.split_once(':') else { return };
        // Each value's line is indented, headings are not.
        if !line.starts_with([' ', '\t']) {
            return;
        }
        let value = value.trim();
        let latency = &mut self.latency;
        match name {
            "read" => self.reads = value.parse().ok(),
            "write" => self.writes = value.parse().ok(),
            "other" => self.others = value.parse().ok(),
            "transactions" => self.transactions = rated(value),
            "queries" => self.queries = rated(value),
            "ignored errors" => self.ignored_errors = rated(value),
            "reconnects" => self.reconnects = rated(value),
            "total number of events" => self.events = value.parse().ok(),
            "total time" => self.since_start = seconds(value),
            "time elapsed" => self.elapsed = seconds(value),
            "min" => latency.min_ms = number(value),
            "avg" => latency.avg_ms = number(value),
            "max" => latency.max_ms = number(value),
            "sum" => latency.sum_ms = number(value),
            _ => {
                // `95th percentile`, `1st percentile`
                let which = name.strip_suffix(" percentile").and_then(|ordinal| {
                    number(ordinal.trim_end_matches(|c: char| c.is_ascii_alphabetic()))
                });
                if let (Some(which), Some(value)) = (which, number(value)) {
                    latency.percentile = Some((which, value));
                }
            }
        }
    }
}

/// `306674650 (486779.38 per sec.)`
fn rated(text: &str) -> Option<Rated> {
    let (count, rate) = text.split_once('(')?;
    let rate = number(rate.strip_suffix(" per sec.)")?)?;
    Some(Rated { count: count.trim().parse().ok()?, rate })
}

/// `630.0076s`
fn seconds(text: &str) -> Option<f64> {
    number(text.trim().strip_suffix('s')?)
}

/// A number that can be one of something: `nan` and the like are none.
fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

/// The rest of an interval's line after `[ `.
fn interval(rest: &str) -> Option<Interval> {
    let (second, rest) = rest.split_once("s ] ")?;
    let after = |key: &str| {
        let at = rest.find(key)? + key.len();
        rest[at..].split_whitespace().next()
    };
    let value = |key| after(key).and_then(number);
    after("thds:")?;
    Some(Interval {
        second: second.trim().parse().ok()?,
        threads: after("thds:").and_then(|text| text.parse().ok()),
        transactions: value("tps:").or(value("eps:")),
        queries: value("qps:"),
        latency_ms: value("%):"),
        errors: value("err/s:"),
        reconnects: value("reconn/s:"),
    })
}

/// A line of the histogram: `1.063 |****      2710`.
fn bar(words: &str) -> Option<(f64, u64)> {
    let (value, rest) = words.split_once('|')?;
    let count = rest.trim_start_matches(['*', ' ']).trim().parse().ok()?;
    Some((number(value)?, count))
}

/// How many different complaints are kept: every thread may have the same one.
const MOST_COMPLAINTS: usize = 20;

fn complaint(complaints: &mut Vec<String>, words: &str) {
    let begins = ["FATAL:", "ALERT:", "WARNING:"].iter().any(|mark| words.starts_with(mark));
    if begins && complaints.len() < MOST_COMPLAINTS && !complaints.iter().any(|c| c == words) {
        complaints.push(words.to_owned());
    }
}

#[cfg(test)]
mod tests;
