//! Which blocks are still to be run, and in which order each visits the targets. Pure.
//!
//! A *block* is the base and every target that lacks pairs, each once, back to back, in an order
//! shuffled by a seed; a *pair* is one item (a microbenchmark with a number of clients) that was
//! measured for a target and for the base in the same block. Only pairs are compared, so drift of
//! the host between blocks cancels (METHODOLOGY.md).
//!
//! Every visit of a block runs the same items in the same order: writes leave bloat and caches
//! behind, which the items after them must find alike on every target.

use jiff::Timestamp;

use crate::hash::Digest;

/// A block that rests longer than this is not resumed: the host may have drifted.
pub const RESUME_SECONDS: i64 = 15 * 60;

/// One measurement of every visit: a microbenchmark with a number of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The microbenchmark.
    pub microbenchmark: String,
    /// Clients.
    pub threads: u32,
    /// Whether it changes the data.
    pub writes: bool,
}

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Demand {
    /// Names of the targets, the base first.
    pub targets: Vec<String>,
    /// The items in run order.
    pub items: Vec<Item>,
    /// How many pairs each target needs of each item.
    pub repeats: u32,
    /// Whether each item needs what all before it did: then a visit runs all of them or none.
    pub chained: bool,
    /// The experiment's seed.
    pub seed: u64,
    /// The host's id.
    pub host: String,
    /// The kernel's boot id.
    pub boot: String,
    /// Now.
    pub now: Timestamp,
}

/// A run of the past that still counts: target, item, host and workload are those of the demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// Its block.
    pub block: u32,
    /// Its place in the block.
    pub place: u32,
    /// Index of the target in [`Demand::targets`].
    pub target: usize,
    /// Index of the item in [`Demand::items`].
    pub item: usize,
    /// The boot in which it ran.
    pub boot: String,
    /// When it was over.
    pub finished: Timestamp,
    /// Whether it was measured.
    pub ok: bool,
}

/// A block to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number, rising per experiment and host.
    pub number: u32,
    /// The seed of its order.
    pub seed: u64,
    /// Whether it goes on with a block that was interrupted.
    pub resumed: bool,
    /// The visits in order.
    pub visits: Vec<Visit>,
}

/// One target in a block: one server start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Index of the target.
    pub target: usize,
    /// Its place in the block, from 0.
    pub place: u32,
    /// Indexes of the items, in run order.
    pub items: Vec<usize>,
}

/// The blocks still to be run. `last_block` is the highest number that any record of the experiment
/// on this host has, whether it still counts or not.
pub fn schedule(demand: &Demand, past: &[Past], last_block: Option<u32>) -> Vec<Block> {
    let mut need = needs(demand, past);
    let mut blocks = Vec::new();
    let mut next = last_block.map_or(1, |block| block + 1);
    if let Some(block) = last_block.and_then(|last| resume(demand, past, &need, last)) {
        settle(&mut need, &block, past);
        blocks.push(block);
    }
    while let Some(block) = fresh(demand, &need, next) {
        settle(&mut need, &block, &[]);
        blocks.push(block);
        next += 1;
    }
    blocks
}

/// Pairs that are lacking, by target and item; the base needs none of its own.
fn needs(demand: &Demand, past: &[Past]) -> Vec<Vec<u32>> {
    let mut need = vec![vec![demand.repeats; demand.items.len()]; demand.targets.len()];
    need[0].fill(0);
    // An experiment with nothing but the base measures the base.
    if demand.targets.len() == 1 {
        need[0].fill(demand.repeats);
    }
    for (target, row) in need.iter_mut().enumerate() {
        for (item, need) in row.iter_mut().enumerate() {
            let mut blocks: Vec<u32> = past
                .iter()
                .filter(|run| run.ok && (run.target, run.item) == (target, item))
                .map(|run| run.block)
                .filter(|block| measured(past, *block, 0, item))
                .collect();
            blocks.sort_unstable();
            blocks.dedup();
            *need = need.saturating_sub(u32::try_from(blocks.len()).unwrap_or(u32::MAX));
        }
    }
    need
}

fn measured(past: &[Past], block: u32, target: usize, item: usize) -> bool {
    past.iter().any(|run| run.ok && (run.block, run.target, run.item) == (block, target, item))
}

/// Takes what a block will bring off the needs.
fn settle(need: &mut [Vec<u32>], block: &Block, past: &[Past]) {
    let base_runs = |item| {
        let visited = block.visits.iter().any(|v| v.target == 0 && v.items.contains(&item));
        visited || measured(past, block.number, 0, item)
    };
    let runs =
        |target, item| block.visits.iter().any(|v| v.target == target && v.items.contains(&item));
    // A target that was visited before its base was gets its pair when the base is visited.
    for (target, row) in need.iter_mut().enumerate() {
        for (item, need) in row.iter_mut().enumerate() {
            let new =
                runs(target, item) || (runs(0, item) && measured(past, block.number, target, item));
            if new && base_runs(item) {
                *need = need.saturating_sub(1);
            }
        }
    }
}

/// A new block, if anything is lacking.
fn fresh(demand: &Demand, need: &[Vec<u32>], number: u32) -> Option<Block> {
    let lacks = |item: &usize| need.iter().any(|row| row[*item] > 0);
    let mut items: Vec<usize> = (0..demand.items.len()).filter(lacks).collect();
    if items.is_empty() {
        return None;
    }
    if demand.chained {
        items = (0..demand.items.len()).collect();
    }
    let lacking = |target: usize| target == 0 || need[target].iter().any(|need| *need > 0);
    let visits = order(demand, number, lacking)
        .into_iter()
        .zip(0..)
        .map(|(target, place)| Visit { target, place, items: items.clone() })
        .collect();
    Some(Block { number, seed: block_seed(demand, number), resumed: false, visits })
}

/// What is left of the last block, if it may be gone on with: same boot, rested less than
/// [`RESUME_SECONDS`], and the base measured in it or still to be.
fn resume(demand: &Demand, past: &[Past], need: &[Vec<u32>], number: u32) -> Option<Block> {
    let runs: Vec<&Past> = past.iter().filter(|run| run.block == number).collect();
    let last = runs.iter().max_by_key(|run| run.finished)?;
    let rest = demand.now.as_second() - last.finished.as_second();
    if last.boot != demand.boot || !(0..RESUME_SECONDS).contains(&rest) {
        return None;
    }
    let ran = |target: usize, item: usize| {
        runs.iter().any(|run| (run.target, run.item) == (target, item))
    };
    // The block's items: those that its longest visit had, or all, if no visit was finished.
    let visited = |target: usize| (0..demand.items.len()).any(|item| ran(target, item));
    let items: Vec<usize> = (0..demand.items.len())
        .filter(|item| demand.chained || need.iter().any(|row| row[*item] > 0))
        .filter(|item| !base_is_over(demand, &ran) || ran(0, *item))
        .collect();
    let mut place = runs.iter().map(|run| run.place).max()? + 1;
    let mut visits = Vec::new();
    let lacking = |target: usize| target == 0 || need[target].iter().any(|need| *need > 0);
    for target in order(demand, number, lacking) {
        let left: Vec<usize> = items.iter().copied().filter(|item| !ran(target, *item)).collect();
        let wrote =
            (0..demand.items.len()).any(|item| demand.items[item].writes && ran(target, item));
        if left.is_empty() || visited(target) && wrote {
            // Done; or its data were changed by items whose traces a new start would not have.
            continue;
        }
        visits.push(Visit { target, place, items: left });
        place += 1;
    }
    let block = Block { number, seed: block_seed(demand, number), resumed: true, visits };
    let mut after = need.to_vec();
    settle(&mut after, &block, past);
    (after != need).then_some(block)
}

/// Whether the base's visit in this block is over: it ran the last item, or wrote.
fn base_is_over(demand: &Demand, ran: &impl Fn(usize, usize) -> bool) -> bool {
    (0..demand.items.len())
        .any(|item| ran(0, item) && (demand.items[item].writes || item + 1 == demand.items.len()))
}

/// The targets that `lacking` accepts, in the order of the block. Two targets alternate, which
/// balances their places; more are shuffled (Fisher and Yates).
fn order(demand: &Demand, number: u32, lacking: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut targets: Vec<usize> = (0..demand.targets.len()).filter(|t| lacking(*t)).collect();
    if targets.len() == 2 {
        let first = Random::new(demand.seed).below(2);
        if (first + u64::from(number)) % 2 == 1 {
            targets.reverse();
        }
        return targets;
    }
    // By name, so that the order does not depend on the order in the matrix file.
    targets.sort_by(|a, b| demand.targets[*a].cmp(&demand.targets[*b]));
    let mut random = Random::new(block_seed(demand, number));
    for index in (1..targets.len()).rev() {
        targets.swap(index, random.below(index as u64 + 1) as usize);
    }
    targets
}

/// The seed of a block: the first 53 bits of the SHA-256 of `SEED/HOST/NUMBER`. 53 bits, because
/// JSON readers that know only doubles must get it right.
fn block_seed(demand: &Demand, number: u32) -> u64 {
    let digest = Digest::of(format!("{}/{}/{number}", demand.seed, demand.host).as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest.0[..8]);
    u64::from_be_bytes(bytes) >> 11
}

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014):
/// ten lines that give the same order on every machine and with every version of every library.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound` (not 0), each equally likely: what would favour small ones is drawn
    /// again.
    pub fn below(&mut self, bound: u64) -> u64 {
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let draw = self.next_u64();
            if draw < limit {
                return draw % bound;
            }
        }
    }
}

#[cfg(test)]
mod tests;
