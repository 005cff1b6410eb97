//! Entries of four-level page tables (APM vol. 2, 5.3), as a cell has them.

use gyre_machine::MapFlags;

pub(crate) const PRESENT: u64 = 1;
pub(crate) const WRITE: u64 = 1 << 1;
pub(crate) const USER: u64 = 1 << 2;
pub(crate) const ACCESSED: u64 = 1 << 5;
pub(crate) const DIRTY: u64 = 1 << 6;
pub(crate) const LARGE: u64 = 1 << 7;
pub(crate) const NO_EXECUTE: u64 = 1 << 63;
pub(crate) const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// An entry of an upper level: the leaf decides about rights.
pub(crate) const UPPER: u64 = PRESENT | WRITE | USER | ACCESSED;

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;

/// Returns the index of an address in a table of a level, 1 being the last.
pub(crate) fn index(address: u64, level: u32) -> u64 {
    address.checked_shr(level.saturating_mul(9).saturating_add(3)).unwrap_or(0) & 511
}

/// Returns the bytes that an entry of a level maps.
pub(crate) fn span(level: u32) -> u64 {
    PAGE.checked_shl(level.saturating_sub(1).saturating_mul(9)).unwrap_or(0)
}

/// Returns the entry of a leaf. Marks are set already: the processor need not set them.
pub(crate) fn leaf(pa: u64, rights: MapFlags) -> u64 {
    let write = if rights.contains(MapFlags::WRITE) { WRITE | DIRTY } else { 0 };
    let execute = if rights.contains(MapFlags::EXECUTE) { 0 } else { NO_EXECUTE };
    pa & ADDRESS | PRESENT | USER | ACCESSED | write | execute
}
