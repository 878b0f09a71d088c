//! aarch64: a function's instructions without what depends on its place.
//!
//! All instructions are words of 32 bits. The distance of a branch out of the function, of ADR and
//! of ADRP is zeroed and told by the target's name instead. An address is made of two halves: ADRP
//! gives the page, a later ADD, load or store with that register the rest; so the lower half is
//! zeroed as long as the register holds the page. Encodings: Arm Architecture Reference Manual for
//! A-profile, C4.1 "A64 instruction set encoding".

use super::image::{Found, Image, Name};

/// A function's instructions as bytes that do not depend on its place.
pub(super) fn normal(image: &Image<'_>, function: &Found, code: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(code.len() * 2);
    // The page that each register holds, if an ADRP of this function gave it one.
    let mut pages: [Option<u64>; 32] = [None; 32];
    let words = code.chunks_exact(4);
    let rest = words.remainder();
    for (index, bytes) in words.enumerate() {
        let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let address = function.start + 4 * index as u64;
        let own = |target: u64| (function.start..function.end).contains(&target);
        let (mask, target) = match reference(word, address, &pages) {
            Some((mask, target, near)) if !(near && own(target)) => (mask, Some(target)),
            _ => (0, None),
        };
        out.extend_from_slice(&(word & !mask).to_le_bytes());
        if let Some(target) = target {
            tell(image, word, target, &mut out);
        }
        follow(word, address, &mut pages);
    }
    out.extend_from_slice(rest);
    out
}

fn tell(image: &Image<'_>, word: u32, target: u64, out: &mut Vec<u8>) {
    let text = match image.at(target) {
        // A page has no name; what may begin there is chance.
        _ if is_adrp(word) => return,
        Name::Start(name) => format!("<{name}>"),
        Name::Inside(name) => format!("<in {name}>"),
        Name::Nothing => "<>".to_owned(),
    };
    out.extend_from_slice(text.as_bytes());
}

const IMM26: u32 = 0x03ff_ffff;
const IMM19: u32 = 0x00ff_ffe0;
const IMM14: u32 = 0x0007_ffe0;
const IMM12: u32 = 0x003f_fc00;
/// `immlo` and `immhi` of ADR and ADRP.
const ADR_IMM: u32 = 0x60ff_ffe0;

/// The bits of an instruction that depend on its place, what they lead to, and whether that counts
/// only when it lies outside of the function.
fn reference(word: u32, address: u64, pages: &[Option<u64>; 32]) -> Option<(u32, u64, bool)> {
    let relative = |distance: i64| address.wrapping_add_signed(distance);
    // B and BL; B.cond; CBZ and CBNZ; TBZ and TBNZ.
    if word & 0x7c00_0000 == 0x1400_0000 {
        return Some((IMM26, relative(signed(word & IMM26, 26) * 4), true));
    }
    if word & 0xff00_0000 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 {
        return Some((IMM19, relative(signed((word & IMM19) >> 5, 19) * 4), true));
    }
    if word & 0x7e00_0000 == 0x3600_0000 {
        return Some((IMM14, relative(signed((word & IMM14) >> 5, 14) * 4), true));
    }
    if word & 0x9f00_0000 == 0x1000_0000 {
        return Some((ADR_IMM, relative(adr(word)), true));
    }
    if is_adrp(word) {
        return Some((ADR_IMM, page(word, address), false));
    }
    // The number of LDR (literal) lies in the function's own pool.
    let base = pages[((word >> 5) & 31) as usize]?;
    let offset = low_half(word)?;
    Some((IMM12, base.wrapping_add(offset), false))
}

/// The offset in ADD (immediate, 64 bits, not shifted) or in a load or store with an unsigned
/// offset, in bytes; `None` for another instruction.
fn low_half(word: u32) -> Option<u64> {
    let imm12 = u64::from((word & IMM12) >> 10);
    if word & 0xffc0_0000 == 0x9100_0000 {
        return Some(imm12);
    }
    if word & 0x3b00_0000 != 0x3900_0000 {
        return None;
    }
    // The offset counts in units of what is loaded; a vector of 128 bits has a bit of its own.
    let whole_vector = word & 0x0480_0000 == 0x0480_0000 && word >> 30 == 0;
    let scale = if whole_vector { 4 } else { word >> 30 };
    Some(imm12 << scale)
}

fn is_adrp(word: u32) -> bool {
    word & 0x9f00_0000 == 0x9000_0000
}

fn page(word: u32, address: u64) -> u64 {
    (address & !0xfff).wrapping_add_signed(adr(word) << 12)
}

/// The 21-bit number of ADR and ADRP.
fn adr(word: u32) -> i64 {
    signed(((word & IMM19) >> 3) | ((word >> 29) & 3), 21)
}

fn signed(value: u32, bits: u32) -> i64 {
    let shift = 64 - bits;
    ((u64::from(value) << shift) as i64) >> shift
}

/// Notes which registers hold a page behind this instruction. Whatever else writes a register takes
/// the page from it.
fn follow(word: u32, address: u64, pages: &mut [Option<u64>; 32]) {
    let target = (word & 31) as usize;
    if is_adrp(word) {
        pages[target] = Some(page(word, address));
        return;
    }
    // A call may use all registers that need not be kept (AAPCS64, 6.1.1): BL and BLR.
    if word & 0xfc00_0000 == 0x9400_0000 || word & 0xffff_fc1f == 0xd63f_0000 {
        pages[..19].fill(None);
        return;
    }
    match (word >> 25) & 15 {
        // Data processing with a constant or with registers.
        0b1000 | 0b1001 | 0b0101 | 0b1101 => pages[target] = None,
        // Loads and stores. What is stored is kept; vector registers hold no page.
        group if group & 0b0101 == 0b0100 && word & 0x0400_0000 == 0 && loads(word) => {
            pages[target] = None;
            // A pair has its second register elsewhere.
            if word & 0x3a00_0000 == 0x2800_0000 {
                pages[((word >> 10) & 31) as usize] = None;
            }
        }
        _ => {}
    }
}

/// Whether a load or store of general registers is a load.
fn loads(word: u32) -> bool {
    // Pairs have one bit for it, literals are always loads, single registers have two bits.
    match word & 0x3b00_0000 {
        0x2800_0000 | 0x2900_0000 => word & 0x0040_0000 != 0,
        0x1800_0000 => true,
        0x3800_0000 | 0x3900_0000 => word & 0x00c0_0000 != 0,
        _ => true,
    }
}

/// The stubs of a procedure linkage table: address, and the entry that each jumps through. A stub
/// is `adrp x16, page; ldr x17, [x16, offset]; …`, with a landing mark (BTI C) in front or without.
pub(super) fn stubs(start: u64, code: &[u8]) -> Vec<(u64, u64)> {
    const BTI_C: u32 = 0xd503_245f;
    let words: Vec<u32> =
        code.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let mut found = Vec::new();
    for (index, pair) in words.windows(2).enumerate() {
        // ldr x17, [x16, …]
        if !is_adrp(pair[0]) || pair[0] & 31 != 16 || pair[1] & 0xffc0_03ff != 0xf940_0211 {
            continue;
        }
        let address = start + 4 * index as u64;
        let slot = page(pair[0], address).wrapping_add(low_half(pair[1]).unwrap_or_default());
        found.push((address, slot));
        if index > 0 && words[index - 1] == BTI_C {
            found.push((address - 4, slot));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(image: &Image<'_>, words: &[u32]) -> Vec<u8> {
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let function = &image.functions[0];
        assert_eq!(function.end - function.start, code.len() as u64);
        normal(image, function, &code)
    }

    fn image(start: u64, words: usize, names: &[(&str, u64)]) -> Image<'static> {
        Image::of(&[("f", start, start + 4 * words as u64)], names)
    }

    fn bl(from: u64, to: u64) -> u32 {
        0x9400_0000 | ((to.wrapping_sub(from) / 4) as u32 & IMM26)
    }

    fn adrp(register: u32, from: u64, to: u64) -> u32 {
        let pages = ((to >> 12).wrapping_sub(from >> 12)) as u32 & 0x1f_ffff;
        0x9000_0000 | (pages & 3) << 29 | (pages >> 2) << 5 | register
    }

    fn add(target: u32, base: u32, offset: u32) -> u32 {
        0x9100_0000 | offset << 10 | base << 5 | target
    }

    /// `ldr w<target>, [x<base>, #offset]`.
    fn ldr(target: u32, base: u32, offset: u32) -> u32 {
        0xb940_0000 | (offset / 4) << 10 | base << 5 | target
    }

    const RET: u32 = 0xd65f_03c0;

    #[test]
    fn known_encodings() {
        // As the assembler of binutils writes them.
        assert_eq!(bl(0x1000, 0x0ff0), 0x97ff_fffc);
        assert_eq!(adrp(0, 0x1000, 0x11000), 0x9000_0080);
        assert_eq!(add(0, 0, 0x10), 0x9100_4000);
        assert_eq!(ldr(1, 0, 8), 0xb940_0801);
        assert_eq!(page(0x9000_0080, 0x1234), 0x11000);
        assert_eq!(page(adrp(3, 0x5000, 0x2000), 0x5000), 0x2000);
        assert_eq!(low_half(0x3dc0_0400), Some(16), "ldr q0, [x0, #16]");
        assert_eq!(low_half(0xf940_0400), Some(8), "ldr x0, [x0, #8]");
        assert_eq!(low_half(0x3940_0400), Some(1), "ldrb w0, [x0, #1]");
        assert_eq!(low_half(0x9140_0400), None, "add x0, x0, #1, lsl #12");
    }

    #[test]
    fn calls_count_by_name_and_branches_inside_by_distance() {
        let one = of(&image(0x1000, 2, &[("g", 0x2000)]), &[bl(0x1000, 0x2000), RET]);
        let moved = of(&image(0x4000, 2, &[("g", 0x8000)]), &[bl(0x4000, 0x8000), RET]);
        let other = of(&image(0x1000, 2, &[("h", 0x2000)]), &[bl(0x1000, 0x2000), RET]);
        assert_eq!(one, moved);
        assert_ne!(one, other);
        // b.eq +8 stays inside: the distance counts, the place does not.
        let branch = |start, distance: u32| {
            of(&image(start, 3, &[]), &[0x5400_0000 | distance << 5, RET, RET])
        };
        assert_eq!(branch(0x1000, 2), branch(0x4000, 2));
        assert_ne!(branch(0x1000, 2), branch(0x1000, 1));
        // Out of the function the distance does not count.
        assert_eq!(branch(0x1000, 20), branch(0x1000, 21));
    }

    #[test]
    fn both_halves_of_an_address_are_taken_together() {
        let names = [("table", 0x11010)];
        let address = |start, to: u64, names: &[(&str, u64)]| {
            let code = [adrp(0, start, to), add(0, 0, (to & 0xfff) as u32), RET];
            of(&image(start, 3, names), &code)
        };
        let one = address(0x1000, 0x11010, &names);
        assert_eq!(one, address(0x5000, 0x33440, &[("table", 0x33440)]));
        assert_ne!(one, address(0x1000, 0x11020, &names), "another place has no such name");
        let load = |start, to: u64, names: &[(&str, u64)]| {
            let code = [adrp(2, start, to), ldr(1, 2, (to & 0xfff) as u32), RET];
            of(&image(start, 3, names), &code)
        };
        assert_eq!(load(0x1000, 0x11010, &names), load(0x9000, 0x4008, &[("table", 0x4008)]));
    }

    #[test]
    fn an_offset_counts_when_the_register_holds_no_page_any_more() {
        // Without ADRP, offsets are fields of a structure.
        let field = |offset| of(&image(0x1000, 2, &[]), &[ldr(1, 0, offset), RET]);
        assert_ne!(field(8), field(12));
        // The address is loaded over its own page: what follows are fields again.
        let loaded = |offset| {
            let code = [adrp(0, 0x1000, 0x11000), 0xf940_0000, ldr(1, 0, offset), RET];
            of(&image(0x1000, 4, &[]), &code)
        };
        assert_ne!(loaded(8), loaded(12));
        // A call takes x0 and leaves x19.
        let called = |register, offset| {
            let call = bl(0x1004, 0x2000);
            let code = [adrp(register, 0x1000, 0x11000), call, ldr(1, register, offset), RET];
            of(&image(0x1000, 4, &[]), &code)
        };
        assert_ne!(called(0, 8), called(0, 12));
        assert_eq!(called(19, 8), called(19, 12));
    }

    #[test]
    fn stubs_lead_to_their_entries() {
        let load = 0xf940_0211 | (0x20 / 8) << 10;
        let words = [0xd503_245f, adrp(16, 0x1004, 0x11000), load, 0x9100_8210, 0xd61f_0220];
        let code: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        assert_eq!(stubs(0x1000, &code), [(0x1004, 0x11020), (0x1000, 0x11020)]);
    }
}
