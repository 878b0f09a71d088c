//! `reproduce`: makes a colleague's build again and compares every byte.

use std::io::Write as _;
use std::time::Duration;

use fs_err as fs;

use crate::bench::lock::{HostLock, Kind};
use crate::build::run;
use crate::cli::{Format, ReproduceArgs};
use crate::env::Env;
use crate::exact::compare::Verdict;
use crate::exact::functions;
use crate::exit::Code;
use crate::reproduce::make::{self, Ready, Report};
use crate::reproduce::rounds::{self, Asked};
use crate::reproduce::{find, find::Found};

/// How long it waits for a benchmark on the same host.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Runs the task.
///
/// # Errors
/// As [`crate::cmd::run`].
pub fn run(env: &Env, args: &ReproduceArgs) -> anyhow::Result<Code> {
    let found = find::find(env, &args.manifest, args.from.as_deref())?;
    let mut report = Report::new(&found);
    make::tell(env, "the manifest was changed by hand since it was written", &report.notes);
    let result = reproduce(env, args, &found, &mut report);
    if args.format == Format::Json && (result.is_ok() || !report.differences.is_empty()) {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    }
    result
}

fn reproduce(
    env: &Env,
    args: &ReproduceArgs,
    found: &Found,
    report: &mut Report,
) -> anyhow::Result<Code> {
    let name = args.toolchain.as_deref();
    let toolchain = make::toolchain(env, &found.manifest, name, args.anyway, report)?;
    let _host = HostLock::take(&env.work, Kind::Shared, PATIENCE, &env.reporter)?;
    let _work = run::lock(env)?;
    let ready = make::ready(env, found, toolchain, report)?;
    let verdict = match args.rounds {
        None => Some(make::make(&ready, found, report)?),
        Some(count) => several(env, args, found, &ready, usize::from(count), report)?,
    };
    if args.format == Format::Text {
        print(env, report, &ready)?;
    }
    Ok(match verdict {
        Some(Verdict::Identical) => Code::Done,
        Some(Verdict::SameCode) if !args.strict => Code::Done,
        _ => Code::CellFailed,
    })
}

/// Builds in rounds; the worst verdict, none when one failed.
fn several(
    env: &Env,
    args: &ReproduceArgs,
    found: &Found,
    ready: &Ready,
    count: usize,
    report: &mut Report,
) -> anyhow::Result<Option<Verdict>> {
    let manifest = ready.place.join("manifest.json");
    fs::write(&manifest, &found.text)?;
    match &found.functions {
        Ok(packed) => fs::write(functions::beside(&manifest), packed)?,
        Err(reason) => report.notes.push(format!("functions cannot be compared: {reason}")),
    }
    let folder = ready.place.join("rounds");
    let asked = Asked {
        folder: &folder,
        manifest: &manifest,
        toolchain: args.toolchain.as_deref(),
        anyway: args.anyway,
    };
    report.rounds = rounds::run(env, &asked, count)?;
    let verdicts: Option<Vec<Verdict>> = report.rounds.iter().map(|round| round.verdict).collect();
    report.verdict = verdicts.and_then(|all| all.into_iter().max());
    Ok(report.verdict)
}

fn print(env: &Env, report: &Report, ready: &Ready) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if !report.rounds.is_empty() {
        write!(out, "{}", rounds::text(&report.rounds))?;
    }
    if let Some(comparison) = &report.comparison {
        write!(out, "{}: {}", report.build, comparison.text())?;
        if comparison.verdict != Verdict::Identical {
            writeln!(out, "  everything that differs: {}", env.shown(&make::details(ready)))?;
        }
    }
    out.flush()?;
    Ok(())
}
