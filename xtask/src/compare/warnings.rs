//! What a reader must know before believing the numbers.

use serde::{Deserialize, Serialize};

use super::{Cell, HostComparison, Metrics, Row};
use crate::stats::Rule;
use crate::stats::summary::quantile_of_sorted;

/// Below this number of blocks there is hardly a verdict.
const FEW_BLOCKS: u32 = 3;
/// With fewer ratios than this, "all move the same way" happens by chance too easily.
const MANY_CELLS: usize = 8;
/// The share of ratios that move the same way when the host itself is suspected.
const SHIFT_SHARE: f64 = 0.9;
/// The share of the load driver in all CPU time above which it is what is measured.
const CLIENT_SHARE: f64 = 0.5;

/// One warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Warning {
    /// What it is about.
    pub kind: WarningKind,
    /// For people.
    pub text: String,
}

/// What a warning is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarningKind {
    /// The base's binaries are not what was asked for.
    BaseMismatch,
    /// An A/A pair shows a difference.
    AaDifference,
    /// Too few blocks.
    FewBlocks,
    /// The base was not measured on this host.
    NoBase,
    /// The base changed over time by more than half of what matters.
    Drift,
    /// Nearly all ratios moved the same way by a similar amount.
    HostWideShift,
    /// The load driver used more CPU than the server.
    ClientBound,
    /// Ranks and t disagree.
    Outliers,
}

/// All warnings on one host's numbers.
pub(super) fn of(host: &HostComparison, base: &str, rule: &Rule) -> Vec<Warning> {
    [
        (WarningKind::NoBase, no_base(host, base)),
        (WarningKind::FewBlocks, few_blocks(host)),
        (WarningKind::Drift, drift(host, rule)),
        (WarningKind::HostWideShift, shift(host, rule)),
        (WarningKind::ClientBound, client_bound(host)),
        (WarningKind::Outliers, outliers(host)),
    ]
    .into_iter()
    .filter_map(|(kind, text)| Some(Warning { kind, text: text? }))
    .collect()
}

fn no_base(host: &HostComparison, base: &str) -> Option<String> {
    host.rows
        .iter()
        .all(|row| row.base.is_none())
        .then(|| format!("the base `{base}` was never measured on this host: nothing is compared"))
}

fn few_blocks(host: &HostComparison) -> Option<String> {
    (host.blocks < FEW_BLOCKS).then(|| {
        let noun = if host.blocks == 1 { "block" } else { "blocks" };
        format!(
            "{} {noun} cannot tell a small difference from noise: measure 5 (`repeats = 5`), at \
             least {FEW_BLOCKS}",
            host.blocks
        )
    })
}

fn drift(host: &HostComparison, rule: &Rule) -> Option<String> {
    let drift = host.drift?;
    let total = drift.over_session();
    (total.ln().abs() > rule.delta.ln_1p() / 2.0).then(|| {
        format!(
            "the base itself moved by {}: the host was not steady; pairs within a block take most \
             of it out, but intervals are wider for it",
            drift.words()
        )
    })
}

/// A shift of everything by a similar amount, whatever the target and microbenchmark.
fn shift(host: &HostComparison, rule: &Rule) -> Option<String> {
    let cells = host.rows.iter().flat_map(|row| &row.cells);
    let mut moves: Vec<f64> = cells.filter_map(|cell| cell.result.ratio()).map(f64::ln).collect();
    if moves.len() < MANY_CELLS {
        return None;
    }
    moves.sort_by(f64::total_cmp);
    let median = quantile_of_sorted(&moves, 0.5);
    let spread = quantile_of_sorted(&moves, 0.75) - quantile_of_sorted(&moves, 0.25);
    let same_way = moves.iter().filter(|ln| ln.signum() == median.signum()).count();
    let share = same_way as f64 / moves.len() as f64;
    // Below half of what matters it is the base's own noise, which all ratios share; a wide spread
    // is what real differences look like.
    let similar = median.abs() >= rule.delta.ln_1p() / 2.0 && spread <= median.abs() / 2.0;
    (share >= SHIFT_SHARE && similar).then(|| {
        format!(
            "looks like a host-wide shift: {same_way} of {} ratios are on the same side of 1, half \
             of them within {:.3} to {:.3}; check the base's runs before believing it",
            moves.len(),
            quantile_of_sorted(&moves, 0.25).exp(),
            quantile_of_sorted(&moves, 0.75).exp()
        )
    })
}

fn client_bound(host: &HostComparison) -> Option<String> {
    let bound = |metrics: &Metrics| -> Option<bool> {
        let (client, server) = (metrics.client_cpu_us?, metrics.server_cpu_us?);
        Some(client / (client + server) > CLIENT_SHARE)
    };
    let rows = names(host, |row| row.base.as_ref().and_then(bound) == Some(true));
    (!rows.is_empty()).then(|| {
        format!(
            "the load driver used more CPU than the server ({}): differences between servers are \
             diluted there",
            rows.join(", ")
        )
    })
}

fn outliers(host: &HostComparison) -> Option<String> {
    let doubtful = |cell: &Cell| cell.result.judged().is_some_and(|judged| judged.outliers);
    let rows = names(host, |row| row.cells.iter().any(doubtful));
    (!rows.is_empty()).then(|| {
        format!(
            "outliers, or a close call: the interval by ranks disagrees with the one shown on \
             whether there is a difference ({})",
            rows.join(", ")
        )
    })
}

/// The rows for which this holds, each named once.
fn names(host: &HostComparison, holds: impl Fn(&Row) -> bool) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in host.rows.iter().filter(|row| holds(row)) {
        if !names.contains(&row.microbenchmark.as_str()) {
            names.push(&row.microbenchmark);
        }
    }
    names
}
