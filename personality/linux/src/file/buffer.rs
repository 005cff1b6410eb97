//! Buffers of a program: one range of memory or a list of them, which a read fills and a write empties.
//!
//! Protocol of use: make a [`UserBuffer`], then [`UserBuffer::put`] or [`UserBuffer::put_pieces`] for a read,
//! [`UserBuffer::get`] or [`UserBuffer::gather`] for a write; each goes on from the last byte used.
//! [`UserBuffer::give_back`] returns bytes that were gathered and not written. After an error [`UserBuffer::done`] is
//! the answer if it is not 0. Copies wait for pages of the program; they answer EFAULT for addresses that are not its
//! own.
//!
//! A list of iovecs is read once, so the program cannot change it under a call. More than [`CALL_BYTES_MAX`] bytes are
//! cut, as in Linux; a list whose sum overflows is EINVAL. A buffer of one range takes no memory of its own.

use crate::task::shortage;
use crate::{Errno, Thread};
use alloc::vec::Vec;
use gyre_machine::PAGE_BYTES;
use gyre_object::Bytes;

/// Most entries of an iovec list (IOV_MAX).
pub const IOVECS_MAX: usize = 1024;
/// Most bytes one call moves, as in Linux (MAX_RW_COUNT).
pub const CALL_BYTES_MAX: usize = 0x7fff_f000;

/// A piece of a program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// First byte.
    pub address: u64,
    /// Length.
    pub bytes: usize,
}

/// Pieces of a program's memory, used one after the other; a single one takes no memory of its own.
pub enum Ranges {
    /// A buffer.
    One(Range),
    /// A list, such as [`read_iovecs`] gives.
    Many(Vec<Range>),
}

impl Ranges {
    /// Returns the pieces.
    pub fn as_slice(&self) -> &[Range] {
        match self {
            Ranges::One(range) => core::slice::from_ref(range),
            Ranges::Many(ranges) => ranges,
        }
    }

    /// Returns the bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.as_slice().iter().fold(0, |total, range| total.saturating_add(range.bytes))
    }
}

/// A program's buffer and how far it has been used.
pub struct UserBuffer<'a> {
    thread: &'a Thread,
    ranges: Ranges,
    index: usize,
    offset: usize,
    left: usize,
    done: usize,
}

impl<'a> UserBuffer<'a> {
    /// Makes a buffer of one range; a length beyond [`CALL_BYTES_MAX`] is cut.
    pub fn new(thread: &'a Thread, address: u64, bytes: usize) -> UserBuffer<'a> {
        let bytes = bytes.min(CALL_BYTES_MAX);
        UserBuffer::from_ranges(thread, Ranges::One(Range { address, bytes }))
    }

    /// Returns the list of `count` iovecs at `address`, each read once.
    ///
    /// # Errors
    /// EINVAL for more than [`IOVECS_MAX`] entries or lengths whose sum overflows ssize_t; EFAULT.
    pub async fn from_iovecs(thread: &'a Thread, address: u64, count: usize) -> Result<UserBuffer<'a>, Errno> {
        Ok(UserBuffer::from_ranges(thread, Ranges::Many(read_iovecs(thread, address, count).await?)))
    }

    /// Makes a buffer of several ranges; more than [`CALL_BYTES_MAX`] together are cut.
    pub fn from_ranges(thread: &'a Thread, ranges: Ranges) -> UserBuffer<'a> {
        let left = ranges.bytes().min(CALL_BYTES_MAX);
        UserBuffer { thread, ranges, index: 0, offset: 0, left, done: 0 }
    }

    /// Returns the thread whose memory it is.
    pub fn thread(&self) -> &'a Thread {
        self.thread
    }

    /// Returns the bytes not used yet.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Returns the bytes used.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Uses at most `bytes` more.
    pub(super) fn cut(&mut self, bytes: usize) {
        self.left = self.left.min(bytes);
    }

    /// Returns the bytes used since it was `before`.
    pub fn done_since(&self, before: usize) -> usize {
        self.done.saturating_sub(before)
    }

    /// Returns the next contiguous part of at most `bytes_max` bytes.
    pub(super) fn next(&mut self, bytes_max: usize) -> Option<Range> {
        loop {
            let range = *self.ranges.as_slice().get(self.index)?;
            let rest = range.bytes.saturating_sub(self.offset);
            if rest == 0 {
                self.index = self.index.saturating_add(1);
                self.offset = 0;
                continue;
            }
            let bytes = rest.min(bytes_max).min(self.left);
            let address = range.address.wrapping_add(self.offset as u64);
            return (bytes > 0).then_some(Range { address, bytes });
        }
    }

    /// Returns the rest, if that is one contiguous part.
    pub(super) fn only(&mut self) -> Option<Range> {
        let left = self.left;
        self.next(left).filter(|range| range.bytes == left)
    }

    /// Returns whether an offset and the pieces that are left begin and end at multiples of `unit`, a power of two.
    pub(super) fn is_aligned(&self, offset: u64, unit: usize) -> bool {
        let ranges = self.ranges.as_slice().get(self.index..).unwrap_or_default();
        let all = ranges
            .iter()
            .filter(|range| range.bytes > 0)
            .fold(offset | self.offset as u64, |all, range| all | range.address | range.bytes as u64);
        all.is_multiple_of(unit as u64)
    }

    /// Marks the next `bytes` bytes as used; they lie in the answer of [`Self::next`].
    pub(super) fn used(&mut self, bytes: usize) {
        self.offset = self.offset.saturating_add(bytes);
        self.left = self.left.saturating_sub(bytes);
        self.done = self.done.saturating_add(bytes);
    }

    /// Copies `data` to the program, up to the buffer's end. Returns the bytes copied.
    ///
    /// # Errors
    /// EFAULT; [`UserBuffer::done`] tells how many were copied before.
    pub async fn put(&mut self, data: &[u8]) -> Result<usize, Errno> {
        let mut copied = 0;
        while let Some(rest) = data.get(copied..).filter(|rest| !rest.is_empty()) {
            let Some(range) = self.next(rest.len()) else {
                break;
            };
            let part = rest.get(..range.bytes).unwrap_or(rest);
            let mut done = 0;
            let result = self.thread.copy_out_from(range.address, part, &mut done).await;
            self.used(done);
            result?;
            copied = usize::saturating_add(copied, done);
        }
        Ok(copied)
    }

    /// Copies pieces to the program, in order.
    ///
    /// # Errors
    /// EFAULT if not even the first byte could be copied; a part is an answer.
    pub async fn put_pieces(&mut self, pieces: &[Bytes]) -> Result<usize, Errno> {
        let before = self.done;
        for piece in pieces {
            if let Err(error) = self.put(piece.as_slice()).await {
                return if self.done > before { Ok(self.done_since(before)) } else { Err(error) };
            }
        }
        Ok(self.done_since(before))
    }

    /// Copies up to `into.len()` bytes from the program. Answers the bytes copied: fewer at the buffer's end.
    ///
    /// # Errors
    /// EFAULT.
    pub async fn get(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        let mut copied = 0;
        while copied < into.len() {
            let Some(range) = self.next(into.len().saturating_sub(copied)) else {
                break;
            };
            let Some(part) = into.get_mut(copied..).and_then(|rest| rest.get_mut(..range.bytes)) else {
                break;
            };
            self.thread.copy_in(range.address, part).await?;
            self.used(range.bytes);
            copied = copied.saturating_add(range.bytes);
        }
        Ok(copied)
    }

    /// Copies up to `bytes_max` bytes from the program into fresh pages.
    ///
    /// # Errors
    /// EFAULT or ENOMEM if not even the first page could be had; a part is an answer.
    pub async fn gather(&mut self, bytes_max: usize) -> Result<Vec<Bytes>, Errno> {
        let total = bytes_max.min(self.left);
        let mut pieces = Vec::with_capacity(total.div_ceil(PAGE_BYTES));
        let mut gathered = 0;
        while gathered < total {
            let bytes = total.saturating_sub(gathered).min(PAGE_BYTES);
            match self.gather_page(bytes).await {
                Ok(piece) => {
                    gathered = usize::saturating_add(gathered, piece.len());
                    pieces.push(piece);
                }
                Err(error) if pieces.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(pieces)
    }

    async fn gather_page(&mut self, bytes: usize) -> Result<Bytes, Errno> {
        let mut page = shortage::fresh_page(self.thread).await?;
        let before = self.done;
        let into = page.as_mut_slice().and_then(|slice| slice.get_mut(..bytes));
        let into = into.ok_or(Errno::ENOMEM)?;
        match self.get(into).await {
            Err(error) if self.done == before => Err(error),
            _ => Ok(Bytes::new(page, 0, self.done_since(before))),
        }
    }

    /// Uses up the whole buffer without touching it; answers its length.
    pub fn skip(&mut self) -> usize {
        let skipped = self.left;
        self.done = self.done.saturating_add(skipped);
        self.left = 0;
        skipped
    }

    /// Takes back the use of the last `bytes` bytes, which went nowhere.
    pub fn give_back(&mut self, bytes: usize) {
        let mut bytes = bytes.min(self.done);
        self.done = self.done.saturating_sub(bytes);
        self.left = self.left.saturating_add(bytes);
        while bytes > self.offset && self.index > 0 {
            bytes = bytes.saturating_sub(self.offset);
            self.index = self.index.saturating_sub(1);
            self.offset = self.ranges.as_slice().get(self.index).map_or(0, |range| range.bytes);
        }
        self.offset = self.offset.saturating_sub(bytes);
    }
}

/// Reads a list of `count` iovecs at `address`, each once.
///
/// # Errors
/// EINVAL for more than [`IOVECS_MAX`] entries or lengths whose sum overflows ssize_t; EFAULT.
pub async fn read_iovecs(thread: &Thread, address: u64, count: usize) -> Result<Vec<Range>, Errno> {
    if count > IOVECS_MAX {
        return Err(Errno::EINVAL);
    }
    let mut raw = alloc::vec![0u8; count.saturating_mul(16)];
    thread.copy_in(address, &mut raw).await?;
    let mut ranges = Vec::with_capacity(count);
    let mut total = 0usize;
    for entry in raw.chunks_exact(16) {
        let address = word(entry, 0);
        let bytes = word(entry, 8) as usize;
        total = total.checked_add(bytes).filter(|total| isize::try_from(*total).is_ok()).ok_or(Errno::EINVAL)?;
        ranges.push(Range { address, bytes });
    }
    Ok(ranges)
}

/// Returns the little-endian 64-bit word at `at`, 0 beyond the end.
pub fn word(raw: &[u8], at: usize) -> u64 {
    raw.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Returns the little-endian 32-bit word at `at`, 0 beyond the end.
pub fn half(raw: &[u8], at: usize) -> u32 {
    raw.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}
