//! What every verb begins with: the matrix file, the world, the experiment, its expansion.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use fs_err as fs;

use crate::build::recipe;
use crate::cli::Common;
use crate::cmd::select::{Names, Selection};
use crate::diag::{self, Diagnostics, nearest};
use crate::env::Env;
use crate::exit::{Code, WithCode as _, coded};
use crate::matrix::expand::{Expansion, expand};
use crate::matrix::model::{Experiment, Matrix, Workload};
use crate::matrix::read::{self, Known};
use crate::source;
use crate::world::World;

/// All mistakes as one error; in colour on a terminal unless `NO_COLOR` is set (no-color.org).
fn told(mistakes: Diagnostics) -> anyhow::Error {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    mistakes.styled(std::io::stderr().is_terminal() && !plain).into_error()
}

/// The matrix file and the world that it is expanded in.
pub struct Loaded {
    /// The file.
    pub matrix: Matrix,
    /// This machine.
    pub world: World,
}

impl Loaded {
    /// Reads the matrix file.
    ///
    /// # Errors
    /// With [`Code::Input`] and all mistakes when it is wrong.
    pub fn read(env: &Env) -> anyhow::Result<Self> {
        let text = fs::read_to_string(&env.matrix)
            .context("cannot read the matrix file (`--matrix FILE` names another one)")
            .code(Code::Input)?;
        let file = diag::File::new(&env.shown(&env.matrix), &text);
        let known = Known {
            names: catalog::names().collect(),
            find: |name| catalog::find(name).map(|found| found.name),
        };
        let matrix = read::parse(&file, &known).map_err(told)?;
        let for_sources = env.clone();
        let ask = Box::new(move |source: &_| source::facts(&for_sources, source));
        Ok(Self { matrix, world: World::new(env.clone(), ask) })
    }

    /// The experiment of this name, or the default one.
    ///
    /// # Errors
    /// With [`Code::Input`] when there is none; the message names those that there are.
    pub fn experiment(&self, name: Option<&str>) -> anyhow::Result<&Experiment> {
        let names = || self.matrix.experiments.iter().map(|known| known.name.as_str());
        let list = || names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let Some(name) = name.or(self.matrix.default_experiment.as_deref()) else {
            return Err(coded(
                Code::Input,
                format!(
                    "no experiment named and no `default-experiment` in the file; known: {}",
                    list()
                ),
            ));
        };
        self.matrix.experiments.iter().find(|known| known.name == name).ok_or_else(|| {
            let help = nearest(name, names()).unwrap_or_else(|| "the file has none".to_owned());
            coded(Code::Input, format!("no experiment `{name}`; {help}"))
        })
    }

    /// The experiment, expanded.
    ///
    /// # Errors
    /// With [`Code::Input`] and all mistakes that only show now.
    pub fn expand<'m>(
        &'m self,
        experiment: &'m Experiment,
        set: &[String],
    ) -> anyhow::Result<Expansion<'m>> {
        expand(&self.matrix, experiment, set, &self.world, recipe::revision).map_err(told)
    }

    /// What `--only` and `--skip` select of an expansion.
    ///
    /// # Errors
    /// With [`Code::Input`] for a glob that matches nothing.
    pub fn select(&self, common: &Common, expansion: &Expansion<'_>) -> anyhow::Result<Selection> {
        if common.only.is_empty() && common.skip.is_empty() {
            // A large matrix has no need of all its names then.
            return Ok(Selection::default());
        }
        let workload = expansion.experiment.workload.map(|index| &self.matrix.workloads[index]);
        let names = Names {
            builds: (0..expansion.builds()).map(|build| expansion.name(build)).collect(),
            targets: (0..expansion.targets()).map(|target| expansion.target(target).name).collect(),
            microbenchmarks: workload.map_or(Vec::new(), Workload::names),
        };
        Selection::new(&common.only, &common.skip, &names)
    }
}
