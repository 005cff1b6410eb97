//! The lists of locks and pools that a user can look at (paper section III, V12).
//!
//! Only what lives as long as the instance is registered; registering is for start-up, looking is for the monitor.

use crate::lock::{LockProfile, Profiled, SpinLock};
use crate::per_instance;
use crate::pool::{Counted, PoolStatistics};
use alloc::vec::Vec;

struct Entry<T: ?Sized + 'static> {
    name: &'static str,
    what: &'static T,
}

per_instance! {
    static LOCKS: SpinLock<Vec<Entry<dyn Profiled>>> = SpinLock::new(Vec::new());
    static POOLS: SpinLock<Vec<Entry<dyn Counted>>> = SpinLock::new(Vec::new());
}

/// Lists a lock under a name.
pub fn register_lock(name: &'static str, what: &'static dyn Profiled) {
    LOCKS.lock().push(Entry { name, what });
}

/// Lists a pool under a name.
pub fn register_pool(name: &'static str, what: &'static dyn Counted) {
    POOLS.lock().push(Entry { name, what });
}

/// Profiles of all registered locks, in the order of registration; then what was waited for locks of each type, registered or not, those of
/// objects that come and go too.
pub fn lock_profiles() -> Vec<(&'static str, LockProfile)> {
    let locks = LOCKS.lock();
    locks.iter().map(|entry| (entry.name, entry.what.lock_profile())).chain(crate::contention::by_type()).collect()
}

/// Counts of all registered pools, in the order of registration; pools of one name (each file system has its own) are one line.
pub fn pool_statistics() -> Vec<(&'static str, PoolStatistics)> {
    let mut lines: Vec<(&'static str, PoolStatistics)> = Vec::new();
    for entry in POOLS.lock().iter() {
        let statistics = entry.what.statistics();
        match lines.iter_mut().find(|(name, _)| *name == entry.name) {
            Some((_, sum)) => sum.add(&statistics),
            None => lines.push((entry.name, statistics)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Census;
    use alloc::boxed::Box;

    #[test]
    fn pools_of_one_name_are_counted_together() {
        static FIRST: Census = Census::of::<u64>();
        static SECOND: Census = Census::of::<u64>();
        register_pool("twin", &FIRST);
        register_pool("twin", &SECOND);
        let _held = (FIRST.count(), SECOND.count(), SECOND.count());
        let lines = pool_statistics();
        let twins: Vec<_> = lines.iter().filter(|(name, _)| *name == "twin").collect();
        assert_eq!(twins.len(), 1);
        assert_eq!((twins[0].1.live, twins[0].1.made, twins[0].1.object_bytes), (3, 3, 8));
    }

    #[test]
    fn a_registered_lock_shows_how_often_it_was_taken() {
        let lock: &'static SpinLock<u32> = Box::leak(Box::new(SpinLock::new(0)));
        register_lock("of this test", lock);
        drop(lock.lock());
        let profiles = lock_profiles();
        let (_, profile) = profiles.iter().find(|(name, _)| *name == "of this test").unwrap();
        assert_eq!(profile.taken, 1);
    }
}
