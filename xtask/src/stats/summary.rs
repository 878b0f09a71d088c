//! Small summaries: mean, minimum, maximum, median, spread, and a straight line.

use serde::{Deserialize, Serialize};

/// The arithmetic mean; not a number for no values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The value below which this share of the sorted values lies, by linear interpolation.
///
/// # Panics
/// When there are no values.
pub fn quantile_of_sorted(sorted: &[f64], share: f64) -> f64 {
    assert!(!sorted.is_empty(), "no quantile of nothing");
    let place = share * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}

/// What a group's row shows of its members.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The arithmetic mean.
    pub avg: f64,
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
}

/// Minimum, maximum, mean and median; `None` for no values.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    Some(Spread { min, max, avg: mean(&sorted), median: quantile_of_sorted(&sorted, 0.5) })
}

/// The slope of y over x that is common to several series, each with a level of its own (least
/// squares); `None` when no series has two different x.
pub fn common_slope(series: &[Vec<(f64, f64)>]) -> Option<f64> {
    let (mut xy, mut xx) = (0.0, 0.0);
    for points in series.iter().filter(|points| points.len() >= 2) {
        let count = points.len() as f64;
        let x_mean = points.iter().map(|(x, _)| x).sum::<f64>() / count;
        let y_mean = points.iter().map(|(_, y)| y).sum::<f64>() / count;
        for (x, y) in points {
            xy += (x - x_mean) * (y - y_mean);
            xx += (x - x_mean).powi(2);
        }
    }
    (xx > 0.0).then(|| xy / xx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_odd_and_even_counts() {
        let odd = spread(&[3.0, 1.0, 2.0]).expect("values");
        assert_eq!(odd, Spread { min: 1.0, max: 3.0, avg: 2.0, median: 2.0 });
        let even = spread(&[4.0, 1.0, 2.0, 9.0]).expect("values");
        assert_eq!(even, Spread { min: 1.0, max: 9.0, avg: 4.0, median: 3.0 });
        assert_eq!(spread(&[]), None);
        assert_eq!(quantile_of_sorted(&[0.0, 1.0, 2.0, 3.0, 4.0], 0.25), 1.0);
        assert_eq!(quantile_of_sorted(&[7.0], 0.75), 7.0);
    }

    #[test]
    fn slope_ignores_levels() {
        let series =
            [vec![(0.0, 1.0), (2.0, 2.0)], vec![(1.0, 9.0), (3.0, 10.0)], vec![(5.0, 0.0)]];
        assert_eq!(common_slope(&series), Some(0.5));
        assert_eq!(common_slope(&[vec![(1.0, 1.0), (1.0, 3.0)]]), None);
        assert_eq!(common_slope(&[]), None);
    }
}
