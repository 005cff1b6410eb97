//! Reading past the cache (O_DIRECT): the device writes straight into the views of who asks.
//!
//! The cache knows better than the disk where a page is dirty, on its way, or held by others (mapped by programs, which may write to it
//! without a word): such pages are copied. So nothing needs to be written back first. Who reads holds the gate shared: nobody truncates,
//! punches or dirties a page meanwhile, and blocks keep their owner.
//!
//! Left out: bytes of the views behind the sector in which the file ends stay as they are (Linux clears some of them). Where the tenant is
//! killed the device may still be at it: the views keep their pages until it has answered, as those of every request do.

use crate::Ext2;
use crate::map::Blocks;
use crate::metadata::from_block;
use crate::node::Node;
use crate::read::{READ_BYTES_MAX, Runs, clear};
use alloc::sync::Arc;
use gyre_interface::begun::Begun;
use gyre_interface::block::{BlockError, SECTOR_BYTES};
use gyre_interface::files::{FileError, NodeKind};
use gyre_machine::PAGE_BYTES;
use gyre_message::Call;
use gyre_object::Bytes;
use smallvec::SmallVec;

const SECTOR: u64 = SECTOR_BYTES as u64;
const PAGE: u64 = PAGE_BYTES as u64;

/// Bytes of the views, at most what one request moves.
///
/// # Errors
/// [`FileError::Invalid`] where offset, lengths or places in memory are no multiples of a sector.
pub(crate) fn aligned_bytes(offset: u64, views: &[Bytes]) -> Result<u64, FileError> {
    let is_aligned = |view: &Bytes| (view.location().1 | view.len()).is_multiple_of(SECTOR_BYTES);
    if !offset.is_multiple_of(SECTOR) || !views.iter().all(is_aligned) {
        return Err(FileError::Invalid);
    }
    Ok(views.iter().map(|view| view.len() as u64).sum::<u64>().min(READ_BYTES_MAX))
}

/// A part of a file that lies in one block and in one view.
pub(crate) struct Piece {
    /// Where in the file, bytes.
    pub(crate) at: u64,
    pub(crate) view: Bytes,
}

/// Cuts views, which stand for a file from an offset to an end, at the borders of blocks of a size.
pub(crate) struct Pieces<'a> {
    views: &'a [Bytes],
    within: usize,
    at: u64,
    end: u64,
    block_bytes: u64,
}

impl<'a> Pieces<'a> {
    pub(crate) fn new(views: &'a [Bytes], offset: u64, end: u64, block_bytes: usize) -> Pieces<'a> {
        Pieces { views, within: 0, at: offset, end, block_bytes: block_bytes as u64 }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;
    fn next(&mut self) -> Option<Piece> {
        while self.views.first()?.len() <= self.within {
            (self.views, self.within) = (self.views.get(1..)?, 0);
        }
        let view = self.views.first()?;
        let rest = (self.end.saturating_sub(self.at)).min(self.block_bytes - self.at % self.block_bytes);
        let count = rest.min((view.len() - self.within) as u64) as usize;
        let piece = Piece { at: self.at, view: view.slice(self.within, self.within + count) };
        (self.at, self.within) = (self.at + count as u64, self.within + count);
        (count > 0).then_some(piece)
    }
}

impl Ext2 {
    /// Reads from `offset` on into views; fewer bytes at the end of the file, none beyond it.
    ///
    /// # Errors
    /// [`FileError::Invalid`] for what is not aligned to sectors; those of the device, with a part of the views filled.
    pub(crate) async fn read_past(&'static self, node: &Node, offset: u64, into: &[Bytes]) -> Result<usize, FileError> {
        let wanted = aligned_bytes(offset, into)?;
        let _pass = node.to_read().await?;
        let count = node.size().saturating_sub(offset).min(wanted);
        if count == 0 {
            return Ok(0);
        }
        let end = (offset + count).next_multiple_of(SECTOR);
        let (first, blocks) = self.blocks_of(node, offset, end).await?;
        let runs = self.to_read_past(node, (offset, end), into, (first, &blocks));
        all_done(runs.0.into_iter().map(|run| self.disk.read(run.sector, run.views))).await?;
        if end > offset + count {
            clear_part(into, count as usize, (end - offset) as usize);
        }
        self.moved(count as usize);
        Ok(count as usize)
    }

    /// The same in a visit, as far as the requests to the disk; `None` where others must be waited for before, and for what is not usual: what
    /// [`Ext2::read_past`] refuses, and the file's end where it lies within a sector.
    pub(crate) fn begin_read_past(&'static self, node: &Arc<Node>, offset: u64, into: &[Bytes]) -> Option<Begun> {
        let wanted = aligned_bytes(offset, into).ok()?;
        node.expect(NodeKind::File).ok()?;
        let held = Node::hold(node)?;
        let count = node.size().saturating_sub(offset).min(wanted);
        if count == 0 || !count.is_multiple_of(SECTOR) {
            return None;
        }
        let (first, blocks_wanted) = self.blocks_between(offset, offset + count);
        let blocks = self.map_run_now(node, first, blocks_wanted).ok()?;
        let runs = self.to_read_past(node, (offset, offset + count), into, (first, &blocks));
        self.moved(count as usize);
        let parts = runs.0.into_iter().map(|run| self.disk.read(run.sector, run.views));
        Some(Begun::new(count as usize, parts, held))
    }

    /// What the disk must be asked for; the rest is filled here. The caller holds the gate.
    fn to_read_past(
        &'static self,
        node: &Node,
        (offset, end): (u64, u64),
        into: &[Bytes],
        (first, blocks): (u64, &[u32]),
    ) -> Runs {
        let payer = gyre_account::current_activity();
        let mut runs = Runs::default();
        for Piece { at, view } in Pieces::new(into, offset, end, self.geometry.block_bytes) {
            let (page, start) = view.location();
            if let Some(newer) = self.cache.newer(self.page_key(node.id, at / PAGE)) {
                page.copy_from(start, &newer, (at % PAGE) as usize, view.len());
                continue;
            }
            match self.sector_of(at, first, blocks) {
                0 => clear(&view),
                sector => runs.add(sector, view, payer),
            }
        }
        runs
    }

    /// The number of the block of a file at `offset`, and the device's blocks from there to `end`. The caller holds the gate.
    pub(crate) async fn blocks_of(
        &'static self,
        node: &Node,
        offset: u64,
        end: u64,
    ) -> Result<(u64, Blocks), FileError> {
        let (first, count) = self.blocks_between(offset, end);
        Ok((first, self.map_run(node, first, count).await?))
    }

    /// The number of the block of a file at `offset`, and how many there are from there to `end`.
    fn blocks_between(&self, offset: u64, end: u64) -> (u64, usize) {
        let block_bytes = self.geometry.block_bytes as u64;
        let first = offset / block_bytes;
        (first, end.div_ceil(block_bytes).saturating_sub(first) as usize)
    }

    /// The sector of the device at a place of a file whose block `first` is the first of `blocks`; 0 in a hole.
    pub(crate) fn sector_of(&self, at: u64, first: u64, blocks: &[u32]) -> u64 {
        let block_bytes = self.geometry.block_bytes as u64;
        let index = (at / block_bytes).saturating_sub(first) as usize;
        match blocks.get(index).copied().unwrap_or(0) {
            0 => 0,
            block => self.sector(block) + at % block_bytes / SECTOR,
        }
    }
}

/// Waits until the device has answered all requests, which are made first; also where one fails: it writes to the views, or reads them, until it
/// has. Answers the first error.
pub(crate) async fn all_done<T>(requests: impl Iterator<Item = Call<Result<T, BlockError>>>) -> Result<(), FileError> {
    let requests: SmallVec<[_; 2]> = requests.collect();
    let mut result = Ok(());
    for request in requests {
        result = result.and(request.await.map(drop));
    }
    result.map_err(from_block)
}

/// Zeroes bytes `start..end` of views.
fn clear_part(views: &[Bytes], start: usize, end: usize) {
    let mut at = 0;
    for view in views {
        let (from, to) = (start.clamp(at, at + view.len()), end.clamp(at, at + view.len()));
        if from < to {
            clear(&view.slice(from - at, to - at));
        }
        at += view.len();
    }
}
