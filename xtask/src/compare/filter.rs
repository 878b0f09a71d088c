//! `--filter KEY=VALUE`: leaving out hosts, targets and rows by what they are. As everything in
//! [`super::show`] it comes after the judging: a verdict must not depend on what is shown.

use std::collections::BTreeSet;

use super::{Comparison, HostComparison, Made, Row};

/// Keys that every comparison has; the others are axes of the targets.
const HOST: &str = "host";
/// Of a target.
const OF_TARGET: [&str; 3] = ["target", "build", "config"];
/// Of a row.
const OF_ROW: [&str; 3] = ["group", "microbenchmark", "threads"];

/// `KEY=VALUE[,VALUE…]`, or `KEY!=…` for all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    key: String,
    not: bool,
    values: Vec<String>,
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("filter `{text}` is not KEY=VALUE[,VALUE] or KEY!=VALUE[,VALUE]");
        let (key, values) = text.split_once('=').ok_or_else(wrong)?;
        let (key, not) = key.strip_suffix('!').map_or((key, false), |key| (key, true));
        let key = key.trim().to_owned();
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if key.is_empty() || values.iter().any(String::is_empty) {
            return Err(wrong());
        }
        Ok(Self { key, not, values })
    }

    fn keeps(&self, value: Option<&str>) -> bool {
        let among = value.is_some_and(|value| self.values.iter().any(|wanted| wanted == value));
        among != self.not
    }
}

impl Comparison {
    /// Keeps what every filter keeps. The base is what the others are compared with and stays.
    ///
    /// # Errors
    /// For a key or a value that nothing here has, with those that there are.
    pub fn filter(&mut self, filters: &[Filter]) -> Result<(), String> {
        // All of them first: one filter must not make a stranger of another one's value.
        for filter in filters {
            self.check(filter)?;
        }
        for filter in filters {
            let key = filter.key.as_str();
            if key == HOST {
                self.hosts.retain(|host| filter.keeps(Some(&host.host)));
            } else if OF_ROW.contains(&key) {
                for host in &mut self.hosts {
                    let of_row = |row: &Row| filter.keeps(Some(&row_value(row, key)));
                    host.keep(&|_| true, &of_row);
                }
            } else {
                for host in &mut self.hosts {
                    let kept: BTreeSet<String> = host
                        .made
                        .iter()
                        .filter(|made| filter.keeps(made_value(made, key)))
                        .map(|made| made.target.clone())
                        .collect();
                    host.keep(&|target| kept.contains(target), &|_| true);
                    let base = host.base_made.as_ref().map(|made| made.target.clone());
                    host.notes.retain(|note| {
                        kept.contains(&note.target) || base.as_ref() == Some(&note.target)
                    });
                }
            }
        }
        Ok(())
    }

    fn check(&self, filter: &Filter) -> Result<(), String> {
        let key = filter.key.as_str();
        let mut known: BTreeSet<String> = BTreeSet::new();
        let mut keys: BTreeSet<&str> = OF_TARGET.into_iter().chain(OF_ROW).chain([HOST]).collect();
        for host in &self.hosts {
            if key == HOST {
                known.insert(host.host.clone());
            } else if OF_ROW.contains(&key) {
                known.extend(host.rows.iter().map(|row| row_value(row, key)));
            }
            for made in host.made.iter().chain(&host.base_made) {
                keys.extend(made.settings.iter().map(|(axis, _)| axis.as_str()));
                known.extend(made_value(made, key).map(str::to_owned));
            }
        }
        let list = |names: Vec<&str>| format!("`{}`", names.join("`, `"));
        if !keys.contains(key) {
            return Err(format!(
                "filter: there is no key `{key}`; there are {}",
                list(keys.into_iter().collect())
            ));
        }
        match filter.values.iter().find(|value| !known.contains(*value)) {
            None => Ok(()),
            Some(value) => Err(format!(
                "filter: `{key}` is never `{value}` here; it is {}",
                list(known.iter().map(String::as_str).collect())
            )),
        }
    }
}

fn row_value(row: &Row, key: &str) -> String {
    match key {
        "group" => row.group.clone(),
        "threads" => row.threads.to_string(),
        _ => row.microbenchmark.clone(),
    }
}

fn made_value<'a>(made: &'a Made, key: &str) -> Option<&'a str> {
    match key {
        "target" => Some(&made.target),
        "build" => Some(&made.build),
        "config" => Some(&made.config),
        axis => made.settings.iter().find(|(name, _)| name == axis).map(|(_, it)| it.as_str()),
    }
}

impl HostComparison {
    /// Keeps targets and rows; groups keep the numbers of all their rows, and go when none of them
    /// is left.
    pub(super) fn keep(&mut self, target: &dyn Fn(&str) -> bool, row: &dyn Fn(&Row) -> bool) {
        self.targets.retain(|name| target(name));
        self.made.retain(|made| target(&made.target));
        self.rows.retain(row);
        for row in &mut self.rows {
            row.cells.retain(|cell| target(&cell.target));
        }
        let rows = &self.rows;
        self.groups.retain(|group| {
            rows.iter().any(|row| row.group == group.group && row.threads == group.threads)
        });
        for group in &mut self.groups {
            group.cells.retain(|cell| target(&cell.target));
        }
        let groups = &self.groups;
        self.effects.retain(|effect| {
            groups.iter().any(|it| it.group == effect.group && it.threads == effect.threads)
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compare::{Options, compare};
    use crate::record::testing::record;

    fn comparison() -> Comparison {
        let mut records = Vec::new();
        for block in 1..=3 {
            for (target, lto) in [("base", "off"), ("t", "on"), ("u", "off")] {
                for name in ["scan", "point-query"] {
                    let mut run = record(target, name, block, 1e3);
                    run.settings = vec![("lto".to_owned(), lto.to_owned())];
                    records.push(run);
                }
            }
        }
        compare(&records, "base", Options::default()).expect("comparable")
    }

    fn filtered(texts: &[&str]) -> Result<Comparison, String> {
        let mut comparison = comparison();
        let filters: Result<Vec<Filter>, String> =
            texts.iter().map(|text| Filter::parse(text)).collect();
        comparison.filter(&filters?)?;
        Ok(comparison)
    }

    #[test]
    fn targets_and_rows_go_and_verdicts_stay() {
        let all = comparison();
        let some = filtered(&["lto=on", "group!=range-1"]).expect("known");
        let host = &some.hosts[0];
        assert_eq!(host.targets, ["t"]);
        assert_eq!(host.rows.len(), 1);
        assert_eq!(host.groups.len(), 1);
        let before = all.hosts[0].rows.iter().find(|row| row.microbenchmark == "point-query");
        assert_eq!(host.rows[0].cells[0], before.expect("a row").cells[0]);
        assert_eq!(filtered(&["target=t,u"]).expect("known").hosts, all.hosts);
        assert_eq!(filtered(&["lto!=on"]).expect("known").hosts[0].targets, ["u"]);
        assert!(filtered(&["host!=h"]).expect("known").hosts.is_empty());
    }

    #[test]
    fn what_nobody_has_is_an_error_that_names_what_there_is() {
        for (text, part) in [
            ("lot=on", "there is no key `lot`; there are `build`, `config`, `group`"),
            ("lto=onn", "`lto` is never `onn` here; it is `off`, `on`"),
            ("threads=7", "`threads` is never `7`"),
            ("lto", "is not KEY=VALUE"),
            ("lto=", "is not KEY=VALUE"),
            ("=on", "is not KEY=VALUE"),
            ("lto=on,", "is not KEY=VALUE"),
        ] {
            let error = filtered(&[text]).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = Filter::parse(&text);
        }

        #[test]
        fn what_is_written_is_what_is_read(
            key in "[a-z][a-z-]{0,8}",
            not in any::<bool>(),
            values in prop::collection::vec("[a-z0-9._=-]{1,6}", 1..4),
        ) {
            let text = format!("{key}{}={}", if not { "!" } else { "" }, values.join(","));
            prop_assert_eq!(Filter::parse(&text), Ok(Filter { key, not, values }));
        }
    }
}
