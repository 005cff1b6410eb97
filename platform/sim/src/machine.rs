//! One simulated machine: what its cores share. A thread plays one core at a time; several threads may play the cores of one machine.

use gyre_platform::{CORES_MAX, MemoryMeter};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};

/// Stands for "no timer armed".
pub(crate) const DISARMED: u64 = u64::MAX;

/// What interrupts and clocks leave behind, per core.
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
    /// The mark of the work that another core asks it to end; 0 for none.
    pub(crate) asked_to_end: AtomicU64,
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
            asked_to_end: AtomicU64::new(0),
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

/// A simulated machine. Each thread has one of its own until it joins another with [`Machine::join`].
pub struct Machine {
    pub(crate) cores: [CoreState; CORES_MAX],
    pub(crate) core_count: AtomicUsize,
    pub(crate) virtual_time: AtomicBool,
    /// Virtual nanoseconds that pass at each look at the clock.
    pub(crate) tick_ns: AtomicU64,
    pub(crate) meter: OnceLock<&'static dyn MemoryMeter>,
    pub(crate) end_hook: OnceLock<fn()>,
}

thread_local! {
    /// Leaked, so that a look costs one load: threads of tests are few and a machine is small.
    static MACHINE: Cell<Option<&'static Arc<Machine>>> = const { Cell::new(None) };
    static CORE: Cell<usize> = const { Cell::new(0) };
}

impl Machine {
    fn new() -> Machine {
        Machine {
            cores: std::array::from_fn(|_| CoreState::new()),
            core_count: AtomicUsize::new(1),
            virtual_time: AtomicBool::new(false),
            tick_ns: AtomicU64::new(0),
            meter: OnceLock::new(),
            end_hook: OnceLock::new(),
        }
    }

    /// The machine that this thread is a part of.
    pub fn current() -> Arc<Machine> {
        with_machine(Arc::clone)
    }

    /// Makes this thread play `core` of `machine`. Call it before anything else of the platform on this thread.
    ///
    /// # Panics
    /// Where the thread has a machine already.
    pub fn join(machine: Arc<Machine>, core: usize) {
        assert!(MACHINE.get().is_none(), "this thread is a part of a machine already");
        MACHINE.set(Some(Box::leak(Box::new(machine))));
        select_core(core);
    }
}

#[inline]
pub(crate) fn with_machine<T>(look: impl FnOnce(&Arc<Machine>) -> T) -> T {
    look(MACHINE.get().unwrap_or_else(make_machine))
}

#[cold]
fn make_machine() -> &'static Arc<Machine> {
    let machine: &'static Arc<Machine> = Box::leak(Box::new(Arc::new(Machine::new())));
    MACHINE.set(Some(machine));
    machine
}

/// The index of the core that runs this code.
#[inline]
pub fn core_index() -> usize {
    // The mask lets the compiler drop bounds checks of arrays of CORES_MAX elements.
    CORE.get() & (CORES_MAX - 1)
}

/// How many cores this instance has.
pub fn core_count() -> usize {
    with_machine(|machine| machine.core_count.load(Ordering::Relaxed))
}

/// Makes this thread play `core` from now on.
pub fn select_core(core: usize) {
    CORE.set(core.min(CORES_MAX - 1));
}

/// Sets the number of cores of the simulated machine.
pub fn set_core_count(cores: usize) {
    with_machine(|machine| {
        machine.core_count.store(cores.clamp(1, CORES_MAX), Ordering::Relaxed);
    });
}
