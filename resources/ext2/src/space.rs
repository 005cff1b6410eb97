//! Space in the middle of files: taking it beforehand (fallocate), giving it back (punching holes), finding it
//! (SEEK_DATA, SEEK_HOLE).
//!
//! Works page by page, so that no step is long; a long hole is passed at once. New blocks are zeroes in memory and
//! dirty. Blocks are given back under the rules of [`crate::truncate`]: first the pages and pointers, the release
//! after a commit. Callers are the handlers of the server; each function takes the node's lock itself.
//!
//! Between two pages of a long walk other tasks may run ([`PAGES_PER_TURN`]); a task that is killed there leaves whole
//! pages done and the rest as it was. The file's size grows with fallocate and stays with a punch.

use crate::Ext2;
use crate::change::now_ns;
use crate::inode::POINTERS;
use crate::map::Path;
use crate::node::Node;
use crate::read::{clear_behind, pages};
use alloc::sync::Arc;
use gyre_interface::files::{FileError, NodeId, Sought};
use gyre_machine::PAGE_BYTES;
use gyre_object::Page;

const PAGE: u64 = PAGE_BYTES as u64;
/// Pages after which a long walk lets others go first.
const PAGES_PER_TURN: u64 = 64;

/// Returns the end of a page.
fn page_end(index: u64) -> u64 {
    index.saturating_add(1).saturating_mul(PAGE)
}

impl Ext2 {
    /// Takes blocks for the holes of a range, which stay zeroes; the file grows to the range's end.
    pub(crate) async fn allocate_range(&'static self, id: NodeId, offset: u64, bytes: u64) -> Result<(), FileError> {
        let node = self.file_to_change(id).await?;
        let end = offset.checked_add(bytes).filter(|end| *end <= self.size_max()).ok_or(FileError::TooLarge)?;
        let mut at = offset;
        while at < end {
            self.throttle().await?;
            let guard = node.to_change().await?;
            self.finish_trim(&node).await?;
            if at > node.size() {
                self.clear_tail(&node, node.size()).await?;
            }
            let stop = end.min(at.saturating_add(PAGES_PER_TURN * PAGE) & !(PAGE - 1));
            while at < stop {
                let part_end = page_end(at / PAGE).min(stop);
                self.fill_holes(&node, at, part_end).await?;
                at = part_end;
            }
            drop(guard);
            if at < end {
                gyre_message::yield_now().await;
            }
        }
        Ok(())
    }

    /// Takes blocks for the holes of a part of a page. New blocks are zeroes in memory and dirty: their old contents
    /// on the disk are never shown.
    async fn fill_holes(&'static self, node: &Arc<Node>, start: u64, end: u64) -> Result<(), FileError> {
        let (first, count) = self.blocks_between(start, end);
        let mapped = self.map_run(node, first, count).await?;
        if mapped.iter().all(|block| *block != 0) && end <= node.size() {
            return Ok(());
        }
        let index = start / PAGE;
        let page = self.page_to_change(node, index).await?;
        let size = node.size();
        if end > size {
            clear_behind(&page, index, size);
        }
        self.ensure_range(node, start, end).await.1?;
        self.cache.mark_dirty(self.page_key(node.id, index));
        let now = now_ns();
        self.change(node, |inode| {
            inode.size = inode.size.max(end);
            (inode.modified_ns, inode.changed_ns) = (now, now);
        });
        Ok(())
    }

    /// Makes a range read as zeroes and gives its whole blocks back. The size stays.
    pub(crate) async fn punch_range(&'static self, id: NodeId, offset: u64, bytes: u64) -> Result<(), FileError> {
        let node = self.file_to_change(id).await?;
        let mut at = offset;
        loop {
            let guard = node.to_change().await?;
            self.finish_trim(&node).await?;
            let end = offset.saturating_add(bytes).min(node.size());
            if at >= end {
                return Ok(());
            }
            let cut = self.begin_cut(&node).await?;
            let now = now_ns();
            self.change(&node, |inode| (inode.modified_ns, inode.changed_ns) = (now, now));
            let mut steps = 0_u64;
            while at < end && steps < PAGES_PER_TURN {
                steps = steps.saturating_add(1);
                let page_end = page_end(at / PAGE);
                // The last page of the file counts as whole: behind the end there is nothing to keep.
                let whole = at.is_multiple_of(PAGE) && (page_end <= end || end == node.size());
                at = if whole {
                    self.punch_page(&node, at / PAGE).await?
                } else {
                    self.zero_part(&node, at, page_end.min(end)).await?;
                    page_end.min(end)
                };
            }
            drop((cut, guard));
            if at < end {
                gyre_message::yield_now().await;
            }
        }
    }

    /// Zeroes a part of a page, if it is not a hole.
    async fn zero_part(&'static self, node: &Arc<Node>, start: u64, end: u64) -> Result<(), FileError> {
        let index = start / PAGE;
        let mapped = self.map_run(node, self.first_block_of(index), self.blocks_per_page() as usize).await?;
        if mapped.iter().all(|block| *block == 0) {
            return Ok(());
        }
        let page = self.page_to_change(node, index).await?;
        let zeroes = [0; PAGE_BYTES];
        page.write((start % PAGE) as usize, zeroes.get(..end.saturating_sub(start) as usize).unwrap_or(&[]));
        self.cache.mark_dirty(self.page_key(node.id, index));
        Ok(())
    }

    /// Frees the blocks of a page; returns the position to go on from: far behind it if a long hole follows.
    async fn punch_page(&'static self, node: &Arc<Node>, index: u64) -> Result<u64, FileError> {
        let blocks = self.blocks_per_page() as usize;
        let path = self.path(self.first_block_of(index))?;
        let Some((slot, _)) = path.steps().split_last() else {
            self.forget_page(node, index);
            for slot in (path.root..crate::map::DIRECT).take(blocks) {
                self.free_root(node, slot)?;
            }
            return Ok(page_end(index));
        };
        let Some((block, page)) = self.leaf_of(node, path).await? else {
            let left = self.pointers_per_block().saturating_sub(*slot as u64);
            let pages = left.checked_div(self.blocks_per_page()).unwrap_or(1);
            return Ok(index.saturating_add(pages.max(1)).saturating_mul(PAGE));
        };
        // All blocks of a page have their pointers in one block: the numbers of direct pointers and of pointers in a block are multiples of 4.
        self.forget_page(node, index);
        for slot in (*slot..).take(blocks) {
            let child = self.checked(self.pointer(&page, slot))?;
            if child != 0 {
                self.clear_pointer(node, (block, &page), slot);
                if !self.free_block_of(node, child) {
                    return Err(FileError::Damaged);
                }
            }
        }
        Ok(page_end(index))
    }

    fn forget_page(&self, node: &Node, index: u64) {
        self.cache.forget(self.file_system, node.id, index, index.saturating_add(1));
    }

    /// Returns the last indirect block of a path with its number.
    async fn leaf_of(&'static self, node: &Node, path: Path) -> Result<Option<(u32, Page)>, FileError> {
        let roots: [u32; POINTERS] = node.state.lock().inode.pointers;
        let mut block = self.checked(roots.get(path.root).copied().unwrap_or(0))?;
        let inner = path.steps().split_last().map_or(&[][..], |(_, inner)| inner);
        for step in inner {
            if block == 0 {
                return Ok(None);
            }
            let page = self.block(block).await?;
            block = self.checked(self.pointer(&page, *step))?;
        }
        if block == 0 { Ok(None) } else { Ok(Some((block, self.block(block).await?))) }
    }

    /// Returns the next position of data or of a hole from `offset` on.
    pub(crate) async fn seek_in(&'static self, id: NodeId, offset: u64, sought: Sought) -> Result<u64, FileError> {
        let node = self.node(id).await?;
        let block_bytes = self.geometry.block_bytes as u64;
        let wants_data = sought == Sought::Data;
        let mut index = self.blocks_between(offset, offset).0;
        let mut turns = 0_u64;
        loop {
            let _guard = node.to_read().await?;
            let size = node.size();
            if offset >= size || index >= size.div_ceil(block_bytes) {
                let end = (!wants_data && offset < size).then_some(size);
                return end.ok_or(FileError::NotFound);
            }
            let path = self.path(index)?;
            turns = turns.saturating_add(1);
            if turns.is_multiple_of(PAGES_PER_TURN) {
                gyre_message::yield_now().await;
            }
            if let Some((slot, _)) = path.steps().split_last()
                && self.leaf_of(&node, path).await?.is_none()
            {
                // A whole block of pointers is missing.
                if !wants_data {
                    return Ok(index.saturating_mul(block_bytes).max(offset));
                }
                index = index.saturating_add(self.pointers_per_block().saturating_sub(*slot as u64));
                continue;
            }
            let count = self.first_block_of(pages(size)).saturating_sub(index).min(64) as usize;
            let mapped = self.map_run(&node, index, count).await?;
            if let Some(at) = mapped.iter().position(|block| (*block != 0) == wants_data) {
                let found = index.saturating_add(at as u64).saturating_mul(block_bytes);
                return Ok(found.max(offset).min(size));
            }
            index = index.saturating_add(count as u64);
        }
    }
}
