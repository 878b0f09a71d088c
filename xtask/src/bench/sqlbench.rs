//! sql-bench: the suite of Perl scripts that MySQL's trees had up to 5.6 and MariaDB's have. Made
//! ready from a tree, called, and what a test prints read.
//!
//! Sources: `bench-init.pl.sh` and the `test-*.sh` of MySQL 5.6's `sql-bench`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use catalog::{Better, Metric};
use fs_err as fs;
use regex_lite::Regex;

use crate::env::Env;
use crate::exit::{Code, coded};
use crate::matrix::model::{Engine, Source};
use crate::{interrupt, source};

/// The words that run one test; `{…}` are placeholders.
pub fn words(test: &str, loop_count: Option<u32>, options: &[String]) -> Vec<String> {
    let mut words: Vec<String> = [
        "perl",
        // Without it times are whole seconds: the suite's own `--hires` comes too late for
        // Benchmark.pm, which looks when it is loaded.
        "-MBenchmark=:hireswallclock",
        &format!("test-{test}"),
        "--server={sql-bench-server}",
        "--host=localhost",
        "--socket={socket}",
        "--user={user}",
        "--database={database}",
    ]
    .map(str::to_owned)
    .into();
    words.extend(loop_count.map(|count| format!("--loop-count={count}")));
    words.extend(options.iter().cloned());
    words
}

/// The suite's name of an engine.
pub fn server(engine: Engine) -> &'static str {
    match engine {
        Engine::Postgres => "pg",
        Engine::Mysql | Engine::Mariadb => "mysql",
    }
}

/// Makes the scripts of a source ready in a folder of their own, which is made once: copied, and
/// named without `.sh`, as an installation has them and as they call each other.
///
/// # Errors
/// When the source cannot be had, or its tree has no `sql-bench`.
pub fn prepare(env: &Env, source: &Source) -> anyhow::Result<PathBuf> {
    let tree = source::ensure(env, source)?;
    let done = env.work.join("sql-bench").join(tree.digest.short());
    if done.is_dir() {
        return Ok(done);
    }
    let from = tree.path.join("sql-bench");
    if !from.join("bench-init.pl.sh").is_file() && !from.join("bench-init.pl").is_file() {
        return Err(coded(
            Code::Input,
            format!(
                "source `{}` has no sql-bench: MySQL has it up to 5.6, MariaDB up to 11",
                source.name
            ),
        ));
    }
    let staging = source::staging(env)?;
    let made = staging.path().join("sql-bench");
    copy(&from, &made)?;
    fs::create_dir_all(done.parent().context("a folder without parent")?)?;
    fs::rename(&made, &done)?;
    Ok(done)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        interrupt::check()?;
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to.join(&name))?;
            continue;
        }
        if !entry.file_type()?.is_file() {
            continue;
        }
        let name = name.to_string_lossy();
        fs::copy(entry.path(), to.join(name.strip_suffix(".sh").unwrap_or(&name)))?;
    }
    Ok(())
}

/// What a test printed: its seconds, and with `operations` those of each operation that took any.
///
/// # Errors
/// When it did not end with its total, was skipped, or extrapolated: that is no measurement.
pub fn metrics(output: &str, operations: bool) -> anyhow::Result<Vec<Metric>> {
    let last = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let last = last.trim();
    if last.contains("Test skipped") {
        bail!("the test skipped itself: the server or the driver lacks what it measures");
    }
    if last.starts_with("Estimated total time:") {
        bail!("the test was cut off and its time extrapolated; give `--time-limit` more seconds");
    }
    let total = last.strip_prefix("Total time:").and_then(wallclock);
    let total = total.with_context(|| format!("the test did not end with its total: `{last}`"))?;
    let seconds = |name: String, value| {
        let (unit, better) = ("s".to_owned(), Better::Lower);
        Metric { name, value, unit, better }
    };
    let mut metrics = vec![seconds("seconds".to_owned(), total)];
    if operations {
        for (name, value) in times(output)? {
            match metrics.iter_mut().find(|metric| metric.name == name) {
                // The suite itself adds up operations of one name.
                Some(metric) => metric.value += value,
                None => metrics.push(seconds(name, value)),
            }
        }
        // An operation too quick for the clock has no time to compare.
        metrics.retain(|metric| metric.name == "seconds" || metric.value > 0.0);
    }
    Ok(metrics)
}

/// The operations: `Time for|to NAME (COUNT[:ROWS]) [TEXT]: W wallclock secs`.
fn times(output: &str) -> anyhow::Result<Vec<(String, f64)>> {
    let line = Regex::new(r"^(Time|Estimated time) (?:for|to) (.+?) \([0-9:]+\)[^:]*:(.*)$")?;
    let mut found = Vec::new();
    for captures in output.lines().filter_map(|text| line.captures(text)) {
        let name = &captures[2];
        if &captures[1] != "Time" {
            bail!("operation `{name}` was cut off and its time extrapolated");
        }
        let seconds = wallclock(&captures[3]);
        let seconds = seconds.with_context(|| format!("operation `{name}` has no time"))?;
        found.push((name.trim().to_owned(), seconds));
    }
    Ok(found)
}

/// The number before `wallclock secs`.
fn wallclock(text: &str) -> Option<f64> {
    let seconds: f64 = text.split_once("wallclock sec")?.0.trim().parse().ok()?;
    (seconds.is_finite() && seconds >= 0.0).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OUTPUT: &str = "Testing server 'MySQL 5.6.21' at 2026-01-01\n\n\
        Time for insert (300000): 12.5 wallclock secs ( 1.00 usr  0.50 sys +  0.00 cusr)\n\
        Time to create_table  (28):  0 wallclock secs ( 0.00 usr  0.00 sys)\n\
        Time for insert  (100):  1 wallclock secs ( 0.00 usr)\n\
        Time for select_join (100:1000) of keys: 2.25 wallclock secs ( 0.10 usr)\n\
        Total time: 17.75 wallclock secs ( 1.10 usr  0.50 sys +  0.00 cusr  0.00 csys)\n\n";

    #[test]
    fn total_and_operations() {
        let told = |operations| -> Vec<(String, f64)> {
            let metrics = metrics(OUTPUT, operations).expect("metrics");
            assert!(metrics.iter().all(|it| it.unit == "s" && it.better == Better::Lower));
            metrics.into_iter().map(|it| (it.name, it.value)).collect()
        };
        assert_eq!(told(false), [("seconds".to_owned(), 17.75)]);
        let names: Vec<_> = told(true);
        let expected = [("seconds", 17.75), ("insert", 13.5), ("select_join", 2.25)];
        assert_eq!(names, expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn what_is_no_measurement_is_refused() {
        for (output, expected) in [
            ("", "did not end with its total"),
            ("Total time: x", "did not end with its total"),
            ("Got error: 'x' when connecting", "Got error"),
            ("Test skipped because", "skipped itself"),
            ("Estimated total time: 700 wallclock secs ( 1 usr)", "extrapolated"),
        ] {
            let error = metrics(output, false).expect_err(output).to_string();
            assert!(error.contains(expected), "{output}: {error}");
        }
        let cut = OUTPUT.replace("Time for select", "Estimated time for select");
        assert!(metrics(&cut, false).is_ok(), "the total is as it was");
        let error = metrics(&cut, true).expect_err("extrapolated").to_string();
        assert!(error.contains("`select_join` was cut off"), "{error}");
    }

    #[test]
    fn the_words_name_server_test_and_options() {
        let options = ["--create-options=engine=innodb".to_owned()];
        let words = words("wisconsin", Some(1000), &options);
        assert_eq!(words[2..4], ["test-wisconsin", "--server={sql-bench-server}"]);
        assert_eq!(words[8..], ["--loop-count=1000", "--create-options=engine=innodb"]);
    }

    proptest! {
        #[test]
        fn any_output_gets_an_answer(
            output in "(Time for |Total time: |Estimated |[a-z0-9 ():.\n]|wallclock secs)*"
        ) {
            let _ = metrics(&output, true);
        }
    }
}
