//! Writing files: into the cache now, to the disk by age, by limit, by sync.
//!
//! A write takes blocks for each page, then copies into it and marks it dirty; so no dirty page lacks room on the
//! disk. A page that is overwritten completely is not read first; its readers see it when it is complete. If too much
//! is dirty, the writer writes back or commits itself before it goes on. A page written through a mapping gets its
//! blocks at the first write ([`Ext2::dirtied`]).
//!
//! Order within one page: blocks, contents, mark. A page with contents that are not complete is held by [`Unsure`],
//! which forgets it if the writer is killed or fails. The caller holds the node's lock exclusively and has passed
//! [`Ext2::throttle`] before.

use crate::Ext2;
use crate::change::now_ns;
use crate::node::Node;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_file_cache::{Begin, Fetch, PageKey};
use gyre_interface::files::{FileError, NodeId, NodeKind};
use gyre_machine::PAGE_BYTES;
use gyre_object::Bytes;

const PAGE: u64 = PAGE_BYTES as u64;

impl Ext2 {
    /// Lets a writer go on when its activity has few enough dirty pages; it writes its oldest ones back itself. Usually there is nothing
    /// to do, and nothing is taken from the heap for it.
    pub(crate) async fn throttle(&'static self) -> Result<(), FileError> {
        while self.cache.is_over_dirty_limit() {
            if !Box::pin(self.with_room(async || self.write_oldest_back().await)).await? {
                // Another task writes them right now.
                break;
            }
        }
        self.throttle_metadata().await
    }

    /// Commits if so much metadata is dirty that nodes and blocks could not be evicted any more.
    pub(crate) async fn throttle_metadata(&'static self) -> Result<(), FileError> {
        if self.must_commit() { Box::pin(self.with_room(async || self.commit().await)).await } else { Ok(()) }
    }

    /// Returns whether a task that changes metadata must wait for a commit.
    pub(crate) fn must_commit(&self) -> bool {
        let metadata = self.metadata.lock();
        metadata.blocks.len() > self.dirty_blocks_max || metadata.nodes.len() > self.dirty_nodes_max
    }

    /// Writes `data` at `offset`, from what was `written` of it before on, and counts there what it has written. The caller holds the lock
    /// exclusively.
    ///
    /// # Errors
    /// The reason for which not all is written: with [`FileError::OutOfMemory`] the caller goes on once there is room.
    pub(crate) async fn write_at(
        &'static self,
        node: &Arc<Node>,
        offset: u64,
        data: &[Bytes],
        written: &AtomicUsize,
    ) -> Result<(), FileError> {
        let total: usize = data.iter().map(Bytes::len).sum();
        let end = offset.checked_add(total as u64).filter(|end| *end <= self.size_max()).ok_or(FileError::TooLarge)?;
        if total == 0 {
            return Ok(());
        }
        self.finish_trim(node).await?;
        let mut at = offset.saturating_add(written.load(Ordering::Relaxed) as u64);
        if at > node.size() {
            self.clear_tail(node, node.size()).await?;
        }
        let mut source = Source::after(data, written.load(Ordering::Relaxed));
        while at < end {
            let count = page_rest(at).min(end.saturating_sub(at));
            at = at.saturating_add(self.write_part(node, at, count, &mut source).await?);
            written.store(at.saturating_sub(offset) as usize, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes `count` bytes that lie in one page; returns how many, fewer if space ran out.
    async fn write_part(
        &'static self,
        node: &Arc<Node>,
        at: u64,
        count: u64,
        source: &mut Source<'_>,
    ) -> Result<u64, FileError> {
        let index = at / PAGE;
        let key = self.page_key(node.id, index);
        if count == PAGE_BYTES as u64
            && self.geometry.block_bytes == PAGE_BYTES
            && let Ok(Begin::Lead(fetch)) = self.cache.begin_uncleared(key)
        {
            return self.write_whole(node, at, fetch, source).await;
        }
        let page = self.page_to_change(node, index).await?;
        let count = match self.ensure_range(node, at, at.saturating_add(count)).await {
            (_, Ok(())) => count,
            (end, Err(error)) if end <= at => return Err(error),
            (end, Err(_)) => end.saturating_sub(at),
        };
        let mut within = (at % PAGE) as usize;
        source.take(count as usize, |part| within = page.write(within, part).saturating_add(within));
        self.note_written(key);
        if self.geometry.block_bytes == PAGE_BYTES {
            self.cache.note_placed(key);
        }
        self.wrote_until(node, at.saturating_add(count));
        Ok(count)
    }

    /// Writes all of a page that is not cached, without reading it from the disk first. Readers see it when it is
    /// complete.
    async fn write_whole(
        &'static self,
        node: &Arc<Node>,
        at: u64,
        fetch: Fetch,
        source: &mut Source<'_>,
    ) -> Result<u64, FileError> {
        let (key, page, mut within) = (fetch.key(), fetch.page().clone(), 0_usize);
        source.take(PAGE_BYTES, |part| within = page.write(within, part).saturating_add(within));
        // The page's old contents must not be shown.
        page.write(within, [0; PAGE_BYTES].get(within..).unwrap_or_default());
        drop(page);
        // Clean until its blocks are known: it would be taken back if it were not in use.
        let _shown = fetch.done();
        let mut unsure = Unsure { file_system: self, key, kept: false };
        let end = at.saturating_add(PAGE_BYTES as u64);
        self.ensure_range(node, at, end).await.1?;
        unsure.kept = true;
        self.note_written(key);
        self.cache.note_placed(key);
        self.wrote_until(node, end);
        Ok(PAGE_BYTES as u64)
    }

    /// Notes that the contents up to `end` were changed.
    pub(crate) fn wrote_until(&self, node: &Node, end: u64) {
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

    /// Marks a page dirty, which its writer holds, so that it is here.
    fn note_written(&self, key: PageKey) {
        let is_here = self.cache.mark_dirty(key);
        debug_assert!(is_here, "a page is taken back while it is written");
    }

    /// Takes blocks for the holes among `start..end`, which lie in one page that is in the cache; answers how far it came, too. The caller
    /// holds the page: it is clean, and its block would show what is on the disk there.
    pub(crate) async fn ensure_range(&'static self, node: &Node, start: u64, end: u64) -> (u64, Result<(), FileError>) {
        let block_bytes = self.geometry.block_bytes as u64;
        let key = self.page_key(node.id, start / PAGE);
        let (first, count) = self.blocks_between(start, end);
        for index in (first..).take(count) {
            let block_start = index.saturating_mul(block_bytes);
            let block_end = block_start.saturating_add(block_bytes).min(end);
            let pointing = || {
                self.note_written(key);
                self.note_ordered(node.id);
                self.change(node, |inode| inode.size = inode.size.max(block_end));
            };
            if let Err(error) = self.ensure(node, index, pointing).await {
                return (block_start.max(start), Err(error));
            }
        }
        (end, Ok(()))
    }

    /// Takes blocks for the holes of a page that was written through a mapping, and marks it dirty.
    pub(crate) async fn dirtied(&'static self, node: &Arc<Node>, index: u64) -> Result<(), FileError> {
        let _guard = node.to_change().await?;
        let key = self.page_key(node.id, index);
        let start = index.saturating_mul(PAGE_BYTES as u64);
        let end = node.size().min(start.saturating_add(PAGE_BYTES as u64));
        // A page that was cut off meanwhile has no owner any more. One that its program loses from here on stays all the same.
        let shown = self.cache.get(key);
        if start >= end || shown.is_none() {
            return Ok(());
        }
        self.ensure_range(node, start, end).await.1?;
        self.note_written(key);
        self.wrote_until(node, end);
        Ok(())
    }

    /// Returns the file behind a node number, to be written.
    pub(crate) async fn file_to_change(&'static self, id: NodeId) -> Result<Arc<Node>, FileError> {
        self.writable()?;
        let node = self.node(id).await?;
        node.expect(NodeKind::File)?;
        Ok(node)
    }
}

/// A page with contents that the file does not have yet; it is forgotten if they cannot be written, or their writer
/// is killed.
struct Unsure {
    file_system: &'static Ext2,
    key: PageKey,
    kept: bool,
}

impl Drop for Unsure {
    fn drop(&mut self) {
        if !self.kept {
            let PageKey { file_system, node, index } = self.key;
            self.file_system.cache.forget(file_system, node, index, index.saturating_add(1));
        }
    }
}

/// Returns the bytes from a place in a file to the end of its page.
fn page_rest(at: u64) -> u64 {
    (PAGE_BYTES as u64).saturating_sub(at % PAGE)
}

/// Data to write, taken in pieces.
struct Source<'a> {
    views: &'a [Bytes],
    within: usize,
}

impl<'a> Source<'a> {
    /// Makes a source of what follows the first bytes.
    fn after(views: &'a [Bytes], bytes: usize) -> Source<'a> {
        let mut source = Source { views, within: 0 };
        source.take(bytes, |_| {});
        source
    }

    fn take(&mut self, mut count: usize, mut give: impl FnMut(&[u8])) {
        while count > 0 {
            let Some(view) = self.views.first() else {
                return;
            };
            let rest = view.as_slice().get(self.within..).unwrap_or(&[]);
            let part = rest.get(..count).unwrap_or(rest);
            give(part);
            self.within = self.within.saturating_add(part.len());
            count = count.saturating_sub(part.len());
            if self.within >= view.len() {
                self.views = self.views.get(1..).unwrap_or(&[]);
                self.within = 0;
            }
        }
    }
}
