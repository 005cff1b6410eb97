//! The lock of this layer: test and set. Waiting is short everywhere it is used; the runtime has a richer one above.

use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, Ordering};

/// A value behind a lock.
pub(crate) struct SpinLock<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one core at a time.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// Makes an open lock.
    pub(crate) const fn new(value: T) -> SpinLock<T> {
        SpinLock { locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Runs `action` alone with the value.
    pub(crate) fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        crate::core_local::note_opened();
        while self.locked.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            spin_loop();
        }
        // SAFETY: `locked` was ours to set.
        let result = action(unsafe { &mut *self.value.get() });
        self.locked.store(false, Ordering::Release);
        crate::core_local::note_closed();
        result
    }

    /// Runs `action` alone, or beside whoever holds the lock if that does not open for so many looks. For a core that must not wait: its own
    /// interrupted work may hold it.
    pub(crate) fn alone_or_beside<R>(&self, looks: u32, action: impl FnOnce() -> R) -> R {
        let take = || self.locked.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let is_taken = (0..looks).any(|_| take());
        let result = action();
        if is_taken {
            self.locked.store(false, Ordering::Release);
        }
        result
    }

    /// Opens the lock by force, for a core that dies and wants to say why.
    pub(crate) fn break_open(&self) {
        self.locked.store(false, Ordering::Release);
    }
}

/// A value that is set once during boot and read ever after.
pub(crate) struct Once<T> {
    ready: AtomicBool,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: written once before `ready`, shared read-only afterwards.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    /// Makes an empty one.
    pub(crate) const fn new() -> Once<T> {
        Once { ready: AtomicBool::new(false), value: UnsafeCell::new(None) }
    }

    /// Sets the value. The boot core calls it before other cores run, or one core only ever does; later calls are ignored.
    pub(crate) fn set(&self, value: T) {
        if self.ready.load(Ordering::Acquire) {
            return;
        }
        // SAFETY: nobody reads before `ready`, and only one core sets.
        unsafe { *self.value.get() = Some(value) };
        self.ready.store(true, Ordering::Release);
    }

    /// The value, once it is set.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&T> {
        if !self.ready.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: set and never changed again.
        unsafe { (*self.value.get()).as_ref() }
    }
}
