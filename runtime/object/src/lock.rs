//! A lock for short critical sections, which counts how often it was taken and waited for (paper section III, V12).
//!
//! Kernel code runs with interrupts off and handlers never suspend while holding a guard, so a holder is always running.
//!
//! Three classes say what a failure under the lock ends: [`SpinLock`] the machine, [`TenantLock`] the tenant,
//! [`ObjectLock`] the process, while the object stays closed (decision 14).
//!
//! * A guard never lives across an `.await`, and a holder never waits for anything but another lock.
//! * States of the word: open, held by a core, lost (the work that held it was given up).
//! * A core that waits looks without taking the line, and fails after `PATIENCE_MS` if the holder does not come to its
//!   end.
//!
//! Counts are written by the holder, so they cost no shared line of their own.

use crate::held::{Class, OfMachine, OfObject, OfTenant};
use crate::patience::Patience;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The number of times that a lock was taken, and of times that a core had to wait for it.
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
    /// Waits until the lock is free and takes it.
    ///
    /// # Panics
    /// When it would wait for ever: the work that held it was given up, this core itself holds it, or its holder does not give it
    /// up within [`PATIENCE_MS`](crate::patience::PATIENCE_MS).
    #[inline]
    pub fn lock(&self) -> LockGuard<'_, T, C> {
        gyre_machine::failure_point();
        let word = crate::held::enter::<C>();
        if !self.try_take(word)
            && let Err(never) = self.wait(word)
        {
            crate::held::leave::<C>();
            fail::<T>(never);
        }
        self.note_taken();
        LockGuard { lock: self }
    }

    /// Takes the lock for work that must go on; `None` if the lock will never open.
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
    fn wait(&self, word: u32) -> Result<(), Never> {
        let since = gyre_machine::now();
        while !self.try_take(word) {
            self.wait_until_open(word)?;
        }
        // The lock is ours now: no other core writes these.
        let waited = gyre_machine::now().wrapping_sub(since);
        crate::contention::count::<T>(waited);
        self.contended.store(self.contended.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.waited_cycles.store(self.waited_cycles.load(Ordering::Relaxed).wrapping_add(waited), Ordering::Relaxed);
        Ok(())
    }

    /// Only looks, which takes the line from no core, until the lock is open.
    fn wait_until_open(&self, word: u32) -> Result<(), Never> {
        let mut patience = Patience::new();
        loop {
            match self.holder.load(Ordering::Relaxed) {
                OPEN => return Ok(()),
                holder if holder == word => return Err(Never::Ours),
                holder if self.is_lost_with(holder) => return Err(Never::Lost),
                holder if patience.is_over(crate::held::core_of(holder)) => return Err(Never::Late { holder }),
                _ => core::hint::spin_loop(),
            }
        }
    }

    /// Returns whether work that was given up holds this lock with a word that was read from it before. Its holder may have opened it since, and
    /// failed at other work afterwards: it is lost if it still bears that word.
    fn is_lost_with(&self, word: u32) -> bool {
        if !crate::held::is_over(word) {
            return false;
        }
        fence(Ordering::Acquire);
        self.holder.load(Ordering::Relaxed) == word
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

    /// Borrows the value, if the borrow checker already knows that there is no other reference.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// Why a lock will never open for who wants it.
enum Never {
    /// The work that held it was given up.
    Lost,
    /// The core that wants it holds it: the trace of the failure shows both places.
    Ours,
    /// Another core holds it and does not come to the end of its work: it may want what this one holds.
    Late { holder: u32 },
}

#[cold]
#[inline(never)]
fn fail<T: ?Sized>(never: Never) -> ! {
    let of = core::any::type_name::<T>();
    match never {
        Never::Lost => panic!("work that failed held a lock of {of} that is wanted now"),
        Never::Ours => panic!("a lock of {of} is wanted by the core that holds it"),
        Never::Late { holder } => {
            panic!("a lock of {of} does not open; core {} holds it", crate::held::core_of(holder))
        }
    }
}

/// A lock that can tell how often it was taken, for any protected value.
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
        // SAFETY: this guard holds the lock, so there is no other reference.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized, C: Class> DerefMut for LockGuard<'_, T, C> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock, so there is no other reference.
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

    /// Takes one lock, waits for the other core, and wants the other lock; says what it failed with, if it did.
    fn cross(mine: &SpinLock<u32>, other: &SpinLock<u32>, both: &std::sync::Barrier) -> Option<std::string::String> {
        let work = || {
            let _held = mine.lock();
            both.wait();
            *other.lock() += 1;
        };
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).err()?;
        Some(failed.downcast::<std::string::String>().map(|said| *said).unwrap_or_default())
    }

    #[test]
    fn two_cores_that_want_each_others_lock_do_not_wait_for_ever() {
        let (first, second, both) = (SpinLock::new(0u32), SpinLock::new(0u32), std::sync::Barrier::new(2));
        let said = std::thread::scope(|threads| {
            let one = threads.spawn(|| cross(&first, &second, &both));
            let two = threads.spawn(|| cross(&second, &first, &both));
            [one.join().unwrap(), two.join().unwrap()]
        });
        let failed: std::vec::Vec<_> = said.iter().flatten().collect();
        assert!(!failed.is_empty() && failed.iter().all(|said| said.contains("does not open; core")), "{said:?}");
        // The work that failed gave its lock back, for here work is unwound: the other one came to its end.
        assert_eq!(*first.lock() + *second.lock(), 2 - failed.len() as u32);
    }

    #[test]
    fn a_lock_whose_last_holder_failed_at_other_work_is_not_lost() {
        let (lock, other) = (SpinLock::new(0u32), SpinLock::new(0u32));
        let fails_at_other_work = || {
            *lock.lock() += 1;
            core::mem::forget(other.lock());
            let word = crate::held::word();
            crate::held::give_up_locks();
            word
        };
        // A waiter has read this word while the lock was held, and looks only now whether it is over.
        let word = std::thread::scope(|threads| threads.spawn(fails_at_other_work).join()).unwrap();
        assert!(crate::held::is_over(word));
        assert!(!lock.is_lost_with(word) && other.is_lost_with(word));
        assert!(lock.lock_unless_lost().is_some() && other.lock_unless_lost().is_none());
    }

    #[test]
    fn who_holds_a_lock_and_wants_it_again_fails_and_does_not_wait() {
        let lock = SpinLock::new(0u32);
        let held = lock.lock();
        let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(lock.lock())));
        let said = again.unwrap_err().downcast::<std::string::String>().unwrap();
        assert!(said.contains("wanted by the core that holds it"), "{said}");
        assert!(lock.lock_unless_lost().is_none());
        assert_eq!(crate::held::locks_held(), 1);
        drop(held);
        assert!(lock.try_lock().is_some());
    }
}
