//! One simulated machine: what the cores of one instance share, and all that its image keeps in statics.
//!
//! On the machine an instance is an image with its own copy of all state. Here all instances are one process, so everything that the
//! platform keeps, and each static declared by [`crate::PerInstance`], belongs to a [`Machine`].
//!
//! A thread plays one core of one machine at a time. A thread that never chooses has a machine of its own, made at the first look: so unit
//! tests do not see each other. There are two ways to choose:
//! * [`Machine::join`]: several threads play the cores of one machine (tests with real threads, benchmarks);
//! * [`Machine::select`] and [`Machine::within`]: one thread plays the cores of several machines, one after the other (the simulator). It
//!   changes only between two pieces of work: no lock is held then, and no future is being polled.
//!
//! Machines are never freed: a static lives as long as its image. [`Machine::stop`] takes away what an instance that was killed could reach.

use crate::guard::Judge;
use crate::instance::Statics;
use crate::physical::Memory;
use gyre_platform::{CORES_MAX, Failure, MemoryMeter, OwnTime};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};

/// Stands for "no timer armed".
pub(crate) const DISARMED: u64 = u64::MAX;

/// The state of one core: what interrupts and clocks leave behind.
pub(crate) struct CoreState {
    /// Bits of [`gyre_platform::Events`].
    pub(crate) events: AtomicU64,
    /// Deadline of the one-shot timer, or [`DISARMED`].
    pub(crate) timer: AtomicU64,
    /// How often it was armed.
    pub(crate) timer_arms: AtomicU64,
    /// The core's own clock in virtual time, ns.
    pub(crate) clock_ns: AtomicU64,
    /// When its piece of work began, in cycles.
    pub(crate) work_mark: AtomicU64,
    /// Turns that are left to it.
    pub(crate) turns: AtomicU32,
    /// The mark of the work that another core asks it to end; 0 for none.
    pub(crate) asked_to_end: AtomicU64,
    /// The time that it has really had, as far as it shows.
    pub(crate) own_time: OwnTime,
    /// Knocks that it has answered.
    pub(crate) knocks: AtomicU64,
    /// The last failure that it contained.
    pub(crate) last_failure: Mutex<Failure>,
    /// Set by whoever wants the core to leave [`crate::idle`].
    woken: Mutex<bool>,
    bell: Condvar,
}

impl CoreState {
    fn new() -> CoreState {
        CoreState {
            events: AtomicU64::new(0),
            timer: AtomicU64::new(DISARMED),
            timer_arms: AtomicU64::new(0),
            clock_ns: AtomicU64::new(0),
            work_mark: AtomicU64::new(0),
            turns: AtomicU32::new(0),
            asked_to_end: AtomicU64::new(0),
            own_time: OwnTime::new(),
            knocks: AtomicU64::new(0),
            last_failure: Mutex::new(Failure::new()),
            woken: Mutex::new(false),
            bell: Condvar::new(),
        }
    }

    pub(crate) fn ring(&self) {
        *self.woken.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = true;
        self.bell.notify_all();
    }

    /// Waits for [`CoreState::ring`], at most `ns` nanoseconds.
    pub(crate) fn wait(&self, ns: u64) {
        let mut woken = self.woken.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !*woken {
            let limit = std::time::Duration::from_nanos(ns);
            woken = match self.bell.wait_timeout(woken, limit) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        *woken = false;
    }
}

/// A simulated machine. Each thread has one of its own until it joins or selects another.
pub struct Machine {
    pub(crate) cores: [CoreState; CORES_MAX],
    pub(crate) core_count: AtomicUsize,
    /// Cores that run the instance, a bit each, among the first `core_count`.
    pub(crate) online: AtomicU64,
    /// Interrupt lines that have moved to another core.
    pub(crate) moved_lines: Mutex<Vec<crate::online::MovedLine>>,
    pub(crate) virtual_time: AtomicBool,
    /// Virtual nanoseconds that pass at each look at the clock.
    pub(crate) tick_ns: AtomicU64,
    pub(crate) meter: OnceLock<&'static dyn MemoryMeter>,
    pub(crate) end_hook: OnceLock<fn()>,
    /// Decides whether a failure ends only the work that failed.
    pub(crate) judge: Mutex<Option<Judge>>,
    /// The state of its random bytes.
    pub(crate) entropy: AtomicU64,
    /// Its frames.
    pub(crate) memory: Memory,
    /// The values of its statics.
    pub(crate) statics: Statics,
}

// Statics outlive a panic that is caught, in any program.
impl std::panic::RefUnwindSafe for Machine {}

thread_local! {
    static MACHINE: Cell<Option<&'static Machine>> = const { Cell::new(None) };
    static CORE: Cell<usize> = const { Cell::new(0) };
}

impl Machine {
    /// A machine that no thread plays yet: one core, the host's clock, no memory taken.
    #[allow(clippy::new_ret_no_self, reason = "a machine lives as long as the process")]
    pub fn new() -> &'static Machine {
        Box::leak(Box::new(Machine {
            cores: std::array::from_fn(|_| CoreState::new()),
            core_count: AtomicUsize::new(1),
            online: AtomicU64::new(1),
            moved_lines: Mutex::new(Vec::new()),
            virtual_time: AtomicBool::new(false),
            tick_ns: AtomicU64::new(0),
            meter: OnceLock::new(),
            end_hook: OnceLock::new(),
            judge: Mutex::new(None),
            entropy: AtomicU64::new(crate::entropy::DEFAULT_SEED),
            memory: Memory::new(),
            statics: Statics::new(),
        }))
    }

    /// The machine that this thread plays.
    #[inline]
    pub fn current() -> &'static Machine {
        MACHINE.get().unwrap_or_else(make_machine)
    }

    /// Makes this thread play `core` of `machine`. Call it before anything else of the platform on this thread.
    ///
    /// # Panics
    /// If the thread has a machine already.
    pub fn join(machine: &'static Machine, core: usize) {
        assert!(MACHINE.get().is_none(), "this thread is a part of a machine already");
        machine.select(core);
    }

    /// Makes this thread play `core` of this machine from now on, whatever it played before.
    pub fn select(&'static self, core: usize) {
        MACHINE.set(Some(self));
        select_core(core);
    }

    /// Plays the first core of this machine while `work` runs, then again what the thread played before, also if `work` panics.
    pub fn within<T>(&'static self, work: impl FnOnce() -> T) -> T {
        let _back = Back { machine: MACHINE.get(), core: CORE.get() };
        self.select(0);
        work()
    }

    /// Stops it for ever, as INIT on all of its cores does: no timer fires, no event arrives, no frame is anybody's any more. A device that
    /// touches one then fails its test, and no frame can be taken.
    pub fn stop(&self) {
        for core in &self.cores {
            core.timer.store(DISARMED, Ordering::Relaxed);
            core.events.store(0, Ordering::SeqCst);
        }
        self.memory.stop();
    }
}

/// The core that a thread plays again after [`Machine::within`].
struct Back {
    machine: Option<&'static Machine>,
    core: usize,
}

impl Drop for Back {
    fn drop(&mut self) {
        MACHINE.set(self.machine);
        CORE.set(self.core);
    }
}

#[inline]
pub(crate) fn with_machine<T>(look: impl FnOnce(&'static Machine) -> T) -> T {
    look(Machine::current())
}

#[cold]
fn make_machine() -> &'static Machine {
    let machine = Machine::new();
    MACHINE.set(Some(machine));
    machine
}

/// The index of the core that runs this code.
#[inline]
pub fn core_index() -> usize {
    // The mask lets the compiler drop bounds checks of arrays of CORES_MAX elements.
    CORE.get() & (CORES_MAX - 1)
}

/// How many slots for cores this instance has used so far.
pub fn core_count() -> usize {
    with_machine(|machine| machine.core_count.load(Ordering::Relaxed))
}

/// Makes this thread play `core` of its machine from now on.
pub fn select_core(core: usize) {
    CORE.set(core.min(CORES_MAX - 1));
}

/// Sets the number of cores of the simulated machine; all of them are online.
pub fn set_core_count(cores: usize) {
    with_machine(|machine| {
        let cores = cores.clamp(1, CORES_MAX);
        machine.core_count.store(cores, Ordering::Relaxed);
        machine.online.store((1 << cores) - 1, Ordering::Relaxed);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{advance, fill_random, live_frame_bytes, now, seed_random, set_timer, set_virtual_time};

    #[test]
    fn two_machines_of_a_thread_share_nothing() {
        let (one, other) = (Machine::new(), Machine::new());
        let draw = || {
            let mut bytes = [0; 8];
            fill_random(&mut bytes);
            bytes
        };
        let frame = one.within(|| {
            set_core_count(4);
            set_virtual_time(70);
            seed_random(1);
            set_timer(100);
            crate::Frame::allocate(1).unwrap()
        });
        let seen = other.within(|| {
            set_virtual_time(5);
            seed_random(1);
            advance(1);
            (core_count(), now(), crate::armed_timer(0), live_frame_bytes(), draw())
        });
        assert_eq!(one.within(|| (core_count(), now(), crate::armed_timer(0))), (4, 70, Some(100)));
        assert_eq!(seen, (1, 6, None, 0, one.within(draw)));
        // Dropped while the thread plays another machine, it is still the first one's.
        drop(frame);
        assert_eq!(one.within(live_frame_bytes), 0);
    }

    #[test]
    fn a_thread_plays_again_what_it_played_before() {
        let (before, one) = (Machine::current(), Machine::new());
        select_core(3);
        assert!(std::panic::catch_unwind(|| one.within(|| panic!("in the middle"))).is_err());
        assert!(std::ptr::eq(Machine::current(), before));
        assert_eq!(core_index(), 3);
    }

    #[test]
    fn a_machine_that_was_stopped_has_nothing() {
        let machine = Machine::new();
        machine.within(|| {
            let frame = crate::Frame::allocate(0).unwrap();
            set_timer(1);
            crate::wake_core(0);
            machine.stop();
            assert_eq!((live_frame_bytes(), crate::armed_timer(0), crate::events_pending(0)), (0, None, false));
            assert!(crate::Frame::allocate(0).is_err());
            assert!(std::panic::catch_unwind(|| crate::device_read(frame.pa(), &mut [0])).is_err());
        });
    }
}
