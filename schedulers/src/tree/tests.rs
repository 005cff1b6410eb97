use super::*;
use crate::policy::{ClientIndex, Metric, Readiness, Record};
use crate::testing::Bench;
use crate::{round_robin, strict_priority, token_bucket, weighted_fair};
use alloc::vec;
use proptest::prelude::*;

const CYCLES: Metric = Metric::Cycles;

fn fair() -> weighted_fair::Params {
    weighted_fair::Params::default()
}

fn turns() -> Arc<dyn Policy> {
    Arc::new(round_robin::policy(round_robin::Params::default()))
}

fn bench_under(root: impl Policy + 'static, default: Arc<dyn Policy>) -> Bench {
    Bench::new(Tree::new(Box::new(root), default, vec![]).unwrap(), CYCLES)
}

/// Makes activities 1, 2, 3 with 50, 33, 17 percent of the cycles and turns among their queues.
fn cpu() -> Bench {
    let mut bench = bench_under(weighted_fair::policy(fair()), turns());
    for (node, weight) in [(1, 50), (2, 33), (3, 17)] {
        add_node(&mut bench, node, ClientParams::weighted(weight));
    }
    bench
}

fn add_node(bench: &mut Bench, node: NodeIndex, params: ClientParams) {
    bench.core.add_node(node, &params, None, bench.now_ns).unwrap();
}

fn add_ready(bench: &mut Bench, client: ClientIndex, node: NodeIndex) {
    bench.add(client, ClientParams::default().under(node));
    bench.ready(client);
}

fn node_used(bench: &Bench, node: NodeIndex) -> u64 {
    bench.core.node_statistics(node).unwrap().used(CYCLES)
}

fn node_shares(bench: &Bench, nodes: &[NodeIndex]) -> Vec<u64> {
    let all: u64 = nodes.iter().map(|&node| node_used(bench, node)).sum();
    nodes.iter().map(|&node| node_used(bench, node) * 10_000 / all).collect()
}

#[test]
fn activities_hold_their_shares_of_all_cycles_however_many_queues_spend_them() {
    let mut bench = cpu();
    // Activity 3 has the most and the most expensive queues.
    for (node, queues) in [(1, 2), (2, 10), (3, 50)] {
        (0..queues).for_each(|queue| add_ready(&mut bench, node * 100 + queue, node));
    }
    bench.run_until(20_000_000, |queue| 100 + u64::from(queue) * 7 % 3000 + u64::from(queue / 300) * 2000);
    let shares = node_shares(&bench, &[1, 2, 3]);
    for (share, expected) in shares.iter().zip([5000, 3300, 1700]) {
        assert!(share.abs_diff(expected) <= 50, "{shares:?}");
    }
    let turns = |queue| bench.core.client_statistics(queue).unwrap().chosen;
    assert!(turns(300).abs_diff(turns(349)) <= 1, "turns within an activity");
}

#[test]
fn what_an_idle_activity_leaves_is_divided_by_weight() {
    let mut bench = cpu();
    add_ready(&mut bench, 2, 2);
    add_ready(&mut bench, 3, 3);
    bench.run_until(10_000_000, |_| 1000);
    let shares = node_shares(&bench, &[2, 3]);
    assert!(shares[0].abs_diff(6600) <= 10, "{shares:?}");
    add_ready(&mut bench, 1, 1);
    let before = node_used(&bench, 1);
    bench.run_until(20_000_000, |_| 1000);
    assert!((node_used(&bench, 1) - before).abs_diff(5_000_000) <= 2000, "no credit for having slept");
}

#[test]
fn inline_service_and_charges_to_the_node_itself_count_for_the_activity() {
    let mut bench = cpu();
    (1..=3).for_each(|node| add_ready(&mut bench, node, node));
    bench.add(10, ClientParams::default().under(1));
    while bench.now_ns < 10_000_000 {
        if bench.serve(|_| 1000).unwrap() == 1 {
            // Each message of activity 1 calls another resource inline and causes an interrupt.
            bench.charge(10, 3000);
            let interrupt = Record { kind: CYCLES, amount: 500 };
            bench.core.node_record(1, interrupt, bench.now_ns);
            bench.now_ns += 3500;
        }
    }
    let shares = node_shares(&bench, &[1, 2, 3]);
    for (share, expected) in shares.iter().zip([5000, 3300, 1700]) {
        assert!(share.abs_diff(expected) <= 50, "{shares:?}");
    }
}

#[test]
fn shares_nest_as_tenant_and_container() {
    let mut bench = bench_under(weighted_fair::policy(fair()), Arc::new(weighted_fair::policy(fair())));
    add_node(&mut bench, 1, ClientParams::weighted(60));
    add_node(&mut bench, 2, ClientParams::weighted(40));
    add_node(&mut bench, 11, ClientParams::weighted(3).under(1));
    add_node(&mut bench, 12, ClientParams::weighted(1).under(1));
    for node in [2, 11, 12] {
        add_ready(&mut bench, node, node);
    }
    bench.run_until(10_000_000, |_| 1000);
    let shares = node_shares(&bench, &[11, 12, 2]);
    for (share, expected) in shares.iter().zip([4500, 1500, 4000]) {
        assert!(share.abs_diff(expected) <= 10, "{shares:?}");
    }
    bench.core.client_idle(11, bench.now_ns);
    bench.used.clear();
    bench.run_until(20_000_000, |_| 1000);
    assert!(bench.share(12).abs_diff(6000) <= 10, "the sibling inherits: {:?}", bench.used);
}

#[test]
fn urgent_queues_go_first_within_their_activity_only() {
    let urgent: Arc<dyn Policy> = Arc::new(strict_priority::policy(strict_priority::Params::default()));
    let mut bench = bench_under(weighted_fair::policy(fair()), urgent);
    add_node(&mut bench, 1, ClientParams::weighted(1));
    add_node(&mut bench, 2, ClientParams::weighted(1));
    bench.add(10, ClientParams::urgent(200).under(1));
    bench.add(11, ClientParams::urgent(0).under(1));
    bench.add(20, ClientParams::urgent(0).under(2));
    [10, 11, 20].into_iter().for_each(|client| bench.ready(client));
    bench.run_until(1_000_000, |_| 1000);
    assert_eq!(bench.used(11), 0);
    assert!(bench.used(10).abs_diff(bench.used(20)) <= 2000, "{:?}", bench.used);
}

#[test]
fn a_limited_activity_rests_while_others_run_and_the_tree_says_until_when() {
    let mut bench = bench_under(weighted_fair::policy(fair()), turns());
    let limited = token_bucket::policy(token_bucket::Params::default());
    let root = ClientParams::weighted(1);
    bench.core.add_node(1, &root, Some(&limited), 0).unwrap();
    add_node(&mut bench, 2, root);
    bench.add(10, ClientParams { limit_per_s: 100_000_000, ..ClientParams::default().under(1) });
    bench.ready(10);
    add_ready(&mut bench, 20, 2);
    bench.run_until(10_000_000, |_| 1000);
    assert!(bench.share(10).abs_diff(1000) <= 10, "{:?}", bench.used);
    bench.core.client_idle(20, bench.now_ns);
    bench.used.clear();
    bench.run_until(20_000_000, |_| 1000);
    assert!(bench.used(10).abs_diff(1_000_000) <= 2000, "alone, still limited: {:?}", bench.used);
}

#[test]
fn inline_service_needs_the_agreement_of_every_node_above() {
    let root = weighted_fair::Params { slack: 1000, ..fair() };
    let below = round_robin::Params { slack: 500, ..round_robin::Params::default() };
    let mut bench = bench_under(weighted_fair::policy(root), Arc::new(round_robin::policy(below)));
    for node in [1, 2] {
        add_node(&mut bench, node, ClientParams::weighted(1));
        add_ready(&mut bench, node * 10, node);
        add_ready(&mut bench, node * 10 + 1, node);
    }
    let entitled = |bench: &Bench| bench.core.entitled(10, bench.now_ns);
    assert!(entitled(&bench));
    bench.charge(10, 500);
    assert!(!entitled(&bench), "the queue beside it waits");
    assert_eq!(bench.choose(), Some(20));
    bench.charge(20, 1);
    assert_eq!(bench.choose(), Some(21));
    bench.charge(21, 500);
    assert_eq!(bench.choose(), Some(10));
    assert!(entitled(&bench));
    bench.charge(10, 499);
    bench.core.node_record(1, Record { kind: CYCLES, amount: 502 }, 0);
    assert!(bench.core.entitled(11, 0) == entitled(&bench));
    bench.ready(20);
    bench.core.node_record(1, Record { kind: CYCLES, amount: 5000 }, 0);
    assert_eq!(bench.choose(), Some(20));
    assert!(!entitled(&bench), "the activity is ahead of its share");
}

#[test]
fn a_node_under_a_tree_may_be_a_tree() {
    let inner = Tree::new(Box::new(weighted_fair::policy(fair())), turns(), vec![]).unwrap();
    let mut bench = bench_under(weighted_fair::policy(fair()), turns());
    let root = ClientParams::weighted(1);
    bench.core.add_node(7, &root, Some(&inner), 0).unwrap();
    add_ready(&mut bench, 0, 7);
    add_ready(&mut bench, 1, 7);
    add_ready(&mut bench, 2, ROOT);
    bench.run_until(1_000_000, |_| 100);
    assert!(bench.share(2).abs_diff(5000) <= 10, "{:?}", bench.used);
}

#[test]
fn mistakes_about_nodes_are_refused_and_change_nothing() {
    let mut bench = cpu();
    let core = &mut bench.core;
    let params = ClientParams::weighted(1);
    assert_eq!(core.add_node(1, &params, None, 0), Err(PolicyError::NodeBusy));
    assert_eq!(core.add_node(ROOT, &params, None, 0), Err(PolicyError::NodeBusy));
    assert_eq!(core.add_node(4, &params.under(9), None, 0), Err(PolicyError::UnknownNode));
    assert_eq!(core.add_node(4, &ClientParams::weighted(0), None, 0), Err(PolicyError::InvalidParams));
    assert_eq!(core.add_node(4, &params, None, 0), Ok(()));
    assert_eq!(core.update_node(4, &params.under(1), 0), Err(PolicyError::InvalidParams));
    assert_eq!(core.remove_node(ROOT, 0), Err(PolicyError::InvalidParams));
    assert_eq!(core.add_client(0, &params.under(9), 0), Err(PolicyError::UnknownNode));
    assert_eq!(core.add_client(0, &params.under(4), 0), Ok(()));
    assert_eq!(core.add_client(0, &params.under(1), 0), Err(PolicyError::DuplicateClient));
    assert_eq!(core.remove_node(4, 0), Err(PolicyError::NodeBusy));
    assert_eq!(core.remove_client(0, 0), Ok(()));
    assert_eq!(core.remove_node(4, 0), Ok(()));
    assert_eq!(core.remove_node(4, 0), Err(PolicyError::UnknownNode));
    for node in 4..10 {
        let parent = if node == 4 { 1 } else { node - 1 };
        assert_eq!(core.add_node(node, &params.under(parent), None, 0), Ok(()));
    }
    assert_eq!(core.add_node(10, &params.under(9), None, 0), Err(PolicyError::TooDeep));
}

#[test]
fn a_flat_policy_has_no_nodes() {
    let mut core = weighted_fair::policy(fair()).init_core(0);
    assert_eq!(core.add_node(1, &ClientParams::default(), None, 0), Err(PolicyError::NotATree));
    assert_eq!(core.remove_node(1, 0), Err(PolicyError::NotATree));
}

#[test]
fn a_node_that_was_just_chosen_can_be_emptied_and_removed() {
    let mut bench = cpu();
    add_ready(&mut bench, 0, 1);
    add_ready(&mut bench, 1, 1);
    assert_eq!(bench.choose(), Some(0));
    bench.core.remove_client(0, 0).unwrap();
    bench.core.remove_client(1, 0).unwrap();
    bench.core.remove_node(1, 0).unwrap();
    assert_eq!(bench.core.poll_ready(0), Readiness::Never);
    assert_eq!(bench.choose(), None);
    add_ready(&mut bench, 0, 2);
    assert_eq!(bench.choose(), Some(0));
}

proptest! {
    /// Checks that activities keep their shares within one charge each, here 1 percent, at any cost of the queues and
    /// however they come and go below an activity that always has work.
    #[test]
    fn shares_of_activities_hold_within_one_percent(
        weights in prop::collection::vec(5u32..100, 2..5),
        queues in prop::collection::vec(1u32..20, 5),
        costs in prop::collection::vec(1u64..5000, 1..40),
    ) {
        let mut bench = bench_under(weighted_fair::policy(fair()), turns());
        for (node, &weight) in (1..).zip(&weights) {
            add_node(&mut bench, node, ClientParams::weighted(weight));
            (0..queues[node as usize - 1]).for_each(|queue| add_ready(&mut bench, node * 100 + queue, node));
        }
        let mut asleep = None;
        let mut turn = 0;
        while bench.now_ns < 10_000_000 {
            turn += 1;
            let chosen = bench.choose().unwrap();
            let cost = costs[turn % costs.len()] + u64::from(chosen % 7);
            bench.now_ns += cost;
            bench.charge(chosen, cost);
            // One queue at a time sleeps for a turn; never the only one of its activity.
            if turn % 3 == 0 && queues[chosen as usize / 100 - 1] > 1 {
                if let Some(woken) = asleep.replace(chosen) { bench.ready(woken); }
            } else {
                bench.ready(chosen);
            }
        }
        let nodes: Vec<_> = (1..=weights.len() as u32).collect();
        let all: u32 = weights.iter().sum();
        for (share, &weight) in node_shares(&bench, &nodes).into_iter().zip(&weights) {
            prop_assert!(share.abs_diff(u64::from(weight * 10_000 / all)) <= 100);
        }
    }
}
