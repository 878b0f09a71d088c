//! The tables that this field publishes, out of absolute figures and by its rules, so that a
//! table made here is equal to a published one to the last digit.
//!
//! Ratios are of what was printed, not of what was measured: rates are rounded to integers first
//! (a scan of 3.4 is 3), everything else has the digits that its table shows. C's `printf` and
//! `format!` both round the exact binary value, ties to even.

use std::collections::HashMap;

use crate::import::{Figure, Imported, names};

/// `value / base` as published: two decimals; nothing against nothing is `1`, something against
/// nothing `inf`.
pub fn ratio(value: f64, base: f64) -> String {
    if base == 0.0 {
        return if value == 0.0 { "1".to_owned() } else { "inf".to_owned() };
    }
    format!("{:.2}", value / base)
}

/// A figure as tables print it: rates of operations as integers (millions of rows of a scan, which
/// only tables have, stay as they are), reads and writes per operation
/// with six significant digits, everything else as it stands.
pub fn printed(figure: &Figure) -> String {
    match figure.metric.as_str() {
        "qps" if figure.unit == "Mrows/s" => figure.text.clone(),
        "qps" | "ips" => format!("{:.0}", figure.value),
        "r/o" | "rKB/o" | "wKB/o" => general(figure.value),
        _ => figure.text.clone(),
    }
}

/// What a published ratio is taken of: the value of [`printed`].
pub fn operand(figure: &Figure) -> f64 {
    printed(figure).parse().unwrap_or(figure.value)
}

/// C's `%.6g`: six significant digits, no zeros at the end, an exponent below 1e-4 and from 1e6.
pub fn general(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value:.0}");
    }
    let scientific = format!("{value:.5e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or_default();
        return trim(&format!("{value:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(digits), exponent.abs())
}

/// What two figures must have in common to be divided.
type Key<'a> = (&'a str, &'a str, Option<u32>, Option<&'a str>, u32);

fn key(figure: &Figure) -> Key<'_> {
    (&figure.test, &figure.metric, figure.threads, figure.host.as_deref(), figure.repeat)
}

/// Every absolute figure as a ratio to the figure of `base`; without `base`, to the one that its
/// file names. The base's own figures and those without a counterpart are left out. The text is
/// the published form, the value the ratio of the [`operand`]s, not rounded.
pub fn relative(figures: &[Figure], base: Option<&str>) -> Vec<Figure> {
    let absolute = || figures.iter().filter(|it| !it.ratio);
    let mut known: HashMap<(&str, Key<'_>), &Figure> = HashMap::new();
    for figure in absolute() {
        known.entry((names::bare(&figure.target), key(figure))).or_insert(figure);
    }
    let mut ratios = Vec::new();
    for figure in absolute() {
        let Some(base) = base.or(figure.base.as_deref()) else { continue };
        if names::bare(base) == names::bare(&figure.target) {
            continue;
        }
        if let Some(found) = known.get(&(names::bare(base), key(figure))) {
            ratios.push(against(figure, found));
        }
    }
    ratios
}

/// One ratio. A quotient by zero follows [`ratio`].
pub fn against(figure: &Figure, base: &Figure) -> Figure {
    let (over, under) = (operand(figure), operand(base));
    let value = match (over == 0.0, under == 0.0) {
        (true, true) => 1.0,
        (false, true) => f64::INFINITY,
        _ => over / under,
    };
    Figure {
        value,
        text: ratio(over, under),
        unit: "ratio".to_owned(),
        ratio: true,
        base: Some(base.target.clone()),
        ..figure.clone()
    }
}

/// Ratios of one group of microbenchmarks, condensed.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The target.
    pub target: String,
    /// The group.
    pub group: String,
    /// How many ratios.
    pub count: usize,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The arithmetic mean: what published tables call the average.
    pub avg: f64,
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The geometric mean: the one to trust for ratios.
    pub geomean: f64,
}

/// (min, max, avg, median, geomean) of the ratios of `metric` per target and group, in the order
/// in which these first come. Ratios that are infinite or zero are left out: they have no
/// geometric mean.
pub fn groups(ratios: &[Figure], metric: &str) -> Vec<Summary> {
    let mut found: Vec<(&str, &str, Vec<f64>)> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for it in ratios.iter().filter(|it| it.ratio && it.metric == metric) {
        let Some(group) = it.group.as_deref() else { continue };
        let place = *places.entry((&it.target, group)).or_insert_with(|| {
            found.push((&it.target, group, Vec::new()));
            found.len() - 1
        });
        if it.value.is_finite() && it.value > 0.0 {
            found[place].2.push(it.value);
        }
    }
    let full = found.into_iter().filter(|(_, _, values)| !values.is_empty());
    full.map(|(target, group, values)| summary(target, group, values)).collect()
}

fn summary(target: &str, group: &str, mut values: Vec<f64>) -> Summary {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let middle = (values[(count - 1) / 2] + values[count / 2]) / 2.0;
    Summary {
        target: target.to_owned(),
        group: group.to_owned(),
        count,
        min: values[0],
        max: values[count - 1],
        avg: values.iter().sum::<f64>() / count as f64,
        median: middle,
        geomean: (values.iter().map(|it| it.ln()).sum::<f64>() / count as f64).exp(),
    }
}

/// Columns of the table of metrics per operation, as published.
const METRICS: [&str; 6] = ["cpu/o", "cs/o", "r/o", "rKB/o", "wKB/o", "qps"];

/// One test's section of the table of metrics: absolute lines, then lines relative to `base`.
///
/// `targets` gives order and membership; a target that misses a metric has no line.
pub fn metrics(imported: &Imported, test: &str, threads: Option<u32>, targets: &[&str]) -> String {
    let mut table = "--- absolute\ncpu/o\t\tcs/o\tr/o\trKB/o\twKB/o\to/s\tdbms\n".to_owned();
    let mut rows: Vec<(&str, Vec<&Figure>)> = Vec::new();
    for target in targets {
        let find = |metric: &str| {
            imported.results.iter().find(|it| {
                let same = it.test == test && it.threads == threads && it.target == *target;
                same && !it.ratio && it.metric == metric
            })
        };
        // A load's operations are rows.
        let found = METRICS.iter().map(|it| match *it {
            "qps" => find("qps").or_else(|| find("ips")),
            other => find(other),
        });
        if let Some(row) = found.collect::<Option<Vec<_>>>() {
            rows.push((target, row));
        }
    }
    for (target, row) in &rows {
        let cells: Vec<String> = row.iter().map(|it| printed(it)).collect();
        table += &format!("{}\t{target}\n", cells.join("\t"));
    }
    table += "--- relative to first result\n";
    let Some(((_, base), rest)) = rows.split_first() else { return table };
    for (target, row) in rest {
        let pairs = row.iter().zip(base);
        let cells: Vec<String> =
            pairs.map(|(it, base)| ratio(operand(it), operand(base))).collect();
        table += &format!("{}\t\t{}\t{target}\n", cells[0], cells[1..].join("\t"));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::Place;

    #[test]
    fn ratios_are_printed_as_published() {
        let cases = [
            (0.0, 0.0, "1"),
            (3.0, 0.0, "inf"),
            (0.0, 3.0, "0.00"),
            (7.0, 7.0, "1.00"),
            (1080.0, 924.0, "1.17"),
            // The exact binary value decides: 1.125 is a tie, 1.005 lies below one.
            (1.125, 1.0, "1.12"),
            (1.005, 1.0, "1.00"),
        ];
        for (value, base, want) in cases {
            assert_eq!(ratio(value, base), want, "{value} / {base}");
        }
    }

    #[test]
    fn six_significant_digits_as_c_prints_them() {
        let cases = [
            (0.0, "0"),
            (0.917, "0.917"),
            (12345.678, "12345.7"),
            (1_234_567.0, "1.23457e+06"),
            (999_999.5, "1e+06"),
            (100.0, "100"),
            (0.0001, "0.0001"),
            (0.00001234, "1.234e-05"),
            (-2.5, "-2.5"),
        ];
        for (value, want) in cases {
            assert_eq!(general(value), want);
        }
    }

    fn figure(target: &str, test: &str, metric: &str, text: &str) -> Figure {
        let place = Place {
            target: target.to_owned(),
            test: test.to_owned(),
            grouped: true,
            ..Place::default()
        };
        place.figure(1, metric, text, text.parse().unwrap())
    }

    #[test]
    fn rates_are_rounded_before_they_are_divided_and_others_are_not() {
        let figures = [
            figure("a", "scan_range=100", "qps", "2.6"),
            figure("b", "scan_range=100", "qps", "3.4"),
            figure("a", "scan_range=100", "cpu/o", "2.6"),
            figure("b", "scan_range=100", "cpu/o", "3.4"),
            figure("b", "hot-points_range=100", "qps", "3.4"),
        ];
        let ratios = relative(&figures, Some("a"));
        let texts: Vec<_> =
            ratios.iter().map(|it| (it.metric.as_str(), it.text.as_str())).collect();
        // 3 / 3 and 3.4 / 2.6; the test that `a` lacks has no ratio.
        assert_eq!(texts, [("qps", "1.00"), ("cpu/o", "1.31")]);
        assert!(ratios.iter().all(|it| it.ratio && it.base.as_deref() == Some("a")));
        assert_eq!(relative(&figures, None), []);
        let millions = |target: &str, text: &str| Figure {
            unit: "Mrows/s".to_owned(),
            ..figure(target, "scan_range=100", "qps", text)
        };
        let figures = [millions("a", "3.875"), millions("b", "3.412")];
        assert_eq!(relative(&figures, Some("a"))[0].text, "0.88");
    }

    #[test]
    fn groups_are_condensed() {
        let mut ratios = Vec::new();
        for (test, value) in [
            ("point-query_range=100", 0.5),
            ("hot-points_range=100", 2.0),
            ("points-covered-pk_range=100", 2.0),
            ("points-covered-si_range=100", 0.5),
            ("scan_range=100", 4.0),
            ("scan.warm_range=100", 9.0),
            ("insert_range=100", f64::INFINITY),
        ] {
            let one = figure("b", test, "qps", "1");
            ratios.push(Figure { value, ratio: true, ..one });
        }
        let found = groups(&ratios, "qps");
        assert_eq!(found.len(), 2, "{found:?}");
        let Summary { count, min, max, avg, median, geomean, .. } = found[0];
        assert_eq!((count, min, max, avg, median), (4, 0.5, 2.0, 1.25, 1.25));
        assert!((geomean - 1.0).abs() < 1e-12);
        assert_eq!((found[1].group.as_str(), found[1].median), ("range-1", 4.0));
        assert_eq!(groups(&ratios, "tps"), []);
    }
}
