//! User threads: tasks that may move between cores while they wait for one.
//!
//! A thread has a number for life, which wakers name, and a place (core and task), which changes when it moves. Between two cores, and
//! after its end, its place is [`NOWHERE`]: waking it does nothing then.
//!
//! [`CoreThreads`] counts, for one core, the threads that want it: by top-level activity (queued or running), and the queued ones that
//! other cores could take. Only that core writes; every core reads. So an idle core finds a busy one without a message.
//!
//! A core that queues a thread fences and looks for idle cores; a core that goes idle says so, fences and looks for threads. One of the
//! two sees the other.
//!
//! Left out: the run of a program (`compute.rs`), the choice of which thread moves (`balance.rs`).

use crate::task::NIL;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use gyre_account::ActivityId;
use gyre_account::limits::ACTIVITIES_MAX;
use gyre_machine::CORES_MAX;
use gyre_object::SpinLock;

/// A thread that is between two cores, or ended: waking it does nothing, because it is queued, or gone.
const NOWHERE: u64 = u64::MAX;

/// Threads that want a core, written by that core only.
#[repr(align(64))]
pub(crate) struct CoreThreads {
    /// Queued or running, by top-level activity.
    wanting: Box<[AtomicU32]>,
    /// Queued ones that may move.
    queued: AtomicU32,
    /// Since when there are any, cycles.
    queued_since: AtomicU64,
    /// Queued ones that each core may run.
    wanted_by: [AtomicU32; CORES_MAX],
}

impl CoreThreads {
    fn new() -> CoreThreads {
        CoreThreads {
            wanting: (0..ACTIVITIES_MAX).map(|_| AtomicU32::new(0)).collect(),
            queued: AtomicU32::new(0),
            queued_since: AtomicU64::new(0),
            wanted_by: zeros(),
        }
    }

    /// Counts a thread in or out.
    #[inline]
    pub(crate) fn want(&self, root: ActivityId, wants: bool) {
        if let Some(count) = self.wanting.get(root.index()) {
            let before = count.load(Ordering::Relaxed);
            count.store(if wants { before + 1 } else { before.saturating_sub(1) }, Ordering::Relaxed);
        }
    }

    /// One more is queued, which the cores of `cores` may run.
    pub(crate) fn queue(&self, now: u64, cores: u8) {
        let before = self.queued.load(Ordering::Relaxed);
        if before == 0 {
            self.queued_since.store(now, Ordering::Relaxed);
        }
        self.queued.store(before + 1, Ordering::Relaxed);
        self.change_wanted(cores, |before| before + 1);
        // An idle core says so, fences and looks here; this core looks which cores idle after this. One of the two sees the other.
        fence(Ordering::SeqCst);
    }

    /// One less is queued.
    pub(crate) fn unqueue(&self, cores: u8) {
        self.queued.store(self.queued.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
        self.change_wanted(cores, |before| before.saturating_sub(1));
    }

    fn change_wanted(&self, cores: u8, change: impl Fn(u32) -> u32) {
        for count in crate::bits::ones(cores.into()).filter_map(|core| self.wanted_by.get(core as usize)) {
            count.store(change(count.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
    }

    /// Returns how many are queued.
    #[inline]
    pub(crate) fn queued(&self) -> u32 {
        self.queued.load(Ordering::Relaxed)
    }
}

/// The core of each thread, and the number of threads.
pub(crate) struct ThreadTable {
    /// Core in the upper half, task in the lower.
    places: Box<[AtomicU64]>,
    pub(crate) free: SpinLock<Vec<u32>>,
    /// Threads of a top-level activity on a core, `[activity][core]`.
    per_root: Box<[[AtomicU32; CORES_MAX]]>,
    homed: [AtomicU32; CORES_MAX],
    /// Top-level activities that have, or had, threads.
    roots: SpinLock<Vec<ActivityId>>,
    by_core: [Arc<CoreThreads>; CORES_MAX],
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
            roots: SpinLock::new(Vec::new()),
            by_core: core::array::from_fn(|_| Arc::new(CoreThreads::new())),
        }
    }

    /// Takes a number for a new thread of a top-level activity, at home on `core`.
    pub(crate) fn begin(&self, root: ActivityId, core: usize) -> Option<u32> {
        self.note_root(root)?;
        let thread = self.free.lock().pop()?;
        self.count(root, core, 1);
        Some(thread)
    }

    fn note_root(&self, root: ActivityId) -> Option<()> {
        let mut roots = self.roots.lock();
        if !roots.contains(&root) {
            roots.try_reserve(1).ok()?;
            roots.push(root);
        }
        Some(())
    }

    /// Top-level activities with threads.
    pub(crate) fn roots(&self) -> Vec<ActivityId> {
        self.roots.lock().clone()
    }

    /// Forgets an activity that has ended.
    pub(crate) fn forget_root(&self, root: ActivityId) {
        self.roots.lock().retain(|&known| known != root);
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

    /// Says the core of a thread from now on; `NIL` while it travels.
    pub(crate) fn set_place(&self, thread: u32, core: usize, task: u32) {
        if let Some(place) = self.places.get(thread as usize) {
            let word = if task == NIL { NOWHERE } else { (core as u64) << 32 | u64::from(task) };
            place.store(word, Ordering::Release);
        }
    }

    /// Returns the core of a thread.
    pub(crate) fn place(&self, thread: u32) -> Option<(usize, u32)> {
        let word = self.places.get(thread as usize)?.load(Ordering::Acquire);
        (word != NOWHERE).then_some(((word >> 32) as usize, word as u32))
    }

    /// Returns the best core among `cores` for a new thread: first by the fewest of its tenant that want to run, then by the fewest of it at home,
    /// then by the fewest at all. So the tenants meet on every core, and the weights decide there.
    pub(crate) fn best_core(&self, root: ActivityId, cores: u64) -> Option<usize> {
        crate::bits::ones(cores).map(|core| core as usize).filter(|&core| core < CORES_MAX).min_by_key(|&core| {
            let own = self.per_root.get(root.index()).map_or(0, |counts| counts[core].load(Ordering::Relaxed));
            (self.active(root, core), own, self.homed[core].load(Ordering::Relaxed), core)
        })
    }

    /// Returns the threads that want a core.
    pub(crate) fn core(&self, core: usize) -> Arc<CoreThreads> {
        self.by_core[core.min(CORES_MAX - 1)].clone()
    }

    /// Counts threads of a top-level activity that run or are queued on a core.
    pub(crate) fn active(&self, root: ActivityId, core: usize) -> u32 {
        let known = self.by_core.get(core).and_then(|threads| threads.wanting.get(root.index()));
        known.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    pub(crate) fn homed(&self, core: usize) -> u32 {
        self.homed.get(core).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Returns the threads that wait for a core, if some have waited since before `limit` (cycles): one that gets its core in a moment is not worth
    /// another core's interrupt and cold caches.
    pub(crate) fn queued_since(&self, core: usize, limit: u64) -> u32 {
        let waiting = self.by_core.get(core).filter(|threads| threads.queued_since.load(Ordering::Relaxed) <= limit);
        waiting.map_or(0, |threads| threads.queued())
    }

    /// Counts threads that wait for a core.
    pub(crate) fn queued(&self, core: usize) -> u32 {
        self.by_core.get(core).map_or(0, |threads| threads.queued())
    }

    /// Counts threads that wait for the core `at` and that the core `to` may run.
    pub(crate) fn wanted_by(&self, at: usize, to: usize) -> u32 {
        let count = self.by_core.get(at).and_then(|threads| threads.wanted_by.get(to));
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Returns since when threads that may move wait for a core, cycles, if some do.
    pub(crate) fn since(&self, core: usize) -> u64 {
        self.by_core.get(core).map_or(0, |threads| threads.queued_since.load(Ordering::Relaxed))
    }
}
