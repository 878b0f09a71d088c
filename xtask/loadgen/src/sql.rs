//! The text of the statements in the server's dialect: with marks for its values to prepare, or
//! with its values to send as it is.

use catalog::Statement;
use catalog::protocol::WireProtocol;
use catalog::sql::{NUMBER, TEXT, shape};

use crate::params::Params;

/// One statement against one table.
#[derive(Clone, Debug)]
pub struct Sql {
    /// The text between the values: one piece more than there are values.
    pieces: Vec<String>,
    /// For each value whether it is text, which is quoted when it stands in the statement.
    quoted: Vec<bool>,
    protocol: WireProtocol,
}

impl Sql {
    /// `statement` against `sbtest<table>`.
    pub fn new(protocol: WireProtocol, statement: Statement, table: u32) -> Self {
        Self::of_shape(protocol, &shape(protocol, statement, table))
    }

    /// A statement with `#` where a number goes and `@` where a text does.
    pub fn of_shape(protocol: WireProtocol, shape: &str) -> Self {
        let quoted = shape.chars().filter(|c| [NUMBER, TEXT].contains(c)).map(|c| c == TEXT);
        Self {
            quoted: quoted.collect(),
            pieces: shape.split([NUMBER, TEXT]).map(str::to_owned).collect(),
            protocol,
        }
    }

    /// The statement to prepare.
    pub fn to_prepare(&self) -> String {
        let mut sql = self.pieces[0].clone();
        for (at, piece) in self.pieces.iter().enumerate().skip(1) {
            match self.protocol {
                WireProtocol::Postgres => sql.push_str(&format!("${at}")),
                WireProtocol::Mysql => sql.push('?'),
            }
            sql.push_str(piece);
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
            value.with_text(|text| out.extend_from_slice(text));
            out.extend_from_slice(quote);
            out.extend_from_slice(piece.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use WireProtocol::{Mysql, Postgres};
    use catalog::{Column, Key};

    use super::*;

    fn with_values(
        protocol: WireProtocol,
        statement: Statement,
        numbers_and_texts: &[&str],
    ) -> String {
        let mut params = Params::default();
        for value in numbers_and_texts {
            params.push_text(|out| out.extend_from_slice(value.as_bytes()));
        }
        let mut out = Vec::new();
        Sql::new(protocol, statement, 3).push_with_values(&params, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn to_prepare(statement: Statement) -> [String; 2] {
        [Postgres, Mysql].map(|protocol| Sql::new(protocol, statement, 2).to_prepare())
    }

    #[test]
    fn a_list_has_as_many_values_as_asked() {
        let statement =
            Statement::SelectIn { columns: &[Column::K, Column::C], key: Key::K, count: 3 };
        assert_eq!(
            to_prepare(statement),
            [
                "SELECT k,c FROM sbtest2 WHERE k IN ($1,$2,$3)",
                "SELECT k,c FROM sbtest2 WHERE k IN (?,?,?)"
            ]
        );
        assert_eq!(
            with_values(Postgres, statement, &["7", "8", "9"]),
            "SELECT k,c FROM sbtest3 WHERE k IN (7,8,9)"
        );
    }

    #[test]
    fn texts_are_quoted_and_numbers_are_not() {
        for protocol in [Postgres, Mysql] {
            assert_eq!(
                with_values(protocol, Statement::Reinsert, &["1", "2", "0-1", "3-4"]),
                "INSERT INTO sbtest3 (id, k, c, pad) VALUES (1, 2, '0-1', '3-4')"
            );
        }
        assert_eq!(
            to_prepare(Statement::UpdateNonindex),
            ["UPDATE sbtest2 SET c=$1 WHERE id=$2", "UPDATE sbtest2 SET c=? WHERE id=?"]
        );
    }

    #[test]
    fn the_server_gives_the_id_of_an_insert() {
        assert_eq!(
            with_values(Postgres, Statement::Insert, &["2", "0-1", "3-4"]),
            "INSERT INTO sbtest3 (k, c, pad) VALUES (2, '0-1', '3-4')"
        );
        assert_eq!(
            with_values(Mysql, Statement::Insert, &["2", "0-1", "3-4"]),
            "INSERT INTO sbtest3 (id, k, c, pad) VALUES (0, 2, '0-1', '3-4')"
        );
    }

    #[test]
    fn without_values_the_text_is_the_statement() {
        assert_eq!(to_prepare(Statement::Begin), ["BEGIN", "BEGIN"]);
        assert_eq!(
            with_values(Mysql, Statement::Scan, &[]),
            "SELECT * FROM sbtest3 WHERE LENGTH(c) < 0"
        );
    }
}
