//! Clearing lots between two holders, in slices, so that no turn is long.

use super::lots;
use super::pool::{LOT_BYTES, pool};
use super::window::Window;
use gyre_platform::{MemoryRegion, OutOfMemory, PAGE_BYTES, Pa};

/// A slice: some 60 us in the emulator.
const SLICE_BYTES: u64 = 64 * PAGE_BYTES as u64;

/// Lots that are being cleared, slice by slice.
#[derive(Debug)]
pub struct Clearing {
    region: MemoryRegion,
    next: u64,
    window: Option<Window>,
}

/// Lots that cannot be cleared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClearError {
    /// These are no whole lots of the pool.
    NoLot(MemoryRegion),
    /// An instance lives in this lot.
    BusyLot(MemoryRegion),
    /// The supervisor has no memory for its tables.
    OutOfMemory,
}

/// Begins to clear whole lots of the pool in which nobody lives.
///
/// # Errors
/// [`ClearError::NoLot`].
pub fn clear_lots(region: MemoryRegion) -> Result<Clearing, ClearError> {
    let is_whole = region.start.0.is_multiple_of(LOT_BYTES) && region.bytes.is_multiple_of(LOT_BYTES);
    if !is_whole || !pool().has_memory(&region) {
        return Err(ClearError::NoLot(region));
    }
    Ok(Clearing { region, next: region.start.0, window: None })
}

impl Clearing {
    /// Clears the next 256 KiB; returns whether all is clear.
    ///
    /// # Errors
    /// [`ClearError`]; what was not cleared stays dirty.
    pub fn step(&mut self) -> Result<bool, ClearError> {
        if self.next >= self.region.start.0 + self.region.bytes {
            return Ok(true);
        }
        let lot = MemoryRegion { start: Pa(self.next / LOT_BYTES * LOT_BYTES), bytes: LOT_BYTES };
        if lots::lot_state(lot.start.0) == Some(lots::LotState::Held) {
            return Err(ClearError::BusyLot(lot));
        }
        if self.window.is_none() {
            self.window = Some(Window::open(lot).map_err(|OutOfMemory| ClearError::OutOfMemory)?);
        }
        let cleared = self.window.as_ref().and_then(|window| window.clear(self.next, SLICE_BYTES));
        cleared.ok_or(ClearError::NoLot(lot))?;
        self.next += SLICE_BYTES;
        if self.next.is_multiple_of(LOT_BYTES) {
            self.window = None;
            if !lots::set_clean(&lot) {
                return Err(ClearError::BusyLot(lot));
            }
        }
        Ok(self.next >= self.region.start.0 + self.region.bytes)
    }
}

const _: () = assert!(LOT_BYTES.is_multiple_of(SLICE_BYTES));
