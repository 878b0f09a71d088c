//! Intervals of each group's geometric mean, target below target, with the line of no difference
//! and the band of differences that do not matter.

use super::markup::Markup;
use super::svg::{Drawing, line, rect, shortened, text, ticks};
use crate::compare::{CellResult, Comparison, HostComparison};
use crate::stats::Verdict;

const WIDTH: f64 = 860.0;
/// Where the axis begins and ends.
const AXIS: (f64, f64) = (300.0, 840.0);
const ROW: f64 = 20.0;
/// The axis ends at such ratios, however wide an interval is.
const BOUNDS: (f64, f64) = (0.25, 4.0);

/// Draws one chart per group of the host, the `index`th of the page.
pub fn write(m: &mut Markup, comparison: &Comparison, host: &HostComparison, index: usize) {
    let delta = comparison.rule.delta;
    for (place, group) in host.groups.iter().enumerate() {
        let known: Vec<(&str, [f64; 3], &str)> = group
            .cells
            .iter()
            .filter_map(|cell| match &cell.geomean {
                CellResult::Judged(it) => {
                    let class = match it.verdict {
                        Verdict::Faster => "faster",
                        Verdict::Slower => "slower",
                        _ => "other",
                    };
                    Some((cell.target.as_str(), [it.low, it.ratio, it.high], class))
                }
                CellResult::Single { ratio } => Some((cell.target.as_str(), [*ratio; 3], "other")),
                _ => None,
            })
            .collect();
        if known.is_empty() {
            continue;
        }
        let low = known.iter().map(|it| it.1[0]).fold(1.0 - 2.0 * delta, f64::min).max(BOUNDS.0);
        let high = known.iter().map(|it| it.1[2]).fold(1.0 + 2.0 * delta, f64::max).min(BOUNDS.1);
        let x = |ratio: f64| {
            let share = (ratio.clamp(low, high) - low) / (high - low);
            AXIS.0 + share * (AXIS.1 - AXIS.0)
        };
        let height = ROW * (known.len() as f64 + 2.0);
        let said: Vec<String> = known
            .iter()
            .map(|(target, [low, ratio, high], _)| {
                format!("{target} {ratio:.3}, from {low:.3} to {high:.3}")
            })
            .collect();
        let title = format!("{} x{}: relative to the base", group.group, group.threads);
        let drawing = Drawing {
            id: &format!("interval-{index}-{place}"),
            width: WIDTH,
            height,
            title: &title,
            description: &said.join("; "),
        };
        drawing.write(m, |m| {
            text(m, "soft", (4.0, 14.0), &title);
            let bottom = height - ROW;
            let (from, to) = (x(1.0 / (1.0 + delta)), x(1.0 + delta));
            rect(m, "band", (from, ROW), (to - from, bottom - ROW));
            for tick in ticks(low, high, 6) {
                line(m, "axis", (x(tick), ROW), (x(tick), bottom));
                text(m, "mid soft", (x(tick), height - 5.0), &format!("{tick:.2}"));
            }
            line(m, "one", (x(1.0), ROW), (x(1.0), bottom));
            for (row, (target, [low, ratio, high], class)) in known.iter().enumerate() {
                let y = ROW * (row as f64 + 1.5);
                text(m, "end", (AXIS.0 - 8.0, y + 4.0), &shortened(target, 42));
                line(m, class, (x(*low), y), (x(*high), y));
                rect(m, class, (x(*ratio) - 3.0, y - 3.0), (6.0, 6.0));
            }
        });
    }
}
