//! Student's t: quantiles and p-values.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The value below which a Student t variable with `df` degrees of freedom lies with `probability`.
///
/// # Panics
/// When `df` is zero or `probability` is not inside (0, 1): both are mistakes of the caller.
pub fn quantile(probability: f64, df: u32) -> f64 {
    assert!(probability > 0.0 && probability < 1.0, "{probability} is no probability");
    distribution(df).inverse_cdf(probability)
}

/// The probability that |t| is at least this large when the true difference is zero.
///
/// # Panics
/// When `df` is zero.
pub fn two_sided_p(t: f64, df: u32) -> f64 {
    (2.0 * distribution(df).sf(t.abs())).clamp(0.0, 1.0)
}

fn distribution(df: u32) -> StudentsT {
    assert!(df > 0, "Student's t needs at least one degree of freedom");
    StudentsT::new(0.0, 1.0, f64::from(df)).expect("scale and freedom are positive")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance, "{a} is not {b}");
    }

    #[test]
    fn quantiles_of_the_printed_tables() {
        let table = [
            (0.975, 1, 12.706),
            (0.975, 2, 4.303),
            (0.975, 3, 3.182),
            (0.975, 4, 2.776),
            (0.975, 9, 2.262),
            (0.975, 10, 2.228),
            (0.975, 30, 2.042),
            (0.95, 2, 2.920),
            (0.95, 4, 2.132),
            (0.80, 4, 0.941),
        ];
        for (probability, df, value) in table {
            near(quantile(probability, df), value, 6e-4);
            near(quantile(1.0 - probability, df), -value, 6e-4);
        }
        near(quantile(0.5, 3), 0.0, 1e-6);
    }

    #[test]
    fn p_values() {
        near(two_sided_p(0.0, 4), 1.0, 1e-12);
        near(two_sided_p(2.776_445, 4), 0.05, 1e-6);
        near(two_sided_p(-2.776_445, 4), 0.05, 1e-6);
        // One degree of freedom is the Cauchy distribution: P(|t| > 1) = 1/2.
        near(two_sided_p(1.0, 1), 0.5, 1e-9);
        near(two_sided_p(f64::INFINITY, 3), 0.0, 0.0);
        assert!(two_sided_p(60.0, 9) > 0.0, "the tail does not vanish by cancellation");
    }
}
