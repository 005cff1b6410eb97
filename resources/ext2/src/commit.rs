//! Bringing metadata to the disk in an order that e2fsck can repair, even if the machine stops at any time.
//!
//! ```text
//!   gather      doomed nodes and freed blocks; copies of directories with their order, in one moment; inodes into their tables;
//!               copies of tables, of indirect blocks and new directories, of bitmaps: in this order, so that all that a copy refers to
//!               is in a later copy
//!   contents    pages of files that got blocks, blocks that are new, bitmaps            then flush
//!   early       indirect blocks that the disk knows                                     then flush
//!   inodes      tables                                                                  then flush
//!   names       directories; of a moved name the sector of the new place first          then flush
//!   reap        doomed inodes are cleared                                               then flush
//!   release     freed blocks and inodes may be used again
//! ```
//!
//! Counts of free blocks and inodes, in descriptors and superblock, are not part of it: e2fsck counts anew. They
//! follow when everything is made durable or the background cleans up, so that a sync of one file does not pay for
//! them.
//!
//! On the disk a bitmap never calls free what an inode uses, an inode never leads to missing blocks, a name never
//! leads to a missing inode, and nothing has two owners. One commit runs at a time; a caller that asks while one runs
//! gets the next. A commit that is killed or fails puts everything back as it was: dirty.

use crate::Ext2;
use crate::allocate::Freed;
use crate::metadata::{Class, Metadata};
use crate::node::Node;
use crate::shared::in_name_of;
use crate::tables::Mark;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_account::ActivityId;
use gyre_interface::files::FileError;
use gyre_object::{Bytes, Page};

/// The work of a commit, until it is done.
pub(crate) struct Commit {
    pub(crate) file_system: &'static Ext2,
    since: Option<(u64, ActivityId)>,
    doomed: Vec<Arc<Node>>,
    freed: Freed,
    pub(crate) ordered: BTreeSet<u64>,
    pub(crate) order: BTreeSet<(u64, u64)>,
    /// Live pages with their class, to be dirty again, and the copies that are written.
    pub(crate) taken: Vec<(u32, Class, Page, Page)>,
    pub(crate) bitmaps: Vec<(u32, Page)>,
    groups: Vec<u32>,
    pub(crate) unflushed: bool,
}

impl Ext2 {
    /// Makes all changes of metadata durable that were made before the call.
    pub(crate) async fn commit(&'static self) -> Result<(), FileError> {
        let wanted = self.commits_begun.load(Ordering::Acquire).saturating_add(1);
        let _guard = self.commit_lock.exclusive().await;
        if self.commits_done.load(Ordering::Acquire) >= wanted {
            return Ok(());
        }
        if self.unmounted.load(Ordering::Acquire) {
            return Err(FileError::ReadOnly);
        }
        let number = self.commits_begun.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        let mut commit = Commit::new(self);
        commit.run().await.inspect_err(|error| self.commit_failed(*error))?;
        self.commits_done.store(number, Ordering::Release);
        Ok(())
    }

    fn commit_failed(&self, error: FileError) {
        if matches!(error, FileError::Io | FileError::Damaged) && !self.read_only.swap(true, Ordering::AcqRel) {
            log::error!(
                "ext2 {}: metadata cannot be written ({error:?}): the file system takes no changes from now on",
                self.file_system
            );
        }
    }

    /// Returns whether a commit would find something to do.
    pub(crate) fn has_changes(&self) -> bool {
        self.metadata.lock().since.is_some()
    }

    pub(crate) async fn write_page(&'static self, block: u32, page: &Page) -> Result<(), FileError> {
        let view = || [Bytes::new(page.clone(), 0, self.geometry.block_bytes)].into();
        let send = || in_name_of(self.payer_of(block), || self.disk.write(self.sector(block), view()));
        if send().await.is_ok() {
            return Ok(());
        }
        send().await.map_err(|error| self.failed(error))
    }
}

impl Commit {
    /// Takes everything freed and doomed so far: the removals are in all later copies.
    fn new(file_system: &'static Ext2) -> Commit {
        let (doomed, freed) = {
            let mut allocator = file_system.allocator.lock();
            (core::mem::take(&mut allocator.doomed), core::mem::take(&mut allocator.freed))
        };
        let since = file_system.metadata.lock().since.take();
        Commit {
            file_system,
            since,
            doomed,
            freed,
            ordered: BTreeSet::new(),
            order: BTreeSet::new(),
            taken: Vec::new(),
            bitmaps: Vec::new(),
            groups: Vec::new(),
            unflushed: false,
        }
    }

    async fn run(&mut self) -> Result<(), FileError> {
        if self.since.is_none() {
            return self.file_system.disk.flush().await.map_err(|error| self.file_system.failed(error));
        }
        self.gather().await?;
        self.mark_unclean().await?;
        self.write_contents().await?;
        self.write_class(Class::is_fresh).await?;
        self.write_bitmaps().await?;
        for class in [Class::Early, Class::Inodes] {
            if self.has(class) {
                self.flush().await?;
                self.write_class(|of| of == class).await?;
            }
        }
        self.write_names().await?;
        self.taken.clear();
        (self.ordered, self.order) = (BTreeSet::new(), BTreeSet::new());
        self.bitmaps.clear();
        self.groups.clear();
        self.reap().await?;
        // The flush is needed even if nothing of this was written: the syncing caller has written contents before.
        self.file_system.disk.flush().await.map_err(|error| self.file_system.failed(error))?;
        self.release().await?;
        self.since = None;
        Ok(())
    }

    async fn gather(&mut self) -> Result<(), FileError> {
        let file_system = self.file_system;
        // No copy leads to a block whose contents are gone, and no inode is shorter than its blocks.
        let _guard = file_system.after_cuts().await;
        self.copy_names()?;
        file_system.encode_inodes().await?;
        self.copy(|class| class == Class::Inodes)?;
        self.take_ordered();
        self.copy(|class| class <= Class::Early)?;
        self.copy_bitmaps()
    }

    /// Takes on the nodes whose contents go first. Until that is done, a caller that cuts one of them writes them
    /// (see `begin_cut`).
    fn take_ordered(&mut self) {
        let mut metadata = self.file_system.metadata.lock();
        self.ordered = core::mem::take(&mut metadata.ordered);
        metadata.owed = self.ordered.clone();
    }

    /// Copies all changed names with their order in one step: a name that moves is in this commit at both places or
    /// at none.
    fn copy_names(&mut self) -> Result<(), FileError> {
        let mut metadata = self.file_system.metadata.lock();
        self.copy_from(&mut metadata, Class::holds_names)?;
        self.order = core::mem::take(&mut metadata.order);
        Ok(())
    }

    /// Copies the dirty blocks of a class; they are clean from here on.
    fn copy(&mut self, which: impl Fn(Class) -> bool) -> Result<(), FileError> {
        let file_system = self.file_system;
        self.copy_from(&mut file_system.metadata.lock(), which)
    }

    fn copy_from(&mut self, metadata: &mut Metadata, which: impl Fn(Class) -> bool) -> Result<(), FileError> {
        let file_system = self.file_system;
        let blocks: Vec<u32> =
            metadata.blocks.iter().filter(|(_, dirty)| which(dirty.class)).map(|(block, _)| *block).collect();
        for block in blocks {
            let Some(dirty) = metadata.blocks.get(&block) else {
                continue;
            };
            let copied = in_name_of(file_system.payer_of(block), || dirty.page.copy());
            let copy = copied.map_err(|_| FileError::OutOfMemory)?;
            let Some(dirty) = metadata.blocks.remove(&block) else {
                continue;
            };
            self.taken.push((block, dirty.class, dirty.page, copy));
        }
        Ok(())
    }

    fn copy_bitmaps(&mut self) -> Result<(), FileError> {
        let payer = self.file_system.tables_payer();
        let mut allocator = self.file_system.allocator.lock();
        for (number, group) in allocator.groups.iter_mut().enumerate().filter(|(_, group)| group.dirty) {
            let (Some(bitmaps), Some(place)) = (&group.bitmaps, self.file_system.geometry.groups.get(number)) else {
                continue;
            };
            for (block, bits) in [(place.block_bitmap, &bitmaps.blocks), (place.inode_bitmap, &bitmaps.inodes)] {
                let page = in_name_of(payer, Page::zeroed).map_err(|_| FileError::OutOfMemory)?;
                page.write(0, &bits.encode());
                self.bitmaps.push((block, page));
            }
            group.dirty = false;
            self.groups.push(number as u32);
        }
        Ok(())
    }

    fn has(&self, class: Class) -> bool {
        self.taken.iter().any(|(_, of, ..)| *of == class)
    }

    pub(crate) async fn flush(&mut self) -> Result<(), FileError> {
        if core::mem::take(&mut self.unflushed) {
            self.file_system.disk.flush().await.map_err(|error| self.file_system.failed(error))?;
        }
        Ok(())
    }

    /// Writes to the disk that the file system is in use; the first commit after mounting does so.
    async fn mark_unclean(&mut self) -> Result<(), FileError> {
        if self.file_system.marked_unclean.load(Ordering::Acquire) {
            return Ok(());
        }
        self.file_system.write_superblock(Mark::InUse).await?;
        self.file_system.marked_unclean.store(true, Ordering::Release);
        self.unflushed = true;
        Ok(())
    }

    /// Frees the blocks of doomed nodes and clears their inodes, now that no name leads there on the disk.
    async fn reap(&mut self) -> Result<(), FileError> {
        if self.doomed.is_empty() && self.file_system.reaped.lock().is_empty() {
            return Ok(());
        }
        self.flush().await?;
        let file_system = self.file_system;
        while let Some(node) = self.doomed.last().cloned() {
            match file_system.reap_node(&node).await {
                Ok(true) => {
                    self.freed.inodes.push((node.id as u32, node.kind == gyre_interface::files::NodeKind::Directory))
                }
                // A reader still uses it: the next commit tries again.
                Ok(false) => file_system.doom(node),
                Err(FileError::Damaged) => {
                    log::warn!(
                        "ext2 {}: node {} is damaged and its blocks are not freed: run e2fsck on its disk",
                        file_system.file_system,
                        node.id
                    )
                }
                Err(error) => return Err(error),
            }
            self.doomed.pop();
        }
        // Their blocks were freed while this commit ran; the inodes that held them are cleared with it.
        self.copy(|class| class == Class::Inodes)?;
        self.write_class(|class| class == Class::Inodes).await?;
        self.flush().await?;
        self.taken.clear();
        self.freed.blocks.append(&mut file_system.reaped.lock());
        Ok(())
    }

    /// Makes freed blocks and inodes available.
    async fn release(&mut self) -> Result<(), FileError> {
        let file_system = self.file_system;
        let groups: BTreeSet<u32> =
            self.freed.blocks.iter().map(|block| file_system.geometry.group_of_block(*block)).collect();
        for group in groups {
            file_system.load_group(group).await?;
        }
        for (inode, _) in &self.freed.inodes {
            file_system.load_group(file_system.geometry.group_of_inode(*inode)).await?;
        }
        let freed = core::mem::take(&mut self.freed);
        if !freed.is_empty() {
            file_system.release(freed);
        }
        file_system.counts_stale.store(true, Ordering::Release);
        Ok(())
    }
}

impl Drop for Commit {
    /// Puts back the work that was not done.
    fn drop(&mut self) {
        let Some(since) = self.since else { return };
        let file_system = self.file_system;
        {
            let mut metadata = file_system.metadata.lock();
            metadata.since = metadata.since.or(Some(since));
            for (block, class, page, _) in self.taken.drain(..) {
                let again = crate::metadata::DirtyBlock { class, page };
                let dirty = metadata.blocks.entry(block).or_insert(again);
                dirty.class = dirty.class.min(class);
            }
            metadata.ordered.append(&mut self.ordered);
            metadata.owed.clear();
            metadata.order.append(&mut self.order);
        }
        let mut allocator = file_system.allocator.lock();
        for group in self.groups.drain(..) {
            if let Some(group) = allocator.groups.get_mut(group as usize) {
                group.dirty = true;
            }
        }
        allocator.doomed.append(&mut self.doomed);
        allocator.freed.extend(core::mem::take(&mut self.freed));
        drop(allocator);
        file_system.metadata_changed.wake_all();
    }
}
