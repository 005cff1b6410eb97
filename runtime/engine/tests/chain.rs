//! A client and a chain of four resources on simulated cores: every reply arrives, every cycle is accounted for.

use gyre_account::{Accounts, ActivityId, ActivityParams, Column};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, FIRST_RESOURCE, GridConfig, ResourceConfig};
use gyre_machine::{advance, set_core_count, set_virtual_tick, set_virtual_time};
use gyre_message::{Gone, Labels, protocol};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::OnceLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nobody;

impl From<Gone> for Nobody {
    fn from(_: Gone) -> Nobody {
        Nobody
    }
}

protocol! {
    /// Passes a number down a chain and back.
    pub mod layer {
        /// Adds one at each layer.
        async fn down(value: u64) -> Result<u64, Nobody>;
    }
}

struct Layer {
    next: OnceLock<layer::Client>,
    cost_ns: u64,
    sleeps_ns: u64,
}

impl layer::Server for Layer {
    async fn down(&'static self, value: u64) -> Result<u64, Nobody> {
        advance(self.cost_ns);
        if self.sleeps_ns > 0 {
            gyre_message::sleep_ns(self.sleeps_ns).await;
        }
        match self.next.get() {
            Some(next) => Ok(next.down(value + 1).await? + 1),
            None => Ok(value),
        }
    }
}

struct World {
    engine: &'static Engine,
    first: layer::Client,
}

fn world(cores: usize, affinity: u64, sleeps_ns: u64) -> World {
    set_core_count(cores);
    set_virtual_time(1_000);
    set_virtual_tick(20);
    let accounts: &'static Accounts = Box::leak(Box::new(Accounts::new(cores)));
    let resources = ["a", "b", "c", "d"].iter().map(|name| ResourceConfig::new(name)).collect();
    let engine = Engine::build(GridConfig::new(resources), accounts).unwrap();
    let layers: Vec<&'static Layer> = (0..4)
        .map(|level| {
            let sleeps_ns = if level == 3 { sleeps_ns } else { 0 };
            let layer = Layer { next: OnceLock::new(), cost_ns: 500, sleeps_ns };
            &*Box::leak(Box::new(layer))
        })
        .collect();
    let clients: Vec<layer::Client> = (0..4u8)
        .map(|level| {
            let server = layers[level as usize];
            let port = engine
                .port(gyre_account::ResourceId(FIRST_RESOURCE + level), move |request| layer::serve(server, request));
            let labels = Labels { affinity: affinity * u64::from(level + 1), dependency: 0 };
            layer::Client::new(gyre_message::Link::new(port)).labelled(labels)
        })
        .collect();
    for level in 0..3 {
        assert!(layers[level].next.set(clients[level + 1]).is_ok());
    }
    World { engine, first: clients[0] }
}

/// Runs `calls` calls in each of `activities` activities and returns how many were answered right.
fn run(world: &World, seed: u64, activities: usize, calls: u64) -> (Simulator, Vec<ActivityId>, u64) {
    let calls = if cfg!(miri) { calls.min(3) } else { calls };
    let done = Rc::new(Cell::new(0));
    let ids: Vec<ActivityId> = (0..activities)
        .map(|_| world.engine.accounts().activities.create(None, "a test", ActivityParams::default()).unwrap())
        .collect();
    for &activity in &ids {
        let (first, done) = (world.first, done.clone());
        let task = async move {
            for call in 0..calls {
                assert_eq!(first.down(call).await, Ok(call + 6));
                done.set(done.get() + 1);
            }
        };
        world.engine.spawn_for(gyre_account::ResourceId::RUNTIME, activity, task);
    }
    let mut simulator = Simulator::new(world.engine, seed);
    let wanted = activities as u64 * calls;
    let answered = done.clone();
    assert_eq!(simulator.run(1_000_000, move || answered.get() == wanted), Stop::Done);
    (simulator, ids, done.get())
}

fn check_books(world: &World) {
    for core in 0..world.engine.cores() {
        let partition = world.engine.accounts().line(core).partition();
        assert_eq!(partition.unattributed(), 0, "core {core}: {partition:?}");
    }
}

#[test]
fn calls_down_a_chain_are_answered_and_all_cycles_are_somebodys() {
    let world = world(2, 0, 0);
    let (_, ids, _) = run(&world, 1, 3, 100);
    check_books(&world);
    for id in ids {
        for level in 0..4 {
            let cell =
                world.engine.accounts().line(0).table().cell(id, gyre_account::ResourceId(FIRST_RESOURCE + level));
            // 100 handlers of 500 ns at least; their resumptions come on top.
            let calls = if cfg!(miri) { 3 } else { 100 };
            assert!(cell.get(Column::Cycles) >= calls * 500, "level {level}");
            assert!(cell.get(Column::Messages) >= calls);
        }
    }
}

#[test]
fn a_leaf_that_waits_for_a_timer_resumes_everybody_above_it() {
    let world = world(1, 0, 30_000);
    run(&world, 1, 3, 20);
    check_books(&world);
}

#[test]
fn labels_send_requests_to_other_cores_and_the_answers_come_back() {
    let world = world(2, 77, 5_000);
    let (mut simulator, ids, _) = run(&world, 5, 4, 50);
    check_books(&world);
    let used = |core: usize| {
        ids.iter()
            .flat_map(|&id| (0..4).map(move |level| (id, gyre_account::ResourceId(FIRST_RESOURCE + level))))
            .map(|(id, resource)| world.engine.accounts().line(core).table().cell(id, resource).get(Column::Cycles))
            .sum::<u64>()
    };
    assert!(used(0) > 0 && used(1) > 0, "both cores handled requests");
    assert_eq!(simulator.run(10_000, || false), Stop::Quiet, "nothing is left");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let trace = |seed| {
        std::thread::spawn(move || {
            let world = world(3, 13, 7_000);
            let (simulator, _, _) = run(&world, seed, 4, 30);
            (simulator.trace_hash(), simulator.steps())
        })
        .join()
        .unwrap()
    };
    assert_eq!(trace(42), trace(42));
    assert_ne!(trace(42), trace(43));
}
