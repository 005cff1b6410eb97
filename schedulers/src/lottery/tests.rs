use super::*;
use crate::testing::Bench;
use alloc::vec::Vec;
use proptest::prelude::*;

fn bench(params: Params, weights: &[u32]) -> Bench {
    let mut bench = Bench::new(policy(params), Metric::Cycles);
    for (client, &weight) in (0..).zip(weights) {
        bench.add(client, ClientParams::weighted(weight));
    }
    bench
}

fn backlogged(seed: u64, weights: &[u32]) -> Bench {
    let mut bench = bench(Params { seed, ..Params::default() }, weights);
    (0..weights.len() as u32).for_each(|client| bench.ready(client));
    bench
}

fn winners(seed: u64) -> Vec<u32> {
    let mut bench = backlogged(seed, &[5, 3, 2]);
    (0..100).filter_map(|_| bench.serve(|_| 10)).collect()
}

#[test]
fn the_same_seed_draws_the_same_winners_and_another_one_others() {
    assert_eq!(winners(1), winners(1));
    assert_ne!(winners(1), winners(2));
    assert_eq!(winners(0).len(), 100, "no seed stops the generator");
}

#[test]
fn each_core_draws_numbers_of_its_own() {
    let of_core = |core| {
        let mut order = Lottery::new(Params::default(), core);
        (0..8).map(|_| order.next_number()).collect::<Vec<_>>()
    };
    assert_ne!(of_core(0), of_core(1));
}

#[test]
fn a_seed_of_0_is_that_of_the_place() {
    let of_place = Setup { seed: 99, ..Setup::default() };
    assert_eq!(Params::of(&of_place).seed, 99);
    assert_eq!(Params::of(&Setup { values: &[("seed", 7)], ..of_place }).seed, 7);
}

#[test]
fn who_is_not_ready_is_never_drawn() {
    let mut bench = bench(Params::default(), &[1, 1, 1]);
    bench.ready(0);
    bench.ready(1);
    bench.core.client_suspended(0, 0);
    assert_eq!(bench.choose(), Some(1));
    assert_eq!(bench.choose(), None);
    assert_eq!(bench.core.poll_ready(0), Readiness::Never);
}

#[test]
fn sleeping_earns_nothing() {
    let mut bench = bench(Params::default(), &[1, 1]);
    bench.ready(0);
    bench.run_until(1_000_000, |_| 100);
    bench.ready(1);
    bench.used.clear();
    bench.run_until(2_000_000, |_| 100);
    assert!(bench.share(1).abs_diff(5000) <= 200, "{:?}", bench.used);
}

#[test]
fn a_charge_that_comes_late_still_takes_tickets() {
    let mut bench = backlogged(1, &[1, 1]);
    let late = bench.choose().unwrap();
    bench.ready(late);
    bench.charge(late, 1_000_000_000);
    let wins = (0..1000).filter(|_| bench.serve(|_| 1) == Some(late)).count();
    assert!(wins <= 1, "{wins} of 1000");
}

#[test]
fn a_newcomer_is_expected_to_cost_what_others_cost() {
    let mut bench = bench(Params::default(), &[1]);
    bench.ready(0);
    bench.run_until(1_000_000, |_| 1000);
    let first = (1..100).filter(|&client| {
        bench.add(client, ClientParams::weighted(1));
        bench.ready(client);
        let chosen = bench.serve(|_| 1000);
        bench.core.remove_client(client, bench.now_ns).unwrap();
        chosen == Some(client)
    });
    let first = first.count();
    assert!((25..=75).contains(&first), "{first} of 99 newcomers went first");
}

proptest! {
    /// Five standard deviations of 20,000 draws, and the rounding of costs.
    #[test]
    fn consumption_follows_the_weights_whatever_a_turn_costs(
        seed in any::<u64>(), weights in prop::collection::vec(1u32..20, 2..5), costs in prop::collection::vec(50u64..2000, 5),
    ) {
        let mut bench = backlogged(seed, &weights);
        for _ in 0..20_000 {
            bench.serve(|client| costs[client as usize]);
        }
        let sum: u32 = weights.iter().sum();
        for (client, &weight) in (0..).zip(&weights) {
            let expected = 10_000 * u64::from(weight) / u64::from(sum);
            prop_assert!(bench.share(client).abs_diff(expected) <= 400, "client {client}: {} not {expected}", bench.share(client));
        }
    }

    #[test]
    fn the_drum_holds_exactly_the_tickets_of_the_ready(
        steps in prop::collection::vec((0u32..8, 0u8..5, 1u32..100, 0u64..10_000), 1..300),
    ) {
        let mut order = Lottery::new(Params::default(), 0);
        let mut ready = [false; 8];
        (0..8).for_each(|client| order.add(client, &ClientParams::weighted(1), 0).unwrap());
        for (client, step, weight, cost) in steps {
            let is_ready = &mut ready[client as usize];
            match step {
                0 if !*is_ready => { order.enter(client, 0); *is_ready = true; }
                1 if *is_ready => { order.leave(client, 0); *is_ready = false; }
                2 => order.update(client, &ClientParams::weighted(weight), 0).unwrap(),
                3 => order.charge(client, cost, 0),
                _ => if let Some(chosen) = order.take(0) { ready[chosen as usize] = false; },
            }
            let held: u128 = (0..8).filter(|&client| ready[client as usize])
                .map(|client| u128::from(order.clients.get(client).unwrap().tickets())).sum();
            prop_assert_eq!(order.ready.total(), held);
        }
    }
}
