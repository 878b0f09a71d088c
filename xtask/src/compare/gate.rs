//! Gates: conditions under which a comparison is a failure for whoever called it (`--fail-on`).
//!
//! `slower > 3% in group writes`: a word (`slower`, `undecided`, `failed`), for `slower` by how
//! much at least, and where: `in group NAME`, `in any group` (which goes without saying), or `in
//! GLOB` for microbenchmarks. `slower` demands that a difference is shown, by the p-value adjusted
//! for all groups or all microbenchmarks of the report: noise trips no gate.

use serde::{Deserialize, Serialize};

use super::{CellResult, Comparison};
use crate::matrix::pattern::glob_matches;
use crate::stats::Verdict;

/// A condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Gate {
    /// As it was written.
    pub text: String,
    what: What,
    scope: Scope,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    /// Shown to be slower, by more than this share.
    Slower(f64),
    Undecided,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Scope {
    AnyGroup,
    Group(String),
    Microbenchmarks(String),
}

/// What a gate came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Judged {
    /// The gate as it was written.
    pub gate: String,
    /// What tripped it; nothing: it is passed.
    pub trips: Vec<Trip>,
}

/// What tripped a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Trip {
    /// The host.
    pub host: String,
    /// The target.
    pub target: String,
    /// The group or the microbenchmark.
    pub name: String,
    /// Clients.
    pub threads: u32,
    /// Target / base and its interval, where there is one.
    pub ratio: Option<[f64; 3]>,
    /// Why it failed, where it did.
    pub reason: Option<String>,
}

impl Trip {
    /// In one line.
    pub fn text(&self) -> String {
        let clients = if self.threads == 1 { String::new() } else { format!(" x{}", self.threads) };
        let number = match (self.ratio, &self.reason) {
            (Some([ratio, low, high]), _) => format!("{ratio:.3} [{low:.3}, {high:.3}]"),
            (None, Some(reason)) => reason.clone(),
            (None, None) => "no ratio".to_owned(),
        };
        format!("{}: {} {}{clients}: {number}", self.host, self.target, self.name)
    }
}

impl Gate {
    /// Reads a condition.
    ///
    /// # Errors
    /// In words, with an example.
    pub fn parse(text: &str) -> Result<Self, String> {
        let example = "for example `slower > 3% in group writes`";
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = |what: String| Err(format!("`{text}` is no gate: {what}; {example}"));
        let Some((first, mut rest)) = words.split_first() else {
            return wrong("it is empty".to_owned());
        };
        let mut limit = None;
        if let Some((&">", tail)) = rest.split_first() {
            let Some((number, tail)) = tail.split_first() else {
                return wrong("`>` needs a percentage".to_owned());
            };
            let value = number.strip_suffix('%').and_then(|it| it.parse::<f64>().ok());
            match value.filter(|it| (0.0..100.0).contains(it)) {
                Some(percent) => limit = Some(percent / 100.0),
                None => return wrong(format!("`{number}` is no percentage from 0% to 100%")),
            }
            rest = tail;
        }
        let what = match (*first, limit) {
            ("slower", limit) => What::Slower(limit.unwrap_or(0.0)),
            ("undecided", None) => What::Undecided,
            ("failed", None) => What::Failed,
            ("undecided" | "failed", Some(_)) => {
                return wrong(format!("`{first}` has no size"));
            }
            _ => return wrong(format!("`{first}` is none of slower, undecided, failed")),
        };
        let scope = match rest {
            [] | ["in", "any", "group"] => Scope::AnyGroup,
            ["in", "group", name] => Scope::Group((*name).to_owned()),
            ["in", glob] => Scope::Microbenchmarks((*glob).to_owned()),
            _ => return wrong(format!("`{}` says not where", rest.join(" "))),
        };
        Ok(Self { text: text.to_owned(), what, scope })
    }

    /// Holds a comparison against the condition.
    ///
    /// # Errors
    /// When it names a group or a microbenchmark that the comparison does not have: such a gate
    /// would always be passed.
    pub fn judge(&self, comparison: &Comparison) -> Result<Judged, String> {
        let mut trips = Vec::new();
        let mut known = 0;
        for host in &comparison.hosts {
            let mut look = |target: &str, name: &str, threads: u32, result: &CellResult| {
                known += 1;
                trips.extend(self.trip(result).map(|(ratio, reason)| Trip {
                    host: host.host.clone(),
                    target: target.to_owned(),
                    name: name.to_owned(),
                    threads,
                    ratio,
                    reason,
                }));
            };
            match &self.scope {
                Scope::Microbenchmarks(glob) => {
                    for row in &host.rows {
                        let short = row.microbenchmark.split("_range=").next().unwrap_or_default();
                        if !glob_matches(glob, &row.microbenchmark) && glob != short {
                            continue;
                        }
                        let name = match row.metric.is_qps() {
                            true => row.microbenchmark.clone(),
                            false => format!("{} {}", row.microbenchmark, row.metric.name),
                        };
                        for cell in &row.cells {
                            look(&cell.target, &name, row.threads, &cell.result);
                        }
                    }
                }
                Scope::AnyGroup | Scope::Group(_) => {
                    let wanted = |name: &str| match &self.scope {
                        Scope::Group(group) => group == name,
                        _ => true,
                    };
                    for group in host.groups.iter().filter(|group| wanted(&group.group)) {
                        for cell in &group.cells {
                            look(&cell.target, &group.group, group.threads, &cell.geomean);
                        }
                    }
                }
            }
        }
        if known == 0 {
            return Err(format!("gate `{}` looks at nothing that was compared", self.text));
        }
        Ok(Judged { gate: self.text.clone(), trips })
    }

    /// Whether one result trips it, with its ratio or why it failed.
    fn trip(&self, result: &CellResult) -> Option<(Option<[f64; 3]>, Option<String>)> {
        let judged = result.judged();
        let ratio = judged.map(|it| [it.ratio, it.low, it.high]);
        let verdict = judged.map(|it| it.verdict);
        match (self.what, verdict) {
            (What::Slower(limit), Some(Verdict::Slower | Verdict::Small)) => {
                ratio.filter(|[ratio, ..]| *ratio < 1.0 - limit).map(|ratio| (Some(ratio), None))
            }
            (What::Undecided, Some(Verdict::Undecided { .. })) => Some((ratio, None)),
            (What::Undecided, None) => match result {
                CellResult::Single { .. } => Some((None, Some("one pair only".to_owned()))),
                _ => None,
            },
            (What::Failed, _) => match result {
                CellResult::Failed { reason } => Some((None, Some(reason.clone()))),
                CellResult::NoPair => Some((None, Some("no pair with the base".to_owned()))),
                _ => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compare::{Options, compare};
    use crate::record::testing::{failed, record};

    fn comparison() -> Comparison {
        let noise = [1.0, 1.001, 0.999, 1.0005, 0.9995, 1.0];
        let mut records = Vec::new();
        for (block, noise) in (1..).zip(noise) {
            for (name, factor) in [("update-index", 0.9), ("insert", 0.985), ("scan", 1.2)] {
                records.push(record("base", name, block, 1000.0));
                records.push(record("t", name, block, 1000.0 * factor * noise));
            }
            records.push(record("base", "point-query", block, 1000.0));
            records.push(failed("t", "point-query", block, "no answer"));
        }
        compare(&records, "base", Options::default()).expect("comparable")
    }

    fn tripped(text: &str) -> Vec<String> {
        let gate = Gate::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let judged = gate.judge(&comparison()).unwrap_or_else(|error| panic!("{error}"));
        judged.trips.into_iter().map(|trip| trip.name).collect()
    }

    #[test]
    fn only_what_is_shown_and_large_enough_trips() {
        assert_eq!(tripped("slower"), ["writes"]);
        assert_eq!(tripped("slower > 3% in group writes"), ["writes"]);
        assert_eq!(tripped("slower > 10% in group writes"), Vec::<String>::new());
        assert_eq!(tripped("slower > 3% in *"), ["update-index"]);
        assert_eq!(tripped("slower > 1% in *"), ["update-index", "insert"]);
        assert_eq!(tripped("slower in scan"), Vec::<String>::new());
        assert_eq!(tripped("failed in *"), ["point-query"]);
        assert_eq!(tripped("undecided in *"), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_gate_is_said_and_a_gate_that_looks_at_nothing_is_refused() {
        for (text, expected) in [
            ("", "it is empty"),
            ("faster", "`faster` is none of"),
            ("slower > 3", "no percentage"),
            ("slower >", "needs a percentage"),
            ("slower > 3% at writes", "says not where"),
            ("failed > 3%", "has no size"),
        ] {
            let error = Gate::parse(text).expect_err(text);
            assert!(error.contains(expected) && error.contains("for example"), "{error}");
        }
        let gate = Gate::parse("slower in group reads").expect("a gate");
        let error = gate.judge(&comparison()).expect_err("nothing");
        assert!(error.contains("looks at nothing"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_gets_an_answer(text in "(slower|failed|>|3%|in|group|any| |[a-z%*])*") {
            let _ = Gate::parse(&text);
        }
    }
}
