//! The making of runs: block after block, target after target, item after item; each run becomes a
//! record at once, a failed one too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, bail};
use fs_err as fs;
use jiff::Timestamp;

use super::driver::Driver;
use super::plan::{Plan, Target, Work};
use super::schedule::{Block, Visit};
use super::snapshot::{self, Contents};
use crate::env::Env;
use crate::interrupt;
use crate::progress::Task;
use crate::record::Record;
use crate::server::access::Access;
use crate::server::{self, START_TIMEOUT, Server};

mod command;
mod insert;
mod visit;
mod watch;

/// How many runs were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Measured.
    pub ok: usize,
    /// Failed, each with a record.
    pub failed: usize,
}

/// Makes the runs of `blocks` and hands each record to `sink` as soon as it is there. The caller
/// holds the lock of the host and knows whether the base was ever measured
/// ([`Plan::base_measured`]).
///
/// # Errors
/// When the user asks to stop, nothing was ever measured with the base, or `sink` fails. Failed
/// runs are no errors but records; unless `env` says to keep going, the first one ends the call.
pub fn run(
    env: &Env,
    tool: &Path,
    driver: Option<&Driver>,
    plan: &Plan,
    blocks: &[Block],
    base_measured: bool,
    sink: &mut dyn FnMut(Record) -> anyhow::Result<()>,
) -> anyhow::Result<Summary> {
    if blocks.is_empty() {
        return Ok(Summary::default());
    }
    let run_folder = env.work.join("run");
    // Left over from a call that was killed: nobody else can be here.
    snapshot::remove(&run_folder)?;
    snapshot::remove_unfinished(&env.staging())?;
    fs::create_dir_all(&run_folder)?;
    let engine = plan.targets.first().context("an experiment without targets")?.install.engine;
    let access = Access::new(tool, engine)?;
    if !access.canonical() {
        env.reporter.warn(
            "this kernel allows no mount namespaces here, so builds run under paths of different \
             length, which can shift results by a little",
        );
    }
    let total = (plan.seconds(blocks) * 1000.0) as u64;
    let mut runner = Runner {
        env,
        driver,
        plan,
        access,
        sink,
        summary: Summary::default(),
        base_measured,
        stopped: false,
        given_up: BTreeSet::new(),
        snapshots: BTreeMap::new(),
        restores: Vec::new(),
        task: env.reporter.task("benchmark", Some(total)),
        done_ms: 0,
        last_block: blocks.last().map_or(0, |block| block.number),
    };
    let result = blocks.iter().try_for_each(|block| runner.block(block));
    snapshot::remove(&run_folder)?;
    result?;
    let Summary { ok, failed } = runner.summary;
    let failures = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    let saved = saved(&runner.restores);
    runner.task.finish(format!("{ok} runs{failures}"));
    if let Some(saved) = saved {
        env.reporter.line(saved);
    }
    Ok(runner.summary)
}

/// What restoring the data from snapshots took, against loading them each time.
fn saved(restores: &[(f64, Option<f64>)]) -> Option<String> {
    let known = restores.iter().filter_map(|(restore, load)| Some((*restore, (*load)?)));
    let (restored, loaded) = known.fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    (restored > 0.0 && loaded > 0.0).then(|| {
        format!(
            "data: {} {} in {restored:.1} s; loading each time would have taken {loaded:.1} s, \
             {:.1} times as long",
            restores.len(),
            if restores.len() == 1 { "restore" } else { "restores" },
            loaded / restored
        )
    })
}

struct Runner<'a> {
    env: &'a Env,
    /// Only programs of the user's need none.
    driver: Option<&'a Driver>,
    plan: &'a Plan,
    access: Access,
    sink: &'a mut dyn FnMut(Record) -> anyhow::Result<()>,
    summary: Summary,
    /// Whether the base has any measured run, of this call or an earlier one.
    base_measured: bool,
    /// Whether no more runs are to be made.
    stopped: bool,
    /// Targets of which nothing could be run: not tried again in this call.
    given_up: BTreeSet<usize>,
    /// Loaded data by target.
    snapshots: BTreeMap<usize, PathBuf>,
    /// Seconds of each restore, and of the load that it stood for.
    restores: Vec<(f64, Option<f64>)>,
    task: Task,
    done_ms: u64,
    last_block: u32,
}

/// One visit while it runs.
struct Visiting<'a> {
    block: &'a Block,
    visit: &'a Visit,
    target: &'a Target,
    invocation: String,
    folder: PathBuf,
    logs: PathBuf,
    starts: u32,
    /// The version in the server's own words.
    version: Option<String>,
}

impl<'a> Runner<'a> {
    fn block(&mut self, block: &Block) -> anyhow::Result<()> {
        // Before the first visit: loading between two visits would set them apart in time.
        for visit in &block.visits {
            if !self.stopped && !self.given_up.contains(&visit.target) {
                self.prepare(block, visit)?;
            }
        }
        for visit in &block.visits {
            if self.stopped || self.given_up.contains(&visit.target) {
                continue;
            }
            interrupt::check()?;
            let ok = self.summary.ok;
            self.visit(block, visit)?;
            if self.summary.ok == ok && !self.stopped {
                self.give_up(visit.target)?;
            } else if visit.target == 0 && self.summary.ok > ok {
                self.base_measured = true;
            }
        }
        Ok(())
    }

    fn give_up(&mut self, target: usize) -> anyhow::Result<()> {
        let name = &self.plan.targets[target].name;
        if target == 0 && !self.base_measured {
            bail!("nothing could be measured with the base `{name}`, so nothing can be compared");
        }
        if target == 0 {
            // Later blocks have no other items than this one, and without a base no pairs.
            self.env.reporter.warn(format!(
                "nothing could be measured with the base `{name}` in this block: the other runs of \
                 this call are left out"
            ));
            self.stopped = true;
            return Ok(());
        }
        self.env.reporter.warn(format!("`{name}` is left out of the other blocks of this call"));
        self.given_up.insert(target);
        Ok(())
    }

    /// Has the target's data loaded; a target without data fails.
    fn prepare(&mut self, block: &Block, visit: &Visit) -> anyhow::Result<()> {
        let target = &self.plan.targets[visit.target];
        if self.snapshots.contains_key(&visit.target) {
            return Ok(());
        }
        let contents = Contents::new(
            target.install.engine,
            target.source,
            &target.configure,
            (&target.init, &target.server.lines),
            &self.plan.fill,
            self.driver,
        );
        // A config that the server would refuse is told before anything is loaded for it.
        let checked = server::check_settings(&target.install, &target.server);
        let loaded = checked.and_then(|warnings| {
            for warning in warnings {
                self.env.reporter.warn(format!("{}: {warning}", target.config));
            }
            snapshot::ensure(self.env, &self.access, &target.install, &contents, self.driver)
        });
        match loaded {
            Ok(data) => {
                self.snapshots.insert(visit.target, data);
                Ok(())
            }
            Err(error) => {
                interrupt::check()?;
                let visiting = self.visiting(block, visit)?;
                self.fail_all(&visiting, &visit.items, &format!("{error:#}"), None)?;
                if self.stopped { Ok(()) } else { self.give_up(visit.target) }
            }
        }
    }

    fn visiting<'b>(&self, block: &'b Block, visit: &'b Visit) -> anyhow::Result<Visiting<'b>>
    where
        'a: 'b,
    {
        let target = &self.plan.targets[visit.target];
        let invocation = format!(
            "{}-b{}-p{}",
            Timestamp::now().strftime("%Y%m%dT%H%M%SZ"),
            block.number,
            visit.place
        );
        let folder = self.env.work.join("run").join(&invocation);
        let logs = self.env.logs().join("bench").join(&self.plan.experiment).join(&invocation);
        fs::create_dir_all(&logs)?;
        Ok(Visiting { block, visit, target, invocation, folder, logs, starts: 0, version: None })
    }

    fn visit(&mut self, block: &Block, visit: &Visit) -> anyhow::Result<()> {
        let mut visiting = self.visiting(block, visit)?;
        let result = self.invocation(&mut visiting);
        snapshot::remove(&visiting.folder)?;
        result
    }

    /// Restores the data, starts the server, measures each item, stops the server.
    fn invocation(&mut self, visiting: &mut Visiting<'_>) -> anyhow::Result<()> {
        let items = &visiting.visit.items;
        let mut server = match self.start(visiting) {
            Ok(server) => server,
            Err(error) => {
                interrupt::check()?;
                let log = visiting.server_log();
                return self.fail_all(visiting, items, &format!("{error:#}"), Some(&log));
            }
        };
        for (index, item) in items.iter().enumerate() {
            let begin = Timestamp::now();
            let error = match self.measure(visiting, &mut server, *item) {
                Ok(sample) => {
                    self.ok(visiting, *item, begin, sample)?;
                    continue;
                }
                Err(error) => error,
            };
            interrupt::check()?;
            // The server's death explains more than the lost connection of the driver.
            let dead = server.check().err();
            let reason = dead.as_ref().unwrap_or(&error);
            let log =
                if dead.is_some() { visiting.server_log() } else { visiting.log(self, *item) };
            self.fail(visiting, *item, begin, &format!("{reason:#}"), Some(&log))?;
            if self.stopped {
                break;
            }
            if matches!(self.plan.items[*item].work, Work::Insert(_)) {
                let reason = "an earlier step of the insert benchmark failed";
                self.fail_all(visiting, &items[index + 1..], reason, None)?;
                break;
            }
            let rest = &items[index + 1..];
            match self.recover(visiting, server, dead.is_some()) {
                Ok(again) => server = again,
                Err(error) => {
                    interrupt::check()?;
                    let reason = format!("the server was lost earlier in this visit: {error:#}");
                    return self.fail_all(visiting, rest, &reason, Some(&visiting.server_log()));
                }
            }
        }
        let begin = Instant::now();
        server.abandon();
        self.env.reporter.account("stop servers", begin.elapsed());
        Ok(())
    }

    /// Restores the data and starts the server.
    fn start(&mut self, visiting: &mut Visiting<'_>) -> anyhow::Result<Server> {
        let from = self
            .snapshots
            .get(&visiting.visit.target)
            .context("the target's data were not prepared")?;
        let begin = Instant::now();
        fs::create_dir_all(&visiting.folder)?;
        snapshot::restore(from, &visiting.data(), &self.access)
            .context("cannot restore the data")?;
        self.env.reporter.account("restore data", begin.elapsed());
        self.restores.push((begin.elapsed().as_secs_f64(), snapshot::load_seconds(from)));
        self.start_on_data(visiting)
    }

    fn start_on_data(&self, visiting: &mut Visiting<'_>) -> anyhow::Result<Server> {
        let begin = Instant::now();
        visiting.starts += 1;
        let first = self.placement(visiting.visit.items.first().copied().unwrap_or_default())?;
        let Target { install, server, .. } = visiting.target;
        let (data, log) = (visiting.data(), visiting.server_log());
        let server = Server::start(&self.access, install, server, &data, &first.server_cpus, &log)?;
        self.env.reporter.account("start servers", begin.elapsed());
        visiting.version = server.version().map(str::to_owned);
        Ok(server)
    }

    /// After a failed run: waits until the server answers again, or starts it once more on the same
    /// data, which it recovers from its log.
    fn recover(
        &self,
        visiting: &mut Visiting<'_>,
        mut server: Server,
        dead: bool,
    ) -> anyhow::Result<Server> {
        if !dead {
            server.wait_ready(START_TIMEOUT)?;
            return Ok(server);
        }
        if visiting.starts > 1 {
            bail!("it had been started again already");
        }
        drop(server);
        self.start_on_data(visiting)
    }
}

impl Visiting<'_> {
    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn server_log(&self) -> PathBuf {
        self.logs.join(format!("server{}.log", self.starts))
    }

    fn log(&self, runner: &Runner<'_>, item: usize) -> PathBuf {
        let item = &runner.plan.items[item];
        self.logs.join(format!("{}-{}.log", item.microbenchmark, item.threads))
    }

    /// One server start: what its records have in common.
    fn invocation(&self) -> String {
        match self.starts {
            0 | 1 => self.invocation.clone(),
            again => format!("{}-s{again}", self.invocation),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_snapshots_save_is_told_where_it_is_known() {
        assert_eq!(saved(&[]), None);
        assert_eq!(saved(&[(0.5, None)]), None);
        let text = saved(&[(0.5, Some(4.0)), (0.5, Some(6.0))]).expect("known");
        assert!(text.contains("2 restores in 1.0 s") && text.contains("10.0 times"), "{text}");
    }
}
