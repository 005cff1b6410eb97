//! Work that was asked to end is given time of its own core, not of the clock: a core that stood still is not ended, one that spins is.

mod common;
use common::*;
use gyre_engine::limits::{GRACE_NS, GRACE_POINTS, KNOCK_NS, LONG_GRACE_NS};
use gyre_engine::simulate::Simulator;
use gyre_engine::{Obituary, Reach, ResourceConfig};
use gyre_machine::{advance, core_index, now};
use gyre_message::sleep_ns;
use gyre_object::ObjectLock;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const MS_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000 * MS_NS;
/// A core that spins passes so many safe points, at most.
const SPINS: u64 = 10_000;

thread_local! {
    static TOLD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn note(obituary: &Obituary) {
    TOLD.with_borrow_mut(|told| told.push(obituary.failure.message().to_string()));
}

/// The doings of the work's core between two safe points.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Between {
    /// It runs, and answers the knocks of its watcher.
    Runs,
    /// It runs, or stands still; nobody knocks.
    Unknown,
    /// It stands still, and answers the knock that came meanwhile when it goes on.
    StandsStill,
}

/// Passes time on this core.
fn pass(between: Between, ns: u64) {
    match between {
        Between::Unknown => advance(ns),
        Between::StandsStill => {
            advance(ns);
            gyre_machine::answer_knock();
        }
        Between::Runs => {
            let mut left_ns = ns;
            while left_ns > 0 {
                let step_ns = left_ns.min(KNOCK_NS);
                advance(step_ns);
                gyre_machine::answer_knock();
                left_ns -= step_ns;
            }
        }
    }
}

fn overrun(passes: u64, pause_ns: u64) -> (u64, Vec<String>) {
    overrun_with(Between::Unknown, passes, pause_ns)
}

/// Plays a piece of work that a watcher asks to end after a second, and that passes `passes` safe points then, one each `pause_ns`. Returns
/// how long it went on after that, ns, and what was said of its end.
fn overrun_with(between: Between, passes: u64, pause_ns: u64) -> (u64, Vec<String>) {
    let engine = engine(1, vec![ResourceConfig::new("files")]);
    engine.contain_failures(&note);
    engine.set_reach(resource(0), Reach::Process);
    let activity = tenant(engine, 100);
    let stay = Rc::new(Cell::new(0));
    let seen = stay.clone();
    engine.spawn_for(resource(0), activity, async move {
        sleep_ns(MS_NS).await;
        advance(SECOND_NS);
        gyre_machine::answer_knock();
        gyre_machine::ask_to_end(core_index(), gyre_machine::work_mark());
        let (asked_at, lock) = (now(), ObjectLock::new(0));
        for _ in 0..passes {
            *lock.lock() += 1;
            pass(between, pause_ns);
            seen.set(now() - asked_at);
        }
    });
    Simulator::new(engine, 1).run_for(100 * SECOND_NS, 1_000_000);
    check_books(engine);
    (stay.get(), TOLD.with_borrow_mut(std::mem::take))
}

#[test]
fn work_whose_core_stands_still_again_and_again_comes_to_its_end() {
    let (stay_ns, told) = overrun(10, 2 * SECOND_NS);
    assert!(stay_ns >= 20 * SECOND_NS && told.is_empty(), "{stay_ns} ns, {told:?}");
}

#[test]
fn work_that_spins_is_ended_within_two_seconds() {
    for pause_ns in [MS_NS / 100, MS_NS / 20, MS_NS / 5] {
        let (stay_ns, told) = overrun(10 * SPINS, pause_ns);
        assert!(stay_ns + SECOND_NS < 2 * SECOND_NS, "asked after a second, ended {stay_ns} ns later");
        assert!(stay_ns >= GRACE_NS, "ended {stay_ns} ns after it was asked");
        assert!(matches!(&told[..], [told] if told.contains("overran its budget")), "{told:?}");
    }
}

#[test]
fn work_with_few_safe_points_ends_at_the_first_one_after_its_long_grace() {
    for pause_ns in [10 * MS_NS, 25 * MS_NS, 50 * MS_NS, 110 * MS_NS, 250 * MS_NS, 600 * MS_NS] {
        let (stay_ns, told) = overrun_with(Between::Runs, SPINS, pause_ns);
        let bound_ns = LONG_GRACE_NS.next_multiple_of(pause_ns) + pause_ns;
        assert!(stay_ns >= LONG_GRACE_NS && stay_ns <= bound_ns, "{pause_ns} ns apart: ended after {stay_ns} ns");
        assert!(matches!(&told[..], [told] if told.contains("overran its budget")), "{told:?}");
    }
}

#[test]
fn work_whose_core_answers_all_knocks_and_gets_on_with_little_comes_to_its_end() {
    let (stay_ns, told) = overrun_with(Between::Runs, 40, 50 * MS_NS);
    assert!(stay_ns >= 2 * SECOND_NS && told.is_empty(), "{stay_ns} ns, {told:?}");
    let (stay_ns, told) = overrun_with(Between::Runs, GRACE_POINTS - 2, MS_NS / 2);
    assert!(stay_ns >= 2 * SECOND_NS && told.is_empty(), "{stay_ns} ns, {told:?}");
}

#[test]
fn work_whose_core_answers_when_it_goes_on_has_stood_still_meanwhile() {
    let (stay_ns, told) = overrun_with(Between::StandsStill, 15, 2 * SECOND_NS);
    assert!(stay_ns >= 30 * SECOND_NS && told.is_empty(), "{stay_ns} ns, {told:?}");
}

#[test]
fn a_core_is_stuck_if_it_went_on_for_longer_than_it_is_let_and_not_if_it_stood_still() {
    let engine = engine(2, vec![ResourceConfig::new("files")]);
    let looks = |between: Between| {
        gyre_machine::select_core(1);
        let mark = now() + 1;
        gyre_machine::mark_work(mark);
        pass(between, 3 * SECOND_NS);
        gyre_machine::select_core(0);
        let before = engine.has_stuck_core();
        gyre_machine::ask_to_end(1, mark);
        gyre_machine::select_core(1);
        pass(between, 3 * SECOND_NS);
        gyre_machine::select_core(0);
        (before, engine.has_stuck_core())
    };
    assert_eq!(looks(Between::StandsStill), (false, false));
    assert_eq!(looks(Between::Runs), (false, true));
    assert_eq!(looks(Between::Unknown), (false, false));
}
