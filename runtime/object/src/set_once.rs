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

    /// Sets the value; false if there is one already.
    pub fn set(&self, value: T) -> bool {
        let ours = self.state.compare_exchange(EMPTY, WRITING, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if ours {
            // SAFETY: the state says that only this call writes, and there is no read before FULL.
            unsafe { *self.value.get() = Some(value) };
            self.state.store(FULL, Ordering::Release);
        }
        ours
    }

    /// Returns the value, if it was set.
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

/// A value that an instance installs at its start: the engine, the runtime. On the machine it is set once.
#[cfg(target_os = "none")]
pub type Installed<T> = SetOnce<T>;

/// A value that an instance installs at its start: the engine, the runtime. On a host the last value counts, for a test builds one engine after
/// another on one simulated machine.
#[cfg(not(target_os = "none"))]
pub struct Installed<T: Copy>(std::sync::RwLock<Option<T>>);

#[cfg(not(target_os = "none"))]
impl<T: Copy> Installed<T> {
    /// Holds nothing.
    #[allow(clippy::new_without_default, reason = "it stands in a static only")]
    pub const fn new() -> Installed<T> {
        Installed(std::sync::RwLock::new(None))
    }

    /// Sets the value.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(value);
    }

    /// Returns the value, if it was set.
    #[inline]
    pub fn get(&self) -> Option<T> {
        *self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner)
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
