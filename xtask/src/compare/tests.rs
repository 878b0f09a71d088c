//! Records with known numbers, and what must come of them.

use super::*;
use crate::matrix::model::Placement;
use crate::record::testing::{failed, record};
use crate::record::{Outcome, Record};
use crate::stats::Method;
use crate::stats::Verdict;

fn run(records: &[Record]) -> Comparison {
    compare(records, "base", Options::default()).expect("comparable")
}

fn cell<'a>(comparison: &'a Comparison, microbenchmark: &str, target: &str) -> &'a Cell {
    let host = &comparison.hosts[0];
    let row = host.rows.iter().find(|row| row.microbenchmark == microbenchmark).expect("a row");
    row.cells.iter().find(|cell| cell.target == target).expect("a cell")
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-6 * b.abs(), "{a} is not {b}");
}

/// Five blocks, the host's speed differs from block to block, the ratios are known.
fn five_blocks() -> Vec<Record> {
    let ratios = [1.03, 1.05, 1.04, 1.06, 1.02];
    let speeds = [1000.0, 700.0, 1300.0, 900.0, 1100.0];
    let block = |(block, (speed, ratio)): (usize, (f64, f64))| {
        let block = block as u32 + 1;
        [record("base", "scan", block, speed), record("t", "scan", block, speed * ratio)]
    };
    speeds.into_iter().zip(ratios).enumerate().flat_map(block).collect()
}

#[test]
fn ratio_is_the_geometric_mean_of_the_pairs() {
    let comparison = run(&five_blocks());
    let judged = cell(&comparison, "scan", "t").result.judged().expect("five pairs").clone();
    near(judged.ratio, (1.03_f64 * 1.05 * 1.04 * 1.06 * 1.02).powf(0.2));
    assert_eq!((judged.estimate.pairs, judged.estimate.df), (5, 4));
    assert_eq!(judged.estimate.method, Method::Paired);
    assert!(judged.low > 1.015 && judged.high < 1.065 && judged.low < judged.ratio);
    assert_eq!(judged.verdict, Verdict::Faster);
    let host = &comparison.hosts[0];
    assert_eq!((host.blocks, host.targets.as_slice()), (5, &["t".to_owned()][..]));
    let base = host.rows[0].base.expect("measured");
    near(base.value, (1000.0_f64 * 700.0 * 1300.0 * 900.0 * 1100.0).powf(0.2));
    near(base.server_cpu_us.expect("known"), 80.0);
    near(base.client_cpu_us.expect("known"), 20.0);
    near(base.context_switches.expect("known"), 2.0);
    near(base.written_kib.expect("known"), 0.5);
    near(base.p99_us.expect("known"), 300.0);
    assert_eq!((base.runs, base.read_kib), (5, Some(0.0)));
}

#[test]
fn a_failure_is_never_a_number() {
    let mut records = five_blocks();
    records.push(record("u", "scan", 1, 5.0));
    records.push(failed("u", "scan", 2, "server ended"));
    records.push(failed("v", "scan", 1, "out of memory"));
    records.push(failed("base", "update-index", 1, "disk full"));
    records.push(record("t", "update-index", 1, 10.0));
    let comparison = run(&records);
    let part = cell(&comparison, "scan", "u");
    assert!(matches!(part.result, CellResult::Single { .. }), "one pair is left");
    near(part.result.ratio().expect("a ratio"), 0.005);
    assert_eq!(part.failures, [Failure { block: 2, reason: "server ended".into() }]);
    let none = cell(&comparison, "scan", "v");
    assert_eq!(none.result, CellResult::Failed { reason: "out of memory".into() });
    assert_eq!(none.metrics, None);
    let base = cell(&comparison, "update-index", "t");
    assert_eq!(base.result, CellResult::Failed { reason: "the base failed: disk full".into() });
    assert_eq!(cell(&comparison, "update-index", "u").result, CellResult::NotMeasured);
}

#[test]
fn a_window_without_queries_is_a_failure() {
    let mut records = five_blocks();
    records.push(record("u", "scan", 1, 0.0));
    let comparison = run(&records);
    let CellResult::Failed { reason } = &cell(&comparison, "scan", "u").result else {
        panic!("a number from nothing")
    };
    assert_eq!(reason, "0 queries in 10000 s are no throughput");
}

#[test]
fn only_runs_under_the_same_conditions_are_pairs() {
    let base = record("base", "scan", 1, 100.0);
    let target = |change: &dyn Fn(&mut Record)| {
        let mut record = record("t", "scan", 1, 110.0);
        change(&mut record);
        run(&[base.clone(), record])
    };
    let single = target(&|_| {});
    assert!(matches!(cell(&single, "scan", "t").result, CellResult::Single { .. }));

    let boot = target(&|record| record.boot = "boot-2".into());
    assert_eq!(cell(&boot, "scan", "t").result, CellResult::NoPair);
    assert_eq!(boot.left_out.other_boot, 1);
    let placed = target(&|record| record.placement.kind = Placement::Together);
    assert_eq!(cell(&placed, "scan", "t").result, CellResult::NoPair);
    let block = target(&|record| record.block = 2);
    assert_eq!(cell(&block, "scan", "t").result, CellResult::NoPair);
    let threads = target(&|record| record.threads = 8);
    assert_eq!(threads.hosts[0].rows.len(), 2, "another number of clients is another row");
    let host = target(&|record| record.host = "i".into());
    assert_eq!(host.hosts.len(), 2);
    assert_eq!(host.hosts[1].warnings[0].kind, WarningKind::NoBase);
    let workload = target(&|record| {
        record.workload_id = Digest::of(b"longer");
        record.started = "2026-02-01T00:00:00Z".into();
    });
    assert_eq!(workload.left_out.other_workload, 1, "the older workload's run is left out");
    assert_eq!(cell(&workload, "scan", "t").result, CellResult::NoPair);
}

#[test]
fn only_what_the_targets_are_now_counts() {
    let mut records = five_blocks();
    let mut older = record("t", "scan", 1, 1.0);
    older.target_id = Digest::of(b"older build");
    older.started = "2025-01-01T00:00:00Z".into();
    records.push(older.clone());
    let all = run(&records);
    assert_eq!(all.left_out.other_target, 1);
    assert!(cell(&all, "scan", "t").result.ratio().expect("a ratio") > 1.0);

    let current = [("base", Digest::of(b"base")), ("t", older.target_id)];
    let targets: BTreeMap<_, _> = current.map(|(name, id)| (name.to_owned(), Some(id))).into();
    let with = |host: &str, targets: &BTreeMap<String, Option<Digest>>| {
        let current = Current { host: host.into(), targets: targets.clone() };
        let options = Options { current: Some(current), ..Options::default() };
        compare(&records, "base", options).expect("comparable")
    };
    let old = with("h", &targets);
    assert_eq!(old.left_out.other_target, 5);
    near(cell(&old, "scan", "t").result.ratio().expect("one pair"), 0.001);
    // On another host, and where the id cannot be told, the latest counts.
    assert_eq!(with("another", &targets), all);
    let mut unknown = targets;
    unknown.insert("t".to_owned(), None);
    assert_eq!(with("h", &unknown), all);
    unknown.remove("t");
    assert_eq!(with("h", &unknown).hosts[0].targets, [""; 0], "no longer in the experiment");
}

#[test]
fn a_row_has_the_workload_that_is_asked_for() {
    let mut records = five_blocks();
    // Alone, later, as after `--only scan`: the suite's rows must not give way to it.
    let alone = Digest::of(b"alone");
    for target in ["base", "t"] {
        let started = "2026-03-01T00:00:00Z".to_owned();
        records.push(Record { workload_id: alone, started, ..record(target, "scan", 6, 10.0) });
    }
    let with = |ids: &[Digest]| {
        let workloads = BTreeMap::from([(("scan".to_owned(), 1), ids.to_vec())]);
        let options = Options { workloads: Some(workloads), ..Options::default() };
        compare(&records, "base", options).expect("comparable")
    };
    let suite = Digest::of(b"scan");
    for ids in [&[suite][..], &[suite, alone], &[Digest::of(b"never measured"), suite]] {
        let comparison = with(ids);
        assert_eq!(comparison.left_out.other_workload, 2);
        let judged = cell(&comparison, "scan", "t").result.judged().cloned();
        assert_eq!(judged.expect("five pairs").estimate.pairs, 5);
    }
    let comparison = with(&[alone, suite]);
    assert_eq!(comparison.left_out.other_workload, 10);
    near(cell(&comparison, "scan", "t").result.ratio().expect("one pair"), 1.0);
    assert!(with(&[]).hosts[0].rows.is_empty());
}

#[test]
fn runs_of_different_drivers_are_no_pair() {
    let mut records = vec![record("base", "scan", 1, 10.0), record("t", "scan", 1, 10.0)];
    assert!(cell(&run(&records), "scan", "t").result.ratio().is_some());
    records[1].driver = Digest::of(b"newer");
    let comparison = run(&records);
    assert_eq!(cell(&comparison, "scan", "t").result, CellResult::NoPair);
    assert_eq!(comparison.left_out.other_boot, 1);
}

#[test]
fn a_block_counts_once() {
    let mut records = five_blocks();
    records.insert(0, failed("t", "scan", 1, "first try"));
    records.push(failed("t", "scan", 2, "a later try"));
    let comparison = run(&records);
    let cell = cell(&comparison, "scan", "t");
    assert_eq!(cell.result.judged().expect("judged").estimate.pairs, 5);
    assert_eq!((cell.failures.len(), comparison.left_out.repeated), (0, 2));
}

/// Three blocks, two targets, three microbenchmarks of one group.
fn group_records() -> Vec<Record> {
    let mut records = Vec::new();
    for block in 1..=3 {
        let noise = 1.0 + 0.001 * f64::from(block);
        for (name, ratio) in [("scan", 1.1), ("range-a", 1.2), ("range-b", 1.6)] {
            records.push(record("base", name, block, 1000.0));
            records.push(record("t", name, block, 1000.0 * ratio * noise));
            records.push(record("u", name, block, 1000.0 / noise));
        }
    }
    records
}

#[test]
fn group_has_spread_and_geometric_mean() {
    let comparison = run(&group_records());
    let group = &comparison.hosts[0].groups[0];
    assert_eq!((group.group.as_str(), group.rows), ("range-1", 3));
    let cell = &group.cells[0];
    let noise = (1.001_f64 * 1.002 * 1.003).powf(1.0 / 3.0);
    let spread = cell.spread.expect("ratios");
    near(spread.min, 1.1 * noise);
    near(spread.max, 1.6 * noise);
    near(spread.avg, 1.3 * noise);
    near(spread.median, 1.2 * noise);
    let geomean = cell.geomean.judged().expect("three blocks");
    near(geomean.ratio, (1.1_f64 * 1.2 * 1.6).powf(1.0 / 3.0) * noise);
    assert_eq!((cell.rows, cell.geomean_rows, geomean.estimate.pairs), (3, 3, 3));
    assert_eq!(geomean.verdict, Verdict::Faster);
}

#[test]
fn group_with_a_gap_keeps_the_most_pairs() {
    let mut records = group_records();
    let lost =
        |r: &Record, block| r.target == "t" && r.microbenchmark == "range-b" && r.block == block;
    records.retain(|r| !lost(r, 2));
    records.push(failed("t", "range-b", 2, "no"));
    let groups = |records: &[Record]| run(records).hosts[0].groups[0].cells.clone();
    let [gap, whole] = &groups(&records)[..] else { panic!("two cells") };
    assert_eq!((gap.rows, gap.geomean_rows), (3, 3), "a block is dropped, not a row");
    let geomean = gap.geomean.judged().expect("two blocks");
    assert_eq!(geomean.estimate.pairs, 2);
    near(geomean.ratio, (1.1_f64 * 1.2 * 1.6).powf(1.0 / 3.0) * (1.001_f64 * 1.003).sqrt());
    assert_eq!((whole.rows, whole.geomean_rows), (3, 3));

    records.retain(|r| !lost(r, 3));
    let [gap, _] = &groups(&records)[..] else { panic!("two cells") };
    assert_eq!((gap.rows, gap.geomean_rows), (3, 2), "a row is dropped, not two blocks");
    let geomean = gap.geomean.judged().expect("three blocks");
    near(geomean.ratio, (1.1_f64 * 1.2).sqrt() * (1.001_f64 * 1.002 * 1.003).powf(1.0 / 3.0));

    records.retain(|r| r.target != "t" || lost(r, 2));
    let cells = groups(&records);
    let none = cells.iter().find(|cell| cell.target == "t").expect("failed, but shown");
    assert_eq!((none.rows, none.geomean_rows, none.spread), (0, 0, None));
    assert_eq!(none.geomean, CellResult::NotMeasured);
}

#[test]
fn rows_stand_by_group_in_run_order() {
    let names = ["insert", "zz-own", "scan", "random-points", "points-b", "points-a"];
    let records: Vec<Record> = names
        .iter()
        .map(|name| {
            let mut record = record("base", name, 1, 1.0);
            if *name == "zz-own" {
                record.group = "own".into();
            }
            record
        })
        .collect();
    let options = Options { order: vec!["points-a".into(), "scan".into()], ..Options::default() };
    let comparison = compare(&records, "base", options).expect("comparable");
    let shown: Vec<_> =
        comparison.hosts[0].rows.iter().map(|row| row.microbenchmark.as_str()).collect();
    assert_eq!(shown, ["points-a", "points-b", "random-points", "scan", "insert", "zz-own"]);
}

#[test]
fn p_values_are_adjusted_over_the_whole_report() {
    // Nineteen cells without any effect beside one that alone would be called out.
    let mut records = Vec::new();
    for block in 0..5_u32 {
        for row in 0..20_u32 {
            let name = format!("scan-{row}");
            let own = [0.0, 0.024, 0.048, 0.036, 0.072][block as usize];
            let noise = if (block + row) % 2 == 0 { 0.01 } else { -0.01 };
            let effect = if row == 0 { own } else { noise };
            records.push(record("base", &name, block, 1e5));
            records.push(record("t", &name, block, 1e5 * f64::exp(effect)));
        }
    }
    let comparison = run(&records);
    let judged = cell(&comparison, "scan-0", "t").result.judged().expect("judged");
    assert!(judged.p < 0.05 && judged.adjusted_p > 0.05, "{judged:?}");
    assert!(matches!(judged.verdict, Verdict::Undecided { .. }));
}

#[test]
fn warnings_say_what_is_wrong() {
    let kinds = |records: &[Record]| -> Vec<WarningKind> {
        run(records).hosts[0].warnings.iter().map(|warning| warning.kind).collect()
    };
    assert_eq!(kinds(&group_records()), [], "nothing is wrong");
    assert_eq!(kinds(&five_blocks()[..4]), [WarningKind::FewBlocks]);

    // 1% per half hour over two hours, the ratios untouched.
    let mut drifting = Vec::new();
    for block in 0..5 {
        let speed = 1000.0 * 0.99_f64.powi(block as i32);
        drifting.push(record("base", "scan", block, speed));
        drifting.push(record("t", "scan", block, speed));
    }
    assert_eq!(kinds(&drifting), [WarningKind::Drift]);
    let drift = run(&drifting).hosts[0].drift.expect("five blocks");
    assert!((drift.percent_per_hour + 1.99).abs() < 1e-3, "{drift:?}");
    assert_eq!(drift.hours, 2.0);
    near(drift.over_session(), 0.99_f64.powi(4));

    let mut shifted = Vec::new();
    for (row, block) in (0..10).flat_map(|row| (0..3).map(move |block| (row, block))) {
        let name = format!("scan-{row}");
        shifted.push(record("base", &name, block, 1000.0));
        shifted.push(record("t", &name, block, 950.0 + f64::from(row) / 10.0 + f64::from(block)));
    }
    assert_eq!(kinds(&shifted), [WarningKind::HostWideShift]);

    let mut bound = group_records();
    for record in &mut bound {
        if let Outcome::Ok(sample) = &mut record.outcome {
            sample.client.user_seconds *= 10.0;
        }
    }
    assert_eq!(kinds(&bound), [WarningKind::ClientBound]);

    // One wild block of twelve hides from t a difference that the ranks see.
    let mut outlier = Vec::new();
    for block in 0..12 {
        let ratio = if block == 4 { 0.3 } else { 1.05 + 0.001 * f64::from(block) };
        outlier.push(record("base", "scan", block, 1000.0));
        outlier.push(record("t", "scan", block, 1000.0 * ratio));
    }
    assert_eq!(kinds(&outlier), [WarningKind::Outliers]);
}

#[test]
fn wrong_input_is_an_error_with_names() {
    let text = |result: anyhow::Result<Comparison>| format!("{:#}", result.expect_err("an error"));
    assert!(text(compare(&[], "base", Options::default())).contains("no records"));
    let error = text(compare(&five_blocks(), "bass", Options::default()));
    assert!(error.contains("`bass` has no records") && error.contains("`base`, `t`"), "{error}");
    let mut other = five_blocks();
    other[0].experiment = "f".into();
    let error = text(compare(&other, "base", Options::default()));
    assert!(error.contains("`f`, `e`"), "{error}");
    let options = Options { current: Some(Current::default()), ..Options::default() };
    assert!(text(compare(&five_blocks(), "base", options)).contains("as it stands now"));
}

#[test]
fn the_json_form_reads_back() {
    let mut records = group_records();
    records.push(failed("v", "scan", 1, "no"));
    let comparison = run(&records);
    let text = serde_json::to_string(&comparison).expect("JSON");
    let back: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(back["hosts"][0]["rows"][0]["cells"][2]["result"]["state"], "failed");
    let back: Comparison = serde_json::from_str(&text).expect("the same types");
    assert_eq!(back.hosts[0].rows.len(), comparison.hosts[0].rows.len());
}

/// Hiding a target must not make a claim of another one: everything is judged together.
#[test]
fn what_is_hidden_still_counts() {
    let mut records = five_blocks();
    for block in 1..=5 {
        records.push(record("u", "scan", block, 800.0 + f64::from(block) * 90.0));
        records.push(record("base", "insert", block, 500.0));
        records.push(record("t", "insert", block, 500.0 + f64::from(block)));
    }
    let whole = run(&records);
    let mut part = whole.clone();
    part.show_only(&|target| target == "t", &|name| name == "scan");
    assert_eq!(cell(&part, "scan", "t"), cell(&whole, "scan", "t"));
    let host = &part.hosts[0];
    assert_eq!((host.targets.as_slice(), host.rows.len()), (&["t".to_owned()][..], 1));
    assert!(host.rows.iter().all(|row| row.cells.len() == 1));
    assert!(host.groups.iter().all(|group| group.group == host.rows[0].group));
    assert!(host.groups.iter().all(|group| group.cells.len() == 1));
}

#[test]
fn metrics_of_a_program_are_rows_of_their_own_and_less_can_be_better() {
    use catalog::{Better, Metric};

    use crate::record::Outcome;

    let told = |target: &str, block: u32, tps: f64, ms: f64| {
        let mut record = record(target, "tpcb", block, 1.0);
        let Outcome::Ok(sample) = &mut record.outcome else { panic!("measured") };
        (sample.queries, sample.latency.max_us) = (0, 0);
        let metric = |name: &str, value, unit: &str, better| {
            let (name, unit) = (name.to_owned(), unit.to_owned());
            Metric { name, value, unit, better }
        };
        sample.metrics = vec![
            metric("tps", tps, "1/s", Better::Higher),
            metric("latency", ms, "ms", Better::Lower),
        ];
        record
    };
    let mut records: Vec<Record> = (1..=4)
        .flat_map(|block| {
            let noise = f64::from(block) * 0.001;
            [told("base", block, 100.0 + noise, 10.0), told("t", block, 50.0, 20.0 + noise)]
        })
        .collect();
    records.push(failed("t", "tpcb", 5, "no answer"));
    let comparison = compare(&records, "base", Options::default()).expect("comparable");
    let rows = &comparison.hosts[0].rows;
    let names: Vec<&str> = rows.iter().map(|row| row.metric.name.as_str()).collect();
    assert_eq!(names, ["tps", "latency"]);
    for row in rows {
        let judged = row.cells[0].result.judged().expect("judged");
        assert!((judged.ratio - 0.5).abs() < 0.001, "{}: {}", row.metric.name, judged.ratio);
        assert_eq!(judged.verdict, Verdict::Slower);
        assert_eq!(row.cells[0].failures.len(), 1, "a failed run is a failure of every metric");
    }
    let [tps, latency] = [&rows[0], &rows[1]].map(|row| row.base.expect("measured"));
    near(latency.value, 10.0);
    assert!(tps.server_cpu_us.is_some() && latency.server_cpu_us.is_none(), "per operation");
    assert_eq!(tps.p99_us, None);
}

#[test]
fn a_value_that_can_be_no_part_of_a_ratio_is_a_failure() {
    use crate::record::Outcome;

    let mut zero = record("t", "scan", 1, 10.0);
    let Outcome::Ok(sample) = &mut zero.outcome else { panic!("measured") };
    let (name, unit) = ("seconds".to_owned(), "s".to_owned());
    let better = catalog::Better::Lower;
    sample.metrics = vec![catalog::Metric { name, value: 0.0, unit, better }];
    let base = Record { target: "base".to_owned(), ..zero.clone() };
    let comparison = compare(&[base, zero], "base", Options::default()).expect("comparable");
    let result = &comparison.hosts[0].rows[0].cells[0].result;
    assert!(
        matches!(result, CellResult::Failed { reason } if reason.contains("0 s of `seconds`")),
        "{result:?}"
    );
}

#[test]
fn drift_of_minutes_is_no_rate_per_hour() {
    let drift = |percent_per_hour, hours| Drift { percent_per_hour, hours }.words();
    assert_eq!(drift(21.0, 0.5), "+10.0% in 30 min");
    assert_eq!(drift(10.0, 2.0), "+21.0% in 2.0 h (+10.0% per hour)");
    assert_eq!(drift(0.0, 0.001), "+0.0% in 1 min");
}

#[test]
fn a_group_is_of_queries_per_second_where_it_has_any() {
    let run_of = |target: &str, qps: f64, cpu: f64| {
        let mut record = record(target, "scan", 1, qps);
        let Outcome::Ok(sample) = &mut record.outcome else { panic!("measured") };
        let metric = |name: &str, value, unit: &str, better| catalog::Metric {
            name: name.to_owned(),
            value,
            unit: unit.to_owned(),
            better,
        };
        sample.metrics = vec![
            metric("qps", qps, "1/s", catalog::Better::Higher),
            metric("cpu/o", cpu, "us", catalog::Better::Lower),
        ];
        record
    };
    let comparison = run(&[run_of("base", 100.0, 5.0), run_of("t", 50.0, 5000.0)]);
    let host = &comparison.hosts[0];
    assert_eq!(host.rows.len(), 2, "both metrics are rows");
    let group = &host.groups[0];
    assert_eq!((host.groups.len(), group.rows, group.cells[0].rows), (1, 1, 1));
    near(group.cells[0].geomean.ratio().expect("one pair"), 0.5);
}
