//! Writing inodes into their tables, clearing those of freed nodes, and the counts in descriptors and superblock.
//!
//! ```text
//!   group descriptor (32 bytes): block bitmap, inode bitmap, inode table, counts of free blocks, inodes, directories
//! ```
//!
//! Called by a commit ([`crate::commit`]), in its order: [`Ext2::encode_inodes`] copies changed inodes into cached
//! blocks of their tables, [`Ext2::reap_node`] frees a doomed node, [`Ext2::release`] makes freed blocks usable.
//! Counts ([`Ext2::write_counts`]) follow only when everything is made durable. A step that fails puts its nodes back
//! among the changed ones.

use crate::Ext2;
use crate::allocate::Freed;
use crate::change::now_ns;
use crate::geometry::{
    COMPAT_EXTENDED_ATTRIBUTES, DESCRIPTOR_BYTES, RO_COMPAT_LARGE_FILE, STATE_VALID, SUPERBLOCK_OFFSET, field,
};
use crate::inode::ATTRIBUTES_MAGIC;
use crate::metadata::Class;
use crate::node::{Node, State};
use crate::raw::{put_u16, put_u32, u16_at, u32_at};
use alloc::sync::Arc;
use alloc::vec;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_interface::files::FileError;
use gyre_object::Page;

/// Bytes that fields behind the first 128 use in inodes made here: up to the creation time.
pub(crate) const EXTRA_BYTES: u16 = 32;
/// Largest size that does not need the feature for large files.
const SMALL_FILE_MAX: u64 = 0x7fff_ffff;

/// A flag that is set again when this is dropped, unless it was taken out.
struct Again<'a>(Option<&'a AtomicBool>);

impl Drop for Again<'_> {
    fn drop(&mut self) {
        self.0.inspect(|flag| flag.store(true, Ordering::Release));
    }
}

/// The mark of a file system on its disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    /// All is written, and e2fsck need not look.
    Clean,
    /// It is in use.
    InUse,
}

impl Ext2 {
    /// Writes all changed inodes into the blocks of their tables.
    pub(crate) async fn encode_inodes(&'static self) -> Result<(), FileError> {
        let mut from = 0;
        loop {
            let next = self.metadata.lock().nodes.range(from..).next().map(|(id, node)| (*id, node.clone()));
            let Some((id, node)) = next else {
                return Ok(());
            };
            from = id.saturating_add(1);
            let (block, offset) = self.geometry.inode_place(id).ok_or(FileError::Damaged)?;
            let page = self.block(block).await?;
            self.metadata.lock().nodes.remove(&id);
            let mut state = node.state.lock();
            // On the disk a deleted node keeps its link until its name is gone there; the reaper clears it.
            if state.deleted {
                // With a name again it is changed, and noted, anew.
                state.dirty = false;
                continue;
            }
            self.encode(&mut state, &page, offset);
            drop(state);
            self.touch(block, &page, Class::Inodes);
        }
    }

    fn encode(&self, state: &mut State, page: &Page, offset: usize) {
        let mut raw = vec![0; self.geometry.inode_bytes];
        if core::mem::take(&mut state.fresh) {
            if raw.len() > 128 {
                put_u16(&mut raw, 128, EXTRA_BYTES);
            }
        } else {
            page.read(offset, &mut raw);
        }
        if state.inode.size > SMALL_FILE_MAX {
            self.large_files.store(true, Ordering::Relaxed);
        }
        state.inode.encode(&mut raw);
        state.dirty = false;
        page.write(offset, &raw);
    }

    /// Frees the blocks of a node and clears its inode; false if it is still in use.
    pub(crate) async fn reap_node(&'static self, node: &Arc<Node>) -> Result<bool, FileError> {
        let Some(_guard) = node.lock.try_exclusive() else {
            return Ok(false);
        };
        if node.state.lock().opens > 0 {
            return Ok(false);
        }
        self.cache.forget(self.file_system, node.id, 0, u64::MAX);
        let (block, offset) = self.geometry.inode_place(node.id).ok_or(FileError::Damaged)?;
        let page = self.block(block).await?;
        node.reaping.store(true, Ordering::Release);
        let inode = node.state.lock().inode.clone();
        let mut result = Ok(());
        if inode.has_blocks(self.geometry.sectors_per_block()) {
            result = self.free_from(node, 0).await;
        }
        if result.is_ok() && inode.attributes_block != 0 {
            result = self.release_attributes(node, inode.attributes_block).await;
        }
        if !matches!(result, Ok(()) | Err(FileError::Damaged)) {
            return result.map(|()| false);
        }
        let mut state = node.state.lock();
        state.inode.deleted_seconds = (now_ns() / 1_000_000_000) as u32;
        (state.inode.links, state.inode.size, state.inode.sectors) = (0, 0, 0);
        self.encode(&mut state, &page, offset);
        drop(state);
        self.touch(block, &page, Class::Inodes);
        self.forget_node(node.id);
        result.map(|()| true)
    }

    /// Removes one user of a block of extended attributes and frees it with the last one.
    pub(crate) async fn release_attributes(&'static self, node: &Node, block: u32) -> Result<(), FileError> {
        if self.checked(block)? == 0 {
            return Err(FileError::Damaged);
        }
        let page = self.block(block).await?;
        let users = self.pointer(&page, 1);
        if self.pointer(&page, 0) != ATTRIBUTES_MAGIC {
            return Err(FileError::Damaged);
        }
        if let Some(left) = users.checked_sub(1).filter(|left| *left > 0) {
            page.write(4, &left.to_le_bytes());
            self.touch(block, &page, Class::Early);
            return Ok(());
        }
        if self.free_block_of(node, block) { Ok(()) } else { Err(FileError::Damaged) }
    }

    /// Forgets a node that is gone.
    pub(crate) fn forget_node(&self, id: u64) {
        self.nodes.remove_if(&id, |_, _| true);
        self.metadata.lock().nodes.remove(&id);
    }

    /// Makes freed blocks and inodes available. The groups' bitmaps are loaded.
    pub(crate) fn release(&self, freed: Freed) {
        let mut allocator = self.allocator.lock();
        let mut sound = true;
        for block in freed.blocks {
            sound &= allocator.release_block(&self.geometry, block);
        }
        for (inode, directory) in freed.inodes {
            sound &= allocator.release_inode(&self.geometry, inode, directory);
        }
        drop(allocator);
        if !sound {
            log::warn!(
                "ext2 {}: a block or inode was freed twice, so the image is damaged: run e2fsck on its disk",
                self.file_system
            );
        }
        self.note_change();
    }

    /// Writes the counts of free blocks and inodes, if a commit may have changed them; nothing after the unmounting, which has done so.
    pub(crate) async fn write_counts(&'static self) -> Result<(), FileError> {
        let _guard = self.commit_lock.exclusive().await;
        if self.unmounted.load(Ordering::Acquire) {
            return Ok(());
        }
        if !self.counts_stale.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        // Also if this is killed halfway.
        let mut again = Again(Some(&self.counts_stale));
        self.write_descriptors().await?;
        self.write_superblock(Mark::InUse).await?;
        again.0 = None;
        Ok(())
    }

    /// Writes the counts of the groups in which they changed.
    pub(crate) async fn write_descriptors(&'static self) -> Result<(), FileError> {
        let per_block = self.geometry.block_bytes / DESCRIPTOR_BYTES;
        for index in 0..self.geometry.descriptor_blocks() {
            let block = self.geometry.descriptors_start().saturating_add(index);
            let page = self.block(block).await?;
            let mut raw = self.copy_of(&page);
            let changed = self.encode_descriptors(&mut raw, (index as usize).saturating_mul(per_block));
            if changed {
                page.write(0, &raw);
                self.write_page(block, &page).await?;
            }
        }
        Ok(())
    }

    fn encode_descriptors(&self, raw: &mut [u8], first: usize) -> bool {
        let allocator = self.allocator.lock();
        let mut changed = false;
        for (descriptor, group) in raw.chunks_mut(DESCRIPTOR_BYTES).zip(allocator.groups.iter().skip(first)) {
            let counts = [(12, group.blocks_free), (14, group.inodes_free), (16, group.directories)];
            for (offset, count) in counts {
                let count = count.min(u32::from(u16::MAX)) as u16;
                changed |= u16_at(descriptor, offset) != count;
                put_u16(descriptor, offset, count);
            }
        }
        changed
    }

    /// Writes the counts and the state of the file system.
    pub(crate) async fn write_superblock(&'static self, mark: Mark) -> Result<(), FileError> {
        let block = self.geometry.first_data_block;
        let offset = if self.geometry.first_data_block == 0 { SUPERBLOCK_OFFSET } else { 0 };
        let page = self.block(block).await?;
        let mut raw = self.copy_of(&page);
        let (blocks_free, inodes_free) = self.free_counts();
        let superblock = raw.get_mut(offset..).unwrap_or(&mut []);
        put_u32(superblock, field::BLOCKS_FREE, blocks_free);
        put_u32(superblock, field::INODES_FREE, inodes_free);
        put_u32(superblock, field::WRITTEN_AT, (now_ns() / 1_000_000_000) as u32);
        let state = match mark {
            Mark::Clean => self.geometry.state,
            Mark::InUse => self.geometry.state & !STATE_VALID,
        };
        put_u16(superblock, field::STATE, state);
        if self.large_files.load(Ordering::Relaxed) {
            let features = u32_at(superblock, field::RO_COMPAT);
            put_u32(superblock, field::RO_COMPAT, features | RO_COMPAT_LARGE_FILE);
        }
        if self.has_extended.load(Ordering::Relaxed) {
            let features = u32_at(superblock, field::COMPAT);
            put_u32(superblock, field::COMPAT, features | COMPAT_EXTENDED_ATTRIBUTES);
        }
        page.write(0, &raw);
        self.write_page(block, &page).await
    }

    /// Returns the numbers of free blocks and inodes.
    pub(crate) fn free_counts(&self) -> (u32, u32) {
        let allocator = self.allocator.lock();
        let sum = |count: fn(&crate::allocate::GroupState) -> u32| {
            allocator.groups.iter().map(count).fold(0, u32::saturating_add)
        };
        (sum(|group| group.blocks_free), sum(|group| group.inodes_free))
    }
}
