//! Libraries to preload (a memory allocator, say). The dynamic linker only warns when one is
//! missing and goes on without it (`ld.so(8)`, `LD_PRELOAD`), which would measure the wrong thing
//! under the right name. So a library is found before the start and demanded of the running server.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use crate::exit::{Code, WithCode as _, coded};
use crate::hash::Digest;
use crate::proc::Proc;

/// Where the linker looks besides its cache (`ld.so(8)`), and where Debian has its libraries.
const FOLDERS: [&str; 6] =
    ["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/local/lib"];
/// Debian's packages of well-known allocators, by the beginning of the library's name.
const PACKAGES: [(&str, &str); 3] = [
    ("libjemalloc.", "libjemalloc2"),
    ("libtcmalloc", "libtcmalloc-minimal4"),
    ("libmimalloc.", "libmimalloc2.0"),
];

/// A library as it is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The file itself, links resolved: as the kernel names it in `/proc/<pid>/maps`.
    pub path: PathBuf,
    /// The hash of its content.
    pub digest: Digest,
}

/// Finds what a config's `preload` names: paths, or names as the linker looks for them, separated
/// by `:` or spaces.
///
/// # Errors
/// With [`Code::Environment`] when one is not there or no library; says how to get it.
pub fn find(names: &str) -> anyhow::Result<Vec<Library>> {
    let words = names.split([':', ' ']).filter(|word| !word.is_empty());
    words.map(|name| library(name).code(Code::Environment)).collect()
}

fn library(name: &str) -> anyhow::Result<Library> {
    let path = if name.contains('/') {
        PathBuf::from(name)
    } else {
        // Without the cache (another C library) the folders are what is left.
        let cache = Proc::new("/sbin/ldconfig").arg("-p").read().unwrap_or_default();
        let arch = std::env::consts::ARCH;
        let in_folder = || {
            let folders = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
            folders.into_iter().find(|path| path.is_file())
        };
        cached(&cache, name, arch).or_else(in_folder).ok_or_else(|| missing(name))?
    };
    let path = path.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => missing(name),
        _ => anyhow::Error::new(error).context(format!("cannot preload `{name}`")),
    })?;
    let head = fs_err::read(&path).with_context(|| format!("cannot preload `{name}`"))?;
    ensure!(head.starts_with(b"\x7fELF"), "cannot preload `{}`: it is no library", path.display());
    Ok(Library { digest: Digest::of(&head), path })
}

fn missing(name: &str) -> anyhow::Error {
    let file = name.rsplit('/').next().unwrap_or(name);
    let package = PACKAGES.iter().find(|(begin, _)| file.starts_with(begin));
    let hint = package.map_or_else(
        || "install it, or give its path".to_owned(),
        |(_, package)| format!("on Debian: `apt-get install {package}`"),
    );
    coded(Code::Environment, format!("the library `{name}` to preload is not here; {hint}"))
}

/// The path of a library in the linker's cache as `ldconfig -p` prints it:
/// `\tlibm.so.6 (libc6,x86-64, …) => /lib/x86_64-linux-gnu/libm.so.6`.
fn cached(cache: &str, name: &str, arch: &str) -> Option<PathBuf> {
    let word = match arch {
        "x86_64" => "x86-64",
        "aarch64" => "AArch64",
        other => other,
    };
    cache.lines().find_map(|line| {
        let (what, path) = line.trim().split_once(" => ")?;
        let (found, kind) = what.split_once(' ')?;
        let fits = kind.trim_matches(['(', ')']).split([',', ' ']).any(|kind| kind == word);
        (found == name && fits).then(|| PathBuf::from(path))
    })
}

/// Demands that the process `pid` has every library in its memory.
///
/// # Errors
/// When one is not there, or the kernel does not tell.
pub fn check(libraries: &[Library], pid: u32) -> anyhow::Result<()> {
    if libraries.is_empty() {
        return Ok(());
    }
    let maps = fs_err::read_to_string(format!("/proc/{pid}/maps"))?;
    for library in libraries {
        let path = library.path.to_string_lossy();
        ensure!(
            maps.lines().any(|line| line.ends_with(path.as_ref())),
            "the server runs without `{path}`, which it was told to preload; its log says why"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHE: &str = "3 libs found in cache `/etc/ld.so.cache'\n\
        \tlibz.so.1 (libc6) => /lib/i386-linux-gnu/libz.so.1\n\
        \tlibz.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libz.so.1\n\
        \tlibm.so.6 (libc6,x86-64, OS ABI: Linux 3.2.0) => /lib/x86_64-linux-gnu/libm.so.6\n";

    #[test]
    fn the_cache_is_read_for_this_architecture() {
        let path = |name| cached(CACHE, name, "x86_64");
        assert_eq!(path("libz.so.1"), Some("/lib/x86_64-linux-gnu/libz.so.1".into()));
        assert_eq!(path("libm.so.6"), Some("/lib/x86_64-linux-gnu/libm.so.6".into()));
        assert_eq!(path("libz.so"), None);
        assert_eq!(cached(CACHE, "libz.so.1", "aarch64"), None);
    }

    #[test]
    fn what_is_missing_or_no_library_is_an_error_with_a_hint() {
        let text = |names: &str| {
            let error = find(names).expect_err("refused");
            assert_eq!(crate::exit::code_of(&error), Code::Environment);
            format!("{error:#}")
        };
        let error = text("/nonexistent/libjemalloc.so.2");
        assert!(error.contains("`/nonexistent/libjemalloc.so.2`"), "{error}");
        assert!(error.contains("apt-get install libjemalloc2"), "{error}");
        assert!(text("libno-such-thing.so.9").contains("is not here"));
        let temp = tempfile::NamedTempFile::new().expect("a file");
        assert!(text(&temp.path().to_string_lossy()).contains("is no library"));
        assert_eq!(find("").expect("nothing to find"), []);
    }

    #[test]
    fn a_library_is_found_by_name_and_demanded_of_a_process() {
        // Every Rust program on this platform has the C library in its memory.
        let found = find("libc.so.6").expect("there");
        check(&found, std::process::id()).expect("in memory");
        let own = std::env::current_exe().expect("a path");
        let other = Library { path: "/usr/lib/libother.so".into(), digest: Digest::of(b"x") };
        let error = check(&[other], std::process::id()).expect_err("not in memory");
        assert!(error.to_string().contains("/usr/lib/libother.so"), "{error}");
        assert_eq!(find(&own.to_string_lossy()).expect("an ELF file")[0].path, own);
    }
}
