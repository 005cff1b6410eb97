//! The memory that a guest reaches.

use super::tree::{Largest, Tables, Tree};
use crate::instructions::cpuid;
use crate::memory::frame::Frame;
use crate::paging::Slot;
use gyre_platform::{MapError, MapFlags, MemoryRegion, OutOfMemory, Pa};

/// Grants a guest ranges of physical memory, each at its own address; the guest reaches nothing else.
///
/// Its tables are frames of whoever makes it and grants by it; they come back when it is dropped. It holds no reference to the memory
/// that it grants. Entries are the largest that fit: 4 KiB, 2 MiB, and 1 GiB if the processor has them. A core of the guest borrows it
/// as long as it runs, so it changes only while all are out; what they remember of it is forgotten at the next entry.
pub struct NestedTable(Tree<FrameTables>);

/// Tables in frames of the current activity.
struct FrameTables;

impl Tables for FrameTables {
    fn take(&mut self) -> Option<u64> {
        Frame::allocate(0).ok().map(Frame::into_pa)
    }

    fn give(&mut self, table: u64) {
        // SAFETY: made by `take`, and the tree gives each back once.
        drop(unsafe { Frame::from_pa(table) });
    }

    fn get(&self, table: u64, index: u64) -> u64 {
        // SAFETY: the tree names tables that it has taken and not given back.
        unsafe { Slot::of(table, index) }.get()
    }

    fn set(&mut self, table: u64, index: u64, entry: u64) {
        // SAFETY: as above.
        unsafe { Slot::of(table, index) }.set(entry);
    }
}

impl NestedTable {
    /// Makes a table that grants nothing.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn new() -> Result<NestedTable, OutOfMemory> {
        let has_gibibytes = cpuid(0x8000_0001, 0)[3] >> 26 & 1 == 1;
        let largest = if has_gibibytes { Largest::OneGibibyte } else { Largest::TwoMebibytes };
        Tree::new(FrameTables, largest).map(NestedTable)
    }

    /// Grants a range of whole pages. Of the rights [`MapFlags::WRITE`], [`MapFlags::EXECUTE`] and [`MapFlags::DEVICE`] count; it may
    /// always be read.
    ///
    /// # Errors
    /// [`MapError`]; nothing is granted then.
    pub fn map(&mut self, range: MemoryRegion, rights: MapFlags) -> Result<(), MapError> {
        self.0.map(range, rights)
    }

    /// Takes a range of whole pages away; parts of it that were not granted stay so. It is gone when this returns, for no core is in.
    ///
    /// # Errors
    /// [`MapError::OutOfMemory`] if a large entry must be cut and there is no frame for its parts: nothing is taken away then.
    /// [`MapError::BadAddress`].
    pub fn unmap(&mut self, range: MemoryRegion) -> Result<(), MapError> {
        self.0.unmap(range)
    }

    /// The rights to the page that holds an address; `None` if it is not granted.
    pub fn rights_of(&self, address: Pa) -> Option<MapFlags> {
        self.0.rights_of(address.0)
    }

    /// Returns true if the guest may have written to a range of whole pages since it was granted, or if it is no such range. Of memory beside
    /// such a page, up to the largest entry, it may be said too.
    pub fn is_written(&self, range: MemoryRegion) -> bool {
        self.0.is_written(range)
    }

    /// The physical address of the root.
    pub(crate) fn root(&self) -> u64 {
        self.0.root()
    }
}
