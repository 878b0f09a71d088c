//! `source add`: pins what an origin has now and writes the entry into the matrix file.

use std::path::Path;

use anyhow::Context as _;
use fs_err as fs;

use crate::cli::SourceAddArgs;
use crate::cmd::load::Loaded;
use crate::env::Env;
use crate::exit::{Code, WithCode as _, coded};
use crate::hash::Digest;
use crate::matrix::append::{quoted, with_source};
use crate::matrix::model::Engine;
use crate::matrix::read::{ORIGINS, origin_of};
use crate::source::pin::{self, Pinned, What};

/// Adds a source.
///
/// # Errors
/// With [`Code::Input`] when the arguments contradict each other or the tree, or the name is taken;
/// when nothing can be fetched.
pub fn add(env: &Env, args: &SourceAddArgs) -> anyhow::Result<Code> {
    let matrix = Loaded::read(env)?.matrix;
    let name = &args.name;
    if matrix.sources.iter().any(|source| source.name == *name) {
        let text = format!("source `{name}` is there already in {}", env.shown(&env.matrix));
        return Err(coded(Code::Input, text));
    }
    let engine = args.engine.as_deref().map(engine).transpose()?;
    let (pinned, place) = match &args.git {
        Some(url) => {
            let rev = args.rev.as_deref().unwrap_or("HEAD");
            (pin::revision(env, url, rev)?, vec![format!("git     = {}", quoted(url))])
        }
        None => archive(env, args)?,
    };
    let (engine, version) = pin::settle(&pinned, engine, args.release.as_deref())?;
    let entry = entry(name, engine, &version, &pinned, &place);
    let old = fs::read_to_string(&env.matrix)?;
    let new = with_source(&old, &entry);
    write_checked(env, &new, name)?;
    let what = match &pinned.what {
        What::Archive { sha256, size } => format!(
            "sha256 {sha256}, {size} bytes; compare it with what the publisher says, since it is \
             what the origin had now"
        ),
        What::Git { rev } => format!("revision {rev}"),
    };
    let shown = env.shown(&env.matrix);
    env.reporter.line(format!("{shown}: source `{name}`, {} {version}, {what}", engine.name()));
    Ok(Code::Done)
}

fn engine(word: &str) -> anyhow::Result<Engine> {
    let known = Engine::ALL.iter().find(|engine| engine.name() == word).copied();
    known.ok_or_else(|| {
        let names = Engine::ALL.map(Engine::name).join(", ");
        coded(Code::Input, format!("no engine `{word}`; known: {names}"))
    })
}

fn archive(env: &Env, args: &SourceAddArgs) -> anyhow::Result<(Pinned, Vec<String>)> {
    let mut origins = Vec::new();
    for word in &args.origins {
        let origin = origin_of(word).with_context(|| format!("`{word}` is no origin; {ORIGINS}"));
        origins.push(origin.code(Code::Input)?);
    }
    if origins.is_empty() {
        let text = format!("no origin named; {ORIGINS}; or give `--git URL` and `--rev REV`");
        return Err(coded(Code::Input, text));
    }
    let expected = args.sha256.as_deref().map(str::parse::<Digest>).transpose();
    let expected = expected.context("`--sha256` needs 64 hex digits").code(Code::Input)?;
    let pinned = pin::archive(env, &origins, expected)?;
    let list: Vec<String> = args.origins.iter().map(|word| quoted(word)).collect();
    Ok((pinned, vec![format!("origins = [{}]", list.join(", "))]))
}

/// The entry as it is written.
fn entry(name: &str, engine: Engine, version: &str, pinned: &Pinned, place: &[String]) -> String {
    let identity = match &pinned.what {
        What::Archive { sha256, .. } => format!("sha256  = \"{sha256}\""),
        What::Git { rev } => format!("rev     = \"{rev}\""),
    };
    let mut lines = vec![
        format!("[source.{name}]"),
        format!("engine  = \"{}\"", engine.name()),
        format!("version = {}", quoted(version)),
    ];
    match pinned.what {
        What::Archive { .. } => lines.extend([identity].into_iter().chain(place.iter().cloned())),
        What::Git { .. } => lines.extend(place.iter().cloned().chain([identity])),
    }
    lines.join("\n") + "\n"
}

/// Writes the file anew only if it is right with the entry; a reader sees the old or the new one.
fn write_checked(env: &Env, text: &str, name: &str) -> anyhow::Result<()> {
    let folder = env.matrix.parent().unwrap_or(Path::new("."));
    let draft = tempfile::Builder::new().prefix(".matrix-").suffix(".toml").tempfile_in(folder)?;
    fs::write(draft.path(), text)?;
    let there = Env { matrix: draft.path().to_owned(), ..env.clone() };
    let found = Loaded::read(&there)
        .with_context(|| format!("with the new entry the file would be wrong: `{name}`"))?;
    if !found.matrix.sources.iter().any(|source| source.name == name) {
        return Err(coded(Code::Input, format!("`{name}` cannot be the name of a source")));
    }
    fs::set_permissions(draft.path(), fs::metadata(&env.matrix)?.permissions())?;
    draft.persist(&env.matrix).context("cannot write the matrix file")?;
    Ok(())
}
