//! Which core handles the requests of an affinity label: asked of the scheduler on a miss, kept for as long as it says (V2, V9).
//!
//! The paper's dictionary is keyed by source, affinity and activity. Here a label alone is the key: a connection's packets
//! and its user's calls come from different sources, for different activities at times, and must meet on one core.
//! A label follows the thread that uses it: a placement was made before its user was known (a connection, before a
//! program has accepted it), and each call from another core costs a message between cores and wakes that core.
//! Requests without a label stay on their sender's core if the resource runs there: the senders, threads and interrupts,
//! are balanced already, and a call that stays needs no other core's cache.
//!
//! A stranger may make a label with each packet (a forged connection), so a table keeps two generations: what is asked for is in the young
//! one; once that is full, it becomes the old one, and what nobody asked for since the last time is forgotten.

use crate::limits::{DRAW_EVERY_NS, DRAWN_NS, PLACEMENTS_MAX};
use crate::map::Map;
use core::sync::atomic::{AtomicU32, Ordering};
use gyre_object::SpinLock;
use gyre_schedulers::{CoreLoad, Policy};

#[derive(Clone, Copy)]
struct Entry {
    core: usize,
    until_ns: u64,
    /// When a thread drew the label to its core; it stays there until another one does.
    drawn_ns: Option<u64>,
}

impl Entry {
    /// Returns the scheduler's decision, and until when it holds.
    fn placed(core: usize, until_ns: u64) -> Entry {
        Entry { core, until_ns, drawn_ns: None }
    }
}

/// Placements by label, those asked for last.
#[derive(Default)]
struct Generations {
    young: Map<u64, Entry>,
    old: Map<u64, Entry>,
}

impl Generations {
    /// Returns what is known of a label, which is young again.
    fn get_mut(&mut self, label: u64) -> Option<&mut Entry> {
        if let Some(entry) = self.old.remove(&label) {
            self.insert(label, entry);
        }
        self.young.get_mut(&label)
    }

    fn insert(&mut self, label: u64, entry: Entry) {
        self.old.remove(&label);
        if self.young.len() >= PLACEMENTS_MAX / 2 {
            core::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        // Without memory the scheduler is asked each time: slower, not wrong.
        if self.young.try_reserve(1).is_ok() {
            self.young.insert(label, entry);
        }
    }

    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

/// The placements of a resource.
pub(crate) struct Placements {
    by_label: SpinLock<Generations>,
}

impl Placements {
    pub(crate) fn new() -> Placements {
        Placements { by_label: SpinLock::new(Generations::default()) }
    }

    /// Returns the core that handles a label's requests, and until when that holds (ns).
    pub(crate) fn find(
        &self,
        label: u64,
        activity: u32,
        now_ns: u64,
        policy: &dyn Policy,
        loads: &[CoreLoad],
    ) -> (usize, u64) {
        let mut table = self.by_label.lock();
        if let Some(entry) = table.get_mut(label).filter(|entry| now_ns < entry.until_ns) {
            return (entry.core, entry.until_ns);
        }
        let placement = policy.load_share(label, activity, loads);
        let until_ns = now_ns.saturating_add(placement.lifetime_us.saturating_mul(1000));
        table.insert(label, Entry::placed(placement.core, until_ns));
        (placement.core, until_ns)
    }

    /// Returns the decision about a label, if it still holds.
    pub(crate) fn get(&self, label: u64, now_ns: u64) -> Option<(usize, u64)> {
        let mut table = self.by_label.lock();
        let entry = table.get_mut(label)?;
        if now_ns >= entry.until_ns && entry.drawn_ns.is_some() {
            entry.until_ns = now_ns.saturating_add(DRAWN_NS);
        }
        (now_ns < entry.until_ns).then_some((entry.core, entry.until_ns))
    }

    /// A thread on `core` uses a label that is placed elsewhere: it comes there, unless it was drawn a moment ago. True if it did.
    pub(crate) fn draw(&self, label: u64, core: usize, now_ns: u64) -> bool {
        let mut table = self.by_label.lock();
        let Some(entry) = table.get_mut(label).filter(|entry| entry.core != core) else {
            return false;
        };
        if entry.drawn_ns.is_some_and(|at| now_ns < at.saturating_add(DRAW_EVERY_NS)) {
            return false;
        }
        *entry = Entry { core, until_ns: now_ns.saturating_add(DRAWN_NS), drawn_ns: Some(now_ns) };
        true
    }

    /// Notes what another table has found.
    pub(crate) fn put(&self, label: u64, (core, until_ns): (usize, u64)) {
        self.by_label.lock().insert(label, Entry::placed(core, until_ns));
    }

    /// Forgets all: the resource's cores or policy have changed.
    pub(crate) fn clear(&self) {
        self.by_label.lock().clear();
    }

    /// Returns the lock, for the profile.
    pub(crate) fn lock(&self) -> &dyn gyre_object::Profiled {
        &self.by_label
    }

    pub(crate) fn len(&self) -> usize {
        self.by_label.lock().len()
    }
}

/// Entries of a core's table before the shared one.
const CACHE: usize = 256;

/// Counts of moved labels, shared by labels of equal hash: what a core remembers of one holds as long as its count stands still.
pub(crate) struct Moves([AtomicU32; CACHE]);

impl Moves {
    pub(crate) fn new() -> Moves {
        Moves([const { AtomicU32::new(0) }; CACHE])
    }

    /// Returns the count of a label.
    #[inline]
    pub(crate) fn of(&self, label: u64) -> u32 {
        self.0[slot(label)].load(Ordering::Acquire)
    }

    /// A label has moved: all cores look it up again.
    pub(crate) fn note(&self, label: u64) {
        self.0[slot(label)].fetch_add(1, Ordering::Release);
    }
}

#[inline]
fn slot(mixed: u64) -> usize {
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize % CACHE
}

/// A placement that a core remembers.
#[derive(Clone, Copy)]
struct Remembered {
    label: u64,
    until_ns: u64,
    moves: u32,
    resource: u8,
    core: u8,
}

/// Placements that a core remembers.
pub(crate) struct PlacementCache {
    entries: [Remembered; CACHE],
    epoch: u64,
}

impl PlacementCache {
    pub(crate) fn new() -> PlacementCache {
        let nothing = Remembered { label: 0, until_ns: 0, moves: 0, resource: u8::MAX, core: 0 };
        PlacementCache { entries: [nothing; CACHE], epoch: 0 }
    }

    #[inline]
    fn slot(label: u64, resource: u8) -> usize {
        slot(label ^ u64::from(resource) << 56)
    }

    /// Returns the core of a label, if it is known and still holds. All is forgotten when `epoch` changes, a label with the count of its moves.
    #[inline]
    pub(crate) fn get(&mut self, label: u64, resource: u8, now_ns: u64, epoch: u64, moves: u32) -> Option<usize> {
        if self.epoch != epoch {
            *self = PlacementCache { epoch, ..PlacementCache::new() };
        }
        let known = self.entries[Self::slot(label, resource)];
        let holds =
            known.label == label && known.resource == resource && now_ns < known.until_ns && known.moves == moves;
        holds.then_some(usize::from(known.core))
    }

    /// Remembers a placement that was looked up after the count of its moves was read.
    pub(crate) fn put(&mut self, label: u64, resource: u8, core: usize, until_ns: u64, moves: u32) {
        let core = core as u8;
        self.entries[Self::slot(label, resource)] = Remembered { label, until_ns, moves, resource, core };
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
    fn labels_that_come_once_take_bounded_room_and_leave_the_place_of_those_in_use() {
        let placements = Placements::new();
        placements.put(7, (3, u64::MAX));
        for strange in 0..4 * PLACEMENTS_MAX as u64 {
            placements.put(strange | 1 << 63, (0, u64::MAX));
            assert!(placements.len() <= PLACEMENTS_MAX);
            if strange % 1000 == 0 {
                assert_eq!(placements.get(7, 0), Some((3, u64::MAX)), "after {strange}");
            }
        }
        assert_eq!(placements.get(1 << 63, 0), None, "nobody asks for it");
    }

    #[test]
    fn a_core_forgets_with_the_epoch_and_the_lifetime() {
        let mut cache = PlacementCache::new();
        cache.put(7, 1, 3, 100, 5);
        assert_eq!(cache.get(7, 1, 99, 0, 5), Some(3));
        assert_eq!(cache.get(7, 2, 99, 0, 5), None);
        assert_eq!(cache.get(7, 1, 100, 0, 5), None);
        assert_eq!(cache.get(7, 1, 99, 0, 6), None, "it has moved");
        assert_eq!(cache.get(7, 1, 99, 1, 5), None);
    }

    #[test]
    fn a_label_comes_to_the_core_that_draws_it_and_stays_there() {
        let homes = Placements::new();
        assert!(!homes.draw(7, 1, 0), "nobody has placed it");
        homes.put(7, (0, 1_000));
        assert!(!homes.draw(7, 0, 10), "it is there");
        assert!(homes.draw(7, 1, 10));
        assert_eq!(homes.get(7, 20).unwrap().0, 1);
        assert!(!homes.draw(7, 0, 10 + DRAW_EVERY_NS - 1), "two threads do not toss it to and fro");
        assert_eq!(homes.get(7, 10 * DRAWN_NS).unwrap().0, 1, "the scheduler is not asked again");
        assert!(homes.draw(7, 0, 10 * DRAWN_NS));
    }
}
