//! Looking programs up on a search path, remembering each answer so that a cached result can be
//! checked against what the path holds now.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Programs that pass a compilation on to another compiler of the same name.
const LAUNCHERS: [&str; 5] = ["ccache", "sccache", "distcc", "icecc", "buildcache"];

/// A search path and what was looked up on it.
#[derive(Clone, Debug)]
pub struct Search {
    path: OsString,
    /// Each program asked for, with the answer.
    pub lookups: Vec<(String, Option<PathBuf>)>,
}

impl Search {
    /// A search on this value of `PATH`.
    pub fn new(path: &OsStr) -> Self {
        Self { path: path.to_owned(), lookups: Vec::new() }
    }

    /// The first compiler of these names that is not a mere launcher such as ccache, whose own
    /// choice of a compiler would depend on the environment.
    pub fn compiler(&mut self, names: &[String]) -> Option<PathBuf> {
        names.iter().find_map(|name| self.program(name))
    }

    /// The program of this name, launchers passed over; an absolute path stands for itself.
    pub fn program(&mut self, name: &str) -> Option<PathBuf> {
        let found = Self::look(&self.path, name);
        self.lookups.push((name.to_owned(), found.clone()));
        found
    }

    /// Whether each of these look-ups still has the same answer.
    pub fn same(&self, lookups: &[(String, Option<PathBuf>)]) -> bool {
        lookups.iter().all(|(name, found)| Self::look(&self.path, name) == *found)
    }

    fn look(path: &OsStr, name: &str) -> Option<PathBuf> {
        let mut all = which::which_in_all(name, Some(path), "/").ok()?;
        all.find(|found| !is_launcher(found))
    }
}

fn is_launcher(path: &Path) -> bool {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real.file_name().is_some_and(|name| LAUNCHERS.iter().any(|launcher| name == *launcher))
}
