//! The text of the statements: with `$1` … to prepare, or with its values to send as it is.

use catalog::{Column, Key, Statement};

use crate::params::Params;

/// One statement against one table.
#[derive(Clone, Debug)]
pub struct Sql {
    /// The text between the values: one piece more than there are values.
    pieces: Vec<String>,
    /// For each value whether it is text, which is quoted when it stands in the statement.
    quoted: Vec<bool>,
}

/// In [`shape`]: a number.
const NUMBER: char = '#';
/// In [`shape`]: a text.
const TEXT: char = '@';

impl Sql {
    /// `statement` against `sbtest<table>`.
    pub fn new(statement: Statement, table: u32) -> Self {
        let shape = shape(statement, table);
        let quoted = shape.chars().filter(|c| [NUMBER, TEXT].contains(c)).map(|c| c == TEXT);
        Self {
            quoted: quoted.collect(),
            pieces: shape.split([NUMBER, TEXT]).map(str::to_owned).collect(),
        }
    }

    /// The statement to prepare.
    pub fn to_prepare(&self) -> String {
        let mut sql = self.pieces[0].clone();
        for (at, piece) in self.pieces.iter().enumerate().skip(1) {
            sql.push_str(&format!("${at}{piece}"));
        }
        sql
    }

    /// Appends the statement with its values. Texts are digits and dashes, nothing to escape.
    pub fn push_with_values(&self, params: &Params, out: &mut Vec<u8>) {
        debug_assert_eq!(params.len(), self.quoted.len());
        out.extend_from_slice(self.pieces[0].as_bytes());
        for ((value, quoted), piece) in params.iter().zip(&self.quoted).zip(&self.pieces[1..]) {
            let quote: &[u8] = if *quoted { b"'" } else { b"" };
            out.extend_from_slice(quote);
            out.extend_from_slice(value);
            out.extend_from_slice(quote);
            out.extend_from_slice(piece.as_bytes());
        }
    }
}

/// The statement with marks for its values.
fn shape(statement: Statement, table: u32) -> String {
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
        Statement::Insert => format!("INSERT INTO sbtest{table} (k, c, pad) VALUES (#, @, @)"),
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

    fn with_values(statement: Statement, numbers_and_texts: &[&str]) -> String {
        let mut params = Params::default();
        for value in numbers_and_texts {
            params.push_text(|out| out.extend_from_slice(value.as_bytes()));
        }
        let mut out = Vec::new();
        Sql::new(statement, 3).push_with_values(&params, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_list_has_as_many_values_as_asked() {
        let statement =
            Statement::SelectIn { columns: &[Column::K, Column::C], key: Key::K, count: 3 };
        assert_eq!(
            Sql::new(statement, 2).to_prepare(),
            "SELECT k,c FROM sbtest2 WHERE k IN ($1,$2,$3)"
        );
        assert_eq!(
            with_values(statement, &["7", "8", "9"]),
            "SELECT k,c FROM sbtest3 WHERE k IN (7,8,9)"
        );
    }

    #[test]
    fn texts_are_quoted_and_numbers_are_not() {
        assert_eq!(
            with_values(Statement::Reinsert, &["1", "2", "0-1", "3-4"]),
            "INSERT INTO sbtest3 (id, k, c, pad) VALUES (1, 2, '0-1', '3-4')"
        );
        assert_eq!(
            Sql::new(Statement::UpdateNonindex, 1).to_prepare(),
            "UPDATE sbtest1 SET c=$1 WHERE id=$2"
        );
    }

    #[test]
    fn without_values_the_text_is_the_statement() {
        assert_eq!(Sql::new(Statement::Begin, 1).to_prepare(), "BEGIN");
        assert_eq!(with_values(Statement::Scan, &[]), "SELECT * FROM sbtest3 WHERE LENGTH(c) < 0");
    }
}
