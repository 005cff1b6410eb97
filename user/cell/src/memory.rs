//! The memory of a cell: page tables, regions, and the space that both make up.

mod region;
mod space;
mod table;
mod window;

pub use region::{Region, Regions, Rights};
pub use space::{Arena, Place, Space};
pub use table::{Leaf, Size, Table};
pub use window::{Change, Window};

/// Bytes of a small page.
pub const PAGE_BYTES: u64 = 4096;
/// Bytes of a large page and of a lot.
pub const LARGE_BYTES: u64 = gyre_cell_abi::LOT_BYTES;

/// Rounds up to whole pages; `None` if there is no such address.
pub fn page_up(address: u64) -> Option<u64> {
    Some(address.checked_add(PAGE_BYTES - 1)? & !(PAGE_BYTES - 1))
}

/// Rounds down to a whole page.
pub fn page_down(address: u64) -> u64 {
    address & !(PAGE_BYTES - 1)
}
