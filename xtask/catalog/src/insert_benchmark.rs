//! The insert benchmark: the steps that published comparisons of database releases have run since
//! December 2023, in order and with their names.
//!
//! | step | what | ends |
//! |---|---|---|
//! | l.i0 | load in the order of the primary key, no secondary index, 100 rows per commit | rows |
//! | l.x | make the three secondary indexes | done |
//! | l.i1 | insert 4/5 of the rows to write, 50 rows per commit, delete as many | rows |
//! | l.i2 | the other 1/5, 5 rows per commit, delete as many | rows |
//! | qr100, qp100, qr500, … | insert and delete at that rate per client, 50 rows per commit, and query | time |
//!
//! Read steps come by rate, each first with range queries (qr), then with point queries (qp).
//! Maintenance ([`crate::protocol::Maintain`]) follows l.i2.
//!
//! Two differences are on purpose. l.x inserts no rows: the published client adds a hundred before
//! it makes the indexes, because each of its steps must insert something. A read step ends by time,
//! so that a server which does not hold the rate is measured for as long as the others; the
//! published one ends with its rows and lasts longer.

use crate::protocol::{InsertStep, Queries, StepKind, TableLayout};

/// The rates of the published read steps, in rows per second and client.
pub const RATES: [u32; 3] = [100, 500, 1000];

/// The part of the asked rate that must be reached for the rate to count as held.
pub const HELD: f64 = 0.95;

/// Bytes of a row on average, without what a server adds: id and time of 8 each, four numbers of 4,
/// a text of 10 to 20.
pub const ROW_BYTES: u32 = 47;

/// Rows per commit of l.i0.
const LOAD_BATCH: u32 = 100;
/// Rows per commit of l.i1 and of the read steps (there lowered to the rate).
const WRITE_BATCH: u32 = 50;
/// Rows per commit of l.i2.
const SMALL_BATCH: u32 = 5;

/// How large the benchmark is.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    /// Rows of l.i0 over all clients.
    pub rows_to_load: u64,
    /// Rows of l.i1 and l.i2 together over all clients.
    pub rows_to_write: u64,
    /// How many clients.
    pub clients: u32,
    /// One table per client, or one for all.
    pub tables: TableLayout,
    /// Seconds of each read step.
    pub read_seconds: f64,
    /// Rates of the read steps, in rows per second and client; [`RATES`] are the published ones.
    pub rates: Vec<u32>,
    /// Whether each step after l.x deletes as many rows as it inserts.
    pub deletes: bool,
    /// Each step's own seed is derived from it.
    pub seed: u64,
}

/// A step and what reports call it.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedStep {
    /// For example `l.i0` or `qr100`.
    pub name: String,
    /// What the driver is to do.
    pub step: InsertStep,
}

/// The steps in order.
pub fn steps(size: &Size) -> Vec<NamedStep> {
    let first = size.rows_to_write - size.rows_to_write / 5;
    let mut list = vec![
        named("l.i0", size, StepKind::Load, size.rows_to_load, LOAD_BATCH),
        named("l.x", size, StepKind::Index, 0, LOAD_BATCH),
        named("l.i1", size, StepKind::Write, first, WRITE_BATCH),
        named("l.i2", size, StepKind::Write, size.rows_to_write - first, SMALL_BATCH),
    ];
    for &rate in &size.rates {
        for (prefix, queries) in [("qr", Queries::Range), ("qp", Queries::Point)] {
            let rows = (f64::from(rate) * size.read_seconds).ceil() as u64;
            let rows = rows * u64::from(size.clients);
            let kind = StepKind::Read { queries };
            let mut step = named(&format!("{prefix}{rate}"), size, kind, rows, WRITE_BATCH);
            step.step.rate = Some(rate);
            step.step.seconds = Some(size.read_seconds);
            list.push(step);
        }
    }
    list.retain(|named| named.step.step == StepKind::Index || named.step.rows > 0);
    let mut before = 0;
    for (at, NamedStep { step, .. }) in (1u64..).zip(&mut list) {
        step.rows_before = before;
        before += step.all_rows();
        // Seeds of neighbouring blocks are neighbours, too: the number of the step goes elsewhere.
        step.seed = size.seed ^ (at << 48);
    }
    list
}

fn named(name: &str, size: &Size, step: StepKind, rows: u64, rows_per_commit: u32) -> NamedStep {
    let step = InsertStep {
        step,
        clients: size.clients,
        tables: size.tables,
        rows,
        rows_before: 0,
        rate: None,
        rows_per_commit,
        deletes: size.deletes && matches!(step, StepKind::Write | StepKind::Read { .. }),
        seconds: None,
        seed: 0,
    };
    NamedStep { name: name.to_owned(), step }
}

/// The names of the tables.
pub fn table_names(layout: TableLayout, clients: u32) -> Vec<String> {
    let tables = match layout {
        TableLayout::PerClient => clients,
        TableLayout::Shared => 1,
    };
    (1..=tables).map(|table| format!("pi{table}")).collect()
}

/// Whether `rows_per_second`, inserted by all clients together, is the rate that was asked of each:
/// at least [`HELD`] of it, in whole rows.
pub fn is_held(rows_per_second: f64, clients: u32, rate: u32) -> bool {
    rows_per_second >= (HELD * f64::from(clients) * f64::from(rate)).round()
}

impl InsertStep {
    /// The names of its tables.
    pub fn table_names(&self) -> Vec<String> {
        table_names(self.tables, self.clients)
    }

    /// Rows of one INSERT: never more than a second's.
    pub fn batch_rows(&self) -> u32 {
        self.rate.map_or(self.rows_per_commit, |rate| rate.min(self.rows_per_commit)).max(1)
    }

    /// INSERTs of each client: its share in whole batches.
    pub fn batches_per_client(&self) -> u64 {
        let share = self.rows.div_ceil(u64::from(self.clients.max(1)));
        share.div_ceil(u64::from(self.batch_rows()))
    }

    /// Rows of all clients with their shares rounded up.
    pub fn all_rows(&self) -> u64 {
        self.batches_per_client() * u64::from(self.batch_rows()) * u64::from(self.clients)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size() -> Size {
        Size {
            rows_to_load: 10_000,
            rows_to_write: 1_003,
            clients: 3,
            tables: TableLayout::PerClient,
            read_seconds: 60.0,
            rates: RATES.to_vec(),
            deletes: true,
            seed: 7,
        }
    }

    #[test]
    fn the_published_order_and_names() {
        let steps = steps(&size());
        let names: Vec<_> = steps.iter().map(|step| step.name.as_str()).collect();
        let expected =
            ["l.i0", "l.x", "l.i1", "l.i2", "qr100", "qp100", "qr500", "qp500", "qr1000", "qp1000"];
        assert_eq!(names, expected);
    }

    #[test]
    fn each_step_is_what_the_table_says() {
        let steps = steps(&size());
        let of = |name: &str| &steps.iter().find(|step| step.name == name).unwrap().step;
        let load = of("l.i0");
        assert_eq!((load.step, load.rows, load.rows_per_commit), (StepKind::Load, 10_000, 100));
        assert!(!load.deletes && load.rate.is_none() && load.seconds.is_none());
        let index = of("l.x");
        assert_eq!((index.step, index.rows, index.deletes), (StepKind::Index, 0, false));
        // 4/5 and 1/5 of the rows to write, and no row lost between them.
        let (one, two) = (of("l.i1"), of("l.i2"));
        assert_eq!((one.step, one.rows, one.rows_per_commit), (StepKind::Write, 803, 50));
        assert_eq!((two.step, two.rows, two.rows_per_commit), (StepKind::Write, 200, 5));
        assert!(one.deletes && two.deletes && one.rate.is_none());
        let read = of("qp500");
        assert_eq!(read.step, StepKind::Read { queries: Queries::Point });
        assert_eq!((read.rate, read.seconds), (Some(500), Some(60.0)));
        assert_eq!((read.rows, read.rows_per_commit, read.deletes), (90_000, 50, true));
    }

    #[test]
    fn no_two_steps_share_rows_or_their_time() {
        let steps = steps(&size());
        let seeds: std::collections::BTreeSet<u64> = steps.iter().map(|s| s.step.seed).collect();
        assert_eq!(seeds.len(), steps.len());
        let next = super::steps(&Size { seed: 8, ..size() });
        assert!(next.iter().all(|step| !seeds.contains(&step.step.seed)));
        let before: Vec<u64> = steps.iter().map(|step| step.step.rows_before).collect();
        // 3 × 34 × 100, then 3 × 6 × 50, then 3 × 14 × 5.
        assert_eq!(before[..5], [0, 10_200, 10_200, 11_100, 11_310]);
    }

    #[test]
    fn without_deletes_or_rows_to_write() {
        let steps = steps(&Size { rows_to_write: 0, deletes: false, rates: vec![20], ..size() });
        let names: Vec<_> = steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["l.i0", "l.x", "qr20", "qp20"]);
        assert!(steps.iter().all(|step| !step.step.deletes));
    }

    #[test]
    fn batches_are_whole_and_never_above_the_rate() {
        let mut step = steps(&size()).swap_remove(2).step;
        for (rows, clients, per_commit, rate, expected) in [
            (100, 1, 50, None, (50, 2, 100)),
            (101, 1, 50, None, (50, 3, 150)),
            (101, 2, 50, None, (50, 2, 200)),
            (100, 1, 50, Some(20), (20, 5, 100)),
            (100, 1, 50, Some(1000), (50, 2, 100)),
            (1, 4, 50, None, (50, 1, 200)),
        ] {
            step.rows = rows;
            step.clients = clients;
            step.rows_per_commit = per_commit;
            step.rate = rate;
            let found = (step.batch_rows(), step.batches_per_client(), step.all_rows());
            assert_eq!(found, expected, "{step:?}");
        }
    }

    #[test]
    fn a_rate_is_held_from_95_percent_on() {
        assert!(is_held(95.0, 1, 100) && !is_held(94.9, 1, 100));
        // 95% of 3 × 7 is 19.95, in whole rows 20.
        assert!(is_held(20.0, 3, 7) && !is_held(19.96, 3, 7));
    }

    #[test]
    fn tables() {
        assert_eq!(table_names(TableLayout::PerClient, 3), ["pi1", "pi2", "pi3"]);
        assert_eq!(table_names(TableLayout::Shared, 3), ["pi1"]);
    }
}
