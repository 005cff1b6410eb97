//! Interval timers: setitimer, getitimer, alarm. Those that count processor time are in [`super::processor`].

use super::alarm::{Alarm, Told};
use super::processor::{self, Counted, ProcessorTimer};
use super::{TimeVal, cycles_from_now, cycles_to_ns, ns_to_cycles};
use crate::signal::info::SI_KERNEL;
use crate::signal::{SignalInfo, number};
use crate::{Arguments, Errno, Outcome, Process, Thread};
use alloc::sync::{Arc, Weak};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The interval timers of a process.
#[derive(Default)]
pub struct IntervalTimers {
    real: Arc<Alarm>,
    program: ProcessorTimer,
    all: ProcessorTimer,
}

impl IntervalTimers {
    /// Stops them.
    pub fn stop(&self) {
        self.real.stop();
        self.program.stop();
        self.all.stop();
    }

    pub(super) fn processor(&self, counted: Counted) -> &ProcessorTimer {
        match counted {
            Counted::Program => &self.program,
            Counted::All => &self.all,
        }
    }

    /// Notes that a SIGALRM was taken: the timer counts on.
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

/// Which of the timers of a process (setitimer(2)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    Real,
    Processor(Counted),
}

impl Which {
    fn of(number: u32) -> Result<Which, Errno> {
        match number {
            0 => Ok(Which::Real),
            1 => Ok(Which::Processor(Counted::Program)),
            2 => Ok(Which::Processor(Counted::All)),
            _ => Err(Errno::EINVAL),
        }
    }
}

fn show(process: &Process, which: Which) -> Interval {
    let timers = &process.interval_timers;
    let (left_ns, interval_ns) = match which {
        Which::Real => {
            let (left, interval) = timers.real.left();
            (left.map(cycles_to_ns), cycles_to_ns(interval))
        }
        Which::Processor(counted) => timers.processor(counted).left(process, counted),
    };
    Interval {
        interval: TimeVal::from_ns(interval_ns),
        value: TimeVal::from_ns(left_ns.map_or(0, |left| left.max(1000))),
    }
}

fn set(process: &Arc<Process>, which: Which, value_ns: u64, interval_ns: u64) {
    match which {
        Which::Processor(counted) => processor::set(process, counted, value_ns, interval_ns),
        Which::Real if value_ns == 0 => process.interval_timers.real.stop(),
        Which::Real => {
            let deadline = cycles_from_now(value_ns);
            process.interval_timers.real.set(deadline, ns_to_cycles(interval_ns), Alarmed(Arc::downgrade(process)));
        }
    }
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
    let which = Which::of(a.unsigned(0))?;
    let new = match a.word(1) {
        0 => Interval::default(),
        address => thread.read_struct(address).await?,
    };
    let (value, interval) = (new.value.ns()?, new.interval.ns()?);
    let before = show(thread.process(), which);
    set(thread.process(), which, value, interval);
    thread.write_optional(a.word(2), &before).await?;
    Ok(0)
}

/// `getitimer(which, value)`.
pub async fn getitimer(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let which = Which::of(a.unsigned(0))?;
    thread.write_struct(a.word(1), &show(thread.process(), which)).await?;
    Ok(0)
}

/// `alarm(seconds)`.
pub fn alarm(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let before = show(thread.process(), Which::Real).value;
    set(thread.process(), Which::Real, u64::from(a.unsigned(0)).saturating_mul(super::NS_PER_S), 0);
    let rounded = (before.seconds as u64).saturating_add(u64::from(before.microseconds >= 500_000));
    Ok(match (before.seconds, before.microseconds) {
        (0, 1..) => 1,
        _ => rounded,
    })
}
