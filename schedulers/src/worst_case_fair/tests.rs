use super::*;
use crate::testing::Bench;
use alloc::vec::Vec;
use proptest::prelude::*;

fn backlogged(weights: &[u32], expected: u64) -> Bench {
    let params = Params { expected, ..Params::default() };
    let mut bench = Bench::new(policy(params), Metric::Cycles);
    for (client, &weight) in (0..).zip(weights) {
        bench.add(client, ClientParams::weighted(weight));
        bench.ready(client);
    }
    bench
}

#[test]
fn a_heavy_client_takes_every_other_turn_instead_of_ten_in_a_row() {
    let weights: Vec<u32> = [10].into_iter().chain([1; 10]).collect();
    let mut bench = backlogged(&weights, 100);
    let turns: Vec<_> = (0..40).map(|_| bench.serve(|_| 100).unwrap()).collect();
    for pair in turns.chunks(2) {
        assert_eq!(pair.iter().filter(|&&client| client == 0).count(), 1, "{turns:?}");
    }
}

#[test]
fn wrong_guesses_shift_turns_but_not_shares() {
    let mut bench = backlogged(&[50, 33, 17], 1);
    let mut turn = 0u64;
    while bench.now_ns < 50_000_000 {
        turn += 1;
        bench.serve(|client| 100 + (turn * 7919 + u64::from(client) * 31) % 2000);
    }
    for (client, expected) in [(0, 5000), (1, 3300), (2, 1700)] {
        assert!(bench.share(client).abs_diff(expected) <= 5, "{:?}", bench.used);
    }
}

#[test]
fn a_client_that_slept_gets_no_credit() {
    let mut bench = backlogged(&[1, 1], 100);
    bench.core.client_suspended(1, 0);
    bench.run_until(1_000_000, |_| 100);
    bench.ready(1);
    bench.used.clear();
    bench.run_until(1_100_000, |_| 100);
    assert!(bench.used(0).abs_diff(bench.used(1)) <= 200, "{:?}", bench.used);
}

#[test]
fn a_client_that_sleeps_just_before_its_charge_still_pays() {
    let mut bench = backlogged(&[1, 1], 100);
    while bench.now_ns < 1_000_000 {
        let client = bench.choose().unwrap();
        let cost = if client == 1 { 1000 } else { 100 };
        bench.now_ns += cost;
        if client == 1 {
            bench.core.client_suspended(1, bench.now_ns);
        }
        bench.charge(client, cost);
        bench.ready(client);
    }
    assert!(bench.used(1) <= bench.used(0) + 1100, "{:?}", bench.used);
}

#[test]
fn what_was_had_on_other_cores_counts_up_to_the_largest_debt() {
    let served_before = |amount, debt_max| {
        let mut order = WorstCaseFair::new(Params { debt_max, ..Params::default() });
        for client in [0, 1] {
            order.add(client, &ClientParams::weighted(1), 0).unwrap();
            order.enter(client, 0);
        }
        order.charge_elsewhere(0, amount, 0);
        let mut other = 0;
        while order.take(0) == Some(1) {
            other += 1;
            order.charge(1, 1, 0);
            order.enter(1, 0);
        }
        other
    };
    assert!((98..=101).contains(&served_before(100, 0)), "the other gets as much here: {}", served_before(100, 0));
    assert!((8..=21).contains(&served_before(1_000_000, 10)), "not more: {}", served_before(1_000_000, 10));
}

proptest! {
    /// Costs differ between clients and the first of each is a wrong guess: still never ahead of the fluid share by
    /// more than one own charge, and behind by no more than one charge of each.
    #[test]
    fn wrong_guesses_never_let_a_client_run_ahead_of_the_fluid_share(
        clients in prop::collection::vec((1u32..100, 1u64..1000), 2..8),
        turns in 1usize..1000,
    ) {
        let weights: Vec<u32> = clients.iter().map(|&(weight, _)| weight).collect();
        let mut bench = backlogged(&weights, 1);
        let charges: u64 = clients.iter().map(|&(_, cost)| cost).sum();
        let all_weights: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        let mut all = 0u64;
        for _ in 0..turns {
            let client = bench.serve(|client| clients[client as usize].1).unwrap();
            all += clients[client as usize].1;
            for (client, &(weight, cost)) in (0..).zip(&clients) {
                let (fluid, used) = (u64::from(weight) * all, bench.used(client) * all_weights);
                prop_assert!(used <= fluid + cost * all_weights + all_weights, "ahead: {:?} of {all}", bench.used);
                prop_assert!(used + (charges + 1) * all_weights >= fluid, "behind: {:?} of {all}", bench.used);
            }
        }
    }

    /// Expectations that hold from the start: the bound of the paper.
    #[test]
    fn with_known_costs_no_client_falls_behind_by_more_than_one_charge(
        weights in prop::collection::vec(1u32..100, 2..8),
        cost in 1u64..1000,
    ) {
        let mut bench = backlogged(&weights, cost);
        let all_weights: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        for turn in 1..500 {
            bench.serve(|_| cost);
            for (client, &weight) in (0..).zip(&weights) {
                let (fluid, used) = (u64::from(weight) * turn * cost, bench.used(client) * all_weights);
                prop_assert!(used <= fluid + cost * all_weights + all_weights, "ahead: {:?}", bench.used);
                prop_assert!(used + cost * all_weights + all_weights >= fluid, "behind: {:?}", bench.used);
            }
        }
    }
}
