//! Makes builds: several at once under one pool of job tokens, so that the serial phases of one
//! (configure, linking) overlap the compiling of another.

use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use fs_err as fs;

use crate::audit;
use crate::build::commands;
use crate::build::configuration;
use crate::build::layout::Layout;
use crate::build::manifest::{self, HostDone, Manifest, PatchDone, SourceDone, StepDone};
use crate::build::recipe::{self, Step};
use crate::build::spec::Spec;
use crate::build::store::{self, Store};
use crate::build::tokens::{Token, Tokens};
use crate::build::usage::Peak;
use crate::env::Env;
use crate::exact::sections;
use crate::exit::{Code, coded};
use crate::facts::Toolchain;
use crate::host::probe;
use crate::interrupt;
use crate::launch::{self, Bind};
use crate::matrix::model::Family;
use crate::proc::{Proc, own_file};
use crate::progress::Task;
use crate::source::Tree;
use crate::toolchain::place::Place;
use crate::toolchain::seal;

/// Set to any value, this variable makes builds use their real folders although the kernel would
/// allow a mount namespace: for trying the fallback.
pub const NO_NAMESPACE: &str = "MATRIX_NO_NAMESPACE";

/// How one build ended.
#[derive(Debug)]
pub struct Ended {
    /// Which of the specs.
    pub index: usize,
    /// What came of it.
    pub result: anyhow::Result<Manifest>,
}

/// Makes all builds and gives the result of each, in the order in which they ended. A failed build
/// does not stop the others unless `env.keep_going` is off.
///
/// # Errors
/// Only what stops all of them: the user, or a disk that refuses the common folders.
pub fn run(env: &Env, builds: &[(Spec, Tree)]) -> anyhow::Result<Vec<Ended>> {
    if builds.is_empty() {
        return Ok(Vec::new());
    }
    let _lock = lock(env)?;
    clean_staging(env)?;
    let namespaces = namespaces_work(env)?;
    if !namespaces {
        env.reporter.warn(
            "the kernel allows no mount namespace here: compilers map the real folders to the \
             canonical ones instead, which does not cover clang's ThinLTO",
        );
    }
    let tokens = Tokens::new(env.jobs)?;
    // While this call waited for the lock, another one may have made some of them.
    let store = Store::read(env);
    let (begin, cpu_before) = (Instant::now(), children_cpu());
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let ended = Mutex::new(Vec::new());
    // One more than there are tokens: while one build waits for a file or a hash, another computes.
    let workers = builds.len().min(env.jobs + 1);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while !interrupt::requested() && !stop.load(Ordering::SeqCst) {
                    let index = next.fetch_add(1, Ordering::SeqCst);
                    let Some((spec, tree)) = builds.get(index) else { return };
                    let making = Making { env, spec, tree, tokens: &tokens, namespaces };
                    let result = match store.folder(spec.id) {
                        Some(folder) => Manifest::read(&folder.join("manifest.json")),
                        None => making.run(),
                    };
                    if result.is_err() && !env.keep_going {
                        stop.store(true, Ordering::SeqCst);
                    }
                    let mut ended = ended.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    ended.push(Ended { index, result });
                }
            });
        }
    });
    interrupt::check()?;
    let (wall, cpu) = (begin.elapsed().as_secs_f64(), children_cpu() - cpu_before);
    if wall >= 2.0 {
        env.reporter.line(format!(
            "builds: {cpu:.0} s of CPU in {wall:.0} s with {} jobs ({:.0}% busy)",
            env.jobs,
            100.0 * cpu / (wall * env.jobs as f64)
        ));
        remember_cpu(env, cpu / builds.len() as f64);
    }
    Ok(ended.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// CPU seconds of all children that have ended.
fn children_cpu() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike as _;
    // Asking for one's own children cannot fail.
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0.0, |usage| {
        (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6
    })
}

/// CPU seconds of a build here, as far as it is known: the mean of the last call that built.
pub fn cpu_seconds(env: &Env) -> Option<f64> {
    std::fs::read_to_string(env.cache().join("build-cpu-seconds")).ok()?.trim().parse().ok()
}

fn remember_cpu(env: &Env, seconds: f64) {
    // Only an estimate depends on it.
    let _ = std::fs::create_dir_all(env.cache());
    let _ = std::fs::write(env.cache().join("build-cpu-seconds"), format!("{seconds:.1}"));
}

/// Only one call of the tool builds in a work directory at a time.
pub(crate) fn lock(env: &Env) -> anyhow::Result<std::fs::File> {
    fs::create_dir_all(&env.work)?;
    let path = env.work.join("build.lock");
    let file = fs::File::create(&path)?.into_parts().0;
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(std::fs::TryLockError::WouldBlock) if told => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                env.reporter.line("waiting: another xtask builds in this work directory");
                told = true;
            }
            Err(std::fs::TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        interrupt::sleep(Duration::from_millis(200))?;
    }
}

/// Removes what an earlier call left when it was killed; the lock says that nobody works there.
fn clean_staging(env: &Env) -> anyhow::Result<()> {
    let staging = env.staging().join("builds");
    if staging.exists() {
        fs::remove_dir_all(&staging)?;
    }
    fs::create_dir_all(staging)?;
    Ok(())
}

/// Whether a build can have its canonical paths here: tried, not guessed.
fn namespaces_work(env: &Env) -> anyhow::Result<bool> {
    if std::env::var_os(NO_NAMESPACE).is_some() {
        return Ok(false);
    }
    let probe = tempfile::tempdir_in(env.staging())?;
    let at = Path::new(launch::ROOT).join("probe");
    let spec = launch::Spec {
        binds: vec![Bind { host: probe.path().to_owned(), at: at.clone(), read_only: false }],
        cwd: Some(at),
        ..launch::Spec::default()
    };
    let output = Proc::new("/bin/sh").args(["-c", "true"]).launch(own_file(), spec).run_any()?;
    Ok(output.status.success())
}

/// Makes a build apart from the store: what it installs is then in `into/tree`, its compile log in
/// `into/commands.jsonl`. Whatever was in `into` goes.
///
/// # Errors
/// When a step fails, the user asks to stop, or the disk refuses.
pub fn make_apart(env: &Env, spec: &Spec, tree: &Tree, into: &Path) -> anyhow::Result<Manifest> {
    if into.exists() {
        fs::remove_dir_all(into)?;
    }
    let staging = into.join("staging");
    fs::create_dir_all(&staging)?;
    fs::create_dir_all(env.staging())?;
    let namespaces = namespaces_work(env)?;
    let tokens = Tokens::new(env.jobs)?;
    let making = Making { env, spec, tree, tokens: &tokens, namespaces };
    let task = env.reporter.task(&spec.name, making.expected_lines());
    let result = making.produce(&staging, into, &task);
    let _ = fs::remove_dir_all(&staging);
    task.finish(if result.is_ok() { "built" } else { "failed" });
    let (manifest, _) = result.with_context(|| format!("cannot build `{}`", spec.name))?;
    Ok(manifest)
}

/// The revision of the repository at `root`, for people who want to run the same tool again.
fn tool_revision(root: &Path) -> Option<String> {
    let git = |args: &[&str]| {
        let safe = format!("safe.directory={}", root.display());
        Proc::new("git").args(["-c", &safe, "-C"]).arg(root).args(args).read().ok()
    };
    let revision = git(&["rev-parse", "HEAD"])?;
    // What is not tracked cannot be told from what is only results.
    let dirty = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if dirty { format!("{revision}-dirty") } else { revision })
}

/// Lines that configure and make print for PostgreSQL 15, for the first build's estimate.
const LINES: u64 = 1_900;

/// One build in the making.
struct Making<'a> {
    env: &'a Env,
    spec: &'a Spec,
    tree: &'a Tree,
    tokens: &'a Tokens,
    namespaces: bool,
}

impl Making<'_> {
    fn run(&self) -> anyhow::Result<Manifest> {
        let begin = Instant::now();
        let task = self.env.reporter.task(&self.spec.name, self.expected_lines());
        let staging = self.env.staging().join("builds").join(&self.spec.name);
        let result = self.make(&staging, &task);
        // Objects of a failed build are of no use: its log has what is needed.
        let _ = fs::remove_dir_all(&staging);
        self.env.reporter.account(format!("build {}", self.spec.name), begin.elapsed());
        match &result {
            Ok(_) => task.finish("built"),
            Err(_) => task.finish("failed"),
        }
        result.with_context(|| format!("cannot build `{}`", self.spec.name))
    }

    fn make(&self, staging: &Path, task: &Task) -> anyhow::Result<Manifest> {
        let made = staging.join("made");
        let (manifest, lines) = self.produce(staging, &made, task)?;
        store::publish(self.env, &made, &manifest)?;
        self.remember_lines(lines);
        Ok(manifest)
    }

    /// Runs all steps below `staging` and moves what they install to `made/tree`; the manifest, and
    /// how many lines the logs have.
    fn produce(&self, staging: &Path, made: &Path, task: &Task) -> anyhow::Result<(Manifest, u64)> {
        let Some(toolchain) = &self.spec.toolchain else { bail!("it has no toolchain") };
        let started = jiff::Timestamp::now().to_string();
        let layout = if self.namespaces {
            Layout::canonical(staging, &self.tree.path)
        } else {
            self.check_mapped(toolchain)?;
            Layout::mapped(staging, &self.tree.path)
        };
        layout.prepare(staging, toolchain)?;
        let logs = self.env.logs().join("builds").join(&self.spec.name);
        if logs.exists() {
            fs::remove_dir_all(&logs)?;
        }
        fs::create_dir_all(&logs)?;
        let environment = recipe::environment(self.spec, &layout, self.tree.source_date_epoch);
        let steps = recipe::steps(self.spec, &layout)?;
        let (mut done, mut lines) = (Vec::new(), 0);
        for (index, step) in steps.iter().enumerate() {
            let log = logs.join(format!("{index:02}-{}.log", step.name.replace([' ', '/'], "-")));
            task.state(&step.name);
            done.push(self.step(step, &layout, &environment, &log, task, &mut lines)?);
        }
        task.state("checking");
        fs::create_dir_all(made)?;
        let tree = made.join("tree");
        let prefix = recipe::prefix(self.spec.source.engine);
        fs::rename(Layout::installed_on_host(staging, prefix), &tree)
            .context("the build succeeded but installed nothing under its prefix")?;
        let commands = commands::read(&Layout::log_on_host(staging))?;
        commands::keep(&commands, &made.join("commands.jsonl"))?;
        let object = Layout::object_on_host(staging);
        let audit = audit::after_build(self.spec, toolchain, &tree, &object, &commands, &logs)?;
        let files = manifest::list(&tree)?;
        let manifest = Manifest {
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            tool_revision: tool_revision(&self.env.root),
            name: self.spec.name.clone(),
            id: self.spec.id,
            settings: self.spec.settings.clone(),
            source: self.source()?,
            inputs: self.spec.inputs(),
            toolchain: toolchain.clone(),
            canonical_paths: self.namespaces,
            environment,
            steps: done,
            host: HostDone::this(),
            started,
            finished: jiff::Timestamp::now().to_string(),
            receipt: self.receipt(&tree)?,
            tree: manifest::tree_digest(&files),
            binaries: sections::binaries(&tree, &files)?,
            configuration: configuration::read(self.spec.source.engine, &object, &tree)?,
            audit: Some(audit),
            files,
        };
        Ok((manifest, lines))
    }

    /// The source as the manifest holds it, patches whole.
    fn source(&self) -> anyhow::Result<SourceDone> {
        let Spec { source, source_facts: facts, .. } = self.spec;
        let patch = |(path, sha256): &(String, crate::hash::Digest)| {
            let content = fs::read(self.env.patches().join(path))?;
            Ok(PatchDone { path: path.clone(), sha256: *sha256, content })
        };
        Ok(SourceDone {
            name: source.name.clone(),
            engine: source.engine,
            version: facts.version.clone(),
            kind: source.kind.clone(),
            patches: facts.patches.iter().map(patch).collect::<anyhow::Result<_>>()?,
        })
    }

    /// A build without its canonical paths must still come out the same, or not at all.
    fn check_mapped(&self, toolchain: &Toolchain) -> anyhow::Result<()> {
        let options = &self.spec.options;
        let thin = options.cflags.iter().chain(&options.cxxflags).chain(&options.ldflags);
        let records = |flag: &&String| {
            flag.starts_with("-flto=thin") || flag.ends_with("record-command-line")
        };
        if toolchain.family == Family::Clang
            && let Some(flag) = thin.clone().find(records)
        {
            return Err(coded(
                Code::Environment,
                format!(
                    "clang writes real paths into its output with {flag}, and this kernel allows \
                     no mount namespace that would give it the canonical ones; \
                     `cargo xtask doctor` tells how to allow it"
                ),
            ));
        }
        Ok(())
    }

    /// Runs one step with a token of the pool and watches its log grow.
    fn step(
        &self,
        step: &Step,
        layout: &Layout,
        environment: &[(String, String)],
        log: &Path,
        task: &Task,
        lines: &mut u64,
    ) -> anyhow::Result<StepDone> {
        let _token: Token<'_> = self.tokens.acquire()?;
        let begin = Instant::now();
        let place = self.spec.toolchain.as_ref().map_or_else(Place::here, Toolchain::place);
        let launch = launch::Spec {
            binds: layout.binds.clone(),
            root: place.root().map(Path::to_owned),
            cwd: Some(step.cwd.clone()),
            cpus: confined(self.env.jobs),
            death_signal: Some(nix::libc::SIGTERM),
            ..launch::Spec::default()
        };
        let program = step.words.first().map_or("", String::as_str);
        let program = match program.contains('/') {
            true => PathBuf::from(program),
            false => place.program(program)?,
        };
        let mut process = Proc::new(program).args(&step.words[1..]).log(log);
        for (key, value) in environment {
            process = process.env(key, value);
        }
        if step.make {
            process = process.jobserver(self.tokens.client());
        }
        let process = process.launch(own_file(), launch);
        let mut running = process.spawn()?;
        let mut growth = Growth::default();
        let mut peak = Peak::of_group(running.id());
        let status = loop {
            if let Some(status) = running.poll()? {
                break status;
            }
            task.position(*lines + growth.lines(log));
            peak.look();
            std::thread::sleep(Duration::from_millis(if begin.elapsed().as_secs() < 1 {
                5
            } else {
                50
            }));
        };
        *lines += growth.lines(log);
        interrupt::check()?;
        let output = crate::proc::Output {
            status,
            stdout: Vec::new(),
            stderr: Vec::new(),
            elapsed: begin.elapsed(),
        };
        if !status.success() {
            return Err(process.failure(&output));
        }
        Ok(StepDone {
            name: step.name.clone(),
            words: step.words.clone(),
            cwd: step.cwd.clone(),
            seconds: (begin.elapsed().as_secs_f64() * 1000.0).round() / 1000.0,
            cpu_seconds: running.cpu_seconds(),
            peak_mib: peak.mib(),
        })
    }

    /// What the built server says of itself; it must name the version that was asked for.
    fn receipt(&self, tree: &Path) -> anyhow::Result<String> {
        let names = recipe::servers(self.spec.source.engine);
        let there = names.iter().map(|name| tree.join(name)).find(|path| path.is_file());
        let Some(server) = there else {
            bail!("the build installed no server: looked for {}", names.join(", "));
        };
        let receipt = Proc::new(&server)
            .arg("--version")
            .timeout(Duration::from_secs(20))
            .read()
            .with_context(|| seal::does_not_run(self.spec.toolchain.as_ref()))?
            // MySQL's begins with the path by which it was called.
            .replace(&format!("{}/", tree.display()), "");
        let version = &self.spec.source_facts.version;
        // Forks append a release of their own: `5.6.35-80.0`, `10.11.6-MariaDB`.
        let names_it = |word: &str| {
            word.strip_prefix(version.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        if !receipt.split_whitespace().any(names_it) {
            return Err(anyhow!(
                "the built server says `{receipt}`, but `{}` is version {version} in the matrix",
                self.spec.source.name
            ));
        }
        Ok(receipt)
    }

    /// How many lines the logs of this source's last build had, for the progress bar's estimate.
    fn expected_lines(&self) -> Option<u64> {
        let known = std::fs::read_to_string(self.lines_file()).ok();
        known.and_then(|text| text.trim().parse().ok()).or(Some(LINES))
    }

    fn remember_lines(&self, lines: u64) {
        // Only an estimate depends on it.
        let _ = std::fs::create_dir_all(self.env.cache());
        let _ = std::fs::write(self.lines_file(), lines.to_string());
    }

    fn lines_file(&self) -> PathBuf {
        self.env.cache().join(format!("lines-{}", self.spec.source.name))
    }
}

/// The cores that the steps may use: as many as there are jobs, where that is fewer than there are
/// cores (else none are named, which means all). The job tokens alone do not bound what takes no
/// part in them: make before 4.4 closes its pipe for the recipe lines that link, and gcc's LTO then
/// starts as many jobs as it sees cores.
fn confined(jobs: usize) -> Vec<usize> {
    let all = probe::allowed_cpus().unwrap_or_default();
    // The last ones: what the system does for itself tends to happen on the first.
    if jobs < all.len() { all[all.len() - jobs..].to_vec() } else { Vec::new() }
}

/// Counts the lines of a growing file, each byte once.
#[derive(Default)]
struct Growth {
    read: u64,
    lines: u64,
}

impl Growth {
    fn lines(&mut self, path: &Path) -> u64 {
        let grown = || -> std::io::Result<Vec<u8>> {
            let mut file = std::fs::File::open(path)?;
            file.seek(std::io::SeekFrom::Start(self.read))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        if let Ok(bytes) = grown() {
            self.read += bytes.len() as u64;
            self.lines += bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
        }
        self.lines
    }
}
