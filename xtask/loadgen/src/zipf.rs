//! Zipfian numbers by rejection-inversion: W. Hörmann and G. Derflinger, "Rejection-inversion to
//! generate variates from monotone discrete distributions", ACM TOMACS 6(3), 1996. Constant time
//! and memory for any number of ranks; fewer than 1.1 tries a draw.

use crate::rng::Rng;

/// Draws ranks 1..=n, rank x with a probability proportional to x^-s.
#[derive(Clone, Debug)]
pub struct Zipf {
    ranks: f64,
    exponent: f64,
    /// H(1.5) - h(1), the upper end of the drawn area.
    area_first: f64,
    /// H(n + 0.5), its lower end.
    area_last: f64,
    /// A rank that is nearer than this above the drawn point needs no test.
    squeeze: f64,
}

impl Zipf {
    /// Ranks 1..=`ranks`, exponent `exponent`.
    ///
    /// # Panics
    ///
    /// When `exponent` is not positive or is 1 (whose integral is a logarithm; nobody asks for it).
    pub fn new(ranks: u64, exponent: f64) -> Self {
        assert!(exponent > 0.0 && exponent != 1.0, "an exponent of {exponent} has no sampler");
        let mut zipf =
            Self { ranks: ranks as f64, exponent, area_first: 0.0, area_last: 0.0, squeeze: 0.0 };
        zipf.area_first = zipf.integral(1.5) - 1.0;
        zipf.area_last = zipf.integral(zipf.ranks + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// The next rank.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.area_last + rng.unit() * (self.area_first - self.area_last);
            let point = self.inverse(area);
            let rank = point.round().clamp(1.0, self.ranks);
            if rank - point <= self.squeeze
                || area >= self.integral(rank + 0.5) - self.density(rank)
            {
                return rank as u64;
            }
        }
    }

    /// h(x) = x^-s
    fn density(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// H(x) = (x^(1-s) - 1) / (1 - s), an integral of h.
    fn integral(&self, x: f64) -> f64 {
        (x.powf(1.0 - self.exponent) - 1.0) / (1.0 - self.exponent)
    }

    /// The x with H(x) = `area`.
    fn inverse(&self, area: f64) -> f64 {
        (1.0 + area * (1.0 - self.exponent)).powf(1.0 / (1.0 - self.exponent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_those_of_the_formula() {
        for (ranks, exponent) in [(10u64, 0.8), (1000, 0.8), (50, 1.5)] {
            let zipf = Zipf::new(ranks, exponent);
            let mut rng = Rng::of(&[1, ranks]);
            let mut counts = vec![0u64; ranks as usize + 1];
            let draws = 400_000;
            for _ in 0..draws {
                counts[zipf.draw(&mut rng) as usize] += 1;
            }
            assert_eq!(counts[0], 0);
            let weight = |rank: u64| (rank as f64).powf(-exponent);
            let sum: f64 = (1..=ranks).map(weight).sum();
            for rank in [1, 2, 3, ranks / 2, ranks] {
                let p = weight(rank) / sum;
                let expected = p * draws as f64;
                // Five standard deviations of a binomial count.
                let bound = 5.0 * (expected * (1.0 - p)).sqrt();
                let got = counts[rank as usize] as f64;
                assert!((got - expected).abs() < bound, "{ranks} {exponent} {rank}: {got}");
            }
        }
    }

    #[test]
    fn one_rank_is_always_it_and_many_stay_inside() {
        let mut rng = Rng::of(&[3]);
        let one = Zipf::new(1, 0.8);
        let many = Zipf::new(1_000_000_000, 0.8);
        for _ in 0..10_000 {
            assert_eq!(one.draw(&mut rng), 1);
            assert!((1..=1_000_000_000).contains(&many.draw(&mut rng)));
        }
    }
}
