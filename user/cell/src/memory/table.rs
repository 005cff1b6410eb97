//! The editor of a cell's page table: four levels, pages of 4 KiB and of 2 MiB.
//!
//! * Entries lie in frames of the cell, which are read and written by a [`Window`]; it is told of each leaf that changes.
//! * All entries are for level 3 too (U = 1): the program runs at ring 0 without SMEP and SMAP, in a plain cell at ring 3.
//! * A page without rights keeps its frame in an entry that is not present.
//! * Tables are not given back: those of the arena take a page for 2 MiB at most.
//!
//! Source: AMD64 Architecture Programmer's Manual, volume 2, 5.3. No step descends more than four tables.

use super::{Change, LARGE_BYTES, PAGE_BYTES, Rights, Window};
use crate::frames::{Block, Contents, Frames};

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const LARGE: u64 = 1 << 7;
/// Ours, in an entry that is not present: the page has no rights at present and keeps its frame.
const KEPT: u64 = 1 << 9;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
/// The level of tables whose entries are pages of 4 KiB; one above, those of 2 MiB.
const LAST_LEVEL: u32 = 0;
const LARGE_LEVEL: u32 = 1;
const ROOT_LEVEL: u32 = 3;
const ENTRIES: u64 = 512;

/// The size of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// 4 KiB.
    Small,
    /// 2 MiB.
    Large,
}

impl Size {
    /// Bytes of such a page.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Small => PAGE_BYTES,
            Self::Large => LARGE_BYTES,
        }
    }

    /// The order of its frame: pages, as a power of two.
    pub fn order(self) -> u8 {
        match self {
            Self::Small => 0,
            Self::Large => 9,
        }
    }

    fn level(self) -> u32 {
        match self {
            Self::Small => LAST_LEVEL,
            Self::Large => LARGE_LEVEL,
        }
    }
}

/// A page that is present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// The physical address of its frame.
    pub physical: u64,
    /// Its size.
    pub size: Size,
    /// Its rights.
    pub rights: Rights,
}

impl Leaf {
    /// Reads an entry as the kernel hands it out: physical address and rights of a page of 4 KiB.
    pub fn of_entry(entry: u64) -> Self {
        Self { physical: entry & ADDRESS, size: Size::Small, rights: rights_of(entry) }
    }

    fn entry(self) -> u64 {
        let mut entry = self.physical | USER | if self.rights.is_empty() { KEPT } else { PRESENT };
        if self.rights.contains(Rights::WRITE) {
            entry |= WRITABLE;
        }
        if !self.rights.contains(Rights::EXECUTE) {
            entry |= NO_EXECUTE;
        }
        if self.size == Size::Large {
            entry |= LARGE;
        }
        entry
    }
}

fn rights_of(entry: u64) -> Rights {
    let mut rights = Rights::READ;
    if entry & PRESENT == 0 {
        return Rights::empty();
    }
    rights.set(Rights::WRITE, entry & WRITABLE != 0);
    rights.set(Rights::EXECUTE, entry & NO_EXECUTE == 0);
    rights
}

/// There is no memory for a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoFrame;

/// A page table by the physical address of its root.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    root: u64,
}

/// The end of a walk: the physical address of an entry, its level and its value.
struct Found {
    place: u64,
    level: u32,
    entry: u64,
}

impl Found {
    fn leaf(&self) -> Option<Leaf> {
        let size = match self.level {
            LAST_LEVEL => Size::Small,
            LARGE_LEVEL => Size::Large,
            _ => return None,
        };
        let physical = self.entry & ADDRESS & !(size.bytes() - 1);
        (self.entry & (PRESENT | KEPT) != 0).then_some(Leaf { physical, size, rights: rights_of(self.entry) })
    }

    /// Bytes that one entry of this level stands for.
    fn span(&self) -> u64 {
        PAGE_BYTES << (9 * self.level)
    }
}

impl Table {
    /// Names the table with this root.
    pub fn at(root: u64) -> Self {
        Self { root }
    }

    /// The physical address of its root.
    pub fn root(self) -> u64 {
        self.root
    }

    /// Finds the page that holds an address.
    pub fn walk<W: Window + ?Sized>(self, window: &W, address: u64) -> Option<Leaf> {
        self.find(window, address).leaf()
    }

    /// Returns how far an address lies from the end of the range that has the entry of its walk: so far nothing else needs to be looked at.
    pub fn stride<W: Window + ?Sized>(self, window: &W, address: u64) -> u64 {
        let span = self.find(window, address).span();
        span - (address & (span - 1))
    }

    /// Makes a page present in place of what is there; a large page around it becomes small ones before.
    ///
    /// # Errors
    /// [`NoFrame`]; nothing is changed then but tables that are empty.
    pub fn map<W: Window + ?Sized>(
        self,
        window: &mut W,
        frames: &mut dyn Frames,
        address: u64,
        leaf: Leaf,
    ) -> Result<(), NoFrame> {
        let found = self.descend(window, frames, address, leaf.size.level())?;
        window.write(found.place, leaf.entry());
        let change = if found.entry & (PRESENT | KEPT) == 0 { Change::New(leaf) } else { Change::Other(leaf) };
        window.changed(address & !(leaf.size.bytes() - 1), change);
        Ok(())
    }

    /// Returns how many small pages from an address on are missing in a row, of at most so many; none behind the table of the first one is
    /// looked at. The entries are read one after another, so this costs a few instructions a page.
    pub fn missing<W: Window + ?Sized>(self, window: &W, address: u64, most: u64) -> u64 {
        let found = self.find(window, address);
        let most = most.min(ENTRIES - (address / PAGE_BYTES) % ENTRIES);
        let is_missing = |entry: u64| entry & (PRESENT | KEPT) == 0;
        match found.level {
            LAST_LEVEL => (0..most).take_while(|index| is_missing(window.read(found.place + index * 8))).count() as u64,
            _ if is_missing(found.entry) => most,
            _ => 0,
        }
    }

    /// Makes pages in a row present, whose frames lie in a row too: the page is the first of `count`. All were [missing](Self::missing), and
    /// their entries lie in one table.
    ///
    /// # Errors
    /// As [`Table::map`].
    pub fn map_row<W: Window + ?Sized>(
        self,
        window: &mut W,
        frames: &mut dyn Frames,
        address: u64,
        first: Leaf,
        count: u64,
    ) -> Result<(), NoFrame> {
        let found = self.descend(window, frames, address, first.size.level())?;
        for index in 0..count {
            let offset = index * first.size.bytes();
            let leaf = Leaf { physical: first.physical + offset, ..first };
            window.write(found.place + index * 8, leaf.entry());
            window.changed(address + offset, Change::New(leaf));
        }
        Ok(())
    }

    /// Takes the page that holds an address away and returns it.
    pub fn unmap<W: Window + ?Sized>(self, window: &mut W, address: u64) -> Option<Leaf> {
        let found = self.find(window, address);
        let leaf = found.leaf()?;
        window.write(found.place, 0);
        window.changed(address & !(leaf.size.bytes() - 1), Change::Gone(leaf.size.bytes()));
        Some(leaf)
    }

    /// Gives the page that holds an address other rights.
    pub fn protect<W: Window + ?Sized>(self, window: &mut W, address: u64, rights: Rights) {
        let found = self.find(window, address);
        if let Some(leaf) = found.leaf().map(|leaf| Leaf { rights, ..leaf }) {
            window.write(found.place, leaf.entry());
            window.changed(address & !(leaf.size.bytes() - 1), Change::Other(leaf));
        }
    }

    /// Returns whether all pages that are present in a range have exactly these rights. The entries of a table are read one after another,
    /// so this costs a few instructions a page.
    pub fn all_have<W: Window + ?Sized>(self, window: &W, start: u64, end: u64, rights: Rights) -> bool {
        let mut address = start;
        while address < end {
            let found = self.find(window, address);
            let pages = ((end - address) / PAGE_BYTES).min(ENTRIES - (address / PAGE_BYTES) % ENTRIES);
            let step =
                if found.level == LAST_LEVEL { pages * PAGE_BYTES } else { found.span() - address % found.span() };
            let entries = if found.level == LAST_LEVEL { pages } else { 1 };
            let wrong = |entry: u64| entry & (PRESENT | KEPT) != 0 && rights_of(entry) != rights;
            if (0..entries).any(|index| wrong(window.read(found.place + index * 8))) {
                return false;
            }
            address = address.saturating_add(step.max(PAGE_BYTES));
        }
        true
    }

    /// Makes 512 small pages of the large page that holds an address; nothing is moved.
    ///
    /// # Errors
    /// [`NoFrame`].
    pub fn split<W: Window + ?Sized>(
        self,
        window: &mut W,
        frames: &mut dyn Frames,
        address: u64,
    ) -> Result<(), NoFrame> {
        let found = self.find(window, address);
        let Some(leaf) = found.leaf().filter(|leaf| leaf.size == Size::Large) else {
            return Ok(());
        };
        let table = frames.take(0, 0).ok_or(NoFrame)?;
        for index in 0..ENTRIES {
            let part = Leaf { physical: leaf.physical + index * PAGE_BYTES, size: Size::Small, ..leaf };
            window.write(table + index * 8, part.entry());
        }
        window.write(found.place, table | PRESENT | WRITABLE | USER);
        Ok(())
    }

    /// Follows the tables of an address as far as there are some.
    fn find<W: Window + ?Sized>(self, window: &W, address: u64) -> Found {
        let mut found = self.first(window, address);
        while found.level > LAST_LEVEL && found.entry & (PRESENT | LARGE) == PRESENT {
            found = below(window, &found, address);
        }
        found
    }

    /// Follows them to a level and makes those that are missing.
    fn descend<W: Window + ?Sized>(
        self,
        window: &mut W,
        frames: &mut dyn Frames,
        address: u64,
        level: u32,
    ) -> Result<Found, NoFrame> {
        let mut found = self.first(window, address);
        while found.level > level {
            if found.entry & PRESENT == 0 {
                found.entry = add_table(window, frames, found.place)?;
            } else if found.entry & LARGE != 0 {
                self.split(window, frames, address)?;
                found.entry = window.read(found.place);
            }
            found = below(window, &found, address);
        }
        Ok(found)
    }

    fn first<W: Window + ?Sized>(self, window: &W, address: u64) -> Found {
        entry_of(window, self.root, ROOT_LEVEL, address)
    }
}

fn below<W: Window + ?Sized>(window: &W, found: &Found, address: u64) -> Found {
    entry_of(window, found.entry & ADDRESS, found.level - 1, address)
}

fn entry_of<W: Window + ?Sized>(window: &W, table: u64, level: u32, address: u64) -> Found {
    let index = (address >> (12 + 9 * level)) & (ENTRIES - 1);
    let place = table + index * 8;
    Found { place, level, entry: window.read(place) }
}

fn add_table<W: Window + ?Sized>(window: &mut W, frames: &mut dyn Frames, place: u64) -> Result<u64, NoFrame> {
    let Block { physical: table, contents, .. } = frames.take_block(0, 0).ok_or(NoFrame)?;
    if contents == Contents::Old {
        window.clear(table, PAGE_BYTES);
    }
    let entry = table | PRESENT | WRITABLE | USER;
    window.write(place, entry);
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Memory, START};

    const AT: u64 = 0x7000_0020_0000;

    fn small(physical: u64) -> Leaf {
        Leaf { physical, size: Size::Small, rights: Rights::READ | Rights::WRITE }
    }

    #[test]
    fn pages_of_both_sizes_are_mapped_found_and_unmapped() {
        let (mut memory, mut frames) = Memory::with_lots(4);
        let table = Table::at(memory.root(&mut *frames));
        let large = Leaf { physical: START + 2 * LARGE_BYTES, size: Size::Large, rights: Rights::READ };
        table.map(&mut memory, &mut *frames, AT, large).unwrap();
        table.map(&mut memory, &mut *frames, AT + LARGE_BYTES, small(START + LARGE_BYTES)).unwrap();
        assert_eq!(table.walk(&memory, AT + 0x12_3456), Some(large));
        assert_eq!(table.walk(&memory, AT + LARGE_BYTES + 8), Some(small(START + LARGE_BYTES)));
        assert_eq!(table.walk(&memory, AT - 1), None);
        assert_eq!(table.stride(&memory, AT + 0x1000), LARGE_BYTES - 0x1000);
        assert_eq!(table.unmap(&mut memory, AT), Some(large));
        assert_eq!(table.walk(&memory, AT), None);
        let kinds: Vec<_> = memory.changes.iter().map(|change| change.1).collect();
        assert_eq!(kinds, [Change::New(large), Change::New(small(START + LARGE_BYTES)), Change::Gone(LARGE_BYTES)]);
    }

    #[test]
    fn a_split_page_keeps_frames_and_rights() {
        let (mut memory, mut frames) = Memory::with_lots(4);
        let table = Table::at(memory.root(&mut *frames));
        let large = Leaf { physical: START + 2 * LARGE_BYTES, size: Size::Large, rights: Rights::READ };
        table.map(&mut memory, &mut *frames, AT, large).unwrap();
        table.split(&mut memory, &mut *frames, AT).unwrap();
        let leaf = table.walk(&memory, AT + 0x5000).unwrap();
        assert_eq!(leaf, Leaf { physical: large.physical + 0x5000, size: Size::Small, rights: Rights::READ });
    }

    #[test]
    fn a_small_page_within_a_large_one_leaves_the_rest_of_it() {
        let (mut memory, mut frames) = Memory::with_lots(4);
        let table = Table::at(memory.root(&mut *frames));
        let large = Leaf { physical: START + 2 * LARGE_BYTES, size: Size::Large, rights: Rights::READ };
        table.map(&mut memory, &mut *frames, AT, large).unwrap();
        table.map(&mut memory, &mut *frames, AT + 0x5000, small(START + LARGE_BYTES)).unwrap();
        assert_eq!(table.walk(&memory, AT + 0x5000), Some(small(START + LARGE_BYTES)));
        for other in [0, 0x4000, 0x6000] {
            assert_eq!(table.walk(&memory, AT + other).unwrap().physical, large.physical + other);
        }
    }

    #[test]
    fn a_page_without_rights_keeps_its_frame() {
        let (mut memory, mut frames) = Memory::with_lots(4);
        let table = Table::at(memory.root(&mut *frames));
        table.map(&mut memory, &mut *frames, AT, small(START + LARGE_BYTES)).unwrap();
        table.protect(&mut memory, AT, Rights::empty());
        let leaf = table.walk(&memory, AT).unwrap();
        assert_eq!((leaf.physical, leaf.rights), (START + LARGE_BYTES, Rights::empty()));
        table.protect(&mut memory, AT, Rights::READ);
        assert_eq!(table.walk(&memory, AT).unwrap().rights, Rights::READ);
    }

    #[test]
    fn without_a_frame_for_a_table_nothing_is_mapped() {
        let (mut memory, mut frames) = Memory::with_lots(1);
        let table = Table::at(memory.root(&mut *frames));
        while frames.take(0, 0).is_some() {}
        assert_eq!(table.map(&mut memory, &mut *frames, AT, small(START)), Err(NoFrame));
        assert_eq!(table.walk(&memory, AT), None);
    }
}
