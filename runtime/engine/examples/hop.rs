//! Measures the cost of a message on this host: `cargo run --release -p gyre-engine --example hop`.
//!
//! A client and a chain of four resources, replies all the way back: 8 hops a request, stamps, ledger and schedulers included. Best and
//! median of many short samples; handlers are empty and caches warm, so these are costs of mechanism, a lower bound.

use gyre_account::{Accounts, ActivityParams, ResourceId};
use gyre_engine::{Engine, FIRST_RESOURCE, GridConfig, ResourceConfig};
use gyre_message::{Gone, Link, protocol};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::OnceLock;

#[derive(Debug)]
pub struct Nobody;
impl From<Gone> for Nobody {
    fn from(_: Gone) -> Nobody {
        Nobody
    }
}

protocol! {
    /// Down a chain and back.
    pub mod layer {
        /// Adds one at each layer.
        async fn down(value: u64) -> Result<u64, Nobody>;
    }
}

struct Layer(OnceLock<layer::Client>);
impl layer::Server for Layer {
    async fn down(&'static self, value: u64) -> Result<u64, Nobody> {
        match self.0.get() {
            Some(next) => Ok(next.down(value + 1).await? + 1),
            None => Ok(value),
        }
    }
}

const LAYERS: u8 = 4;
const HOPS: u64 = 2 * LAYERS as u64;
const REQUESTS: u64 = 512;
const SAMPLES: usize = 300;
/// Requests of a client before it lets others run: its own turn is no hop, and counts for little so.
const REQUESTS_PER_TURN: u64 = 16;

fn measure(name: &str, mode: Mode, batch: u32, in_flight: usize, tenants: usize) {
    let accounts: &'static Accounts = Box::leak(Box::new(Accounts::new(1)));
    let resources =
        (0..LAYERS).map(|level| ResourceConfig { batch, ..ResourceConfig::new(&format!("layer {level}")) }).collect();
    let config =
        GridConfig { has_turns: mode != Mode::Asked, inlines: mode == Mode::Inline, ..GridConfig::new(resources) };
    let engine = Engine::build(config, accounts).unwrap();
    let mut next: Option<layer::Client> = None;
    for level in (0..LAYERS).rev() {
        let server: &'static Layer = Box::leak(Box::new(Layer(OnceLock::new())));
        if let Some(next) = next {
            let _ = server.0.set(next);
        }
        let port = engine.port(ResourceId(FIRST_RESOURCE + level), move |request| layer::serve(server, request));
        next = Some(layer::Client::new(Link::new(port)));
    }
    let client = next.unwrap();
    let done = Rc::new(Cell::new(0u64));
    let ids: Vec<_> =
        (0..tenants).map(|_| accounts.activities.create(None, "tenant", ActivityParams::default()).unwrap()).collect();
    for number in 0..in_flight {
        let done = done.clone();
        engine.spawn_for(ResourceId::RUNTIME, ids[number % tenants], async move {
            loop {
                for _ in 0..REQUESTS_PER_TURN {
                    assert_eq!(client.down(1).await.unwrap(), u64::from(LAYERS - 1) * 2 + 1);
                    done.set(done.get() + 1);
                }
                gyre_message::yield_now().await;
            }
        });
    }
    let mut samples: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let (start, first) = (std::time::Instant::now(), done.get());
            while done.get() < first + REQUESTS {
                engine.step();
            }
            start.elapsed().as_nanos() as f64 / (done.get() - first) as f64
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    let line = engine.accounts().line(0).partition();
    assert_eq!(line.unattributed(), 0);
    println!(
        "{name:<44} best {:6.0} median {:6.0} ns/request   {:5.1} / {:5.1} ns/hop   scheduling {:2.0} %",
        samples[0],
        samples[SAMPLES / 2],
        samples[0] / HOPS as f64,
        samples[SAMPLES / 2] / HOPS as f64,
        line.scheduling as f64 * 100.0 / (line.scheduling + line.handling) as f64,
    );
    assert!(engine.accounts().activities.ids().len() == tenants + 1);
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// Calls run inside their senders.
    Inline,
    /// Every start and resumption is queued; the policy grants turns.
    Turns,
    /// The policy is asked before each message.
    Asked,
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("inline") => return measure("inline", Mode::Inline, 1, 1, 1),
        Some("queued") => return measure("queued", Mode::Turns, 1, 1, 1),
        _ => {}
    }
    measure("inline", Mode::Inline, 1, 1, 1);
    measure("queued", Mode::Turns, 1, 1, 1);
    measure("queued, policy asked for each", Mode::Asked, 1, 1, 1);
    measure("inline, 32 requests of 8 tenants", Mode::Inline, 1, 32, 8);
    measure("queued, 32 requests of 8 tenants", Mode::Turns, 1, 32, 8);
    for batch in [1, 4, 8] {
        measure(&format!("the same, policy asked, batch {batch}"), Mode::Asked, batch, 32, 8);
    }
}
