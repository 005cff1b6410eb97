//! A policy that says how long a client stays entitled is right, and one of fair shares says it exactly.
#![allow(missing_docs)]

use gyre_schedulers::{
    ClientParams, CorePolicy, Grace, Metric, Policy, Record, earliest_deadline, lottery, reservation, round_robin,
    strict_priority, token_bucket, weighted_fair, worst_case_fair,
};

const CLIENTS: u32 = 4;
const SLACK: u64 = 5_000;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn policies() -> Vec<Box<dyn Policy>> {
    vec![
        Box::new(weighted_fair::policy(weighted_fair::Params { slack: SLACK, ..Default::default() })),
        Box::new(worst_case_fair::policy(worst_case_fair::Params { slack: SLACK, ..Default::default() })),
        Box::new(round_robin::policy(round_robin::Params { slack: SLACK, ..Default::default() })),
        Box::new(strict_priority::policy(strict_priority::Params { slack: SLACK, ..Default::default() })),
        Box::new(earliest_deadline::policy(earliest_deadline::Params { slack: SLACK, ..Default::default() })),
        Box::new(token_bucket::policy(token_bucket::Params { slack: SLACK, ..Default::default() })),
        Box::new(reservation::policy(reservation::Params { slack: SLACK, ..Default::default() })),
        Box::new(lottery::policy(lottery::Params { slack: SLACK, ..Default::default() })),
    ]
}

fn params(random: &mut Random, client: u32) -> ClientParams {
    ClientParams {
        weight: 1 + random.below(50) as u32,
        priority: random.below(3) as u8,
        deadline_ns: 1_000 + random.below(50_000),
        reservation_per_s: if client == 1 { 100_000_000 } else { 0 },
        limit_per_s: if client == 2 { 200_000_000 } else { 0 },
        ..ClientParams::default()
    }
}

fn charge(core: &mut dyn CorePolicy, client: u32, amount: u64, now_ns: u64) {
    core.resource_record(client, Record { kind: Metric::Cycles, amount }, now_ns);
}

/// Consumes as much as the grace allows at most, up to its last nanosecond, and returns that time.
fn spend(core: &mut dyn CorePolicy, client: u32, grace: Grace, now_ns: u64) -> u64 {
    let end_ns = grace.until_ns.min(now_ns + 100_000).max(now_ns);
    charge(core, client, grace.amount.min(1_000_000), end_ns);
    end_ns
}

#[test]
fn a_client_stays_entitled_as_long_as_its_policy_says() {
    for policy in policies() {
        let (mut random, mut now_ns, mut promised) = (Random(0x5eed), 1_000_000, 0);
        let mut core = policy.init_core(0);
        for client in 0..CLIENTS {
            core.add_client(client, &params(&mut random, client), 0).unwrap();
        }
        for _ in 0..5_000 {
            (0..CLIENTS)
                .filter(|_| random.below(2) == 0)
                .collect::<Vec<_>>()
                .iter()
                .for_each(|&client| core.client_ready(client, now_ns));
            let Some(client) = core.schedule(now_ns) else {
                now_ns += 10_000;
                continue;
            };
            let used = random.below(3_000);
            now_ns += used;
            charge(&mut *core, client, used, now_ns);
            if core.entitled(client, now_ns) {
                let grace = core.grace(client, now_ns);
                let is_promise = grace.amount > 0 && grace.until_ns > now_ns;
                promised += u64::from(is_promise);
                if is_promise {
                    now_ns = spend(&mut *core, client, grace, now_ns);
                    assert!(core.entitled(client, now_ns), "{}: client {client}, {grace:?}", policy.name());
                }
            } else {
                assert_eq!(core.grace(client, now_ns).amount, 0, "{}", policy.name());
            }
        }
        assert!(promised > 100, "{} promised something {promised} times", policy.name());
    }
}

#[test]
fn fair_shares_end_when_they_say() {
    let mut core = weighted_fair::policy(weighted_fair::Params { slack: SLACK, ..Default::default() }).init_core(0);
    for client in 0..2 {
        core.add_client(client, &ClientParams::weighted(7), 0).unwrap();
        core.client_ready(client, 0);
    }
    let client = core.schedule(0).unwrap();
    let grace = core.grace(client, 0);
    assert!(grace.amount.abs_diff(SLACK) <= 1 && grace.until_ns == u64::MAX, "{grace:?}");
    charge(&mut *core, client, grace.amount + 2, 0);
    assert!(!core.entitled(client, 0));
    assert_eq!(core.grace(client, 0), Grace::NONE);
}
