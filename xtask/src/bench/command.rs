//! Programs of the user's as a workload: how one is called, and what is read from what it prints.
//!
//! A program says what it measured in lines of its output, each a metric:
//! `METRIC:name:value:unit`, or a JSON object with `metric`, `value`, and perhaps `unit` and
//! `better` (`higher` or `lower`). For programs that speak otherwise the workload has patterns.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use catalog::{Better, Metric};
use regex_lite::Regex;
use serde::Deserialize;

use super::sqlbench;
use crate::exit::{Code, WithCode as _};
use crate::hash::Digest;
use crate::matrix::model::{Engine, MetricRule};
use crate::matrix::placeholder::{PLACEHOLDERS, fill};
use crate::proc::Proc;

/// What a command is told of its surroundings.
#[derive(Clone, Debug)]
pub struct Surroundings<'a> {
    /// The engine.
    pub engine: Engine,
    /// How to reach the server.
    pub server: &'a catalog::protocol::Server,
    /// Clients.
    pub threads: u32,
    /// How long a test shall take.
    pub seconds: f64,
    /// The block's seed.
    pub seed: u64,
    /// Where the server is installed.
    pub prefix: &'a Path,
    /// The name of the build.
    pub build: &'a str,
    /// The name of the config.
    pub config: &'a str,
}

impl Surroundings<'_> {
    /// What a placeholder stands for.
    fn value(&self, name: &str) -> String {
        let socket = Path::new(&self.server.socket);
        match name {
            "engine" => self.engine.name().to_owned(),
            "sql-bench-server" => sqlbench::server(self.engine).to_owned(),
            "socket" => self.server.socket.clone(),
            "folder" => socket.parent().unwrap_or(socket).to_string_lossy().into_owned(),
            "port" => socket
                .extension()
                .filter(|_| self.engine == Engine::Postgres)
                .map_or_else(String::new, |port| port.to_string_lossy().into_owned()),
            "user" => self.server.user.clone(),
            "database" => self.server.database.clone(),
            "threads" => self.threads.to_string(),
            "seconds" => self.seconds.to_string(),
            "seed" => self.seed.to_string(),
            "prefix" => self.prefix.to_string_lossy().into_owned(),
            "build" => self.build.to_owned(),
            "config" => self.config.to_owned(),
            // The reader of matrix.toml refuses others.
            _ => String::new(),
        }
    }

    /// The process: run in `root`, with `MATRIX_<PLACEHOLDER>` for each placeholder and what the
    /// engines' own clients heed, so that a plain `psql` or `mysql` finds the server.
    ///
    /// # Errors
    /// With [`Code::Environment`] when the program does not exist.
    pub fn process(&self, root: &Path, words: &[String]) -> anyhow::Result<Proc> {
        let program = find(root, words)?;
        let mut proc = Proc::new(program).cwd(root).inherit(&["PATH", "HOME"]);
        for word in words.iter().skip(1) {
            proc = proc.arg(fill(word, |name| self.value(name)));
        }
        for (name, _) in PLACEHOLDERS {
            proc = proc
                .env(format!("MATRIX_{}", name.to_uppercase().replace('-', "_")), self.value(name));
        }
        let own: &[(&str, &str)] = match self.engine {
            Engine::Postgres => &[
                ("PGHOST", "folder"),
                ("PGPORT", "port"),
                ("PGUSER", "user"),
                ("PGDATABASE", "database"),
            ],
            Engine::Mysql | Engine::Mariadb => &[("MYSQL_UNIX_PORT", "socket")],
        };
        Ok(own.iter().fold(proc, |proc, (key, name)| proc.env(key, self.value(name))))
    }
}

/// The file of a command's program: a path is taken from `root`, a bare name from the search path.
fn find(root: &Path, words: &[String]) -> anyhow::Result<PathBuf> {
    let name = words.first().context("a command without words")?;
    if name.contains('/') {
        return Ok(root.join(name));
    }
    which::which(name)
        .with_context(|| format!("the workload's program `{name}` is not in the search path"))
        .code(Code::Environment)
}

/// The identity of the programs of several commands: their files, and the files that their other
/// words name. Runs by other programs are no pair.
///
/// # Errors
/// When a program does not exist or cannot be read.
pub fn digest<'a>(
    root: &Path,
    commands: impl Iterator<Item = &'a [String]>,
) -> anyhow::Result<Digest> {
    let mut text = String::from("programs 1\n");
    for words in commands.filter(|words| !words.is_empty()) {
        let program = find(root, words)?;
        let content = Digest::of_file(&program)
            .with_context(|| format!("cannot read the workload's program `{}`", words[0]))
            .code(Code::Environment)?;
        text.push_str(&format!("{content}"));
        for word in &words[1..] {
            let file = root.join(word);
            if !word.contains('{') && file.is_file() {
                text.push_str(&format!(" {}", Digest::of_file(&file)?));
            }
        }
        text.push('\n');
    }
    Ok(Digest::of(text.as_bytes()))
}

/// A line of JSON.
#[derive(Deserialize)]
struct Said {
    metric: String,
    value: f64,
    #[serde(default)]
    unit: String,
    better: Option<Better>,
}

/// The metrics in what a program printed, in the order of the lines, then of the patterns.
///
/// # Errors
/// For a line that begins as one and is none, a metric that is told twice or not at all, and a
/// value that is no number.
pub fn metrics(output: &str, rules: &[MetricRule]) -> anyhow::Result<Vec<Metric>> {
    let mut found: Vec<Metric> = Vec::new();
    for (number, line) in output.lines().enumerate() {
        let Some(said) = said(line).with_context(|| format!("line {}: `{line}`", number + 1))?
        else {
            continue;
        };
        push(&mut found, said, rules)?;
    }
    for rule in rules {
        let Some(pattern) = &rule.pattern else {
            if !found.iter().any(|metric| metric.name == rule.name) {
                bail!("the program did not print `METRIC:{}:…`", rule.name);
            }
            continue;
        };
        let value = matched(output, pattern).with_context(|| format!("metric `{}`", rule.name))?;
        let (metric, unit) = (rule.name.clone(), rule.unit.clone().unwrap_or_default());
        push(&mut found, Said { metric, value, unit, better: None }, rules)?;
    }
    if found.is_empty() {
        bail!(
            "the program printed no metric: it prints lines `METRIC:name:value:unit`, or the \
             workload has patterns in `metrics`"
        );
    }
    Ok(found)
}

fn push(found: &mut Vec<Metric>, said: Said, rules: &[MetricRule]) -> anyhow::Result<()> {
    let Said { metric: name, value, unit, better } = said;
    if found.iter().any(|other| other.name == name) {
        bail!("metric `{name}` is told twice: each measurement needs a name of its own");
    }
    if !value.is_finite() {
        bail!("the value of metric `{name}` is {value}");
    }
    let rule = rules.iter().find(|rule| rule.name == name);
    let unit = rule.and_then(|rule| rule.unit.clone()).unwrap_or(unit);
    let better = rule.and_then(|rule| rule.better).or(better);
    let better = better.unwrap_or_else(|| Better::of_unit(&unit));
    found.push(Metric { name, value, unit, better });
    Ok(())
}

/// What a line says; `None` for a line that is no metric.
fn said(line: &str) -> anyhow::Result<Option<Said>> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix("METRIC:") {
        let mut fields = rest.splitn(3, ':').map(str::trim);
        let (Some(metric), Some(value)) = (fields.next(), fields.next()) else {
            bail!("a metric is told as `METRIC:name:value:unit`");
        };
        if metric.is_empty() {
            bail!("a metric without a name");
        }
        let value = number(value)?;
        let unit = fields.next().unwrap_or_default().to_owned();
        return Ok(Some(Said { metric: metric.to_owned(), value, unit, better: None }));
    }
    if !line.starts_with('{') || !line.contains("\"metric\"") {
        return Ok(None);
    }
    serde_json::from_str(line).map(Some).context("this is no metric")
}

/// The value that a pattern finds, in exactly one line.
fn matched(output: &str, pattern: &str) -> anyhow::Result<f64> {
    let regex = Regex::new(pattern).context("the pattern")?;
    let mut values = output.lines().filter_map(|line| regex.captures(line)?.get(1));
    let value = values.next().with_context(|| format!("no line matches `{pattern}`"))?;
    if values.next().is_some() {
        bail!("several lines match `{pattern}`");
    }
    number(value.as_str())
}

fn number(text: &str) -> anyhow::Result<f64> {
    text.trim().parse().with_context(|| format!("`{text}` is no number"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(name: &str, pattern: Option<&str>, unit: Option<&str>) -> MetricRule {
        let (pattern, unit) = (pattern.map(str::to_owned), unit.map(str::to_owned));
        MetricRule { name: name.to_owned(), pattern, unit, better: None }
    }

    fn told(output: &str, rules: &[MetricRule]) -> Vec<(String, f64, String, Better)> {
        let metrics = metrics(output, rules).expect("metrics");
        metrics.into_iter().map(|m| (m.name, m.value, m.unit, m.better)).collect()
    }

    #[test]
    fn lines_json_and_patterns() {
        let output = "starting\nMETRIC:orders:1234.5:1/s\n\
                      {\"metric\": \"p95\", \"value\": 3.5, \"unit\": \"ms\"}\n{\"level\": \"info\"}\n\
                      METRIC:score:7\ntps = 99.5 (without initial connection time)\n";
        let rules = [
            rule("tps", Some(r"^tps = ([0-9.]+) \(without"), Some("1/s")),
            MetricRule { better: Some(Better::Lower), ..rule("score", None, Some("points")) },
        ];
        let owned = |name: &str, value, unit: &str, better| {
            (name.to_owned(), value, unit.to_owned(), better)
        };
        assert_eq!(
            told(output, &rules),
            [
                owned("orders", 1234.5, "1/s", Better::Higher),
                owned("p95", 3.5, "ms", Better::Lower),
                owned("score", 7.0, "points", Better::Lower),
                owned("tps", 99.5, "1/s", Better::Higher),
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let tps = [rule("tps", Some("tps = (.*)"), Some("1/s"))];
        for (output, rules, expected) in [
            ("", &[][..], "printed no metric"),
            ("METRIC:a:x:s", &[], "`x` is no number"),
            ("METRIC:a", &[], "METRIC:name:value:unit"),
            ("METRIC::1:s", &[], "without a name"),
            ("METRIC:a:inf:s", &[], "is inf"),
            ("METRIC:a:1:s\nMETRIC:a:2:s", &[], "told twice"),
            ("{\"metric\": 3}", &[], "this is no metric"),
            ("nothing", &tps, "no line matches"),
            ("tps = 1\ntps = 2", &tps, "several lines match"),
            ("METRIC:b:1:s", &[rule("a", None, None)], "did not print `METRIC:a"),
        ] {
            let error = metrics(output, rules).expect_err(output);
            assert!(format!("{error:#}").contains(expected), "{output}: {error:#}");
        }
    }

    #[test]
    fn a_command_is_told_where_the_server_is() {
        let server = catalog::protocol::Server {
            protocol: catalog::protocol::WireProtocol::Postgres,
            socket: "/run/x/.s.PGSQL.5432".to_owned(),
            user: "u".to_owned(),
            database: "d".to_owned(),
        };
        let surroundings = Surroundings {
            engine: Engine::Postgres,
            server: &server,
            threads: 4,
            seconds: 1.5,
            seed: 7,
            prefix: Path::new("/opt/pg"),
            build: "b",
            config: "c",
        };
        let words = ["/bin/true", "-h{folder}", "-p{port}", "{{{threads}}}", "{seconds}"];
        let words = words.map(str::to_owned);
        let proc = surroundings.process(Path::new("/"), &words).expect("a process");
        assert_eq!(proc.words(), ["/bin/true", "-h/run/x", "-p5432", "{4}", "1.5"]);
        let get = |key: &str| {
            let found = proc.variables().find(|(name, _)| *name == key);
            found.map(|(_, value)| value.to_string_lossy().into_owned())
        };
        assert_eq!(get("PGHOST").as_deref(), Some("/run/x"));
        assert_eq!(get("MATRIX_SEED").as_deref(), Some("7"));
        assert_eq!(get("MYSQL_UNIX_PORT"), None);
        let error = surroundings.process(Path::new("/"), &["no-such-program".to_owned()]);
        let error = error.expect_err("missing");
        assert!(error.to_string().contains("`no-such-program`"), "{error}");
    }

    #[test]
    fn identity_follows_the_files_that_are_named() {
        let temp = tempfile::tempdir().expect("a folder");
        let script = temp.path().join("test.sh");
        let words = ["sh", "test.sh", "{seconds}"].map(str::to_owned);
        let id = || digest(temp.path(), [&words[..], &[]].into_iter()).expect("a digest");
        std::fs::write(&script, "one").expect("written");
        let first = id();
        assert_eq!(id(), first);
        std::fs::write(&script, "two").expect("written");
        assert_ne!(id(), first);
    }

    proptest! {
        #[test]
        fn any_output_gets_an_answer(output in "(METRIC:|\\{\"metric\"|[a-z:0-9. \n\"{}])*") {
            let _ = metrics(&output, &[rule("x", Some("x=([^ ]*)"), Some("s"))]);
        }
    }
}
