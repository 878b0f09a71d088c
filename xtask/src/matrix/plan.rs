//! The plan, for people and for programs: rules with what they did, builds with the flags as they
//! will be given, targets. Pure: the caller says in which state each build is.

use std::io::{self, Write};

use serde::Serialize;

use crate::build::spec::Spec;
use crate::hash::Digest;
use crate::matrix::expand::{Expansion, LeftOut, RuleOutcome, counted};
use crate::matrix::model::{Options, RuleKind};
use crate::proc::shell_word;

/// The version of the JSON document.
pub const SCHEMA: u32 = 1;

/// The state of a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "why")]
pub enum State {
    /// It is there.
    Present,
    /// It is to be made.
    Missing,
    /// A build of this name is there, of other inputs: what changed, old -> new.
    Stale(Vec<String>),
}

/// What only the caller knows of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outlook {
    /// How many builds are to be made.
    pub to_build: Option<usize>,
    /// An estimate of the whole time.
    pub hours: Option<f64>,
}

/// What the plan asks of its caller, who knows the disk and the command line.
pub trait Caller {
    /// What only the caller knows of the whole.
    fn outlook(&self) -> Outlook;
    /// Whether a build is there.
    fn state(&self, spec: &Spec) -> State;
    /// The command that configures the build, word by word as it will be given.
    fn command(&self, spec: &Spec) -> Option<Vec<String>>;
    /// Whether the user wants to see a build.
    fn shows_build(&self, name: &str) -> bool;
    /// Whether the user wants to see a target of a build.
    fn shows_target(&self, name: &str, build: &str) -> bool;
}

/// The counts: cells, builds, targets, runs, hours.
///
/// # Errors
/// When `out` cannot be written.
pub fn summary(out: &mut dyn Write, all: &Expansion<'_>, outlook: Outlook) -> io::Result<()> {
    let unavailable = (0..all.builds()).filter(|build| all.unavailable(*build).is_some()).count();
    writeln!(out, "experiment  {}", all.experiment.name)?;
    write!(out, "cells       {}", all.builds())?;
    if unavailable > 0 {
        write!(out, " ({unavailable} unavailable on this machine)")?;
    }
    writeln!(out)?;
    write!(out, "builds      {}", all.distinct_builds())?;
    if let Some(to_build) = outlook.to_build {
        write!(out, " ({to_build} to make)")?;
    }
    writeln!(out)?;
    writeln!(out, "targets     {}", all.targets())?;
    writeln!(out, "runs        {}", all.runs())?;
    match outlook.hours {
        Some(hours) => writeln!(out, "hours       {hours:.1} (estimate)"),
        None => Ok(()),
    }
}

/// The whole plan for people.
///
/// # Errors
/// When `out` cannot be written.
pub fn text(out: &mut dyn Write, all: &Expansion<'_>, caller: &dyn Caller) -> io::Result<()> {
    summary(out, all, caller.outlook())?;
    rules_text(out, all)?;
    for build in (0..all.builds()).filter(|build| caller.shows_build(&all.name(*build))) {
        writeln!(out)?;
        build_text(out, all, build, caller)?;
    }
    if all.targets() > 0 {
        writeln!(out, "\ntargets")?;
    }
    for target in 0..all.targets() {
        let base = if all.base == Some(target) { "  (base)" } else { "" };
        let target = all.target(target);
        // The base is measured whatever is selected.
        if base.is_empty() && !caller.shows_target(&target.name, &all.name(target.build)) {
            continue;
        }
        write!(out, "  {}{base}", target.name)?;
        match &target.unavailable {
            Some(reason) => writeln!(out, "  unavailable: {reason}")?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

fn rules_text(out: &mut dyn Write, all: &Expansion<'_>) -> io::Result<()> {
    if all.rules.is_empty() && all.left_out.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nrules, in written order")?;
    for LeftOut { setting, when, count, unit } in &all.left_out {
        let count = counted(*count, unit);
        writeln!(out, "  {count} left out: `{setting}` only when {when}")?;
    }
    for RuleOutcome { kind, text, why, count, unit } in &all.rules {
        let (word, did) = match kind {
            RuleKind::Include => ("include", "added"),
            RuleKind::Exclude => ("exclude", "removed"),
            RuleKind::Only => ("only", "removed"),
        };
        writeln!(out, "  {word} {text}: {} {did} ({why})", counted(*count, unit))?;
    }
    Ok(())
}

fn build_text(
    out: &mut dyn Write,
    all: &Expansion<'_>,
    build: usize,
    caller: &dyn Caller,
) -> io::Result<()> {
    let name = all.name(build);
    let spec = match all.spec(build) {
        Ok(spec) => spec,
        Err(reason) => return writeln!(out, "{name}  unavailable: {reason}"),
    };
    let state = if all.is_installed(build) {
        "installed".to_owned()
    } else {
        match caller.state(&spec) {
            State::Present => "present".to_owned(),
            State::Missing => "missing".to_owned(),
            State::Stale(why) => format!("stale: {}", why.join("; ")),
        }
    };
    writeln!(out, "{name}  {}  {state}", spec.id.short())?;
    if let Some(toolchain) = &spec.toolchain {
        let target = &toolchain.target;
        let sealed = if toolchain.sealed.is_some() { ", sealed" } else { "" };
        let (name, version) = (&toolchain.name, &toolchain.version);
        writeln!(out, "  toolchain  {name} {version} ({target}{sealed})")?;
    }
    let Options { cflags, cxxflags, ldflags, configure, cmake, env } = &spec.options;
    let pairs = |pairs: &[(String, String)], dash: &str| {
        pairs.iter().map(|(key, value)| format!("{dash}{key}={value}")).collect::<Vec<_>>()
    };
    let lists = [
        ("cflags", cflags),
        ("cxxflags", cxxflags),
        ("ldflags", ldflags),
        ("configure", configure),
        ("cmake", &pairs(cmake, "-D")),
        ("env", &pairs(env, "")),
    ];
    for (what, words) in lists.iter().filter(|(_, words)| !words.is_empty()) {
        let quoted: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
        writeln!(out, "  {what:<10} {}", quoted.join(" "))?;
    }
    if let Some(words) = caller.command(&spec) {
        let quoted: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
        writeln!(out, "  command    {}", quoted.join(" "))?;
    }
    Ok(())
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct BuildRow<'a> {
    name: &'a str,
    id: Option<Digest>,
    source: Option<&'a str>,
    toolchain: Option<String>,
    settings: Vec<(String, String)>,
    options: Option<&'a Options>,
    command: Option<Vec<String>>,
    #[serde(flatten)]
    state: Option<State>,
    unavailable: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct TargetRow<'a> {
    name: &'a str,
    id: Option<Digest>,
    build: &'a str,
    config: &'a str,
    run: &'a [(String, String)],
    server: &'a crate::matrix::model::ServerOptions,
    base: bool,
    unavailable: Option<&'a str>,
}

/// The whole plan as one JSON document, written row by row: a million cells are never held as text.
///
/// # Errors
/// When `out` cannot be written.
pub fn json(out: &mut dyn Write, all: &Expansion<'_>, caller: &dyn Caller) -> io::Result<()> {
    let outlook = caller.outlook();
    write!(out, "{{\"schema\":{SCHEMA},\"experiment\":")?;
    serde_json::to_writer(&mut *out, &all.experiment.name)?;
    let counts = serde_json::json!({
        "cells": all.builds(),
        "builds": all.distinct_builds(),
        "targets": all.targets(),
        "runs": all.runs(),
        "to-build": outlook.to_build,
        "hours": outlook.hours,
    });
    write!(out, ",\"counts\":{counts},\"left-out\":")?;
    serde_json::to_writer(&mut *out, &all.left_out)?;
    write!(out, ",\"rules\":")?;
    serde_json::to_writer(&mut *out, &all.rules)?;
    write!(out, ",\"builds\":[")?;
    let mut first = true;
    for build in (0..all.builds()).filter(|build| caller.shows_build(&all.name(*build))) {
        out.write_all(if std::mem::take(&mut first) { b"\n" } else { b",\n" })?;
        build_json(out, all, build, caller)?;
    }
    write!(out, "],\"targets\":[")?;
    first = true;
    for index in 0..all.targets() {
        let target = all.target(index);
        let (build, base) = (all.name(target.build), all.base == Some(index));
        if !base && !caller.shows_target(&target.name, &build) {
            continue;
        }
        out.write_all(if std::mem::take(&mut first) { b"\n" } else { b",\n" })?;
        let row = TargetRow {
            name: &target.name,
            id: target.id,
            build: &build,
            config: &target.config,
            run: &target.run,
            server: &target.server,
            base,
            unavailable: target.unavailable.as_deref(),
        };
        serde_json::to_writer(&mut *out, &row)?;
    }
    writeln!(out, "]}}")
}

fn build_json(
    out: &mut dyn Write,
    all: &Expansion<'_>,
    build: usize,
    caller: &dyn Caller,
) -> io::Result<()> {
    let name = all.name(build);
    let spec = all.spec(build).ok();
    let is_made = !all.is_installed(build);
    let row = BuildRow {
        name: &name,
        id: all.id(build),
        source: spec.as_ref().map(|spec| spec.source.name.as_str()),
        toolchain: all.toolchain(build).map(|(name, _)| name.to_owned()),
        settings: all.settings(build),
        options: spec.as_ref().map(|spec| &spec.options),
        command: spec.as_ref().and_then(|spec| caller.command(spec)),
        state: spec.as_ref().filter(|_| is_made).map(|spec| caller.state(spec)),
        unavailable: all.unavailable(build),
    };
    serde_json::to_writer(&mut *out, &row)?;
    Ok(())
}

#[cfg(test)]
mod tests;
