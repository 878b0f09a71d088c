//! What people already have: results of other tools, read into figures that can be compared.
//!
//! [`read::path`] walks a file or a folder and is the only place that touches the disk. What a file
//! is follows from its name and its first lines ([`kind`], [`gather`]); one parser per format turns
//! the text into figures, says what it left out with file and line, and never fails: a cut file, a
//! missing test or a foreign line costs that line alone. [`merge`] then keeps one figure where
//! several files tell the same one, and holds printed ratios against the absolute figures.
//! [`derive`] makes the tables that this field publishes out of the absolute figures, by its rules
//! of rounding.

use std::path::{Path, PathBuf};

pub mod derive;
pub mod gather;
pub mod hyperfine;
pub mod ibench;
pub mod kind;
pub mod merge;
pub mod met;
pub mod metric;
pub mod names;
pub mod pgbench;
pub mod published;
pub mod read;
pub mod sqlbench;
pub mod stat;
pub mod sysbench;
pub mod table;
#[cfg(test)]
mod tests;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// The figures, in the order of the files and their lines.
    pub results: Vec<Figure>,
    /// What was left out, and what does not fit together.
    pub skipped: Vec<Skip>,
    /// Figures that a second file tells with the same value; they are not in `results` twice.
    pub agreed: usize,
    /// Printed ratios that came out of the absolute figures as printed; they are not in `results`.
    pub checked: usize,
}

/// One number that somebody measured or printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What was measured: the folder's or the column's name, as it stands there.
    pub target: String,
    /// The build, by the target's name.
    pub build: String,
    /// The server configuration, by the target's name; empty where it tells none.
    pub config: String,
    /// The host, where the file tells it.
    pub host: Option<String>,
    /// The microbenchmark, step, test or operation: `points-covered-si_range=100`, `l.i0`, `ATIS`.
    pub test: String,
    /// The group of a microbenchmark: `point-1`, `point-2`, `range-1`, `range-2`, `writes`. None
    /// for warm-ups and for everything that is no microbenchmark.
    pub group: Option<String>,
    /// Clients.
    pub threads: Option<u32>,
    /// Which of several equal runs, from 0.
    pub repeat: u32,
    /// `qps`, `tps`, `cpu/o`, `seconds`, ...: see [`metric`].
    pub metric: String,
    /// The value. A ratio (and nothing else) may be infinite.
    pub value: f64,
    /// The value as it was printed: published tables are rounded before they are divided.
    pub text: String,
    /// The unit; `ratio` for a ratio.
    pub unit: String,
    /// The direction.
    pub lower_is_better: bool,
    /// What the file compares with: the first column, the first line of a group.
    pub base: Option<String>,
    /// Whether the value is (value of the target) / (value of the base).
    pub ratio: bool,
    /// Where it stands.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u32,
}

/// Something that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0: the whole file.
    pub line: u32,
    /// What and why.
    pub what: String,
}

impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, line, what } = self;
        match line {
            0 => write!(f, "{}: {what}", file.display()),
            _ => write!(f, "{}:{line}: {what}", file.display()),
        }
    }
}

/// What the caller decides.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What every file is, where its name and text do not tell.
    pub kind: Option<kind::Kind>,
    /// The block device whose lines of `iostat` count.
    pub device: Option<String>,
    /// Which lines of a log of `vmstat` are samples.
    pub samples: stat::Samples,
}

/// Where a text comes from, and what the names of its file and folder say.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// The target, where the file is of one.
    pub target: String,
    /// The test, where the file is of one.
    pub test: String,
    /// Clients.
    pub threads: Option<u32>,
    /// The host.
    pub host: Option<String>,
    /// Whether tests are microbenchmarks, which have groups.
    pub grouped: bool,
}

impl Place {
    /// The file's name; empty where the path has none.
    pub fn name(&self) -> &str {
        file_name(&self.file)
    }

    /// The same place, of another target.
    fn of(&self, target: &str) -> Self {
        Self { target: target.to_owned(), ..self.clone() }
    }

    /// The same place, of another test.
    fn testing(&self, test: &str) -> Self {
        Self { test: test.to_owned(), ..self.clone() }
    }

    fn figure(&self, line: u32, metric: &str, text: &str, value: f64) -> Figure {
        let (build, config) = names::target(&self.target);
        let (unit, lower_is_better) = metric::describe(metric);
        let group = if self.grouped { names::group(&self.test) } else { None };
        Figure {
            target: self.target.clone(),
            build: build.to_owned(),
            config: config.to_owned(),
            host: self.host.clone(),
            test: self.test.clone(),
            group: group.map(str::to_owned),
            threads: self.threads,
            repeat: 0,
            metric: metric.to_owned(),
            value,
            text: text.to_owned(),
            unit: unit.to_owned(),
            lower_is_better,
            base: None,
            ratio: false,
            file: self.file.clone(),
            line,
        }
    }
}

/// The name of a file; empty where the path has none or it is no Unicode.
fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

impl Imported {
    /// Adds what was printed as `text`, or says why not. The figure, to be refined.
    fn add(&mut self, place: &Place, line: u32, metric: &str, text: &str) -> Option<&mut Figure> {
        match number(text) {
            Some(value) => {
                self.results.push(place.figure(line, metric, text, value));
                self.results.last_mut()
            }
            None => {
                self.skip(place, line, format!("{metric} is `{}`, no number", short(text)));
                None
            }
        }
    }

    /// The same for a ratio to `base`, which may be `inf`; `NA` is nothing.
    fn add_ratio(
        &mut self,
        place: &Place,
        line: u32,
        metric: &str,
        text: &str,
        base: Option<&str>,
    ) -> Option<&mut Figure> {
        let value = if text == "inf" { Some(f64::INFINITY) } else { number(text) };
        if let Some(value) = value {
            let mut figure = place.figure(line, metric, text, value);
            figure.ratio = true;
            figure.unit = "ratio".to_owned();
            figure.base = base.map(str::to_owned);
            self.results.push(figure);
            return self.results.last_mut();
        }
        if text != "NA" {
            self.skip(place, line, format!("the ratio of {metric} is `{}`", short(text)));
        }
        None
    }

    /// Says that something was left out.
    fn skip(&mut self, place: &Place, line: u32, what: impl Into<String>) {
        self.skipped.push(Skip { file: place.file.clone(), line, what: what.into() });
    }
}

/// A finite number in C's notation; `.109` is one, `1,234`, `inf` and `nan` are not.
fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|it| it.is_ascii_digit() || b"+-.eE".contains(&it));
    if plain { text.parse().ok().filter(|value: &f64| value.is_finite()) } else { None }
}

/// At most 40 characters of foreign text, for a message of one line.
fn short(text: &str) -> String {
    let text = text.trim();
    let mut end = text.chars().map(|it| if it.is_control() { ' ' } else { it });
    let head: String = end.by_ref().take(40).collect();
    if end.next().is_some() { format!("{head}...") } else { head }
}

/// The lines with their numbers from 1. A number beyond `u32` stays at its end.
fn lines(text: &str) -> impl Iterator<Item = (u32, &str)> {
    text.lines().enumerate().map(|(at, line)| (u32::try_from(at + 1).unwrap_or(u32::MAX), line))
}
