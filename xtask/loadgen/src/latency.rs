//! Response times: a histogram of nanoseconds with three significant digits, exact mean and
//! maximum.

use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use catalog::protocol::Latency;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

/// Above every window that makes sense; longer times count as this long.
const MOST_NANOSECONDS: u64 = 24 * 3600 * 1_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Response times of one client or of all.
pub struct Latencies {
    histogram: Histogram<u64>,
    sum_ns: u64,
    max_ns: u64,
}

impl Latencies {
    /// None yet.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, MOST_NANOSECONDS, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that are in order");
        Self { histogram, sum_ns: 0, max_ns: 0 }
    }

    /// One more.
    #[inline]
    pub fn record(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(MOST_NANOSECONDS);
        self.histogram.saturating_record(ns);
        self.sum_ns += ns;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Those of another client too.
    ///
    /// # Errors
    ///
    /// None for histograms of this file; the crate cannot know.
    pub fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        self.histogram.add(&other.histogram).context("cannot add two latency histograms")?;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        Ok(())
    }

    /// In the form of the protocol.
    ///
    /// # Errors
    ///
    /// When the histogram cannot be serialized.
    pub fn report(&self) -> anyhow::Result<Latency> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.histogram, &mut bytes)
            .context("cannot serialize the latency histogram")?;
        let count = self.histogram.len().max(1);
        let us = |ns: u64| (ns + 500) / 1000;
        let quantile = |q| us(self.histogram.value_at_quantile(q).min(self.max_ns));
        Ok(Latency {
            mean_us: self.sum_ns as f64 / count as f64 / 1e3,
            p50_us: quantile(0.50),
            p95_us: quantile(0.95),
            p99_us: quantile(0.99),
            max_us: us(self.max_ns),
            histogram: STANDARD.encode(bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;

    use super::*;

    #[test]
    fn the_report_says_what_was_recorded() {
        let (mut one, mut other) = (Latencies::new(), Latencies::new());
        for us in 1..=50 {
            one.record(Duration::from_micros(us));
            other.record(Duration::from_micros(us + 50));
        }
        other.record(Duration::from_micros(100_000));
        one.add(&other).unwrap();
        let report = one.report().unwrap();
        assert!((report.mean_us - (5050.0 + 100_000.0) / 101.0).abs() < 1e-6, "{report:?}");
        assert_eq!((report.p50_us, report.p95_us, report.p99_us), (51, 96, 100));
        assert_eq!(report.max_us, 100_000);
    }

    #[test]
    fn the_histogram_can_be_read_back() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_nanos(12_345));
        latencies.record(Duration::from_secs(3));
        let text = latencies.report().unwrap().histogram;
        let bytes = STANDARD.decode(text).unwrap();
        let back: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!(back, latencies.histogram);
        assert_eq!(back.len(), 2);
        assert_eq!(back.count_at(12_345), 1);
    }

    #[test]
    fn nothing_recorded_is_zero() {
        let report = Latencies::new().report().unwrap();
        assert_eq!((report.mean_us, report.p50_us, report.max_us), (0.0, 0, 0));
    }
}
