//! Timers of timer_create.

use super::alarm::{Alarm, Told};
use super::{TimeSpec, clock, cycles_from_now, cycles_to_ns, ns_to_cycles};
use crate::signal::{SIGNAL_MAX, SignalInfo, number};
use crate::{Arguments, Errno, Outcome, Process, Thread};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicI32, Ordering};
use gyre_object::ObjectLock;
use linux_raw_sys::general as raw;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Timers that one process may have.
const TIMERS_MAX: usize = 4096;

/// `struct sigevent`, 64 bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Event {
    value: u64,
    signal: i32,
    notify: u32,
    thread: i32,
    padding: [u32; 11],
}

const _: () = assert!(size_of::<Event>() == 64);

/// `struct itimerspec`.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Interval {
    interval: TimeSpec,
    value: TimeSpec,
}

struct Timer {
    clock: i32,
    /// `None` for SIGEV_NONE.
    signal: Option<i32>,
    value: u64,
    /// The thread that gets the signal; the process where there is none.
    target: Option<Weak<Thread>>,
    alarm: Arc<Alarm>,
    overrun: AtomicI32,
}

/// The timers of a process.
#[derive(Default)]
pub struct PosixTimers {
    timers: ObjectLock<BTreeMap<i32, Timer>>,
}

impl PosixTimers {
    /// Deletes all of them.
    pub fn stop(&self) {
        let timers = core::mem::take(&mut *self.timers.lock());
        timers.values().for_each(|timer| timer.alarm.stop());
    }

    /// The signal of a timer was taken: it counts on. Answers how often it has expired meanwhile.
    pub fn taken(&self, id: i32) -> i32 {
        let missed = |timer: &Timer| {
            let missed = i32::try_from(timer.alarm.taken()).unwrap_or(i32::MAX);
            timer.overrun.store(missed, Ordering::Relaxed);
            missed
        };
        self.timers.lock().get(&id).map_or(0, missed)
    }

    fn with<T>(&self, id: i32, look: impl FnOnce(&Timer) -> T) -> Result<T, Errno> {
        self.timers.lock().get(&id).map(look).ok_or(Errno::EINVAL)
    }
}

/// `timer_create(clock, event, id)`.
pub async fn timer_create(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    clock::read(thread, a.int(0))?;
    let event = match a.word(1) {
        0 => None,
        address => Some(thread.read_struct::<Event>(address).await?),
    };
    let id = {
        let mut timers = thread.process().timers.timers.lock();
        if timers.len() >= TIMERS_MAX {
            return Err(Errno::EAGAIN);
        }
        let id = (0..).find(|id| !timers.contains_key(id)).ok_or(Errno::EAGAIN)?;
        timers.insert(id, make(thread, a.int(0), id, event)?);
        id
    };
    let written = thread.write_struct(a.word(2), &id).await;
    if written.is_err() {
        thread.process().timers.timers.lock().remove(&id);
    }
    written.map(|()| 0)
}

fn make(thread: &Arc<Thread>, clock: i32, id: i32, event: Option<Event>) -> Result<Timer, Errno> {
    let event = event.unwrap_or(Event {
        value: id as u64,
        signal: number::SIGALRM,
        notify: raw::SIGEV_SIGNAL,
        thread: 0,
        padding: [0; 11],
    });
    let signal = match event.notify {
        raw::SIGEV_NONE => None,
        _ if !(1..=SIGNAL_MAX).contains(&event.signal) => return Err(Errno::EINVAL),
        raw::SIGEV_SIGNAL | raw::SIGEV_THREAD | 4 => Some(event.signal),
        _ => return Err(Errno::EINVAL),
    };
    let target = match event.notify & 4 != 0 {
        false => None,
        true => {
            let threads = thread.process().threads.lock();
            let target = threads.iter().find(|other| other.id() == event.thread);
            Some(Arc::downgrade(target.ok_or(Errno::EINVAL)?))
        }
    };
    Ok(Timer { clock, signal, value: event.value, target, alarm: Arc::default(), overrun: AtomicI32::new(0) })
}

fn show(timer: &Timer) -> Interval {
    let (left, interval) = timer.alarm.left();
    Interval {
        interval: TimeSpec::from_ns(cycles_to_ns(interval)),
        value: TimeSpec::from_ns(left.map_or(0, |left| cycles_to_ns(left).max(1))),
    }
}

/// Who gets the signal of a timer, and which.
struct Signalled {
    process: Weak<Process>,
    target: Option<Weak<Thread>>,
    info: SignalInfo,
}

impl Told for Signalled {
    fn tell(&self) {
        // One that waits already says the same; where too many wait it is told later.
        let _ = match (&self.target, self.process.upgrade()) {
            (Some(target), _) => target.upgrade().map_or(Ok(()), |target| target.send(self.info)),
            (None, Some(process)) => process.send(self.info),
            (None, None) => Ok(()),
        };
    }

    fn waits(&self) -> bool {
        match (&self.target, self.process.upgrade()) {
            (Some(target), _) => target.upgrade().is_some_and(|it| it.signals.lock().pending.has_timer(&self.info)),
            (None, Some(process)) => process.signals.lock().pending.has_timer(&self.info),
            (None, None) => false,
        }
    }
}

/// Arms a timer.
fn arm(thread: &Arc<Thread>, id: i32, timer: &Timer, deadline: u64, interval: u64) {
    match timer.signal {
        None => timer.alarm.set_silent(deadline, interval),
        Some(signal) => {
            let info = SignalInfo::timer(signal, id, 0, timer.value);
            let told = Signalled { process: Arc::downgrade(thread.process()), target: timer.target.clone(), info };
            timer.alarm.set(deadline, interval, told);
        }
    }
}

/// `timer_settime(id, flags, new, old)`.
pub async fn timer_settime(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let id = a.int(0);
    let new: Interval = thread.read_struct(a.word(2)).await?;
    let (value, interval) = (new.value.ns()?, new.interval.ns()?);
    let absolute = a.unsigned(1) & raw::TIMER_ABSTIME != 0;
    let timers = &thread.process().timers;
    let clock = timers.with(id, |timer| timer.clock)?;
    let now = if absolute { clock::read(thread, clock)? } else { 0 };
    let before = timers.with(id, |timer| {
        let before = show(timer);
        match value {
            0 => timer.alarm.stop(),
            _ => arm(thread, id, timer, cycles_from_now(value.saturating_sub(now)), ns_to_cycles(interval)),
        }
        before
    })?;
    thread.write_optional(a.word(3), &before).await?;
    Ok(0)
}

/// `timer_gettime(id, value)`.
pub async fn timer_gettime(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let shown = thread.process().timers.with(a.int(0), show)?;
    thread.write_struct(a.word(1), &shown).await?;
    Ok(0)
}

/// `timer_getoverrun(id)`.
pub fn timer_getoverrun(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let timers = &thread.process().timers;
    timers.with(a.int(0), |timer| timer.overrun.load(Ordering::Relaxed) as u64)
}

/// `timer_delete(id)`.
pub fn timer_delete(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let timer = thread.process().timers.timers.lock().remove(&a.int(0));
    timer.ok_or(Errno::EINVAL)?.alarm.stop();
    Ok(0)
}
