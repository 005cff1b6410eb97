//! No task keeps a core by waiting for what is ready at once: the engine bounds each poll in turns and in time.

mod common;
use common::*;
use core::cell::Cell;
use gyre_account::{ActivityId, Column};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, ResourceConfig, ThreadParams, compute};
use gyre_machine::{PageTable, Trap, UserContext, now};
use gyre_message::{WaitQueue, reply_pair, select, sleep_ns, sleep_until};
use gyre_object::budget::{TIME_MS, TURNS};
use std::rc::Rc;

const MS_NS: u64 = 1_000_000;
/// A poll of all its turns takes as long as a quantum.
const TURN_NS: u64 = gyre_engine::limits::QUANTUM_NS / TURNS as u64;

/// Turns taken by a task since another one was served.
#[derive(Default)]
struct Turns {
    since: Cell<u32>,
    most: Cell<u32>,
    served: Cell<u32>,
    ended: Cell<bool>,
}

impl Turns {
    /// A turn takes time. Ends a test that would never end.
    fn take(&self) {
        gyre_machine::advance(TURN_NS);
        self.since.set(self.since.get() + 1);
        self.most.set(self.most.get().max(self.since.get()));
        assert!(self.since.get() < 100 * TURNS, "a task that is ready again at once keeps its core");
    }

    fn serve(&self) {
        self.since.set(0);
        self.served.set(self.served.get() + 1);
    }
}

/// Runs a task of one tenant beside another tenant's that is queued again and again, for 50 ms; answers what they did.
fn beside<F: Future<Output = ()> + 'static>(spin: impl FnOnce(Rc<Turns>) -> F) -> Rc<Turns> {
    let engine = engine(1, vec![ResourceConfig::new("files")]);
    let (spinner, neighbour) = (tenant(engine, 100), tenant(engine, 100));
    let turns = Rc::new(Turns::default());
    engine.spawn_for(resource(0), spinner, spin(turns.clone()));
    let served = turns.clone();
    engine.spawn_for(resource(0), neighbour, async move {
        loop {
            gyre_machine::advance(1_000);
            served.serve();
            gyre_message::yield_now().await;
        }
    });
    assert_eq!(Simulator::new(engine, 1).run_for(50 * MS_NS, 1_000_000), Stop::TimeOver);
    check_books(engine);
    turns
}

fn assert_bounded(turns: &Turns) {
    assert!(turns.served.get() > 20, "the neighbour was served {} times in 50 ms", turns.served.get());
    // A poll of the neighbour may come a turn of the scheduler later.
    assert!(turns.most.get() <= 2 * TURNS, "{} turns in a row", turns.most.get());
}

#[test]
fn a_task_that_wakes_itself_gives_the_core_back() {
    assert_bounded(&beside(|turns| async move {
        let queue = WaitQueue::new();
        loop {
            let woken = queue.wait();
            queue.wake_all();
            woken.await;
            turns.take();
        }
    }));
}

#[test]
fn a_task_that_looks_for_what_never_comes_gives_the_core_back() {
    assert_bounded(&beside(|turns| async move {
        let queue = WaitQueue::new();
        queue
            .until(|| {
                turns.take();
                queue.wake_all();
                None::<()>
            })
            .await;
    }));
}

#[test]
fn a_task_whose_deadlines_have_passed_gives_the_core_back() {
    assert_bounded(&beside(|turns| async move {
        loop {
            sleep_until(1).await;
            turns.take();
        }
    }));
}

#[test]
fn a_task_whose_answers_are_there_gives_the_core_back() {
    assert_bounded(&beside(|turns| async move {
        loop {
            let (reply, call) = reply_pair::<Result<u32, Nobody>>();
            reply.send(Ok(1));
            assert_eq!(call.await, Ok(1));
            turns.take();
        }
    }));
}

#[test]
fn a_deadline_ends_what_is_looked_for_in_vain() {
    let turns = beside(|turns| async move {
        let queue = WaitQueue::new();
        let never = queue.until(|| {
            turns.take();
            queue.wake_all();
            None::<()>
        });
        select(never, sleep_ns(10 * MS_NS)).await;
        assert!(now() < 14 * MS_NS, "the deadline of 10 ms came after {} ns", now());
        turns.ended.set(true);
    });
    assert!(turns.ended.get());
}

#[test]
fn few_long_turns_are_as_bad_as_many_short_ones() {
    let turns = beside(|turns| async move {
        let queue = WaitQueue::new();
        loop {
            gyre_machine::advance(MS_NS / 4);
            let woken = queue.wait();
            queue.wake_all();
            woken.await;
            turns.take();
        }
    });
    assert!(turns.most.get() <= 2 * 4 * TIME_MS as u32, "{} turns in a row", turns.most.get());
}

#[test]
fn timers_fire_beside_a_task_that_never_waits() {
    let engine = engine(1, vec![ResourceConfig::new("files")]);
    let (spinner, sleeper) = (tenant(engine, 100), tenant(engine, 100));
    engine.spawn_for(resource(0), spinner, async {
        loop {
            sleep_until(1).await;
        }
    });
    let latest = Rc::new(Cell::new((0, 0)));
    let seen = latest.clone();
    engine.spawn_for(resource(0), sleeper, async move {
        loop {
            let due = now() + 2 * MS_NS;
            sleep_ns(2 * MS_NS).await;
            let (count, late) = seen.get();
            seen.set((count + 1, late.max(now() - due)));
        }
    });
    Simulator::new(engine, 1).run_for(100 * MS_NS, 1_000_000);
    let (count, late) = latest.get();
    assert!(count >= 30, "{count} timers of 2 ms in 100 ms");
    assert!(late <= 2 * TIME_MS * MS_NS, "{late} ns late");
    check_books(engine);
}

#[test]
fn each_trap_of_a_program_begins_a_budget_of_its_own() {
    let engine = engine(1, vec![ResourceConfig::new("linux")]);
    let activity: ActivityId = tenant(engine, 100);
    let calls = 10 * TURNS;
    started(engine, activity, calls);
    Simulator::new(engine, 1).run_for(200 * MS_NS, 1_000_000);
    // Its slices end, and at first it was queued; no call was.
    let messages = used_everywhere(engine, activity, Column::Messages);
    assert!(messages < u64::from(calls) / 100, "{messages} messages for {calls} calls");
    check_books(engine);
}

/// A thread whose program makes so many calls, each of which waits for something that is there.
fn started(engine: &'static Engine, activity: ActivityId, calls: u32) {
    let thread = Box::pin(async move {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        let queue = WaitQueue::new();
        for _ in 0..calls {
            context.script.push_back((1_000, Trap::SystemCall));
            compute::run(&mut context, &table).await;
            let woken = queue.wait();
            queue.wake_all();
            woken.await;
        }
    });
    assert!(engine.spawn_thread(activity, ThreadParams { cores: u64::MAX, kernel: resource(0) }, thread));
}
