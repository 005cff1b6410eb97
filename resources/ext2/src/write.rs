//! Writing files: into the cache now, to the disk by age, by limit, by sync.

use crate::Ext2;
use crate::change::now_ns;
use crate::metadata::from_block;
use crate::node::Node;
use crate::read::{CLUSTER_PAGES, Runs};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_file_cache::Writing;
use gyre_interface::files::{FileError, NodeId, NodeKind};
use gyre_machine::PAGE_BYTES;
use gyre_object::Bytes;

/// Pages that one write-back takes at once.
const BATCH_PAGES: usize = 4 * CLUSTER_PAGES as usize;

impl Ext2 {
    /// Lets a writer go on when its activity has few enough dirty pages; it writes its oldest ones back itself.
    pub(crate) async fn throttle(&'static self) -> Result<(), FileError> {
        while let Some(key) = self.cache.over_dirty_limit(self.file_system) {
            if !self.write_back(key.node, key.index, BATCH_PAGES).await? {
                // Somebody else writes it right now.
                break;
            }
        }
        if self.metadata.lock().blocks.len() > self.dirty_blocks_max {
            self.commit().await?;
        }
        Ok(())
    }

    /// Writes `data` at `offset`; answers the bytes written, fewer where space ran out. The caller holds the gate exclusively.
    pub(crate) async fn write_at(
        &'static self,
        node: &Arc<Node>,
        offset: u64,
        data: &[Bytes],
    ) -> Result<usize, FileError> {
        let total: usize = data.iter().map(Bytes::len).sum();
        let end = offset.checked_add(total as u64).filter(|end| *end <= self.size_max()).ok_or(FileError::TooLarge)?;
        if total == 0 {
            return Ok(0);
        }
        self.finish_trim(node).await?;
        if offset > node.size() {
            self.clear_tail(node, node.size()).await?;
        }
        let mut source = Source { views: data, within: 0 };
        let mut at = offset;
        while at < end {
            let count = (PAGE_BYTES as u64 - at % PAGE_BYTES as u64).min(end - at);
            match self.write_part(node, at, count, &mut source).await {
                Ok(written) => at += written,
                Err(error) if at == offset => return Err(error),
                Err(_) => break,
            }
            if !at.is_multiple_of(PAGE_BYTES as u64) {
                break;
            }
        }
        Ok((at - offset) as usize)
    }

    /// Writes `count` bytes that lie in one page; answers how many, fewer where space ran out.
    async fn write_part(
        &'static self,
        node: &Arc<Node>,
        at: u64,
        count: u64,
        source: &mut Source<'_>,
    ) -> Result<u64, FileError> {
        let index = at / PAGE_BYTES as u64;
        let page = self.page_to_change(node, index).await?;
        let count = match self.ensure_range(node, at, at + count).await {
            (_, Ok(())) => count,
            (end, Err(error)) if end <= at => return Err(error),
            (end, Err(_)) => end - at,
        };
        let mut within = (at % PAGE_BYTES as u64) as usize;
        source.take(count as usize, |part| within += page.write(within, part));
        self.cache.mark_dirty(self.page_key(node.id, index));
        self.wrote_until(node, at + count);
        Ok(count)
    }

    /// The contents up to `end` were changed.
    fn wrote_until(&self, node: &Node, end: u64) {
        let now = now_ns();
        self.change(node, |inode| {
            inode.size = inode.size.max(end);
            (inode.modified_ns, inode.changed_ns) = (now, now);
            // A program that changes loses its privileges (POSIX write): the caller checks permissions, the file system drops the bits.
            if inode.permissions & 0o111 != 0 {
                inode.permissions &= !(0o4000 | if inode.permissions & 0o010 != 0 { 0o2000 } else { 0 });
            }
        });
    }

    /// Takes blocks for the holes among `start..end`, which lie in one page that is in the cache; answers how far it came, too.
    pub(crate) async fn ensure_range(&'static self, node: &Node, start: u64, end: u64) -> (u64, Result<(), FileError>) {
        let block_bytes = self.geometry.block_bytes as u64;
        let key = self.page_key(node.id, start / PAGE_BYTES as u64);
        for index in start / block_bytes..end.div_ceil(block_bytes) {
            let block_end = ((index + 1) * block_bytes).min(end);
            let pointing = || {
                self.cache.mark_dirty(key);
                self.note_ordered(node.id);
                self.change(node, |inode| inode.size = inode.size.max(block_end));
            };
            if let Err(error) = self.ensure(node, index, pointing).await {
                return ((index * block_bytes).max(start), Err(error));
            }
        }
        (end, Ok(()))
    }

    /// A page was written through a mapping: it gets blocks where it has holes, and is dirty.
    pub(crate) async fn dirtied(&'static self, node: &Arc<Node>, index: u64) -> Result<(), FileError> {
        let _pass = node.gate.exclusive().await;
        let key = self.page_key(node.id, index);
        let start = index.saturating_mul(PAGE_BYTES as u64);
        let end = node.size().min(start.saturating_add(PAGE_BYTES as u64));
        // A page that was cut off meanwhile is nobody's any more.
        if start >= end || self.cache.get(key).is_none() {
            return Ok(());
        }
        self.ensure_range(node, start, end).await.1?;
        self.cache.mark_dirty(key);
        self.wrote_until(node, end);
        Ok(())
    }

    /// Writes all pages of a node back that are dirty now, those included that somebody else is writing.
    pub(crate) async fn write_back_all(&'static self, id: u64) -> Result<(), FileError> {
        let Some(node) = self.node_with_pages(id).await? else {
            return Ok(());
        };
        // Writers hold the gate until the device has answered: passing through waits for them.
        drop(node.gate.exclusive().await);
        while self.write_back(id, 0, BATCH_PAGES).await? {}
        drop(node.gate.exclusive().await);
        Ok(())
    }

    /// Writes up to `count` dirty pages of a node back, from a page on; false where there are none. A failure of the device is kept for
    /// who syncs; the pages count as written, so that they do not fill the cache for ever.
    pub(crate) async fn write_back(&'static self, id: u64, from: u64, count: usize) -> Result<bool, FileError> {
        let Some(node) = self.node_with_pages(id).await? else {
            return Ok(false);
        };
        let _pass = node.gate.shared().await;
        let indices = self.cache.dirty_pages(self.page_key(id, from), count);
        let writings: Vec<Writing> =
            indices.iter().filter_map(|index| self.cache.start_writing(self.page_key(id, *index))).collect();
        if writings.is_empty() {
            return Ok(false);
        }
        let runs = self.runs_of(&node, &writings).await?;
        let mut calls = Vec::with_capacity(runs.0.len());
        for run in runs.0 {
            let before = gyre_account::set_current_activity(run.payer);
            calls.push((run.block, run.views.clone(), self.disk.write(self.sector(run.block), run.views)));
            gyre_account::set_current_activity(before);
        }
        for (block, views, call) in calls {
            if call.await.is_err() && self.disk.write(self.sector(block), views).await.map_err(from_block).is_err() {
                node.write_failed.store(true, Ordering::Release);
            }
        }
        writings.into_iter().for_each(Writing::done);
        Ok(true)
    }

    async fn runs_of(&'static self, node: &Node, writings: &[Writing]) -> Result<Runs, FileError> {
        let size = node.size();
        let mut runs = Runs::default();
        for writing in writings {
            let index = writing.key().index;
            let used = self.blocks_until(index, 1, size);
            let blocks = self.map_run(node, index * self.blocks_per_page(), used).await?;
            let parts = self.parts(writing.page());
            blocks.into_iter().zip(parts).for_each(|(block, view)| runs.add(block, view, writing.payer()));
        }
        Ok(runs)
    }

    /// The node of dirty pages, unless it is about to be freed.
    async fn node_with_pages(&'static self, id: u64) -> Result<Option<Arc<Node>>, FileError> {
        match self.node(NodeId(id)).await {
            Ok(node) => Ok(Some(node)),
            Err(FileError::NotFound) => {
                self.cache.forget(self.file_system, id, 0, u64::MAX);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The file behind a node number, to be written.
    pub(crate) async fn file_to_change(&'static self, id: NodeId) -> Result<Arc<Node>, FileError> {
        self.writable()?;
        let node = self.node(id).await?;
        node.expect(NodeKind::File)?;
        Ok(node)
    }
}

/// Data to write, taken in pieces.
struct Source<'a> {
    views: &'a [Bytes],
    within: usize,
}

impl Source<'_> {
    fn take(&mut self, mut count: usize, mut give: impl FnMut(&[u8])) {
        let mut buffer = [0; 1024];
        while count > 0 {
            let Some(view) = self.views.first() else {
                return;
            };
            let (page, start) = view.location();
            let chunk = count.min(view.len() - self.within).min(buffer.len());
            let part = buffer.get_mut(..chunk).unwrap_or(&mut []);
            // Copied through a buffer: the page may be one that others write to meanwhile.
            page.read(start + self.within, part);
            give(part);
            self.within += chunk;
            count -= chunk;
            if self.within >= view.len() {
                self.views = self.views.get(1..).unwrap_or(&[]);
                self.within = 0;
            }
        }
    }
}
