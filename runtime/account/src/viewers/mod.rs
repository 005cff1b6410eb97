//! The sets of viewers that pay for pages together (decision 8): which there are, who is in them, what each holds.
//!
//! ```text
//!   page --payer--> SetId --> Set { viewers with how often each, bytes, byte-seconds }
//!   fork, map, unmap, exit: the page goes from its set to the set with one viewer more or less
//! ```
//! All viewers of a set are of one tenant, so that what moves between its sets changes no total and no limit. A set is found by its
//! contents and lives while pages or changes under way name it; its integral goes to its viewers then.

mod set;
mod shard;
#[cfg(test)]
mod tests;

pub(crate) use set::{Set, Viewer};
pub(crate) use shard::{Goal, Shard};

use alloc::boxed::Box;
use gyre_object::{LockGuard, SpinLock};

/// Parts of the table, by tenant: tenants rarely wait for each other's.
const SHARDS: usize = 1 << SHARD_BITS;
const SHARD_BITS: u32 = 4;
/// Sets of a part.
pub(crate) const SETS_MAX: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 10;
/// Viewers in all sets of a part.
pub(crate) const VIEWERS_MAX: usize = 32 << 10;

/// Names a set among payers: what would be an activity's slot beyond the last one.
/// ```text
///   31          16 15   12 11 10 9         0
///  | generation   | shard | 0 1 | slot      |
/// ```
/// The generation says how often the slot was used before, so that an old name means nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SetId(u32);

const MARK: u32 = 1 << SLOT_BITS;
const MARK_MASK: u32 = 3 << SLOT_BITS;
const SHARD_SHIFT: u32 = 12;
const GENERATION_SHIFT: u32 = SHARD_SHIFT + SHARD_BITS;

impl SetId {
    pub(crate) fn new(shard: usize, slot: usize, generation: u16) -> SetId {
        let place = slot as u32 & (MARK - 1) | (shard as u32 % SHARDS as u32) << SHARD_SHIFT;
        SetId(place | MARK | u32::from(generation) << GENERATION_SHIFT)
    }

    /// Returns the set that a payer's word names; `None` if that is an activity.
    #[inline]
    pub(crate) fn of(owner: u32) -> Option<SetId> {
        (owner & MARK_MASK == MARK).then_some(SetId(owner))
    }

    pub(crate) fn word(self) -> u32 {
        self.0
    }

    pub(crate) fn shard(self) -> usize {
        (self.0 >> SHARD_SHIFT) as usize % SHARDS
    }

    pub(crate) fn slot(self) -> usize {
        (self.0 & (MARK - 1)) as usize
    }

    pub(crate) fn generation(self) -> u16 {
        (self.0 >> GENERATION_SHIFT) as u16
    }
}

const _: () = assert!(crate::limits::ACTIVITIES_MAX <= 1 << SLOT_BITS, "a set's name is no activity's");

/// All sets.
pub(crate) struct Viewers(Box<[SpinLock<Shard>]>);

impl Viewers {
    pub(crate) fn new() -> Viewers {
        Viewers((0..SHARDS).map(|shard| SpinLock::new(Shard::new(shard))).collect())
    }

    /// Returns the part that holds a set.
    pub(crate) fn of_set(&self, set: SetId) -> LockGuard<'_, Shard> {
        self.0[set.shard()].lock()
    }

    /// Returns the part with the sets of the tenant in a slot.
    pub(crate) fn of_lead(&self, lead: usize) -> LockGuard<'_, Shard> {
        self.0[lead % SHARDS].lock()
    }

    /// Works on each part, one after another.
    pub(crate) fn each(&self, mut act: impl FnMut(&Shard)) {
        self.0.iter().for_each(|shard| act(&shard.lock()));
    }
}
