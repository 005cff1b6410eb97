//! A value that is set once at start-up and then read everywhere, for the price of a load.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU8, Ordering};

const EMPTY: u8 = 0;
const WRITING: u8 = 1;
const FULL: u8 = 2;

/// Holds nothing, or for ever what was set first.
pub struct SetOnce<T: Copy> {
    state: AtomicU8,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is written once, before `state` becomes FULL (Release), and only read after that was seen (Acquire).
unsafe impl<T: Copy + Send + Sync> Sync for SetOnce<T> {}

impl<T: Copy> SetOnce<T> {
    /// Holds nothing.
    pub const fn new() -> SetOnce<T> {
        SetOnce { state: AtomicU8::new(EMPTY), value: UnsafeCell::new(None) }
    }

    /// Sets the value; false where there is one already.
    pub fn set(&self, value: T) -> bool {
        let ours = self.state.compare_exchange(EMPTY, WRITING, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if ours {
            // SAFETY: the state says that only this call writes, and nobody reads before FULL.
            unsafe { *self.value.get() = Some(value) };
            self.state.store(FULL, Ordering::Release);
        }
        ours
    }

    /// The value, if it was set.
    #[inline]
    pub fn get(&self) -> Option<T> {
        if self.state.load(Ordering::Acquire) != FULL {
            return None;
        }
        // SAFETY: FULL was seen, so the value is written and never changes again.
        unsafe { *self.value.get() }
    }
}

impl<T: Copy> Default for SetOnce<T> {
    fn default() -> Self {
        SetOnce::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_stays() {
        let once = SetOnce::new();
        assert_eq!(once.get(), None);
        assert!(once.set(1) && !once.set(2));
        assert_eq!(once.get(), Some(1));
    }
}
