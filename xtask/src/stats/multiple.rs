//! Adjusted p-values: what a p-value is worth when many are looked at.

/// Benjamini and Hochberg (1995): adjusted p-values that control the false discovery rate (the
/// expected share of wrong ones among those called out), valid also for positive dependence, which
/// microbenchmarks of one run have. The i-th smallest of m becomes min over j >= i of p_j · m / j.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let order = sorted_order(p_values);
    let count = order.len() as f64;
    let mut adjusted = vec![1.0; order.len()];
    let mut least = 1.0_f64;
    for (rank, index) in order.iter().enumerate().rev() {
        least = least.min(p_values[*index] * count / (rank + 1) as f64);
        adjusted[*index] = least;
    }
    adjusted
}

/// Holm (1979): adjusted p-values that control the chance of even one wrong one among those called
/// out, whatever the dependence. The i-th smallest of m becomes max over j <= i of p_j · (m + 1 -
/// j).
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let order = sorted_order(p_values);
    let mut adjusted = vec![1.0; order.len()];
    let mut most = 0.0_f64;
    for (rank, index) in order.iter().enumerate() {
        most = most.max(p_values[*index] * (order.len() - rank) as f64);
        adjusted[*index] = most.min(1.0);
    }
    adjusted
}

fn sorted_order(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: &[f64], wanted: &[f64]) {
        assert_eq!(got.len(), wanted.len());
        for (a, b) in got.iter().zip(wanted) {
            assert!((a - b).abs() < 1e-9, "{got:?} is not {wanted:?}");
        }
    }

    /// The values that R's `p.adjust` defines for these, worked out by hand.
    #[test]
    fn worked_example() {
        let p = [0.04, 0.01, 0.03, 0.005];
        near(&benjamini_hochberg(&p), &[0.04, 0.02, 0.04, 0.02]);
        near(&holm(&p), &[0.06, 0.03, 0.06, 0.02]);
    }

    #[test]
    fn edges() {
        near(&benjamini_hochberg(&[]), &[]);
        near(&holm(&[]), &[]);
        near(&benjamini_hochberg(&[0.2]), &[0.2]);
        near(&holm(&[0.2]), &[0.2]);
        near(&holm(&[0.9, 0.8]), &[1.0, 1.0]);
        near(&benjamini_hochberg(&[0.9, 0.9, 0.0]), &[0.9, 0.9, 0.0]);
    }
}
