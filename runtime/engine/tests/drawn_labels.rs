//! Requests that a label joins come to the core of the thread that uses it.

mod common;
use common::*;
use gyre_account::{ActivityId, Column};
use gyre_engine::simulate::Simulator;
use gyre_engine::{Engine, ResourceConfig, ThreadParams};
use gyre_message::{Labels, Link, protocol};

protocol! {
    /// A connection.
    pub mod connection {
        /// Does something for it.
        async fn touch() -> Result<(), Nobody>;
    }
}

struct Server;
impl connection::Server for Server {
    async fn touch(&'static self) -> Result<(), Nobody> {
        Ok(())
    }
}

const LABELS: u64 = 32;
const CALLS: u64 = 10;

fn clients(engine: &'static Engine) -> Vec<connection::Client> {
    let port = engine.port(resource(0), |request| connection::serve(&Server, request));
    let client = connection::Client::new(Link::new(port));
    (1..=LABELS).map(|label| client.labelled(Labels { affinity: label << 40 | label, dependency: 0 })).collect()
}

/// Lets a thread on one core use all connections, and returns what both cores handled.
fn use_on(
    engine: &'static Engine,
    clients: &[connection::Client],
    tenant: ActivityId,
    core: u32,
    at_ns: u64,
) -> [u64; 2] {
    let handled = || [0, 1].map(|core| used(engine, core, tenant, Column::Messages));
    let before = handled();
    let clients = clients.to_vec();
    let thread = Box::pin(async move {
        // each core has a clock of its own here: later than all that came before, and by more than a label stays at least
        gyre_message::sleep_until(at_ns).await;
        for _ in 0..CALLS {
            for client in &clients {
                client.touch().await.unwrap();
            }
        }
    });
    assert!(engine.spawn_thread(tenant, ThreadParams { cores: 1 << core, kernel: resource(1) }, thread));
    let mut simulator = Simulator::new(engine, 7);
    simulator.run_for(at_ns + 10_000_000, 1_000_000);
    let after = handled();
    [0, 1].map(|core| after[core] - before[core])
}

#[test]
fn connections_move_to_their_programs_core_and_back() {
    let engine = engine(2, vec![ResourceConfig::new("tcp"), ResourceConfig::new("linux")]);
    let (clients, tenant) = (clients(engine), tenant(engine, 1));
    for (core, at_ns) in [(1, 100_000_000), (0, 200_000_000), (1, 300_000_000)] {
        let handled = use_on(engine, &clients, tenant, core, at_ns);
        let elsewhere = handled[1 - core as usize];
        assert!(
            elsewhere <= LABELS,
            "core {core}: {handled:?}, {elsewhere} of {} calls went to the other core",
            LABELS * CALLS
        );
    }
    check_books(engine);
}

#[test]
fn what_is_bound_to_a_core_does_not_move_and_moves_nothing() {
    let bound = ResourceConfig { cores: 1, ..ResourceConfig::new("device") };
    let engine = engine(2, vec![bound, ResourceConfig::new("linux")]);
    let (clients, tenant) = (clients(engine), tenant(engine, 1));
    let at_device = |core| engine.accounts().line(core).table().cell(tenant, resource(0)).get(Column::Messages);
    use_on(engine, &clients, tenant, 1, 100_000_000);
    assert_eq!((at_device(0), at_device(1)), (LABELS * CALLS, 0));
}
