//! A task that becomes due while a program computes is served in time, and the timer is armed for nothing else.

mod common;
use common::*;
use gyre_account::{ActivityId, Column};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, GridConfig, ResourceConfig, ThreadParams, compute};
use gyre_machine::{PageTable, Trap, UserContext, now, timer_arms};
use gyre_message::sleep_ns;
use std::sync::{Arc, Mutex};

const SECOND_NS: u64 = 1_000_000_000;
const US: u64 = 1_000;
/// A slice as long as the kernel's if the machine file says nothing else: longer than the engine's default.
const SLICE_NS: u64 = 4_000_000;

/// The delays of turns, ns.
type Times = Arc<Mutex<Vec<u64>>>;

fn machine(cores: usize) -> &'static Engine {
    engine_of(cores, GridConfig { slice_ns: SLICE_NS, ..GridConfig::new(vec![ResourceConfig::new("linux")]) })
}

fn hog_on(engine: &'static Engine, activity: ActivityId, cores: u64) {
    let program = Box::pin(async {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        loop {
            compute::run(&mut context, &table).await;
        }
    });
    assert!(engine.spawn_thread(activity, ThreadParams { cores, kernel: resource(0) }, program));
}

/// Wakes each `period_ns`, as what sends timer signals does; notes how long after its time.
fn alarm(engine: &'static Engine, activity: ActivityId, period_ns: u64) -> Times {
    let late = Times::default();
    let notes = late.clone();
    engine.spawn_for(resource(0), activity, async move {
        let mut at = engine.ns(now());
        loop {
            at += period_ns;
            sleep_ns(at.saturating_sub(engine.ns(now()))).await;
            let after = engine.ns(now()).saturating_sub(at);
            notes.lock().unwrap().push(after);
            // Missed ones are left out.
            at += after / period_ns * period_ns;
        }
    });
    late
}

fn run(engine: &'static Engine, ns: u64) {
    assert_eq!(Simulator::new(engine, 1).run_for(ns, 100_000_000), Stop::TimeOver);
}

#[test]
fn a_timer_of_a_computing_program_comes_in_time_whatever_its_period() {
    for (period_us, count, late_us) in
        [(1_000, 95, 60), (500, 190, 60), (250, 380, 60), (150, 450, 250), (100, 450, 250)]
    {
        let engine = machine(1);
        let tenant = tenant(engine, 1);
        hog_on(engine, tenant, 1);
        let late = alarm(engine, tenant, period_us * US);
        run(engine, SECOND_NS / 10);
        let late = late.lock().unwrap();
        let worst = *late.iter().max().unwrap();
        assert!(late.len() >= count, "{period_us} us: {} times in 100 ms", late.len());
        assert!(worst <= late_us * US, "{period_us} us: {worst} ns late");
        check_books(engine);
    }
}

#[test]
fn another_tenants_timer_comes_in_time_beside_hogs_of_each() {
    let engine = machine(1);
    let tenants = [50, 33, 17].map(|weight| tenant(engine, weight));
    tenants.iter().for_each(|&tenant| hog_on(engine, tenant, 1));
    let quiet = tenant(engine, 10);
    let late = alarm(engine, quiet, 700 * US);
    run(engine, SECOND_NS / 2);
    let late = late.lock().unwrap();
    let worst = *late.iter().max().unwrap();
    assert!(late.len() >= 700 && worst <= 250 * US, "{} times, {worst} ns late", late.len());
}

#[test]
fn the_infrastructures_work_does_not_wait_for_a_turn_to_grow() {
    let engine = machine(1);
    hog_on(engine, tenant(engine, 1), 1);
    let late = alarm(engine, ActivityId::INFRASTRUCTURE, 90 * US);
    run(engine, SECOND_NS / 10);
    let late = late.lock().unwrap();
    let worst = *late.iter().max().unwrap();
    assert!(late.len() >= 1_000 && worst <= 10 * US, "{} times, {worst} ns late", late.len());
}

#[test]
fn a_core_that_computes_alone_arms_no_timer_for_nobody() {
    let engine = machine(2);
    let only = tenant(engine, 1);
    // Two of one tenant on each core: only their slices end.
    (0..4).for_each(|thread| hog_on(engine, only, 1 << (thread % 2)));
    let before = timer_arms();
    run(engine, SECOND_NS);
    let arms = timer_arms() - before;
    assert!((490..=520).contains(&arms), "{arms} times for 500 slices");
    let each = [0, 1].map(|core| used(engine, core, only, Column::Cycles));
    assert!(each.iter().all(|&cycles| cycles > SECOND_NS * 98 / 100), "{each:?}");
    check_books(engine);
}

#[test]
fn three_tenants_hogs_on_each_core_arm_it_once_for_each_turn() {
    let engine = machine(2);
    for weight in [50, 33, 17] {
        let tenant = tenant(engine, weight);
        (0..2).for_each(|_| hog_on(engine, tenant, u64::MAX));
    }
    let before = timer_arms();
    run(engine, SECOND_NS);
    let arms = timer_arms() - before;
    println!("{arms} times in a second of two cores");
    assert!(arms <= 10_100, "{arms} times in a second of two cores");
}

#[test]
fn a_pinned_thread_that_waits_keeps_no_idle_core_looking() {
    let engine = machine(2);
    let only = tenant(engine, 1);
    (0..2).for_each(|_| hog_on(engine, only, 1));
    let before = timer_arms();
    run(engine, SECOND_NS);
    let arms = timer_arms() - before;
    assert!(arms <= 300, "{arms} times for 250 slices on one core, with another that has nothing to do");
}

#[test]
fn a_woken_thread_of_the_same_tenant_is_served_once_the_turn_has_grown() {
    let engine = machine(1);
    let only = tenant(engine, 1);
    hog_on(engine, only, 1);
    let waits = Times::default();
    let notes = waits.clone();
    let sleeper = Box::pin(async move {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        loop {
            let at = engine.ns(now()) + 3_000 * US;
            sleep_ns(3_000 * US).await;
            notes.lock().unwrap().push(engine.ns(now()) - at);
            context.script.push_back((10_000, Trap::SystemCall));
            compute::run(&mut context, &table).await;
        }
    });
    assert!(engine.spawn_thread(only, ThreadParams { cores: 1, kernel: resource(0) }, sleeper));
    run(engine, SECOND_NS);
    let waits = waits.lock().unwrap();
    let worst = *waits.iter().max().unwrap();
    assert!(waits.len() > 300 && worst <= 250 * US, "{} times, {worst} ns late", waits.len());
}
