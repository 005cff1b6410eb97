//! Giving memory back that must be written first (V15): dirty pages of an activity, oldest first.

use crate::Ext2;
use crate::read::CLUSTER_PAGES;
use gyre_account::ActivityId;
use gyre_interface::memory::{MemoryError, reclaim};
use gyre_machine::PAGE_BYTES;

/// Pages that one round writes back.
const BATCH_PAGES: usize = 2 * CLUSTER_PAGES as usize;

impl reclaim::Server for Ext2 {
    async fn reclaim(&'static self, activity: ActivityId, bytes: u64) -> Result<u64, MemoryError> {
        let wanted = bytes.div_ceil(PAGE_BYTES as u64) as usize;
        let mut given = 0;
        while given < wanted {
            let Some(key) = self.cache.oldest_dirty(self.file_system, activity) else {
                break;
            };
            // A failure is kept with the node for who syncs it; pages that somebody else writes come clean by themselves.
            if !matches!(self.write_back(key.node, key.index, BATCH_PAGES).await, Ok(true)) {
                break;
            }
            given += self.cache.reclaim(activity, wanted - given);
        }
        Ok((given * PAGE_BYTES) as u64)
    }
}
