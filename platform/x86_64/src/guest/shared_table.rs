//! A nested table that several cores of a guest use at the same time.
//!
//! It grows while they are in: an entry that was absent is remembered by no core. It shrinks only while it is *closed* and all are out:
//! 1. [`SharedTable::close`]: no core enters any more;
//! 2. the caller interrupts those that are in, and asks for [`SharedTable::shrink`] until it is done;
//! 3. [`SharedTable::open`]. Each core forgets the old table at its next entry.
//!
//! A core says that it is inside before it looks whether the table is closed; who closes it looks afterwards who is inside. A core that finds
//! it closed was inside for that moment: a table that was clear once is not clear for good, and a refusal to shrink is no failure.

use super::core::{Core, enter_at};
use super::exit::Exit;
use super::nested_table::NestedTable;
use crate::lock::SpinLock;
use ::core::sync::atomic::{AtomicU32, Ordering};
use gyre_platform::{MapError, MapFlags, MemoryRegion, Pa};

/// A nested table that several cores of a guest use.
pub struct SharedTable {
    table: SpinLock<NestedTable>,
    root: u64,
    /// How many closings stand.
    closings: AtomicU32,
    /// Cores that are inside, or about to see that it is closed.
    inside: AtomicU32,
}

impl SharedTable {
    /// Shares a table.
    pub fn new(table: NestedTable) -> SharedTable {
        let root = table.root();
        SharedTable { table: SpinLock::new(table), root, closings: AtomicU32::new(0), inside: AtomicU32::new(0) }
    }

    /// Looks at the table, or adds grants to it.
    pub fn grow<T>(&self, change: impl FnOnce(&mut Growing<'_>) -> T) -> T {
        self.table.with(|table| change(&mut Growing(table)))
    }

    /// As [`NestedTable::is_written`]; exact once all cores are outside for good.
    pub fn is_written(&self, range: MemoryRegion) -> bool {
        self.table.with(|table| table.is_written(range))
    }

    /// Changes the table in any way; `None`, and nothing is done, if it is not closed or a core is inside: ask again.
    pub fn shrink<T>(&self, change: impl FnOnce(&mut NestedTable) -> T) -> Option<T> {
        self.table.with(|table| (self.is_closed() && self.is_clear()).then(|| change(table)))
    }

    /// Lets no core enter until [`SharedTable::open`] is called as often as this.
    pub fn close(&self) {
        self.closings.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes one closing back.
    pub fn open(&self) {
        self.closings.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns true while a closing stands.
    pub fn is_closed(&self) -> bool {
        self.closings.load(Ordering::SeqCst) != 0
    }

    /// Returns true if no core is inside at this moment.
    fn is_clear(&self) -> bool {
        self.inside.load(Ordering::SeqCst) == 0
    }
}

/// A table to which grants may be added.
pub struct Growing<'a>(&'a mut NestedTable);

impl Growing<'_> {
    /// As [`NestedTable::map`].
    ///
    /// # Errors
    /// Its.
    pub fn map(&mut self, range: MemoryRegion, rights: MapFlags) -> Result<(), MapError> {
        self.0.map(range, rights)
    }

    /// As [`NestedTable::rights_of`].
    pub fn rights_of(&self, address: Pa) -> Option<MapFlags> {
        self.0.rights_of(address)
    }
}

/// Runs a guest's core on this core until it leaves, as [`super::enter`] does; `None` if the table is closed.
pub fn enter_shared(core: &mut Core, table: &SharedTable) -> Option<Exit> {
    table.inside.fetch_add(1, Ordering::SeqCst);
    let exit = (!table.is_closed()).then(|| enter_at(core, table.root));
    table.inside.fetch_sub(1, Ordering::SeqCst);
    exit
}
