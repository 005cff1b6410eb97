//! Cores leave and come back while the instance runs: nothing is lost, nothing is half done, and every cycle is on one bill.
//!
//! The machine is an engine of two or three cores in the simulator, in virtual time. A test asks for a core by `withdraw`, lets time
//! pass, and gives it back by `join`. Programs are hogs that compute and count their turns, and listeners that wait for a bell and say on
//! which core they heard it.
//!
//! The tests hold that programs go on elsewhere and come back, that sleepers, listeners, timers and devices are served wherever their
//! core is, that a handler that does not end keeps its core and is named, that a core leaves once and the first never, and that tenants
//! and lessees may end meanwhile. Time away is the lessee's or left out of figures as wanted, and snapshots add up.
//!
//! The supervisor that takes the cores is left out: `resources/zones` has it.

mod common;
use common::*;
use gyre_account::{ActivityId, Column};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{
    Engine, Holder, LEASE, NoticeRoute, ResourceConfig, ThreadParams, WithdrawError, Withdrawal, Withdrawn, compute,
};
use gyre_machine::{PageTable, Trap, UserContext, core_index, now, post_event, select_core};
use gyre_message::{WaitQueue, reply_pair};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

const STEPS: u64 = 2_000_000;
const MS: u64 = 1_000_000;
type Outcome = Rc<RefCell<Option<Result<Withdrawn, WithdrawError>>>>;

fn machine(cores: usize) -> &'static Engine {
    engine(cores, vec![ResourceConfig::new("work"), ResourceConfig::new("interrupts")])
}

fn params(cores: u64) -> ThreadParams {
    ThreadParams { cores, kernel: resource(0) }
}

/// Asks for a core; the answer comes while the simulator runs.
fn ask(engine: &'static Engine, slot: usize, lessee: ActivityId, wait_ns: u64) -> Outcome {
    let outcome = Outcome::default();
    let told = outcome.clone();
    select_core(0);
    let withdrawal = Withdrawal { slot, lessee, deadline_cycles: now() + wait_ns };
    engine.spawn_for(resource(0), ActivityId::INFRASTRUCTURE, async move {
        let answer = engine.withdraw_core(withdrawal).await;
        *told.borrow_mut() = Some(answer);
    });
    outcome
}

fn withdraw(
    engine: &'static Engine,
    simulator: &mut Simulator,
    slot: usize,
    lessee: ActivityId,
) -> Result<Withdrawn, WithdrawError> {
    let outcome = ask(engine, slot, lessee, 5 * MS);
    assert_eq!(simulator.run(STEPS, || outcome.borrow().is_some()), Stop::Done);
    let answer = outcome.borrow_mut().take();
    answer.unwrap()
}

/// Runs for so long.
fn pass(simulator: &mut Simulator, ns: u64) {
    let until = simulator.now_ns() + ns;
    simulator.run_for(until, STEPS);
}

/// A program that computes for ever, and counts its turns.
fn hog(engine: &'static Engine, activity: ActivityId, cores: u64) -> Arc<AtomicU64> {
    let turns = Arc::new(AtomicU64::new(0));
    let counted = turns.clone();
    let thread = Box::pin(async move {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        loop {
            context.script.push_back((50_000, Trap::SystemCall));
            compute::run(&mut context, &table).await;
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(engine.spawn_thread(activity, params(cores), thread));
    turns
}

/// A program that waits for a ring of the bell, again and again; counts the rings and says where it heard the last.
fn listener(
    engine: &'static Engine,
    activity: ActivityId,
    bell: &'static WaitQueue,
    cores: u64,
) -> (Arc<AtomicU64>, Arc<AtomicUsize>) {
    let (heard, at) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(99)));
    let told = (heard.clone(), at.clone());
    let thread = Box::pin(async move {
        loop {
            at.store(core_index(), Ordering::Relaxed);
            bell.wait().await;
            heard.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(engine.spawn_thread(activity, params(cores), thread));
    told
}

fn cycles_of_loan(engine: &Engine, slot: usize, lessee: ActivityId) -> u64 {
    engine.accounts().line(slot).table().cell(lessee, LEASE).get(Column::Cycles)
}

#[test]
fn programs_go_on_elsewhere_and_come_back_with_the_core() {
    let engine = machine(2);
    let (tenant, lessee) = (tenant(engine, 10), tenant(engine, 10));
    let turns: Vec<_> = (0..4).map(|_| hog(engine, tenant, u64::MAX)).collect();
    let mut simulator = Simulator::new(engine, 1);
    pass(&mut simulator, 20 * MS);
    let taken = withdraw(engine, &mut simulator, 1, lessee).unwrap();
    assert!(taken.took_cycles < 300_000, "{taken:?}");
    assert_eq!(engine.online_cores(), 1);
    let (used, seen) = (used(engine, 1, tenant, Column::Cycles), turns.iter().map(|one| one.load(Ordering::Relaxed)));
    let seen: Vec<u64> = seen.collect();
    pass(&mut simulator, 40 * MS);
    assert_eq!(used, self::used(engine, 1, tenant, Column::Cycles), "a core that is lent serves nobody here");
    assert!(turns.iter().zip(&seen).all(|(now, before)| now.load(Ordering::Relaxed) > before + 50));
    assert_eq!(cycles_of_loan(engine, 1, lessee), 0, "nobody stamps");
    assert!(simulator.join(1));
    let lent = cycles_of_loan(engine, 1, lessee);
    assert!((40 * MS..42 * MS).contains(&lent), "{lent}");
    pass(&mut simulator, 20 * MS);
    let again = self::used(engine, 1, tenant, Column::Cycles) - used;
    assert!(again > 15 * MS, "only {again} cycles of programs after the return");
    check_books(engine);
}

#[test]
fn who_waits_on_a_core_that_leaves_is_woken_all_the_same() {
    let engine = machine(3);
    let tenant = tenant(engine, 10);
    let bell: &'static WaitQueue = Box::leak(Box::new(WaitQueue::new()));
    let listeners: Vec<_> = (0..12).map(|_| listener(engine, tenant, bell, u64::MAX)).collect();
    let slept = Arc::new(AtomicU64::new(0));
    for _ in 0..12 {
        let slept = slept.clone();
        let sleeper = Box::pin(async move {
            gyre_message::sleep_ns(8 * MS).await;
            slept.fetch_add(1, Ordering::Relaxed);
        });
        assert!(engine.spawn_thread(tenant, params(u64::MAX), sleeper));
    }
    let mut simulator = Simulator::new(engine, 2);
    pass(&mut simulator, MS);
    for slot in [2, 1] {
        assert!(withdraw(engine, &mut simulator, slot, ActivityId::INFRASTRUCTURE).is_ok());
    }
    select_core(0);
    bell.wake_all();
    pass(&mut simulator, MS);
    assert!(listeners.iter().all(|(heard, at)| heard.load(Ordering::Relaxed) == 1 && at.load(Ordering::Relaxed) == 0));
    pass(&mut simulator, 10 * MS);
    assert_eq!(slept.load(Ordering::Relaxed), 12, "timers move with the core's work");
    check_books(engine);
}

#[test]
fn a_program_that_may_use_no_core_that_is_there_uses_all_until_its_own_is_back() {
    let engine = machine(2);
    let tenant = tenant(engine, 10);
    let turns = hog(engine, tenant, 1 << 1);
    let mut simulator = Simulator::new(engine, 3);
    pass(&mut simulator, 5 * MS);
    assert_eq!(used(engine, 0, tenant, Column::Cycles), 0);
    withdraw(engine, &mut simulator, 1, ActivityId::INFRASTRUCTURE).unwrap();
    let before = turns.load(Ordering::Relaxed);
    pass(&mut simulator, 5 * MS);
    assert!(turns.load(Ordering::Relaxed) > before + 50);
    assert!(simulator.join(1));
    pass(&mut simulator, MS);
    let on_the_other = used(engine, 0, tenant, Column::Cycles);
    pass(&mut simulator, 5 * MS);
    assert_eq!(used(engine, 0, tenant, Column::Cycles), on_the_other, "it is at home again");
}

#[test]
fn a_handler_that_does_not_end_keeps_its_core_and_is_named() {
    let engine = machine(2);
    let tenant = tenant(engine, 10);
    let turns = hog(engine, tenant, 1 << 1);
    let (release, released) = reply_pair::<Result<(), Nobody>>();
    engine.spawn_for_on(1, resource(0), tenant, move || async move {
        let _ = released.await;
    });
    let mut simulator = Simulator::new(engine, 4);
    pass(&mut simulator, MS);
    let refused = withdraw(engine, &mut simulator, 1, tenant);
    let holder = Holder { activity: tenant, resource: resource(0), tasks: 1 };
    assert_eq!(refused, Err(WithdrawError::Busy(vec![holder])));
    assert_eq!(engine.online_cores(), 3);
    let before = (turns.load(Ordering::Relaxed), used(engine, 1, tenant, Column::Cycles));
    pass(&mut simulator, 5 * MS);
    assert!(turns.load(Ordering::Relaxed) > before.0 + 50);
    assert!(used(engine, 1, tenant, Column::Cycles) > before.1 + 3 * MS, "everything is as before");
    select_core(0);
    release.send(Ok(()));
    assert!(withdraw(engine, &mut simulator, 1, tenant).is_ok());
    check_books(engine);
}

#[test]
fn a_core_leaves_once_and_the_first_never() {
    let engine = machine(2);
    let mut simulator = Simulator::new(engine, 5);
    let infrastructure = ActivityId::INFRASTRUCTURE;
    assert_eq!(withdraw(engine, &mut simulator, 0, infrastructure), Err(WithdrawError::Resident));
    assert_eq!(withdraw(engine, &mut simulator, 7, infrastructure), Err(WithdrawError::Vacant));
    assert!(!simulator.join(1), "the slot has a core");
    let both = [ask(engine, 1, infrastructure, MS), ask(engine, 1, infrastructure, MS)];
    assert_eq!(simulator.run(STEPS, || both.iter().all(|one| one.borrow().is_some())), Stop::Done);
    assert!(both[0].borrow().as_ref().unwrap().is_ok());
    assert_eq!(*both[1].borrow(), Some(Err(WithdrawError::Leaving)));
    assert_eq!(withdraw(engine, &mut simulator, 1, infrastructure), Err(WithdrawError::Vacant));
    assert!(simulator.join(1) && engine.online_cores() == 3);
}

#[test]
fn devices_are_heard_wherever_their_core_is() {
    let engine = machine(2);
    let route = NoticeRoute { from: resource(1), to: resource(0), core: 1 };
    let (count, at) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(99)));
    let (counted, told) = (count.clone(), at.clone());
    let notice = engine.notice(route, move || {
        counted.fetch_add(1, Ordering::Relaxed);
        told.store(core_index(), Ordering::Relaxed);
    });
    engine.on_interrupt(1, 9, Box::new(move || notice.send()));
    let mut simulator = Simulator::new(engine, 6);
    let expect = |simulator: &mut Simulator, core| {
        pass(simulator, MS);
        let before = count.load(Ordering::Relaxed);
        post_event(1, 1 << 9);
        pass(simulator, MS);
        assert_eq!(count.load(Ordering::Relaxed), before + 1);
        assert_eq!(at.load(Ordering::Relaxed), core);
    };
    expect(&mut simulator, 1);
    for _ in 0..3 {
        withdraw(engine, &mut simulator, 1, ActivityId::INFRASTRUCTURE).unwrap();
        expect(&mut simulator, 0);
        assert!(simulator.join(1));
        expect(&mut simulator, 1);
    }
}

#[test]
fn a_tenant_ends_while_its_core_leaves_and_a_lessee_while_it_has_one() {
    for seed in 0..40 {
        let engine = machine(2);
        let (victim, lessee, other) = (tenant(engine, 10), tenant(engine, 10), tenant(engine, 10));
        hog(engine, other, 1);
        let (of_lessee, turns) = (child(engine, lessee), hog(engine, victim, u64::MAX));
        (0..3).for_each(|_| drop(hog(engine, victim, 1 << 1)));
        let (reply, held) = reply_pair::<Result<(), Nobody>>();
        engine.spawn_for_on(1, resource(0), victim, move || async move {
            let _ = held.await;
        });
        let mut simulator = Simulator::new(engine, seed);
        pass(&mut simulator, 2 * MS);
        let outcome = ask(engine, 1, of_lessee, 20 * MS);
        simulator.run(seed * 3, || false);
        let done = Rc::new(AtomicBool::new(false));
        let kill = |victim: ActivityId| {
            select_core(0);
            let told = done.clone();
            told.store(false, Ordering::Relaxed);
            engine.spawn_for(resource(0), ActivityId::INFRASTRUCTURE, async move {
                engine.kill(victim).await.unwrap();
                told.store(true, Ordering::Relaxed);
            });
        };
        kill(victim);
        let both = || outcome.borrow().is_some() && done.load(Ordering::Relaxed);
        assert_eq!(simulator.run(STEPS, both), Stop::Done);
        drop((reply, turns));
        assert!(outcome.borrow().as_ref().unwrap().is_ok(), "{outcome:?}");
        pass(&mut simulator, MS);
        let before = engine.accounts().line(1).last();
        kill(of_lessee);
        assert_eq!(simulator.run(STEPS, || done.load(Ordering::Relaxed)), Stop::Done);
        assert!(cycles_of_loan(engine, 1, lessee) > 0, "what a lessee had is its parent's");
        pass(&mut simulator, MS);
        assert!(simulator.join(1));
        let lent = cycles_of_loan(engine, 1, lessee);
        assert!(lent >= 2 * MS && engine.accounts().line(1).last() > before);
        pass(&mut simulator, MS);
        check_books(engine);
        kill(other);
        assert_eq!(simulator.run(STEPS, || false), Stop::Quiet);
    }
}

/// Takes a snapshot.
fn snapshot(engine: &'static Engine, simulator: &mut Simulator) -> gyre_engine::snapshot::Snapshot {
    let shot = Rc::new(RefCell::new(None));
    let told = shot.clone();
    select_core(0);
    engine.spawn_for(resource(0), ActivityId::INFRASTRUCTURE, async move {
        *told.borrow_mut() = Some(engine.snapshot().await.unwrap());
    });
    assert_eq!(simulator.run(STEPS, || shot.borrow().is_some()), Stop::Done);
    let taken = shot.borrow_mut().take();
    taken.unwrap()
}

#[test]
fn a_core_that_is_away_is_not_stuck() {
    let engine = machine(2);
    let tenant = tenant(engine, 10);
    hog(engine, tenant, u64::MAX);
    hog(engine, tenant, u64::MAX);
    let mut simulator = Simulator::new(engine, 8);
    pass(&mut simulator, 5 * MS);
    withdraw(engine, &mut simulator, 1, ActivityId::INFRASTRUCTURE).unwrap();
    pass(&mut simulator, 1_500 * MS);
    select_core(0);
    assert!(gyre_machine::work_mark_of(1) > 0, "it was in a piece of work when it left");
    assert!(!engine.has_stuck_core());
}

#[test]
fn time_away_in_nobodys_name_can_be_left_out_of_the_figures() {
    let engine = machine(2);
    hog(engine, tenant(engine, 10), u64::MAX);
    let mut simulator = Simulator::new(engine, 9);
    pass(&mut simulator, 5 * MS);
    withdraw(engine, &mut simulator, 1, ActivityId::INFRASTRUCTURE).unwrap();
    pass(&mut simulator, 10 * MS);
    let whole = snapshot(engine, &mut simulator);
    let own = whole.clone().without_time_away();
    let (of_core, of_whole) = (&own.cores[1], &whole.cores[1]);
    let left_out = of_whole.partition.elapsed - of_core.partition.elapsed;
    assert!((10 * MS..11 * MS).contains(&left_out), "{left_out}");
    assert_eq!(of_core.partition.unattributed(), 0);
    let rows: u64 = of_core.rows.iter().map(|row| row.columns[Column::Cycles as usize]).sum();
    assert_eq!(rows, of_core.partition.handling);
    assert_eq!(own.cores[0], whole.cores[0]);
}

#[test]
fn the_figures_of_a_lent_core_are_of_now_and_add_up() {
    let engine = machine(2);
    let (lender, lessee) = (tenant(engine, 10), tenant(engine, 10));
    hog(engine, lender, u64::MAX);
    let mut simulator = Simulator::new(engine, 7);
    pass(&mut simulator, 5 * MS);
    withdraw(engine, &mut simulator, 1, lessee).unwrap();
    pass(&mut simulator, 10 * MS);
    let snapshot = snapshot(engine, &mut simulator);
    assert_eq!(snapshot.cores.len(), 2);
    for core in &snapshot.cores {
        assert_eq!(core.partition.unattributed(), 0);
        let rows: u64 = core.rows.iter().map(|row| row.columns[Column::Cycles as usize]).sum();
        assert_eq!(rows, core.partition.handling, "core {}", core.core);
    }
    let of_loan = snapshot.cores[1].rows.iter().find(|row| row.resource == LEASE).unwrap();
    assert_eq!(of_loan.activity, lessee);
    assert!(of_loan.columns[Column::Cycles as usize] >= 10 * MS);
    let own: u64 = engine.figures(lessee).iter().map(|row| row.columns[Column::Cycles as usize]).sum();
    assert!(own >= 10 * MS, "{own}");
}
