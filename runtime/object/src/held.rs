//! How many locks this core holds. The engine never starts a handler inside a sender that holds one (the handler might want
//! the same lock), and reports a task that suspends with one.

use core::sync::atomic::{AtomicU32, Ordering};

#[cfg(target_os = "none")]
mod place {
    use super::AtomicU32;
    /// One line of cache per core, so that no core disturbs another.
    #[repr(align(64))]
    struct PerCore(AtomicU32);
    static HELD: [PerCore; gyre_machine::CORES_MAX] = [const { PerCore(AtomicU32::new(0)) }; gyre_machine::CORES_MAX];

    #[inline]
    pub(super) fn with<T>(look: impl FnOnce(&AtomicU32) -> T) -> T {
        look(&HELD[gyre_machine::core_index()].0)
    }
}

#[cfg(not(target_os = "none"))]
mod place {
    use super::AtomicU32;
    std::thread_local! {
        // A thread plays one core at a time and never changes it with a lock held.
        static HELD: AtomicU32 = const { AtomicU32::new(0) };
    }

    #[inline]
    pub(super) fn with<T>(look: impl FnOnce(&AtomicU32) -> T) -> T {
        HELD.with(look)
    }
}

/// Counts a lock taken. Only this core writes its counter, so a load and a store will do.
#[inline]
pub(crate) fn enter() {
    place::with(|held| held.store(held.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed));
}

/// Counts a lock released.
#[inline]
pub(crate) fn leave() {
    place::with(|held| held.store(held.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed));
}

/// Between messages no lock is held: whatever a handler has left counted (it suspended with a guard, a mistake) is forgotten, so that
/// it disturbs nobody else.
#[inline]
pub fn forget_locks_held() {
    place::with(|held| held.store(0, Ordering::Relaxed));
}

/// How many locks this core holds now.
#[inline]
pub fn locks_held() -> u32 {
    place::with(|held| held.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SpinLock;

    #[test]
    fn guards_are_counted_until_they_are_dropped() {
        let (first, second) = (SpinLock::new(1), SpinLock::new(2));
        let held = first.lock();
        assert_eq!(locks_held(), 1);
        assert!(first.try_lock().is_none());
        drop(second.try_lock());
        assert_eq!(locks_held(), 1);
        drop(held);
        assert_eq!(locks_held(), 0);
    }
}
