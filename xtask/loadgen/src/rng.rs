//! Random numbers: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
//! generators", OOPSLA 2014). Eight bytes of state and three multiplications a draw; it passes
//! BigCrush, and a generator can be made for every row and every client from a few numbers.

/// 2^64 divided by the golden ratio, made odd: the step of the generator.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random numbers that is determined by its seed.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The stream of several numbers, such as seed, table and row. Streams of different numbers
    /// start at unrelated places of the one cycle of 2^64.
    pub fn of(numbers: &[u64]) -> Self {
        let state = numbers
            .iter()
            .fold(0, |state: u64, number| mix(state.wrapping_add(GOLDEN) ^ mix(*number)));
        Self { state }
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A number in 0..`bound`. By multiplication (Lemire, "Fast random integer generation in an
    /// interval", 2019) without its rejection: some numbers are more likely by at most
    /// `bound` / 2^64, which no benchmark can see.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in 0.0..1.0 with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        let mut rng = Rng { state: 1_234_567 };
        let drawn: [u64; 5] = std::array::from_fn(|_| rng.bits());
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }

    #[test]
    fn each_number_changes_the_stream() {
        let first = |numbers: &[u64]| Rng::of(numbers).bits();
        let streams = [first(&[1, 2]), first(&[2, 1]), first(&[1, 3]), first(&[0, 0]), first(&[0])];
        let different: std::collections::BTreeSet<_> = streams.iter().collect();
        assert_eq!(different.len(), streams.len());
    }

    #[test]
    fn below_is_flat_and_reaches_both_ends() {
        let mut rng = Rng::of(&[42]);
        let mut counts = [0u64; 10];
        for _ in 0..100_000 {
            counts[rng.below(10) as usize] += 1;
        }
        // Chi-square with 9 degrees of freedom: 27.9 is passed once in 1000 seeds.
        let chi: f64 = counts.iter().map(|&n| (n as f64 - 1e4).powi(2) / 1e4).sum();
        assert!(chi < 27.9, "{chi} {counts:?}");
        assert_eq!(rng.below(1), 0);
    }

    #[test]
    fn unit_has_the_mean_and_variance_of_a_uniform() {
        let mut rng = Rng::of(&[7]);
        let drawn: Vec<f64> = (0..100_000).map(|_| rng.unit()).collect();
        assert!(drawn.iter().all(|x| (0.0..1.0).contains(x)));
        let mean = drawn.iter().sum::<f64>() / 1e5;
        let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
        assert!((variance - 1.0 / 12.0).abs() < 0.002, "{variance}");
    }
}
