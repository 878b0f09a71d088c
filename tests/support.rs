//! The project builder: a folder with a matrix file, and calls of the real binary in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is below the root")
}

/// A command for the test itself (not for the tool, whose door is `proc`).
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    #[expect(clippy::disallowed_methods, reason = "tests start the tool from outside")]
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// Runs a command of the test and demands success.
pub fn must(mut command: Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?} failed:\n{}", text(&output.stderr));
    text(&output.stdout)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder with a matrix file, results and work of its own. A failed test keeps it.
pub struct Project {
    folder: Option<tempfile::TempDir>,
    path: PathBuf,
    pub work: PathBuf,
}

/// What a call of the tool printed and how it ended.
#[derive(Debug)]
pub struct Called {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Project {
    /// An empty folder. Its place can be chosen by `TMPDIR`.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("matrix-test-").tempdir().expect("a folder");
        let path = folder.path().to_owned();
        let work = path.join("work");
        Self { folder: Some(folder), path, work }
    }

    /// The same with this matrix file.
    pub fn with_matrix(matrix: &str) -> Self {
        let project = Self::new();
        project.write("matrix.toml", matrix);
        project
    }

    /// The same with a work directory elsewhere, which outlives the test.
    pub fn work_at(mut self, work: PathBuf) -> Self {
        self.work = work;
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, content).expect("written");
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// The records of an experiment, file by file.
    pub fn records(&self, experiment: &str) -> Vec<serde_json::Value> {
        let folder = std::fs::read_dir(self.path("results/records").join(experiment));
        let files = folder.expect("records").flatten();
        let texts = files.map(|file| std::fs::read_to_string(file.path()).expect("text"));
        let text: String = texts.collect();
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Packs a fixture folder into an archive and gives its sha256.
    pub fn pack(&self, fixture: &str, archive: &str) -> String {
        let source = root().join("tests/fixtures").join(fixture);
        let name = archive.strip_suffix(".tar.gz").expect("a .tar.gz");
        let mut tar = command("tar");
        tar.args(["--sort=name", "--owner=0", "--group=0", "--mtime=@1700000000", "-czf"])
            .arg(self.path(archive))
            .arg(format!("--transform=s,^\\.,{name},"))
            .arg("-C")
            .arg(source)
            .arg(".");
        must(tar);
        let mut sum = command("sha256sum");
        sum.arg(self.path(archive));
        must(sum).split_whitespace().next().expect("a hash").to_owned()
    }

    /// The tool, set up for this project; the caller adds what it wants.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = command(env!("CARGO_BIN_EXE_xtask"));
        command.args(args).current_dir(&self.path);
        command.arg("--matrix").arg(self.path("matrix.toml"));
        command.arg("--results").arg(self.path("results")).arg("--work").arg(&self.work);
        // What a test says of sources must not depend on who calls it.
        command.env_remove("MATRIX_SOURCES");
        command
    }

    /// Calls the tool.
    pub fn call(&self, args: &[&str]) -> Called {
        finish(self.command(args))
    }

    /// Calls the tool and demands exit code 0.
    pub fn ok(&self, args: &[&str]) -> Called {
        let called = self.call(args);
        assert_eq!(called.code, Some(0), "{args:?}\n{}\n{}", called.stdout, called.stderr);
        called
    }
}

/// Runs a prepared call of the tool to its end.
pub fn finish(mut command: Command) -> Called {
    let Output { status, stdout, stderr } = command.output().expect("the tool starts");
    Called { code: status.code(), stdout: text(&stdout), stderr: text(&stderr) }
}

impl Drop for Project {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(folder) = self.folder.take()
        {
            eprintln!("kept for a look: {}", folder.keep().display());
        }
    }
}
