//! `[config.NAME]`: server configurations and their inheritance.

use crate::diag::Diagnostic;
use crate::matrix::decode::{Entry, Mistakes, Table, Text, lookup};
use crate::matrix::formula;
use crate::matrix::model::{Config, Engine, ServerOptions, ServerValue, Span};
use crate::matrix::read::source::engine_of;

/// A config as written: nothing inherited yet.
struct Written {
    config: Config,
    engine: Option<Engine>,
    parent: Option<(usize, Span)>,
    /// Whether `builds` and `init` are given, perhaps empty.
    builds: bool,
    init: bool,
}

pub fn read(tables: Vec<(Entry<'_>, Table<'_>)>, mistakes: &mut Mistakes) -> Vec<Config> {
    let names: Vec<&str> = tables.iter().map(|(entry, _)| entry.key).collect();
    let written: Vec<Written> = tables
        .into_iter()
        .map(|(entry, mut table)| {
            let written = one(&entry, &mut table, &names, mistakes);
            table.finish(mistakes);
            written
        })
        .collect();
    (0..written.len()).map(|index| resolve(&written, index, mistakes)).collect()
}

fn one(
    entry: &Entry<'_>,
    table: &mut Table<'_>,
    names: &[&str],
    mistakes: &mut Mistakes,
) -> Written {
    let engine = table.get("engine").and_then(|entry| entry.text(mistakes));
    let parent = table.get("inherits").and_then(|entry| entry.text(mistakes)).and_then(|word| {
        lookup("config", &word, names.iter().copied(), mistakes).map(|index| (index, word.span))
    });
    let builds = table.get("builds").map(|entry| entry.one_or_more(mistakes));
    let has_init = table.get("init").is_some();
    let engine = engine.and_then(|word| engine_of(&word, mistakes));
    if engine.is_none() && parent.is_none() && table.get("inherits").is_none() {
        table.need("engine", mistakes);
    }
    let builds_given = builds.is_some();
    let text = |text: Text<'_>| text.text.to_owned();
    Written {
        config: Config {
            name: entry.key.to_owned(),
            engine: engine.unwrap_or(Engine::Postgres),
            builds: builds.unwrap_or_default().into_iter().map(text).collect(),
            options: server_options_of(table, mistakes),
            span: entry.key_span.clone(),
        },
        engine,
        parent,
        builds: builds_given,
        init: has_init,
    }
}

/// The config with all that it inherits: from the farthest ancestor down, single keys override.
fn resolve(written: &[Written], index: usize, mistakes: &mut Mistakes) -> Config {
    let mut chain = vec![index];
    while let Some((parent, span)) = &written[chain[chain.len() - 1]].parent {
        if *parent == index {
            let names = chain.iter().chain([parent]).map(|i| written[*i].config.name.as_str());
            let path = names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" -> ");
            mistakes.push(Diagnostic::at(span, format!("configs inherit in a circle: {path}")));
            return written[index].config.clone();
        }
        if chain.contains(parent) {
            return written[index].config.clone(); // a circle further up, reported there
        }
        chain.push(*parent);
    }
    let mut engine: Option<Engine> = None;
    let mut result = written[index].config.clone();
    result.options = ServerOptions::default();
    result.builds.clear();
    for at in chain.into_iter().rev() {
        let one = &written[at];
        if let (Some(inherited), Some(own)) = (engine, one.engine)
            && inherited != own
            && at == index
        {
            let message =
                format!("a config of {} inherits from one of {}", own.name(), inherited.name());
            mistakes.push(Diagnostic::at(&one.config.span, message));
        }
        engine = one.engine.or(engine);
        overlay(&mut result.options, &one.config.options, one.init);
        if one.builds {
            result.builds.clone_from(&one.config.builds);
        }
    }
    result.engine = engine.unwrap_or(Engine::Postgres);
    check_engine(&result, &written[index].config, mistakes);
    result
}

fn check_engine(config: &Config, own: &Config, mistakes: &mut Mistakes) {
    let (other, wrong) = match config.engine {
        Engine::Postgres => ("mysqld", !own.options.mysqld.is_empty()),
        Engine::Mysql | Engine::Mariadb => ("postgresql", !own.options.postgresql.is_empty()),
    };
    if wrong {
        let message = format!(
            "config `{}` is for {}: `{other}` means nothing to it",
            config.name,
            config.engine.name()
        );
        mistakes.push(Diagnostic::at(&config.span, message));
    }
}

/// Lays the child's values over the parent's, key by key; a new key comes behind.
pub fn overlay(parent: &mut ServerOptions, child: &ServerOptions, init: bool) {
    fn lay<V: Clone>(parent: &mut Vec<(String, V)>, child: &[(String, V)]) {
        for (key, value) in child {
            match parent.iter_mut().find(|(known, _)| known == key) {
                Some((_, old)) => *old = value.clone(),
                None => parent.push((key.clone(), value.clone())),
            }
        }
    }
    lay(&mut parent.postgresql, &child.postgresql);
    lay(&mut parent.mysqld, &child.mysqld);
    lay(&mut parent.env, &child.env);
    if child.preload.is_some() {
        parent.preload.clone_from(&child.preload);
    }
    if init {
        parent.init.clone_from(&child.init);
    }
}

/// What a config or a run-only setting gives the server.
pub fn server_options_of(table: &mut Table<'_>, mistakes: &mut Mistakes) -> ServerOptions {
    let env = variables(table, "env", ["1", "0"], mistakes);
    let preload = table.get("preload").and_then(|entry| entry.text(mistakes));
    let init = table.get("init").map(|entry| entry.texts(mistakes)).unwrap_or_default();
    ServerOptions {
        postgresql: variables(table, "postgresql", ["on", "off"], mistakes),
        mysqld: variables(table, "mysqld", ["1", "0"], mistakes),
        env: env
            .into_iter()
            .map(|(key, value)| match value {
                ServerValue::Text(text) => (key, text),
                ServerValue::Formula(formula) => (key, format!("{{{formula}}}")),
            })
            .collect(),
        preload: preload.map(|text| text.text.to_owned()),
        init: init.into_iter().map(|text| text.text.to_owned()).collect(),
    }
}

/// Variables by which a server would leave its private folders or open up to others.
const RESERVED: [(&str, &str); 35] = [
    ("postgresql", "data_directory"),
    ("postgresql", "config_file"),
    ("postgresql", "hba_file"),
    ("postgresql", "ident_file"),
    ("postgresql", "external_pid_file"),
    ("postgresql", "include"),
    ("postgresql", "include_dir"),
    ("postgresql", "include_if_exists"),
    ("postgresql", "listen_addresses"),
    ("postgresql", "port"),
    ("postgresql", "unix_socket_directories"),
    ("postgresql", "unix_socket_group"),
    ("postgresql", "unix_socket_permissions"),
    ("postgresql", "archive_command"),
    ("postgresql", "logging_collector"),
    ("mysqld", "datadir"),
    ("mysqld", "basedir"),
    ("mysqld", "socket"),
    ("mysqld", "port"),
    ("mysqld", "bind_address"),
    ("mysqld", "pid_file"),
    ("mysqld", "user"),
    ("mysqld", "tmpdir"),
    ("mysqld", "init_file"),
    ("mysqld", "log_error"),
    ("mysqld", "innodb_data_home_dir"),
    ("mysqld", "skip_networking"),
    ("mysqld", "plugin_dir"),
    ("mysqld", "lc_messages_dir"),
    ("mysqld", "character_sets_dir"),
    ("mysqld", "secure_file_priv"),
    ("mysqld", "innodb_log_group_home_dir"),
    ("mysqld", "innodb_undo_directory"),
    ("mysqld", "mysqlx"),
    ("mysqld", "mysqlx_socket"),
];

fn variables(
    table: &mut Table<'_>,
    key: &'static str,
    truth: [&str; 2],
    mistakes: &mut Mistakes,
) -> Vec<(String, ServerValue)> {
    let Some(entry) = table.get(key) else { return Vec::new() };
    let Some(inner) = entry.table(format!("`{key}`"), mistakes) else { return Vec::new() };
    let mut found: Vec<(String, ServerValue)> = Vec::new();
    for entry in inner.entries() {
        // The servers take both spellings for one variable; an override must find it.
        let name = match key {
            "mysqld" => entry.key.replace('-', "_"),
            "postgresql" => entry.key.to_ascii_lowercase(),
            _ => entry.key.to_owned(),
        };
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b));
        if name.is_empty() || !plain {
            let message = format!("`{}` is not the name of a variable", entry.key);
            mistakes.push(Diagnostic::at(&entry.key_span, message));
        }
        if RESERVED.contains(&(key, name.as_str())) {
            let message = format!("`{name}` must not be set: servers of this tool are private");
            let help = "data, sockets and access are the tool's own; see docs/runs.md";
            mistakes.push(Diagnostic::at(&entry.key_span, message).help(help));
        }
        if found.iter().any(|(known, _)| *known == name) {
            let message = format!("`{name}` is given twice");
            mistakes.push(Diagnostic::at(&entry.key_span, message));
        }
        let Some(text) = entry.scalar(truth, mistakes) else { continue };
        let value = match formula::formula(&text).filter(|_| key != "env") {
            None => ServerValue::Text(text),
            Some(formula) => {
                if let Err((message, at)) = formula::check(formula) {
                    let span = entry.node.span();
                    let exact = span.start + 2 + at;
                    let plain = span.len() == text.len() + 2;
                    let span = if plain { exact..exact + 1 } else { span };
                    let item = Diagnostic::at(&span, format!("formula `{text}`: {message}"));
                    mistakes.push(item.help("as in \"{ram * 0.25}\" or \"{max(1, cpus / 2)}\""));
                }
                ServerValue::Formula(formula.to_owned())
            }
        };
        found.push((name, value));
    }
    found
}
