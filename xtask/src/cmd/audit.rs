//! `audit`: which flags the binaries really got, against what was asked; with `--why`, where a flag
//! came from.

use std::io::Write as _;
use std::path::Path;

use crate::audit::judge::{Evidence, Report, Verdict};
use crate::audit::log::Log;
use crate::audit::why::{Known, Written, why};
use crate::audit::{self, allowed, describe, installed, show};
use crate::build::commands::{self, Command};
use crate::build::layout::Layout;
use crate::build::manifest::Manifest;
use crate::build::recipe;
use crate::build::spec::Spec;
use crate::build::store::Store as Builds;
use crate::cli::{AuditArgs, Common, Format};
use crate::cmd::load::Loaded;
use crate::env::Env;
use crate::exit::{Code, coded};
use crate::matrix::model::{Matrix, Options, SourceKind};
use crate::matrix::pattern::glob_matches;
use crate::proc::{PATH, Proc};

/// Audits the builds of an experiment that are there.
///
/// # Errors
/// When there is nothing to audit, or a binary cannot be read.
pub fn run(env: &Env, common: &Common, args: &AuditArgs) -> anyhow::Result<Code> {
    let loaded = Loaded::read(env)?;
    let experiment = loaded.experiment(args.experiment.as_deref())?;
    let expansion = loaded.expand(experiment, &common.set)?;
    let selection = loaded.select(common, &expansion)?;
    let builds = Builds::read(env);
    let mut specs = Vec::new();
    for build in 0..expansion.builds() {
        let name = expansion.name(build);
        let wanted = args.build.as_ref().is_none_or(|glob| glob_matches(glob, &name));
        if wanted
            && selection.build(&name)
            && let Ok(spec) = expansion.spec(build)
        {
            specs.push(spec);
        }
    }
    match &args.why {
        Some(flag) => tell_why(flag, &loaded.matrix, &builds, &specs, args.format),
        None => tell_all(env, &builds, &specs, args),
    }
}

fn nothing(expected: &str) -> anyhow::Error {
    coded(Code::Input, format!("nothing to audit; {expected}"))
}

fn tell_all(env: &Env, builds: &Builds, specs: &[Spec], args: &AuditArgs) -> anyhow::Result<Code> {
    let mut audited = Vec::new();
    for spec in specs {
        match audit(builds, spec, args.again)? {
            Some(report) => audited.push((&spec.name, report)),
            None => env.reporter.line(format!("{}: not built yet", spec.name)),
        }
    }
    if audited.is_empty() {
        return Err(nothing("`cargo xtask build` makes the builds of an experiment"));
    }
    let mut out = std::io::stdout().lock();
    match args.format {
        Format::Text => {
            for (name, report) in &audited {
                show::text(&mut out, name, report)?;
            }
        }
        Format::Json => {
            let list: Vec<_> = audited
                .iter()
                .map(|(name, report)| serde_json::json!({ "build": name, "audit": report }))
                .collect();
            writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
        }
    }
    let mismatch = audited.iter().any(|(_, report)| report.verdict == Verdict::Mismatch);
    Ok(if mismatch { Code::CellFailed } else { Code::Done })
}

/// The audit of one build; `None` when it is not there. It was made when the build was, with a
/// build tree that is gone since; what can be read `again` is less. Of an installed server nothing
/// was asked, so only what it tells of itself can be said.
fn audit(builds: &Builds, spec: &Spec, again: bool) -> anyhow::Result<Option<Report>> {
    if let SourceKind::Prefix { path } = &spec.source.kind {
        let engine = spec.source.engine;
        let (binaries, claims) =
            (installed::binaries(engine, path)?, installed::claims(engine, path));
        return Ok(Some(describe::describe(&binaries, &claims)));
    }
    let Some(folder) = builds.folder(spec.id) else { return Ok(None) };
    let stored = Manifest::read(&folder.join("manifest.json"))?.audit;
    let configured = match stored {
        Some(report) if !again => return Ok(Some(report)),
        // What configuring left was in the build tree: it cannot be read again, and stays found.
        Some(report) => report.findings,
        None => Vec::new(),
    };
    let configured = configured.into_iter().filter(|found| found.evidence == Evidence::Configured);
    let Some(toolchain) = &spec.toolchain else { return Ok(None) };
    let calls = kept(folder)?;
    let report = audit::again(spec, toolchain, &folder.join("tree"), calls.as_deref())?;
    Ok(Some(report.with(configured.collect())))
}

/// The compile log, where it was kept.
fn kept(folder: &Path) -> anyhow::Result<Option<Vec<Command>>> {
    let file = folder.join("commands.jsonl");
    file.is_file().then(|| commands::kept(&file)).transpose()
}

fn tell_why(
    flag: &str,
    matrix: &Matrix,
    builds: &Builds,
    specs: &[Spec],
    format: Format,
) -> anyhow::Result<Code> {
    let distribution = distribution();
    let mut answers = Vec::new();
    for spec in specs.iter().filter(|spec| spec.toolchain.is_some()) {
        answers.push((&spec.name, answer(flag, matrix, builds, spec, &distribution)?));
    }
    if answers.is_empty() {
        return Err(nothing("of an installed server nobody knows where a flag came from"));
    }
    let mut out = std::io::stdout().lock();
    match format {
        Format::Text => {
            for (name, lines) in &answers {
                writeln!(out, "{name}: {flag}")?;
                lines.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
            }
        }
        Format::Json => {
            let list: Vec<_> = answers
                .iter()
                .map(|(name, lines)| serde_json::json!({ "build": name, "flag": flag, "why": lines }))
                .collect();
            writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
        }
    }
    Ok(Code::Done)
}

fn answer(
    flag: &str,
    matrix: &Matrix,
    builds: &Builds,
    spec: &Spec,
    distribution: &[String],
) -> anyhow::Result<Vec<String>> {
    let mut known = Known {
        spec,
        written: &written(matrix, spec),
        configure: &[],
        configuration: &[],
        log: None,
        binaries: &[],
        allowed: &[],
        distribution,
        script: None,
    };
    let Some(toolchain) = &spec.toolchain else { return Ok(why(flag, &known)) };
    let allowed = allowed::allowed(spec.source.engine, toolchain.family);
    known.allowed = &allowed;
    let script = audit::script(toolchain);
    known.script = script.as_deref();
    // The canonical paths do not depend on the real ones.
    let layout = Layout::canonical(Path::new("/"), Path::new("/"));
    let steps = recipe::steps(spec, &layout)?;
    known.configure = steps.first().map_or(&[], |step| &step.words);
    let Some(folder) = builds.folder(spec.id) else {
        let mut lines = why(flag, &known);
        lines.push("it is not built yet: what the project adds is not known".to_owned());
        return Ok(lines);
    };
    let manifest = Manifest::read(&folder.join("manifest.json"))?;
    known.configuration = &manifest.configuration;
    let log = kept(folder)?.map(|calls| Log::new(&calls));
    known.log = log.as_ref();
    let binaries = audit::read_tree(&folder.join("tree"))?;
    known.binaries = &binaries;
    Ok(why(flag, &known))
}

/// What the source and the settings of a build say in the matrix file, in the order in which they
/// are given.
fn written(matrix: &Matrix, spec: &Spec) -> Vec<Written> {
    let line = |span: &std::ops::Range<usize>| {
        let before = matrix.file.text.get(..span.start).unwrap_or_default();
        format!("{}:{}", matrix.file.path, before.matches('\n').count() + 1)
    };
    let source = &spec.source;
    let mut list = vec![Written {
        place: format!("source {} ({})", source.name, line(&source.span)),
        options: source.options.clone(),
    }];
    let family = spec.toolchain.as_ref().map(|toolchain| toolchain.family);
    for (axis, name) in &spec.settings {
        let axis = matrix.axes.iter().find(|known| known.name == *axis);
        let Some((axis, setting)) = axis.and_then(|axis| {
            Some((axis, axis.settings.iter().find(|setting| setting.name == *name)?))
        }) else {
            continue;
        };
        let mut options: Options = setting.common.clone();
        for special in &setting.special {
            let engine = special.engine.is_none_or(|engine| engine == source.engine);
            if engine && special.family.is_none_or(|wanted| Some(wanted) == family) {
                options.extend(&special.options);
            }
        }
        let place = format!("{} = {name} ({})", axis.name, line(&setting.span));
        list.push(Written { place, options });
    }
    list
}

/// The flags that Debian's and Ubuntu's packages are built with, where the system tells.
fn distribution() -> Vec<String> {
    let Ok(tool) = which::which_in("dpkg-buildflags", Some(PATH), "/") else { return Vec::new() };
    let ask = |what| Proc::new(&tool).args(["--get", what]).read().unwrap_or_default();
    let text = ["CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS"].map(ask).join(" ");
    text.split_whitespace().map(str::to_owned).collect()
}
