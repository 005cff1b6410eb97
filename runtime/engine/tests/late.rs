//! Work that handlers put off is done once for a turn: not before its end, and not after it.

mod common;
use common::*;
use gyre_account::{ActivityId, ResourceId};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{ResourceConfig, ThreadParams, compute};
use gyre_machine::{PageTable, Trap, UserContext, advance};
use gyre_message::{Late, at_end_of_turn};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts how often it is done, and by whom.
#[derive(Default)]
struct Bell {
    rung: AtomicU64,
    payer: AtomicU64,
}

impl Late for Bell {
    fn do_late(&self) {
        self.rung.fetch_add(1, Ordering::Relaxed);
        self.payer.store(u64::from(gyre_account::current_activity().0), Ordering::Relaxed);
    }
}

impl Bell {
    fn leak() -> &'static Bell {
        Box::leak(Box::default())
    }

    fn rung(&self) -> u64 {
        self.rung.load(Ordering::Relaxed)
    }
}

#[test]
fn what_the_messages_of_a_turn_put_off_is_done_once_when_all_are_served() {
    let engine = engine(1, vec![ResourceConfig::new("device")]);
    let (one, other) = (tenant(engine, 1), tenant(engine, 1));
    let bell = Bell::leak();
    for _ in 0..3 {
        engine.spawn_for(resource(0), one, async move {
            at_end_of_turn(bell);
            at_end_of_turn(bell);
            assert_eq!(bell.rung(), 0, "others of the turn are still to come");
        });
    }
    let mut simulator = Simulator::new(engine, 1);
    assert_eq!(simulator.run(1000, || false), Stop::Quiet);
    assert_eq!((bell.rung(), bell.payer.load(Ordering::Relaxed)), (1, u64::from(one.0)));
    engine.spawn_for(resource(0), other, async move { at_end_of_turn(bell) });
    assert_eq!(simulator.run(1000, || false), Stop::Quiet);
    assert_eq!((bell.rung(), bell.payer.load(Ordering::Relaxed)), (2, u64::from(other.0)));
    check_books(engine);
}

#[test]
fn a_turn_that_ends_with_work_left_does_not_take_it_along() {
    let engine = engine(1, vec![ResourceConfig::new("device")]);
    let tenant = tenant(engine, 1);
    let bell = Bell::leak();
    engine.spawn_for(resource(0), tenant, async move {
        at_end_of_turn(bell);
        // Longer than any turn: what waits behind is of the next one.
        advance(1_000_000);
    });
    engine.spawn_for(resource(0), tenant, async move { assert_eq!(bell.rung(), 1) });
    assert_eq!(Simulator::new(engine, 1).run(1000, || false), Stop::Quiet);
    assert_eq!(bell.rung(), 1);
}

#[test]
fn a_program_does_not_run_before_it_is_done() {
    let engine = engine(1, vec![ResourceConfig::new("linux")]);
    let bell = Bell::leak();
    let params = ThreadParams { cores: 1, kernel: resource(0) };
    let program = Box::pin(async move {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        for calls in 1..4 {
            at_end_of_turn(bell);
            context.script.push_back((1_000, Trap::SystemCall));
            compute::run(&mut context, &table).await;
            assert_eq!(bell.rung(), calls);
        }
    });
    assert!(engine.spawn_thread(tenant(engine, 1), params, program));
    assert_eq!(Simulator::new(engine, 2).run(1000, || false), Stop::Quiet);
    assert_eq!(bell.rung(), 3);
}

#[test]
fn where_nobody_is_served_it_is_done_at_once_and_what_has_no_room_too() {
    let engine = engine(1, vec![ResourceConfig::new("device")]);
    let outside = Bell::leak();
    at_end_of_turn(outside);
    assert_eq!(outside.rung(), 1);
    let bells: Vec<&'static Bell> = (0..20).map(|_| Bell::leak()).collect();
    let all = bells.clone();
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
        bells.iter().for_each(|bell| at_end_of_turn(*bell));
        assert!(bells.iter().any(|bell| bell.rung() == 0) && bells.iter().any(|bell| bell.rung() == 1));
    });
    assert_eq!(Simulator::new(engine, 1).run(1000, || false), Stop::Quiet);
    assert!(all.iter().all(|bell| bell.rung() == 1));
}
