mod model;

use super::*;
use crate::{
    frames::Buddy,
    pager::{Demand, Eager, Keep, Reuse},
    testing::Memory,
};

const ARENA: Arena = Arena { start: 0x10_0000_0000, mappings: 0x10_4000_0000, end: 0x10_8000_0000 };
const BOTH: Rights = Rights::READ.union(Rights::WRITE);

struct Cell {
    memory: Memory,
    space: Space,
}

fn cell(pager: &'static dyn Pager, lots: u64) -> Cell {
    let (mut memory, frames) = Memory::with_lots(lots);
    let frames: &'static mut Buddy = Box::leak(frames);
    let root = memory.root(frames);
    Cell { memory, space: Space::new(ARENA, root, frames, pager) }
}

impl Cell {
    /// Writes as a program does: with a fault if the page is missing.
    fn write(&mut self, address: u64, word: u64) {
        if self.space.table.walk(&self.memory, address).is_none() {
            self.space.fault(&mut self.memory, address, Rights::WRITE).unwrap();
        }
        let place = self.place(address);
        self.memory.write(place, word);
    }

    fn read(&mut self, address: u64) -> u64 {
        if self.space.table.walk(&self.memory, address).is_none() {
            self.space.fault(&mut self.memory, address, Rights::READ).unwrap();
        }
        self.memory.read(self.place(address))
    }

    fn place(&self, address: u64) -> u64 {
        let leaf = self.space.table.walk(&self.memory, address).unwrap();
        leaf.physical + address % leaf.size.bytes()
    }

    /// The frames of the tables: the root, and those below it.
    fn tables(&self) -> Vec<u64> {
        const PRESENT_OR_LARGE: u64 = 0x81;
        let entries = |table: u64| (0..512).map(move |index| self.memory.read(table + index * 8));
        let below = |level: &[u64]| -> Vec<u64> {
            let tables = level.iter().flat_map(|table| entries(*table)).filter(|entry| entry & PRESENT_OR_LARGE == 1);
            tables.map(|entry| entry & 0x000f_ffff_ffff_f000).collect()
        };
        let root = vec![self.space.table.root()];
        let levels = std::iter::successors(Some(root), |level| Some(below(level)));
        levels.take(4).flatten().collect()
    }

    fn map(&mut self, bytes: u64) -> u64 {
        self.space.map(&mut self.memory, bytes, BOTH).unwrap()
    }

    fn unmap(&mut self, start: u64, bytes: u64) {
        self.space.unmap(&mut self.memory, start, bytes).unwrap();
    }
}

#[test]
fn a_reservation_takes_no_memory_before_it_may_be_touched() {
    for pager in [&Demand as &dyn Pager, &Eager, &Keep] {
        let mut cell = cell(pager, 8);
        let free = cell.space.frames.free_bytes();
        let start = cell.space.map(&mut cell.memory, 64 << 20, Rights::empty()).unwrap();
        assert_eq!(cell.space.frames.free_bytes(), free);
        cell.space.protect(&mut cell.memory, start, LARGE_BYTES, BOTH).unwrap();
        cell.write(start, 7);
        assert_eq!(cell.read(start), 7);
        let left = cell.space.frames.free_bytes();
        assert!(left < free && left > free / 2, "{left} of {free}");
    }
}

#[test]
fn memory_is_present_when_the_pager_wants_and_reads_as_zeros() {
    for (pager, faults) in [(&Demand as &dyn Pager, 1), (&Eager, 0), (&Keep, 1)] {
        let mut cell = cell(pager, 8);
        let start = cell.map(3 * LARGE_BYTES);
        assert_eq!(cell.read(start + 0x123_000), 0);
        assert_eq!(cell.space.faults, faults);
    }
}

#[test]
fn frames_come_back_or_are_kept_and_are_clean_at_the_next_mapping() {
    for pager in [&Demand as &dyn Pager, &Eager, &Keep] {
        let mut cell = cell(pager, 8);
        let start = cell.map(LARGE_BYTES);
        cell.write(start, 7);
        let free = cell.space.frames.free_bytes();
        cell.unmap(start, LARGE_BYTES);
        let is_kept = cell.space.frames.free_bytes() == free;
        assert_eq!(is_kept, pager.unmapped() == Unmapped::Kept);
        let again = cell.map(LARGE_BYTES);
        assert_eq!((again, cell.read(again)), (start, 0));
    }
}

#[test]
fn memory_that_is_used_again_is_as_it_was_and_has_the_rights_of_its_new_mapping() {
    let mut cell = cell(&Reuse, 8);
    let start = cell.map(LARGE_BYTES);
    cell.write(start, 7);
    cell.unmap(start, LARGE_BYTES);
    assert_eq!(cell.space.map(&mut cell.memory, LARGE_BYTES, Rights::READ), Ok(start));
    assert_eq!((cell.read(start), cell.space.rights(start)), (7, Some(Rights::READ)));
    assert_eq!(cell.space.table.walk(&cell.memory, start).unwrap().rights, Rights::READ);
    let have = |cell: &Cell, bytes, rights| cell.space.table.all_have(&cell.memory, start, start + bytes, rights);
    assert!(have(&cell, LARGE_BYTES, Rights::READ) && have(&cell, 3 * LARGE_BYTES, Rights::READ));
    assert!(!have(&cell, PAGE_BYTES, BOTH));
}

#[test]
fn kept_frames_come_back_when_there_are_no_others() {
    let mut cell = cell(&Keep, 2);
    let start = cell.map(LARGE_BYTES);
    (0..512).for_each(|page| cell.write(start + page * PAGE_BYTES, page));
    cell.unmap(start, LARGE_BYTES);
    let heap = cell.space.brk(&mut cell.memory, ARENA.start + 2 * LARGE_BYTES);
    assert_eq!(heap, ARENA.start + 2 * LARGE_BYTES);
    (0..900).for_each(|page| cell.write(ARENA.start + page * PAGE_BYTES, page));
}

#[test]
fn without_frames_a_fault_is_an_error_and_what_was_there_stays() {
    let mut cell = cell(&Demand, 1);
    let start = cell.map(LARGE_BYTES);
    let mut address = start;
    while cell.space.fault(&mut cell.memory, address, Rights::WRITE).is_ok() {
        address += PAGE_BYTES;
    }
    assert_eq!(cell.space.fault(&mut cell.memory, address, Rights::WRITE), Err(Errno::NOMEM));
    cell.write(start, 1);
    cell.unmap(start, PAGE_BYTES);
    assert_eq!(cell.space.fault(&mut cell.memory, address, Rights::WRITE), Ok(()));
}

#[test]
fn rights_are_kept_and_parts_of_large_pages_have_their_own() {
    let mut cell = cell(&Eager, 8);
    let start = cell.map(2 * LARGE_BYTES);
    let middle = start + LARGE_BYTES + 8 * PAGE_BYTES;
    cell.space.protect(&mut cell.memory, middle, PAGE_BYTES, Rights::READ).unwrap();
    assert_eq!(cell.space.fault(&mut cell.memory, middle, Rights::WRITE), Err(Errno::FAULT));
    assert_eq!(cell.space.table.walk(&cell.memory, middle).unwrap().rights, Rights::READ);
    assert_eq!(cell.space.table.walk(&cell.memory, middle + PAGE_BYTES).unwrap().rights, BOTH);
    assert_eq!(cell.space.table.walk(&cell.memory, start).unwrap().size, Size::Large);
    assert_eq!(cell.space.protect(&mut cell.memory, start, 8 * LARGE_BYTES, BOTH), Err(Errno::NOMEM));
}

#[test]
fn a_mapping_that_grows_keeps_its_contents_where_it_is_or_elsewhere() {
    for pager in [&Demand as &dyn Pager, &Eager] {
        let mut cell = cell(pager, 16);
        let start = cell.map(LARGE_BYTES);
        let old = Region { start, end: start + LARGE_BYTES, rights: BOTH };
        cell.write(start + 0x5000, 5);
        let longer = cell.space.resize(&mut cell.memory, old, 2 * LARGE_BYTES, Place::Same);
        assert_eq!(longer, Ok(start));
        let behind = cell.map(LARGE_BYTES);
        assert_eq!(behind, start + 2 * LARGE_BYTES);
        let old = Region { end: start + 2 * LARGE_BYTES, ..old };
        assert_eq!(cell.space.resize(&mut cell.memory, old, 3 * LARGE_BYTES, Place::Same), Err(Errno::NOMEM));
        let moved = cell.space.resize(&mut cell.memory, old, 3 * LARGE_BYTES, Place::Any).unwrap();
        assert_eq!((cell.read(moved + 0x5000), cell.read(moved + 0x6000)), (5, 0));
        assert_eq!(cell.space.fault(&mut cell.memory, start, Rights::READ), Err(Errno::FAULT));
    }
}

#[test]
fn the_heap_grows_shrinks_and_stays_in_its_place() {
    let mut cell = cell(&Demand, 4);
    let end = |cell: &mut Cell, wanted| cell.space.brk(&mut cell.memory, wanted);
    assert_eq!(end(&mut cell, 0), ARENA.start);
    assert_eq!(end(&mut cell, ARENA.start + 5000), ARENA.start + 5000);
    cell.write(ARENA.start + 4096, 9);
    assert_eq!(end(&mut cell, ARENA.start + 10), ARENA.start + 10);
    assert_eq!(end(&mut cell, ARENA.start + 5000), ARENA.start + 5000);
    assert_eq!(cell.read(ARENA.start + 4096), 0);
    assert_eq!(end(&mut cell, ARENA.mappings + 1), ARENA.start + 5000);
    assert_eq!(end(&mut cell, u64::MAX), ARENA.start + 5000);
}

#[test]
fn wild_sizes_are_errors() {
    let mut cell = cell(&Demand, 1);
    assert_eq!(cell.space.map(&mut cell.memory, 0, BOTH), Err(Errno::INVAL));
    assert_eq!(cell.space.map(&mut cell.memory, u64::MAX, BOTH), Err(Errno::INVAL));
    assert_eq!(cell.space.map(&mut cell.memory, 1 << 40, BOTH), Err(Errno::NOMEM));
    assert_eq!(cell.space.map_at(&mut cell.memory, 0x1000, PAGE_BYTES, BOTH), Err(Errno::NOMEM));
}

#[test]
fn pages_that_are_missing_in_a_row_are_one_block_and_cleared_at_once() {
    let mut cell = cell(&Eager, 8);
    let start = cell.map(64 << 10);
    let physical = cell.place(start);
    for page in 0..16 {
        assert_eq!(cell.place(start + page * PAGE_BYTES), physical + page * PAGE_BYTES);
    }
    assert!(cell.memory.clears.contains(&(physical, 64 << 10)), "{:x?}", cell.memory.clears);
    // Each is a page of its own: one of them goes, one gets other rights, and what is there next is clear.
    (0..16).for_each(|page| cell.write(start + page * PAGE_BYTES, page + 1));
    cell.unmap(start + 5 * PAGE_BYTES, PAGE_BYTES);
    cell.space.protect(&mut cell.memory, start + 6 * PAGE_BYTES, PAGE_BYTES, Rights::READ).unwrap();
    cell.space.map_at(&mut cell.memory, start + 5 * PAGE_BYTES, PAGE_BYTES, BOTH).unwrap();
    let words: Vec<_> = (0..16).map(|page| cell.read(start + page * PAGE_BYTES)).collect();
    assert_eq!(words, [1, 2, 3, 4, 5, 0, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    assert_eq!(cell.space.table.walk(&cell.memory, start + 6 * PAGE_BYTES).unwrap().rights, Rights::READ);
}

#[test]
fn a_page_that_is_present_stays_if_others_around_it_come() {
    let mut cell = cell(&Eager, 8);
    let start = cell.space.map(&mut cell.memory, 64 << 10, Rights::empty()).unwrap();
    let one = start + 5 * PAGE_BYTES;
    cell.space.protect(&mut cell.memory, one, PAGE_BYTES, BOTH).unwrap();
    cell.write(one, 7);
    let place = cell.place(one);
    cell.space.protect(&mut cell.memory, start, 64 << 10, BOTH).unwrap();
    cell.write(start, 8);
    assert_eq!((cell.place(one), cell.read(one), cell.space.faults), (place, 7, 2));
    let rest: u64 = (1..16).filter(|page| *page != 5).map(|page| cell.read(start + page * PAGE_BYTES)).sum();
    assert_eq!((rest, cell.space.faults), (0, 2));
}

#[test]
fn the_pages_of_a_row_become_a_large_page_again() {
    let mut cell = cell(&Eager, 8);
    let free = cell.space.frames.free_bytes();
    let start = cell.map(LARGE_BYTES - PAGE_BYTES);
    assert_eq!(cell.space.table.walk(&cell.memory, start).unwrap().size, Size::Small);
    (0..511).rev().for_each(|page| cell.unmap(start + page * PAGE_BYTES, PAGE_BYTES));
    // The root was there before.
    let tables = cell.tables().len() as u64 - 1;
    assert_eq!(cell.space.frames.free_bytes(), free - tables * PAGE_BYTES);
    let lots = std::iter::from_fn(|| cell.space.frames.take_lot()).count();
    assert_eq!(lots, 7);
}
