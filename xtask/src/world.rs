//! The world as expanding sees it: this machine's compilers, its processor and the sources, each
//! question answered once per call of the tool.

use std::collections::HashMap;
use std::ffi::OsString;
use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::build::cmake::vocabulary::Vocabulary;
use crate::env::Env;
use crate::facts::{Facts, SourceFacts, Toolchain, Unavailable, Unusable};
use crate::hash::Digest;
use crate::matrix::model::{Options, Source};
use crate::source;
use crate::toolchain::cpu::Cpu;
use crate::toolchain::system::{self, Need};
use crate::toolchain::{self, flags};

/// How the facts of a source are found out.
pub type AskSource = Box<dyn Fn(&Source) -> Result<SourceFacts, Unavailable> + Send + Sync>;

type Memo<K, V, E> = Mutex<HashMap<K, Result<V, E>>>;

/// The real [`Facts`].
pub struct World {
    env: Env,
    path: OsString,
    ask_source: AskSource,
    cpu: OnceLock<Cpu>,
    toolchains: Memo<String, Toolchain, Unavailable>,
    resolved: Memo<(String, String), Options, Unusable>,
    sources: Memo<String, SourceFacts, Unavailable>,
    system: Memo<(Digest, Need), Digest, ()>,
    vocabularies: Memo<String, Arc<Vocabulary>, ()>,
}

impl World {
    /// A world whose compilers are looked for on the caller's `PATH`.
    pub fn new(env: Env, ask_source: AskSource) -> Self {
        Self::with_path(env, ask_source, std::env::var_os("PATH").unwrap_or_default())
    }

    /// A world whose compilers are looked for on this search path.
    pub fn with_path(env: Env, ask_source: AskSource, path: OsString) -> Self {
        Self {
            env,
            path,
            ask_source,
            cpu: OnceLock::new(),
            toolchains: Memo::default(),
            resolved: Memo::default(),
            sources: Memo::default(),
            system: Memo::default(),
            vocabularies: Memo::default(),
        }
    }

    /// This machine's processor.
    pub fn cpu(&self) -> &Cpu {
        self.cpu.get_or_init(Cpu::this)
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("env", &self.env).field("path", &self.path).finish()
    }
}

impl Facts for World {
    fn arch(&self) -> &str {
        std::env::consts::ARCH
    }

    fn toolchain(&self, name: &str) -> Result<Toolchain, Unavailable> {
        once(&self.toolchains, name.to_owned(), || toolchain::provide(&self.env, &self.path, name))
    }

    fn resolve(&self, toolchain: &Toolchain, options: &Options) -> Result<Options, Unusable> {
        let key = (
            format!("{} {}", toolchain.name, toolchain.digest),
            serde_json::to_string(options).map_err(|error| error.to_string())?,
        );
        once(&self.resolved, key, || {
            // Before a compiler is asked: without a linker for it, -flto is refused as well.
            flags::lack(toolchain, options, self.cpu()).map_or(Ok(()), |lack| {
                Err(Unusable::Unavailable(Unavailable { reason: lack, hint: None }))
            })?;
            Ok(flags::resolve(toolchain, options, self.cpu(), &self.env.cache())?)
        })
    }

    fn system(&self, toolchain: &Toolchain, needs: &[Need]) -> Vec<(String, Digest)> {
        let known = |need: &Need| {
            let key = (toolchain.digest, *need);
            let ask = || system::identify(*need, toolchain, &self.env.cache()).ok_or(());
            Some((need.name(), once(&self.system, key, ask).ok()?))
        };
        needs.iter().filter_map(known).collect()
    }

    fn source(&self, source: &Source) -> Result<SourceFacts, Unavailable> {
        once(&self.sources, source.name.clone(), || (self.ask_source)(source))
    }

    fn vocabulary(&self, source: &Source, facts: &SourceFacts) -> Option<Arc<Vocabulary>> {
        let read = || {
            let (path, digest) = source::unpacked(&self.env, source, facts).ok_or(())?;
            // A tree that cannot be read is made again before it is built.
            source::words::of_tree(&self.env, &path, digest).map(Arc::new).map_err(|_| ())
        };
        once(&self.vocabularies, source.name.clone(), read).ok()
    }
}

/// The remembered answer, or a fresh one. Two threads may ask the same at once; both answers are
/// the same, and nobody waits for another's question.
fn once<K: Hash + Eq, V: Clone, E: Clone>(
    memo: &Memo<K, V, E>,
    key: K,
    ask: impl FnOnce() -> Result<V, E>,
) -> Result<V, E> {
    // A panic elsewhere leaves the table whole: an entry is inserted at once or not at all.
    let table = || memo.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = table().get(&key) {
        return known.clone();
    }
    let answer = ask();
    table().insert(key, answer.clone());
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    use crate::matrix::model::{Engine, SourceKind};
    use crate::progress::Reporter;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn world(work: &Path, asked: Arc<AtomicUsize>) -> World {
        let env = Env {
            root: Path::new(env!("CARGO_MANIFEST_DIR")).join(".."),
            matrix: work.join("matrix.toml"),
            results: work.join("results"),
            work: work.to_owned(),
            sources: None,
            jobs: 1,
            keep_going: true,
            reporter: Reporter::new(true),
        };
        let facts = SourceFacts {
            version: "15.18".to_owned(),
            digest: Digest::of(b"tree"),
            patches: Vec::new(),
        };
        let ask = Box::new(move |_: &Source| {
            asked.fetch_add(1, Ordering::Relaxed);
            Ok(facts.clone())
        });
        World::with_path(env, ask, crate::proc::PATH.into())
    }

    #[test]
    fn answers_once_and_from_several_threads() {
        let work = tempfile::tempdir().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let world = world(work.path(), asked.clone());
        let source = Source {
            name: "pg".to_owned(),
            engine: Engine::Postgres,
            version: None,
            kind: SourceKind::Prefix { path: "/usr".into() },
            patches: Vec::new(),
            options: Options::default(),
            span: 0..0,
        };
        assert_eq!(world.source(&source), world.source(&source));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let gcc = world.toolchain("gcc").unwrap_or_else(|e| panic!("this test needs gcc: {e}"));
        let options = Options { cflags: vec!["-O2".to_owned()], ..Options::default() };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| assert_eq!(world.resolve(&gcc, &options), Ok(options.clone())));
            }
        });
        // From memory now: the cache on disk is gone.
        std::fs::remove_dir_all(work.path().join("cache")).unwrap();
        assert_eq!(world.toolchain("gcc").as_ref(), Ok(&gcc));
        // What the machine lacks is no mistake of the matrix.
        let mut broken = gcc.clone();
        broken.details.lto_refusal = Some("no matching ar; install with `x`".to_owned());
        let lto = Options { cflags: vec!["-flto=auto".to_owned()], ..Options::default() };
        let Err(Unusable::Unavailable(lack)) = world.resolve(&broken, &lto) else {
            panic!("it is unavailable");
        };
        let reason = "link-time optimisation with gcc: no matching ar; install with `x`";
        assert_eq!(lack.reason, reason);
        let system = world.system(&gcc, &[Need::Library("m"), Need::Library("no-such-thing")]);
        assert_eq!(system.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["libm"]);
        let bogus = Options { cflags: vec!["-fbogus".to_owned()], ..Options::default() };
        assert!(matches!(world.resolve(&gcc, &bogus), Err(Unusable::Refused(_))));
        let missing = world.toolchain("gcc-99").unwrap_err();
        assert_eq!(missing.reason, "gcc-99 not found");
        assert!(!world.arch().is_empty());
    }
}
