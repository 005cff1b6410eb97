//! What address spaces did: each for itself, and all of the machine's together (V14).

use core::sync::atomic::{AtomicU64, Ordering};
use gyre_machine::{CORES_MAX, core_index};

/// Counts of one address space, or of all on one core.
#[derive(Default)]
pub struct Counters {
    /// Faults resolved.
    pub faults: AtomicU64,
    /// Of these, those that waited for a provider.
    pub faults_waited: AtomicU64,
    /// Pages mapped ahead next to one that was asked for.
    pub neighbours: AtomicU64,
    /// Pages copied because others held them.
    pub copies: AtomicU64,
    /// Regions made.
    pub fresh_regions: AtomicU64,
    /// Of these, those that needed a flush: the program named a place that cores still remembered, or that held something.
    pub fresh_flushes: AtomicU64,
    /// Changes that needed a flush on the own core only.
    pub flushes_local: AtomicU64,
    /// Changes that needed a flush on other cores.
    pub flushes_across: AtomicU64,
}

/// Picks one of the counts.
pub type Which = fn(&Counters) -> &AtomicU64;

/// A core's counts, in lines of cache of their own.
#[repr(align(64))]
struct Core(Counters);

/// What all spaces did since the start, by the core that did it; written by that core only.
static CORES: [Core; CORES_MAX] = [const { Core(Counters::new()) }; CORES_MAX];

impl Counters {
    const fn new() -> Counters {
        Counters {
            faults: AtomicU64::new(0),
            faults_waited: AtomicU64::new(0),
            neighbours: AtomicU64::new(0),
            copies: AtomicU64::new(0),
            fresh_regions: AtomicU64::new(0),
            fresh_flushes: AtomicU64::new(0),
            flushes_local: AtomicU64::new(0),
            flushes_across: AtomicU64::new(0),
        }
    }

    /// Counts one here and for the machine.
    pub(crate) fn count(&self, which: Which) {
        which(self).fetch_add(1, Ordering::Relaxed);
        if let Some(core) = CORES.get(core_index()) {
            let counter = which(&core.0);
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
    }
}

/// The sum of a count over all address spaces that there have been.
pub fn of_the_machine(which: Which) -> u64 {
    CORES.iter().map(|core| which(&core.0).load(Ordering::Relaxed)).sum()
}
