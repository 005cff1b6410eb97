//! Which core handles the requests of an affinity label: asked of the scheduler on a miss, kept for as long as it says (V2, V9).
//!
//! The paper's dictionary is keyed by source, affinity and activity. Here a label alone is the key: a connection's packets
//! and its user's calls come from different sources, for different activities at times, and must meet on one core.
//! Requests without a label stay on their sender's core where the resource runs there: the senders, threads and interrupts,
//! are balanced already, and a call that stays needs no other core's cache.

use crate::limits::PLACEMENTS_MAX;
use crate::map::Map;
use gyre_object::SpinLock;
use gyre_schedulers::{CoreLoad, Policy};

#[derive(Clone, Copy)]
struct Entry {
    core: usize,
    until_ns: u64,
}

/// The placements of a resource.
pub(crate) struct Placements {
    by_label: SpinLock<Map<u64, Entry>>,
}

impl Placements {
    pub(crate) fn new() -> Placements {
        Placements { by_label: SpinLock::new(Map::default()) }
    }

    /// The core that handles a label's requests, and until when that holds (ns).
    pub(crate) fn find(
        &self,
        label: u64,
        activity: u32,
        now_ns: u64,
        policy: &dyn Policy,
        loads: &[CoreLoad],
    ) -> (usize, u64) {
        let mut table = self.by_label.lock();
        if let Some(entry) = table.get(&label).filter(|entry| now_ns < entry.until_ns) {
            return (entry.core, entry.until_ns);
        }
        let placement = policy.load_share(label, activity, loads);
        let until_ns = now_ns.saturating_add(placement.lifetime_us.saturating_mul(1000));
        insert(&mut table, label, Entry { core: placement.core, until_ns });
        (placement.core, until_ns)
    }

    /// What is known of a label, if it still holds.
    pub(crate) fn get(&self, label: u64, now_ns: u64) -> Option<(usize, u64)> {
        let table = self.by_label.lock();
        table.get(&label).filter(|entry| now_ns < entry.until_ns).map(|entry| (entry.core, entry.until_ns))
    }

    /// Notes what another table has found.
    pub(crate) fn put(&self, label: u64, (core, until_ns): (usize, u64)) {
        insert(&mut self.by_label.lock(), label, Entry { core, until_ns });
    }

    /// Forgets all: the resource's cores or policy have changed.
    pub(crate) fn clear(&self) {
        self.by_label.lock().clear();
    }

    /// The lock, for the profile.
    pub(crate) fn lock(&self) -> &dyn gyre_object::Profiled {
        &self.by_label
    }

    pub(crate) fn len(&self) -> usize {
        self.by_label.lock().len()
    }
}

fn insert(table: &mut Map<u64, Entry>, label: u64, entry: Entry) {
    if table.len() >= PLACEMENTS_MAX {
        table.clear();
    }
    // Without memory the scheduler is asked each time: slower, not wrong.
    if table.try_reserve(1).is_ok() {
        table.insert(label, entry);
    }
}

/// Entries of a core's table before the shared one.
const CACHE: usize = 256;

/// What a core remembers of placements.
pub(crate) struct PlacementCache {
    entries: [(u64, u8, u8, u64); CACHE],
    epoch: u64,
}

impl PlacementCache {
    pub(crate) fn new() -> PlacementCache {
        PlacementCache { entries: [(0, u8::MAX, 0, 0); CACHE], epoch: 0 }
    }

    #[inline]
    fn slot(label: u64, resource: u8) -> usize {
        let mixed = (label ^ u64::from(resource) << 56).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 56) as usize % CACHE
    }

    /// The core of a label, if it is known and still holds. All is forgotten when `epoch` changes.
    #[inline]
    pub(crate) fn get(&mut self, label: u64, resource: u8, now_ns: u64, epoch: u64) -> Option<usize> {
        if self.epoch != epoch {
            *self = PlacementCache { epoch, ..PlacementCache::new() };
        }
        let (known, of, core, until_ns) = self.entries[Self::slot(label, resource)];
        (known == label && of == resource && now_ns < until_ns).then_some(usize::from(core))
    }

    pub(crate) fn put(&mut self, label: u64, resource: u8, core: usize, until_ns: u64) {
        self.entries[Self::slot(label, resource)] = (label, resource, core as u8, until_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicUsize, Ordering};
    use gyre_schedulers::{CorePolicy, Placement};

    struct Counting(AtomicUsize);
    impl Policy for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }
        fn init_core(&self, core: usize) -> alloc::boxed::Box<dyn CorePolicy> {
            gyre_schedulers::round_robin::policy(Default::default()).init_core(core)
        }
        fn load_share(&self, _: u64, _: u32, _: &[CoreLoad]) -> Placement {
            Placement { core: self.0.fetch_add(1, Ordering::Relaxed), lifetime_us: 5 }
        }
    }

    #[test]
    fn a_placement_holds_for_its_lifetime_and_is_asked_for_again_after_it() {
        let (placements, policy) = (Placements::new(), Counting(AtomicUsize::new(0)));
        let find = |now_ns| placements.find(7, 1, now_ns, &policy, &[]).0;
        assert_eq!((find(1_000), find(5_999), find(6_000), find(10_999)), (0, 0, 1, 1));
    }

    #[test]
    fn a_core_forgets_with_the_epoch_and_the_lifetime() {
        let mut cache = PlacementCache::new();
        cache.put(7, 1, 3, 100);
        assert_eq!(cache.get(7, 1, 99, 0), Some(3));
        assert_eq!(cache.get(7, 2, 99, 0), None);
        assert_eq!(cache.get(7, 1, 100, 0), None);
        assert_eq!(cache.get(7, 1, 99, 1), None);
    }
}
