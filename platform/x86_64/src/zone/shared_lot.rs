//! A lot that two instances map: the memory of a link between them. The supervisor holds it; it never becomes memory of either.
//!
//! It lies in the direct map at its own place, and its frames have descriptions that say that the allocator has no business with them. Once
//! mapped it stays mapped: views of its pages may be held for as long as this instance runs.
//!
//! Both sides write it at any time. So its words are atomics, and its pages are read and written as those of a program are.

use super::pool::LOT_BYTES;
use crate::kernel_map;
use crate::memory::frame::Frame;
use crate::paging::DIRECT_MAP;
use core::fmt;
use core::sync::atomic::AtomicU64;
use gyre_platform::{MemoryRegion, OutOfMemory, PAGE_BYTES, Pa};

/// Pages of a lot.
const PAGES: usize = LOT_BYTES as usize / PAGE_BYTES;
/// Words of a page.
const PAGE_WORDS: usize = PAGE_BYTES / size_of::<u64>();

/// A lot that is mapped here beside this instance's own memory.
#[derive(Clone, Copy, Debug)]
pub struct SharedLot {
    start: u64,
}

/// Why a lot cannot be mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShareError {
    /// It is no whole lot below 4 GiB.
    Shape(Pa),
    /// This instance has memory of its own there.
    Own(Pa),
    /// There is no memory for tables.
    OutOfMemory,
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShareError::Shape(pa) => write!(f, "no lot of 2 MiB below 4 GiB begins at {:#x}", pa.0),
            ShareError::Own(pa) => write!(f, "the lot at {:#x} is this kernel's own memory", pa.0),
            ShareError::OutOfMemory => f.write_str("there is no memory for the tables of a shared lot"),
        }
    }
}

impl From<OutOfMemory> for ShareError {
    fn from(_: OutOfMemory) -> ShareError {
        ShareError::OutOfMemory
    }
}

/// Maps a lot that the supervisor has taken from the pool for this. Mapping it again is harmless.
///
/// # Errors
/// [`ShareError`].
pub fn share_lot(pa: Pa) -> Result<SharedLot, ShareError> {
    if !pa.0.is_multiple_of(LOT_BYTES) || pa.0 == 0 || pa.0 >= 4 << 30 {
        return Err(ShareError::Shape(pa));
    }
    let region = MemoryRegion { start: pa, bytes: LOT_BYTES };
    match kernel_map::map_foreign(&region)? {
        kernel_map::Foreign::Mapped => Ok(SharedLot { start: pa.0 }),
        kernel_map::Foreign::Own => Err(ShareError::Own(pa)),
    }
}

impl SharedLot {
    /// Pages of each lot.
    pub const PAGES: usize = PAGES;

    /// Returns the words of its first pages, at most all of them.
    pub fn words(&self, pages: usize) -> &'static [AtomicU64] {
        let count = pages.min(PAGES) * PAGE_WORDS;
        // SAFETY: `share_lot` has mapped all of the lot, for good, and all who map it access these words as atomics.
        unsafe { core::slice::from_raw_parts((DIRECT_MAP + self.start) as *const AtomicU64, count) }
    }

    /// Returns a page as a frame that nobody pays for and nobody frees; `None` beyond the last.
    pub fn frame(&self, page: usize) -> Option<Frame> {
        let pa = self.start + (page * PAGE_BYTES) as u64;
        (page < PAGES).then(|| Frame::foreign(pa)).flatten()
    }
}
