//! What conditions may ask of a cell, and where settings hold.

use crate::facts::{Facts, SourceFacts, Toolchain, Unavailable};
use crate::matrix::expand::generate::Fixed;
use crate::matrix::expand::rows::{AXES, SOURCE};
use crate::matrix::expr::Expr;
use crate::matrix::model::{Condition, Engine, Experiment, Family, Matrix, Source, SourceKind};

/// The axis whose settings are compilers.
pub const TOOLCHAIN: &str = "toolchain";
/// The compiler of a matrix without that axis.
pub const DEFAULT_TOOLCHAIN: &str = "gcc";

/// The world, asked once for everything that expanding needs.
pub struct Scope<'m> {
    /// The matrix.
    pub matrix: &'m Matrix,
    arch: String,
    /// The index of the axis [`TOOLCHAIN`].
    pub toolchain_axis: Option<usize>,
    /// By the settings of that axis; one entry without it.
    pub toolchains: Vec<Result<Toolchain, Unavailable>>,
    /// By source; only those of the experiment are asked.
    pub sources: Vec<Option<Result<SourceFacts, Unavailable>>>,
    /// The release of each source, as far as it is known.
    versions: Vec<Option<String>>,
}

impl<'m> Scope<'m> {
    /// Asks for the sources and compilers that the experiment may need and for no others: to find
    /// a compiler means to run it.
    pub fn new(
        matrix: &'m Matrix,
        experiment: &Experiment,
        fixed: &Fixed,
        facts: &dyn Facts,
    ) -> Self {
        let used = sources_of(experiment);
        let toolchain_axis = matrix.axes.iter().position(|axis| axis.name == TOOLCHAIN);
        let compilers = toolchain_axis.map(|axis| settings_of(matrix, experiment, fixed, axis));
        let ask_compiler = |(index, name): (usize, &str)| {
            if compilers.as_ref().is_none_or(|used| used.contains(&index)) {
                return facts.toolchain(name);
            }
            Err(Unavailable { reason: format!("{name} was not asked for"), hint: None })
        };
        let toolchains = match toolchain_axis {
            Some(axis) => {
                let names = matrix.axes[axis].settings.iter().map(|setting| setting.name.as_str());
                names.enumerate().map(ask_compiler).collect()
            }
            None => vec![ask_compiler((0, DEFAULT_TOOLCHAIN))],
        };
        let ask = |(index, source)| used.contains(&index).then(|| facts.source(source));
        let sources: Vec<_> = matrix.sources.iter().enumerate().map(ask).collect();
        let versions = matrix.sources.iter().zip(&sources).map(|(source, facts)| {
            let asked = facts.as_ref().and_then(|facts| facts.as_ref().ok());
            let written = source.version.as_ref().map(ToString::to_string);
            written.or_else(|| asked.map(|facts| facts.version.clone()))
        });
        let versions = versions.collect();
        let arch = facts.arch().to_owned();
        Self { matrix, arch, toolchain_axis, toolchains, sources, versions }
    }

    /// The source of a row.
    pub fn source(&self, row: &[u16]) -> &'m Source {
        &self.matrix.sources[usize::from(row[SOURCE])]
    }

    /// The release of a source, if known.
    pub fn version(&self, source: usize) -> Option<&str> {
        self.versions[source].as_deref()
    }

    /// The index into [`Self::toolchains`] of a row.
    pub fn toolchain(&self, row: &[u16]) -> usize {
        self.toolchain_axis.map_or(0, |axis| usize::from(row[AXES + axis]))
    }

    /// The name of a compiler's setting.
    pub fn toolchain_name(&self, index: usize) -> &'m str {
        self.toolchain_axis
            .map_or(DEFAULT_TOOLCHAIN, |axis| &self.matrix.axes[axis].settings[index].name)
    }

    /// The family of a compiler: as it says itself, else as its name suggests, so that `when` means
    /// the same on a machine that lacks it.
    pub fn family(&self, toolchain: usize) -> Option<Family> {
        match &self.toolchains[toolchain] {
            Ok(toolchain) => Some(toolchain.family),
            Err(_) => {
                let name = self.toolchain_name(toolchain);
                [Family::Gcc, Family::Clang].into_iter().find(|f| name.starts_with(f.name()))
            }
        }
    }

    /// Whether a condition holds for a row.
    pub fn holds(&self, expr: &Expr, row: &[u16]) -> Option<bool> {
        if is_installed(self.source(row)) {
            return self.holds_for_source(expr, usize::from(row[SOURCE]));
        }
        expr.holds(&|key| match key {
            TOOLCHAIN => Some(self.toolchain_name(self.toolchain(row))),
            "family" => self.family(self.toolchain(row)).map(Family::name),
            _ => self.outer(key, usize::from(row[SOURCE])).or_else(|| {
                let axis = self.matrix.axes.iter().position(|axis| axis.name == key)?;
                let setting = usize::from(row[AXES + axis]);
                Some(self.matrix.axes[axis].settings[setting].name.as_str())
            }),
        })
    }

    /// Whether a condition holds for all rows of a source, if the source alone decides.
    fn holds_for_source(&self, expr: &Expr, source: usize) -> Option<bool> {
        expr.holds(&|key| self.outer(key, source))
    }

    fn outer(&self, key: &str, source: usize) -> Option<&str> {
        match key {
            "engine" => Some(self.matrix.sources[source].engine.name()),
            "source" => Some(&self.matrix.sources[source].name),
            "version" => self.version(source),
            "arch" => Some(&self.arch),
            _ => None,
        }
    }

    /// The engine of a source.
    pub fn engine(&self, source: usize) -> Engine {
        self.matrix.sources[source].engine
    }
}

/// The sources of an experiment, and those that its `include` rules bring in.
fn sources_of(experiment: &Experiment) -> Vec<usize> {
    let conditions = experiment.rules.iter().flat_map(|rule| &rule.conditions);
    let included = conditions.filter_map(|condition| match condition {
        Condition::Source(sources) => Some(sources),
        _ => None,
    });
    experiment.sources.iter().chain(included.flatten()).copied().collect()
}

/// The settings of an axis that cells of an experiment may have.
fn settings_of(matrix: &Matrix, experiment: &Experiment, fixed: &Fixed, axis: usize) -> Vec<usize> {
    if let Some((_, setting)) = fixed.build.iter().find(|(of, _)| *of == axis) {
        return vec![*setting];
    }
    // The default: few experiments name every axis everywhere, and it costs one question.
    let mut used = vec![0];
    let named = experiment.rules.iter().flat_map(|rule| &rule.conditions);
    let named = named.filter_map(|condition| match condition {
        Condition::Variant(variants) => Some(variants),
        _ => None,
    });
    for variant in experiment.variants.iter().chain(named.flatten()) {
        let variant = &matrix.variants[*variant];
        used.extend(variant.settings.iter().filter(|(of, _)| *of == axis).map(|(_, s)| *s));
    }
    for (_, settings) in
        experiment.cross.iter().chain(&experiment.zip).flatten().filter(|(of, _)| *of == axis)
    {
        used.extend(settings);
    }
    for condition in experiment.rules.iter().flat_map(|rule| &rule.conditions) {
        if let Condition::Axis(of, settings) = condition
            && *of == axis
        {
            used.extend(settings);
        }
    }
    used
}

/// Whether a source is an installed server, which has no axes.
pub fn is_installed(source: &Source) -> bool {
    matches!(source.kind, SourceKind::Prefix { .. })
}

/// Which condition of a setting is meant.
pub type Which<'m> = fn(&'m crate::matrix::model::Setting) -> Option<&'m Expr>;

/// The conditions of one kind (`when` or `requires`) of all settings, decided as far as the source
/// alone decides them, so that a million cells do not evaluate texts.
pub struct Gate<'m> {
    /// By source and axis; empty for an axis without conditions.
    decided: Vec<Vec<Vec<Option<bool>>>>,
    which: Which<'m>,
}

impl<'m> Gate<'m> {
    /// Decides what can be decided now.
    pub fn new(scope: &Scope<'m>, which: Which<'m>) -> Self {
        let of_axis = |source: usize, axis: usize| {
            let settings = &scope.matrix.axes[axis].settings;
            if settings.iter().all(|setting| which(setting).is_none()) {
                return Vec::new();
            }
            let decide = |expr: Option<&Expr>| {
                expr.map_or(Some(true), |expr| scope.holds_for_source(expr, source))
            };
            settings.iter().map(|setting| decide(which(setting))).collect()
        };
        let axes = scope.matrix.axes.len();
        let decided = (0..scope.matrix.sources.len())
            .map(|source| (0..axes).map(|axis| of_axis(source, axis)).collect())
            .collect();
        Self { decided, which }
    }

    /// The first axis of a row whose setting's condition does not hold. A condition that cannot be
    /// decided holds: the cell is unavailable anyway and says why.
    pub fn closed_by(&self, scope: &Scope<'m>, row: &[u16]) -> Option<usize> {
        if is_installed(scope.source(row)) {
            return None;
        }
        let source = &self.decided[usize::from(row[SOURCE])];
        source.iter().enumerate().position(|(axis, decided)| {
            let setting = usize::from(row[AXES + axis]);
            match decided.get(setting) {
                None | Some(Some(true)) => false,
                Some(Some(false)) => true,
                Some(None) => {
                    let expr = (self.which)(&scope.matrix.axes[axis].settings[setting]);
                    expr.is_some_and(|expr| scope.holds(expr, row) == Some(false))
                }
            }
        })
    }
}
