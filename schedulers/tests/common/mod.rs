//! All policies of the list, and random parameters.
use gyre_schedulers::list::{Fallback, find};
use gyre_schedulers::tree::{StaticNode, Tree};
use gyre_schedulers::{ClientParams, Listed, POLICIES, Policy, Setup, weighted_fair};
use proptest::prelude::*;

/// Each policy of the list once, and trees of several kinds; nodes 1 and 2 exist in every tree.
pub fn policies() -> Vec<(String, Box<dyn Policy>)> {
    let fair = weighted_fair::Params { slack: 100, reset_ns: 10_000, ..weighted_fair::Params::default() };
    let mut all: Vec<_> = POLICIES.iter().map(|listed| (listed.name.to_owned(), made(listed))).collect();
    all.push(("weighted fair with resets".into(), Box::new(weighted_fair::policy(fair))));
    all.extend(
        POLICIES.iter().map(|below| (format!("fair tree of {}", below.name), tree("weighted-fair", below.name, None))),
    );
    all.push((
        "bucket tree of priorities and a bucket".into(),
        tree("token-bucket", "strict-priority", Some("token-bucket")),
    ));
    all
}

/// A policy with an example of each parameter that it demands.
pub fn made(listed: &Listed) -> Box<dyn Policy> {
    let is_required = |default| matches!(default, Fallback::Required(_));
    let values: Vec<_> = (listed.parameters.iter().filter(|one| is_required(one.default)))
        .map(|one| (one.name, one.most.min(1_000_000)))
        .collect();
    (listed.build)(&Setup { values: &values, ..Setup::default() })
}

fn by_name(name: &str) -> Box<dyn Policy> {
    made(find(name).expect("the policy is on the list"))
}

fn tree(root: &str, default: &str, second: Option<&str>) -> Box<dyn Policy> {
    let node = |node, params, children: Option<&str>| StaticNode { node, params, children: children.map(by_name) };
    let limited = ClientParams { limit_per_s: 1_000_000, ..ClientParams::weighted(3) };
    let nodes = vec![node(1, ClientParams::weighted(5), None), node(2, limited.under(1), second)];
    Box::new(Tree::new(by_name(root), by_name(default).into(), nodes).expect("two small nodes fit"))
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
            ..ClientParams::default()
        },
    )
}
