//! What is to be run, with nothing left to be looked up, and which of it is there already. Pure.

use std::path::PathBuf;
use std::time::Duration;

use catalog::protocol::{Data, Maintain};
use jiff::Timestamp;

use super::placement::resolve;
use super::schedule::{Block, Demand, Item, Past, Random, schedule};
use super::snapshot::Fill;
use super::sysbench::Sysbench;
use crate::exit::{Code, coded};
use crate::hash::Digest;
use crate::matrix::expand::put;
use crate::matrix::model::Placement;
use crate::record::{Mark, Outcome, PlacementUsed, Record};
use crate::server::{Install, Settings};

mod work;

pub use work::{Command, Profile, Reading, Work};

/// What is measured: a build with a config.
#[derive(Clone, Debug)]
pub struct Target {
    /// `build.config`.
    pub name: String,
    /// [`target_id`].
    pub id: Digest,
    /// Name of the build.
    pub build: String,
    /// Id of the build.
    pub build_id: Digest,
    /// [`target_id`] with the build's code in the place of its id; `None` where it is not known.
    pub code_id: Option<Digest>,
    /// What the audit has against the build, if it is to run all the same.
    pub audit: Option<Mark>,
    /// Name and version of the compiler, unless the server is an installed one.
    pub compiler: Option<String>,
    /// Axis and setting.
    pub settings: Vec<(String, String)>,
    /// Name of the config.
    pub config: String,
    /// Where the build is installed.
    pub install: Install,
    /// What the config gives the server.
    pub server: Settings,
    /// Arguments of `initdb`.
    pub init: Vec<String>,
    /// The digest of the source: builds of one source share loaded data.
    pub source: Digest,
    /// The build's options of `configure`, of which some change the data's files.
    pub configure: Vec<String>,
}

/// The identity of a target: the hash of build id and everything that the server gets, formulas
/// computed for this host and preloaded libraries by their content. Records hold it; the plan's own
/// [`crate::matrix::expand::target_id`] knows no host.
pub fn target_id(build: &Digest, server: &Settings, init: &[String]) -> Digest {
    let mut bytes = b"target 2\0".to_vec();
    bytes.extend(build.0);
    for pairs in [&server.lines, &server.env] {
        bytes.extend((pairs.len() as u32).to_be_bytes());
        for (key, value) in pairs {
            put(key.as_bytes(), &mut bytes);
            put(value.as_bytes(), &mut bytes);
        }
    }
    bytes.extend((server.preload.len() as u32).to_be_bytes());
    server.preload.iter().for_each(|library| bytes.extend(library.digest.0));
    bytes.extend((init.len() as u32).to_be_bytes());
    init.iter().for_each(|argument| put(argument.as_bytes(), &mut bytes));
    Digest::of(&bytes)
}

/// One measurement of every visit.
#[derive(Clone, Debug)]
pub struct Measure {
    /// The microbenchmark.
    pub microbenchmark: String,
    /// Its group.
    pub group: String,
    /// Whether it changes the data.
    pub writes: bool,
    /// Clients.
    pub threads: u32,
    /// Length of the window, in seconds.
    pub seconds: f64,
    /// The hash of everything in the workload that determines this run's number.
    pub workload_id: Digest,
    /// What is done.
    pub work: Work,
    /// What brings the server to rest afterwards.
    pub maintain: Option<Maintain>,
}

/// An experiment's runs, with nothing left to be looked up.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The experiment.
    pub experiment: String,
    /// The targets, the base first.
    pub targets: Vec<Target>,
    /// The name of the workload.
    pub workload: String,
    /// What every data directory holds before the first measurement.
    pub fill: Fill,
    /// Seed of the keys, from which each block has its own.
    pub key_seed: u64,
    /// Seconds before each window.
    pub warmup_seconds: f64,
    /// Whether statements are prepared.
    pub prepared: bool,
    /// Open loop: events per second.
    pub rate: Option<f64>,
    /// The largest share of events that the server may refuse.
    pub error_limit: f64,
    /// The measurements in run order.
    pub items: Vec<Measure>,
    /// Which cores server and client run on.
    pub placement: Placement,
    /// Pairs per target and item.
    pub repeats: u32,
    /// Seed of the orders.
    pub seed: u64,
    /// The host's id.
    pub host: String,
    /// The kernel's boot id.
    pub boot: String,
    /// The kernel's release.
    pub kernel: String,
    /// Who sends the statements of microbenchmarks, if not the built-in driver.
    pub sysbench: Option<Sysbench>,
    /// Where profiles are written, if these runs are made for them.
    pub profile: Option<Profile>,
    /// The folder in which programs run, as soon as it is there; `None`: the project's.
    pub folder: Option<PathBuf>,
    /// The load driver or the programs that measure, as soon as they are there: with others no
    /// block is resumed.
    pub driver: Option<Digest>,
    /// The cores that may be used, by physical core.
    pub cores: Vec<Vec<usize>>,
}

impl Plan {
    /// The tables of the microbenchmarks.
    ///
    /// # Errors
    /// With [`Code::Input`] when the workload is none of microbenchmarks.
    pub fn tables(&self) -> anyhow::Result<&Data> {
        match &self.fill {
            Fill::Tables(data) => Ok(data),
            Fill::Program { .. } | Fill::Nothing => Err(coded(
                Code::Input,
                format!("only a workload of microbenchmarks can do this, not `{}`", self.workload),
            )),
        }
    }

    /// The seed of a block's keys: the same on every target, another one in the next block.
    pub fn seed_of_block(&self, block: u32) -> u64 {
        Random::new(self.key_seed ^ u64::from(block) << 32).next_u64() >> 11
    }

    /// The blocks still to be run, given every record of the experiment. A record counts if it was
    /// made on this host, with this placement, by what its target and item are now; with which load
    /// driver does not matter, as long as both runs of a pair had the same one. Pure.
    ///
    /// # Errors
    /// When the placement is not possible here.
    pub fn blocks(&self, records: &[Record], now: Timestamp) -> anyhow::Result<Vec<Block>> {
        let demand = Demand {
            targets: self.targets.iter().map(|target| target.name.clone()).collect(),
            items: self
                .items
                .iter()
                .map(|item| Item {
                    microbenchmark: item.microbenchmark.clone(),
                    threads: item.threads,
                    writes: item.writes,
                })
                .collect(),
            repeats: self.repeats,
            chained: self.items.iter().any(|item| matches!(item.work, Work::Insert(_))),
            seed: self.seed,
            host: self.host.clone(),
            boot: self.boot.clone(),
            now,
        };
        let here: Vec<&Record> = records
            .iter()
            .filter(|record| record.experiment == self.experiment && record.host == self.host)
            .collect();
        let placements = self
            .items
            .iter()
            .map(|item| resolve(self.placement, item.threads, &self.cores))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let past: Vec<Past> =
            here.iter().filter_map(|record| self.past(record, &placements)).collect();
        Ok(schedule(&demand, &past, here.iter().map(|record| record.block).max()))
    }

    /// Whether the base has a measured run among these records of the experiment. Pure.
    pub fn base_measured(&self, records: &[Record]) -> bool {
        let Some(base) = self.targets.first() else { return false };
        records.iter().any(|record| {
            record.experiment == self.experiment
                && record.host == self.host
                && record.target == base.name
                && record.target_id == base.id
                && matches!(record.outcome, Outcome::Ok(_))
        })
    }

    fn past(&self, record: &Record, placements: &[PlacementUsed]) -> Option<Past> {
        let target = self
            .targets
            .iter()
            .position(|target| target.name == record.target && target.id == record.target_id)?;
        let item = self.items.iter().zip(placements).position(|(item, placement)| {
            item.microbenchmark == record.microbenchmark
                && item.threads == record.threads
                && item.workload_id == record.workload_id
                && *placement == record.placement
        })?;
        let started: Timestamp = record.started.parse().ok()?;
        let (ok, seconds) = match &record.outcome {
            Outcome::Ok(sample) => (true, sample.warmup_seconds + sample.seconds),
            Outcome::Failed { .. } => (false, 0.0),
        };
        let finished = started.checked_add(Duration::try_from_secs_f64(seconds).ok()?).ok()?;
        let (block, place) = (record.block, record.place);
        // A block with another driver rests like one of another boot: its pairs count, and it is
        // not gone on with.
        let resumable = self.driver.is_none_or(|driver| driver == record.driver);
        let boot = if resumable { record.boot.clone() } else { String::new() };
        Some(Past { block, place, target, item, boot, finished, ok })
    }

    /// Seconds that these blocks measure, without what comes between.
    pub fn seconds(&self, blocks: &[Block]) -> f64 {
        blocks
            .iter()
            .flat_map(|block| &block.visits)
            .flat_map(|visit| &visit.items)
            .map(|item| self.warmup_seconds + self.items[*item].seconds)
            .sum()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use catalog::protocol::{ClientUsage, Latency};

    use super::*;
    use crate::matrix::model::Engine;
    use crate::record::{SCHEMA, Sample, ServerUsage};
    use crate::server::preload::Library;

    pub(in crate::bench) fn plan() -> Plan {
        let target = |name: &str| Target {
            name: format!("build.{name}"),
            id: Digest::of(name.as_bytes()),
            build: "build".to_owned(),
            build_id: Digest::of(b"build"),
            code_id: None,
            audit: None,
            compiler: None,
            settings: Vec::new(),
            config: name.to_owned(),
            install: Install { engine: Engine::Postgres, prefix: "/opt/pg".into() },
            server: Settings::default(),
            init: Vec::new(),
            source: Digest::of(b"source"),
            configure: Vec::new(),
        };
        Plan {
            experiment: "e".to_owned(),
            targets: vec![target("base"), target("other")],
            workload: "w".to_owned(),
            fill: Fill::Tables(Data { tables: 1, rows: 10, seed: 1 }),
            key_seed: 1,
            warmup_seconds: 1.0,
            prepared: true,
            rate: None,
            error_limit: 0.01,
            items: vec![Measure {
                microbenchmark: "scan".to_owned(),
                group: "range-1".to_owned(),
                writes: false,
                threads: 1,
                seconds: 2.0,
                workload_id: Digest::of(b"w"),
                work: Work::Microbenchmark,
                maintain: None,
            }],
            placement: Placement::Together,
            repeats: 1,
            seed: 1,
            host: "h".to_owned(),
            boot: "b".to_owned(),
            kernel: "6.1.0".to_owned(),
            sysbench: None,
            profile: None,
            folder: None,
            driver: Some(Digest::of(b"driver")),
            cores: vec![vec![0], vec![1]],
        }
    }

    fn record(plan: &Plan, target: usize) -> Record {
        let (target, item) = (&plan.targets[target], &plan.items[0]);
        Record {
            schema: SCHEMA,
            tool: "0".to_owned(),
            experiment: plan.experiment.clone(),
            block: 1,
            place: 0,
            order_seed: 0,
            invocation: String::new(),
            target: target.name.clone(),
            target_id: target.id,
            build: target.build.clone(),
            build_id: target.build_id,
            code_id: None,
            audit: None,
            compiler: None,
            server_version: None,
            settings: Vec::new(),
            config: target.config.clone(),
            workload: plan.workload.clone(),
            workload_id: item.workload_id,
            microbenchmark: item.microbenchmark.clone(),
            group: item.group.clone(),
            threads: item.threads,
            host: plan.host.clone(),
            boot: plan.boot.clone(),
            kernel: plan.kernel.clone(),
            driver: Digest::of(b"driver"),
            started: "2026-01-01T00:00:00Z".to_owned(),
            placement: resolve(plan.placement, item.threads, &plan.cores).expect("possible"),
            imported: None,
            outcome: Outcome::Ok(Box::new(Sample {
                seconds: 2.0,
                warmup_seconds: 1.0,
                queries: 1,
                events: 1,
                rows: 1,
                errors: Vec::new(),
                queries_per_second: Vec::new(),
                latency: Latency::default(),
                server: ServerUsage::default(),
                client: ClientUsage::default(),
                machine: None,
                sizes: None,
                rows_written_kib: None,
                streams: Vec::new(),
                maintained: None,
                rate: None,
                metrics: Vec::new(),
            })),
        }
    }

    #[test]
    fn target_id_follows_what_the_server_gets() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let library =
            |content: &[u8]| Library { path: "/l.so".into(), digest: Digest::of(content) };
        let plain =
            Settings { lines: vec![pair("shared_buffers", "1024MB")], ..Settings::default() };
        let changes: [fn(&mut Settings); 4] = [
            |s| s.lines[0].1 = "2048MB".to_owned(),
            |s| s.env = std::mem::take(&mut s.lines),
            |s| s.lines.push(("fsync".to_owned(), "off".to_owned())),
            |s| s.lines.clear(),
        ];
        let build = Digest::of(b"build");
        let mut ids = vec![target_id(&build, &plain, &[])];
        ids.extend(changes.map(|change| {
            let mut settings = plain.clone();
            change(&mut settings);
            target_id(&build, &settings, &[])
        }));
        ids.push(target_id(&Digest::of(b"other"), &plain, &[]));
        ids.push(target_id(&build, &plain, &["--data-checksums".to_owned()]));
        for content in [&b"one"[..], b"two"] {
            let preload = vec![library(content)];
            ids.push(target_id(&build, &Settings { preload, ..plain.clone() }, &[]));
        }
        let mut once = ids.clone();
        once.sort_by_key(|id| id.0);
        once.dedup();
        assert_eq!(once.len(), ids.len(), "{ids:?}");
        let mut moved = Settings { preload: vec![library(b"one")], ..plain.clone() };
        let before = target_id(&build, &moved, &[]);
        moved.preload[0].path = "/elsewhere/l.so".into();
        assert_eq!(before, target_id(&build, &moved, &[]), "the content counts, not the place");
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn records_count_while_they_describe_what_is_wanted() {
        let plan = plan();
        let done = [record(&plan, 0), record(&plan, 1)];
        let later = at("2026-01-02T00:00:00Z");
        assert_eq!(plan.blocks(&done, later).expect("a schedule"), []);
        type Change = (&'static str, fn(&mut Record));
        let changes: [Change; 6] = [
            ("another target", |r| r.target_id = Digest::of(b"x")),
            ("another workload", |r| r.workload_id = Digest::of(b"x")),
            ("other cores", |r| r.placement.server_cpus = vec![0]),
            ("other clients", |r| r.threads = 2),
            // The numbers of blocks are those of this experiment on this host.
            ("another host", |r| r.host = "x".to_owned()),
            ("another experiment", |r| r.experiment = "x".to_owned()),
        ];
        for (what, change) in changes {
            let mut records = done.clone();
            change(&mut records[1]);
            let blocks = plan.blocks(&records, later).expect("a schedule");
            let numbers: Vec<_> = blocks.iter().map(|block| block.number).collect();
            assert_eq!(numbers, [2], "{what}");
            assert_eq!(blocks[0].visits.len(), 2, "{what}");
        }
        assert_eq!(plan.blocks(&[], later).expect("a schedule")[0].number, 1);
    }

    #[test]
    fn the_rest_of_a_block_is_counted_from_the_end_of_its_last_run() {
        let plan = plan();
        let base = [record(&plan, 0)];
        // The run began at midnight and took 3 s.
        for (now, resumed) in [("2026-01-01T00:15:02Z", true), ("2026-01-01T00:15:03Z", false)] {
            let blocks = plan.blocks(&base, at(now)).expect("a schedule");
            assert_eq!(blocks[0].resumed, resumed, "{now}");
            assert!((plan.seconds(&blocks) - if resumed { 3.0 } else { 6.0 }).abs() < 1e-9);
        }
        // Half of a pair by another driver is no half of a pair; a whole pair by it counts.
        let other = Plan { driver: Some(Digest::of(b"newer")), ..plan.clone() };
        let now = at("2026-01-01T00:00:10Z");
        assert!(!other.blocks(&base, now).expect("a schedule")[0].resumed);
        let pair = [record(&plan, 0), record(&plan, 1)];
        assert_eq!(other.blocks(&pair, now).expect("a schedule"), []);
    }

    #[test]
    fn only_good_runs_of_the_base_as_it_is_now_count_as_measured() {
        let plan = plan();
        let good = record(&plan, 0);
        assert!(plan.base_measured(std::slice::from_ref(&good)));
        let outcome = Outcome::Failed { reason: String::new(), log: None };
        let failed = Record { outcome, ..good.clone() };
        let older = Record { target_id: Digest::of(b"x"), ..good };
        assert!(!plan.base_measured(&[record(&plan, 1), failed, older]));
    }
}
