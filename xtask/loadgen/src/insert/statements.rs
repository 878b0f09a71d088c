//! The statements of the insert benchmark in the server's dialect.

use catalog::protocol::{Queries, WireProtocol};

use super::rows::{CASH_REGISTERS, PRICES, PRODUCTS};
use crate::params::Params;
use crate::rng::Rng;
use crate::sql::Sql;

/// Rows that each query asks for.
const ROWS_PER_QUERY: u32 = 10;

/// The secondary indexes: what follows the table's name in their own, and their columns.
pub const INDEXES: [(&str, &str); 3] = [
    ("marketsegment", "productid, customerid, price"),
    ("registersegment", "cashregisterid, customerid, price"),
    ("pdc", "price, dateandtime, customerid"),
];

/// What makes the table. The MySQL family's is of the engine that is the server's default.
pub fn create_table(protocol: WireProtocol, table: &str) -> Vec<String> {
    match protocol {
        WireProtocol::Postgres => vec![
            format!(
                "CREATE TABLE {table} (transactionid bigserial PRIMARY KEY, \
                 dateandtime timestamp without time zone, cashregisterid int NOT NULL, \
                 customerid int NOT NULL, productid int NOT NULL, price int, data varchar(4000))"
            ),
            // Without it each id would cost an access to the sequence and a record in the log.
            format!("ALTER SEQUENCE {table}_transactionid_seq CACHE 1000"),
        ],
        WireProtocol::Mysql => vec![format!(
            "CREATE TABLE {table} (transactionid bigint NOT NULL AUTO_INCREMENT, dateandtime \
             datetime, cashregisterid int NOT NULL, customerid int NOT NULL, productid int NOT \
             NULL, price int NOT NULL, data varchar(4000), PRIMARY KEY (transactionid))"
        )],
    }
}

/// What makes the indexes. `at_once`: in one statement, which reads the table once, where the
/// protocol's servers have such a statement.
pub fn create_indexes(protocol: WireProtocol, table: &str, at_once: bool) -> Vec<String> {
    match protocol {
        WireProtocol::Postgres => INDEXES
            .map(|(name, columns)| format!("CREATE INDEX {table}_{name} ON {table} ({columns})"))
            .to_vec(),
        WireProtocol::Mysql => {
            let add =
                INDEXES.map(|(name, columns)| format!("ADD INDEX {table}_{name} ({columns})"));
            let alter = |what: &str| format!("ALTER TABLE {table} {what}");
            match at_once {
                true => vec![alter(&add.join(", "))],
                false => add.iter().map(|one| alter(one)).collect(),
            }
        }
    }
}

/// What stands before the rows of an INSERT.
pub fn insert(table: &str) -> String {
    format!(
        "INSERT INTO {table} (dateandtime, cashregisterid, customerid, productid, price, data) \
         VALUES "
    )
}

/// What deletes the oldest `count` rows, none of which has an id below `low`.
pub fn delete(protocol: WireProtocol, table: &str, low: u64, count: u64) -> String {
    let oldest = format!("transactionid >= {low} ORDER BY transactionid LIMIT {count}");
    match protocol {
        WireProtocol::Postgres => format!(
            "DELETE FROM {table} WHERE transactionid IN (SELECT transactionid FROM {table} WHERE \
             {oldest})"
        ),
        WireProtocol::Mysql => format!("DELETE FROM {table} WHERE {oldest}"),
    }
}

/// A query and how its values are drawn.
#[derive(Clone, Debug)]
pub struct Query {
    /// Its text.
    pub sql: Sql,
    values: Values,
}

#[derive(Clone, Copy, Debug)]
enum Values {
    /// The begin of a range, below this.
    Below(u64),
    /// Ids.
    Ids,
}

/// The queries of a kind: one of them at random is the next.
pub fn queries(protocol: WireProtocol, table: &str, kind: Queries) -> Vec<Query> {
    if kind == Queries::Point {
        let ids = vec!["#"; ROWS_PER_QUERY as usize].join(",");
        let sql = format!(
            "SELECT transactionid, productid, data FROM {table} WHERE transactionid IN ({ids})"
        );
        return vec![Query { sql: Sql::of_shape(protocol, &sql), values: Values::Ids }];
    }
    // Only the second is open: so is the published one.
    let ranges = [(">=", PRODUCTS), (">", CASH_REGISTERS), (">=", PRICES)];
    let query = |((name, columns), (is, values)): ((&str, &str), (&str, u64))| {
        let force = match protocol {
            WireProtocol::Postgres => String::new(),
            WireProtocol::Mysql => format!(" FORCE INDEX ({table}_{name})"),
        };
        let (first, _) = columns.split_once(',').unwrap_or((columns, ""));
        let sql = format!(
            "SELECT {columns} FROM {table}{force} WHERE {first} {is} # ORDER BY {columns} LIMIT \
             {ROWS_PER_QUERY}"
        );
        Query { sql: Sql::of_shape(protocol, &sql), values: Values::Below(values) }
    };
    INDEXES.into_iter().zip(ranges).map(query).collect()
}

impl Query {
    /// Draws the values; ids from `low` to `high`.
    pub fn draw(&self, rng: &mut Rng, (low, high): (u64, u64), params: &mut Params) {
        params.clear();
        match self.values {
            Values::Below(bound) => params.push_number(rng.below(bound)),
            Values::Ids => {
                let ids = high.saturating_sub(low) + 1;
                (0..ROWS_PER_QUERY).for_each(|_| params.push_number(low + rng.below(ids)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use WireProtocol::{Mysql, Postgres};

    use super::*;
    use crate::params::Value;

    fn to_prepare(protocol: WireProtocol, kind: Queries) -> Vec<String> {
        queries(protocol, "pi2", kind).iter().map(|query| query.sql.to_prepare()).collect()
    }

    #[test]
    fn tables_and_indexes() {
        let [table, cache] = &create_table(Postgres, "pi1")[..] else { panic!() };
        assert!(table.contains("bigserial PRIMARY KEY") && table.contains("price int,"), "{table}");
        assert_eq!(cache, "ALTER SEQUENCE pi1_transactionid_seq CACHE 1000");
        let [table] = &create_table(Mysql, "pi1")[..] else { panic!() };
        assert!(table.contains("bigint NOT NULL AUTO_INCREMENT"), "{table}");
        assert_eq!(
            create_indexes(Postgres, "pi1", true),
            [
                "CREATE INDEX pi1_marketsegment ON pi1 (productid, customerid, price)",
                "CREATE INDEX pi1_registersegment ON pi1 (cashregisterid, customerid, price)",
                "CREATE INDEX pi1_pdc ON pi1 (price, dateandtime, customerid)",
            ]
        );
        assert_eq!(
            create_indexes(Mysql, "pi1", true),
            ["ALTER TABLE pi1 ADD INDEX pi1_marketsegment (productid, customerid, price), ADD \
                 INDEX pi1_registersegment (cashregisterid, customerid, price), ADD INDEX pi1_pdc \
                 (price, dateandtime, customerid)"]
        );
        let one_by_one = create_indexes(Mysql, "pi1", false);
        assert_eq!(one_by_one.len(), 3);
        assert_eq!(
            one_by_one[2],
            "ALTER TABLE pi1 ADD INDEX pi1_pdc (price, dateandtime, customerid)"
        );
    }

    #[test]
    fn the_oldest_rows_are_deleted() {
        assert_eq!(
            delete(Mysql, "pi3", 17, 50),
            "DELETE FROM pi3 WHERE transactionid >= 17 ORDER BY transactionid LIMIT 50"
        );
        assert_eq!(
            delete(Postgres, "pi3", 17, 50),
            "DELETE FROM pi3 WHERE transactionid IN (SELECT transactionid FROM pi3 WHERE \
             transactionid >= 17 ORDER BY transactionid LIMIT 50)"
        );
    }

    #[test]
    fn ranges_name_their_index_where_they_can() {
        assert_eq!(
            to_prepare(Postgres, Queries::Range),
            [
                "SELECT productid, customerid, price FROM pi2 WHERE productid >= $1 ORDER BY \
                 productid, customerid, price LIMIT 10",
                "SELECT cashregisterid, customerid, price FROM pi2 WHERE cashregisterid > $1 ORDER \
                 BY cashregisterid, customerid, price LIMIT 10",
                "SELECT price, dateandtime, customerid FROM pi2 WHERE price >= $1 ORDER BY price, \
                 dateandtime, customerid LIMIT 10",
            ]
        );
        let mysql = to_prepare(Mysql, Queries::Range);
        assert_eq!(
            mysql[1],
            "SELECT cashregisterid, customerid, price FROM pi2 FORCE INDEX (pi2_registersegment) \
             WHERE cashregisterid > ? ORDER BY cashregisterid, customerid, price LIMIT 10"
        );
    }

    #[test]
    fn points_ask_for_ten_ids() {
        assert_eq!(
            to_prepare(Mysql, Queries::Point),
            ["SELECT transactionid, productid, data FROM pi2 WHERE transactionid IN \
                 (?,?,?,?,?,?,?,?,?,?)"]
        );
    }

    #[test]
    fn values_are_in_their_ranges() {
        let mut rng = Rng::of(&[1]);
        let mut params = Params::default();
        let mut drawn = |query: &Query, rng: &mut Rng, ids| -> Vec<u64> {
            query.draw(rng, ids, &mut params);
            let number = |value| match value {
                Value::Number(number) => number,
                Value::Text(_) => panic!("a text"),
            };
            params.iter().map(number).collect()
        };
        for (query, bound) in
            queries(Postgres, "pi1", Queries::Range).iter().zip([10_000, 1000, 500])
        {
            let values: Vec<u64> = (0..5000).flat_map(|_| drawn(query, &mut rng, (0, 0))).collect();
            assert_eq!(values.len(), 5000);
            let max = *values.iter().max().unwrap();
            assert!(max < bound && max > bound * 98 / 100, "{max} of {bound}");
        }
        let point = &queries(Postgres, "pi1", Queries::Point)[0];
        let ids: Vec<u64> = (0..100).flat_map(|_| drawn(point, &mut rng, (7, 9))).collect();
        assert_eq!(ids.len(), 1000);
        assert!([7, 8, 9].iter().all(|id| ids.contains(id)), "{ids:?}");
        assert!(ids.iter().all(|id| (7..=9).contains(id)), "{ids:?}");
        // An empty table has neither.
        assert_eq!(drawn(point, &mut rng, (5, 0)), [5; 10]);
    }
}
