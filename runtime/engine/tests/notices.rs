//! Notices: messages without contents, for interrupts and timers.

mod common;
use common::*;
use gyre_account::{ActivityId, Column, ResourceId};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{NoticeRoute, ResourceConfig, Ticks};
use gyre_machine::{Events, post_event};
use gyre_message::sleep_ns;
use gyre_schedulers::{Metric, weighted_fair};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn counter() -> (Arc<AtomicU64>, impl Fn() + Send + 'static) {
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    (count, move || _ = counted.fetch_add(1, Relaxed))
}

fn resources() -> Vec<ResourceConfig> {
    let policy = weighted_fair::policy(weighted_fair::Params { metric: Metric::Bytes, ..Default::default() });
    vec![ResourceConfig::new("interrupts"), ResourceConfig::new("device").gate(Metric::Bytes, Box::new(policy))]
}

fn route(core: usize) -> NoticeRoute {
    NoticeRoute { from: resource(0), to: resource(1), core }
}

#[test]
fn those_sent_before_the_first_is_handled_are_one_and_the_receiver_has_the_cycles() {
    let engine = engine(1, resources());
    let (count, handle) = counter();
    let notice = engine.notice(route(0), handle);
    let mut simulator = Simulator::new(engine, 1);
    assert_eq!(simulator.run(1_000, || false), Stop::Quiet);
    assert_eq!(count.load(Relaxed), 1, "its place is handled once");
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
        (0..5).for_each(|_| notice.send());
        sleep_ns(10_000).await;
        notice.send();
    });
    assert_eq!(simulator.run(1_000, || false), Stop::Quiet);
    assert_eq!(count.load(Relaxed), 3);
    let cell = |id| engine.accounts().line(0).table().cell(ActivityId::INFRASTRUCTURE, id);
    assert_eq!((cell(resource(1)).get(Column::Messages), cell(resource(0)).get(Column::Messages)), (3, 0));
    assert!(cell(resource(1)).get(Column::Cycles) > 0);
    check_books(engine);
}

#[test]
fn an_interrupt_is_handled_though_its_receiver_is_held_back() {
    let engine = engine(1, resources());
    let (count, handle) = counter();
    let notice = engine.notice(route(0), handle);
    engine.on_interrupt(0, Events::FIRST_LINE, Box::new(move || notice.send()));
    engine.handle(resource(1)).suspend();
    let mut simulator = Simulator::new(engine, 1);
    simulator.run(1_000, || false);
    let before = count.load(Relaxed);
    post_event(0, 1 << Events::FIRST_LINE);
    simulator.run(1_000, || false);
    assert_eq!(count.load(Relaxed), before + 1);
}

#[test]
fn another_cores_notice_arrives_and_a_timer_sends_one() {
    for seed in 0..20 {
        let engine = engine(2, resources());
        let (count, handle) = counter();
        let notice = engine.notice(route(1), handle);
        let mut simulator = Simulator::new(engine, seed);
        assert_eq!(simulator.run(1_000, || false), Stop::Quiet);
        engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
            notice.send();
            notice.send_after(gyre_machine::cycles_per_ms());
        });
        assert_eq!(simulator.run(1_000, || false), Stop::Quiet);
        assert_eq!(count.load(Relaxed), 3);
        assert!((0..2).map(gyre_machine::virtual_clock).max() > Some(1_000_000));
    }
}

#[test]
fn ticks_come_while_there_is_something_to_do_and_then_no_more() {
    let engine = engine(1, resources());
    let ticks: &'static Ticks = Box::leak(Box::default());
    let (left, looks): (&AtomicU64, &AtomicU64) = (Box::leak(Box::default()), Box::leak(Box::default()));
    let look = move || {
        looks.fetch_add(1, Relaxed);
        left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok().then_some(1_000_000)
    };
    ticks.set_notice(engine.notice(route(0), move || ticks.on_tick(look)));
    let mut simulator = Simulator::new(engine, 1);
    assert_eq!(simulator.run(1_000, || false), Stop::Quiet);
    assert_eq!(looks.load(Relaxed), 1);
    left.store(3, Relaxed);
    (0..4).for_each(|_| ticks.note_request());
    assert_eq!(simulator.run(1_000, || false), Stop::Quiet);
    assert_eq!(looks.load(Relaxed), 5, "one at once, three that find something, and the last of them finds nothing");
    left.store(1, Relaxed);
    ticks.note_request();
    assert_eq!(simulator.run(1_000, || false), Stop::Quiet);
    assert_eq!(looks.load(Relaxed), 7, "it is armed again");
}
