//! A meter of the memory that activities hold. Tests of one program run beside each other, so each takes a number of its own.

use gyre_account::{ActivityId, current_activity};
use gyre_machine::{MemoryMeter, OutOfMemory};
use std::sync::atomic::{AtomicI64, Ordering};

/// Bytes that activities hold, by their numbers.
pub struct Meter([AtomicI64; 64]);

pub static METER: Meter = Meter([const { AtomicI64::new(0) }; 64]);

impl Meter {
    /// Returns how many bytes an activity holds.
    pub fn held(&self, activity: ActivityId) -> i64 {
        self.0[activity.0 as usize].load(Ordering::Relaxed)
    }

    fn add(&self, owner: u32, bytes: i64) {
        if let Some(held) = self.0.get(owner as usize) {
            held.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl MemoryMeter for Meter {
    fn charge(&self, bytes: usize) -> Result<u32, OutOfMemory> {
        let owner = current_activity().0;
        self.add(owner, bytes as i64);
        Ok(owner)
    }
    fn charge_object(&self, _bytes: usize) -> u32 {
        0
    }
    fn credit(&self, owner: u32, bytes: usize) {
        self.add(owner, -(bytes as i64));
    }
}
