//! Two threads of the host play two cores and sleep whenever they have nothing to do: no wake-up is lost.

mod common;
use common::*;
use gyre_account::{Accounts, ActivityId, ResourceId};
use gyre_engine::{Engine, GridConfig, ResourceConfig, Step};
use gyre_machine::{Machine, set_core_count};
use gyre_message::{Link, protocol};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

protocol! {
    /// Sends numbers back.
    pub mod echo {
        /// Returns the number.
        async fn echo(number: u64) -> Result<u64, Nobody>;
    }
}

struct Echo;
impl echo::Server for Echo {
    async fn echo(&'static self, number: u64) -> Result<u64, Nobody> {
        Ok(number)
    }
}
static ECHO: Echo = Echo;

fn play(engine: &'static Engine, done: &AtomicU64, wanted: u64) {
    while done.load(Ordering::SeqCst) < wanted {
        if let Step::Idle { until_cycles } = engine.step() {
            engine.wait(until_cycles);
        }
    }
}

#[test]
fn calls_between_two_cores_that_sleep_in_between_are_all_answered() {
    const CALLS: u64 = if cfg!(miri) { 20 } else { 20_000 };
    set_core_count(2);
    let accounts: &'static Accounts = Box::leak(Box::new(Accounts::new(2)));
    let resources = vec![
        ResourceConfig { cores: 0b01, ..ResourceConfig::new("zero") },
        ResourceConfig { cores: 0b10, ..ResourceConfig::new("one") },
    ];
    // A host that lets one thread stand still for long is no fault of the engine.
    let config = GridConfig { is_watched: false, ..GridConfig::new(resources) };
    let engine = Engine::build(config, accounts).unwrap();
    let client = |position| {
        let port = engine.port(resource(position), |request| echo::serve(&ECHO, request));
        echo::Client::new(Link::new(port))
    };
    let clients = [client(0), client(1)];
    let done: Arc<AtomicU64> = Arc::default();
    let activity = tenant(engine, 1);
    for core in 0..2usize {
        let (client, done) = (clients[1 - core], done.clone());
        engine.spawn_for_on(core, ResourceId::RUNTIME, activity, move || async move {
            for number in 0..CALLS {
                assert_eq!(client.echo(number).await, Ok(number));
                done.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    let (machine, other) = (Machine::current(), done.clone());
    let second = std::thread::spawn(move || {
        Machine::join(machine, 1);
        play(engine, &other, 2 * CALLS);
    });
    play(engine, &done, 2 * CALLS);
    second.join().unwrap();
    check_books(engine);
    let _ = ActivityId::INFRASTRUCTURE;
}
