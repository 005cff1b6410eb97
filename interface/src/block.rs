//! Block devices: sectors in, sectors out.

use alloc::vec::Vec;
use gyre_message::{Gone, protocol};
use gyre_object::Bytes;

/// Bytes of a sector.
pub const SECTOR_BYTES: usize = 512;
/// Most bytes of one request. A call past the cache, or the pages fetched for one reader, may use that much
/// (docs/decisions/0013).
pub const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Most views of one request.
pub const REQUEST_VIEWS_MAX: usize = MERGED_BYTES_MAX / SECTOR_BYTES;
/// Most bytes that adjacent requests, or changed pages of a file cache, are merged into. Only those of one activity
/// are merged.
pub const MERGED_BYTES_MAX: usize = 32 * 1024;

/// Why a block request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockError {
    /// The device reports an error of the medium. Repeating may help.
    Io,
    /// The sectors lie beyond the device's end, or the length is not a multiple of a sector.
    OutOfRange,
    /// The device does not do that (writing to a read-only disk).
    Unsupported,
    /// No memory for the request. Later.
    OutOfMemory,
    /// The driver is gone.
    Gone,
}

impl From<Gone> for BlockError {
    fn from(_: Gone) -> BlockError {
        BlockError::Gone
    }
}

/// Size and kind of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Size in sectors.
    pub sectors: u64,
    /// True if it refuses writes.
    pub read_only: bool,
}

impl Geometry {
    /// Checks that the device can read or write these views: whole sectors, in bounds, not too many.
    ///
    /// # Errors
    /// [`BlockError::OutOfRange`].
    pub fn check(&self, first_sector: u64, views: &[Bytes]) -> Result<(), BlockError> {
        let bytes: usize = views.iter().map(Bytes::len).sum();
        let is_aligned = views.iter().all(|view| {
            let (_, start) = view.location();
            !view.is_empty() && start.is_multiple_of(SECTOR_BYTES) && view.len().is_multiple_of(SECTOR_BYTES)
        });
        let end = first_sector.checked_add((bytes / SECTOR_BYTES) as u64);
        let is_inside = end.is_some_and(|end| end <= self.sectors);
        let is_small = bytes <= REQUEST_BYTES_MAX && views.len() <= REQUEST_VIEWS_MAX;
        let is_sound = !views.is_empty() && is_aligned && is_inside && is_small;
        if is_sound { Ok(()) } else { Err(BlockError::OutOfRange) }
    }
}

protocol! {
    /// The requests of a block device.
    pub mod block {
        /// Tells size and kind. Idempotent.
        async fn geometry() -> Result<Geometry, BlockError>;
        /// Reads consecutive sectors into the views, in order; each starts and ends at a multiple of a sector in its page. Gives them back filled. Idempotent.
        async fn read(first_sector: u64, into: Vec<Bytes>) -> Result<Vec<Bytes>, BlockError>;
        /// Writes the views to consecutive sectors. The device may keep them in a volatile cache until `flush`. Idempotent.
        async fn write(first_sector: u64, from: Vec<Bytes>) -> Result<(), BlockError>;
        /// Makes all writes that were answered before durable. Idempotent.
        async fn flush() -> Result<(), BlockError>;
    }
}
