//! What each setting does, from pairs of targets that differ in nothing else: LTO with and without,
//! at each level, each compiler, each config.
//!
//! A pair's effect is the ratio of its two targets' geometric means over a group. The effect of a
//! setting is the geometric mean over its pairs; its interval is a t interval over the pairs (at
//! [`super::LEVEL`]), so it holds the noise of the measurement and how differently the setting acts
//! beside other settings. Where another axis varies among the pairs, the effect beside each of its
//! settings is told, too: where these differ, the two settings interact.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{CellResult, Comparison, HostComparison, LEVEL};
use crate::stats::estimate::paired;

/// The effect of one setting in one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Effect {
    /// The axis; `source` and `config` are axes here, too.
    pub axis: String,
    /// The setting that it is compared with: the base's.
    pub from: String,
    /// The setting.
    pub to: String,
    /// Only pairs with this setting of another axis; `None`: all.
    pub beside: Option<(String, String)>,
    /// The group.
    pub group: String,
    /// Clients.
    pub threads: u32,
    /// Geometric mean of the pairs' ratios: above 1 is faster.
    pub ratio: f64,
    /// Its interval, from two pairs on.
    pub interval: Option<(f64, f64)>,
    /// How many pairs.
    pub pairs: u32,
    /// How the effect beside [`Self::beside`] differs from that beside the base's setting of the
    /// same axis; `None` where no pairs match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<Interaction>,
}

/// A difference of two effects, from pairs of pairs that differ in one further axis alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Interaction {
    /// Geometric mean of the quotients of the matched pairs' ratios.
    pub ratio: f64,
    /// Its interval, from two matches on.
    pub interval: Option<(f64, f64)>,
    /// How many matches.
    pub pairs: u32,
}

/// A target: what it is set to, by axis, and what came of it.
struct Point {
    settings: BTreeMap<String, String>,
    ln: f64,
}

impl Comparison {
    /// Finds the effects of every host; `source` tells the source of a target.
    pub fn find_effects(&mut self, source: &dyn Fn(&str) -> Option<String>) {
        for host in &mut self.hosts {
            host.effects = effects(host, source);
        }
    }
}

fn effects(host: &HostComparison, source: &dyn Fn(&str) -> Option<String>) -> Vec<Effect> {
    let Some(base) = &host.base_made else { return Vec::new() };
    let settings = |made: &super::Made| {
        let mut all: BTreeMap<String, String> = made.settings.iter().cloned().collect();
        all.insert("config".to_owned(), made.config.clone());
        // Without its source a target is no partner of any other.
        all.insert("source".to_owned(), source(&made.target).unwrap_or(made.target.clone()));
        all
    };
    let of_base = settings(base);
    let mut found = Vec::new();
    for group in &host.groups {
        let mut points = vec![Point { settings: of_base.clone(), ln: 0.0 }];
        for (cell, made) in group.cells.iter().zip(&host.made) {
            let ln = match &cell.geomean {
                CellResult::SameCode => Some(0.0),
                result => result.ratio().map(f64::ln),
            };
            points.extend(ln.map(|ln| Point { settings: settings(made), ln }));
        }
        for (axis, from) in &of_base {
            for to in others(&points, axis, from) {
                let pairs = pairs(&points, axis, from, &to);
                let effect = |beside: Option<(String, String)>, differences: &[f64]| {
                    let estimate = paired(differences);
                    let mean = differences.iter().sum::<f64>() / differences.len() as f64;
                    Effect {
                        axis: axis.clone(),
                        from: from.clone(),
                        to: to.clone(),
                        beside,
                        group: group.group.clone(),
                        threads: group.threads,
                        ratio: mean.exp(),
                        interval: estimate.map(|estimate| estimate.interval(LEVEL)),
                        pairs: differences.len() as u32,
                        more: None,
                    }
                };
                let all: Vec<f64> = pairs.iter().map(|(ln, _)| *ln).collect();
                if all.is_empty() {
                    continue;
                }
                found.push(effect(None, &all));
                for (beside, differences) in by_context(&pairs, axis) {
                    let more = interaction(&pairs, &of_base, &beside);
                    found.push(Effect { more, ..effect(Some(beside), &differences) });
                }
            }
        }
    }
    found
}

/// The settings of an axis besides this one, in the order of the targets.
fn others(points: &[Point], axis: &str, from: &str) -> Vec<String> {
    let mut others: Vec<String> = Vec::new();
    for setting in points.iter().filter_map(|point| point.settings.get(axis)) {
        if setting != from && !others.contains(setting) {
            others.push(setting.clone());
        }
    }
    others
}

type Pair<'a> = (f64, &'a BTreeMap<String, String>);

/// The pairs that differ in this axis alone: ln(ratio), and the settings of the second.
fn pairs<'a>(points: &'a [Point], axis: &str, from: &str, to: &str) -> Vec<Pair<'a>> {
    let is = |point: &&Point, setting: &str| {
        point.settings.get(axis).is_some_and(|known| known == setting)
    };
    let rest = |point: &Point| {
        let mut rest = point.settings.clone();
        rest.remove(axis);
        rest
    };
    let mut pairs = Vec::new();
    for one in points.iter().filter(|point| is(point, from)) {
        for other in points.iter().filter(|point| is(point, to)) {
            if rest(one) == rest(other) {
                pairs.push((other.ln - one.ln, &other.settings));
            }
        }
    }
    pairs
}

/// The pairs by the settings of each other axis that varies among them.
fn by_context(pairs: &[Pair<'_>], axis: &str) -> Vec<((String, String), Vec<f64>)> {
    let mut contexts: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for (ln, settings) in pairs {
        for (other, setting) in settings.iter().filter(|(other, _)| *other != axis) {
            contexts.entry((other.clone(), setting.clone())).or_default().push(*ln);
        }
    }
    contexts.into_iter().filter(|(_, list)| list.len() < pairs.len()).collect()
}

/// How the pairs beside a setting differ from those beside the base's setting of the same axis that
/// agree with them in everything else; `None` where none do.
fn interaction(
    pairs: &[Pair<'_>],
    of_base: &BTreeMap<String, String>,
    (axis, setting): &(String, String),
) -> Option<Interaction> {
    let usual = of_base.get(axis).filter(|usual| *usual != setting)?;
    let differences: Vec<f64> = pairs
        .iter()
        .filter(|(_, settings)| settings.get(axis) == Some(setting))
        .filter_map(|(ln, settings)| {
            let mut partner = (*settings).clone();
            partner.insert(axis.clone(), usual.clone());
            let (other, _) = pairs.iter().find(|(_, settings)| **settings == partner)?;
            Some(ln - other)
        })
        .collect();
    (!differences.is_empty()).then(|| Interaction {
        ratio: (differences.iter().sum::<f64>() / differences.len() as f64).exp(),
        interval: paired(&differences).map(|estimate| estimate.interval(LEVEL)),
        pairs: differences.len() as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Options, compare};
    use crate::record::testing::record;

    /// Level and LTO: LTO gives 5%, with O3 1% more; O3 gives 2%.
    fn comparison() -> Comparison {
        let mut records = Vec::new();
        for block in 1..=3 {
            for (target, opt, lto, factor) in [
                ("s_o2.c", "o2", "off", 1.0),
                ("s_o3.c", "o3", "off", 1.02),
                ("s_o2_lto.c", "o2", "on", 1.05),
                ("s_o3_lto.c", "o3", "on", 1.02 * 1.05 * 1.01),
            ] {
                let mut record = record(target, "scan", block, 1e6 * factor);
                let setting = |axis: &str, setting: &str| (axis.to_owned(), setting.to_owned());
                record.settings = vec![setting("opt", opt), setting("lto", lto)];
                records.push(record);
            }
        }
        compare(&records, "s_o2.c", Options::default()).expect("comparable")
    }

    #[test]
    fn main_effects_and_interactions_come_from_matched_pairs() {
        let mut comparison = comparison();
        comparison.find_effects(&|_| Some("s".to_owned()));
        let effects = &comparison.hosts[0].effects;
        let find = |axis: &str, beside: Option<(&str, &str)>| {
            let beside = beside.map(|(a, b)| (a.to_owned(), b.to_owned()));
            let found = effects.iter().find(|it| it.axis == axis && it.beside == beside);
            found.unwrap_or_else(|| panic!("{axis} {beside:?}: {effects:?}"))
        };
        let near = |effect: &Effect, ratio: f64, pairs: u32| {
            assert!((effect.ratio - ratio).abs() < 1e-4, "{effect:?}");
            assert_eq!(effect.pairs, pairs, "{effect:?}");
        };
        near(find("lto", None), 1.05 * 1.01_f64.sqrt(), 2);
        near(find("lto", Some(("opt", "o2"))), 1.05, 1);
        near(find("lto", Some(("opt", "o3"))), 1.05 * 1.01, 1);
        near(find("opt", None), 1.02 * 1.01_f64.sqrt(), 2);
        let (low, high) = find("lto", None).interval.expect("two pairs");
        assert!(low < 1.05 && high > 1.06, "{low} {high}");
        assert_eq!(find("lto", Some(("opt", "o2"))).interval, None);
        let more = find("lto", Some(("opt", "o3"))).more.expect("one match");
        assert!((more.ratio - 1.01).abs() < 1e-4, "{more:?}");
        assert_eq!((more.pairs, more.interval), (1, None));
        assert_eq!(find("lto", Some(("opt", "o2"))).more, None, "the base's own setting");
        assert!(effects.iter().all(|it| it.axis != "config" && it.axis != "source"));
    }

    #[test]
    fn targets_of_other_sources_are_no_pair() {
        let mut comparison = comparison();
        comparison.find_effects(&|target| Some(target.to_owned()));
        assert_eq!(comparison.hosts[0].effects, []);
    }
}
