//! Proves a compiler by running it: family, version and target as it tells them and as a program
//! that it built tells them, the tools that belong to it, and link-time optimisation.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use fs_err as fs;

use crate::facts::{Toolchain, ToolchainDetails, Unavailable};
use crate::hash::Digest;
use crate::matrix::model::Family;
use crate::toolchain::cache::Stamp;
use crate::toolchain::file::Wanted;
use crate::toolchain::place::Place;
use crate::toolchain::search::Search;
use crate::toolchain::{elf, identity};

/// A compiler that has not answered by then does not work.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Prints the version of the compiler that built it: no script can answer this in its place.
const PROGRAM: &str = r#"
#include <stdio.h>
int main(void) {
#ifdef __clang__
    printf("clang %d.%d.%d\n", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
    printf("gcc %d.%d.%d\n", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
    return 0;
}
"#;

/// A toolchain and the stamps of all files that were looked at.
#[derive(Clone, Debug)]
pub struct Probed {
    /// What was found.
    pub toolchain: Toolchain,
    /// While these hold, the answer holds.
    pub stamps: Vec<Stamp>,
}

/// Examines the compiler `cc`; small programs are built below `scratch`.
///
/// # Errors
/// When it is not what `wanted` describes, or does not build a program that runs.
pub fn probe(
    wanted: &Wanted,
    cc: &Path,
    scratch: &Path,
    search: &mut Search,
) -> Result<Probed, Unavailable> {
    try_probe(wanted, cc, scratch, search).map_err(|error| Unavailable {
        reason: format!("`{}` does not serve as {}: {error:#}", cc.display(), wanted.name),
        hint: None,
    })
}

fn try_probe(
    wanted: &Wanted,
    cc: &Path,
    scratch: &Path,
    search: &mut Search,
) -> anyhow::Result<Probed> {
    let place = search.place().clone();
    let ask = |question: &str| place.proc(cc).arg(question).timeout(PATIENCE).read();
    ask("--version")?;
    let family = family(&place, cc)?;
    ensure!(
        family == wanted.family,
        "it is {}, {} wants {}",
        family.name(),
        wanted.file,
        wanted.family.name()
    );
    let version = match family {
        Family::Gcc => ask("-dumpfullversion")?,
        Family::Clang => ask("-dumpversion")?,
    };
    if let Some(wish) = wanted.objection(&version) {
        anyhow::bail!("it says {version}, {} wants {wish}", wanted.file);
    }
    fs::create_dir_all(scratch)?;
    let folder = tempfile::Builder::new().prefix("probe-").tempdir_in(scratch)?;
    let claim = format!("{} {version}", family.name());
    build_and_run(&place, cc, "c", folder.path(), &claim)
        .context("it builds no C program that runs")?;
    let mut details = ToolchainDetails::default();
    if !elf::is_elf(&place.host(cc).canonicalize()?) {
        details.notes.push(format!("`{}` is a script around a compiler", cc.display()));
    }
    let mut tools = vec![("cc".to_owned(), cc.to_owned())];
    match search.compiler(&wanted.cxx) {
        None => details.notes.push(format!("{} not found: no C++", wanted.cxx.join(" or "))),
        Some(cxx) => match build_and_run(&place, &cxx, "c++", folder.path(), &claim) {
            Ok(()) => tools.push(("cxx".to_owned(), cxx)),
            Err(error) => details.notes.push(format!("no C++: {error:#}")),
        },
    }
    tools.extend(companions(wanted, cc, &version, search));
    details.lto_refusal = match lto(&place, family, &tools, folder.path()) {
        Ok(()) => None,
        Err(error) => {
            let hint = wanted.lto_hint().map(|hint| format!("; install with `{hint}`"));
            Some(format!("{error:#}{}", hint.unwrap_or_default()))
        }
    };
    let mut toolchain = Toolchain {
        name: wanted.name.clone(),
        family,
        version,
        target: ask("-dumpmachine")?,
        tools,
        files: Vec::new(),
        digest: Digest::of(b""),
        details,
        sealed: None,
    };
    let stamps = identity::identify(&mut toolchain, &place)?;
    Ok(Probed { toolchain, stamps })
}

/// The family, as the compiler's own macros say and the `cc` crate confirms.
fn family(place: &Place, cc: &Path) -> anyhow::Result<Family> {
    let macros = place
        .proc(cc)
        .args(["-dM", "-E", "-x", "c", "-"])
        .stdin("")
        .timeout(PATIENCE)
        .read()
        .context("it does not tell its macros")?;
    let defines = |name: &str| macros.lines().any(|line| line.split(' ').nth(1) == Some(name));
    let family = match (defines("__clang__"), defines("__GNUC__")) {
        (true, _) => Family::Clang,
        (false, true) => Family::Gcc,
        (false, false) => anyhow::bail!("it is neither gcc nor clang"),
    };
    if place.root().is_some() {
        // The crate would start a program of this machine.
        return Ok(family);
    }
    // Outside a build script the crate needs all of these; it must not print lines for cargo.
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let tool = cc::Build::new()
        .cargo_metadata(false)
        .cargo_warnings(false)
        .cargo_debug(false)
        .host(&host)
        .target(&host)
        .opt_level(0)
        .compiler(cc)
        .try_get_compiler()?;
    ensure!(
        tool.is_like_clang() == (family == Family::Clang),
        "its macros say {}, its way with options says otherwise",
        family.name()
    );
    Ok(family)
}

/// Builds the small program and compares what it prints with the version that was claimed.
fn build_and_run(
    place: &Place,
    compiler: &Path,
    language: &str,
    folder: &Path,
    claim: &str,
) -> anyhow::Result<()> {
    let name = format!("probe-{language}");
    place
        .proc_in(compiler, folder)
        .args(["-O1", "-x", language, "-", "-o", &name])
        .stdin(PROGRAM)
        .timeout(PATIENCE)
        .run()?;
    let program = place.inside(folder, &name);
    let told = place.proc_in(program, folder).timeout(PATIENCE).read()?;
    ensure!(told == claim, "it claims {claim}, a program that it built tells {told}");
    Ok(())
}

/// The archiver, indexer, symbol lister and linkers that belong to this very version.
fn companions(
    wanted: &Wanted,
    cc: &Path,
    version: &str,
    search: &mut Search,
) -> Vec<(String, PathBuf)> {
    let major = version.split('.').next().unwrap_or_default();
    let roles = [
        ("ar", &wanted.ar),
        ("ranlib", &wanted.ranlib),
        ("nm", &wanted.nm),
        ("lld", &wanted.lto_linker),
    ];
    let mut tools = Vec::new();
    for (role, names) in roles {
        tools.extend(
            names
                .iter()
                .find_map(|name| companion(wanted.family, name, cc, major, search))
                .map(|path| (role.to_owned(), path)),
        );
    }
    let place = search.place();
    let ld = place.proc(cc).arg("-print-prog-name=ld").timeout(PATIENCE).read().ok();
    let ld = ld.and_then(|ld| place.which(ld));
    tools.extend(ld.map(|ld| ("ld".to_owned(), ld)));
    tools
}

fn companion(
    family: Family,
    name: &str,
    cc: &Path,
    major: &str,
    search: &mut Search,
) -> Option<PathBuf> {
    // The name with the version is certain, then the folder of the compiler itself; a bare name
    // may belong to another version: LLVM's tools tell theirs, GCC's do not.
    let versioned = search.program(&format!("{name}-{major}"));
    let place = search.place().clone();
    let real = place.real(cc);
    let beside = real.parent().map(|folder| folder.join(name));
    let beside = beside.filter(|path| place.host(path).is_file());
    versioned.or(beside).or_else(|| {
        let bare = search.program(name)?;
        let told = || llvm_major(&place, &bare);
        let matches = family == Family::Gcc || told().as_deref() == Some(major);
        matches.then_some(bare)
    })
}

fn llvm_major(place: &Place, tool: &Path) -> Option<String> {
    let text = place.proc(tool).arg("--version").timeout(PATIENCE).read().ok()?;
    parse_llvm_major(&text)
}

/// The major version in `Debian LLVM version 14.0.6` or `LLD 14.0.6 (compatible with …)`.
fn parse_llvm_major(text: &str) -> Option<String> {
    let mut words = text.split_whitespace().skip_while(|word| !matches!(*word, "LLVM" | "LLD"));
    let number = words.find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    number.split('.').next().map(str::to_owned)
}

/// Compiles, archives and links with link-time optimisation, and runs the result.
fn lto(
    place: &Place,
    family: Family,
    tools: &[(String, PathBuf)],
    folder: &Path,
) -> anyhow::Result<()> {
    let tool = |role: &str| {
        let found = tools.iter().find(|(name, _)| name == role).map(|(_, path)| path);
        found.with_context(|| format!("no matching {role}"))
    };
    let (cc, ar) = (tool("cc")?, tool("ar")?);
    tool("ranlib")?;
    fs::write(folder.join("part.c"), "int part(int x) { return x + 41; }\n")?;
    fs::write(
        folder.join("main.c"),
        "int part(int);\nint main(int n, char **a) { (void)a; return part(n) == 42 ? 0 : 1; }\n",
    )?;
    let run = |program: &Path, args: &[&str]| {
        place.proc_in(program, folder).args(args).timeout(PATIENCE).run()
    };
    run(cc, &["-O2", "-flto", "-c", "part.c", "-o", "part.o"])?;
    run(ar, &["rcs", "libpart.a", "part.o"])?;
    let mut link = vec!["-O2", "-flto", "main.c", "-o", "lto", "-L.", "-lpart"];
    if family == Family::Clang {
        tool("lld")?;
        link.push("-fuse-ld=lld");
    }
    run(cc, &link)?;
    run(&place.inside(folder, "lto"), &[]).context("a program built with -flto does not work")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolchain::find;
    use std::ffi::OsStr;
    use std::os::unix::fs::PermissionsExt as _;

    /// Finds a toolchain on the usual path; a machine without it fails the test and is told why.
    fn installed(name: &str, cache: &Path) -> Toolchain {
        find(&shipped(), cache, OsStr::new(crate::proc::PATH), name)
            .unwrap_or_else(|error| panic!("this test needs {name}: {error}"))
    }

    fn shipped() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolchains")
    }

    fn script(path: &Path, text: &str) {
        fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn versions_of_llvm_tools() {
        let ar = "Debian LLVM version 14.0.6\n  Optimized build.";
        assert_eq!(parse_llvm_major(ar).unwrap(), "14");
        assert_eq!(parse_llvm_major("Debian LLD 14.0.6 (compatible with GNU)").unwrap(), "14");
        assert_eq!(parse_llvm_major("GNU ar 2.40"), None);
    }

    #[test]
    fn real_gcc_plain_and_versioned() {
        let cache = tempfile::tempdir().unwrap();
        let gcc = installed("gcc", cache.path());
        assert_eq!((gcc.family, &gcc.details.lto_refusal), (Family::Gcc, &None));
        let names: Vec<_> =
            gcc.files.iter().map(|(path, _)| path.file_name().unwrap().to_str().unwrap()).collect();
        for name in ["cc1", "lto1", "collect2", "libgcc.a", "crti.o"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        assert!(gcc.details.headers.is_some_and(|(count, _)| count > 20));
        let major = gcc.version.split('.').next().unwrap();
        let versioned = installed(&format!("gcc-{major}"), cache.path());
        assert_eq!((&versioned.version, &versioned.target), (&gcc.version, &gcc.target));

        // Warm: the same answer, by stamps alone.
        let begin = std::time::Instant::now();
        assert_eq!(installed("gcc", cache.path()), gcc);
        println!("warm: {:?}", begin.elapsed());
        assert!(begin.elapsed() < Duration::from_millis(100), "{:?}", begin.elapsed());
        // A kept answer is believed while cc1 is untouched, and only then.
        let kept = |name: &str| {
            let files = fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().path());
            let named = format!("\"name\":\"{name}\"");
            let mut texts = files.map(|path| (fs::read_to_string(&path).unwrap(), path));
            texts.find(|(text, _)| text.contains(&named)).unwrap()
        };
        let (text, file) = kept("gcc");
        let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["toolchain"]["version"] = "0.0.0".into();
        fs::write(&file, json.to_string()).unwrap();
        assert_eq!(installed("gcc", cache.path()).version, "0.0.0");
        let stamps = json["stamps"].as_array_mut().unwrap();
        let ends = |stamp: &serde_json::Value, end| stamp["path"].as_str().unwrap().ends_with(end);
        assert!(stamps.iter().any(|stamp| ends(stamp, "/stdio.h")));
        let cc1 = stamps.iter_mut().find(|stamp| ends(stamp, "/cc1")).unwrap();
        cc1["size"] = 1.into();
        fs::write(&file, json.to_string()).unwrap();
        assert_eq!(installed("gcc", cache.path()), gcc, "a changed cc1 is noticed");
        for entry in fs::read_dir(cache.path()).unwrap() {
            fs::write(entry.unwrap().path(), "{ broken").unwrap();
        }
        assert_eq!(installed("gcc", cache.path()), gcc, "a damaged cache is probed anew");
    }

    #[test]
    fn real_clang_with_its_own_tools() {
        let cache = tempfile::tempdir().unwrap();
        let clang = installed("clang", cache.path());
        assert_eq!((clang.family, &clang.details.lto_refusal), (Family::Clang, &None));
        let major = clang.version.split('.').next().unwrap();
        for role in ["ar", "lld"] {
            let told = llvm_major(&Place::here(), clang.tool(role).unwrap());
            assert_eq!(told.as_deref(), Some(major), "{role}");
        }
        let begin = std::time::Instant::now();
        assert_eq!(installed("clang", cache.path()), clang);
        println!("warm: {:?}; {} files", begin.elapsed(), clang.files.len());
        let real = clang.tool("cc").unwrap().canonicalize().unwrap();
        assert!(clang.files.iter().any(|(path, _)| *path == real));
    }

    #[test]
    fn missing_compiler_and_wrong_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let error = find(&shipped(), folder.path(), OsStr::new("/nowhere"), "clang").unwrap_err();
        assert_eq!(error.reason, "clang not found");
        let release = fs::read_to_string("/etc/os-release").unwrap();
        if release.lines().any(|line| line == "ID=debian" || line == "ID=ubuntu") {
            let text = error.to_string();
            assert_eq!(text, "clang not found; install with `apt-get install clang libc6-dev`");
        }
        let text = "family = \"gcc\"\ncc = [\"gcc\"]\nversion = \"3.4\"\n";
        fs::write(folder.path().join("old.toml"), text).unwrap();
        let path = OsStr::new(crate::proc::PATH);
        let error = find(folder.path(), folder.path(), path, "old").unwrap_err().reason;
        assert!(error.contains("it says ") && error.ends_with("toolchains/old.toml wants 3.4"));
        fs::write(folder.path().join("x.toml"), "family = \"clang\"\ncc = [\"gcc\"]\n").unwrap();
        let error = find(folder.path(), folder.path(), path, "x").unwrap_err().reason;
        assert!(error.ends_with("it is gcc, toolchains/x.toml wants clang"), "{error}");
    }

    #[test]
    fn lying_wrapper_is_caught_and_an_honest_one_is_noted() {
        let folder = tempfile::tempdir().unwrap();
        let (bin, cache) = (folder.path().join("bin"), folder.path().join("cache"));
        fs::create_dir(&bin).unwrap();
        let real = which::which_in("gcc", Some(crate::proc::PATH), "/").expect("gcc is installed");
        let pass = format!("exec {} \"$@\"", real.display());
        script(
            &bin.join("gcc"),
            &format!("[ \"$1\" = -dumpfullversion ] && exec echo 99.1.0\n{pass}"),
        );
        let error = find(&shipped(), &cache, bin.as_os_str(), "gcc").unwrap_err().reason;
        assert!(error.contains("claims gcc 99.1.0, a program that it built tells gcc "), "{error}");
        script(&bin.join("gcc"), &pass);
        let honest = find(&shipped(), &cache, bin.as_os_str(), "gcc").unwrap();
        assert!(honest.details.notes.iter().any(|note| note.contains("is a script")));
        assert!(honest.details.notes.iter().any(|note| note == "g++ not found: no C++"));
        assert!(honest.details.lto_refusal.unwrap().starts_with("no matching ar"));
        // A changed file of the compiler is noticed although the driver's path is the same.
        script(&bin.join("gcc"), &format!("# other\n{pass}"));
        let changed = find(&shipped(), &cache, bin.as_os_str(), "gcc").unwrap();
        assert_ne!(changed.digest, honest.digest);
        // A launcher is passed over.
        script(&bin.join("ccache"), "exit 1");
        let first = folder.path().join("first");
        fs::create_dir(&first).unwrap();
        std::os::unix::fs::symlink(bin.join("ccache"), first.join("gcc")).unwrap();
        let path = std::env::join_paths([&first, &bin]).unwrap();
        assert_eq!(
            find(&shipped(), &cache, &path, "gcc").unwrap().tool("cc"),
            Some(&*bin.join("gcc"))
        );
    }
}
