//! The load driver as seen from the tool: made by cargo, given one job, listened to.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use catalog::protocol::{Event, Job};
use nix::sys::signal::Signal;

use crate::exit::{Code, WithCode as _};
use crate::hash::Digest;
use crate::interrupt;
use crate::launch::Spec;
use crate::proc::Proc;

/// What cargo needs of the caller's environment: where it and its compiler live, and how they reach
/// the network. Not `RUSTFLAGS`: the driver is the same whoever builds it.
const CARGO_ENVIRONMENT: [&str; 15] = [
    "PATH",
    "HOME",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "CARGO_TARGET_DIR",
    "CARGO_NET_OFFLINE",
    "CARGO_HTTP_CAINFO",
    "CARGO_HTTP_PROXY",
    "HTTPS_PROXY",
    "https_proxy",
    "http_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
];

/// The driver's program.
#[derive(Clone, Debug)]
pub struct Driver {
    file: PathBuf,
    tool: PathBuf,
    digest: Digest,
}

impl Driver {
    /// A driver that exists already. `tool` is the file of this program, for the launcher.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn at(file: impl Into<PathBuf>, tool: impl Into<PathBuf>) -> anyhow::Result<Self> {
        let file = file.into();
        let digest = Digest::of_file(&file).context("cannot read the load driver")?;
        Ok(Self { file, tool: tool.into(), digest })
    }

    /// Lets cargo make the driver of the workspace at `root`, or find that it is up to date.
    ///
    /// # Errors
    /// With [`Code::Environment`] when there is no cargo; with cargo's own words when it fails.
    pub fn build(root: &Path, tool: impl Into<PathBuf>) -> anyhow::Result<Self> {
        let cargo = std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from);
        // A bare name is looked up in the caller's own search path.
        let cargo = which::which(&cargo)
            .with_context(|| format!("`{}` not found", cargo.display()))
            .code(Code::Environment)?;
        let output = Proc::new(cargo)
            .args(["build", "--release", "--package", "loadgen", "--locked"])
            .arg("--message-format=json-render-diagnostics")
            .cwd(root)
            .inherit(&CARGO_ENVIRONMENT)
            .run()
            .context("cannot build the load driver")?;
        let file = executable(&output.text()).context(
            "cannot build the load driver: cargo named no executable for package `loadgen`",
        )?;
        Self::at(file, tool)
    }

    /// The hash of the program: loaded data are made anew when it changes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Does one job on `cpus` (empty: all) and gives the event that it ended with. Each event goes
    /// to `heed` as soon as it is read; what the driver says to people is kept in `log`.
    ///
    /// # Errors
    /// When the driver reports a failure, ends badly, breaks the protocol or takes longer than
    /// `timeout`, and whatever `heed` returns.
    pub fn run(
        &self,
        job: &Job,
        cpus: &[usize],
        timeout: Duration,
        log: &Path,
        mut heed: impl FnMut(&Event) -> anyhow::Result<()>,
    ) -> anyhow::Result<Event> {
        interrupt::check()?;
        let spec = Spec {
            cpus: cpus.to_vec(),
            death_signal: Some(Signal::SIGKILL as i32),
            ..Spec::default()
        };
        let job = serde_json::to_vec(job).context("cannot write the job")?;
        let mut running = Proc::new(&self.file).stdin(job).launch(&self.tool, spec).spawn()?;
        let lines = lines_of(running.stdout().context("the driver has no standard output")?);
        let mut stderr = running.stderr().context("the driver has no standard error")?;
        let complaints = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // What was read before an error is still worth showing.
            let _ = stderr.read_to_end(&mut bytes);
            bytes
        });
        let heard = listen(&lines, timeout, &mut heed);
        let status = match &heard {
            Ok(_) => running.wait(Some(Duration::from_secs(10)))?,
            Err(_) => {
                running.stop(Duration::from_secs(1)).context("the driver cannot be stopped")?
            }
        };
        let complaints = complaints.join().unwrap_or_default();
        if !complaints.is_empty() {
            fs_err::write(log, &complaints)?;
        }
        interrupt::check()?;
        match heard? {
            Some(Event::Failed { reason }) => bail!("{reason}"),
            Some(event) if status.success() => Ok(event),
            _ => {
                Err(anyhow!("the load driver ended early ({status}){}", crate::proc::tail_of(log)))
            }
        }
    }
}

/// Hears events until the stream ends; gives the last one.
fn listen(
    lines: &Receiver<std::io::Result<String>>,
    timeout: Duration,
    heed: &mut impl FnMut(&Event) -> anyhow::Result<()>,
) -> anyhow::Result<Option<Event>> {
    let begin = Instant::now();
    let mut last = None;
    loop {
        interrupt::check()?;
        match lines.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => {
                let line = line.context("cannot read from the load driver")?;
                let event: Event = serde_json::from_str(&line)
                    .with_context(|| format!("the load driver said what is no event: `{line}`"))?;
                heed(&event)?;
                last = Some(event);
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(last),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if begin.elapsed() > timeout {
            bail!("the load driver takes longer than {timeout:?}");
        }
    }
}

/// Reads lines in a thread of their own, so that the reader can watch the clock.
pub(super) fn lines_of(pipe: std::process::ChildStdout) -> Receiver<std::io::Result<String>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines() {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The executable among cargo's messages (JSON lines; The Cargo Book, "External tools").
fn executable(messages: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| {
            message["reason"] == "compiler-artifact" && message["target"]["name"] == "loadgen"
        })
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_is_found_among_the_messages() {
        let artifact = |name: &str, executable: &str| {
            let target = format!(r#""target":{{"name":"{name}"}},"executable":{executable}"#);
            format!(r#"{{"reason":"compiler-artifact",{target}}}"#)
        };
        let messages = [
            artifact("catalog", "null"),
            "not json".to_owned(),
            artifact("loadgen", "\"/t/release/loadgen\""),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        assert_eq!(executable(&messages.join("\n")), Some("/t/release/loadgen".into()));
        assert_eq!(executable(""), None);
    }

    fn hear(lines: &[&str], patience: Duration) -> (anyhow::Result<Option<Event>>, Vec<Event>) {
        let (sender, receiver) = channel();
        for line in lines {
            sender.send(Ok((*line).to_owned())).expect("open");
        }
        if patience.is_zero() {
            // The driver lives and is silent.
            std::mem::forget(sender);
        } else {
            drop(sender);
        }
        let mut heard = Vec::new();
        let result = listen(&receiver, patience, &mut |event: &Event| {
            heard.push(event.clone());
            Ok(())
        });
        (result, heard)
    }

    #[test]
    fn events_are_heard_in_order_and_nonsense_is_named() {
        let minute = Duration::from_secs(60);
        let (last, heard) = hear(
            &[r#"{"event":"window-begin"}"#, r#"{"event":"second","second":1,"queries":5}"#],
            minute,
        );
        assert_eq!(heard, [Event::WindowBegin, Event::Second { second: 1, queries: 5 }]);
        assert_eq!(last.expect("heard"), Some(Event::Second { second: 1, queries: 5 }));
        let error = hear(&["hello"], minute).0.expect_err("nonsense");
        assert!(error.to_string().contains("`hello`"), "{error}");
        let error = hear(&[], Duration::ZERO).0.expect_err("silence");
        assert!(error.to_string().contains("takes longer than"), "{error}");
    }
}
