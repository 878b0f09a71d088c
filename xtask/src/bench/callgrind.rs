//! Valgrind's Callgrind: how a server is run under it, and what its files say.
//!
//! It executes the program on a processor of its own and counts each instruction in user mode; what
//! the kernel does is not counted. The format of its files is that of the Valgrind manual,
//! "Callgrind Format Specification".

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::exit::{Code, coded};
use crate::interrupt;
use crate::proc::{PATH, Proc};
use crate::server::under::Under;

/// What the files in the data directory begin with.
const FILES: &str = "callgrind.";
/// What Valgrind says of an instruction that it does not know, before it ends the program.
const UNKNOWN: &str = "Unrecognised instruction at address";

/// Valgrind on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Valgrind {
    program: PathBuf,
    /// What it calls itself: `valgrind-3.19.0`.
    pub version: String,
}

impl Valgrind {
    /// Finds it.
    ///
    /// # Errors
    /// With [`Code::Environment`] and how to get it when it is not there.
    pub fn find() -> anyhow::Result<Self> {
        Self::find_in(PATH)
    }

    fn find_in(path: &str) -> anyhow::Result<Self> {
        let program = which::which_in("valgrind", Some(path), "/").map_err(|_| {
            coded(
                Code::Environment,
                "`valgrind` not found: instructions are counted with it; `apt-get install valgrind` \
                 (or `dnf`, `zypper`, `pacman -S`) brings it",
            )
        })?;
        let version = Proc::new(&program).arg("--version").read()?;
        Ok(Self { program, version })
    }

    /// The way to run a server under it. Each process leaves a file when it ends.
    pub fn under(&self) -> Under {
        let args = vec![
            "--tool=callgrind".to_owned(),
            // What the server starts itself (a shell for `archive_command`) runs as usual; what it
            // forks stays under it without this.
            "--trace-children=no".to_owned(),
            // Without its own door for debuggers, which is a file in the folder for temporary ones.
            "--vgdb=no".to_owned(),
            format!("--callgrind-out-file={FILES}%p"),
        ];
        Under { program: self.program.clone(), args }
    }
}

/// The instructions of the process `id`, which has been told to end, from its file in `data`.
///
/// # Errors
/// When the file does not come or is none.
pub fn of_process(data: &Path, id: u32, patience: Duration) -> anyhow::Result<u64> {
    let path = data.join(format!("{FILES}{id}"));
    let begin = Instant::now();
    loop {
        interrupt::check()?;
        // It is written when the process ends; its last line comes last.
        if let Ok(text) = std::fs::read_to_string(&path)
            && let Some(total) = total(&text).with_context(|| path.display().to_string())?
        {
            return Ok(total);
        }
        if begin.elapsed() > patience {
            bail!("`{}` was not written within {patience:?}", path.display());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The sum of a file: `None` while its last line is missing.
///
/// # Errors
/// When the text is not in the format, or counts something else than instructions.
fn total(text: &str) -> anyhow::Result<Option<u64>> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let Some(totals) = text.lines().rev().find_map(|line| line.strip_prefix("totals:")) else {
        return Ok(None);
    };
    let events = field("events:").context("it has no line `events:`")?;
    if events.split_whitespace().next() != Some("Ir") {
        bail!("its first event is not `Ir` but `{}`", events.trim());
    }
    // A line without its end may be half of one.
    let whole = text.ends_with('\n');
    let number = totals.split_whitespace().next().unwrap_or_default();
    let parsed = number.parse().with_context(|| format!("`{number}` is no number of events"));
    if whole { parsed.map(Some) } else { Ok(None) }
}

/// What a server's log says of an instruction that Valgrind does not know.
pub fn unknown_instruction(log: &str) -> Option<String> {
    let line = log.lines().find(|line| line.contains(UNKNOWN))?;
    let bytes = log.lines().find_map(|line| line.split("unhandled instruction bytes:").nth(1));
    let bytes = bytes.map_or_else(String::new, |bytes| format!(" ({})", bytes.trim()));
    let at = line.split(UNKNOWN).nth(1)?.trim().trim_end_matches('.');
    Some(format!(
        "valgrind does not know an instruction of this build{bytes}, at address {at}: code for \
         exactly this processor (`-march=native`) may have such; count a build without it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# callgrind format\nversion: 1\npid: 42\ncmd: postgres\npart: 1\n\n\
                        positions: line\nevents: Ir\nsummary: 97053296\n\nfn=(1) main\n\
                        12 100\n\ntotals: 97074425\n";

    #[test]
    fn the_sum_is_read_and_half_a_file_is_none() {
        assert_eq!(total(FILE).expect("a file"), Some(97_074_425));
        for cut in ["totals", "4425\n", "\ntotals: 9"] {
            let half = FILE.split_once(cut).expect("there").0;
            assert_eq!(total(half).expect("no mistake"), None, "{half}");
        }
        let error = total(&FILE.replace("events: Ir", "events: Dr Ir")).expect_err("other");
        assert!(error.to_string().contains("`Dr Ir`"), "{error}");
        let error = total(&FILE.replace("97074425", "many")).expect_err("no number");
        assert!(error.to_string().contains("`many`"), "{error}");
        assert!(total(&FILE.replace("events:", "event:")).is_err());
    }

    #[test]
    fn the_file_of_a_process_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, number: &str| {
            let text = FILE.replace("97074425", number);
            std::fs::write(folder.path().join(name), text).expect("written");
        };
        write("callgrind.7", "5");
        write("callgrind.77", "30");
        let path = folder.path();
        assert_eq!(of_process(path, 7, Duration::ZERO).expect("there"), 5);
        let error = of_process(path, 8, Duration::ZERO).expect_err("none");
        assert!(error.to_string().contains("callgrind.8"), "{error}");
    }

    #[test]
    fn an_unknown_instruction_is_named() {
        let log = "LOG:  starting\nvex amd64->IR: unhandled instruction bytes: 0x62 0xF1 0x7D\n\
                   ==9== valgrind: Unrecognised instruction at address 0x4a5b.\n==9==    at 0x4A5B\n";
        let text = unknown_instruction(log).expect("named");
        assert!(text.contains("(0x62 0xF1 0x7D), at address 0x4a5b:"), "{text}");
        assert_eq!(unknown_instruction("LOG:  ready\n"), None);
    }

    #[test]
    fn a_machine_without_valgrind_is_told_how_to_get_it() {
        let error = Valgrind::find_in("/nonexistent").expect_err("not there");
        assert_eq!(crate::exit::code_of(&error), Code::Environment);
        assert!(error.to_string().contains("apt-get install valgrind"), "{error}");
    }
}
