//! The one door to processes.
//!
//! A process gets a cleared environment plus an explicit list, no standard input unless one is
//! given, a process group of its own (Ctrl-C stops it through [`crate::interrupt`]), and its output
//! goes to a log file or into memory. An error names what was being done, the command as a line
//! that can be pasted into a shell, and the last lines that the program printed.

mod account;
mod excerpt;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use fs_err as fs;
use nix::sys::signal::Signal;

use crate::exit::{Code, coded};
use crate::{interrupt, launch};

/// The search path of every process; the caller's own is used only to find compilers.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A process to be started.
#[derive(Clone, Debug)]
pub struct Proc {
    program: PathBuf,
    args: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    cwd: Option<PathBuf>,
    log: Option<PathBuf>,
    stdin: Option<Vec<u8>>,
    timeout: Option<Duration>,
    stop: Signal,
    launch: Option<(PathBuf, launch::Spec)>,
    jobserver: Option<jobserver::Client>,
}

/// What a finished process left behind.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output (empty when it went to a log).
    pub stdout: Vec<u8>,
    /// Standard error (empty when it went to a log).
    pub stderr: Vec<u8>,
    /// Wall time.
    pub elapsed: Duration,
}

impl Output {
    /// Standard output as text without the white space around it.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }
}

impl Proc {
    /// A process of `program` with the base environment only: `PATH`, `LC_ALL=C`, `TZ=UTC`.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let env = [("PATH", PATH), ("LC_ALL", "C"), ("TZ", "UTC")];
        Self {
            program: program.into(),
            args: Vec::new(),
            env: env.map(|(key, value)| (key.into(), value.into())).into(),
            cwd: None,
            log: None,
            stdin: None,
            timeout: None,
            stop: Signal::SIGTERM,
            launch: None,
            jobserver: None,
        }
    }

    /// The program and arguments of a command written with xshell's `cmd!`; nothing else of it.
    pub fn from_xshell(cmd: xshell::Cmd<'_>) -> Self {
        let command = Command::from(cmd);
        Self::new(command.get_program()).args(command.get_args())
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets one variable.
    #[must_use]
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.insert(key.as_ref().to_owned(), value.as_ref().to_owned());
        self
    }

    /// Lets the named variables of the caller through (a proxy, say): each must be named.
    #[must_use]
    pub fn inherit(mut self, keys: &[&str]) -> Self {
        for key in keys {
            if let Some(value) = std::env::var_os(key) {
                self.env.insert(key.into(), value);
            }
        }
        self
    }

    /// The working directory.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Both output streams go to this file, which is made anew and starts with the command.
    #[must_use]
    pub fn log(mut self, path: impl Into<PathBuf>) -> Self {
        self.log = Some(path.into());
        self
    }

    /// What the process reads from its standard input.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Stops the process after this time and makes that an error.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The signal that stops this process politely (SIGTERM if not set).
    #[must_use]
    pub fn stop_signal(mut self, signal: Signal) -> Self {
        self.stop = signal;
        self
    }

    /// Starts the process through the launcher, `tool` being this program's own file.
    #[must_use]
    pub fn launch(mut self, tool: impl Into<PathBuf>, spec: launch::Spec) -> Self {
        self.launch = Some((tool.into(), spec));
        self
    }

    /// Shares a pool of job tokens with the process (GNU make's protocol, through `MAKEFLAGS`).
    #[must_use]
    pub fn jobserver(mut self, client: &jobserver::Client) -> Self {
        self.jobserver = Some(client.clone());
        self
    }

    /// Runs the program under another one (one that instruments it, say), which gets `args` first.
    #[must_use]
    pub fn under(mut self, program: impl Into<PathBuf>, args: &[String]) -> Self {
        let own = std::mem::replace(&mut self.program, program.into()).into_os_string();
        let rest = std::mem::take(&mut self.args);
        self.args = args.iter().map(OsString::from).chain([own]).chain(rest).collect();
        self
    }

    /// The variables that the process gets.
    pub fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.env.iter().map(|(key, value)| (key.as_os_str(), value.as_os_str()))
    }

    /// The program and its arguments as words.
    pub fn words(&self) -> Vec<String> {
        std::iter::once(self.program.as_os_str())
            .chain(self.args.iter().map(OsString::as_os_str))
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    /// The command as one line for a POSIX shell, without the environment.
    pub fn line(&self) -> String {
        let words = self.words();
        words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
    }

    /// Runs to the end and demands success.
    ///
    /// # Errors
    /// When the program cannot be started, fails, takes too long, or the user asks to stop.
    pub fn run(&self) -> anyhow::Result<Output> {
        let output = self.run_any()?;
        if output.status.success() { Ok(output) } else { Err(self.failure(&output)) }
    }

    /// Runs to the end and gives standard output as trimmed text.
    ///
    /// # Errors
    /// As [`Proc::run`].
    pub fn read(&self) -> anyhow::Result<String> {
        Ok(self.run()?.text())
    }

    /// Runs to the end; a failing program is no error here.
    ///
    /// # Errors
    /// When the program cannot be started, takes too long, or the user asks to stop.
    pub fn run_any(&self) -> anyhow::Result<Output> {
        interrupt::check()?;
        let begin = Instant::now();
        let mut running = self.spawn()?;
        let stdout = running.child.stdout.take().map(drain);
        let stderr = running.child.stderr.take().map(drain);
        let status = running.wait(self.timeout)?;
        // A program that goes on in the background holds the pipes open; it was not meant to.
        if ![&stdout, &stderr].into_iter().flatten().all(ended_soon) {
            let group = nix::unistd::Pid::from_raw(running.id() as i32);
            let _ = nix::sys::signal::killpg(group, Signal::SIGKILL);
        }
        let output = Output {
            status,
            stdout: stdout.map_or_else(Vec::new, join),
            stderr: stderr.map_or_else(Vec::new, join),
            elapsed: begin.elapsed(),
        };
        interrupt::check()?;
        Ok(output)
    }

    /// Starts the process and returns at once; the process is stopped when the handle is dropped.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn spawn(&self) -> anyhow::Result<Running> {
        let mut command = self.command()?;
        if let Some(client) = &self.jobserver {
            // Adds MAKEFLAGS and keeps the two descriptors open in the child.
            client.configure_make(&mut command);
        }
        let mut child = command.spawn().map_err(|error| self.not_started(error))?;
        interrupt::register(child.id(), self.stop);
        if let (Some(bytes), Some(mut pipe)) = (self.stdin.clone(), child.stdin.take()) {
            // A program that ends without reading makes this fail; its exit status tells more.
            std::thread::spawn(move || pipe.write_all(&bytes));
        }
        Ok(Running { child, stop: self.stop, line: self.line(), ended: None, cpu_times: None })
    }

    fn command(&self) -> anyhow::Result<Command> {
        let mut command = match &self.launch {
            None => self.plain(),
            Some((tool, spec)) => {
                let spec = launch::Spec { parent: Some(std::process::id()), ..spec.clone() };
                let spec = serde_json::to_string(&spec).context("cannot write the launch spec")?;
                #[expect(clippy::disallowed_methods, reason = "this is the door")]
                let mut command = Command::new(tool);
                command.arg(launch::COMMAND).arg(spec).arg(&self.program);
                command
            }
        };
        command.args(&self.args).env_clear().envs(&self.env).process_group(0);
        command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        match &self.log {
            None => {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
            }
            Some(path) => {
                let mut file = fs::File::create(path)?;
                for (key, value) in self.variables() {
                    writeln!(file, "# {}={}", key.display(), value.display())?;
                }
                writeln!(file, "$ {}", self.line())?;
                let file = file.into_parts().0;
                command.stdout(file.try_clone()?).stderr(file);
            }
        }
        Ok(command)
    }

    fn plain(&self) -> Command {
        #[expect(clippy::disallowed_methods, reason = "this is the door")]
        Command::new(&self.program)
    }

    fn not_started(&self, error: std::io::Error) -> anyhow::Error {
        let name = self.program.display();
        if error.kind() == std::io::ErrorKind::NotFound
            && self.cwd.as_ref().is_none_or(|d| d.is_dir())
        {
            coded(
                Code::Environment,
                format!("`{name}` not found; `cargo xtask doctor` tells how to get it"),
            )
        } else {
            anyhow!(error).context(format!("cannot start `{}`", self.line()))
        }
    }

    /// The error for a program that ended badly: the command and the tail of what it printed.
    pub fn failure(&self, output: &Output) -> anyhow::Error {
        let text = match &self.log {
            Some(path) => fs::read(path).unwrap_or_default(),
            None => [output.stdout.as_slice(), &output.stderr].concat(),
        };
        let mut message = format!("`{}` failed ({})", shorten(&self.line()), output.status);
        for line in excerpt::excerpt(&String::from_utf8_lossy(&text)) {
            message.push_str("\n  | ");
            message.push_str(line);
        }
        if let Some(path) = &self.log {
            message.push_str(&format!("\n  whole log: {}", path.display()));
        }
        anyhow!(message)
    }
}

/// A process that is running; stopped when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stop: Signal,
    line: String,
    ended: Option<ExitStatus>,
    cpu_times: Option<(f64, f64)>,
}

impl Running {
    /// The process id, which is also the id of its process group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Takes the pipe of standard output (only without a log).
    pub fn stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Takes the pipe of standard error (only without a log).
    pub fn stderr(&mut self) -> Option<std::process::ChildStderr> {
        self.child.stderr.take()
    }

    /// Whether the process has ended, and how.
    ///
    /// # Errors
    /// When the kernel cannot tell.
    pub fn poll(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.cpu_times = account::of_ended(self.child.id());
        }
        if self.ended.is_none()
            && let Some(status) = self.child.try_wait().context("cannot wait for a process")?
        {
            interrupt::unregister(self.child.id());
            self.ended = Some(status);
        }
        Ok(self.ended)
    }

    /// CPU seconds of the process and of all that it waited for, once it has ended: in user mode,
    /// in the kernel.
    pub fn cpu_times(&self) -> Option<(f64, f64)> {
        self.cpu_times
    }

    /// The sum of [`Running::cpu_times`].
    pub fn cpu_seconds(&self) -> Option<f64> {
        self.cpu_times.map(|(user, system)| user + system)
    }

    /// Waits for the end, at most `timeout`; then the process is stopped, which is an error.
    ///
    /// # Errors
    /// When the time is up or the kernel cannot tell.
    pub fn wait(&mut self, timeout: Option<Duration>) -> anyhow::Result<ExitStatus> {
        let begin = Instant::now();
        // Short commands are asked often, long ones seldom.
        let mut pause = Duration::from_micros(200);
        loop {
            if let Some(status) = self.poll()? {
                return Ok(status);
            }
            if timeout.is_some_and(|timeout| begin.elapsed() >= timeout) {
                self.stop(interrupt::GRACE);
                bail!(
                    "`{}` took longer than {:?}",
                    shorten(&self.line),
                    timeout.unwrap_or_default()
                );
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Asks the group to stop, waits up to `grace`, then kills it. Returns how it ended.
    pub fn stop(&mut self, grace: Duration) -> Option<ExitStatus> {
        let group = nix::unistd::Pid::from_raw(self.child.id() as i32);
        for (signal, patience) in [(self.stop, grace), (Signal::SIGKILL, Duration::from_secs(5))] {
            if matches!(self.poll(), Ok(Some(_))) {
                break;
            }
            let _ = nix::sys::signal::killpg(group, signal);
            let end = Instant::now() + patience;
            while Instant::now() < end && matches!(self.poll(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        // The leader is gone; what it left in its group is not wanted either. The kernel gives its
        // number to no other group while a member lives.
        let _ = nix::sys::signal::killpg(group, Signal::SIGKILL);
        self.ended
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.stop(Duration::from_secs(2));
        }
    }
}

/// A word as a POSIX shell needs it, with quotes only where they are needed: `-march=x86-64-v3`
/// stays as it is.
pub fn shell_word(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"@%+=:,./_-".contains(&byte);
    if !word.is_empty() && !word.starts_with('=') && word.bytes().all(plain) {
        return word.to_owned();
    }
    // Only a NUL byte cannot be quoted, and no process can get one.
    shlex::try_quote(word).map_or_else(|_| format!("{word:?}"), |quoted| quoted.into_owned())
}

/// The file of this program, for the launcher. A renamed or deleted file is still reached.
pub fn own_file() -> PathBuf {
    std::env::current_exe()
        .ok()
        .filter(|path| path.exists())
        .unwrap_or_else(|| Path::new("/proc").join(std::process::id().to_string()).join("exe"))
}

fn drain(mut pipe: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still worth showing.
        let _ = pipe.by_ref().read_to_end(&mut bytes);
        bytes
    })
}

/// Whether a reader comes to its end soon after the program did.
fn ended_soon(thread: &std::thread::JoinHandle<Vec<u8>>) -> bool {
    let end = Instant::now() + Duration::from_secs(2);
    while !thread.is_finished() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    thread.is_finished()
}

fn join(thread: std::thread::JoinHandle<Vec<u8>>) -> Vec<u8> {
    thread.join().unwrap_or_default()
}

/// What a log has to say, each line on a line of its own behind a bar, for an error message.
pub fn tail_of(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    excerpt::excerpt(&text).iter().map(|line| format!("\n  | {line}")).collect()
}

fn shorten(line: &str) -> String {
    const LIMIT: usize = 300;
    if line.chars().count() <= LIMIT {
        return line.to_owned();
    }
    line.chars().take(LIMIT).chain("…".chars()).collect()
}

#[cfg(test)]
mod tests;
