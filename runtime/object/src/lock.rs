//! A lock for short critical sections, which counts how often it was taken and waited for (paper section III, V12).
//!
//! Kernel code runs with interrupts off and handlers never suspend while holding a guard, so a holder is always running.

use crate::held::{Class, OfMachine, OfObject, OfTenant};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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

/// The word of an open lock.
const OPEN: u32 = 0;

/// A lock for data of the machine: a failure under it ends the machine.
pub type SpinLock<T> = Lock<T, OfMachine>;
/// A lock for what all programs of a tenant share: a failure under it ends the tenant.
pub type TenantLock<T> = Lock<T, OfTenant>;
/// A lock for an object of a tenant: a failure under it ends the process it was made for, and the object stays closed.
pub type ObjectLock<T> = Lock<T, OfObject>;

/// A value that one core at a time may touch.
pub struct Lock<T: ?Sized, C: Class> {
    /// [`OPEN`], or who holds it (see [`crate::held`]).
    holder: AtomicU32,
    class: PhantomData<fn() -> C>,
    taken: AtomicU64,
    contended: AtomicU64,
    waited_cycles: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands out one exclusive reference at a time, so moving the value between cores is all that happens.
unsafe impl<T: ?Sized + Send, C: Class> Sync for Lock<T, C> {}
// SAFETY: owning the lock owns the value.
unsafe impl<T: ?Sized + Send, C: Class> Send for Lock<T, C> {}

impl<T, C: Class> Lock<T, C> {
    /// Makes an open lock.
    pub const fn new(value: T) -> Lock<T, C> {
        Lock {
            holder: AtomicU32::new(OPEN),
            class: PhantomData,
            taken: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            waited_cycles: AtomicU64::new(0),
            value: UnsafeCell::new(value),
        }
    }
}

impl<T: ?Sized, C: Class> Lock<T, C> {
    /// Waits until the lock is free and takes it. Never call while holding a guard of the same lock.
    ///
    /// # Panics
    /// Where the work that held it was given up: then who wants it is given up too.
    #[inline]
    pub fn lock(&self) -> LockGuard<'_, T, C> {
        gyre_machine::safe_point();
        gyre_machine::check_stack();
        let word = crate::held::enter::<C>();
        if !self.try_take(word) && self.wait(word).is_err() {
            crate::held::leave::<C>();
            lost::<T>();
        }
        self.note_taken();
        LockGuard { lock: self }
    }

    /// The same for who must go on; `None` where the work that held it was given up.
    pub fn lock_unless_lost(&self) -> Option<LockGuard<'_, T, C>> {
        let word = crate::held::enter::<C>();
        if !self.try_take(word) && self.wait(word).is_err() {
            crate::held::leave::<C>();
            return None;
        }
        self.note_taken();
        Some(LockGuard { lock: self })
    }

    #[inline]
    fn note_taken(&self) {
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    #[cold]
    fn wait(&self, word: u32) -> Result<(), Lost> {
        let since = gyre_machine::now();
        while !self.try_take(word) {
            self.wait_until_open()?;
        }
        // The lock is ours now: nobody else writes these.
        let waited = gyre_machine::now().wrapping_sub(since);
        crate::contention::count::<T>(waited);
        self.contended.store(self.contended.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.waited_cycles.store(self.waited_cycles.load(Ordering::Relaxed).wrapping_add(waited), Ordering::Relaxed);
        Ok(())
    }

    /// Only looks, which takes the line from nobody, until the lock is open.
    fn wait_until_open(&self) -> Result<(), Lost> {
        loop {
            match self.holder.load(Ordering::Relaxed) {
                OPEN => return Ok(()),
                holder if crate::held::is_over(holder) => return Err(Lost),
                _ => core::hint::spin_loop(),
            }
        }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<LockGuard<'_, T, C>> {
        if !self.try_take(crate::held::word()) {
            return None;
        }
        crate::held::enter::<C>();
        Some(LockGuard { lock: self })
    }

    #[inline]
    fn try_take(&self, word: u32) -> bool {
        self.holder.compare_exchange(OPEN, word, Ordering::Acquire, Ordering::Relaxed).is_ok()
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

/// The work that held a lock was given up.
struct Lost;

#[cold]
#[inline(never)]
fn lost<T: ?Sized>() -> ! {
    panic!("work that failed held a lock of {} that is wanted now", core::any::type_name::<T>())
}

/// A lock that can tell how often it was taken, whatever it protects.
pub trait Profiled: Sync {
    /// How often it was taken and waited for.
    fn lock_profile(&self) -> LockProfile;
}

impl<T: ?Sized + Send, C: Class> Profiled for Lock<T, C> {
    fn lock_profile(&self) -> LockProfile {
        self.profile()
    }
}

impl<T: Default, C: Class> Default for Lock<T, C> {
    fn default() -> Self {
        Lock::new(T::default())
    }
}

/// Holds a [`Lock`] until dropped. Must not live across an `.await`.
pub struct LockGuard<'a, T: ?Sized, C: Class = OfMachine> {
    lock: &'a Lock<T, C>,
}

impl<T: ?Sized, C: Class> Deref for LockGuard<'_, T, C> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard holds the lock, so nobody else has a reference.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized, C: Class> DerefMut for LockGuard<'_, T, C> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock, so nobody else has a reference.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized, C: Class> Drop for LockGuard<'_, T, C> {
    #[inline]
    fn drop(&mut self) {
        self.lock.holder.store(OPEN, Ordering::Release);
        crate::held::leave::<C>();
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
