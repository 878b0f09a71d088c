//! Loading PostgreSQL: COPY, index, VACUUM and ANALYZE, checkpoint.

use super::Filler;
use crate::admin::execute;
use crate::connection::Connection;
use crate::content::Content;

/// About as much as a socket takes at once.
const PIECE_BYTES: usize = 128 * 1024;

/// Makes and fills one table. A failure leaves none.
pub fn fill_table(
    connection: &mut dyn Connection,
    table: u32,
    rows: u64,
    filler: &mut Filler<'_>,
) -> anyhow::Result<()> {
    execute(connection, "BEGIN")?;
    execute(connection, &create_table(table))?;
    let copy = format!("COPY sbtest{table} (id, k, c, pad) FROM STDIN");
    filler.send(connection, &copy, (rows, PIECE_BYTES), Content::push_copy_line)?;
    execute(connection, &format!("SELECT setval('sbtest{table}_id_seq', {rows})"))?;
    execute(connection, "COMMIT")?;
    execute(connection, &format!("CREATE INDEX k_{table} ON sbtest{table} (k)"))?;
    execute(connection, &format!("VACUUM (ANALYZE) sbtest{table}"))
}

/// After all tables.
pub fn finish(connection: &mut dyn Connection) -> anyhow::Result<()> {
    execute(connection, "CHECKPOINT")
}

/// sysbench's table. The primary key is there from the beginning, as it is with sysbench.
fn create_table(table: u32) -> String {
    format!(
        "CREATE TABLE sbtest{table} (id SERIAL PRIMARY KEY, k INTEGER DEFAULT 0 NOT NULL, \
         c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL)"
    )
}
