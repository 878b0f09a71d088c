//! What the binaries of an installed tree consist of: each ELF file's sections and each archive's
//! members with size and hash, so that two trees can be compared without having both of them.
//!
//! A section counts as loaded when a program has it in its memory (`SHF_ALLOC`). Notes that are but
//! a name or a hash of the rest (the build id) do not count: they differ whenever anything does.
//! The headers, which tell the kernel how to load the file, are listed as [`HEADERS`].
//!
//! Formats: System V ABI, "Object Files"; `ar(5)`.

use std::io::Read as _;
use std::path::Path;

use fs_err as fs;
use object::elf::{SHF_ALLOC, SHT_NOBITS};
use object::read::archive::ArchiveFile;
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionFlags,
    SymbolSection,
};

use crate::build::manifest::{BinaryDone, FileDone, SectionDone};
use crate::hash::Digest;

/// The name under which the file header and the program headers of an ELF file are listed.
pub const HEADERS: &str = "(headers)";
/// Loaded notes that say nothing of what the program does.
const IDENTITY_NOTES: [&str; 3] = [".note.gnu.build-id", ".note.package", ".note.go.buildid"];
/// What a relocatable file has besides code and data, by the beginnings of the sections' names.
const ASIDE: [&str; 8] = [
    ".debug",
    ".zdebug",
    ".gnu.debuglto_",
    ".comment",
    ".note",
    ".llvm_addrsig",
    ".GCC.command.line",
    ".gnu.build.attributes",
];

/// The sections of every ELF file and the members of every archive among the listed files of
/// `tree`, in the order of the list. A file that only begins like one is left out: it is compared
/// as a whole like any other.
///
/// # Errors
/// When a file cannot be read.
pub fn binaries(tree: &Path, files: &[FileDone]) -> anyhow::Result<Vec<BinaryDone>> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.mode != "link") {
        let Some(bytes) = binary(&tree.join(&file.path))? else { continue };
        let sections = if is_archive(&bytes) { members(&bytes) } else { sections(&bytes) };
        if let Ok(sections) = sections {
            found.push(BinaryDone { path: file.path.clone(), sections });
        }
    }
    Ok(found)
}

/// The content of a file that begins like an ELF file or an archive.
pub(super) fn binary(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let mut file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    file.by_ref().take(8).read_to_end(&mut bytes)?;
    if !bytes.starts_with(b"\x7fELF") && !is_archive(&bytes) {
        return Ok(None);
    }
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

pub(super) fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(b"!<arch>\n")
}

/// The sections of one ELF file.
fn sections(bytes: &[u8]) -> object::Result<Vec<SectionDone>> {
    let file = object::File::parse(bytes)?;
    let mut found: Vec<SectionDone> =
        headers(bytes).map(|headers| done(HEADERS, true, &headers)).into_iter().collect();
    for section in file.sections() {
        let name = String::from_utf8_lossy(section.name_bytes()?).into_owned();
        let SectionFlags::Elf { sh_type, sh_flags } = section.flags() else { continue };
        let loaded = sh_flags.0 & SHF_ALLOC.0 != 0 && !IDENTITY_NOTES.contains(&name.as_str());
        found.push(if sh_type == SHT_NOBITS {
            // Zeros, however many: nothing to hash.
            SectionDone { name, loaded, size: section.size(), sha256: String::new() }
        } else {
            done(&name, loaded, section.data()?)
        });
    }
    Ok(found)
}

fn done(name: &str, loaded: bool, bytes: &[u8]) -> SectionDone {
    let sha256 = Digest::of(bytes).to_string()[..32].to_owned();
    SectionDone { name: name.to_owned(), loaded, size: bytes.len() as u64, sha256 }
}

/// The file header, without what it says of the section headers (which nobody loads), and the
/// program headers. `None` when the file is too short for them.
fn headers(bytes: &[u8]) -> Option<Vec<u8>> {
    // Where the header has: its own length, the place, entry size and number of the program
    // headers, and what belongs to the section headers (System V ABI, "ELF Header").
    let wide = *bytes.get(4)? == 2;
    let (length, place, entry, count, sections) = if wide {
        (64, 32..40, 54..56, 56..58, [40..48, 58..64])
    } else {
        (52, 28..32, 42..44, 44..46, [32..36, 46..52])
    };
    let little = *bytes.get(5)? == 1;
    let number = |range: std::ops::Range<usize>| -> Option<usize> {
        let field = bytes.get(range)?;
        let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        let value =
            if little { field.iter().rev().fold(0, add) } else { field.iter().fold(0, add) };
        usize::try_from(value).ok()
    };
    let mut headers = bytes.get(..length)?.to_vec();
    for field in sections {
        headers[field].fill(0);
    }
    let (start, size) = (number(place)?, number(entry)?.checked_mul(number(count)?)?);
    headers.extend_from_slice(bytes.get(start..start.checked_add(size)?)?);
    Some(headers)
}

/// The members of an archive: of each what becomes code or data of a program that links it, and
/// the rest (debug information, notes) on its own.
fn members(bytes: &[u8]) -> object::Result<Vec<SectionDone>> {
    let archive = ArchiveFile::parse(bytes)?;
    let mut found = Vec::new();
    for member in archive.members() {
        let member = member?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        let data = member.data(bytes)?;
        match object::File::parse(data).and_then(|file| relocatable(&file)) {
            Ok((code, rest)) => {
                found.push(done(&name, true, &code));
                found.push(done(&format!("{name} (rest)"), false, &rest));
            }
            // Not ELF: what clang writes for link-time optimisation, for one.
            Err(_) => found.push(done(&name, true, data)),
        }
    }
    Ok(found)
}

/// A relocatable file as two texts: what becomes code or data, and the rest. Relocations are
/// written with the names of their targets, since numbers of symbols change with debug information.
fn relocatable(file: &object::File<'_>) -> object::Result<(Vec<u8>, Vec<u8>)> {
    let (mut code, mut rest) = (Vec::new(), Vec::new());
    for section in file.sections() {
        let name = section.name_bytes()?;
        let SectionFlags::Elf { sh_type, sh_flags } = section.flags() else { continue };
        // Tables of numbers of symbols and sections, which are told by name: symbols, strings,
        // relocations, groups.
        if matches!(sh_type.0, 2 | 3 | 4 | 9 | 17 | 18) {
            continue;
        }
        let aside = ASIDE.iter().any(|start| name.starts_with(start.as_bytes()));
        let out = if aside { &mut rest } else { &mut code };
        field(out, name);
        field(out, &sh_flags.0.to_le_bytes());
        field(out, &section.size().to_le_bytes());
        field(out, section.data()?);
        for (offset, relocation) in section.relocations() {
            field(out, &offset.to_le_bytes());
            field(out, format!("{:?}", relocation.flags()).as_bytes());
            field(out, &target(file, relocation.target())?);
            field(out, &relocation.addend().to_le_bytes());
        }
    }
    let mut defined: Vec<(Vec<u8>, Vec<u8>, u64, u64)> = Vec::new();
    for symbol in file.symbols().filter(|symbol| symbol.is_global()) {
        let place = match symbol.section() {
            SymbolSection::Section(index) => file.section_by_index(index)?.name_bytes()?.to_vec(),
            other => format!("{other:?}").into_bytes(),
        };
        defined.push((symbol.name_bytes()?.to_vec(), place, symbol.address(), symbol.size()));
    }
    defined.sort();
    for (name, place, address, size) in defined {
        field(&mut code, &name);
        field(&mut code, &place);
        field(&mut code, &address.to_le_bytes());
        field(&mut code, &size.to_le_bytes());
    }
    Ok((code, rest))
}

/// What a relocation points to, by name.
fn target(file: &object::File<'_>, target: RelocationTarget) -> object::Result<Vec<u8>> {
    let section = |index| -> object::Result<Vec<u8>> {
        Ok(file.section_by_index(index)?.name_bytes()?.to_vec())
    };
    match target {
        RelocationTarget::Symbol(index) => {
            let symbol = file.symbol_by_index(index)?;
            let name = symbol.name_bytes()?.to_vec();
            match symbol.section_index() {
                Some(index) if name.is_empty() => section(index),
                _ => Ok(name),
            }
        }
        RelocationTarget::Section(index) => section(index),
        other => Ok(format!("{other:?}").into_bytes()),
    }
}

/// Appends with the length in front, so that no two lists give the same bytes.
fn field(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::manifest;
    use crate::exact::testing;

    fn of(folder: &Path) -> Vec<BinaryDone> {
        binaries(folder, &manifest::list(folder).expect("listed")).expect("read")
    }

    fn named<'a>(binary: &'a BinaryDone, name: &str) -> &'a SectionDone {
        let found = binary.sections.iter().find(|section| section.name == name);
        found.unwrap_or_else(|| panic!("no {name} in {binary:?}"))
    }

    const SOURCE: &str = "static int table[100];\nint step(int x) { return table[x % 100]++ + x; }\n\
        int main(int n, char **a) { (void)a; return step(n); }\n";

    #[test]
    fn debug_information_is_not_loaded_and_code_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let made = |name: &str, flags: &[&str]| {
            let folder = dir.path().join(name);
            testing::compile(&folder, &[("a.c", SOURCE)], flags);
            let found = of(&folder);
            assert_eq!(found.len(), 1, "one program, its source is no binary");
            found.into_iter().next().expect("one")
        };
        let (plain, debug) = (made("plain", &["-O1"]), made("debug", &["-O1", "-g"]));
        let loaded = |binary: &BinaryDone| -> Vec<SectionDone> {
            binary.sections.iter().filter(|section| section.loaded).cloned().collect()
        };
        assert_eq!(loaded(&plain), loaded(&debug));
        let text = named(&plain, ".text");
        assert!(text.loaded && text.size > 50 && text.sha256.len() == 32, "{text:?}");
        assert!(!named(&debug, ".debug_info").loaded);
        assert!(named(&plain, HEADERS).loaded);
        let (one, two) = (named(&plain, ".note.gnu.build-id"), named(&debug, ".note.gnu.build-id"));
        assert!(!one.loaded && one.sha256 != two.sha256, "{one:?} {two:?}");
        let bss = named(&plain, ".bss");
        assert!(bss.loaded && bss.size >= 400 && bss.sha256.is_empty(), "{bss:?}");
        let other = made("other", &["-O1", "-fno-pic", "-no-pie"]);
        assert_ne!(named(&other, HEADERS), named(&plain, HEADERS));
        // A stack that may be executed shows in the headers only.
        let stack = made("stack", &["-O1", "-Wl,-z,execstack"]);
        assert_ne!(named(&stack, HEADERS), named(&plain, HEADERS));
        assert_eq!(named(&stack, ".text"), named(&plain, ".text"));
    }

    #[test]
    fn members_of_an_archive_have_code_and_the_rest() {
        let dir = tempfile::tempdir().expect("a directory");
        let made = |name: &str, flags: &[&str], source: &str| {
            let folder = dir.path().join(name);
            testing::archive(
                &folder,
                &[("a.c", source), ("b.c", "int b(void) { return 7; }\n")],
                flags,
            );
            of(&folder).into_iter().next().expect("an archive")
        };
        let library = "int a(int);\nint helper(int x) { return a(x) * 3; }\n";
        let (plain, debug) =
            (made("plain", &["-O1"], library), made("debug", &["-O1", "-g"], library));
        let names: Vec<&str> = plain.sections.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["a.o", "a.o (rest)", "b.o", "b.o (rest)"]);
        for name in ["a.o", "b.o"] {
            assert_eq!(named(&plain, name), named(&debug, name), "debug information adds no code");
            let rest = format!("{name} (rest)");
            assert_ne!(named(&plain, &rest).sha256, named(&debug, &rest).sha256);
        }
        // The same bytes of code that call another function: only the relocation's name differs.
        let other = library.replace("a(", "z(");
        let other = made("other", &["-O1"], &other);
        assert_ne!(named(&plain, "a.o").sha256, named(&other, "a.o").sha256);
        assert_eq!(named(&plain, "b.o"), named(&other, "b.o"));
    }

    #[test]
    fn what_only_begins_like_a_binary_is_left_out() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("a"), b"\x7fELF and nothing else").expect("written");
        std::fs::write(dir.path().join("b"), b"!<arch>\nnonsense").expect("written");
        std::fs::write(dir.path().join("c"), b"").expect("written");
        std::os::unix::fs::symlink("/bin/sh", dir.path().join("d")).expect("linked");
        assert_eq!(of(dir.path()), []);
        assert_eq!(headers(b"\x7fELF\x02\x01"), None);
    }
}
