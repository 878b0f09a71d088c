//! `[experiment.NAME]`: what is compared, and the rules on it.

use crate::diag::Diagnostic;
use crate::matrix::decode::{Entry, Mistakes, Table, Text, lookup, select};
use crate::matrix::model::{Condition, Engine, Experiment, Matrix, Rule, RuleKind, SameCode};
use crate::matrix::pattern::Pattern;
use crate::matrix::read::config_names;
use crate::matrix::read::workload::integer;

/// An axis and some of its settings.
type Chosen = (usize, Vec<usize>);

pub fn read(
    tables: Vec<(Entry<'_>, Table<'_>)>,
    matrix: &Matrix,
    mistakes: &mut Mistakes,
) -> Vec<Experiment> {
    tables
        .into_iter()
        .map(|(entry, mut table)| {
            let experiment = experiment(&entry, &mut table, matrix, mistakes);
            table.finish(mistakes);
            experiment
        })
        .collect()
}

fn experiment(
    entry: &Entry<'_>,
    table: &mut Table<'_>,
    matrix: &Matrix,
    mistakes: &mut Mistakes,
) -> Experiment {
    let given = table.need("sources", mistakes);
    let sources = words(given, mistakes);
    let names = matrix.sources.iter().map(|source| source.name.as_str());
    let sources = select("source", &sources, names, true, mistakes);
    let given = table.get("variants");
    let place = given.as_ref().map(|entry| entry.node.span());
    let variants = words(given, mistakes);
    if let (Some(place), true) = (place, variants.is_empty()) {
        let help = "leave `variants` out for the build with every axis at its first setting";
        mistakes.push(Diagnostic::at(&place, "`variants` names none").help(help));
    }
    let names = matrix.variants.iter().map(|variant| variant.name.as_str());
    let variants = select("variant", &variants, names, false, mistakes);
    let given = table.get("configs");
    let configs = words(given, mistakes);
    let configs = select("config", &configs, config_names(&matrix.configs), false, mistakes);

    let cross = table.get("cross").map(|entry| entry.tables("`cross`", mistakes));
    let cross: Vec<Vec<Chosen>> = cross
        .unwrap_or_default()
        .iter()
        .map(|product| product_of(product, matrix, mistakes))
        .collect();
    let zip = table.get("zip").map(|entry| entry.tables("`zip`", mistakes)).unwrap_or_default();
    let zip = zip.iter().map(|lists| zip_of(lists, matrix, mistakes)).collect();
    let run = table.get("run").and_then(|entry| entry.table("`run`".to_owned(), mistakes));
    let run = run.map(|table| run_of(&table, matrix, mistakes)).unwrap_or_default();
    let workload = table.get("workload").and_then(|entry| entry.text(mistakes)).and_then(|word| {
        let names = matrix.workloads.iter().map(|workload| workload.name.as_str());
        lookup("workload", &word, names, mistakes)
    });
    let base = table.get("base").and_then(|entry| entry.text(mistakes));
    let repeats = integer(table, "repeats", 1, 1_000, mistakes).unwrap_or(5);
    let seed = integer(table, "seed", 0, i64::MAX as u64, mistakes).unwrap_or(1);
    let experiment = Experiment {
        name: entry.key.to_owned(),
        sources,
        variants,
        cross,
        zip,
        rules: rules(table, matrix, mistakes),
        configs,
        run,
        workload,
        base_span: base.as_ref().map_or(entry.key_span.clone(), |text| text.span.clone()),
        base: base.map(|text| text.text.to_owned()),
        repeats: repeats as u32,
        seed,
        same_code: same_code(table, mistakes),
        span: entry.key_span.clone(),
    };
    check(&experiment, matrix, mistakes);
    experiment
}

/// `same-code`: what becomes of targets with the same code.
fn same_code(table: &mut Table<'_>, mistakes: &mut Mistakes) -> SameCode {
    let entry = table.get("same-code");
    let Some(word) = entry.and_then(|entry| entry.text(mistakes)) else { return SameCode::Share };
    match word.text {
        "share" => SameCode::Share,
        "aa" => SameCode::Aa,
        other => {
            let message = format!("`{other}` is neither `share` nor `aa`");
            let help = "targets with the same code are measured once, or each as an A/A pair";
            mistakes.push(Diagnostic::at(&word.span, message).help(help));
            SameCode::Share
        }
    }
}

/// What only shows when the parts are together.
fn check(experiment: &Experiment, matrix: &Matrix, mistakes: &mut Mistakes) {
    let name = &experiment.name;
    let mut wrong = |message: String, help: &str| {
        mistakes.push(Diagnostic::at(&experiment.span, message).help(help));
    };
    if experiment.workload.is_some() && experiment.configs.is_empty() {
        let message = format!("experiment `{name}` has a workload but no configs");
        wrong(message, "a workload runs against targets: builds, each with a config");
    }
    if experiment.base.is_some() && experiment.configs.is_empty() {
        let message = format!("experiment `{name}` has a base but no configs");
        wrong(message, "a base is a target: a build with a config, `build.config`");
    }
    for source in experiment.sources.iter().map(|source| &matrix.sources[*source]) {
        let fits =
            |config: &usize| matrix.configs.get(*config).is_some_and(|c| c.engine == source.engine);
        if !experiment.configs.is_empty() && !experiment.configs.iter().any(fits) {
            let engine = source.engine.name();
            let message =
                format!("no config of experiment `{name}` is for source `{}`", source.name);
            wrong(message, &format!("add a config of engine `{engine}` to `configs`"));
        }
    }
    let engines: Vec<Engine> =
        experiment.sources.iter().map(|source| matrix.sources[*source].engine).collect();
    for config in experiment.configs.iter().filter_map(|config| matrix.configs.get(*config)) {
        if !engines.is_empty() && !engines.contains(&config.engine) {
            let (config, engine) = (&config.name, config.engine.name());
            let message =
                format!("config `{config}` of experiment `{name}` is for no source of it");
            wrong(message, &format!("it is for engine `{engine}`: take it out of `configs`"));
        }
    }
}

fn words<'a>(entry: Option<Entry<'a>>, mistakes: &mut Mistakes) -> Vec<Text<'a>> {
    entry.map(|entry| entry.one_or_more(mistakes)).unwrap_or_default()
}

fn axis_of(entry: &Entry<'_>, matrix: &Matrix, mistakes: &mut Mistakes) -> Option<usize> {
    let word = Text { text: entry.key, span: entry.key_span.clone() };
    lookup("axis", &word, matrix.axes.iter().map(|axis| axis.name.as_str()), mistakes)
}

fn settings_of(
    axis: usize,
    words: &[Text<'_>],
    matrix: &Matrix,
    mistakes: &mut Mistakes,
) -> Vec<usize> {
    let axis = &matrix.axes[axis];
    let names = axis.settings.iter().map(|setting| setting.name.as_str());
    select(&format!("setting of axis `{}`:", axis.name), words, names, true, mistakes)
}

fn run_settings_of(
    axis: usize,
    words: &[Text<'_>],
    matrix: &Matrix,
    mistakes: &mut Mistakes,
) -> Vec<usize> {
    let axis = &matrix.run_axes[axis];
    let names = axis.settings.iter().map(|setting| setting.name.as_str());
    select(&format!("setting of run-axis `{}`:", axis.name), words, names, true, mistakes)
}

fn product_of(table: &Table<'_>, matrix: &Matrix, mistakes: &mut Mistakes) -> Vec<Chosen> {
    let mut product = Vec::new();
    for entry in table.entries() {
        let words = entry.one_or_more(mistakes);
        if let Some(axis) = axis_of(entry, matrix, mistakes) {
            product.push((axis, settings_of(axis, &words, matrix, mistakes)));
        }
    }
    product
}

/// Lists of equal length: the first of all, the second of all, …
fn zip_of(table: &Table<'_>, matrix: &Matrix, mistakes: &mut Mistakes) -> Vec<Chosen> {
    let mut lists: Vec<Chosen> = Vec::new();
    let mut length = None;
    for entry in table.entries() {
        let words = entry.texts(mistakes);
        let Some(axis) = axis_of(entry, matrix, mistakes) else { continue };
        let names = matrix.axes[axis].settings.iter().map(|setting| setting.name.as_str());
        let what = format!("setting of axis `{}`:", entry.key);
        let found: Vec<Option<usize>> =
            words.iter().map(|word| lookup(&what, word, names.clone(), mistakes)).collect();
        let expected = *length.get_or_insert(words.len());
        if words.len() != expected || words.is_empty() {
            let message = format!("`{}` has {} settings in `zip`", entry.key, words.len());
            let help = format!("all lists of a zip are equally long; the first one has {expected}");
            mistakes.push(Diagnostic::at(&entry.key_span, message).help(help));
        }
        lists.push((axis, found.into_iter().flatten().collect()));
    }
    lists
}

fn run_of(table: &Table<'_>, matrix: &Matrix, mistakes: &mut Mistakes) -> Vec<Chosen> {
    let mut run = Vec::new();
    for entry in table.entries() {
        let words = entry.one_or_more(mistakes);
        let word = Text { text: entry.key, span: entry.key_span.clone() };
        let names = matrix.run_axes.iter().map(|axis| axis.name.as_str());
        if let Some(axis) = lookup("run-axis", &word, names, mistakes) {
            run.push((axis, run_settings_of(axis, &words, matrix, mistakes)));
        }
    }
    run
}

/// The rules of all three keys in the order in which they are written.
fn rules(table: &mut Table<'_>, matrix: &Matrix, mistakes: &mut Mistakes) -> Vec<Rule> {
    let mut rules = Vec::new();
    let kinds =
        [("include", RuleKind::Include), ("exclude", RuleKind::Exclude), ("only", RuleKind::Only)];
    for (key, kind) in kinds {
        let Some(entry) = table.get(key) else { continue };
        for table in entry.tables(&format!("a rule of `{key}`"), mistakes) {
            rules.push(rule(kind, key, table, matrix, mistakes));
        }
    }
    rules.sort_by_key(|rule| rule.span.start);
    rules
}

fn rule(
    kind: RuleKind,
    key: &str,
    mut table: Table<'_>,
    matrix: &Matrix,
    mistakes: &mut Mistakes,
) -> Rule {
    let why = table.need("why", mistakes).and_then(|entry| entry.text(mistakes));
    if let Some(why) = why.as_ref().filter(|why| why.text.trim().is_empty()) {
        mistakes.push(Diagnostic::at(&why.span, "`why` is empty: say why the rule is there"));
    }
    let mut conditions = Vec::new();
    let mut texts = Vec::new();
    for entry in table.entries().iter().filter(|entry| entry.key != "why") {
        let words = entry.one_or_more(mistakes);
        let joined = words.iter().map(|word| word.text).collect::<Vec<_>>().join(" | ");
        texts.push(format!("{} = {joined}", entry.key));
        if kind == RuleKind::Include && entry.key == "build" {
            let message = "`include` cannot name a build: name the settings that it is made of";
            mistakes.push(Diagnostic::at(&entry.key_span, message));
        }
        conditions.extend(condition(entry, &words, matrix, mistakes));
    }
    if texts.is_empty() {
        mistakes.push(Diagnostic::at(&table.span, format!("a rule of `{key}` needs a condition")));
    }
    Rule {
        kind,
        conditions,
        text: texts.join(", "),
        why: why.map(|why| why.text.to_owned()).unwrap_or_default(),
        span: table.span,
    }
}

fn condition(
    entry: &Entry<'_>,
    words: &[Text<'_>],
    matrix: &Matrix,
    mistakes: &mut Mistakes,
) -> Option<Condition> {
    Some(match entry.key {
        "source" => {
            let names = matrix.sources.iter().map(|source| source.name.as_str());
            Condition::Source(select("source", words, names, true, mistakes))
        }
        "engine" => {
            let names = Engine::ALL.iter().map(|engine| engine.name());
            let found = select("engine", words, names, false, mistakes);
            Condition::Engine(found.into_iter().map(|index| Engine::ALL[index]).collect())
        }
        "version" => {
            let mut patterns = Vec::new();
            for word in words {
                match Pattern::version(word.text) {
                    Ok(pattern) => patterns.push(pattern),
                    Err(message) => mistakes.push(Diagnostic::at(&word.span, message)),
                }
            }
            Condition::Version(patterns)
        }
        "variant" => {
            let names = matrix.variants.iter().map(|variant| variant.name.as_str());
            Condition::Variant(select("variant", words, names, false, mistakes))
        }
        "build" => Condition::Build(words.iter().map(|word| Pattern::name(word.text)).collect()),
        "config" => {
            let names = config_names(&matrix.configs);
            Condition::Config(select("config", words, names, false, mistakes))
        }
        key => {
            if let Some(axis) = matrix.axes.iter().position(|axis| axis.name == key) {
                Condition::Axis(axis, settings_of(axis, words, matrix, mistakes))
            } else if let Some(axis) = matrix.run_axes.iter().position(|axis| axis.name == key) {
                Condition::RunAxis(axis, run_settings_of(axis, words, matrix, mistakes))
            } else {
                let keys = ["source", "engine", "version", "variant", "build", "config", "why"];
                let axes = matrix.axes.iter().map(|axis| axis.name.as_str());
                let run_axes = matrix.run_axes.iter().map(|axis| axis.name.as_str());
                let message = format!("`{key}` is neither a key of a rule nor an axis");
                let item = Diagnostic::at(&entry.key_span, message);
                mistakes.push(item.nearest(key, axes.chain(run_axes).chain(keys)));
                return None;
            }
        }
    })
}
