//! A failure in work done for one tenant ends that work: a task that waits for it hears so, neighbours go on, and the books stay exact.

mod common;
use common::*;
use gyre_account::{ActivityId, set_current};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, Lost, Obituary, Reach, ResourceConfig, ThreadParams};
use gyre_machine::advance;
use gyre_message::{Labels, Link, protocol, sleep_ns, yield_now};
use gyre_object::{ObjectLock, SpinLock, TenantLock};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

protocol! {
    /// Work that fails at a given place.
    pub mod work {
        /// Does it, or fails.
        async fn work(plan: Plan) -> Result<u32, Nobody>;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Plan {
    Succeed,
    FailAtOnce,
    FailAfterWaiting,
    FailWithLock,
    FailWithTenantLock,
    FailWithMachineLock,
}

/// Fails as a panic does, but silently.
fn fail() -> ! {
    resume_unwind(Box::new("the work fails"))
}

struct Server {
    next: Option<work::Client>,
    object: ObjectLock<u32>,
    tenant: TenantLock<u32>,
    machine: SpinLock<u32>,
}

/// A guard of work that is given up on the machine is never dropped.
fn fail_with<T>(guard: T) -> ! {
    std::mem::forget(guard);
    fail()
}

impl work::Server for Server {
    async fn work(&'static self, plan: Plan) -> Result<u32, Nobody> {
        advance(300);
        if let Some(next) = self.next {
            return next.work(plan).await;
        }
        match plan {
            Plan::Succeed => {}
            Plan::FailAtOnce => fail(),
            Plan::FailAfterWaiting => {
                sleep_ns(5_000).await;
                fail()
            }
            Plan::FailWithLock => fail_with(self.object.lock()),
            Plan::FailWithTenantLock => fail_with(self.tenant.lock()),
            Plan::FailWithMachineLock => fail_with(self.machine.lock()),
        }
        sleep_ns(2_000).await;
        let value = self.object.lock_unless_lost().map_or(0, |value| *value);
        Ok(value)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Told {
    activity: ActivityId,
    kind: Lost,
    reach: Reach,
}

thread_local! {
    static TOLD: RefCell<Vec<Told>> = const { RefCell::new(Vec::new()) };
}

fn note(obituary: &Obituary) {
    assert!(obituary.failure.message().contains("fail"), "{}", obituary.failure.message());
    TOLD.with_borrow_mut(|told| {
        told.push(Told { activity: obituary.activity, kind: obituary.kind, reach: obituary.reach });
    });
}

fn told() -> Vec<Told> {
    TOLD.with_borrow_mut(std::mem::take)
}

struct World {
    engine: &'static Engine,
    client: work::Client,
    server: &'static Server,
}

fn world(cores: usize) -> World {
    let engine = engine(cores, ["front", "back"].into_iter().map(ResourceConfig::new).collect());
    engine.contain_failures(&note);
    let mut next = None;
    let mut last = None;
    for position in [1, 0] {
        let server: &'static Server = Box::leak(Box::new(Server {
            next,
            object: ObjectLock::new(7),
            tenant: TenantLock::new(7),
            machine: SpinLock::new(7),
        }));
        engine.set_reach(resource(position), Reach::Process);
        let port = engine.port(resource(position), move |request| work::serve(server, request));
        // The last one is elsewhere if there is another core.
        let labels = Labels { affinity: u64::from(position) * 5, dependency: 0 };
        next = Some(work::Client::new(Link::new(port).labelled(labels)));
        last.get_or_insert(server);
    }
    World { engine, client: next.unwrap(), server: last.unwrap() }
}

impl World {
    /// Starts work that asks with each plan, one after the other; answers what it heard so far.
    fn ask(&self, activity: ActivityId, plans: &[Plan]) -> Rc<RefCell<Vec<Result<u32, Nobody>>>> {
        let heard = Rc::new(RefCell::new(Vec::new()));
        let (client, plans, notes) = (self.client, plans.to_vec(), heard.clone());
        self.engine.spawn_for(resource(0), activity, async move {
            for plan in plans {
                let answer = client.work(plan).await;
                notes.borrow_mut().push(answer);
            }
        });
        heard
    }

    fn finish(&self, seed: u64) -> u64 {
        let mut simulator = Simulator::new(self.engine, seed);
        assert_eq!(simulator.run(200_000, || false), Stop::Quiet);
        check_books(self.engine);
        assert_eq!(gyre_object::locks_held(), 0);
        simulator.trace_hash()
    }
}

#[test]
fn who_waits_for_work_that_failed_hears_that_it_is_gone() {
    for cores in [1, 2] {
        let world = world(cores);
        let (bad, good) = (tenant(world.engine, 1), tenant(world.engine, 1));
        let plans = [Plan::FailAtOnce, Plan::Succeed, Plan::FailAfterWaiting, Plan::Succeed];
        let heard = world.ask(bad, &plans);
        let neighbour = world.ask(good, &[Plan::Succeed; 4]);
        world.finish(3);
        assert_eq!(*heard.borrow(), [Err(Nobody), Ok(7), Err(Nobody), Ok(7)]);
        assert_eq!(*neighbour.borrow(), [Ok(7); 4]);
        let expected = Told { activity: bad, kind: Lost::Request, reach: Reach::Process };
        assert_eq!(told(), [expected; 2]);
    }
}

#[test]
fn locks_of_failed_work_stay_closed_and_say_what_is_lost() {
    let world = world(1);
    let (bad, good) = (tenant(world.engine, 1), tenant(world.engine, 1));
    let heard = world.ask(bad, &[Plan::FailWithLock, Plan::FailWithTenantLock, Plan::FailWithLock, Plan::Succeed]);
    world.finish(5);
    let reaches: Vec<Reach> = told().iter().map(|told| told.reach).collect();
    assert_eq!(reaches, [Reach::Process, Reach::Tenant, Reach::Process], "the third wanted the lost lock");
    assert_eq!(*heard.borrow(), [Err(Nobody), Err(Nobody), Err(Nobody), Ok(0)]);
    assert!(world.server.object.lock_unless_lost().is_none());
    let neighbour = world.ask(good, &[Plan::Succeed]);
    world.finish(6);
    assert_eq!(*neighbour.borrow(), [Ok(0)]);
}

#[test]
fn a_failure_is_not_contained_where_others_may_be_hurt() {
    let fails = |activity: fn(&Engine) -> ActivityId, plan: Plan, reach: Reach| {
        let world = world(1);
        world.engine.set_reach(resource(1), reach);
        world.ask(activity(world.engine), &[plan]);
        let ran = catch_unwind(AssertUnwindSafe(|| world.finish(1)));
        gyre_object::forget_locks_held();
        assert!(told().is_empty() || ran.is_ok());
        ran.is_err()
    };
    assert!(fails(|engine| tenant(engine, 1), Plan::FailWithMachineLock, Reach::Process));
    assert!(fails(|engine| tenant(engine, 1), Plan::FailAtOnce, Reach::Machine));
    assert!(fails(|_| ActivityId::INFRASTRUCTURE, Plan::FailAtOnce, Reach::Process));
    assert!(!fails(|engine| tenant(engine, 1), Plan::FailAtOnce, Reach::Tenant));
}

#[test]
fn a_thread_that_fails_is_gone_and_its_place_is_free() {
    let world = world(2);
    let bad = tenant(world.engine, 1);
    for round in 0..50 {
        let params = ThreadParams { cores: u64::MAX, kernel: resource(0) };
        let thread = Box::pin(async {
            yield_now().await;
            fail()
        });
        assert!(world.engine.spawn_thread(bad, params, thread));
        world.finish(round);
    }
    let expected = Told { activity: bad, kind: Lost::Thread, reach: Reach::Process };
    assert_eq!(told(), [expected; 50]);
}

#[test]
fn a_drop_that_fails_is_contained_too() {
    struct Bad(Rc<Cell<u32>>);
    impl Drop for Bad {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
            fail()
        }
    }
    let world = world(1);
    let bad = tenant(world.engine, 1);
    let drops = Rc::new(Cell::new(0));
    for _ in 0..2 {
        let held = Bad(drops.clone());
        world.engine.spawn_for(resource(0), bad, async move {
            sleep_ns(1 << 40).await;
            drop(held);
        });
    }
    Simulator::new(world.engine, 1).run(50, || false);
    let ended = Rc::new(Cell::new(false));
    let (seen, engine) = (ended.clone(), world.engine);
    set_current(ActivityId::INFRASTRUCTURE, resource(0));
    world.engine.spawn_for(resource(0), ActivityId::INFRASTRUCTURE, async move {
        engine.kill(bad).await.unwrap();
        seen.set(true);
    });
    world.finish(2);
    assert!(ended.get());
    assert_eq!((drops.get(), told().len()), (2, 2));
}

#[test]
fn failures_are_repeated_by_their_seed() {
    let run = |seed: u64| {
        let world = world(2);
        let (bad, good) = (tenant(world.engine, 2), tenant(world.engine, 1));
        let plans = [Plan::FailAfterWaiting, Plan::Succeed, Plan::FailAtOnce, Plan::FailWithLock, Plan::Succeed];
        world.ask(bad, &plans);
        let neighbour = world.ask(good, &[Plan::Succeed; 6]);
        let hash = world.finish(seed);
        assert_eq!(neighbour.borrow().len(), 6);
        (hash, told().len())
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed));
    }
}
