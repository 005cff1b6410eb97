//! Programs that trap all the time: the short way back into them must not make others wait longer.

mod common;
use common::*;
use gyre_account::{ActivityId, Column};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, ResourceConfig, ThreadParams, compute};
use gyre_machine::{PageTable, Trap, UserContext};

const MS: u64 = 1_000_000;

fn params() -> ThreadParams {
    ThreadParams { cores: 1, kernel: resource(0) }
}

/// A program with a system call each microsecond; `called` is run in each of them.
fn caller(engine: &'static Engine, activity: ActivityId, called: impl Fn(u64) + Send + 'static) {
    let thread = Box::pin(async move {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        for number in 0.. {
            context.script.push_back((1_000, Trap::SystemCall));
            compute::run(&mut context, &table).await;
            called(number);
        }
    });
    assert!(engine.spawn_thread(activity, params(), thread));
}

#[test]
fn programs_that_trap_all_the_time_share_a_core_by_weight() {
    let engine = engine(1, vec![ResourceConfig::new("linux")]);
    let tenants = [50, 33, 17].map(|weight| tenant(engine, weight));
    tenants.iter().for_each(|&tenant| caller(engine, tenant, |_| {}));
    assert_eq!(Simulator::new(engine, 1).run_for(300 * MS, 10_000_000), Stop::TimeOver);
    let used = tenants.map(|tenant| used_everywhere(engine, tenant, Column::Cycles) as f64);
    let sum: f64 = used.iter().sum();
    for (used, wanted) in used.iter().zip([50.0, 33.0, 17.0]) {
        let percent = used * 100.0 / sum;
        assert!((percent - wanted).abs() < 2.0, "{percent:.1} % instead of {wanted}");
    }
    assert_eq!(engine.accounts().line(0).partition().unattributed(), 0);
}

#[test]
fn a_timer_set_in_a_call_fires_in_time_although_nobody_else_wants_the_core() {
    let engine = engine(1, vec![ResourceConfig::new("linux")]);
    let one = tenant(engine, 1);
    let late_ns: &'static std::sync::atomic::AtomicU64 = Box::leak(Box::default());
    caller(engine, one, move |number| {
        if number % 1000 != 0 {
            return;
        }
        let due = gyre_machine::now() + 100_000;
        engine.spawn_for(resource(0), ActivityId::INFRASTRUCTURE, async move {
            gyre_message::sleep_until(due).await;
            late_ns.fetch_max(gyre_machine::now() - due, std::sync::atomic::Ordering::Relaxed);
        });
    });
    assert_eq!(Simulator::new(engine, 2).run_for(100 * MS, 10_000_000), Stop::TimeOver);
    let late_ns = late_ns.load(std::sync::atomic::Ordering::Relaxed);
    assert!((1..20_000).contains(&late_ns), "{late_ns} ns late");
}

#[test]
fn who_becomes_ready_in_a_call_gets_the_core_within_a_turn() {
    let engine = engine(1, vec![ResourceConfig::new("linux")]);
    let (one, two) = (tenant(engine, 1), tenant(engine, 1));
    let longest_ns: &'static std::sync::atomic::AtomicU64 = Box::leak(Box::default());
    caller(engine, one, move |number| {
        if number % 1000 != 500 {
            return;
        }
        let asked = gyre_machine::now();
        engine.spawn_for(resource(0), two, async move {
            longest_ns.fetch_max(gyre_machine::now() - asked, std::sync::atomic::Ordering::Relaxed);
        });
    });
    assert_eq!(Simulator::new(engine, 3).run_for(100 * MS, 10_000_000), Stop::TimeOver);
    let longest_ns = longest_ns.load(std::sync::atomic::Ordering::Relaxed);
    // A turn is not cut before 200 us, and its policy is asked every 25 us from then on.
    assert!((1..300_000).contains(&longest_ns), "{longest_ns} ns");
}
