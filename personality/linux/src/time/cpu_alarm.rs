//! Interval timers that count processor time (setitimer(2)): ITIMER_VIRTUAL the time in the program, ITIMER_PROF that in the kernel too.
//!
//! A timer that is set has one task. It sleeps for as long as all cores together could not use the rest up, so a timer costs a few looks and
//! nothing for each call. The times are those of the bill.

use super::{NS_PER_S, cycles_from_now};
use crate::Process;
use crate::signal::info::SI_KERNEL;
use crate::signal::{SignalInfo, number};
use alloc::boxed::Box;
use alloc::sync::Arc;
use gyre_message::wait::Either;
use gyre_message::{RESIDENT, WaitQueue, select, sleep_until, spawn_on};
use gyre_object::ObjectLock;

/// The shortest pause between two looks, ns: a tick of Linux at 250 Hz.
const PAUSE_NS_MIN: u64 = 4_000_000;
/// The longest, ns: nothing is missed by it, as a new setting wakes the task.
const PAUSE_NS_MAX: u64 = 60 * NS_PER_S;

/// Which time is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Counted {
    /// In the program: SIGVTALRM.
    Program,
    /// In the program and in the kernel: SIGPROF.
    All,
}

impl Counted {
    fn used_ns(self, process: &Process) -> u64 {
        let used = process.used();
        match self {
            Counted::Program => used.user_ns,
            Counted::All => used.user_ns.saturating_add(used.system_ns),
        }
    }

    fn signal(self) -> i32 {
        match self {
            Counted::Program => number::SIGVTALRM,
            Counted::All => number::SIGPROF,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct State {
    /// The used time at which it expires next, ns.
    deadline_ns: Option<u64>,
    interval_ns: u64,
    has_task: bool,
}

/// The outcome of a look at a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    /// It is not set; its task ends.
    Stopped,
    /// It has expired.
    Expired,
    /// So much time is left, ns.
    Left(u64),
}

impl State {
    /// Looks, and sets the next expiry after one. Expiries that passed meanwhile are one, as for a signal that waits already.
    fn look(&mut self, used_ns: u64) -> Look {
        let Some(deadline) = self.deadline_ns else {
            self.has_task = false;
            return Look::Stopped;
        };
        if deadline > used_ns {
            return Look::Left(deadline.saturating_sub(used_ns));
        }
        let passed = used_ns.saturating_sub(deadline).checked_div(self.interval_ns);
        let next = |passed: u64| deadline.saturating_add(passed.saturating_add(1).saturating_mul(self.interval_ns));
        self.deadline_ns = passed.map(next);
        Look::Expired
    }
}

/// A timer of processor time.
#[derive(Default)]
pub(super) struct ProcessorTimer {
    state: ObjectLock<State>,
    changed: WaitQueue,
}

impl ProcessorTimer {
    /// Returns the time that is left, if it is set, and the interval, ns.
    pub(super) fn left(&self, process: &Process, counted: Counted) -> (Option<u64>, u64) {
        let state = *self.state.lock();
        let left = state.deadline_ns.map(|deadline| deadline.saturating_sub(counted.used_ns(process)).max(1));
        (left, state.interval_ns)
    }

    /// Forgets the setting.
    pub(super) fn stop(&self) {
        self.state.lock().deadline_ns = None;
        self.changed.wake_all();
    }
}

/// Sets the timer that `of` finds in a process; 0 stops it.
pub(super) fn set(process: &Arc<Process>, counted: Counted, value_ns: u64, interval_ns: u64) {
    let timer = process.interval_timers.processor(counted);
    let deadline_ns = (value_ns > 0).then(|| counted.used_ns(process).saturating_add(value_ns));
    let needs_task = {
        let mut state = timer.state.lock();
        let had_task = state.has_task;
        *state = State { deadline_ns, interval_ns, has_task: had_task || deadline_ns.is_some() };
        state.has_task && !had_task
    };
    timer.changed.wake_all();
    if needs_task {
        // It waits for long, so it keeps no core.
        let watched = process.clone();
        spawn_on(RESIDENT, process.activity(), Box::new(move || Box::pin(watch(watched, counted))));
    }
}

/// Watches until the timer is stopped or the process ends.
async fn watch(process: Arc<Process>, counted: Counted) {
    let timer = process.interval_timers.processor(counted);
    while !process.is_ending() {
        let changed = timer.changed.wait();
        let used_ns = counted.used_ns(&process);
        let look = timer.state.lock().look(used_ns);
        let left_ns = match look {
            Look::Stopped => return,
            Look::Expired => {
                // One that waits already says the same.
                let _ = process.send(SignalInfo::new(counted.signal(), SI_KERNEL));
                0
            }
            Look::Left(left_ns) => left_ns,
        };
        let part_ns = left_ns.checked_div(gyre_machine::online_cores().count_ones().into()).unwrap_or(left_ns);
        let deadline = cycles_from_now(part_ns.clamp(PAUSE_NS_MIN, PAUSE_NS_MAX));
        let ended = process.ended.until(|| process.is_ending().then_some(()));
        if let Either::Second(()) = select(select(sleep_until(deadline), changed), ended).await {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_expires_at_its_time_and_counts_on_by_its_interval() {
        let mut once = State { deadline_ns: Some(100), interval_ns: 0, has_task: true };
        assert_eq!([once.look(40), once.look(100), once.look(200)], [Look::Left(60), Look::Expired, Look::Stopped]);
        assert!(!once.has_task);
        let mut again = State { deadline_ns: Some(100), interval_ns: 30, has_task: true };
        assert_eq!([again.look(165), again.look(170)], [Look::Expired, Look::Left(20)]);
    }
}
