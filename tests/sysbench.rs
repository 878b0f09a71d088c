//! The program `sysbench` as load driver, against an installed PostgreSQL and an installed MariaDB:
//! its statements are those of the other driver, and every microbenchmark can be measured by it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use catalog::protocol::{Action, Count, Data, Event, Job, Run, VERSION};
use catalog::{Distribution, MICROBENCHMARKS, Microbenchmark, Statement};
use tempfile::TempDir;
use xtask::bench::driver::Driver;
use xtask::bench::sysbench::Sysbench;
use xtask::bench::sysbench::script::script;
use xtask::matrix::model::Engine;
use xtask::server::access::Access;
use xtask::server::{self, Install, Server, Settings};

const TOOL: &str = env!("CARGO_BIN_EXE_xtask");
/// Two, so that the choice of a table shows.
const DATA: Data = Data { tables: 2, rows: 10_000, seed: 1 };
/// How many events are compared.
const EVENTS: u64 = 3;
const MINUTE: Duration = Duration::from_secs(60);

/// A server with loaded tables.
struct Setup {
    folder: TempDir,
    engine: Engine,
    prefix: &'static str,
    loadgen: Driver,
    sysbench: Sysbench,
}

impl Setup {
    fn new(engine: Engine, prefix: &'static str, program: &str, package: &str) -> Self {
        let file = Path::new(prefix).join(program);
        assert!(file.is_file(), "these tests need the package `{package}`");
        let sysbench = Sysbench::find(TOOL).expect("these tests need the package `sysbench`");
        let loadgen = Driver::build(crate::support::root(), TOOL).expect("cargo makes it");
        let folder = tempfile::tempdir().expect("a folder");
        let setup = Self { folder, engine, prefix, loadgen, sysbench };
        let (access, install) = (setup.access(), setup.install());
        server::init(&access, &install, &[], &setup.data(), &setup.log("init")).expect("made");
        let server = setup.start(&[]);
        let loaded = setup.by_loadgen(&server, Action::Load { connections: 2 });
        assert!(matches!(loaded, Event::Loaded { rows: 20_000, .. }), "{loaded:?}");
        server.stop().expect("a clean end");
        setup
    }

    fn access(&self) -> Access {
        Access::new(TOOL, self.engine).expect("a user for the server")
    }

    fn install(&self) -> Install {
        Install { engine: self.engine, prefix: PathBuf::from(self.prefix) }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(name).with_extension("log")
    }

    fn start(&self, lines: &[(&str, &str)]) -> Server {
        let quick: &[(&str, &str)] = match self.engine {
            Engine::Postgres => &[("shared_buffers", "64MB"), ("fsync", "off")],
            _ => &[
                ("innodb_buffer_pool_size", "67108864"),
                ("innodb_flush_log_at_trx_commit", "0"),
                ("performance_schema", "0"),
            ],
        };
        let lines = quick.iter().chain(lines).map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let settings = Settings { lines: lines.collect(), ..Settings::default() };
        let (access, install) = (self.access(), self.install());
        let started =
            Server::start(&access, &install, &settings, &self.data(), &[], &self.log("server"));
        started.expect("it starts")
    }

    fn job(server: &Server, action: Action) -> Job {
        Job { version: VERSION, server: server.endpoint(), data: DATA, action }
    }

    fn by_loadgen(&self, server: &Server, action: Action) -> Event {
        let job = Self::job(server, action);
        let ended = self.loadgen.run(&job, &[], MINUTE, &self.log("loadgen"), |_| Ok(()));
        ended.expect("done")
    }

    /// Some events on one connection.
    fn count(&self, server: &Server, microbenchmark: &Microbenchmark, prepared: bool) {
        let microbenchmark = microbenchmark.name.to_owned();
        let count = Count { microbenchmark, events: EVENTS, prepared, seed: 7 };
        self.by_loadgen(server, Action::Count(count));
    }

    /// The same by sysbench.
    fn count_by_sysbench(
        &self,
        server: &Server,
        microbenchmark: &Microbenchmark,
        prepared: bool,
        events: u64,
    ) {
        let file = self.folder.path().join("count.lua");
        let endpoint = server.endpoint();
        let lua = script(endpoint.protocol, microbenchmark, &DATA, prepared);
        std::fs::write(&file, lua).expect("written");
        let proc = self.sysbench.connecting(&endpoint, &file).expect("it can reach the server");
        let events = format!("--events={events}");
        proc.args(["--time=0", "--threads=1", "--rand-seed=7", &events, "run"])
            .timeout(MINUTE)
            .run()
            .unwrap_or_else(|error| panic!("{}: {error:#}", microbenchmark.name));
    }
}

/// A statement as the server saw it: prepared or not, and its text with all values in it.
type Seen = (bool, String);

/// What stands in a log of PostgreSQL with `log_statement = all` and an empty prefix.
fn seen_by_postgres(log: &str) -> Vec<Seen> {
    let mut seen: Vec<Seen> = Vec::new();
    for line in log.lines() {
        if let Some(text) = line.strip_prefix("LOG:  statement: ") {
            seen.push((false, text.to_owned()));
        } else if let Some(named) = line.strip_prefix("LOG:  execute ") {
            let (_, text) = named.split_once(": ").expect("a name and a text");
            seen.push((true, text.to_owned()));
        } else if let Some(values) = line.strip_prefix("DETAIL:  parameters: ") {
            let (_, text) = seen.last_mut().expect("its statement");
            // From the last, for `$1` begins `$10`, too.
            for value in values.split(", $").collect::<Vec<_>>().into_iter().rev() {
                let (number, value) = value.split_once(" = ").expect("a number and a value");
                let mark = format!("${}", number.trim_start_matches('$'));
                let value = value.trim_matches('\'');
                let quote = if value.contains('-') { "'" } else { "" };
                *text = text.replacen(&mark, &format!("{quote}{value}{quote}"), 1);
            }
        }
    }
    seen
}

/// What stands in a general log of MariaDB.
fn seen_by_mariadb(log: &str) -> Vec<Seen> {
    log.lines()
        .filter_map(|line| {
            let (head, text) = line.rsplit_once('\t')?;
            let command = head.split_whitespace().last()?;
            let prepared = command == "Execute";
            (prepared || command == "Query").then(|| (prepared, text.to_owned()))
        })
        .collect()
}

/// The same statement with `#` for every number: the table's, then the values'. Texts keep their
/// length, ranges their distance, and what is constant stays.
fn shape(text: &str, constant: bool) -> String {
    let mut shape = String::new();
    let mut numbers: Vec<u64> = Vec::new();
    for (at, part) in text.split('\'').enumerate() {
        if at % 2 == 1 {
            shape.push('\'');
            shape.extend(part.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }));
            shape.push('\'');
            continue;
        }
        let mut rest = part;
        while let Some(begin) = rest.find(|c: char| c.is_ascii_digit()) {
            let digits = rest[begin..].find(|c: char| !c.is_ascii_digit());
            let end = digits.map_or(rest.len(), |length| begin + length);
            let number: u64 = rest[begin..end].parse().expect("digits");
            let distance = rest[..begin].ends_with(" AND ");
            shape.push_str(&rest[..begin]);
            let table = shape.ends_with("sbtest");
            match numbers.last() {
                Some(first) if distance => shape.push_str(&format!("#+{}", number - first)),
                _ if constant && !table => shape.push_str(&number.to_string()),
                _ => shape.push('#'),
            }
            numbers.push(number);
            rest = &rest[end..];
        }
        shape.push_str(rest);
    }
    shape
}

/// The table and the number that follows it, of a statement that has both.
fn table_and_first(text: &str) -> (u64, Option<u64>) {
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .map_while(|digits| digits.parse().ok());
    (numbers.next().unwrap_or_default(), numbers.next())
}

/// Checks what a shape cannot show, and gives the shapes: prepared or not, and the text.
fn shapes(microbenchmark: &Microbenchmark, seen: &[Seen], events: u64) -> Vec<(bool, String)> {
    let name = microbenchmark.name;
    let per_event = microbenchmark.queries_per_event() as usize;
    assert_eq!(seen.len(), per_event * events as usize, "{name}: {seen:#?}");
    for event in seen.chunks(per_event) {
        let (mut rest, mut deleted) = (event, (0, None));
        for step in microbenchmark.steps {
            let (now, later) = rest.split_at(step.times as usize);
            rest = later;
            let first = table_and_first(&now[0].1);
            let one_table = now.iter().all(|(_, text)| table_and_first(text).0 == first.0);
            assert!(one_table && first.0 <= 2, "{name}: {now:?}");
            match step.statement {
                Statement::Delete => deleted = first,
                Statement::Reinsert => assert_eq!(first, deleted, "{name}: {event:?}"),
                Statement::SelectPoint | Statement::SelectRange { .. } => {
                    let ids = now.iter().filter_map(|(_, text)| table_and_first(text).1);
                    assert!(ids.into_iter().all(|id| (1..=DATA.rows).contains(&id)), "{now:?}");
                }
                _ => {}
            }
        }
    }
    let constant = microbenchmark.distribution == Distribution::Constant;
    seen.iter().map(|(prepared, text)| (*prepared, shape(text, constant))).collect()
}

/// What a call adds to a file.
fn added(file: &Path, call: impl FnOnce()) -> String {
    let length = |file| std::fs::metadata(file).map_or(0, |it: std::fs::Metadata| it.len());
    let before = usize::try_from(length(file)).expect("a size");
    call();
    let bytes = std::fs::read(file).expect("a log");
    String::from_utf8_lossy(&bytes[before..]).into_owned()
}

/// Compares the statements of both drivers, for every microbenchmark.
fn compare(setup: &Setup, server: &Server, log: &Path, seen: fn(&str) -> Vec<Seen>) {
    for microbenchmark in &MICROBENCHMARKS {
        for prepared in [true, false] {
            let ours = added(log, || setup.count(server, microbenchmark, prepared));
            let theirs = added(log, || {
                setup.count_by_sysbench(server, microbenchmark, prepared, EVENTS);
            });
            let ours = shapes(microbenchmark, &seen(&ours), EVENTS);
            let theirs = shapes(microbenchmark, &seen(&theirs), EVENTS);
            assert_eq!(ours, theirs, "{}, prepared: {prepared}", microbenchmark.name);
            assert_eq!(ours[0].0, prepared && microbenchmark.prepared, "{}", microbenchmark.name);
        }
    }
    zipfian(setup, server, log, seen);
}

/// How often sysbench's script draws the first ids.
fn zipfian(setup: &Setup, server: &Server, log: &Path, seen: fn(&str) -> Vec<Seen>) {
    let microbenchmark = catalog::find("update-zipf").expect("there");
    let events = 4000;
    let draw = || added(log, || setup.count_by_sysbench(server, microbenchmark, true, events));
    let text = draw();
    let ids: Vec<u64> = seen(&text)
        .iter()
        .filter_map(|(_, text)| text.rsplit_once("id=")?.1.trim().parse().ok())
        .collect();
    assert_eq!(ids.len() as u64, events);
    assert!(ids.iter().all(|id| (1..=DATA.rows).contains(id)));
    let weight = |id: u64| (id as f64).powf(-catalog::ZIPF_EXPONENT);
    let all: f64 = (1..=DATA.rows).map(weight).sum();
    // Ids up to here, five standard deviations of a binomial count around.
    for last in [1, 10, 1000] {
        let share = (1..=last).map(weight).sum::<f64>() / all;
        let expected = share * events as f64;
        let bound = 5.0 * (expected * (1.0 - share)).sqrt();
        let got = ids.iter().filter(|id| **id <= last).count() as f64;
        assert!((got - expected).abs() < bound, "{last}: {got}, not {expected} +- {bound}");
    }
    // One seed, one stream.
    let plain = |text: &str| seen(text).into_iter().map(|it| it.1).collect::<Vec<_>>();
    assert!(plain(&text) == plain(&draw()), "the same seed gave other statements");
}

/// Measures every microbenchmark for a second: one of those that differ only in when they run.
fn measure(setup: &Setup, server: &Server) {
    for (at, microbenchmark) in MICROBENCHMARKS.iter().enumerate() {
        let same = |other: &Microbenchmark| {
            (other.steps, other.distribution, other.prepared)
                == (microbenchmark.steps, microbenchmark.distribution, microbenchmark.prepared)
        };
        if MICROBENCHMARKS[..at].iter().any(same) {
            continue;
        }
        // The first with a warm-up and two clients.
        let first = microbenchmark.name == MICROBENCHMARKS[0].name;
        let action = Action::Run(Run {
            microbenchmark: microbenchmark.name.to_owned(),
            threads: if first { 2 } else { 1 },
            warmup_seconds: if first { 1.0 } else { 0.0 },
            seconds: 1.0,
            prepared: true,
            seed: 3,
            rate: None,
        });
        let job = Setup::job(server, action);
        let mut told = Vec::new();
        let mut heed = |event: &Event| {
            told.push(event.clone());
            Ok(())
        };
        let ended = setup.sysbench.run(&job, &[], MINUTE, &setup.log("sysbench"), &mut heed);
        let name = microbenchmark.name;
        let ended = ended.unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let Event::Measured(measured) = ended else { panic!("{name}: {ended:?}") };
        assert!(measured.queries > 0 && measured.events > 0, "{name}: {measured:?}");
        // The last event is counted to its end, and this machine may have much to do.
        assert!((0.9..5.0).contains(&measured.seconds), "{name}: {measured:?}");
        assert_eq!(measured.errors, [], "{name}");
        let per_event = measured.queries as f64 / measured.events as f64;
        let expected = f64::from(microbenchmark.queries_per_event());
        // An event in which the checkpoint falls gives its statements to both sides.
        assert!((per_event - expected).abs() < 0.1 * expected, "{name}: {measured:?}");
        let latency = &measured.latency;
        assert!(latency.p50_us > 0 && latency.p50_us <= latency.p99_us, "{name}: {measured:?}");
        assert!(latency.p99_us <= latency.max_us && latency.mean_us > 0.0, "{name}: {latency:?}");
        // Clients that wait for nothing but the server: the sum of their times is the window.
        let clients = if first { 2.0 } else { 1.0 };
        let busy = latency.mean_us * measured.events as f64 / 1e6 / clients;
        assert!((0.5..1.1).contains(&(busy / measured.seconds)), "{name}: {measured:?}");
        let used = measured.client.user_seconds + measured.client.system_seconds;
        assert!(used > 0.0 && used < 2.0 * measured.seconds, "{name}: {measured:?}");
        assert_eq!(told.first(), Some(&Event::WindowBegin), "{name}");
        assert_eq!(told.last(), Some(&Event::WindowEnd), "{name}: {told:?}");
    }
}

#[test]
fn postgres_sees_the_same_statements_and_all_can_be_measured() {
    let setup =
        Setup::new(Engine::Postgres, "/usr/lib/postgresql/15", "bin/postgres", "postgresql-15");
    let server = setup.start(&[("log_statement", "all"), ("log_line_prefix", "")]);
    compare(&setup, &server, &setup.log("server"), seen_by_postgres);
    server.stop().expect("a clean end");
    let server = setup.start(&[]);
    measure(&setup, &server);
    let missing = Action::Run(Run {
        microbenchmark: "point-query".to_owned(),
        threads: 1,
        warmup_seconds: 0.0,
        seconds: 1.0,
        prepared: true,
        seed: 3,
        rate: None,
    });
    let mut job = Setup::job(&server, missing);
    job.data.tables = 3;
    let log = setup.log("sysbench");
    let error = setup.sysbench.run(&job, &[], MINUTE, &log, |_| Ok(())).expect_err("no table 3");
    assert!(format!("{error:#}").contains("sbtest3"), "{error:#}");
}

#[test]
fn mariadb_sees_the_same_statements_and_all_can_be_measured() {
    let setup = Setup::new(Engine::Mariadb, "/usr", "sbin/mariadbd", "mariadb-server-core");
    let server = setup.start(&[("general_log", "1"), ("general_log_file", "general.log")]);
    compare(&setup, &server, &setup.data().join("general.log"), seen_by_mariadb);
    server.stop().expect("a clean end");
    measure(&setup, &setup.start(&[]));
}
