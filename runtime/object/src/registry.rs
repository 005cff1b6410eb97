//! The lists of locks and pools that a user can look at (paper section III, V12).
//!
//! Only what lives as long as the instance is registered; registering is for start-up, looking is for the monitor.

use crate::lock::{LockProfile, Profiled, SpinLock};
use crate::pool::{Counted, PoolStatistics};
use alloc::vec::Vec;

struct Entry<T: ?Sized + 'static> {
    name: &'static str,
    what: &'static T,
}

static LOCKS: SpinLock<Vec<Entry<dyn Profiled>>> = SpinLock::new(Vec::new());
static POOLS: SpinLock<Vec<Entry<dyn Counted>>> = SpinLock::new(Vec::new());

/// Lists a lock under a name.
pub fn register_lock(name: &'static str, what: &'static dyn Profiled) {
    LOCKS.lock().push(Entry { name, what });
}

/// Lists a pool under a name.
pub fn register_pool(name: &'static str, what: &'static dyn Counted) {
    POOLS.lock().push(Entry { name, what });
}

/// Profiles of all registered locks, in the order of registration.
pub fn lock_profiles() -> Vec<(&'static str, LockProfile)> {
    let locks = LOCKS.lock();
    locks.iter().map(|entry| (entry.name, entry.what.lock_profile())).collect()
}

/// Counts of all registered pools, in the order of registration.
pub fn pool_statistics() -> Vec<(&'static str, PoolStatistics)> {
    let pools = POOLS.lock();
    pools.iter().map(|entry| (entry.name, entry.what.statistics())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;

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
