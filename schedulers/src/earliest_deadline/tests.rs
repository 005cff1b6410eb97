use super::*;
use crate::order::Core;
use crate::policy::{CorePolicy, Record};
use crate::testing::Bench;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

fn server(budget: u64, period_ns: u64) -> ClientParams {
    ClientParams { burst: budget, period_ns, ..ClientParams::default() }
}

fn due_in(deadline_ns: u64) -> ClientParams {
    ClientParams { deadline_ns, ..ClientParams::default() }
}

#[test]
fn the_message_due_first_goes_first_whenever_it_came() {
    let mut bench = Bench::new(policy(Params::default()), Metric::Cycles);
    bench.add(0, due_in(100));
    bench.add(1, due_in(10));
    bench.ready(0);
    bench.now_ns = 80;
    bench.ready(1);
    assert_eq!(bench.choose(), Some(1));
    bench.now_ns = 95;
    bench.ready(1);
    assert_eq!(bench.choose(), Some(0), "due at 100, before 105");
}

#[test]
fn who_sends_faster_than_declared_postpones_only_its_own_deadlines() {
    let mut core = Core::new(EarliestDeadline::new(Params::default()), Metric::Cycles);
    core.add_client(0, &ClientParams { period_ns: 100, ..due_in(50) }, 0).unwrap();
    for message in 0..5 {
        core.client_ready(0, 0);
        assert_eq!(core.order().due_at_ns(0), Some(message * 100 + 50));
        assert_eq!(core.schedule(0), Some(0));
    }
}

#[test]
fn a_budget_without_a_period_is_refused() {
    let mut bench = Bench::new(policy(Params::default()), Metric::Cycles);
    assert_eq!(bench.core.add_client(0, &server(5, 0), 0), Err(PolicyError::InvalidParams));
}

#[test]
fn one_large_charge_moves_the_deadline_by_all_periods_it_takes() {
    let mut core = Core::new(EarliestDeadline::new(Params::default()), Metric::Cycles);
    core.add_client(0, &server(10, 100), 0).unwrap();
    core.client_ready(0, 0);
    assert_eq!(core.order().due_at_ns(0), Some(100));
    core.resource_record(0, Record { kind: Metric::Cycles, amount: 9 }, 0);
    assert_eq!(core.order().due_at_ns(0), Some(100));
    core.resource_record(0, Record { kind: Metric::Cycles, amount: 31 }, 0);
    assert_eq!(core.order().due_at_ns(0), Some(500));
    core.resource_record(0, Record { kind: Metric::Cycles, amount: u64::MAX }, 0);
    assert_eq!(core.order().due_at_ns(0), Some(u64::MAX), "saturates");
}

/// Periods of clients whose charges are one unit each and that fill at most the whole time.
fn feasible_periods() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(2u64..40, 1..12).prop_map(|periods| {
        let mut load = 0.0;
        periods
            .into_iter()
            .filter(|&period| {
                load += 1.0 / period as f64;
                load <= 1.0
            })
            .collect()
    })
}

proptest! {
    /// Liu and Layland: earliest deadline first meets every deadline of a set with sum(C / T) <= 1; with C = 1 and whole
    /// times also without preemption.
    #[test]
    fn a_feasible_set_meets_every_deadline(periods in feasible_periods(), offsets in prop::collection::vec(0u64..40, 12)) {
        let mut bench = Bench::new(policy(Params::default()), Metric::Cycles);
        for (client, &period_ns) in (0..).zip(&periods) {
            bench.add(client, ClientParams { deadline_ns: period_ns, period_ns, ..ClientParams::default() });
        }
        let mut due_at = vec![None; periods.len()];
        for now in 0..2000 {
            bench.now_ns = now;
            for (client, &period) in periods.iter().enumerate() {
                if now >= offsets[client] && (now - offsets[client]) % period == 0 {
                    prop_assert_eq!(due_at[client], None, "client {} missed its deadline at {}", client, now);
                    due_at[client] = Some(now + period);
                    bench.ready(client as u32);
                }
            }
            if let Some(chosen) = bench.choose() {
                prop_assert!(due_at[chosen as usize].take().is_some_and(|due_at| now < due_at));
                bench.charge(chosen, 1);
            }
        }
    }

    /// Checks bandwidth servers: clients that keep to Q per T get it by their deadlines, even beside a greedy one.
    #[test]
    fn a_greedy_server_makes_nobody_else_late(
        servers in prop::collection::vec((1u64..5, 5u64..60), 1..6),
        sleeps in prop::collection::vec(0u64..100, 1..20),
    ) {
        let mut load = 0.0;
        let honest: Vec<_> = servers.into_iter().filter(|&(budget, period)| {
            load += budget as f64 / period as f64;
            load <= 0.8
        }).collect();
        let mut bench = Bench::new(policy(Params::default()), Metric::Cycles);
        for (client, &(budget, period)) in (0..).zip(&honest) {
            bench.add(client, server(budget, period));
        }
        let greedy = honest.len() as u32;
        bench.add(greedy, server(2, 20));
        let mut left = vec![0; honest.len()];
        let mut sleeps = sleeps.into_iter().cycle();
        let mut wakes_at = 0;
        for now in 0..3000 {
            bench.now_ns = now;
            for (client, &(budget, period)) in honest.iter().enumerate() {
                if now % period == 0 {
                    prop_assert_eq!(left[client], 0, "client {} is late at {}", client, now);
                    left[client] = budget;
                    bench.ready(client as u32);
                }
            }
            if now == wakes_at {
                bench.ready(greedy);
            }
            let Some(chosen) = bench.choose() else { continue };
            bench.charge(chosen, 1);
            if chosen == greedy {
                // Sometimes sleeps, to come back with an old deadline and a full budget.
                let sleep = sleeps.next().unwrap();
                wakes_at = now + sleep;
                if sleep < 50 { bench.ready(greedy); }
            } else {
                left[chosen as usize] -= 1;
                if left[chosen as usize] > 0 { bench.ready(chosen); }
            }
        }
    }

    #[test]
    fn nobody_waits_for_ever_under_overload(deadlines in prop::collection::vec(0u64..1000, 2..10)) {
        let mut bench = Bench::new(policy(Params::default()), Metric::Cycles);
        for (client, &deadline_ns) in (0..).zip(&deadlines) {
            bench.add(client, due_in(deadline_ns));
            bench.ready(client);
        }
        bench.run_until(20_000, |_| 10);
        prop_assert!((0..deadlines.len() as u32).all(|client| bench.used(client) > 0));
        let wait_max = (0..deadlines.len() as u32).map(|client| bench.core.client_statistics(client).unwrap().wait_ns_max).max();
        prop_assert!(wait_max.unwrap() <= 1000 + 10 * deadlines.len() as u64);
    }
}
