//! Questions to a unit before it is used.

use crate::command;
use crate::unit::Unit;
use crate::verdict::Verdict;
use alloc::vec;
use alloc::vec::Vec;
use gyre_interface::block::{BlockError, Geometry, SECTOR_BYTES};
use gyre_interface::scsi::{COMMAND_BYTES, Direction};
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
/// Length of that time, s.
const READY_S: u64 = READY_TRIES as u64 * READY_PAUSE_NS / 1_000_000_000;

/// Finds out what the unit is.
///
/// # Errors
/// [`BlockError::Unsupported`] if it is no disk, or one of blocks that are not 512 bytes; [`BlockError::Io`] if it does not answer or what it
/// says of its size makes no sense.
pub(crate) async fn geometry(unit: &Unit) -> Result<Geometry, BlockError> {
    let inquiry = ask(unit, command::inquiry(INQUIRY_BYTES), INQUIRY_BYTES).await?;
    let kind = inquiry.first().copied();
    if kind != Some(TYPE_DISK) {
        log::error!("a SCSI unit is no disk: its device type is {kind:x?}, a disk's is {TYPE_DISK}");
        return Err(BlockError::Unsupported);
    }
    until_ready(unit).await?;
    let capacity = ask(unit, command::read_capacity(CAPACITY_BYTES), CAPACITY_BYTES).await?;
    let sectors = sectors(&capacity)?;
    // A disk without mode pages may be written until it says otherwise.
    let mode = ask(unit, command::mode_sense(MODE_BYTES), MODE_BYTES).await.unwrap_or_default();
    let read_only = mode.get(2).is_some_and(|parameter| parameter & WRITE_PROTECTED != 0);
    Ok(Geometry { sectors, read_only })
}

/// The size that a unit says it has.
fn sectors(capacity: &[u8]) -> Result<u64, BlockError> {
    let Some((sectors, block_bytes)) = parse_capacity(capacity) else {
        log::error!("a SCSI disk says of its capacity {capacity:x?}: that is no number of blocks");
        return Err(BlockError::Io);
    };
    if block_bytes as usize != SECTOR_BYTES {
        log::error!("a SCSI disk has blocks of {block_bytes} bytes: only {SECTOR_BYTES} are known here");
        return Err(BlockError::Unsupported);
    }
    Ok(sectors)
}

/// Blocks and bytes of a block (SBC-3 §5.15.2): the last address first, big endian. `None` if there are not all of these bytes, or more blocks
/// than have places in bytes.
pub(crate) fn parse_capacity(raw: &[u8]) -> Option<(u64, u32)> {
    let last = u64::from_be_bytes(raw.get(..8)?.try_into().ok()?);
    let bytes = u32::from_be_bytes(raw.get(8..12)?.try_into().ok()?);
    let blocks = last.checked_add(1)?;
    blocks.checked_mul(u64::from(bytes.max(1)))?;
    Some((blocks, bytes))
}

async fn until_ready(unit: &Unit) -> Result<(), BlockError> {
    for _ in 0..READY_TRIES {
        match unit.send(command::test_unit_ready(), Direction::Nowhere, Vec::new()).await?.0 {
            Verdict::Done { .. } => return Ok(()),
            Verdict::Again | Verdict::Later => sleep_ns(READY_PAUSE_NS).await,
            refused => return Err(refused.error()),
        }
    }
    log::error!("a SCSI disk was not ready after {} s", READY_S);
    Err(BlockError::Io)
}

/// Returns what the unit says of itself, up to `bytes`; fewer if it said less.
async fn ask(unit: &Unit, command: [u8; COMMAND_BYTES], bytes: u8) -> Result<Vec<u8>, BlockError> {
    let page = Page::zeroed().map_err(|_| BlockError::OutOfMemory)?;
    let view = Bytes::new(page, 0, usize::from(bytes));
    let (moved, views) = unit.perform(command, Direction::FromUnit, vec![view]).await?;
    Ok(views.iter().flat_map(|view| view.as_slice().iter().copied()).take(moved).collect())
}
