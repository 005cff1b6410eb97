use super::*;
use crate::testing::Bench;
use alloc::vec::Vec;
use proptest::prelude::*;

/// The bench serves a unit per nanosecond.
const CAPACITY_PER_S: u64 = 1_000_000_000;

fn params(weight: u32, reservation_percent: u64, limit_percent: u64) -> ClientParams {
    let percent = CAPACITY_PER_S / 100;
    ClientParams {
        weight,
        reservation_per_s: reservation_percent * percent,
        limit_per_s: limit_percent * percent,
        ..ClientParams::default()
    }
}

fn bench(clients: &[ClientParams]) -> Bench {
    let of_the_machine = Params {
        capacity_per_s: CAPACITY_PER_S,
        ..Params::default()
    };
    let mut bench = Bench::new(policy(of_the_machine), Metric::Cycles);
    for (client, params) in (0..).zip(clients) {
        bench.add(client, *params);
        bench.ready(client);
    }
    bench
}

#[test]
fn without_reservations_the_weights_divide() {
    let mut bench = bench(&[params(50, 0, 0), params(33, 0, 0), params(17, 0, 0)]);
    bench.run_until(10_000_000, |client| [70, 1100, 30][client as usize]);
    for (client, expected) in [(0, 5000), (1, 3300), (2, 1700)] {
        assert!(
            bench.share(client).abs_diff(expected) <= 10,
            "{:?}",
            bench.used
        );
    }
}

#[test]
fn a_reservation_beats_a_small_weight_and_a_limit_a_large_one() {
    let mut bench = bench(&[params(1, 60, 0), params(98, 0, 20), params(1, 0, 0)]);
    bench.run_until(10_000_000, |_| 100);
    for (client, expected) in [(0, 6000), (1, 2000), (2, 2000)] {
        assert!(
            bench.share(client).abs_diff(expected) <= 10,
            "{:?}",
            bench.used
        );
    }
}

#[test]
fn a_reservation_smaller_than_the_share_adds_nothing() {
    let mut bench = bench(&[params(1, 20, 0), params(1, 0, 0)]);
    bench.run_until(10_000_000, |_| 100);
    assert!(bench.share(0).abs_diff(5000) <= 10, "{:?}", bench.used);
}

#[test]
fn a_client_that_slept_does_not_save_its_reservation_up() {
    let mut bench = bench(&[params(1, 50, 0), params(9, 0, 0)]);
    bench.core.client_suspended(0, 0);
    bench.run_until(1_000_000, |_| 100);
    bench.ready(0);
    bench.used.clear();
    bench.run_until(2_000_000, |_| 100);
    assert!(bench.share(0).abs_diff(5000) <= 10, "{:?}", bench.used);
}

#[test]
fn a_client_that_gives_its_reservation_back_is_not_starved() {
    let mut bench = bench(&[params(1, 60, 0), params(1, 0, 0)]);
    bench.run_until(10_000_000, |_| 100);
    bench
        .core
        .update_client(0, &params(1, 0, 0), bench.now_ns)
        .unwrap();
    bench.used.clear();
    bench.run_until(11_000_000, |_| 100);
    assert!(bench.share(0).abs_diff(5000) <= 10, "{:?}", bench.used);
}

#[test]
fn updates_of_the_weight_do_not_cost_the_reservation() {
    let mut bench = bench(&[params(1, 60, 0), params(100, 0, 0)]);
    while bench.now_ns < 1_000_000 {
        bench.serve(|_| 100);
        let weight = 1 + (bench.now_ns / 100 % 2) as u32;
        bench
            .core
            .update_client(0, &params(weight, 60, 0), bench.now_ns)
            .unwrap();
    }
    assert!(bench.share(0) >= 5990, "{:?}", bench.used);
}

#[test]
fn more_than_the_capacity_is_not_promised() {
    let mut bench = bench(&[params(1, 60, 0)]);
    assert_eq!(
        bench.core.add_client(1, &params(1, 41, 0), 0),
        Err(PolicyError::Overcommitted)
    );
    assert_eq!(bench.core.add_client(1, &params(1, 40, 0), 0), Ok(()));
    assert_eq!(
        bench.core.update_client(0, &params(1, 61, 0), 0),
        Err(PolicyError::Overcommitted)
    );
    bench.core.remove_client(1, 0).unwrap();
    assert_eq!(bench.core.update_client(0, &params(1, 100, 0), 0), Ok(()));
    assert_eq!(
        bench.core.add_client(1, &params(1, 9, 8), 0),
        Err(PolicyError::InvalidParams)
    );
}

#[test]
fn a_limited_client_alone_leaves_the_resource_at_rest() {
    let mut bench = bench(&[params(1, 0, 10)]);
    bench.run_until(1_000_000, |_| 100);
    assert!(bench.used(0).abs_diff(100_000) <= 100, "{:?}", bench.used);
}

proptest! {
    /// From the beginning of its backlog a client has at least reservation * (t - (sum of the others' L + the largest) / C) - L,
    /// and over any interval at most max(burst, L) + limit * t + L.
    #[test]
    fn reservations_are_met_and_limits_kept(
        clients in prop::collection::vec((1u32..1000, 0u64..40, prop::option::of(0u64..60), 1u64..2000, 0u64..3000), 1..7),
    ) {
        let mut promised = 0;
        let all: Vec<_> = clients.iter().map(|&(weight, reservation, above, _, burst)| {
            let reservation = if promised + reservation <= 100 { reservation } else { 0 };
            promised += reservation;
            let limit = above.map_or(0, |above| reservation + above);
            ClientParams { burst, ..params(weight, reservation, limit) }
        }).collect();
        let cost = |client: u32| clients[client as usize].3;
        let mut bench = bench(&all);
        let costs: u64 = clients.iter().map(|client| client.3).sum();
        let mut lowest = [0i128; 7];
        while bench.now_ns < 300_000 {
            match bench.choose() {
                Some(chosen) => {
                    bench.now_ns += cost(chosen);
                    bench.charge(chosen, cost(chosen));
                    bench.ready(chosen);
                }
                None => match bench.core.poll_ready(bench.now_ns) {
                    Readiness::At(at_ns) if at_ns > bench.now_ns => bench.now_ns = at_ns,
                    answer => panic!("nothing chosen though {answer:?}"),
                },
            }
            for (client, params) in (0..).zip(&all) {
                let used = u128::from(bench.used(client)) * 1_000_000_000;
                let others = (0..clients.len() as u32).filter(|&other| other != client);
                let delay = costs - cost(client) + others.map(cost).max().unwrap_or(0);
                let flows_in = u128::from(params.limit_per_s) * u128::from(delay);
                let is_promised = u128::from(params.burst) * 1_000_000_000 >= flows_in;
                let due = u128::from(params.reservation_per_s) * u128::from(bench.now_ns.saturating_sub(delay));
                // A nanosecond of rounding where due times become whole.
                let slack = u128::from(cost(client)) * 1_000_000_000 + u128::from(params.reservation_per_s);
                prop_assert!(!is_promised || used + slack >= due, "client {client} of {all:?} at {}: {:?}", bench.now_ns, bench.used);
                if params.limit_per_s == 0 { continue }
                let line = used as i128 - i128::from(params.limit_per_s) * i128::from(bench.now_ns);
                let lowest = &mut lowest[client as usize];
                *lowest = (*lowest).min(line);
                prop_assert!(line - *lowest <= i128::from(params.burst.max(cost(client)) + cost(client)) * 1_000_000_000);
            }
        }
    }
}
