//! Memory of activities: bytes held, byte-seconds, limits along the tree (decision 5).
//!
//! Byte-seconds need no clock of their own: with B bytes held at time t and M the sum of `bytes * time` over all charges minus
//! all credits, the integral up to t is `B * t - M`. Both are sums, so the order of additions does not matter and an atomic
//! addition per level is all it takes. Arithmetic is modulo 2^64 in bytes x milliseconds: right as long as the result fits.
//!
//! Protocol of use: the platform's allocator calls the meter (charge, credit) for each frame and object, in the name
//! of the activity in hand. A charge that an activity or one above it may not have is refused and changes nothing;
//! kernel objects are charged and never refused.
//!
//! A closed activity leaves what it holds to its heir; credits in its name then go there (`owed`). Members count in
//! their lead's total.

use crate::limits::DEPTH_MAX;
use crate::part::Part;
use crate::tree::{Activities, NONE, Slot};
use crate::viewers::SetId;
use crate::{ActivityId, current_activity};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_machine::{MemoryMeter, OutOfMemory, Share, Step};

/// The memory of one activity.
#[derive(Default)]
pub(crate) struct MemorySlot {
    /// Bytes that it holds itself.
    pub(crate) own: AtomicU64,
    /// Sum of bytes x ms of charges minus that of credits.
    pub(crate) moment: AtomicU64,
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
    /// Bytes that it holds itself: what is its alone, and its parts of the pages that it shows with others.
    pub bytes: u64,
    /// Bytes that it and all below it hold.
    pub bytes_total: u64,
    /// Most of the latter so far. A process's part of what it shows with others counts at each look.
    pub bytes_total_max: u64,
    /// Memory that it held itself, integrated over time, bytes x seconds. Below zero for who gave back what others had been charged for; the
    /// sum over a tenant and its processes is right.
    pub byte_seconds: i64,
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
        self.clear();
    }

    /// Closes a member: what it held is found by its lead's name in its id, so that the slot owes nothing.
    pub(crate) fn leave_to_lead(&self, lead: &MemorySlot) {
        lead.own.fetch_add(self.own.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        lead.moment.fetch_add(self.moment.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        self.clear();
    }

    fn clear(&self) {
        self.total.store(0, Ordering::Relaxed);
        self.total_max.store(0, Ordering::Relaxed);
        self.refused.store(0, Ordering::Relaxed);
    }

    /// Returns what it holds now.
    pub(crate) fn add_own(&self, bytes: u64, ms: u64) -> u64 {
        self.moment.fetch_add(bytes.wrapping_mul(ms), Ordering::Relaxed);
        self.own.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes)
    }

    #[inline]
    fn note_total(&self, total: u64) {
        if total > self.total_max.load(Ordering::Relaxed) {
            self.total_max.store(total, Ordering::Relaxed);
        }
    }

    pub(crate) fn remove_own(&self, bytes: u64, ms: u64) {
        self.own.fetch_sub(bytes, Ordering::Relaxed);
        self.moment.fetch_sub(bytes.wrapping_mul(ms), Ordering::Relaxed);
    }
}

/// How a charge is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Demand {
    /// Limits do not count: a kernel object.
    Need,
    /// Asked again if it is refused.
    Try,
    /// A refusal is final, and counted.
    Ask,
}

impl Demand {
    /// Returns true if a holder of `total` bytes would hold more than it may.
    #[inline]
    fn is_refused(self, total: u64, slot: &Slot) -> bool {
        self != Demand::Need && total > slot.memory_bytes_max.load(Ordering::Relaxed) && self.refuse(slot)
    }

    /// Counts a refusal that is final.
    fn refuse(self, slot: &Slot) -> bool {
        if self == Demand::Ask {
            slot.memory.refused.fetch_add(1, Ordering::Relaxed);
        }
        true
    }
}

pub(crate) fn now_ms() -> u64 {
    gyre_machine::now() / gyre_machine::cycles_per_ms().max(1)
}

impl Activities {
    /// Charges `bytes` to an activity and all above it.
    ///
    /// # Errors
    /// [`OutOfMemory`] if one of them may not have more; nothing is charged then.
    pub fn charge_memory(&self, id: ActivityId, bytes: u64) -> Result<ActivityId, OutOfMemory> {
        let payer = self.payer(id);
        self.charge_alive(payer, bytes, Demand::Try, now_ms()).or_else(|OutOfMemory| {
            // Credits that cores have not passed on yet may be room.
            self.settle_batches();
            self.charge_alive(payer, bytes, Demand::Ask, now_ms())
        })
    }

    /// Charges `bytes` even over a limit: kernel objects, which must not fail for a tenant's budget.
    pub fn charge_object_memory(&self, id: ActivityId, bytes: u64) -> ActivityId {
        if self.note_batched(id, bytes as i64) {
            return id;
        }
        let payer = self.payer(id);
        self.charge_alive(payer, bytes, Demand::Need, now_ms()).unwrap_or(payer)
    }

    /// Charges what was noted in a batch; to the heir of who was closed in that very moment.
    pub(crate) fn charge_noted(&self, payer: ActivityId, bytes: u64, ms: u64) {
        let payer = if self.exists(payer) { payer } else { self.payer(payer) };
        let _ = self.charge_alive(payer, bytes, Demand::Need, ms);
    }

    /// Credits what was noted in a batch.
    pub(crate) fn credit_noted(&self, payer: ActivityId, bytes: u64, ms: u64) {
        if self.exists(payer) {
            self.credit_existing(payer, bytes, ms);
        } else {
            self.credit_unbatched(payer, bytes);
        }
    }

    /// While an activity is ended its futures still run their drops; what they take goes to its lead, or to the infrastructure.
    fn payer(&self, id: ActivityId) -> ActivityId {
        self.living(id).unwrap_or(ActivityId::INFRASTRUCTURE)
    }

    /// A member's total is what it holds itself, so that its level costs no addition of its own.
    fn charge_alive(&self, id: ActivityId, bytes: u64, demand: Demand, ms: u64) -> Result<ActivityId, OutOfMemory> {
        self.raise_totals(id.lead_index(), bytes, demand)?;
        let Some(slot) = self.slots.get(id.index()) else { return Ok(id) };
        let held = slot.memory.add_own(bytes, ms);
        if id.is_member() {
            if demand != Demand::Need && self.is_member_over(id) && demand.refuse(slot) {
                self.credit_existing(id, bytes, ms);
                return Err(OutOfMemory);
            }
            slot.memory.note_total(held.cast_signed().max(0).cast_unsigned());
        }
        Ok(id)
    }

    /// Returns true if a member holds more than it may, its parts of what it shows with others included. These are looked up only if its
    /// lead and all members hold more than it may alone.
    fn is_member_over(&self, id: ActivityId) -> bool {
        let limit = self.own_limit(id);
        let (Some(slot), Some(lead)) = (self.slots.get(id.index()), self.slots.get(id.lead_index())) else {
            return false;
        };
        if limit == u64::MAX || lead.memory.total.load(Ordering::Relaxed) <= limit {
            return false;
        }
        let own = slot.memory.own.load(Ordering::Relaxed).wrapping_add_signed(self.part_of(id, now_ms()).bytes);
        // One that gave back for others before they were its own may hold less than nothing, for a moment.
        own.cast_signed() > 0 && own > limit
    }

    fn raise_totals(&self, from: usize, bytes: u64, demand: Demand) -> Result<(), OutOfMemory> {
        for (level, slot) in self.levels(from).enumerate() {
            let total = slot.memory.total.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
            if demand.is_refused(total, slot) {
                self.lower_totals(from, bytes, level + 1);
                return Err(OutOfMemory);
            }
            slot.memory.note_total(total);
        }
        Ok(())
    }

    fn lower_totals(&self, from: usize, bytes: u64, levels: usize) {
        for slot in self.levels(from).take(levels) {
            slot.memory.total.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Returns a slot and those above it. Parents outlive their children, so that nothing needs to be asked on the way.
    #[inline]
    fn levels(&self, from: usize) -> impl Iterator<Item = &Slot> {
        let above = |slot: &&Slot| match slot.parent.load(Ordering::Relaxed) {
            NONE => None,
            parent => self.slots.get(ActivityId(parent).index()),
        };
        core::iter::successors(self.slots.get(from), above).take(DEPTH_MAX + 1)
    }

    /// Gives `bytes` back to who was charged, or to those who inherited them.
    pub fn credit_memory(&self, owner: ActivityId, bytes: u64) {
        if !self.note_batched(owner, -(bytes as i64)) {
            self.credit_unbatched(owner, bytes);
        }
    }

    fn credit_unbatched(&self, owner: ActivityId, bytes: u64) {
        if self.is_alive(owner) {
            self.credit_existing(owner, bytes, now_ms());
            return;
        }
        if owner.is_member()
            && !self.exists(owner)
            && let Some(lead) = self.living(owner)
        {
            self.credit_existing(lead, bytes, now_ms());
            return;
        }
        // Rare: the owner ends or has ended. No activity is closed or made meanwhile.
        self.settled(|| {
            let mut owner = owner;
            for _ in 0..=DEPTH_MAX {
                if self.exists(owner) {
                    break;
                }
                let lead = self.lead(owner);
                if lead != owner && self.exists(lead) {
                    owner = lead;
                    break;
                }
                // Memory of a closed activity went to its heir, who may have ended since in turn.
                let Some(slot) = self.slots.get(owner.lead_index()) else {
                    return;
                };
                slot.memory.owed.fetch_sub(bytes, Ordering::Relaxed);
                owner = self.heir(owner.lead_index());
            }
            self.credit_existing(owner, bytes, now_ms());
        });
    }

    fn credit_existing(&self, owner: ActivityId, bytes: u64, ms: u64) {
        self.slots[owner.index()].memory.remove_own(bytes, ms);
        self.lower_totals(owner.lead_index(), bytes, usize::MAX);
    }

    /// Returns true if an activity (a member too) or one above it holds more than it may. Kernel objects are not refused when they are made, so code that is
    /// about to make one for a program asks first, and asks the memory resource for room. The memory that calls under way take meanwhile is all
    /// that can come on top of a limit.
    pub fn is_over_limit(&self, id: ActivityId) -> bool {
        let is_over = |slot: &Slot| {
            let limit = slot.memory_bytes_max.load(Ordering::Relaxed);
            slot.memory.total.load(Ordering::Relaxed) > limit
        };
        let is_member_over = || id.is_member() && self.exists(id) && self.is_member_over(id);
        let any_is_over = || self.levels(id.lead_index()).any(is_over) || is_member_over();
        any_is_over() && {
            self.settle_batches();
            any_is_over()
        }
    }

    /// Returns the memory that an activity holds.
    pub fn memory(&self, id: ActivityId) -> MemoryUse {
        self.settle_batches();
        let ms = now_ms();
        match self.slots.get(id.index()).filter(|_| self.exists(id)) {
            Some(slot) => slot.memory.read(id, self.part_of(id, ms), ms),
            None => MemoryUse::default(),
        }
    }

    /// Returns the memory that all activities hold, by slot.
    pub fn memories(&self) -> Vec<(ActivityId, MemoryUse)> {
        self.settle_batches();
        let ms = now_ms();
        let parts = self.parts(ms);
        let read = |id: ActivityId| {
            let slot = self.slots.get(id.index())?;
            Some((id, slot.memory.read(id, parts.get(id.index()).copied()?, ms)))
        };
        self.ids().into_iter().filter_map(read).collect()
    }

    /// Returns the least limit of an activity and all above it, bytes.
    pub fn memory_limit(&self, id: ActivityId) -> u64 {
        self.ancestors(id).map(|level| self.own_limit(level)).min().unwrap_or(u64::MAX)
    }

    /// Returns the bytes that an activity may still be charged: the least room that it and all above it leave; 0 if one of them holds too much.
    pub fn memory_room(&self, id: ActivityId) -> u64 {
        let held = |level| self.held_bytes(level).cast_signed().max(0).cast_unsigned();
        self.ancestors(id).map(|level| self.own_limit(level).saturating_sub(held(level))).min().unwrap_or(0)
    }

    /// Returns true if an activity that is no member, and all below it, hold less than `bytes`. Cheap if it is far from it: the amount that cores have
    /// not passed on yet is asked for near it only.
    pub fn holds_less(&self, id: ActivityId, bytes: u64) -> bool {
        let slot = self.slots.get(id.lead_index()).filter(|_| self.exists(id) && !id.is_member());
        let about = slot.map_or(u64::MAX, |slot| slot.memory.total.load(Ordering::Relaxed));
        about.saturating_add(crate::batch::NOTED_BYTES_MAX) < bytes || self.held_bytes(id) < bytes
    }

    /// Returns the bytes that an activity and all below it hold. Cheap but for a member that shares pages.
    pub fn held_bytes(&self, id: ActivityId) -> u64 {
        if id.is_member() {
            return self.memory(id).bytes_total;
        }
        self.settle_batches();
        let slot = self.slots.get(id.index()).filter(|_| self.exists(id));
        slot.map_or(0, |slot| slot.memory.total.load(Ordering::Relaxed))
    }
}

impl MemorySlot {
    fn read(&self, id: ActivityId, part: Part, ms: u64) -> MemoryUse {
        let own = self.own.load(Ordering::Relaxed);
        let integral = own.wrapping_mul(ms).wrapping_sub(self.moment.load(Ordering::Relaxed)).cast_signed();
        let bytes = own.wrapping_add_signed(part.bytes);
        if id.is_member() && bytes.cast_signed() > 0 {
            self.note_total(bytes);
        }
        MemoryUse {
            bytes,
            bytes_total: if id.is_member() { bytes } else { self.total.load(Ordering::Relaxed) },
            bytes_total_max: self.total_max.load(Ordering::Relaxed),
            byte_seconds: integral.wrapping_add(part.integral) / 1000,
            refused: self.refused.load(Ordering::Relaxed),
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

    #[inline]
    fn credit(&self, owner: u32, bytes: usize) {
        match SetId::of(owner) {
            None => self.credit_memory(ActivityId(owner), bytes as u64),
            Some(set) => self.credit_set(set, bytes as u64),
        }
    }

    fn share(&self, owner: u32, viewer: u32, step: Step) -> Option<Share> {
        self.share_of(owner, ActivityId(viewer), step)
    }

    fn passed(&self, from: u32, to: u32, bytes: usize) {
        self.pass(from, to, bytes as u64);
    }

    fn hand_over(
        &self,
        owner: u32,
        viewer: u32,
        step: Step,
        bytes: usize,
        replace: &mut dyn FnMut(Share) -> bool,
    ) -> bool {
        self.hand_over_one(owner, ActivityId(viewer), step, bytes as u64, replace)
    }
}

#[cfg(test)]
mod tests;
