//! User threads: tasks that may move between cores while they wait for one (V6, V17).

use crate::task::NIL;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use gyre_account::ActivityId;
use gyre_account::limits::ACTIVITIES_MAX;
use gyre_machine::CORES_MAX;
use gyre_object::SpinLock;

/// A thread that is between two cores, or ended: waking it does nothing, because it is queued, or gone.
const NOWHERE: u64 = u64::MAX;

/// Where each thread is, and how many there are.
pub(crate) struct ThreadTable {
    /// Core in the upper half, task in the lower.
    places: Box<[AtomicU64]>,
    pub(crate) free: SpinLock<Vec<u32>>,
    /// Threads of a top-level activity on a core, `[activity][core]`.
    per_root: Box<[[AtomicU32; CORES_MAX]]>,
    homed: [AtomicU32; CORES_MAX],
    /// Threads waiting for the core that could move.
    queued: [AtomicU32; CORES_MAX],
    /// Since when there are any, cycles.
    queued_since: [AtomicU64; CORES_MAX],
}

fn zeros() -> [AtomicU32; CORES_MAX] {
    core::array::from_fn(|_| AtomicU32::new(0))
}

impl ThreadTable {
    pub(crate) fn new(threads: usize) -> ThreadTable {
        ThreadTable {
            places: (0..threads).map(|_| AtomicU64::new(NOWHERE)).collect(),
            free: SpinLock::new((0..threads as u32).rev().collect()),
            per_root: (0..ACTIVITIES_MAX).map(|_| zeros()).collect(),
            homed: zeros(),
            queued: zeros(),
            queued_since: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Takes a number for a new thread of a top-level activity, at home on `core`.
    pub(crate) fn begin(&self, root: ActivityId, core: usize) -> Option<u32> {
        let thread = self.free.lock().pop()?;
        self.count(root, core, 1);
        Some(thread)
    }

    /// Gives the number back.
    pub(crate) fn end(&self, thread: u32, root: ActivityId, core: usize) {
        if let Some(place) = self.places.get(thread as usize) {
            place.store(NOWHERE, Ordering::Release);
        }
        self.count(root, core, u32::MAX);
        self.free.lock().push(thread);
    }

    /// Counts a thread of `root` in (1) or out (-1 as `u32::MAX`) on a core.
    pub(crate) fn count(&self, root: ActivityId, core: usize, change: u32) {
        let core = core.min(CORES_MAX - 1);
        if let Some(counts) = self.per_root.get(root.index()) {
            counts[core].fetch_add(change, Ordering::Relaxed);
        }
        self.homed[core].fetch_add(change, Ordering::Relaxed);
    }

    /// Says where a thread is from now on; `NIL` while it travels.
    pub(crate) fn set_place(&self, thread: u32, core: usize, task: u32) {
        if let Some(place) = self.places.get(thread as usize) {
            let word = if task == NIL { NOWHERE } else { (core as u64) << 32 | u64::from(task) };
            place.store(word, Ordering::Release);
        }
    }

    /// Where a thread is.
    pub(crate) fn place(&self, thread: u32) -> Option<(usize, u32)> {
        let word = self.places.get(thread as usize)?.load(Ordering::Acquire);
        (word != NOWHERE).then_some(((word >> 32) as usize, word as u32))
    }

    /// The best core among `cores` for a new thread: where its tenant has the fewest, then where there are the fewest at all. So that
    /// the tenants meet on every core and the weights decide there.
    pub(crate) fn best_core(&self, root: ActivityId, cores: u64, core_count: usize) -> Option<usize> {
        (0..core_count).filter(|core| cores >> core & 1 == 1).min_by_key(|&core| {
            let own = self.per_root.get(root.index()).map_or(0, |counts| counts[core].load(Ordering::Relaxed));
            (own, self.homed[core].load(Ordering::Relaxed), core)
        })
    }

    pub(crate) fn homed(&self, core: usize) -> u32 {
        self.homed.get(core).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Threads that wait for a core and could move, where some have waited since before `limit` (cycles): one that gets its core in
    /// a moment is not worth another core's interrupt and cold caches.
    pub(crate) fn queued_since(&self, core: usize, limit: u64) -> u32 {
        let since = self.queued_since.get(core).map_or(u64::MAX, |since| since.load(Ordering::Relaxed));
        if since <= limit { self.queued(core) } else { 0 }
    }

    pub(crate) fn queued(&self, core: usize) -> u32 {
        self.queued.get(core).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Publishes how many threads of a core could move. By that core only.
    pub(crate) fn set_queued(&self, core: usize, count: u32, now: u64) {
        if let (Some(queued), Some(since)) = (self.queued.get(core), self.queued_since.get(core)) {
            if queued.load(Ordering::Relaxed) == 0 {
                since.store(now, Ordering::Relaxed);
            }
            queued.store(count, Ordering::Relaxed);
        }
    }
}
