//! Leaving out what the reader does not want to see, after everything has been judged together: a
//! verdict must not depend on what is shown beside it.

use super::{Comparison, HostComparison};

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
            host.show_only(target, microbenchmark);
            host.notes.retain(|note| note.target == base || target(&note.target));
        }
    }
}

impl HostComparison {
    fn show_only(&mut self, target: &dyn Fn(&str) -> bool, microbenchmark: &dyn Fn(&str) -> bool) {
        self.targets.retain(|name| target(name));
        self.made.retain(|made| target(&made.target));
        self.rows.retain(|row| microbenchmark(&row.microbenchmark));
        for row in &mut self.rows {
            row.cells.retain(|cell| target(&cell.target));
        }
        let rows = &self.rows;
        self.groups.retain(|group| {
            rows.iter().any(|row| row.group == group.group && row.threads == group.threads)
        });
        for group in &mut self.groups {
            group.cells.retain(|cell| target(&cell.target));
        }
    }
}
