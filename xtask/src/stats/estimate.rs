//! The estimate of one relative throughput from the blocks in which both sides were measured.
//!
//! Two ways to the standard error of the mean difference, both on logarithms:
//! - *paired*: s_d / sqrt(J) with J - 1 degrees of freedom;
//! - *pooled*, for few blocks: the residual variance s² of the two-way additive fit
//!   y = target + block over all B targets and J complete blocks has (J - 1)(B - 1) degrees of
//!   freedom; the difference of two targets' means has the standard error s · sqrt(2 / J). With
//!   B = 2 the two are the same number.

use serde::{Deserialize, Serialize};

use super::student;

/// From this number of blocks on, the paired variance is good enough by itself.
pub const ENOUGH_BLOCKS: usize = 5;
/// Targets whose residual variances differ by more than this factor are not pooled.
pub const POOL_RATIO: f64 = 9.0;

/// An estimated ln(relative throughput) from at least two blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Estimate {
    /// Mean of the paired differences of ln(QPS).
    pub mean: f64,
    /// Its standard error.
    pub error: f64,
    /// Degrees of freedom of the standard error.
    pub df: u32,
    /// Number of pairs.
    pub pairs: u32,
    /// How the standard error was found.
    pub method: Method,
}

/// How a standard error was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// From the differences of this target to the base alone.
    Paired,
    /// From the residuals of all targets.
    Pooled,
}

impl Estimate {
    /// The relative throughput: the geometric mean of the paired ratios.
    pub fn ratio(&self) -> f64 {
        self.mean.exp()
    }

    /// The two-sided interval of the relative throughput at this level (0.95, say).
    pub fn interval(&self, level: f64) -> (f64, f64) {
        let half = student::quantile(0.5 + level / 2.0, self.df) * self.error;
        ((self.mean - half).exp(), (self.mean + half).exp())
    }

    /// The two-sided p-value of "no difference".
    pub fn p_value(&self) -> f64 {
        if self.error > 0.0 {
            student::two_sided_p(self.mean / self.error, self.df)
        } else if self.mean == 0.0 {
            1.0
        } else {
            0.0
        }
    }

    /// The standard deviation of one block's difference.
    pub fn deviation(&self) -> f64 {
        self.error * f64::from(self.pairs).sqrt()
    }
}

/// The estimates of several targets against one base; `targets[t][j]` and `base[j]` are ln(QPS) in
/// block j, `None` where nothing was measured. `None` for a target with fewer than two pairs.
///
/// The variance is pooled over all targets that were measured in every block, when there are two
/// such targets or more, fewer than [`ENOUGH_BLOCKS`] blocks, and no residual variance is more than
/// [`POOL_RATIO`] times another (the base's included).
pub fn estimates(base: &[Option<f64>], targets: &[&[Option<f64>]]) -> Vec<Option<Estimate>> {
    let pooled = pooled_variance(base, targets);
    targets
        .iter()
        .map(|target| {
            let own = paired(&differences(base, target))?;
            let whole = own.pairs as usize == base.len();
            match pooled {
                Some((variance, df)) if whole => {
                    let error = (2.0 * variance / f64::from(own.pairs)).sqrt();
                    Some(Estimate { error, df, method: Method::Pooled, ..own })
                }
                _ => Some(own),
            }
        })
        .collect()
}

/// The paired differences, block by block, where both sides were measured.
pub fn differences(base: &[Option<f64>], target: &[Option<f64>]) -> Vec<f64> {
    base.iter().zip(target).filter_map(|(base, target)| Some((*target)? - (*base)?)).collect()
}

/// The paired t estimate; `None` with fewer than two differences.
pub fn paired(differences: &[f64]) -> Option<Estimate> {
    let pairs = u32::try_from(differences.len()).ok().filter(|pairs| *pairs >= 2)?;
    let mean = super::summary::mean(differences);
    let squares: f64 = differences.iter().map(|d| (d - mean).powi(2)).sum();
    let error = (squares / f64::from(pairs - 1) / f64::from(pairs)).sqrt();
    Some(Estimate { mean, error, df: pairs - 1, pairs, method: Method::Paired })
}

/// The pooled residual variance and its degrees of freedom, where pooling is allowed.
fn pooled_variance(base: &[Option<f64>], targets: &[&[Option<f64>]]) -> Option<(f64, u32)> {
    let blocks = base.len();
    if !(2..ENOUGH_BLOCKS).contains(&blocks) {
        return None;
    }
    let complete = |side: &[Option<f64>]| side.iter().copied().collect::<Option<Vec<f64>>>();
    let mut sides = vec![complete(base)?];
    sides.extend(targets.iter().filter_map(|target| complete(target)));
    if sides.len() < 3 {
        return None;
    }
    let squares = residual_squares(&sides);
    let largest = squares.iter().copied().fold(0.0, f64::max);
    let smallest = squares.iter().copied().fold(f64::INFINITY, f64::min);
    if largest > POOL_RATIO * smallest {
        return None;
    }
    let df = (blocks - 1) * (sides.len() - 1);
    Some((squares.iter().sum::<f64>() / df as f64, u32::try_from(df).ok()?))
}

/// Per side, the sum of squared residuals of the fit `y = side + block` (balanced, so the fitted
/// value is side mean + block mean - grand mean).
fn residual_squares(sides: &[Vec<f64>]) -> Vec<f64> {
    let blocks = sides[0].len();
    let of_block: Vec<f64> = (0..blocks)
        .map(|block| sides.iter().map(|side| side[block]).sum::<f64>() / sides.len() as f64)
        .collect();
    let grand = super::summary::mean(&of_block);
    sides
        .iter()
        .map(|side| {
            let own = super::summary::mean(side);
            side.iter().zip(&of_block).map(|(y, block)| (y - own - block + grand).powi(2)).sum()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-4 * b.abs().max(1.0), "{a} is not {b}");
    }

    fn some(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    /// By hand: differences 1, 2, 3, 4, 5 percent: mean 0.03, s = sqrt(0.00025) = 0.0158114,
    /// error = s / sqrt(5) = 0.00707107, t(0.975, 4) = 2.776445, half width 0.0196324.
    #[test]
    fn worked_example_of_paired_t() {
        let estimate = paired(&[0.01, 0.02, 0.03, 0.04, 0.05]).expect("five pairs");
        near(estimate.mean, 0.03);
        near(estimate.error, 0.007_071_07);
        assert_eq!((estimate.df, estimate.pairs, estimate.method), (4, 5, Method::Paired));
        let (low, high) = estimate.interval(0.95);
        near(low, (0.03_f64 - 0.019_632_4).exp());
        near(high, (0.03_f64 + 0.019_632_4).exp());
        near(estimate.ratio(), 1.030_455);
        // t = 4.242641 with 4 degrees of freedom.
        near(estimate.p_value(), 0.013_236);
        near(estimate.deviation(), 0.015_811_4);
    }

    /// By hand, three sides in three blocks. y = [[0, 1, 2], [1, 2, 6], [2, 3, 4]]: side means
    /// 1, 3, 3; block means 1, 2, 4; grand mean 7/3. Residuals x3: [1, 1, -2], [-2, -2, 4],
    /// [1, 1, -2]; squares x9: 6, 24, 6: ratio 4, so pooled: s² = 36/9 / (2 · 2) = 1.
    #[test]
    fn worked_example_of_pooling() {
        let (base, a, b) = (some(&[0., 1., 2.]), some(&[1., 2., 6.]), some(&[2., 3., 4.]));
        let both = estimates(&base, &[&a, &b]);
        for (estimate, mean) in both.iter().zip([2.0, 2.0]) {
            let estimate = estimate.expect("three pairs");
            near(estimate.mean, mean);
            near(estimate.error, (2.0_f64 / 3.0).sqrt());
            assert_eq!((estimate.df, estimate.method), (4, Method::Pooled));
        }
    }

    #[test]
    fn no_pooling_when_it_is_not_allowed() {
        let method = |base: &[Option<f64>], targets: &[&[Option<f64>]]| {
            estimates(base, targets)[0].expect("pairs").method
        };
        let (base, a, b) = (some(&[0., 1., 2.]), some(&[1., 2., 6.]), some(&[2., 3., 4.]));
        assert_eq!(method(&base, &[&a]), Method::Paired, "one target: nothing to pool");
        // Residuals x3 of the second: [-5, -5, 10]·…: more than nine times the others' squares.
        let wild = some(&[1., 2., 60.]);
        let calm = some(&[2., 3.1, 4.]);
        let other = some(&[2., 3., 4.2]);
        assert_eq!(method(&base, &[&calm, &wild, &other]), Method::Paired, "unequal variances");
        let gap = vec![Some(1.0), None, Some(3.0)];
        let both = estimates(&base, &[&gap, &b]);
        assert_eq!(both[0].expect("two pairs").method, Method::Paired, "not in every block");
        assert_eq!(both[0].expect("two pairs").pairs, 2);
        let five = some(&[0., 1., 2., 1., 0.]);
        let more = some(&[1., 2., 6., 2., 1.]);
        assert_eq!(method(&five, &[&more, &five]), Method::Paired, "enough blocks");
    }

    #[test]
    fn fewer_than_two_pairs_give_nothing() {
        let base = vec![Some(1.0), None, Some(2.0)];
        let target = vec![Some(1.0), Some(5.0), None];
        assert_eq!(estimates(&base, &[&target]), [None]);
        assert_eq!(paired(&[]), None);
    }

    #[test]
    fn swapping_base_and_target_inverts_the_ratio() {
        let base = some(&[4.0, 4.1, 4.3, 3.9]);
        let target = some(&[4.2, 4.2, 4.4, 4.1]);
        let there = estimates(&base, &[&target])[0].expect("pairs");
        let back = estimates(&target, &[&base])[0].expect("pairs");
        near(there.ratio() * back.ratio(), 1.0);
        near(there.interval(0.95).0 * back.interval(0.95).1, 1.0);
    }

    #[test]
    fn no_variance_is_no_division_by_zero() {
        let same = paired(&[0.0, 0.0]).expect("two pairs");
        assert_eq!((same.p_value(), same.interval(0.95)), (1.0, (1.0, 1.0)));
        let moved = paired(&[0.5, 0.5]).expect("two pairs");
        assert_eq!(moved.p_value(), 0.0);
    }
}
