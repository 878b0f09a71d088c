//! Loading MySQL and MariaDB: multi-row INSERT, index, ANALYZE, pages written.
//!
//! Not LOAD DATA LOCAL: MySQL from 8.0 on refuses it unless it is configured otherwise.

use super::Filler;
use crate::admin::{analyze, engine, execute};
use crate::connection::Connection;
use crate::content::Content;

/// As much as sysbench puts into one statement; half of what the smallest default of
/// `max_allowed_packet` (1 MiB) allows.
const PIECE_BYTES: usize = 512 * 1024;

/// Makes and fills one table. Each statement is a transaction: one for all rows would be kept for
/// undo. A failure leaves the table as far as it is.
pub fn fill_table(
    connection: &mut dyn Connection,
    table: u32,
    rows: u64,
    filler: &mut Filler<'_>,
) -> anyhow::Result<()> {
    execute(connection, &create_table(table))?;
    let insert = format!("INSERT INTO sbtest{table} (id, k, c, pad) VALUES ");
    filler.send(connection, &insert, (rows, PIECE_BYTES), push_row)?;
    execute(connection, &format!("CREATE INDEX k_{table} ON sbtest{table} (k)"))?;
    analyze(connection, &format!("sbtest{table}"))?;
    write_pages(connection, table)
}

/// sysbench's table, in the engine that is the server's default: InnoDB, unless the server's
/// configuration names another one (MyRocks).
fn create_table(table: u32) -> String {
    format!(
        "CREATE TABLE sbtest{table} (id INTEGER NOT NULL AUTO_INCREMENT, \
         k INTEGER DEFAULT 0 NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, \
         pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id))"
    )
}

fn push_row(content: &Content, id: u64, piece: &mut Vec<u8>) {
    if !piece.is_empty() {
        piece.push(b',');
    }
    content.push_insert_row(id, piece);
}

/// Has InnoDB write the table's dirty pages and merge what the change buffer has for it, and waits:
/// this statement is for copying a table's file and so leaves nothing open. Other engines have no
/// such statement; a shutdown brings them to rest.
fn write_pages(connection: &mut dyn Connection, table: u32) -> anyhow::Result<()> {
    if engine(connection, &format!("sbtest{table}"))?.as_deref() != Some("InnoDB") {
        return Ok(());
    }
    execute(connection, &format!("FLUSH TABLES sbtest{table} FOR EXPORT"))?;
    execute(connection, "UNLOCK TABLES")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_piece_are_joined_by_commas() {
        let data = catalog::protocol::Data { tables: 1, rows: 9, seed: 1 };
        let content = Content::new(&data, 1);
        let mut piece = Vec::new();
        push_row(&content, 4, &mut piece);
        let one = piece.len();
        push_row(&content, 5, &mut piece);
        let mut expected = Vec::new();
        content.push_insert_row(4, &mut expected);
        assert_eq!(expected.len(), one);
        expected.push(b',');
        content.push_insert_row(5, &mut expected);
        assert_eq!(piece, expected);
    }
}
