//! A named value that a workload measured, with its unit and its direction.

use serde::{Deserialize, Serialize};

/// A value that is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Metric {
    /// What was measured: `qps`, `latency-average`, `seconds`.
    pub name: String,
    /// How much.
    pub value: f64,
    /// Of what: `1/s`, `ms`, `s`, `KiB`.
    pub unit: String,
    /// Which direction is the good one.
    pub better: Better,
}

/// Which direction of a metric is the good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// A rate, for instance.
    Higher,
    /// A time, for instance.
    Lower,
}

impl Better {
    /// The direction that a unit suggests: less is better of times and sizes, more of the rest.
    pub fn of_unit(unit: &str) -> Self {
        const LESS: [&str; 14] = [
            "ns", "us", "µs", "ms", "s", "sec", "secs", "seconds", "min", "h", "B", "KiB", "MiB",
            "GiB",
        ];
        if LESS.contains(&unit) { Self::Lower } else { Self::Higher }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_better_of_times_and_sizes() {
        for (unit, better) in [
            ("s", Better::Lower),
            ("ms", Better::Lower),
            ("MiB", Better::Lower),
            ("1/s", Better::Higher),
            ("tps", Better::Higher),
            ("", Better::Higher),
        ] {
            assert_eq!(Better::of_unit(unit), better, "{unit}");
        }
    }
}
