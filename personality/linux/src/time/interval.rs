//! Interval timers: setitimer, getitimer, alarm. The real-time one only; those that count processor time are refused.

use super::alarm::{Alarm, Told};
use super::{TimeVal, cycles_from_now, cycles_to_ns, ns_to_cycles};
use crate::signal::info::SI_KERNEL;
use crate::signal::{SignalInfo, number};
use crate::{Arguments, Errno, Outcome, Process, Thread};
use alloc::sync::{Arc, Weak};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const ITIMER_REAL: u32 = 0;

/// The interval timers of a process.
#[derive(Default)]
pub struct IntervalTimers {
    real: Arc<Alarm>,
}

impl IntervalTimers {
    /// Stops them.
    pub fn stop(&self) {
        self.real.stop();
    }

    /// A SIGALRM was taken: the timer counts on.
    pub fn taken(&self) {
        self.real.taken();
    }
}

/// `struct itimerval`.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Interval {
    interval: TimeVal,
    value: TimeVal,
}

fn show(process: &Process) -> Interval {
    let (left, interval) = process.interval_timers.real.left();
    Interval {
        interval: TimeVal::from_ns(cycles_to_ns(interval)),
        value: TimeVal::from_ns(left.map_or(0, |left| cycles_to_ns(left).max(1000))),
    }
}

fn set(process: &Arc<Process>, value_ns: u64, interval_ns: u64) {
    if value_ns == 0 {
        process.interval_timers.real.stop();
        return;
    }
    let deadline = cycles_from_now(value_ns);
    process.interval_timers.real.set(deadline, ns_to_cycles(interval_ns), Alarmed(Arc::downgrade(process)));
}

/// The process that gets SIGALRM.
struct Alarmed(Weak<Process>);

impl Told for Alarmed {
    fn tell(&self) {
        if let Some(process) = self.0.upgrade() {
            // A SIGALRM that waits already says the same.
            let _ = process.send(SignalInfo::new(number::SIGALRM, SI_KERNEL));
        }
    }

    fn waits(&self) -> bool {
        self.0.upgrade().is_some_and(|process| process.signals.lock().pending.set().has(number::SIGALRM))
    }
}

/// `setitimer(which, new, old)`.
pub async fn setitimer(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.unsigned(0) != ITIMER_REAL {
        return Err(Errno::EINVAL);
    }
    let new = match a.word(1) {
        0 => Interval::default(),
        address => thread.read_struct(address).await?,
    };
    let (value, interval) = (new.value.ns()?, new.interval.ns()?);
    let before = show(thread.process());
    set(thread.process(), value, interval);
    thread.write_optional(a.word(2), &before).await?;
    Ok(0)
}

/// `getitimer(which, value)`.
pub async fn getitimer(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.unsigned(0) != ITIMER_REAL {
        return Err(Errno::EINVAL);
    }
    thread.write_struct(a.word(1), &show(thread.process())).await?;
    Ok(0)
}

/// `alarm(seconds)`.
pub fn alarm(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let before = show(thread.process()).value;
    set(thread.process(), u64::from(a.unsigned(0)).saturating_mul(super::NS_PER_S), 0);
    let rounded = (before.seconds as u64).saturating_add(u64::from(before.microseconds >= 500_000));
    Ok(match (before.seconds, before.microseconds) {
        (0, 1..) => 1,
        _ => rounded,
    })
}
