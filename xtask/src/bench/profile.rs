//! Where a server spends its CPU time: `perf record` on its processes during one window, folded
//! stacks, flame graphs, and what differs between two of them.
//!
//! Stacks are followed by frame pointers: a build that omits them has broken ones, so profile
//! builds that keep them. Where the machine has no hardware counters, perf samples by a timer
//! (`cpu-clock`), which is said in the title.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use fs_err as fs;
use inferno::collapse::Collapse as _;
use inferno::collapse::perf::{Folder, Options};
use inferno::{differential, flamegraph};
use nix::sys::signal::Signal;

use crate::exit::{Code, coded};
use crate::proc::{PATH, Proc, Running};

/// Samples per second and core: an odd number, so that it does not beat with what happens every
/// millisecond.
const HERTZ: &str = "499";
/// How long perf may take to write its file.
const GRACE: Duration = Duration::from_secs(20);

/// perf on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Perf {
    program: PathBuf,
}

/// A recording that is under way.
#[derive(Debug)]
pub struct Recording {
    running: Running,
    data: PathBuf,
}

impl Perf {
    /// Finds it.
    ///
    /// # Errors
    /// With [`Code::Environment`] and how to get it when it is not there.
    pub fn find() -> anyhow::Result<Self> {
        let program = which::which_in("perf", Some(PATH), "/").map_err(|_| {
            coded(
                Code::Environment,
                "`perf` not found: profiles are taken with it; `apt-get install linux-perf` \
                 (or `dnf`, `zypper`, `pacman -S` `perf`) brings it",
            )
        })?;
        Ok(Self { program })
    }

    /// Begins to sample these processes and what they start.
    ///
    /// # Errors
    /// When perf cannot be started.
    pub fn record(&self, processes: &[u32], data: &Path) -> anyhow::Result<Recording> {
        let pids: Vec<String> = processes.iter().map(u32::to_string).collect();
        let running = Proc::new(&self.program)
            .args(["record", "--quiet", "--call-graph=fp", "-F", HERTZ, "-o"])
            .arg(data)
            .arg("-p")
            .arg(pids.join(","))
            .log(data.with_extension("log"))
            .stop_signal(Signal::SIGINT)
            .spawn()?;
        Ok(Recording { running, data: data.to_owned() })
    }

    /// The samples of a recording as text, each with its stack. Asked for while the server lives:
    /// its files are found by the paths that it sees itself.
    ///
    /// # Errors
    /// In perf's words; with [`Code::Environment`] where the kernel does not let this user sample.
    pub fn script(&self, mut recording: Recording) -> anyhow::Result<String> {
        recording.running.stop(GRACE);
        let log = recording.data.with_extension("log");
        if !recording.data.is_file() {
            let said = crate::proc::tail_of(&log);
            let text =
                format!("perf recorded nothing; is `kernel.perf_event_paranoid` 2 or less?{said}");
            return Err(coded(Code::Environment, text));
        }
        let output = Proc::new(&self.program)
            .args(["script", "--force", "-i"])
            .arg(&recording.data)
            // Without the period, by which stacks would be weighted: samples are counted.
            .args(["-F", "comm,tid,time,event,ip,sym,dso"])
            .run()
            .context("cannot read what perf recorded")?;
        fs::remove_file(&recording.data)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Stacks of one profile, folded: `frame;frame;frame COUNT` per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded {
    /// The lines, sorted.
    pub text: String,
    /// How many samples.
    pub samples: u64,
    /// What was sampled by: `cycles`, `cpu-clock`.
    pub event: String,
}

/// Folds what `perf script` printed.
///
/// # Errors
/// When it holds no sample, or is not what inferno knows.
pub fn fold(script: &str) -> anyhow::Result<Folded> {
    let mut out = Vec::new();
    let mut folder = Folder::from(Options::default());
    folder.collapse(script.as_bytes(), &mut out).context("cannot read perf's stacks")?;
    let mut lines: Vec<&str> = std::str::from_utf8(&out)?.lines().collect();
    lines.sort_unstable();
    let count = |line: &&str| line.rsplit_once(' ')?.1.parse::<u64>().ok();
    let samples = lines.iter().filter_map(count).sum();
    if samples == 0 {
        bail!("perf took no sample: the server used no CPU time in the window");
    }
    let event = script.lines().next().unwrap_or_default().split_whitespace();
    let event = event.rev().find_map(|word| word.strip_suffix(':')).unwrap_or("?");
    let event = event.split(':').next().unwrap_or(event).to_owned();
    let text = lines.iter().map(|line| format!("{line}\n")).collect();
    Ok(Folded { text, samples, event })
}

/// A flame graph as SVG.
///
/// # Errors
/// When inferno cannot draw it.
pub fn flame(folded: &str, title: &str) -> anyhow::Result<Vec<u8>> {
    let mut options = options(title);
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, folded.lines(), &mut svg).context("cannot draw")?;
    Ok(svg)
}

/// What differs: the stacks of `target`, red where it has a larger share of its samples than the
/// base has, blue where a smaller one.
///
/// # Errors
/// When inferno cannot draw it.
pub fn difference(base: &str, target: &str, title: &str) -> anyhow::Result<Vec<u8>> {
    // Shares, not counts: two runs never have as many samples.
    let options = differential::Options { normalize: true, ..differential::Options::default() };
    let mut both = Vec::new();
    let (before, after) = (BufReader::new(base.as_bytes()), BufReader::new(target.as_bytes()));
    differential::from_readers(options, before, after, &mut both).context("cannot compare")?;
    let text = String::from_utf8(both)?;
    let mut svg = Vec::new();
    let mut options = self::options(title);
    flamegraph::from_lines(&mut options, text.lines(), &mut svg).context("cannot draw")?;
    Ok(svg)
}

/// The folder of a measurement below that of the host.
pub fn place(microbenchmark: &str, threads: u32) -> PathBuf {
    match threads {
        1 => microbenchmark.into(),
        threads => format!("{microbenchmark}-x{threads}").into(),
    }
}

fn options(title: &str) -> flamegraph::Options<'static> {
    let mut options = flamegraph::Options::default();
    options.title = title.to_owned();
    options.count_name = "samples".to_owned();
    // The same picture of the same samples.
    options.deterministic = true;
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "postgres 5216 49033.724931: cpu-clock:pppH: \n\
        \t           48d58 ExecScan+0x128 (/opt/pg/bin/postgres)\n\
        \t            9bee main+0x1 (/opt/pg/bin/postgres)\n\n\
        postgres 5216 49033.729956: cpu-clock:pppH: \n\
        \t            9bee main+0x1 (/opt/pg/bin/postgres)\n\n";

    #[test]
    fn stacks_are_folded_and_counted() {
        let folded = fold(SCRIPT).expect("folded");
        assert_eq!(folded.text, "postgres;main 1\npostgres;main;ExecScan 1\n");
        assert_eq!((folded.samples, folded.event.as_str()), (2, "cpu-clock"));
        assert!(fold("").expect_err("nothing").to_string().contains("no sample"));
    }

    #[test]
    fn graphs_name_the_functions_and_a_difference_has_both_colours() {
        let svg = String::from_utf8(flame("a;b 3\na;c 1\n", "t, 4 samples").expect("drawn"));
        let svg = svg.expect("text");
        assert!(svg.starts_with("<?xml") && svg.contains("t, 4 samples"), "{svg}");
        for name in ["<title>a (4 samples", "<title>b (3 samples", "<title>c (1 samples"] {
            assert!(svg.contains(name), "{name}: {svg}");
        }
        let svg = difference("a;b 3\na;c 1\n", "a;b 2\na;c 2\n", "d").expect("drawn");
        let svg = String::from_utf8(svg).expect("text");
        assert!(svg.contains("+25.00%") && svg.contains("-25.00%"), "{svg}");
    }
}
