//! A thread that is woken while its program runs, as by a signal, deals with that at once, and keeps its turn.

mod common;
use common::*;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Context, Poll};
use gyre_account::ActivityId;
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, GridConfig, ResourceConfig, ThreadParams, compute};
use gyre_machine::{PageTable, UserContext, now};
use gyre_message::runtime::Sleep;
use gyre_message::sleep_until;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

const MS: u64 = 1_000_000;
const SLICE_NS: u64 = 4 * MS;
const TICK_NS: u64 = 100_000;

/// A signal and its timer, which tells at the look at the clock, without a task.
#[derive(Default)]
struct Signal {
    waits: Mutex<Option<Waker>>,
    came_at: AtomicU64,
    timer: Mutex<Option<Sleep>>,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.came_at.store(now(), Ordering::Relaxed);
        if let Some(waker) = self.waits.lock().unwrap().take() {
            waker.wake();
        }
    }
}

impl Signal {
    /// Comes after a tick.
    fn set(self: &Arc<Self>) {
        let mut sleep = sleep_until(now() + TICK_NS);
        let waker = Waker::from(self.clone());
        assert!(pin!(&mut sleep).poll(&mut Context::from_waker(&waker)).is_pending());
        *self.timer.lock().unwrap() = Some(sleep);
    }
}

#[derive(Default)]
struct Counts {
    ticks: AtomicU64,
    latest_ns: AtomicU64,
}

fn ticked(engine: &'static Engine, activity: ActivityId, counts: &'static Counts) {
    let signal = Arc::new(Signal::default());
    let program = Box::pin(async move {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        signal.set();
        loop {
            let run = compute::run(&mut context, &table);
            let mut run = pin!(run);
            let came_at = poll_fn(|context| {
                *signal.waits.lock().unwrap() = Some(context.waker().clone());
                let seen = |signal: &Signal| Some(signal.came_at.swap(0, Ordering::Relaxed)).filter(|&at| at != 0);
                if let Some(at) = seen(&signal) {
                    return Poll::Ready(at);
                }
                assert!(run.as_mut().poll(context).is_pending(), "its script is empty");
                seen(&signal).map_or(Poll::Pending, Poll::Ready)
            })
            .await;
            let late_ns = engine.ns(now() - came_at);
            counts.ticks.fetch_add(1, Ordering::Relaxed);
            if late_ns < SLICE_NS / 4 {
                counts.latest_ns.fetch_max(late_ns, Ordering::Relaxed);
            }
            signal.set();
        }
    });
    assert!(engine.spawn_thread(activity, ThreadParams { cores: 1, kernel: resource(0) }, program));
}

fn hog(engine: &'static Engine, activity: ActivityId) {
    let program = Box::pin(async {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        loop {
            compute::run(&mut context, &table).await;
        }
    });
    assert!(engine.spawn_thread(activity, ThreadParams { cores: 1, kernel: resource(0) }, program));
}

fn run(hogs: usize) -> &'static Counts {
    let grid = GridConfig { slice_ns: SLICE_NS, ..GridConfig::new(vec![ResourceConfig::new("linux")]) };
    let engine = engine_of(1, grid);
    let (only, counts) = (tenant(engine, 1), Box::leak(Box::new(Counts::default())));
    ticked(engine, only, counts);
    (0..hogs).for_each(|_| hog(engine, only));
    assert_eq!(Simulator::new(engine, 1).run_for(1_000 * MS, 100_000_000), Stop::TimeOver);
    check_books(engine);
    counts
}

#[test]
fn each_tick_of_a_lonely_thread_comes_in_time() {
    let counts = run(0);
    let (ticks, late) = (counts.ticks.load(Ordering::Relaxed), counts.latest_ns.load(Ordering::Relaxed));
    assert!(ticks >= 9_800 && late <= 5_000, "{ticks} ticks, {late} ns late");
}

#[test]
fn ticks_cost_a_thread_neither_its_turn_nor_others_theirs() {
    let counts = run(1);
    let (ticks, late) = (counts.ticks.load(Ordering::Relaxed), counts.latest_ns.load(Ordering::Relaxed));
    // Half of the time is its own, in slices of 40 ticks.
    assert!((4_500..=5_300).contains(&ticks) && late <= 5_000, "{ticks} ticks, {late} ns late");
}
