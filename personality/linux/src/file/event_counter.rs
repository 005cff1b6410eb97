//! Event counters (eventfd(2)).

use crate::Errno;
use alloc::sync::Arc;
use gyre_interface::{Readiness, Ready};
use gyre_object::ObjectLock;

/// Largest value that the counter holds.
const VALUE_MAX: u64 = u64::MAX - 1;

/// An event counter.
pub struct EventCounter {
    value: ObjectLock<u64>,
    is_semaphore: bool,
    readiness: Arc<Readiness>,
}

impl EventCounter {
    /// Makes a counter; a semaphore gives one at a time.
    pub fn new(value: u64, is_semaphore: bool) -> EventCounter {
        let counter =
            EventCounter { value: ObjectLock::new(value), is_semaphore, readiness: Readiness::new(Ready::empty()) };
        counter.publish(value);
        counter
    }

    /// Returns its readiness.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.readiness
    }

    fn publish(&self, value: u64) {
        let mut bits = Ready::empty();
        bits.set(Ready::READ, value > 0);
        bits.set(Ready::WRITE, value < VALUE_MAX);
        self.readiness.clear(!bits);
        self.readiness.set(bits);
    }

    /// Takes the value, or one of it.
    ///
    /// # Errors
    /// EINVAL for less than 8 bytes; EAGAIN at zero.
    pub fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let into = into.get_mut(..8).ok_or(Errno::EINVAL)?;
        let mut value = self.value.lock();
        if *value == 0 {
            return Err(Errno::EAGAIN);
        }
        let taken = if self.is_semaphore { 1 } else { *value };
        *value = value.saturating_sub(taken);
        into.copy_from_slice(&taken.to_le_bytes());
        self.publish(*value);
        Ok(8)
    }

    /// Adds to the value.
    ///
    /// # Errors
    /// EINVAL for the largest number; EAGAIN if it would overflow.
    pub fn add(&self, count: u64) -> Result<(), Errno> {
        if count == u64::MAX {
            return Err(Errno::EINVAL);
        }
        let mut value = self.value.lock();
        let sum = value.checked_add(count).filter(|sum| *sum <= VALUE_MAX);
        *value = sum.ok_or(Errno::EAGAIN)?;
        self.publish(*value);
        Ok(())
    }

    /// Returns the value, for /proc.
    pub fn value(&self) -> u64 {
        *self.value.lock()
    }
}
