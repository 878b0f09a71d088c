//! The rules of an experiment, in written order, on rows.

use crate::diag::Diagnostic;
use crate::matrix::decode::Mistakes;
use crate::matrix::expand::generate::{Generator, RuleOutcome, counted};
use crate::matrix::expand::name;
use crate::matrix::expand::rows::{AXES, COMBO, RENAMED, Rows, SOURCE, UNNAMED, VARIANT};
use crate::matrix::expand::scope::is_installed;
use crate::matrix::expand::targets::{self, Combo};
use crate::matrix::model::{Condition, Rule, RuleKind};
use crate::matrix::pattern::Pattern;

impl Generator<'_, '_> {
    /// Applies the rules in written order. A rule that does nothing is a mistake, except when the
    /// command line fixed a setting: the rule may be about what that took away.
    pub fn rules(&mut self, mistakes: &mut Mistakes) -> Vec<RuleOutcome> {
        let unit = if self.is_about_runs { "targets" } else { "cells" };
        let mut outcomes = Vec::new();
        for rule in &self.experiment.rules {
            let before = self.rows.len();
            let count = match rule.kind {
                RuleKind::Include => self.include(rule, mistakes),
                RuleKind::Exclude | RuleKind::Only => self.filter(rule),
            };
            let (kind, text, why) = (rule.kind, rule.text.clone(), rule.why.clone());
            outcomes.push(RuleOutcome { kind, text, why, count, unit });
            if before > 0 && self.rows.len() == 0 {
                let message = format!("this rule removes the last {}", counted(count, unit));
                let name = &self.experiment.name;
                let help = format!("experiment `{name}` would have nothing left to do");
                mistakes.push(Diagnostic::at(&rule.span, message).help(help));
                return outcomes;
            }
            if count == 0 && self.fixed.is_empty() {
                mistakes.push(idle(rule, unit, before));
            }
        }
        outcomes
    }

    fn include(&mut self, rule: &Rule, mistakes: &mut Mistakes) -> usize {
        let axes = self.scope.matrix.axes.len();
        let mut sources = self.experiment.sources.clone();
        let mut variants = Vec::new();
        for condition in &rule.conditions {
            match condition {
                Condition::Source(chosen) => sources.clone_from(chosen),
                Condition::Variant(chosen) => variants.clone_from(chosen),
                _ => {}
            }
        }
        sources.retain(|source| {
            !is_installed(&self.scope.matrix.sources[*source])
                && rule.conditions.iter().all(|condition| match condition {
                    Condition::Engine(engines) => engines.contains(&self.scope.engine(*source)),
                    Condition::Version(patterns) => {
                        let version = self.scope.version(*source);
                        version.is_some_and(|version| patterns.iter().any(|p| p.matches(version)))
                    }
                    _ => true,
                })
        });
        let old = std::mem::replace(&mut self.rows, Rows::new(axes));
        for source in sources {
            let starts = match variants.is_empty() {
                true => vec![None],
                false => variants.iter().copied().map(Some).collect(),
            };
            for start in starts {
                let mut choices = vec![vec![0]; axes];
                let mut name = UNNAMED;
                if let Some(variant) = start {
                    self.name_settings(variant, &mut choices);
                    name = variant as u16;
                }
                for condition in &rule.conditions {
                    if let Condition::Axis(axis, settings) = condition {
                        choices[*axis].clone_from(settings);
                        name = UNNAMED;
                    }
                }
                self.product(source, name, &choices, mistakes);
            }
        }
        let new = std::mem::replace(&mut self.rows, old);
        let before = self.rows.len();
        if self.is_about_runs {
            let (matrix, experiment) = (self.scope.matrix, self.experiment);
            let run = &self.fixed.run;
            let included = targets::included(matrix, experiment, &rule.conditions, run);
            let most = self.combos.len() + included.len();
            targets::check_count(experiment, most, mistakes);
            if !mistakes.is_empty() {
                return 0;
            }
            let indexes: Vec<usize> = included.into_iter().map(|combo| self.combo(combo)).collect();
            self.multiply(&new, &indexes, mistakes);
        } else {
            new.iter().for_each(|row| self.rows.push(row));
        }
        self.merge();
        self.rows.len() - before
    }

    /// The index of a combination, known already or new.
    fn combo(&mut self, combo: Combo) -> usize {
        self.combos.iter().position(|known| *known == combo).unwrap_or_else(|| {
            self.combos.push(combo);
            self.combos.len() - 1
        })
    }

    fn filter(&mut self, rule: &Rule) -> usize {
        let tests: Vec<Test<'_>> = rule.conditions.iter().map(|c| self.test(c)).collect();
        let removes = rule.kind == RuleKind::Exclude;
        let mut name = String::new();
        let scope = self.scope;
        self.rows.retain(|_, row| {
            let matches = tests.iter().all(|test| match test {
                Test::Column(column, allowed) => {
                    let is_setting = *column >= AXES;
                    allowed[usize::from(row[*column])]
                        && !(is_setting && is_installed(scope.source(row)))
                }
                Test::Variant(variants) => {
                    let variant = row[VARIANT];
                    variant != UNNAMED && variants.contains(&usize::from(variant & !RENAMED))
                }
                Test::Build(patterns) => {
                    name::build(scope, row, &mut name);
                    patterns.iter().any(|pattern| pattern.matches(&name))
                }
            });
            matches != removes
        })
    }

    /// A condition as a table over one column.
    fn test<'c>(&self, condition: &'c Condition) -> Test<'c> {
        let table =
            |count: usize, allowed: &dyn Fn(usize) -> bool| (0..count).map(allowed).collect();
        let matrix = self.scope.matrix;
        let sources = matrix.sources.len();
        match condition {
            Condition::Source(chosen) => {
                Test::Column(SOURCE, table(sources, &|source| chosen.contains(&source)))
            }
            Condition::Engine(engines) => Test::Column(
                SOURCE,
                table(sources, &|source| engines.contains(&self.scope.engine(source))),
            ),
            Condition::Version(patterns) => {
                let fits = |source| {
                    let version = self.scope.version(source);
                    version.is_some_and(|version| patterns.iter().any(|p| p.matches(version)))
                };
                Test::Column(SOURCE, table(sources, &fits))
            }
            Condition::Variant(variants) => Test::Variant(variants),
            Condition::Build(patterns) => Test::Build(patterns),
            Condition::Axis(axis, settings) => {
                let count = matrix.axes[*axis].settings.len();
                Test::Column(AXES + axis, table(count, &|setting| settings.contains(&setting)))
            }
            Condition::Config(configs) => Test::Column(
                COMBO,
                table(self.combos.len(), &|c| configs.contains(&self.combos[c].config)),
            ),
            Condition::RunAxis(axis, settings) => Test::Column(
                COMBO,
                table(self.combos.len(), &|c| settings.contains(&self.combos[c].run[*axis])),
            ),
        }
    }
}

/// A condition, ready for a million rows.
enum Test<'c> {
    /// By the value of a column.
    Column(usize, Vec<bool>),
    Variant(&'c [usize]),
    Build(&'c [Pattern]),
}

fn idle(rule: &Rule, unit: &str, before: usize) -> Diagnostic {
    match rule.kind {
        RuleKind::Include => {
            Diagnostic::at(&rule.span, format!("this rule adds no {unit}: `{}`", rule.text))
                .help("they are there already, or `when` leaves them out")
        }
        RuleKind::Exclude => {
            Diagnostic::at(&rule.span, format!("this rule matches nothing: `{}`", rule.text))
                .help(format!("of the {} before it none is like that", counted(before, unit)))
        }
        RuleKind::Only => {
            Diagnostic::at(&rule.span, format!("this rule removes nothing: `{}`", rule.text))
                .help(format!("of the {} before it each is like that", counted(before, unit)))
        }
    }
}
