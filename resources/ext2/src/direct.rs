//! Reading past the cache (O_DIRECT): the device writes straight into the caller's views.
//!
//! The cache knows better than the disk if a page is dirty, on its way, or in use by others (mapped by programs,
//! which may write to it at any time): such pages are copied. So nothing needs to be written back first. The reader
//! holds the lock shared: no task truncates, punches or dirties a page meanwhile, and blocks keep their owner.
//!
//! Left out: bytes of the views behind the sector in which the file ends stay as they are (Linux clears some of
//! them). If the tenant is killed, the device may still be at work: the views keep their pages until it has answered,
//! as those of every request do.

use crate::Ext2;
use crate::map::Blocks;
use crate::metadata::from_block;
use crate::node::Node;
use crate::read::{READ_BYTES_MAX, Runs, clear};
use alloc::sync::Arc;
use gyre_interface::begun::{Begun, Part};
use gyre_interface::block::{BlockError, SECTOR_BYTES};
use gyre_interface::files::{FileError, NodeKind};
use gyre_machine::PAGE_BYTES;
use gyre_message::Call;
use gyre_object::Bytes;
use smallvec::SmallVec;

const SECTOR: u64 = SECTOR_BYTES as u64;
const PAGE: u64 = PAGE_BYTES as u64;

/// Returns the bytes of the views, at most as many as one request moves.
///
/// # Errors
/// [`FileError::Invalid`] if offset, lengths or addresses are no multiples of a sector.
pub(crate) fn aligned_bytes(offset: u64, views: &[Bytes]) -> Result<u64, FileError> {
    let is_aligned = |view: &Bytes| (view.location().1 | view.len()).is_multiple_of(SECTOR_BYTES);
    if !offset.is_multiple_of(SECTOR) || !views.iter().all(is_aligned) {
        return Err(FileError::Invalid);
    }
    Ok(views.iter().map(|view| view.len() as u64).sum::<u64>().min(READ_BYTES_MAX))
}

/// A part of a file that lies in one view and in blocks that follow each other on the disk.
pub(crate) struct Piece {
    /// The offset in the file, bytes.
    pub(crate) at: u64,
    pub(crate) view: Bytes,
}

/// Cuts views, which stand for a file from an offset to an end, at the borders of blocks of a size, or at given
/// places.
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

impl Pieces<'_> {
    /// Returns the next one, which ends at a place in the file at the latest and is no longer than a page; `None` there.
    #[inline(always)]
    #[expect(clippy::arithmetic_side_effects, reason = "a piece lies in its view and ends at the end of the range")]
    fn next_until(&mut self, until: u64) -> Option<Piece> {
        while self.views.first()?.len() <= self.within {
            (self.views, self.within) = (self.views.get(1..)?, 0);
        }
        let view = self.views.first()?;
        let rest = until.min(self.end).saturating_sub(self.at).min(PAGE);
        let count = rest.min((view.len() - self.within) as u64) as usize;
        let piece = Piece { at: self.at, view: view.slice(self.within, self.within + count) };
        (self.at, self.within) = (self.at + count as u64, self.within + count);
        (count > 0).then_some(piece)
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;
    fn next(&mut self) -> Option<Piece> {
        let border = self.at.checked_next_multiple_of(self.block_bytes).filter(|border| *border > self.at);
        self.next_until(border.unwrap_or_else(|| self.at.saturating_add(self.block_bytes)))
    }
}

impl Ext2 {
    /// Reads from `offset` on into views; fewer bytes at the end of the file, none beyond it.
    ///
    /// # Errors
    /// [`FileError::Invalid`] if they are not aligned to sectors; those of the device, with a part of the views
    /// filled.
    pub(crate) async fn read_past(&'static self, node: &Node, offset: u64, into: &[Bytes]) -> Result<usize, FileError> {
        let wanted = aligned_bytes(offset, into)?;
        let _guard = node.to_read().await?;
        let count = node.size().saturating_sub(offset).min(wanted);
        if count == 0 {
            return Ok(0);
        }
        let until = offset.saturating_add(count);
        let end = until.checked_next_multiple_of(SECTOR).ok_or(FileError::TooLarge)?;
        let (first, blocks) = self.blocks_of(node, offset, end).await?;
        let runs = self.to_read_past(node, (offset, end), into, (first, &blocks));
        all_done(runs.0.into_iter().map(|run| self.disk.read(run.sector, run.views))).await?;
        if end > until {
            clear_part(into, count as usize, end.saturating_sub(offset) as usize);
        }
        self.moved(count as usize);
        Ok(count as usize)
    }

    /// Begins, in a visit, what [`Ext2::read_past`] does, as far as the requests to the disk. Returns `None` if other
    /// work must be waited for, and for rare cases: those that [`Ext2::read_past`] refuses, and a file's end within a
    /// sector.
    pub(crate) fn begin_read_past(&'static self, node: &Arc<Node>, offset: u64, into: &[Bytes]) -> Option<Begun> {
        let wanted = aligned_bytes(offset, into).ok()?;
        node.expect(NodeKind::File).ok()?;
        let held = Node::hold(node)?;
        let count = node.size().saturating_sub(offset).min(wanted);
        if count == 0 || !count.is_multiple_of(SECTOR) {
            return None;
        }
        let end = offset.checked_add(count)?;
        let (first, blocks_wanted) = self.blocks_between(offset, end);
        let blocks = self.map_run_now(node, first, blocks_wanted).ok()?;
        let runs = self.to_read_past(node, (offset, end), into, (first, &blocks));
        self.moved(count as usize);
        let parts = runs.0.into_iter().map(|run| Part::Read(self.disk.read(run.sector, run.views)));
        Some(Begun::new(count as usize, parts, held))
    }

    /// Returns the requests to the disk; the rest of the views is filled here. The caller holds the lock.
    fn to_read_past(
        &'static self,
        node: &Node,
        (offset, end): (u64, u64),
        into: &[Bytes],
        (first, blocks): (u64, &[u32]),
    ) -> Runs {
        let payer = gyre_account::current_activity();
        let mut runs = Runs::of_call(end.saturating_sub(offset));
        let knows_none = self.cache.has_none_of(self.file_system, node.id);
        if knows_none && self.add_whole(&mut runs, into, (offset, end), (first, blocks)) {
            return runs;
        }
        let mut from_disk = |view: Bytes, sector| match sector {
            0 => clear(&view),
            sector => runs.add(sector, view, payer),
        };
        if knows_none {
            self.cut(into, (offset, end), (first, blocks), |view, sector| from_disk(view, sector));
            return runs;
        }
        for Piece { at, view } in Pieces::new(into, offset, end, self.geometry.block_bytes) {
            let (page, start) = view.location();
            match self.cache.newer(self.page_key(node.id, at / PAGE)) {
                Some(newer) => _ = page.copy_from(start, &newer, (at % PAGE) as usize, view.len()),
                None => from_disk(view, self.sector_of(at, first, blocks)),
            }
        }
        runs
    }

    /// Adds views, which stand for a file between two places, as one request; false if they are none, or more.
    pub(crate) fn add_whole(
        &self,
        runs: &mut Runs,
        views: &[Bytes],
        (offset, end): (u64, u64),
        (first, blocks): (u64, &[u32]),
    ) -> bool {
        let is_one = blocks.first().is_some_and(|block| *block != 0) && run_blocks(blocks) == blocks.len();
        is_one
            && runs.add_whole(
                self.sector_of(offset, first, blocks),
                views,
                end.saturating_sub(offset),
                gyre_account::current_activity(),
            )
    }

    /// Cuts views, which stand for a file between two places, if its blocks do not follow each other on the disk, and
    /// tells the sector of each piece, 0 in a hole. `first` is the number of the first of `blocks`.
    #[inline(always)]
    #[expect(clippy::arithmetic_side_effects, reason = "places in a file lie below the largest file")]
    pub(crate) fn cut(
        &self,
        views: &[Bytes],
        (offset, end): (u64, u64),
        (first, blocks): (u64, &[u32]),
        mut each: impl FnMut(Bytes, u64),
    ) {
        let mut pieces = Pieces::new(views, offset, end, self.geometry.block_bytes);
        let mut rest = blocks;
        while let Some(&block) = rest.first() {
            let index = (blocks.len() - rest.len()) as u64;
            let (run, others) = rest.split_at(run_blocks(rest));
            rest = others;
            let start = (first + index) * self.geometry.block_bytes as u64;
            let until = start + (run.len() * self.geometry.block_bytes) as u64;
            let sector = if block == 0 { 0 } else { self.sector(block) };
            while let Some(Piece { at, view }) = pieces.next_until(until) {
                each(view, if sector == 0 { 0 } else { sector + (at - start) / SECTOR });
            }
        }
    }

    /// Returns the number of the block of a file at `offset`, and the device's blocks from there to `end`. The caller holds the lock.
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
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "a block has at least 1024 bytes; sectors of a geometry that was checked at mount"
    )]
    pub(crate) fn blocks_between(&self, offset: u64, end: u64) -> (u64, usize) {
        let block_bytes = self.geometry.block_bytes as u64;
        let first = offset / block_bytes;
        (first, end.div_ceil(block_bytes).saturating_sub(first) as usize)
    }

    /// The sector of the device at a place of a file whose block `first` is the first of `blocks`; 0 in a hole.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "a block has at least 1024 bytes; sectors of a geometry that was checked at mount"
    )]
    pub(crate) fn sector_of(&self, at: u64, first: u64, blocks: &[u32]) -> u64 {
        let block_bytes = self.geometry.block_bytes as u64;
        let index = (at / block_bytes).saturating_sub(first) as usize;
        match blocks.get(index).copied().unwrap_or(0) {
            0 => 0,
            block => self.sector(block) + at % block_bytes / SECTOR,
        }
    }
}

/// Returns how many blocks, from the first one on, follow each other on the disk, or are holes as it is.
fn run_blocks(blocks: &[u32]) -> usize {
    let is_next = |pair: &&[u32]| match **pair {
        [before, after] => {
            if before == 0 {
                after == 0
            } else {
                before.checked_add(1) == Some(after)
            }
        }
        _ => false,
    };
    blocks.windows(2).take_while(is_next).count().saturating_add(1)
}

/// Waits until the device has answered all requests, which are made first; also if one fails: it writes to the views, or reads them, until it
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
    let mut at = 0_usize;
    for view in views {
        let within = |place: usize| place.saturating_sub(at).min(view.len());
        let (from, to) = (within(start), within(end));
        if from < to {
            clear(&view.slice(from, to));
        }
        at = at.saturating_add(view.len());
    }
}
