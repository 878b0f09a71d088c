//! Compilers: described by `toolchains/<name>.toml`, found on the search path, proven by running
//! them, known by the content of their files; and the flags that they accept.
//!
//! [`provide`] answers for one setting of the axis `toolchain`: by its lock if it has one
//! ([`seal`]), else by what this machine has ([`find`]). [`flags::resolve`] checks options
//! with the compiler itself and replaces `native` by what it stands for on this machine.

pub mod cache;
pub mod cpu;
pub mod elf;
pub mod file;
pub mod flags;
pub mod identity;
pub mod native;
pub mod place;
pub mod probe;
pub mod seal;
pub mod search;
pub mod system;

use std::path::Path;

use crate::env::Env;
use crate::facts::{Toolchain, Unavailable};
use search::Search;

/// The toolchain of a setting: sealed if `toolchains/<name>.lock.toml` says so, else this machine's.
///
/// # Errors
/// When it cannot be had here.
pub fn provide(env: &Env, path: &std::ffi::OsStr, name: &str) -> Result<Toolchain, Unavailable> {
    let lock = seal::read(&env.toolchains(), name);
    match lock.map_err(|reason| Unavailable { reason, hint: None })? {
        Some(lock) => seal::from_lock(env, &lock),
        None => find(&env.toolchains(), &env.cache(), path, name),
    }
}

/// Finds the toolchain `name`, described in the folder `toolchains`, with programs from `path` (the
/// value of a `PATH`). What was found out is kept in `cache` until one of the files changes.
///
/// # Errors
/// When there is no such description, no such compiler, or it does not work as described.
pub fn find(
    toolchains: &Path,
    cache: &Path,
    path: &std::ffi::OsStr,
    name: &str,
) -> Result<Toolchain, Unavailable> {
    let unavailable = |reason: String| Unavailable { reason, hint: None };
    let wanted = file::load(toolchains, name).map_err(unavailable)?;
    let mut search = Search::new(path);
    let cc = search.compiler(&wanted.cc).ok_or_else(|| Unavailable {
        reason: format!("{} not found", wanted.cc.join(" or ")),
        hint: wanted.hint(),
    })?;
    let key = cache::key(&(&wanted, &cc));
    if let Some(known) = cache::toolchain(cache, &key, &mut search) {
        return Ok(known);
    }
    let probed = probe::probe(&wanted, &cc, cache, &mut search)?;
    // A cache that cannot be written costs time, nothing else.
    let _ = cache::keep_toolchain(cache, &key, &probed, &search);
    Ok(probed.toolchain)
}
