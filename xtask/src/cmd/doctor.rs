//! `doctor`: what this machine lacks for an experiment, and what mends it.

use std::io::Write as _;

use crate::cli::{DoctorArgs, Format};
use crate::doctor::probe::Probe;
use crate::doctor::{self, Needs, State, render};
use crate::env::Env;
use crate::exit::Code;
use crate::interrupt;

/// Prints the findings; with `--install` installs what is missing first. What cannot be installed
/// is told and stays among the findings.
///
/// # Errors
/// When the user stops it or the output cannot be written.
pub fn run(args: &DoctorArgs, env: &Env, needs: &Needs) -> anyhow::Result<Code> {
    let mut probe = Probe::take(env, needs);
    let mut findings = doctor::evaluate(needs, &probe);
    let packages = doctor::missing_packages(&findings);
    if args.install && !packages.is_empty() {
        if let Err(error) = doctor::install(env, &probe, &packages) {
            interrupt::check()?;
            env.reporter.warn(format!("{error:#}"));
        }
        probe = Probe::take(env, needs);
        findings = doctor::evaluate(needs, &probe);
    }
    let text = match args.format {
        Format::Text => render::text(&findings),
        Format::Json => render::json(&findings)?,
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    let missing = findings.iter().any(|finding| finding.state == State::Missing);
    if missing && !args.install && !packages.is_empty() {
        env.reporter.line("`cargo xtask doctor --install` installs the missing packages");
    }
    Ok(if missing { Code::Environment } else { Code::Done })
}
