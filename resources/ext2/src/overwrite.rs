//! Writing past the cache (O_DIRECT): the device reads straight from the caller's views.
//!
//! Only existing blocks before a file's end are written so: no pointer changes, so the order of a commit is not
//! concerned, and a sync flushes the device as after any write. The rest (holes, the file's end) is left to a plain
//! write, which takes blocks.
//!
//! The writer holds the lock shared, so that many write one file at once: no blocks are taken away, and no page
//! becomes dirty. Dirty pages of the range are written back first, under the exclusive lock. Pages in the cache are
//! dropped before and after; one that a program has mapped, or that is in use elsewhere, stays and gets the same
//! bytes when they are on the disk.
//!
//! Left out: bytes that a program writes through a mapping at the same time may be on the disk or not, in either
//! order. Of two writes to the same sectors at once the device decides. If the tenant is killed, the device may still
//! be at work, as with a write-back.

use crate::Ext2;
use crate::direct::{Piece, Pieces, aligned_bytes, all_done};
use crate::node::Node;
use crate::read::Runs;
use crate::write_back::BATCH_PAGES;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::slice;
use gyre_file_cache::Outdated;
use gyre_interface::begun::{Begun, Held, Hold, Part};
use gyre_interface::block::SECTOR_BYTES;
use gyre_interface::files::{FileError, NodeKind};
use gyre_machine::PAGE_BYTES;
use gyre_message::{reply_pair, spawn};
use gyre_object::{Bytes, Page};

const SECTOR: u64 = SECTOR_BYTES as u64;
const PAGE: u64 = PAGE_BYTES as u64;

impl Ext2 {
    /// Overwrites from `offset` on with views; returns the bytes up to the first hole, or to the last sector that
    /// lies in the file.
    ///
    /// # Errors
    /// [`FileError::Invalid`] if they are not aligned to sectors; those of the device, with a part written.
    pub(crate) async fn write_past(
        &'static self,
        node: &Arc<Node>,
        offset: u64,
        from: &[Bytes],
    ) -> Result<usize, FileError> {
        let wanted = offset.checked_add(aligned_bytes(offset, from)?).ok_or(FileError::TooLarge)?;
        let end_in = |node: &Node| wanted.min(node.size() & !(SECTOR - 1));
        {
            let _guard = node.to_read().await?;
            let end = end_in(node);
            if end <= offset {
                return Ok(0);
            }
            if self.outdate(node, offset, end) {
                return self.overwrite(node, offset, end, from).await;
            }
        }
        let _guard = node.to_change().await?;
        let end = end_in(node).max(offset);
        self.clean(node, offset, end).await?;
        self.overwrite(node, offset, end, from).await
    }

    /// Begins, in a visit, what [`Ext2::write_past`] does, as far as the requests to the disk. Returns `None` if
    /// other work must be waited for, and for rare cases: those that [`Ext2::write_past`] refuses, holes, the file's
    /// end, and dirty pages.
    pub(crate) fn begin_write_past(&'static self, node: &Arc<Node>, offset: u64, from: &[Bytes]) -> Option<Begun> {
        let end = offset.checked_add(aligned_bytes(offset, from).ok()?)?;
        node.expect(NodeKind::File).ok()?;
        self.writable().ok().filter(|()| !self.must_commit())?;
        let held = Node::hold(node)?;
        if end <= offset || end > node.size() || !self.outdate(node, offset, end) {
            return None;
        }
        let (first, count) = self.blocks_between(offset, end);
        let blocks = self.map_run_now(node, first, count).ok().filter(|blocks| !blocks.contains(&0))?;
        self.wrote_until(node, end);
        let parts = self.to_write_past((offset, end), from, (first, &blocks)).0;
        let parts = parts.into_iter().map(|run| Part::Write(self.disk.write(run.sector, run.views)));
        self.moved(end.saturating_sub(offset) as usize);
        let (node, from) = (node.clone(), from.to_vec());
        let overwriting = Overwriting { file_system: self, node, offset, end, from, _held: held };
        Some(Begun::new(end.saturating_sub(offset) as usize, parts, Held::new(Arc::new(overwriting))))
    }

    /// Returns the requests to the disk for a range that has blocks.
    fn to_write_past(&self, (offset, end): (u64, u64), from: &[Bytes], (first, blocks): (u64, &[u32])) -> Runs {
        let payer = gyre_account::current_activity();
        let mut runs = Runs::of_call(end.saturating_sub(offset));
        if self.add_whole(&mut runs, from, (offset, end), (first, blocks)) {
            return runs;
        }
        self.cut(from, (offset, end), (first, blocks), |view, sector| runs.add(sector, view, payer));
        runs
    }

    /// Drops the pages of a range that may go; false if some must be written back first.
    fn outdate(&self, node: &Node, offset: u64, end: u64) -> bool {
        if self.cache.has_none_of(self.file_system, node.id) {
            return true;
        }
        let busy = |index| matches!(self.cache.outdate(self.page_key(node.id, index)), Outdated::Busy);
        !(offset / PAGE..end.div_ceil(PAGE)).any(busy)
    }

    /// Writes the dirty pages of a range back. The caller holds the lock exclusively.
    async fn clean(&'static self, node: &Arc<Node>, offset: u64, end: u64) -> Result<(), FileError> {
        let first_dirty = |from| self.cache.dirty_pages(self.page_key(node.id, from), 1).first().copied();
        let (mut from, end) = (offset / PAGE, end.div_ceil(PAGE));
        while let Some(index) = first_dirty(from).filter(|index| *index < end) {
            let count = end.saturating_sub(index).min(BATCH_PAGES as u64);
            self.write_some_held(slice::from_ref(node), index, count as usize).await?;
            from = index.saturating_add(1);
        }
        Ok(())
    }

    /// Writes the part that has blocks. The caller holds the lock, and no page of the range is dirty.
    async fn overwrite(&'static self, node: &Node, offset: u64, end: u64, from: &[Bytes]) -> Result<usize, FileError> {
        let (first, blocks) = self.blocks_of(node, offset, end).await?;
        let hole =
            blocks.iter().position(|block| *block == 0).map_or(u64::MAX, |index| first.saturating_add(index as u64));
        let end = end.min(hole.saturating_mul(self.geometry.block_bytes as u64));
        if end <= offset {
            return Ok(0);
        }
        self.wrote_until(node, end);
        let runs = self.to_write_past((offset, end), from, (first, &blocks));
        let written = all_done(runs.0.into_iter().map(|run| self.disk.write(run.sector, run.views))).await;
        self.agree(node, offset, end, from, written.is_ok()).await;
        written?;
        let count = end.saturating_sub(offset) as usize;
        self.moved(count);
        Ok(count)
    }

    /// Makes the cache agree with the disk after a write: pages that came meanwhile may be old. Those in use
    /// elsewhere get the new bytes, if they are there.
    async fn agree(&'static self, node: &Node, offset: u64, end: u64, from: &[Bytes], is_written: bool) {
        if self.cache.has_none_of(self.file_system, node.id) {
            return;
        }
        for Piece { at, view } in Pieces::new(from, offset, end, PAGE_BYTES) {
            let key = self.page_key(node.id, at / PAGE);
            loop {
                match self.cache.outdate(key) {
                    Outdated::Arriving(waiting) => waiting.done().await,
                    Outdated::Held(page) if is_written => {
                        copy(&page, (at % PAGE) as usize, &view);
                        break;
                    }
                    _ => break,
                }
            }
        }
    }
}

/// A write that the device is at.
struct Overwriting {
    file_system: &'static Ext2,
    node: Arc<Node>,
    offset: u64,
    end: u64,
    from: Vec<Bytes>,
    _held: Held,
}

impl Hold for Overwriting {
    /// Nothing is let go: the node itself is, with this.
    fn let_go(&self) {}

    fn finish(self: Arc<Self>, is_done: bool) -> Option<Part> {
        let Overwriting { file_system, offset, end, .. } = *self;
        if file_system.cache.has_none_of(file_system.file_system, self.node.id) {
            return None;
        }
        let (reply, written) = reply_pair();
        spawn(async move {
            file_system.agree(&self.node, offset, end, &self.from, is_done).await;
            drop(self);
            reply.send(Ok(()));
        });
        Some(Part::Write(written))
    }
}

/// Copies a view to a page, which may be the view's own: a program may write a page that it has mapped.
fn copy(page: &Page, at: usize, view: &Bytes) {
    let (source, start) = view.location();
    if !page.same(source) {
        page.copy_from(at, source, start, view.len());
        return;
    }
    let mut whole = [0; PAGE_BYTES];
    let count = source.read(start, whole.get_mut(..view.len()).unwrap_or(&mut []));
    page.write(at, whole.get(..count).unwrap_or(&[]));
}
