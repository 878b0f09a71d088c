//! The Lua of one microbenchmark: a table made from its entry in the catalogue, then a text that is
//! always the same (`matrix.lua`) and executes what the table says. So the statements are those of
//! the other driver, letter for letter.

use std::time::Duration;

use catalog::protocol::{Data, WireProtocol};
use catalog::{Distribution, Microbenchmark, Statement, ZIPF_EXPONENT, sql};

/// The part that is the same for all.
pub const RUNTIME: &str = include_str!("matrix.lua");

/// How long each client keeps its connection after its last event. A server's process that ends
/// takes its number of context switches with it, so whoever measures the server must be able to
/// read it first. sysbench counts this as time of the run; [`super::run`] takes it off again.
pub const HOLD: Duration = Duration::from_millis(100);

/// What a client prints when it has ended: before and after its number.
pub const ENDED: (&str, &str) = ("matrix: client ", " has ended");

/// The script.
pub fn script(
    protocol: WireProtocol,
    microbenchmark: &Microbenchmark,
    data: &Data,
    prepared: bool,
) -> String {
    let transaction = microbenchmark.steps.iter().any(|step| step.statement == Statement::Begin);
    let mut lua = format!(
        "-- {name}, made by `cargo xtask bench`\n\
         local plan = {{\n   tables = {tables}, rows = {rows}, prepared = {prepared}, \
         hold_us = {hold},\n   distribution = \"{distribution}\", exponent = {ZIPF_EXPONENT}, \
         roll_back = {roll_back},\n   steps = {{\n",
        name = microbenchmark.name,
        tables = data.tables,
        rows = data.rows,
        prepared = prepared && microbenchmark.prepared,
        hold = HOLD.as_micros(),
        distribution = distribution(microbenchmark.distribution),
        roll_back = transaction && protocol == WireProtocol::Mysql,
    );
    for step in microbenchmark.steps {
        let values: Vec<String> = values(step.statement)
            .into_iter()
            .map(|(kind, number)| format!("{{\"{kind}\", {number}}}"))
            .collect();
        lua.push_str(&format!(
            "      {{times = {times}, table = \"{table}\", values = {{{values}}},\n       \
             sql = \"{sql}\"}},\n",
            times = step.times,
            table = table(step.statement),
            values = values.join(", "),
            sql = sql::shape(protocol, step.statement, "<table>"),
        ));
    }
    lua.push_str("   },\n}\n\n");
    lua.push_str(RUNTIME);
    lua
}

fn distribution(distribution: Distribution) -> &'static str {
    match distribution {
        Distribution::Uniform | Distribution::None => "uniform",
        Distribution::Zipfian => "zipfian",
        Distribution::Constant => "constant",
    }
}

/// How the table of a step is chosen.
fn table(statement: Statement) -> &'static str {
    match statement {
        Statement::Begin | Statement::Commit => "none",
        Statement::Scan => "own",
        Statement::Reinsert => "deleted",
        _ => "drawn",
    }
}

/// What draws the values of a statement, in their order: the name of the function and its number.
fn values(statement: Statement) -> Vec<(&'static str, u32)> {
    match statement {
        Statement::Begin | Statement::Commit | Statement::Scan => vec![],
        Statement::SelectPoint | Statement::UpdateIndex => vec![("ids", 1)],
        Statement::SelectIn { count, .. } => vec![("ids", count)],
        Statement::SelectHot { count } => vec![("hot", count)],
        Statement::SelectRange { distance, .. }
        | Statement::SelectSum { distance }
        | Statement::SelectOrder { distance }
        | Statement::SelectDistinct { distance } => vec![("range", distance)],
        Statement::UpdateNonindex => vec![("c", 0), ("ids", 1)],
        Statement::UpdateIn { count } => vec![("c", 0), ("ids", count)],
        Statement::Delete => vec![("delete", 0)],
        Statement::Reinsert => vec![("deleted", 0), ("k", 0), ("c", 0), ("pad", 0)],
        Statement::Insert => vec![("k", 0), ("c", 0), ("pad", 0)],
    }
}

#[cfg(test)]
mod tests {
    use catalog::MICROBENCHMARKS;
    use catalog::protocol::WireProtocol::{Mysql, Postgres};

    use super::*;

    const DATA: Data = Data { tables: 3, rows: 1000, seed: 1 };

    fn of(protocol: WireProtocol, name: &str, prepared: bool) -> String {
        script(protocol, catalog::find(name).expect("a name of the list"), &DATA, prepared)
    }

    #[test]
    fn the_table_says_what_the_catalogue_says() {
        let lua = of(Postgres, "write-only", true);
        let plan = lua.split_once("\n\n").expect("then the runtime").0;
        assert_eq!(
            plan,
            r##"-- write-only_range=10000, made by `cargo xtask bench`
local plan = {
   tables = 3, rows = 1000, prepared = true, hold_us = 100000,
   distribution = "uniform", exponent = 0.8, roll_back = false,
   steps = {
      {times = 1, table = "none", values = {},
       sql = "BEGIN"},
      {times = 1, table = "drawn", values = {{"ids", 1}},
       sql = "UPDATE sbtest<table> SET k=k+1 WHERE id=#"},
      {times = 1, table = "drawn", values = {{"c", 0}, {"ids", 1}},
       sql = "UPDATE sbtest<table> SET c=@ WHERE id=#"},
      {times = 1, table = "drawn", values = {{"delete", 0}},
       sql = "DELETE FROM sbtest<table> WHERE id=#"},
      {times = 1, table = "deleted", values = {{"deleted", 0}, {"k", 0}, {"c", 0}, {"pad", 0}},
       sql = "INSERT INTO sbtest<table> (id, k, c, pad) VALUES (#, #, @, @)"},
      {times = 1, table = "none", values = {},
       sql = "COMMIT"},
   },
}"##
        );
    }

    #[test]
    fn what_the_catalogue_sends_as_text_is_never_prepared() {
        for (name, asked, expected) in
            [("scan", true, false), ("insert", true, false), ("point-query", false, false)]
        {
            assert!(of(Mysql, name, asked).contains(&format!("prepared = {expected}")), "{name}");
        }
    }

    #[test]
    fn only_transactions_of_mysql_have_to_be_rolled_back_by_the_script() {
        let rolls_back = |protocol, name| of(protocol, name, true).contains("roll_back = true");
        assert!(rolls_back(Mysql, "read-write") && !rolls_back(Postgres, "read-write"));
        assert!(!rolls_back(Mysql, "update-one"));
    }

    #[test]
    fn there_are_as_many_values_as_marks_and_every_name_is_a_function() {
        for protocol in [Postgres, Mysql] {
            for step in MICROBENCHMARKS.iter().flat_map(|m| m.steps) {
                let marks = sql::shape(protocol, step.statement, 1);
                let marks = marks.matches([sql::NUMBER, sql::TEXT]).count();
                let values = values(step.statement);
                let count = |(kind, number): &(&str, u32)| match *kind {
                    "ids" | "hot" => *number as usize,
                    "range" => 2,
                    _ => 1,
                };
                assert_eq!(values.iter().map(count).sum::<usize>(), marks, "{:?}", step.statement);
                for (kind, _) in values {
                    assert!(RUNTIME.contains(&format!("function draw.{kind}(")), "{kind}");
                }
                let table = table(step.statement);
                assert!(RUNTIME.contains(&format!("   {table} = function()")), "{table}");
            }
        }
    }

    #[test]
    fn what_clients_print_at_their_end_is_what_the_reader_waits_for() {
        assert!(
            RUNTIME.contains(&format!("\"{}\" .. sysbench.tid .. \"{}\\n\"", ENDED.0, ENDED.1))
        );
    }
}
