//! Units and directions of the metrics that imported files tell, by their names in this field.

/// (unit, whether lower is better) of a metric. Unknown ones have no unit and count as a rate.
///
/// `o` is an operation: a query, a row of a load, a thousand rows of a scan. `cpu/o` is (percent of
/// the whole machine, user and system) / (operations per second), as `sb.met` prints it; times
/// cores and 10,000 it is microseconds of CPU per operation.
pub fn describe(metric: &str) -> (&'static str, bool) {
    match metric {
        "qps" => ("queries/s", false),
        "tps" => ("transactions/s", false),
        "eps" => ("events/s", false),
        "ips" | "dps" | "p50" | "p99" => ("rows/s", false),
        "errors/s" | "failed/s" | "reconnects/s" => ("1/s", true),
        "cpu/o" => ("%*s", true),
        "cs/o" | "cspq" | "r/o" | "rpq" | "wpi" => ("1/operation", true),
        "rKB/o" | "wKB/o" | "rkbpq" | "wkbpi" => ("KB/operation", true),
        "cpupq" => ("us/operation", true),
        "cs/s" | "csps" | "r/s" | "w/s" | "rps" | "wps" => ("1/s", true),
        "rMB/s" | "wMB/s" | "rmbps" | "wmbps" => ("MB/s", true),
        "cpu/s" | "cpups" => ("%", true),
        "dbgb1" | "dbgb2" | "rss" => ("GB", true),
        "latency-connect" => ("ms", true),
        "max-insert" | "max-delete" | "max-query" | "maxop" => ("s", true),
        "retries" => ("1", true),
        _ if metric.starts_with("latency") => ("ms", true),
        _ if metric.starts_with("seconds") => ("s", true),
        _ => ("", false),
    }
}

/// The name used here for a name that a table's header has.
pub fn canonical(header: &str) -> &str {
    match header {
        "o/s" | "QPS" | "rqps" | "rQPS" | "relative_qps" | "queries/s" => "qps",
        "TPS" => "tps",
        "relative_time" | "secs" | "time" => "seconds",
        other => other,
    }
}

/// Whether a header's name is a metric and not a test or a target.
pub fn known(header: &str) -> bool {
    let metric = canonical(header);
    let summary = ["min", "max", "avg", "median", "geomean"].contains(&metric);
    summary || describe(metric) != ("", false)
}
