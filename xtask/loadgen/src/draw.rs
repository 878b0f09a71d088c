//! Which table and which values a statement gets: each client draws from a stream of its own that
//! (seed, client) determine.

use catalog::protocol::Data;
use catalog::{Distribution, Statement, ZIPF_EXPONENT};

use crate::content::{draw_k, push_c, push_pad};
use crate::params::Params;
use crate::rng::Rng;
use crate::zipf::Zipf;

/// One client's stream of tables and values.
pub struct Draw {
    rng: Rng,
    ids: Ids,
    rows: u64,
    tables: u32,
    client: u32,
    /// Table and id of the last delete: its row is inserted again.
    deleted: (u32, u64),
}

/// How ids are drawn from 1..=rows.
enum Ids {
    Uniform,
    Zipfian(Zipf),
    First,
}

impl Draw {
    /// The stream of client number `client`, from 0.
    pub fn new(distribution: Distribution, data: &Data, seed: u64, client: u32) -> Self {
        let ids = match distribution {
            Distribution::Uniform | Distribution::None => Ids::Uniform,
            Distribution::Zipfian => Ids::Zipfian(Zipf::new(data.rows, ZIPF_EXPONENT)),
            Distribution::Constant => Ids::First,
        };
        Self {
            rng: Rng::of(&[seed, u64::from(client)]),
            ids,
            rows: data.rows,
            tables: data.tables,
            client,
            deleted: (1, 1),
        }
    }

    /// The table of a step, 1..=tables.
    pub fn table(&mut self, statement: Statement) -> u32 {
        match statement {
            Statement::Begin | Statement::Commit => 1,
            Statement::Scan => self.client % self.tables + 1,
            Statement::Reinsert => self.deleted.0,
            _ => 1 + self.rng.below(u64::from(self.tables)) as u32,
        }
    }

    /// The values of `statement` against `table`, in the order in which they stand in it.
    pub fn values(&mut self, statement: Statement, table: u32, params: &mut Params) {
        params.clear();
        match statement {
            Statement::Begin | Statement::Commit | Statement::Scan => {}
            Statement::SelectPoint | Statement::UpdateIndex => params.push_number(self.id()),
            Statement::SelectIn { count, .. } => self.push_ids(count, params),
            Statement::SelectHot { count } => {
                let hot = self.rows / 2;
                (1..=u64::from(count)).for_each(|at| params.push_number(hot + at));
            }
            Statement::SelectRange { distance, .. }
            | Statement::SelectSum { distance }
            | Statement::SelectOrder { distance }
            | Statement::SelectDistinct { distance } => {
                // As sysbench does: the range may reach over the end of the table.
                let first = self.id();
                params.push_number(first);
                params.push_number(first + u64::from(distance));
            }
            Statement::UpdateNonindex => {
                params.push_text(|out| push_c(&mut self.rng, out));
                params.push_number(self.id());
            }
            Statement::UpdateIn { count } => {
                params.push_text(|out| push_c(&mut self.rng, out));
                self.push_ids(count, params);
            }
            Statement::Delete => {
                self.deleted = (table, self.id());
                params.push_number(self.deleted.1);
            }
            Statement::Reinsert => {
                params.push_number(self.deleted.1);
                self.push_row(params);
            }
            Statement::Insert => self.push_row(params),
        }
    }

    fn push_row(&mut self, params: &mut Params) {
        params.push_number(draw_k(&mut self.rng, self.rows));
        params.push_text(|out| push_c(&mut self.rng, out));
        params.push_text(|out| push_pad(&mut self.rng, out));
    }

    /// Each of the list alone: one may occur twice. Values of k have the range of ids.
    fn push_ids(&mut self, count: u32, params: &mut Params) {
        for _ in 0..count {
            params.push_number(self.id());
        }
    }

    #[inline]
    fn id(&mut self) -> u64 {
        match &self.ids {
            Ids::Uniform => 1 + self.rng.below(self.rows),
            Ids::Zipfian(zipf) => zipf.draw(&mut self.rng),
            Ids::First => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Value;

    const DATA: Data = Data { tables: 3, rows: 1000, seed: 1 };

    fn numbers(draw: &mut Draw, statement: Statement) -> Vec<u64> {
        let mut params = Params::default();
        let table = draw.table(statement);
        draw.values(statement, table, &mut params);
        params.iter().map(number).collect()
    }

    fn number(value: Value<'_>) -> u64 {
        let Value::Number(number) = value else { panic!("{value:?} is no number") };
        number
    }

    fn draw(distribution: Distribution, client: u32) -> Draw {
        Draw::new(distribution, &DATA, 5, client)
    }

    #[test]
    fn clients_differ_and_repeat_themselves() {
        let list = Statement::SelectIn { columns: &[], key: catalog::Key::Id, count: 50 };
        let of = |client| numbers(&mut draw(Distribution::Uniform, client), list);
        assert_eq!(of(0), of(0));
        assert_ne!(of(0), of(1));
        assert_eq!(of(0).len(), 50);
        assert!(of(0).iter().all(|id| (1..=1000).contains(id)));
    }

    #[test]
    fn uniform_ids_reach_both_ends_and_tables_are_all_used() {
        let mut draw = draw(Distribution::Uniform, 0);
        let mut ids = std::collections::BTreeSet::new();
        let mut tables = std::collections::BTreeSet::new();
        for _ in 0..20_000 {
            ids.extend(numbers(&mut draw, Statement::SelectPoint));
            tables.insert(draw.table(Statement::SelectPoint));
        }
        assert_eq!((ids.first(), ids.last()), (Some(&1), Some(&1000)));
        assert_eq!(tables.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn zipfian_prefers_the_first_and_constant_is_the_first() {
        let mut zipf = draw(Distribution::Zipfian, 0);
        let ones = (0..1000).filter(|_| numbers(&mut zipf, Statement::UpdateIndex) == [1]).count();
        // 1 / (sum of x^-0.8 for x in 1..=1000) = 0.065
        assert!((30..110).contains(&ones), "{ones}");
        let mut constant = draw(Distribution::Constant, 0);
        assert_eq!(numbers(&mut constant, Statement::SelectPoint), [1]);
        let hot = numbers(&mut constant, Statement::SelectHot { count: 3 });
        assert_eq!(hot, [501, 502, 503]);
    }

    #[test]
    fn a_deleted_row_comes_back_where_it_was() {
        let mut draw = draw(Distribution::Uniform, 0);
        for _ in 0..100 {
            let table = draw.table(Statement::Delete);
            let mut params = Params::default();
            draw.values(Statement::Delete, table, &mut params);
            let deleted = params.iter().next().map(number);
            assert_eq!(draw.table(Statement::Reinsert), table);
            draw.values(Statement::Reinsert, table, &mut params);
            assert_eq!(params.iter().next().map(number), deleted);
            assert_eq!(params.len(), 4);
        }
    }

    #[test]
    fn ranges_have_their_length_and_clients_scan_their_own_table() {
        let mut draw = draw(Distribution::Uniform, 4);
        let ends = numbers(&mut draw, Statement::SelectSum { distance: 9 });
        assert_eq!(ends[1] - ends[0], 9);
        assert_eq!(draw.table(Statement::Scan), 2);
    }
}
