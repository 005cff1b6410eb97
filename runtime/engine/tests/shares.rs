//! Shares hold, no matter which resource spends them.

mod common;
use common::*;
use gyre_account::{ActivityId, Column};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{COMPUTE, Engine, ResourceConfig, ThreadParams, compute};
use gyre_machine::{PageTable, Trap, UserContext, advance};
use gyre_message::{Link, protocol};

protocol! {
    /// Burns time.
    pub mod burner {
        /// Computes for so long.
        async fn burn(ns: u64) -> Result<(), Nobody>;
    }
}

struct Burner;
impl burner::Server for Burner {
    async fn burn(&'static self, ns: u64) -> Result<(), Nobody> {
        advance(ns);
        Ok(())
    }
}
static BURNER: Burner = Burner;

fn burner(engine: &'static Engine, position: u8) -> burner::Client {
    let port = engine.port(resource(position), |request| burner::serve(&BURNER, request));
    burner::Client::new(Link::new(port))
}

/// A program that computes for ever.
fn hog(engine: &'static Engine, activity: ActivityId) {
    let params = ThreadParams { cores: u64::MAX, kernel: resource(0) };
    let started = engine.spawn_thread(
        activity,
        params,
        Box::pin(async {
            let mut context = UserContext::new().unwrap();
            let table = PageTable::new().unwrap().root();
            loop {
                compute::run(&mut context, &table).await;
            }
        }),
    );
    assert!(started);
}

/// A program that computes a little and then makes a system call that costs much.
fn caller(engine: &'static Engine, activity: ActivityId, client: burner::Client) {
    let params = ThreadParams { cores: u64::MAX, kernel: resource(0) };
    let started = engine.spawn_thread(
        activity,
        params,
        Box::pin(async move {
            let mut context = UserContext::new().unwrap();
            let table = PageTable::new().unwrap().root();
            loop {
                context.script.push_back((3_000, Trap::SystemCall));
                assert_eq!(compute::run(&mut context, &table).await, Trap::SystemCall);
                client.burn(9_000).await.unwrap();
            }
        }),
    );
    assert!(started);
}

fn shares(engine: &Engine, tenants: &[ActivityId], core: usize) -> Vec<f64> {
    let cycles: Vec<u64> = tenants.iter().map(|&tenant| used(engine, core, tenant, Column::Cycles)).collect();
    let sum: u64 = cycles.iter().sum();
    cycles.iter().map(|&cycles| cycles as f64 * 100.0 / sum as f64).collect()
}

fn assert_shares(shares: &[f64], wanted: &[f64], tolerance: f64) {
    for (share, wanted) in shares.iter().zip(wanted) {
        assert!((share - wanted).abs() <= tolerance, "{shares:?} instead of {wanted:?}");
    }
}

#[test]
fn three_hogs_per_core_get_their_weights_on_every_core() {
    let engine = engine(2, vec![ResourceConfig::new("linux")]);
    let tenants: Vec<_> = [50, 33, 17].map(|weight| tenant(engine, weight)).to_vec();
    for &tenant in &tenants {
        hog(engine, tenant);
        hog(engine, tenant);
    }
    let mut simulator = Simulator::new(engine, 1);
    assert_eq!(simulator.run_for(2_000_000_000, 10_000_000), Stop::TimeOver);
    for core in 0..2 {
        assert_shares(&shares(engine, &tenants, core), &[50.0, 33.0, 17.0], 0.5);
    }
    check_books(engine);
}

#[test]
fn kernel_work_and_user_time_count_for_one_weight() {
    let engine = engine(1, vec![ResourceConfig::new("linux"), ResourceConfig::new("burner")]);
    let tenants: Vec<_> = [50, 33, 17].map(|weight| tenant(engine, weight)).to_vec();
    let client = burner(engine, 1);
    hog(engine, tenants[0]);
    caller(engine, tenants[1], client);
    caller(engine, tenants[2], client);
    hog(engine, tenants[2]);
    let mut simulator = Simulator::new(engine, 3);
    assert_eq!(simulator.run_for(2_000_000_000, 10_000_000), Stop::TimeOver);
    assert_shares(&shares(engine, &tenants, 0), &[50.0, 33.0, 17.0], 0.5);
    let line = engine.accounts().line(0);
    let burnt = line.table().cell(tenants[1], resource(1)).get(Column::Cycles);
    let computed = line.table().cell(tenants[1], COMPUTE).get(Column::Cycles);
    assert!(burnt > 2 * computed, "the system calls cost {burnt}, the program {computed}");
    check_books(engine);
}

#[test]
fn children_share_what_their_parent_is_entitled_to() {
    let engine = engine(1, vec![ResourceConfig::new("linux")]);
    let (first, second) = (tenant(engine, 1), tenant(engine, 1));
    let children = [child(engine, first), child(engine, first), child(engine, first)];
    children.iter().for_each(|&child| hog(engine, child));
    hog(engine, second);
    let mut simulator = Simulator::new(engine, 4);
    simulator.run_for(1_000_000_000, 10_000_000);
    let all = [children[0], children[1], children[2], second];
    let sixth = 100.0 / 6.0;
    assert_shares(&shares(engine, &all, 0), &[sixth, sixth, sixth, 50.0], 0.5);
}

#[test]
fn a_new_weight_holds_from_then_on() {
    let engine = engine(1, vec![ResourceConfig::new("linux")]);
    let tenants = [tenant(engine, 1), tenant(engine, 1)];
    tenants.iter().for_each(|&tenant| hog(engine, tenant));
    let mut simulator = Simulator::new(engine, 4);
    simulator.run_for(500_000_000, 10_000_000);
    let before: Vec<u64> = tenants.iter().map(|&tenant| used(engine, 0, tenant, Column::Cycles)).collect();
    let params = gyre_account::ActivityParams { weight: 3, ..Default::default() };
    engine.set_activity_params(tenants[0], params).unwrap();
    simulator.run_for(1_500_000_000, 10_000_000);
    let after: Vec<u64> =
        tenants.iter().zip(&before).map(|(&tenant, before)| used(engine, 0, tenant, Column::Cycles) - before).collect();
    let share = after[0] as f64 / (after[0] + after[1]) as f64;
    assert!((share - 0.75).abs() < 0.01, "{share}");
}

#[test]
fn threads_that_wait_on_one_core_move_to_one_that_idles() {
    let engine = engine(2, vec![ResourceConfig::new("linux")]);
    let first = tenant(engine, 1);
    // Four programs on core 0; core 1 may have none of them at first.
    for _ in 0..4 {
        hog(engine, first);
    }
    let mut simulator = Simulator::new(engine, 9);
    simulator.run_for(20_000_000, 1_000_000);
    // Two end: kill does not choose, so end all of another activity on one core instead.
    let second = tenant(engine, 1);
    let only_zero = ThreadParams { cores: 1, kernel: resource(0) };
    for _ in 0..2 {
        assert!(engine.spawn_thread(
            second,
            only_zero,
            Box::pin(async {
                let mut context = UserContext::new().unwrap();
                let table = PageTable::new().unwrap().root();
                context.script.push_back((200_000, Trap::SystemCall));
                while compute::run(&mut context, &table).await != Trap::SystemCall {}
            })
        ));
    }
    simulator.run_for(400_000_000, 1_000_000);
    let idle = engine.accounts().line(1).partition().idle;
    assert!(idle < 5_000_000, "core 1 idled for {idle} ns");
    let both = (used(engine, 0, first, Column::Cycles), used(engine, 1, first, Column::Cycles));
    assert!(both.0 > 350_000_000 && both.1 > 350_000_000, "{both:?}");
    check_books(engine);
}
