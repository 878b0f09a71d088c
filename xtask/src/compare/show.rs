//! Leaving out what the reader does not want to see, after everything has been judged together: a
//! verdict must not depend on what is shown beside it.

use super::{CellResult, Comparison, HostComparison};
use crate::stats::Verdict;

/// Which verdicts are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Slower by what matters.
    Regressions,
    /// Faster by what matters.
    Improvements,
    /// Neither shown nor ruled out.
    Undecided,
}

/// What [`Comparison::show_verdicts`] came to, over the microbenchmarks of all hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Entries with the verdict.
    pub found: usize,
    /// Entries that are undecided or have one pair only: of these nothing is known.
    pub undecided: usize,
    /// Rows that are no longer shown.
    pub hidden_rows: usize,
    /// Targets that are no longer shown, once per host.
    pub hidden_targets: usize,
}

impl Which {
    /// The verdicts of this word of the command line.
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "regressions" => Some(Self::Regressions),
            "improvements" => Some(Self::Improvements),
            "undecided" => Some(Self::Undecided),
            _ => None,
        }
    }

    /// One entry of them, in words.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Regressions => "regression",
            Self::Improvements => "improvement",
            Self::Undecided => "undecided entry",
        }
    }

    fn has(self, result: &CellResult) -> bool {
        let verdict = result.judged().map(|judged| judged.verdict);
        match self {
            Self::Regressions => verdict == Some(Verdict::Slower),
            Self::Improvements => verdict == Some(Verdict::Faster),
            Self::Undecided => undecided(result),
        }
    }
}

fn undecided(result: &CellResult) -> bool {
    match result {
        CellResult::Judged(judged) => matches!(judged.verdict, Verdict::Undecided { .. }),
        CellResult::Single { .. } => true,
        _ => false,
    }
}

impl Comparison {
    /// Keeps the targets and microbenchmarks for which the functions say so; groups keep the
    /// numbers of all their rows, and go when none of their rows is left.
    pub fn show_only(
        &mut self,
        target: &dyn Fn(&str) -> bool,
        microbenchmark: &dyn Fn(&str) -> bool,
    ) {
        let base = self.base.clone();
        for host in &mut self.hosts {
            host.keep(target, &|row| microbenchmark(&row.microbenchmark));
            host.notes.retain(|note| note.target == base || target(&note.target));
        }
    }

    /// Keeps the rows and targets with an entry that has one of the verdicts; a target or group
    /// stays, too, where only the group's mean has it.
    pub fn show_verdicts(&mut self, which: &[Which]) -> Found {
        let mut found = Found::default();
        let base = self.base.clone();
        for host in &mut self.hosts {
            host.show_verdicts(which, &mut found);
            let targets = &host.targets;
            host.notes.retain(|note| note.target == base || targets.contains(&note.target));
        }
        found
    }
}

impl HostComparison {
    fn show_verdicts(&mut self, which: &[Which], found: &mut Found) {
        let has = |result: &CellResult| which.iter().any(|which| which.has(result));
        let (rows, targets) = (self.rows.len(), self.targets.len());
        let results = || self.rows.iter().flat_map(|row| &row.cells).map(|cell| &cell.result);
        found.found += results().filter(|result| has(result)).count();
        found.undecided += results().filter(|result| undecided(result)).count();
        let kept: Vec<bool> = (0..targets)
            .map(|index| {
                self.rows.iter().any(|row| has(&row.cells[index].result))
                    || self.groups.iter().any(|group| has(&group.cells[index].geomean))
            })
            .collect();
        let names: Vec<String> = self
            .targets
            .iter()
            .zip(&kept)
            .filter(|(_, kept)| **kept)
            .map(|(it, _)| it.clone())
            .collect();
        let groups = self.groups.clone();
        self.keep(&|target| names.iter().any(|name| name == target), &|row| {
            row.cells.iter().any(|cell| has(&cell.result))
        });
        self.groups = groups;
        self.groups.retain(|group| {
            let rows = &self.rows;
            group.cells.iter().any(|cell| has(&cell.geomean))
                || rows.iter().any(|row| (&row.group, row.threads) == (&group.group, group.threads))
        });
        for group in &mut self.groups {
            group.cells.retain(|cell| names.contains(&cell.target));
        }
        found.hidden_rows += rows - self.rows.len();
        found.hidden_targets += targets - self.targets.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Options, compare};
    use crate::record::testing::record;

    #[test]
    fn only_the_rows_and_targets_with_the_verdict_stay_as_they_were() {
        let mut records = Vec::new();
        for block in 1..=5 {
            let noise = 1.0 + 0.001 * f64::from(block % 3);
            for (target, scan, point) in [("base", 1.0, 1.0), ("t", 0.8, 1.2), ("u", 1.0, 1.2)] {
                records.push(record(target, "scan", block, 1e3 * scan * noise));
                records.push(record(target, "point-query", block, 1e3 * point * noise));
            }
        }
        records.push(record("v", "scan", 1, 10.0));
        let all = compare(&records, "base", Options::default()).expect("comparable");
        let mut some = all.clone();
        let found = some.show_verdicts(&[Which::Regressions]);
        let expected = Found { found: 1, undecided: 1, hidden_rows: 1, hidden_targets: 2 };
        assert_eq!(found, expected);
        let host = &some.hosts[0];
        assert_eq!(host.targets, ["t"]);
        assert_eq!(host.rows[0].microbenchmark, "scan");
        let before = all.hosts[0].rows.iter().find(|row| row.microbenchmark == "scan");
        assert_eq!(host.rows[0].cells, before.expect("a row").cells[..1]);
        let mut none = all.clone();
        none.show_only(&|target| target == "u", &|_| true);
        let found = none.show_verdicts(&[Which::Regressions]);
        assert_eq!((found.found, found.undecided), (0, 0));
        assert!(none.hosts[0].rows.is_empty() && none.hosts[0].targets.is_empty());
    }
}
