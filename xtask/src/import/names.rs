//! What names say: folders `x.<build>.<config>_<class>.pk<N>`, files
//! `sb.<kind>.<test>.range<R>.pk<N>[.dop<N>]`, tests and their groups.
//!
//! Test names hold dots and hyphens, so names are taken apart from the right.

use catalog::Group;

/// The kinds of `sb.*` files; a longer one before its beginning.
const KINDS: [&str; 24] = [
    "prepare.o",
    "prepare.met",
    "r.qps",
    "r.trx",
    "r.rtavg",
    "r.rtmax",
    "r.rt95",
    "hp.pre",
    "hp.post",
    "o",
    "met",
    "vm",
    "io",
    "ps",
    "top",
    "time",
    "gs",
    "gv",
    "es",
    "sz",
    "perf",
    "pid",
    "is",
    "dbs",
];

/// Tests of later lists than the catalogue's, with the one range that they are run with.
const LATER: [&str; 5] = [
    "read-only-count",
    "read-only-distinct",
    "read-only-order",
    "read-only-simple",
    "read-only-sum",
];

/// A file of a run of the `sb` scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File<'a> {
    /// `o`, `met`, `r.qps`, ...
    pub kind: &'a str,
    /// `point-query.pre`; empty where the file is of no test (`hp.pre`).
    pub test: &'a str,
    /// The range in the name.
    pub range: Option<u32>,
    /// Whether the tables have a primary key.
    pub pk: Option<u32>,
    /// Clients.
    pub dop: Option<u32>,
}

impl File<'_> {
    /// The test as tables write it: `point-query.pre_range=100`.
    pub fn full(&self) -> String {
        match self.range {
            Some(range) => format!("{}_range={range}", self.test),
            None => self.test.to_owned(),
        }
    }
}

/// Takes a file's name apart, with or without `.gz`; none unless it is `sb.` and a known kind.
pub fn file(name: &str) -> Option<File<'_>> {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let rest = name.strip_prefix("sb.")?;
    let (rest, dop) = numbered(rest, "dop");
    let (rest, pk) = numbered(rest, "pk");
    let (rest, range) = numbered(rest, "range");
    let (kind, test) = KINDS.iter().find_map(|kind| {
        let after = rest.strip_prefix(kind)?;
        let test = if after.is_empty() { "" } else { after.strip_prefix('.')? };
        Some((*kind, test))
    })?;
    Some(File { kind, test, range, pk, dop })
}

/// (`rest`, Some(N)) of `rest.<word>N`, or all of it.
fn numbered<'a>(name: &'a str, word: &str) -> (&'a str, Option<u32>) {
    let split = || {
        let (rest, last) = name.rsplit_once('.')?;
        let digits = last.strip_prefix(word)?;
        let plain = digits.bytes().all(|it| it.is_ascii_digit());
        Some((rest, digits.parse::<u32>().ok().filter(|_| plain)?))
    };
    match split() {
        Some((rest, number)) => (rest, Some(number)),
        None => (name, None),
    }
}

/// The target's name without what every name of a set has: `x.` before and `.pk1` behind it.
/// Hand-edited tables leave these out.
pub fn bare(target: &str) -> &str {
    let target = target.strip_prefix("x.").unwrap_or(target);
    target.strip_suffix(".pk1").unwrap_or(target)
}

/// (build, config) of a target's name. `x.my5651_rel.z12a_c8r32.pk1` is `my5651_rel` and
/// `z12a_c8r32`; `20m.my8022.cx6d` is `my8022` and `cx6d`; a name that is not made like that is
/// a build without a config: versions have dots, too.
pub fn target(name: &str) -> (&str, &str) {
    let (rest, _) = numbered(name, "pk");
    let made = rest.strip_prefix("x.");
    let split = made.unwrap_or(rest).rsplit_once('.');
    if let Some((before, config)) = split {
        let build = before.rsplit_once('.').map_or(before, |(_, build)| build);
        if engine(build).is_some() {
            return (build, config);
        }
        if made.is_some() {
            return (before, config);
        }
    }
    (name, "")
}

/// The class of machine in a config's name: `c8r32` (8 cores, 32 GB) of `z12a_c8r32`.
pub fn class(config: &str) -> Option<&str> {
    config.rsplit_once('_').map(|(_, class)| class)
}

/// The engine that a build's name begins with, before its version.
pub fn engine(build: &str) -> Option<&'static str> {
    const ENGINES: [(&str, &str); 5] = [
        ("my", "mysql"),
        ("ma", "mariadb"),
        ("pg", "postgres"),
        ("fb", "myrocks"),
        ("rx", "myrocks"),
    ];
    ENGINES.iter().find_map(|(short, engine)| {
        let digit = build.strip_prefix(short)?.bytes().next()?.is_ascii_digit();
        digit.then_some(*engine)
    })
}

/// The full name of a microbenchmark that a table calls by a trimmed label: `scan` is
/// `scan_range=100`. What is not known stays as it is.
pub fn test(label: &str) -> String {
    if let Some(known) = catalog::find(label) {
        return known.name.to_owned();
    }
    if LATER.contains(&label) { format!("{label}_range=1000") } else { label.to_owned() }
}

/// The group of a microbenchmark: the catalogue's; else by the words of its name, as published
/// tables are grouped. A name with one of the words of writing is a write (so is `read-write`),
/// then one with `point` a point query, the rest are ranges. Warm-ups are in no group, although
/// published tables let `scan.warm` pass for a range.
pub fn group(test: &str) -> Option<&'static str> {
    if let Some(known) = catalog::find(test) {
        return Some(known.group.as_str());
    }
    let name = test.replace('_', "-");
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let group = if has(&[".warm"]) {
        return None;
    } else if has(&["delete", "insert", "update", "write"]) {
        Group::Writes
    } else if has(&["random-points"]) {
        Group::Point2
    } else if has(&["point"]) {
        Group::Point1
    } else if has(&["read-only"]) {
        Group::Range2
    } else if has(&["range", "scan"]) {
        Group::Range1
    } else {
        return None;
    };
    Some(group.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_apart_from_the_right() {
        let it = file("sb.met.points-covered-si.warm.range100.pk1.dop40").unwrap();
        let want = File {
            kind: "met",
            test: "points-covered-si.warm",
            range: Some(100),
            pk: Some(1),
            dop: Some(40),
        };
        assert_eq!(it, want);
        assert_eq!(it.full(), "points-covered-si.warm_range=100");
        let it = file("sb.io.scan.range100.pk0.dop1.gz").unwrap();
        assert_eq!((it.kind, it.test, it.pk), ("io", "scan", Some(0)));
        let it = file("sb.r.qps.read-only.range10000.pk1").unwrap();
        assert_eq!((it.kind, it.full().as_str(), it.dop), ("r.qps", "read-only_range=10000", None));
        let it = file("sb.prepare.met.point-query.warm.range100.pk1").unwrap();
        assert_eq!((it.kind, it.test), ("prepare.met", "point-query.warm"));
        let it = file("sb.o.myvac").unwrap();
        assert_eq!((it.kind, it.test, it.range), ("o", "myvac", None));
        assert_eq!(file("sb.hp.pre").unwrap().test, "");
        assert_eq!(
            (file("sb.unknown.x.range1.pk1"), file("o.met"), file("sb.")),
            (None, None, None)
        );
        // Not a number after `dop`: part of the test.
        assert_eq!(file("sb.o.a.range1.pk1.dopx").unwrap().test, "a.range1.pk1.dopx");
    }

    #[test]
    fn targets_have_builds_and_configs() {
        let split = target("x.my8039_rel_o2nofp.z11a_c8r32.pk1");
        assert_eq!(split, ("my8039_rel_o2nofp", "z11a_c8r32"));
        assert_eq!(class(split.1), Some("c8r32"));
        assert_eq!(target("my5651_rel_o2nofp.z12a_c32r128"), ("my5651_rel_o2nofp", "z12a_c32r128"));
        assert_eq!(target("20m.my8022.cx6d"), ("my8022", "cx6d"));
        assert_eq!(target("x.mine.of.c"), ("mine.of", "c"));
        // Versions are no configs.
        assert_eq!(target("5.0.85"), ("5.0.85", ""));
        assert_eq!(target("my8028"), ("my8028", ""));
        assert_eq!(bare("x.pg182_o2nofp.x10b.pk1"), "pg182_o2nofp.x10b");
        assert_ne!(bare("x.a.b.pk0"), bare("x.a.b.pk1"));
        let engines = ["my8", "ma11", "pg1023", "fb56", "rx80", "mysql", "oracle", ""].map(engine);
        let want = [
            Some("mysql"),
            Some("mariadb"),
            Some("postgres"),
            Some("myrocks"),
            Some("myrocks"),
            None,
            None,
            None,
        ];
        assert_eq!(engines, want);
    }

    #[test]
    fn groups_follow_the_catalogue_and_then_the_words() {
        for known in &catalog::MICROBENCHMARKS {
            assert_eq!(group(known.name), Some(known.group.as_str()));
        }
        assert_eq!(group("read-only-count_range=1000"), Some("range-2"));
        assert_eq!(group("oltp_read_write"), Some("writes"));
        assert_eq!(group("oltp_point_select"), Some("point-1"));
        assert_eq!((group("scan.warm_range=100"), group("ATIS")), (None, None));
        assert_eq!(test("scan"), "scan_range=100");
        assert_eq!(test("read-only-sum"), "read-only-sum_range=1000");
        assert_eq!(test("read-only-simplex"), "read-only-simplex");
    }
}
