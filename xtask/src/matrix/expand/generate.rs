//! Variants, products and zips to rows; then the rules, in written order.

use serde::Serialize;

use crate::diag::Diagnostic;
use crate::matrix::decode::Mistakes;
use crate::matrix::expand::name;
use crate::matrix::expand::rows::{AXES, COMBO, RENAMED, Rows, SOURCE, Same, UNNAMED, VARIANT};
use crate::matrix::expand::scope::{Gate, Scope, is_installed};
use crate::matrix::expand::targets::{self, Applies, Combo, applies};
use crate::matrix::model::{Condition, Experiment, Rule, RuleKind};

/// What a rule did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RuleOutcome {
    /// What it does.
    pub kind: RuleKind,
    /// Its conditions as written.
    pub text: String,
    /// Why it is there.
    pub why: String,
    /// How many it added or removed.
    pub count: usize,
    /// What was counted: `cells` or, with a rule on configs or run-only axes, `targets`.
    pub unit: &'static str,
}

/// Cells or targets that were left out because a setting does not exist for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LeftOut {
    /// `psi = less`.
    pub setting: String,
    /// Its `when`.
    pub when: String,
    /// How many.
    pub count: usize,
    /// `cells` or `targets`.
    pub unit: &'static str,
}

/// The settings that the command line fixes.
#[derive(Clone, Debug, Default)]
pub struct Fixed {
    /// Build axes: axis, setting.
    pub build: Vec<(usize, usize)>,
    /// Run-only axes: axis, setting.
    pub run: Vec<(usize, usize)>,
}

impl Fixed {
    fn is_empty(&self) -> bool {
        self.build.is_empty() && self.run.is_empty()
    }
}

/// Everything that comes of generating.
pub struct Generated {
    /// One row for each build.
    pub cells: Rows,
    /// The combinations that targets refer to.
    pub combos: Vec<Combo>,
    /// Cell and combination of each target.
    pub targets: Vec<(u32, u16)>,
    /// What the rules did.
    pub rules: Vec<RuleOutcome>,
    /// What `when` left out.
    pub left_out: Vec<LeftOut>,
    /// Names of variants that became another build's name, with that build's row.
    pub aliases: Vec<(String, Vec<u16>)>,
}

/// More cells than 32-bit indexes count.
const CELLS_LIMIT: usize = 100_000_000;

struct Generator<'a, 'm> {
    scope: &'a Scope<'m>,
    experiment: &'m Experiment,
    fixed: &'a Fixed,
    when: Gate<'m>,
    rows: Rows,
    combos: Vec<Combo>,
    left_out: Vec<LeftOut>,
    aliases: Vec<(String, Vec<u16>)>,
    /// Whether rows stand for targets because a rule looks at configs or run-only axes.
    is_about_runs: bool,
}

/// Generates the cells and targets of an experiment.
pub fn generate<'m>(
    scope: &Scope<'m>,
    experiment: &'m Experiment,
    fixed: &Fixed,
    mistakes: &mut Mistakes,
) -> Generated {
    let conditions = experiment.rules.iter().flat_map(|rule| &rule.conditions);
    let mut this = Generator {
        scope,
        experiment,
        fixed,
        when: Gate::new(scope, |setting| setting.when.as_ref()),
        rows: Rows::new(scope.matrix.axes.len()),
        combos: targets::combos(scope.matrix, experiment, &fixed.run),
        left_out: Vec::new(),
        aliases: Vec::new(),
        is_about_runs: conditions.into_iter().any(Condition::is_about_runs),
    };
    this.base_cells(mistakes);
    if this.rows.len() > 0 || !experiment.rules.is_empty() {
        this.merge();
    }
    if this.is_about_runs {
        let combos = (0..this.combos.len()).collect::<Vec<_>>();
        let cells = std::mem::replace(&mut this.rows, Rows::new(scope.matrix.axes.len()));
        this.multiply(&cells, &combos);
    }
    let rules = this.rules(mistakes);
    this.finish(rules, mistakes)
}

impl<'m> Generator<'_, 'm> {
    /// Source by source: the variants, then the products, then the zips.
    fn base_cells(&mut self, mistakes: &mut Mistakes) {
        let axes = self.scope.matrix.axes.len();
        let experiment = self.experiment;
        let nothing_named = experiment.variants.is_empty()
            && experiment.cross.is_empty()
            && experiment.zip.is_empty()
            && experiment.rules.iter().all(|rule| rule.kind != RuleKind::Include);
        for source in &experiment.sources {
            if is_installed(&self.scope.matrix.sources[*source]) {
                let mut row = vec![0; AXES + axes];
                row[SOURCE] = *source as u16;
                row[VARIANT] = UNNAMED;
                self.rows.push(&row);
                continue;
            }
            for variant in &experiment.variants {
                let mut choices = vec![vec![0]; axes];
                self.name_settings(*variant, &mut choices);
                self.product(*source, *variant as u16, &choices, mistakes);
            }
            for cross in &experiment.cross {
                let mut choices = vec![vec![0]; axes];
                for (axis, settings) in cross {
                    choices[*axis].clone_from(settings);
                }
                self.product(*source, UNNAMED, &choices, mistakes);
            }
            for zip in &experiment.zip {
                let length = zip.iter().map(|(_, settings)| settings.len()).min().unwrap_or(0);
                for place in 0..length {
                    let mut choices = vec![vec![0]; axes];
                    for (axis, settings) in zip {
                        choices[*axis] = vec![settings[place]];
                    }
                    self.product(*source, UNNAMED, &choices, mistakes);
                }
            }
            if nothing_named {
                self.product(*source, UNNAMED, &vec![vec![0]; axes], mistakes);
            }
        }
    }

    fn name_settings(&self, variant: usize, choices: &mut [Vec<usize>]) {
        for (axis, setting) in &self.scope.matrix.variants[variant].settings {
            choices[*axis] = vec![*setting];
        }
    }

    /// Appends the product of the choices, the last axis running fastest; what `when` forbids is
    /// counted instead.
    fn product(
        &mut self,
        source: usize,
        variant: u16,
        choices: &[Vec<usize>],
        mistakes: &mut Mistakes,
    ) {
        let mut choices = choices.to_vec();
        let mut variant = variant;
        for (axis, setting) in &self.fixed.build {
            if variant != UNNAMED && choices[*axis] != [*setting] {
                variant |= RENAMED;
            }
            choices[*axis] = vec![*setting];
        }
        let count = choices.iter().map(Vec::len).try_fold(1_usize, |a, b| a.checked_mul(b));
        if count.is_none_or(|count| count + self.rows.len() > CELLS_LIMIT) {
            let message = format!("experiment `{}` has too many cells", self.experiment.name);
            let help = format!("at most {CELLS_LIMIT} cells can be expanded");
            mistakes.push(Diagnostic::at(&self.experiment.span, message).help(help));
            return;
        }
        if count == Some(0) {
            return;
        }
        let mut row = vec![0; AXES];
        (row[SOURCE], row[VARIANT]) = (source as u16, variant);
        row.extend(choices.iter().map(|settings| settings[0] as u16));
        let mut places = vec![0; choices.len()];
        loop {
            match self.when.closed_by(self.scope, &row) {
                None => self.rows.push(&row),
                Some(axis) => self.leave_out(axis, usize::from(row[AXES + axis])),
            }
            let Some(axis) = (0..choices.len()).rev().find(|a| places[*a] + 1 < choices[*a].len())
            else {
                return;
            };
            places[axis] += 1;
            row[AXES + axis] = choices[axis][places[axis]] as u16;
            for later in axis + 1..choices.len() {
                places[later] = 0;
                row[AXES + later] = choices[later][0] as u16;
            }
        }
    }

    fn leave_out(&mut self, axis: usize, setting: usize) {
        let axis = &self.scope.matrix.axes[axis];
        let setting = &axis.settings[setting];
        let when = setting.when.as_ref().map(ToString::to_string).unwrap_or_default();
        count_left_out(&mut self.left_out, &axis.name, &setting.name, when, "cells");
    }

    /// Merges equal cells into the first of them. It takes the name of a variant among them.
    fn merge(&mut self) {
        let same = if self.is_about_runs { Same::Target } else { Same::Build };
        let firsts = self.rows.first_equals(same);
        let mut name = String::new();
        for (index, first) in firsts.iter().enumerate() {
            let row = self.rows.get(index);
            let variant = row[VARIANT];
            let is_named = variant != UNNAMED;
            if is_named && (*first as usize != index || variant & RENAMED != 0) {
                let mut named = row.to_vec();
                named[VARIANT] &= !RENAMED;
                name::build(self.scope, &named, &mut name);
                self.aliases.push((name.clone(), row.to_vec()));
            }
        }
        for (index, first) in firsts.iter().map(|first| *first as usize).enumerate() {
            let (kept, variant) = (self.rows.get(first)[VARIANT], self.rows.get(index)[VARIANT]);
            let is_plain = |variant: u16| variant != UNNAMED && variant & RENAMED == 0;
            if !is_plain(kept) && is_plain(variant) {
                self.rows.set_variant(first, variant);
            }
        }
        self.rows.retain(|index, _| firsts[index] as usize == index);
    }

    /// Appends a row for each of these combinations that applies to each cell.
    fn multiply(&mut self, cells: &Rows, combos: &[usize]) {
        let mut buffer = String::new();
        for cell in cells.iter() {
            for combo in combos {
                match applies(self.scope, &self.combos[*combo], cell, &mut buffer) {
                    Applies::Yes => {
                        let mut row = cell.to_vec();
                        row[COMBO] = *combo as u16;
                        self.rows.push(&row);
                    }
                    Applies::No => {}
                    Applies::LeftOut(axis, setting) => {
                        let when = setting.when.as_ref().map(ToString::to_string);
                        let when = when.unwrap_or_default();
                        count_left_out(&mut self.left_out, axis, &setting.name, when, "targets");
                    }
                }
            }
        }
    }

    /// Applies the rules in written order. A rule that does nothing is a mistake, except when the
    /// command line fixed a setting: the rule may be about what that took away.
    fn rules(&mut self, mistakes: &mut Mistakes) -> Vec<RuleOutcome> {
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
                let message = format!("this rule removes the last {count} {unit}");
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
            let indexes: Vec<usize> = included.into_iter().map(|combo| self.combo(combo)).collect();
            self.multiply(&new, &indexes);
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

    /// Splits rows into cells and targets.
    fn finish(mut self, rules: Vec<RuleOutcome>, mistakes: &mut Mistakes) -> Generated {
        if self.rows.len() == 0 && mistakes.is_empty() {
            let message = format!("experiment `{}` has no cells", self.experiment.name);
            let mut item = Diagnostic::at(&self.experiment.span, message);
            for LeftOut { setting, when, count, unit } in &self.left_out {
                item = item.help(format!("{count} {unit} left out: `{setting}` only when {when}"));
            }
            mistakes.push(item);
        }
        let mut targets = Vec::new();
        let axes = self.scope.matrix.axes.len();
        let cells = if self.is_about_runs {
            let rows = std::mem::replace(&mut self.rows, Rows::new(axes));
            let firsts = rows.first_equals(Same::Build);
            let mut cells = Rows::new(axes);
            let mut cell_of = vec![0_u32; rows.len()];
            for (index, row) in rows.iter().enumerate() {
                let first = firsts[index] as usize;
                if first == index {
                    cell_of[index] = cells.len() as u32;
                    cells.push(row);
                }
                targets.push((cell_of[first], row[COMBO]));
            }
            cells
        } else {
            let cells = std::mem::replace(&mut self.rows, Rows::new(axes));
            let mut buffer = String::new();
            for (cell, row) in cells.iter().enumerate() {
                for combo in 0..self.combos.len() {
                    match applies(self.scope, &self.combos[combo], row, &mut buffer) {
                        Applies::Yes => targets.push((cell as u32, combo as u16)),
                        Applies::No => {}
                        Applies::LeftOut(axis, setting) => {
                            let when = setting.when.as_ref().map(ToString::to_string);
                            let (left, when) = (&mut self.left_out, when.unwrap_or_default());
                            count_left_out(left, axis, &setting.name, when, "targets");
                        }
                    }
                }
            }
            cells
        };
        let (combos, left_out, aliases) = (self.combos, self.left_out, self.aliases);
        Generated { cells, combos, targets, rules, left_out, aliases }
    }
}

/// A condition, ready for a million rows.
enum Test<'c> {
    /// By the value of a column.
    Column(usize, Vec<bool>),
    Variant(&'c [usize]),
    Build(&'c [crate::matrix::pattern::Pattern]),
}

fn idle(rule: &Rule, unit: &str, before: usize) -> Diagnostic {
    match rule.kind {
        RuleKind::Include => {
            Diagnostic::at(&rule.span, format!("this rule adds no {unit}: `{}`", rule.text))
                .help("they are there already, or `when` leaves them out")
        }
        RuleKind::Exclude => {
            Diagnostic::at(&rule.span, format!("this rule matches nothing: `{}`", rule.text))
                .help(format!("none of the {before} {unit} before it is like that"))
        }
        RuleKind::Only => {
            Diagnostic::at(&rule.span, format!("this rule removes nothing: `{}`", rule.text))
                .help(format!("all {before} {unit} before it are like that"))
        }
    }
}

fn count_left_out(
    list: &mut Vec<LeftOut>,
    axis: &str,
    name: &str,
    when: String,
    unit: &'static str,
) {
    let matches = |entry: &&mut LeftOut| {
        entry.unit == unit
            && entry.setting.strip_suffix(name).and_then(|rest| rest.strip_suffix(" = "))
                == Some(axis)
    };
    match list.iter_mut().find(matches) {
        Some(entry) => entry.count += 1,
        None => {
            let setting = format!("{axis} = {name}");
            list.push(LeftOut { setting, when, count: 1, unit });
        }
    }
}
