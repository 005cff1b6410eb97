//! A lock that is held across waits: the position of an open file. Waiting for it is a wait like any other.

use core::sync::atomic::{AtomicBool, Ordering};
use gyre_interface::Position;
use gyre_message::WaitQueue;
use gyre_object::ObjectLock;

/// A value that one task at a time works with, for as long as it takes.
#[derive(Default)]
pub struct AsyncLock<T> {
    held: AtomicBool,
    free: WaitQueue,
    value: ObjectLock<T>,
}

impl<T: Copy> AsyncLock<T> {
    /// Makes an open lock.
    pub const fn new(value: T) -> AsyncLock<T> {
        AsyncLock { held: AtomicBool::new(false), free: WaitQueue::new(), value: ObjectLock::new(value) }
    }

    /// Waits until it is free and holds it. Dropping the answer, also in a killed task, frees it.
    pub async fn hold(&self) -> Held<'_, T> {
        loop {
            if !self.held.swap(true, Ordering::Acquire) {
                return Held { lock: self };
            }
            let wait = self.free.wait();
            if !self.held.swap(true, Ordering::Acquire) {
                return Held { lock: self };
            }
            wait.await;
        }
    }

    /// Holds it if it is free.
    pub fn try_hold(&self) -> Option<Held<'_, T>> {
        (!self.held.swap(true, Ordering::Acquire)).then(|| Held { lock: self })
    }

    /// Returns the value, also while the lock is held.
    pub fn peek(&self) -> T {
        *self.value.lock()
    }
}

/// Holds an [`AsyncLock`] until dropped.
pub struct Held<'a, T: Copy> {
    lock: &'a AsyncLock<T>,
}

impl<T: Copy> Held<'_, T> {
    /// Returns the value.
    pub fn get(&self) -> T {
        *self.lock.value.lock()
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        *self.lock.value.lock() = value;
    }
}

impl Held<'_, u64> {
    /// Moves a file's position on by the bytes that a call has moved, at most to the last position.
    pub fn advance(&self, bytes: usize) {
        let mut at = self.lock.value.lock();
        *at = at.saturating_add(bytes as u64).min(Position::LAST.get());
    }
}

impl<T: Copy> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.lock.held.store(false, Ordering::Release);
        self.lock.free.wake_all();
    }
}
