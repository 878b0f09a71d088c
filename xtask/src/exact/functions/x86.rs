//! x86-64: a function's instructions without what depends on its place.
//!
//! Of each instruction the bytes are kept, but for three things, which are zeroed and told instead:
//! the distance of a branch (told as the number of the instruction inside of the function, else as
//! the name of the target), the distance of a RIP-relative operand (as the name), and in a file
//! with a fixed address every 32- or 64-bit number that is an address in the file. A branch with a
//! short distance counts as the same instruction as one with a long distance.
//!
//! What this cannot see: in a file with a fixed address a constant that happens to look like one of
//! its addresses; and a change of an unnamed constant that is only referred to, which shows in the
//! section that holds it.

use iced_x86::{ConstantOffsets, Decoder, DecoderOptions, Instruction, OpKind};

use super::image::{Found, Image, Name};

/// A function's instructions as bytes that do not depend on its place.
pub(super) fn normal(image: &Image<'_>, function: &Found, code: &[u8]) -> Vec<u8> {
    let decoded = decode(function.start, code);
    let starts: Vec<u64> = decoded.iter().map(|(instruction, _)| instruction.ip()).collect();
    let refer = Refer { image, function, starts: &starts };
    let mut out = Vec::with_capacity(code.len() * 2);
    let mut at = 0;
    for (instruction, offsets) in &decoded {
        if instruction.is_invalid() {
            // Data between the code, or an instruction newer than this decoder: as it is.
            break;
        }
        let end = at + instruction.len();
        let mut bytes = code[at..end].to_vec();
        at = end;
        let mut told = Vec::new();
        let near = [OpKind::NearBranch16, OpKind::NearBranch32, OpKind::NearBranch64];
        if near.contains(&instruction.op0_kind()) {
            bytes.truncate(offsets.immediate_offset());
            one_length(&mut bytes);
            refer.tell(instruction.near_branch_target(), &mut told);
        } else if instruction.is_ip_rel_memory_operand() {
            zero(&mut bytes, offsets.displacement_offset(), offsets.displacement_size());
            refer.tell(instruction.ip_rel_memory_address(), &mut told);
        } else {
            for (offset, size) in [
                (offsets.displacement_offset(), offsets.displacement_size()),
                (offsets.immediate_offset(), offsets.immediate_size()),
            ] {
                let value = number(&bytes, offset, size);
                if let Some(value) = value.filter(|&value| image.is_address(value)) {
                    zero(&mut bytes, offset, size);
                    refer.tell(value, &mut told);
                }
            }
        }
        out.extend_from_slice(&bytes);
        out.extend_from_slice(&told);
    }
    out.extend_from_slice(&code[at..]);
    out
}

/// All instructions up to the first that is none, and where their constants stand.
fn decode(start: u64, code: &[u8]) -> Vec<(Instruction, ConstantOffsets)> {
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let mut decoded = Vec::with_capacity(code.len() / 3);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let offsets = decoder.get_constant_offsets(&instruction);
        decoded.push((instruction, offsets));
        if instruction.is_invalid() {
            break;
        }
    }
    decoded
}

/// How references are told.
struct Refer<'a> {
    image: &'a Image<'a>,
    function: &'a Found,
    starts: &'a [u64],
}

impl Refer<'_> {
    fn tell(&self, target: u64, out: &mut Vec<u8>) {
        let own = (self.function.start..self.function.end).contains(&target);
        if own && let Ok(index) = self.starts.binary_search(&target) {
            out.extend_from_slice(format!("<.{index}>").as_bytes());
            return;
        }
        let text = match self.image.at(target) {
            Name::Start(name) => format!("<{name}>"),
            Name::Inside(name) => format!("<in {name}>"),
            Name::Nothing => "<>".to_owned(),
        };
        out.extend_from_slice(text.as_bytes());
    }
}

/// Gives a branch the opcode of its short form: the assembler takes the long one by distance.
fn one_length(bytes: &mut Vec<u8>) {
    if let [.., 0x0f, opcode @ 0x80..=0x8f] = bytes[..] {
        bytes.truncate(bytes.len() - 2);
        bytes.push(opcode - 0x10);
    } else if let Some(opcode @ 0xe9) = bytes.last_mut() {
        *opcode = 0xeb;
    }
}

fn zero(bytes: &mut [u8], offset: usize, size: usize) {
    if let Some(field) = bytes.get_mut(offset..offset + size) {
        field.fill(0);
    }
}

/// A number of 32 bits (which the processor extends by its sign) or 64 bits in an instruction.
fn number(bytes: &[u8], offset: usize, size: usize) -> Option<u64> {
    let field = bytes.get(offset..offset.checked_add(size)?)?;
    match size {
        4 => Some(i64::from(i32::from_le_bytes(field.try_into().ok()?)) as u64),
        8 => Some(u64::from_le_bytes(field.try_into().ok()?)),
        _ => None,
    }
}

/// The stubs of a procedure linkage table: address, and the entry that each jumps through. A stub
/// may begin with the landing mark of indirect branches (ENDBR64).
pub(super) fn stubs(start: u64, code: &[u8]) -> Vec<(u64, u64)> {
    const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    /// `jmp *distance(%rip)`.
    const JUMP: [u8; 2] = [0xff, 0x25];
    let mut found = Vec::new();
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let mut mark = None;
    while decoder.can_decode() {
        let at = decoder.position();
        let instruction = decoder.decode();
        let bytes = &code[at..decoder.position()];
        // An old linker puts the BND prefix in front.
        let jump = bytes.strip_prefix(&[0xf2]).unwrap_or(bytes).starts_with(&JUMP);
        if jump && instruction.is_ip_rel_memory_operand() {
            let slot = instruction.ip_rel_memory_address();
            found.push((instruction.ip(), slot));
            found.extend(mark.map(|mark| (mark, slot)));
        }
        mark = (bytes == ENDBR64).then_some(instruction.ip());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(image: &Image<'_>, name: &str, code: &[u8]) -> Vec<u8> {
        let function = image.functions.iter().find(|found| found.symbol == name).expect("there");
        assert_eq!(function.end - function.start, code.len() as u64, "{name}");
        normal(image, function, code)
    }

    /// `call` by its distance from the instruction behind it.
    fn call(from: u64, to: u64) -> Vec<u8> {
        let distance = to.wrapping_sub(from + 5) as u32;
        [&[0xe8], &distance.to_le_bytes()[..]].concat()
    }

    #[test]
    fn a_call_counts_by_the_name_of_its_target() {
        let one = Image::of(&[("f", 0x100, 0x105), ("g", 0x200, 0x201)], &[]);
        let moved = Image::of(&[("f", 0x180, 0x185), ("g", 0x300, 0x301)], &[]);
        let other = Image::of(&[("f", 0x100, 0x105), ("h", 0x200, 0x201)], &[]);
        let hashed = of(&one, "f", &call(0x100, 0x200));
        assert_eq!(hashed, of(&moved, "f", &call(0x180, 0x300)));
        assert_ne!(hashed, of(&other, "f", &call(0x100, 0x200)));
        assert_ne!(hashed, of(&one, "f", &call(0x100, 0x203)), "not the start of g");
    }

    #[test]
    fn a_branch_inside_counts_by_instruction_and_not_by_length() {
        // je +1; nop; ret and the same with a 32-bit distance.
        let short = [0x74, 0x01, 0x90, 0xc3];
        let long = [0x0f, 0x84, 0x01, 0x00, 0x00, 0x00, 0x90, 0xc3];
        let of = |code: &[u8]| {
            let image = Image::of(&[("f", 0x100, 0x100 + code.len() as u64)], &[]);
            of(&image, "f", code)
        };
        assert_eq!(of(&short), of(&long));
        assert_ne!(of(&short), of(&[0x75, 0x01, 0x90, 0xc3]), "jne");
        assert_ne!(of(&short), of(&[0x74, 0x00, 0x90, 0xc3]), "another target");
        assert_eq!(of(&[0xeb, 0x00, 0xc3]), of(&[0xe9, 0, 0, 0, 0, 0xc3]));
        // Loops have no long form and are no jumps.
        assert_ne!(of(&[0xe2, 0x00, 0xc3]), of(&[0xeb, 0x00, 0xc3]));
    }

    #[test]
    fn data_counts_by_name_and_constants_by_value() {
        let image = |data: u64| Image::of(&[("f", 0x100, 0x108)], &[("counter", data)]);
        // mov distance(%rip),%eax; push $n
        let code = |data: u64, last: u8| {
            let distance = (data - 0x106) as u32;
            [&[0x8b, 0x05], &distance.to_le_bytes()[..], &[0x6a, last]].concat()
        };
        let hashed = of(&image(0x4000), "f", &code(0x4000, 1));
        assert_eq!(hashed, of(&image(0x5000), "f", &code(0x5000, 1)));
        assert_ne!(hashed, of(&image(0x4000), "f", &code(0x4000, 2)));
        assert_ne!(hashed, of(&image(0x4000), "f", &code(0x4010, 1)), "nothing has that name");
    }

    #[test]
    fn numbers_are_addresses_only_where_the_file_is_fixed() {
        // mov $0x401020,%edi; ret
        let code = |value: u32| [&[0xbf], &value.to_le_bytes()[..], &[0xc3]].concat();
        let mut image = Image::of(&[("f", 0x401_000, 0x401_006)], &[("a", 0x401_020)]);
        let free = of(&image, "f", &code(0x401_020));
        assert_ne!(free, of(&image, "f", &code(0x401_040)));
        image.fixed = Some(0x400_000..0x402_000);
        let by_name = of(&image, "f", &code(0x401_020));
        assert_ne!(by_name, of(&image, "f", &code(0x401_040)));
        assert_eq!(of(&image, "f", &code(0x401_040)), of(&image, "f", &code(0x401_050)));
        assert_ne!(of(&image, "f", &code(7)), of(&image, "f", &code(8)), "no addresses");
    }

    #[test]
    fn what_is_no_instruction_counts_as_it_is() {
        let image = Image::of(&[("f", 0x100, 0x104)], &[]);
        // 0x06 (push es) does not exist in 64-bit mode.
        let hashed = of(&image, "f", &[0x90, 0x06, 1, 2]);
        assert_eq!(hashed, [0x90, 0x06, 1, 2]);
        // Cut in the middle of an instruction.
        assert_eq!(of(&image, "f", &[0x90, 0x90, 0x90, 0xe8]), [0x90, 0x90, 0x90, 0xe8]);
    }

    #[test]
    fn stubs_lead_to_their_entries() {
        // endbr64; bnd jmp *0x2000(%rip); nopl — and the older jmp; push; jmp.
        let new = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0, 0x20, 0, 0, 0x0f, 0x1f, 0x44, 0, 0];
        let slot = 0x1000 + 11 + 0x2000;
        assert_eq!(stubs(0x1000, &new), [(0x1004, slot), (0x1000, slot)]);
        let old = [0xff, 0x25, 0, 0x20, 0, 0, 0x68, 1, 0, 0, 0, 0xe9, 0, 0, 0, 0];
        assert_eq!(stubs(0x1000, &old), [(0x1000, 0x1000 + 6 + 0x2000)]);
    }
}
