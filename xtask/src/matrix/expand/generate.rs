//! Variants, products and zips to rows; then the rules, in written order.

use serde::Serialize;

use crate::diag::Diagnostic;
use crate::matrix::decode::Mistakes;
use crate::matrix::expand::name;
use crate::matrix::expand::rows::{AXES, COMBO, RENAMED, Rows, SOURCE, Same, UNNAMED, VARIANT};
use crate::matrix::expand::scope::{Gate, Scope, is_installed};
use crate::matrix::expand::targets::{self, Applies, Combo, applies};
use crate::matrix::model::{Condition, Experiment, RuleKind};

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
    /// Whether nothing is fixed.
    pub fn is_empty(&self) -> bool {
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

/// More cells or targets than anyone can build or run; they still fit into memory.
const CELLS_LIMIT: usize = 20_000_000;

/// The work in progress.
pub struct Generator<'a, 'm> {
    /// The world.
    pub scope: &'a Scope<'m>,
    /// What is expanded.
    pub experiment: &'m Experiment,
    /// What the command line fixes.
    pub fixed: &'a Fixed,
    when: Gate<'m>,
    /// The cells so far.
    pub rows: Rows,
    /// The combinations so far.
    pub combos: Vec<Combo>,
    left_out: Vec<LeftOut>,
    aliases: Vec<(String, Vec<u16>)>,
    /// Whether rows stand for targets because a rule looks at configs or run-only axes.
    pub is_about_runs: bool,
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
    targets::check_count(experiment, this.combos.len(), mistakes);
    if !mistakes.is_empty() {
        this.combos.clear();
    }
    this.base_cells(mistakes);
    if this.may_repeat() {
        this.merge();
    }
    if this.is_about_runs {
        let combos = (0..this.combos.len()).collect::<Vec<_>>();
        let cells = std::mem::replace(&mut this.rows, Rows::new(scope.matrix.axes.len()));
        this.multiply(&cells, &combos, mistakes);
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

    /// Whether a cell may have come up twice: one product alone has each cell once.
    fn may_repeat(&self) -> bool {
        let experiment = self.experiment;
        !experiment.variants.is_empty()
            || !experiment.zip.is_empty()
            || experiment.cross.len() > 1
            || !self.fixed.is_empty()
    }

    /// Chooses what a variant names.
    pub fn name_settings(&self, variant: usize, choices: &mut [Vec<usize>]) {
        for (axis, setting) in &self.scope.matrix.variants[variant].settings {
            choices[*axis] = vec![*setting];
        }
    }

    /// Appends the product of the choices, the last axis running fastest; what `when` forbids is
    /// counted instead.
    pub fn product(
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
            mistakes.push(self.too_many("cells"));
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

    fn too_many(&self, what: &str) -> Diagnostic {
        let message = format!("experiment `{}` has too many {what}", self.experiment.name);
        let help = format!("at most {CELLS_LIMIT} can be expanded");
        Diagnostic::at(&self.experiment.span, message).help(help)
    }

    fn leave_out(&mut self, axis: usize, setting: usize) {
        let axis = &self.scope.matrix.axes[axis];
        let setting = &axis.settings[setting];
        let when = setting.when.as_ref().map(ToString::to_string).unwrap_or_default();
        count_left_out(&mut self.left_out, &axis.name, &setting.name, when, "cells");
    }

    /// Merges equal cells into the first of them. It takes the name of a variant among them.
    pub fn merge(&mut self) {
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
    pub fn multiply(&mut self, cells: &Rows, combos: &[usize], mistakes: &mut Mistakes) {
        if cells.len().saturating_mul(combos.len()) > CELLS_LIMIT {
            mistakes.push(self.too_many("targets"));
            return;
        }
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

    /// Splits rows into cells and targets.
    fn finish(mut self, rules: Vec<RuleOutcome>, mistakes: &mut Mistakes) -> Generated {
        if self.rows.len() == 0 && mistakes.is_empty() {
            let message = format!("experiment `{}` has no cells", self.experiment.name);
            let mut item = Diagnostic::at(&self.experiment.span, message);
            for LeftOut { setting, when, count, unit } in &self.left_out {
                let count = counted(*count, unit);
                item = item.help(format!("{count} left out: `{setting}` only when {when}"));
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
            if cells.len().saturating_mul(self.combos.len()) > CELLS_LIMIT {
                mistakes.push(self.too_many("targets"));
                self.combos.clear();
            }
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

/// `1 cell`, `2 cells`.
pub fn counted(count: usize, unit: &str) -> String {
    match count {
        1 => format!("1 {}", unit.trim_end_matches('s')),
        _ => format!("{count} {unit}"),
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
