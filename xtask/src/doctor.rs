//! The doctor: whether this machine has what an experiment needs, and what would add noise to its
//! numbers; each finding with the command that mends it.
//!
//! [`probe`] looks at the machine, [`evaluate`] judges what it saw and is pure, [`packages`] knows
//! which package brings what.

mod noise;
pub mod packages;
pub mod probe;
pub mod render;

use serde::Serialize;

use crate::env::Env;
use crate::matrix::model::{
    Engine, LoadDriver, Origin, Source, SourceKind, Suite, Workload, WorkloadKind,
};
use crate::source;
use crate::toolchain::system;
use packages::Manager;
use probe::Probe;

/// Free disk below which nothing can be built, in GiB: one tree, one build, one data directory.
const DISK_NEEDED_GIB: f64 = 2.0;
/// Free disk below which several builds may not fit, in GiB.
const DISK_WANTED_GIB: f64 = 10.0;

/// What an experiment needs of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Settings of the axis `toolchain`: `gcc`, `clang-14`.
    pub toolchains: Vec<String>,
    /// Those of them with which something is made with link-time optimisation.
    pub lto: Vec<String>,
    /// Whether something is built at all.
    pub builds: bool,
    /// Whether every toolchain is a sealed one, which brings the programs that a build runs.
    pub sealed: bool,
    /// Programs that the sources need besides compiler and make, with the reason.
    pub tools: Vec<(&'static str, String)>,
    /// Archives that are not there yet, with their origins.
    pub archives: Vec<(String, Vec<Origin>)>,
    /// Whether servers are started.
    pub servers: bool,
    /// The most memory that one job takes, in MiB.
    pub job_mib: u64,
}

impl Needs {
    /// What these sources need, made with these toolchains; `servers`: whether they are also run.
    pub fn of(env: &Env, sources: &[&Source], toolchains: &[String], servers: bool) -> Self {
        let mut needs = Self { servers, ..Self::default() };
        for source in sources {
            match &source.kind {
                SourceKind::Prefix { .. } => continue,
                SourceKind::Archive { sha256, origins } => {
                    let there = env.downloads().join(sha256.to_string()).is_file();
                    let archive = (source.name.clone(), origins.clone());
                    needs.archives.extend((!there).then_some(archive));
                }
                SourceKind::Git { .. } => {
                    needs.tool("git", format!("`{}` is a git source", source.name));
                }
            }
            needs.builds = true;
            needs.recipe(source);
            if source::patched(env, source) {
                needs.tool("patch", format!("`{}` has patches", source.name));
            }
        }
        if needs.builds {
            needs.toolchains = toolchains.to_vec();
        }
        needs
    }

    /// Adds the programs that a workload runs.
    pub fn workload(&mut self, workload: &Workload) {
        let name = &workload.name;
        match &workload.kind {
            WorkloadKind::Sysbench(Suite { driver: LoadDriver::Sysbench, .. }) => {
                self.tool("sysbench", format!("it is the load driver of workload `{name}`"));
            }
            WorkloadKind::SqlBench(_) => {
                self.tool("perl", format!("workload `{name}` is Perl, with DBI and DBD::mysql"));
            }
            _ => {}
        }
    }

    /// What the engine's recipe runs.
    fn recipe(&mut self, source: &Source) {
        let name = &source.name;
        let each = match source.engine {
            Engine::Postgres => 300,
            Engine::Mysql | Engine::Mariadb => 1500,
        };
        self.job_mib = self.job_mib.max(each);
        for tool in system::generators(source) {
            let why = match *tool {
                "cmake" => format!("`{name}` is configured by it"),
                _ => format!("`{name}` comes without generated parsers"),
            };
            self.tool(tool, why);
        }
        for header in system::headers(source) {
            self.tool(header, format!("`{name}` includes it"));
        }
    }

    fn tool(&mut self, tool: &'static str, why: String) {
        if !self.tools.iter().any(|(known, _)| *known == tool) {
            self.tools.push((tool, why));
        }
    }

    /// The programs to look for, compilers not among them.
    fn programs(&self) -> Vec<&'static str> {
        let mut all = vec!["cargo", "make", "curl", "apt-get"];
        all.extend(self.tools.iter().map(|(tool, _)| *tool));
        all
    }
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it should be.
    Ok,
    /// It works, but numbers may be noisier or something may not fit.
    Warning,
    /// The experiment cannot be done without it.
    Missing,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    /// What was checked.
    pub check: String,
    /// How it went.
    pub state: State,
    /// What was seen, and what it means.
    pub reason: String,
    /// The command that mends it, if one does.
    pub mend: Option<String>,
    /// The packages that `--install` would install.
    pub packages: Vec<String>,
}

impl Finding {
    fn new(check: &str, state: State, reason: impl Into<String>) -> Self {
        Self {
            check: check.to_owned(),
            state,
            reason: reason.into(),
            mend: None,
            packages: Vec::new(),
        }
    }

    fn ok(check: &str, reason: impl Into<String>) -> Self {
        Self::new(check, State::Ok, reason)
    }

    fn warning(check: &str, reason: impl Into<String>) -> Self {
        Self::new(check, State::Warning, reason)
    }

    fn missing(check: &str, reason: impl Into<String>) -> Self {
        Self::new(check, State::Missing, reason)
    }

    fn mend(mut self, command: impl Into<String>) -> Self {
        self.mend = Some(command.into());
        self
    }

    /// Mended by the packages that bring `thing`, if this system's package manager is known.
    fn install(self, probe: &Probe, tool: &str) -> Self {
        let packages = probe.manager.map(|manager| manager.packages(tool));
        self.install_all(probe, packages.unwrap_or_default())
    }

    /// Mended by these packages, if this system's package manager is known.
    fn install_all(mut self, probe: &Probe, packages: Vec<String>) -> Self {
        if let Some(manager) = probe.manager.filter(|_| !packages.is_empty()) {
            self.mend = Some(as_root(probe, &manager.line(&packages)));
            self.packages = packages;
        }
        self
    }

    /// Mended by the packages of a compiler, or by those for its link-time optimisation.
    fn install_compiler(self, probe: &Probe, name: &str, lto: bool) -> Self {
        let packages = probe.compiler_packages.get(name);
        let packages = packages.map(|both| both[usize::from(lto)].clone());
        self.install_all(probe, packages.unwrap_or_default())
    }
}

/// The command as this user must type it.
fn as_root(probe: &Probe, command: &str) -> String {
    if probe.root { command.to_owned() } else { format!("sudo {command}") }
}

/// Judges what was seen. Pure.
pub fn evaluate(needs: &Needs, probe: &Probe) -> Vec<Finding> {
    let mut findings = vec![match probe.path("cargo") {
        Some(path) => Finding::ok("cargo", path),
        // What distributions package is too old more often than not.
        None => Finding::missing(
            "cargo",
            "not found; the load driver is built with it (install Rust with `rustup`)",
        ),
    }];
    for name in &needs.toolchains {
        findings.push(compiler(name, probe));
    }
    findings.extend(needs.lto.iter().map(|name| link_time(name, probe)));
    if needs.builds && !needs.sealed {
        findings.push(program("make", "every recipe runs it", probe));
    }
    // Sources are got and patched outside of a build.
    let outside = |tool: &str| !needs.sealed || ["git", "patch"].contains(&tool);
    for (tool, why) in needs.tools.iter().filter(|(tool, _)| outside(tool)) {
        findings.push(program(tool, why, probe));
    }
    findings.extend(needs.archives.iter().map(|(name, origins)| archive(name, origins, probe)));
    if needs.builds {
        findings.push(namespaces(probe));
    }
    if needs.servers {
        findings.push(server_user(probe));
    }
    findings.push(disk(probe));
    findings.push(memory(needs, probe));
    findings.extend(noise::evaluate(&probe.kernel, probe));
    findings
}

fn program(tool: &str, why: &str, probe: &Probe) -> Finding {
    match probe.path(tool) {
        Some(path) => Finding::ok(tool, path),
        None => Finding::missing(tool, format!("not found; {why}")).install(probe, tool),
    }
}

fn compiler(name: &str, probe: &Probe) -> Finding {
    match probe.compilers.get(name) {
        Some(Ok(version)) => Finding::ok(name, version),
        // It is there but makes no program: the C library's headers are mostly what lacks.
        Some(Err(reason)) => Finding::missing(name, reason).install_compiler(probe, name, false),
        None => Finding::missing(name, "not found").install_compiler(probe, name, false),
    }
}

fn link_time(name: &str, probe: &Probe) -> Finding {
    let check = format!("LTO with {name}");
    match (probe.compilers.get(name), probe.no_lto.get(name)) {
        (Some(Ok(_)), None) => Finding::ok(&check, "a program was built and run with it"),
        (Some(Ok(_)), Some(refusal)) => {
            Finding::missing(&check, refusal).install_compiler(probe, name, true)
        }
        _ => Finding::missing(&check, "the compiler is not there or does not work")
            .install_compiler(probe, name, true),
    }
}

/// One origin that can be asked is enough.
fn archive(name: &str, origins: &[Origin], probe: &Probe) -> Finding {
    let check = format!("download of {name}");
    let tool = |origin: &Origin| match origin {
        Origin::Https(_) => Some("curl"),
        Origin::Debian { .. } => Some("apt-get"),
        Origin::File(_) => None,
    };
    let tools: Vec<_> = origins.iter().map(tool).collect();
    if probe.mirror || tools.contains(&None) {
        return Finding::ok(&check, "from a local file or folder");
    }
    if let Some(tool) = tools.iter().flatten().find(|tool| probe.path(tool).is_some()) {
        return Finding::ok(&check, format!("by {tool}"));
    }
    let mut names: Vec<&str> = tools.into_iter().flatten().collect();
    names.dedup();
    Finding::missing(
        &check,
        format!("none of its origins can be asked without {}", names.join(", ")),
    )
    .install(probe, "curl")
}

fn namespaces(probe: &Probe) -> Finding {
    let check = "namespaces";
    let Err(reason) = &probe.namespaces else {
        return Finding::ok(check, "builds see the same paths on every machine");
    };
    let reason =
        format!("builds map their paths instead, which does not cover clang's ThinLTO: {reason}");
    let finding = Finding::warning(check, reason);
    match probe.namespace_switch {
        Some((switch, value)) => {
            finding.mend(as_root(probe, &format!("sysctl -w {switch}={value}")))
        }
        // In a container: only who starts it can allow it.
        None => finding.mend("docker run --security-opt seccomp=unconfined --cap-add SYS_ADMIN …"),
    }
}

fn server_user(probe: &Probe) -> Finding {
    let check = "user for servers";
    match (&probe.server_user, probe.root) {
        (_, false) => Finding::ok(check, "your own"),
        (Some(user), true) => Finding::ok(check, format!("`{user}`")),
        (None, true) => {
            Finding::missing(check, "servers refuse root, and there is no user for them")
                .mend("useradd --system --user-group --shell /usr/sbin/nologin postgres")
        }
    }
}

fn disk(probe: &Probe) -> Finding {
    let check = "disk";
    let Some(bytes) = probe.disk_free else {
        return Finding::warning(check, "cannot tell how much is free");
    };
    let gib = bytes as f64 / f64::from(1 << 30);
    let text = format!("{gib:.1} GiB free in the work directory");
    if gib < DISK_NEEDED_GIB {
        Finding::missing(check, format!("{text}; {DISK_NEEDED_GIB} GiB are needed"))
            .mend("cargo xtask matrix --work DIR")
    } else if gib < DISK_WANTED_GIB {
        Finding::warning(check, format!("{text}; several builds may not fit"))
            .mend("cargo xtask matrix --work DIR")
    } else {
        Finding::ok(check, text)
    }
}

fn memory(needs: &Needs, probe: &Probe) -> Finding {
    let check = "memory";
    let Some(bytes) = probe.memory_available else {
        return Finding::warning(check, "cannot tell how much is available");
    };
    let mib = bytes >> 20;
    let text = format!("{:.1} GiB available", mib as f64 / 1024.0);
    let jobs = probe.jobs as u64;
    if mib >= needs.job_mib * jobs {
        return Finding::ok(check, text);
    }
    let fewer = (mib / needs.job_mib.max(1)).max(1);
    let each = needs.job_mib;
    Finding::warning(check, format!("{text}; {jobs} jobs may take {each} MiB each"))
        .mend(format!("cargo xtask matrix --jobs {fewer}"))
}

/// The packages that would mend what is missing.
pub fn missing_packages(findings: &[Finding]) -> Vec<String> {
    let mut all: Vec<String> = findings
        .iter()
        .filter(|finding| finding.state == State::Missing)
        .flat_map(|finding| finding.packages.iter().cloned())
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Installs packages, as root or through `sudo -n`.
///
/// # Errors
/// When no package manager is known, root cannot be had without a password, or a package does not
/// install.
pub fn install(env: &Env, probe: &Probe, packages: &[String]) -> anyhow::Result<()> {
    let manager = probe.manager.ok_or_else(|| {
        let known = Manager::ALL.map(Manager::program).join(", ");
        crate::exit::coded(
            crate::exit::Code::Environment,
            format!(
                "no known package manager (looked for {known}); install {}",
                packages.join(" ")
            ),
        )
    })?;
    manager.install(env, probe, packages)
}

#[cfg(test)]
mod tests;
