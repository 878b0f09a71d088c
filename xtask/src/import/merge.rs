//! One figure where several files tell the same one, and printed ratios held against the absolute
//! figures that they were made of.

use std::collections::HashMap;

use crate::import::gather::Part;
use crate::import::kind::Kind;
use crate::import::{Figure, Imported, Options, Skip, derive, met, names, stat};

/// Puts the parts together. Of a figure that several files tell, the one of the better kind stays;
/// the others agree with it as far as they were printed, or that is said. Ratios whose two absolute
/// figures are there are made again: equal ones are counted, others said, and neither is kept. A
/// ratio without them is a figure.
pub fn merge(mut parts: Vec<Part>, options: &Options) -> Imported {
    per_operation(&mut parts);
    let run = options.samples == stat::Samples::Run;
    // Figures of the run alone are more correct than what a script made of them.
    let rank = |kind: Kind| match kind {
        Kind::Vmstat | Kind::Iostat if run => (0, kind),
        _ => (1, kind),
    };
    parts.sort_by_key(|part| rank(part.kind));
    let mut out = Imported::default();
    let mut all: Vec<(Figure, Kind, bool)> = Vec::new();
    for part in parts {
        let Part { kind, repeats, imported } = part;
        out.skipped.extend(imported.skipped);
        all.extend(imported.results.into_iter().map(|figure| (figure, kind, repeats)));
    }
    let keep = choose(&all, run, &mut out);
    let kept = all
        .into_iter()
        .zip(keep)
        .filter_map(|((figure, ..), keep)| keep.map(|repeat| Figure { repeat, ..figure }));
    out.results = kept.collect();
    out.results.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    out.skipped.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    out
}

/// Adds to means per second what they are per operation, where the rate is known.
fn per_operation(parts: &mut [Part]) {
    let mut rates: HashMap<(String, String, Option<u32>), f64> = HashMap::new();
    let key = |it: &Figure| (it.target.clone(), it.test.clone(), it.threads);
    for part in parts.iter().filter(|it| matches!(it.kind, Kind::Met | Kind::Sysbench)) {
        for figure in part.imported.results.iter().filter(|it| it.metric == "qps") {
            rates.entry(key(figure)).or_insert(figure.value);
        }
    }
    for part in parts.iter_mut().filter(|it| matches!(it.kind, Kind::Vmstat | Kind::Iostat)) {
        let per = part
            .imported
            .results
            .iter()
            .filter_map(|it| stat::per_operation(it, *rates.get(&key(it))?));
        let per: Vec<Figure> = per.collect();
        part.imported.results.extend(per);
    }
}

/// What one figure is of. Without the number of clients it is the same as with any.
type Key<'a> = (&'a str, &'a str, &'a str, Option<&'a str>);

fn key(figure: &Figure) -> Key<'_> {
    (names::bare(&figure.target), &figure.test, &figure.metric, figure.host.as_deref())
}

/// Absolute figures by what they are of.
#[derive(Default)]
struct Known<'a> {
    exact: HashMap<(Key<'a>, Option<u32>), (usize, u32)>,
    /// The one with the fewest clients: tables show only the first number of clients.
    any: HashMap<Key<'a>, usize>,
}

impl<'a> Known<'a> {
    fn find(&self, key: Key<'a>, threads: Option<u32>) -> Option<usize> {
        match threads {
            Some(_) => self.exact.get(&(key, threads)).map(|(at, _)| *at),
            None => self.any.get(&key).copied(),
        }
    }
}

/// The repeat number of what stays, none for the rest.
fn choose(all: &[(Figure, Kind, bool)], run: bool, out: &mut Imported) -> Vec<Option<u32>> {
    let mut keep: Vec<Option<u32>> = vec![None; all.len()];
    let mut known = Known::default();
    for (at, (figure, kind, repeats)) in all.iter().enumerate().filter(|(_, it)| !it.0.ratio) {
        let key = key(figure);
        if *repeats && let Some((_, next)) = known.exact.get_mut(&(key, figure.threads)) {
            keep[at] = Some(*next);
            *next += 1;
            continue;
        }
        if let Some(first) = known.find(key, figure.threads) {
            let (better, better_kind, _) = &all[first];
            if agree(better, figure) {
                out.agreed += 1;
            } else if comparable(figure, [*better_kind, *kind], run) {
                out.skipped.push(disagreement(figure, better));
            }
            continue;
        }
        keep[at] = Some(0);
        known.exact.insert((key, figure.threads), (at, 1));
        let any = known.any.entry(key).or_insert(at);
        if figure.threads < all[*any].0.threads {
            *any = at;
        }
    }
    ratios(all, &known, &mut keep, out);
    keep
}

/// Whether a worse source says the same, as far as it was printed.
fn agree(better: &Figure, worse: &Figure) -> bool {
    let decimals = worse.text.split_once('.').map_or(0, |(_, it)| it.len());
    worse.text == better.text
        || worse.value == better.value
        || worse.text == format!("{:.decimals$}", better.value)
        || worse.text == derive::general(better.value)
        || worse.text == format!("{:.decimals$}", better.value * rows(better) / rows(worse))
}

/// How many rows of a scan are one.
fn rows(figure: &Figure) -> f64 {
    match figure.unit.as_str() {
        met::SCAN_UNIT => 1e3,
        "Mrows/s" => 1e6,
        _ => 1.0,
    }
}

/// Whether two sources that differ contradict each other. Scans were counted in four ways; logs of
/// the insert benchmark do not know the wall clock of a step; and CPU of the run alone differs from
/// what the scripts made of it on purpose.
fn comparable(figure: &Figure, kinds: [Kind; 2], run: bool) -> bool {
    let scan = figure.metric == "qps" && met::scan(&figure.test) && kinds.contains(&Kind::Sysbench);
    let stat = run && kinds.iter().any(|it| matches!(it, Kind::Vmstat | Kind::Iostat));
    !scan && !stat && !kinds.contains(&Kind::IbenchLog)
}

fn disagreement(figure: &Figure, better: &Figure) -> Skip {
    let Figure { target, test, metric, text, file, line, .. } = figure;
    let (other, at) = (better.file.display(), better.line);
    let what = format!(
        "{metric} of `{test}` on `{target}` is `{text}` here and `{}` in {other}:{at}, which stays",
        better.text
    );
    Skip { file: file.clone(), line: *line, what }
}

/// Makes printed ratios again, or keeps them.
fn ratios<'a>(
    all: &'a [(Figure, Kind, bool)],
    known: &Known<'a>,
    keep: &mut [Option<u32>],
    out: &mut Imported,
) {
    let mut seen: HashMap<(Key<'_>, Option<u32>, Option<&str>), &Figure> = HashMap::new();
    for (at, (figure, ..)) in all.iter().enumerate().filter(|(_, it)| it.0.ratio) {
        let key = key(figure);
        let base = figure.base.as_deref();
        let find = |target: &'a str| {
            known.find((names::bare(target), key.1, key.2, key.3), figure.threads)
        };
        if let (Some(over), Some(under)) = (find(&figure.target), base.and_then(find)) {
            let (over, under) = (&all[over].0, &all[under].0);
            let made = derive::against(over, under);
            if made.text == figure.text {
                out.checked += 1;
            } else {
                out.skipped.push(misprint(figure, &made, over, under));
            }
            continue;
        }
        match seen.insert((key, figure.threads, base), figure) {
            None => keep[at] = Some(0),
            Some(first) if first.text == figure.text => out.agreed += 1,
            Some(first) => {
                out.skipped.push(disagreement(figure, first));
                seen.insert((key, figure.threads, base), first);
            }
        }
    }
}

fn misprint(figure: &Figure, made: &Figure, over: &Figure, under: &Figure) -> Skip {
    let Figure { target, test, metric, text, file, line, .. } = figure;
    let what = format!(
        "the ratio of {metric} of `{test}` on `{target}` is printed as `{text}`; {} / {} is `{}`",
        derive::printed(over),
        derive::printed(under),
        made.text
    );
    Skip { file: file.clone(), line: *line, what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::Place;

    fn part(kind: Kind, file: &str, figures: &[(&str, Option<u32>, &str, &str)]) -> Part {
        let mut imported = Imported::default();
        for (line, (target, threads, metric, text)) in (1..).zip(figures) {
            let place = Place {
                file: file.into(),
                target: (*target).to_owned(),
                test: "hot-points_range=100".to_owned(),
                threads: *threads,
                ..Place::default()
            };
            match text.strip_prefix('/') {
                Some(ratio) => drop(imported.add_ratio(&place, line, metric, ratio, Some("a"))),
                None => drop(imported.add(&place, line, metric, text)),
            }
        }
        Part { kind, repeats: false, imported }
    }

    fn said(out: &Imported) -> Vec<String> {
        out.skipped.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_better_source_stays_and_others_agree_or_not() {
        let out = merge(
            vec![
                part(Kind::Rates, "qps", &[("a", None, "qps", "8"), ("b", None, "qps", "99")]),
                part(
                    Kind::Met,
                    "met",
                    &[("x.a.pk1", Some(40), "qps", "70.5"), ("b", Some(1), "qps", "98.6")],
                ),
                part(Kind::Met, "met1", &[("x.a.pk1", Some(1), "qps", "7.5")]),
                part(Kind::Sysbench, "o", &[("x.a.pk1", Some(1), "qps", "7.6")]),
            ],
            &Options::default(),
        );
        assert_eq!(out.results.len(), 3);
        assert_eq!(out.agreed, 2);
        let want = "o:1: qps of `hot-points_range=100` on `x.a.pk1` is `7.6` here and `7.5` in \
                    met1:1, which stays";
        assert_eq!(said(&out), [want]);
    }

    #[test]
    fn ratios_are_checked_and_kept_without_their_figures() {
        let out = merge(
            vec![
                part(Kind::Rates, "abs", &[("a", None, "qps", "924"), ("b", None, "qps", "1080")]),
                part(
                    Kind::Rates,
                    "rel",
                    &[
                        ("b", None, "qps", "/1.17"),
                        ("b", None, "qps", "/1.16"),
                        ("c", None, "qps", "/1.20"),
                        ("c", None, "qps", "/1.20"),
                        ("c", None, "qps", "/1.30"),
                    ],
                ),
            ],
            &Options::default(),
        );
        assert_eq!((out.checked, out.agreed), (1, 1));
        let kept: Vec<_> = out.results.iter().filter(|it| it.ratio).map(|it| &*it.text).collect();
        assert_eq!(kept, ["1.20"]);
        let said = said(&out);
        assert!(said[0].ends_with("is printed as `1.16`; 1080 / 924 is `1.17`"), "{said:?}");
        assert!(said[1].starts_with("rel:5: ") && said.len() == 2, "{said:?}");
    }

    #[test]
    fn means_of_the_run_replace_those_of_the_scripts_when_asked() {
        let parts = || {
            vec![
                part(
                    Kind::Met,
                    "met",
                    &[
                        ("a", Some(1), "qps", "2"),
                        ("a", Some(1), "cpu/s", "6"),
                        ("a", Some(1), "cpu/o", "3"),
                    ],
                ),
                part(Kind::Vmstat, "vm", &[("a", Some(1), "cpu/s", "8")]),
            ]
        };
        let find = |out: &Imported, metric: &str| {
            out.results.iter().find(|it| it.metric == metric).unwrap().text.clone()
        };
        let out = merge(parts(), &Options::default());
        assert_eq!((find(&out, "cpu/s"), find(&out, "cpu/o")), ("6".to_owned(), "3".to_owned()));
        // Both contradictions are said.
        assert_eq!(out.skipped.len(), 2);
        let run = Options { samples: stat::Samples::Run, ..Options::default() };
        let out = merge(parts(), &run);
        assert_eq!(
            (find(&out, "cpu/s"), find(&out, "cpu/o")),
            ("8".to_owned(), "4.000000".to_owned())
        );
        assert_eq!(out.skipped, []);
    }
}
