//! Memory of activities: bytes held, byte-seconds, limits along the tree (decision 5).
//!
//! Byte-seconds need no clock of their own: with B bytes held at time t and M the sum of `bytes * time` over all charges minus
//! all credits, the integral up to t is `B * t - M`. Both are sums, so the order of additions does not matter and an atomic
//! addition per level is all it takes. Arithmetic is modulo 2^64 in bytes x milliseconds: right as long as the result fits.

use crate::limits::DEPTH_MAX;
use crate::tree::Activities;
use crate::{ActivityId, current_activity};
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_machine::{MemoryMeter, OutOfMemory};

/// The memory of one activity.
#[derive(Default)]
pub(crate) struct MemorySlot {
    /// Bytes that it holds itself.
    own: AtomicU64,
    /// Sum of bytes x ms of charges minus that of credits.
    moment: AtomicU64,
    /// Bytes that it and all below it hold.
    total: AtomicU64,
    total_max: AtomicU64,
    refused: AtomicU64,
    /// Bytes that former owners of this slot left to their parent and that are not credited yet.
    owed: AtomicU64,
}

/// The memory of an activity, as shown to users.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemoryUse {
    /// Bytes that it holds itself.
    pub bytes: u64,
    /// Bytes that it and all below it hold.
    pub bytes_total: u64,
    /// Most of the latter so far.
    pub bytes_total_max: u64,
    /// What it held itself, integrated over time, bytes x seconds.
    pub byte_seconds: u64,
    /// Requests refused for the limit of this activity.
    pub refused: u64,
}

impl MemorySlot {
    pub(crate) fn is_owed(&self) -> bool {
        self.owed.load(Ordering::Relaxed) != 0
    }

    /// Gives what is held to the heir. The totals of all above stay as they are, unless the heir was not above it.
    pub(crate) fn leave_to(&self, heir: &MemorySlot, heir_is_elsewhere: bool) {
        let bytes = self.own.swap(0, Ordering::Relaxed);
        heir.own.fetch_add(bytes, Ordering::Relaxed);
        heir.moment.fetch_add(self.moment.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        if heir_is_elsewhere {
            heir.total.fetch_add(bytes, Ordering::Relaxed);
        }
        self.owed.fetch_add(bytes, Ordering::Relaxed);
        self.total.store(0, Ordering::Relaxed);
        self.total_max.store(0, Ordering::Relaxed);
        self.refused.store(0, Ordering::Relaxed);
    }

    fn add_own(&self, bytes: u64, ms: u64) {
        self.own.fetch_add(bytes, Ordering::Relaxed);
        self.moment.fetch_add(bytes.wrapping_mul(ms), Ordering::Relaxed);
    }

    fn remove_own(&self, bytes: u64, ms: u64) {
        self.own.fetch_sub(bytes, Ordering::Relaxed);
        self.moment.fetch_sub(bytes.wrapping_mul(ms), Ordering::Relaxed);
    }
}

fn now_ms() -> u64 {
    gyre_machine::now() / gyre_machine::cycles_per_ms().max(1)
}

impl Activities {
    /// Charges `bytes` to an activity and all above it.
    ///
    /// # Errors
    /// [`OutOfMemory`] where one of them may not have more; nothing is charged then.
    pub fn charge_memory(&self, id: ActivityId, bytes: u64) -> Result<ActivityId, OutOfMemory> {
        if !self.is_alive(id) {
            // While an activity is ended its futures still run their drops; what they take goes to the infrastructure.
            return self.charge_alive(ActivityId::INFRASTRUCTURE, bytes, false);
        }
        self.charge_alive(id, bytes, false)
    }

    /// Charges `bytes` whatever the limits say: kernel objects, which must not fail for a tenant's budget.
    pub fn charge_object_memory(&self, id: ActivityId, bytes: u64) -> ActivityId {
        let payer = if self.is_alive(id) { id } else { ActivityId::INFRASTRUCTURE };
        self.charge_alive(payer, bytes, true).unwrap_or(payer)
    }

    fn charge_alive(&self, id: ActivityId, bytes: u64, is_object: bool) -> Result<ActivityId, OutOfMemory> {
        for (level, slot) in self.lineage(id).enumerate() {
            let total = slot.memory.total.fetch_add(bytes, Ordering::Relaxed) + bytes;
            if !is_object && total > slot.memory_bytes_max.load(Ordering::Relaxed) {
                slot.memory.refused.fetch_add(1, Ordering::Relaxed);
                self.lower_totals(id, bytes, level + 1);
                return Err(OutOfMemory);
            }
            if total > slot.memory.total_max.load(Ordering::Relaxed) {
                slot.memory.total_max.store(total, Ordering::Relaxed);
            }
        }
        self.slots[id.index()].memory.add_own(bytes, now_ms());
        Ok(id)
    }

    fn lower_totals(&self, from: ActivityId, bytes: u64, levels: usize) {
        for slot in self.lineage(from).take(levels) {
            slot.memory.total.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Gives `bytes` back to who was charged, or to those who inherited them.
    pub fn credit_memory(&self, owner: ActivityId, bytes: u64) {
        if self.is_alive(owner) {
            self.credit_existing(owner, bytes);
            return;
        }
        // Rare: the owner ends or has ended. No activity is closed or made meanwhile.
        self.settled(|| {
            let mut owner = owner;
            for _ in 0..=DEPTH_MAX {
                if self.exists(owner) {
                    break;
                }
                // What a closed activity held went to its heir, who may have ended since in turn.
                let Some(slot) = self.slots.get(owner.index()) else {
                    return;
                };
                slot.memory.owed.fetch_sub(bytes, Ordering::Relaxed);
                owner = self.heir(owner.index());
            }
            self.credit_existing(owner, bytes);
        });
    }

    fn credit_existing(&self, owner: ActivityId, bytes: u64) {
        self.slots[owner.index()].memory.remove_own(bytes, now_ms());
        self.lower_totals(owner, bytes, usize::MAX);
    }

    /// What an activity holds.
    pub fn memory(&self, id: ActivityId) -> MemoryUse {
        let Some(slot) = self.slots.get(id.index()).filter(|_| self.exists(id)) else {
            return MemoryUse::default();
        };
        let own = slot.memory.own.load(Ordering::Relaxed);
        let moment = slot.memory.moment.load(Ordering::Relaxed);
        MemoryUse {
            bytes: own,
            bytes_total: slot.memory.total.load(Ordering::Relaxed),
            bytes_total_max: slot.memory.total_max.load(Ordering::Relaxed),
            byte_seconds: own.wrapping_mul(now_ms()).wrapping_sub(moment) / 1000,
            refused: slot.memory.refused.load(Ordering::Relaxed),
        }
    }
}

impl MemoryMeter for Activities {
    fn charge(&self, bytes: usize) -> Result<u32, OutOfMemory> {
        self.charge_memory(current_activity(), bytes as u64).map(|id| id.0)
    }

    fn charge_object(&self, bytes: usize) -> u32 {
        self.charge_object_memory(current_activity(), bytes as u64).0
    }

    fn credit(&self, owner: u32, bytes: usize) {
        self.credit_memory(ActivityId(owner), bytes as u64);
    }
}

#[cfg(test)]
mod tests;
