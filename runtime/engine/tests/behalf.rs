//! Work on behalf of another activity: the payer's row of the ledger has it, up to what was granted, to the cycle.

mod common;

use common::{check_books, engine, resource, tenant};
use gyre_account::{ActivityId, Column, Grant};
use gyre_engine::simulate::Simulator;
use gyre_engine::{COMPUTE, Engine, ResourceConfig, ThreadParams, compute};
use gyre_machine::{PageTable, Trap, UserContext};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A program of 40,000 cycles between two calls, which works at the expense of a grant as long as `is_on`.
fn service(engine: &'static Engine, activity: ActivityId, grant: Arc<Grant>, is_on: Arc<AtomicBool>) {
    let params = ThreadParams { cores: u64::MAX, kernel: resource(0) };
    let thread = async move {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        loop {
            context.script.push_back((40_000, Trap::SystemCall));
            let paid = is_on.load(Ordering::Relaxed).then_some(&*grant);
            compute::run_for(&mut context, &table, paid, u64::MAX).await;
        }
    };
    assert!(engine.spawn_thread(activity, params, Box::pin(thread)));
}

fn at_compute(engine: &Engine, activity: ActivityId) -> u64 {
    (0..engine.cores())
        .map(|core| engine.accounts().line(core).table().cell(activity, COMPUTE).get(Column::Cycles))
        .sum()
}

fn world(cores: usize, granted: u64) -> (&'static Engine, [ActivityId; 2], Arc<Grant>, Arc<AtomicBool>) {
    let engine = engine(cores, vec![ResourceConfig::new("a")]);
    let (payer, worker) = (tenant(engine, 1), tenant(engine, 1));
    let grant = Arc::new(Grant::new(payer, granted, Default::default()));
    let is_on = Arc::new(AtomicBool::new(true));
    (0..cores).for_each(|_| service(engine, worker, grant.clone(), is_on.clone()));
    (engine, [payer, worker], grant, is_on)
}

#[test]
fn the_payer_pays_exactly_what_it_granted_and_the_service_the_rest() {
    for cores in [1, 2] {
        let granted = 12_345_678;
        let (engine, [payer, worker], grant, _) = world(cores, granted);
        Simulator::new(engine, 5).run_for(100_000_000, 2_000_000);
        assert_eq!((at_compute(engine, payer), grant.left()), (granted, 0));
        assert!(at_compute(engine, worker) > granted, "{} cores", cores);
        check_books(engine);
    }
}

#[test]
fn a_grant_that_is_revoked_in_the_middle_is_spent_no_further() {
    let (engine, [payer, worker], grant, _) = world(1, u64::MAX);
    let mut simulator = Simulator::new(engine, 6);
    simulator.run_for(10_000_000, 1_000_000);
    let spent = at_compute(engine, payer);
    // Beside its first steps.
    assert!(spent > 1_000_000 && at_compute(engine, worker) < spent / 100, "{spent} {}", at_compute(engine, worker));
    grant.revoke();
    simulator.run_for(20_000_000, 1_000_000);
    assert_eq!(at_compute(engine, payer), spent);
    assert!(at_compute(engine, worker) > 1_000_000, "{}", at_compute(engine, worker));
    check_books(engine);
}

#[test]
fn a_payer_that_has_ended_pays_no_more() {
    let (engine, [payer, worker], grant, _) = world(1, u64::MAX);
    let mut simulator = Simulator::new(engine, 7);
    simulator.run_for(5_000_000, 1_000_000);
    engine.spawn_for(gyre_account::ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
        engine.kill(payer).await.unwrap();
    });
    simulator.run_for(10_000_000, 1_000_000);
    assert_eq!(grant.left(), 0);
    assert!(!engine.accounts().activities.exists(payer) && at_compute(engine, worker) > 1_000_000);
    check_books(engine);
}

#[test]
fn who_says_so_works_for_itself_again() {
    let (engine, [payer, worker], _, is_on) = world(1, u64::MAX);
    let mut simulator = Simulator::new(engine, 8);
    simulator.run_for(5_000_000, 1_000_000);
    is_on.store(false, Ordering::Relaxed);
    // The stay that is under way ends first.
    simulator.run_for(15_000_000, 1_000_000);
    let spent = at_compute(engine, payer);
    simulator.run_for(30_000_000, 1_000_000);
    assert_eq!(at_compute(engine, payer), spent);
    assert!(at_compute(engine, worker) > 1_000_000, "{}", at_compute(engine, worker));
}
