//! What a unit is asked before it is used.

use super::command;
use crate::bus::Verdict;
use crate::device::VirtioDisk;
use crate::request::Kind;
use alloc::vec;
use alloc::vec::Vec;
use gyre_interface::block::{BlockError, Geometry, SECTOR_BYTES};
use gyre_message::sleep_ns;
use gyre_object::{Bytes, Page};

const INQUIRY_BYTES: u8 = 36;
const CAPACITY_BYTES: u8 = 32;
const MODE_BYTES: u8 = 192;
/// Direct access block device, connected (SPC-4 §6.6.2).
const TYPE_DISK: u8 = 0;
/// The bit of the mode header that says "write protected" (SBC-3 §6.4.1).
const WRITE_PROTECTED: u8 = 1 << 7;
/// A unit that starts may take its time: so many tries, so far apart.
const READY_TRIES: usize = 50;
const READY_PAUSE_NS: u64 = 100_000_000;

/// Finds out what unit 0 of target 0 is.
///
/// # Errors
/// [`BlockError::Unsupported`] where it is no disk, or one of blocks that are not 512 bytes; [`BlockError::Io`] where it does not answer.
pub(crate) async fn geometry(disk: &VirtioDisk) -> Result<Geometry, BlockError> {
    let inquiry = ask(disk, command::inquiry(INQUIRY_BYTES), INQUIRY_BYTES).await?;
    if inquiry.first() != Some(&TYPE_DISK) {
        return Err(BlockError::Unsupported);
    }
    until_ready(disk).await?;
    let capacity = ask(disk, command::read_capacity(CAPACITY_BYTES), CAPACITY_BYTES).await?;
    let (sectors, block_bytes) = parse_capacity(&capacity).ok_or(BlockError::Io)?;
    if block_bytes as usize != SECTOR_BYTES {
        log::error!("a SCSI disk has blocks of {block_bytes} bytes: only {SECTOR_BYTES} are known here");
        return Err(BlockError::Unsupported);
    }
    // A disk without mode pages may be written until it says otherwise.
    let mode = ask(disk, command::mode_sense(MODE_BYTES), MODE_BYTES).await.unwrap_or_default();
    let read_only = mode.get(2).is_some_and(|parameter| parameter & WRITE_PROTECTED != 0);
    Ok(Geometry { sectors, read_only })
}

/// Blocks and bytes of a block (SBC-3 §5.15.2): the last address first, big endian.
pub(crate) fn parse_capacity(raw: &[u8]) -> Option<(u64, u32)> {
    let last = u64::from_be_bytes(raw.get(..8)?.try_into().ok()?);
    let bytes = u32::from_be_bytes(raw.get(8..12)?.try_into().ok()?);
    Some((last.checked_add(1)?, bytes))
}

async fn until_ready(disk: &VirtioDisk) -> Result<(), BlockError> {
    for _ in 0..READY_TRIES {
        let answered = disk.perform_once(Kind::Command(command::test_unit_ready()), 0, Vec::new()).await;
        match answered.verdict {
            Verdict::Again => sleep_ns(READY_PAUSE_NS).await,
            verdict => return verdict.error().map_or(Ok(()), Err),
        }
    }
    Err(BlockError::Io)
}

/// What the unit says of itself: the bytes up to `bytes`, zeroes where it said less.
async fn ask(disk: &VirtioDisk, command: [u8; 16], bytes: u8) -> Result<Vec<u8>, BlockError> {
    let page = Page::zeroed().map_err(|_| BlockError::OutOfMemory)?;
    let view = Bytes::new(page, 0, usize::from(bytes));
    let (answered, _) = disk.perform(Kind::Command(command), 0, vec![view]).await;
    let views = answered?;
    Ok(views.iter().flat_map(|view| view.as_slice().iter().copied()).collect())
}
