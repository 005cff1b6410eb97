//! Interval timers: setitimer, getitimer, alarm. Those that count processor time are [`CpuAlarm`]s.

use super::alarm::{Alarm, Told};
use super::cpu_alarm::{CpuAlarm, Times};
use super::cpu_clock::{CpuClock, Part};
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
    program: Arc<CpuAlarm>,
    all: Arc<CpuAlarm>,
}

impl IntervalTimers {
    /// Stops them.
    pub fn stop(&self) {
        self.real.stop();
        self.program.stop();
        self.all.stop();
    }

    fn processor(&self, part: Part) -> &Arc<CpuAlarm> {
        match part {
            Part::Program => &self.program,
            Part::All => &self.all,
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
    Processor(Part),
}

impl Which {
    fn of(number: u32) -> Result<Which, Errno> {
        match number {
            0 => Ok(Which::Real),
            1 => Ok(Which::Processor(Part::Program)),
            2 => Ok(Which::Processor(Part::All)),
            _ => Err(Errno::EINVAL),
        }
    }
}

fn show(process: &Arc<Process>, which: Which) -> Interval {
    let timers = &process.interval_timers;
    let (left_ns, interval_ns) = match which {
        Which::Real => {
            let (left, interval) = timers.real.left();
            (left.map(cycles_to_ns), cycles_to_ns(interval))
        }
        Which::Processor(part) => {
            let now_ns = CpuClock::of_process(process, part).now_ns().unwrap_or(0);
            timers.processor(part).left(now_ns)
        }
    };
    Interval {
        interval: TimeVal::from_ns(interval_ns),
        value: TimeVal::from_ns(left_ns.map_or(0, |left| left.max(1000))),
    }
}

fn set(process: &Arc<Process>, which: Which, value_ns: u64, interval_ns: u64) {
    match which {
        Which::Processor(part) if value_ns == 0 => process.interval_timers.processor(part).stop(),
        Which::Processor(part) => {
            let clock = CpuClock::of_process(process, part);
            let deadline_ns = clock.now_ns().map(|now_ns| now_ns.saturating_add(value_ns));
            let told = Arc::new(Profiled { process: Arc::downgrade(process), part });
            process.interval_timers.processor(part).set(process, clock, Times { deadline_ns, interval_ns }, told);
        }
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

/// The process that gets SIGVTALRM or SIGPROF.
struct Profiled {
    process: Weak<Process>,
    part: Part,
}

impl Told for Profiled {
    fn tell(&self) {
        let signal = match self.part {
            Part::Program => number::SIGVTALRM,
            Part::All => number::SIGPROF,
        };
        if let Some(process) = self.process.upgrade() {
            // One that waits already says the same.
            let _ = process.send(SignalInfo::new(signal, SI_KERNEL));
        }
    }

    fn waits(&self) -> bool {
        false
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
