//! Locks for what virtual cores share, and masks.

use std::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{auxiliary, core};

/// Does something during which no tick comes. May be nested; outside of a thread of a scheduler it only does it.
#[inline]
pub fn masked<T>(act: impl FnOnce() -> T) -> T {
    let masked = core::mask();
    let value = act();
    masked.unmask();
    value
}

/// Masks ticks until as many calls of [`unmask`]: for code that cannot pass a function to [`masked`].
pub fn mask() {
    let _masked = core::mask();
}

/// Takes one mask away; a tick that waited comes now.
pub fn unmask() {
    core::unmask_one();
}

/// A value that one virtual core at a time looks at, ticks masked.
pub struct Spin<T> {
    is_held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` hands out the value to one at a time.
unsafe impl<T: Send> Sync for Spin<T> {}

impl<T> Spin<T> {
    /// A free one.
    pub const fn new(value: T) -> Spin<T> {
        Spin { is_held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Does something short with the value. Not to be nested in itself.
    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        masked(|| {
            let mut wait = auxiliary::Wait::default();
            while self.is_held.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
                wait.step();
            }
            // SAFETY: who has set the flag is alone with the value until it is clear again.
            let answer = act(unsafe { &mut *self.value.get() });
            self.is_held.store(false, Ordering::Release);
            answer
        })
    }
}
