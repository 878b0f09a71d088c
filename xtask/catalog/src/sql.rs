//! The text of every statement, with marks for its values: the same for each load driver.

use crate::protocol::WireProtocol;
use crate::{Column, Key, Statement};

/// In [`shape`]: a number.
pub const NUMBER: char = '#';
/// In [`shape`]: a text.
pub const TEXT: char = '@';

/// `statement` against `sbtest<table>` in the server's dialect, a mark ([`NUMBER`], [`TEXT`]) for
/// each value.
pub fn shape(
    protocol: WireProtocol,
    statement: Statement,
    table: impl std::fmt::Display,
) -> String {
    let list = |count: u32| vec![NUMBER.to_string(); count as usize].join(",");
    match statement {
        Statement::Begin => "BEGIN".to_owned(),
        Statement::Commit => "COMMIT".to_owned(),
        Statement::SelectPoint => format!("SELECT c FROM sbtest{table} WHERE id=#"),
        Statement::SelectIn { columns, key: by, count } => {
            let (columns, by) = (names(columns), key(by));
            format!("SELECT {columns} FROM sbtest{table} WHERE {by} IN ({})", list(count))
        }
        Statement::SelectHot { count } => {
            format!("SELECT c FROM sbtest{table} WHERE id IN ({})", list(count))
        }
        Statement::SelectRange { columns, key: by, .. } => {
            let (columns, by) = (names(columns), key(by));
            format!("SELECT {columns} FROM sbtest{table} WHERE {by} BETWEEN # AND #")
        }
        Statement::SelectSum { .. } => {
            format!("SELECT SUM(k) FROM sbtest{table} WHERE id BETWEEN # AND #")
        }
        Statement::SelectOrder { .. } => {
            format!("SELECT c FROM sbtest{table} WHERE id BETWEEN # AND # ORDER BY c")
        }
        Statement::SelectDistinct { .. } => {
            format!("SELECT DISTINCT c FROM sbtest{table} WHERE id BETWEEN # AND # ORDER BY c")
        }
        Statement::Scan => format!("SELECT * FROM sbtest{table} WHERE LENGTH(c) < 0"),
        Statement::UpdateIndex => format!("UPDATE sbtest{table} SET k=k+1 WHERE id=#"),
        Statement::UpdateNonindex => format!("UPDATE sbtest{table} SET c=@ WHERE id=#"),
        Statement::UpdateIn { count } => {
            format!("UPDATE sbtest{table} SET c=@ WHERE id IN ({})", list(count))
        }
        Statement::Delete => format!("DELETE FROM sbtest{table} WHERE id=#"),
        Statement::Reinsert => {
            format!("INSERT INTO sbtest{table} (id, k, c, pad) VALUES (#, #, @, @)")
        }
        Statement::Insert => match protocol {
            WireProtocol::Postgres => {
                format!("INSERT INTO sbtest{table} (k, c, pad) VALUES (#, @, @)")
            }
            // The form of sysbench: an id of 0 asks for the next one.
            WireProtocol::Mysql => {
                format!("INSERT INTO sbtest{table} (id, k, c, pad) VALUES (0, #, @, @)")
            }
        },
    }
}

fn names(columns: &[Column]) -> String {
    let name = |column: &Column| match column {
        Column::Id => "id",
        Column::K => "k",
        Column::C => "c",
    };
    columns.iter().map(name).collect::<Vec<_>>().join(",")
}

fn key(key: Key) -> &'static str {
    match key {
        Key::Id => "id",
        Key::K => "k",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_may_be_a_mark_too_and_marks_stand_for_values() {
        let shape = |statement| shape(WireProtocol::Mysql, statement, "<table>");
        assert_eq!(shape(Statement::UpdateNonindex), "UPDATE sbtest<table> SET c=@ WHERE id=#");
        assert_eq!(
            shape(Statement::UpdateIn { count: 2 }),
            "UPDATE sbtest<table> SET c=@ WHERE id IN (#,#)"
        );
    }
}
