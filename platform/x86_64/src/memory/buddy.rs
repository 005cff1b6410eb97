//! The buddy allocator: blocks of `2^order` frames, split and merged. Pure arithmetic over frame descriptions, tested on the host.
//!
//! Lists run through the descriptions and not through the free memory, so that a device or a stale pointer that writes to a
//! freed frame cannot break the allocator.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use gyre_platform::zone::REGIONS_MAX;

/// Orders of blocks: 4 KiB to 128 MiB. The kernel's large tables (hash maps, vectors) are single blocks, so the limit is generous.
pub(crate) const ORDERS: usize = 16;
/// No frame.
pub(crate) const NONE: u32 = u32::MAX;

/// In the middle of a block, or not ours.
pub(crate) const INSIDE: u8 = 0;
/// First frame of a free block.
pub(crate) const FREE: u8 = 1;
/// First frame of a block that somebody has.
pub(crate) const TAKEN: u8 = 2;
/// A single free frame in a core's cache.
pub(crate) const CACHED: u8 = 3;

/// What is known of a frame. Atomic, because a neighbour's state is read under the allocator's lock while its owner changes it.
#[repr(C)]
#[derive(Default)]
pub(crate) struct FrameInfo {
    /// Link of the free list; free for the owner of a taken block.
    pub(crate) next: AtomicU32,
    /// Likewise.
    pub(crate) prev: AtomicU32,
    /// Who pays for the block that starts here.
    pub(crate) owner: AtomicU32,
    /// Order of the block that starts here.
    pub(crate) order: AtomicU8,
    /// One of the states above.
    pub(crate) state: AtomicU8,
    reserved: [u8; 2],
}

/// Gives the description of a frame of the regions.
pub(crate) trait FrameTable {
    /// The description of frame `number`, which must lie in a region that was added.
    fn info(&self, number: u32) -> &FrameInfo;
}

/// A block was given back that was not taken, or not with this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NotTaken;

/// The free blocks.
pub(crate) struct Buddy {
    heads: [u32; ORDERS],
    free_frames: usize,
    frames: usize,
    regions: [(u32, u32); REGIONS_MAX],
    region_count: usize,
}

impl Buddy {
    /// An allocator without memory.
    pub(crate) const fn new() -> Buddy {
        Buddy { heads: [NONE; ORDERS], free_frames: 0, frames: 0, regions: [(0, 0); REGIONS_MAX], region_count: 0 }
    }

    /// Frames that are free here.
    pub(crate) fn free_frames(&self) -> usize {
        self.free_frames
    }

    /// Frames that were added.
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// Adds the frames `start..end`. More regions than the limit are ignored.
    pub(crate) fn add_region(&mut self, table: &impl FrameTable, start: u32, end: u32) {
        if self.region_count == REGIONS_MAX || start >= end {
            return;
        }
        self.regions[self.region_count] = (start, end);
        self.region_count += 1;
        self.frames += (end - start) as usize;
        let mut at = start;
        while at < end {
            let by_alignment = at.trailing_zeros().min(ORDERS as u32 - 1);
            let order = by_alignment.min((end - at).ilog2()) as u8;
            self.link(table, at, order);
            at += 1 << order;
        }
    }

    /// Takes a block; its first frame's description says `TAKEN` and the order.
    pub(crate) fn take(&mut self, table: &impl FrameTable, order: u8) -> Option<u32> {
        let found = (order..ORDERS as u8).find(|order| self.heads[usize::from(*order)] != NONE)?;
        let block = self.heads[usize::from(found)];
        self.unlink(table, block, found);
        for half in (order..found).rev() {
            self.link(table, block + (1 << half), half);
        }
        let info = table.info(block);
        info.order.store(order, Relaxed);
        info.state.store(TAKEN, Relaxed);
        Some(block)
    }

    /// Takes a block back and merges it with its free neighbours.
    ///
    /// # Errors
    /// [`NotTaken`]: nothing was changed.
    pub(crate) fn give(&mut self, table: &impl FrameTable, block: u32, order: u8) -> Result<(), NotTaken> {
        let (start, end) = self.region_of(block).ok_or(NotTaken)?;
        let info = table.info(block);
        if info.state.load(Relaxed) != TAKEN || info.order.load(Relaxed) != order {
            return Err(NotTaken);
        }
        info.state.store(INSIDE, Relaxed);
        let (mut block, mut order) = (block, order);
        while usize::from(order) < ORDERS - 1 {
            let buddy = block ^ 1 << order;
            if buddy < start || buddy + (1 << order) > end {
                break;
            }
            let other = table.info(buddy);
            if other.state.load(Relaxed) != FREE || other.order.load(Relaxed) != order {
                break;
            }
            self.unlink(table, buddy, order);
            block &= !(1 << order);
            order += 1;
        }
        self.link(table, block, order);
        Ok(())
    }

    fn region_of(&self, block: u32) -> Option<(u32, u32)> {
        self.regions[..self.region_count].iter().copied().find(|(start, end)| (*start..*end).contains(&block))
    }

    fn link(&mut self, table: &impl FrameTable, block: u32, order: u8) {
        let head = &mut self.heads[usize::from(order)];
        let info = table.info(block);
        info.order.store(order, Relaxed);
        info.state.store(FREE, Relaxed);
        info.prev.store(NONE, Relaxed);
        info.next.store(*head, Relaxed);
        if *head != NONE {
            table.info(*head).prev.store(block, Relaxed);
        }
        *head = block;
        self.free_frames += 1 << order;
    }

    fn unlink(&mut self, table: &impl FrameTable, block: u32, order: u8) {
        let info = table.info(block);
        let (next, prev) = (info.next.load(Relaxed), info.prev.load(Relaxed));
        if prev == NONE {
            self.heads[usize::from(order)] = next;
        } else {
            table.info(prev).next.store(next, Relaxed);
        }
        if next != NONE {
            table.info(next).prev.store(prev, Relaxed);
        }
        info.state.store(INSIDE, Relaxed);
        self.free_frames -= 1 << order;
    }
}

#[cfg(test)]
#[path = "buddy_tests.rs"]
mod tests;
