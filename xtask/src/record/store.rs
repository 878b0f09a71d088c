//! Where records lie: `results/records/<experiment>/<host>.jsonl`, and counts in `results/counts/`.
//!
//! A record is appended by one `write` of one line, under a file lock, and flushed to the disk. A
//! crash can therefore leave at most one unfinished line, at the end of the file; the next append
//! moves it to `<host>.jsonl.torn` and says so. Complete lines are never changed.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use fs_err as fs;

use super::count::{COUNT_SCHEMA, Count};
use super::{Record, SCHEMA};
use crate::exit::{Code, WithCode as _};

/// How much is read at once when the last line end of a file is looked for.
const STEP: u64 = 1 << 16;

/// What a line of a file can be.
pub trait Line: serde::Serialize + serde::de::DeserializeOwned {
    /// The version of its schema.
    const SCHEMA: u32;
    /// The version that it was written with.
    fn schema(&self) -> u32;
    /// Its experiment.
    fn experiment(&self) -> &str;
    /// Its host.
    fn host(&self) -> &str;
}

impl Line for Record {
    const SCHEMA: u32 = SCHEMA;
    fn schema(&self) -> u32 {
        self.schema
    }
    fn experiment(&self) -> &str {
        &self.experiment
    }
    fn host(&self) -> &str {
        &self.host
    }
}

impl Line for Count {
    const SCHEMA: u32 = COUNT_SCHEMA;
    fn schema(&self) -> u32 {
        self.schema
    }
    fn experiment(&self) -> &str {
        &self.experiment
    }
    fn host(&self) -> &str {
        &self.host
    }
}

/// The records of one kind in one results directory.
#[derive(Clone, Debug)]
pub struct Store<T = Record> {
    records: PathBuf,
    kind: PhantomData<fn() -> T>,
}

/// Something that a reader or writer found wrong with a file and went around.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub what: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.what)
    }
}

/// The only field that is read before the schema is known.
#[derive(serde::Deserialize)]
struct SchemaOnly {
    schema: u32,
}

impl Store {
    /// The store of runs below `results`, which need not exist yet.
    pub fn new(results: &Path) -> Self {
        Self { records: results.join("records"), kind: PhantomData }
    }
}

impl Store<Count> {
    /// The store of counts below `results`, which need not exist yet.
    pub fn counts(results: &Path) -> Self {
        Self { records: results.join("counts"), kind: PhantomData }
    }
}

impl<T: Line> Store<T> {
    /// The folder of an experiment's files.
    pub fn folder(&self, experiment: &str) -> PathBuf {
        self.records.join(experiment)
    }

    /// The file of one experiment on one host.
    pub fn path(&self, experiment: &str, host: &str) -> PathBuf {
        self.folder(experiment).join(format!("{host}.jsonl"))
    }

    /// Appends one record and returns only when it is on the disk. The damage of an earlier crash
    /// is mended first and told.
    ///
    /// # Errors
    /// When a name cannot be a file's name, or the file cannot be locked, read or written (a disk
    /// that is full): what was written of the line is then taken back.
    pub fn append(&self, record: &T) -> anyhow::Result<Option<Damage>> {
        for (what, name) in [("experiment", record.experiment()), ("host", record.host())] {
            ensure!(is_file_name(name), "cannot store a record: {what} `{name}` is no file name");
        }
        let mut line = serde_json::to_vec(record).context("cannot write a record as JSON")?;
        line.push(b'\n');
        let path = self.path(record.experiment(), record.host());
        let folder = self.folder(record.experiment());
        fs::create_dir_all(&folder)?;
        let mut file = fs::OpenOptions::new().read(true).append(true).create(true).open(&path)?;
        file.file().lock().with_context(|| format!("cannot lock `{}`", path.display()))?;
        let damage = mend(&path, &mut file)?;
        let length = file.metadata()?.len();
        if let Err(error) = file.write_all(&line).and_then(|()| file.sync_data()) {
            // Whatever came of the line, it is not a record: readers must not meet half of it.
            let _ = file.set_len(length);
            return Err(error.into());
        }
        if length == 0 {
            // A new file: its name must survive a crash, too.
            fs::File::open(&folder)?.sync_all()?;
        }
        Ok(damage)
    }

    /// Appends many records; as [`Store::append`], but the disk is waited for once per file.
    ///
    /// # Errors
    /// As [`Store::append`].
    pub fn append_all(&self, records: &[T]) -> anyhow::Result<()> {
        let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        for record in records {
            for (what, name) in [("experiment", record.experiment()), ("host", record.host())] {
                ensure!(
                    is_file_name(name),
                    "cannot store a record: {what} `{name}` is no file name"
                );
            }
            let lines = files.entry(self.path(record.experiment(), record.host())).or_default();
            serde_json::to_writer(&mut *lines, record).context("cannot write a record as JSON")?;
            lines.push(b'\n');
        }
        for (path, lines) in files {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            let mut file =
                fs::OpenOptions::new().read(true).append(true).create(true).open(&path)?;
            file.file().lock().with_context(|| format!("cannot lock `{}`", path.display()))?;
            mend(&path, &mut file)?;
            let length = file.metadata()?.len();
            if let Err(error) = file.write_all(&lines).and_then(|()| file.sync_data()) {
                let _ = file.set_len(length);
                return Err(error.into());
            }
            if let (0, Some(folder)) = (length, path.parent()) {
                fs::File::open(folder)?.sync_all()?;
            }
        }
        Ok(())
    }

    /// Reads an experiment's records of all hosts, one by one, file by file in the order of names.
    /// Lines that are no records are skipped and returned; unknown fields are ignored. An
    /// experiment without records gives none.
    ///
    /// # Errors
    /// When a file cannot be read, or a record has a newer schema than this tool knows.
    pub fn read(&self, experiment: &str, mut each: impl FnMut(T)) -> anyhow::Result<Vec<Damage>> {
        let mut damage = Vec::new();
        for path in self.files(experiment)? {
            read_file(&path, &mut each, &mut damage)?;
        }
        Ok(damage)
    }

    /// As [`Store::read`], all at once.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn read_all(&self, experiment: &str) -> anyhow::Result<(Vec<T>, Vec<Damage>)> {
        let mut records = Vec::new();
        let damage = self.read(experiment, |record| records.push(record))?;
        Ok((records, damage))
    }

    /// The files of an experiment, sorted by name.
    fn files(&self, experiment: &str) -> anyhow::Result<Vec<PathBuf>> {
        let folder = self.folder(experiment);
        if !folder.try_exists()? {
            return Ok(Vec::new());
        }
        let mut paths = Vec::new();
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }
}

/// Whether a name stays inside its folder and is not hidden.
fn is_file_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0', '\n'])
}

/// Moves an unfinished last line to `<file>.torn`. The caller holds the lock.
fn mend(path: &Path, file: &mut fs::File) -> anyhow::Result<Option<Damage>> {
    let length = file.metadata()?.len();
    let whole = end_of_lines(file, length)?;
    if whole == length {
        return Ok(None);
    }
    let mut torn = Vec::new();
    file.seek(SeekFrom::Start(whole))?;
    file.read_to_end(&mut torn)?;
    let mut aside = path.as_os_str().to_owned();
    aside.push(".torn");
    let mut kept = fs::OpenOptions::new().append(true).create(true).open(PathBuf::from(&aside))?;
    kept.write_all(&torn)?;
    kept.write_all(b"\n")?;
    kept.sync_all()?;
    file.set_len(whole)?;
    let line = count_lines(path)? + 1;
    let what = format!(
        "an unfinished record ({} bytes, left by a crash) was moved to `{}`",
        torn.len(),
        Path::new(&aside).display()
    );
    Ok(Some(Damage { path: path.to_owned(), line, what }))
}

/// The offset behind the last newline, found from the end so that an append stays cheap.
fn end_of_lines(file: &mut fs::File, length: u64) -> anyhow::Result<u64> {
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(STEP);
        let mut bytes = vec![0; usize::try_from(end - start)?];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut bytes)?;
        if let Some(index) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + index as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

fn count_lines(path: &Path) -> anyhow::Result<u64> {
    let mut reader = BufReader::new(fs::File::open(path)?);
    let mut lines = 0;
    while reader.skip_until(b'\n')? > 0 {
        lines += 1;
    }
    Ok(lines)
}

fn read_file<T: Line>(
    path: &Path,
    each: &mut impl FnMut(T),
    damage: &mut Vec<Damage>,
) -> anyhow::Result<()> {
    let mut reader = BufReader::with_capacity(1 << 18, fs::File::open(path)?);
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        let mut tell = |what: String| damage.push(Damage { path: path.to_owned(), line, what });
        if bytes.last() != Some(&b'\n') {
            // A writer may be at work, or a crash cut it off: the next append mends it.
            tell("an unfinished record at the end of the file was left out".into());
            break;
        }
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        match parse(&bytes).with_context(|| format!("{}:{line}", path.display()))? {
            Ok(record) => each(record),
            Err(error) => tell(format!("not a record, left out: {error}")),
        }
    }
    Ok(())
}

/// The record of a line; inside, why it is none; outside, that this tool is too old for it.
fn parse<T: Line>(line: &[u8]) -> anyhow::Result<serde_json::Result<T>> {
    let parsed = serde_json::from_slice::<T>(line);
    let schema = match &parsed {
        Ok(record) => record.schema(),
        // A newer schema may have any shape: ask for this one field before calling it damaged.
        Err(_) => serde_json::from_slice::<SchemaOnly>(line).map_or(0, |only| only.schema),
    };
    if schema > T::SCHEMA {
        let refused: anyhow::Result<()> = (|| {
            bail!("the record has schema {schema}, this tool knows up to {}: update it", T::SCHEMA)
        })();
        refused.code(Code::Input)?;
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::testing::{failed, record};

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::new(folder.path());
        (folder, store)
    }

    #[test]
    fn what_is_appended_is_read_from_all_hosts() {
        let (_folder, store) = store();
        let mut other = failed("t", "scan", 1, "out of memory");
        other.host = "another".into();
        let records = [record("base", "scan", 1, 100.0), record("t", "scan", 1, 50.0)];
        for record in records.iter().chain([&other]) {
            assert_eq!(store.append(record).expect("appended"), None);
        }
        let (read, damage) = store.read_all("e").expect("readable");
        assert_eq!(read, [other, records[0].clone(), records[1].clone()]);
        assert_eq!(damage, []);
        assert_eq!(store.read_all("none").expect("no records"), (vec![], vec![]));
    }

    #[test]
    fn torn_line_is_kept_aside_and_told() {
        let (_folder, store) = store();
        let first = record("base", "scan", 1, 100.0);
        store.append(&first).expect("appended");
        let path = store.path("e", "h");
        let mut text = fs::read_to_string(&path).expect("readable");
        // Longer than one step of the search from the end.
        let torn = format!("{{\"schema\":1,\"tool\":\"{}", "x".repeat(STEP as usize + 10));
        text.push_str(&torn);
        fs::write(&path, text).expect("written");

        let (read, damage) = store.read_all("e").expect("readable");
        assert_eq!(read, std::slice::from_ref(&first));
        assert_eq!((damage.len(), damage[0].line), (1, 2));
        assert!(damage[0].what.contains("unfinished"), "{}", damage[0]);

        let second = record("t", "scan", 1, 90.0);
        let damage = store.append(&second).expect("appended").expect("told");
        assert_eq!(damage.line, 2);
        assert!(damage.to_string().contains("h.jsonl:2: an unfinished record"), "{damage}");
        assert_eq!(store.read_all("e").expect("readable"), (vec![first, second], vec![]));
        let aside = fs::read_to_string(path.with_extension("jsonl.torn")).expect("kept");
        assert_eq!(aside, format!("{torn}\n"));
    }

    #[test]
    fn damaged_line_in_the_middle_is_skipped_with_its_place() {
        let (_folder, store) = store();
        store.append(&record("base", "scan", 1, 100.0)).expect("appended");
        let path = store.path("e", "h");
        let good = fs::read_to_string(&path).expect("readable");
        let unknown = good.replacen("{", "{\"added-later\":[1],", 1);
        fs::write(&path, format!("{good}{{\"schema\":1}}\n\n\u{0}\u{0}\n{unknown}")).expect("ok");
        let (read, damage) = store.read_all("e").expect("readable");
        assert_eq!(read.len(), 2);
        assert_eq!(read[0], read[1]);
        let lines: Vec<_> = damage.iter().map(|damage| damage.line).collect();
        assert_eq!(lines, [2, 4]);
        assert!(damage[0].what.contains("missing field `tool`"), "{}", damage[0]);
        assert_eq!(store.append(&read[0]).expect("appended"), None, "complete lines stay");
        assert_eq!(store.read_all("e").expect("readable").0.len(), 3);
    }

    #[test]
    fn newer_schema_is_refused_whatever_its_shape() {
        let (_folder, store) = store();
        store.append(&record("base", "scan", 1, 100.0)).expect("appended");
        let path = store.path("e", "h");
        let good = fs::read_to_string(&path).expect("readable");
        for newer in ["{\"schema\":2}\n".to_owned(), good.replacen(":1,", ":2,", 1)] {
            fs::write(&path, format!("{good}{newer}")).expect("written");
            let error = store.read_all("e").expect_err("refused");
            let text = format!("{error:#}");
            assert!(text.contains("h.jsonl:2: the record has schema 2"), "{text}");
            assert_eq!(crate::exit::code_of(&error), Code::Input);
        }
    }

    #[test]
    fn names_cannot_leave_the_folder() {
        let (_folder, store) = store();
        for name in ["", "..", ".hidden", "a/b", "a\nb"] {
            let mut bad = record("base", "scan", 1, 100.0);
            bad.host = name.into();
            assert!(store.append(&bad).is_err(), "{name:?}");
        }
    }

    #[test]
    fn writers_at_once_lose_nothing() {
        let (_folder, store) = store();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let store = &store;
                scope.spawn(move || {
                    for block in 0..10 {
                        let target = format!("t{writer}");
                        let damage = store.append(&record(&target, "scan", block, 1.0));
                        assert_eq!(damage.expect("appended"), None);
                    }
                });
            }
        });
        let (read, damage) = store.read_all("e").expect("readable");
        assert_eq!((read.len(), damage.len()), (40, 0));
    }
}
