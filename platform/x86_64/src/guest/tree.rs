//! A four-level table that leads each granted address to itself: the pure part of [`super::NestedTable`].
//!
//! Entries are those of ordinary page tables (APM vol. 2, 15.25.5), each with its user bit, because the processor walks the table as
//! user code. A grant takes the largest entries that fit. Every table but the root holds an entry, so that what is taken away leaves
//! nothing behind. Walks are loops of four steps.
//!
//! A grant is whole or refused: without a frame for a table it takes back the part that it has made. To take away a part of a large
//! entry needs frames for its parts first; only that can fail.

use crate::paging::{ACCESSED, ADDRESS, DIRTY, LARGE, NO_EXECUTE, PRESENT, UNCACHED, USER, WRITE, index};
use gyre_platform::{MapError, MapFlags, MemoryRegion, OutOfMemory, PAGE_BYTES, Pa};

const PAGE: u64 = PAGE_BYTES as u64;
/// First address that four levels do not reach.
pub(super) const ADDRESS_END: u64 = 1 << 48;
const ENTRIES: u64 = 512;
const ROOT_LEVEL: u32 = 4;
/// An entry that names a table: the rights are the leaf's.
const UPPER: u64 = PRESENT | WRITE | USER | ACCESSED;
/// Rights that an entry can have.
const RIGHTS: [(MapFlags, u64); 2] = [(MapFlags::WRITE, WRITE), (MapFlags::DEVICE, UNCACHED)];

/// The frames in which tables lie.
pub(super) trait Tables {
    /// Takes a cleared frame.
    fn take(&mut self) -> Option<u64>;
    /// Gives one back.
    fn give(&mut self, table: u64);
    /// Entry `index` of a table.
    fn get(&self, table: u64, index: u64) -> u64;
    /// Replaces it.
    fn set(&mut self, table: u64, index: u64, entry: u64);
}

/// The largest entry that the processor knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Largest {
    /// 2 MiB.
    TwoMebibytes,
    /// 1 GiB.
    OneGibibyte,
}

/// One entry, and where it stands.
#[derive(Clone, Copy)]
struct Found {
    table: u64,
    level: u32,
    entry: u64,
}

impl Found {
    fn is_present(self) -> bool {
        self.entry & PRESENT != 0
    }

    fn bytes(self) -> u64 {
        span(self.level)
    }
}

/// The tree.
pub(super) struct Tree<T: Tables> {
    tables: T,
    root: u64,
    largest: Largest,
}

impl<T: Tables> Tree<T> {
    /// Makes one that grants nothing.
    pub(super) fn new(mut tables: T, largest: Largest) -> Result<Tree<T>, OutOfMemory> {
        let root = tables.take().ok_or(OutOfMemory)?;
        Ok(Tree { tables, root, largest })
    }

    /// The physical address of the root.
    pub(super) fn root(&self) -> u64 {
        self.root
    }

    /// Grants a range, all of it or nothing.
    pub(super) fn map(&mut self, range: MemoryRegion, rights: MapFlags) -> Result<(), MapError> {
        let (start, end) = bounds(range)?;
        if !self.is_free(start, end) {
            return Err(MapError::Occupied);
        }
        let mut at = start;
        while at < end {
            let level = self.level_for(at, end);
            if self.put(at, level, entry_of(at, rights)).is_none() {
                self.clear(start, at);
                self.prune(at);
                return Err(MapError::OutOfMemory);
            }
            at += span(level);
        }
        Ok(())
    }

    /// Takes a range away; what was not granted stays so.
    pub(super) fn unmap(&mut self, range: MemoryRegion) -> Result<(), MapError> {
        let (start, end) = bounds(range)?;
        self.split_at(start)?;
        self.split_at(end)?;
        self.clear(start, end);
        Ok(())
    }

    /// The rights of the page that holds an address.
    pub(super) fn rights_of(&self, address: u64) -> Option<MapFlags> {
        if address >= ADDRESS_END {
            return None;
        }
        let found = self.find(address);
        found.is_present().then(|| rights_in(found.entry))
    }

    /// Returns true if the guest may have written to a range: an entry that leads there is marked so. Entries are large, so this may be said of
    /// bytes beside those that were written.
    pub(super) fn is_written(&self, range: MemoryRegion) -> bool {
        let Ok((start, end)) = bounds(range) else { return true };
        let mut at = start;
        while at < end {
            let found = self.find(at);
            if found.is_present() && found.entry & DIRTY != 0 {
                return true;
            }
            at = next(at, found.bytes());
        }
        false
    }

    fn level_for(&self, at: u64, end: u64) -> u32 {
        let fits = |level: u32| at.is_multiple_of(span(level)) && end - at >= span(level);
        match self.largest {
            Largest::OneGibibyte if fits(3) => 3,
            _ if fits(2) => 2,
            _ => 1,
        }
    }

    /// Descends to the entry that decides about an address: absent, or a leaf.
    fn find(&self, address: u64) -> Found {
        let mut table = self.root;
        let mut level = ROOT_LEVEL;
        loop {
            let entry = self.tables.get(table, index(address, level));
            if entry & PRESENT == 0 || is_leaf(entry, level) {
                return Found { table, level, entry };
            }
            table = entry & ADDRESS;
            level -= 1;
        }
    }

    fn is_free(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        while at < end {
            let found = self.find(at);
            if found.is_present() {
                return false;
            }
            at = next(at, found.bytes());
        }
        true
    }

    /// Puts an entry at `level`, where nothing is; `None` if there is no frame for a table.
    fn put(&mut self, at: u64, level: u32, entry: u64) -> Option<()> {
        let mut table = self.root;
        for upper in (level + 1..=ROOT_LEVEL).rev() {
            let place = index(at, upper);
            let found = self.tables.get(table, place);
            table = if found & PRESENT == 0 {
                let fresh = self.tables.take()?;
                self.tables.set(table, place, fresh | UPPER);
                fresh
            } else {
                found & ADDRESS
            };
        }
        self.tables.set(table, index(at, level), entry | if level > 1 { LARGE } else { 0 });
        Some(())
    }

    /// Cuts the entry that reaches across an address, so that one begins there.
    fn split_at(&mut self, address: u64) -> Result<(), MapError> {
        // A leaf of the third level is cut twice.
        for _ in 1..ROOT_LEVEL {
            if address >= ADDRESS_END {
                return Ok(());
            }
            let found = self.find(address);
            if !found.is_present() || address.is_multiple_of(found.bytes()) {
                return Ok(());
            }
            self.split(address, found)?;
        }
        Ok(())
    }

    fn split(&mut self, address: u64, found: Found) -> Result<(), MapError> {
        let table = self.tables.take().ok_or(MapError::OutOfMemory)?;
        let below = found.level - 1;
        let leaf = found.entry & !(LARGE | ADDRESS) | if below > 1 { LARGE } else { 0 };
        let start = address & !(found.bytes() - 1);
        for place in 0..ENTRIES {
            self.tables.set(table, place, leaf | (start + place * span(below)));
        }
        self.tables.set(found.table, index(address, found.level), table | UPPER);
        Ok(())
    }

    /// Returns the table that an entry of another one names.
    fn table_in(&self, table: u64, level: u32, place: u64) -> Option<u64> {
        let entry = self.tables.get(table, place);
        (entry & PRESENT != 0 && !is_leaf(entry, level)).then_some(entry & ADDRESS)
    }

    /// Gives back a table of the second level and those that it names.
    fn give_second(&mut self, second: u64) {
        for place in 0..ENTRIES {
            if let Some(last) = self.table_in(second, 2, place) {
                self.tables.give(last);
            }
        }
        self.tables.give(second);
    }

    /// Gives back a table of the third level and all below it.
    fn give_third(&mut self, third: u64) {
        for place in 0..ENTRIES {
            if let Some(second) = self.table_in(third, 3, place) {
                self.give_second(second);
            }
        }
        self.tables.give(third);
    }

    /// Clears all entries from `start` to `end`, across neither of which an entry reaches.
    fn clear(&mut self, start: u64, end: u64) {
        let mut at = start;
        while at < end {
            let found = self.find(at);
            if found.is_present() {
                self.tables.set(found.table, index(at, found.level), 0);
            }
            let after = next(at, found.bytes());
            if after >= end || after.is_multiple_of(found.bytes() * ENTRIES) {
                self.prune(at);
            }
            at = after;
        }
    }

    /// Gives back the tables on the way to an address that hold no entry.
    fn prune(&mut self, address: u64) {
        let address = address.min(ADDRESS_END - PAGE);
        let mut way = [self.root; ROOT_LEVEL as usize + 1];
        let mut lowest = ROOT_LEVEL;
        while lowest > 1 {
            let entry = self.tables.get(way[lowest as usize], index(address, lowest));
            if entry & PRESENT == 0 || is_leaf(entry, lowest) {
                break;
            }
            lowest -= 1;
            way[lowest as usize] = entry & ADDRESS;
        }
        for level in lowest..ROOT_LEVEL {
            let table = way[level as usize];
            if (0..ENTRIES).any(|place| self.tables.get(table, place) != 0) {
                return;
            }
            self.tables.set(way[level as usize + 1], index(address, level + 1), 0);
            self.tables.give(table);
        }
    }
}

impl<T: Tables> Drop for Tree<T> {
    /// Each table of the upper levels is read once; those of the last level, which are the most, are given back unread.
    fn drop(&mut self) {
        for place in 0..ENTRIES {
            if let Some(third) = self.table_in(self.root, ROOT_LEVEL, place) {
                self.give_third(third);
            }
        }
        self.tables.give(self.root);
    }
}

/// Bytes that an entry of `level` leads to.
fn span(level: u32) -> u64 {
    PAGE << (9 * (level - 1))
}

fn next(at: u64, bytes: u64) -> u64 {
    (at | (bytes - 1)) + 1
}

fn is_leaf(entry: u64, level: u32) -> bool {
    level == 1 || level < ROOT_LEVEL && entry & LARGE != 0
}

fn bounds(range: MemoryRegion) -> Result<(u64, u64), MapError> {
    let end = range.start.checked_add(range.bytes).map(|Pa(end)| end).filter(|end| *end <= ADDRESS_END);
    let whole = range.start.0.is_multiple_of(PAGE) && range.bytes.is_multiple_of(PAGE) && range.bytes > 0;
    end.filter(|_| whole).map(|end| (range.start.0, end)).ok_or(MapError::BadAddress)
}

/// Accessed from the start: nobody reads this mark, and the processor need not write it. The dirty mark is the processor's.
fn entry_of(at: u64, rights: MapFlags) -> u64 {
    let run = if rights.contains(MapFlags::EXECUTE) { 0 } else { NO_EXECUTE };
    let granted = RIGHTS.iter().filter(|(right, _)| rights.contains(*right)).fold(0, |bits, (_, bit)| bits | bit);
    at | PRESENT | USER | ACCESSED | run | granted
}

fn rights_in(entry: u64) -> MapFlags {
    let run = if entry & NO_EXECUTE == 0 { MapFlags::EXECUTE } else { MapFlags::empty() };
    RIGHTS.iter().filter(|(_, bits)| entry & bits == *bits).fold(run, |rights, (right, _)| rights | *right)
}

#[cfg(all(test, not(target_os = "none")))]
#[path = "tree_tests.rs"]
mod tests;
