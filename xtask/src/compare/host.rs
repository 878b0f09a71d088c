//! The comparison on one host: rows, groups, drift.

use std::collections::{BTreeMap, HashMap};

use super::collect::{Key, Run, Selected, means};
use super::{
    Cell, CellResult, Drift, Failure, GroupCell, GroupRow, HostComparison, LeftOut, Metrics,
    NotHeld, Row,
};
use crate::stats::Estimate;
use crate::stats::estimate::{differences, estimates, paired};
use crate::stats::summary::{common_slope, mean, spread};

/// The observation ([`super::collect::Numbers`]) per block; `None` where a run was not measured or
/// is no partner of the base's run.
type Series = Vec<Option<f64>>;

/// A row with the observations that its cells were made from, over all blocks of the host.
struct Measured {
    row: Row,
    base: Series,
    targets: Vec<Series>,
}

/// Compares the runs that count; `adjust` and warnings come later, from all hosts' cells.
pub(super) fn compare(
    name: String,
    data: &Selected,
    base: &str,
    left_out: &mut LeftOut,
) -> HostComparison {
    let base_index = data.targets.iter().position(|target| target == base);
    let others: Vec<usize> =
        (0..data.targets.len()).filter(|index| Some(*index) != base_index).collect();
    let absent = vec![None; data.blocks.len()];
    let rows: Vec<Measured> = data
        .rows
        .iter()
        .filter(|(_, runs)| runs.iter().flatten().any(Option::is_some))
        .map(|(key, runs)| {
            let of_base = base_index.map_or(&absent, |index| &runs[index]);
            let of_others: Vec<_> =
                others.iter().map(|index| (data.targets[*index].as_str(), &runs[*index])).collect();
            measured(key, of_base, &of_others, left_out)
        })
        .collect();
    let drift = base_index.and_then(|index| drift(data, index));
    HostComparison {
        host: name,
        blocks: data.blocks.len() as u32,
        targets: others.iter().map(|index| data.targets[*index].clone()).collect(),
        base_made: base_index.map(|index| data.made[index].clone()),
        made: others.iter().map(|index| data.made[*index].clone()).collect(),
        groups: groups(&rows),
        rows: rows.into_iter().map(|measured| measured.row).collect(),
        drift,
        warnings: Vec::new(),
        notes: Vec::new(),
        effects: Vec::new(),
    }
}

fn measured(
    key: &Key,
    base: &[Option<Run>],
    others: &[(&str, &Vec<Option<Run>>)],
    left_out: &mut LeftOut,
) -> Measured {
    let ln_good = |run: &Run| run.outcome.as_ref().ok().map(|numbers| numbers.ln_good);
    let of_base: Series = base.iter().map(|run| run.as_ref().and_then(ln_good)).collect();
    let of_targets: Vec<Series> = others
        .iter()
        .map(|(_, runs)| {
            let partner = |(run, base): (&Option<Run>, &Option<Run>)| {
                let (run, base) = (run.as_ref()?, base.as_ref()?);
                let (value, _) = (ln_good(run)?, ln_good(base)?);
                if run.context != base.context {
                    left_out.other_boot += 1;
                    return None;
                }
                Some(value)
            };
            runs.iter().zip(base).map(partner).collect()
        })
        .collect();
    let base_failures = failures(base);
    let cells = others
        .iter()
        .zip(&of_targets)
        .zip(estimates_where_measured(&of_base, &of_targets.iter().collect::<Vec<_>>()))
        .map(|(((target, runs), series), estimate)| {
            let failures = failures(runs);
            let metrics = means(runs.iter().flatten());
            let result = CellResult::of(&differences(&of_base, series), estimate)
                .unwrap_or_else(|| no_ratio(metrics.as_ref(), &failures, &base_failures));
            Cell { target: (*target).into(), result, metrics, failures, not_held: not_held(runs) }
        })
        .collect();
    let row = Row {
        microbenchmark: key.microbenchmark.clone(),
        group: key.group.clone(),
        threads: key.threads,
        metric: key.metric.clone(),
        base: means(base.iter().flatten()),
        base_failures,
        base_not_held: not_held(base),
        cells,
    };
    Measured { row, base: of_base, targets: of_targets }
}

/// Why a cell has no ratio.
fn no_ratio(
    metrics: Option<&Metrics>,
    failures: &[Failure],
    base_failures: &[Failure],
) -> CellResult {
    match (metrics, failures.last(), base_failures.last()) {
        (_, Some(own), _) => CellResult::Failed { reason: own.reason.clone() },
        (Some(_), None, Some(base)) => {
            CellResult::Failed { reason: format!("the base failed: {}", base.reason) }
        }
        (Some(_), None, None) => CellResult::NoPair,
        (None, None, _) => CellResult::NotMeasured,
    }
}

fn failures(runs: &[Option<Run>]) -> Vec<Failure> {
    let failure = |run: &Run| {
        let reason = run.outcome.as_ref().err()?.clone();
        Some(Failure { block: run.block, reason })
    };
    runs.iter().flatten().filter_map(failure).collect()
}

fn not_held(runs: &[Option<Run>]) -> Vec<NotHeld> {
    let one = |run: &Run| {
        let rate = run.outcome.as_ref().ok()?.not_held?;
        Some(NotHeld { block: run.block, asked: rate.asked, got: rate.got })
    };
    runs.iter().flatten().filter_map(one).collect()
}

/// One row per group and number of clients, in the order of the rows.
fn groups(rows: &[Measured]) -> Vec<GroupRow> {
    let mut order: Vec<(&str, u32)> = Vec::new();
    let mut members: HashMap<(&str, u32), Vec<&Measured>> = HashMap::new();
    for measured in rows {
        let name = (measured.row.group.as_str(), measured.row.threads);
        let list = members.entry(name).or_default();
        if list.is_empty() {
            order.push(name);
        }
        list.push(measured);
    }
    order.sort_by_key(|(group, threads)| {
        (rows.iter().position(|measured| measured.row.group == *group), *threads)
    });
    order.into_iter().map(|name| group(name, &of_qps(&members[&name]))).collect()
}

/// The rows of a group that its numbers are of: those of queries per second where it has any,
/// since CPU or I/O per operation (of imported results) have no mean in common with them, although
/// each is a ratio; else all.
fn of_qps<'a>(members: &[&'a Measured]) -> Vec<&'a Measured> {
    let qps: Vec<_> = members.iter().copied().filter(|it| it.row.metric.is_qps()).collect();
    if qps.is_empty() { members.to_vec() } else { qps }
}

fn group((name, threads): (&str, u32), members: &[&Measured]) -> GroupRow {
    let targets = members[0].row.cells.len();
    // Where nothing is missing, the variance may be pooled over targets, as in a row.
    let base = means_of_blocks(members, &|member| (&member.base, &member.base));
    let whole: Vec<Option<Series>> = (0..targets)
        .map(|target| means_of_blocks(members, &|member| (&member.targets[target], &member.base)))
        .collect();
    let complete: Vec<&Series> = whole.iter().flatten().collect();
    let mut estimated = match &base {
        Some(base) => estimates_where_measured(base, &complete),
        None => Vec::new(),
    }
    .into_iter();
    let cells = (0..targets)
        .map(|target| {
            let (geomean, geomean_rows) = match (&base, &whole[target]) {
                (Some(base), Some(series)) => {
                    let estimate = estimated.next().flatten();
                    (CellResult::of(&differences(base, series), estimate), members.len())
                }
                _ => part_of_group(members, target),
            };
            let ratios: Vec<f64> =
                members.iter().filter_map(|m| m.row.cells[target].result.ratio()).collect();
            GroupCell {
                target: members[0].row.cells[target].target.clone(),
                spread: spread(&ratios),
                rows: ratios.len() as u32,
                geomean: geomean.unwrap_or(CellResult::NotMeasured),
                geomean_rows: geomean_rows as u32,
            }
        })
        .collect();
    GroupRow { group: name.into(), threads, rows: members.len() as u32, cells }
}

/// As [`estimates`], over the blocks in which the base was measured: others have no pairs and would
/// only spoil the balance that pooling needs.
fn estimates_where_measured(base: &Series, targets: &[&Series]) -> Vec<Option<Estimate>> {
    let narrow = |series: &Series| -> Series {
        base.iter().zip(series).filter(|(base, _)| base.is_some()).map(|(_, y)| *y).collect()
    };
    let narrowed: Vec<Series> = targets.iter().map(|series| narrow(series)).collect();
    let slices: Vec<&[_]> = narrowed.iter().map(Vec::as_slice).collect();
    estimates(&narrow(base), &slices)
}

/// The mean over a group's rows per block; `None` when a row lacks a value in a block in which any
/// row has a measured base.
fn means_of_blocks(
    members: &[&Measured],
    of: &dyn Fn(&Measured) -> (&Series, &Series),
) -> Option<Series> {
    (0..members[0].base.len())
        .map(|block| {
            if members.iter().all(|member| of(member).1[block].is_none()) {
                return Some(None);
            }
            let values = members.iter().map(|member| of(member).0[block]);
            values.collect::<Option<Vec<f64>>>().map(|values| Some(mean(&values)))
        })
        .collect()
}

/// When something is missing: either all rows that have a pair, in the blocks where none of them
/// lacks one, or all blocks that have a pair, with the rows that lack none; whichever keeps more
/// pairs. This target alone. Gives the result and the number of rows.
fn part_of_group(members: &[&Measured], target: usize) -> (Option<CellResult>, usize) {
    let differences: Vec<Series> = members
        .iter()
        .map(|member| {
            let pair = |(y, base): (&Option<f64>, &Option<f64>)| Some((*y)? - (*base)?);
            member.targets[target].iter().zip(&member.base).map(pair).collect()
        })
        .filter(|series: &Series| series.iter().any(Option::is_some))
        .collect();
    let blocks = 0..members[0].base.len();
    let all_rows: Vec<usize> = blocks
        .clone()
        .filter(|block| differences.iter().all(|row| row[*block].is_some()))
        .collect();
    let all_blocks: Vec<usize> =
        blocks.filter(|block| differences.iter().any(|row| row[*block].is_some())).collect();
    let lacks_none = |row: &&Series| all_blocks.iter().all(|block| row[*block].is_some());
    let complete: Vec<&Series> = differences.iter().filter(lacks_none).collect();
    let (rows, blocks) = if complete.len() * all_blocks.len() > differences.len() * all_rows.len() {
        (complete, all_blocks)
    } else {
        (differences.iter().collect(), all_rows)
    };
    if rows.is_empty() || blocks.is_empty() {
        return (None, 0);
    }
    let in_block =
        |block: &usize| mean(&rows.iter().filter_map(|row| row[*block]).collect::<Vec<_>>());
    let means: Vec<f64> = blocks.iter().map(in_block).collect();
    (CellResult::of(&means, paired(&means)), rows.len())
}

/// The base's common trend over time, from the rows and boots with three blocks or more.
fn drift(data: &Selected, base: usize) -> Option<Drift> {
    let mut series: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut hours: f64 = 0.0;
    for (_, runs) in &data.rows {
        let mut by_boot: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for run in runs[base].iter().flatten() {
            let (Some(started), Ok(numbers)) = (run.started, &run.outcome) else { continue };
            let boot = data.contexts[run.context].boot.as_str();
            by_boot.entry(boot).or_default().push((started / 3600.0, numbers.ln_good));
        }
        for (_, points) in by_boot.into_iter().filter(|(_, points)| points.len() >= 3) {
            let low = points.iter().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
            let high = points.iter().map(|(x, _)| *x).fold(f64::NEG_INFINITY, f64::max);
            hours = hours.max(high - low);
            series.push(points);
        }
    }
    let slope = common_slope(&series)?;
    Some(Drift { percent_per_hour: slope.exp_m1() * 100.0, hours })
}
