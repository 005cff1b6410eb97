//! Weighted fair sharing by itself: shares, debts, credits and bounds, on a bench without an engine.
//!
//! A `Bench` of `testing` has one or more clients with weights, charges what a client used after it was served, and notes who had how
//! much. Costs are numbers that a test chooses for each client and turn; time goes on by them.
//!
//! The tests hold that weights divide the cycles whatever a message costs, that sleep gives no credit beyond a moment's, that late
//! charges count, that busy periods end as they must, that nobody owes more than the largest debt, that inline service is bounded by the
//! slack, that bad weights are refused, and that service on other cores counts. Two properties hold invariant I4 for any two backlogged
//! clients, and that nobody waits for ever.
//!
//! Real costs, groups and other policies are left out: the engine's tests and the files beside this folder have them.

use super::*;
use crate::order::Core;
use crate::policy::{CorePolicy, Record};
use crate::testing::Bench;
use alloc::vec;
use proptest::prelude::*;

fn bench(params: Params, weights: &[u32]) -> Bench {
    let mut bench = Bench::new(policy(params), Metric::Cycles);
    for (client, &weight) in (0..).zip(weights) {
        bench.add(client, ClientParams::weighted(weight));
    }
    bench
}

fn backlogged(weights: &[u32]) -> Bench {
    let mut bench = bench(Params::default(), weights);
    (0..weights.len() as u32).for_each(|client| bench.ready(client));
    bench
}

#[test]
fn weights_50_33_17_divide_the_cycles_whatever_a_message_costs() {
    let mut bench = backlogged(&[50, 33, 17]);
    bench.run_until(100_000_000, |client| [700, 11_000, 300][client as usize]);
    for (client, expected) in [(0, 5000), (1, 3300), (2, 1700)] {
        assert!(bench.share(client).abs_diff(expected) <= 2, "{:?}", bench.used);
    }
}

#[test]
fn a_client_that_slept_gets_no_credit() {
    let mut bench = bench(Params::default(), &[1, 1]);
    bench.ready(0);
    bench.run_until(1_000_000, |_| 100);
    bench.ready(1);
    bench.used.clear();
    bench.run_until(1_100_000, |_| 100);
    assert!(bench.used(0).abs_diff(bench.used(1)) <= 200, "{:?}", bench.used);
}

#[test]
fn a_client_that_sleeps_just_before_its_charge_still_pays() {
    let mut bench = backlogged(&[1, 1]);
    while bench.now_ns < 1_000_000 {
        let client = bench.choose().unwrap();
        if client == 1 {
            // Goes to sleep unpaid, and is back at once after the late charge.
            bench.now_ns += 1000;
            bench.core.client_suspended(1, bench.now_ns);
            bench.charge(1, 1000);
            bench.ready(1);
        } else {
            bench.now_ns += 100;
            bench.charge(0, 100);
            bench.ready(0);
        }
    }
    assert!(bench.used(1) <= bench.used(0) + 1000 + 100, "{:?}", bench.used);
}

#[test]
fn a_charge_that_comes_after_the_client_woke_still_counts() {
    let mut bench = backlogged(&[1, 1]);
    let late = bench.choose().unwrap();
    bench.ready(late);
    let other = bench.choose().unwrap();
    assert_ne!(late, other);
    bench.charge(late, 1000);
    bench.charge(other, 10);
    bench.ready(other);
    for _ in 0..99 {
        assert_eq!(bench.serve(|_| 10), Some(other));
    }
    // Both tags are equal now, and the late one stood there first.
    assert_eq!(bench.serve(|_| 10), Some(late));
}

#[test]
fn a_busy_period_ends_with_virtual_time_at_the_largest_finish_tag() {
    let mut core = Core::new(WeightedFair::new(Params::default()), Metric::Cycles);
    core.add_client(0, &ClientParams::weighted(4), 0).unwrap();
    core.add_client(1, &ClientParams::weighted(1), 0).unwrap();
    // Inline service only: no choice moves virtual time.
    core.resource_record(0, Record { kind: Metric::Cycles, amount: 1000 }, 0);
    assert_eq!(core.order().virtual_time(), 0);
    assert_eq!(core.schedule(0), None);
    assert_eq!(core.order().virtual_time(), 250 << crate::tag::FRACTION_BITS);
}

#[test]
fn no_busy_period_ends_while_a_client_is_being_served() {
    let mut bench = bench(Params::default(), &[1, 1]);
    bench.ready(0);
    assert_eq!(bench.choose(), Some(0));
    // Far ahead by inline service, and woken while client 0, which has had nothing yet, is being served.
    bench.charge(1, 1_000_000);
    bench.ready(1);
    bench.charge(0, 10);
    bench.ready(0);
    for _ in 0..1000 {
        assert_eq!(bench.serve(|_| 10), Some(0));
    }
}

#[test]
fn a_reset_forgives_what_inline_service_ran_up() {
    let params = Params { reset_ns: 1000, ..Params::default() };
    let mut bench = bench(params, &[1, 1]);
    bench.ready(0);
    bench.ready(1);
    bench.charge(1, 1_000_000);
    assert_eq!(bench.serve(|_| 500), Some(0));
    assert_eq!(bench.serve(|_| 500), Some(0));
    assert_eq!(bench.now_ns, 1000);
    let turns = [bench.serve(|_| 500), bench.serve(|_| 500)];
    assert!(turns.contains(&Some(1)), "{turns:?}");
}

#[test]
fn a_waking_client_owes_no_more_than_the_largest_debt() {
    let turns_until_served = |debt_max| {
        let params = Params { debt_max, ..Params::default() };
        let mut bench = bench(params, &[1, 2]);
        bench.ready(0);
        bench.serve(|_| 10);
        // Work that another scheduler let it do, while client 0 was backlogged.
        bench.charge(1, 100_000);
        bench.ready(1);
        (0..20_000).find(|_| bench.serve(|_| 10) == Some(1)).unwrap()
    };
    assert!((4999..=5001).contains(&turns_until_served(0)));
    assert!((4999..=5001).contains(&turns_until_served(200_000)));
    assert!((49..=51).contains(&turns_until_served(1000)));
}

#[test]
fn zero_costs_and_records_of_other_metrics_do_not_starve_anyone() {
    let mut bench = backlogged(&[1, 1, 1]);
    for turn in 1..=30 {
        let client = bench.choose().unwrap();
        let bytes = Record { kind: Metric::Bytes, amount: 1 << 40 };
        bench.core.resource_record(client, bytes, 0);
        bench.ready(client);
        let turns = (0..3).map(|client| bench.core.client_statistics(client).unwrap().chosen);
        assert!(turns.clone().max().unwrap() - turns.min().unwrap() <= 1, "turn {turn}");
    }
}

#[test]
fn inline_service_is_granted_within_the_slack_and_no_further() {
    let params = Params { slack: 500, ..Params::default() };
    let mut bench = bench(params, &[1, 10]);
    bench.ready(0);
    assert!(bench.core.entitled(1, 0));
    bench.charge(1, 500);
    assert!(bench.core.entitled(1, 0));
    bench.charge(1, 1);
    assert!(!bench.core.entitled(1, 0));
    assert_eq!(bench.choose(), Some(0));
    assert!(bench.core.entitled(1, 0), "nobody waits");
    bench.core.client_suspended(1, 0);
    assert!(!bench.core.entitled(1, 0), "suspended");
}

#[test]
fn weights_outside_the_range_are_refused() {
    let mut bench = bench(Params::default(), &[1]);
    for weight in [0, 1_000_001] {
        let params = ClientParams::weighted(weight);
        assert_eq!(bench.core.add_client(1, &params, 0), Err(PolicyError::InvalidParams));
        assert_eq!(bench.core.update_client(0, &params, 0), Err(PolicyError::InvalidParams));
    }
    assert_eq!(bench.core.add_client(1, &ClientParams::weighted(1_000_000), 0), Ok(()));
}

#[test]
fn shares_recover_at_once_after_weights_changed_a_thousand_times() {
    let mut bench = backlogged(&[50, 33, 17]);
    for round in 0..1000 {
        for client in 0..3 {
            let weight = 1 + (round * 7919 + client * 104_729) % 1000;
            let now_ns = bench.now_ns;
            bench.core.update_client(client, &ClientParams::weighted(weight), now_ns).unwrap();
        }
        bench.serve(|_| 1000);
    }
    for (client, weight) in [(0, 50), (1, 33), (2, 17)] {
        bench.core.update_client(client, &ClientParams::weighted(weight), bench.now_ns).unwrap();
    }
    bench.used.clear();
    bench.run_until(bench.now_ns + 10_000_000, |_| 1000);
    for (client, expected) in [(0, 5000), (1, 3300), (2, 1700)] {
        // The worst tag distance left over is one charge at weight 1.
        assert!(bench.share(client).abs_diff(expected) <= 50, "{:?}", bench.used);
    }
}

/// A client's next step after it was served.
#[derive(Clone, Copy, Debug)]
enum After {
    ReadyThenCharge,
    ChargeThenReady,
    Sleep,
}

/// Service of two clients since both are backlogged, times the product of their weights.
#[derive(Clone, Copy, Default)]
struct Difference {
    now: i128,
    least: i128,
    most: i128,
}

proptest! {
    /// Checks invariant I4: over any interval in which f and m are both backlogged, |W_f/w_f - W_m/w_m| <= L_f/w_f +
    /// L_m/w_m. Others come and go meanwhile.
    #[test]
    fn service_of_two_backlogged_clients_differs_by_at_most_one_charge_each(
        weights in prop::collection::vec(1u32..1000, 2..7),
        steps in prop::collection::vec((0u64..20_000, 0u8..8, 0u32..7), 1..600),
    ) {
        let clients = weights.len();
        let mut bench = bench(Params::default(), &weights);
        let mut is_backlogged = vec![false; clients];
        let mut charge_max = vec![0u64; clients];
        let mut differences = vec![vec![Difference::default(); clients]; clients];
        for (cost, after, waker) in steps {
            let waker = waker as usize % clients;
            if !is_backlogged[waker] {
                bench.ready(waker as u32);
                is_backlogged[waker] = true;
                differences[waker].fill(Difference::default());
                differences.iter_mut().for_each(|of_other| of_other[waker] = Difference::default());
            }
            let chosen = bench.choose().expect("somebody is ready") as usize;
            prop_assert!(is_backlogged[chosen]);
            charge_max[chosen] = charge_max[chosen].max(cost);
            let after = [After::ReadyThenCharge, After::ChargeThenReady, After::Sleep][usize::from(after.min(5) / 2).min(2)];
            match after {
                After::ReadyThenCharge => { bench.ready(chosen as u32); bench.charge(chosen as u32, cost); }
                After::ChargeThenReady => { bench.charge(chosen as u32, cost); bench.ready(chosen as u32); }
                After::Sleep => bench.charge(chosen as u32, cost),
            }
            for other in (0..clients).filter(|&other| other != chosen && is_backlogged[other]) {
                let step = i128::from(cost) * i128::from(weights[other]);
                for (f, m, step) in [(chosen, other, step), (other, chosen, -step)] {
                    let difference = &mut differences[f][m];
                    difference.now += step;
                    difference.least = difference.least.min(difference.now);
                    difference.most = difference.most.max(difference.now);
                    let (wf, wm) = (i128::from(weights[f]), i128::from(weights[m]));
                    let bound = i128::from(charge_max[f]) * wm + i128::from(charge_max[m]) * wf;
                    // Fixed point: less than 1e-5 per unit of tag here, times both weights.
                    let rounding = wf * wm / 100_000 + 1;
                    prop_assert!(difference.most - difference.least <= bound + rounding);
                }
            }
            if let After::Sleep = after {
                is_backlogged[chosen] = false;
            }
        }
    }

    /// Checks that between two turns of f, client m has at most ceil(Lmax * w_m / (Lmin * w_f)) + 1.
    #[test]
    fn virtual_time_never_falls_and_nobody_waits_for_ever(
        weights in prop::collection::vec(1u32..20, 1..8),
        costs in prop::collection::vec(1u64..10, 1..50),
    ) {
        let mut core = Core::new(WeightedFair::new(Params::default()), Metric::Cycles);
        for (client, &weight) in (0..).zip(&weights) {
            core.add_client(client, &ClientParams::weighted(weight), 0).unwrap();
            core.client_ready(client, 0);
        }
        let mut before = 0;
        let mut last_turn = vec![0; weights.len()];
        for turn in 0..3000 {
            let client = core.schedule(0).unwrap();
            last_turn[client as usize] = turn;
            let amount = costs[turn % costs.len()];
            core.resource_record(client, Record { kind: Metric::Cycles, amount }, 0);
            core.client_ready(client, 0);
            prop_assert!(core.order().virtual_time() >= before);
            before = core.order().virtual_time();
            for (&last, &weight) in last_turn.iter().zip(&weights) {
                let others: u32 = weights.iter().map(|other| (9 * other).div_ceil(weight) + 1).sum();
                prop_assert!(turn - last <= others as usize);
            }
        }
    }
}

#[test]
fn service_on_other_cores_counts_here() {
    let mut order = WeightedFair::new(Params::default());
    for client in [0, 1] {
        order.add(client, &ClientParams::weighted(1), 0).unwrap();
        order.enter(client, 0);
    }
    order.charge_elsewhere(0, 100, 0);
    let mut served = [0u64; 2];
    while served.iter().sum::<u64>() < 100 {
        let client = order.take(0).unwrap();
        served[client as usize] += 1;
        order.charge(client, 1, 0);
        order.enter(client, 0);
    }
    assert_eq!(served, [0, 100], "the one that got 100 elsewhere waits until the other has as much");
}

#[test]
fn a_core_of_ones_own_is_not_paid_for_with_more_than_the_largest_debt() {
    let mut order = WeightedFair::new(Params { debt_max: 10, ..Params::default() });
    for client in [0, 1] {
        order.add(client, &ClientParams::weighted(1), 0).unwrap();
        order.enter(client, 0);
    }
    order.charge_elsewhere(0, 1_000_000, 0);
    let mut other = 0;
    loop {
        match order.take(0).unwrap() {
            0 => break,
            _ => other += 1,
        }
        order.charge(1, 1, 0);
        order.enter(1, 0);
        assert!(other <= 11, "it waits for more than its largest debt");
    }
    assert!(other >= 9, "it waited for {other} only");
}

#[test]
fn a_moment_of_sleep_is_caught_up_with_as_far_as_the_credit_goes() {
    let served_first = |credit_max| {
        let mut order = WeightedFair::new(Params { credit_max, ..Params::default() });
        for client in [0, 1] {
            order.add(client, &ClientParams::weighted(1), 0).unwrap();
        }
        order.enter(1, 0);
        for _ in 0..100 {
            assert_eq!(order.take(0), Some(1));
            order.charge(1, 1, 0);
            order.enter(1, 0);
        }
        order.enter(0, 0);
        let mut first = 0;
        while order.take(0) == Some(0) {
            first += 1;
            order.charge(0, 1, 0);
            order.enter(0, 0);
        }
        first
    };
    assert!(served_first(0) <= 2);
    assert!((9..=12).contains(&served_first(10)));
}
