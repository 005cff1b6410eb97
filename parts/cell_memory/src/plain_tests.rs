//! Plain cells: their lots are shown, given back and joined again, whatever the process does with them meanwhile.

use crate::{Lines, PlainMemory, Shape};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_address_space::{AddressSpace, FaultError, Limits, LocalFlush, Move, SharedMemory};
use gyre_cell_abi::{LOT_BYTES, LOTS_MAX};
use gyre_machine::Access;
use gyre_message::direct::block_on;
use gyre_object::Page;

const NO_LIMITS: Limits =
    Limits { mapped_bytes: u64::MAX, data_bytes: u64::MAX, stack_bytes: 8 << 20, locked_bytes: u64::MAX };
const PAGE: u64 = 4096;

struct Cell {
    space: Arc<AddressSpace>,
    memory: Arc<SharedMemory>,
    plain: PlainMemory,
    page: Page,
    window: u64,
}

fn cell() -> Cell {
    let space = AddressSpace::new(&LocalFlush, NO_LIMITS, ActivityId(1)).unwrap();
    let memory = Arc::new(SharedMemory::of_comings(Arc::new(())));
    let page = Page::zeroed().unwrap();
    let lines = Lines::new(Vec::from([page.clone()]), Shape { cores: 1, lines: 0 });
    let plain = PlainMemory::new(lines, &space, &memory);
    let window = block_on(plain.show(&space, 1)).unwrap();
    Cell { space, memory, plain, page, window }
}

fn word(page: &Page, at: usize) -> u64 {
    let mut word = [0; 8];
    page.read(at, &mut word);
    u64::from_le_bytes(word)
}

fn lot() -> Page {
    Page::zeroed_run(9).unwrap()
}

fn write(cell: &Cell, address: u64, byte: u8) {
    assert_eq!(block_on(cell.space.copy_out(address, &[byte])).ok(), Some(()));
}

#[test]
fn lots_come_are_listed_and_go_with_their_bytes() {
    let cell = cell();
    let (first, second) = (lot(), lot());
    let (one, other) = (first.pa(), second.pa());
    assert_eq!(cell.plain.add(first).ok(), Some(LOT_BYTES));
    assert_eq!(cell.plain.add(second).ok(), Some(2 * LOT_BYTES));
    let list = core::mem::offset_of!(gyre_cell_abi::CellPage, lot_list);
    assert_eq!((word(&cell.page, list), word(&cell.page, list + 8)), (LOT_BYTES, 2 * LOT_BYTES));
    assert_eq!(word(&cell.page, core::mem::offset_of!(gyre_cell_abi::CellPage, window)), cell.window);
    write(&cell, cell.window + LOT_BYTES + 5 * PAGE, 7);
    let again = block_on(cell.space.remap(cell.window + LOT_BYTES + 5 * PAGE, 0, PAGE, Move::IfNeeded)).unwrap();
    write(&cell, again + 1, 8);
    let back = block_on(cell.plain.take(LOT_BYTES)).unwrap();
    let mut bytes = [0; 2];
    back.read(5 * 4096, &mut bytes);
    assert_eq!((back.pa(), back.len() as u64, bytes), (one, LOT_BYTES, [7, 8]));
    assert_eq!(block_on(cell.space.fault(again, Access::Read)), Err(FaultError::BeyondEnd));
    assert!(block_on(cell.plain.take(LOT_BYTES)).is_none(), "given twice");
    assert!(block_on(cell.plain.take(LOT_BYTES + PAGE)).is_none() && block_on(cell.plain.take(u64::MAX)).is_none());
    assert_eq!((cell.plain.lots(), word(&cell.page, list)), (Vec::from([2 * LOT_BYTES]), 2 * LOT_BYTES));
    assert_eq!(cell.plain.add(back).ok(), Some(LOT_BYTES), "the place is free again");
    assert_eq!(cell.plain.lots(), [2 * LOT_BYTES, LOT_BYTES], "new ones come last");
    assert_eq!(block_on(cell.plain.take(2 * LOT_BYTES)).unwrap().pa(), other);
}

#[test]
fn lots_outlive_the_process_and_come_to_nobody_afterwards() {
    let Cell { space, memory, plain, window, .. } = cell();
    let lot = lot();
    let at = lot.pa();
    plain.add(lot).ok().unwrap();
    block_on(space.fault(window + LOT_BYTES, Access::Write)).unwrap();
    drop(memory);
    drop(space);
    assert!(plain.add(Page::zeroed_run(9).unwrap()).is_err(), "nobody would see it");
    assert_eq!(block_on(plain.take(LOT_BYTES)).unwrap().pa(), at);
    assert_eq!(plain.lot_count(), 0);
}

#[test]
fn a_lot_that_somebody_holds_and_one_too_many_are_refused() {
    let cell = cell();
    let held = lot();
    assert!(cell.plain.add(held.clone()).is_err());
    drop(held);
    for _ in 0..LOTS_MAX {
        cell.plain.add(lot()).ok().unwrap();
    }
    assert!(cell.plain.add(lot()).is_err());
    for at in cell.plain.lots() {
        assert!(block_on(cell.plain.take(at)).is_some());
    }
}
