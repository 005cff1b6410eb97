//! Prints what a choice and its charge cost: ns per `schedule` + `resource_record` + `client_ready` with n clients backlogged.
//!
//! `cargo run --release -p gyre-schedulers --example bench`
//! Best of 20 samples; the machine's other load only makes samples slower.
use gyre_schedulers::tree::Tree;
use gyre_schedulers::{
    ClientParams, CorePolicy, Listed, Metric, POLICIES, Policy, Record, Setup, round_robin, strict_priority,
    weighted_fair,
};
use std::time::Instant;

const TURNS: u64 = 50_000;
const SAMPLES: u32 = 20;

fn main() {
    println!("{:<34}{:>8}{:>8}{:>8}", "ns per choice and charge, n =", 3, 30, 3000);
    for (name, policy, nodes) in policies() {
        let cells = [3, 30, 3000].map(|clients| format!("{:>8.1}", measure(&*policy, clients, nodes)));
        println!("{name:<34}{}", cells.concat());
    }
}

/// Every policy of the list and three trees, with the number of nodes the clients are spread over.
fn policies() -> Vec<(String, Box<dyn Policy>, u32)> {
    let made = |listed: &Listed| (listed.build)(&Setup::default());
    let tree = |below: &Listed| -> Box<dyn Policy> {
        Box::new(Tree::new(made(&weighted_fair::LISTED), made(below).into(), vec![]).expect("a tree without nodes"))
    };
    let mut all: Vec<_> = POLICIES.iter().map(|listed| (listed.name.to_owned(), made(listed), 0)).collect();
    for below in [&round_robin::LISTED, &strict_priority::LISTED, &weighted_fair::LISTED] {
        all.push((format!("tree: 3 fair nodes of {}", below.name), tree(below), 3));
    }
    all
}

fn measure(policy: &dyn Policy, clients: u32, nodes: u32) -> f64 {
    let mut core = policy.init_core(0);
    for node in 1..=nodes {
        core.add_node(node, &ClientParams::weighted(node), None, 0).expect("a node under the root fits");
    }
    for client in 0..clients {
        core.add_client(client, &params(client, nodes), 0).expect("the parameters are within every policy's range");
        core.client_ready(client, 0);
    }
    let mut now_ns = 0;
    run(&mut *core, &mut now_ns);
    (0..SAMPLES).map(|_| run(&mut *core, &mut now_ns)).fold(f64::MAX, f64::min)
}

/// Weights 1 to 4, two priorities, deadlines, a hundredth of the time reserved for every tenth, limits out of reach.
fn params(client: u32, nodes: u32) -> ClientParams {
    ClientParams {
        weight: 1 + client % 4,
        priority: (client % 2) as u8,
        deadline_ns: u64::from(client % 7) * 1000,
        reservation_per_s: if client.is_multiple_of(10) { 1_000_000 } else { 0 },
        limit_per_s: 1_000_000_000_000,
        burst: 0,
        parent: (nodes > 0).then(|| client % nodes + 1),
        ..ClientParams::default()
    }
}

fn run(core: &mut dyn CorePolicy, now_ns: &mut u64) -> f64 {
    let start = Instant::now();
    for turn in 0..TURNS {
        let Some(client) = core.schedule(*now_ns) else { panic!("a backlogged client is always found") };
        let amount = 500 + turn * 7919 % 1000;
        *now_ns += amount;
        core.resource_record(client, Record { kind: Metric::Cycles, amount }, *now_ns);
        core.client_ready(client, *now_ns);
    }
    start.elapsed().as_nanos() as f64 / TURNS as f64
}
