//! Build ids: SHA-256 over everything that determines the bytes, and nothing else.
//!
//! The hashed text has no ambiguity: every text and list is preceded by its length. It holds, in
//! this order: the recipe's revision, the digest of the source tree, the digest of the compiler,
//! the resolved options list by list, and what the build takes from the system, if anything. Names
//! of sources, axes, settings and variants are not in it, so renaming, or adding an axis that adds
//! no option, changes no id.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use crate::build::cmake::known::{self, Fault};
use crate::facts::{Facts, SourceFacts, Unavailable, Unusable};
use crate::hash::Digest;
use crate::matrix::expand::rows::{AXES, SOURCE};
use crate::matrix::expand::scope::{Scope, is_installed};
use crate::matrix::model::{Engine, Family, Options, Setting, Source};
use crate::toolchain::system;

/// Gives the revision of an engine's recipe; raised when the recipe changes the bytes.
pub type Recipe = fn(Engine) -> &'static str;

/// The recipe's revision of an installed server, which nothing makes.
pub const INSTALLED: &str = "installed";

/// The lists of [`Options`], and behind them what is taken from the system.
const LISTS: usize = 7;

/// The id of a build from its parts; the definition that the fast way below must agree with.
pub fn build_id(
    recipe: &str,
    source: &Digest,
    toolchain: Option<&Digest>,
    options: &Options,
    system: &[(String, Digest)],
) -> Digest {
    let mut hasher = prefix(recipe, source, toolchain);
    let part = Part::new(options.clone(), system.to_vec());
    let mut buffer = Vec::new();
    serialise(&[&part], &mut buffer);
    hasher.update(&buffer);
    Digest(hasher.finalize().into())
}

fn prefix(recipe: &str, source: &Digest, toolchain: Option<&Digest>) -> Sha256 {
    let mut bytes = b"build 1\0".to_vec();
    put(recipe.as_bytes(), &mut bytes);
    bytes.extend(source.0);
    bytes.push(u8::from(toolchain.is_some()));
    bytes.extend(toolchain.iter().flat_map(|digest| digest.0));
    Sha256::new_with_prefix(bytes)
}

/// Appends a text behind its length.
pub fn put(text: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend((text.len() as u32).to_be_bytes());
    bytes.extend(text);
}

/// The resolved options of one setting, serialised once and copied into each cell's text.
#[derive(Clone, Debug)]
pub struct Part {
    /// The options.
    pub options: Options,
    /// What they take from the system: name and hash.
    pub system: Vec<(String, Digest)>,
    lists: [(u32, Vec<u8>); LISTS],
}

impl Part {
    fn new(options: Options, system: Vec<(String, Digest)>) -> Self {
        fn texts(list: &[String]) -> (u32, Vec<u8>) {
            let mut bytes = Vec::new();
            list.iter().for_each(|text| put(text.as_bytes(), &mut bytes));
            (list.len() as u32, bytes)
        }
        fn pairs(list: &[(String, String)]) -> (u32, Vec<u8>) {
            let mut bytes = Vec::new();
            for (key, value) in list {
                put(key.as_bytes(), &mut bytes);
                put(value.as_bytes(), &mut bytes);
            }
            (list.len() as u32, bytes)
        }
        let hashes: Vec<_> = system.iter().map(|(n, hash)| (n.clone(), hash.to_string())).collect();
        let lists = [
            texts(&options.cflags),
            texts(&options.cxxflags),
            texts(&options.ldflags),
            texts(&options.configure),
            pairs(&options.cmake),
            pairs(&options.env),
            pairs(&hashes),
        ];
        Self { options, system, lists }
    }
}

fn serialise(parts: &[&Part], buffer: &mut Vec<u8>) {
    for list in 0..LISTS {
        let count: u32 = parts.iter().map(|part| part.lists[list].0).sum();
        // Nothing follows the last list, so that it may be left out when it is empty.
        if count > 0 || list + 1 < LISTS {
            buffer.extend(count.to_be_bytes());
        }
        if count > 0 {
            parts.iter().for_each(|part| buffer.extend_from_slice(&part.lists[list].1));
        }
    }
}

/// What all cells of one source and one compiler share.
pub struct Column {
    prefix: Sha256,
    /// The options of the source itself.
    source: Part,
    /// By axis and setting; `None` where no cell needs it.
    parts: Vec<Vec<Option<Part>>>,
    /// Two parts set one variable: the cells are put together one by one.
    overlaps: bool,
}

/// Two settings that give one variable different values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conflict {
    /// The variable: of CMake or of the environment.
    pub key: String,
    /// The first one's place: axis and setting, `None` for the source's own options.
    pub first: Option<(usize, usize)>,
    /// The second one's place.
    pub second: (usize, usize),
}

/// A setting (axis, setting) or a source's own options.
pub type Place = Option<(usize, usize)>;

/// A setting whose flags the compiler refuses, and what the compiler says.
pub type Refusal = (Place, String);

/// What resolving found besides the options.
#[derive(Default)]
pub struct Found {
    /// Mistakes.
    pub refusals: Vec<Refusal>,
    /// More mistakes: CMake variables of which a source (its index) has no use.
    pub faults: Vec<(usize, Place, Fault)>,
    /// By source and compiler: options for which this machine lacks something.
    pub lacks: HashMap<(usize, usize), Vec<(Place, Unavailable)>>,
}

impl Column {
    fn parts_of<'a>(&'a self, row: &'a [u16]) -> impl Iterator<Item = (usize, usize, &'a Part)> {
        self.parts.iter().zip(&row[AXES..]).enumerate().filter_map(|(axis, (parts, setting))| {
            let setting = usize::from(*setting);
            parts[setting].as_ref().map(|part| (axis, setting, part))
        })
    }

    /// The options of a cell: the source's, then each setting's in the order of the axes. A
    /// variable that is set twice to one value is given once.
    ///
    /// # Errors
    /// The first two settings that contradict each other.
    pub fn options(&self, row: &[u16]) -> Result<Options, Conflict> {
        let mut all = self.source.options.clone();
        for (axis, setting, part) in self.parts_of(row) {
            if !self.overlaps {
                all.extend(&part.options);
                continue;
            }
            let mut own = part.options.clone();
            for (old, new) in [(&all.cmake, &mut own.cmake), (&all.env, &mut own.env)] {
                for (key, value) in new.iter() {
                    if old.iter().any(|(known, set)| known == key && set != value) {
                        let first = self.setter(row, key, axis);
                        let second = (axis, setting);
                        return Err(Conflict { key: key.clone(), first, second });
                    }
                }
                new.retain(|pair| !old.contains(pair));
            }
            all.extend(&own);
        }
        Ok(all)
    }

    /// What a cell takes from the system: for the source, then for each setting.
    pub fn system(&self, row: &[u16]) -> Vec<(String, Digest)> {
        let parts = std::iter::once(&self.source).chain(self.parts_of(row).map(|(_, _, p)| p));
        parts.flat_map(|part| part.system.iter().cloned()).collect()
    }

    fn setter(&self, row: &[u16], key: &str, before: usize) -> Option<(usize, usize)> {
        let sets = |options: &Options| {
            options.cmake.iter().chain(&options.env).any(|(known, _)| known == key)
        };
        self.parts_of(row)
            .find(|(axis, _, part)| *axis < before && sets(&part.options))
            .map(|(axis, setting, _)| (axis, setting))
    }

    /// The id of a cell; `buffer` is used again.
    ///
    /// # Errors
    /// As [`Self::options`].
    pub fn id(&self, row: &[u16], buffer: &mut Vec<u8>) -> Result<Digest, Conflict> {
        let mut hasher = self.prefix.clone();
        buffer.clear();
        if self.overlaps {
            serialise(&[&Part::new(self.options(row)?, self.system(row))], buffer);
        } else {
            let mut parts: [&Part; 64] = [&self.source; 64];
            let mut count = 1;
            for (_, _, part) in self.parts_of(row).filter(|(_, _, p)| !p.options.is_empty()) {
                if count == parts.len() {
                    // More axes than anyone has: the slow way gives the same.
                    buffer.clear();
                    serialise(&[&Part::new(self.options(row)?, self.system(row))], buffer);
                    hasher.update(&*buffer);
                    return Ok(Digest(hasher.finalize().into()));
                }
                parts[count] = part;
                count += 1;
            }
            serialise(&parts[..count], buffer);
        }
        hasher.update(&*buffer);
        Ok(Digest(hasher.finalize().into()))
    }
}

/// All columns of an expansion.
pub struct Columns {
    by_source: Vec<Vec<Option<Column>>>,
}

impl Columns {
    /// Resolves the options of every setting that an available cell has, once per compiler.
    /// `used` holds, by source and compiler, the settings in use, by axis and setting.
    pub fn new(
        scope: &Scope<'_>,
        used: &HashMap<(usize, usize), Vec<Vec<bool>>>,
        facts: &dyn Facts,
        recipe: Recipe,
        found: &mut Found,
    ) -> Self {
        let compilers = scope.toolchains.len();
        let mut by_source: Vec<Vec<Option<Column>>> = Vec::new();
        for source in 0..scope.matrix.sources.len() {
            let of_compiler = |compiler: usize| {
                let used = used.get(&(source, compiler))?;
                column(scope, source, compiler, used, facts, recipe, found)
            };
            by_source.push((0..compilers).map(of_compiler).collect());
        }
        Self { by_source }
    }

    /// The column of a row; `None` when source or compiler are not there.
    pub fn of(&self, scope: &Scope<'_>, row: &[u16]) -> Option<&Column> {
        self.by_source[usize::from(row[SOURCE])][scope.toolchain(row)].as_ref()
    }
}

fn column(
    scope: &Scope<'_>,
    source: usize,
    compiler: usize,
    used: &[Vec<bool>],
    facts: &dyn Facts,
    recipe: Recipe,
    found: &mut Found,
) -> Option<Column> {
    let model = &scope.matrix.sources[source];
    let source_facts = scope.sources[source].as_ref()?.as_ref().ok()?;
    if is_installed(model) {
        let prefix = prefix(INSTALLED, &source_facts.digest, None);
        let empty = Part::new(Options::default(), Vec::new());
        return Some(Column { prefix, source: empty, parts: Vec::new(), overlaps: false });
    }
    let toolchain = scope.toolchains[compiler].as_ref().ok()?;
    let of_source = system::of_source(model);
    let mut resolve = |options: Options, place: Option<(usize, usize)>| {
        let faults = faults(model, source_facts, &options, facts).into_iter();
        for fault in faults.map(|fault| (source, place, fault)) {
            // Each compiler has its own column.
            if !found.faults.contains(&fault) {
                found.faults.push(fault);
            }
        }
        let needs = match place {
            None => of_source.clone(),
            Some(_) => {
                let mut needs = system::of_options(model.engine, &options, &[]);
                needs.retain(|need| !of_source.contains(need));
                needs
            }
        };
        let system = facts.system(toolchain, &needs);
        if options.is_empty() {
            return Part::new(options, system);
        }
        match facts.resolve(toolchain, &options) {
            Ok(resolved) => Part::new(resolved, system),
            Err(Unusable::Refused(words)) => {
                let refusal = (place, format!("`{}` refuses: {words}", toolchain.name));
                if !found.refusals.contains(&refusal) {
                    found.refusals.push(refusal);
                }
                Part::new(options, system)
            }
            // As written: no cell with it gets an id.
            Err(Unusable::Unavailable(lack)) => {
                found.lacks.entry((source, compiler)).or_default().push((place, lack));
                Part::new(options, system)
            }
        }
    };
    let own = resolve(crate::build::recipe::own_options(model), None);
    let mut parts = Vec::new();
    for (axis, used) in used.iter().enumerate() {
        let settings = &scope.matrix.axes[axis].settings;
        let of_setting = |(setting, used): (usize, &bool)| {
            let options = options_for(&settings[setting], model.engine, Some(toolchain.family));
            used.then(|| resolve(options, Some((axis, setting))))
        };
        parts.push(used.iter().enumerate().map(of_setting).collect());
    }
    let prefix = prefix(recipe(model.engine), &source_facts.digest, Some(&toolchain.digest));
    let overlaps = overlaps(&own, &parts);
    Some(Column { prefix, source: own, parts, overlaps })
}

/// What is wrong with the CMake variables of a setting or of a source itself. The tree's words are
/// asked for only where there are variables.
fn faults(
    source: &Source,
    source_facts: &SourceFacts,
    options: &Options,
    facts: &dyn Facts,
) -> Vec<Fault> {
    if options.cmake.is_empty() {
        return Vec::new();
    }
    let words = facts.vocabulary(source, source_facts);
    let patched = !source_facts.patches.is_empty();
    known::faults(source, &options.cmake, patched, words.as_deref())
}

/// What a setting adds for this engine and compiler, as written.
pub fn options_for(setting: &Setting, engine: Engine, family: Option<Family>) -> Options {
    let mut options = setting.common.clone();
    for special in &setting.special {
        let engine_fits = special.engine.is_none_or(|wanted| wanted == engine);
        let family_fits = special.family.is_none_or(|wanted| Some(wanted) == family);
        if engine_fits && family_fits {
            // The special value of a variable stands for the common one.
            let own = &special.options;
            options.cmake.retain(|(key, _)| own.cmake.iter().all(|(special, _)| special != key));
            options.env.retain(|(key, _)| own.env.iter().all(|(special, _)| special != key));
            options.extend(own);
        }
    }
    options
}

/// Whether two axes (or the source and an axis, or one setting twice) set one variable.
fn overlaps(own: &Part, parts: &[Vec<Option<Part>>]) -> bool {
    // Who sets a variable: 0 the source, else the axis, counted from 1.
    let mut setters: HashMap<(bool, &str), usize> = HashMap::new();
    let all = parts
        .iter()
        .enumerate()
        .flat_map(|(axis, settings)| settings.iter().flatten().map(move |part| (axis + 1, part)));
    for (setter, part) in std::iter::once((0, own)).chain(all) {
        let cmake = part.options.cmake.iter().map(|(key, _)| (true, key.as_str()));
        let env = part.options.env.iter().map(|(key, _)| (false, key.as_str()));
        let mut keys: Vec<(bool, &str)> = cmake.chain(env).collect();
        keys.sort_unstable();
        let is_repeated = keys.windows(2).any(|pair| pair[0] == pair[1]);
        if is_repeated || keys.into_iter().any(|k| *setters.entry(k).or_insert(setter) != setter) {
            return true;
        }
    }
    false
}
