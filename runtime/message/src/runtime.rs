//! Requests of handlers to the runtime besides messages: tasks, time, a place at the back of the queue.

use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use gyre_account::ActivityId;
use gyre_object::{Installed, budget};

/// A task of its own, bound to the core that polls it.
pub type LocalTask = Pin<Box<dyn Future<Output = ()>>>;
/// Makes a task on the core on which it will live.
pub type TaskMaker = Box<dyn FnOnce() -> LocalTask + Send>;

/// The engine, or a fake of it.
pub trait Runtime: Sync {
    /// Starts a task of `activity` on this core. `resource` names who it works for in the ledger.
    fn spawn(&self, activity: ActivityId, task: LocalTask);
    /// Starts a task on another core.
    fn spawn_on(&self, core: usize, activity: ActivityId, maker: TaskMaker);
    /// Wakes once at the deadline; returns a name to cancel it by.
    fn wake_at(&self, deadline_cycles: u64, waker: Waker) -> u64;
    /// Forgets a timer; harmless if it has fired.
    fn cancel_wake(&self, timer: u64);
    /// Notes work for the end of the turn that this core serves, once however often it is noted; false if it serves nothing.
    fn put_off(&self, _work: &'static dyn Late) -> bool {
        false
    }
}

/// Work that may wait until the end of a turn, so that it is done once for all that ask for it.
pub trait Late: Sync {
    /// Does it. Short; never waits. May come when there is nothing left to do.
    fn do_late(&self);
}

gyre_object::per_instance! {
    static RUNTIME: Installed<&'static dyn Runtime> = Installed::new();
}

/// Sets the runtime of this instance. In the kernel only the first call counts, on a host the last one.
pub fn set_runtime(runtime: &'static dyn Runtime) {
    RUNTIME.set(runtime);
}

fn with_runtime<T>(ask: impl FnOnce(&'static dyn Runtime) -> T) -> Option<T> {
    RUNTIME.get().map(ask)
}

/// Starts a task of the current activity on this core, for the resource that is handling a message.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    let activity = gyre_account::current_activity();
    with_runtime(|runtime| runtime.spawn(activity, Box::pin(task)));
}

/// Starts a task of `activity` on `core`.
pub fn spawn_on(core: usize, activity: ActivityId, maker: TaskMaker) {
    with_runtime(|runtime| runtime.spawn_on(core, activity, maker));
}

/// The core that an instance always has: no other one is needed to go on.
pub const RESIDENT: usize = 0;

/// Starts a task of the current activity that may wait for long, on the resident core: it keeps no other core from leaving the instance.
pub fn spawn_resident<F: Future<Output = ()> + 'static>(make: impl FnOnce() -> F + Send + 'static) {
    spawn_on(RESIDENT, gyre_account::current_activity(), Box::new(move || Box::pin(make())));
}

/// Does `work` once when this core has served what is ready of the activity whose turn it is, or its turn is over, and before any program runs
/// here; at once if the core serves no activity. So a device is told once of all requests that were made together.
pub fn at_end_of_turn(work: &'static dyn Late) {
    if with_runtime(|runtime| runtime.put_off(work)) != Some(true) {
        work.do_late();
    }
}

/// Waits until the time stamp counter reaches `deadline_cycles`.
pub fn sleep_until(deadline_cycles: u64) -> Sleep {
    Sleep { deadline_cycles, timer: None, is_put_off: false }
}

/// Waits for `ns` nanoseconds.
pub fn sleep_ns(ns: u64) -> Sleep {
    let cycles = u128::from(ns) * u128::from(gyre_machine::cycles_per_ms()) / 1_000_000;
    sleep_until(gyre_machine::now().saturating_add(u64::try_from(cycles).unwrap_or(u64::MAX)))
}

/// The future of [`sleep_until`]. Dropping it cancels the timer.
#[must_use = "sleeps only when awaited"]
pub struct Sleep {
    deadline_cycles: u64,
    timer: Option<u64>,
    /// Its time has come, and its poll had no turn left: the next one ends it, so that no other future of the task is always before it.
    is_put_off: bool,
}

impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let now = gyre_machine::now();
        if now >= self.deadline_cycles {
            if budget::take_turn_at(now) || self.is_put_off {
                return Poll::Ready(());
            }
            self.is_put_off = true;
            // This poll has had its turns: the task comes again by a message, behind others.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(timer) = self.timer.take() {
            with_runtime(|runtime| runtime.cancel_wake(timer));
        }
        let deadline = self.deadline_cycles;
        self.timer = with_runtime(|runtime| runtime.wake_at(deadline, context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            with_runtime(|runtime| runtime.cancel_wake(timer));
        }
    }
}

/// Gives the core to others of the same entitlement and goes on later: for long work, so that no message runs long.
pub async fn yield_now() {
    let yielded = AtomicBool::new(false);
    core::future::poll_fn(|context| {
        if yielded.swap(true, Ordering::Relaxed) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
