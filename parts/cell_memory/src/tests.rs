//! A cell's memory against its lies.

use super::*;
use alloc::vec::Vec;
use core::mem::offset_of;
use gyre_address_space::Shown;
use gyre_cell_abi::{CallLine, CellPage, asks, state};
use gyre_machine::MapFlags;
use gyre_object::Page;
use proptest::prelude::*;
use std::vec;

const RW: MapFlags = MapFlags::WRITE;
const AT: u64 = 0x40_0000;
const SHAPE: Shape = Shape { cores: 2, lines: 32 };

fn lot() -> Page {
    Page::zeroed_run(9).unwrap()
}

fn pages(count: usize) -> Vec<Page> {
    (0..count).map(|_| Page::zeroed().unwrap()).collect()
}

/// A cell with so many lots; its shared pages, so that a test plays the cell.
fn cell(lots: usize) -> (CellMemory, Vec<Page>) {
    let shared = pages(SHAPE.pages());
    let lots: Vec<Page> = (0..lots).map(|_| lot()).collect();
    let possible: Vec<_> = lots.iter().map(Page::pa).collect();
    (CellMemory::new(lots, Lines::new(shared.clone(), SHAPE), possible.into_iter()).unwrap(), shared)
}

#[test]
fn pages_of_the_process_and_lots_are_found_with_their_rights() {
    let (memory, _) = cell(2);
    let (text, data) = (Page::zeroed().unwrap(), Page::zeroed().unwrap());
    memory.upload(&Shown { address: AT, page: text.clone(), rights: MapFlags::EXECUTE }).unwrap();
    memory.upload(&Shown { address: AT + 4096, page: data.clone(), rights: RW }).unwrap();
    memory.begin(1);
    let seen = memory.find(AT + 7).unwrap();
    assert!(seen.page.same(&text) && seen.offset == 7 && seen.rights == MapFlags::EXECUTE);
    let seen = memory.find(AT + 4096 + 4095).unwrap();
    assert!(
        seen.page.same(&data) && seen.offset == 4095 && seen.is_writable() && !seen.rights.contains(MapFlags::EXECUTE)
    );
    assert!(memory.find(AT + 2 * 4096).is_none() && memory.find(0).is_none() && memory.find(u64::MAX).is_none());
    for lot in memory.grants().iter().filter(|grant| grant.range.bytes == 2 << 20) {
        let seen = memory.find(WINDOW + lot.range.start.0 + 12345).unwrap();
        assert!(seen.page.pa() == lot.range.start && seen.offset == 12345 && seen.is_writable());
    }
    assert_eq!(memory.grants().len(), 4);
}

#[test]
fn a_lot_that_nobody_has_looked_for_is_not_reached() {
    let (memory, _) = cell(4);
    memory.begin(1);
    let starts: Vec<u64> = memory.grants().iter().map(|grant| grant.range.start.0).collect();
    memory.find(WINDOW + starts[1]).unwrap();
    memory.find_in_lot(starts[2] + 8, 8).unwrap();
    let lots = memory.take_lots();
    // The first lot holds the tables; at which address it lies is the allocator's.
    let looked_for = [lots[0].page.pa().0, starts[1], starts[2]];
    for lot in &lots {
        assert_eq!(lot.is_reached, looked_for.contains(&lot.page.pa().0));
    }
    assert!(lots.iter().any(|lot| !lot.is_reached));
}

#[test]
fn a_huge_page_is_one_entry() {
    let (memory, _) = cell(1);
    let page = lot();
    memory.upload(&Shown { address: AT, page: page.clone(), rights: RW }).unwrap();
    memory.begin(1);
    let seen = memory.find(AT + 0x12_3456).unwrap();
    assert!(seen.page.same(&page) && seen.offset == 0x12_3456);
    let pinned = memory.pin(&Shown { address: AT, page: page.clone(), rights: RW }, AT + 0x5678);
    assert_eq!(pinned.entry & 0x000f_ffff_ffff_f000, page.pa().0 + 0x5000);
    assert_eq!(pinned.grant, None);
}

#[test]
fn rights_grow_and_never_beyond_what_was_granted() {
    let (memory, _) = cell(1);
    let page = Page::zeroed().unwrap();
    let shown = |rights| Shown { address: AT, page: page.clone(), rights };
    memory.upload(&shown(MapFlags::empty())).unwrap();
    memory.begin(1);
    assert!(!memory.find(AT).unwrap().is_writable());
    assert!(!memory.may_write(page.pa()));
    assert_eq!(memory.pin(&shown(RW), AT).grant.unwrap().rights, RW);
    assert_eq!(memory.pin(&shown(RW), AT).grant, None);
    // The table says still that it is for reading.
    assert!(!memory.find(AT).unwrap().is_writable() && memory.may_write(page.pa()));
}

#[test]
fn lots_come_and_go_but_for_the_first() {
    let shared = pages(2);
    let (first, second) = (lot(), lot());
    let possible = [first.pa(), second.pa()];
    let memory = CellMemory::new(vec![first.clone()], Lines::new(shared, SHAPE), possible.into_iter()).unwrap();
    memory.begin(1);
    assert!(memory.find(WINDOW + second.pa().0).is_none());
    assert!(memory.add_lot(second.clone()).is_ok_and(|grant| grant.range.start == second.pa()));
    assert!(memory.find(WINDOW + second.pa().0).is_some());
    assert!(memory.remove_lot(first.pa().0).is_none() && memory.remove_lot(second.pa().0 + 4096).is_none());
    let taken = memory.remove_lot(second.pa().0).unwrap();
    assert!(taken.page.same(&second) && taken.is_reached);
    assert!(memory.find(WINDOW + second.pa().0).is_none());
    let rest = memory.take_lots();
    // The tables lie there.
    assert!(rest.len() == 1 && rest[0].is_reached);
    assert!(memory.find(WINDOW + first.pa().0).is_none());
}

#[test]
fn a_line_is_copied_once_and_answered_once() {
    let (memory, shared) = cell(1);
    memory.begin(1);
    let lines = &memory.lines;
    assert_eq!(lines.take_from(0), None);
    let write = |offset: usize, bytes: &[u8]| shared[1].write(5 * 64 + offset, bytes);
    write(offset_of!(CallLine, number), &39u32.to_le_bytes());
    write(offset_of!(CallLine, arguments) + 40, &6u64.to_le_bytes());
    write(0, &state::ASKED.to_le_bytes());
    assert!(lines.has_asked());
    assert_eq!(lines.take_from(6), None);
    assert_eq!(lines.take_from(0), Some(Call { line: 5, number: 39, arguments: [0, 0, 0, 0, 0, 6] }));
    assert!(lines.take_from(0).is_none() && !lines.has_asked());
    lines.answer(5, -4);
    let mut line = [0; 64];
    shared[1].read(5 * 64, &mut line);
    assert_eq!((line[0], i64::from_le_bytes(line[56..].try_into().unwrap())), (state::ANSWERED as u8, -4));
    // A line that the cell has taken back is left alone.
    write(0, &state::FREE.to_le_bytes());
    lines.answer(5, 0);
    shared[1].read(5 * 64, &mut line);
    assert_eq!(line[0], state::FREE as u8);
    lines.answer(usize::MAX, 0);
}

#[test]
fn tables_that_lead_elsewhere_or_in_circles_are_nothing() {
    let (memory, shared) = cell(2);
    memory.begin(1);
    let root = memory.lines.root();
    let set_root = |root: u64| shared[0].write(offset_of!(CellPage, root), &root.to_le_bytes());
    let foreign = Page::zeroed().unwrap();
    for lie in [foreign.pa().0, 0, u64::MAX, root + 1, 4096, 0x000f_ffff_ffff_f000] {
        set_root(lie);
        for address in [0, AT, WINDOW, WINDOW + root, u64::MAX] {
            let seen = memory.find(address);
            assert!(seen.is_none_or(|seen| !seen.page.same(&foreign)));
        }
    }
    // A root that names itself at each level shows itself.
    set_root(root);
    let lot = memory.grants().into_iter().find(|grant| grant.range.start.0 == root).unwrap();
    let seen = memory.find(WINDOW + lot.range.start.0).unwrap();
    seen.page.write(8 * 5, &(root | 3).to_le_bytes());
    let address = 5 << 39 | 5 << 30 | 5 << 21 | 5 << 12;
    assert!(memory.find(address).is_some_and(|seen| seen.page.pa().0 == root && seen.offset == 0));
    // A leaf that names a frame of somebody else, or a right that was not granted.
    seen.page.write(8 * 5, &(foreign.pa().0 | 3).to_le_bytes());
    assert!(memory.find(address).is_none());
}

#[test]
fn what_is_wanted_and_what_is_told_do_not_hide_each_other() {
    let (memory, shared) = cell(1);
    memory.begin(1);
    let lines = &memory.lines;
    lines.tell_signals(4, 32);
    lines.want(Wanted { lots: 3, cores: 1, until: 77 });
    assert_eq!(lines.asks(), asks::SIGNAL | asks::GIVE_BACK);
    let word = |offset: usize| {
        let mut word = [0; 4];
        shared[0].read(offset, &mut word);
        u32::from_le_bytes(word)
    };
    assert_eq!([offset_of!(CellPage, wanted_lots), offset_of!(CellPage, wanted_until)].map(word), [3, 77]);
    assert_eq!(word(offset_of!(CellPage, signals)), 36);
    lines.tell_signals(0, 36);
    assert_eq!((lines.asks(), word(offset_of!(CellPage, signals))), (asks::GIVE_BACK, 36));
    lines.tell_signals(0, 0);
    assert_eq!(lines.asks(), asks::GIVE_BACK);
    lines.want(Wanted::default());
    assert_eq!(lines.asks(), 0);
    assert_eq!([0, 31, 32, 63].map(|line| SHAPE.core_of(line)), [0, 0, 1, 1]);
}

#[test]
fn what_is_held_back_is_what_the_cell_says() {
    let (memory, shared) = cell(1);
    memory.begin(1);
    assert_eq!(memory.lines.held(), 0);
    memory.lines.begin_holding(5);
    assert_eq!(memory.lines.held(), 5);
    shared[0].write(offset_of!(CellPage, held), &[0xff; 8]);
    assert_eq!(memory.lines.held(), u64::MAX);
}

#[test]
fn a_line_that_is_given_up_is_answered_all_the_same() {
    let (memory, shared) = cell(1);
    memory.begin(1);
    let lines = &memory.lines;
    let last = lines.count() - 1;
    let (page, at) = (&shared[1 + last * 64 / 4096], last * 64 % 4096);
    page.write(at, &state::ASKED.to_le_bytes());
    assert!(lines.take_from(last).is_some() && !lines.is_given_up(last));
    page.write(at, &state::GIVEN_UP.to_le_bytes());
    assert!(lines.is_given_up(last) && !lines.is_given_up(last - 1) && !lines.is_given_up(usize::MAX));
    assert_eq!(lines.take_from(0), None);
    lines.answer(last, -4);
    let mut line = [0; 64];
    page.read(at, &mut line);
    assert_eq!((line[0], i64::from_le_bytes(line[56..].try_into().unwrap())), (state::ANSWERED as u8, -4));
}

proptest! {
    /// Every page that is found is held, with any words in the tables.
    #[test]
    fn whatever_a_table_says_only_held_frames_are_found(words in prop::collection::vec((0usize..512 * 4, any::<u64>(), 0u8..4), 1..60), addresses in prop::collection::vec(any::<u64>(), 1..20)) {
        let (memory, shared) = cell(1);
        memory.begin(1);
        let root = memory.lines.root();
        let lot = memory.find(WINDOW + root).unwrap().page;
        for (place, value, kind) in words {
            let value = match kind { 0 => value, 1 => root + (value % 512 * 4096) | 0x83, 2 => root + (value % 512 * 4096) | 3, _ => value | 1 };
            lot.write(place * 8, &value.to_le_bytes());
        }
        for address in addresses {
            if let Some(seen) = memory.find(address) {
                prop_assert!(seen.page.same(&lot) || shared.iter().any(|page| page.same(&seen.page)));
                prop_assert!(seen.offset < seen.page.len());
            }
        }
    }
}
