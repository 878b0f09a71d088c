//! The table of what each setting does.

use super::table::{Cell, Column, Table, TableRow, Tone};
use crate::compare::HostComparison;
use crate::compare::effects::{Effect, Interaction};

/// Axis, from, to, and what it stands beside.
type Name<'a> = (&'a str, &'a str, &'a str, &'a Option<(String, String)>);

/// Rows: settings, and below each the settings that it stands beside. Columns: groups. `None` when
/// no two targets differ in one axis alone.
pub fn table(host: &HostComparison) -> Option<Table> {
    if host.effects.is_empty() {
        return None;
    }
    let several = host.groups.iter().any(|group| group.threads != host.groups[0].threads);
    let mut columns = vec![Column::left("setting")];
    for group in &host.groups {
        let clients = if several { format!(" x{}", group.threads) } else { String::new() };
        columns.push(Column::left(format!("{}{clients}", group.group)));
    }
    let mut table = Table {
        title: "What a setting does, from pairs of targets that differ in nothing else: the \
                geometric mean over pairs, its interval over pairs, and their number. Above 0% is \
                faster."
            .to_owned(),
        columns,
        fixed: 1,
        ..Table::default()
    };
    let mut names: Vec<Name<'_>> = Vec::new();
    for effect in &host.effects {
        let name = (effect.axis.as_str(), effect.from.as_str(), effect.to.as_str(), &effect.beside);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name @ (axis, from, to, beside) in names {
        let heading = match beside {
            None => format!("{axis}: {from} to {to}"),
            Some((other, setting)) => format!("  beside {other}={setting}"),
        };
        let mut cells = vec![Cell::plain(heading)];
        for group in &host.groups {
            let found = host.effects.iter().find(|it| {
                (it.axis.as_str(), it.from.as_str(), it.to.as_str(), &it.beside) == name
                    && (&it.group, it.threads) == (&group.group, group.threads)
            });
            cells.push(found.map_or_else(|| Cell::plain("-"), cell));
        }
        table.rows.push(TableRow::Cells(cells));
    }
    Some(table)
}

/// One sentence per setting and group: its effect, and how much more or less it is beside other
/// settings of other axes.
pub fn sentences(host: &HostComparison) -> Vec<String> {
    let several = host.effects.iter().any(|effect| effect.threads != host.effects[0].threads);
    let mains = host.effects.iter().filter(|effect| effect.beside.is_none());
    mains
        .map(|main| {
            let clients = if several { format!(" x{}", main.threads) } else { String::new() };
            let mut text = format!(
                "{}{clients}: {} {} to {} {}",
                main.group,
                main.axis,
                main.from,
                main.to,
                with_interval(main.ratio, main.interval)
            );
            // Of one pair `n=1` says it.
            if main.pairs > 1 {
                text.push_str(&format!(" over {} pairs", main.pairs));
            }
            let of_main = |effect: &&Effect| {
                let name = |it: &Effect| {
                    (it.axis.clone(), it.from.clone(), it.to.clone(), it.group.clone(), it.threads)
                };
                name(effect) == name(main)
            };
            for effect in host.effects.iter().filter(of_main) {
                if let (Some((axis, setting)), Some(more)) = (&effect.beside, &effect.more) {
                    text.push_str(&format!("; with {axis}={setting} {}", interaction(more)));
                }
            }
            text
        })
        .collect()
}

/// `+0.8% more [+0.1, +1.5]`; whether more or less is only said where the interval shows it.
fn interaction(found: &Interaction) -> String {
    let shown = match found.interval {
        Some((low, _)) if low > 1.0 => " more",
        Some((_, high)) if high < 1.0 => " less",
        Some(_) => " (no difference is shown)",
        None => "",
    };
    let percent = format!("{:+.1}%", 100.0 * (found.ratio - 1.0));
    let all = with_interval(found.ratio, found.interval);
    format!("{percent}{shown}{}", all.strip_prefix(&percent).unwrap_or(&all))
}

fn with_interval(ratio: f64, interval: Option<(f64, f64)>) -> String {
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    match interval {
        Some((low, high)) => {
            let (low, high) = (percent(low), percent(high));
            format!("{:+.1}% [{low:+.1}, {high:+.1}]", percent(ratio))
        }
        None => format!("{:+.1}% n=1", percent(ratio)),
    }
}

/// `+6.9% [+6.1, +7.6] 8`
fn cell(effect: &Effect) -> Cell {
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let pairs = effect.pairs;
    let Some((low, high)) = effect.interval else {
        return Cell { text: format!("{:+.1}% n=1", percent(effect.ratio)), tone: Tone::Faint };
    };
    let tone = match (low > 1.0, high < 1.0) {
        (true, _) => Tone::Good,
        (_, true) => Tone::Bad,
        _ => Tone::Plain,
    };
    let (ratio, low, high) = (percent(effect.ratio), percent(low), percent(high));
    Cell { text: format!("{ratio:+.1}% [{low:+.1}, {high:+.1}] {pairs}"), tone }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Options, compare};
    use crate::record::testing::record;

    #[test]
    fn sentences_have_pairs_and_what_another_setting_adds() {
        let mut records = Vec::new();
        for (target, lto, opt, asserts, factor) in [
            ("base", "off", "o2", "on", 1.0),
            ("a", "on", "o2", "on", 1.05),
            ("b", "off", "o3", "on", 1.0),
            ("c", "on", "o3", "on", 1.05 * 1.02),
            ("d", "off", "o2", "off", 1.0),
            ("e", "on", "o2", "off", 1.05),
            ("f", "off", "o3", "off", 1.0),
            ("g", "on", "o3", "off", 1.05 * 1.021),
        ] {
            let mut run = record(target, "scan", 1, 1e6 * factor);
            run.settings = [("lto", lto), ("opt", opt), ("asserts", asserts)]
                .map(|(axis, setting)| (axis.to_owned(), setting.to_owned()))
                .to_vec();
            records.push(run);
        }
        let mut comparison = compare(&records, "base", Options::default()).expect("comparable");
        comparison.find_effects(&|_| Some("s".to_owned()));
        let all = sentences(&comparison.hosts[0]);
        let lto = all.iter().find(|text| text.contains("lto off to on")).expect("a sentence");
        assert!(lto.starts_with("range-1: lto off to on +6.1% ["), "{lto}");
        assert!(lto.contains("] over 4 pairs; "), "{lto}");
        // Two matches with 2.0% and 2.1%: shown.
        assert!(lto.contains("with opt=o3 +2.0% more ["), "{lto}");
        assert!(lto.contains("with asserts=off +0.0% (no difference is shown) ["), "{lto}");
    }

    #[test]
    fn one_match_has_neither_interval_nor_word() {
        let one = Interaction { ratio: 1.02, interval: None, pairs: 1 };
        assert_eq!(interaction(&one), "+2.0% n=1");
        let less = Interaction { ratio: 0.98, interval: Some((0.97, 0.99)), pairs: 2 };
        assert_eq!(interaction(&less), "-2.0% less [-3.0, -1.0]");
    }
}
