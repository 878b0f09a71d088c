//! Matrix and experiment to builds and targets with names and ids.
//!
//! Cells are rows of small indexes; names, options and specs are made from them when asked for.
//! Order of work: cells from variants, products and zips without those that `when` forbids; rules
//! in written order; what this machine lacks; resolved options once per setting and compiler; ids
//! and names of all cells, over all cores.

mod fixed;
mod found;
mod generate;
mod ids;
mod lack;
mod name;
mod rows;
mod rules;
mod scope;
mod targets;
#[cfg(test)]
mod tests;

use crate::build::spec::{Inputs, Spec};
use crate::diag::{Diagnostic, Diagnostics};
use crate::facts::{Facts, Toolchain};
use crate::hash::Digest;
use crate::matrix::decode::Mistakes;
use crate::matrix::model::{Experiment, Matrix, Options, SourceKind};
use crate::toolchain::flags;

use fixed::fixed;
use generate::{Generated, generate};
use ids::{Column, Columns, Conflict, Found};
use lack::{availability, used_settings};
use rows::{AXES, Rows, SOURCE};
use scope::{Scope, is_installed};
use targets::Combo;

pub use generate::{LeftOut, RuleOutcome, counted};
pub use ids::{INSTALLED, Recipe, build_id, put};
pub use targets::{Target, target_id};

/// An experiment, expanded.
pub struct Expansion<'m> {
    /// The experiment.
    pub experiment: &'m Experiment,
    /// What the rules did, in written order.
    pub rules: Vec<RuleOutcome>,
    /// What `when` left out.
    pub left_out: Vec<LeftOut>,
    /// The target that the others are compared with.
    pub base: Option<usize>,
    scope: Scope<'m>,
    columns: Columns,
    recipe: Recipe,
    cells: Rows,
    ids: Vec<Digest>,
    /// By cell: 0, or the place of its reason in `reasons`, counted from 1.
    unavailable: Vec<u32>,
    reasons: Vec<String>,
    distinct: usize,
    combos: Vec<Combo>,
    targets: Vec<(u32, u16)>,
}

/// Expands an experiment.
///
/// # Errors
/// All mistakes that only show here: unknown names in `set` (`axis=setting`), rules that do nothing
/// or leave nothing, names given twice, flags that a compiler refuses, CMake variables of which a
/// release has no use, contradicting variables, a base that is no target.
pub fn expand<'m>(
    matrix: &'m Matrix,
    experiment: &'m Experiment,
    set: &[String],
    facts: &dyn Facts,
    recipe: Recipe,
) -> Result<Expansion<'m>, Diagnostics> {
    let mut mistakes = Mistakes::new();
    let fixed = fixed(matrix, set, &mut mistakes);
    let scope = Scope::new(matrix, experiment, &fixed, facts);
    let Generated { cells, combos, targets, rules, left_out, aliases } =
        generate(&scope, experiment, &fixed, &mut mistakes);
    targets::check_names(&scope, &combos, &mut mistakes);
    let (mut unavailable, mut reasons) = availability(&scope, &cells);
    let used = used_settings(&scope, &cells, &unavailable);
    let mut found = Found::default();
    let columns = Columns::new(&scope, &used, facts, recipe, &mut found);
    lack::add(&scope, &cells, &found.lacks, &mut unavailable, &mut reasons);
    mistakes.extend(found::told(matrix, found));
    let mut this = Expansion {
        experiment,
        rules,
        left_out,
        base: None,
        scope,
        columns,
        recipe,
        cells,
        ids: Vec::new(),
        unavailable,
        reasons,
        distinct: 0,
        combos,
        targets,
    };
    this.hash_all(&mut mistakes);
    // A base is looked for only among targets that are right.
    if mistakes.is_empty() {
        this.find_base(&aliases, &fixed.run, &mut mistakes);
    }
    if mistakes.is_empty() { Ok(this) } else { Err(Diagnostics::new(&matrix.file, mistakes)) }
}

impl<'m> Expansion<'m> {
    /// How many builds.
    pub fn builds(&self) -> usize {
        self.cells.len()
    }

    /// How many builds that differ: cells whose settings add the same share an id.
    pub fn distinct_builds(&self) -> usize {
        self.distinct
    }

    /// The name of a build.
    pub fn name(&self, build: usize) -> String {
        let mut name = String::new();
        name::build(&self.scope, self.cells.get(build), &mut name);
        name
    }

    /// The id of a build; `None` when it is unavailable.
    pub fn id(&self, build: usize) -> Option<Digest> {
        (self.unavailable[build] == 0).then(|| self.ids[build])
    }

    /// Why a build cannot be had on this machine.
    pub fn unavailable(&self, build: usize) -> Option<&str> {
        let reason = self.unavailable[build].checked_sub(1)?;
        Some(&self.reasons[reason as usize])
    }

    /// Whether a build is an installed server: measured, never built.
    pub fn is_installed(&self, build: usize) -> bool {
        is_installed(self.scope.source(self.cells.get(build)))
    }

    /// The name of a build's source.
    pub fn source(&self, build: usize) -> &'m str {
        &self.scope.source(self.cells.get(build)).name
    }

    /// Name and facts of a build's compiler; `None` for an installed server.
    pub fn toolchain(&self, build: usize) -> Option<(&'m str, Option<&Toolchain>)> {
        if self.is_installed(build) {
            return None;
        }
        let index = self.scope.toolchain(self.cells.get(build));
        Some((self.scope.toolchain_name(index), self.scope.toolchains[index].as_ref().ok()))
    }

    /// The compilers whose cells ask for link-time optimisation, whether it can be had or not.
    pub fn lto_toolchains(&self) -> Vec<&'m str> {
        let matrix = self.scope.matrix;
        let used = used_settings(&self.scope, &self.cells, &vec![0; self.cells.len()]);
        let asks = |source: usize, compiler: usize, marks: &[Vec<bool>]| {
            let (source, family) = (&matrix.sources[source], self.scope.family(compiler));
            let mut settings = matrix.axes.iter().zip(marks).flat_map(|(axis, marks)| {
                axis.settings
                    .iter()
                    .zip(marks)
                    .filter_map(|(setting, used)| used.then_some(setting))
            });
            flags::wants_lto(&source.options)
                || settings.any(|s| flags::wants_lto(&ids::options_for(s, source.engine, family)))
        };
        let mut found: Vec<&str> = used
            .iter()
            .filter(|((source, _), _)| !is_installed(&matrix.sources[*source]))
            .filter(|((source, compiler), marks)| asks(*source, *compiler, marks))
            .map(|((_, compiler), _)| self.scope.toolchain_name(*compiler))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Axis and setting, in the order of the axes; nothing for an installed server.
    pub fn settings(&self, build: usize) -> Vec<(String, String)> {
        if self.is_installed(build) {
            return Vec::new();
        }
        let row = self.cells.get(build);
        let axes = self.scope.matrix.axes.iter().zip(&row[AXES..]);
        let name = |setting: &u16, axis: &crate::matrix::model::Axis| {
            axis.settings[usize::from(*setting)].name.clone()
        };
        axes.map(|(axis, setting)| (axis.name.clone(), name(setting, axis))).collect()
    }

    /// The build as it will be made, or why it cannot be had here.
    ///
    /// # Errors
    /// The reason why the build is unavailable.
    pub fn spec(&self, build: usize) -> Result<Spec, String> {
        if let Some(reason) = self.unavailable(build) {
            return Err(reason.to_owned());
        }
        let row = self.cells.get(build);
        let missing = || "source or compiler is not there".to_owned();
        let facts = self.scope.sources[usize::from(row[SOURCE])].as_ref().ok_or_else(missing)?;
        Ok(Spec {
            name: self.name(build),
            id: self.ids[build],
            source: self.scope.source(row).clone(),
            source_facts: facts.as_ref().map_err(ToString::to_string)?.clone(),
            toolchain: self.toolchain(build).and_then(|(_, toolchain)| toolchain.cloned()),
            settings: self.settings(build),
            options: self.options(row).map_err(|conflict| conflict.key)?,
            system: self.column(row).map(|column| column.system(row)).unwrap_or_default(),
        })
    }

    /// The inputs of a build, to be stored beside it.
    pub fn inputs(&self, spec: &Spec) -> Inputs {
        let recipe = match spec.source.kind {
            SourceKind::Prefix { .. } => INSTALLED,
            _ => (self.recipe)(spec.source.engine),
        };
        Inputs {
            recipe: recipe.to_owned(),
            source: spec.source.name.clone(),
            source_facts: spec.source_facts.clone(),
            toolchain: spec.toolchain.as_ref().map(|toolchain| {
                (toolchain.name.clone(), toolchain.version.clone(), toolchain.digest)
            }),
            options: spec.options.clone(),
            system: spec.system.clone(),
        }
    }

    fn options(&self, row: &[u16]) -> Result<Options, Conflict> {
        self.column(row).map_or_else(|| Ok(Options::default()), |column| column.options(row))
    }

    fn column(&self, row: &[u16]) -> Option<&Column> {
        self.columns.of(&self.scope, row)
    }

    /// How many targets.
    pub fn targets(&self) -> usize {
        self.targets.len()
    }

    /// One target.
    pub fn target(&self, target: usize) -> Target {
        let (cell, combo) = self.targets[target];
        let (build, combo) = (cell as usize, &self.combos[usize::from(combo)]);
        let matrix = self.scope.matrix;
        let server = combo.options(matrix);
        let axes = matrix.run_axes.iter().zip(combo.settings(matrix));
        Target {
            name: self.target_name(target),
            build,
            id: self.id(build).map(|id| target_id(&id, &server)),
            config: matrix.configs[combo.config].name.clone(),
            run: axes.map(|(axis, setting)| (axis.name.clone(), setting.name.clone())).collect(),
            unavailable: self.target_unavailable(build, combo),
            server,
        }
    }

    fn target_unavailable(&self, build: usize, combo: &Combo) -> Option<String> {
        if let Some(reason) = self.unavailable(build) {
            return Some(reason.to_owned());
        }
        let row = self.cells.get(build);
        let axes = self.scope.matrix.run_axes.iter().zip(combo.settings(self.scope.matrix));
        axes.into_iter().find_map(|(axis, setting)| {
            let requires = setting.requires.as_ref()?;
            (self.scope.holds(requires, row) == Some(false))
                .then(|| format!("`{} = {}` requires {requires}", axis.name, setting.name))
        })
    }

    fn target_name(&self, target: usize) -> String {
        let (cell, combo) = self.targets[target];
        let mut name = self.name(cell as usize);
        name::combo(&self.scope, &self.combos[usize::from(combo)], &mut name);
        name
    }

    /// How many runs the workload makes of the available targets: microbenchmarks, each with each
    /// number of clients, on each target in each block.
    pub fn runs(&self) -> u64 {
        let Some(workload) = self.experiment.workload else { return 0 };
        let workload = &self.scope.matrix.workloads[workload];
        let per_target = workload.names().len() * workload.threads.len();
        self.targets.len() as u64 * per_target as u64 * u64::from(self.experiment.repeats)
    }

    /// Ids and names of all cells, over all cores; reports contradictions and names given twice.
    fn hash_all(&mut self, mistakes: &mut Mistakes) {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let count = self.cells.len();
        let chunk = count.div_ceil(threads).max(1);
        let mut ids = vec![Digest([0; 32]); count];
        let mut names = vec![(0_u64, 0_u32); count];
        let mut conflicts: Vec<(usize, Conflict)> = Vec::new();
        let mut too_long = None;
        let this = &*self;
        std::thread::scope(|scope| {
            let parts = ids.chunks_mut(chunk).zip(names.chunks_mut(chunk)).enumerate();
            let workers: Vec<_> = parts
                .map(|(part, (ids, names))| {
                    scope.spawn(move || this.hash_part(part * chunk, ids, names))
                })
                .collect();
            for worker in workers {
                let (found, long) = worker.join().expect("hashing does not panic");
                conflicts.extend(found);
                too_long = too_long.or(long);
            }
        });
        let mut prefixes: Vec<u64> = Vec::with_capacity(count);
        std::thread::scope(|scope| {
            scope.spawn(|| names.sort_unstable());
            // The first 8 of 32 bytes tell two of a million ids apart but once in 10^7 times, and
            // only this count depends on it.
            let available = ids.iter().zip(&this.unavailable).filter(|(_, reason)| **reason == 0);
            let head = |id: &Digest| u64::from_be_bytes(*id.0.first_chunk().expect("32 bytes"));
            prefixes.extend(available.map(|(id, _)| head(id)));
            prefixes.sort_unstable();
            prefixes.dedup();
        });
        conflicts.into_iter().for_each(|(cell, c)| mistakes.push(self.contradiction(cell, &c)));
        if let Some(cell) = too_long {
            let message = format!("the name `{}` is too long", self.name(cell));
            let help = format!("shorten tags: a name has at most {} bytes", name::LENGTH_LIMIT);
            mistakes.push(Diagnostic::at(&self.experiment.span, message).help(help));
        }
        self.check_unique(&names, mistakes);
        self.distinct = prefixes.len();
        self.ids = ids;
    }

    /// Ids and hashes of names of the cells from `start` on.
    fn hash_part(
        &self,
        start: usize,
        ids: &mut [Digest],
        names: &mut [(u64, u32)],
    ) -> (Vec<(usize, Conflict)>, Option<usize>) {
        use std::hash::{DefaultHasher, Hasher as _};
        let (mut buffer, mut name) = (Vec::new(), String::new());
        let mut conflicts: Vec<(usize, Conflict)> = Vec::new();
        let mut too_long = None;
        for (offset, (id, hash)) in ids.iter_mut().zip(names).enumerate() {
            let cell = start + offset;
            let row = self.cells.get(cell);
            name::build(&self.scope, row, &mut name);
            if name.len() > name::LENGTH_LIMIT {
                too_long.get_or_insert(cell);
            }
            let mut hasher = DefaultHasher::new();
            hasher.write(name.as_bytes());
            *hash = (hasher.finish(), cell as u32);
            if self.unavailable[cell] != 0 {
                continue;
            }
            match self.column(row).map(|column| column.id(row, &mut buffer)) {
                Some(Ok(computed)) => *id = computed,
                Some(Err(conflict)) if conflicts.iter().all(|(_, known)| *known != conflict) => {
                    conflicts.push((cell, conflict));
                }
                _ => {}
            }
        }
        (conflicts, too_long)
    }

    fn contradiction(&self, cell: usize, conflict: &Conflict) -> Diagnostic {
        let place = |(axis, setting): (usize, usize)| {
            let axis = &self.scope.matrix.axes[axis];
            let setting = &axis.settings[setting];
            (format!("{} = {}", axis.name, setting.name), &setting.span)
        };
        let (second, span) = place(conflict.second);
        let source = self.scope.source(self.cells.get(cell));
        let (first, also) = match conflict.first {
            Some(first) => place(first),
            None => (format!("source {}", source.name), &source.span),
        };
        let message = format!("`{first}` and `{second}` give `{}` different values", conflict.key);
        let help =
            format!("build `{}` has both; exclude it, or give the settings", self.name(cell));
        Diagnostic::at(span, message)
            .also(also, "the other one")
            .help(format!("{help} variables of their own"))
    }

    /// Reports cells that share a name; `names` is sorted by hash.
    fn check_unique(&self, names: &[(u64, u32)], mistakes: &mut Mistakes) {
        const SHOWN: usize = 5;
        let mut found = 0;
        for group in names.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
            for pair in group.windows(2) {
                let (a, b) = (pair[0].1 as usize, pair[1].1 as usize);
                if self.name(a) == self.name(b) {
                    found += 1;
                    if found <= SHOWN {
                        mistakes.push(self.same_name(a, b));
                    }
                }
            }
        }
        if found > SHOWN {
            let message = format!("{} more pairs of cells share a name", found - SHOWN);
            mistakes.push(Diagnostic::at(&self.experiment.span, message));
        }
    }

    fn same_name(&self, a: usize, b: usize) -> Diagnostic {
        let message = format!("two different cells have the name `{}`", self.name(a));
        let (one, two) = (self.settings(a), self.settings(b));
        let axes = self.scope.matrix.axes.iter().zip(one.iter().zip(&two));
        let differing: Vec<_> = axes.filter(|(_, (x, y))| x != y).collect();
        let words = |settings: &[(String, String)]| {
            let shown =
                settings.iter().filter(|s| differing.iter().any(|(axis, _)| axis.name == s.0));
            shown
                .map(|(axis, setting)| format!("{axis} = {setting}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let Some((axis, (_, setting))) = differing.first() else {
            let spans = [a, b].map(|cell| &self.scope.source(self.cells.get(cell)).span);
            return Diagnostic::at(spans[1], message).also(spans[0], "the other source");
        };
        let place = axis.settings.iter().find(|known| known.name == setting.1);
        Diagnostic::at(place.map_or(&axis.span, |setting| &setting.span), message)
            .help(format!("one has {}, the other {}", words(&one), words(&two)))
            .help(format!("settings of axis `{}` need tags that differ", axis.name))
    }

    fn find_base(
        &mut self,
        aliases: &[(String, Vec<u16>)],
        fixed: &[(usize, usize)],
        mistakes: &mut Mistakes,
    ) {
        let Some(base) = &self.experiment.base else { return };
        let (build, config) = base.split_once('.').unwrap_or((base, ""));
        let config = &self.config_now(config, fixed);
        let mut names = vec![base.clone(), format!("{build}.{config}")];
        // A variant that `--set` changed, or that equals another one, is meant by its old name too.
        for (_, row) in aliases.iter().filter(|(name, _)| name == build) {
            let same = |cell: &usize| rows::Same::Build.equal(self.cells.get(*cell), row);
            if let Some(cell) = (0..self.cells.len()).find(same) {
                names.push(format!("{}.{config}", self.name(cell)));
            }
        }
        self.base =
            (0..self.targets.len()).find(|target| names.contains(&self.target_name(*target)));
        if self.base.is_none() {
            let message = format!("base `{base}` is not a target of this experiment");
            // Near names among the first thousands are help enough.
            let known: Vec<String> =
                (0..self.targets.len().min(5_000)).map(|target| self.target_name(target)).collect();
            let item = Diagnostic::at(&self.experiment.base_span, message);
            mistakes.push(item.nearest(base, known.iter().map(String::as_str)));
        }
    }

    /// The part of a target's name behind the build's, after `--set` fixed run-only settings.
    fn config_now(&self, config: &str, fixed: &[(usize, usize)]) -> String {
        let name = |combo: &Combo| {
            let mut name = String::new();
            name::combo(&self.scope, combo, &mut name);
            name[1..].to_owned()
        };
        let written = targets::combos(self.scope.matrix, self.experiment, &[]);
        let Some(mut combo) = written.into_iter().find(|combo| name(combo) == config) else {
            return config.to_owned();
        };
        for (axis, setting) in fixed {
            combo.run[*axis] = *setting;
        }
        name(&combo)
    }
}
