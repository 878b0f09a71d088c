//! The word for a relative throughput: what may be claimed from an estimate, and what may not.

use serde::{Deserialize, Serialize};

use super::estimate::Estimate;
use super::student;

/// The largest number of blocks that is worth naming; beyond it the host is too noisy.
const MOST_BLOCKS: u32 = 1000;

/// What matters and how sure one wants to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Rule {
    /// The smallest relative difference that matters (0.03 for 3%). On the scale of ratios it is
    /// the range from 1/(1 + delta) to 1 + delta, so that exchanging base and target only
    /// exchanges `faster` and `slower`.
    pub delta: f64,
    /// The adjusted p-value up to which a difference counts as shown.
    pub alpha: f64,
}

impl Default for Rule {
    fn default() -> Self {
        Self { delta: 0.03, alpha: 0.05 }
    }
}

/// What may be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "word")]
pub enum Verdict {
    /// A difference is shown, and it is at least as large as what matters.
    Faster,
    /// As [`Verdict::Faster`], the other way.
    Slower,
    /// A difference is shown; it is smaller than what matters.
    Small,
    /// No difference is shown, and one that matters is ruled out.
    Same,
    /// Neither is shown.
    Undecided {
        /// How many more blocks would probably decide it; `None`: over a thousand.
        #[serde(rename = "more-blocks")]
        more_blocks: Option<u32>,
    },
}

impl Verdict {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Small => "small",
            Self::Same => "same",
            Self::Undecided { .. } => "undecided",
        }
    }
}

/// The verdict on an estimate whose p-value, adjusted for all that are shown together, is given.
///
/// `same` is shown by two one-sided tests: the interval at 1 - 2 alpha (90%) lies inside the range
/// of what does not matter.
pub fn verdict(estimate: &Estimate, adjusted_p: f64, rule: &Rule) -> Verdict {
    let limit = rule.delta.ln_1p();
    if adjusted_p <= rule.alpha {
        return match estimate.mean {
            mean if mean >= limit => Verdict::Faster,
            mean if mean <= -limit => Verdict::Slower,
            _ => Verdict::Small,
        };
    }
    let (low, high) = estimate.interval(1.0 - 2.0 * rule.alpha);
    if low.ln() > -limit && high.ln() < limit {
        return Verdict::Same;
    }
    let needed = blocks_needed(estimate.deviation(), rule);
    let more = |needed: u32| needed.saturating_sub(estimate.pairs).max(1);
    Verdict::Undecided { more_blocks: needed.map(more) }
}

/// The number of blocks that show a difference of exactly `delta` in four of five experiments:
/// the smallest J with (t(1 - alpha/2, J-1) + t(0.8, J-1)) · deviation / sqrt(J) <= ln(1 + delta);
/// `None` beyond a thousand. `deviation` is the standard deviation of one block's difference.
pub fn blocks_needed(deviation: f64, rule: &Rule) -> Option<u32> {
    let limit = rule.delta.ln_1p();
    let enough = |blocks: u32| {
        let t = student::quantile(1.0 - rule.alpha / 2.0, blocks - 1)
            + student::quantile(0.8, blocks - 1);
        t * deviation / f64::from(blocks).sqrt() <= limit
    };
    if !enough(MOST_BLOCKS) {
        return None;
    }
    // The left side falls as J grows.
    let (mut low, mut high) = (1, MOST_BLOCKS);
    while high - low > 1 {
        let middle = u32::midpoint(low, high);
        if enough(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Method;

    fn estimate(ratio: f64, error: f64, pairs: u32) -> Estimate {
        Estimate { mean: ratio.ln(), error, df: pairs - 1, pairs, method: Method::Paired }
    }

    fn word(ratio: f64, error: f64) -> Verdict {
        let estimate = estimate(ratio, error, 5);
        verdict(&estimate, estimate.p_value(), &Rule::default())
    }

    #[test]
    fn each_word() {
        assert_eq!(word(1.05, 0.005), Verdict::Faster);
        assert_eq!(word(0.95, 0.005), Verdict::Slower);
        assert_eq!(word(1.02, 0.002), Verdict::Small, "real, below what matters");
        assert_eq!(word(0.98, 0.002), Verdict::Small);
        assert_eq!(word(1.001, 0.005), Verdict::Same);
        assert!(matches!(word(1.02, 0.02), Verdict::Undecided { more_blocks: Some(_) }));
        let noise = Verdict::Undecided { more_blocks: None };
        assert_eq!(word(1.5, 1.0), noise, "no number of blocks is worth it");
    }

    #[test]
    fn limits_are_symmetric() {
        assert_eq!(word(1.0301, 0.001), Verdict::Faster);
        assert_eq!(word(1.0 / 1.0301, 0.001), Verdict::Slower);
        assert_eq!(word(0.9705, 0.0001), Verdict::Slower);
        assert_eq!(word(0.9715, 0.0001), Verdict::Small, "1/0.9715 is below 1.03");
    }

    #[test]
    fn adjusting_can_take_a_claim_back() {
        let estimate = estimate(1.05, 0.012, 5);
        assert!(estimate.p_value() < 0.05);
        let verdict = verdict(&estimate, 0.2, &Rule::default());
        assert!(matches!(verdict, Verdict::Undecided { more_blocks: Some(1..) }), "{verdict:?}");
    }

    /// By hand: J = 4 gives (3.182 + 0.978) · 0.014 / 2 = 0.0291, just below ln 1.03 = 0.0296, and
    /// J = 3 gives (4.303 + 1.061) · 0.014 / 1.732 = 0.0434; for ln 1.01 = 0.00995, J = 18 gives
    /// (2.110 + 0.863) · 0.014 / 4.243 = 0.00981 and J = 17 gives 0.01014.
    #[test]
    fn blocks_to_plan() {
        let rule = |delta| Rule { delta, ..Rule::default() };
        assert_eq!(blocks_needed(0.014, &rule(0.03)), Some(4));
        assert_eq!(blocks_needed(0.014, &rule(0.01)), Some(18));
        assert_eq!(blocks_needed(0.0, &rule(0.03)), Some(2));
        assert_eq!(blocks_needed(5.0, &rule(0.03)), None);
    }
}
