//! Text to [`Matrix`]: every section by its reader, every mistake collected.

mod axis;
mod config;
mod experiment;
mod source;
#[cfg(test)]
mod tests;
mod workload;

use toml::de::DeTable;

use crate::diag::{Diagnostic, Diagnostics, File};
use crate::matrix::decode::{Entry, Mistakes, Table, check_name, integer_of, lookup};
use crate::matrix::model::{Axis, Config, Matrix, Variant};

pub use config::overlay;
pub use source::{ORIGINS, origin_of};
pub use workload::Known;

/// The version of the language that this tool reads.
pub const SCHEMA: i64 = 1;

/// More entries of one kind than anyone writes; an index of one takes 15 bits.
const ENTRIES_LIMIT: usize = 10_000;

/// Reads and checks a matrix file.
///
/// # Errors
/// All mistakes. After a mistake of TOML's syntax nothing else is checked, because what follows it
/// may mean something else than it seems.
pub fn parse(file: &File, known: &Known) -> Result<Matrix, Diagnostics> {
    let (root, syntax) = DeTable::parse_recoverable(&file.text);
    if !syntax.is_empty() {
        let items = syntax.iter().map(|error| {
            let span = error.span().unwrap_or(0..0);
            Diagnostic::at(&span, format!("this is not TOML: {}", error.message()))
        });
        return Err(Diagnostics::new(file, items.collect()));
    }
    let mut mistakes = Mistakes::new();
    let matrix = read(file, root.get_ref(), known, &mut mistakes);
    if mistakes.is_empty() { Ok(matrix) } else { Err(Diagnostics::new(file, mistakes)) }
}

fn read<'a>(file: &File, root: &'a DeTable<'a>, known: &Known, mistakes: &mut Mistakes) -> Matrix {
    let mut table = Table::new("the matrix file".to_owned(), 0..0, root);
    if let Some(entry) = table.need("schema", mistakes)
        && integer_of(entry.node) != Some(SCHEMA)
    {
        let message = format!("this tool reads `schema = {SCHEMA}`");
        mistakes.push(Diagnostic::at(&entry.node.span(), message));
    }
    let default = table.get("default-experiment").and_then(|entry| entry.text(mistakes));
    let mut section = |key, mistakes: &mut Mistakes| section(&mut table, key, mistakes);
    let sources = section("source", mistakes);
    let axes = section("axis", mistakes);
    let run_axes = section("run-axis", mistakes);
    let variants = section("variant", mistakes);
    let configs = section("config", mistakes);
    let workloads = section("workload", mistakes);
    let experiments = section("experiment", mistakes);
    table.finish(mistakes);

    let sources = source::read(sources, mistakes);
    let mut matrix = Matrix {
        file: file.clone(),
        default_experiment: default.as_ref().map(|text| text.text.to_owned()),
        axes: axis::read(&axes, mistakes),
        run_axes: axis::read_run(&run_axes, mistakes),
        variants: Vec::new(),
        configs: config::read(configs, mistakes),
        workloads: workload::read(workloads, &sources, known, mistakes),
        experiments: Vec::new(),
        sources,
    };
    axis::check_conditions(&matrix, mistakes);
    matrix.variants = read_variants(&variants, &matrix.axes, mistakes);
    matrix.experiments = experiment::read(experiments, &matrix, mistakes);
    if let Some(name) = default {
        let names = matrix.experiments.iter().map(|experiment| experiment.name.as_str());
        lookup("experiment", &name, names, mistakes);
    }
    matrix
}

/// The named tables of `[key.NAME]`, their names checked.
fn section<'a>(
    table: &mut Table<'a>,
    key: &'static str,
    mistakes: &mut Mistakes,
) -> Vec<(Entry<'a>, Table<'a>)> {
    let Some(entry) = table.get(key) else { return Vec::new() };
    let Some(all) = entry.table(format!("`{key}`"), mistakes) else { return Vec::new() };
    if all.entries().len() > ENTRIES_LIMIT {
        let message = format!("more than {ENTRIES_LIMIT} entries of `{key}`");
        mistakes.push(Diagnostic::at(&all.span, message));
        return Vec::new();
    }
    let mut named = Vec::new();
    for entry in all.entries() {
        check_name(&format!("a {key}"), entry.key, &entry.key_span, mistakes);
        let what = format!("{key} `{}`", entry.key);
        if let Some(table) = entry.table(what, mistakes) {
            named.push((entry.clone(), table));
        }
    }
    named
}

fn read_variants(
    tables: &[(Entry<'_>, Table<'_>)],
    axes: &[Axis],
    mistakes: &mut Mistakes,
) -> Vec<Variant> {
    let mut variants = Vec::new();
    for (entry, table) in tables {
        let mut settings = Vec::new();
        for entry in table.entries() {
            let axis = axes.iter().position(|axis| axis.name == entry.key);
            let Some(axis) = axis else {
                let message = format!("axis `{}` is not defined", entry.key);
                let names = axes.iter().map(|axis| axis.name.as_str());
                mistakes.push(Diagnostic::at(&entry.key_span, message).nearest(entry.key, names));
                continue;
            };
            let Some(word) = entry.text(mistakes) else { continue };
            let what = format!("setting of axis `{}`:", entry.key);
            let names = axes[axis].settings.iter().map(|setting| setting.name.as_str());
            if let Some(setting) = lookup(&what, &word, names, mistakes) {
                settings.push((axis, setting));
            }
        }
        let (name, span) = (entry.key.to_owned(), entry.key_span.clone());
        variants.push(Variant { name, settings, span });
    }
    variants
}

/// A config by name.
fn config_names(configs: &[Config]) -> impl Iterator<Item = &str> + Clone {
    configs.iter().map(|config| config.name.as_str())
}
