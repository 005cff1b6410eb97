//! Lots of memory that come to this instance and leave it while it runs.
//!
//! Protocol of use: [`join_lots`] takes lots into use at once. To give some, look at the uses of the own ones ([`lot_use`]), let some leave
//! ([`begin_leaving`]), empty the caches of all cores ([`super::raw::empty_frame_cache`]), have their pages moved, and when all
//! [`has_left`], [`finish_leaving`]; then each core forgets translations ([`forget_lots`]). Until then [`stay`] undoes it.
//!
//! Called by the zone's agent, on one core at a time. Left out: which pages move, and who moves them.

use super::leaving::{LOTS_MAX, LotUse};
use super::raw::{self, Table, with_buddy};
use crate::paging::{DIRECT_MAP, LARGE_BYTES};
use crate::{instructions, kernel_map};
use gyre_platform::{MemoryRegion, OutOfMemory, PAGE_BYTES, Pa};

/// Lots whose descriptions surely find place in the first of them.
const PIECE_LOTS: u64 = 128;

/// Why lots do not come into use. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinError {
    /// They are no whole lots below 4 GiB.
    Shape,
    /// One of them is in use here already.
    Present,
    /// There is no memory for tables.
    OutOfMemory,
}

/// Takes lots into use that the supervisor has given.
///
/// # Errors
/// [`JoinError`].
pub fn join_lots(region: &MemoryRegion) -> Result<(), JoinError> {
    let end = region.start.0.checked_add(region.bytes).filter(|end| *end <= u64::from(LOTS_MAX) * LARGE_BYTES);
    let is_whole =
        region.bytes > 0 && region.start.0.is_multiple_of(LARGE_BYTES) && region.bytes.is_multiple_of(LARGE_BYTES);
    let end = end.filter(|_| is_whole).ok_or(JoinError::Shape)?;
    let is_present = |pa| kernel_map::slot_of(DIRECT_MAP + pa).is_some();
    if kernel_map::is_image(region) || (region.start.0..end).step_by(LARGE_BYTES as usize).any(is_present) {
        return Err(JoinError::Present);
    }
    kernel_map::map_lots(region).map_err(|OutOfMemory| JoinError::OutOfMemory)?;
    for start in (region.start.0..end).step_by((PIECE_LOTS * LARGE_BYTES) as usize) {
        let bytes = (end - start).min(PIECE_LOTS * LARGE_BYTES);
        join_piece(&MemoryRegion { start: Pa(start), bytes });
    }
    Ok(())
}

/// Takes mapped lots into use. If there is no memory for their descriptions, these lie in the first lot, which never leaves again.
fn join_piece(piece: &MemoryRegion) {
    let mut used = 0;
    let mut supply = || {
        raw::take_frames(0, true).or_else(|| {
            let page = piece.start.0 + used;
            used += PAGE_BYTES as u64;
            // It is mapped, and in nobody's hands yet.
            raw::zero_frames(page, 0);
            Some(page)
        })
    };
    // The supply does not end: a piece has more pages than descriptions and tables take.
    let _ = kernel_map::describe_lots(piece, &mut supply);
    raw::add_region(&MemoryRegion { start: Pa(piece.start.0 + used), bytes: piece.bytes - used });
}

/// Numbers of all lots that are wholly this instance's, in rising order.
pub fn own_lots() -> impl Iterator<Item = u32> {
    let owned = with_buddy(|buddy| buddy.owned);
    (0..LOTS_MAX).filter(move |lot| owned.has(*lot))
}

/// The uses of a lot's frames; `None` if it is not wholly this instance's.
pub fn lot_use(lot: u32) -> Option<LotUse> {
    with_buddy(|buddy| buddy.lot_use(&Table, lot))
}

/// Begins to let a lot go: nobody gets a frame of it from now on. False if it is not this instance's or goes already.
pub fn begin_leaving(lot: u32) -> bool {
    with_buddy(|buddy| buddy.begin_leaving(&Table, lot))
}

/// Lets a lot stay that was leaving.
pub fn stay(lot: u32) {
    with_buddy(|buddy| buddy.stay(&Table, lot));
}

/// True if nobody has a frame of a lot that leaves.
pub fn has_left(lot: u32) -> bool {
    with_buddy(|buddy| buddy.has_left(&Table, lot))
}

/// Ends the leaving of empty lots: they are out of use and out of the kernel's page table. False, and nothing changes, if one is not empty.
pub fn finish_leaving(lots: &[u32]) -> bool {
    let have_left = lots.iter().all(|lot| has_left(*lot));
    if have_left {
        for lot in lots {
            with_buddy(|buddy| buddy.finish_leaving(&Table, *lot));
            kernel_map::unmap_lots(&MemoryRegion { start: Pa(u64::from(*lot) * LARGE_BYTES), bytes: LARGE_BYTES });
        }
    }
    have_left
}

/// Forgets translations of lots that have left, on the calling core.
pub fn forget_lots() {
    instructions::flush_global();
}
