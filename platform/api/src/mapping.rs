//! A page table's entry for one page.

use crate::Pa;

bitflags::bitflags! {
    /// Rights and kind of a mapping. Pages are always readable; no page is both writable and executable in the kernel.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct MapFlags: u32 {
        /// May be written.
        const WRITE = 1;
        /// May be executed.
        const EXECUTE = 2;
        /// May be reached by user programs.
        const USER = 4;
        /// Device memory: not cached.
        const DEVICE = 8;
        /// Free for the owner of the table: copy-on-write marks and the like. Kept by the hardware tables.
        const MARK = 16;
        /// Set by hardware when the page was touched.
        const ACCESSED = 32;
        /// Set by hardware when the page was written.
        const DIRTY = 64;
    }
}

/// One present page: where it is and what may be done to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The frame.
    pub pa: Pa,
    /// Rights and marks.
    pub flags: MapFlags,
}

/// The kind of access that a program tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// To read it.
    Read,
    /// To write it.
    Write,
    /// To run it.
    Execute,
}

/// Why a page could not be mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapError {
    /// No memory for a table; nothing changed.
    OutOfMemory,
    /// Something is mapped there already.
    Occupied,
    /// The address is not one that this table may map.
    BadAddress,
}
