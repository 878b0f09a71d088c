//! Exit codes, and the way an error carries its code up to `main`.
//!
//! Two kinds of failure exist: the user's world (an [`anyhow::Error`] chain, mapped to a code here)
//! and a bug (a panic, exit code 101 by Rust's own convention).

use std::fmt;

/// The documented exit codes (README, section "Exit codes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Everything asked for was done.
    Done = 0,
    /// Some cell failed; the others were still done.
    CellFailed = 1,
    /// The input (matrix file, command line, manifest) is wrong.
    Input = 2,
    /// A gate (`--fail-on`) tripped.
    Gate = 3,
    /// The environment lacks something; the message names it.
    Environment = 4,
    /// Stopped by Ctrl-C or a termination signal (128 + SIGINT).
    Interrupted = 130,
}

/// An error together with the exit code that it stands for; its text is the error's own.
#[derive(Debug)]
pub struct Coded {
    /// The code for the process.
    pub code: Code,
    error: anyhow::Error,
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl std::error::Error for Coded {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Attaches an exit code to an error.
pub trait WithCode<T> {
    /// The same result, whose error leads to `code`.
    fn code(self, code: Code) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> WithCode<T> for Result<T, E> {
    fn code(self, code: Code) -> anyhow::Result<T> {
        self.map_err(|error| anyhow::Error::new(Coded { code, error: error.into() }))
    }
}

/// An error with a code, from a text.
pub fn coded(code: Code, text: impl fmt::Display) -> anyhow::Error {
    anyhow::Error::new(Coded { code, error: anyhow::anyhow!("{text}") })
}

/// The code that an error chain stands for: the outermost one named, else [`Code::CellFailed`].
pub fn code_of(error: &anyhow::Error) -> Code {
    error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Coded>())
        .map_or(Code::CellFailed, |coded| coded.code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn code_survives_context_and_keeps_the_chain() {
        let error = Err::<(), _>(std::io::Error::other("disk on fire"))
            .context("cannot read `a`")
            .code(Code::Environment)
            .context("cannot plan")
            .expect_err("an error");
        assert_eq!(code_of(&error), Code::Environment);
        assert_eq!(format!("{error:#}"), "cannot plan: cannot read `a`: disk on fire");
        assert_eq!(code_of(&anyhow::anyhow!("plain")), Code::CellFailed);
    }
}
