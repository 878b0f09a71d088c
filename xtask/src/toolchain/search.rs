//! Looking programs up on a search path, remembering each answer so that a cached result can be
//! checked against what the path holds now.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::proc::PATH;
use crate::toolchain::place::Place;

/// Programs that pass a compilation on to another compiler of the same name.
const LAUNCHERS: [&str; 5] = ["ccache", "sccache", "distcc", "icecc", "buildcache"];

/// A search path and what was looked up on it.
#[derive(Clone, Debug)]
pub struct Search {
    place: Place,
    path: OsString,
    /// Each program asked for, with the answer.
    pub lookups: Vec<(String, Option<PathBuf>)>,
}

impl Search {
    /// A search on this machine, on this value of `PATH`.
    pub fn new(path: &OsStr) -> Self {
        Self { place: Place::here(), path: path.to_owned(), lookups: Vec::new() }
    }

    /// A search in a sealed root: no folder of the caller has a say.
    pub fn sealed(place: &Place) -> Self {
        Self { place: place.clone(), path: PATH.into(), lookups: Vec::new() }
    }

    /// Where is searched.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The first compiler of these names that is not a mere launcher such as ccache, whose own
    /// choice of a compiler would depend on the environment.
    pub fn compiler(&mut self, names: &[String]) -> Option<PathBuf> {
        names.iter().find_map(|name| self.program(name))
    }

    /// The program of this name, launchers passed over; an absolute path stands for itself.
    pub fn program(&mut self, name: &str) -> Option<PathBuf> {
        let found = self.look(name);
        self.lookups.push((name.to_owned(), found.clone()));
        found
    }

    /// Whether each of these look-ups still has the same answer.
    pub fn same(&self, lookups: &[(String, Option<PathBuf>)]) -> bool {
        lookups.iter().all(|(name, found)| self.look(name) == *found)
    }

    fn look(&self, name: &str) -> Option<PathBuf> {
        let all = self.place.which_all(name, &self.path);
        all.into_iter().find(|found| !self.is_launcher(found))
    }

    fn is_launcher(&self, path: &Path) -> bool {
        let real = self.place.real(path);
        real.file_name().is_some_and(|name| LAUNCHERS.iter().any(|launcher| name == *launcher))
    }
}
