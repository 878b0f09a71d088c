//! What a file is: by its name where the tool that wrote it gives one, else by its first lines.

use crate::import::{names, sqlbench};

/// The formats. Where two files tell the same figure, the one further up is believed: it has more
/// digits, or is nearer to the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `sb.met`: metrics of one test.
    Met,
    /// Text of sysbench.
    Sysbench,
    /// Log of `vmstat`.
    Vmstat,
    /// Log of `iostat`.
    Iostat,
    /// The last line of a load.
    Load,
    /// `o.met`: metrics of all tests.
    AllMet,
    /// `sb.r.*`: one value per number of clients.
    OneLine,
    /// `qps.abs.*`, `qps.rel.*`.
    Rates,
    /// Summary of a step of the insert benchmark.
    IbenchResult,
    /// Log of one client of the insert benchmark.
    IbenchLog,
    /// Tables of the insert benchmark.
    IbenchTable,
    /// Output of one test of sql-bench.
    SqlTest,
    /// Summary of sql-bench.
    SqlRun,
    /// Report of pgbench.
    Pgbench,
    /// JSON of hyperfine.
    Hyperfine,
    /// Any other table with a line of names.
    Published,
}

impl Kind {
    /// All kinds with the names that a user gives them.
    pub const ALL: [(&'static str, Self); 16] = [
        ("met", Self::Met),
        ("sysbench", Self::Sysbench),
        ("vmstat", Self::Vmstat),
        ("iostat", Self::Iostat),
        ("load", Self::Load),
        ("all-met", Self::AllMet),
        ("one-line", Self::OneLine),
        ("rates", Self::Rates),
        ("ibench-result", Self::IbenchResult),
        ("ibench-log", Self::IbenchLog),
        ("ibench-table", Self::IbenchTable),
        ("sql-bench-test", Self::SqlTest),
        ("sql-bench-run", Self::SqlRun),
        ("pgbench", Self::Pgbench),
        ("hyperfine", Self::Hyperfine),
        ("table", Self::Published),
    ];

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// The name of this kind.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// What a name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A file of this kind.
    Is(Kind),
    /// A file of the scripts that holds no figures to compare.
    Nothing,
    /// The text must tell.
    Unknown,
}

/// What a file of this name is.
pub fn by_name(name: &str) -> Named {
    if let Some(file) = names::file(name) {
        return match (file.kind, file.range) {
            ("met" | "prepare.met", _) => Named::Is(Kind::Met),
            ("prepare.o", _) => Named::Is(Kind::Load),
            // Without a range it is the output of a maintenance step.
            ("o", Some(_)) => Named::Is(Kind::Sysbench),
            ("vm", _) => Named::Is(Kind::Vmstat),
            ("io", _) => Named::Is(Kind::Iostat),
            (kind, _) if kind.starts_with("r.") => Named::Is(Kind::OneLine),
            _ => Named::Nothing,
        };
    }
    let begins = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    if begins(&["qps.abs.", "qps.rel."]) {
        Named::Is(Kind::Rates)
    } else if begins(&["o.ib.dop"]) {
        Named::Is(Kind::IbenchLog)
    } else if begins(&["o.res."]) {
        Named::Is(Kind::IbenchResult)
    } else if begins(&["mrg.", "rel.", "o.sum.t."]) {
        Named::Is(Kind::IbenchTable)
    } else if begins(&["sb.", "o.vm.", "o.io.", "o.ps.", "o.top.", "o.rt.", "o.rate.", "o.ctime."])
    {
        Named::Nothing
    } else {
        Named::Unknown
    }
}

/// What a text is. `name` helps where tables are concerned.
pub fn by_text(name: &str, text: &str) -> Option<Kind> {
    let head = head(text);
    let has = |what: &str| head.contains(what);
    if head.trim_start().starts_with('{') {
        return (has("\"results\"") && has("\"command\"")).then_some(Kind::Hyperfine);
    }
    if has("samp\tr/s\t") {
        return Some(Kind::Met);
    }
    if head.lines().any(|it| it == "--- absolute") {
        return Some(Kind::AllMet);
    }
    if has("col-1 : ") || has("Relative to: ") {
        return Some(Kind::Rates);
    }
    if has("i_sec\tt_sec\t") {
        return Some(Kind::IbenchLog);
    }
    if has("ips\tqps\trps\t") {
        return Some(Kind::IbenchTable);
    }
    if has("rows-per-process, ") {
        return Some(Kind::IbenchResult);
    }
    if has("Benchmark DBD suite") {
        return Some(Kind::SqlRun);
    }
    let timed = |line: &str| {
        let begins = ["Time ", "Estimated ", "Total time:"].iter().any(|it| line.starts_with(it));
        begins && line.contains(" wallclock sec")
    };
    if head.lines().any(timed) || (sqlbench::name(name).is_some() && has("Testing server")) {
        return Some(Kind::SqlTest);
    }
    if has("transaction type: ") {
        return Some(Kind::Pgbench);
    }
    // The version's line, or the command that a script prints before it.
    if head.lines().any(|line| line.starts_with("sysbench ") && line.contains("LuaJIT")) {
        return Some(Kind::Sysbench);
    }
    if head.starts_with("procs ") {
        return Some(Kind::Vmstat);
    }
    if has("avg-cpu:") && has("Device") {
        return Some(Kind::Iostat);
    }
    let table = [".tsv", ".csv"].iter().any(|end| name.ends_with(end));
    if !table {
        return None;
    }
    // Rates without a line of names begin with a test and have only numbers behind it.
    let first = head.lines().find(|it| !it.starts_with('#') && !it.trim().is_empty())?;
    let (test, rest) = first.split_once(',').unwrap_or((first, ""));
    let rates = names::group(test).is_some()
        && rest.split(',').all(|it| crate::import::number(it).is_some());
    Some(if rates { Kind::Rates } else { Kind::Published })
}

/// The first 64 KiB: what a script prints before may be long.
fn head(text: &str) -> &str {
    let mut end = text.len().min(64 << 10);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell() {
        let cases = [
            ("sb.met.scan.range100.pk1.dop1", Named::Is(Kind::Met)),
            ("sb.prepare.met.point-query.warm.range100.pk1", Named::Is(Kind::Met)),
            ("sb.prepare.o.point-query.warm.range100.pk1", Named::Is(Kind::Load)),
            ("sb.o.scan.range100.pk1.dop1", Named::Is(Kind::Sysbench)),
            ("sb.o.myvac", Named::Nothing),
            ("sb.io.scan.range100.pk1.dop1.gz", Named::Is(Kind::Iostat)),
            ("sb.r.rt95.scan.range100.pk1", Named::Is(Kind::OneLine)),
            ("sb.hp.pre", Named::Nothing),
            ("sb.new-thing.scan.range100.pk1", Named::Nothing),
            ("qps.rel.all.tsv.edit", Named::Is(Kind::Rates)),
            ("rel.l.i0", Named::Is(Kind::IbenchTable)),
            ("o.met.all", Named::Unknown),
            ("README.md", Named::Unknown),
        ];
        for (name, want) in cases {
            assert_eq!(by_name(name), want, "{name}");
        }
        for (name, kind) in Kind::ALL {
            assert_eq!((Kind::named(name), kind.name()), (Some(kind), name));
        }
        assert_eq!(Kind::named("x"), None);
    }

    #[test]
    fn texts_tell() {
        let cases = [
            ("a", "title\nsamp\tr/s\trMB/s\n", Some(Kind::Met)),
            ("a", "x\n--- absolute\n", Some(Kind::AllMet)),
            ("a", "Relative to: x\n", Some(Kind::Rates)),
            ("a", "cmd\ni_sec\tt_sec\ti_ips\n", Some(Kind::IbenchLog)),
            ("a", "ips\tqps\trps\t\n", Some(Kind::IbenchTable)),
            ("a", "1 processes, 5 rows-per-process, 3 seconds", Some(Kind::IbenchResult)),
            ("RUN-mysql-x", "Benchmark DBD suite: 2.15", Some(Kind::SqlRun)),
            ("a", "Time for x (1): 5 wallclock secs (", Some(Kind::SqlTest)),
            ("a", "pgbench (15)\ntransaction type: <builtin", Some(Kind::Pgbench)),
            ("a", "sysbench 1.0.20 (using system LuaJIT 2.1.0)", Some(Kind::Sysbench)),
            ("a", "procs ---memory---", Some(Kind::Vmstat)),
            ("a", "Linux\navg-cpu: x\nDevice r/s", Some(Kind::Iostat)),
            ("a.json", "{\"results\": [{\"command\": \"x\"}]}", Some(Kind::Hyperfine)),
            ("a.json", "{}", None),
            ("a.csv", "hot-points_range=100,1,2\n", Some(Kind::Rates)),
            ("a.csv", "test,my1\nhot-points,2\n", Some(Kind::Published)),
            ("a.tsv", "# nothing\n", None),
            ("a.txt", "Dear all", None),
            ("a", "", None),
        ];
        for (name, text, want) in cases {
            assert_eq!(by_text(name, text), want, "{text}");
        }
        assert_eq!(head(&"é".repeat(40_000)).len(), 64 << 10);
    }
}
