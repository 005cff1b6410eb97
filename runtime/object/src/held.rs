//! Counts of the locks that this core holds, by class. The engine never starts a handler inside a sender that holds one (the handler might want
//! the same lock), and reports a task that suspends with one.
//!
//! There is no list of held locks: each lock's word names the core that holds it and that core's generation, which is over once the work
//! that held them was given up ([`give_up_locks`]). So such locks stay closed for ever, and who waits for one can see that.

use core::marker::PhantomData;
use gyre_machine::LockWeight;

/// Whose data a lock protects: what a failure under it may have left half changed.
pub trait Class: LockWeight + 'static {}

/// Data of the machine, or of several tenants.
pub struct OfMachine(PhantomData<()>);
/// Data that all programs of one tenant share, and that the machine looks at for it.
pub struct OfTenant(PhantomData<()>);
/// Data of one object of a tenant, which only work for that tenant touches.
pub struct OfObject(PhantomData<()>);

/// Bits of each class in a core's count.
const BITS: u32 = 10;
const FIELD: u32 = (1 << BITS) - 1;

impl Class for OfMachine {}
impl LockWeight for OfMachine {
    const WEIGHT: u32 = 1;
}
impl Class for OfTenant {}
impl LockWeight for OfTenant {
    const WEIGHT: u32 = 1 << BITS;
}
impl Class for OfObject {}
impl LockWeight for OfObject {
    const WEIGHT: u32 = 1 << (2 * BITS);
}

/// How many locks of each class a core holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Of the machine.
    pub of_machine: u32,
    /// Of tenants.
    pub of_tenant: u32,
    /// Of single objects.
    pub of_object: u32,
}

/// The words of the core's block.
#[cfg(target_os = "none")]
mod place {
    use gyre_machine::LockWeight;
    pub(super) use gyre_machine::{
        change_lock_word as next_generation, clear_held_locks as clear, discount_held as leave, held_locks as get,
        lock_word as word,
    };

    #[inline(always)]
    pub(super) fn enter<W: LockWeight>() -> u32 {
        gyre_machine::count_held::<W>();
        word()
    }

    pub(super) fn is_over(word: u32) -> bool {
        gyre_machine::lock_word_of(word) != word
    }
}

#[cfg(not(target_os = "none"))]
mod place {
    use core::cell::Cell;
    use core::sync::atomic::{AtomicU32, Ordering};
    use gyre_machine::LockWeight;
    use std::sync::Mutex;
    use std::vec::Vec;

    static WORDS: AtomicU32 = AtomicU32::new(1);
    static OVER: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    std::thread_local! {
        // A thread plays one core at a time and never changes it with a lock held.
        static HELD: Cell<u32> = const { Cell::new(0) };
        static WORD: Cell<u32> = Cell::new(WORDS.fetch_add(1, Ordering::Relaxed));
    }

    #[inline]
    pub(super) fn get() -> u32 {
        HELD.get()
    }

    #[inline]
    pub(super) fn clear() {
        HELD.set(0);
    }

    #[inline]
    pub(super) fn enter<W: LockWeight>() -> u32 {
        HELD.set(HELD.get().wrapping_add(W::WEIGHT));
        WORD.get()
    }

    #[inline]
    pub(super) fn leave<W: LockWeight>() {
        HELD.set(HELD.get().wrapping_sub(W::WEIGHT));
    }

    #[inline]
    pub(super) fn word() -> u32 {
        WORD.get()
    }

    pub(super) fn next_generation() {
        let word = WORD.replace(WORDS.fetch_add(1, Ordering::Relaxed));
        OVER.lock().unwrap_or_else(|error| error.into_inner()).push(word);
    }

    pub(super) fn is_over(word: u32) -> bool {
        OVER.lock().unwrap_or_else(|error| error.into_inner()).contains(&word)
    }
}

/// Counts a lock taken; answers the word that it gets.
#[inline]
pub(crate) fn enter<C: Class>() -> u32 {
    place::enter::<C>()
}

/// Counts a lock released.
#[inline]
pub(crate) fn leave<C: Class>() {
    place::leave::<C>();
}

/// Returns the word of the locks that this core takes now; not zero.
#[inline]
pub(crate) fn word() -> u32 {
    place::word()
}

/// Returns true if the work that held a lock with this word was given up.
pub(crate) fn is_over(word: u32) -> bool {
    word != 0 && place::is_over(word)
}

/// Returns the core that a word is of.
pub(crate) fn core_of(word: u32) -> u32 {
    word & (gyre_machine::CORES_MAX as u32 - 1)
}

/// Between messages no lock is held: a count that a handler has left (it suspended with a guard, a mistake) is forgotten, so that
/// it disturbs no other work.
#[inline]
pub fn forget_locks_held() {
    place::clear();
}

/// Returns how many locks this core holds now; exact only as to whether it is none.
#[inline]
pub fn locks_held() -> u32 {
    place::get()
}

/// Returns the locks that this core holds now, by class.
pub fn locks_by_class() -> Held {
    let held = place::get();
    Held { of_machine: held & FIELD, of_tenant: held >> BITS & FIELD, of_object: held >> (2 * BITS) & FIELD }
}

/// The work of this core was given up: no guard of the locks that it holds is ever used or dropped. They stay closed for ever.
pub fn give_up_locks() {
    if place::get() != 0 {
        place::clear();
        place::next_generation();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ObjectLock, SpinLock, TenantLock};

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

    #[test]
    fn classes_are_counted_apart() {
        let (machine, tenant, object) = (SpinLock::new(1), TenantLock::new(2), ObjectLock::new(3));
        let other = ObjectLock::new(4);
        let guards = (machine.lock(), tenant.lock(), object.lock(), other.lock());
        assert_eq!(locks_by_class(), Held { of_machine: 1, of_tenant: 1, of_object: 2 });
        drop(guards);
        assert_eq!(locks_held(), 0);
    }

    #[test]
    fn locks_of_work_that_was_given_up_stay_closed_and_say_so() {
        let (lost, later) = (ObjectLock::new(1), ObjectLock::new(2));
        core::mem::forget(lost.lock());
        give_up_locks();
        assert_eq!(locks_held(), 0);
        assert!(lost.try_lock().is_none());
        assert!(lost.lock_unless_lost().is_none());
        let wants = std::panic::AssertUnwindSafe(|| drop(lost.lock()));
        assert!(std::panic::catch_unwind(wants).is_err());
        assert_eq!(locks_held(), 0, "the lock that nobody gets counts as held");
        assert_eq!(*later.lock(), 2);
        assert_eq!(later.lock_unless_lost().map(|guard| *guard), Some(2));
    }

    #[test]
    fn who_holds_nothing_loses_nothing() {
        let lock = ObjectLock::new(1);
        give_up_locks();
        drop(lock.lock());
        let held = lock.lock();
        let seen = std::thread::scope(|threads| {
            threads
                .spawn(|| {
                    give_up_locks();
                    is_over(word())
                })
                .join()
        });
        assert!(!seen.unwrap());
        drop(held);
        assert!(lock.try_lock().is_some());
    }
}
