//! The compile log: every call of a compiler in a build, with its arguments as the build system
//! gave them. It holds whatever the compiler itself does not write into its output.
//!
//! The compilers in a build's tools folder are small scripts ([`script`]) that write their call
//! into a file named by their process and then become the real compiler. One call is a number of
//! fields, each ended by a NUL: how many arguments, the working directory, the script's own name,
//! the arguments. Process numbers come round again, so a file may hold several calls.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use fs_err as fs;
use serde::{Deserialize, Serialize};

/// One call of a compiler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Command {
    /// The working directory, as the build saw it.
    pub cwd: PathBuf,
    /// The name that was called: `gcc`, `clang++`.
    pub program: String,
    /// The arguments.
    pub words: Vec<String>,
}

/// The text of a script that notes its call below `log` and becomes `compiler`, with `extra`
/// arguments behind those of the call.
///
/// # Errors
/// When a path has a NUL byte.
pub fn script(compiler: &Path, log: &Path, extra: &[String]) -> anyhow::Result<String> {
    let quoted = |text: &str| shlex::try_quote(text).map(std::borrow::Cow::into_owned);
    let log = quoted(&format!("{}/", log.display()))?;
    let mut text = String::from("#!/bin/sh\n");
    // A shell's own printf writes once, before the file is closed.
    text.push_str(&format!("printf '%s\\0' \"$#\" \"$PWD\" \"$0\" \"$@\" >> {log}\"$$\"\n"));
    text.push_str(&format!("exec {} \"$@\"", quoted(&compiler.display().to_string())?));
    for word in extra {
        text.push_str(&format!(" {}", quoted(word)?));
    }
    text.push('\n');
    Ok(text)
}

/// Reads what the scripts wrote into a folder; sorted, since processes have no order.
///
/// # Errors
/// When a file cannot be read or a call in it is not whole.
pub fn read(folder: &Path) -> anyhow::Result<Vec<Command>> {
    let mut commands = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let bytes = fs::read(&path)?;
        let calls = parse(&bytes).with_context(|| format!("cannot read {}", path.display()))?;
        commands.extend(calls);
    }
    commands.sort();
    Ok(commands)
}

fn parse(bytes: &[u8]) -> anyhow::Result<Vec<Command>> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let whole = bytes.strip_suffix(b"\0").context("a call is cut off")?;
    let mut fields = whole.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let mut commands = Vec::new();
    while let Some(count) = fields.next() {
        let count: usize = count.parse().context("a call does not begin with a number")?;
        let mut next = || fields.next().map(std::borrow::Cow::into_owned);
        let (cwd, program) = (next().unwrap_or_default(), next().unwrap_or_default());
        let words: Vec<String> = (0..count).map_while(|_| next()).collect();
        ensure!(words.len() == count && !program.is_empty(), "a call is cut off");
        let program = program.rsplit('/').next().unwrap_or_default().to_owned();
        commands.push(Command { cwd: cwd.into(), program, words });
    }
    Ok(commands)
}

/// Writes calls, one line of JSON each.
///
/// # Errors
/// When the disk refuses.
pub fn keep(commands: &[Command], path: &Path) -> anyhow::Result<()> {
    let mut text = String::new();
    for command in commands {
        text.push_str(&serde_json::to_string(command)?);
        text.push('\n');
    }
    Ok(fs::write(path, text)?)
}

/// Reads what [`keep`] wrote.
///
/// # Errors
/// When the file cannot be read or has a line that is no call.
pub fn kept(path: &Path) -> anyhow::Result<Vec<Command>> {
    let text = fs::read_to_string(path)?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Proc;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_call_is_noted_and_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("it's a log");
        std::fs::create_dir(&log).expect("made");
        let tool = folder.path().join("gcc");
        let text = script(Path::new("/bin/echo"), &log, &["-last".to_owned()]).expect("a script");
        std::fs::write(&tool, text).expect("written");
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).expect("mode");
        let words = ["-DA=\"a b\"", "", "-c", "new\nline.c"];
        let said = Proc::new(&tool).args(words).cwd(folder.path()).read().expect("it runs");
        assert_eq!(said, "-DA=\"a b\"  -c new\nline.c -last");
        let command = Command {
            cwd: folder.path().to_owned(),
            program: "gcc".to_owned(),
            words: words.map(str::to_owned).to_vec(),
        };
        assert_eq!(read(&log).expect("read"), std::slice::from_ref(&command));
        let file = folder.path().join("commands.jsonl");
        keep(std::slice::from_ref(&command), &file).expect("kept");
        assert_eq!(kept(&file).expect("read"), [command]);
    }

    #[test]
    fn several_calls_of_one_process_and_damage() {
        let two = b"1\0/a\0/mnt/bin/gcc\0-c\x000\0/b\0/mnt/bin/g++\0";
        let calls = parse(two).expect("two calls");
        let names: Vec<_> = calls.iter().map(|call| call.program.as_str()).collect();
        assert_eq!((names, calls[1].words.len()), (vec!["gcc", "g++"], 0));
        assert!(parse(b"2\0/a\0/mnt/bin/gcc\0-c\0").is_err());
        assert!(parse(b"x\0/a\0gcc\0").is_err());
        assert!(parse(b"1\0/a\0gcc\0-").is_err());
        assert_eq!(parse(b"1\0/a\0gcc\0\0").expect("an empty word")[0].words, [""]);
        assert!(parse(b"").expect("nothing").is_empty());
    }
}
