//! Outputs of both layouts (made up after real ones), cut ones, and any text at all.

use proptest::prelude::*;

use super::*;

/// 1.1, with warm-up; between the lines stands what the user's script printed.
const NEW: &str = "\
sysbench --db-driver=pgsql --warmup-time=5 --time=30 x.lua run
8 CPUs
sysbench 1.1.0-9072687 (using bundled LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 4
Warmup time: 5s
Initializing random number generator from current time


Initializing worker threads...

table 1 : explain SELECT c FROM sbtest1 WHERE id=1
Threads started!

Warming up for 5 seconds...

SQL statistics:
    queries performed:
        read:                            1400
        write:                           400
        other:                           200
        total:                           2000
    transactions:                        100    (3.33 per sec.)
    queries:                             2000   (66.66 per sec.)
    ignored errors:                      2      (0.07 per sec.)
    reconnects:                          0      (0.00 per sec.)

Throughput:
    events/s (eps):                      3.3330
    time elapsed:                        30.0031s
    total number of events:              100

Latency (ms):
         min:                                    1.33
         avg:                                    1.64
         max:                                  107.62
         95th percentile:                        2.00
         sum:                                  164.36

Threads fairness:
    events (avg/stddev):           31.0000/2.00
    execution time (avg/stddev):   29.6159/0.00
";

/// 1.0.20, with a checkpoint after the first second, lines of intervals inside it, a histogram.
const OLD: &str = "\
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 1
Report intermediate results every 1 second(s)
Initializing worker threads...

Threads started!

[ 1s ] Checkpoint report:
SQL statistics:
[ 1s ] thds: 1 tps: 327.46 qps: 2622.61 (r/w/o: 984.34/982.38/655.90) lat (ms,95%): 9.91 err/s: 0.50 reconn/s: 0.00
    queries performed:
        read:                            1036
        write:                           1035
        other:                           691
        total:                           2762
    transactions:                        345    (338.70 per sec.)
    queries:                             2762   (2711.58 per sec.)
    ignored errors:                      0      (0.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          1.0166s
    total number of events:              345

Latency (ms):
         min:                                    0.34
         avg:                                    2.92
         max:                                   21.62
         95th percentile:                        9.91
         sum:                                 1014.66

Threads fairness:
    events (avg/stddev):           347.0000/0.00
    execution time (avg/stddev):   1.0147/0.00

[ 2s ] thds: 1 tps: 638.55 qps: 5108.42 (r/w/o: 1915.66/1915.66/1277.10) lat (ms,95%): 7.43 err/s: 0.00 reconn/s: 0.00
matrix: client 0 has ended
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       1.063 |**************************************** 500
       1.082 |***********                              115
       7.842 |                                         2
\u{20}
SQL statistics:
    queries performed:
        read:                            1850
        write:                           1851
        other:                           1233
        total:                           4934
    transactions:                        617    (593.62 per sec.)
    queries:                             4934   (4747.00 per sec.)
    ignored errors:                      3      (2.89 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          2.0562s
    total number of events:              617

Latency (ms):
         min:                                    0.33
         avg:                                    1.60
         max:                                   17.73
         95th percentile:                        7.43
         sum:                                  983.87

Threads fairness:
    events (avg/stddev):           615.0000/0.00
    execution time (avg/stddev):   0.9839/0.00
";

#[test]
fn the_layout_of_1_1() {
    let output = parse(NEW);
    assert_eq!(output.version.as_deref(), Some("1.1.0-9072687"));
    assert_eq!((output.threads, output.warmup_seconds), (Some(4), Some(5.0)));
    let expected = Report {
        reads: Some(1400),
        writes: Some(400),
        others: Some(200),
        transactions: Some(Rated { count: 100, rate: 3.33 }),
        queries: Some(Rated { count: 2000, rate: 66.66 }),
        ignored_errors: Some(Rated { count: 2, rate: 0.07 }),
        reconnects: Some(Rated { count: 0, rate: 0.0 }),
        events: Some(100),
        since_start: None,
        elapsed: Some(30.0031),
        latency: Latency {
            min_ms: Some(1.33),
            avg_ms: Some(1.64),
            max_ms: Some(107.62),
            percentile: Some((95.0, 2.0)),
            sum_ms: Some(164.36),
        },
    };
    assert_eq!(output.totals, Some(expected));
    assert!(output.intervals.is_empty() && output.checkpoints.is_empty());
    assert!(output.complaints.is_empty() && output.histogram.is_empty());
    assert_eq!(output.measured().expect("whole").1, Rated { count: 2000, rate: 66.66 });
}

#[test]
fn the_layout_of_1_0_with_a_checkpoint() {
    let output = parse(OLD);
    assert_eq!(output.version.as_deref(), Some("1.0.20"));
    let [checkpoint] = output.checkpoints.as_slice() else { panic!("{output:?}") };
    assert_eq!(checkpoint.queries, Some(Rated { count: 2762, rate: 2711.58 }));
    assert_eq!((checkpoint.since_start, checkpoint.events), (Some(1.0166), Some(345)));
    let (totals, queries) = output.measured().expect("whole");
    assert_eq!(queries, Rated { count: 4934, rate: 4747.0 });
    assert_eq!((totals.since_start, totals.events), (Some(2.0562), Some(617)));
    assert_eq!(totals.ignored_errors.map(|errors| errors.count), Some(3));
    assert_eq!(totals.latency.sum_ms, Some(983.87));
    let first = Interval {
        second: 1,
        threads: Some(1),
        transactions: Some(327.46),
        queries: Some(2622.61),
        latency_ms: Some(9.91),
        errors: Some(0.5),
        reconnects: Some(0.0),
    };
    assert_eq!(output.intervals[0], first);
    assert_eq!(output.intervals.len(), 2);
    assert_eq!(output.histogram, [(1.063, 500), (1.082, 115), (7.842, 2)]);
}

#[test]
fn quantiles_by_nearest_rank() {
    let output = parse(OLD);
    // 500 of 617 are 81.04%, 615 are 99.68%.
    for (quantile, expected) in
        [(0.0, 1.063), (0.5, 1.063), (0.81, 1.063), (0.82, 1.082), (0.99, 1.082), (1.0, 7.842)]
    {
        assert_eq!(output.quantile(quantile), Some(expected), "{quantile}");
    }
    assert_eq!(parse(NEW).quantile(0.5), None);
}

#[test]
fn without_a_database_there_are_events_only() {
    let output = parse(
        "[ 1s ] thds: 2 eps: 1824.46 lat (ms,99%): 1.42\n\nGeneral statistics:\n    total time:  \
         4.0538s\n    total number of events:              3624\n\nLatency (ms):\n   avg: 1.10\n  \
         99th percentile: 2.22\n",
    );
    let interval = &output.intervals[0];
    assert_eq!((interval.transactions, interval.queries), (Some(1824.46), None));
    assert_eq!(interval.latency_ms, Some(1.42));
    let totals = output.totals.as_ref().expect("a report");
    assert_eq!((totals.events, totals.since_start), (Some(3624), Some(4.0538)));
    assert_eq!(totals.latency.percentile, Some((99.0, 2.22)));
    assert!(output.measured().expect_err("no queries").contains("no line `queries:`"));
}

#[test]
fn a_run_without_totals_has_failed_and_says_why() {
    let reason = |text: &str| parse(text).measured().expect_err("failed");
    let fatal = "FATAL: `thread_run' function failed: x.lua:9: SQL error, errno = 1146";
    let output = format!("Threads started!\n{fatal}\n{fatal}\nFATAL: another\n");
    assert_eq!(reason(&output), format!("sysbench failed: {fatal}; FATAL: another"));
    assert_eq!(reason(""), "sysbench printed no report");
    let cut = |mark: &str| &OLD[..OLD.rfind(mark).expect("there")];
    // Only the checkpoint's report is there.
    let text = cut("SQL statistics:");
    assert_eq!(reason(text), "sysbench's output ends after second 2");
    assert_eq!(parse(text).checkpoints.len(), 1);
    // The line is cut within its rate.
    assert_eq!(reason(cut("per sec.)\n    ignored")), "sysbench's report has no line `queries:`");
    // What is cut later still has its rate.
    assert!(parse(cut("General statistics:")).measured().is_ok());
}

#[test]
fn numbers_that_are_none_are_missing() {
    let text = "SQL statistics:\n    queries:      12 (nan per sec.)\n    transactions: 99999999999999\
                9999999 (1.00 per sec.)\nLatency (ms):\n    avg: -nan\n    max: inf\n    min: -1\n";
    let totals = parse(text).totals.expect("a report");
    assert_eq!((totals.queries, totals.transactions), (None, None));
    assert_eq!(totals.latency, Latency::default());
    // The heading is not the line, nor is one that is not indented.
    let text = "SQL statistics:\n    queries performed:  5 (1.00 per sec.)\nqueries: 5 (1.00 per \
                sec.)\n";
    assert_eq!(parse(text).totals.expect("a report").queries, None);
}

#[test]
fn lines_are_told_apart_one_by_one() {
    assert!(is_checkpoint("[ 5s ] Checkpoint report:"));
    assert!(!is_checkpoint("[ 5s ] thds: 1") && !is_checkpoint("Checkpoint report:"));
    assert_eq!(interval_of("[ 5s ] thds: 1 qps: 2.50").map(|i| i.queries), Some(Some(2.5)));
    assert_eq!(interval_of("[ 5s ] Checkpoint report:"), None);
    assert_eq!(interval_of("[ xs ] thds: 1"), None);
}

proptest! {
    #[test]
    fn any_text_has_an_answer(text in "(?s).{0,400}") {
        let output = parse(&text);
        prop_assert!(output.totals.is_some() || output.measured().is_err());
    }

    #[test]
    fn lines_in_any_order_and_cut_anywhere_have_an_answer(
        picks in proptest::collection::vec((0usize..200, 0usize..200), 0..60),
    ) {
        let lines: Vec<&str> = NEW.lines().chain(OLD.lines()).collect();
        let text: Vec<String> = picks
            .iter()
            .map(|(line, cut)| lines[line % lines.len()].chars().take(*cut).collect())
            .collect();
        let output = parse(&text.join("\n"));
        for second in output.intervals {
            prop_assert!(second.queries.is_none_or(|queries| queries >= 0.0));
        }
    }

    #[test]
    fn a_beginning_never_has_more_than_the_whole(at in 0usize..2600) {
        let at = at.min(OLD.len());
        let cut = parse(&OLD[..at]);
        if let Ok((_, queries)) = cut.measured() {
            prop_assert_eq!(queries, Rated { count: 4934, rate: 4747.0 });
        }
    }
}
