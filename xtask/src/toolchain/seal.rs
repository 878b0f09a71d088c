//! Sealed toolchains: a compiler with everything that it needs, by exact packages, in a root folder
//! of its own. `toolchains/<name>.lock.toml` says which; with such a file the setting `<name>` is
//! this very compiler, on every machine. docs/toolchains.md tells how it works and where other
//! package managers would come in.

mod closure;
mod deb;
mod fetch;
pub mod lock;
pub mod root;
mod unpack;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fs_err as fs;

use crate::build::run::NO_NAMESPACE;
use crate::doctor::probe::try_namespaces;
use crate::env::Env;
use crate::exit::{Code, WithCode as _, coded};
use crate::facts::{Sealed, Toolchain, Unavailable};
use crate::hash::Digest;
use crate::host::os;
use crate::source::apt;
use crate::toolchain::file::{self, Wanted};
use crate::toolchain::place::Place;
use crate::toolchain::search::Search;
use crate::toolchain::{cache, probe};
use lock::{Lock, Programs};

/// What came of sealing.
#[derive(Debug)]
pub struct Report {
    /// The lock as it was written.
    pub lock: Lock,
    /// The toolchain that it makes.
    pub toolchain: Toolchain,
    /// Where the lock stands.
    pub path: PathBuf,
    /// What changed against the lock that was there; `None` if there was none.
    pub changes: Option<Vec<String>>,
}

/// The lock file of a setting, there or not.
pub fn path(toolchains: &Path, name: &str) -> PathBuf {
    toolchains.join(format!("{name}{}", lock::SUFFIX))
}

/// The lock of a setting, if it has one.
///
/// # Errors
/// When there is one that cannot be read: what is wrong with it.
pub fn read(toolchains: &Path, name: &str) -> Result<Option<Lock>, String> {
    let path = path(toolchains, name);
    if !path.is_file() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    Lock::parse(&text, &format!("toolchains/{name}{}", lock::SUFFIX), name).map(Some)
}

/// Resolves the packages of a toolchain, makes it, proves it, and writes its lock.
///
/// # Errors
/// When the setting is not described, its packages cannot be resolved or had, or what they make is
/// not what the description wants.
pub fn seal(env: &Env, name: &str, archives: &[String]) -> anyhow::Result<Report> {
    let toolchains = env.toolchains();
    if name.contains('/') {
        // It becomes the name of a file.
        return Err(coded(Code::Input, format!("`{name}` is no name of a setting")));
    }
    let wanted = file::load(&toolchains, name).map_err(|reason| coded(Code::Input, reason))?;
    for archive in archives {
        lock::check_archive(archive).map_err(|reason| coded(Code::Input, reason))?;
    }
    let old = read(&toolchains, name).unwrap_or_else(|reason| {
        env.reporter.warn(format!("the lock that is there is replaced: {reason}"));
        None
    });
    usable()?;
    let task = env.reporter.task(format!("seal {name}"), None);
    let release = os::release();
    let field = |key: &str| os::field(&release, key).unwrap_or_default();
    let packages = wanted.sealed_packages().map_err(|reason| coded(Code::Environment, reason))?;
    let mut lock = Lock {
        schema: lock::SCHEMA,
        name: name.to_owned(),
        family: wanted.family,
        version: String::new(),
        sealed: jiff::Timestamp::now().strftime("%F").to_string(),
        distribution: field("ID"),
        codename: field("VERSION_CODENAME"),
        architecture: architecture()?.to_owned(),
        archives: archives.to_vec(),
        programs: Programs {
            cc: wanted.cc.clone(),
            cxx: wanted.cxx.clone(),
            ar: wanted.ar.clone(),
            ranlib: wanted.ranlib.clone(),
            nm: wanted.nm.clone(),
            lto_linker: wanted.lto_linker.clone(),
        },
        packages: closure::resolve(env, &task, &packages)?,
    };
    lock.check().map_err(|reason| coded(Code::Environment, reason))?;
    task.finish(format!("resolved: {}", lock.size()));
    let proven = prove(env, &lock, &wanted).code(Code::Environment)?;
    lock.version.clone_from(&proven.version);
    let path = path(&toolchains, name);
    let draft = toolchains.join(format!(".{name}.{}", std::process::id()));
    fs::write(&draft, lock.text())?;
    fs::rename(draft, &path)?;
    let changes = old.map(|old| lock.changes(&old));
    let toolchain = from_lock(env, &lock).map_err(|lack| coded(Code::Environment, lack))?;
    Ok(Report { lock, toolchain, path, changes })
}

/// The toolchain of a lock, made if it is not there yet, and proven. Needs no file below
/// `toolchains/`, so that a lock out of a manifest does.
///
/// # Errors
/// Why it cannot be had or used on this machine.
pub fn from_lock(env: &Env, lock: &Lock) -> Result<Toolchain, Unavailable> {
    let made = || -> anyhow::Result<Toolchain> {
        lock.check().map_err(anyhow::Error::msg)?;
        usable()?;
        prove(env, lock, &Wanted::of_lock(lock))
    };
    made().map_err(|error| Unavailable {
        reason: format!("the sealed toolchain `{}`: {error:#}", lock.name),
        hint: None,
    })
}

/// The headline for a built server that does not start on this machine.
pub fn does_not_run(toolchain: Option<&Toolchain>) -> String {
    let Some(sealed) = toolchain.and_then(|found| found.sealed.as_ref()) else {
        return "the built server does not run".to_owned();
    };
    let libc = sealed.lock.packages.iter().find(|package| package.name == "libc6");
    format!(
        "the built server does not run on this machine; it was linked in the sealed root with the \
         C library {} and the libraries there, and needs ones here that are no older",
        libc.map_or("of its lock", |package| package.version.as_str())
    )
}

/// Makes the root of a lock and runs the compiler in it.
fn prove(env: &Env, lock: &Lock, wanted: &Wanted) -> anyhow::Result<Toolchain> {
    let here = architecture()?;
    anyhow::ensure!(
        lock.architecture == here,
        "it is made of packages for {}, this machine is {here}",
        lock.architecture
    );
    let root = root::ensure(env, lock)?;
    let cache = env.cache();
    let key = cache::key(&("sealed", root::REVISION, wanted, lock.digest(), &root));
    let known = cache::get::<Toolchain>(&cache, "sealed", &key);
    let mut toolchain = match known {
        // The root was just found untouched.
        Some(known) => known,
        None => {
            let place = Place::sealed(&root);
            let mut search = Search::sealed(&place);
            let cc = search.compiler(&wanted.cc);
            let cc = cc.with_context(|| format!("{} is not in it", wanted.cc.join(" or ")))?;
            let probed = probe::probe(wanted, &cc, &cache, &mut search);
            let mut toolchain =
                probed.map_err(|lack| anyhow::anyhow!("{}", lack.reason))?.toolchain;
            toolchain.digest = digest(&toolchain, lock);
            // A cache that cannot be written costs time, nothing else.
            let _ = cache::put(&cache, "sealed", &key, &toolchain);
            toolchain
        }
    };
    toolchain.sealed = Some(Sealed { lock: lock.clone(), root });
    Ok(toolchain)
}

/// What identifies a sealed toolchain: its packages by content and which of its programs are used.
/// Where the root lies and where the packages came from have no say.
fn digest(toolchain: &Toolchain, lock: &Lock) -> Digest {
    let mut lines = vec![format!(
        "sealed {} {} {} {} {}",
        root::REVISION,
        toolchain.family.name(),
        toolchain.version,
        toolchain.target,
        lock.digest()
    )];
    lines.extend(toolchain.tools.iter().map(|(role, path)| format!("{role} {}", path.display())));
    Digest::of(lines.join("\n").as_bytes())
}

/// Whether this machine allows a process a root folder of its own.
fn usable() -> anyhow::Result<()> {
    let refused = if std::env::var_os(NO_NAMESPACE).is_some() {
        Err(format!("{NO_NAMESPACE} is set"))
    } else {
        try_namespaces()
    };
    refused.map_err(|reason| {
        let text = format!(
            "a sealed toolchain runs in a root folder of its own, for which a mount namespace is \
             needed: {reason}; `cargo xtask doctor` tells how to allow it"
        );
        coded(Code::Environment, text)
    })
}

fn architecture() -> anyhow::Result<&'static str> {
    apt::architecture().with_context(|| {
        format!("no distribution's name for the architecture {}", std::env::consts::ARCH)
    })
}
