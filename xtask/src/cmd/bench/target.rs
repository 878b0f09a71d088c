//! What the targets of an experiment are on this machine: their ids, their builds, and what the
//! audit has against these.

use std::collections::BTreeMap;

use anyhow::Context as _;

use super::{Cause, LeftOut};
use crate::bench::plan::{Target, target_id};
use crate::build::code;
use crate::build::spec::Spec;
use crate::build::store::Store as Builds;
use crate::env::Env;
use crate::exit::{Code, coded};
use crate::hash::Digest;
use crate::matrix::expand::{self, Expansion};
use crate::matrix::formula::{self, Host};
use crate::matrix::model::{Engine, Options, ServerOptions, SourceKind};
use crate::matrix::pattern::glob_matches;
use crate::record::Mark;
use crate::server::{Install, Settings, preload};

/// What a target is on this host.
pub struct Identity {
    /// Its build.
    pub spec: Spec,
    /// What its server gets.
    pub server: Settings,
    /// [`target_id`].
    pub id: Digest,
}

/// What a target is on this host, or why that cannot be told.
///
/// # Errors
/// When a formula has no value here.
pub fn identify(
    expansion: &Expansion<'_>,
    found: &expand::Target,
    host: Host,
) -> anyhow::Result<Result<Identity, LeftOut>> {
    let left_out =
        |reason: String, cause| Ok(Err(LeftOut { target: found.name.clone(), reason, cause }));
    if let Some(reason) = &found.unavailable {
        return left_out(format!("unavailable: {reason}"), Cause::Unavailable);
    }
    let spec = match expansion.spec(found.build) {
        Ok(spec) => spec,
        Err(reason) => return left_out(reason, Cause::Unavailable),
    };
    let preload = match preload::find(found.server.preload.as_deref().unwrap_or_default()) {
        Ok(libraries) => libraries,
        Err(error) => return left_out(format!("{error:#}"), Cause::Broken),
    };
    let server = Settings {
        preload,
        ..settings(&found.server, spec.source.engine, host)
            .with_context(|| format!("cannot compute the config of `{}`", found.name))?
    };
    let id = target_id(&spec.id, &server, &found.server.init);
    Ok(Ok(Identity { spec, server, id }))
}

/// What is known of a build from its manifest.
#[derive(Clone, Default)]
struct Known {
    mark: Option<Mark>,
    code: Option<Digest>,
}

/// Finds targets; reads each build's manifest once.
pub(super) struct Finder<'a> {
    expansion: &'a Expansion<'a>,
    builds: Builds,
    host: Host,
    allowed: &'a [String],
    known: BTreeMap<Digest, Result<Known, String>>,
}

impl<'a> Finder<'a> {
    /// `allowed` are globs on builds and targets that run although the audit is against them.
    pub(super) fn new(env: &Env, expansion: &'a Expansion<'a>, allowed: &'a [String]) -> Self {
        let builds = Builds::read(env);
        Self { expansion, builds, host: host(), allowed, known: BTreeMap::new() }
    }

    /// One target, or why it is left out.
    ///
    /// # Errors
    /// When a formula has no value here.
    pub(super) fn target(
        &mut self,
        found: &expand::Target,
    ) -> anyhow::Result<Result<Target, LeftOut>> {
        let Identity { spec, server, id } = match identify(self.expansion, found, self.host)? {
            Ok(identity) => identity,
            Err(left) => return Ok(Err(left)),
        };
        let left_out =
            |reason: String, cause| Ok(Err(LeftOut { target: found.name.clone(), reason, cause }));
        let (prefix, known) = match &spec.source.kind {
            SourceKind::Prefix { path } => (path.clone(), Known::default()),
            _ => {
                let Some(tree) = self.builds.tree(spec.id) else {
                    let reason = "its build is not there; `cargo xtask build` makes it".to_owned();
                    return left_out(reason, Cause::NotBuilt);
                };
                match self.known(spec.id) {
                    Ok(known) => (tree, known),
                    Err(reason) => return left_out(reason, Cause::Broken),
                }
            }
        };
        let allows =
            |glob: &String| glob_matches(glob, &spec.name) || glob_matches(glob, &found.name);
        if let Some(mark) = &known.mark
            && !self.allowed.iter().any(allows)
        {
            return left_out(refusal(&spec.name, mark), Cause::Mismatch);
        }
        Ok(Ok(Target {
            name: found.name.clone(),
            id,
            build: spec.name.clone(),
            build_id: spec.id,
            code_id: known.code.map(|code| target_id(&code, &server, &found.server.init)),
            audit: known.mark,
            compiler: spec
                .toolchain
                .as_ref()
                .map(|it| format!("{} {}", it.family.name(), it.version)),
            settings: spec.settings.iter().chain(&found.run).cloned().collect(),
            config: found.config.clone(),
            install: Install { engine: spec.source.engine, prefix },
            server,
            init: found.server.init.clone(),
            source: spec.source_facts.digest,
            configure: configured(&spec.options),
        }))
    }

    fn known(&mut self, id: Digest) -> Result<Known, String> {
        let builds = &self.builds;
        let read = || {
            let manifest = builds
                .manifest(id)
                .map_err(|error| format!("{error:#}; `cargo xtask build` makes the build again"))?;
            let mark = manifest.audit.as_ref().and_then(Mark::of);
            Ok(Known { mark, code: code::digest(&manifest) })
        };
        self.known.entry(id).or_insert_with(read).clone()
    }
}

/// The options of a build that its data may depend on: those of `configure` and of CMake.
fn configured(options: &Options) -> Vec<String> {
    let cmake = options.cmake.iter().map(|(name, value)| format!("-D{name}={value}"));
    options.configure.iter().cloned().chain(cmake).collect()
}

/// Why a build that is not what was asked for is not measured, and what to do.
fn refusal(build: &str, mark: &Mark) -> String {
    let first = mark.findings.first().map_or("", String::as_str);
    let more = match mark.count.saturating_sub(1) {
        0 => String::new(),
        more => format!(" and {more} more findings"),
    };
    format!(
        "its binaries are not what was asked for: {first}{more}; `cargo xtask audit '{build}'` \
         tells all, `--allow-mismatch='{build}'` measures it all the same and marks its rows"
    )
}

/// What the server gets on this host.
fn settings(options: &ServerOptions, engine: Engine, host: Host) -> anyhow::Result<Settings> {
    let values = match engine {
        Engine::Postgres => &options.postgresql,
        Engine::Mysql | Engine::Mariadb => &options.mysqld,
    };
    let lines = values
        .iter()
        .map(|(key, value)| Ok((key.clone(), formula::render(value, engine, host)?)))
        .collect::<Result<Vec<_>, String>>()
        .map_err(|text| coded(Code::Input, text))?;
    Ok(Settings { lines, env: options.env.clone(), ..Settings::default() })
}

/// What formulas know of this host: its memory and the cores that this tool may use.
pub fn host() -> Host {
    let kib = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()
    });
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    Host { ram: kib.unwrap_or(1 << 20) * 1024, cpus }
}
