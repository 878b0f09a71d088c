//! The comparison as one page that needs nothing else: no script, no other file, no network.
//!
//! First what may be claimed, then the warnings, then charts, then every table. Well-formed as XML,
//! too, so that the tests can read it strictly.

use std::io::{self, Write};

use super::table::{Align, Part, Table, TableRow, Tone};
use super::view::{self, View};
use crate::compare::{CellResult, Comparison, HostComparison};
use crate::stats::Verdict;

pub mod heat;
pub mod interval;
pub mod markup;
pub mod svg;

use markup::Markup;

const STYLE: &str = include_str!("html/style.css");
/// Nothing is loaded and nothing is run; the style stands in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Writes the page; no views are all those that have something to show.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(comparison: &Comparison, views: &[View], out: &mut dyn Write) -> io::Result<()> {
    let title = format!("{} against {}", comparison.experiment, comparison.base);
    page(&title, |m| body(m, comparison, views), out)
}

/// Writes a page of parts alone.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_parts(title: &str, parts: &[Part], out: &mut dyn Write) -> io::Result<()> {
    let body = |m: &mut Markup| {
        m.leaf("h1", &[], title);
        parts.iter().for_each(|part| show(m, part));
    };
    page(title, body, out)
}

fn page(title: &str, body: impl FnOnce(&mut Markup), out: &mut dyn Write) -> io::Result<()> {
    let mut m = Markup::default();
    m.raw("<!DOCTYPE html>\n");
    m.within("html", &[("lang", &"en"), ("xmlns", &"http://www.w3.org/1999/xhtml")], |m| {
        m.within("head", &[], |m| {
            m.empty("meta", &[("charset", &"utf-8")]);
            let policy = "Content-Security-Policy";
            m.empty("meta", &[("http-equiv", &policy), ("content", &POLICY)]);
            let viewport = "width=device-width, initial-scale=1";
            m.empty("meta", &[("name", &"viewport"), ("content", &viewport)]);
            m.leaf("title", &[], title);
            m.within("style", &[], |m| m.raw(STYLE));
        });
        m.within("body", &[], body);
    });
    m.line();
    out.write_all(m.finish().as_bytes())
}

fn body(m: &mut Markup, comparison: &Comparison, views: &[View]) {
    m.leaf("a", &[("class", &"skip"), ("href", &"#main")], "To the results");
    m.within("main", &[("id", &"main")], |m| {
        m.sentence("h1", &[], &format!("Experiment `{}`", comparison.experiment));
        m.leaf("h2", &[], "What may be claimed");
        for host in &comparison.hosts {
            claims(m, comparison, host);
        }
        for (index, host) in comparison.hosts.iter().enumerate() {
            m.sentence("h2", &[], &format!("Host `{}`", host.host));
            m.leaf("h3", &[], "Every microbenchmark");
            heat::write(m, &comparison.base, host);
            m.leaf("h3", &[], "Groups, with intervals");
            interval::write(m, comparison, host, index);
        }
        m.leaf("h2", &[], "Method and all numbers");
        let all = [View::Full, View::Groups, View::Times, View::Effects, View::Metrics];
        for part in view::document(comparison, if views.is_empty() { &all } else { views }) {
            show(m, &part);
        }
    });
}

/// Per target what its groups show, in sentences: nothing that no verdict says.
fn claims(m: &mut Markup, comparison: &Comparison, host: &HostComparison) {
    m.sentence(
        "p",
        &[],
        &format!(
            "On `{}`, relative to `{}`, {} {}:",
            host.host,
            comparison.base,
            host.blocks,
            if host.blocks == 1 { "block" } else { "blocks" }
        ),
    );
    m.within("ul", &[], |m| {
        for (index, target) in host.targets.iter().enumerate() {
            m.sentence("li", &[], &format!("`{target}`: {}", claim(host, index)));
        }
    });
    for warning in &host.warnings {
        m.sentence("p", &[("class", &"warn")], &format!("Warning: {}", warning.text));
    }
}

fn claim(host: &HostComparison, index: usize) -> String {
    let several = host.groups.iter().any(|group| group.threads != host.groups[0].threads);
    let (mut shown, mut same, mut unsure, mut none) = (Vec::new(), 0, 0, 0);
    for group in &host.groups {
        let clients = if several { format!(" x{}", group.threads) } else { String::new() };
        let name = format!("`{}`{clients}", group.group);
        let result = &group.cells[index].geomean;
        let Some(judged) = result.judged() else {
            match result {
                CellResult::SameCode => same += 1,
                CellResult::Single { .. } => unsure += 1,
                _ => none += 1,
            }
            continue;
        };
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        let size = format!(
            "{:+.1}% [{:+.1}, {:+.1}]",
            percent(judged.ratio),
            percent(judged.low),
            percent(judged.high)
        );
        match judged.verdict {
            Verdict::Faster => shown.push(format!("{name} faster, {size}")),
            Verdict::Slower => shown.push(format!("{name} slower, {size}")),
            Verdict::Small => shown.push(format!("{name} a small difference, {size}")),
            Verdict::Same => same += 1,
            Verdict::Undecided { .. } => unsure += 1,
        }
    }
    let mut parts = shown;
    let mut count = |count: usize, what: &str| {
        if count > 0 {
            let noun = if count == 1 { "group" } else { "groups" };
            parts.push(format!("{count} {noun} {what}"));
        }
    };
    count(same, "without a difference that matters");
    count(unsure, "in which nothing may be claimed (undecided, or one pair only)");
    count(none, "without a result");
    if parts.is_empty() { "nothing was measured".to_owned() } else { parts.join("; ") + "." }
}

fn show(m: &mut Markup, part: &Part) {
    m.line();
    match part {
        Part::Text(text) => m.sentence("h3", &[], text),
        Part::List(items) => m.within("ul", &[], |m| {
            for item in items {
                m.sentence("li", &[], item.trim_start_matches("- "));
            }
        }),
        Part::Table(table) => write_table(m, table),
    }
}

fn write_table(m: &mut Markup, table: &Table) {
    let label = if table.title.is_empty() { "Table" } else { &table.title };
    let scroll: markup::Attributes<'_> =
        &[("class", &"scroll"), ("tabindex", &0), ("role", &"group"), ("aria-label", &label)];
    m.within("div", scroll, |m| {
        m.within("table", &[], |m| {
            if !table.title.is_empty() {
                m.sentence("caption", &[], &table.title);
            }
            let class = |align: Align| if align == Align::Right { "r" } else { "l" };
            m.within("thead", &[], |m| {
                m.within("tr", &[], |m| {
                    for column in &table.columns {
                        let class = class(column.align);
                        m.leaf("th", &[("scope", &"col"), ("class", &class)], &column.name);
                    }
                });
            });
            m.within("tbody", &[], |m| {
                for row in &table.rows {
                    m.line();
                    match row {
                        TableRow::Section(name) => m.within("tr", &[("class", &"part")], |m| {
                            let all = table.columns.len();
                            m.leaf("th", &[("scope", &"colgroup"), ("colspan", &all)], name);
                        }),
                        TableRow::Cells(cells) => m.within("tr", &[], |m| {
                            for (place, (cell, column)) in
                                cells.iter().zip(&table.columns).enumerate()
                            {
                                let class = format!("{} {}", class(column.align), tone(cell.tone));
                                let text = cell.text.trim_start();
                                match place {
                                    0 => m.leaf("th", &[("scope", &"row")], text),
                                    _ => m.leaf("td", &[("class", &class)], text),
                                }
                            }
                        }),
                    }
                }
            });
        });
    });
    for (mark, text) in &table.footnotes {
        m.sentence("p", &[("class", &"faint")], &format!("{mark} {text}"));
    }
}

fn tone(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "plain",
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Faint => "faint",
    }
}

#[cfg(test)]
mod tests;
