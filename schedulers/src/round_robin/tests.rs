use super::*;
use crate::testing::Bench;
use alloc::vec;
use proptest::prelude::*;

fn bench(slack: u64, clients: u32) -> Bench {
    let params = Params { slack, ..Params::default() };
    let mut bench = Bench::new(policy(params), Metric::Cycles);
    (0..clients).for_each(|client| bench.add(client * 70, ClientParams::default()));
    bench
}

#[test]
fn clients_take_turns_in_the_order_of_their_numbers() {
    let mut bench = bench(0, 3);
    [140, 0, 70].into_iter().for_each(|client| bench.ready(client));
    for turn in 0..9 {
        assert_eq!(bench.serve(|_| 1), Some(turn % 3 * 70));
    }
}

#[test]
fn inline_service_is_granted_until_the_slack_of_the_turn_is_used() {
    let mut bench = bench(100, 2);
    bench.ready(0);
    bench.ready(70);
    assert_eq!(bench.choose(), Some(0));
    bench.charge(0, 99);
    assert!(bench.core.entitled(0, 0));
    bench.charge(0, 1);
    assert!(!bench.core.entitled(0, 0));
    assert_eq!(bench.choose(), Some(70));
    assert!(bench.core.entitled(0, 0));
}

proptest! {
    #[test]
    fn between_two_turns_of_a_ready_client_every_other_is_served_at_most_once(
        steps in prop::collection::vec((0u32..10, any::<bool>()), 1..500),
    ) {
        let mut bench = bench(0, 10);
        let mut is_ready = [false; 10];
        let mut turns_since_ready = vec![[0; 10]; 10];
        for (waker, comes_back) in steps {
            let waker = waker as usize;
            if !is_ready[waker] {
                is_ready[waker] = true;
                turns_since_ready[waker] = [0; 10];
                bench.ready(waker as u32 * 70);
            }
            let chosen = bench.choose().unwrap() as usize / 70;
            prop_assert!(is_ready[chosen]);
            for waiting in (0..10).filter(|&waiting| is_ready[waiting] && waiting != chosen) {
                turns_since_ready[waiting][chosen] += 1;
                prop_assert!(turns_since_ready[waiting][chosen] <= 1);
            }
            is_ready[chosen] = comes_back;
            turns_since_ready[chosen] = [0; 10];
            if comes_back {
                bench.ready(chosen as u32 * 70);
            }
        }
    }
}
