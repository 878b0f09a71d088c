//! The driver, end to end, against an installed MariaDB: load, every microbenchmark verified and
//! run, the failures that a user can meet. What the server holds is checked with its own client.
#![expect(clippy::disallowed_methods, reason = "a test starts its own server, without the tool")]
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use catalog::MICROBENCHMARKS;
use catalog::protocol::{Action, Data, Event, Measured, Server, WireProtocol};
use nix::sys::signal::Signal;

use self::support::insert::Target;
use self::support::{DATA, failure, is_plausible, last, measured, run, verify, wait_for};

const INSTALL: &str = "/usr/bin/mariadb-install-db";
const SERVER: &str = "/usr/sbin/mariadbd";
const CLIENT: &str = "/usr/bin/mariadb";
const PACKAGE: &str = "mariadb-server-core";
/// What several clients on few rows can be refused.
const REFUSALS: [&str; 4] = ["1020", "1062", "1205", "1213"];

/// A private server, stopped and removed at the end.
struct Mariadb {
    directory: tempfile::TempDir,
    server: Child,
}

impl Mariadb {
    fn start() -> Self {
        let directory = support::folder();
        let data = format!("--datadir={}", directory.path().join("data").display());
        let installed = support::unprivileged(Path::new(INSTALL), PACKAGE)
            .args(["--no-defaults", &data, "--auth-root-authentication-method=normal"])
            .args(["--skip-test-db", "--innodb-flush-log-at-trx-commit=0"])
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        let socket = format!("--socket={}", directory.path().join("socket").display());
        let server = support::unprivileged(Path::new(SERVER), PACKAGE)
            .args(["--no-defaults", &data, &socket, "--skip-networking"])
            .args(["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M"])
            .args(["--innodb-lock-wait-timeout=1", "--character-set-server=latin1"])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(directory.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mariadb = Self { directory, server };
        wait_for(|| mariadb.client("SELECT 1").status().unwrap().success(), || mariadb.log());
        mariadb.sql("CREATE DATABASE d");
        mariadb
    }

    fn interrupt(&self) {
        support::signal(&self.server, Signal::SIGTERM);
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// The server's own client, silent.
    fn client(&self, sql: &str) -> Command {
        let mut client = Command::new(CLIENT);
        client.args(["--no-defaults", "--user=root", "--skip-column-names", "--batch", "--socket"]);
        client.arg(self.socket()).args(["--execute", sql]);
        client.stdout(Stdio::null()).stderr(Stdio::null());
        client
    }

    fn sql(&self, sql: &str) -> String {
        let mut client = self.client(&format!("USE mysql; {sql}"));
        let output = client.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn address(&self, user: &str) -> Server {
        Server {
            protocol: WireProtocol::Mysql,
            socket: self.socket().to_str().unwrap().to_owned(),
            user: user.to_owned(),
            database: "d".to_owned(),
        }
    }

    /// Runs the driver; its exit code and events.
    fn drive(&self, action: Action) -> (i32, Vec<Event>) {
        self.drive_on(DATA, action)
    }

    fn drive_on(&self, data: Data, action: Action) -> (i32, Vec<Event>) {
        support::drive(self.address("root"), data, action, &[])
    }

    fn last(&self, action: Action) -> Event {
        last(self.drive(action))
    }

    fn measure(&self, name: &str, threads: u32, prepared: bool) -> Measured {
        measured(self.drive(run(name, threads, 0.2, prepared)))
    }

    fn failure(&self, action: Action) -> String {
        failure(self.drive(action))
    }

    fn load(&self) {
        let Event::Loaded { rows, .. } = self.last(Action::Load { connections: 2 }) else {
            panic!("nothing was loaded")
        };
        assert_eq!(rows, 6000);
    }
}

impl Drop for Mariadb {
    fn drop(&mut self) {
        self.interrupt();
        let _ = self.server.wait();
    }
}

#[test]
fn loads_verifies_and_measures() {
    let mariadb = Mariadb::start();
    let unloaded = mariadb.failure(run("update-index", 1, 0.2, true));
    assert!(unloaded.contains("`UPDATE sbtest1") && unloaded.contains("error 1146"), "{unloaded}");

    mariadb.load();
    let again = mariadb.failure(Action::Load { connections: 1 });
    assert!(again.contains("already exists") && again.contains("`sbtest1`"), "{again}");
    the_tables_are_as_described(&mariadb);

    for microbenchmark in &MICROBENCHMARKS {
        let event = mariadb.last(verify(microbenchmark.name));
        assert!(matches!(event, Event::Verified { .. }), "{event:?}");
    }
    // Verifying has put back what it wrote.
    the_tables_are_as_described(&mariadb);
    a_wrong_row_is_found(&mariadb);

    for microbenchmark in &MICROBENCHMARKS {
        for prepared in [true, false] {
            let measured = mariadb.measure(microbenchmark.name, 2, prepared);
            is_plausible(microbenchmark, &measured, &REFUSALS);
        }
    }
    refused_events_are_counted_and_rolled_back(&mariadb);
    one_hot_row_makes_no_error(&mariadb);
    a_statement_longer_than_the_window_is_no_number(&mariadb);
    only_who_has_the_password_is_let_in(&mariadb);
    a_lost_server_is_a_failure(mariadb);
}

fn the_tables_are_as_described(mariadb: &Mariadb) {
    for table in ["sbtest1", "sbtest2"] {
        let shape = "COUNT(*), MIN(id), MAX(id), MIN(k) >= 1, MAX(k) <= 3000, MIN(LENGTH(c)), \
                     MIN(LENGTH(pad))";
        let row = mariadb.sql(&format!("SELECT {shape} FROM d.{table}"));
        assert_eq!(row, "3000\t1\t3000\t1\t1\t119\t59");
    }
    // The same row as in every other server.
    let row = "SELECT k, c FROM d.sbtest1 WHERE id = 1";
    assert_eq!(
        mariadb.sql(row),
        "2062\t37348714350-86101411833-47045816223-78937189274-56883813883-\
         99942236393-48225357262-26134406911-11921297128-24496849644"
    );
    let table = "SELECT engine, auto_increment FROM information_schema.tables WHERE \
                 table_name = 'sbtest1'";
    assert_eq!(mariadb.sql(table), "InnoDB\t3001");
    let columns = "SELECT GROUP_CONCAT(column_name, ' ', column_type ORDER BY ordinal_position) \
                   FROM information_schema.columns WHERE table_name = 'sbtest2'";
    assert_eq!(mariadb.sql(columns), "id int(11),k int(11),c char(120),pad char(60)");
    let indexes = "SELECT GROUP_CONCAT(index_name, ' ', column_name ORDER BY index_name) FROM \
                   information_schema.statistics WHERE table_name = 'sbtest2'";
    assert_eq!(mariadb.sql(indexes), "k_2 k,PRIMARY id");
    let analyzed = "SELECT n_rows > 0 FROM mysql.innodb_table_stats WHERE table_name = 'sbtest1'";
    assert_eq!(mariadb.sql(analyzed), "1");
}

fn a_wrong_row_is_found(mariadb: &Mariadb) {
    let for_each_table = |sql: &str| {
        for table in ["d.sbtest1", "d.sbtest2"] {
            mariadb.sql(&sql.replace('$', table));
        }
    };
    for_each_table("CREATE TABLE $_kept AS SELECT id, c FROM $");
    for_each_table("UPDATE $ SET c = 'wrong'");
    let reason = mariadb.failure(verify("hot-points"));
    assert!(reason.contains("hot-points_range=100") && reason.contains("wrong"), "{reason}");
    for_each_table("UPDATE $ JOIN $_kept ON $.id = $_kept.id SET $.c = $_kept.c");
    mariadb.last(verify("hot-points"));
    for_each_table("DELETE FROM $ WHERE id > 1600 AND id % 2 = 0");
    let reason = mariadb.failure(verify("read-only_range=10000"));
    assert!(reason.contains("statement "), "{reason}");
    let reason = mariadb.failure(verify("points-covered-si"));
    assert!(reason.contains("rows of"), "{reason}");
    for_each_table("DROP TABLE $, $_kept");
    mariadb.load();
}

/// Eight clients on ten rows get into each other's way all the time.
fn refused_events_are_counted_and_rolled_back(mariadb: &Mariadb) {
    // All ten rows must be there: to delete one that is not locks the gap, where nobody can insert.
    mariadb.sql("DROP TABLE d.sbtest1, d.sbtest2");
    mariadb.load();
    let few = Data { tables: 1, rows: 10, ..DATA };
    let measured = measured(mariadb.drive_on(few, run("write-only", 8, 0.5, true)));
    assert!(measured.errors.iter().any(|(_, count)| *count > 0), "{measured:?}");
    let expected = |code: &String| REFUSALS.contains(&code.as_str());
    assert!(measured.errors.iter().all(|(code, _)| expected(code)), "{measured:?}");
    assert!(measured.events > 0, "{measured:?}");
    // Whole events only: each puts back the row that it deletes.
    assert_eq!(mariadb.sql("SELECT COUNT(*) FROM d.sbtest1"), "3000");
}

fn one_hot_row_makes_no_error(mariadb: &Mariadb) {
    let row = "SELECT COUNT(*) FROM d.sbtest1 WHERE id = 1";
    let before = mariadb.sql(row);
    let measured = mariadb.measure("update-one", 8, true);
    assert!(measured.errors.is_empty(), "{measured:?}");
    assert_eq!(before, mariadb.sql(row));
}

/// A table that is locked makes every statement longer than the window.
fn a_statement_longer_than_the_window_is_no_number(mariadb: &Mariadb) {
    let mut holder = mariadb
        .client("LOCK TABLES d.sbtest1 WRITE, d.sbtest2 WRITE; SELECT SLEEP(60)")
        .spawn()
        .unwrap();
    let asleep = "SELECT id FROM information_schema.processlist WHERE info = 'SELECT SLEEP(60)'";
    wait_for(|| !mariadb.sql(asleep).is_empty(), || "the tables were not locked".to_owned());
    let begin = Instant::now();
    let reason = mariadb.failure(run("update-nonindex", 2, 0.3, false));
    assert!(reason.contains("no statement of `update-nonindex_range=100` ended"), "{reason}");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let running = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'UPDATE %'";
    wait_for(|| mariadb.sql(running) == "0", || "a statement runs on".to_owned());
    mariadb.sql(&format!("KILL {}", mariadb.sql(asleep)));
    holder.wait().unwrap();
}

fn only_who_has_the_password_is_let_in(mariadb: &Mariadb) {
    // Whoever runs this test, and root with it, is let in by the server's own look at the socket's
    // other end: another method than it proposes to every client first.
    let me = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    mariadb.sql(&format!(
        "CREATE USER secret IDENTIFIED BY 'p-1'; GRANT SELECT ON d.* TO secret; \
         CREATE USER nobody_here IDENTIFIED VIA unix_socket; \
         CREATE OR REPLACE USER {me}@localhost IDENTIFIED VIA unix_socket; \
         GRANT ALL ON *.* TO {me}@localhost WITH GRANT OPTION"
    ));
    let verify_as = |user: &str, password: &str| {
        let environment = [("MYSQL_PWD", password)];
        support::drive(mariadb.address(user), DATA, verify("scan"), &environment)
    };
    last(verify_as("secret", "p-1"));
    last(verify_as(&me, ""));
    for (user, password) in [("secret", "p-2"), ("secret", ""), ("nobody_here", "")] {
        let reason = failure(verify_as(user, password));
        let said = ["Access denied", "SQLSTATE 28000", "`MYSQL_PWD`", &format!("`{user}`")];
        assert!(said.iter().all(|part| reason.contains(part)), "{reason}");
    }
    let mut elsewhere = mariadb.address("root");
    elsewhere.database = "nowhere".to_owned();
    let reason = failure(support::drive(elsewhere, DATA, verify("scan"), &[]));
    assert!(reason.contains("Unknown database 'nowhere'"), "{reason}");
}

fn a_lost_server_is_a_failure(mut mariadb: Mariadb) {
    std::thread::scope(|scope| {
        let failing = scope.spawn(|| mariadb.failure(run("point-query", 2, 30.0, true)));
        // Both clients and this one.
        let there = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'd'";
        wait_for(|| mariadb.sql(there) == "2", || "the clients did not come".to_owned());
        mariadb.interrupt();
        let reason = failing.join().unwrap();
        assert!(reason.contains("client ") && reason.contains("failed"), "{reason}");
        println!("{reason}");
    });
    mariadb.server.wait().unwrap();
    let reason = mariadb.failure(verify("scan"));
    assert!(reason.contains("cannot connect to the server at"), "{reason}");
}

#[test]
fn the_insert_benchmark() {
    let mariadb = Mariadb::start();
    let sql = |sql: &str| mariadb.sql(&format!("USE d; {sql}"));
    let target = Target {
        drive: &|action| mariadb.drive(action),
        sql: &sql,
        hold: "LOCK TABLES pi1 WRITE; SELECT SLEEP(0.7)",
        refuse: "\nDELIMITER $$\nCREATE TRIGGER refuse AFTER INSERT ON pi1 FOR EACH ROW IF RAND() < 0.04 \
                 THEN SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; END IF$$",
        accept: "DROP TRIGGER refuse",
        refusal: "1213",
    };
    target.every_step(|step| match step {
        "l.i0" => the_table_is_as_described(&sql),
        "l.x" => each_range_has_its_index(&sql),
        _ => {}
    });
    let limits =
        "SELECT @@GLOBAL.innodb_max_dirty_pages_pct, @@GLOBAL.innodb_max_dirty_pages_pct_lwm";
    let before = sql(limits);
    let maintained = target.maintain(&["pi1", "pi2"]);
    let parts: Vec<_> = maintained.parts.iter().map(|(part, _)| part.as_str()).collect();
    assert_eq!(parts, ["ANALYZE TABLE pi1", "ANALYZE TABLE pi2", "write dirty pages"]);
    assert!(maintained.settled, "{maintained:?}");
    assert_eq!(sql(limits), before);
    let dirty = "SELECT variable_value < 100 FROM information_schema.global_status WHERE \
                 variable_name = 'innodb_buffer_pool_pages_dirty'";
    assert_eq!(sql(dirty), "1");
    target.maintains_what_is_there();
    target.a_rate_that_cannot_be_held();
    target.a_stall_shows_in_all_that_wait();
    target.what_is_refused_is_sent_again();
    target.one_table_for_all();
    target.what_cannot_succeed_is_a_failure();
}

fn the_table_is_as_described(sql: &impl Fn(&str) -> String) {
    let columns = "SELECT GROUP_CONCAT(column_name, ' ', column_type, ' ', is_nullable ORDER BY \
                   ordinal_position) FROM information_schema.columns WHERE table_name = 'pi2'";
    assert_eq!(
        sql(columns),
        "transactionid bigint(20) NO,dateandtime datetime YES,cashregisterid int(11) NO,customerid \
         int(11) NO,productid int(11) NO,price int(11) NO,data varchar(4000) YES"
    );
    assert_eq!(indexes(sql), "PRIMARY transactionid");
    let others = "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'pi9'";
    assert_eq!(sql(others), "0");
}

fn indexes(sql: &impl Fn(&str) -> String) -> String {
    sql("SELECT GROUP_CONCAT(index_name, ' ', column_name ORDER BY index_name, seq_in_index) FROM \
         information_schema.statistics WHERE table_name = 'pi2'")
}

fn each_range_has_its_index(sql: &impl Fn(&str) -> String) {
    assert_eq!(
        indexes(sql),
        "pi2_marketsegment productid,pi2_marketsegment customerid,pi2_marketsegment price,\
         pi2_pdc price,pi2_pdc dateandtime,pi2_pdc customerid,pi2_registersegment cashregisterid,\
         pi2_registersegment customerid,pi2_registersegment price,PRIMARY transactionid"
    );
    for (columns, range, index) in [
        ("productid, customerid, price", "productid >= 5000", "pi2_marketsegment"),
        ("cashregisterid, customerid, price", "cashregisterid > 500", "pi2_registersegment"),
        ("price, dateandtime, customerid", "price >= 250", "pi2_pdc"),
    ] {
        let plan = sql(&format!(
            "EXPLAIN SELECT {columns} FROM pi2 FORCE INDEX ({index}) WHERE {range} ORDER BY \
             {columns} LIMIT 10"
        ));
        assert!(plan.contains(index) && plan.contains("Using index"), "{plan}");
        assert!(!plan.contains("filesort"), "{plan}");
    }
}
