//! How many entries a shelf has of each group of keys, so that a look for any of a group that has none is one load.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};

/// Fewest counters.
const COUNTERS_MIN: usize = 64;
/// Most entries that share a counter on average: groups with the same counter hide from each other that they are
/// empty.
const ENTRIES_PER_COUNTER: usize = 2;

/// The counts. An entry is counted while its shard is locked. A caller that holds the lock that everyone who adds to
/// a group must hold, or has held it after them, sees their entries.
pub(crate) struct Groups<K> {
    of: fn(&K) -> u64,
    counts: Box<[AtomicU32]>,
}

impl<K> Groups<K> {
    /// Makes counts for up to `capacity` keys, whose group `of` says, well spread.
    pub(crate) fn new(of: fn(&K) -> u64, capacity: usize) -> Groups<K> {
        let counters = (capacity / ENTRIES_PER_COUNTER).max(COUNTERS_MIN).next_power_of_two();
        Groups { of, counts: (0..counters).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Returns the group of this key.
    pub(crate) fn of(&self, key: &K) -> u64 {
        (self.of)(key)
    }

    fn count(&self, group: u64) -> &AtomicU32 {
        // A power of two, not 0: the index exists.
        &self.counts[group as usize & self.counts.len().wrapping_sub(1)]
    }

    /// Counts one more.
    pub(crate) fn add(&self, key: &K) {
        self.count(self.of(key)).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one less, which was added.
    pub(crate) fn remove(&self, key: &K) {
        self.count(self.of(key)).fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether it surely has no entry.
    pub(crate) fn is_empty(&self, group: u64) -> bool {
        self.count(group).load(Ordering::Relaxed) == 0
    }
}
