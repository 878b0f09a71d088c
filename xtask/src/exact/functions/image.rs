//! A linked file as its code sees it: which functions lie where, and what an address outside of a
//! function is called.
//!
//! An address has a name when a function or a global variable begins there, when it is an entry of
//! the global offset table that the loader fills for a symbol, or a stub that jumps through such an
//! entry. Local variables have none: their symbols carry numbers that change with unrelated edits.

use std::collections::BTreeMap;
use std::ops::Range;

use object::{
    Architecture, Object as _, ObjectKind, ObjectSection as _, ObjectSegment as _,
    ObjectSymbol as _, ObjectSymbolTable as _, RelocationTarget, SymbolKind,
};

use super::{aarch64, x86};

/// A function of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its first address.
    pub(super) start: u64,
    /// The address behind it.
    pub(super) end: u64,
    /// The name for the listing, the only one in the file.
    pub(super) symbol: String,
    /// The name for references to it, without numbers that link-time optimisation appends.
    pub(super) plain: String,
}

/// What an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name<'a> {
    /// Something with a name begins there.
    Start(&'a str),
    /// It is inside of this function.
    Inside(&'a str),
    /// Nothing with a name.
    Nothing,
}

/// The file.
pub(super) struct Image<'a> {
    /// By address; none overlaps the next one's start.
    pub(super) functions: Vec<Found>,
    /// Where code with absolute addresses has them; `None` when the file can be loaded anywhere and
    /// so has no such code.
    pub(super) fixed: Option<Range<u64>>,
    names: BTreeMap<u64, String>,
    sections: Vec<(Range<u64>, &'a [u8])>,
}

impl<'a> Image<'a> {
    /// Reads a linked file; of another one there are no functions.
    pub(super) fn read(file: &object::File<'a>) -> object::Result<Self> {
        let mut image = Self {
            functions: Vec::new(),
            fixed: None,
            names: BTreeMap::new(),
            sections: Vec::new(),
        };
        if !matches!(file.kind(), ObjectKind::Executable | ObjectKind::Dynamic) {
            return Ok(image);
        }
        for section in file.sections() {
            let data = section.data()?;
            if section.address() > 0 && !data.is_empty() {
                let end = section.address().saturating_add(data.len() as u64);
                image.sections.push((section.address()..end, data));
            }
        }
        if file.kind() == ObjectKind::Executable {
            let spans = || file.segments().map(|s| (s.address(), s.address() + s.size()));
            let start = spans().map(|(start, _)| start).min().unwrap_or_default();
            let end = spans().map(|(_, end)| end).max().unwrap_or_default();
            image.fixed = Some(start..end);
        }
        image.functions = functions(file)?;
        image.name(file)?;
        Ok(image)
    }

    /// The bytes of a function.
    pub(super) fn code(&self, function: &Found) -> Option<&'a [u8]> {
        self.bytes(function.start..function.end)
    }

    fn bytes(&self, range: Range<u64>) -> Option<&'a [u8]> {
        let (place, data) = self.sections.iter().find(|(place, _)| place.contains(&range.start))?;
        let start = usize::try_from(range.start - place.start).ok()?;
        let end = usize::try_from(range.end.checked_sub(place.start)?).ok()?;
        data.get(start..end)
    }

    /// What an address is called.
    pub(super) fn at(&self, address: u64) -> Name<'_> {
        if let Some(name) = self.names.get(&address) {
            return Name::Start(name);
        }
        let next = self.functions.partition_point(|function| function.start <= address);
        match next.checked_sub(1).map(|index| &self.functions[index]) {
            Some(function) if address < function.end => Name::Inside(&function.plain),
            _ => Name::Nothing,
        }
    }

    /// Whether a number in the code may be an address of this file.
    pub(super) fn is_address(&self, value: u64) -> bool {
        self.fixed.as_ref().is_some_and(|range| range.contains(&value))
    }

    fn name(&mut self, file: &object::File<'a>) -> object::Result<()> {
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            // A global variable keeps its name, a local one (`counter.2`) does not.
            if symbol.kind() == SymbolKind::Data && symbol.is_global() && symbol.is_definition() {
                let name = String::from_utf8_lossy(symbol.name_bytes()?).into_owned();
                let known = self.names.entry(symbol.address()).or_insert_with(|| name.clone());
                // Of several names for one place always the same one.
                if name < *known {
                    *known = name;
                }
            }
        }
        let slots = slots(file)?;
        for section in file.sections().filter(|s| s.name().is_ok_and(|n| n.starts_with(".plt"))) {
            let (start, code) = (section.address(), section.data()?);
            let stubs = match file.architecture() {
                Architecture::X86_64 => x86::stubs(start, code),
                Architecture::Aarch64 => aarch64::stubs(start, code),
                _ => Vec::new(),
            };
            for (stub, slot) in stubs {
                if let Some(name) = slots.get(&slot) {
                    self.names.insert(stub, name.clone());
                }
            }
        }
        self.names.extend(slots);
        let functions = self.functions.iter();
        self.names.extend(functions.map(|found| (found.start, found.plain.clone())));
        Ok(())
    }
}

/// The places that the loader fills with the address of a symbol: address to name.
fn slots(file: &object::File<'_>) -> object::Result<BTreeMap<u64, String>> {
    let (Some(relocations), Some(table)) =
        (file.dynamic_relocations(), file.dynamic_symbol_table())
    else {
        return Ok(BTreeMap::new());
    };
    let mut slots = BTreeMap::new();
    for (place, relocation) in relocations {
        if let RelocationTarget::Symbol(index) = relocation.target() {
            let name = table.symbol_by_index(index)?.name_bytes()?;
            slots.insert(place, String::from_utf8_lossy(name).into_owned());
        }
    }
    Ok(slots)
}

/// A function symbol as it stands in the table.
struct Symbol {
    start: u64,
    size: u64,
    local: bool,
    name: String,
    file: Option<String>,
}

fn functions(file: &object::File<'_>) -> object::Result<Vec<Found>> {
    let mut symbols = read(file.symbols())?;
    if symbols.is_empty() {
        // Stripped: what others may call is still known.
        symbols = read(file.dynamic_symbols())?;
    }
    // Of several names for one function a global one, and always the same.
    symbols.sort_by(|a, b| (a.start, a.local, &a.name).cmp(&(b.start, b.local, &b.name)));
    symbols.dedup_by_key(|symbol| symbol.start);
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut found: Vec<Found> = Vec::new();
    for symbol in symbols {
        let plain = plain(&symbol.name).to_owned();
        let name = match symbol.file.filter(|_| symbol.local) {
            Some(file) => format!("{plain} ({file})"),
            None => plain.clone(),
        };
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        let name = if *count == 1 { name } else { format!("{name} #{count}") };
        let end = symbol.start.saturating_add(symbol.size);
        found.push(Found { start: symbol.start, end, symbol: name, plain });
    }
    Ok(found)
}

/// The defined functions of a symbol table. The symbols of a source file follow its own one.
fn read<'a>(
    symbols: impl Iterator<Item = impl object::ObjectSymbol<'a>>,
) -> object::Result<Vec<Symbol>> {
    let (mut found, mut file) = (Vec::new(), None);
    for symbol in symbols {
        let name = String::from_utf8_lossy(symbol.name_bytes()?).into_owned();
        if symbol.kind() == SymbolKind::File {
            file = is_source(&name).then_some(name);
        } else if symbol.kind() == SymbolKind::Text && !symbol.is_undefined() && symbol.size() > 0 {
            let (start, size, local) = (symbol.address(), symbol.size(), symbol.is_local());
            found.push(Symbol { start, size, local, name, file: file.clone() });
        }
    }
    Ok(found)
}

/// Whether this is the name of a source file and not one that a linker made up.
fn is_source(name: &str) -> bool {
    let ends = [".c", ".cc", ".cpp", ".cxx", ".C", ".s", ".S"];
    ends.iter().any(|end| name.ends_with(end))
}

/// A name without what link-time optimisation appends to it: `f.lto_priv.3`, `f.llvm.123456`.
fn plain(name: &str) -> &str {
    for mark in [".lto_priv.", ".llvm."] {
        if let Some((start, digits)) = name.rsplit_once(mark)
            && !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
        {
            return plain(start);
        }
    }
    name
}

#[cfg(test)]
impl Image<'_> {
    /// An image of these functions (name, start, end) and other names, for tests.
    pub(super) fn of(functions: &[(&str, u64, u64)], names: &[(&str, u64)]) -> Self {
        let functions: Vec<Found> = functions
            .iter()
            .map(|&(name, start, end)| Found {
                start,
                end,
                symbol: name.into(),
                plain: name.into(),
            })
            .collect();
        let mut all: BTreeMap<u64, String> =
            names.iter().map(|&(name, place)| (place, name.to_owned())).collect();
        all.extend(functions.iter().map(|found| (found.start, found.plain.clone())));
        Self { functions, fixed: None, names: all, sections: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_only_what_link_time_optimisation_adds() {
        for (name, expected) in [
            ("f", "f"),
            ("f.lto_priv.0", "f"),
            ("f.lto_priv.0.llvm.77", "f"),
            ("f.cold", "f.cold"),
            ("f.constprop.0", "f.constprop.0"),
            ("f.llvm.x", "f.llvm.x"),
            ("f.llvm.", "f.llvm."),
        ] {
            assert_eq!(plain(name), expected);
        }
        assert!(is_source("main.c") && !is_source("<artificial>") && !is_source("ccX.ltrans0.o"));
    }

    #[test]
    fn an_address_is_a_start_or_inside_or_nothing() {
        let image = Image::of(&[("a", 0x100, 0x120), ("b", 0x140, 0x150)], &[("puts", 0x200)]);
        for (address, expected) in [
            (0xff, Name::Nothing),
            (0x100, Name::Start("a")),
            (0x11f, Name::Inside("a")),
            (0x120, Name::Nothing),
            (0x140, Name::Start("b")),
            (0x200, Name::Start("puts")),
            (0x201, Name::Nothing),
        ] {
            assert_eq!(image.at(address), expected, "{address:#x}");
        }
    }
}
