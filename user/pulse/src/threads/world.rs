//! The virtual cores of a process, and which thread has each. All decisions are made one at a time, under one lock.

use std::{
    ptr::NonNull,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use gyre_contract::pulse::{TICK_NS_MAX, TICK_NS_MIN};

use super::{member, tick};
use crate::{Error, Held, Scheduler, Spin, THREADS_MAX, Vcore, fiber::Fiber, futex, now_ns};

/// Virtual cores at most.
const CORES_MAX: usize = 64;
/// A thread that waits for its turn looks again after this time, whatever happens.
const LOOK: Duration = Duration::from_secs(1);

/// The manner in which a process' threads are scheduled.
#[derive(Clone, Copy)]
pub struct Plan {
    /// The policy.
    pub scheduler: &'static dyn Scheduler,
    /// Threads that run at a time, 1 to 64.
    pub cores: usize,
    /// Time between ticks, 50 us to 10 s.
    pub tick: Duration,
}

pub(super) struct World {
    scheduler: &'static dyn Scheduler,
    pub(super) tick_ns: u64,
    /// Virtual cores that nobody has, a bit each in the order of their numbers; under it all decisions are made.
    idle: Spin<u64>,
    cores: usize,
    members: AtomicUsize,
    /// The virtual core at which the next thread begins.
    next: AtomicUsize,
    is_over: AtomicBool,
}

/// The reason for which a thread lets others go first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    Tick,
    Yield,
}

static WORLD: OnceLock<World> = OnceLock::new();

/// The world, while it is in force: a fork's child has none.
pub(super) fn world() -> Option<&'static World> {
    WORLD.get().filter(|world| !world.is_over.load(Ordering::Relaxed))
}

/// Threads are not scheduled any more: in the child of a fork there is one only.
pub(super) fn end_world() {
    if let Some(world) = WORLD.get() {
        world.is_over.store(true, Ordering::Relaxed);
    }
}

/// Puts this process' threads under a scheduler; the calling thread is the first. Once for a process.
///
/// # Errors
/// [`Error::TooMany`], [`Error::Time`]; [`Error::Busy`] if it was done before; [`Error::Kernel`] without a timer.
pub fn start(plan: Plan) -> Result<(), Error> {
    if plan.cores == 0 || plan.cores > CORES_MAX {
        return Err(Error::TooMany);
    }
    let tick_ns = u64::try_from(plan.tick.as_nanos()).ok().filter(|ns| (TICK_NS_MIN..=TICK_NS_MAX).contains(ns));
    let tick_ns = tick_ns.ok_or(Error::Time)?;
    let idle = Spin::new(u64::MAX >> (CORES_MAX - plan.cores));
    let world = World {
        scheduler: plan.scheduler,
        tick_ns,
        idle,
        cores: plan.cores,
        members: AtomicUsize::new(0),
        next: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
    };
    WORLD.set(world).map_err(|_| Error::Busy)?;
    tick::handle()?;
    member::begin()
}

impl World {
    /// Counts a thread in; false if there are too many.
    pub(super) fn admit(&self) -> bool {
        let counted = self
            .members
            .try_update(Ordering::AcqRel, Ordering::Relaxed, |count| (count < THREADS_MAX).then_some(count + 1));
        counted.is_ok()
    }

    pub(super) fn count_out(&self) {
        self.members.fetch_sub(1, Ordering::AcqRel);
    }

    /// A thread wants a virtual core: it gets one at once if one is idle, or when the scheduler says so.
    pub(super) fn enter(&self, fiber: &Fiber) {
        self.idle.with(|idle| {
            let core = match *idle {
                0 => self.next.fetch_add(1, Ordering::Relaxed) % self.cores,
                idle => idle.trailing_zeros() as usize,
            };
            self.scheduler.ready(Vcore(core), held(fiber));
            if *idle != 0
                && let Some(next) = self.scheduler.enter(Vcore(core))
            {
                *idle &= !(1 << core);
                give(core, next);
            }
        });
        await_turn(fiber);
    }

    /// The thread gives its virtual core up, and wants none.
    pub(super) fn leave(&self, fiber: &Fiber) {
        self.idle.with(|idle| {
            if let Some(core) = take(fiber) {
                self.give_or_rest(idle, core, self.scheduler.done(Vcore(core)));
            }
        });
    }

    /// The thread lets others have its virtual core, and wants one. True if another one has had it.
    pub(super) fn pass(&self, fiber: &Fiber, reason: Reason) -> bool {
        self.idle.with(|idle| {
            let Some(core) = take(fiber) else { return };
            let next = match reason {
                Reason::Tick => self.scheduler.tick(Vcore(core), held(fiber)),
                Reason::Yield => self.scheduler.yielded(Vcore(core), held(fiber)),
            };
            self.give_or_rest(idle, core, next);
        });
        let is_passed = fiber.turn.load(Ordering::Acquire) == 0;
        if is_passed {
            tick::arm(0);
            await_turn(fiber);
        }
        is_passed
    }

    fn give_or_rest(&self, idle: &mut u64, core: usize, next: Option<Held>) {
        match next {
            Some(next) => give(core, next),
            None => *idle |= 1 << core,
        }
    }
}

fn held(fiber: &Fiber) -> Held {
    // SAFETY: the caller is the thread, and waits for its turn after this.
    unsafe { Held::new(NonNull::from(fiber)) }
}

/// Takes the virtual core of the calling thread from it.
fn take(fiber: &Fiber) -> Option<usize> {
    let core = fiber.turn.swap(0, Ordering::Relaxed).checked_sub(1)?;
    fiber.end_run(now_ns());
    Some(core as usize)
}

fn give(core: usize, next: Held) {
    let fiber = next.into_fiber();
    // SAFETY: its thread waits for its turn, and lives until it has had it.
    let fiber = unsafe { fiber.as_ref() };
    fiber.begin_run(now_ns());
    fiber.turn.store(core as u32 + 1, Ordering::Release);
    futex::wake_all(&fiber.turn);
}

fn await_turn(fiber: &Fiber) {
    while fiber.turn.load(Ordering::Acquire) == 0 {
        futex::wait(&fiber.turn, 0, LOOK);
    }
}
