//! The insert benchmark on any server: what every step must have done to the tables, what its
//! figures must be, whether a rate is held. What the tables hold is asked with the server's own
//! client.

use std::time::Duration;

use catalog::insert_benchmark::{NamedStep, Size, is_held, steps};
use catalog::protocol::{
    Action, Event, InsertStep, Maintain, Maintained, Measured, Queries, StepKind, Stream,
    TableLayout,
};

use super::{failure, last, measured};

/// A server under test.
pub struct Target<'a> {
    /// Runs the driver; its exit code and events.
    pub drive: &'a (dyn Fn(Action) -> (i32, Vec<Event>) + Sync),
    /// Runs SQL by the server's own client.
    pub sql: &'a (dyn Fn(&str) -> String + Sync),
    /// Holds `pi1` for 0.7 s, so that nobody can insert.
    pub hold: &'a str,
    /// Has the server refuse the INSERT of a row into `pi1` at random, as it does after a deadlock.
    pub refuse: &'a str,
    /// Ends that.
    pub accept: &'a str,
    /// The code of that refusal.
    pub refusal: &'a str,
}

pub const SIZE: Size = Size {
    rows_to_load: 5950,
    rows_to_write: 2500,
    clients: 2,
    tables: TableLayout::PerClient,
    read_seconds: 2.0,
    rates: Vec::new(),
    deletes: true,
    seed: 11,
};

impl Target<'_> {
    fn step(&self, step: &InsertStep) -> Measured {
        measured((self.drive)(Action::InsertStep(step.clone())))
    }

    fn rows(&self, step: &InsertStep) -> u64 {
        let count = |table: &String| (self.sql)(&format!("SELECT COUNT(*) FROM {table}"));
        step.table_names().iter().map(|table| count(table).parse::<u64>().unwrap()).sum()
    }

    /// All steps; after each the tables hold what its figures say. `after` sees each that is done.
    pub fn every_step(&self, after: impl Fn(&str)) {
        (self.sql)("CREATE TABLE pi9 (a int)");
        (self.sql)("CREATE TABLE pictures (a int)");
        let mut rows = 0;
        for NamedStep { name, step } in steps(&Size { rates: vec![100, 1000], ..SIZE }) {
            let (code, mut events) = (self.drive)(Action::InsertStep(step.clone()));
            assert_eq!(code, 0, "{name}: {events:?}");
            let Some(Event::Measured(measured)) = events.pop() else {
                panic!("{name}: {events:?}")
            };
            the_window_is_told_in_order(&events, &measured);
            adds_up(&name, &step, &measured);
            let balance = |stream: &str| find(&measured, stream).map_or(0, in_tables);
            rows = rows + balance("insert") - balance("delete");
            assert_eq!(self.rows(&step), rows, "{name}: {measured:?}");
            assert_eq!(measured.errors, [], "{name}");
            if let (StepKind::Read { .. }, Some(rate)) = (step.step, step.rate) {
                self.reads(&name, &step, &measured, rate);
            }
            if name == "l.i0" {
                self.the_rows_are_the_same_everywhere();
            }
            after(&name);
        }
        // The tables of earlier runs, but none that is not the benchmark's.
        (self.sql)("DROP TABLE pictures; CREATE TABLE pi9 (a int); DROP TABLE pi9");
    }

    fn reads(&self, name: &str, step: &InsertStep, measured: &Measured, rate: u32) {
        assert_eq!(measured.seconds, 2.0, "{name}");
        let inserts = find(measured, "insert").unwrap();
        let reached = inserts.operations as f64 / measured.seconds / f64::from(rate) / 2.0;
        // A batch may end behind the window.
        assert!((0.85..=1.05).contains(&reached), "{name}: {reached} {measured:?}");
        let queries = find(measured, "query").unwrap();
        assert!(queries.operations > 10 && measured.rows > 10, "{name}: {measured:?}");
        assert!(measured.rows <= 10 * queries.operations, "{name}: {measured:?}");
        if step.step == (StepKind::Read { queries: Queries::Range }) {
            // Only at the top of the domain fewer than ten.
            assert!(measured.rows > 9 * queries.operations, "{name}: {measured:?}");
        }
        let deletes = find(measured, "delete").unwrap();
        assert_eq!(in_tables(deletes), in_tables(inserts), "{name}");
    }

    /// The figures are those of the generator, not of a server.
    fn the_rows_are_the_same_everywhere(&self) {
        let sums = |table: &str| {
            let list = ["cashregisterid", "customerid", "productid", "price", "LENGTH(data)"]
                .map(|column| format!("SUM({column})"));
            let row = (self.sql)(&format!("SELECT {} FROM {table}", list.join(", ")));
            row.replace('\t', "|")
        };
        assert_eq!(sums("pi1"), "1521329|150037102|14762593|744435|45311");
        assert_eq!(sums("pi2"), "1484616|150142268|15037323|741587|44815");
        let times = "SELECT COUNT(DISTINCT dateandtime), MIN(dateandtime), MAX(dateandtime) FROM";
        let row = (self.sql)(&format!("{times} pi1")).replace('\t', "|");
        assert_eq!(row, "3|2024-01-01 00:00:00|2024-01-01 00:00:02");
    }

    /// Three clients, one table.
    pub fn one_table_for_all(&self) {
        let size = Size { tables: TableLayout::Shared, clients: 3, rates: vec![500], ..SIZE };
        let mut rows = 0;
        for NamedStep { name, step } in steps(&Size { read_seconds: 1.0, ..size }) {
            let measured = self.step(&step);
            let balance = |stream: &str| find(&measured, stream).map_or(0, in_tables);
            if step.step != StepKind::Index && step.seconds.is_none() {
                assert_eq!(balance("insert"), step.all_rows(), "{name}");
            }
            rows = rows + balance("insert") - balance("delete");
            assert_eq!(self.rows(&step), rows, "{name}: {measured:?}");
            // Clients want the same oldest rows; each still gets as many as it has inserted.
            let expected = if step.deletes { balance("insert") } else { 0 };
            assert_eq!(balance("delete"), expected, "{name}: {measured:?}");
        }
        assert_eq!((self.sql)("SELECT COUNT(*) FROM pi1"), rows.to_string());
    }

    /// A rate that no server holds gives a lower one, and no response time of more than the second
    /// that is made up for and what the server took.
    pub fn a_rate_that_cannot_be_held(&self) {
        let step = self.a_read_step(50_000_000, 50);
        let measured = self.step(&step);
        let inserts = find(&measured, "insert").unwrap();
        let rate = inserts.operations as f64 / measured.seconds;
        assert!(rate > 0.0 && !is_held(rate, 1, 50_000_000), "{measured:?}");
        // Of two seconds, which is where it would end if all of it was made up for.
        assert!((500_000..1_600_000).contains(&inserts.latency.p95_us), "{measured:?}");
    }

    /// While nobody could insert, 140 batches were due. They wait that long, not only one of them,
    /// and when the server is free again, they are sent: the rate is held.
    pub fn a_stall_shows_in_all_that_wait(&self) {
        let step = InsertStep { rows: 3000, seconds: Some(3.0), ..self.a_read_step(1000, 5) };
        let measured = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(700));
                (self.sql)(self.hold);
            });
            self.step(&step)
        });
        let inserts = find(&measured, "insert").unwrap();
        assert!(is_held(inserts.operations as f64 / measured.seconds, 1, 1000), "{measured:?}");
        assert!(inserts.latency.max_us > 600_000, "{measured:?}");
        // 140 of 600: of the slowest 5% nearly all have waited for the most of it.
        assert!(inserts.latency.p95_us > 400_000, "{measured:?}");
        assert!(inserts.latency.p50_us < 300_000, "{measured:?}");
    }

    /// A refused INSERT is counted, sent again, and counts once.
    pub fn what_is_refused_is_sent_again(&self) {
        let write = self.a_write_step();
        let before = self.rows(&write);
        (self.sql)(self.refuse);
        let measured = self.step(&write);
        (self.sql)(self.accept);
        let [(code, count)] = &measured.errors[..] else { panic!("{measured:?}") };
        assert_eq!(code, self.refusal);
        assert!(*count > 5, "{measured:?}");
        assert_eq!(find(&measured, "insert").unwrap().operations, 1000);
        assert_eq!(self.rows(&write), before + 1000);
    }

    /// What is no chance of concurrency ends the step, and nothing counts.
    pub fn what_cannot_succeed_is_a_failure(&self) {
        (self.sql)("TRUNCATE TABLE pi1");
        (self.sql)("ALTER TABLE pi1 ADD CONSTRAINT cheap CHECK (price < 0)");
        let write = InsertStep { deletes: true, ..self.a_write_step() };
        let reason = failure((self.drive)(Action::InsertStep(write.clone())));
        for part in ["the inserts of client 0 failed", "`INSERT INTO pi1 (", "cheap"] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
        (self.sql)("ALTER TABLE pi1 DROP CONSTRAINT cheap");
        assert_eq!(self.rows(&write), 0);
        (self.sql)("DROP TABLE pi1");
        let reason = failure((self.drive)(Action::InsertStep(write)));
        assert!(reason.contains("cannot set up client 0 (were the tables loaded?)"), "{reason}");
    }

    pub fn maintain(&self, tables: &[&str]) -> Maintained {
        let tables = tables.iter().map(|table| (*table).to_owned()).collect();
        let action = Action::Maintain(Maintain { tables, patience_seconds: 30.0 });
        let Event::Maintained(maintained) = last((self.drive)(action)) else { panic!("no event") };
        let sum: f64 = maintained.parts.iter().map(|(_, seconds)| seconds).sum();
        assert!(sum > 0.0 && sum <= maintained.seconds, "{maintained:?}");
        maintained
    }

    pub fn maintains_what_is_there(&self) {
        let tables = vec!["pi1".to_owned(), "not_there".to_owned()];
        let action = Action::Maintain(Maintain { tables, patience_seconds: 30.0 });
        let reason = failure((self.drive)(action));
        assert!(reason.contains("not_there"), "{reason}");
    }

    fn a_read_step(&self, rate: u32, rows_per_commit: u32) -> InsertStep {
        let list = steps(&Size { clients: 1, rates: vec![rate], ..SIZE });
        let read = list.into_iter().find(|named| named.name == format!("qr{rate}")).unwrap();
        InsertStep { rows_per_commit, ..read.step }
    }

    fn a_write_step(&self) -> InsertStep {
        let write = steps(&Size { clients: 1, deletes: false, ..SIZE }).swap_remove(2).step;
        InsertStep { rows: 1000, rows_per_commit: 5, ..write }
    }
}

fn find<'a>(measured: &'a Measured, name: &str) -> Option<&'a Stream> {
    measured.streams.iter().find(|stream| stream.name == name)
}

fn in_tables(stream: &Stream) -> u64 {
    stream.operations + stream.late
}

#[track_caller]
fn the_window_is_told_in_order(events: &[Event], measured: &Measured) {
    let [Event::WindowBegin, seconds @ .., Event::WindowEnd] = events else {
        panic!("{events:?}");
    };
    // The last statement may end a moment before a second does, and be seen behind it.
    let surplus = seconds.len() - measured.seconds as usize;
    assert!(surplus <= 1, "{events:?} {measured:?}");
    for (expected, event) in (1..).zip(seconds) {
        assert!(matches!(event, Event::Second { second, .. } if *second == expected), "{event:?}");
    }
}

/// The figures of a step fit each other and what was asked.
#[track_caller]
fn adds_up(name: &str, step: &InsertStep, measured: &Measured) {
    let expected: &[&str] = match step.step {
        StepKind::Load => &["insert"],
        StepKind::Index => &["index"],
        StepKind::Write => &["insert", "delete"],
        StepKind::Read { .. } => &["insert", "delete", "query"],
    };
    let names: Vec<_> = measured.streams.iter().map(|stream| stream.name.as_str()).collect();
    assert_eq!(names, expected, "{name}");
    let whole = measured.seconds as usize;
    for stream in &measured.streams {
        assert_eq!(stream.per_second.len(), whole, "{name}: {stream:?}");
        assert!(stream.per_second.iter().sum::<u64>() <= stream.operations, "{name}: {stream:?}");
        let latency = &stream.latency;
        assert!(latency.p50_us > 0 && latency.p50_us <= latency.max_us, "{name}: {stream:?}");
        assert!(latency.max_us as f64 / 1e6 <= measured.seconds, "{name}: {measured:?}");
    }
    assert_eq!(measured.queries_per_second.len(), whole, "{name}");
    assert_eq!(measured.events, measured.queries, "{name}");
    let cpu = measured.client.user_seconds + measured.client.system_seconds;
    assert!(cpu > 0.0 || step.step == StepKind::Index, "{name}: {measured:?}");
    match step.step {
        StepKind::Index => assert_eq!(measured.streams[0].operations, 6, "{name}"),
        StepKind::Load | StepKind::Write => {
            for stream in &measured.streams {
                let found = (stream.operations, stream.late);
                assert_eq!(found, (step.all_rows(), 0), "{name}: {stream:?}");
            }
            let batches = step.batches_per_client() * u64::from(step.clients);
            assert_eq!(measured.queries, batches * measured.streams.len() as u64, "{name}");
        }
        StepKind::Read { .. } => {}
    }
}
