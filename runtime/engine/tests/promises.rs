//! Reservations and limits of the processor hold over all cores, and leave room for those who ask for little.

mod common;
use common::*;
use gyre_account::{ActivityId, Column, ResourceId};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{COMPUTE, Engine, Entitlement, GridConfig, GridError, ResourceConfig, ThreadParams, compute};
use gyre_machine::{PageTable, Trap, UserContext};
use gyre_schedulers::reservation;

const SECOND_NS: u64 = 1_000_000_000;

fn params() -> ThreadParams {
    ThreadParams { cores: u64::MAX, kernel: resource(0) }
}

fn hogs(engine: &'static Engine, activity: ActivityId, count: usize) {
    for _ in 0..count {
        let thread = Box::pin(async {
            let mut context = UserContext::new().unwrap();
            let table = PageTable::new().unwrap().root();
            loop {
                compute::run(&mut context, &table).await;
            }
        });
        assert!(engine.spawn_thread(activity, params(), thread));
    }
}

/// Computes a little every ten milliseconds.
fn sleeper(engine: &'static Engine, activity: ActivityId) {
    let thread = Box::pin(async {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        loop {
            context.script.push_back((250_000, Trap::SystemCall));
            compute::run(&mut context, &table).await;
            gyre_message::sleep_ns(10_000_000).await;
        }
    });
    assert!(engine.spawn_thread(activity, params(), thread));
}

#[test]
fn a_reservation_and_a_limit_hold_and_a_sleeper_gets_its_little() {
    let cpu = Box::new(reservation::policy(reservation::Params::default()));
    let grid = GridConfig { cpu, ..GridConfig::new(vec![ResourceConfig::new("linux")]) };
    let engine = engine_of(2, grid);
    let core = SECOND_NS;
    let [gold, silver, bronze, system] = [1, 10, 10, 1].map(|weight| tenant(engine, weight));
    let reserved = Entitlement { reservation_per_s: core, ..Entitlement::default() };
    engine.set_entitlement(gold, Some(COMPUTE), reserved).unwrap();
    let limited = Entitlement { limit_per_s: core / 5, burst: core / 500, ..Entitlement::default() };
    engine.set_entitlement(bronze, Some(COMPUTE), limited).unwrap();
    hogs(engine, gold, 2);
    hogs(engine, silver, 4);
    hogs(engine, bronze, 2);
    sleeper(engine, system);
    let mut simulator = Simulator::new(engine, 1);
    let mut before = [0; 4];
    for second in 1..=5 {
        assert_eq!(simulator.run_for(second * SECOND_NS, 10_000_000), Stop::TimeOver);
        let now = [gold, silver, bronze, system].map(|tenant| used_everywhere(engine, tenant, Column::Cycles));
        let percent: Vec<u64> = now.iter().zip(before).map(|(now, before)| (now - before) / (core / 100)).collect();
        before = now;
        if second > 1 {
            assert!(percent[0] >= 97, "gold has a core reserved: {percent:?}");
            assert!((15..=22).contains(&percent[2]), "bronze may use a fifth of a core: {percent:?}");
            assert!(percent[3] >= 1, "the sleeper asks for two percent: {percent:?}");
            assert!(percent.iter().sum::<u64>() >= 190, "nothing idles while silver has work: {percent:?}");
        }
    }
    let wait = |core: usize| engine.accounts().line(core).table().cell(system, resource(0)).get(Column::QueueNsMax);
    assert!((0..2).all(|core| wait(core) < 50_000_000), "the sleeper waited {} and {} ns", wait(0), wait(1));
    assert_eq!(engine.resource("linux"), Some(ResourceId(resource(0).0)));
    check_books(engine);
}

#[test]
fn a_reserved_core_starves_nobody_who_is_at_home_on_it() {
    let cpu = Box::new(reservation::policy(reservation::Params::default()));
    let engine = engine_of(2, GridConfig { cpu, ..GridConfig::new(vec![ResourceConfig::new("linux")]) });
    let [gold, silver, system] = [1, 10, 1].map(|weight| tenant(engine, weight));
    // More than it can get, so that it is always behind.
    let reserved = Entitlement { reservation_per_s: SECOND_NS * 21 / 20, ..Entitlement::default() };
    engine.set_entitlement(gold, Some(COMPUTE), reserved).unwrap();
    sleeper(engine, system);
    sleeper(engine, ActivityId::INFRASTRUCTURE);
    hogs(engine, gold, 1);
    hogs(engine, silver, 4);
    let mut simulator = Simulator::new(engine, 2);
    simulator.run_for(SECOND_NS, 10_000_000);
    let before = [system, ActivityId::INFRASTRUCTURE].map(|one| used_everywhere(engine, one, Column::Cycles));
    simulator.run_for(2 * SECOND_NS, 10_000_000);
    let after = [system, ActivityId::INFRASTRUCTURE].map(|one| used_everywhere(engine, one, Column::Cycles));
    for (after, before) in after.iter().zip(before) {
        assert!(after - before > SECOND_NS / 100, "a sleeper got {} ns of a second", after - before);
    }
    check_books(engine);
}

#[test]
fn a_promise_that_the_policy_refuses_leaves_the_one_before() {
    let cpu = Box::new(reservation::policy(reservation::Params::default()));
    let engine = engine_of(1, GridConfig { cpu, ..GridConfig::new(vec![ResourceConfig::new("linux")]) });
    let [gold, silver] = [1, 10].map(|weight| tenant(engine, weight));
    hogs(engine, gold, 1);
    hogs(engine, silver, 1);
    let mut simulator = Simulator::new(engine, 3);
    simulator.run_for(SECOND_NS / 10, 10_000_000);
    let half = Entitlement { reservation_per_s: SECOND_NS / 2, ..Entitlement::default() };
    engine.set_entitlement(gold, Some(COMPUTE), half).unwrap();
    // A reservation above the limit.
    let absurd = Entitlement { limit_per_s: SECOND_NS / 10, ..half };
    let refused = engine.set_entitlement(gold, Some(COMPUTE), absurd);
    assert!(matches!(refused, Err(GridError::Policy(_))), "{refused:?}");
    assert_eq!(engine.refused_entitlements(), 0, "it was not spread to any core");
    let before = used_everywhere(engine, gold, Column::Cycles);
    simulator.run_for(11 * SECOND_NS / 10, 10_000_000);
    let used = used_everywhere(engine, gold, Column::Cycles) - before;
    assert!((48..=56).contains(&(used / (SECOND_NS / 100))), "gold has half of the core: {used}");
}
