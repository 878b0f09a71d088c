//! `kind = "sql-bench"`: the Perl scripts of MySQL's and MariaDB's trees.

use catalog::SQL_BENCH_TESTS;

use super::{integer, seconds};
use crate::diag::Diagnostic;
use crate::matrix::decode::{Entry, Mistakes, Table, lookup};
use crate::matrix::model::{Source, SourceKind, SqlBench};
use crate::matrix::placeholder::{self, PLACEHOLDERS};

/// Reads the keys of this kind.
pub fn read(
    entry: &Entry<'_>,
    table: &mut Table<'_>,
    sources: &[Source],
    mistakes: &mut Mistakes,
) -> SqlBench {
    let word = table.need("source", mistakes).and_then(|entry| entry.text(mistakes));
    let source = word.as_ref().and_then(|word| {
        let names = sources.iter().map(|source| source.name.as_str());
        lookup("source", word, names, mistakes)
    });
    let pin = match source.map(|index| &sources[index].kind) {
        Some(SourceKind::Archive { sha256, .. }) => sha256.to_string(),
        Some(SourceKind::Git { rev, .. }) => rev.clone(),
        Some(SourceKind::Prefix { .. }) => {
            let span = word.map_or(entry.key_span.clone(), |word| word.span);
            let message = "an installed server has no source tree with sql-bench";
            mistakes.push(Diagnostic::at(&span, message));
            String::new()
        }
        None => String::new(),
    };
    let mut tests = Vec::new();
    if let Some(found) = table.get("tests") {
        for word in found.one_or_more(mistakes) {
            if !SQL_BENCH_TESTS.contains(&word.text) {
                let message = format!("`{}` is no test of sql-bench", word.text);
                mistakes
                    .push(Diagnostic::at(&word.span, message).nearest(word.text, SQL_BENCH_TESTS));
            } else if tests.iter().any(|test| test == word.text) {
                let message = format!("test `{}` is given twice", word.text);
                mistakes.push(Diagnostic::at(&word.span, message));
            }
            tests.push(word.text.to_owned());
        }
    } else {
        tests.extend(SQL_BENCH_TESTS.map(str::to_owned));
    }
    let options = table.get("options").map_or(Vec::new(), |entry| entry.texts(mistakes));
    for word in &options {
        if let Some(name) = placeholder::unknown(word.text) {
            let message = format!("`{{{name}}}` stands for nothing here");
            let item = Diagnostic::at(&word.span, message);
            mistakes.push(item.nearest(name, PLACEHOLDERS.map(|it| it.0)));
        }
    }
    let loop_count = integer(table, "loop-count", 1, u64::from(u32::MAX), mistakes);
    let operations =
        table.get("operations").and_then(|entry| entry.boolean(mistakes)).unwrap_or(false);
    SqlBench {
        source: source.unwrap_or(0),
        pin,
        tests,
        loop_count: loop_count.map(|count| count as u32),
        options: options.into_iter().map(|word| word.text.to_owned()).collect(),
        operations,
        seconds: seconds(table, "seconds", 60.0, mistakes),
        limit_seconds: seconds(table, "limit-seconds", 86_400.0, mistakes),
    }
}
