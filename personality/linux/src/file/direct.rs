//! Reads and writes with O_DIRECT: between a program's pages and the device, past the file cache (open(2),
//! `read_direct` and `write_direct` of the files protocol).
//!
//! Offset, addresses and lengths are multiples of [`SECTOR`], else EINVAL; a read at or behind the end answers 0 in
//! any case. So do Linux's ext2 and ext4 on a disk of such sectors, except for memory: Linux 6.18 takes other
//! addresses, too, if a piece lies in one page; older ones and statx refuse them.
//!
//! A part of a file without blocks (holes, its end) is written through the cache, written back and dropped there, all
//! within the call. If a part of a call fails, all of it has failed: memory that is not there, errors of the device.
//!
//! File systems without a device (tmpfs, /proc) answer that they cannot, once for each open file, and everything goes
//! the usual way; F_GETFL shows O_DIRECT all the same. Linux's tmpfs does so since 6.6; older ones, and /proc, refuse
//! the flag (EINVAL).
//!
//! Left out: sendfile and splice from such a file take pages of the cache.

use super::buffer::{Range, UserBuffer};
use super::mount::Place;
use super::open_file::OpenFile;
use super::regular;
use super::size_limit;
use crate::task::shortage;
use crate::{Errno, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_address_space::{AddressSpace, Lent, Loan};
use gyre_interface::begun::Begun;
use gyre_interface::block::SECTOR_BYTES;
use gyre_machine::Access;
use gyre_message::{boxed, spawn};
use gyre_object::Bytes;
use linux_raw_sys::general::{IN_ACCESS, IN_MODIFY};

/// The unit of offsets, addresses and lengths, bytes (statx: stx_dio_mem_align, stx_dio_offset_align).
pub const SECTOR: u32 = SECTOR_BYTES as u32;
/// Bytes that one request of the file system moves: its requests to the disk are under way together.
const PIECE_BYTES: usize = 1 << 20;

/// Returns whether a transfer of this file goes past the cache.
pub(super) async fn is_wanted(file: &OpenFile, place: &Place) -> Result<bool, Errno> {
    if !file.is_direct() {
        return Ok(false);
    }
    match file.direct_offer.known() {
        Some(is_offered) => Ok(is_offered),
        None => boxed(|| file.direct_offer.ask(place)).await,
    }
}

/// Reads at `offset`, if [`is_wanted`].
pub(super) async fn read(
    file: &OpenFile,
    place: &Place,
    buffer: &mut UserBuffer<'_>,
    offset: u64,
) -> Result<usize, Errno> {
    boxed(|| async {
        if !buffer.is_aligned(offset, SECTOR_BYTES) {
            return at_end(place, offset).await;
        }
        let before = buffer.done();
        while buffer.left() > 0 {
            let at = offset.saturating_add(buffer.done_since(before) as u64);
            match read_piece(file, place, buffer, at).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(Errno::EFAULT) => return at_end(place, offset).await.or(Err(Errno::EFAULT)),
                Err(error) => return Err(error),
            }
        }
        Ok(buffer.done_since(before))
    })
    .await
}

/// Answers a read that no block can serve: 0 at the end of the file, else EINVAL.
async fn at_end(place: &Place, offset: u64) -> Result<usize, Errno> {
    let attributes = place.system().attributes(place.node).await?;
    if offset >= attributes.size_bytes { Ok(0) } else { Err(Errno::EINVAL) }
}

/// Reads one piece; returns whether another may follow.
async fn read_piece(file: &OpenFile, place: &Place, buffer: &mut UserBuffer<'_>, at: u64) -> Result<bool, Errno> {
    let (lent, bytes) = lend_in_turn(file, buffer, Access::Write).await?;
    let thread = buffer.thread();
    let read = place.system().read_direct(place.node, at, views(&lent)).await;
    let count = read.inspect_err(|_| buffer.give_back(bytes))?.min(bytes);
    let landed = match thread.space().land(&lent, count).await {
        Ok(landed) => landed,
        Err(fault) => {
            buffer.give_back(bytes.saturating_sub(fault.done));
            shortage::resolve(thread, fault.error).await?;
            return Ok(false);
        }
    };
    buffer.give_back(bytes.saturating_sub(landed));
    Ok(landed == bytes)
}

/// A transfer that was begun within the call that asks for it.
pub struct BegunIo {
    begun: Begun,
    file: Arc<OpenFile>,
    space: Arc<AddressSpace>,
    /// The memory of a read.
    into: Option<Loan>,
    notice: u32,
}

/// Begins to read into present memory, at most [`PIECE_BYTES`]. Returns `None`, and nothing has happened, if the file
/// system cannot be looked at now or the I/O streams have a gate.
pub fn begin_read(file: &Arc<OpenFile>, thread: &Thread, into: Range, offset: u64) -> Option<BegunIo> {
    let place = place_at_once(file, into, offset)?;
    let space = thread.space();
    let into = space.lend_at_once(into.address, into.bytes, Access::Write)?;
    let begun = place.system().visit(|near| near.read_direct(place.node, offset, into.views()))??;
    Some(BegunIo { begun, file: file.clone(), space, into: Some(into), notice: IN_ACCESS })
}

/// Begins to write from present memory over a file's contents, under the conditions of [`begin_read`].
pub fn begin_write(file: &Arc<OpenFile>, thread: &Thread, from: Range, offset: u64) -> Option<BegunIo> {
    let place = place_at_once(file, from, offset).filter(|_| size_limit::is_free(thread))?;
    let space = thread.space();
    let from = space.lend_at_once(from.address, from.bytes, Access::Read)?;
    let begun = place.system().visit(|near| near.write_direct(place.node, offset, from.views()))??;
    Some(BegunIo { begun, file: file.clone(), space, into: None, notice: IN_MODIFY })
}

/// Returns the place of a file that may be transferred at once.
fn place_at_once(file: &OpenFile, range: Range, offset: u64) -> Option<&Place> {
    let is_wanted =
        file.is_direct() && file.direct_offer.known() == Some(true) && file.tenant().passage.gate().is_none();
    let is_aligned = (offset | range.address | range.bytes as u64).is_multiple_of(SECTOR_BYTES as u64);
    if is_wanted && is_aligned && range.bytes <= PIECE_BYTES { file.place() } else { None }
}

impl BegunIo {
    /// Does `done` with the bytes that the program, or the file, has, once the device has answered.
    pub fn then(self, done: impl FnOnce(Result<usize, Errno>) + Send + 'static) {
        let BegunIo { begun, file, space, into, notice } = self;
        begun.then(move |moved| {
            file.tell_some(moved.unwrap_or(0), notice);
            match (moved, into.filter(|into| !space.has_landed(into))) {
                (Ok(count), Some(into)) => spawn(async move {
                    done(space.land(&into.pieces(), count).await.map_err(|_| Errno::EFAULT));
                }),
                (moved, _) => done(moved.map_err(Errno::from)),
            }
        });
    }
}

/// Writes at `offset`, if [`is_wanted`].
pub(super) async fn write(
    file: &OpenFile,
    place: &Place,
    buffer: &mut UserBuffer<'_>,
    offset: u64,
) -> Result<usize, Errno> {
    boxed(|| async {
        if !buffer.is_aligned(offset, SECTOR_BYTES) {
            return Err(Errno::EINVAL);
        }
        let before = buffer.done();
        while buffer.left() > 0 {
            let at = offset.saturating_add(buffer.done_since(before) as u64);
            match write_piece(file, place, buffer, at).await {
                Ok(true) => {}
                Ok(false) => return write_rest(file, place, buffer, (offset, before)).await,
                Err(error) => {
                    buffer.give_back(buffer.done_since(before));
                    return Err(error);
                }
            }
        }
        Ok(buffer.done_since(before))
    })
    .await
}

/// Writes one piece; returns false if the rest has no blocks.
async fn write_piece(file: &OpenFile, place: &Place, buffer: &mut UserBuffer<'_>, at: u64) -> Result<bool, Errno> {
    let (lent, bytes) = lend_in_turn(file, buffer, Access::Read).await?;
    let written = place.system().write_direct(place.node, at, views(&lent)).await;
    buffer.give_back(bytes.saturating_sub(written.unwrap_or(0)));
    Ok(written? >= bytes)
}

/// Writes the rest through the cache, and out of it.
async fn write_rest(
    file: &OpenFile,
    place: &Place,
    buffer: &mut UserBuffer<'_>,
    (offset, before): (u64, usize),
) -> Result<usize, Errno> {
    let straight = buffer.done_since(before);
    let at = offset.saturating_add(straight as u64);
    match regular::write_cached(file, place, buffer, at).await {
        Ok(count) => bring_out(place, at, count).await?,
        Err(error) if straight == 0 => return Err(error),
        Err(_) => {}
    }
    Ok(buffer.done_since(before))
}

/// Writes back data that the cache took, and drops it there.
pub(super) async fn bring_out(place: &Place, at: u64, bytes: usize) -> Result<(), Errno> {
    if bytes > 0 {
        place.system().write_back(place.node, at, bytes as u64).await?;
        place.system().evict(place.node, at, bytes as u64).await?;
    }
    Ok(())
}

/// Refuses to append unaligned data; returns whether the appended data must leave the cache.
pub(super) async fn check_append(file: &OpenFile, place: &Place, buffer: &UserBuffer<'_>) -> Result<bool, Errno> {
    if buffer.left() == 0 || !is_wanted(file, place).await? {
        return Ok(false);
    }
    let end = place.system().attributes(place.node).await?.size_bytes;
    if buffer.is_aligned(end, SECTOR_BYTES) { Ok(true) } else { Err(Errno::EINVAL) }
}

/// Lends as [`lend`] does, once the gate of the I/O streams grants it.
async fn lend_in_turn(
    file: &OpenFile,
    buffer: &mut UserBuffer<'_>,
    access: Access,
) -> Result<(Vec<Lent>, usize), Errno> {
    let (lent, bytes) = lend(buffer, access).await?;
    if let Some(gate) = file.tenant().passage.gate() {
        gate.pass(bytes).await.inspect_err(|_| buffer.give_back(bytes))?;
    }
    Ok((lent, bytes))
}

/// Lends the next pieces of a buffer, with their bytes, which count as used.
async fn lend(buffer: &mut UserBuffer<'_>, access: Access) -> Result<(Vec<Lent>, usize), Errno> {
    let (mut lent, mut bytes) = (Vec::new(), 0);
    while let Some(range) = buffer.next(PIECE_BYTES.saturating_sub(bytes)) {
        if let Err(error) = lend_range(buffer.thread(), range, access, &mut lent).await {
            buffer.give_back(bytes);
            return Err(error);
        }
        bytes = bytes.saturating_add(range.bytes);
        buffer.used(range.bytes);
    }
    Ok((lent, bytes))
}

async fn lend_range(thread: &Thread, range: Range, access: Access, lent: &mut Vec<Lent>) -> Result<(), Errno> {
    let mut done = 0;
    loop {
        let (at, rest) = (range.address.saturating_add(done as u64), range.bytes.saturating_sub(done));
        let Err(fault) = thread.space().lend(at, rest, access, lent).await else { return Ok(()) };
        done = done.saturating_add(fault.done);
        shortage::resolve(thread, fault.error).await?;
    }
}

fn views(lent: &[Lent]) -> Vec<Bytes> {
    lent.iter().map(|piece| piece.view.clone()).collect()
}
