//! `[source.NAME]`: pinned trees and installed servers.

use std::path::{Component, Path, PathBuf};

use crate::diag::Diagnostic;
use crate::hash::Digest;
use crate::matrix::decode::{Entry, Mistakes, Table, Text, lookup};
use crate::matrix::model::{Engine, Options, Origin, Source, SourceKind};
use crate::matrix::read::axis::options_of;
use crate::matrix::version::Version;

pub fn read(tables: Vec<(Entry<'_>, Table<'_>)>, mistakes: &mut Mistakes) -> Vec<Source> {
    tables.into_iter().map(|(entry, table)| source(&entry, table, mistakes)).collect()
}

/// The major versions of PostgreSQL that its recipe builds.
const POSTGRES: std::ops::RangeInclusive<u32> = 13..=18;

/// The word of an engine.
pub fn engine_of(word: &Text<'_>, mistakes: &mut Mistakes) -> Option<Engine> {
    let names = Engine::ALL.iter().map(|engine| engine.name());
    lookup("engine", word, names, mistakes).map(|index| Engine::ALL[index])
}

fn source(entry: &Entry<'_>, mut table: Table<'_>, mistakes: &mut Mistakes) -> Source {
    let engine = table
        .need("engine", mistakes)
        .and_then(|entry| entry.text(mistakes))
        .and_then(|word| engine_of(&word, mistakes));
    let version = table.get("version").and_then(|entry| entry.text(mistakes));
    let parsed = version.as_ref().and_then(|text| match text.text.parse::<Version>() {
        Ok(version) => Some(version),
        Err(message) => {
            mistakes.push(Diagnostic::at(&text.span, message));
            None
        }
    });
    let patches = patches(&mut table, mistakes);
    let prefix = table.entries().iter().any(|entry| entry.key == "prefix");
    if let (Some(text), true) = (&version, prefix) {
        let help = "leave `version` out: the server is asked for it";
        mistakes.push(Diagnostic::at(&text.span, "an installed server has a version").help(help));
    }
    let kind = kind(&mut table, version.is_some(), mistakes);
    let mut options = Options::default();
    if let Some(entry) = table.get("options")
        && let Some(mut inner) = entry.table("`options` of a source".to_owned(), mistakes)
    {
        options = options_of(&mut inner, mistakes);
        inner.finish(mistakes);
    }
    if let (Some(SourceKind::Prefix { .. }), false) =
        (&kind, options.is_empty() && patches.is_empty())
    {
        let message = "an installed server is never built: it takes no `options` and no `patches`";
        mistakes.push(Diagnostic::at(&table.span, message));
    }
    let is_built = !matches!(kind, Some(SourceKind::Prefix { .. }));
    if let (Some(Engine::Postgres), Some(found), Some(text)) = (engine, &parsed, &version)
        && is_built
        && !POSTGRES.contains(&found.major())
    {
        let message = format!("PostgreSQL {found} cannot be built");
        let (first, last) = (POSTGRES.start(), POSTGRES.end());
        let item = Diagnostic::at(&text.span, message);
        mistakes.push(item.help(format!("the recipe builds {first} to {last}")));
    }
    table.finish(mistakes);
    // A broken source stays known, so that what names it is not a second mistake.
    Source {
        name: entry.key.to_owned(),
        engine: engine.unwrap_or(Engine::Postgres),
        version: parsed,
        kind: kind.unwrap_or(SourceKind::Prefix { path: PathBuf::new() }),
        patches,
        options,
        span: entry.key_span.clone(),
    }
}

fn patches(table: &mut Table<'_>, mistakes: &mut Mistakes) -> Vec<String> {
    let texts = table.get("patches").map(|entry| entry.texts(mistakes)).unwrap_or_default();
    for patch in &texts {
        let plain = Path::new(patch.text).components().all(|c| matches!(c, Component::Normal(_)));
        if !plain || patch.text.is_empty() {
            let message = format!("`{}` is not a path below `patches/`", patch.text);
            mistakes.push(Diagnostic::at(&patch.span, message));
        }
    }
    texts.iter().map(|text| text.text.to_owned()).collect()
}

/// Exactly one of `sha256` with `origins`, `git` with `rev`, and `prefix`.
fn kind(table: &mut Table<'_>, has_version: bool, mistakes: &mut Mistakes) -> Option<SourceKind> {
    let sha256 = table.get("sha256");
    let origins = table.get("origins");
    let git = table.get("git");
    let rev = table.get("rev");
    let prefix = table.get("prefix");
    let ways =
        [sha256.is_some() || origins.is_some(), git.is_some() || rev.is_some(), prefix.is_some()];
    if ways.iter().filter(|way| **way).count() != 1 {
        let message = "a source comes from exactly one place";
        let help = "give `sha256` and `origins`, or `git` and `rev`, or `prefix`";
        mistakes.push(Diagnostic::at(&table.span, message).help(help));
        return None;
    }
    if !has_version && prefix.is_none() {
        table.need("version", mistakes);
    }
    if let Some(prefix) = prefix {
        let path = prefix.text(mistakes)?;
        return Some(SourceKind::Prefix { path: PathBuf::from(path.text) });
    }
    if ways[1] {
        let url = table.need("git", mistakes).and_then(|entry| entry.text(mistakes));
        let rev = table.need("rev", mistakes).and_then(|entry| entry.text(mistakes))?;
        let digits = rev.text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !digits || ![40, 64].contains(&rev.text.len()) {
            let message = format!("`{}` is not a full git revision", rev.text);
            let help = "give all 40 (or 64) hex digits: a branch or a tag can move";
            mistakes.push(Diagnostic::at(&rev.span, message).help(help));
        }
        return Some(SourceKind::Git { url: url?.text.to_owned(), rev: rev.text.to_lowercase() });
    }
    let sha256 = table.need("sha256", mistakes).and_then(|entry| entry.text(mistakes));
    let digest = sha256.and_then(|text| match text.text.parse::<Digest>() {
        Ok(digest) => Some(digest),
        Err(error) => {
            mistakes.push(Diagnostic::at(&text.span, error.to_string()));
            None
        }
    });
    let origins = table.need("origins", mistakes)?;
    let texts = origins.texts(mistakes);
    if texts.is_empty() {
        origins.wrong(origins.node, "at least one origin", mistakes);
    }
    let origins = texts.iter().filter_map(|text| origin(text, mistakes)).collect();
    Some(SourceKind::Archive { sha256: digest?, origins })
}

/// Reads an origin; `None` for what is none.
pub fn origin_of(word: &str) -> Option<Origin> {
    if word.strip_prefix("https://").is_some_and(|rest| !rest.is_empty()) {
        return Some(Origin::Https(word.to_owned()));
    }
    if let Some(path) = word.strip_prefix("file:").filter(|path| !path.is_empty()) {
        return Some(Origin::File(PathBuf::from(path)));
    }
    let (package, version) = word.strip_prefix("debian:")?.split_once('=')?;
    let (package, version) = (package.to_owned(), version.to_owned());
    let whole = !package.is_empty() && !version.is_empty();
    whole.then_some(Origin::Debian { package, version })
}

/// What origins look like, for messages.
pub const ORIGINS: &str = "origins are `https://…`, `debian:PACKAGE=VERSION` and `file:PATH`";

fn origin(text: &Text<'_>, mistakes: &mut Mistakes) -> Option<Origin> {
    let origin = origin_of(text.text);
    if origin.is_none() {
        let message = format!("`{}` is not an origin", text.text);
        mistakes.push(Diagnostic::at(&text.span, message).help(ORIGINS));
    }
    origin
}
