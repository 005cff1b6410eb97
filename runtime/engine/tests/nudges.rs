//! No core is interrupted by one that holds a lock: who is woken there often wants that lock first, and would spin.

mod common;
use common::*;
use gyre_account::ActivityId;
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, ResourceConfig, ThreadParams, compute};
use gyre_machine::{PageTable, Trap, UserContext, events_pending, select_core};
use gyre_object::SpinLock;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

/// A task on core 1 that waits for a task on core 0.
#[derive(Default)]
struct Meeting {
    waits: SpinLock<Option<Waker>>,
    is_come: AtomicBool,
    is_over: AtomicBool,
}

impl Meeting {
    /// Comes, as one does who sets a bit and wakes under the lock that guards both.
    fn come(&self) {
        let waits = self.waits.lock();
        self.is_come.store(true, Ordering::Relaxed);
        waits.as_ref().unwrap().wake_by_ref();
        assert!(!events_pending(1), "core 1 is interrupted while core 0 holds the lock");
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Two cores, of which the second waits and idles.
fn machine() -> (&'static Engine, Arc<Meeting>, Simulator) {
    let engine = engine(2, vec![ResourceConfig::new("linux")]);
    let meeting = Arc::new(Meeting::default());
    let waiter = meeting.clone();
    select_core(1);
    engine.spawn_for(resource(0), tenant(engine, 1), async move {
        poll_fn(|context| match waiter.is_come.load(Ordering::Relaxed) {
            true => Poll::Ready(()),
            false => {
                *waiter.waits.lock() = Some(context.waker().clone());
                Poll::Pending
            }
        })
        .await;
        waiter.is_over.store(true, Ordering::Relaxed);
    });
    select_core(0);
    let mut simulator = Simulator::new(engine, 1);
    assert_eq!(simulator.run(1_000, || false), Stop::Quiet);
    assert!(!events_pending(1));
    select_core(0);
    (engine, meeting, simulator)
}

#[test]
fn who_wakes_under_a_lock_interrupts_at_the_end_of_its_service() {
    let (engine, meeting, mut simulator) = machine();
    let comes = meeting.clone();
    engine.spawn_for(resource(0), tenant(engine, 1), async move { comes.come() });
    assert_eq!(simulator.run(1_000, || false), Stop::Quiet);
    assert!(meeting.is_over());
}

#[test]
fn where_nobody_is_served_it_leaves_before_the_core_sleeps() {
    let (engine, meeting, mut simulator) = machine();
    // As a timer's waker or the handler of an interrupt does.
    meeting.come();
    assert_eq!(simulator.run(1_000, || false), Stop::Quiet);
    assert!(meeting.is_over());
    check_books(engine);
}

#[test]
fn it_leaves_before_the_program_that_called_goes_on() {
    let (engine, meeting, mut simulator) = machine();
    let comes = meeting.clone();
    let program = Box::pin(async move {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        comes.come();
        context.script.push_back((1_000, Trap::SystemCall));
        compute::run(&mut context, &table).await;
        assert!(events_pending(1) || comes.is_over(), "core 1 was not told before the program ran");
    });
    assert!(engine.spawn_thread(tenant(engine, 1), ThreadParams { cores: 1, kernel: resource(0) }, program));
    assert_eq!(simulator.run(1_000, || false), Stop::Quiet);
    assert!(meeting.is_over());
}

#[test]
fn without_a_lock_it_leaves_at_once() {
    let (engine, meeting, mut simulator) = machine();
    let comes = meeting.clone();
    engine.spawn_for(resource(0), ActivityId::INFRASTRUCTURE, async move {
        let waker = comes.waits.lock().clone().unwrap();
        comes.is_come.store(true, Ordering::Relaxed);
        waker.wake();
        assert!(events_pending(1));
    });
    assert_eq!(simulator.run(1_000, || false), Stop::Quiet);
    assert!(meeting.is_over());
}
