//! `[axis.NAME]` and `[run-axis.NAME]`: settings, what they add, where they hold.

use crate::diag::Diagnostic;
use crate::matrix::decode::{Entry, Mistakes, Table, check_name};
use crate::matrix::expr::{Expr, KEYS};
use crate::matrix::model::{
    Axis, Engine, Family, Matrix, Options, RunAxis, RunSetting, Setting, Special,
};
use crate::matrix::pattern::Pattern;
use crate::matrix::read::config::server_options_of;

/// Words that mean something else in a rule or a condition.
const RESERVED: [&str; 9] =
    ["source", "engine", "version", "variant", "build", "config", "family", "arch", "why"];

/// More settings than anyone writes; an index of one takes 16 bits.
const SETTINGS_LIMIT: usize = 1000;

type Tables<'a> = [(Entry<'a>, Table<'a>)];

pub fn read(tables: &Tables<'_>, mistakes: &mut Mistakes) -> Vec<Axis> {
    let mut axes = Vec::new();
    for (entry, table) in tables {
        check_axis(entry, table, mistakes);
        let settings = table
            .entries()
            .iter()
            .enumerate()
            .filter_map(|(index, setting)| read_setting(entry.key, index == 0, setting, mistakes))
            .collect();
        let (name, span) = (entry.key.to_owned(), entry.key_span.clone());
        axes.push(Axis { name, settings, span });
    }
    axes
}

pub fn read_run(tables: &Tables<'_>, mistakes: &mut Mistakes) -> Vec<RunAxis> {
    let mut axes = Vec::new();
    for (axis, table) in tables {
        check_axis(axis, table, mistakes);
        let mut settings = Vec::new();
        for (index, entry) in table.entries().iter().enumerate() {
            check_name("a setting", entry.key, &entry.key_span, mistakes);
            let what = format!("setting `{}` of run-axis `{}`", entry.key, axis.key);
            let Some(mut table) = entry.table(what, mistakes) else { continue };
            settings.push(RunSetting {
                name: entry.key.to_owned(),
                tag: tag(&mut table, entry, index == 0, mistakes),
                when: condition(&mut table, "when", mistakes),
                requires: condition(&mut table, "requires", mistakes),
                server: server_options_of(&mut table, mistakes),
                span: entry.key_span.clone(),
            });
            table.finish(mistakes);
        }
        let (name, span) = (axis.key.to_owned(), axis.key_span.clone());
        axes.push(RunAxis { name, settings, span });
    }
    axes
}

fn check_axis(entry: &Entry<'_>, table: &Table<'_>, mistakes: &mut Mistakes) {
    if RESERVED.contains(&entry.key) {
        let message = format!("`{}` cannot be the name of an axis", entry.key);
        let help = "rules and conditions use this word for something else";
        mistakes.push(Diagnostic::at(&entry.key_span, message).help(help));
    }
    let count = table.entries().len();
    if count == 0 || count > SETTINGS_LIMIT {
        let message = format!("axis `{}` has {count} settings", entry.key);
        let help =
            format!("an axis has from 1 to {SETTINGS_LIMIT} settings; the first is the default");
        mistakes.push(Diagnostic::at(&entry.key_span, message).help(help));
    }
}

fn read_setting(
    axis: &str,
    first: bool,
    entry: &Entry<'_>,
    mistakes: &mut Mistakes,
) -> Option<Setting> {
    check_name("a setting", entry.key, &entry.key_span, mistakes);
    let mut table = entry.table(format!("setting `{}` of axis `{axis}`", entry.key), mistakes)?;
    let setting = Setting {
        name: entry.key.to_owned(),
        tag: tag(&mut table, entry, first, mistakes),
        when: condition(&mut table, "when", mistakes),
        requires: condition(&mut table, "requires", mistakes),
        common: options_of(&mut table, mistakes),
        special: special_of(&mut table, entry.key, mistakes),
        span: entry.key_span.clone(),
    };
    table.finish(mistakes);
    Some(setting)
}

/// The part of a name: as given; else nothing for the first setting and the name of any other.
fn tag(table: &mut Table<'_>, entry: &Entry<'_>, first: bool, mistakes: &mut Mistakes) -> String {
    let Some(given) = table.get("tag").and_then(|entry| entry.text(mistakes)) else {
        return if first { String::new() } else { entry.key.to_owned() };
    };
    if !given.text.is_empty() {
        check_name("a tag", given.text, &given.span, mistakes);
    }
    given.text.to_owned()
}

fn condition(table: &mut Table<'_>, key: &'static str, mistakes: &mut Mistakes) -> Option<Expr> {
    let text = table.get(key)?.text(mistakes)?;
    match Expr::parse(text.text) {
        Ok(expr) => Some(expr),
        Err(error) => {
            // Inside a plain string (one quote, no escapes) the place is exact.
            let plain = text.span.len() == text.text.len() + 2;
            let start = text.span.start + 1;
            let span = if plain {
                start + error.span.start..start + error.span.end
            } else {
                text.span.clone()
            };
            mistakes.push(Diagnostic::at(&span, format!("`{key}`: {}", error.message)));
            None
        }
    }
}

/// The entries for one engine, one family of compilers, or both.
fn special_of(table: &mut Table<'_>, name: &str, mistakes: &mut Mistakes) -> Vec<Special> {
    let mut found: Vec<(usize, Special)> = Vec::new();
    let mut add = |entry: &Entry<'_>, engine, family: Option<Family>, mistakes: &mut Mistakes| {
        let what = format!("`{}` of setting `{name}`", entry.key);
        let Some(mut inner) = entry.table(what, mistakes) else { return };
        let start = entry.key_span.start;
        let options = options_of(&mut inner, mistakes);
        found.push((start, Special { engine, family, options }));
        if family.is_none() {
            for family in [Family::Gcc, Family::Clang] {
                let Some(entry) = inner.get(family.name()) else { continue };
                let what = format!("`{}` of setting `{name}`", family.name());
                let Some(mut both) = entry.table(what, mistakes) else { continue };
                let options = options_of(&mut both, mistakes);
                both.finish(mistakes);
                found.push((start, Special { engine, family: Some(family), options }));
            }
        }
        inner.finish(mistakes);
    };
    for engine in Engine::ALL {
        if let Some(entry) = table.get(engine.name()) {
            add(&entry, Some(engine), None, mistakes);
        }
    }
    for family in [Family::Gcc, Family::Clang] {
        if let Some(entry) = table.get(family.name()) {
            add(&entry, None, Some(family), mistakes);
        }
    }
    found.retain(|(_, special)| !special.options.is_empty());
    found.sort_by_key(|(start, _)| *start);
    found.into_iter().map(|(_, special)| special).collect()
}

/// What a setting or a source adds to a build; `flags` go to both languages in written order.
pub fn options_of(table: &mut Table<'_>, mistakes: &mut Mistakes) -> Options {
    let mut options = Options::default();
    let mut lists = ["flags", "cflags", "cxxflags", "ldflags", "configure"]
        .map(|key| table.get(key))
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
    lists.sort_by_key(|entry| entry.key_span.start);
    for entry in lists {
        let words = words(&entry, mistakes);
        match entry.key {
            "flags" => {
                options.cflags.extend_from_slice(&words);
                options.cxxflags.extend(words);
            }
            "cflags" => options.cflags.extend(words),
            "cxxflags" => options.cxxflags.extend(words),
            "ldflags" => options.ldflags.extend(words),
            _ => options.configure.extend(words),
        }
    }
    options.cmake = pairs(table, "cmake", mistakes);
    options.env = pairs(table, "env", mistakes);
    options
}

/// Ways around the plan: compiler flags given where the plan and the audit would not look.
const BACK_DOORS: [&str; 13] = [
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "CMAKE_C_COMPILER",
    "CMAKE_CXX_COMPILER",
    "CMAKE_C_FLAGS",
    "CMAKE_CXX_FLAGS",
    "CMAKE_EXE_LINKER_FLAGS",
    "CMAKE_SHARED_LINKER_FLAGS",
    "CMAKE_MODULE_LINKER_FLAGS",
];

const FLAGS_HELP: &str = "compilers are settings of axis `toolchain`; flags belong into `flags`, \
                          `cflags`, `cxxflags`, `ldflags`";

fn words(entry: &Entry<'_>, mistakes: &mut Mistakes) -> Vec<String> {
    let mut words = Vec::new();
    for word in entry.texts(mistakes) {
        let text = word.text;
        let name = text.split_once('=').map_or(text, |(name, _)| name);
        if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            let message = format!("`{text}` is not one option");
            let help = "each option is a text of its own, without blanks: [\"-O2\", \"-g\"]";
            mistakes.push(Diagnostic::at(&word.span, message).help(help));
        } else if text.len() > 4096 {
            mistakes.push(Diagnostic::at(&word.span, "an option has at most 4096 bytes"));
        } else if entry.key == "configure" && BACK_DOORS.contains(&name) {
            let message = format!("`{name}` must not be given to configure");
            mistakes.push(Diagnostic::at(&word.span, message).help(FLAGS_HELP));
        } else {
            words.push(text.to_owned());
        }
    }
    words
}

fn pairs(
    table: &mut Table<'_>,
    key: &'static str,
    mistakes: &mut Mistakes,
) -> Vec<(String, String)> {
    let Some(entry) = table.get(key) else { return Vec::new() };
    let Some(inner) = entry.table(format!("`{key}`"), mistakes) else { return Vec::new() };
    let mut pairs = Vec::new();
    for entry in inner.entries() {
        let plain = entry.key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !plain || entry.key.is_empty() || entry.key.len() > 256 {
            let message = format!("`{}` is not the name of a variable", entry.key);
            mistakes.push(Diagnostic::at(&entry.key_span, message));
        }
        if BACK_DOORS.contains(&entry.key) {
            let message = format!("`{}` must not be set by `{key}`", entry.key);
            mistakes.push(Diagnostic::at(&entry.key_span, message).help(FLAGS_HELP));
        }
        if let Some(value) = entry.scalar(["ON", "OFF"], mistakes) {
            pairs.push((entry.key.to_owned(), value));
        }
    }
    pairs
}

/// Checks that the conditions of all settings speak of keys and values that exist.
pub fn check_conditions(matrix: &Matrix, mistakes: &mut Mistakes) {
    for axis in &matrix.axes {
        for setting in &axis.settings {
            for (key, expr) in [("when", &setting.when), ("requires", &setting.requires)] {
                check(matrix, key, expr.as_ref(), &setting.span, mistakes);
            }
        }
    }
    for axis in &matrix.run_axes {
        if let Some(same) = matrix.axes.iter().find(|other| other.name == axis.name) {
            let message = format!("`{}` is a build axis already", axis.name);
            mistakes.push(Diagnostic::at(&axis.span, message).also(&same.span, "the build axis"));
        }
        for setting in &axis.settings {
            for (key, expr) in [("when", &setting.when), ("requires", &setting.requires)] {
                check(matrix, key, expr.as_ref(), &setting.span, mistakes);
            }
        }
    }
}

fn check(
    matrix: &Matrix,
    what: &str,
    expr: Option<&Expr>,
    span: &std::ops::Range<usize>,
    mistakes: &mut Mistakes,
) {
    let Some(expr) = expr else { return };
    expr.visit(&mut |key, values| {
        let known: Vec<&str> = match key {
            "engine" => Engine::ALL.iter().map(|engine| engine.name()).collect(),
            "family" => vec!["gcc", "clang"],
            "source" => matrix.sources.iter().map(|source| source.name.as_str()).collect(),
            "version" | "arch" => return,
            _ => match matrix.axes.iter().find(|axis| axis.name == key) {
                Some(axis) => axis.settings.iter().map(|setting| setting.name.as_str()).collect(),
                None if key == "toolchain" => return,
                None => {
                    let axes = matrix.axes.iter().map(|axis| axis.name.as_str());
                    let message =
                        format!("`{what} = \"{expr}\"`: `{key}` is neither a key nor an axis");
                    let item = Diagnostic::at(span, message);
                    mistakes.push(item.nearest(key, KEYS.into_iter().chain(axes)));
                    return;
                }
            },
        };
        for value in values {
            let missing = match value {
                Pattern::Literal(word) => !known.contains(&word.as_str()),
                glob => !known.iter().any(|name| glob.matches(name)),
            };
            if missing {
                let message = format!("`{what} = \"{expr}\"`: no `{key}` is `{value}`");
                let word = value.to_string();
                mistakes.push(Diagnostic::at(span, message).nearest(&word, known.iter().copied()));
            }
        }
    });
}
