//! A timer that calls back, once or again and again: what setitimer, timer_create and timerfd are made of.

use alloc::sync::Arc;
use gyre_message::{WaitQueue, select, sleep_until};
use gyre_object::SpinLock;

#[derive(Clone, Copy, Default)]
struct State {
    /// When it expires next, cycles.
    deadline: Option<u64>,
    /// Cycles between expiries; 0 for once.
    interval: u64,
    /// Counts settings, so that the task of a former one knows that it is.
    generation: u64,
}

/// A timer.
#[derive(Default)]
pub struct Alarm {
    state: SpinLock<State>,
    changed: WaitQueue,
}

impl Alarm {
    /// Cycles until it expires next, and between expiries; `None` while it is not set.
    pub fn left(&self) -> (Option<u64>, u64) {
        let state = *self.state.lock();
        let left = state.deadline.map(|deadline| deadline.saturating_sub(gyre_machine::now()).max(1));
        (left, state.interval)
    }

    /// Sets it: `on_expiry` is called with the number of expiries since it was last called, by a task of the current activity.
    pub fn set(self: &Arc<Self>, deadline_cycles: u64, interval_cycles: u64, on_expiry: impl Fn(u64) + 'static) {
        let generation = self.renew(Some(deadline_cycles), interval_cycles);
        gyre_message::spawn(run(self.clone(), generation, on_expiry));
    }

    /// Stops it.
    pub fn stop(&self) {
        self.renew(None, 0);
    }

    fn renew(&self, deadline: Option<u64>, interval: u64) -> u64 {
        let mut state = self.state.lock();
        state.deadline = deadline;
        state.interval = interval;
        state.generation = state.generation.wrapping_add(1);
        let generation = state.generation;
        drop(state);
        self.changed.wake_all();
        generation
    }

    /// The next deadline of this generation; `None` where it is over.
    fn next(&self, generation: u64) -> Option<u64> {
        let state = self.state.lock();
        state.deadline.filter(|_| state.generation == generation)
    }

    /// Counts the expiries up to now and moves the deadline behind it.
    fn expire(&self, generation: u64) -> u64 {
        let mut state = self.state.lock();
        let now = gyre_machine::now();
        let Some(deadline) = state.deadline.filter(|deadline| *deadline <= now) else {
            return 0;
        };
        if state.generation != generation {
            return 0;
        }
        if state.interval == 0 {
            state.deadline = None;
            return 1;
        }
        let times = now.saturating_sub(deadline).checked_div(state.interval).unwrap_or(0).saturating_add(1);
        state.deadline = Some(deadline.saturating_add(times.saturating_mul(state.interval)));
        times
    }
}

async fn run(alarm: Arc<Alarm>, generation: u64, on_expiry: impl Fn(u64)) {
    loop {
        let changed = alarm.changed.wait();
        let Some(deadline) = alarm.next(generation) else {
            return;
        };
        select(sleep_until(deadline), changed).await;
        let times = alarm.expire(generation);
        if times > 0 {
            on_expiry(times);
        }
    }
}
