//! The little of ELF that is needed here: whether a file is one, and the loaded content of an
//! object file, to see whether two sets of flags give the same code.
//! Format: System V ABI, "Object Files", 64-bit little-endian form.

use std::io::Read as _;
use std::path::Path;

/// Whether the file begins like an ELF file.
pub fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    fs_err::File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
        && magic == *b"\x7fELF"
}

/// Name and bytes of each section with content that a program would load, notes left out.
///
/// # Errors
/// When this is no 64-bit little-endian ELF file, or a damaged one.
pub fn loaded(bytes: &[u8]) -> Result<Vec<(String, &[u8])>, String> {
    /// `sh_type` of a section with content of the program's own.
    const PROGBITS: u64 = 1;
    /// `sh_flags`: occupies memory when the program runs.
    const ALLOC: u64 = 2;
    if bytes.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err("not a 64-bit little-endian ELF file".to_owned());
    }
    let damaged = || "damaged ELF file".to_owned();
    let number = |at: usize, length: usize| -> Result<u64, String> {
        let slice = bytes.get(at..at.saturating_add(length)).ok_or_else(damaged)?;
        Ok(slice.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    let size = |value: u64| usize::try_from(value).map_err(|_| damaged());
    let table = size(number(0x28, 8)?)?;
    let (entry, count) = (size(number(0x3a, 2)?)?, size(number(0x3c, 2)?)?);
    let header = |index: usize| table.saturating_add(index.saturating_mul(entry));
    let content = |index: usize| -> Result<&[u8], String> {
        let at = size(number(header(index).saturating_add(0x18), 8)?)?;
        let length = size(number(header(index).saturating_add(0x20), 8)?)?;
        bytes.get(at..at.saturating_add(length)).ok_or_else(damaged)
    };
    let names = content(size(number(0x3e, 2)?)?)?;
    let mut sections = Vec::new();
    for index in 0..count {
        let at = header(index);
        if number(at.saturating_add(4), 4)? != PROGBITS
            || number(at.saturating_add(8), 8)? & ALLOC == 0
        {
            continue;
        }
        let name = names.get(size(number(at, 4)?)?..).ok_or_else(damaged)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        sections.push((String::from_utf8_lossy(name).into_owned(), content(index)?));
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_own_program_and_refuses_others() {
        let own = std::env::current_exe().unwrap();
        assert!(is_elf(&own) && !is_elf(Path::new("/etc/passwd")) && !is_elf(Path::new("/none")));
        let bytes = std::fs::read(own).unwrap();
        let sections = loaded(&bytes).unwrap();
        let text = sections.iter().find(|(name, _)| name == ".text").unwrap();
        assert!(text.1.len() > 100_000, "{}", text.1.len());
        assert!(sections.iter().all(|(name, _)| name != ".symtab" && name != ".bss"));
        assert!(loaded(b"#!/bin/sh").is_err());
        assert_eq!(loaded(&bytes[..200]).unwrap_err(), "damaged ELF file");
        assert_eq!(loaded(&bytes[..20]).unwrap_err(), "damaged ELF file");
    }
}
