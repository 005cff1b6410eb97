//! Timers that a program arms for one moment keep no core: a few go off at a look at the clock, then a queue is served.

mod common;
use common::*;
use core::cell::Cell;
use gyre_engine::ResourceConfig;
use gyre_engine::simulate::Simulator;
use gyre_message::{sleep_ns, sleep_until};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Wake, Waker};

const MS_NS: u64 = 1_000_000;
const TURN_NS: u64 = 100;

/// Counts how often timers went off; each takes some time.
struct Alarm {
    turns: Arc<AtomicU32>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        gyre_machine::advance(TURN_NS);
        self.turns.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn timers_that_a_program_arms_for_one_moment_keep_no_core() {
    const ALARMS: u32 = 5_000;
    let engine = engine(1, vec![ResourceConfig::new("files")]);
    let (many, neighbour) = (tenant(engine, 100), tenant(engine, 100));
    let fired = Arc::new(AtomicU32::new(0));
    let alarm = Waker::from(Arc::new(Alarm { turns: fired.clone() }));
    engine.spawn_for(resource(0), many, async move {
        let mut sleeps: Vec<_> = (0..ALARMS).map(|_| Box::pin(sleep_until(MS_NS))).collect();
        sleeps.iter_mut().for_each(|sleep| assert!(sleep.as_mut().poll(&mut Context::from_waker(&alarm)).is_pending()));
        sleep_ns(50 * MS_NS).await;
    });
    let most = Rc::new(Cell::new((0, 0)));
    let (seen, count) = (most.clone(), fired.clone());
    engine.spawn_for(resource(0), neighbour, async move {
        loop {
            gyre_machine::advance(1_000);
            let (before, most) = seen.get();
            let now = count.load(Ordering::Relaxed);
            seen.set((now, most.max(now - before)));
            gyre_message::yield_now().await;
        }
    });
    Simulator::new(engine, 1).run_for(20 * MS_NS, 1_000_000);
    assert_eq!(fired.load(Ordering::Relaxed), ALARMS);
    assert!(most.get().1 <= 500, "{} timers went off before the neighbour was served", most.get().1);
    check_books(engine);
}
