//! Free blocks and inodes. Freed ones are not used again before the disk has forgotten their owner: they wait in
//! `freed` until a commit has written that.
//!
//! Protocol of use: take a block or inode; the answer frees it again when dropped, unless [`Taken::keep`] says that
//! something points to it. Bitmaps of a group are read when they are first needed, and checked then. A search begins
//! at a goal near the file's other blocks and goes through all groups once.
//!
//! Left out: orders larger than one block.

use crate::Ext2;
use crate::bitmap::Bitmap;
use crate::geometry::Geometry;
use crate::metadata::from_block;
use crate::node::Node;
use crate::shared::in_name_of;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_interface::files::FileError;
use gyre_object::{Bytes, Page};

/// One group's bitmaps, once they were read.
pub(crate) struct GroupState {
    pub(crate) bitmaps: Option<Bitmaps>,
    pub(crate) blocks_free: u32,
    pub(crate) inodes_free: u32,
    pub(crate) directories: u32,
    pub(crate) dirty: bool,
}

pub(crate) struct Bitmaps {
    pub(crate) blocks: Bitmap,
    pub(crate) inodes: Bitmap,
}

/// Blocks and inodes that no longer belong to anybody, but may still do so on the disk.
#[derive(Default)]
pub(crate) struct Freed {
    pub(crate) blocks: BTreeSet<u32>,
    /// With whether it was a directory.
    pub(crate) inodes: Vec<(u32, bool)>,
}

impl Freed {
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.inodes.is_empty()
    }

    pub(crate) fn extend(&mut self, other: Freed) {
        self.blocks.extend(other.blocks);
        self.inodes.extend(other.inodes);
    }
}

/// The state of all groups.
#[derive(Default)]
pub(crate) struct Allocator {
    pub(crate) groups: Vec<GroupState>,
    /// Freed since the last commit began.
    pub(crate) freed: Freed,
    /// Nodes without names and users, whose blocks and inodes the next commit frees.
    pub(crate) doomed: Vec<Arc<Node>>,
}

/// The outcome of a search.
enum Search {
    Found(u32),
    /// The bitmaps of this group are needed first.
    Load(u32),
    Full,
}

impl Allocator {
    pub(crate) fn new(geometry: &Geometry) -> Allocator {
        let state = |group: &crate::geometry::Group| GroupState {
            bitmaps: None,
            blocks_free: u32::from(group.blocks_free),
            inodes_free: u32::from(group.inodes_free),
            directories: u32::from(group.directories),
            dirty: false,
        };
        Allocator { groups: geometry.groups.iter().map(state).collect(), freed: Freed::default(), doomed: Vec::new() }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "of a geometry that was checked at mount")]
    fn take_block(&mut self, geometry: &Geometry, goal: u32) -> Search {
        let first = geometry.group_of_block(goal.clamp(geometry.first_data_block, geometry.blocks - 1));
        for step in 0..geometry.group_count {
            let number = (first + step) % geometry.group_count;
            let Some(group) = self.groups.get_mut(number as usize).filter(|group| group.blocks_free > 0) else {
                continue;
            };
            let Some(bitmaps) = &mut group.bitmaps else {
                return Search::Load(number);
            };
            let (start, _) = geometry.group_blocks(number);
            let from = if step == 0 { goal.saturating_sub(start) } else { 0 };
            let Some(bit) = bitmaps.blocks.first_clear(from) else {
                group.blocks_free = 0;
                continue;
            };
            bitmaps.blocks.put(bit, true);
            group.blocks_free = group.blocks_free.saturating_sub(1);
            group.dirty = true;
            return Search::Found(start + bit);
        }
        Search::Full
    }

    #[expect(clippy::arithmetic_side_effects, reason = "of a geometry that was checked at mount")]
    fn take_inode(&mut self, geometry: &Geometry, first: u32, directory: bool) -> Search {
        for step in 0..geometry.group_count {
            let number = (first + step) % geometry.group_count;
            let Some(group) = self.groups.get_mut(number as usize).filter(|group| group.inodes_free > 0) else {
                continue;
            };
            let Some(bitmaps) = &mut group.bitmaps else {
                return Search::Load(number);
            };
            let Some(bit) = bitmaps.inodes.first_clear(0) else {
                group.inodes_free = 0;
                continue;
            };
            bitmaps.inodes.put(bit, true);
            group.inodes_free = group.inodes_free.saturating_sub(1);
            group.directories = group.directories.saturating_add(u32::from(directory));
            group.dirty = true;
            return Search::Found(number * geometry.inodes_per_group + bit + 1);
        }
        Search::Full
    }

    /// Returns the group for a new directory: the emptiest that has inodes.
    fn emptiest(&self) -> u32 {
        let candidates = self.groups.iter().enumerate().filter(|(_, group)| group.inodes_free > 0);
        candidates.max_by_key(|(_, group)| group.blocks_free).map_or(0, |(number, _)| number as u32)
    }

    /// Gives a block back; its group's bitmaps are loaded. False if it was free already: the image is damaged.
    pub(crate) fn release_block(&mut self, geometry: &Geometry, block: u32) -> bool {
        let number = geometry.group_of_block(block);
        let (start, _) = geometry.group_blocks(number);
        let Some(group) = self.groups.get_mut(number as usize) else {
            return false;
        };
        let Some(bitmaps) = &mut group.bitmaps else {
            return false;
        };
        let Some(bit) = block.checked_sub(start) else {
            return false;
        };
        let was_taken = bitmaps.blocks.put(bit, false);
        group.blocks_free = group.blocks_free.saturating_add(u32::from(was_taken));
        group.dirty = true;
        was_taken
    }

    #[expect(clippy::arithmetic_side_effects, reason = "of a geometry that was checked at mount")]
    pub(crate) fn release_inode(&mut self, geometry: &Geometry, inode: u32, directory: bool) -> bool {
        let index = inode.saturating_sub(1);
        let Some(group) = self.groups.get_mut((index / geometry.inodes_per_group) as usize) else {
            return false;
        };
        let Some(bitmaps) = &mut group.bitmaps else {
            return false;
        };
        let was_taken = bitmaps.inodes.put(index % geometry.inodes_per_group, false);
        group.inodes_free = group.inodes_free.saturating_add(u32::from(was_taken));
        group.directories = group.directories.saturating_sub(u32::from(directory));
        group.dirty = true;
        was_taken
    }
}

impl Ext2 {
    /// Takes a free block near `goal`. The caller makes something point to it before it waits, or holds it in a [`Taken`].
    pub(crate) async fn take_block(&'static self, goal: u32) -> Result<u32, FileError> {
        loop {
            let search = self.allocator.lock().take_block(&self.geometry, goal);
            match search {
                Search::Found(block) => {
                    self.note_change();
                    return Ok(block);
                }
                Search::Load(group) => self.load_group(group).await?,
                Search::Full => return Err(FileError::NoSpace),
            }
        }
    }

    /// Takes a free inode: of a file near its directory, of a directory if there is most room.
    pub(crate) async fn take_inode(&'static self, parent: u64, directory: bool) -> Result<Taken, FileError> {
        let near = self.geometry.group_of_inode(parent as u32);
        loop {
            let search = {
                let mut allocator = self.allocator.lock();
                let first = if directory { allocator.emptiest() } else { near };
                allocator.take_inode(&self.geometry, first, directory)
            };
            match search {
                Search::Found(inode) => {
                    self.note_change();
                    return Ok(Taken { file_system: self, inode, directory, block: None, kept: false });
                }
                Search::Load(group) => self.load_group(group).await?,
                Search::Full => return Err(FileError::NoSpace),
            }
        }
    }

    /// Reads the bitmaps of a group. Bits of the group's own parts count as taken, even if the disk says otherwise.
    #[expect(clippy::arithmetic_side_effects, reason = "of a geometry that was checked at mount")]
    pub(crate) async fn load_group(&'static self, number: u32) -> Result<(), FileError> {
        let group = *self.geometry.groups.get(number as usize).ok_or(FileError::Damaged)?;
        if self.allocator.lock().groups.get(number as usize).is_some_and(|state| state.bitmaps.is_some()) {
            return Ok(());
        }
        let (start, end) = self.geometry.group_blocks(number);
        let mut blocks = Bitmap::decode(&self.read_raw(group.block_bitmap).await?, end - start);
        let mut inodes = Bitmap::decode(&self.read_raw(group.inode_bitmap).await?, self.geometry.inodes_per_group);
        (start..end)
            .filter(|block| !self.geometry.is_data_block(*block))
            .for_each(|block| _ = blocks.put(block - start, true));
        let reserved = if number == 0 { self.geometry.first_inode - 1 } else { 0 };
        (0..reserved).for_each(|bit| _ = inodes.put(bit, true));
        let mut allocator = self.allocator.lock();
        if let Some(state) = allocator.groups.get_mut(number as usize).filter(|state| state.bitmaps.is_none()) {
            (state.blocks_free, state.inodes_free) = (blocks.count_clear(), inodes.count_clear());
            state.bitmaps = Some(Bitmaps { blocks, inodes });
        }
        Ok(())
    }

    /// Returns a block past the cache.
    async fn read_raw(&'static self, block: u32) -> Result<Vec<u8>, FileError> {
        let payer = self.payer_of(block);
        let page = in_name_of(payer, Page::zeroed).map_err(|_| FileError::OutOfMemory)?;
        let view = Bytes::new(page, 0, self.geometry.block_bytes);
        let call = in_name_of(payer, || self.disk.read(self.sector(block), vec![view]));
        let views = call.await.map_err(from_block)?;
        Ok(views.first().map_or(&[][..], Bytes::as_slice).to_vec())
    }

    /// Frees a block of a node, as [`Ext2::free_block`] does; one that the reaper takes can be used as soon as its
    /// commit is done.
    pub(crate) fn free_block_of(&self, node: &Node, block: u32) -> bool {
        if !node.reaping.load(Ordering::Acquire) {
            return self.free_block(block);
        }
        self.forget_block(block);
        self.reaped.lock().insert(block)
    }

    fn forget_block(&self, block: u32) {
        self.metadata.lock().blocks.remove(&block);
        let number = u64::from(block);
        self.cache.forget(self.file_system, crate::metadata::DEVICE_NODE, number, number + 1);
    }

    /// Frees a block. Returns false if it was free before: the image is damaged.
    pub(crate) fn free_block(&self, block: u32) -> bool {
        self.forget_block(block);
        self.note_change();
        self.allocator.lock().freed.blocks.insert(block)
    }
}

/// An inode (and a first block) that nothing points to yet. Dropped before [`Taken::keep`], it is free again.
pub(crate) struct Taken {
    file_system: &'static Ext2,
    pub(crate) inode: u32,
    directory: bool,
    pub(crate) block: Option<u32>,
    kept: bool,
}

impl Taken {
    /// Keeps it, since something points to it now.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        if let Some(block) = self.block {
            self.file_system.free_block(block);
        }
        self.file_system.allocator.lock().freed.inodes.push((self.inode, self.directory));
        self.file_system.note_change();
    }
}
