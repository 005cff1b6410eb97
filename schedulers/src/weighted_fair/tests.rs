use super::*;
use crate::order::Core;
use crate::policy::{CorePolicy, Record};

#[test]
fn weights_50_33_17_divide_the_cycles() {
    let mut core = Core::new(WeightedFair::new(Params::default()), Metric::Cycles);
    for (client, weight) in [(0, 50), (1, 33), (2, 17)] {
        core.add_client(client, &ClientParams::weighted(weight), 0)
            .unwrap();
        core.client_ready(client, 0);
    }
    let mut used = [0u64; 3];
    for _ in 0..100_000 {
        let client = core.schedule(0).unwrap();
        let cost = 1000 * u64::from(client + 1);
        used[client as usize] += cost;
        core.resource_record(
            client,
            Record {
                kind: Metric::Cycles,
                amount: cost,
            },
            0,
        );
        core.client_ready(client, 0);
    }
    let all: u64 = used.iter().sum();
    for (used, weight) in used.into_iter().zip([50, 33, 17]) {
        assert!(
            (used * 100).abs_diff(all * weight) <= all / 10,
            "{used} of {all}"
        );
    }
}
