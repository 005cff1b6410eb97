//! Giving back memory that must be written first: dirty pages of an activity, oldest first. Also writing parts of
//! files back, and dropping them, on request (fadvise, `evict`).

use crate::Ext2;
use crate::node::Node;
use crate::read::CLUSTER_PAGES;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_interface::files::{FileError, NodeId, NodeKind};
use gyre_interface::memory::{Effort, MemoryError, reclaim};
use gyre_machine::PAGE_BYTES;
use gyre_object::Counted;

const PAGE: u64 = PAGE_BYTES as u64;

/// Pages that one round writes back.
const BATCH_PAGES: usize = 2 * CLUSTER_PAGES as usize;

impl Ext2 {
    /// Returns the shelves of nodes and names that it remembers, for the monitor's list of pools.
    pub fn objects(&self) -> [(&'static str, &dyn Counted); 2] {
        [("ext2 node", &self.nodes), ("ext2 name", self.names.counted())]
    }

    pub(crate) async fn write_range_back(&'static self, id: NodeId, offset: u64, bytes: u64) -> Result<(), FileError> {
        let node = self.node(id).await?;
        node.expect(NodeKind::File)?;
        let (first, end) = pages_of(offset, bytes);
        // Writers hold the lock until the device has answered: passing through waits for them.
        drop(node.lock.exclusive().await);
        let first_dirty = |from| self.cache.dirty_pages(self.page_key(node.id, from), 1).first().copied();
        let mut from = first;
        while let Some(index) = first_dirty(from).filter(|index| *index < end) {
            let count = end.saturating_sub(index).min(BATCH_PAGES as u64);
            self.write_back(node.id, index, count as usize).await?;
            from = index.saturating_add(1);
        }
        drop(node.lock.exclusive().await);
        node.losses.tell()
    }

    /// Drops pages that nobody uses; dirty ones are written first. Returns how many.
    pub(crate) async fn evict_unused(&'static self, node: &Arc<Node>, pages: &[u64]) -> usize {
        let evict = || self.cache.evict_pages(self.file_system, node.id, pages);
        let clean = evict();
        if clean == pages.len() {
            return clean;
        }
        // A failure is kept with the node for the next sync.
        let _ = self.write_pages_back(node, pages).await;
        // Others may be writing some of them: they hold the lock until the device has answered.
        drop(node.lock.exclusive().await);
        evict().saturating_add(clean)
    }

    /// Returns 1 for each page that is in memory, else 0.
    pub(crate) fn cached_pages(&self, node: &Node, first: u64, pages: usize) -> Vec<u8> {
        let key = |at: usize| self.page_key(node.id, first.saturating_add(at as u64));
        (0..pages).map(|at| u8::from(self.cache.holds(key(at)))).collect()
    }

    pub(crate) fn evict_range(&self, node: &Node, offset: u64, bytes: u64) -> u64 {
        // A page that is cut by the range stays: the rest of it was not meant.
        let first = offset.div_ceil(PAGE);
        let end = offset.saturating_add(bytes) / PAGE;
        let end = if bytes == 0 || offset.checked_add(bytes).is_none() { u64::MAX } else { end };
        self.cache.evict_node(self.file_system, node.id, first, end).saturating_mul(PAGE_BYTES) as u64
    }
}

impl Ext2 {
    /// Forgets unused nodes and names that an activity paid for, until about `bytes` are back; returns how many.
    /// Objects that can be read again at the cost of a look go last: pages of files were asked for before.
    fn reclaim_objects(&self, activity: ActivityId, bytes: u64) -> u64 {
        const NODE_BYTES: u64 = size_of::<Node>() as u64;
        let nodes = (0..bytes.div_ceil(NODE_BYTES)).take_while(|_| self.nodes.evict(activity, &Node::may_go)).count();
        let given = (nodes as u64).saturating_mul(NODE_BYTES);
        given.saturating_add(self.names.reclaim(activity, bytes.saturating_sub(given)))
    }
}

/// Returns the pages of a range of bytes; 0 bytes reach to the end.
fn pages_of(offset: u64, bytes: u64) -> (u64, u64) {
    match offset.checked_add(bytes) {
        Some(end) if bytes > 0 => (offset / PAGE, end.div_ceil(PAGE)),
        _ => (offset / PAGE, u64::MAX),
    }
}

impl reclaim::Server for Ext2 {
    async fn reclaim(&'static self, activity: ActivityId, bytes: u64, effort: Effort) -> Result<u64, MemoryError> {
        let Some(_visit) = self.enter() else { return Ok(0) };
        let wanted = bytes.div_ceil(PAGE) as usize;
        // For a process, its tenant's dirty pages are written back, and unused nodes and names are forgotten, until
        // that helps.
        let payer = self.cache.payer_of(activity);
        let mut given = 0_usize;
        while given < wanted {
            let written = match self.cache.oldest_dirty(self.file_system, payer) {
                // A failure is kept with the node for the next sync.
                Some(key) => self.write_back(key.node, key.index, BATCH_PAGES).await,
                None => Ok(false),
            };
            // Pages that another task writes become clean by themselves.
            let goes_on = match written {
                Ok(is_some) => is_some || self.cache.until_one_is_written(payer).await,
                Err(_) => false,
            };
            given = self.cache.reclaim_with(activity, wanted.saturating_sub(given), effort).saturating_add(given);
            if !goes_on {
                break;
            }
        }
        let given = given.saturating_mul(PAGE_BYTES) as u64;
        Ok(given.saturating_add(self.reclaim_objects(payer, bytes.saturating_sub(given))))
    }
}
