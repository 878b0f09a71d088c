//! Tests of the schedule: examples, then properties over made-up histories.

use proptest::prelude::*;

use super::*;

fn demand(targets: usize, repeats: u32) -> Demand {
    let item = |name: &str, writes| Item { microbenchmark: name.to_owned(), threads: 1, writes };
    Demand {
        targets: (0..targets).map(|t| format!("t{t}")).collect(),
        items: vec![item("point", false), item("range", false), item("update", true)],
        repeats,
        chained: false,
        seed: 7,
        host: "h".to_owned(),
        boot: "boot".to_owned(),
        now: Timestamp::from_second(1_000_000).expect("a time"),
    }
}

/// Everything that these blocks would measure, with `ok` deciding, a minute before now.
fn execute(demand: &Demand, blocks: &[Block], ok: impl Fn(u32, usize, usize) -> bool) -> Vec<Past> {
    let mut past = Vec::new();
    for block in blocks {
        for visit in &block.visits {
            for item in &visit.items {
                past.push(Past {
                    block: block.number,
                    place: visit.place,
                    target: visit.target,
                    item: *item,
                    boot: demand.boot.clone(),
                    finished: Timestamp::from_second(demand.now.as_second() - 60).expect("a time"),
                    ok: ok(block.number, visit.target, *item),
                });
            }
        }
    }
    past
}

fn targets(block: &Block) -> Vec<usize> {
    block.visits.iter().map(|visit| visit.target).collect()
}

fn last(past: &[Past]) -> Option<u32> {
    past.iter().map(|run| run.block).max()
}

#[test]
fn random_is_splitmix64() {
    // The first outputs for seed 1234567, as published with the reference implementation.
    let mut random = Random::new(1_234_567);
    let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
    assert_eq!(
        first,
        [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
    );
    let mut counts = [0; 5];
    for _ in 0..50_000 {
        counts[random.below(5) as usize] += 1;
    }
    // Standard deviation of each count is 89.
    assert!(counts.iter().all(|count: &i32| (count - 10_000).abs() < 450), "{counts:?}");
}

#[test]
fn everything_is_new() {
    let demand = demand(4, 3);
    let blocks = schedule(&demand, &[], None);
    assert_eq!(blocks.iter().map(|block| block.number).collect::<Vec<_>>(), [1, 2, 3]);
    for block in &blocks {
        let mut targets = targets(block);
        assert_eq!(block.visits.iter().map(|v| v.place).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(block.visits.iter().all(|visit| visit.items == [0, 1, 2]));
        targets.sort_unstable();
        assert_eq!(targets, [0, 1, 2, 3]);
        assert!(!block.resumed && block.seed < 1 << 53);
    }
    assert_eq!(blocks, schedule(&demand, &[], None), "the same again");
    let other = Demand { host: "other".to_owned(), ..demand.clone() };
    assert_ne!(blocks[0].seed, schedule(&other, &[], None)[0].seed);
}

#[test]
fn orders_differ_and_do_not_favour_a_place() {
    let demand = demand(3, 600);
    let mut first = [0; 3];
    for block in schedule(&demand, &[], None) {
        first[block.visits[0].target] += 1;
    }
    // 600 blocks, each target first with probability 1/3: sd 11.5.
    assert!(first.iter().all(|count: &i32| (count - 200).abs() < 60), "{first:?}");
}

#[test]
fn two_targets_alternate() {
    let blocks = schedule(&demand(2, 4), &[], None);
    let orders: Vec<_> = blocks.iter().map(targets).collect();
    assert_eq!(orders[0], orders[2]);
    assert_eq!(orders[1], orders[3]);
    assert_ne!(orders[0], orders[1]);
}

#[test]
fn done_is_done() {
    let demand = demand(3, 2);
    let past = execute(&demand, &schedule(&demand, &[], None), |_, _, _| true);
    assert_eq!(schedule(&demand, &past, last(&past)), []);
}

#[test]
fn a_new_target_gets_blocks_with_the_base_only() {
    let small = demand(2, 2);
    let past = execute(&small, &schedule(&small, &[], None), |_, _, _| true);
    let blocks = schedule(&demand(3, 2), &past, last(&past));
    // The last block has rested one minute, so the new target joins it.
    assert_eq!(blocks.len(), 2);
    assert_eq!((blocks[0].number, blocks[0].resumed, targets(&blocks[0])), (2, true, vec![2]));
    assert_eq!(blocks[0].visits[0].place, 2);
    let mut second = targets(&blocks[1]);
    second.sort_unstable();
    assert_eq!((blocks[1].number, second), (3, vec![0, 2]));
}

#[test]
fn a_failed_item_is_tried_again_alone_and_with_the_base() {
    let demand = demand(3, 2);
    let first = schedule(&demand, &[], None);
    let past = execute(&demand, &first, |block, target, item| (block, target, item) != (2, 1, 1));
    let blocks = schedule(&demand, &past, last(&past));
    assert_eq!(blocks.len(), 1);
    assert_eq!(blocks[0].number, 3);
    let mut again = targets(&blocks[0]);
    again.sort_unstable();
    assert_eq!(again, [0, 1]);
    assert!(blocks[0].visits.iter().all(|visit| visit.items == [1]));
}

#[test]
fn a_failed_base_costs_the_pairs_of_its_block() {
    let demand = demand(3, 1);
    let past = execute(&demand, &schedule(&demand, &[], None), |_, target, _| target != 0);
    let blocks = schedule(&demand, &past, last(&past));
    assert_eq!(blocks.len(), 1);
    assert_eq!((blocks[0].number, blocks[0].visits.len()), (2, 3));
}

#[test]
fn an_interrupted_block_is_resumed_in_time_and_boot() {
    let demand = demand(4, 2);
    let blocks = schedule(&demand, &[], None);
    let mut past = execute(&demand, &blocks[..1], |_, _, _| true);
    // Two whole visits and the first item of the third.
    past.truncate(7);
    let resumed = schedule(&demand, &past, Some(1));
    assert!(resumed[0].resumed);
    assert_eq!(resumed[0].visits[0].target, blocks[0].visits[2].target);
    assert_eq!(resumed[0].visits[0].items, [1, 2]);
    assert_eq!(resumed[0].visits[1].target, blocks[0].visits[3].target);
    assert_eq!(resumed[0].visits[1].items, [0, 1, 2]);
    assert_eq!(resumed.iter().map(|b| b.number).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(resumed[1], blocks[1]);

    let later = Demand {
        now: Timestamp::from_second(demand.now.as_second() + RESUME_SECONDS).expect("a time"),
        ..demand.clone()
    };
    let other_boot = Demand { boot: "other".to_owned(), ..demand.clone() };
    for demand in [later, other_boot] {
        let blocks = schedule(&demand, &past, Some(1));
        assert!(blocks.iter().all(|block| !block.resumed && block.number > 1));
        assert!(blocks.iter().all(|block| targets(block).contains(&0)));
    }
}

#[test]
fn a_visit_that_wrote_is_not_resumed() {
    let mut demand = demand(3, 1);
    demand.items.swap(0, 2);
    let blocks = schedule(&demand, &[], None);
    let mut past = execute(&demand, &blocks, |_, _, _| true);
    // The base got through, the first other one only through its first item, which writes.
    let victim = past.iter().find(|run| run.target != 0).expect("one").target;
    past.retain(|run| run.target == 0 || run.target == victim && run.item == 0);
    let again = schedule(&demand, &past, Some(1));
    let other = 3 - victim;
    assert_eq!(targets(&again[0]), [other], "the unvisited target joins the block");
    assert!(targets(&again[1]).contains(&victim), "the other gets a block of its own");
    assert!(again[1].visits.iter().all(|visit| visit.items == [1, 2]), "what it lacks");
}

#[test]
fn records_that_do_not_count_still_number_the_blocks() {
    let blocks = schedule(&demand(2, 1), &[], Some(41));
    assert_eq!(blocks.iter().map(|block| block.number).collect::<Vec<_>>(), [42]);
}

#[test]
fn the_base_alone_is_measured_too() {
    let demand = demand(1, 3);
    let blocks = schedule(&demand, &[], None);
    assert_eq!(blocks.len(), 3);
    let past = execute(&demand, &blocks, |_, _, _| true);
    assert_eq!(schedule(&demand, &past, last(&past)), []);
}

proptest! {
    /// However often and wherever calls are cut off, and whatever fails in between, the calls
    /// after it complete the experiment; every pair counts once; no visit repeats a run.
    #[test]
    fn any_history_completes(
        count in 1usize..5,
        repeats in 1u32..5,
        seed in any::<u64>(),
        cuts in proptest::collection::vec((0usize..40, 0i64..2000, 0u32..8), 0..8),
    ) {
        let mut demand = demand(count, repeats);
        demand.seed = seed;
        let mut past: Vec<Past> = Vec::new();
        for (cut, pause, failing) in cuts {
            let blocks = schedule(&demand, &past, last(&past));
            let mut runs = execute(&demand, &blocks, |b, t, i| {
                (b + t as u32 * 3 + i as u32) % 8 != failing
            });
            runs.truncate(cut);
            past.extend(runs);
            demand.now = Timestamp::from_second(demand.now.as_second() + pause).expect("a time");
        }
        let blocks = schedule(&demand, &past, last(&past));
        for block in &blocks {
            let mut seen = std::collections::BTreeSet::new();
            prop_assert!(!block.visits.is_empty());
            for visit in &block.visits {
                prop_assert!(!visit.items.is_empty());
                prop_assert!(seen.insert(visit.target), "a target twice in a block");
            }
        }
        past.extend(execute(&demand, &blocks, |_, _, _| true));
        let mut keys = std::collections::BTreeSet::new();
        let mut places = std::collections::BTreeMap::new();
        for run in &past {
            prop_assert!(keys.insert((run.block, run.target, run.item)), "run twice: {run:?}");
            let place = places.entry((run.block, run.place)).or_insert(run.target);
            prop_assert_eq!(*place, run.target, "two targets at one place");
        }
        prop_assert_eq!(schedule(&demand, &past, last(&past)), vec![]);
        let pairs = needs(&demand, &past);
        prop_assert!(pairs.iter().flatten().all(|need| *need == 0));
    }
}

#[test]
fn chained_items_are_run_all_or_none() {
    let items = ["l.i0", "l.x", "l.i1"].map(|name| Item {
        microbenchmark: name.to_owned(),
        threads: 1,
        writes: true,
    });
    let demand = Demand { items: items.to_vec(), chained: true, ..demand(2, 1) };
    let blocks = schedule(&demand, &[], None);
    assert_eq!(blocks.len(), 1);
    // The last item of one target failed: the pair is made again with everything before it.
    let past = execute(&demand, &blocks, |_, target, item| (target, item) != (1, 2));
    let later = Demand {
        now: demand.now.checked_add(jiff::Span::new().hours(5)).expect("a time"),
        ..demand.clone()
    };
    for again in [&demand, &later] {
        let blocks = schedule(again, &past, Some(1));
        assert_eq!(blocks.len(), 1, "{blocks:?}");
        assert_eq!(blocks[0].number, 2);
        assert!(blocks[0].visits.iter().all(|visit| visit.items == [0, 1, 2]), "{blocks:?}");
    }
    // A block that was cut off between two visits goes on with the other target, whole.
    let half: Vec<Past> = past.into_iter().filter(|run| run.place == 0).collect();
    let blocks = schedule(&demand, &half, Some(1));
    assert!(blocks[0].resumed, "{blocks:?}");
    assert_eq!(blocks[0].visits[0].items, [0, 1, 2]);
}
