//! The types of a microbenchmark and how one is found by name.

use crate::list::MICROBENCHMARKS;

/// The exponent of [`Distribution::Zipfian`] (sysbench's default `--rand-zipfian-exp`).
pub const ZIPF_EXPONENT: f64 = 0.8;

/// Bytes of a row of `sbtestN` without what a server adds: id and k of 4 each, c of 119, pad of 59.
pub const ROW_BYTES: u32 = 186;

/// One kind of event that is measured alone.
#[derive(Debug, PartialEq)]
pub struct Microbenchmark {
    /// The full name: `<stem>[.pre]_range=<label>`, for example `points-covered-si.pre_range=100`.
    /// The label is what the published scripts pass as `--range-size`; some do not use it.
    pub name: &'static str,
    /// When it runs.
    pub phase: Phase,
    /// The group that its result is summarised in.
    pub group: Group,
    /// Which of the workload's durations applies.
    pub duration: DurationClass,
    /// One event: these steps in this order.
    pub steps: &'static [Step],
    /// How keys are drawn.
    pub distribution: Distribution,
    /// Whether its statements may be prepared; `false`: always sent as text.
    pub prepared: bool,
}

impl Microbenchmark {
    /// Statements of one event, BEGIN and COMMIT among them: what sysbench counts as queries.
    pub fn queries_per_event(&self) -> u32 {
        self.steps.iter().map(|step| step.times).sum()
    }

    /// Whether it leaves the data as it was.
    pub fn read_only(&self) -> bool {
        self.steps.iter().all(|step| step.statement.reads_only())
    }

    /// Rows that one event inserts, changes or deletes.
    pub fn rows_written(&self) -> u32 {
        let rows = |step: &Step| match step.statement {
            statement if statement.reads_only() => 0,
            Statement::UpdateIn { count } => step.times * count,
            _ => step.times,
        };
        self.steps.iter().map(rows).sum()
    }

    /// Everything before `_range=`: `points-covered-si.pre`.
    pub fn stem(&self) -> &'static str {
        self.split().0
    }

    /// The number after `_range=`.
    pub fn label(&self) -> &'static str {
        self.split().1
    }

    fn split(&self) -> (&'static str, &'static str) {
        self.name.split_once("_range=").expect("a test holds every name of the list to this form")
    }
}

/// All full names, in run order.
pub fn names() -> impl Iterator<Item = &'static str> {
    MICROBENCHMARKS.iter().map(|microbenchmark| microbenchmark.name)
}

/// The microbenchmark that `name` means.
///
/// 1. A full name means itself.
/// 2. Else `name` is a stem (nothing after it is left out but `_range=<label>`). `point-query` is
///    never `point-query.pre`: who means the run before the writes says `.pre`.
/// 3. A stem with one label means that one; with several, the one with the label 100.
///
/// So `random-points` is `random-points_range=100` and `write-only` is `write-only_range=10000`. On
/// a miss the caller has [`names`] to propose the nearest from.
pub fn find(name: &str) -> Option<&'static Microbenchmark> {
    if let Some(exact) = MICROBENCHMARKS.iter().find(|m| m.name == name) {
        return Some(exact);
    }
    let mut with_stem = MICROBENCHMARKS.iter().filter(|m| m.stem() == name);
    let first = with_stem.next()?;
    match with_stem.clone().next() {
        None => Some(first),
        Some(_) => std::iter::once(first).chain(with_stem).find(|m| m.label() == "100"),
    }
}

/// When a microbenchmark runs: the suite leaves state from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// On the data as loaded.
    Pre,
    /// The writes that keep the number of rows.
    Write,
    /// Reads after the writes and the maintenance that follows them.
    Post,
    /// Last: the writes that change the number of rows.
    WriteLast,
}

/// The group that a result is summarised in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Point queries, but for random points.
    Point1,
    /// Random points.
    Point2,
    /// Range queries without aggregation, and the scan.
    Range1,
    /// Range queries with aggregation.
    Range2,
    /// Everything that writes.
    Writes,
}

impl Group {
    /// All groups, in the order of the tables.
    pub const ALL: [Self; 5] =
        [Self::Point1, Self::Point2, Self::Range1, Self::Range2, Self::Writes];

    /// The name in records and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Point1 => "point-1",
            Self::Point2 => "point-2",
            Self::Range1 => "range-1",
            Self::Range2 => "range-2",
            Self::Writes => "writes",
        }
    }
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Which of a workload's durations applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationClass {
    /// `read-seconds`.
    Read,
    /// `write-seconds`.
    Write,
    /// A scan: the read duration, but a window must hold several whole scans to mean anything.
    Scan,
}

/// How keys are drawn from the ids 1..=rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Each equally likely.
    Uniform,
    /// Zipfian with [`ZIPF_EXPONENT`]: id 1 is the most likely.
    Zipfian,
    /// Always the same: id 1, or for [`Statement::SelectHot`] its fixed list.
    Constant,
    /// There is no key.
    None,
}

/// A statement, some times over, against one table: the table is drawn once per step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How often, each time with fresh keys.
    pub times: u32,
    /// The statement.
    pub statement: Statement,
}

/// A column that is looked up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The primary key.
    Id,
    /// The column with the secondary index.
    K,
}

/// A column that is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The primary key.
    Id,
    /// The column with the secondary index.
    K,
    /// The long text.
    C,
}

/// A statement against a table `sbtestN` with the columns id, k, c, pad. Each `?` is a value that
/// is drawn anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    /// `BEGIN`
    Begin,
    /// `COMMIT`
    Commit,
    /// `SELECT c WHERE id = ?`
    SelectPoint,
    /// `SELECT <columns> WHERE <key> IN (?, …)`
    SelectIn {
        /// What is selected.
        columns: &'static [Column],
        /// What is looked up by.
        key: Key,
        /// Length of the list.
        count: u32,
    },
    /// `SELECT c WHERE id IN (h+1, …, h+count)` with h = rows / 2: always the same rows.
    SelectHot {
        /// Length of the list.
        count: u32,
    },
    /// `SELECT <columns> WHERE <key> BETWEEN ? AND ?+distance`, both ends included.
    SelectRange {
        /// What is selected.
        columns: &'static [Column],
        /// What is looked up by.
        key: Key,
        /// Last value less the first.
        distance: u32,
    },
    /// `SELECT SUM(k) WHERE id BETWEEN ? AND ?+distance`
    SelectSum {
        /// Last value less the first.
        distance: u32,
    },
    /// `SELECT c WHERE id BETWEEN ? AND ?+distance ORDER BY c`
    SelectOrder {
        /// Last value less the first.
        distance: u32,
    },
    /// `SELECT DISTINCT c WHERE id BETWEEN ? AND ?+distance ORDER BY c`
    SelectDistinct {
        /// Last value less the first.
        distance: u32,
    },
    /// `SELECT * WHERE LENGTH(c) < 0`: reads every row, returns none. Each client has its table:
    /// client mod tables.
    Scan,
    /// `UPDATE SET k = k + 1 WHERE id = ?`
    UpdateIndex,
    /// `UPDATE SET c = ? WHERE id = ?`
    UpdateNonindex,
    /// `UPDATE SET c = ? WHERE id IN (?, …)`
    UpdateIn {
        /// Length of the list.
        count: u32,
    },
    /// `DELETE WHERE id = ?`
    Delete,
    /// `INSERT (id, k, c, pad)` with table and id of the [`Statement::Delete`] before it.
    Reinsert,
    /// `INSERT (k, c, pad)`: the server gives the id.
    Insert,
}

impl Statement {
    /// Whether it leaves the data as it was.
    pub fn reads_only(self) -> bool {
        match self {
            Self::Begin
            | Self::Commit
            | Self::SelectPoint
            | Self::SelectIn { .. }
            | Self::SelectHot { .. }
            | Self::SelectRange { .. }
            | Self::SelectSum { .. }
            | Self::SelectOrder { .. }
            | Self::SelectDistinct { .. }
            | Self::Scan => true,
            Self::UpdateIndex
            | Self::UpdateNonindex
            | Self::UpdateIn { .. }
            | Self::Delete
            | Self::Reinsert
            | Self::Insert => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn there_are_42_with_different_names_of_the_right_form() {
        assert_eq!(MICROBENCHMARKS.len(), 42);
        assert_eq!(names().collect::<BTreeSet<_>>().len(), 42);
        for name in names() {
            let (stem, label) = name.split_once("_range=").unwrap();
            assert!(label.parse::<u32>().is_ok(), "{name}");
            assert!(!stem.is_empty() && !stem.contains(['_', '=', ' ']), "{name}");
        }
    }

    #[test]
    fn groups_have_their_counts() {
        let count = |group| MICROBENCHMARKS.iter().filter(|m| m.group == group).count();
        assert_eq!(Group::ALL.map(count), [11, 6, 9, 6, 10]);
    }

    #[test]
    fn only_the_writes_change_data() {
        for m in &MICROBENCHMARKS {
            assert_eq!(m.read_only(), m.group != Group::Writes, "{}", m.name);
            let writes = matches!(m.phase, Phase::Write | Phase::WriteLast);
            assert_eq!(m.read_only(), !writes, "{}", m.name);
            assert_eq!(m.phase == Phase::Pre, m.stem().ends_with(".pre"), "{}", m.name);
        }
    }

    #[test]
    fn queries_per_event_are_those_of_recorded_sysbench_runs() {
        for m in &MICROBENCHMARKS {
            let expected = match m.stem().trim_end_matches(".pre") {
                "read-only" => 16,
                "write-only" => 6,
                "read-write" => 20,
                _ => 1,
            };
            assert_eq!(m.queries_per_event(), expected, "{}", m.name);
        }
    }

    #[test]
    fn phases_follow_each_other() {
        let mut phases: Vec<Phase> = MICROBENCHMARKS.iter().map(|m| m.phase).collect();
        phases.dedup();
        assert_eq!(phases, [Phase::Pre, Phase::Write, Phase::Post, Phase::WriteLast]);
    }

    #[test]
    fn sizes_follow_the_label_where_the_scripts_use_it() {
        for m in &MICROBENCHMARKS {
            let label: u32 = m.label().parse().unwrap();
            for step in m.steps {
                match step.statement {
                    Statement::SelectIn { count, .. } | Statement::SelectHot { count } => {
                        assert_eq!(count, label, "{}", m.name);
                    }
                    Statement::SelectRange { distance, .. } => {
                        let both_ends = m.stem().starts_with("range-");
                        assert_eq!(distance, if both_ends { label } else { label - 1 });
                    }
                    Statement::SelectSum { distance }
                    | Statement::SelectOrder { distance }
                    | Statement::SelectDistinct { distance } => assert_eq!(distance, label - 1),
                    // The published run never passes the list's length: the script's default.
                    Statement::UpdateIn { count } => assert_eq!(count, 10),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn a_short_name_means_the_run_after_the_writes_with_label_100() {
        for (short, full) in [
            ("point-query", "point-query_range=100"),
            ("point-query.pre", "point-query.pre_range=100"),
            ("random-points", "random-points_range=100"),
            ("random-points.pre", "random-points.pre_range=100"),
            ("range-covered-pk", "range-covered-pk_range=100"),
            ("read-only", "read-only_range=100"),
            ("scan", "scan_range=100"),
            ("update-nonindex", "update-nonindex_range=100"),
            ("insert", "insert_range=100"),
            ("write-only", "write-only_range=10000"),
            ("read-write", "read-write_range=100"),
            ("random-points_range=1000", "random-points_range=1000"),
        ] {
            assert_eq!(find(short).map(|m| m.name), Some(full), "{short}");
        }
    }

    #[test]
    fn every_name_and_every_stem_is_found() {
        for m in &MICROBENCHMARKS {
            assert_eq!(find(m.name), Some(m));
            assert_eq!(find(m.stem()).map(Microbenchmark::stem), Some(m.stem()));
        }
    }

    #[test]
    fn anything_else_is_not_found() {
        for wrong in ["", "points", "point-query_range=10", "scan.pre", "Point-query", "insert "] {
            assert_eq!(find(wrong), None, "{wrong}");
        }
    }
}
