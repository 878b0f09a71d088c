//! The bytes that a server sent and nobody has taken yet. Nothing is copied or allocated once the
//! buffer has its size, and it grows by what has come, never by what a length promises.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use anyhow::{Context as _, bail};

/// As much as the kernel hands over in one read of a full socket buffer.
pub const INITIAL_BYTES: usize = 256 * 1024;

/// A buffer between a socket and whoever cuts the bytes into messages.
pub struct Buffer {
    bytes: Vec<u8>,
    /// Not yet taken: `bytes[begin..end]`.
    begin: usize,
    end: usize,
}

impl Default for Buffer {
    fn default() -> Self {
        Self { bytes: vec![0; INITIAL_BYTES], begin: 0, end: 0 }
    }
}

impl Buffer {
    /// What has come and was not taken.
    #[inline]
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.begin..self.end]
    }

    /// The same, to be put in order before it is taken.
    pub fn pending_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.begin..self.end]
    }

    /// Takes the first `count` pending bytes: where they are until the next [`Buffer::fill`].
    #[inline]
    pub fn take(&mut self, count: usize) -> Range<usize> {
        let begin = self.begin;
        self.begin += count;
        debug_assert!(self.begin <= self.end);
        begin..self.begin
    }

    /// Bytes that were taken.
    #[inline]
    pub fn get(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Waits for more bytes.
    ///
    /// # Errors
    ///
    /// When nothing can be read, or the other side has closed.
    pub fn fill(&mut self, from: &mut impl Read) -> anyhow::Result<()> {
        let space = self.space();
        let read = loop {
            match from.read(space) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other.context("the connection to the server was lost")?,
            }
        };
        if read == 0 {
            bail!("the server closed the connection");
        }
        self.end += read;
        Ok(())
    }

    /// Where the next bytes go; never empty.
    fn space(&mut self) -> &mut [u8] {
        if self.begin == self.end {
            self.begin = 0;
            self.end = 0;
        } else if self.end == self.bytes.len() {
            self.bytes.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
            if self.end == self.bytes.len() {
                self.bytes.resize(self.bytes.len() * 2, 0);
            }
        }
        &mut self.bytes[self.end..]
    }
}
