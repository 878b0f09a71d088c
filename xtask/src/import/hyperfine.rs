//! The JSON that hyperfine exports.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::import::{Figure, Imported, Place};

#[derive(Deserialize)]
struct Export {
    results: Vec<Command>,
}

#[derive(Deserialize)]
struct Command {
    command: String,
    mean: Option<f64>,
    stddev: Option<f64>,
    median: Option<f64>,
    user: Option<f64>,
    system: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    #[serde(default)]
    times: Option<Vec<f64>>,
    #[serde(default)]
    exit_codes: Option<Vec<Option<i32>>>,
    #[serde(default)]
    parameters: BTreeMap<String, serde_json::Value>,
}

/// Reads an export: every command is a target. Its runs are repeats of `seconds` (without them the
/// mean is the only one), what hyperfine makes of them is `seconds-mean`, `seconds-median`, ...
///
/// Runs that failed are left out, and so are the means of a command with one.
pub fn parse(place: &Place, text: &str, out: &mut Imported) {
    let export: Export = match serde_json::from_str(text) {
        Ok(export) => export,
        Err(error) => {
            let line = u32::try_from(error.line()).unwrap_or(u32::MAX);
            out.skip(place, line, format!("not hyperfine's JSON: {error}"));
            return;
        }
    };
    for command in &export.results {
        // The export is one text to its reader: the line of a value is not known, its command's is.
        let quoted = serde_json::to_string(&command.command).unwrap_or_default();
        let line = crate::import::lines(text).find(|(_, line)| line.contains(&quoted));
        one(place, line.map_or(1, |(line, _)| line), command, out);
    }
}

fn one(place: &Place, line: u32, command: &Command, out: &mut Imported) {
    let mut place = place.of(&command.command);
    let parameters = command.parameters.iter();
    let parameters: Vec<String> = parameters
        .map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name}={text}"),
            None => format!("{name}={value}"),
        })
        .collect();
    // `threads` is what matters to us; all of them tell one command from another.
    place.threads = command.parameters.get("threads").and_then(|it| match it.as_str() {
        Some(text) => text.parse().ok(),
        None => it.as_u64().and_then(|it| u32::try_from(it).ok()),
    });
    if place.test.is_empty() {
        place.test = "command".to_owned();
    }
    if !parameters.is_empty() {
        place.test = format!("{} {}", place.test, parameters.join(" "));
    }
    let codes = command.exit_codes.as_deref().unwrap_or_default();
    let failed = codes.iter().filter(|it| **it != Some(0)).count();
    if failed > 0 {
        out.skip(&place, line, format!("{failed} runs of `{}` failed", command.command));
    }
    let tell = |metric: &str, value: f64| place.figure(line, metric, &value.to_string(), value);
    let times = command.times.as_deref().unwrap_or_default();
    for (at, time) in times.iter().enumerate() {
        if matches!(codes.get(at), None | Some(Some(0))) {
            let repeat = u32::try_from(at).unwrap_or(u32::MAX);
            out.results.push(Figure { repeat, ..tell("seconds", *time) });
        }
    }
    if failed > 0 {
        return;
    }
    if times.is_empty() {
        out.results.extend(command.mean.map(|mean| tell("seconds", mean)));
    }
    let summaries = [
        ("seconds-mean", command.mean),
        ("seconds-stddev", command.stddev),
        ("seconds-median", command.median),
        ("seconds-min", command.min),
        ("seconds-max", command.max),
        ("seconds-user", command.user),
        ("seconds-system", command.system),
    ];
    out.results.extend(summaries.into_iter().filter_map(|(name, value)| Some(tell(name, value?))));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Imported {
        let mut out = Imported::default();
        parse(&Place::default(), text, &mut out);
        out
    }

    #[test]
    fn runs_are_repeats() {
        let out = read(
            r#"{"results": [
              {"command": "sleep \"1\"", "mean": 1.5, "stddev": null, "median": 1.5, "user": 0.1,
               "system": 0.2, "min": 1.0, "max": 2.0, "times": [1.0, 2.0],
               "exit_codes": [0, 0], "parameters": {"threads": "4"}, "memory_usage_byte": [1]},
              {"command": "old", "mean": 3.25, "stddev": 0.5, "median": 1.0, "user": 0.1,
               "system": 0.2, "min": 1.0, "max": 2.0}]}"#,
        );
        let seconds: Vec<_> = out.results.iter().filter(|it| it.metric == "seconds").collect();
        let found: Vec<_> = seconds.iter().map(|it| (&*it.target, it.repeat, it.value)).collect();
        assert_eq!(found, [("sleep \"1\"", 0, 1.0), ("sleep \"1\"", 1, 2.0), ("old", 0, 3.25)]);
        assert_eq!((seconds[0].line, seconds[0].threads), (2, Some(4)));
        assert_eq!((&*seconds[0].test, seconds[0].lower_is_better), ("command threads=4", true));
        assert!(!out.results.iter().any(|it| it.target != "old" && it.metric == "seconds-stddev"));
        assert_eq!(out.results.len(), 2 + 6 + 1 + 7);
    }

    #[test]
    fn failed_runs_and_cut_files() {
        let out = read(
            r#"{"results": [{"command": "a", "mean": 2.0, "times": [1, 3], "exit_codes": [0, 1]}]}"#,
        );
        assert_eq!((out.results.len(), out.results[0].value), (1, 1.0));
        assert_eq!(out.skipped[0].what, "1 runs of `a` failed");
        let cut = read("{\"results\": [\n{\"command\": ");
        assert_eq!((cut.results.len(), cut.skipped[0].line), (0, 2));
    }
}
