//! What is said to a server besides what is measured: by loading, by the steps of the insert
//! benchmark, by maintenance.

use anyhow::{Context as _, ensure};

use crate::connection::{Connection, Rows};

/// Executes a statement; its rows are not looked at.
pub fn execute(connection: &mut dyn Connection, sql: &str) -> anyhow::Result<()> {
    connection.query(sql.as_bytes(), None).with_context(|| format!("`{sql}` failed"))?;
    Ok(())
}

/// The rows of a query.
pub fn rows_of(connection: &mut dyn Connection, sql: &str) -> anyhow::Result<Rows> {
    let mut rows = Rows::new();
    connection.query(sql.as_bytes(), Some(&mut rows)).with_context(|| format!("`{sql}` failed"))?;
    Ok(rows)
}

/// The value of a query that has one; `None` for NULL and for no row.
pub fn value_of(connection: &mut dyn Connection, sql: &str) -> anyhow::Result<Option<String>> {
    let rows = rows_of(connection, sql)?;
    Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten())
}

/// The engine of a table of the MySQL family; `None` when there is no such table.
pub fn engine(connection: &mut dyn Connection, table: &str) -> anyhow::Result<Option<String>> {
    let sql = format!(
        "SELECT engine FROM information_schema.tables WHERE table_schema = DATABASE() \
         AND table_name = '{table}'"
    );
    value_of(connection, &sql)
}

/// ANALYZE of the MySQL family: the server says in rows what came of it, errors too.
pub fn analyze(connection: &mut dyn Connection, table: &str) -> anyhow::Result<()> {
    let sql = format!("ANALYZE TABLE {table}");
    let rows = rows_of(connection, &sql)?;
    ensure!(analyzed(&rows), "`{sql}` failed: {rows:?}");
    Ok(())
}

/// Whether the last of the rows (table, operation, kind of message, message) is a status and none
/// is an error, which a status may follow; others are notes.
fn analyzed(rows: &Rows) -> bool {
    let is = |row: &[Option<String>], expected: &str| {
        let kind = row.get(2).and_then(Option::as_deref);
        kind.is_some_and(|kind| kind.eq_ignore_ascii_case(expected))
    };
    rows.last().is_some_and(|row| is(row, "status")) && !rows.iter().any(|row| is(row, "error"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_analyze_says_is_heard() {
        let row = |kind: &str| {
            ["d.sbtest1", "analyze", kind, "text"].map(|value| Some(value.to_owned())).to_vec()
        };
        assert!(analyzed(&vec![row("status")]));
        assert!(analyzed(&vec![row("Note"), row("status")]));
        assert!(!analyzed(&vec![row("Error"), row("error")]));
        assert!(!analyzed(&vec![row("Error"), row("status")]));
        assert!(!analyzed(&vec![row("status"), row("Error")]));
        assert!(!analyzed(&Rows::new()));
    }
}
