//! Taking blocks away from files, in bounded steps.
//!
//! A file is first made shorter (its size is set and `trim` marked), then the blocks behind its end are freed; a task
//! that is killed between leaves the mark, and the next user finishes. Commits and cuts exclude each other by
//! `cut_lock`: (1) a cut holds it shared; (2) contents that a running commit still owes are written before a pointer
//! to them is cut ([`Ext2::begin_cut`]); (3) a commit takes it exclusively while it copies ([`Ext2::after_cuts`]).
//! Freed blocks are used again only after a commit.
//!
//! Depth of a walk is bounded by the three levels of indirect blocks, its length by [`Walk`]: a tree with more
//! pointers than the device has blocks is damaged, and that is the answer.

use crate::Ext2;
use crate::change::now_ns;
use crate::inode::POINTERS;
use crate::lock::LockGuard;
use crate::map::DIRECT;
use crate::metadata::Class;
use crate::node::Node;
use crate::read::{clear_behind, pages};
use crate::write_back::BATCH_PAGES;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::Ordering;
use gyre_file_cache::Begin;
use gyre_interface::files::FileError;
use gyre_machine::PAGE_BYTES;
use gyre_object::Page;

const PAGE: u64 = PAGE_BYTES as u64;

/// Indirect blocks after which a long walk lets others go first.
const BLOCKS_PER_TURN: u32 = 16;

/// Bounds a walk: no tree has more pointers than the device has blocks, or it has cycles.
struct Walk {
    pointers_left: u32,
    blocks: u32,
}

impl Walk {
    /// Counts one more pointer that leads somewhere.
    fn step(&mut self) -> Result<(), FileError> {
        self.pointers_left = self.pointers_left.checked_sub(1).ok_or(FileError::Damaged)?;
        Ok(())
    }

    /// Counts one more indirect block; returns whether other work should go first.
    fn enter(&mut self) -> bool {
        self.blocks = self.blocks.wrapping_add(1);
        self.blocks.is_multiple_of(BLOCKS_PER_TURN)
    }
}

impl Ext2 {
    /// Sets the size of a file; longer ones get a hole. The caller holds the lock exclusively.
    pub(crate) async fn resize(&'static self, node: &Node, size: u64) -> Result<(), FileError> {
        self.finish_trim(node).await?;
        let before = node.size();
        if size > self.size_max() {
            return Err(FileError::TooLarge);
        }
        if size > before {
            self.clear_tail(node, before).await?;
        }
        if size >= before {
            self.set_size(node, size);
            return Ok(());
        }
        let _guard = self.begin_cut(node).await?;
        self.clear_tail(node, size).await?;
        self.cache.forget(self.file_system, node.id, pages(size), pages(before));
        // From here on the blocks behind the end have no owner; a task that is killed before they are freed leaves
        // the mark.
        node.trim.store(true, Ordering::Release);
        self.set_size(node, size);
        self.trim(node).await
    }

    /// Takes the right to cut blocks away from a node, whose lock the caller holds exclusively. A commit may have
    /// copied pointers without having written the contents yet; it would then write pointers to old contents. So
    /// these contents are written first. No commit copies while the guard is held.
    pub(crate) async fn begin_cut(&'static self, node: &Node) -> Result<LockGuard<'static>, FileError> {
        let guard = self.cut_lock.shared().await;
        if let Some(me) = node.me.upgrade().filter(|_| self.metadata.lock().owed.contains(&node.id)) {
            while self.write_some_held(core::slice::from_ref(&me), 0, BATCH_PAGES).await? {}
        }
        Ok(guard)
    }

    fn set_size(&self, node: &Node, size: u64) {
        let now = now_ns();
        self.change(node, |inode| {
            inode.size = size;
            (inode.modified_ns, inode.changed_ns) = (now, now);
        });
    }

    /// Returns the largest size of a file: as far as the pointers reach and the count of sectors can say.
    #[expect(clippy::arithmetic_side_effects, reason = "three levels of at most 1024 pointers")]
    pub(crate) fn size_max(&self) -> u64 {
        let base = self.pointers_per_block();
        let blocks = DIRECT as u64 + base + base * base + base * base * base;
        let sectors_max = u64::from(u32::MAX) * gyre_interface::block::SECTOR_BYTES as u64;
        (blocks * self.geometry.block_bytes as u64).min(sectors_max)
    }

    /// Zeroes the rest of the page in which `end` lies, so that a longer file shows zeros there.
    pub(crate) async fn clear_tail(&'static self, node: &Node, end: u64) -> Result<(), FileError> {
        if end.is_multiple_of(PAGE_BYTES as u64) {
            return Ok(());
        }
        let index = end / PAGE;
        let page = self.page_to_change(node, index).await?;
        clear_behind(&page, index, end);
        let first = self.first_block_of(index);
        let mapped = self.map_run(node, first, self.blocks_per_page() as usize).await?;
        if mapped.iter().any(|block| *block != 0) {
            self.cache.mark_dirty(self.page_key(node.id, index));
        }
        Ok(())
    }

    /// Returns a page of a file as it is on the disk, which is lent to nobody. The caller holds the lock exclusively, so that it stays so.
    pub(crate) async fn page_to_change(&'static self, node: &Node, index: u64) -> Result<Page, FileError> {
        loop {
            let begin = self.cache.begin(self.page_key(node.id, index));
            match begin.map_err(|_| FileError::OutOfMemory)? {
                Begin::Here(page) => {
                    // Not counted among those who have it.
                    drop(page);
                    let key = self.page_key(node.id, index);
                    if let Some(page) = self.cache.write(key).map_err(|_| FileError::OutOfMemory)? {
                        return Ok(page);
                    }
                }
                Begin::Wait(waiting) => waiting.done().await,
                Begin::Lead(fetch) if index >= pages(node.size()) => return Ok(fetch.done()),
                // Somebody may have been lent it before we come to look again.
                Begin::Lead(fetch) => drop(self.fill(node, [fetch].into()).await?),
            }
        }
    }

    /// Frees the blocks behind the end, if that is still to be done. The caller holds the lock exclusively.
    pub(crate) async fn finish_trim(&'static self, node: &Node) -> Result<(), FileError> {
        if !node.trim.load(Ordering::Acquire) {
            return Ok(());
        }
        let _guard = self.cut_lock.shared().await;
        self.trim(node).await
    }

    /// Waits until no task cuts, and finishes the cuts of killed tasks as far as the device allows. No file is cut
    /// while the guard is held. The caller holds no file's lock.
    pub(crate) async fn after_cuts(&'static self) -> LockGuard<'static> {
        self.finish_cuts().await;
        let guard = self.cut_lock.exclusive().await;
        if self.cut_halfway().is_empty() {
            return guard;
        }
        drop(guard);
        // A task was killed just now.
        self.finish_cuts().await;
        self.cut_lock.exclusive().await
    }

    /// Frees the blocks behind the end of files whose size is changed and not written yet.
    async fn finish_cuts(&'static self) {
        for node in self.cut_halfway() {
            let _guard = node.lock.exclusive().await;
            if let Err(error) = self.finish_trim(&node).await {
                log::warn!(
                    "ext2 {}: blocks behind the end of node {} cannot be freed now ({error:?})",
                    self.file_system,
                    node.id
                );
            }
        }
    }

    fn cut_halfway(&self) -> Vec<Arc<Node>> {
        let metadata = self.metadata.lock();
        metadata.nodes.values().filter(|node| node.trim.load(Ordering::Acquire)).cloned().collect()
    }

    async fn trim(&'static self, node: &Node) -> Result<(), FileError> {
        let first = node.size().div_ceil(self.geometry.block_bytes as u64);
        let result = self.free_from(node, first).await;
        if !matches!(result, Err(FileError::Io | FileError::OutOfMemory)) {
            node.trim.store(false, Ordering::Release);
        }
        result
    }

    /// Frees the blocks of a node from `first` on.
    #[expect(clippy::arithmetic_side_effects, reason = "three levels of at most 1024 pointers")]
    pub(crate) async fn free_from(&'static self, node: &Node, first: u64) -> Result<(), FileError> {
        let mut walk = Walk { pointers_left: self.geometry.blocks, blocks: 0 };
        let base = self.pointers_per_block();
        for slot in (first.min(DIRECT as u64) as usize)..DIRECT {
            self.free_root(node, slot)?;
        }
        let mut start = DIRECT as u64;
        let mut span = 1;
        for slot in DIRECT..POINTERS {
            span *= base;
            let from = first.saturating_sub(start);
            start += span;
            if from >= span {
                continue;
            }
            let root = self.checked(node.state.lock().inode.pointers.get(slot).copied().unwrap_or(0))?;
            let depth = (slot - DIRECT) as u32;
            if root != 0 && self.prune(node, root, depth, from, &mut walk).await? {
                self.free_root(node, slot)?;
            }
        }
        Ok(())
    }

    /// Clears a pointer of the inode and frees its block.
    pub(crate) fn free_root(&self, node: &Node, slot: usize) -> Result<(), FileError> {
        let sectors = self.geometry.sectors_per_block() as u32;
        let root = node.state.lock().inode.pointers.get(slot).copied().unwrap_or(0);
        if root == 0 {
            return Ok(());
        }
        self.change(node, |inode| {
            inode.pointers.get_mut(slot).into_iter().for_each(|pointer| *pointer = 0);
            inode.sectors = inode.sectors.saturating_sub(sectors);
        });
        let sound = self.checked(root)? != 0 && self.free_block_of(node, root);
        if sound { Ok(()) } else { Err(FileError::Damaged) }
    }

    /// Frees the blocks from `from` on below an indirect block whose pointers lead `depth` levels down; true if nothing is left of it.
    // recursion: at most 3, because the inode's last pointer is triply indirect and `depth` falls
    #[expect(clippy::arithmetic_side_effects, reason = "three levels of at most 1024 pointers")]
    fn prune<'a>(
        &'static self,
        node: &'a Node,
        block: u32,
        depth: u32,
        from: u64,
        walk: &'a mut Walk,
    ) -> Pin<Box<dyn Future<Output = Result<bool, FileError>> + 'a>> {
        Box::pin(async move {
            if walk.enter() {
                gyre_message::yield_now().await;
            }
            let page = self.block(block).await?;
            let base = self.pointers_per_block();
            let span = base.pow(depth);
            for slot in from / span..base {
                let child = self.checked(self.pointer(&page, slot as usize))?;
                if child == 0 {
                    continue;
                }
                walk.step()?;
                let below = from.saturating_sub(slot * span);
                if depth > 0 && !self.prune(node, child, depth - 1, below, walk).await? {
                    continue;
                }
                self.clear_pointer(node, (block, &page), slot as usize);
                if !self.free_block_of(node, child) {
                    return Err(FileError::Damaged);
                }
            }
            Ok(from == 0)
        })
    }

    pub(crate) fn clear_pointer(&self, node: &Node, (block, page): (u32, &Page), slot: usize) {
        let sectors = self.geometry.sectors_per_block() as u32;
        page.write(crate::map::place_of(slot), &[0; 4]);
        self.touch(block, page, Class::Early);
        self.change(node, |inode| inode.sectors = inode.sectors.saturating_sub(sectors));
    }
}
