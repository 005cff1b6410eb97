//! The count of work under way by activity: counted by each core for itself, bounded over all of them.
//!
//! A core gives places from its own part of an activity's bound with its own lock only. An activity that needs more
//! than a core's part has all locks taken, in their order, and everything counted; while any activity has more than a
//! part somewhere, that goes for all.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_account::ActivityId;
use gyre_object::SpinLock;

type Counts = SpinLock<BTreeMap<ActivityId, usize>>;

/// The places of all activities.
pub(crate) struct Places {
    cores: Box<[Counts]>,
    most: usize,
    /// The part of a core, which it gives without a look at the others.
    part: usize,
    /// Counts that are larger than a part.
    crowded: AtomicUsize,
}

/// A place among the work that an activity has under way; dropping it gives it back to the core that gave it.
pub(crate) struct Place<'a> {
    places: &'a Places,
    core: usize,
    activity: ActivityId,
}

impl Places {
    /// Makes places, at most `most` for each activity.
    pub(crate) fn new(cores: usize, most: usize) -> Places {
        let cores: Box<[Counts]> = (0..cores.max(1)).map(|_| Counts::default()).collect();
        Places { most, part: most.checked_div(cores.len()).unwrap_or(most), crowded: AtomicUsize::new(0), cores }
    }

    /// Returns a place given by a core; `None` if the activity has as many as it may.
    pub(crate) fn take(&self, core: usize, activity: ActivityId) -> Option<Place<'_>> {
        let core = core.checked_rem(self.cores.len()).unwrap_or(0);
        let is_taken = self.take_own(core, activity) || self.take_of_all(core, activity);
        is_taken.then(|| Place { places: self, core, activity })
    }

    fn take_own(&self, core: usize, activity: ActivityId) -> bool {
        let Some(mut counts) = self.cores.get(core).map(SpinLock::lock) else { return false };
        let count = counts.entry(activity).or_default();
        let is_free = *count < self.part && self.crowded.load(Ordering::Acquire) == 0;
        *count = count.saturating_add(usize::from(is_free));
        if *count == 0 {
            counts.remove(&activity);
        }
        is_free
    }

    fn take_of_all(&self, core: usize, activity: ActivityId) -> bool {
        let mut all: Box<[_]> = self.cores.iter().map(SpinLock::lock).collect();
        let total: usize = all.iter().filter_map(|counts| counts.get(&activity)).sum();
        let Some(own) = all.get_mut(core).filter(|_| total < self.most) else { return false };
        let count = own.entry(activity).or_default();
        *count = count.saturating_add(1);
        if count.checked_sub(1) == Some(self.part) {
            self.crowded.fetch_add(1, Ordering::Release);
        }
        true
    }

    /// Returns how many an activity has.
    pub(crate) fn taken(&self, activity: ActivityId) -> usize {
        self.cores.iter().filter_map(|counts| counts.lock().get(&activity).copied()).sum()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let Some(mut counts) = self.places.cores.get(self.core).map(SpinLock::lock) else { return };
        let Some(count) = counts.get_mut(&self.activity) else { return };
        *count = count.saturating_sub(1);
        if *count == self.places.part {
            self.places.crowded.fetch_sub(1, Ordering::Release);
        }
        if *count == 0 {
            counts.remove(&self.activity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const A: ActivityId = ActivityId(7);
    const B: ActivityId = ActivityId(8);

    #[test]
    fn an_activity_may_have_all_of_its_places_from_one_core_or_from_many() {
        for cores in 1..=5_usize {
            let places = Places::new(cores, 20);
            let one: Vec<_> = (0..20).map(|_| places.take(0, A).unwrap()).collect();
            assert!((0..cores).all(|core| places.take(core, A).is_none()), "{cores} cores");
            assert!(places.take(cores - 1, B).is_some(), "others are not concerned");
            drop(one);
            let many: Vec<_> = (0..20).map(|number| places.take(number % cores, A).unwrap()).collect();
            assert!((0..cores).all(|core| places.take(core, A).is_none()), "{cores} cores");
            assert_eq!((places.taken(A), many.len()), (20, 20));
            drop(many);
            assert_eq!((places.taken(A), places.crowded.load(Ordering::Relaxed)), (0, 0));
            assert!(places.cores.iter().all(|counts| counts.lock().is_empty()), "nothing is kept of who has nothing");
        }
    }

    /// Takes and gives back at random against a plain count.
    #[test]
    fn the_bound_is_exact_in_any_order() {
        let mut random = 1_u64;
        let mut below = |bound: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % bound
        };
        for cores in 1..=4 {
            let places = Places::new(cores, 12);
            let mut held: Vec<(ActivityId, Place<'_>)> = Vec::new();
            for step in 0..20_000 {
                let activity = if below(2) == 0 { A } else { B };
                let count = held.iter().filter(|(of, _)| *of == activity).count();
                if below(5) < 3 {
                    let place = places.take(below(cores), activity);
                    assert_eq!(place.is_some(), count < 12, "step {step}: has {count}");
                    held.extend(place.map(|place| (activity, place)));
                } else if !held.is_empty() {
                    drop(held.swap_remove(below(held.len())));
                }
            }
        }
    }

    /// Checks that no other core's lock is touched while no activity needs more than a core's part.
    #[test]
    fn a_place_from_a_cores_own_part_needs_no_other_core() {
        let places = Places::new(2, 20);
        let _other = places.cores[1].lock();
        let own: Vec<_> = (0..10).map(|_| places.take(0, A).unwrap()).collect();
        assert_eq!(own.len(), 10);
    }

    #[test]
    fn cores_together_never_give_too_many() {
        extern crate std;
        use std::sync::atomic::AtomicUsize;
        let places = Places::new(4, 8);
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for core in 0..4 {
                let (places, now, most) = (&places, &now, &most);
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let held: Vec<_> = (0..4).filter_map(|_| places.take(core, A)).collect();
                        most.fetch_max(now.fetch_add(held.len(), Ordering::SeqCst) + held.len(), Ordering::SeqCst);
                        now.fetch_sub(held.len(), Ordering::SeqCst);
                        drop(held);
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 8, "{most:?}");
        assert_eq!((places.taken(A), places.crowded.load(Ordering::Relaxed)), (0, 0));
    }
}
