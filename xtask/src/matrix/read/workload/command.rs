//! `kind = "command"`: programs that measure by themselves.

use catalog::Better;
use regex_lite::Regex;

use super::seconds;
use crate::diag::Diagnostic;
use crate::matrix::decode::{Entry, Mistakes, Table, Text, check_name};
use crate::matrix::model::{CommandTest, CommandWorkload, MetricRule};
use crate::matrix::placeholder::{self, PLACEHOLDERS};

/// Reads the keys of this kind.
pub fn read(entry: &Entry<'_>, table: &mut Table<'_>, mistakes: &mut Mistakes) -> CommandWorkload {
    let load = table.get("load").map_or(Vec::new(), |entry| {
        for word in entry.texts(&mut Mistakes::new()) {
            if let Some(name) = placeholder::of_runs(word.text) {
                let message =
                    format!("`{{{name}}}` differs from run to run, and all share the data");
                mistakes.push(Diagnostic::at(&word.span, message));
            }
        }
        words(&entry, mistakes)
    });
    let length = seconds(table, "seconds", 60.0, mistakes);
    if length <= 0.0 {
        mistakes.push(Diagnostic::at(&entry.key_span, "`seconds` is more than 0"));
    }
    let limit_seconds = seconds(table, "limit-seconds", 10.0 * length + 600.0, mistakes);
    let mut tests = Vec::new();
    if let Some(found) = table.need("tests", mistakes)
        && let Some(list) = found.table("`tests`".to_owned(), mistakes)
    {
        if list.entries().is_empty() {
            found.wrong(found.node, "at least one test, as in { name = [\"program\"] }", mistakes);
        }
        for test in list.entries() {
            check_name("a test", test.key, &test.key_span, mistakes);
            let words = words(test, mistakes);
            if words.is_empty() {
                test.wrong(test.node, "a program and its arguments", mistakes);
            }
            tests.push(CommandTest { name: test.key.to_owned(), words });
        }
    }
    let metrics = table.get("metrics").and_then(|entry| {
        let list = entry.table("`metrics`".to_owned(), mistakes)?;
        Some(list.entries().iter().filter_map(|entry| metric(entry, mistakes)).collect())
    });
    CommandWorkload {
        load,
        seconds: length,
        limit_seconds,
        tests,
        metrics: metrics.unwrap_or_default(),
    }
}

/// Words, each with known placeholders only.
fn words(entry: &Entry<'_>, mistakes: &mut Mistakes) -> Vec<String> {
    let found = entry.texts(mistakes);
    for word in &found {
        if word.text.contains('\0') {
            let message = "a word of a command has no NUL character".to_owned();
            mistakes.push(Diagnostic::at(&word.span, message));
        }
        if let Some(name) = placeholder::unknown(word.text) {
            let message = format!("`{{{name}}}` stands for nothing here");
            let help = "a brace is written twice to stand for itself: `{{`";
            mistakes.push(
                Diagnostic::at(&word.span, message)
                    .help(help)
                    .nearest(name, PLACEHOLDERS.map(|it| it.0)),
            );
        }
    }
    found.into_iter().map(|word| word.text.to_owned()).collect()
}

fn metric(entry: &Entry<'_>, mistakes: &mut Mistakes) -> Option<MetricRule> {
    check_name("a metric", entry.key, &entry.key_span, mistakes);
    let mut table = entry.table(format!("metric `{}`", entry.key), mistakes)?;
    let pattern = table.get("pattern").and_then(|entry| entry.text(mistakes));
    if let Some(word) = &pattern {
        check_pattern(word, mistakes);
    }
    let unit = table.get("unit").and_then(|entry| entry.text(mistakes));
    if pattern.is_some() && unit.is_none() {
        let message = format!("metric `{}` needs the key `unit`", entry.key);
        let help = "for instance \"1/s\", \"ms\", \"s\", \"MiB\"";
        mistakes.push(Diagnostic::at(&entry.key_span, message).help(help));
    }
    let better = table.get("better").and_then(|entry| entry.text(mistakes));
    let better = better.and_then(|word| {
        let found = match word.text {
            "higher" => Some(Better::Higher),
            "lower" => Some(Better::Lower),
            _ => None,
        };
        if found.is_none() {
            let message = format!("`{}` is no direction", word.text);
            let item = Diagnostic::at(&word.span, message);
            mistakes.push(item.nearest(word.text, ["higher", "lower"]));
        }
        found
    });
    table.finish(mistakes);
    Some(MetricRule {
        name: entry.key.to_owned(),
        pattern: pattern.map(|word| word.text.to_owned()),
        unit: unit.map(|word| word.text.to_owned()),
        better,
    })
}

/// A regular expression with a group around the value.
fn check_pattern(word: &Text<'_>, mistakes: &mut Mistakes) {
    let message = match Regex::new(word.text) {
        Ok(pattern) if pattern.captures_len() > 1 => return,
        Ok(_) => "the pattern has no group `( )` around the value".to_owned(),
        Err(error) => format!("this is no regular expression: {error}"),
    };
    mistakes.push(Diagnostic::at(&word.span, message));
}
