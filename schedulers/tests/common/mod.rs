//! All policies of the crate, and random parameters.
use gyre_schedulers::{
    ClientParams, NodeConfig, PolicyConfig, earliest_deadline, reservation, round_robin, strict_priority, token_bucket,
    weighted_fair, worst_case_fair,
};
use proptest::prelude::*;

/// Each policy once, and trees of several kinds; nodes 1 and 2 exist in every tree.
pub fn configurations() -> Vec<(&'static str, PolicyConfig)> {
    let fair = weighted_fair::Params { slack: 100, ..weighted_fair::Params::default() };
    let resetting = weighted_fair::Params { reset_ns: 10_000, ..fair };
    let turns = PolicyConfig::RoundRobin(round_robin::Params::default());
    let bucket = PolicyConfig::TokenBucket(token_bucket::Params::default());
    let weighted = PolicyConfig::WeightedFair(fair);
    let priority = PolicyConfig::StrictPriority(strict_priority::Params::default());
    vec![
        ("weighted fair", weighted.clone()),
        ("weighted fair with resets", PolicyConfig::WeightedFair(resetting)),
        ("worst-case fair", PolicyConfig::WorstCaseFair(worst_case_fair::Params::default())),
        ("round robin", turns.clone()),
        ("strict priority", priority.clone()),
        ("earliest deadline", PolicyConfig::EarliestDeadline(earliest_deadline::Params::default())),
        ("token bucket", bucket.clone()),
        ("reservation", PolicyConfig::Reservation(reservation::Params::default())),
        ("fair tree of turns", tree(&weighted, &turns, None)),
        ("fair tree of buckets", tree(&weighted, &bucket, None)),
        ("bucket tree of priorities and a bucket", tree(&bucket, &priority, Some(&bucket))),
    ]
}

fn tree(root: &PolicyConfig, default: &PolicyConfig, second: Option<&PolicyConfig>) -> PolicyConfig {
    let node = |node, params, children: Option<&PolicyConfig>| NodeConfig {
        node,
        params,
        children: children.cloned().map(Box::new),
    };
    let limited = ClientParams { limit_per_s: 1_000_000, ..ClientParams::weighted(3) };
    PolicyConfig::Tree {
        root: Box::new(root.clone()),
        default: Box::new(default.clone()),
        nodes: vec![node(1, ClientParams::weighted(5), None), node(2, limited.under(1), second)],
    }
}

/// Parameters good and bad; the parent is the root or node 1 or 2.
#[allow(dead_code, reason = "not every test that uses this module draws parameters")]
pub fn parameters() -> impl Strategy<Value = ClientParams> {
    let amount = || prop_oneof![Just(0), 1u64..10_000, 1_000_000u64..2_000_000_000, Just(u64::MAX)];
    let weight = prop_oneof![8 => 1u32..100, 1 => 0u32..2_000_000];
    (weight, any::<u8>(), amount(), amount(), (amount(), amount()), amount(), prop::option::of(1u32..3)).prop_map(
        |(weight, priority, deadline_ns, period_ns, (reservation_per_s, limit_per_s), burst, parent)| ClientParams {
            weight,
            priority,
            deadline_ns,
            period_ns,
            reservation_per_s,
            limit_per_s,
            burst,
            parent,
        },
    )
}
