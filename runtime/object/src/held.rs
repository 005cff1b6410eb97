//! What locks this core holds, of each class. The engine never starts a handler inside a sender that holds one (the handler might want
//! the same lock), and reports a task that suspends with one.
//!
//! There is no list of held locks: each lock's word names the core that holds it and that core's generation, which is over once the work
//! that held them was given up ([`give_up_locks`]). So such locks stay closed for ever, and who waits for one can see that.

use core::marker::PhantomData;

/// Whose data a lock protects: what a failure under it may have left half changed.
pub trait Class: 'static {
    /// What one held lock of the class adds to a core's count.
    #[doc(hidden)]
    const WEIGHT: u32;
}

/// Data of the machine, or of several tenants.
pub struct OfMachine(PhantomData<()>);
/// Data that all programs of one tenant share, and that the machine looks at for it.
pub struct OfTenant(PhantomData<()>);
/// Data of one object of a tenant, which only work for that tenant touches.
pub struct OfObject(PhantomData<()>);

/// Bits of each class in a core's count.
const BITS: u32 = 10;
const FIELD: u32 = (1 << BITS) - 1;

impl Class for OfMachine {
    const WEIGHT: u32 = 1;
}
impl Class for OfTenant {
    const WEIGHT: u32 = 1 << BITS;
}
impl Class for OfObject {
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

#[cfg(target_os = "none")]
mod place {
    use core::sync::atomic::{AtomicU32, Ordering};
    use gyre_machine::{CORES_MAX, core_index};

    /// One line of cache per core, so that no core disturbs another.
    #[repr(align(64))]
    struct PerCore {
        held: AtomicU32,
        /// Counts up by [`CORES_MAX`]; the core's index is added to it in the locks' words.
        generation: AtomicU32,
    }
    static HERE: [PerCore; CORES_MAX] =
        [const { PerCore { held: AtomicU32::new(0), generation: AtomicU32::new(CORES_MAX as u32) } }; CORES_MAX];

    #[inline]
    pub(super) fn get() -> u32 {
        HERE[core_index()].held.load(Ordering::Relaxed)
    }

    /// Only this core writes its counter, so a load and a store will do.
    #[inline]
    pub(super) fn set(held: u32) {
        HERE[core_index()].held.store(held, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn word() -> u32 {
        HERE[core_index()].generation.load(Ordering::Relaxed) | core_index() as u32
    }

    pub(super) fn next_generation() {
        let generation = &HERE[core_index()].generation;
        let next = generation.load(Ordering::Relaxed).wrapping_add(CORES_MAX as u32);
        // Zero would be the word of an open lock.
        generation.store(if next == 0 { CORES_MAX as u32 } else { next }, Ordering::Release);
    }

    pub(super) fn is_over(word: u32) -> bool {
        let core = word as usize & (CORES_MAX - 1);
        HERE[core].generation.load(Ordering::Acquire) | core as u32 != word
    }
}

#[cfg(not(target_os = "none"))]
mod place {
    use core::cell::Cell;
    use core::sync::atomic::{AtomicU32, Ordering};
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
    pub(super) fn set(held: u32) {
        HELD.set(held);
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

/// Counts a lock taken.
#[inline]
pub(crate) fn enter<C: Class>() {
    place::set(place::get().wrapping_add(C::WEIGHT));
}

/// Counts a lock released.
#[inline]
pub(crate) fn leave<C: Class>() {
    place::set(place::get().wrapping_sub(C::WEIGHT));
}

/// The word of the locks that this core takes now; not zero.
#[inline]
pub(crate) fn word() -> u32 {
    place::word()
}

/// True where the work that held a lock with this word was given up.
pub(crate) fn is_over(word: u32) -> bool {
    word != 0 && place::is_over(word)
}

/// Between messages no lock is held: whatever a handler has left counted (it suspended with a guard, a mistake) is forgotten, so that
/// it disturbs nobody else.
#[inline]
pub fn forget_locks_held() {
    place::set(0);
}

/// How many locks this core holds now; exact only as to whether it is none.
#[inline]
pub fn locks_held() -> u32 {
    place::get()
}

/// The locks that this core holds now, by class.
pub fn locks_by_class() -> Held {
    let held = place::get();
    Held { of_machine: held & FIELD, of_tenant: held >> BITS & FIELD, of_object: held >> (2 * BITS) & FIELD }
}

/// The work of this core was given up: no guard of the locks that it holds is ever used or dropped. They stay closed for ever.
pub fn give_up_locks() {
    if place::get() != 0 {
        place::set(0);
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
