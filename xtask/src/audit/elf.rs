//! Reads from an ELF file what its makers left in it: compile units with their producers, the
//! comment section, recorded command lines, the dynamic section, frame pointers, traces of LTO.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::path::Path;

use anyhow::Context as _;
use fs_err as fs;
use gimli::{EndianSlice, RunTimeEndian, UnwindSection as _};
use object::read::elf::{Dyn as _, FileHeader as _};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};

type Reader<'a> = EndianSlice<'a, RunTimeEndian>;

/// What one ELF file tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The compile units, in the file's order. Empty without debug information.
    pub units: Vec<Unit>,
    /// Distinct lines of `.comment`: compilers and the linkers that sign (lld, mold).
    pub comments: Vec<String>,
    /// Distinct lines of `.GCC.command.line` (`-frecord-gcc-switches`, `-frecord-command-line`).
    pub recorded: Vec<String>,
    /// Libraries that are loaded with it.
    pub needed: Vec<String>,
    /// `DT_RUNPATH` or `DT_RPATH`.
    pub run_path: Option<String>,
    /// Functions of `.eh_frame`, and those of them whose frame hangs on the frame pointer.
    pub frames: Frames,
    /// Functions that gcc's LTO renamed (`.lto_priv.`).
    pub lto_private: usize,
    /// Functions that clang's ThinLTO renamed (`.llvm.` and a number).
    pub thin_promoted: usize,
    /// Whether clang's full LTO left its temporary object's name.
    pub full_lto: bool,
    /// Bytes of executable sections.
    pub text_bytes: u64,
    /// What hardening left in the file: shown for binaries that others built.
    pub hardening: Hardening,
}

/// Traces of hardening flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hardening {
    /// Loaded at any address (`-pie`, or a library).
    pub relocatable: bool,
    /// All symbols are bound at the start (`-z now`).
    pub bind_now: bool,
    /// Some stack frames are checked (`-fstack-protector…`).
    pub stack_protector: bool,
    /// How many checked functions of the C library are called (`-D_FORTIFY_SOURCE`).
    pub fortified: usize,
}

/// One compile unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// The source file as the compiler was given it.
    pub name: String,
    /// The folder that the compiler worked in.
    pub folder: String,
    /// What the compiler wrote about itself.
    pub producer: String,
    /// Bytes of code that belong to the unit, as far as its debug information tells.
    pub text_bytes: u64,
}

/// Functions with call frame information.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// All of them.
    pub functions: usize,
    /// Those in which the frame address comes to depend on the frame pointer register.
    pub by_frame_pointer: usize,
}

impl Frames {
    /// The share of functions that keep a frame pointer, 0 to 1. gcc's leaf functions never set
    /// one up, so "kept" is far from 1 even when it was asked for.
    pub fn share(&self) -> f64 {
        if self.functions == 0 { 0.0 } else { self.by_frame_pointer as f64 / self.functions as f64 }
    }
}

/// Reads a file.
///
/// # Errors
/// When the file cannot be read or is no ELF file; broken debug information is an error, too, since
/// an audit that reads half of it would say what it cannot know.
pub fn read(path: &Path) -> anyhow::Result<Facts> {
    let data = fs::read(path)?;
    parse(&data).with_context(|| format!("cannot audit {}", path.display()))
}

/// Reads the bytes of an ELF file.
///
/// # Errors
/// As [`read`].
pub fn parse(data: &[u8]) -> anyhow::Result<Facts> {
    let file = object::File::parse(data).context("not an ELF file")?;
    let mut facts = Facts {
        units: units(&file)?,
        comments: strings(&file, ".comment"),
        recorded: strings(&file, ".GCC.command.line"),
        frames: frames(&file)?,
        ..Facts::default()
    };
    for section in file.sections() {
        if section.kind() == object::SectionKind::Text {
            facts.text_bytes += section.size();
        }
    }
    for symbol in file.symbols() {
        let Ok(name) = symbol.name() else { continue };
        facts.full_lto |= symbol.kind() == SymbolKind::File && name == "ld-temp.o";
        if symbol.kind() != SymbolKind::Text {
            continue;
        }
        facts.lto_private += usize::from(name.contains(".lto_priv."));
        let promoted = name.rsplit_once(".llvm.").is_some_and(|(_, digits)| {
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        });
        facts.thin_promoted += usize::from(promoted);
    }
    for symbol in file.dynamic_symbols().filter(|symbol| symbol.is_undefined()) {
        let name = symbol.name().unwrap_or_default();
        facts.hardening.stack_protector |= name == "__stack_chk_fail";
        facts.hardening.fortified += usize::from(name.starts_with("__") && name.ends_with("_chk"));
    }
    facts.hardening.relocatable = file.kind() == object::ObjectKind::Dynamic;
    dynamic(data, &mut facts)?;
    Ok(facts)
}

/// The distinct NUL-terminated strings of a section.
fn strings(file: &object::File<'_>, section: &str) -> Vec<String> {
    let Some(data) = file.section_by_name(section).and_then(|section| section.data().ok()) else {
        return Vec::new();
    };
    let mut found: Vec<String> = Vec::new();
    for text in data.split(|&byte| byte == 0).filter(|text| !text.is_empty()) {
        let text = String::from_utf8_lossy(text).into_owned();
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

fn endian(file: &object::File<'_>) -> RunTimeEndian {
    if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big }
}

fn units(file: &object::File<'_>) -> anyhow::Result<Vec<Unit>> {
    let endian = endian(file);
    let load = |id: gimli::SectionId| -> Result<Reader<'_>, object::Error> {
        let section = file.section_by_name(id.name());
        let data = section.map_or(Ok(&[][..]), |section| section.data())?;
        Ok(EndianSlice::new(data, endian))
    };
    let dwarf = gimli::Dwarf::load(load).context("cannot read the debug information")?;
    let text = file.sections().filter(|section| section.kind() == object::SectionKind::Text);
    let sections: Vec<(u64, u64)> =
        text.map(|section| (section.address(), section.address() + section.size())).collect();
    let mut headers = dwarf.units();
    let mut units = Vec::new();
    // Of a function that several units have, the linker keeps one, and GNU ld lets the ranges of
    // the others point at that: it is the first unit's.
    let mut counted = HashSet::new();
    while let Some(header) = headers.next().context("the debug information is broken")? {
        let unit = dwarf.unit(header).context("the debug information is broken")?;
        let mut entries = unit.entries();
        let Some(root) = entries.next_dfs().context("the debug information is broken")? else {
            continue;
        };
        if root.tag() != gimli::DW_TAG_compile_unit {
            continue;
        }
        let text = |name: gimli::DwAt| -> String {
            root.attr_value(name)
                .and_then(|value| dwarf.attr_string(&unit, value).ok())
                .map(|text| text.to_string_lossy().into_owned())
                .unwrap_or_default()
        };
        let (name, producer) = (text(gimli::DW_AT_name), text(gimli::DW_AT_producer));
        let folder = text(gimli::DW_AT_comp_dir);
        let mut text_bytes = 0;
        let mut ranges = dwarf.unit_ranges(&unit).context("the debug information is broken")?;
        while let Some(range) = ranges.next().context("the debug information is broken")? {
            // Functions that the linker dropped, as several units had them or nobody called them,
            // keep their ranges, at address 0.
            let there = |(begin, end): &(u64, u64)| (*begin..*end).contains(&range.begin);
            if sections.iter().any(there) && counted.insert(range.begin) {
                text_bytes += range.end.saturating_sub(range.begin);
            }
        }
        units.push(Unit { name, folder, producer, text_bytes });
    }
    Ok(units)
}

/// The register number of the frame pointer in DWARF (System V ABI of x86-64 and of AArch64).
fn frame_pointer(file: &object::File<'_>) -> Option<gimli::Register> {
    match file.architecture() {
        object::Architecture::X86_64 => Some(gimli::X86_64::RBP),
        object::Architecture::Aarch64 => Some(gimli::AArch64::X29),
        _ => None,
    }
}

/// Whether the canonical frame address hangs on the frame pointer anywhere in a function: works on
/// stripped files and, unlike looking for a prologue, with code that the compiler moved.
fn frames(file: &object::File<'_>) -> anyhow::Result<Frames> {
    let (Some(register), Some(section)) = (frame_pointer(file), file.section_by_name(".eh_frame"))
    else {
        return Ok(Frames::default());
    };
    let data = section.data().context("cannot read .eh_frame")?;
    let mut eh_frame = gimli::EhFrame::new(data, endian(file));
    eh_frame.set_address_size(8);
    let bases = gimli::BaseAddresses::default().set_eh_frame(section.address());
    let (mut frames, mut common) = (Frames::default(), BTreeMap::new());
    let mut context = gimli::UnwindContext::new();
    let mut entries = eh_frame.entries(&bases);
    while let Some(entry) = entries.next().context(".eh_frame is broken")? {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let description = partial
            .parse(|_, bases, offset| match common.get(&offset.0) {
                Some(found) => Ok(gimli::CommonInformationEntry::clone(found)),
                None => {
                    let parsed = eh_frame.cie_from_offset(bases, offset)?;
                    common.insert(offset.0, parsed.clone());
                    Ok(parsed)
                }
            })
            .context(".eh_frame is broken")?;
        frames.functions += 1;
        let mut rows =
            description.rows(&eh_frame, &bases, &mut context).context(".eh_frame is broken")?;
        while let Some(row) = rows.next_row().context(".eh_frame is broken")? {
            if let gimli::CfaRule::RegisterAndOffset { register: used, .. } = row.cfa()
                && *used == register
            {
                frames.by_frame_pointer += 1;
                break;
            }
        }
    }
    Ok(frames)
}

fn dynamic(data: &[u8], facts: &mut Facts) -> anyhow::Result<()> {
    // Only 64-bit files: both engines' servers are.
    let Ok(header) = object::elf::FileHeader64::<object::Endianness>::parse(data) else {
        return Ok(());
    };
    let endian = header.endian().context("unknown byte order")?;
    let sections = header.sections(endian, data).context("cannot read the sections")?;
    let Some((entries, link)) =
        sections.dynamic(endian, data).context("cannot read the dynamic section")?
    else {
        return Ok(());
    };
    let strings = sections.strings(endian, data, link).context("cannot read .dynstr")?;
    for entry in entries {
        let text = |value: u64| {
            let offset = u32::try_from(value).ok()?;
            let bytes = strings.get(offset).ok()?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        match entry.tag(endian) {
            object::elf::DT_NEEDED => facts.needed.extend(text(entry.val(endian))),
            object::elf::DT_RUNPATH | object::elf::DT_RPATH => {
                facts.run_path = text(entry.val(endian));
            }
            object::elf::DT_BIND_NOW => facts.hardening.bind_now = true,
            object::elf::DT_FLAGS => {
                facts.hardening.bind_now |= entry.val(endian) & object::elf::DF_BIND_NOW.0 != 0;
            }
            object::elf::DT_FLAGS_1 => {
                facts.hardening.bind_now |= entry.val(endian) & object::elf::DF_1_NOW.0 != 0;
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Proc;

    #[test]
    fn code_that_the_linker_dropped_is_no_code_of_its_unit() {
        let dir = tempfile::tempdir().expect("a directory");
        let many =
            (0..200).map(|n| format!("int f{n}(int x) {{ return x * {n} + x / {}; }}", n + 3));
        let source = many.chain(["int main(void) { return 0; }".to_owned()]).collect::<String>();
        let facts = |flags: &[&str]| {
            Proc::new("/usr/bin/gcc")
                .args(["-O1", "-g1", "-ffunction-sections", "-x", "c", "-", "-o", "a.out"])
                .args(flags)
                .stdin(source.as_str())
                .cwd(dir.path())
                .run()
                .expect("it compiles");
            parse(&std::fs::read(dir.path().join("a.out")).expect("there")).expect("an ELF file")
        };
        let bytes = |facts: &Facts| facts.units.iter().map(|unit| unit.text_bytes).sum::<u64>();
        let whole = facts(&[]);
        assert!(bytes(&whole) > 2000 && bytes(&whole) <= whole.text_bytes);
        let dropped = facts(&["-Wl,--gc-sections"]);
        assert!(bytes(&dropped) < 100 && bytes(&dropped) > 0, "{}", bytes(&dropped));
    }

    #[test]
    fn a_function_that_two_units_have_is_counted_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let header =
            "struct S { __attribute__((noinline)) int f(int x) { return x * x + x / 7; } };";
        let unit = |name: &str| {
            format!("{header}\nint {name}(int x) {{ S s; return s.f(x) + s.f(x + 1); }}\n")
        };
        std::fs::write(dir.path().join("a.cc"), unit("a")).expect("written");
        let main = format!("int a(int);\n{}int main() {{ return a(1) + b(2); }}\n", unit("b"));
        std::fs::write(dir.path().join("b.cc"), main).expect("written");
        Proc::new("/usr/bin/g++")
            .args(["-O1", "-g1", "-ffunction-sections", "a.cc", "b.cc", "-o", "a.out"])
            .cwd(dir.path())
            .run()
            .expect("it compiles");
        let file = std::fs::read(dir.path().join("a.out")).expect("there");
        let facts = parse(&file).expect("an ELF file");
        let object = object::File::parse(&*file).expect("an ELF file");
        let functions = object.symbols().filter(|symbol| {
            let name = symbol.name().unwrap_or_default();
            symbol.kind() == SymbolKind::Text && (name.starts_with("_Z") || name == "main")
        });
        let functions: u64 = functions.map(|symbol| symbol.size()).sum();
        let units: u64 = facts.units.iter().map(|unit| unit.text_bytes).sum();
        assert_eq!(units, functions);
    }
}
