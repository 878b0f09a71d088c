//! Published sets imported whole: the absolute figures in, the printed ratios out, equal to the last
//! digit. And any bytes give an answer.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::kind::Kind;
use super::*;

fn fixture(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/import");
    root.join(name)
}

fn import(name: &str) -> Imported {
    read::path(&fixture(name), &Options::default()).expect("the fixture")
}

fn said(out: &Imported) -> Vec<String> {
    out.skipped
        .iter()
        .map(|it| format!("{}:{}: {}", file_name(&it.file), it.line, it.what))
        .collect()
}

/// The printed table, row by row as (test, cells), of `qps.rel.*`.
fn printed_rates(path: &Path) -> Vec<(String, Vec<String>)> {
    let text = std::fs::read_to_string(path).expect("a table");
    let rows = text.lines().filter(|it| it.contains("_range="));
    rows.map(|row| {
        let mut cells: Vec<String> = row.split('\t').map(str::to_owned).collect();
        (cells.pop().expect("a test"), cells)
    })
    .collect()
}

#[test]
fn raw_metrics_give_the_published_tables() {
    let out = import("sysbench");
    assert_eq!(out.skipped, [], "{:#?}", said(&out));
    let raw: Vec<Figure> = out
        .results
        .iter()
        .filter(|it| file_name(&it.file).starts_with("sb.met."))
        .cloned()
        .collect();
    // 3 targets x 33 rows of the table x 12 metrics.
    assert_eq!(raw.len(), 3 * 33 * 12);
    let legend = std::fs::read_to_string(fixture("sysbench/qps.rel.all.tsv")).expect("a table");
    let legend = table::legend(&legend);
    let ratios = derive::relative(&raw, legend.base.as_deref());
    let mut cells = 0;
    for (test, row) in printed_rates(&fixture("sysbench/qps.rel.all.tsv")) {
        for (target, printed) in legend.columns.iter().zip(&row) {
            let made = ratios
                .iter()
                .find(|it| it.metric == "qps" && it.test == test && it.target == *target);
            assert_eq!(&made.expect("a ratio").text, printed, "{test} of {target}");
            cells += 1;
        }
    }
    assert_eq!(cells, 66);
}

#[test]
fn the_table_of_metrics_is_made_to_the_last_byte() {
    let out = import("sysbench");
    let printed = std::fs::read_to_string(fixture("sysbench/o.met.all")).expect("a table");
    let targets = [
        "x.my5651_rel_o2nofp.z12a_c8r32.pk1",
        "x.my8044_rel_o2nofp.z12a_c8r32.pk1",
        "x.my9500_rel_o2nofp.z12a_c8r32.pk1",
    ];
    let mut sections = 0;
    for section in printed.split("\n\n").map(str::trim_end).filter(|it| !it.is_empty()) {
        let (name, table) = section.split_once('\n').expect("a section");
        let file = names::file(name).expect("a name");
        let made = derive::metrics(&out, &file.full(), file.dop, &targets);
        // The published one repeats the header only above the absolute lines.
        assert_eq!(made.trim_end(), table, "{name}");
        sections += 1;
    }
    assert!(sections >= 20, "{sections}");
}

#[test]
fn logs_give_what_the_scripts_made_of_them() {
    let out = read::path(
        &fixture("logs"),
        &Options { device: Some("md2".to_owned()), ..Options::default() },
    );
    let out = out.expect("the fixture");
    // The logs agree with `sb.met`: 2 means of vmstat, 4 of iostat, 5 of them per operation; so does
    // the one-line summary. The text of sysbench counts scans in another way, which is no dispute.
    assert_eq!((out.agreed, out.skipped.len()), (2 + 4 + 5 + 1, 0), "{:#?}", said(&out));
    let run = Options { samples: stat::Samples::Run, ..Options::default() };
    let corrected = read::path(&fixture("logs"), &run).expect("the fixture");
    let cpu =
        |out: &Imported| out.results.iter().find(|it| it.metric == "cpu/s").map(|it| it.value);
    assert_eq!(cpu(&out), Some(78.9));
    let cpu = cpu(&corrected).expect("a mean");
    assert!((cpu - 82.8).abs() < 0.1, "{cpu}");
}

#[test]
fn tables_of_the_insert_benchmark_give_their_ratios() {
    let out = import("ibench");
    assert_eq!(out.skipped, [], "{:#?}", said(&out));
    // Every printed ratio came out as printed.
    assert!(out.results.iter().all(|it| !it.ratio));
    let printed = |name: &str| {
        let text = std::fs::read_to_string(fixture("ibench").join(name)).expect("a table");
        let rows = text.lines().filter(|it| it.contains('\t') && !it.starts_with("ips"));
        rows.flat_map(|it| it.split('\t')).filter(|it| it.parse::<f64>().is_ok()).count()
    };
    let all = printed("rel.l.i0") + printed("rel.l.x") + printed("rel.q100.2");
    assert_eq!(out.checked, all);
    assert!(all > 300, "{all}");
}

#[test]
fn published_tables_are_consistent_but_for_one_misprint() {
    let out = import("published");
    let said = said(&out);
    let misprint = "sql-bench.relative.tsv:7: the ratio of seconds of `sql-bench` on `5.6.21` is \
                    printed as `1.16`; 1080 / 924 is `1.17`";
    assert_eq!(said, [misprint]);
    // Three of sql-bench, and six of each of eight lines.
    assert_eq!(out.checked, 3 + 8 * 6);
}

#[test]
fn hand_edited_and_older_tables() {
    let out = import("grouped");
    // A typing error of the editor is the one row without an absolute figure.
    let kept: Vec<_> = out.results.iter().filter(|it| it.ratio).map(|it| &*it.test).collect();
    assert_eq!(kept, ["read-only-simplex", "read-only-simplex"]);
    assert_eq!(out.skipped, []);
    // Two targets: 33 rows and, hand-edited without a warm-up and the typing error, 31. Three targets
    // of 42 rows, whose scan is in millions of rows and was not rounded before it was divided.
    assert_eq!(out.checked, 2 * (33 + 31) + 3 * 42);
}

fn any_text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("--- absolute\n"),
        Just("cpu/o\t\to/s\tdbms\n"),
        Just("samp\tr/s\to/s\n"),
        Just("1.5\t"),
        Just("NA\t"),
        Just("inf\n"),
        Just("-\n"),
        Just("ips\tqps\trps\ttag\n"),
        Just("i_sec\tt_sec\ti_ips\n"),
        Just("Relative to: x\n"),
        Just("col-1 : é\n"),
        Just("    queries:  5 (1.0 per sec.)\n"),
        Just("Latency (ms):\n"),
        Just("  95th percentile: 3\n"),
        Just("Time for x (1): 5 wallclock secs (\n"),
        Just("Totals per operation:\n"),
        Just("TOTALS 1 2 3 4 5 +\n"),
        Just("procs\n r cs us sy\n"),
        Just("Device r/s w/s rkB/s wkB/s\nsda 1 2 3 4\n"),
        Just("1 processes, 5 rows-per-process, 3 seconds,\n"),
        Just("50th, 1 / 2 = 3 insert, 4 query\n"),
        Just("tps = 5 (including\n"),
        Just("SQL script 1: <builtin: x>\n"),
        Just("{\"results\": [{\"command\": \"x\", \"times\": [1]}]}"),
        Just("# base build x\nbuild\tATIS\n"),
        Just("1-2-3\t\"a,\"\"\n"),
        Just("\n"),
    ];
    let word = prop_oneof![3 => word.prop_map(str::to_owned), 1 => any::<String>()];
    prop::collection::vec(word, 0..24).prop_map(|words| words.concat())
}

proptest! {
    /// Every parser, under names that choose it.
    #[test]
    fn any_text_gives_an_answer(text in any_text(), cut in 0_usize..400) {
        let cut = text.chars().take(cut).collect::<String>();
        for text in [&text, &cut] {
            for (_, kind) in Kind::ALL {
                let named = match kind {
                    Kind::Met => "r/x.a.b.pk1/sb.met.scan.range100.pk1.dop1",
                    Kind::Sysbench => "r/x.a.b.pk1/sb.o.scan.range100.pk1.dop1",
                    Kind::Load => "r/x.a.b.pk1/sb.prepare.o.a.range1.pk1",
                    Kind::OneLine => "r/x.a.b.pk1/sb.r.qps.scan.range100.pk1",
                    Kind::Vmstat => "r/x.a.b.pk1/sb.vm.scan.range100.pk1.dop1",
                    Kind::Iostat => "r/x.a.b.pk1/sb.io.scan.range100.pk1.dop1",
                    Kind::Rates => "r/qps.rel.x.csv",
                    Kind::IbenchTable => "r/rel.l.i0",
                    Kind::IbenchLog => "r/a.b/l.i0/o.ib.dop1.1",
                    Kind::IbenchResult => "r/a.b/l.i0/o.res.dop1",
                    Kind::SqlTest => "r/ATIS-mysql-x",
                    Kind::SqlRun => "r/RUN-mysql-x",
                    _ => "r/any",
                };
                let options = Options { kind: Some(kind), ..Options::default() };
                let files = [PathBuf::from(named)];
                let read = &mut |_: &Path| Ok(text.clone());
                let out = gather::files(Path::new("r"), &files, &options, read);
                for figure in &out.results {
                    prop_assert!(figure.value.is_finite() || figure.ratio, "{figure:?}");
                    prop_assert!(figure.line > 0, "{figure:?}");
                }
            }
        }
    }

    #[test]
    fn any_bytes_give_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("sb.met.a.range1.pk1.dop1");
        std::fs::write(&file, bytes).expect("written");
        let out = read::path(&file, &Options::default());
        prop_assert!(out.is_ok());
    }

    #[test]
    fn any_name_is_taken_apart(name in "\\PC{0,40}") {
        let _ = (names::file(&name), names::group(&name), kind::by_name(&name));
        let (build, config) = names::target(&name);
        prop_assert!(name.contains(build) && name.contains(config));
        prop_assert!(name.contains(names::bare(&name)));
    }

    /// C's `%.6g` reads back as the value, to six digits.
    #[test]
    fn six_digits_read_back(value in -1e12_f64..1e12) {
        let read: f64 = derive::general(value).parse().expect("a number");
        prop_assert!((read - value).abs() <= 5.1e-6 * value.abs());
    }
}
