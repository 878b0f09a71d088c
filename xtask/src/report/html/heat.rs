//! The heat map: microbenchmarks by targets, coloured where a difference is shown and only there,
//! so that noise does not look like a finding.

use super::markup::{Attributes, Markup};
use crate::compare::{CellResult, HostComparison, Row};
use crate::stats::Verdict;

/// Steps of colour, in percent; a difference beyond the last has the strongest.
const STEPS: [f64; 3] = [3.0, 8.0, 15.0];

/// Writes the table and what its colours mean.
pub fn write(m: &mut Markup, base: &str, host: &HostComparison) {
    let several = host.rows.iter().any(|row| row.threads != host.rows[0].threads);
    let label = "Relative results, microbenchmarks by targets";
    let scroll: Attributes<'_> =
        &[("class", &"scroll"), ("tabindex", &0), ("role", &"group"), ("aria-label", &label)];
    m.within("div", scroll, |m| {
        m.within("table", &[("class", &"heat")], |m| {
            let caption = format!(
                "Relative to `{base}`; above 1 is better. Blue: shown to be better; orange: shown to \
                 be worse; hatched: nothing may be claimed. Colours change at {} and {}%.",
                STEPS[..2].iter().map(|it| format!("{it}")).collect::<Vec<_>>().join(", "),
                STEPS[2]
            );
            m.sentence("caption", &[], &caption);
            m.within("thead", &[], |m| {
                m.within("tr", &[], |m| {
                    m.leaf("th", &[("scope", &"col")], "microbenchmark");
                    for target in &host.targets {
                        m.leaf("th", &[("scope", &"col")], target);
                    }
                });
            });
            m.within("tbody", &[], |m| {
                let mut group = "";
                for row in host.rows.iter().filter(|row| headline(host, row)) {
                    if row.group != group {
                        group = &row.group;
                        let all = host.targets.len() + 1;
                        m.within("tr", &[("class", &"part")], |m| {
                            m.leaf("th", &[("scope", &"colgroup"), ("colspan", &all)], group);
                        });
                    }
                    m.line();
                    m.within("tr", &[], |m| {
                        m.leaf("th", &[("scope", &"row")], name(row, several));
                        for cell in &row.cells {
                            entry(m, &cell.result);
                        }
                    });
                }
            });
        });
    });
}

/// Queries per second where the group has them: what explains them stands in the tables.
fn headline(host: &HostComparison, row: &Row) -> bool {
    let of_group = |other: &&Row| other.group == row.group && other.metric.is_qps();
    row.metric.is_qps() || !host.rows.iter().any(|other| of_group(&other))
}

fn name(row: &Row, several: bool) -> String {
    let clients = if several { format!(" x{}", row.threads) } else { String::new() };
    let metric = if row.metric.is_qps() { "" } else { row.metric.name.as_str() };
    format!("{}{clients} {metric}", row.microbenchmark).trim_end().to_owned()
}

/// A ratio with its verdict as a word for who hears it, and the interval for who asks.
fn entry(m: &mut Markup, result: &CellResult) {
    let (text, word) = match result {
        CellResult::Judged(judged) => (format!("{:.2}", judged.ratio), judged.verdict.word()),
        CellResult::Single { ratio } => (format!("{ratio:.2}"), "one pair only"),
        CellResult::Failed { .. } => ("failed".to_owned(), ""),
        CellResult::NoPair => ("no pair".to_owned(), ""),
        CellResult::SameCode => ("same code".to_owned(), ""),
        CellResult::NotMeasured => ("-".to_owned(), "not measured"),
    };
    let title = match result {
        CellResult::Judged(it) => format!("{:.3} [{:.3}, {:.3}] {word}", it.ratio, it.low, it.high),
        CellResult::Failed { reason } => reason.clone(),
        _ => word.to_owned(),
    };
    m.within("td", &[("class", &class(result)), ("title", &title)], |m| {
        m.text(text);
        if !word.is_empty() {
            m.leaf("span", &[("class", &"hidden")], format!(" {word}"));
        }
    });
}

/// The colour of a result.
pub fn class(result: &CellResult) -> String {
    match result {
        CellResult::Judged(judged) => match judged.verdict {
            Verdict::Faster | Verdict::Slower | Verdict::Small => {
                // The same distance up and down has the same strength.
                let size = 100.0 * (judged.ratio.ln().abs().exp() - 1.0);
                let step = STEPS.iter().filter(|step| size >= **step).count() + 1;
                format!("{}{step}", if judged.ratio >= 1.0 { "u" } else { "d" })
            }
            Verdict::Same => "same".to_owned(),
            Verdict::Undecided { .. } => "unsure".to_owned(),
        },
        CellResult::Single { .. } => "unsure".to_owned(),
        CellResult::Failed { .. } => "bad".to_owned(),
        _ => "faint".to_owned(),
    }
}
