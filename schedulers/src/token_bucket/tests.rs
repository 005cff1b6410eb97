use super::*;
use crate::testing::Bench;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

fn limited(limit_per_s: u64, burst: u64) -> ClientParams {
    ClientParams { limit_per_s, burst, ..ClientParams::default() }
}

fn bench(clients: &[ClientParams]) -> Bench {
    let mut bench = Bench::new(policy(Params { metric: Metric::Bytes, slack: 0 }), Metric::Bytes);
    for (client, params) in (0..).zip(clients) {
        bench.add(client, *params);
        bench.ready(client);
    }
    bench
}

#[test]
fn the_resource_rests_until_the_time_it_names() {
    // A million per second: one per microsecond.
    let mut bench = bench(&[limited(1_000_000, 0)]);
    for _ in 0..2 {
        assert_eq!(bench.choose(), Some(0));
        bench.charge(0, 5);
        bench.ready(0);
    }
    assert_eq!(bench.core.poll_ready(0), Readiness::At(5000));
    bench.now_ns = 4999;
    assert_eq!(bench.choose(), None);
    bench.now_ns = 5000;
    assert_eq!(bench.core.poll_ready(5000), Readiness::Now);
    assert_eq!(bench.choose(), Some(0));
    assert_eq!(bench.core.poll_ready(5000), Readiness::Never);
}

#[test]
fn a_client_without_limit_is_always_served() {
    let mut bench = bench(&[limited(0, 0), limited(1, 0)]);
    bench.charge(1, 1000);
    bench.charge(1, 1);
    bench.run_until(10_000, |_| 10);
    assert_eq!(bench.used(0), 10_000);
}

#[test]
fn a_lower_limit_keeps_the_debt_as_an_amount() {
    let mut bench = bench(&[limited(1_000_000_000, 0)]);
    (0..11).for_each(|_| bench.charge(0, 100));
    bench.core.update_client(0, &limited(1_000_000, 0), 0).unwrap();
    let Readiness::At(at_ns) = bench.core.poll_ready(0) else { panic!() };
    assert!(at_ns.abs_diff(1_000_000) <= 1000, "{at_ns}");
}

#[test]
fn inline_service_needs_tokens() {
    let mut bench = bench(&[limited(1_000_000, 10)]);
    assert!(bench.core.entitled(0, 0) == (bench.core.poll_ready(0) != Readiness::Now));
    bench.choose();
    assert!(bench.core.entitled(0, 0));
    bench.charge(0, 10);
    bench.charge(0, 1);
    assert!(!bench.core.entitled(0, 0));
    assert!(bench.core.entitled(0, 1000));
}

proptest! {
    /// Checks, over any interval of t: served <= max(burst, L) + limit * t + L.
    #[test]
    fn no_limit_is_ever_exceeded_and_none_is_wasted(
        clients in prop::collection::vec((1u64..500_000_000, 0u64..5000), 1..6),
        costs in prop::collection::vec(1u64..2000, 1..30),
    ) {
        let params: Vec<_> = clients.iter().map(|&(limit, burst)| limited(limit, burst)).collect();
        let mut bench = bench(&params);
        // Lowest value so far of (served - limit * t), in units of 1e-9: the bound over all intervals that end now.
        let mut lowest = vec![0i128; clients.len()];
        let mut turn = 0;
        while bench.now_ns < 1_000_000 {
            let cost = costs[turn % costs.len()];
            let line = |bench: &Bench, client: u32| {
                let rate = i128::from(clients[client as usize].0);
                i128::from(bench.used(client)) * 1_000_000_000 - rate * i128::from(bench.now_ns)
            };
            for client in 0..clients.len() as u32 {
                lowest[client as usize] = lowest[client as usize].min(line(&bench, client));
            }
            match bench.choose() {
                Some(client) => {
                    bench.now_ns += cost;
                    bench.charge(client, cost);
                    bench.ready(client);
                    let rise = line(&bench, client) - lowest[client as usize];
                    let cost_max = *costs.iter().max().unwrap();
                    let burst = clients[client as usize].1.max(cost_max);
                    prop_assert!(rise <= i128::from(burst + cost_max) * 1_000_000_000);
                    turn += 1;
                }
                None => {
                    let Readiness::At(at_ns) = bench.core.poll_ready(bench.now_ns) else { panic!("nobody is ready") };
                    prop_assert!(at_ns > bench.now_ns);
                    prop_assert_eq!(bench.core.poll_ready(at_ns), Readiness::Now);
                    prop_assert_eq!(bench.core.poll_ready(at_ns - 1), Readiness::At(at_ns));
                    bench.now_ns = at_ns;
                }
            }
        }
        // A single client takes all of its limit, which is at most half of the bench's capacity.
        if let [(limit, _)] = clients[..] {
            let promised = u128::from(limit) * u128::from(bench.now_ns) / 1_000_000_000;
            prop_assert!(u128::from(bench.used(0)) + 1 >= promised);
        }
    }
}
