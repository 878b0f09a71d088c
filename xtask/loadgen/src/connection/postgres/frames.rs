//! The bytes that the server sent, cut into messages in place: nothing is copied or allocated once
//! the buffer has its size.

use anyhow::Context as _;
use postgres_protocol::message::backend::Header;

/// As much as the kernel hands over in one read of a full socket buffer.
const INITIAL_BYTES: usize = 256 * 1024;
/// Messages of a benchmark are far below; a length above is a broken stream, not a row.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// A buffer of messages.
pub struct Frames {
    buffer: Vec<u8>,
    /// The messages not yet taken: `buffer[begin..end]`.
    begin: usize,
    end: usize,
}

impl Default for Frames {
    fn default() -> Self {
        Self { buffer: vec![0; INITIAL_BYTES], begin: 0, end: 0 }
    }
}

impl Frames {
    /// The next whole message (tag, length, body), or `None` when more bytes are needed.
    ///
    /// # Errors
    ///
    /// When the length is none of a message.
    #[inline]
    pub fn next(&mut self) -> anyhow::Result<Option<&[u8]>> {
        let bytes = &self.buffer[self.begin..self.end];
        let header = Header::parse(bytes).context("the server sent what is not its protocol")?;
        let Some(header) = header else { return Ok(None) };
        // The length counts itself, not the tag.
        let length = header.len() as usize + 1;
        if length > bytes.len() {
            anyhow::ensure!(length <= MOST_BYTES, "the server sent a message of {length} bytes");
            return Ok(None);
        }
        let begin = self.begin;
        self.begin += length;
        Ok(Some(&self.buffer[begin..begin + length]))
    }

    /// Where the next bytes go; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        if self.begin == self.end {
            self.begin = 0;
            self.end = 0;
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
            if self.end == self.buffer.len() {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
        }
        &mut self.buffer[self.end..]
    }

    /// The first `count` bytes of [`Frames::space`] were filled.
    pub fn filled(&mut self, count: usize) {
        self.end += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(frames: &mut Frames, bytes: &[u8]) {
        for byte in bytes {
            frames.space()[0] = *byte;
            frames.filled(1);
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
        let mut rest = [b"Z\0\0\0\x05I".as_slice(), &message].concat();
        let mut lengths = Vec::new();
        while !rest.is_empty() {
            let space = frames.space();
            let count = space.len().min(rest.len());
            space[..count].copy_from_slice(&rest[..count]);
            frames.filled(count);
            rest.drain(..count);
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
