//! A lock for short critical sections, which counts how often it was taken and waited for (paper section III, V12).
//!
//! Kernel code runs with interrupts off and handlers never suspend while holding a guard, so a holder is always running.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How often a lock was taken, and how often somebody had to wait for it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LockProfile {
    /// Times taken.
    pub taken: u64,
    /// Times that it was not free at once.
    pub contended: u64,
    /// Cycles waited then.
    pub waited_cycles: u64,
}

/// A value that one core at a time may touch.
pub struct SpinLock<T: ?Sized> {
    locked: AtomicBool,
    taken: AtomicU64,
    contended: AtomicU64,
    waited_cycles: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands out one exclusive reference at a time, so moving the value between cores is all that happens.
unsafe impl<T: ?Sized + Send> Sync for SpinLock<T> {}
// SAFETY: owning the lock owns the value.
unsafe impl<T: ?Sized + Send> Send for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// Makes an open lock.
    pub const fn new(value: T) -> SpinLock<T> {
        SpinLock {
            locked: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            waited_cycles: AtomicU64::new(0),
            value: UnsafeCell::new(value),
        }
    }
}

impl<T: ?Sized> SpinLock<T> {
    /// Waits until the lock is free and takes it. Never call while holding a guard of the same lock.
    #[inline]
    pub fn lock(&self) -> LockGuard<'_, T> {
        gyre_machine::safe_point();
        crate::held::enter();
        if !self.try_take() {
            self.wait();
        }
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        LockGuard { lock: self }
    }

    #[cold]
    fn wait(&self) {
        let since = gyre_machine::now();
        while !self.try_take() {
            // Only a look, which takes the line from nobody, until it is free.
            while self.locked.load(Ordering::Relaxed) {
                core::hint::spin_loop();
            }
        }
        // The lock is ours now: nobody else writes these.
        let waited = gyre_machine::now().wrapping_sub(since);
        crate::contention::count::<T>(waited);
        self.contended.store(self.contended.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.waited_cycles.store(self.waited_cycles.load(Ordering::Relaxed).wrapping_add(waited), Ordering::Relaxed);
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<LockGuard<'_, T>> {
        if !self.try_take() {
            return None;
        }
        crate::held::enter();
        Some(LockGuard { lock: self })
    }

    #[inline]
    fn try_take(&self) -> bool {
        self.locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// How often it was taken and waited for.
    pub fn profile(&self) -> LockProfile {
        LockProfile {
            taken: self.taken.load(Ordering::Relaxed),
            contended: self.contended.load(Ordering::Relaxed),
            waited_cycles: self.waited_cycles.load(Ordering::Relaxed),
        }
    }

    /// The value, where the borrow checker already knows that nobody else has it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// A lock that can tell how often it was taken, whatever it protects.
pub trait Profiled: Sync {
    /// How often it was taken and waited for.
    fn lock_profile(&self) -> LockProfile;
}

impl<T: ?Sized + Send> Profiled for SpinLock<T> {
    fn lock_profile(&self) -> LockProfile {
        self.profile()
    }
}

impl<T: Default> Default for SpinLock<T> {
    fn default() -> Self {
        SpinLock::new(T::default())
    }
}

/// Holds a [`SpinLock`] until dropped. Must not live across an `.await`.
pub struct LockGuard<'a, T: ?Sized> {
    lock: &'a SpinLock<T>,
}

impl<T: ?Sized> Deref for LockGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard holds the lock, so nobody else has a reference.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for LockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock, so nobody else has a reference.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for LockGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.locked.store(false, Ordering::Release);
        crate::held::leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;

    #[test]
    fn increments_from_two_threads_are_not_lost() {
        let lock = std::sync::Arc::new(SpinLock::new(0u32));
        let threads: std::vec::Vec<_> = (0..2)
            .map(|_| {
                let lock = lock.clone();
                std::thread::spawn(move || (0..1000).for_each(|_| *lock.lock() += 1))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*lock.lock(), 2000);
    }
}
