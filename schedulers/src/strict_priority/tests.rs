use super::*;
use crate::testing::Bench;
use proptest::prelude::*;

fn bench(priorities: &[u8]) -> Bench {
    let params = Params { slack: 10, ..Params::default() };
    let mut bench = Bench::new(policy(params), Metric::Cycles);
    for (client, &priority) in (0..).zip(priorities) {
        bench.add(client, ClientParams::urgent(priority));
    }
    bench
}

#[test]
fn the_most_urgent_goes_first_and_equals_take_turns() {
    let mut bench = bench(&[1, 5, 5]);
    (0..3).for_each(|client| bench.ready(client));
    for turn in 0..10 {
        assert_eq!(bench.serve(|_| 1), Some(1 + turn % 2));
    }
    bench.core.client_suspended(1, 0);
    bench.core.client_idle(2, 0);
    assert_eq!(bench.choose(), Some(0));
}

#[test]
fn a_raised_priority_counts_at_once() {
    let mut bench = bench(&[1, 5]);
    bench.ready(0);
    bench.ready(1);
    bench.core.update_client(0, &ClientParams::urgent(9), 0).unwrap();
    assert_eq!(bench.choose(), Some(0));
}

#[test]
fn inline_service_never_passes_a_more_urgent_client() {
    let mut bench = bench(&[1, 5, 5, 9]);
    bench.ready(1);
    assert!(!bench.core.entitled(0, 0));
    assert!(bench.core.entitled(2, 0));
    assert!(bench.core.entitled(3, 0));
    bench.charge(2, 10);
    assert!(!bench.core.entitled(2, 0), "slack used up among equals");
    assert!(bench.core.entitled(3, 0));
}

proptest! {
    #[test]
    fn a_chosen_client_has_the_largest_priority_of_all_ready_ones(
        priorities in prop::collection::vec(0u8..4, 8),
        steps in prop::collection::vec((0usize..8, 0u8..4), 1..300),
    ) {
        let mut bench = bench(&priorities);
        let mut is_ready = [false; 8];
        for (client, action) in steps {
            match action {
                0 | 1 => { bench.ready(client as u32); is_ready[client] = true; }
                2 => { bench.core.client_suspended(client as u32, 0); is_ready[client] = false; }
                _ => {
                    let first = (0..8).filter(|&client| is_ready[client]).map(|client| priorities[client]).max();
                    let chosen = bench.choose();
                    prop_assert_eq!(chosen.map(|chosen| priorities[chosen as usize]), first);
                    if let Some(chosen) = chosen {
                        prop_assert!(is_ready[chosen as usize]);
                        is_ready[chosen as usize] = false;
                    }
                }
            }
        }
    }
}
