//! Cores that one process keeps: nobody else's programs run there, and their idle time is on its bill.
//!
//! Three cores in the simulator, with programs that compute for ever and listeners that wait, of two tenants. One of them has a process that
//! keeps core 1 and runs bound to it.

mod common;
use common::*;
use gyre_account::{ActivityId, ActivityParams, Column};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, GridConfig, LEASE, ResourceConfig, ThreadParams, WithdrawError, Withdrawal, compute};
use gyre_machine::{PageTable, Trap, UserContext, core_index, now, select_core};
use gyre_message::{Labels, Link, WaitQueue, sleep_ns};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const STEPS: u64 = 2_000_000;
const MS: u64 = 1_000_000;
const CORE: usize = 1;
type Outcome = Rc<RefCell<Option<Result<(), WithdrawError>>>>;

fn keep(
    engine: &'static Engine,
    simulator: &mut Simulator,
    cores: u64,
    keeper: ActivityId,
) -> Result<(), WithdrawError> {
    let outcome = Outcome::default();
    let told = outcome.clone();
    select_core(0);
    engine.spawn_for(resource(0), ActivityId::INFRASTRUCTURE, async move {
        let answer = engine.keep_cores(cores, keeper).await;
        *told.borrow_mut() = Some(answer);
    });
    assert_eq!(simulator.run(STEPS, || outcome.borrow().is_some()), Stop::Done);
    let answer = outcome.borrow_mut().take();
    answer.unwrap()
}

fn pass(simulator: &mut Simulator, ns: u64) {
    let until = simulator.now_ns() + ns;
    simulator.run_for(until, STEPS);
}

fn params(cores: u64) -> ThreadParams {
    ThreadParams { cores, kernel: resource(0) }
}

/// A program that computes for so many turns of 50 us, sleeps, and begins again.
fn worker(engine: &'static Engine, activity: ActivityId, cores: u64, turns: u64) -> Arc<AtomicU64> {
    let done = Arc::new(AtomicU64::new(0));
    let counted = done.clone();
    let thread = Box::pin(async move {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        loop {
            for _ in 0..turns {
                context.script.push_back((50_000, Trap::SystemCall));
                compute::run(&mut context, &table).await;
                counted.fetch_add(1, Ordering::Relaxed);
            }
            sleep_ns(100_000).await;
        }
    });
    assert!(engine.spawn_thread(activity, params(cores), thread));
    done
}

fn listener(engine: &'static Engine, activity: ActivityId, bell: &'static WaitQueue, cores: u64) -> Arc<AtomicUsize> {
    let at = Arc::new(AtomicUsize::new(99));
    let told = at.clone();
    let thread = Box::pin(async move {
        loop {
            at.store(core_index(), Ordering::Relaxed);
            bell.wait().await;
        }
    });
    assert!(engine.spawn_thread(activity, params(cores), thread));
    told
}

fn leased(engine: &Engine, core: usize, keeper: ActivityId) -> u64 {
    engine.accounts().line(core).table().cell(keeper, LEASE).get(Column::Cycles)
}

#[test]
fn a_kept_core_runs_its_keepers_threads_alone_and_idles_on_its_bill() {
    let engine = engine(3, vec![ResourceConfig::new("work")]);
    let (tenant, other) = (tenant(engine, 10), tenant(engine, 10));
    let activities = &engine.accounts().activities;
    let process = activities.create(Some(tenant), "process", ActivityParams::default()).unwrap();
    let crowd: Vec<_> = [tenant, other].into_iter().flat_map(|who| (0..3).map(move |_| who)).collect();
    let crowd: Vec<_> = crowd.into_iter().map(|who| worker(engine, who, u64::MAX, 1000)).collect();
    let bell: &'static WaitQueue = Box::leak(Box::new(WaitQueue::new()));
    let heard: Vec<_> = (0..6).map(|_| listener(engine, other, bell, 1 << CORE)).collect();
    let mut simulator = Simulator::new(engine, 1);
    pass(&mut simulator, 20 * MS);
    assert!(used(engine, CORE, other, Column::Cycles) > 0);
    keep(engine, &mut simulator, 1 << CORE, process).unwrap();
    let own = worker(engine, process, 1 << CORE, 2);
    let late = worker(engine, other, 1 << CORE, 1000);
    let (before, leased_before) = (used(engine, CORE, other, Column::Cycles), leased(engine, CORE, process));
    let done: Vec<u64> = crowd.iter().map(|one| one.load(Ordering::Relaxed)).collect();
    bell.wake_all();
    pass(&mut simulator, 60 * MS);
    assert_eq!(used(engine, CORE, other, Column::Cycles), before, "somebody else's programs ran there");
    assert!(heard.iter().all(|at| at.load(Ordering::Relaxed) != CORE), "{heard:?}");
    assert!(crowd.iter().zip(&done).all(|(now, before)| now.load(Ordering::Relaxed) > before + 50));
    assert!(late.load(Ordering::Relaxed) > 50, "a program that is bound to the kept core runs elsewhere");
    assert!(own.load(Ordering::Relaxed) > 400, "{own:?}");
    let idle = leased(engine, CORE, process) - leased_before;
    assert!((20 * MS..40 * MS).contains(&idle), "{idle} cycles of the kept core were idle on its keeper's bill");
    select_core(0);
    engine.give_cores(1 << CORE);
    pass(&mut simulator, 60 * MS);
    assert!(used(engine, CORE, other, Column::Cycles) > before + 10 * MS, "the core is everybody's again");
    check_books(engine);
}

#[test]
fn a_core_has_one_keeper_and_does_not_leave_meanwhile() {
    let engine = engine(3, vec![ResourceConfig::new("work")]);
    let (one, other) = (tenant(engine, 10), tenant(engine, 10));
    let mut simulator = Simulator::new(engine, 2);
    assert_eq!(keep(engine, &mut simulator, 1, one), Err(WithdrawError::Resident));
    assert_eq!(keep(engine, &mut simulator, 1 << 5, one), Err(WithdrawError::Vacant));
    assert_eq!(keep(engine, &mut simulator, 0b11, one), Err(WithdrawError::Resident), "all or none");
    keep(engine, &mut simulator, 0b010, one).unwrap();
    assert!(matches!(keep(engine, &mut simulator, 0b110, other), Err(WithdrawError::Busy(_))), "all or none");
    keep(engine, &mut simulator, 0b100, other).unwrap();
    let outcome = Outcome::default();
    let told = outcome.clone();
    select_core(0);
    engine.spawn_for(resource(0), ActivityId::INFRASTRUCTURE, async move {
        let withdrawal = Withdrawal { slot: CORE, lessee: other, deadline_cycles: now() + 5 * MS };
        *told.borrow_mut() = Some(engine.withdraw_core(withdrawal).await.map(|_| ()));
    });
    assert_eq!(simulator.run(STEPS, || outcome.borrow().is_some()), Stop::Done);
    assert!(matches!(*outcome.borrow(), Some(Err(WithdrawError::Busy(_)))));
    select_core(0);
    engine.give_cores(0b110);
    keep(engine, &mut simulator, 0b110, other).unwrap();
    check_books(engine);
}

#[test]
fn a_keeper_that_ends_leaves_its_idle_time_to_its_tenant() {
    let engine = engine(2, vec![ResourceConfig::new("work")]);
    let tenant = tenant(engine, 10);
    let activities = &engine.accounts().activities;
    let process = activities.create(Some(tenant), "process", ActivityParams::default()).unwrap();
    let mut simulator = Simulator::new(engine, 3);
    keep(engine, &mut simulator, 1 << CORE, process).unwrap();
    pass(&mut simulator, 10 * MS);
    select_core(0);
    engine.spawn_for(resource(0), ActivityId::INFRASTRUCTURE, async move {
        let _ = engine.kill(process).await;
    });
    pass(&mut simulator, 10 * MS);
    select_core(0);
    engine.give_cores(1 << CORE);
    pass(&mut simulator, 10 * MS);
    check_books(engine);
}

gyre_message::protocol! {
    /// Something that is joined by a label.
    pub mod joined {
        /// Does something for it.
        async fn touch() -> Result<(), Nobody>;
    }
}

struct Server;
impl joined::Server for Server {
    async fn touch(&'static self) -> Result<(), Nobody> {
        Ok(())
    }
}

#[test]
fn programs_and_resources_that_have_no_other_core_go_on() {
    let bound = ResourceConfig { cores: 1 << CORE, ..ResourceConfig::new("bound") };
    let grid = GridConfig { thread_cores: 1 << CORE, ..GridConfig::new(vec![ResourceConfig::new("work"), bound]) };
    let engine = engine_of(2, grid);
    let (keeper, other) = (tenant(engine, 10), tenant(engine, 10));
    let mut simulator = Simulator::new(engine, 4);
    keep(engine, &mut simulator, 1 << CORE, keeper).unwrap();
    let done = worker(engine, other, u64::MAX, 1000);
    let client = joined::Client::new(Link::new(engine.port(resource(1), |request| joined::serve(&Server, request))));
    let (told, calls) = (Arc::new(AtomicU64::new(0)), client.labelled(Labels { affinity: 7, dependency: 0 }));
    let answered = told.clone();
    select_core(0);
    engine.spawn_for(resource(0), other, async move {
        calls.touch().await.unwrap();
        answered.fetch_add(1, Ordering::Relaxed);
    });
    pass(&mut simulator, 20 * MS);
    assert_eq!(told.load(Ordering::Relaxed), 1, "a request to a resource of the kept core alone");
    assert!(done.load(Ordering::Relaxed) > 50, "programs have the resident core then");
    assert_eq!(used(engine, CORE, other, Column::Messages), 1);
    check_books(engine);
}
