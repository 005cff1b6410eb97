//! The first page table of a cell, in its first lot.
//!
//! The lower half is that of the process. In the upper half lies the window: each lot at [`WINDOW`] and its physical address. The tables of
//! the window that later lots will need are made at once, so that a lot is added by one word.

use crate::entry::{self, ADDRESS, LARGE, PAGE, PRESENT, UPPER};
use crate::held::Held;
use alloc::vec::Vec;
use gyre_address_space::Shown;
use gyre_machine::{MapFlags, PAGE_BYTES, Pa};

/// The virtual address of physical address 0.
pub const WINDOW: u64 = 0xffff_8000_0000_0000;
/// Bytes of a lot.
pub(crate) const LOT: u64 = gyre_cell_abi::LOT_BYTES;
/// The level of an entry for 2 MiB.
const LARGE_LEVEL: u32 = 2;
const GIBIBYTE: u64 = 1 << 30;

/// The first lot has no room for more tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom;

/// The table of a cell that has not begun.
pub struct Tables {
    root: u64,
    /// The first byte of the lot that no table has.
    free: u64,
    end: u64,
    /// Gibibytes of physical memory, with the table of the window for each.
    window: Vec<(u64, u64)>,
    /// The last table of the last level that was filled, with the number of its 2 MiB: pages come in the order of addresses.
    last: Option<(u64, u64)>,
}

impl Tables {
    /// Makes an empty table in the first lot of `held`, which is clear, with a window for lots at any of the addresses `possible`.
    ///
    /// # Errors
    /// [`NoRoom`], also without a lot.
    pub fn new(held: &Held, possible: impl Iterator<Item = Pa>) -> Result<Tables, NoRoom> {
        let start = held.lots().next().ok_or(NoRoom)?;
        let mut tables =
            Tables { root: 0, free: start, end: start.saturating_add(LOT), window: Vec::new(), last: None };
        tables.root = tables.take()?;
        for pa in possible {
            let gibibyte = pa.0 / GIBIBYTE;
            if tables.window.iter().all(|(known, _)| *known != gibibyte) {
                let place = WINDOW.wrapping_add(gibibyte.saturating_mul(GIBIBYTE));
                let slot = tables.slot(held, place, LARGE_LEVEL)?;
                tables.window.push((gibibyte, slot & ADDRESS));
            }
        }
        held.lots().try_for_each(|lot| tables.show_lot(held, lot)).map(|()| tables)
    }

    /// The physical address of the root.
    pub fn root(&self) -> Pa {
        Pa(self.root)
    }

    /// The physical address behind the last table.
    pub fn free(&self) -> Pa {
        Pa(self.free)
    }

    fn take(&mut self) -> Result<u64, NoRoom> {
        let table = self.free;
        self.free = table.saturating_add(PAGE);
        if self.free > self.end { Err(NoRoom) } else { Ok(table) }
    }

    /// Returns the physical address of the entry of an address in the table of a level; tables above it are made.
    fn slot(&mut self, held: &Held, address: u64, level: u32) -> Result<u64, NoRoom> {
        let mut table = self.root;
        for above in (level.saturating_add(1)..=4).rev() {
            let slot = place(table, address, above);
            let mut entry = held.read(slot).ok_or(NoRoom)?;
            if entry & PRESENT == 0 {
                entry = self.take()? | UPPER;
                held.write(slot, entry).ok_or(NoRoom)?;
            }
            table = entry & ADDRESS;
        }
        Ok(place(table, address, level))
    }

    /// Maps a page of the process as it was.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn show(&mut self, held: &Held, shown: &Shown) -> Result<(), NoRoom> {
        let leaf = entry::leaf(shown.page.pa().0, shown.rights);
        if shown.page.len() > PAGE_BYTES {
            let slot = self.slot(held, shown.address, LARGE_LEVEL)?;
            return held.write(slot, leaf | LARGE).ok_or(NoRoom);
        }
        let number = shown.address / LOT;
        let slot = match self.last {
            Some((known, table)) if known == number => place(table, shown.address, 1),
            _ => self.slot(held, shown.address, 1)?,
        };
        self.last = Some((number, slot & ADDRESS));
        held.write(slot, leaf).ok_or(NoRoom)
    }

    /// Shows a lot in the window, also while the cell runs. If it has put something else in the place of the table, that is its own memory.
    ///
    /// # Errors
    /// [`NoRoom`] if the lot lies where none was possible.
    pub fn show_lot(&self, held: &Held, lot: u64) -> Result<(), NoRoom> {
        let rights = MapFlags::WRITE | MapFlags::EXECUTE;
        self.set_window(held, lot, entry::leaf(lot, rights) | LARGE)
    }

    /// Takes a lot out of the window.
    ///
    /// # Errors
    /// As [`Tables::show_lot`].
    pub fn hide_lot(&self, held: &Held, lot: u64) -> Result<(), NoRoom> {
        self.set_window(held, lot, 0)
    }

    fn set_window(&self, held: &Held, lot: u64, entry: u64) -> Result<(), NoRoom> {
        let (_, table) = self.window.iter().find(|(gibibyte, _)| *gibibyte == lot / GIBIBYTE).ok_or(NoRoom)?;
        held.write(place(*table, WINDOW.wrapping_add(lot), LARGE_LEVEL), entry).ok_or(NoRoom)
    }
}

/// Returns the physical address of the entry of an address in a table.
fn place(table: u64, address: u64, level: u32) -> u64 {
    (table & ADDRESS).saturating_add(entry::index(address, level).saturating_mul(8))
}

/// Finds the frame that a table of a cell has at an address: one read at each level. `None` if it has none, or one that the cell does not hold.
pub(crate) fn walk(held: &Held, root: u64, address: u64) -> Option<gyre_address_space::Seen> {
    let mut rights = MapFlags::WRITE | MapFlags::EXECUTE;
    let mut table = root;
    for level in (1..=4).rev() {
        let entry = held.read(place(table, address, level)).filter(|entry| entry & PRESENT != 0)?;
        rights &= rights_of(entry);
        if level == 1 || level < 4 && entry & LARGE != 0 {
            let within = entry::span(level).wrapping_sub(1);
            let mut seen = held.find(entry & ADDRESS & !within | address & within)?;
            seen.rights &= rights;
            let left = entry::span(level).saturating_sub(address & within);
            seen.bytes = seen.bytes.min(usize::try_from(left).unwrap_or(usize::MAX));
            return Some(seen);
        }
        table = entry;
    }
    None
}

/// Returns the physical address of the last table on the way to an address, if the cell has one.
pub(crate) fn last_table(held: &Held, root: u64, address: u64) -> Option<u64> {
    let mut table = root;
    for level in (2..=4).rev() {
        let entry = held.read(place(table, address, level))?;
        if entry & PRESENT == 0 || entry & LARGE != 0 {
            return None;
        }
        table = entry;
    }
    Some(table & ADDRESS)
}

/// Returns the physical address of the entry of an address in a last table, if it is empty.
pub(crate) fn empty_slot(held: &Held, table: u64, address: u64) -> Option<u64> {
    let slot = place(table, address, 1);
    (held.read(slot) == Some(0)).then_some(slot)
}

fn rights_of(entry: u64) -> MapFlags {
    let write = if entry & entry::WRITE != 0 { MapFlags::WRITE } else { MapFlags::empty() };
    let execute = if entry & entry::NO_EXECUTE == 0 { MapFlags::EXECUTE } else { MapFlags::empty() };
    write | execute
}
