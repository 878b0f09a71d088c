//! Packets: how a payload travels. Each has a header of three bytes of length and one byte that
//! counts the packets of an exchange; a payload of 2^24 - 1 bytes or more takes several.
//!
//! Source: MySQL source documentation, "Client/Server Protocol", section "MySQL Packets".

use std::io::Read;
use std::ops::Range;

use anyhow::ensure;

use crate::connection::buffer::Buffer;

/// Bytes of a header.
pub const HEADER: usize = 4;
/// The longest payload of one packet; one of this length has a next part.
pub const MOST_PART: usize = 0x00ff_ffff;
/// Answers to a benchmark are far below; one above is a broken stream, not a row.
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// The first byte of a payload that says why something failed.
const ERROR: u8 = 0xff;

/// The packets of one connection.
#[derive(Default)]
pub struct Packets {
    buffer: Buffer,
    /// The number of the next packet, in either direction.
    sequence: u8,
}

impl Packets {
    /// The next whole payload, as a place for [`Packets::payload`], or `None` when more bytes are
    /// needed.
    ///
    /// # Errors
    ///
    /// When a packet is out of order, or the payload longer than any answer.
    #[inline]
    pub fn next(&mut self) -> anyhow::Result<Option<Range<usize>>> {
        let Some((length, sequence)) = header(self.buffer.pending()) else { return Ok(None) };
        if length == MOST_PART {
            return self.next_long();
        }
        let whole = HEADER + length;
        let Some(packet) = self.buffer.pending().get(..whole) else { return Ok(None) };
        // A server that ends a connection says so whatever was asked.
        let expected = sequence == self.sequence || packet.get(HEADER) == Some(&ERROR);
        ensure!(expected, "the server sent packet {sequence} instead of {}", self.sequence);
        self.sequence = sequence.wrapping_add(1);
        let range = self.buffer.take(whole);
        Ok(Some(range.start + HEADER..range.end))
    }

    /// A payload in several packets: their headers are taken out.
    #[cold]
    fn next_long(&mut self) -> anyhow::Result<Option<Range<usize>>> {
        let pending = self.buffer.pending();
        let mut parts = Vec::new();
        let (mut at, mut next) = (0, self.sequence);
        loop {
            ensure!(at <= MOST_BYTES, "the server sent a payload of more than {MOST_BYTES} bytes");
            let Some((length, sequence)) = pending.get(at..).and_then(header) else {
                return Ok(None);
            };
            let place = at + HEADER..at + HEADER + length;
            if pending.get(place.clone()).is_none() {
                return Ok(None);
            }
            ensure!(sequence == next, "the server sent packet {sequence} instead of {next}");
            next = next.wrapping_add(1);
            at = place.end;
            parts.push(place);
            if length < MOST_PART {
                break;
            }
        }
        let mut length = 0;
        for part in parts {
            let end = length + part.len();
            self.buffer.pending_mut().copy_within(part, length);
            length = end;
        }
        self.sequence = next;
        let range = self.buffer.take(at);
        Ok(Some(range.start..range.start + length))
    }

    /// A payload, until the next [`Packets::fill`].
    #[inline]
    pub fn payload(&self, range: Range<usize>) -> &[u8] {
        self.buffer.get(range)
    }

    /// Waits for more bytes.
    ///
    /// # Errors
    ///
    /// As [`Buffer::fill`].
    pub fn fill(&mut self, from: &mut impl Read) -> anyhow::Result<()> {
        self.buffer.fill(from)
    }

    /// A new exchange begins.
    #[inline]
    pub fn restart(&mut self) {
        self.sequence = 0;
    }

    /// Makes packets of `out`: room for a header and then the payload.
    #[inline]
    pub fn seal(&mut self, out: &mut Vec<u8>) {
        let payload = out.len() - HEADER;
        if payload < MOST_PART {
            out[..HEADER].copy_from_slice(&self.next_header(payload));
        } else {
            self.seal_long(out);
        }
    }

    #[cold]
    fn seal_long(&mut self, out: &mut Vec<u8>) {
        let payload = out.split_off(HEADER);
        out.clear();
        let mut rest = &payload[..];
        loop {
            let (part, after) = rest.split_at(rest.len().min(MOST_PART));
            out.extend_from_slice(&self.next_header(part.len()));
            out.extend_from_slice(part);
            rest = after;
            // A part of the full length always has a next one, if an empty one.
            if part.len() < MOST_PART {
                break;
            }
        }
    }

    fn next_header(&mut self, length: usize) -> [u8; HEADER] {
        let [a, b, c, ..] = (length as u32).to_le_bytes();
        let header = [a, b, c, self.sequence];
        self.sequence = self.sequence.wrapping_add(1);
        header
    }
}

/// Length and number, once the header is there.
#[inline]
fn header(bytes: &[u8]) -> Option<(usize, u8)> {
    let [a, b, c, sequence] = *bytes.first_chunk::<HEADER>()?;
    Some((u32::from_le_bytes([a, b, c, 0]) as usize, sequence))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All payloads in `stream`, which comes in pieces of at most `piece` bytes.
    fn payloads(
        packets: &mut Packets,
        stream: &[u8],
        piece: usize,
    ) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut seen = Vec::new();
        for mut bytes in stream.chunks(piece) {
            while !bytes.is_empty() {
                packets.fill(&mut bytes).unwrap();
                while let Some(range) = packets.next()? {
                    seen.push(packets.payload(range).to_vec());
                }
            }
        }
        Ok(seen)
    }

    fn sealed(payloads: &[Vec<u8>]) -> Vec<u8> {
        let mut packets = Packets::default();
        let seal = |payload: &Vec<u8>| {
            let mut out = [vec![0; HEADER], payload.clone()].concat();
            packets.seal(&mut out);
            out
        };
        payloads.iter().flat_map(seal).collect()
    }

    #[test]
    fn a_packet_has_its_length_and_number() {
        assert_eq!(sealed(&[b"abc".to_vec(), vec![]]), b"\x03\0\0\0abc\0\0\0\x01");
    }

    #[test]
    fn payloads_about_the_limit_of_one_packet_come_back_whole() {
        for (length, parts) in [(MOST_PART - 1, 1), (MOST_PART, 2), (MOST_PART + 1, 2)] {
            let mut long = vec![7; length];
            long[MOST_PART - 2] = 8;
            *long.last_mut().unwrap() = 9;
            let before_and_after = [b"a".to_vec(), long, b"b".to_vec()];
            let stream = sealed(&before_and_after);
            assert_eq!(stream.len(), length + 2 + (2 + parts) * HEADER);
            let mut packets = Packets::default();
            assert!(payloads(&mut packets, &stream, 1 << 20).unwrap() == before_and_after);
        }
    }

    #[test]
    fn packets_out_of_order_are_an_error_unless_they_are_one() {
        let mut packets = Packets::default();
        let error = payloads(&mut packets, b"\x01\0\0\x05a", 9).unwrap_err();
        assert_eq!(error.to_string(), "the server sent packet 5 instead of 0");
        let mut packets = Packets::default();
        assert_eq!(payloads(&mut packets, b"\x01\0\0\x05\xff", 9).unwrap(), [[0xff]]);
    }

    #[test]
    fn an_endless_payload_is_an_error_and_no_huge_allocation() {
        let mut packets = Packets::default();
        let mut part = vec![7; MOST_PART + HEADER];
        let mut read = 0;
        let error = loop {
            let number = (read / part.len()) as u8;
            part[..HEADER].copy_from_slice(&[0xff, 0xff, 0xff, number]);
            match payloads(&mut packets, &part, part.len()) {
                Ok(seen) => assert!(seen.is_empty()),
                Err(error) => break error,
            }
            read += part.len();
            assert!(read < 2 * MOST_BYTES);
        };
        assert!(error.to_string().contains("more than 67108864 bytes"), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_sealed_comes_back_wherever_it_is_cut(
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..300),
            piece in 1usize..2000,
        ) {
            let stream = sealed(&contents);
            let seen = payloads(&mut Packets::default(), &stream, piece).unwrap();
            prop_assert_eq!(seen, contents);
        }

        #[test]
        fn no_bytes_make_a_panic(
            stream in prop::collection::vec(any::<u8>(), 0..2000),
            piece in 1usize..100,
        ) {
            let mut packets = Packets::default();
            if let Ok(seen) = payloads(&mut packets, &stream, piece) {
                let taken: usize = seen.iter().map(|payload| payload.len() + HEADER).sum();
                prop_assert!(taken <= stream.len());
            }
        }
    }
}
