//! Which files determine what a compiler makes, and their hash: the compiler's programs, the shared
//! libraries that they load, what it links into every program, and the C library's headers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::facts::{Toolchain, ToolchainDetails};
use crate::hash::Digest;
use crate::matrix::model::Family;
use crate::proc::{PATH, Proc};
use crate::toolchain::cache::Stamp;
use crate::toolchain::place::Place;

/// The programs that the driver starts, by the names that it knows them by.
const PROGRAMS: [&str; 7] = ["cc1", "cc1plus", "lto1", "collect2", "lto-wrapper", "as", "ld"];
/// What is linked into programs or read by the linker.
const LIBRARIES: [&str; 14] = [
    "liblto_plugin.so",
    "libc.so",
    "libc.so.6",
    "libm.so.6",
    "libc.a",
    "libc_nonshared.a",
    "crt1.o",
    "Scrt1.o",
    "crti.o",
    "crtbeginS.o",
    "libgcc.a",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "libstdc++.a",
];
/// Headers that pull in most of what a database server includes of the C library.
const HEADERS: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
    #include <math.h>\n#include <pthread.h>\n#include <errno.h>\n#include <unistd.h>\n\
    #include <time.h>\n#include <fcntl.h>\n#include <signal.h>\n#include <limits.h>\n\
    #include <stdint.h>\n#include <sys/types.h>\n#include <sys/stat.h>\n#include <sys/socket.h>\n";

/// Fills in `files`, `digest`, the packages and the headers; gives the stamps of all that was read.
///
/// # Errors
/// When a file of the compiler cannot be read or the compiler cannot be asked.
pub fn identify(toolchain: &mut Toolchain, place: &Place) -> anyhow::Result<Vec<Stamp>> {
    let cc = toolchain.tool("cc").map(Path::to_owned).unwrap_or_default();
    let (files, headers) = (determining(toolchain, place, &cc)?, headers(place, &cc)?);
    let mut stamps = Vec::new();
    let mut lines = vec![format!("{} {}", toolchain.version, toolchain.target)];
    for path in &files {
        stamps.extend(Stamp::of(&place.host(path)));
        let digest = Digest::of_file(&place.host(path))?;
        toolchain.files.push((path.clone(), digest));
    }
    // Roles and names, not folders: the same compiler unpacked elsewhere is the same compiler.
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    lines.extend(toolchain.files.iter().map(|(path, digest)| format!("{} {digest}", name(path))));
    for (role, path) in &toolchain.tools {
        lines.push(format!("{role} = {}", name(&place.real(path))));
    }
    let mut contents = Vec::new();
    for path in &headers {
        let host = place.host(path);
        stamps.extend(Stamp::of(&host));
        contents.push(format!("{} {}", name(path), Digest::of_file(&host)?));
    }
    contents.sort();
    let details = &mut toolchain.details;
    details.headers = Some((headers.len(), Digest::of(contents.join("\n").as_bytes())));
    lines.push(format!("headers {contents:?}"));
    lines[1..].sort();
    toolchain.digest = Digest::of(lines.join("\n").as_bytes());
    if place.root().is_none() {
        let all: BTreeSet<PathBuf> = files.into_iter().chain(headers).collect();
        note_packages(details, &all);
    }
    Ok(stamps)
}

/// All files but the headers, real paths, each once.
fn determining(
    toolchain: &Toolchain,
    place: &Place,
    cc: &Path,
) -> anyhow::Result<BTreeSet<PathBuf>> {
    let ask = |question: String| place.proc(cc).arg(question).read();
    let mut programs: BTreeSet<PathBuf> =
        toolchain.tools.iter().map(|(_, path)| place.real(path)).collect();
    for name in PROGRAMS {
        // Clang has these things in itself; the linker is what both call.
        if toolchain.family == Family::Clang && name != "ld" {
            continue;
        }
        let answer = ask(format!("-print-prog-name={name}"))?;
        // A bare name means: whatever the search path has.
        programs.extend(place.which(answer).map(|path| place.real(&path)));
    }
    let mut files = programs.clone();
    for name in LIBRARIES {
        let answer = PathBuf::from(ask(format!("-print-file-name={name}"))?);
        if answer.is_absolute() && place.host(&answer).is_file() {
            files.insert(place.real(&answer));
        }
    }
    // A sealed one is known by its packages: they hold every library that it can load.
    for program in programs.iter().filter(|_| place.root().is_none()) {
        files.extend(loaded_libraries(program));
    }
    Ok(files)
}

/// The shared libraries that a program loads; none for a script or a static program.
pub fn loaded_libraries(program: &Path) -> Vec<PathBuf> {
    if !super::elf::is_elf(program) {
        return Vec::new();
    }
    let Ok(output) = Proc::new("ldd").arg(program).run_any() else { return Vec::new() };
    parse_ldd(&output.text()).into_iter().map(|path| Place::here().real(&path)).collect()
}

/// The absolute paths in the output of `ldd`.
fn parse_ldd(text: &str) -> Vec<PathBuf> {
    text.lines()
        .filter_map(|line| {
            let place = line.split_once("=>").map_or(line, |(_, place)| place);
            let path = place.split_whitespace().next()?;
            path.starts_with('/').then(|| PathBuf::from(path))
        })
        .collect()
}

/// The headers that a small program really reads.
fn headers(place: &Place, cc: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let rule = place.proc(cc).args(["-M", "-x", "c", "-"]).stdin(HEADERS).read()?;
    let words = rule.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(words.map(|word| place.real(Path::new(word))).collect())
}

/// The packages that the files belong to, where the system's package manager is dpkg.
fn note_packages(details: &mut ToolchainDetails, files: &BTreeSet<PathBuf>) {
    let Ok(dpkg) = which::which_in("dpkg-query", Some(PATH), "/") else { return };
    // With `/lib` a link to `/usr/lib`, a package may know a file by either path.
    let paths = files.iter().flat_map(|path| {
        let short = path.strip_prefix("/usr").ok().map(|rest| Path::new("/").join(rest));
        [Some(path.clone()), short].into_iter().flatten()
    });
    // Files of no package make this fail although it answers for the others.
    let Ok(owners) = Proc::new(&dpkg).arg("-S").args(paths).run_any() else { return };
    let owners = owners.text();
    let names: BTreeSet<&str> = owners
        .lines()
        .filter_map(|line| line.split_once(": /"))
        .flat_map(|(names, _)| names.split(", "))
        .collect();
    if names.is_empty() {
        return;
    }
    let format = "--showformat=${Package} ${Version}\\n";
    let Ok(versions) = Proc::new(dpkg).args(["-W", format]).args(names).run_any() else { return };
    details.packages = versions
        .text()
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd_of_both_c_libraries() {
        let glibc = "\tlinux-vdso.so.1 (0x0007)\n\tlibz.so.1 => /lib/libz.so.1 (0x0007)\n\
                     \tlibgone.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x0007)\n";
        let paths = parse_ldd(glibc);
        assert_eq!(paths, ["/lib/libz.so.1", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from));
        let musl = "\t/lib/ld-musl-x86_64.so.1 (0x7f)\n\tlibz.so.1 => /lib/libz.so.1 (0x7f)\n";
        assert_eq!(parse_ldd(musl).len(), 2);
        assert!(parse_ldd("\tstatically linked\n").is_empty());
    }
}
