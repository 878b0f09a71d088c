//! Targets that were not measured because another one has the same code and config: they get that
//! one's numbers, after everything has been judged, so that no number is judged twice.

use super::{CellResult, Comparison, HostComparison, Made};

impl Comparison {
    /// Gives the targets of `known` that have fewer runs on `host` than one with the same
    /// [`Made::code_id`] the numbers of that one, and says so in a note. `known` are the targets as
    /// they are on that host now, in the order of the experiment.
    pub fn share_runs(&mut self, host: &str, known: &[Made]) {
        let Some(comparison) = self.hosts.iter_mut().find(|it| it.host == host) else { return };
        for made in known.iter().filter(|made| made.code_id.is_some() && made.target != self.base) {
            comparison.share(&self.base, made, known);
        }
    }
}

impl HostComparison {
    fn share(&mut self, base: &str, made: &Made, known: &[Made]) {
        let place = self.targets.iter().position(|target| *target == made.target);
        let own = place.map_or(0, |place| self.runs(place));
        let same = |other: &&Made| {
            other.target != made.target
                && other.code_id == made.code_id
                && other.audit == made.audit
        };
        let twins = known.iter().filter(same);
        if twins.clone().any(|twin| twin.target == base) {
            if own == 0 && self.base_made.is_some() {
                self.put(place, made, None);
            }
            return;
        }
        let measured = twins.filter_map(|twin| {
            let at = self.targets.iter().position(|target| *target == twin.target)?;
            // Not what it has from another one itself.
            self.made[at].same_as.is_none().then(|| (self.runs(at), at))
        });
        if let Some((runs, from)) = measured.max_by_key(|(runs, at)| (*runs, usize::MAX - at))
            && runs > own
        {
            self.put(place, made, Some(from));
        }
    }

    /// How many runs of a target were measured.
    fn runs(&self, target: usize) -> u32 {
        self.rows.iter().filter_map(|row| row.cells[target].metrics).map(|it| it.runs).sum()
    }

    /// Makes the column of a target from that of another one, or of the base.
    fn put(&mut self, place: Option<usize>, made: &Made, from: Option<usize>) {
        let (name, base) = (&made.target, &self.base_made);
        let with = from.map(|from| self.targets[from].clone());
        let with = with.or_else(|| base.as_ref().map(|base| base.target.clone()));
        let mut made = Made { same_as: with, ..made.clone() };
        // The mark is that of the runs.
        made.audit = match from {
            Some(from) => self.made[from].audit.clone(),
            None => base.as_ref().and_then(|base| base.audit.clone()),
        };
        let at = place.unwrap_or(from.map_or(self.targets.len(), |from| from + 1));
        for row in &mut self.rows {
            let cell = match from {
                Some(from) => super::Cell { target: name.clone(), ..row.cells[from].clone() },
                None => super::Cell {
                    target: name.clone(),
                    result: CellResult::SameCode,
                    metrics: row.base,
                    failures: Vec::new(),
                    not_held: row.base_not_held.clone(),
                },
            };
            set(&mut row.cells, place, at, cell);
        }
        for group in &mut self.groups {
            let cell = match from {
                Some(from) => {
                    super::GroupCell { target: name.clone(), ..group.cells[from].clone() }
                }
                None => super::GroupCell {
                    target: name.clone(),
                    spread: None,
                    rows: 0,
                    geomean: CellResult::SameCode,
                    geomean_rows: 0,
                },
            };
            set(&mut group.cells, place, at, cell);
        }
        set(&mut self.targets, place, at, name.clone());
        set(&mut self.made, place, at, made);
    }
}

/// Replaces what is at `place`, or inserts at `at`.
fn set<T>(list: &mut Vec<T>, place: Option<usize>, at: usize, value: T) {
    match place {
        Some(place) => list[place] = value,
        None => list.insert(at, value),
    }
}
