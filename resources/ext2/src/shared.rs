//! Blocks that hold information on several files: superblock, group descriptors, bitmaps, inode tables.
//!
//! A caller that syncs one file would pay for all files whose inodes lie in the same block. So these blocks are moved
//! under an activity of the file system, a member of its tenant (see [`crate::MountOptions::tables`]); blocks of one
//! file or directory, and flushes, are moved under the caller's.
//!
//! No caller waits longer for it: a member's requests wait in its tenant's queues, where the caller's would stand
//! too, and count against the tenant's share. And no order rests on it: requests that must be on the disk first have
//! been answered, and flushed, before the rest is sent. Once the activity has ended its tenant pays.

use crate::Ext2;
use gyre_account::{ActivityId, current_activity, set_current_activity};

/// Does something, without waiting, in the name of an activity: requests belong to their sender from the time they
/// are made.
pub(crate) fn in_name_of<T>(payer: ActivityId, act: impl FnOnce() -> T) -> T {
    let before = set_current_activity(payer);
    let done = act();
    set_current_activity(before);
    done
}

impl Ext2 {
    /// Returns the activity that pays for blocks that files share.
    pub(crate) fn tables_payer(&self) -> ActivityId {
        self.tables.unwrap_or_else(current_activity)
    }

    /// Returns the activity that pays for moving a block.
    pub(crate) fn payer_of(&self, block: u32) -> ActivityId {
        if self.geometry.is_shared(block) { self.tables_payer() } else { current_activity() }
    }

    /// Returns the activity that pays for moving the block at a sector of the device.
    #[expect(clippy::arithmetic_side_effects, reason = "a block has at least two sectors")]
    pub(crate) fn payer_at(&self, sector: u64) -> ActivityId {
        u32::try_from(sector / self.geometry.sectors_per_block())
            .map_or_else(|_| current_activity(), |block| self.payer_of(block))
    }
}
