//! Timers that count processor time: ITIMER_VIRTUAL and ITIMER_PROF (setitimer(2)), and those of timer_create(2) on a clock of a process or
//! thread.
//!
//! A timer that is set and tells somebody has one task. It sleeps for as long as its owner could not use the rest up on all its cores, so a
//! timer costs a few looks and nothing for each call. An expiry whose notice waits still is counted ([`CpuAlarm::taken`]).

use super::alarm::Told;
use super::cpu_clock::CpuClock;
use super::cycles_from_now;
use crate::Process;
use alloc::boxed::Box;
use alloc::sync::Arc;
use gyre_message::wait::Either;
use gyre_message::{RESIDENT, WaitQueue, select, sleep_until, spawn_on};
use gyre_object::ObjectLock;

/// The expiries of a timer: times of its clock.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Times {
    /// The next one, ns; `None` if it is not set.
    pub(super) deadline_ns: Option<u64>,
    /// Between two, ns; 0 for once.
    pub(super) interval_ns: u64,
}

impl Times {
    /// Moves the next expiry behind `now_ns`; returns how many have passed.
    fn forward(&mut self, now_ns: u64) -> u64 {
        let Some(deadline) = self.deadline_ns.filter(|deadline| *deadline <= now_ns) else { return 0 };
        let Some(more) = now_ns.saturating_sub(deadline).checked_div(self.interval_ns) else {
            self.deadline_ns = None;
            return 1;
        };
        let times = more.saturating_add(1);
        self.deadline_ns = Some(deadline.saturating_add(times.saturating_mul(self.interval_ns)));
        times
    }
}

/// A clock, and who is told.
#[derive(Clone)]
struct Watch {
    clock: CpuClock,
    told: Arc<dyn Told>,
}

#[derive(Default)]
struct State {
    times: Times,
    /// `None` if it gives no notice, and expires only when it is looked at.
    watch: Option<Watch>,
    has_task: bool,
    /// Expiries while the notice of an earlier one waited.
    missed: u64,
}

/// A timer of processor time.
#[derive(Default)]
pub(super) struct CpuAlarm {
    state: ObjectLock<State>,
    changed: WaitQueue,
}

impl CpuAlarm {
    /// Returns the time that is left at `now_ns` of its clock, if it is set, and the interval, ns.
    pub(super) fn left(&self, now_ns: u64) -> (Option<u64>, u64) {
        let mut times = self.state.lock().times;
        times.forward(now_ns);
        (times.deadline_ns.map(|deadline| deadline.saturating_sub(now_ns).max(1)), times.interval_ns)
    }

    /// Sets it: `told` is told of expiries by a task of `process`, as long as that lives.
    pub(super) fn set(self: &Arc<Self>, process: &Arc<Process>, clock: CpuClock, times: Times, told: Arc<dyn Told>) {
        let needs_task = self.renew(times, Some(Watch { clock, told }));
        if needs_task {
            // It waits for long, so it keeps no core.
            let (alarm, owner) = (self.clone(), process.clone());
            spawn_on(RESIDENT, process.activity(), Box::new(move || Box::pin(alarm.watch(owner))));
        }
    }

    /// Sets one that gives no notice: it only counts.
    pub(super) fn set_silent(&self, times: Times) {
        self.renew(times, None);
    }

    /// Forgets the setting.
    pub(super) fn stop(&self) {
        self.renew(Times::default(), None);
    }

    /// Returns how often it has expired while its notice waited, which was taken now.
    pub(super) fn taken(&self) -> u64 {
        core::mem::take(&mut self.state.lock().missed)
    }

    /// Replaces the setting; returns whether it needs a task that it has not.
    fn renew(&self, times: Times, watch: Option<Watch>) -> bool {
        let mut state = self.state.lock();
        let needs_task = watch.is_some() && !state.has_task;
        let has_task = state.has_task || needs_task;
        let before = core::mem::replace(&mut *state, State { times, watch, has_task, missed: 0 });
        drop(state);
        drop(before);
        self.changed.wake_all();
        needs_task
    }

    /// Watches until the timer is stopped, or its clock or the process is gone.
    async fn watch(self: Arc<Self>, process: Arc<Process>) {
        loop {
            let changed = self.changed.wait();
            let Some(pause_ns) = self.look(&process) else { return };
            let deadline = cycles_from_now(pause_ns);
            let ended = process.ended.until(|| process.is_ending().then_some(()));
            if let Either::Second(()) = select(select(sleep_until(deadline), changed), ended).await {
                return;
            }
        }
    }

    /// Tells of an expiry; returns when to look again, ns from now. `None` ends the task.
    fn look(&self, process: &Process) -> Option<u64> {
        let watch = self.watched()?;
        let now_ns = watch.clock.now_ns().filter(|_| !process.is_ending());
        let mut state = self.state.lock();
        let Some(now_ns) = now_ns.filter(|_| state.watch.is_some()) else {
            // Stopped meanwhile, or without a clock: it never expires.
            (state.watch, state.has_task) = (None, false);
            return None;
        };
        let passed = state.times.forward(now_ns);
        let left_ns = state.times.deadline_ns.map(|deadline| deadline.saturating_sub(now_ns));
        if left_ns.is_none() {
            (state.watch, state.has_task) = (None, false);
        }
        drop(state);
        if passed > 0 {
            self.tell(&watch, passed);
        }
        left_ns.map(|left_ns| watch.clock.pause_ns(left_ns))
    }

    /// Returns the clock and who is told; without them the task ends, and the next setting makes another.
    fn watched(&self) -> Option<Watch> {
        let mut state = self.state.lock();
        state.has_task = state.watch.is_some();
        state.watch.clone()
    }

    fn tell(&self, watch: &Watch, passed: u64) {
        let waits = watch.told.waits();
        let missed = if waits { passed } else { passed.saturating_sub(1) };
        let mut state = self.state.lock();
        state.missed = state.missed.saturating_add(missed);
        drop(state);
        if !waits {
            watch.told.tell();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_expires_at_its_time_and_counts_on_by_its_interval() {
        let mut once = Times { deadline_ns: Some(100), interval_ns: 0 };
        assert_eq!([once.forward(40), once.forward(100), once.forward(200)], [0, 1, 0]);
        let mut again = Times { deadline_ns: Some(100), interval_ns: 30 };
        assert_eq!([again.forward(99), again.forward(165), again.forward(170)], [0, 3, 0]);
        assert_eq!(again.deadline_ns, Some(190));
    }

    #[test]
    fn one_that_tells_nobody_counts_when_it_is_looked_at() {
        let alarm = CpuAlarm::default();
        alarm.set_silent(Times { deadline_ns: Some(100), interval_ns: 30 });
        assert_eq!(alarm.left(165), (Some(25), 30));
        alarm.stop();
        assert_eq!(alarm.left(165), (None, 0));
    }
}
