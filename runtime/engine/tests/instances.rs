//! Several instances in one process, on one virtual clock: none sees another, and the end of one changes nothing for the others.
#![allow(missing_docs, reason = "a test")]

mod common;

use common::{Nobody, check_books, resource, tenant};
use gyre_account::{Accounts, Column};
use gyre_engine::simulate::{Goal, Instance, InstanceId, Outside, Reached, Stop, World};
use gyre_engine::{Engine, GridConfig, ResourceConfig};
use gyre_machine::random::Random;
use gyre_machine::{Frame, Machine, advance, live_frame_bytes};
use gyre_message::{Link, protocol, sleep_ns, yield_now};
use gyre_object::{Census, Counter, SpinLock, per_instance};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const MS: u64 = 1_000_000;
/// The first time of the clocks of all instances, ns.
const START_NS: u64 = 1_000;
/// How long an instance has work, ns.
const BUSY_NS: u64 = 4 * MS;
const STEPS_MAX: u64 = 2_000_000;
/// Seeds of which each kills an instance at another instant.
const SEEDS: u64 = 20;

protocol! {
    pub mod store {
        async fn put(bytes: u64) -> Result<u64, super::Nobody>;
    }
}

/// A thing in the store.
struct Thing {
    _frame: Frame,
    _count: Counter,
}

per_instance! {
    static THINGS: Census = Census::of::<Thing>();
    static KEPT: SpinLock<Vec<Thing>> = SpinLock::new(Vec::new());
}

struct Store;

impl store::Server for Store {
    async fn put(&'static self, bytes: u64) -> Result<u64, Nobody> {
        advance(bytes);
        let frame = Frame::allocate(0).map_err(|_| Nobody)?;
        KEPT.lock().push(Thing { _frame: frame, _count: THINGS.count() });
        match bytes % 3 {
            0 => sleep_ns(bytes).await,
            1 => yield_now().await,
            _ => {}
        }
        let mut kept = KEPT.lock();
        if kept.len() > 40 {
            kept.pop();
        }
        Ok(bytes)
    }
}

/// A device that acts at times of its own.
struct Device {
    number: usize,
    at_ns: Cell<u64>,
    gap_ns: u64,
    /// When each device acted, in the order in which the world let them.
    log: Rc<RefCell<Vec<(u64, usize)>>>,
}

impl Outside for Device {
    fn next_at(&self) -> Option<u64> {
        Some(self.at_ns.get()).filter(|at| *at < BUSY_NS)
    }

    fn act(&self, at_ns: u64) {
        self.log.borrow_mut().push((at_ns, self.number));
        gyre_machine::post_event(0, 1 << gyre_machine::Events::FIRST_LINE);
        self.at_ns.set(at_ns + self.gap_ns);
    }
}

fn build(seed: u64) -> &'static Engine {
    let mut random = Random::new(seed, 1);
    let cores = 1 + random.below(3) as usize;
    gyre_machine::set_core_count(cores);
    gyre_machine::set_virtual_tick(5 + random.below(40));
    let accounts: &'static Accounts = Box::leak(Box::new(Accounts::new(cores)));
    gyre_machine::set_memory_meter(&accounts.activities);
    let engine = Engine::build(GridConfig::new(vec![ResourceConfig::new("store")]), accounts).unwrap();
    gyre_object::register_pool("things", &*THINGS);
    gyre_object::register_lock("kept", &*KEPT);
    let port = engine.port(resource(0), |request| store::serve(&Store, request));
    for _ in 0..1 + random.below(3) {
        let activity = tenant(engine, 1 + random.below(9) as u32);
        for _ in 0..1 + random.below(4) {
            let client = store::Client::new(Link::new(port));
            let mut random = Random::new(random.draw(), 2);
            engine.spawn_for(resource(0), activity, async move {
                while gyre_machine::now() < BUSY_NS {
                    let answer = client.put(random.below(20_000)).await;
                    assert!(answer.is_ok());
                    sleep_ns(random.below(30_000)).await;
                }
            });
        }
    }
    engine
}

fn boot(seed: u64, number: usize, log: &Rc<RefCell<Vec<(u64, usize)>>>) -> Instance {
    let mut instance = Instance::boot(seed, START_NS, || build(seed));
    let gap_ns = 20_000 + Random::new(seed, 3).below(90_000);
    instance.attach(Rc::new(Device { number, at_ns: Cell::new(gap_ns), gap_ns, log: log.clone() }));
    instance
}

/// Returns all that an instance can know of itself: its registry, its counters, its ledger, its memory, its clocks, its entropy.
fn figures(instance: &Instance) -> String {
    let engine = instance.engine();
    instance.within(|| {
        check_books(engine);
        let ledger = |core| {
            let table = engine.accounts().line(core).table();
            (table.sum(Column::Cycles), table.sum(Column::Messages), engine.accounts().line(core).partition())
        };
        let held = (0..6).map(|activity| engine.accounts().activities.held_bytes(gyre_account::ActivityId(activity)));
        let mut random = [0; 8];
        gyre_machine::fill_random(&mut random);
        format!(
            "{} turns, trace {:x}, locks {:?}, pools {:?}, ledger {:?}, held {:?}, frames {}, random {random:?}, clock {}",
            instance.steps(),
            instance.trace_hash(),
            gyre_object::lock_profiles(),
            gyre_object::pool_statistics(),
            (0..engine.cores()).map(ledger).collect::<Vec<_>>(),
            held.collect::<Vec<_>>(),
            live_frame_bytes(),
            gyre_machine::virtual_clock(0),
        )
    })
}

fn all_work() -> Goal<'static> {
    Goal::new(|| false).within_steps(STEPS_MAX)
}

/// Returns the figures of an instance that has done its work alone.
fn alone(seed: u64) -> String {
    let mut world = World::new(0);
    let id = world.add(boot(seed, 0, &Rc::default()));
    world.aim(id, all_work());
    assert_eq!(world.run(u64::MAX), Reached::Goal(id, Stop::Quiet));
    figures(world.instance(id).unwrap())
}

#[test]
fn two_instances_do_not_see_each_other() {
    for seed in 1..=5 {
        let (mut world, log) = (World::new(seed), Rc::default());
        let seeds = [world.stream(0), world.stream(1)];
        assert_ne!(seeds[0], seeds[1]);
        let ids: Vec<InstanceId> = (0..2).map(|number| world.add(boot(seeds[number], number, &log))).collect();
        ids.iter().for_each(|id| world.aim(*id, all_work()));
        for _ in 0..2 {
            assert!(matches!(world.run(u64::MAX), Reached::Goal(_, Stop::Quiet)));
        }
        assert_eq!(world.run(u64::MAX), Reached::Nothing);
        for (id, seed) in ids.iter().zip(seeds) {
            assert_eq!(figures(world.instance(*id).unwrap()), alone(seed));
        }
        assert!(live_frame_bytes() == 0 && gyre_object::pool_statistics().is_empty(), "the test's own instance");
        let log = log.borrow();
        assert!(log.is_sorted() && log.iter().any(|(_, number)| *number == 1), "one order by time");
    }
}

#[test]
fn killing_one_leaves_the_others_trace() {
    for seed in 1..=SEEDS {
        let (mut world, log) = (World::new(seed), Rc::new(RefCell::new(Vec::new())));
        let seeds = [world.stream(0), world.stream(1)];
        let kept = world.add(boot(seeds[0], 0, &log));
        let (doomed, engine, machine) = {
            let instance = boot(seeds[1], 1, &log);
            let (engine, machine) = (instance.engine(), instance.within(Machine::current));
            (world.add(instance), engine, machine)
        };
        world.aim(kept, all_work());
        world.aim(doomed, all_work());
        let at_ns = START_NS + Random::new(seed, 4).below(BUSY_NS - 2 * START_NS);
        assert_eq!(world.run(at_ns), Reached::Time, "seed {seed}");
        assert!(world.kill(doomed).is_some() && world.kill(doomed).is_none() && world.instance(doomed).is_none());
        let acted = log.borrow().iter().filter(|(_, number)| *number == 1).count();
        assert_eq!(Rc::strong_count(&log), 2, "its device is still there");
        assert_eq!(world.run(u64::MAX), Reached::Goal(kept, Stop::Quiet), "seed {seed}");
        assert_eq!(log.borrow().iter().filter(|(_, number)| *number == 1).count(), acted, "its device acts on");
        assert_eq!(figures(world.instance(kept).unwrap()), alone(seeds[0]), "seed {seed}, killed at {at_ns}");
        for core in 0..engine.cores() {
            machine.select(core);
            let left = engine.copy_figures();
            assert_eq!((left.tasks, left.queued, left.timers), (0, 0, 0), "seed {seed}: left on core {core}");
            assert_eq!((live_frame_bytes(), gyre_machine::armed_timer(core)), (0, None));
        }
    }
}

#[test]
fn eight_instances_switched_on_at_times_of_their_own_do_what_each_does_alone() {
    let play = |later: [u64; 8]| {
        let (mut world, log) = (World::new(9), Rc::default());
        let seeds: [u64; 8] = std::array::from_fn(|number| world.stream(number as u64));
        let ids: Vec<InstanceId> =
            (0..8).map(|number| world.add_later(boot(seeds[number], number, &log), later[number])).collect();
        ids.iter().for_each(|id| world.aim(*id, all_work()));
        while let Reached::Goal(_, stop) = world.run(u64::MAX) {
            assert_eq!(stop, Stop::Quiet);
        }
        for (id, seed) in ids.iter().zip(seeds) {
            assert_eq!(figures(world.instance(*id).unwrap()), alone(seed));
        }
        log.borrow().iter().map(|(_, number)| *number).collect::<Vec<_>>()
    };
    let (at_once, one_by_one) = (play([0; 8]), play(std::array::from_fn(|number| number as u64 * MS / 3)));
    assert!(at_once.len() == one_by_one.len() && at_once != one_by_one, "their steps lie beside others");
}

#[test]
fn an_instance_whose_step_fails_is_known_and_the_others_go_on() {
    let (mut world, log) = (World::new(7), Rc::default());
    let seeds = [world.stream(0), world.stream(1)];
    let (kept, failing) = (world.add(boot(seeds[0], 0, &log)), world.add(boot(seeds[1], 1, &log)));
    let instance = world.instance(failing).unwrap();
    let engine = instance.engine();
    instance.within(|| {
        engine.spawn_for(resource(0), tenant(engine, 1), async {
            sleep_ns(MS).await;
            std::panic::resume_unwind(Box::new("on purpose"));
        })
    });
    [kept, failing].iter().for_each(|id| world.aim(*id, all_work()));
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run(u64::MAX)));
    assert!(ran.is_err() && world.last() == Some(failing));
    world.rest(failing);
    assert_eq!(world.run(u64::MAX), Reached::Goal(kept, Stop::Quiet));
    assert_eq!(figures(world.instance(kept).unwrap()), alone(seeds[0]));
}

#[test]
fn an_instance_without_a_goal_stands_still() {
    let (mut world, log) = (World::new(3), Rc::default());
    let (one, other) = (world.add(boot(1, 0, &log)), world.add(boot(2, 1, &log)));
    let before = figures(world.instance(other).unwrap());
    world.aim(one, Goal::time(MS).within_steps(STEPS_MAX));
    assert_eq!(world.run(u64::MAX), Reached::Goal(one, Stop::TimeOver));
    assert!((MS / 2..MS).contains(&world.now_ns()));
    let entropy = before.find("random").unwrap();
    assert_eq!(figures(world.instance(other).unwrap())[..entropy], before[..entropy]);
}
