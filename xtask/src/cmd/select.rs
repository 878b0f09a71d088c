//! `--only` and `--skip`: globs on names of builds, targets and microbenchmarks. Pure.
//!
//! A glob that matches names of one kind selects among these and leaves the other kinds alone:
//! `--only '*_o3*' --only scan` runs one microbenchmark against some builds.

use std::collections::BTreeSet;

use crate::diag::nearest;
use crate::exit::{Code, coded};
use crate::matrix::pattern::glob_matches;

/// The names that globs can match, by kind.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Builds.
    pub builds: Vec<String>,
    /// Targets; a target also goes with its build.
    pub targets: Vec<String>,
    /// Microbenchmarks, full names. A glob may also be a short name.
    pub microbenchmarks: Vec<String>,
}

/// What is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    builds: Kind,
    targets: Kind,
    microbenchmarks: Kind,
}

/// What is selected among one kind of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kind {
    /// `None`: all.
    only: Option<BTreeSet<String>>,
    skip: BTreeSet<String>,
}

impl Kind {
    fn has(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(name)) && !self.skip.contains(name)
    }
}

impl Selection {
    /// Resolves the globs.
    ///
    /// # Errors
    /// For a glob that matches nothing, with the nearest name.
    pub fn new(only: &[String], skip: &[String], names: &Names) -> anyhow::Result<Self> {
        let mut this = Self::default();
        for (globs, is_only) in [(only, true), (skip, false)] {
            for glob in globs {
                let mut found = false;
                for (kind, names) in [
                    (&mut this.builds, &names.builds),
                    (&mut this.targets, &names.targets),
                    (&mut this.microbenchmarks, &names.microbenchmarks),
                ] {
                    let hits: Vec<&String> =
                        names.iter().filter(|name| matches(glob, name)).collect();
                    if hits.is_empty() {
                        continue;
                    }
                    found = true;
                    let set =
                        if is_only { kind.only.get_or_insert_default() } else { &mut kind.skip };
                    set.extend(hits.into_iter().cloned());
                }
                if !found {
                    return Err(nothing(glob, is_only, names));
                }
            }
        }
        Ok(this)
    }

    /// Whether a build is selected.
    pub fn build(&self, name: &str) -> bool {
        self.builds.has(name)
    }

    /// Whether a target of this build is selected.
    pub fn target(&self, name: &str, build: &str) -> bool {
        self.builds.has(build) && self.targets.has(name)
    }

    /// Whether a microbenchmark is selected.
    pub fn microbenchmark(&self, name: &str) -> bool {
        self.microbenchmarks.has(name)
    }
}

fn matches(glob: &str, name: &str) -> bool {
    glob_matches(glob, name) || catalog::find(glob).is_some_and(|found| found.name == name)
}

fn nothing(glob: &str, only: bool, names: &Names) -> anyhow::Error {
    let option = if only { "--only" } else { "--skip" };
    let all = names.builds.iter().chain(&names.targets).chain(&names.microbenchmarks);
    let hint = nearest(glob, all.map(String::as_str))
        .map_or(String::new(), |name| format!("; did you mean `{name}`?"));
    coded(
        Code::Input,
        format!("{option} `{glob}` matches no build, target or microbenchmark here{hint}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect();
        Names {
            builds: words(&["pg_o2", "pg_o3"]),
            targets: words(&["pg_o2.small", "pg_o3.small", "pg_o3.big"]),
            microbenchmarks: words(&["scan_range=100", "insert_range=100"]),
        }
    }

    fn select(only: &[&str], skip: &[&str]) -> anyhow::Result<Selection> {
        let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        Selection::new(&words(only), &words(skip), &names())
    }

    #[test]
    fn kinds_are_independent() {
        let all = select(&[], &[]).expect("fine");
        assert!(all.build("pg_o2") && all.microbenchmark("scan_range=100"));
        let one = select(&["pg_o3", "scan"], &[]).expect("fine");
        assert!(!one.build("pg_o2") && one.build("pg_o3"));
        assert!(one.target("pg_o3.big", "pg_o3") && !one.target("pg_o2.small", "pg_o2"));
        assert!(one.microbenchmark("scan_range=100") && !one.microbenchmark("insert_range=100"));
        let rest = select(&[], &["*.big"]).expect("fine");
        assert!(rest.target("pg_o3.small", "pg_o3") && !rest.target("pg_o3.big", "pg_o3"));
        assert!(rest.build("pg_o3"));
    }

    #[test]
    fn a_glob_that_matches_nothing_is_an_error() {
        let error = select(&["pg_o4"], &[]).expect_err("no such name").to_string();
        assert!(
            error.contains("--only `pg_o4`") && error.contains("did you mean `pg_o"),
            "{error}"
        );
    }
}
