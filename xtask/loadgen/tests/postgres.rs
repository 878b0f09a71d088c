//! The driver, end to end, against an installed PostgreSQL: load, every microbenchmark verified and
//! run, the failures that a user can meet.
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
use self::support::{
    DATA, failure, is_plausible, last, loadgen, measured, run, run_at, verify, wait_for,
};

const BIN: &str = "/usr/lib/postgresql/15/bin";

/// A private server, stopped and removed at the end.
struct Postgres {
    directory: tempfile::TempDir,
    server: Child,
}

impl Postgres {
    fn start() -> Self {
        let directory = support::folder();
        let data = directory.path().join("data");
        let initdb = unprivileged("initdb")
            .arg("-D")
            .arg(&data)
            .args(["-U", "postgres", "--auth=trust", "--no-sync", "--no-locale", "-E", "UTF8"])
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert!(initdb.status.success(), "{}", String::from_utf8_lossy(&initdb.stderr));
        let server = unprivileged("postgres")
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(directory.path())
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=20"])
            .args(["-c", "deadlock_timeout=5ms"])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(directory.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let postgres = Self { directory, server };
        wait_for(|| postgres.is_ready(), || postgres.log());
        postgres
    }

    fn is_ready(&self) -> bool {
        let mut ready = Command::new(Path::new(BIN).join("pg_isready"));
        ready.arg("-q").arg("-h").arg(self.directory.path()).status().unwrap().success()
    }

    /// A fast shutdown: connections are ended.
    fn interrupt(&self) {
        support::signal(&self.server, Signal::SIGINT);
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join(".s.PGSQL.5432")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn psql(&self, sql: &str) -> String {
        let mut psql = Command::new(Path::new(BIN).join("psql"));
        psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"]);
        let output = psql.arg(self.directory.path()).args(["-c", sql]).output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Runs the driver; its exit code and events.
    fn drive(&self, action: Action) -> (i32, Vec<Event>) {
        self.drive_on(DATA, action)
    }

    fn drive_on(&self, data: Data, action: Action) -> (i32, Vec<Event>) {
        let server = Server {
            protocol: WireProtocol::Postgres,
            socket: self.socket().to_str().unwrap().to_owned(),
            user: "postgres".to_owned(),
            database: "postgres".to_owned(),
        };
        support::drive(server, data, action, &[])
    }

    /// Runs a job that must succeed; its last event.
    fn last(&self, action: Action) -> Event {
        last(self.drive(action))
    }

    fn measure(&self, name: &str, threads: u32, prepared: bool) -> Measured {
        measured(self.drive(run(name, threads, 0.2, prepared)))
    }

    fn failure(&self, action: Action) -> String {
        failure(self.drive(action))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.interrupt();
        let _ = self.server.wait();
    }
}

fn unprivileged(program: &str) -> Command {
    support::unprivileged(&Path::new(BIN).join(program), "postgresql-15")
}

#[test]
fn loads_verifies_and_measures() {
    let postgres = Postgres::start();
    let unloaded = postgres.failure(run("scan", 1, 0.2, true));
    assert!(unloaded.contains("`sbtest1`") || unloaded.contains("\"sbtest1\""), "{unloaded}");

    let Event::Loaded { rows, .. } = postgres.last(Action::Load { connections: 2 }) else {
        panic!("nothing was loaded")
    };
    assert_eq!(rows, 6000);
    let again = postgres.failure(Action::Load { connections: 1 });
    assert!(again.contains("already exists") && again.contains("`sbtest1`"), "{again}");
    the_tables_are_as_described(&postgres);

    for microbenchmark in &MICROBENCHMARKS {
        let event = postgres.last(verify(microbenchmark.name));
        assert!(matches!(event, Event::Verified { .. }), "{event:?}");
    }
    // Verifying has put back what it wrote.
    the_tables_are_as_described(&postgres);
    a_wrong_row_is_found(&postgres);

    the_window_is_told_in_order(&postgres);
    for microbenchmark in &MICROBENCHMARKS {
        for prepared in [true, false] {
            let measured = postgres.measure(microbenchmark.name, 2, prepared);
            is_plausible(microbenchmark, &measured, &["23505", "40001", "40P01"]);
        }
    }
    refused_events_are_counted_and_rolled_back(&postgres);
    one_hot_row_makes_no_error(&postgres);
    a_stall_meets_all_events_that_were_due(&postgres);
    a_statement_longer_than_the_window_is_no_number(&postgres);
    a_lost_server_is_a_failure(postgres);
}

/// In open loop a stall of the server delays every event that was due in it; a client that only
/// waited for its answer would report a single slow one.
fn a_stall_meets_all_events_that_were_due(postgres: &Postgres) {
    let (rate, seconds) = (200.0, 1.5);
    let measured = std::thread::scope(|scope| {
        let stall = "BEGIN; LOCK TABLE sbtest1, sbtest2 IN ACCESS EXCLUSIVE MODE; \
                     SELECT pg_sleep(0.6); COMMIT";
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            postgres.psql(stall);
        });
        measured(postgres.drive(run_at(rate, "point-query", 2, seconds)))
    });
    let due = (rate * seconds) as u64;
    assert!(measured.events <= due + 2, "not more than the rate: {measured:?}");
    assert!(measured.events > due / 2, "{measured:?}");
    // 120 of 300 events fell due in the stall, evenly: a tenth waited for more than half of it.
    assert!(measured.latency.p95_us > 250_000, "{:?}", measured.latency.p95_us);
    assert!(measured.latency.p50_us < 250_000, "{:?}", measured.latency.p50_us);
}

fn the_tables_are_as_described(postgres: &Postgres) {
    for table in ["sbtest1", "sbtest2"] {
        let shape = "count(*), min(id), max(id), min(k) >= 1, max(k) <= 3000, min(length(c)), \
                     min(length(pad))";
        let row = postgres.psql(&format!("SELECT {shape} FROM {table}"));
        assert_eq!(row, "3000|1|3000|t|t|119|59");
    }
    let indexes = "SELECT string_agg(indexname, ',' ORDER BY indexname) FROM pg_indexes WHERE \
                   tablename = 'sbtest2'";
    assert_eq!(postgres.psql(indexes), "k_2,sbtest2_pkey");
    let analyzed = "SELECT reltuples FROM pg_class WHERE relname = 'sbtest1'";
    assert_eq!(postgres.psql(analyzed), "3000");
    assert_eq!(postgres.psql("SELECT last_value FROM sbtest1_id_seq"), "3000");
}

fn a_wrong_row_is_found(postgres: &Postgres) {
    let for_each_table = |sql: &str| {
        for table in ["sbtest1", "sbtest2"] {
            postgres.psql(&sql.replace("$", table));
        }
    };
    for_each_table("SELECT id AS kept_id, c AS kept INTO $_kept FROM $");
    for_each_table("UPDATE $ SET c = 'wrong'");
    let reason = postgres.failure(verify("hot-points"));
    assert!(reason.contains("hot-points_range=100") && reason.contains("wrong"), "{reason}");
    for_each_table("UPDATE $ SET c = kept FROM $_kept WHERE id = kept_id");
    for_each_table("DELETE FROM $ WHERE id > 1600 AND id % 2 = 0");
    let reason = postgres.failure(verify("read-only_range=10000"));
    assert!(reason.contains("statement "), "{reason}");
    let reason = postgres.failure(verify("points-covered-si"));
    assert!(reason.contains("rows of"), "{reason}");
    for_each_table("DROP TABLE $, $_kept");
    postgres.last(Action::Load { connections: 2 });
}

fn the_window_is_told_in_order(postgres: &Postgres) {
    let (code, events) = postgres.drive(run("point-query", 2, 2.4, true));
    assert_eq!(code, 0, "{events:?}");
    let [
        Event::WindowBegin,
        Event::Second { second: 1, queries },
        Event::Second { second: 2, .. },
        Event::WindowEnd,
        Event::Measured(measured),
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(measured.seconds, 2.4);
    assert_eq!(measured.queries_per_second.len(), 2);
    // The event is told a moment after the second; the count in the result is exact.
    let exact = measured.queries_per_second[0] as f64;
    assert!((*queries as f64 / exact - 1.0).abs() < 0.5, "{queries} {exact}");
    let whole: u64 = measured.queries_per_second.iter().sum();
    assert!(whole < measured.queries, "{measured:?}");
    assert_eq!(measured.rows, measured.queries);
    let cpu = measured.client.user_seconds + measured.client.system_seconds;
    assert!(cpu > 0.0 && cpu < 2.0 * 2.4 * 1.1, "{measured:?}");
    assert!(measured.client.context_switches > 0);
}

/// Eight clients on ten rows get into each other's way all the time.
fn refused_events_are_counted_and_rolled_back(postgres: &Postgres) {
    let count = "SELECT count(*) FROM sbtest1 WHERE id <= 10";
    let before = postgres.psql(count);
    let few = Data { tables: 1, rows: 10, ..DATA };
    let (code, events) = postgres.drive_on(few, run("write-only", 8, 0.5, true));
    let Some(Event::Measured(measured)) = events.last() else { panic!("{code} {events:?}") };
    assert!(measured.errors.iter().any(|(_, count)| *count > 0), "{measured:?}");
    let expected = ["23505", "40P01"];
    assert!(measured.errors.iter().all(|(s, _)| expected.contains(&s.as_str())), "{measured:?}");
    assert!(measured.events > 0, "{measured:?}");
    // Whole events only: each puts back the row that it deletes.
    let after: u64 = postgres.psql(count).parse().unwrap();
    assert!(after >= before.parse().unwrap(), "{before} {after}");
}

fn one_hot_row_makes_no_error(postgres: &Postgres) {
    let before: u64 = postgres.psql("SELECT count(*) FROM sbtest1 WHERE id = 1").parse().unwrap();
    let measured = postgres.measure("update-one", 8, true);
    assert!(measured.errors.is_empty(), "{measured:?}");
    let after: u64 = postgres.psql("SELECT count(*) FROM sbtest1 WHERE id = 1").parse().unwrap();
    assert_eq!(before, after);
}

/// A table that is locked makes every statement longer than the window.
fn a_statement_longer_than_the_window_is_no_number(postgres: &Postgres) {
    let mut psql = Command::new(Path::new(BIN).join("psql"))
        .args(["-X", "-q", "-U", "postgres", "-h"])
        .arg(postgres.directory.path())
        .args(["-c", "BEGIN; LOCK TABLE sbtest1, sbtest2; SELECT pg_sleep(60)"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let locked = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted";
    wait_for(|| postgres.psql(locked) == "2", || "the tables were not locked".to_owned());
    let begin = Instant::now();
    let reason = postgres.failure(run("update-nonindex", 2, 0.3, false));
    assert!(reason.contains("no statement of `update-nonindex_range=100` ended"), "{reason}");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    psql.kill().unwrap();
    psql.wait().unwrap();
    let running = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'loadgen'";
    wait_for(|| postgres.psql(running) == "0", || "a statement runs on".to_owned());
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE \
               '%pg_sleep(60)' AND pid <> pg_backend_pid()";
    postgres.psql(end);
}

fn a_lost_server_is_a_failure(mut postgres: Postgres) {
    std::thread::scope(|scope| {
        let failing = scope.spawn(|| postgres.failure(run("point-query", 2, 30.0, true)));
        let busy = "SELECT count(*) > 1 FROM pg_stat_activity WHERE application_name = 'loadgen'";
        wait_for(|| postgres.psql(busy) == "t", || "the clients did not come".to_owned());
        postgres.interrupt();
        let reason = failing.join().unwrap();
        assert!(reason.contains("terminating connection"), "{reason}");
    });
    postgres.server.wait().unwrap();
    let reason = postgres.failure(verify("scan"));
    assert!(reason.contains("cannot connect to the server at"), "{reason}");
}

#[test]
fn the_insert_benchmark() {
    let postgres = Postgres::start();
    let target = Target {
        drive: &|action| postgres.drive(action),
        sql: &|sql| postgres.psql(sql),
        hold: "BEGIN; LOCK TABLE pi1; SELECT pg_sleep(0.7); COMMIT",
        refuse: "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF random() \
                 < 0.4 THEN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END IF; RETURN NULL; END \
                 $$; CREATE TRIGGER refuse AFTER INSERT ON pi1 EXECUTE FUNCTION refuse()",
        accept: "DROP TRIGGER refuse ON pi1",
        refusal: "40001",
    };
    target.every_step(|step| match step {
        "l.i0" => the_table_is_as_described(&postgres),
        "l.x" => each_range_has_its_index(&postgres),
        "qr1000" => the_queries_have_used_their_indexes(&postgres),
        _ => {}
    });
    postgres.psql("SELECT pg_stat_force_next_flush()");
    let maintained = target.maintain(&["pi1", "pi2"]);
    let parts: Vec<_> = maintained.parts.iter().map(|(part, _)| part.as_str()).collect();
    let vacuum = |table| format!("VACUUM (ANALYZE, INDEX_CLEANUP ON) {table}");
    assert_eq!(parts, [&vacuum("pi1"), &vacuum("pi2"), "CHECKPOINT"]);
    assert!(maintained.settled);
    let state = "SELECT count(*) FROM pg_stat_user_tables WHERE relname IN ('pi1', 'pi2') AND \
                 n_dead_tup = 0 AND last_vacuum IS NOT NULL AND last_analyze IS NOT NULL";
    assert_eq!(postgres.psql(state), "2");
    target.maintains_what_is_there();
    target.a_rate_that_cannot_be_held();
    target.a_stall_shows_in_all_that_wait();
    target.what_is_refused_is_sent_again();
    target.one_table_for_all();
    target.what_cannot_succeed_is_a_failure();
}

fn the_table_is_as_described(postgres: &Postgres) {
    let columns = "SELECT string_agg(column_name || ' ' || udt_name || ' ' || is_nullable, ',' ORDER \
                   BY ordinal_position) FROM information_schema.columns WHERE table_name = 'pi2'";
    assert_eq!(
        postgres.psql(columns),
        "transactionid int8 NO,dateandtime timestamp YES,cashregisterid int4 NO,customerid int4 NO,\
         productid int4 NO,price int4 YES,data varchar YES"
    );
    let cache = "SELECT cache_size FROM pg_sequences WHERE sequencename = 'pi2_transactionid_seq'";
    assert_eq!(postgres.psql(cache), "1000");
    let indexes = "SELECT string_agg(indexname, ',') FROM pg_indexes WHERE tablename = 'pi2'";
    assert_eq!(postgres.psql(indexes), "pi2_pkey");
    assert_eq!(postgres.psql("SELECT count(*) FROM pg_tables WHERE tablename = 'pi9'"), "0");
}

fn each_range_has_its_index(postgres: &Postgres) {
    postgres.psql("VACUUM (ANALYZE) pi2");
    for (columns, range, index) in [
        ("productid, customerid, price", "productid >= 5000", "pi2_marketsegment"),
        ("cashregisterid, customerid, price", "cashregisterid > 500", "pi2_registersegment"),
        ("price, dateandtime, customerid", "price >= 250", "pi2_pdc"),
    ] {
        let plan = postgres.psql(&format!(
            "EXPLAIN SELECT {columns} FROM pi2 WHERE {range} ORDER BY {columns} LIMIT 10"
        ));
        assert!(plan.contains(&format!("Index Only Scan using {index}")), "{plan}");
        assert!(!plan.contains("Sort"), "{plan}");
    }
}

fn the_queries_have_used_their_indexes(postgres: &Postgres) {
    let used = "SELECT string_agg(indexrelname, ',' ORDER BY indexrelname) FROM \
                pg_stat_user_indexes WHERE idx_scan > 10 AND relname = 'pi1'";
    let all = "pi1_marketsegment,pi1_pdc,pi1_pkey,pi1_registersegment";
    wait_for(|| postgres.psql(used) == all, || postgres.psql(used));
}

#[test]
fn a_job_that_is_none_is_exit_code_2() {
    for text in ["", "{", "[]", r#"{"version": 99}"#, r#"{"version": 1, "nonsense": true}"#] {
        let output = loadgen(text, &[]);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(output.stdout.is_empty(), "{text}");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains("cannot understand the job"), "{message}");
    }
}
