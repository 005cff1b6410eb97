//! The common state of a program's virtual cores: its scheduler, its threads, those that sleep, the number of virtual cores.
//!
//! [`run`] makes it and leaks it; the functions that a program calls find it by the virtual core on which they are called. All of them may be
//! called by each thread of a scheduler, and answer [`Error::Outside`] to others.
//!
//! A change of the number of virtual cores has two phases: it is asked for, then each virtual core that leaves finishes its turn, and the last one
//! tells the scheduler. A change by the program's share ([`Follows::Share`]) is noted by its thread and begun by a virtual core, in its next turn
//! or tick.
//! An idle virtual core waits on a word that counts changes: threads that are ready, the end, another number.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use gyre_contract::pulse::{LIMIT_NS_MAX, TICK_NS_MAX, TICK_NS_MIN};

use crate::{
    Error, Follows, Held, Scheduler, Spin, THREADS_MAX, Vcore, Way,
    core::{self, Core, Reason},
    fiber::Fiber,
    futex, masked,
    share::{Source, Watch},
};

/// Virtual cores at most.
const CORES_MAX: usize = 64;
/// An idle virtual core looks again after this time, ns.
const LOOK_NS: u64 = 10_000_000;
/// `Runtime::leaving`: nobody is asked to leave.
const NOBODY: u64 = 0;
/// `Runtime::share`: it has not changed.
const SAME: usize = 0;

/// The manner in which a scheduler is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Virtual cores, 1 to 64; the most that there are if their number follows something.
    pub cores: usize,
    /// Time between ticks, 50 us to 10 s; `None` for none.
    pub tick: Option<Duration>,
    /// For how long ticks may be masked before the program ends by SIGXCPU.
    pub limit: Duration,
    /// The source of ticks.
    pub way: Way,
    /// The fact that their number follows.
    pub follows: Follows,
}

impl Options {
    /// So many virtual cores with such ticks, in the way of this kernel; masks last a second at most, and nothing is followed.
    pub fn new(cores: usize, tick: Duration) -> Options {
        let (limit, follows) = (Duration::from_secs(1), Follows::Nothing);
        Options { cores, tick: Some(tick), limit, way: Way::of_kernel(), follows }
    }
}

/// Figures of a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// Ticks that the scheduler was called for, without those that waited behind a mask.
    pub ticks: u64,
    /// Ticks that were left out.
    pub missed: u64,
}

pub(crate) struct Runtime {
    pub(crate) scheduler: &'static dyn Scheduler,
    pub(crate) way: Way,
    threads: AtomicUsize,
    /// Counts what idle virtual cores wait for.
    changes: AtomicU32,
    sleepers: Spin<Vec<(u64, Held)>>,
    /// The earliest of them, ns.
    earliest_ns: AtomicU64,
    wanted: AtomicUsize,
    before: AtomicUsize,
    cores: usize,
    /// Virtual cores that a change waits for, a bit each in the order of their numbers.
    leaving: AtomicU64,
    /// The number of virtual cores that the program's share asks for, until one of them begins the change.
    share: AtomicUsize,
    ticks: AtomicU64,
    missed: AtomicU64,
}

impl Runtime {
    pub(crate) fn is_over(&self) -> bool {
        self.threads.load(Ordering::Acquire) == 0
    }

    pub(crate) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    fn tell(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        futex::wake_all(&self.changes);
    }

    pub(crate) fn end_thread(&self, held: Held) {
        // SAFETY: made by `Box` in `spawn_in`; it has ended and nobody else has it.
        drop(unsafe { Box::from_raw(held.into_fiber().as_ptr()) });
        if self.threads.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.tell();
        }
    }

    pub(crate) fn is_wanted(&self, id: usize) -> bool {
        id < self.wanted.load(Ordering::Acquire)
    }

    /// A virtual core that is not wanted has left; the last one tells the scheduler.
    pub(crate) fn leave(&self, id: usize) {
        let bit = 1u64.checked_shl(id as u32).unwrap_or(0);
        if self.leaving.fetch_and(!bit, Ordering::AcqRel) == bit {
            self.scheduler.adapt(self.before.load(Ordering::Relaxed), self.wanted.load(Ordering::Relaxed));
            self.tell();
        }
    }

    /// The program may use so many processors from now on.
    pub(crate) fn note_share(&self, processors: usize) {
        self.share.store(processors.clamp(1, self.cores), Ordering::Release);
        self.tell();
    }

    /// Begins the change that the program's share asks for, if it does. Called on a virtual core, ticks masked.
    #[inline]
    pub(crate) fn follow_share(&self) {
        if self.share.load(Ordering::Relaxed) != SAME {
            self.begin_to_follow();
        }
    }

    #[cold]
    fn begin_to_follow(&self) {
        let share = self.share.swap(SAME, Ordering::AcqRel);
        if share != SAME && share != self.wanted.load(Ordering::Acquire) && self.resize(share).is_err() {
            // Another change is under way. One that was noted meanwhile is the newer one.
            let _ = self.share.compare_exchange(SAME, share, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// An idle virtual core waits for work.
    pub(crate) fn wait(&self, seen: u32, core: Vcore) {
        let until = self.earliest_ns.load(Ordering::Relaxed).saturating_sub(now_ns()).min(LOOK_NS);
        if until > 0 {
            futex::wait(&self.changes, seen, Duration::from_nanos(until));
        }
        self.wake_sleepers(core, now_ns());
    }

    pub(crate) fn ready(&self, core: Vcore, held: Held) {
        self.scheduler.ready(core, held);
        self.tell();
    }

    fn sleep(&self, until_ns: u64, held: Held) -> Option<Held> {
        if until_ns <= now_ns() {
            return Some(held);
        }
        self.sleepers.with(|all| {
            all.push((until_ns, held));
            self.earliest_ns.fetch_min(until_ns, Ordering::Relaxed);
        });
        None
    }

    /// Wakes those whose time has come.
    pub(crate) fn wake_sleepers(&self, core: Vcore, now_ns: u64) {
        while self.earliest_ns.load(Ordering::Relaxed) <= now_ns {
            let due = self.sleepers.with(|all| {
                let at = all.iter().position(|(until, _)| *until <= now_ns);
                let due = at.map(|at| all.swap_remove(at).1);
                let next = all.iter().map(|(until, _)| *until).min().unwrap_or(u64::MAX);
                self.earliest_ns.store(next, Ordering::Relaxed);
                due
            });
            match due {
                Some(held) => self.ready(core, held),
                None => return,
            }
        }
    }

    fn spawn_in(&self, core: Vcore, work: Box<dyn FnOnce() + Send>, due_ns: u64) -> Result<(), Error> {
        let counted = self
            .threads
            .try_update(Ordering::AcqRel, Ordering::Relaxed, |threads| (threads < THREADS_MAX).then_some(threads + 1));
        counted.map_err(|_| Error::TooMany)?;
        let fiber = match Fiber::new(work, core::begin) {
            Ok(fiber) => fiber,
            Err(error) => {
                self.threads.fetch_sub(1, Ordering::AcqRel);
                return Err(error.into());
            }
        };
        fiber.deadline_ns.store(due_ns, Ordering::Relaxed);
        // SAFETY: it is on the heap and has not run yet.
        self.ready(core, unsafe { Held::new(std::ptr::NonNull::from(Box::leak(fiber))) });
        Ok(())
    }
}

fn ns(time: Duration, range: std::ops::RangeInclusive<u64>) -> Result<u64, Error> {
    u64::try_from(time.as_nanos()).ok().filter(|ns| range.contains(ns)).ok_or(Error::Time)
}

/// Runs `first` as the first thread of a scheduler, and returns when it and all threads that it and others have spawned have ended. The calling
/// kernel thread is virtual core 0 meanwhile.
///
/// # Errors
/// [`Error::TooMany`], [`Error::Time`]; [`Error::Kernel`] if a virtual core cannot be had.
pub fn run(
    scheduler: &'static dyn Scheduler,
    options: Options,
    first: impl FnOnce() + Send + 'static,
) -> Result<Report, Error> {
    run_from(Source::of_kernel, scheduler, options, first)
}

/// As [`run`], with a share that is looked up elsewhere.
pub(crate) fn run_from(
    source: impl FnOnce() -> Source,
    scheduler: &'static dyn Scheduler,
    options: Options,
    first: impl FnOnce() + Send + 'static,
) -> Result<Report, Error> {
    if options.cores == 0 || options.cores > CORES_MAX || core::is_here() {
        return Err(Error::TooMany);
    }
    let period_ns = options.tick.map_or(Ok(0), |tick| ns(tick, TICK_NS_MIN..=TICK_NS_MAX))?;
    let limit_ns = ns(options.limit, 1..=LIMIT_NS_MAX)?;
    // Leaked: a thread of the program may hold it until its last instruction.
    let runtime: &'static Runtime = Box::leak(Box::new(Runtime {
        scheduler,
        way: options.way,
        threads: AtomicUsize::new(0),
        changes: AtomicU32::new(0),
        sleepers: Spin::new(Vec::with_capacity(THREADS_MAX)),
        earliest_ns: AtomicU64::new(u64::MAX),
        wanted: AtomicUsize::new(options.cores),
        before: AtomicUsize::new(options.cores),
        cores: options.cores,
        leaving: AtomicU64::new(NOBODY),
        share: AtomicUsize::new(SAME),
        ticks: AtomicU64::new(0),
        missed: AtomicU64::new(0),
    }));
    runtime.spawn_in(Vcore(0), Box::new(first), u64::MAX)?;
    let refused = Arc::new(Spin::new(None));
    let watch = match options.follows {
        Follows::Nothing => None,
        Follows::Share => Some(Watch::begin(source(), runtime)?),
    };
    std::thread::scope(|scope| {
        for id in 1..options.cores {
            let refused = refused.clone();
            scope.spawn(move || note(&refused, be(runtime, id, period_ns, limit_ns)));
        }
        note(&refused, be(runtime, 0, period_ns, limit_ns));
    });
    if let Some(watch) = watch {
        watch.end();
    }
    match refused.with(Option::take) {
        Some(error) => Err(error),
        None => {
            Ok(Report { ticks: runtime.ticks.load(Ordering::Relaxed), missed: runtime.missed.load(Ordering::Relaxed) })
        }
    }
}

fn note(refused: &Spin<Option<Error>>, lived: Result<(), Error>) {
    if let Err(error) = lived {
        refused.with(|refused| refused.get_or_insert(error).to_string());
    }
}

fn be(runtime: &'static Runtime, id: usize, period_ns: u64, limit_ns: u64) -> Result<(), Error> {
    let core = Core::new(id, runtime)?;
    core.live(period_ns, limit_ns)?;
    runtime.ticks.fetch_add(core.area.ticks.load(Ordering::Relaxed), Ordering::Relaxed);
    runtime.missed.fetch_add(core.area.missed.load(Ordering::Relaxed), Ordering::Relaxed);
    Ok(())
}

/// Does something on the virtual core of the calling thread, ticks masked.
pub(crate) fn on_core<T>(act: impl FnOnce(&Core) -> Result<T, Error>) -> Result<T, Error> {
    masked(|| act(core::here().ok_or(Error::Outside)?))
}

/// Starts a thread.
///
/// # Errors
/// [`Error::Outside`], [`Error::TooMany`]; [`Error::Kernel`] without memory for a stack.
pub fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    spawn_due(u64::MAX, work)
}

/// Starts a thread that must be done at a time of [`now_ns`].
///
/// # Errors
/// As [`spawn`].
pub fn spawn_due(at_ns: u64, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    on_core(|core| core.runtime.spawn_in(Vcore(core.id), Box::new(work), at_ns))
}

/// Gives the virtual core to others; the scheduler decides when the thread goes on.
pub fn yield_now() {
    core::leave(Reason::Yield, None);
}

/// Sleeps until a time of [`now_ns`]; the next tick or turn after it wakes the thread.
///
/// # Errors
/// [`Error::Outside`].
pub fn sleep_until(until_ns: u64) -> Result<(), Error> {
    let runtime = on_core(|core| Ok(core.runtime))?;
    core::leave(Reason::Block, Some(&mut |held| runtime.sleep(until_ns, held)));
    Ok(())
}

/// Sets when the calling thread must be done, ns of [`now_ns`]; `u64::MAX` for never.
///
/// # Errors
/// [`Error::Outside`].
pub fn set_deadline(at_ns: u64) -> Result<(), Error> {
    on_core(|core| {
        core.fiber().ok_or(Error::Outside)?.deadline_ns.store(at_ns, Ordering::Relaxed);
        Ok(())
    })
}

/// Ticks that the calling thread's virtual core has had so far.
///
/// # Errors
/// [`Error::Outside`].
pub fn ticks() -> Result<u64, Error> {
    on_core(|core| Ok(core.area.ticks.load(Ordering::Relaxed)))
}

/// Sets how many virtual cores are used, from 1 to those of [`Options::cores`]. Those that leave finish their turns first; then the scheduler's
/// `adapt` is called, once. If the number follows something, the next change of that replaces this one.
///
/// # Errors
/// [`Error::Outside`], [`Error::TooMany`]; [`Error::Busy`] while another change is under way.
pub fn resize(cores: usize) -> Result<(), Error> {
    on_core(|core| core.runtime.resize(cores))
}

impl Runtime {
    fn resize(&self, after: usize) -> Result<(), Error> {
        if after == 0 || after > self.cores {
            return Err(Error::TooMany);
        }
        let before = self.wanted.load(Ordering::Acquire);
        let leaving = (after..before).fold(NOBODY, |all, id| all | 1u64.checked_shl(id as u32).unwrap_or(0));
        let begun = self.leaving.compare_exchange(NOBODY, leaving, Ordering::AcqRel, Ordering::Relaxed);
        begun.map_err(|_| Error::Busy)?;
        self.before.store(before, Ordering::Relaxed);
        self.wanted.store(after, Ordering::Release);
        if leaving == NOBODY {
            self.scheduler.adapt(before, after);
        }
        self.tell();
        Ok(())
    }
}

/// Time of the machine's monotonic clock, ns.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel or its page writes the time that we own.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
