//! A server under another program, which watches what it executes.

use std::path::PathBuf;

/// A program that the server runs under, and what it gets before the server's own command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Under {
    /// The program.
    pub program: PathBuf,
    /// Its arguments; it starts in the data directory.
    pub args: Vec<String>,
}
