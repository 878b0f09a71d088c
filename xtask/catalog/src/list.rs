//! The 42 microbenchmarks in run order: the list that published comparisons of MySQL, MyRocks and
//! PostgreSQL builds used in 2024. The statements are sysbench's own and four more shapes (points
//! and ranges, covered or not by the index).

use crate::microbenchmark::{
    Column, Distribution, DurationClass, Group, Key, Microbenchmark, Phase, Statement, Step,
};

const fn once(statement: Statement) -> Step {
    Step { times: 1, statement }
}

const C: &[Column] = &[Column::C];
const ID: &[Column] = &[Column::Id];
const ID_C: &[Column] = &[Column::Id, Column::C];
const K: &[Column] = &[Column::K];
const K_C: &[Column] = &[Column::K, Column::C];

static POINT: [Step; 1] = [once(Statement::SelectPoint)];
static RANDOM_10: [Step; 1] = points(C, Key::Id, 10);
static RANDOM_100: [Step; 1] = points(C, Key::Id, 100);
static RANDOM_1000: [Step; 1] = points(C, Key::Id, 1000);
static HOT: [Step; 1] = [once(Statement::SelectHot { count: 100 })];
static POINTS_ID: [Step; 1] = points(ID, Key::Id, 100);
static POINTS_ID_C: [Step; 1] = points(ID_C, Key::Id, 100);
static POINTS_K: [Step; 1] = points(K, Key::K, 100);
static POINTS_K_C: [Step; 1] = points(K_C, Key::K, 100);
static RANGE_ID: [Step; 1] = range(ID, Key::Id);
static RANGE_ID_C: [Step; 1] = range(ID_C, Key::Id);
static RANGE_K: [Step; 1] = range(K, Key::K);
static RANGE_K_C: [Step; 1] = range(K_C, Key::K);
static READ_10: [Step; 7] = read_only(10);
static READ_100: [Step; 7] = read_only(100);
static READ_10000: [Step; 7] = read_only(10_000);
static READ_WRITE_10: [Step; 11] = read_write(10);
static READ_WRITE_100: [Step; 11] = read_write(100);
static SCAN: [Step; 1] = [once(Statement::Scan)];
static UPDATE_IN: [Step; 1] = [once(Statement::UpdateIn { count: 10 })];
static UPDATE_INDEX: [Step; 1] = [once(Statement::UpdateIndex)];
static UPDATE_NONINDEX: [Step; 1] = [once(Statement::UpdateNonindex)];
static DELETE: [Step; 1] = [once(Statement::Delete)];
static INSERT: [Step; 1] = [once(Statement::Insert)];
static WRITE_ONLY: [Step; 6] = {
    let [index, nonindex, delete, insert] = WRITES;
    [once(Statement::Begin), index, nonindex, delete, insert, once(Statement::Commit)]
};

const fn points(columns: &'static [Column], key: Key, count: u32) -> [Step; 1] {
    [once(Statement::SelectIn { columns, key, count })]
}

/// 101 rows: both ends count.
const fn range(columns: &'static [Column], key: Key) -> [Step; 1] {
    [once(Statement::SelectRange { columns, key, distance: 100 })]
}

/// Unlike [`range`], the four ranges of sysbench's own scripts hold exactly `rows` rows.
const fn read_only(rows: u32) -> [Step; 7] {
    let distance = rows - 1;
    [
        once(Statement::Begin),
        Step { times: 10, statement: Statement::SelectPoint },
        once(Statement::SelectRange { columns: C, key: Key::Id, distance }),
        once(Statement::SelectSum { distance }),
        once(Statement::SelectOrder { distance }),
        once(Statement::SelectDistinct { distance }),
        once(Statement::Commit),
    ]
}

const fn read_write(rows: u32) -> [Step; 11] {
    let [begin, points, range, sum, order, distinct, commit] = read_only(rows);
    let [index, nonindex, delete, insert] = WRITES;
    [begin, points, range, sum, order, distinct, index, nonindex, delete, insert, commit]
}

const WRITES: [Step; 4] = [
    once(Statement::UpdateIndex),
    once(Statement::UpdateNonindex),
    once(Statement::Delete),
    once(Statement::Reinsert),
];

const fn read(
    name: &'static str,
    phase: Phase,
    group: Group,
    steps: &'static [Step],
) -> Microbenchmark {
    Microbenchmark {
        name,
        phase,
        group,
        duration: DurationClass::Read,
        steps,
        distribution: Distribution::Uniform,
        prepared: true,
    }
}

const fn pre(name: &'static str, group: Group, steps: &'static [Step]) -> Microbenchmark {
    read(name, Phase::Pre, group, steps)
}

const fn post(name: &'static str, group: Group, steps: &'static [Step]) -> Microbenchmark {
    read(name, Phase::Post, group, steps)
}

const fn write(name: &'static str, steps: &'static [Step]) -> Microbenchmark {
    Microbenchmark {
        duration: DurationClass::Write,
        ..read(name, Phase::Write, Group::Writes, steps)
    }
}

use Group::{Point1, Point2, Range1, Range2};

/// The 42 microbenchmarks, in run order.
#[rustfmt::skip] // a table
pub static MICROBENCHMARKS: [Microbenchmark; 42] = [
    pre("point-query.pre_range=100",           Point1, &POINT),
    pre("random-points.pre_range=10",          Point2, &RANDOM_10),
    pre("random-points.pre_range=100",         Point2, &RANDOM_100),
    pre("random-points.pre_range=1000",        Point2, &RANDOM_1000),
    pre("read-only.pre_range=10",              Range2, &READ_10),
    pre("read-only.pre_range=100",             Range2, &READ_100),
    pre("read-only.pre_range=10000",           Range2, &READ_10000),
    pre("points-covered-pk.pre_range=100",     Point1, &POINTS_ID),
    pre("points-notcovered-pk.pre_range=100",  Point1, &POINTS_ID_C),
    pre("points-covered-si.pre_range=100",     Point1, &POINTS_K),
    pre("points-notcovered-si.pre_range=100",  Point1, &POINTS_K_C),
    pre("range-covered-pk.pre_range=100",      Range1, &RANGE_ID),
    pre("range-notcovered-pk.pre_range=100",   Range1, &RANGE_ID_C),
    pre("range-covered-si.pre_range=100",      Range1, &RANGE_K),
    pre("range-notcovered-si.pre_range=100",   Range1, &RANGE_K_C),
    write("update-inlist_range=100",           &UPDATE_IN),
    write("update-index_range=100",            &UPDATE_INDEX),
    write("update-nonindex_range=100",         &UPDATE_NONINDEX),
    Microbenchmark { distribution: Distribution::Constant, ..
    write("update-one_range=100",              &UPDATE_NONINDEX) },
    Microbenchmark { distribution: Distribution::Zipfian, ..
    write("update-zipf_range=100",             &UPDATE_NONINDEX) },
    // A write, but the published runs give it the read duration.
    Microbenchmark { duration: DurationClass::Read, ..
    write("write-only_range=10000",            &WRITE_ONLY) },
    write("read-write_range=10",               &READ_WRITE_10),
    write("read-write_range=100",              &READ_WRITE_100),
    post("read-only_range=10",                 Range2, &READ_10),
    post("read-only_range=100",                Range2, &READ_100),
    post("read-only_range=10000",              Range2, &READ_10000),
    post("point-query_range=100",              Point1, &POINT),
    post("random-points_range=10",             Point2, &RANDOM_10),
    post("random-points_range=100",            Point2, &RANDOM_100),
    post("random-points_range=1000",           Point2, &RANDOM_1000),
    Microbenchmark { distribution: Distribution::Constant, ..
    post("hot-points_range=100",               Point1, &HOT) },
    post("points-covered-pk_range=100",        Point1, &POINTS_ID),
    post("points-notcovered-pk_range=100",     Point1, &POINTS_ID_C),
    post("points-covered-si_range=100",        Point1, &POINTS_K),
    post("points-notcovered-si_range=100",     Point1, &POINTS_K_C),
    post("range-covered-pk_range=100",         Range1, &RANGE_ID),
    post("range-notcovered-pk_range=100",      Range1, &RANGE_ID_C),
    post("range-covered-si_range=100",         Range1, &RANGE_K),
    post("range-notcovered-si_range=100",      Range1, &RANGE_K_C),
    Microbenchmark { duration: DurationClass::Scan, distribution: Distribution::None,
                     prepared: false, ..
    post("scan_range=100",                     Range1, &SCAN) },
    Microbenchmark { phase: Phase::WriteLast, ..
    write("delete_range=100",                  &DELETE) },
    Microbenchmark { phase: Phase::WriteLast, prepared: false, ..
    write("insert_range=100",                  &INSERT) },
];

/// The tests of sql-bench, in the order in which the suite runs them all.
pub const SQL_BENCH_TESTS: [&str; 9] = [
    "alter-table",
    "ATIS",
    "big-tables",
    "connect",
    "create",
    "insert",
    "select",
    "transactions",
    "wisconsin",
];
