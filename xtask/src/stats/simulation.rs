//! Simulated experiments with a known truth: do the intervals cover it as often as they say, and
//! are false discoveries as rare as they should be? Seeds are fixed, so the answers are too.

use super::estimate::estimates;
use super::multiple::benjamini_hochberg;
use super::rank;
use super::verdict::{Rule, Verdict, verdict};

/// SplitMix64 (Steele, Lea, Flood 2014): small, well mixed, good enough for noise.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1).
    fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Standard normal (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, (self.bits() % (last as u64 + 1)) as usize);
        }
    }
}

/// What disturbs ln(QPS) of one run.
#[derive(Clone, Copy)]
enum Noise {
    /// Normal, standard deviation 1%.
    Normal,
    /// As `Normal`, and 3% of drift over the experiment, and a random walk over the runs.
    Drift,
    /// As `Normal`, and one run in ten is 5% slow.
    Outliers,
    /// Student's t with three degrees of freedom, scaled by 1%.
    HeavyTails,
    /// As `Normal`, the base three times as much.
    NoisyBase,
}

/// Block by block, every side once in shuffled order: ln(QPS) of side s in block j. Side 0 is the
/// base.
fn experiment(
    random: &mut Random,
    noise: Noise,
    effects: &[f64],
    blocks: usize,
) -> Vec<Vec<Option<f64>>> {
    let mut sides = vec![Vec::with_capacity(blocks); effects.len()];
    let mut order: Vec<usize> = (0..effects.len()).collect();
    let runs = (blocks * effects.len()) as f64;
    let (mut run, mut walk) = (0.0, 0.0);
    for _ in 0..blocks {
        random.shuffle(&mut order);
        for side in &order {
            let disturbance = 0.01 * random.normal()
                + match noise {
                    Noise::Normal => 0.0,
                    Noise::Drift => {
                        walk += 0.003 * random.normal();
                        0.03 * run / runs + walk
                    }
                    Noise::Outliers if random.uniform() < 0.1 => -0.05,
                    Noise::Outliers => 0.0,
                    // Variances add up: 1 + 8 = 3².
                    Noise::NoisyBase if *side == 0 => 0.01 * 8.0_f64.sqrt() * random.normal(),
                    Noise::NoisyBase => 0.0,
                    Noise::HeavyTails => {
                        // The normal above over the root of chi-squared(3)/3 would do as well; a
                        // fresh draw keeps the two parts apart.
                        let chi: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
                        0.01 * random.normal() / (chi / 3.0).sqrt()
                    }
                };
            sides[*side].push(Some(9.0 + effects[*side] + disturbance));
            run += 1.0;
        }
    }
    sides
}

/// The share of 95% intervals that cover the truth.
fn coverage(seed: u64, noise: Noise, targets: usize, blocks: usize) -> f64 {
    let trials = 4000 / targets;
    let mut random = Random(seed);
    let mut effects = vec![0.0; targets + 1];
    effects[1] = -0.03;
    let mut covered = 0;
    for _ in 0..trials {
        let sides = experiment(&mut random, noise, &effects, blocks);
        let others: Vec<&[_]> = sides[1..].iter().map(Vec::as_slice).collect();
        for (estimate, effect) in estimates(&sides[0], &others).iter().zip(&effects[1..]) {
            let (low, high) = estimate.expect("complete blocks").interval(0.95);
            covered += usize::from(low <= effect.exp() && effect.exp() <= high);
        }
    }
    covered as f64 / (trials * targets) as f64
}

#[test]
fn intervals_cover_the_truth_as_often_as_they_say() {
    for (targets, blocks) in [(1, 2), (1, 3), (2, 3), (5, 3), (5, 4), (1, 5), (5, 5), (1, 10)] {
        let share = coverage(7, Noise::Normal, targets, blocks);
        assert!((0.93..=0.97).contains(&share), "{targets} targets, {blocks} blocks: {share}");
    }
}

#[test]
fn blocks_in_shuffled_order_stand_drift() {
    for (targets, blocks) in [(1, 3), (5, 3), (1, 5), (5, 5), (1, 10)] {
        let share = coverage(8, Noise::Drift, targets, blocks);
        assert!((0.92..=0.98).contains(&share), "{targets} targets, {blocks} blocks: {share}");
    }
}

#[test]
fn outliers_and_heavy_tails_do_not_narrow_intervals() {
    for noise in [Noise::Outliers, Noise::HeavyTails] {
        for (targets, blocks) in [(1, 3), (5, 3), (1, 5), (5, 5), (1, 10)] {
            let share = coverage(9, noise, targets, blocks);
            assert!((0.93..=0.99).contains(&share), "{targets} targets, {blocks} blocks: {share}");
        }
    }
}

/// Pooling would be wrong here; the check of the variances' ratio mostly refuses it. Without the
/// check these intervals cover the truth in 81% of cases.
#[test]
fn unequal_noise_is_mostly_not_pooled() {
    for blocks in [3, 4] {
        let share = coverage(13, Noise::NoisyBase, 5, blocks);
        assert!((0.90..=0.97).contains(&share), "{blocks} blocks: {share}");
    }
}

#[test]
fn signed_rank_intervals_cover_too() {
    let mut random = Random(10);
    for blocks in [6, 10] {
        let trials = 4000;
        let covered = (0..trials)
            .filter(|_| {
                let differences: Vec<f64> = (0..blocks).map(|_| random.normal()).collect();
                let shift = rank::shift(&differences, 0.95).expect("six or more");
                shift.low <= 0.0 && 0.0 <= shift.high
            })
            .count();
        let share = covered as f64 / f64::from(trials);
        assert!((0.94..=0.98).contains(&share), "{blocks} blocks: {share}");
    }
}

/// How many reports are simulated.
const REPORTS: u32 = 600;

/// What a report of 3 targets x 14 microbenchmarks claims wrongly and rightly.
struct Claims {
    /// The share of reports with a wrong `faster` or `slower`.
    wrong_words: f64,
    /// Mean share of wrong ones among the differences called out.
    false_discoveries: f64,
    /// The share of real effects that got the right word.
    found: f64,
    /// The share of words `same` among targets without an effect.
    same: f64,
}

/// The first `real` microbenchmarks of the first target are truly 6% slower.
fn claims(seed: u64, blocks: usize, real: usize) -> Claims {
    let rows = 14;
    let rule = Rule::default();
    let mut random = Random(seed);
    let mut sums = Claims { wrong_words: 0.0, false_discoveries: 0.0, found: 0.0, same: 0.0 };
    for _ in 0..REPORTS {
        let mut all = Vec::new();
        for row in 0..rows {
            let effect = if row < real { -0.06 } else { 0.0 };
            let sides = experiment(&mut random, Noise::Normal, &[0.0, effect, 0.0, 0.0], blocks);
            let others: Vec<&[_]> = sides[1..].iter().map(Vec::as_slice).collect();
            let row = estimates(&sides[0], &others);
            all.extend(row.iter().zip([effect, 0.0, 0.0]).map(|(e, truth)| (e.expect("e"), truth)));
        }
        let p_values: Vec<f64> = all.iter().map(|(estimate, _)| estimate.p_value()).collect();
        let (mut called, mut wrong, mut wrong_words) = (0.0, 0.0, false);
        for ((estimate, truth), p) in all.iter().zip(benjamini_hochberg(&p_values)) {
            let verdict = verdict(estimate, p, &rule);
            called += f64::from(u8::from(p <= rule.alpha));
            wrong += f64::from(u8::from(p <= rule.alpha && *truth == 0.0));
            if *truth != 0.0 {
                let right = verdict == Verdict::Slower;
                sums.found += f64::from(u8::from(right)) / real as f64;
            } else {
                wrong_words |= matches!(verdict, Verdict::Faster | Verdict::Slower);
                let same = f64::from(u8::from(verdict == Verdict::Same));
                sums.same += same / (3 * rows - real) as f64;
            }
        }
        sums.wrong_words += f64::from(u8::from(wrong_words));
        sums.false_discoveries += if called > 0.0 { wrong / called } else { 0.0 };
    }
    let trials = f64::from(REPORTS);
    Claims {
        wrong_words: sums.wrong_words / trials,
        false_discoveries: sums.false_discoveries / trials,
        found: sums.found / trials,
        same: sums.same / trials,
    }
}

#[test]
fn false_discoveries_are_rare_and_real_ones_are_found() {
    // Without any effect the true rate is just below 5%: three standard errors of the simulation.
    let limit = 0.05 + 3.0 * (0.05 * 0.95 / f64::from(REPORTS)).sqrt();
    for blocks in [3, 5] {
        let null = claims(11, blocks, 0);
        assert!(null.false_discoveries <= limit, "{blocks} blocks: {}", null.false_discoveries);
        assert!(null.wrong_words <= 0.05, "{blocks} blocks: {}", null.wrong_words);
    }
    let real = claims(12, 5, 7);
    assert!(real.false_discoveries <= 0.05, "{}", real.false_discoveries);
    assert!(real.wrong_words <= 0.05, "{}", real.wrong_words);
    assert!(real.found >= 0.8, "found only {}", real.found);
    assert!(real.same >= 0.9, "`same` shown only for {}", real.same);
}
