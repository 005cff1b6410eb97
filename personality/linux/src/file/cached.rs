//! The part of regular files that is in memory: read, overwritten and taken within the call, without a message
//! (`near` of the interface).
//!
//! Every function answers `None` if pages are missing or it would have to wait; [`super::regular`] then does the
//! whole call anew, which repeats nothing wrongly.
//!
//! * A read copies nothing before all pages are known to be here. A later attempt copies everything again.
//! * An overwrite may stop late: the first part is then written again, with the same bytes.
//! * The position is held for the copy alone, and goes on only after it. Nothing here waits, so a position that
//!   another call holds is `None`.
//! * Files with O_DIRECT, O_APPEND and O_DSYNC, and writers with a size limit, go the other way from the start.

use super::buffer::Range;
use super::mount::Place;
use super::object::CHUNK_BYTES;
use super::open_file::OpenFile;
use super::size_limit;
use crate::Thread;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_interface::Position;
use gyre_interface::begun::Begun;
use gyre_interface::near::{FEW_PAGES, NEAR_BYTES_MAX, NEAR_PAGES_MAX};
use gyre_machine::PAGE_BYTES;
use gyre_object::{Bytes, Page};
use linux_raw_sys::general::{IN_ACCESS, IN_MODIFY};

/// Most bytes of a file that a call copies at once: longer copies let other tasks run.
pub(super) const COPY_BYTES_MAX: usize = 128 << 10;
/// From here on a range may end behind the last place that a file has.
const NEAR_LAST: u64 = Position::LAST.get() - COPY_BYTES_MAX as u64;
/// Pages that they may lie in.
const COPY_PAGES_MAX: usize = COPY_BYTES_MAX / PAGE_BYTES + 1;

/// Reads cached pages into present memory, at most [`COPY_BYTES_MAX`], at `at` or the position; `None` if it must
/// wait, or be tried anew.
pub(super) fn read(file: &OpenFile, thread: &Thread, to: Range, at: Option<u64>) -> Option<usize> {
    let count = transfer(file, at, |place, offset| copy_near(place, thread, to, offset))?;
    file.tell_some(count, IN_ACCESS);
    Some(count)
}

/// Begins to fetch the missing pages of a plain read of at most [`COPY_BYTES_MAX`]. Returns `None` if a message must
/// ask, and if the I/O streams have a gate.
pub(super) fn fetch(file: &OpenFile, at: u64, bytes: usize) -> Option<Begun> {
    if file.is_direct() || file.tenant().passage.gate().is_some() {
        return None;
    }
    let (place, may_guess) = (file.place()?, !file.is_random.load(Ordering::Relaxed));
    place.system().visit(|near| near.fetch(place.node, at, bytes, may_guess))?
}

/// Reads as [`read`] does, into several ranges (readv).
pub(super) fn read_list(file: &OpenFile, thread: &Thread, into: &[Range], at: Option<u64>) -> Option<usize> {
    if let [to] = into {
        return read(file, thread, *to, at);
    }
    let count = transfer(file, at, |place, offset| copy_long(place, thread, into, offset))?;
    file.tell_some(count, IN_ACCESS);
    Some(count)
}

/// Overwrites cached pages from present memory, at most [`COPY_BYTES_MAX`], at `at` or the position. Returns the
/// bytes written, which are all; `None` if it must wait, grow the file, or be tried anew.
pub(super) fn write(file: &OpenFile, thread: &Thread, from: Range, at: Option<u64>) -> Option<usize> {
    if file.has_slow_writes() || !size_limit::is_free(thread) {
        return None;
    }
    let count = transfer(file, at, |place, offset| overwrite_near(place, thread, from, offset))?;
    file.tell_some(count, IN_MODIFY);
    Some(count)
}

/// Writes as [`write`] does, from several ranges (writev).
pub(super) fn write_list(file: &OpenFile, thread: &Thread, from: &[Range], at: Option<u64>) -> Option<usize> {
    if let [one] = from {
        return write(file, thread, *one, at);
    }
    if file.has_slow_writes() || !size_limit::is_free(thread) {
        return None;
    }
    let count = transfer(file, at, |place, offset| overwrite_list(place, thread, from, offset))?;
    file.tell_some(count, IN_MODIFY);
    Some(count)
}

/// Moves bytes as a plain request of so many, which the I/O streams may divide.
#[inline(always)]
fn transfer(file: &OpenFile, at: Option<u64>, work: impl Fn(&Place, u64) -> Option<usize>) -> Option<usize> {
    if file.is_direct() {
        return None;
    }
    file.tenant().passage.count_plain(|| {
        let place = file.place()?;
        // Near the last place the way that waits looks whether the range ends before it.
        at_place(file, at, |offset| if offset < NEAR_LAST { work(place, offset) } else { None })
    })
}

/// Moves bytes at `at`, or at the position, which goes on by as many; `None` also if another call holds the position.
#[inline(always)]
fn at_place(file: &OpenFile, at: Option<u64>, work: impl FnOnce(u64) -> Option<usize>) -> Option<usize> {
    if let Some(offset) = at {
        return work(offset);
    }
    let position = file.position.try_hold()?;
    let offset = position.get();
    let count = work(offset)?;
    position.advance(count);
    Some(count)
}

/// Copies from cached pages. It copies nothing before all pages are known to be here; if pages are missing, a later
/// attempt copies everything again.
#[inline(always)]
pub(super) fn copy_near(place: &Place, thread: &Thread, to: Range, offset: u64) -> Option<usize> {
    if to.bytes <= PAGE_BYTES {
        return copy_some(place, thread, to, offset, &mut [const { None }; FEW_PAGES]);
    }
    if to.bytes <= NEAR_BYTES_MAX {
        return copy_some(place, thread, to, offset, &mut [const { None }; NEAR_PAGES_MAX]);
    }
    copy_long(place, thread, &[to], offset)
}

/// Returns the offset of a byte in its page.
fn in_page(offset: u64) -> usize {
    offset as usize % PAGE_BYTES
}

/// Copies bytes that lie in as many pages as a call may look at, at most [`COPY_BYTES_MAX`], to one range after the other.
fn copy_long(place: &Place, thread: &Thread, into: &[Range], offset: u64) -> Option<usize> {
    let start = in_page(offset);
    let mut pages = [const { None }; COPY_PAGES_MAX];
    let wanted = into.iter().try_fold(0usize, |sum, range| sum.checked_add(range.bytes))?;
    let total = show_near(place, offset, wanted, &mut pages)?;
    let mut done = 0;
    for range in into {
        let bytes = range.bytes.min(total.saturating_sub(done));
        copy_shown(thread, Range { bytes, ..*range }, &pages, start.saturating_add(done))?;
        done = done.saturating_add(bytes);
    }
    Some(total)
}

/// Copies to a range from `start` in the first of the pages on.
fn copy_shown(thread: &Thread, to: Range, pages: &[Option<Page>], start: usize) -> Option<()> {
    let mut done = 0;
    while done < to.bytes {
        let first = start.saturating_add(done);
        let from = pages.get(first / PAGE_BYTES..)?;
        let (within, address) = (first % PAGE_BYTES, to.address.wrapping_add(done as u64));
        let count = to.bytes.saturating_sub(done).min(NEAR_BYTES_MAX.saturating_sub(within));
        if !thread.with_space(|space| space.copy_pages_at_once(address, from, within, count)) {
            return None;
        }
        done = done.saturating_add(count);
    }
    Some(())
}

/// Returns the pages of a range that are in memory; `None` if not all are. Answers the bytes, fewer at the end of the file.
fn show_near(place: &Place, offset: u64, bytes: usize, into: &mut [Option<Page>]) -> Option<usize> {
    let start = in_page(offset);
    let mut done = 0;
    while done < bytes {
        let first = start.saturating_add(done);
        let within = first % PAGE_BYTES;
        let wanted = bytes.saturating_sub(done).min(NEAR_BYTES_MAX.saturating_sub(within));
        let at = offset.checked_add(done as u64)?;
        let into = into.get_mut(first / PAGE_BYTES..)?;
        let count = place.system().visit(|near| near.read(place.node, at, wanted, into))??.ok()?;
        done = done.saturating_add(count);
        if count < wanted {
            break;
        }
    }
    Some(done)
}

/// Copies bytes that lie in as many pages as `pages` has room for.
#[inline(always)]
fn copy_some(place: &Place, thread: &Thread, to: Range, offset: u64, pages: &mut [Option<Page>]) -> Option<usize> {
    let count = place.system().visit(|near| near.read(place.node, offset, to.bytes, pages))??.ok()?;
    let start = in_page(offset);
    thread.with_space(|space| space.copy_pages_at_once(to.address, pages, start, count)).then_some(count)
}

/// Overwrites from one range after the other.
fn overwrite_list(place: &Place, thread: &Thread, from: &[Range], offset: u64) -> Option<usize> {
    let mut done = 0;
    for range in from {
        done = usize::saturating_add(done, overwrite_near(place, thread, *range, offset.checked_add(done as u64)?)?);
    }
    Some(done)
}

/// Overwrites from one range. If it turns out late that the rest must wait, the first part is written again later.
fn overwrite_near(place: &Place, thread: &Thread, from: Range, offset: u64) -> Option<usize> {
    let mut done = 0;
    while done < from.bytes {
        let (at, wanted) = (offset.checked_add(done as u64)?, from.bytes.saturating_sub(done).min(NEAR_BYTES_MAX));
        let address = from.address.wrapping_add(done as u64);
        let mut fill = |pages: &[Option<Page>], start: usize, count: usize| {
            thread.with_space(|space| space.fill_pages_at_once(address, pages, start, count))
        };
        place.system().visit(|near| near.overwrite(place.node, at, wanted, &mut fill))??;
        done = done.saturating_add(wanted);
    }
    Some(done)
}

/// Reads cached pages by reference; `None` if it must wait, or be tried anew. The I/O stream resource counts the
/// bytes.
pub(super) fn take(file: &OpenFile, at: u64, bytes: usize) -> Option<Vec<Bytes>> {
    let pieces = pages(file.place()?, at, bytes)?;
    file.tell_some(pieces.len(), IN_ACCESS);
    Some(pieces)
}

/// Reads cached pages as [`take`] does, which nobody changes while they are held; `None` also if that cannot be promised.
pub(super) fn lend(file: &OpenFile, at: u64, bytes: usize) -> Option<Vec<Bytes>> {
    let pieces = pages_by(file.place()?, at, bytes, Look::Lend)?;
    file.tell_some(pieces.len(), IN_ACCESS);
    Some(pieces)
}

/// The way in which a page is had.
#[derive(Clone, Copy)]
enum Look {
    /// A writer changes it.
    Read,
    /// A writer replaces it.
    Lend,
}

/// Returns the pages of a file that are in memory, by reference; `None` if not all of those asked for are.
pub(super) fn pages(place: &Place, at: u64, bytes: usize) -> Option<Vec<Bytes>> {
    pages_by(place, at, bytes, Look::Read)
}

fn pages_by(place: &Place, at: u64, bytes: usize, look: Look) -> Option<Vec<Bytes>> {
    let mut pieces = Vec::with_capacity((bytes.min(CHUNK_BYTES) / PAGE_BYTES).saturating_add(1));
    let mut done = 0;
    while done < bytes {
        let (offset, wanted) = (at.checked_add(done as u64)?, bytes.saturating_sub(done).min(NEAR_BYTES_MAX));
        let mut pages = [const { None }; NEAR_PAGES_MAX];
        let shown = place.system().visit(|near| match look {
            Look::Read => near.read(place.node, offset, wanted, &mut pages),
            Look::Lend => near.lend(place.node, offset, wanted, &mut pages),
        });
        let count = shown??.ok()?;
        let (mut start, mut left) = (in_page(offset), count);
        for page in pages.into_iter().take(start.saturating_add(count).div_ceil(PAGE_BYTES)) {
            let piece = Bytes::new(page?, start, left.min(PAGE_BYTES.saturating_sub(start)));
            left = left.saturating_sub(piece.len());
            start = 0;
            pieces.push(piece);
        }
        done = done.saturating_add(count);
        if count < wanted {
            break;
        }
    }
    Some(pieces)
}
