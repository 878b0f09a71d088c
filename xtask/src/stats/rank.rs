//! A check that outliers cannot move: the Hodges-Lehmann shift and the interval of Wilcoxon's
//! signed-rank test, both from the means of all pairs of differences (the Walsh averages).

/// The shift and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The median of the Walsh averages.
    pub median: f64,
    /// The lower end; its level is at least the one asked for.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The shift of these differences with an interval of at least this level; `None` when there are
/// too few differences for it (fewer than 6 for 95%) or too many for exact counting (over 1000).
pub fn shift(differences: &[f64], level: f64) -> Option<Shift> {
    let count = differences.len();
    if count > 1000 {
        return None;
    }
    let cut = critical(count, (1.0 - level) / 2.0)?;
    let mut walsh: Vec<f64> = (0..count)
        .flat_map(|i| (i..count).map(move |j| (i, j)))
        .map(|(i, j)| f64::midpoint(differences[i], differences[j]))
        .collect();
    walsh.sort_by(f64::total_cmp);
    let median = super::summary::quantile_of_sorted(&walsh, 0.5);
    Some(Shift { median, low: walsh[cut - 1], high: walsh[walsh.len() - cut] })
}

/// Which Walsh average from each end bounds the interval: the largest c, from 1, with
/// P(T <= c - 1) <= `tail`, where T is the signed-rank statistic of `count` differences; `None`
/// when c = 1 is too far inside.
fn critical(count: usize, tail: f64) -> Option<usize> {
    // The chance of each value of T: every rank is in the sum or not, by a fair coin.
    let mut chances = vec![1.0];
    for rank in 1..=count {
        let mut next = vec![0.0; chances.len() + rank];
        for (sum, chance) in chances.iter().enumerate() {
            next[sum] += chance / 2.0;
            next[sum + rank] += chance / 2.0;
        }
        chances = next;
    }
    let mut below = 0.0;
    let mut cut = 0;
    for chance in chances {
        below += chance;
        if below > tail {
            break;
        }
        cut += 1;
    }
    (cut > 0).then_some(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published critical values of the two-sided 5% signed-rank test: T <= 0 for 6, 2 for 7,
    /// 3 for 8, 5 for 9, 8 for 10, 25 for 15, 52 for 20.
    #[test]
    fn critical_values_of_the_printed_tables() {
        for (count, value) in [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (15, 25), (20, 52)] {
            assert_eq!(critical(count, 0.025), Some(value + 1), "{count}");
        }
        assert_eq!(critical(5, 0.025), None);
        assert_eq!(critical(0, 0.025), None);
    }

    #[test]
    fn six_differences_span_the_whole_range() {
        // c = 1: the first and the last of 21 averages; P(T = 0) = 1/64 at each end.
        let shift = shift(&[1.0, 2.0, 3.0, 4.0, 5.0, 60.0], 0.95).expect("six");
        assert_eq!((shift.low, shift.high), (1.0, 60.0));
        assert_eq!(shift.median, 3.5, "an outlier does not move it far");
        assert_eq!(super::shift(&[1.0; 5], 0.95), None);
    }

    #[test]
    fn ten_differences_drop_eight_averages() {
        // The 55 averages of 1..=10 begin 1, 1.5, 2, 2, 2.5, 2.5, 3, 3, 3: the ninth is 3.
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let shift = shift(&ten, 0.95).expect("ten");
        assert_eq!((shift.low, shift.median, shift.high), (3.0, 5.5, 8.0));
    }
}
