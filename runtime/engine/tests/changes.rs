//! Changes of a resource by its owner while it runs: weight, priority, cores, batching factor. Each has its effect, and touches nothing else.

mod common;
use common::*;
use gyre_account::{ActivityId, Column};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, GridConfig, ResourceConfig};
use gyre_machine::advance;
use gyre_message::{Link, protocol};
use gyre_schedulers::tree::Tree;
use gyre_schedulers::{strict_priority, weighted_fair};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

const WORK_NS: u64 = 2_000;
const WINDOW_NS: u64 = 20_000_000;
/// Clients of each tenant at each resource: there is always one that waits.
const CLIENTS: usize = 8;

protocol! {
    /// Burns time.
    pub mod burner {
        /// Computes for [`WORK_NS`].
        async fn burn() -> Result<(), Nobody>;
    }
}

struct Burner;
impl burner::Server for Burner {
    async fn burn(&'static self) -> Result<(), Nobody> {
        advance(WORK_NS);
        Ok(())
    }
}
static BURNER: Burner = Burner;

/// Two resources, whose requests are always queued; the second has urgency 5 and weight 2.
fn machine(cores: usize) -> &'static Engine {
    let second = ResourceConfig { priority: 5, weight: 2, ..ResourceConfig::new("second") };
    let below = strict_below();
    GridConfig { cpu: Box::new(below), inlines: false, ..GridConfig::new(vec![ResourceConfig::new("first"), second]) }
        .on(cores)
}

/// Tenants by weight, within a tenant by priority, those of one priority by weight.
fn strict_below() -> Tree {
    let root = weighted_fair::policy(weighted_fair::Params::default());
    Tree::new(Box::new(root), Arc::new(strict_priority::policy(strict_priority::Params::default())), Vec::new())
        .unwrap()
}

trait On {
    fn on(self, cores: usize) -> &'static Engine;
}

impl On for GridConfig {
    fn on(self, cores: usize) -> &'static Engine {
        engine_of(cores, self)
    }
}

/// Keeps a resource busy for a tenant; notes who was answered in `log`.
fn load(engine: &'static Engine, payer: ActivityId, position: u8, log: &Rc<RefCell<Vec<ActivityId>>>) {
    let port = engine.port(resource(position), |request| burner::serve(&BURNER, request));
    let client = burner::Client::new(Link::new(port));
    for _ in 0..CLIENTS {
        let log = log.clone();
        engine.spawn_for(resource(position), payer, async move {
            loop {
                client.burn().await.unwrap();
                log.borrow_mut().push(payer);
            }
        });
    }
}

fn handled(engine: &Engine, payer: ActivityId, position: u8, core: usize) -> u64 {
    engine.accounts().line(core).table().cell(payer, resource(position)).get(Column::Cycles)
}

/// Use of a core by the two resources in the next window.
fn window(simulator: &mut Simulator, engine: &Engine, payer: ActivityId, core: usize) -> [u64; 2] {
    let before = [0, 1].map(|position| handled(engine, payer, position, core));
    assert_eq!(simulator.run_for(simulator.now_ns() + WINDOW_NS, 1_000_000), Stop::TimeOver);
    [0, 1].map(|position| handled(engine, payer, position, core) - before[usize::from(position)])
}

fn info(engine: &Engine, position: u8) -> (u32, u8) {
    let info = engine.resource_info(resource(position)).unwrap();
    (info.weight, info.priority)
}

#[test]
fn a_priority_decides_once_it_is_changed_and_the_weight_stays() {
    let engine = machine(1);
    let payer = tenant(engine, 100);
    (0..2).for_each(|position| load(engine, payer, position, &Rc::default()));
    let mut simulator = Simulator::new(engine, 3);
    let [first, second] = window(&mut simulator, engine, payer, 0);
    assert!(second > 50 * first, "5 goes before 0: {first}, {second}");
    engine.set_resource_params(resource(0), None, Some(9)).unwrap();
    window(&mut simulator, engine, payer, 0);
    let [first, second] = window(&mut simulator, engine, payer, 0);
    assert!(first > 50 * second, "9 goes before 5: {first}, {second}");
    assert_eq!((info(engine, 0), info(engine, 1)), ((1, 9), (2, 5)));
}

#[test]
fn a_weight_decides_once_it_is_changed_and_the_priority_stays() {
    let second = ResourceConfig { priority: 5, ..ResourceConfig::new("second") };
    let grid = GridConfig::new(vec![ResourceConfig::new("first"), second]);
    let engine = GridConfig { inlines: false, ..grid }.on(1);
    let payer = tenant(engine, 100);
    (0..2).for_each(|position| load(engine, payer, position, &Rc::default()));
    let mut simulator = Simulator::new(engine, 3);
    let ratio = |[first, second]: [u64; 2]| second as f64 / first as f64;
    let before = ratio(window(&mut simulator, engine, payer, 0));
    assert!((0.9..1.1).contains(&before), "1 : 1, got {before}");
    engine.set_resource_params(resource(1), Some(3), None).unwrap();
    window(&mut simulator, engine, payer, 0);
    let after = ratio(window(&mut simulator, engine, payer, 0));
    assert!((2.7..3.3).contains(&after), "1 : 3, got {after}");
    assert_eq!(info(engine, 1), (3, 5));
}

#[test]
fn requests_go_to_the_cores_that_a_resource_has_now() {
    let engine = machine(2);
    let payer = tenant(engine, 100);
    engine.set_cores(resource(0), 0b01).unwrap();
    load(engine, payer, 0, &Rc::default());
    let mut simulator = Simulator::new(engine, 3);
    let on = |engine: &Engine| [0, 1].map(|core| handled_messages(engine, payer, core));
    assert_eq!(simulator.run_for(WINDOW_NS, 1_000_000), Stop::TimeOver);
    assert_eq!(on(engine)[1], 0, "all on the first core");
    engine.set_cores(resource(0), 0b10).unwrap();
    assert_eq!(simulator.run_for(2 * WINDOW_NS, 1_000_000), Stop::TimeOver);
    let middle = on(engine);
    assert_eq!(simulator.run_for(3 * WINDOW_NS, 1_000_000), Stop::TimeOver);
    let end = on(engine);
    assert!(end[1] > middle[1] + 1000, "the second core works: {middle:?}, {end:?}");
    assert!(engine.set_cores(resource(0), 0b100).is_err(), "there is no third core");
}

/// Counts requests of the resource that a core handled: its cycles by what one takes.
fn handled_messages(engine: &Engine, payer: ActivityId, core: usize) -> u64 {
    let cycles = handled(engine, payer, 0, core);
    cycles * 1_000_000 / gyre_machine::cycles_per_ms() / WORK_NS
}

#[test]
fn a_batch_is_handled_per_decision() {
    let runs = |batch: u32| {
        let engine =
            GridConfig { inlines: false, has_turns: false, ..GridConfig::new(vec![ResourceConfig::new("first")]) }
                .on(1);
        engine.set_batch(resource(0), batch).unwrap();
        let (left, right) = (tenant(engine, 100), tenant(engine, 100));
        let log = Rc::new(RefCell::new(Vec::new()));
        [left, right].into_iter().for_each(|payer| load(engine, payer, 0, &log));
        assert_eq!(Simulator::new(engine, 3).run_for(WINDOW_NS, 1_000_000), Stop::TimeOver);
        let log = log.borrow();
        assert!(log.len() > 1000, "{}", log.len());
        log.len() as f64 / (1 + log.windows(2).filter(|pair| pair[0] != pair[1]).count()) as f64
    };
    let (one, eight) = (runs(1), runs(8));
    assert!(eight > 2.0 * one, "mean run of one tenant: {one} at batch 1, {eight} at batch 8");
}
