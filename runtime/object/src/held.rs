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
        /// The core's index and, above it, its generation, which is not zero.
        word: AtomicU32,
    }

    const GENERATION: u32 = CORES_MAX as u32;
    static CORES: [PerCore; CORES_MAX] = {
        let mut cores = [const { PerCore { held: AtomicU32::new(0), word: AtomicU32::new(0) } }; CORES_MAX];
        let mut core = 0;
        while core < CORES_MAX {
            cores[core] = PerCore { held: AtomicU32::new(0), word: AtomicU32::new(GENERATION | core as u32) };
            core += 1;
        }
        cores
    };

    #[inline]
    fn here() -> &'static PerCore {
        &CORES[core_index()]
    }

    #[inline]
    pub(super) fn get() -> u32 {
        here().held.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn clear() {
        here().held.store(0, Ordering::Relaxed);
    }

    /// Changes the count and answers the word. Only this core writes its counter, so a load and a store will do.
    #[inline]
    pub(super) fn add(weight: u32) -> u32 {
        let here = here();
        here.held.store(here.held.load(Ordering::Relaxed).wrapping_add(weight), Ordering::Relaxed);
        here.word.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn word() -> u32 {
        here().word.load(Ordering::Relaxed)
    }

    pub(super) fn next_generation() {
        let core = core_index() as u32;
        let next = here().word.load(Ordering::Relaxed).wrapping_add(GENERATION);
        // Generation zero would make the first core's word that of an open lock.
        here().word.store(if next == core { GENERATION | core } else { next }, Ordering::Release);
    }

    pub(super) fn is_over(word: u32) -> bool {
        CORES[word as usize & (CORES_MAX - 1)].word.load(Ordering::Acquire) != word
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
    pub(super) fn clear() {
        HELD.set(0);
    }

    #[inline]
    pub(super) fn add(weight: u32) -> u32 {
        HELD.set(HELD.get().wrapping_add(weight));
        WORD.get()
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
    place::add(C::WEIGHT)
}

/// Counts a lock released.
#[inline]
pub(crate) fn leave<C: Class>() {
    place::add(C::WEIGHT.wrapping_neg());
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
    place::clear();
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
