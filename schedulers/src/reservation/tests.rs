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
    let of_the_machine = Params { capacity_per_s: CAPACITY_PER_S, ..Params::default() };
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
        assert!(bench.share(client).abs_diff(expected) <= 10, "{:?}", bench.used);
    }
}

#[test]
fn a_reservation_beats_a_small_weight_and_a_limit_a_large_one() {
    let mut bench = bench(&[params(1, 60, 0), params(98, 0, 20), params(1, 0, 0)]);
    bench.run_until(10_000_000, |_| 100);
    for (client, expected) in [(0, 6000), (1, 2000), (2, 2000)] {
        assert!(bench.share(client).abs_diff(expected) <= 10, "{:?}", bench.used);
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
    bench.core.update_client(0, &params(1, 0, 0), bench.now_ns).unwrap();
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
        bench.core.update_client(0, &params(weight, 60, 0), bench.now_ns).unwrap();
    }
    assert!(bench.share(0) >= 5990, "{:?}", bench.used);
}

#[test]
fn more_than_the_capacity_is_not_promised() {
    let mut bench = bench(&[params(1, 60, 0)]);
    assert_eq!(bench.core.add_client(1, &params(1, 41, 0), 0), Err(PolicyError::Overcommitted));
    assert_eq!(bench.core.add_client(1, &params(1, 40, 0), 0), Ok(()));
    assert_eq!(bench.core.update_client(0, &params(1, 61, 0), 0), Err(PolicyError::Overcommitted));
    bench.core.remove_client(1, 0).unwrap();
    assert_eq!(bench.core.update_client(0, &params(1, 100, 0), 0), Ok(()));
    assert_eq!(bench.core.add_client(1, &params(1, 9, 8), 0), Err(PolicyError::InvalidParams));
}

#[test]
fn a_limited_client_alone_leaves_the_resource_at_rest() {
    let mut bench = bench(&[params(1, 0, 10)]);
    bench.run_until(1_000_000, |_| 100);
    assert!(bench.used(0).abs_diff(100_000) <= 100, "{:?}", bench.used);
}

#[test]
fn what_a_client_gets_by_share_does_not_count_towards_its_reservation() {
    let mut bench = bench(&[params(1, 60, 0), params(99, 0, 0)]);
    bench.core.client_suspended(1, 0);
    bench.run_until(1_000_000, |_| 100);
    bench.ready(1);
    bench.used.clear();
    bench.run_until(1_100_000, |_| 100);
    assert!(bench.share(0) >= 5990, "{:?}", bench.used);
}

/// The property's draw for a client: weight, reservation and limit in percent, cost, burst.
type Drawn = (u32, u64, Option<u64>, u64, u64);

fn drawn_clients() -> impl Strategy<Value = Vec<Drawn>> {
    let client = (1u32..1000, 0u64..40, prop::option::of(0u64..60), 1u64..2000, 0u64..3000);
    prop::collection::vec(client, 1..7)
}

/// Makes parameters of the draw, as far as the capacity allows; limits are relative to reservations.
fn feasible(clients: &[Drawn]) -> Vec<ClientParams> {
    let mut promised = 0;
    let feasible = |&(weight, reservation, above, _, burst): &Drawn| {
        let reservation = if promised + reservation <= 100 { reservation } else { 0 };
        promised += reservation;
        let limit = above.map_or(0, |above| reservation + above);
        ClientParams { burst, ..params(weight, reservation, limit) }
    };
    clients.iter().map(feasible).collect()
}

proptest! {
    #[test]
    fn reservations_are_met_and_limits_kept(clients in drawn_clients()) {
        check_bounds(&clients)?;
    }
}

#[test]
fn who_comes_from_its_limit_does_not_take_the_turns_of_others() {
    check_bounds(&[(71, 1, None, 226, 0), (139, 39, Some(1), 122, 217), (128, 24, None, 1, 0)]).unwrap();
}

/// Checks, over any interval of a backlogged client: at least reservation * (t - (sum of the others' L + the
/// largest) / C) - 2 L, and at most max(burst, L) + limit * t + L.
fn check_bounds(clients: &[Drawn]) -> Result<(), TestCaseError> {
    let all = feasible(clients);
    let cost = |client: u32| clients[client as usize].3;
    let costs: u64 = clients.iter().map(|client| client.3).sum();
    let mut bench = bench(&all);
    // Largest value so far of served - reservation * t, and smallest of served - limit * t, in units of 1e-9:
    // later values are measured from there, so the bounds hold for every interval that ends now.
    let (mut most, mut least) = ([0i128; 7], [0i128; 7]);
    while bench.now_ns < 300_000 {
        bench.run_until(bench.now_ns + 1, cost);
        for (client, params) in (0..).zip(&all) {
            let (at, cost_of_one) = (client as usize, i128::from(cost(client)));
            let line = |per_s: u64| {
                i128::from(bench.used(client)) * 1_000_000_000 - i128::from(per_s) * i128::from(bench.now_ns)
            };
            let others = (0..clients.len() as u32).filter(|&other| other != client);
            let delay = costs - cost(client) + others.map(cost).max().unwrap_or(0);
            let flows_in = u128::from(params.limit_per_s) * u128::from(delay);
            if u128::from(params.burst) * 1_000_000_000 >= flows_in {
                // A nanosecond of rounding, since due times become whole.
                let missed = i128::from(params.reservation_per_s) * i128::from(delay + 1);
                let promised = most[at] - missed - 2 * cost_of_one * 1_000_000_000;
                prop_assert!(line(params.reservation_per_s) >= promised, "client {client}: {:?}", bench.used);
                most[at] = most[at].max(line(params.reservation_per_s));
            }
            if params.limit_per_s != 0 {
                let bucket = cost_of_one.max(i128::from(params.burst)) + cost_of_one;
                least[at] = least[at].min(line(params.limit_per_s));
                prop_assert!(line(params.limit_per_s) - least[at] <= bucket * 1_000_000_000);
            }
        }
    }
    Ok(())
}

/// Client 0 syncs in four steps of 3 ms, 0.1 ms apart, each 50 ms; client 1 has a limit and always a request of 3 ms.
/// Returns the times of the syncs in ms, and client 1's part of the time in percent.
fn syncs_beside(limit_percent: u64) -> (Vec<u64>, u64) {
    let device = Params { metric: Metric::DeviceTimeNs, ..Params::default() };
    let mut bench = Bench::new(policy(device), Metric::DeviceTimeNs);
    bench.add(0, params(1, 0, 0));
    bench.add(1, params(1, 0, limit_percent));
    bench.ready(1);
    let mut syncs = Vec::new();
    for number in 0..100 {
        run_until_ns(&mut bench, number * 50_000_000);
        let start_ns = bench.now_ns.min(number * 50_000_000);
        for _ in 0..4 {
            bench.ready(0);
            while serve_ms(&mut bench) != Some(0) {}
            let at_ns = bench.now_ns + 100_000;
            run_until_ns(&mut bench, at_ns);
        }
        syncs.push((bench.now_ns - start_ns) / 1_000_000);
    }
    (syncs, bench.used(1) * 100 / bench.now_ns)
}

/// Serves the chosen client for 3 ms; only client 1 is ready again.
fn serve_ms(bench: &mut Bench) -> Option<ClientIndex> {
    let client = bench.choose()?;
    bench.now_ns += 3_000_000;
    bench.charge(client, 3_000_000);
    if client == 1 {
        bench.ready(1);
    }
    Some(client)
}

/// Lets client 1 run as far as its limit allows, until a time.
fn run_until_ns(bench: &mut Bench, until_ns: u64) {
    while bench.now_ns < until_ns {
        if serve_ms(bench).is_some() {
            continue;
        }
        bench.now_ns = match bench.core.poll_ready(bench.now_ns) {
            Readiness::At(at_ns) if at_ns > bench.now_ns => at_ns.min(until_ns),
            answer => panic!("nothing chosen at {} though {answer:?}", bench.now_ns),
        };
    }
}

#[test]
fn at_a_device_the_bounded_do_not_begin_between_the_steps_of_a_sync() {
    let (syncs, got) = syncs_beside(10);
    // Four steps with their pauses, and at most one request that was at the device before.
    assert!(syncs.iter().all(|ms| *ms <= 12 + 3), "{syncs:?}");
    assert!((9..=10).contains(&got), "{got} %");
}

#[test]
fn who_is_never_silent_does_not_starve_the_bounded() {
    let device = Params { metric: Metric::DeviceTimeNs, ..Params::default() };
    let mut bench = Bench::new(policy(device), Metric::DeviceTimeNs);
    for (client, limit) in [(0, 0), (1, 10)] {
        bench.add(client, params(1, 0, limit));
        bench.ready(client);
    }
    bench.run_until(10_000_000_000, |_| 1_000_000);
    assert!(bench.share(1) >= 400, "{:?}", bench.used);
}
