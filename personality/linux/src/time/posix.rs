//! Timers of timer_create(2): each sends a signal, to a thread or the process, or only counts.
//!
//! Numbers belong to the process; a fork does not inherit timers, and execve removes them. One signal of a timer
//! waits at most: further expiries are counted as its overrun (timer_getoverrun(2)).
//!
//! Protocol: a timer is made with a place for its signal, so that an expiry never lacks one. The alarm tells at each
//! expiry; if the signal still waits, the expiry is counted. [`PosixTimers::taken`] is called when the signal is
//! taken, and the count becomes the overrun.
//!
//! There may be as many as RLIMIT_SIGPENDING lets their user have places of signals (setrlimit(2); Linux: posixtimer_init_sigqueue), and as
//! the tenant's memory holds. They end in turns.
//!
//! The table's lock is held for a look alone; alarms and signals have locks of their own below it.

use super::TimeSpec;
use super::alarm::Told;
use super::ticker::{Ticker, Wanted};
use crate::file::pace::Pace;
use crate::ipc::go_on;
use crate::signal::places::{Sending, Taken};
use crate::signal::{SIGNAL_MAX, SignalInfo, number};
use crate::{Arguments, Errno, Outcome, Process, Thread};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicI32, Ordering};
use gyre_account::ActivityId;
use gyre_object::ObjectLock;
use linux_raw_sys::general as raw;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Timers that are deleted at once if a process's threads are lost; the rest of them goes in turns.
const STOPPED_AT_ONCE: usize = 256;

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
    ticker: Ticker,
    /// `None` for SIGEV_NONE.
    signal: Option<i32>,
    value: u64,
    /// The thread that gets the signal; the process if there is none.
    target: Option<Weak<Thread>>,
    overrun: AtomicI32,
    /// By which its signal comes.
    _place: Taken,
}

#[derive(Default)]
struct Table {
    timers: BTreeMap<i32, Timer>,
    /// The number at which the search begins: what was free last is used last, so that it is short.
    next: i32,
}

impl Table {
    /// Adds a timer under a number that none has.
    fn add(&mut self, timer: impl FnOnce(i32) -> Result<Timer, Errno>) -> Result<i32, Errno> {
        let numbers = (self.next..=i32::MAX).chain(0..self.next);
        let id = numbers.into_iter().find(|id| !self.timers.contains_key(id)).ok_or(Errno::EAGAIN)?;
        let timer = timer(id)?;
        self.timers.insert(id, timer);
        self.next = id.checked_add(1).unwrap_or(0);
        Ok(id)
    }
}

/// The timers of a process.
#[derive(Default)]
pub struct PosixTimers {
    table: ObjectLock<Table>,
}

impl PosixTimers {
    /// Deletes all of them, in turns.
    pub async fn end(&self) {
        let mut pace = Pace::new();
        while self.stop_one() {
            pace.step().await;
        }
    }

    /// Deletes all of them, of a process whose threads are lost: a task of `activity`, its tenant's, goes on with many.
    pub fn stop(&self, activity: ActivityId) {
        if (0..STOPPED_AT_ONCE).any(|_| !self.stop_one()) {
            return;
        }
        let rest = PosixTimers { table: ObjectLock::new(core::mem::take(&mut *self.table.lock())) };
        go_on(activity, async move { rest.end().await });
    }

    fn stop_one(&self) -> bool {
        let timer = self.table.lock().timers.pop_first();
        timer.inspect(|(_, timer)| timer.ticker.stop()).is_some()
    }

    /// Notes that the signal of a timer was taken: it counts on. Returns how often it has expired meanwhile.
    pub fn taken(&self, id: i32) -> i32 {
        let missed = |timer: &Timer| {
            let missed = i32::try_from(timer.ticker.taken()).unwrap_or(i32::MAX);
            timer.overrun.store(missed, Ordering::Relaxed);
            missed
        };
        self.table.lock().timers.get(&id).map_or(0, missed)
    }

    fn with<T>(&self, id: i32, look: impl FnOnce(&Timer) -> T) -> Result<T, Errno> {
        self.table.lock().timers.get(&id).map(look).ok_or(Errno::EINVAL)
    }

    fn take(&self, id: i32) -> Option<Timer> {
        self.table.lock().timers.remove(&id)
    }
}

/// `timer_create(clock, event, id)`.
pub async fn timer_create(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let ticker = Ticker::new(thread, a.int(0))?;
    let event = match a.word(1) {
        0 => None,
        address => Some(thread.read_struct::<Event>(address).await?),
    };
    let place = thread.process().place_for_timer()?;
    let id = thread.process().timers.table.lock().add(|id| make(thread, ticker, id, event, place))?;
    let written = thread.write_struct(a.word(2), &id).await;
    if written.is_err() {
        drop(thread.process().timers.take(id));
    }
    written.map(|()| 0)
}

fn make(thread: &Arc<Thread>, ticker: Ticker, id: i32, event: Option<Event>, place: Taken) -> Result<Timer, Errno> {
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
    Ok(Timer { ticker, signal, value: event.value, target, overrun: AtomicI32::new(0), _place: place })
}

fn show(ticker: &Ticker) -> Interval {
    let (left_ns, interval_ns) = ticker.left_ns();
    Interval {
        interval: TimeSpec::from_ns(interval_ns),
        value: TimeSpec::from_ns(left_ns.map_or(0, |left_ns| left_ns.max(1))),
    }
}

/// The signal of a timer and its receiver.
struct Signalled {
    process: Weak<Process>,
    target: Option<Weak<Thread>>,
    info: SignalInfo,
}

impl Told for Signalled {
    fn tell(&self) {
        let sending = Sending::OfTimer(self.info);
        // One that waits already says the same; if too many wait it is told later.
        let _ = match (&self.target, self.process.upgrade()) {
            (Some(target), _) => target.upgrade().map_or(Ok(()), |target| target.deliver(sending)),
            (None, Some(process)) => process.deliver(sending),
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

impl Timer {
    /// Returns whom it tells; `None` for SIGEV_NONE.
    fn told(&self, process: &Arc<Process>, id: i32) -> Option<Signalled> {
        let info = SignalInfo::timer(self.signal?, id, 0, self.value);
        Some(Signalled { process: Arc::downgrade(process), target: self.target.clone(), info })
    }
}

/// `timer_settime(id, flags, new, old)`.
pub async fn timer_settime(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let id = a.int(0);
    let new: Interval = thread.read_struct(a.word(2)).await?;
    let (value, interval) = (new.value.ns()?, new.interval.ns()?);
    let is_absolute = a.unsigned(1) & raw::TIMER_ABSTIME != 0;
    let process = thread.process();
    let (ticker, told) = process.timers.with(id, |timer| (timer.ticker.clone(), timer.told(process, id)))?;
    let before = show(&ticker);
    match value {
        0 => ticker.stop(),
        value_ns => ticker.set(thread, Wanted { value_ns, interval_ns: interval, is_absolute }, told)?,
    }
    // Another thread has deleted it meanwhile.
    if process.timers.with(id, |_| ()).is_err() {
        ticker.stop();
    }
    thread.write_optional(a.word(3), &before).await?;
    Ok(0)
}

/// `timer_gettime(id, value)`.
pub async fn timer_gettime(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let ticker = thread.process().timers.with(a.int(0), |timer| timer.ticker.clone())?;
    thread.write_struct(a.word(1), &show(&ticker)).await?;
    Ok(0)
}

/// `timer_getoverrun(id)`.
pub fn timer_getoverrun(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let timers = &thread.process().timers;
    timers.with(a.int(0), |timer| timer.overrun.load(Ordering::Relaxed) as u64)
}

/// `timer_delete(id)`.
pub fn timer_delete(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let timer = thread.process().timers.take(a.int(0));
    timer.ok_or(Errno::EINVAL)?.ticker.stop();
    Ok(0)
}
