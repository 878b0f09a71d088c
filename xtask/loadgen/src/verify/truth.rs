//! What the statements must give: the rows of the seed, and what one event has changed of them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail, ensure};
use catalog::protocol::{Data, WireProtocol};
use catalog::{Column, Key, Statement};

use crate::client::Executed;
use crate::content::{Content, Row};

/// The rows as they must be.
pub struct Truth {
    data: Data,
    /// Rows that the event has changed; `None`: deleted.
    changed: BTreeMap<(u32, u64), Option<Row>>,
}

impl Truth {
    /// Freshly loaded.
    pub fn new(data: &Data) -> Self {
        Self { data: data.clone(), changed: BTreeMap::new() }
    }

    /// Compares what a statement gave, and follows what it changed.
    ///
    /// # Errors
    ///
    /// Says how the result differs.
    pub fn check(&mut self, executed: &Executed<'_>) -> anyhow::Result<()> {
        let values: Vec<String> = executed.params.iter().map(|value| value.to_string()).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let expected = self.result(executed.statement, executed.table, &values)?;
        let affected = self.change(executed.statement, executed.table, &values)?;
        if executed.statement.reads_only() {
            let ordered = matches!(
                executed.statement,
                Statement::SelectOrder { .. } | Statement::SelectDistinct { .. }
            );
            compare(executed.rows, &expected, ordered)?;
            ensure!(
                executed.done.rows == expected.len() as u64,
                "{} rows were counted of {}",
                executed.done.rows,
                expected.len()
            );
        } else {
            let done = executed.done.affected;
            ensure!(done == affected, "it changed {done} rows, it must change {affected}");
        }
        Ok(())
    }

    /// The rows that the event has touched and what they must be; a new row's id is the next one.
    pub fn touched(&self) -> impl Iterator<Item = (u32, u64, Option<Vec<String>>)> {
        self.changed.iter().map(|((table, id), row)| {
            let row =
                row.as_ref().map(|row| vec![row.k.to_string(), row.c.clone(), row.pad.clone()]);
            (*table, *id, row)
        })
    }

    /// The statements that make the touched rows what they were.
    pub fn undo(&self, protocol: WireProtocol) -> Vec<String> {
        let rows = self.data.rows;
        let mut sql = Vec::new();
        for (table, id) in self.changed.keys() {
            sql.push(format!("DELETE FROM sbtest{table} WHERE id = {id}"));
            sql.push(if *id <= rows {
                let Row { k, c, pad } = self.content(*table).row(*id);
                format!(
                    "INSERT INTO sbtest{table} (id, k, c, pad) VALUES ({id}, {k}, '{c}', '{pad}')"
                )
            } else {
                // The server gave this id: it shall be the next one again.
                match protocol {
                    WireProtocol::Postgres => {
                        format!("SELECT setval('sbtest{table}_id_seq', {rows})")
                    }
                    WireProtocol::Mysql => {
                        format!("ALTER TABLE sbtest{table} AUTO_INCREMENT = {}", rows + 1)
                    }
                }
            });
        }
        sql
    }

    /// The rows that a reading statement must return, in order only where it orders.
    fn result(
        &self,
        statement: Statement,
        table: u32,
        values: &[&str],
    ) -> anyhow::Result<Vec<Vec<String>>> {
        let ids = |key, wanted: &dyn Fn(u64) -> bool| self.ids(table, key, wanted);
        let select = |columns: &[Column], ids: Vec<u64>| -> Vec<Vec<String>> {
            ids.into_iter().map(|id| self.columns(table, id, columns)).collect()
        };
        Ok(match statement {
            Statement::SelectPoint | Statement::SelectHot { .. } => {
                let list = numbers(values)?;
                select(&[Column::C], ids(Key::Id, &|id| list.contains(&id)))
            }
            Statement::SelectIn { columns, key, .. } => {
                let list = numbers(values)?;
                select(columns, ids(key, &|value| list.contains(&value)))
            }
            Statement::SelectRange { columns, key, .. } => {
                let range = range(values)?;
                select(columns, ids(key, &|value| range.contains(&value)))
            }
            Statement::SelectSum { .. } => {
                let range = range(values)?;
                let ids = ids(Key::Id, &|id| range.contains(&id));
                let sum: u64 = ids.iter().filter_map(|id| self.k(table, *id)).sum();
                vec![vec![sum.to_string()]]
            }
            Statement::SelectOrder { .. } | Statement::SelectDistinct { .. } => {
                let range = range(values)?;
                let mut rows = select(&[Column::C], ids(Key::Id, &|id| range.contains(&id)));
                rows.sort();
                if matches!(statement, Statement::SelectDistinct { .. }) {
                    rows.dedup();
                }
                rows
            }
            // No c is shorter than nothing.
            Statement::Scan | Statement::Begin | Statement::Commit => Vec::new(),
            Statement::UpdateIndex
            | Statement::UpdateNonindex
            | Statement::UpdateIn { .. }
            | Statement::Delete
            | Statement::Reinsert
            | Statement::Insert => Vec::new(),
        })
    }

    /// Follows a writing statement; the number of rows that it must change.
    fn change(&mut self, statement: Statement, table: u32, values: &[&str]) -> anyhow::Result<u64> {
        match (statement, values) {
            (Statement::UpdateIndex, [id]) => {
                self.update(table, &numbers(&[id])?, |row| row.k += 1)
            }
            (Statement::UpdateNonindex | Statement::UpdateIn { .. }, [c, ids @ ..]) => {
                self.update(table, &numbers(ids)?, |row| row.c = (*c).to_owned())
            }
            (Statement::Delete, [id]) => {
                let id = id.parse()?;
                let there = self.row(table, id).is_some();
                self.changed.insert((table, id), None);
                Ok(u64::from(there))
            }
            (Statement::Reinsert, [id, row @ ..]) => self.insert(table, id.parse()?, row),
            (Statement::Insert, row) => self.insert(table, self.data.rows + 1, row),
            _ => Ok(0),
        }
    }

    fn update(
        &mut self,
        table: u32,
        ids: &BTreeSet<u64>,
        change: impl Fn(&mut Row),
    ) -> anyhow::Result<u64> {
        let mut updated = 0;
        for id in ids {
            if let Some(mut row) = self.row(table, *id) {
                change(&mut row);
                self.changed.insert((table, *id), Some(row));
                updated += 1;
            }
        }
        Ok(updated)
    }

    fn insert(&mut self, table: u32, id: u64, row: &[&str]) -> anyhow::Result<u64> {
        let [k, c, pad] = row else { bail!("an insert has {} values", row.len()) };
        let row = Row { k: k.parse()?, c: (*c).to_owned(), pad: (*pad).to_owned() };
        self.changed.insert((table, id), Some(row));
        Ok(1)
    }

    /// The ids, in order, of the rows whose `key` is wanted.
    fn ids(&self, table: u32, key: Key, wanted: &dyn Fn(u64) -> bool) -> Vec<u64> {
        let content = self.content(table);
        let is_wanted = |id: &u64| match key {
            Key::Id => wanted(*id) && self.changed.get(&(table, *id)) != Some(&None),
            Key::K => match self.changed.get(&(table, *id)) {
                Some(row) => row.as_ref().is_some_and(|row| wanted(row.k)),
                None => wanted(content.k(*id)),
            },
        };
        (1..=self.data.rows).filter(is_wanted).collect()
    }

    fn columns(&self, table: u32, id: u64, columns: &[Column]) -> Vec<String> {
        let Some(row) = self.row(table, id) else { return Vec::new() };
        let value = |column: &Column| match column {
            Column::Id => id.to_string(),
            Column::K => row.k.to_string(),
            Column::C => row.c.clone(),
        };
        columns.iter().map(value).collect()
    }

    fn k(&self, table: u32, id: u64) -> Option<u64> {
        self.row(table, id).map(|row| row.k)
    }

    fn row(&self, table: u32, id: u64) -> Option<Row> {
        match self.changed.get(&(table, id)) {
            Some(row) => row.clone(),
            None if (1..=self.data.rows).contains(&id) => Some(self.content(table).row(id)),
            None => None,
        }
    }

    fn content(&self, table: u32) -> Content {
        Content::new(&self.data, table)
    }
}

fn numbers(values: &[&str]) -> anyhow::Result<BTreeSet<u64>> {
    let number = |value: &&str| value.parse().with_context(|| format!("`{value}` is no number"));
    values.iter().map(number).collect()
}

fn range(values: &[&str]) -> anyhow::Result<std::ops::RangeInclusive<u64>> {
    let [first, last] = values else { bail!("a range has {} values", values.len()) };
    Ok(first.parse()?..=last.parse()?)
}

/// Compares rows with those that must come, which are in order where `ordered`.
///
/// # Errors
///
/// Says how many there are, or which row differs first.
pub fn compare(
    rows: &[Vec<Option<String>>],
    expected: &[Vec<String>],
    ordered: bool,
) -> anyhow::Result<()> {
    ensure!(rows.len() == expected.len(), "it returned {} rows of {}", rows.len(), expected.len());
    // `char(n)` is filled up with blanks.
    let trim = |value: &Option<String>| value.as_ref().map(|v| v.trim_end_matches(' ').to_owned());
    let mut rows: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(trim).collect()).collect();
    let mut expected: Vec<Vec<_>> =
        expected.iter().map(|row| row.iter().cloned().map(Some).collect()).collect();
    if !ordered {
        rows.sort();
        expected.sort();
    }
    for (at, (row, expected)) in rows.iter().zip(&expected).enumerate() {
        ensure!(row == expected, "row {} is {row:?}, it must be {expected:?}", at + 1);
    }
    Ok(())
}
