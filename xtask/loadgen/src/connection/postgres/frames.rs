//! The bytes that the server sent, cut into messages in place.

use std::io::Read;

use anyhow::Context as _;
use postgres_protocol::message::backend::Header;

use crate::connection::buffer::Buffer;

/// Messages of a benchmark are far below; a length above is a broken stream, not a row.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// A buffer of messages.
#[derive(Default)]
pub struct Frames(Buffer);

impl Frames {
    /// The next whole message (tag, length, body), or `None` when more bytes are needed.
    ///
    /// # Errors
    ///
    /// When the length is none of a message.
    #[inline]
    pub fn next(&mut self) -> anyhow::Result<Option<&[u8]>> {
        let bytes = self.0.pending();
        let header = Header::parse(bytes).context("the server sent what is not its protocol")?;
        let Some(header) = header else { return Ok(None) };
        // The length counts itself, not the tag.
        let length = header.len() as usize + 1;
        if length > bytes.len() {
            anyhow::ensure!(length <= MOST_BYTES, "the server sent a message of {length} bytes");
            return Ok(None);
        }
        let range = self.0.take(length);
        Ok(Some(self.0.get(range)))
    }

    /// Waits for more bytes.
    ///
    /// # Errors
    ///
    /// As [`Buffer::fill`].
    pub fn fill(&mut self, from: &mut impl Read) -> anyhow::Result<()> {
        self.0.fill(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::buffer::INITIAL_BYTES;

    fn put(frames: &mut Frames, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            frames.fill(&mut bytes).unwrap();
        }
    }

    #[test]
    fn messages_come_out_whole_wherever_they_are_cut() {
        let mut frames = Frames::default();
        let stream = b"Z\0\0\0\x05ID\0\0\0\x06abZ\0\0\0\x05T";
        for cut in 0..stream.len() {
            let mut seen = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                put(&mut frames, part);
                while let Some(frame) = frames.next().unwrap() {
                    seen.push(frame.to_vec());
                }
            }
            assert_eq!(seen, [&stream[..6], &stream[6..13], &stream[13..]]);
        }
    }

    #[test]
    fn a_long_message_grows_the_buffer() {
        let mut frames = Frames::default();
        let body = 3 * INITIAL_BYTES;
        let mut message = vec![b'D'];
        message.extend_from_slice(&(body as u32 + 4).to_be_bytes());
        message.resize(body + 5, 7);
        let stream = [b"Z\0\0\0\x05I".as_slice(), &message].concat();
        let mut rest = &stream[..];
        let mut lengths = Vec::new();
        while !rest.is_empty() {
            frames.fill(&mut rest).unwrap();
            while let Some(frame) = frames.next().unwrap() {
                lengths.push(frame.len());
            }
        }
        assert_eq!(lengths, [6, body + 5]);
    }

    #[test]
    fn nonsense_is_an_error() {
        for bytes in [b"D\0\0\0\x03".as_slice(), b"D\x7f\xff\xff\xff", b"D\xff\xff\xff\xff"] {
            let mut frames = Frames::default();
            put(&mut frames, bytes);
            assert!(frames.next().is_err(), "{bytes:?}");
        }
    }
}
