//! The measurements of a workload, with their identities. Pure.

use std::time::Duration;

use anyhow::Context as _;
use catalog::DurationClass;
use catalog::insert_benchmark::{NamedStep, steps};
use catalog::protocol::Maintain;

use crate::bench::plan::{Command, Measure, Reading, Work};
use crate::bench::sqlbench;
use crate::cmd::select::Selection;
use crate::hash::Digest;
use crate::matrix::model::{
    CommandWorkload, InsertBenchmark, LoadDriver, SqlBench, Suite, Workload, WorkloadKind,
};

/// The selected measurements in run order: with each number of clients, each microbenchmark.
///
/// The id of each is the hash of everything in the workload that determines its number: the data,
/// what is measured, defined statement by statement, and what ran before it in the same visit, as
/// that leaves changed data and warm caches.
///
/// # Errors
/// For a microbenchmark that is not in the catalogue.
pub fn items(workload: &Workload, selection: &Selection) -> anyhow::Result<Vec<Measure>> {
    match &workload.kind {
        WorkloadKind::Sysbench(suite) => microbenchmarks(workload, suite, selection),
        WorkloadKind::Command(command) => Ok(commands(workload, command, selection)),
        WorkloadKind::SqlBench(suite) => Ok(sql_bench(workload, suite, selection)),
        WorkloadKind::InsertBenchmark(benchmark) => Ok(insert_benchmark(workload, benchmark)),
    }
}

fn microbenchmarks(
    workload: &Workload,
    suite: &Suite,
    selection: &Selection,
) -> anyhow::Result<Vec<Measure>> {
    let mut before = format!(
        "run 2\nprotocol {}\nzipf {}\ntables {} rows {} seed {}\nwarmup {} prepared {}\n",
        catalog::protocol::VERSION,
        catalog::ZIPF_EXPONENT,
        suite.tables,
        suite.rows,
        workload.seed,
        suite.warmup_seconds,
        suite.prepared,
    );
    if suite.driver == LoadDriver::Sysbench {
        before.push_str("driver sysbench\n");
    }
    if let Some(rate) = suite.rate {
        before.push_str(&format!("rate {rate}\n"));
    }
    let chosen = suite.names.iter().filter(|name| selection.microbenchmark(name));
    let chosen = chosen.map(|name| {
        let missing = || format!("`{name}` is no longer in the catalogue");
        catalog::find(name).with_context(missing)
    });
    let chosen = chosen.collect::<anyhow::Result<Vec<_>>>()?;
    let all: Vec<_> = workload
        .threads
        .iter()
        .flat_map(|it| chosen.iter().map(move |found| (*it, found)))
        .collect();
    let mut items = Vec::new();
    for (index, &(threads, found)) in all.iter().enumerate() {
        let seconds = match found.duration {
            DurationClass::Read | DurationClass::Scan => suite.read_seconds,
            DurationClass::Write => suite.write_seconds,
        };
        // Reads after writes find a server that has come to rest.
        let next_reads = all.get(index + 1).is_some_and(|(_, next)| next.read_only());
        let rests = !found.read_only() && next_reads && suite.patience_seconds > 0.0;
        let maintain = rests.then(|| Maintain {
            tables: (1..=suite.tables).map(|table| format!("sbtest{table}")).collect(),
            patience_seconds: suite.patience_seconds,
        });
        let line = format!("clients {threads} seconds {seconds} {found:?}\n");
        items.push(Measure {
            microbenchmark: found.name.to_owned(),
            group: found.group.as_str().to_owned(),
            writes: !found.read_only(),
            threads,
            seconds,
            workload_id: Digest::of(format!("{before}measure {line}").as_bytes()),
            work: Work::Microbenchmark,
            maintain,
        });
        before.push_str(&format!("after {line}"));
        if rests {
            before.push_str(&format!("rest {}\n", suite.patience_seconds));
        }
    }
    Ok(items)
}

/// All steps whatever is selected: each needs what those before it did.
fn insert_benchmark(workload: &Workload, benchmark: &InsertBenchmark) -> Vec<Measure> {
    let mut before = format!("insert benchmark 1\npatience {}\n", benchmark.patience_seconds);
    let mut items = Vec::new();
    for &clients in &workload.threads {
        for NamedStep { name, step } in steps(&benchmark.size(clients, workload.seed)) {
            let line = format!("{name} {step:?}\n");
            // The last step that only writes.
            let rests = name == "l.i2" && benchmark.patience_seconds > 0.0;
            items.push(Measure {
                microbenchmark: name,
                group: "insert-benchmark".to_owned(),
                writes: true,
                threads: clients,
                // What plans count with where the rows decide: a usual rate of one client.
                seconds: step.seconds.unwrap_or(step.rows as f64 / 20_000.0),
                workload_id: Digest::of(format!("{before}measure {line}").as_bytes()),
                maintain: rests.then(|| Maintain {
                    tables: step.table_names(),
                    patience_seconds: benchmark.patience_seconds,
                }),
                work: Work::Insert(step),
            });
            before.push_str(&format!("after {line}"));
        }
    }
    items
}

/// Programs may change the data, for all that is known of them.
fn commands(workload: &Workload, command: &CommandWorkload, selection: &Selection) -> Vec<Measure> {
    let CommandWorkload { load, seconds, metrics, .. } = command;
    let seed = workload.seed;
    let mut before =
        format!("command 1\nload {load:?} seed {seed} seconds {seconds}\n{metrics:?}\n");
    let limit = Duration::try_from_secs_f64(command.limit_seconds).unwrap_or(Duration::MAX);
    let mut items = Vec::new();
    for &threads in &workload.threads {
        for test in command.tests.iter().filter(|test| selection.microbenchmark(&test.name)) {
            let line = format!("clients {threads} {:?}\n", test.words);
            let (words, metrics) = (test.words.clone(), metrics.clone());
            items.push(Measure {
                microbenchmark: test.name.clone(),
                group: workload.name.clone(),
                writes: true,
                threads,
                seconds: *seconds,
                workload_id: Digest::of(format!("{before}measure {line}").as_bytes()),
                work: Work::Command(Command { words, reading: Reading::Metrics(metrics), limit }),
                maintain: None,
            });
            before.push_str(&format!("after {line}"));
        }
    }
    items
}

/// Tests make and drop their own tables, so each finds the database empty; but what they leave in
/// caches and in the server's own tables is told to the next one's id.
fn sql_bench(workload: &Workload, suite: &SqlBench, selection: &Selection) -> Vec<Measure> {
    let SqlBench { pin, loop_count, options, operations, .. } = suite;
    let mut before = format!("sql-bench 1\n{pin}\n");
    let limit = Duration::try_from_secs_f64(suite.limit_seconds).unwrap_or(Duration::MAX);
    let mut items = Vec::new();
    for &threads in &workload.threads {
        for test in suite.tests.iter().filter(|test| selection.microbenchmark(test)) {
            let words = sqlbench::words(test, *loop_count, options);
            let line = format!("clients {threads} {words:?} {operations}\n");
            let reading = Reading::SqlBench { operations: *operations };
            items.push(Measure {
                microbenchmark: test.clone(),
                group: "sql-bench".to_owned(),
                writes: true,
                threads,
                seconds: suite.seconds,
                workload_id: Digest::of(format!("{before}measure {line}").as_bytes()),
                work: Work::Command(Command { words, reading, limit }),
                maintain: None,
            });
            before.push_str(&format!("after {line}"));
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::select::Names;
    use crate::matrix::model::{CommandTest, MetricRule, Placement};

    fn workload(names: &[&str]) -> Workload {
        let names = names.iter().map(|name| catalog::find(name).expect("known").name.to_owned());
        Workload {
            name: "w".to_owned(),
            kind: WorkloadKind::Sysbench(Suite {
                driver: LoadDriver::BuiltIn,
                tables: 1,
                rows: 1000,
                names: names.collect(),
                warmup_seconds: 1.0,
                read_seconds: 2.0,
                write_seconds: 3.0,
                prepared: true,
                patience_seconds: 60.0,
                rate: None,
                error_limit: 0.01,
            }),
            threads: vec![1],
            seed: 1,
            placement: Placement::Auto,
            span: 0..0,
        }
    }

    fn suite(workload: &mut Workload) -> &mut Suite {
        match &mut workload.kind {
            WorkloadKind::Sysbench(suite) => suite,
            other => panic!("{other:?}"),
        }
    }

    fn ids(workload: &Workload) -> Vec<Digest> {
        let items = items(workload, &Selection::default()).expect("known");
        items.into_iter().map(|item| item.workload_id).collect()
    }

    #[test]
    fn workload_id_follows_what_runs_before_and_not_what_runs_after() {
        let both = ids(&workload(&["scan", "insert"]));
        assert_eq!(ids(&workload(&["scan"])), both[..1]);
        assert_ne!(ids(&workload(&["insert"]))[0], both[1], "a read before counts, too");
        let changes: [fn(&mut Workload); 7] = [
            |w| suite(w).driver = LoadDriver::Sysbench,
            |w| suite(w).rate = Some(100.0),
            |w| suite(w).rows = 1001,
            |w| w.seed = 2,
            |w| suite(w).warmup_seconds = 1.5,
            |w| suite(w).prepared = false,
            |w| suite(w).read_seconds = 2.5,
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut other = workload(&["scan", "insert"]);
            change(&mut other);
            let other = ids(&other);
            assert!(other[0] != both[0] && other[1] != both[1], "change {index}");
        }
        let mut longer = workload(&["scan", "insert"]);
        suite(&mut longer).write_seconds = 4.0;
        assert_eq!(ids(&longer)[0], both[0]);
        assert_ne!(ids(&longer)[1], both[1]);
        let full = workload(&["scan", "insert"]);
        let names = Names { microbenchmarks: full.names(), ..Names::default() };
        let only = Selection::new(&["insert".to_owned()], &[], &names).expect("known");
        let alone = items(&full, &only).expect("known");
        assert_eq!(alone[0].workload_id, ids(&workload(&["insert"]))[0]);
    }

    #[test]
    fn reads_after_writes_find_a_server_at_rest() {
        let rests = |workload: &Workload| -> Vec<bool> {
            let items = items(workload, &Selection::default()).expect("known");
            items.iter().map(|item| item.maintain.is_some()).collect()
        };
        let mut mixed = workload(&["scan", "insert", "update-nonindex", "point-query", "insert"]);
        assert_eq!(rests(&mixed), [false, false, true, false, false]);
        let with = ids(&mixed);
        suite(&mut mixed).patience_seconds = 0.0;
        assert_eq!(rests(&mixed), [false; 5]);
        let without = ids(&mixed);
        assert!(with[..3] == without[..3] && with[3] != without[3], "what follows is another one");
    }

    #[test]
    fn the_insert_benchmark_has_all_steps_with_each_number_of_clients() {
        let benchmark = InsertBenchmark {
            rows_to_load: 1000,
            rows_to_write: 500,
            tables: catalog::protocol::TableLayout::PerClient,
            rates: vec![100],
            read_seconds: 5.0,
            deletes: true,
            patience_seconds: 10.0,
        };
        let threads = vec![1, 2];
        let kind = WorkloadKind::InsertBenchmark(benchmark);
        let workload = Workload { kind, threads, ..workload(&[]) };
        let all = items(&workload, &Selection::default()).expect("steps");
        let names: Vec<_> = all.iter().map(|it| (it.microbenchmark.as_str(), it.threads)).collect();
        let steps = ["l.i0", "l.x", "l.i1", "l.i2", "qr100", "qp100"];
        let expected: Vec<_> = [1, 2].iter().flat_map(|n| steps.map(|name| (name, *n))).collect();
        assert_eq!(names, expected);
        assert_eq!(all.iter().filter(|it| it.maintain.is_some()).count(), 2);
    }

    #[test]
    fn the_id_of_a_command_follows_its_words_and_its_metrics() {
        let test = |name: &str, word: &str| {
            let words = vec!["true".to_owned(), word.to_owned()];
            CommandTest { name: name.to_owned(), words }
        };
        let command = |tests: Vec<CommandTest>, unit: &str| {
            let (name, unit) = ("tps".to_owned(), Some(unit.to_owned()));
            let metrics = vec![MetricRule { name, pattern: None, unit, better: None }];
            let (load, seconds, limit_seconds) = (Vec::new(), 1.0, 10.0);
            let kind = CommandWorkload { load, seconds, limit_seconds, tests, metrics };
            Workload { kind: WorkloadKind::Command(kind), ..workload(&[]) }
        };
        let first = ids(&command(vec![test("a", "x"), test("b", "y")], "1/s"));
        assert_eq!(first, ids(&command(vec![test("a", "x"), test("b", "y")], "1/s")));
        assert_eq!(first[..1], ids(&command(vec![test("a", "x")], "1/s")));
        let other = ids(&command(vec![test("a", "z"), test("b", "y")], "1/s"));
        assert!(first[0] != other[0] && first[1] != other[1], "what ran before counts");
        assert_ne!(first[0], ids(&command(vec![test("a", "x")], "1/min"))[0]);
    }
}
