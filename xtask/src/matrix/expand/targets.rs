//! Configs and run-only settings: what makes a target of a build.

use crate::diag::Diagnostic;
use crate::hash::Digest;
use crate::matrix::decode::Mistakes;
use crate::matrix::expand::ids::put;
use crate::matrix::expand::name;
use crate::matrix::expand::rows::SOURCE;
use crate::matrix::expand::scope::Scope;
use crate::matrix::model::{Condition, Experiment, Matrix, RunSetting, ServerOptions, ServerValue};
use crate::matrix::pattern::glob_matches;
use crate::matrix::read::overlay;

/// What is measured: a build with a config and run-only settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `build.config`, then `_tag` for each run-only setting that has one.
    pub name: String,
    /// Index of the build.
    pub build: usize,
    /// The hash of build id and server options; `None` when the build is unavailable.
    pub id: Option<Digest>,
    /// Name of the config.
    pub config: String,
    /// Run-only axis and setting.
    pub run: Vec<(String, String)>,
    /// What the server gets, formulas not yet computed.
    pub server: ServerOptions,
    /// Why it cannot be measured here.
    pub unavailable: Option<String>,
}

/// The hash of a build id and what the server gets, formulas as they are written: one target has
/// one id on hosts of every size.
pub fn target_id(build: &Digest, server: &ServerOptions) -> Digest {
    let mut bytes = b"target 1\0".to_vec();
    bytes.extend(build.0);
    for list in [&server.postgresql, &server.mysqld] {
        bytes.extend((list.len() as u32).to_be_bytes());
        for (key, value) in list {
            put(key.as_bytes(), &mut bytes);
            let (kind, text) = match value {
                ServerValue::Text(text) => (0, text),
                ServerValue::Formula(text) => (1, text),
            };
            bytes.push(kind);
            put(text.as_bytes(), &mut bytes);
        }
    }
    bytes.extend((server.env.len() as u32).to_be_bytes());
    for (key, value) in &server.env {
        put(key.as_bytes(), &mut bytes);
        put(value.as_bytes(), &mut bytes);
    }
    bytes.push(u8::from(server.preload.is_some()));
    put(server.preload.as_deref().unwrap_or_default().as_bytes(), &mut bytes);
    bytes.extend((server.init.len() as u32).to_be_bytes());
    server.init.iter().for_each(|argument| put(argument.as_bytes(), &mut bytes));
    Digest::of(&bytes)
}

/// A config and one setting of every run-only axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combo {
    /// Index of the config.
    pub config: usize,
    /// Index of the setting, by run-only axis.
    pub run: Vec<usize>,
}

impl Combo {
    /// The run-only settings.
    pub fn settings<'m>(&self, matrix: &'m Matrix) -> impl Iterator<Item = &'m RunSetting> {
        let axes = matrix.run_axes.iter().zip(self.run.clone());
        axes.map(|(axis, setting)| &axis.settings[setting])
    }

    /// What the server gets: the config, and over it the run-only settings in axis order.
    pub fn options(&self, matrix: &Matrix) -> ServerOptions {
        let mut options = matrix.configs[self.config].options.clone();
        for setting in self.settings(matrix) {
            overlay(&mut options, &setting.server, !setting.server.init.is_empty());
        }
        options
    }
}

/// More combinations than 16-bit indexes count.
const COMBOS_LIMIT: usize = 60_000;

/// Reports more combinations than can be told apart.
pub fn check_count(experiment: &Experiment, count: usize, mistakes: &mut Mistakes) {
    if count > COMBOS_LIMIT {
        let name = &experiment.name;
        let message = format!("experiment `{name}` combines configs and run-axes in {count} ways");
        let help = format!("at most {COMBOS_LIMIT} can be told apart");
        mistakes.push(Diagnostic::at(&experiment.span, message).help(help));
    }
}

/// The combinations of an experiment; `fixed` are the run-only settings of the command line.
pub fn combos(matrix: &Matrix, experiment: &Experiment, fixed: &[(usize, usize)]) -> Vec<Combo> {
    let mut choices: Vec<Vec<usize>> = vec![vec![0]; matrix.run_axes.len()];
    for (axis, settings) in &experiment.run {
        choices[*axis].clone_from(settings);
    }
    product(&experiment.configs, &choices, fixed)
}

/// The combinations that an `include` rule names.
pub fn included(
    matrix: &Matrix,
    experiment: &Experiment,
    conditions: &[Condition],
    fixed: &[(usize, usize)],
) -> Vec<Combo> {
    let mut choices: Vec<Vec<usize>> = vec![vec![0]; matrix.run_axes.len()];
    let mut configs = &experiment.configs;
    for condition in conditions {
        match condition {
            Condition::RunAxis(axis, settings) => choices[*axis].clone_from(settings),
            Condition::Config(chosen) => configs = chosen,
            _ => {}
        }
    }
    product(configs, &choices, fixed)
}

fn product(configs: &[usize], choices: &[Vec<usize>], fixed: &[(usize, usize)]) -> Vec<Combo> {
    let mut choices = choices.to_vec();
    for (axis, setting) in fixed {
        choices[*axis] = vec![*setting];
    }
    let mut combos: Vec<Combo> =
        configs.iter().map(|config| Combo { config: *config, run: Vec::new() }).collect();
    for settings in &choices {
        let with = |combo: &Combo, setting: &usize| {
            let mut combo = combo.clone();
            combo.run.push(*setting);
            combo
        };
        combos = combos
            .iter()
            .flat_map(|combo| settings.iter().map(move |setting| with(combo, setting)))
            .collect();
    }
    combos
}

/// Whether a combination applies to a build, or the setting because of which it is left out.
pub enum Applies<'m> {
    /// It does.
    Yes,
    /// The config is for another engine or for other builds: nothing to tell.
    No,
    /// A run-only setting does not exist there: axis and setting.
    LeftOut(&'m str, &'m RunSetting),
}

/// Whether a combination applies to the build of a row; `buffer` is used again.
pub fn applies<'m>(
    scope: &Scope<'m>,
    combo: &Combo,
    row: &[u16],
    buffer: &mut String,
) -> Applies<'m> {
    let config = &scope.matrix.configs[combo.config];
    if config.engine != scope.engine(usize::from(row[SOURCE])) {
        return Applies::No;
    }
    if !config.builds.is_empty() {
        name::build(scope, row, buffer);
        if !config.builds.iter().any(|glob| glob_matches(glob, buffer)) {
            return Applies::No;
        }
    }
    for (axis, setting) in scope.matrix.run_axes.iter().zip(combo.settings(scope.matrix)) {
        if setting.when.as_ref().is_some_and(|when| scope.holds(when, row) == Some(false)) {
            return Applies::LeftOut(&axis.name, setting);
        }
    }
    Applies::Yes
}

/// Reports two combinations that would give targets of one name.
pub fn check_names(scope: &Scope<'_>, combos: &[Combo], mistakes: &mut Mistakes) {
    let mut names: Vec<(String, &Combo)> = combos
        .iter()
        .map(|combo| {
            let mut suffix = String::new();
            name::combo(scope, combo, &mut suffix);
            (suffix, combo)
        })
        .collect();
    names.sort_by(|a, b| a.0.cmp(&b.0));
    for pair in names.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        let axes = scope.matrix.run_axes.iter().zip(&pair[0].1.run).zip(&pair[1].1.run);
        let differing =
            axes.filter(|((_, a), b)| a != b).map(|((axis, a), b)| (axis, *a, *b)).next();
        let message = format!("two targets have the name `BUILD{}`", pair[0].0);
        mistakes.push(match differing {
            Some((axis, a, b)) => {
                let (a, b) = (&axis.settings[a], &axis.settings[b]);
                Diagnostic::at(&b.span, message)
                    .also(&a.span, "the other one")
                    .help(format!("settings of run-axis `{}` need tags that differ", axis.name))
            }
            None => {
                let (a, b) = (pair[0].1.config, pair[1].1.config);
                Diagnostic::at(&scope.matrix.configs[b].span, message)
                    .also(&scope.matrix.configs[a].span, "the other one")
                    .help("rename one of the configs")
            }
        });
    }
}
