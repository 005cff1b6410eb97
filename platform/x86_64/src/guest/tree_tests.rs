extern crate std;
use super::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::vec::Vec;

/// Frames for tables: at most `room` at a time.
#[derive(Default)]
struct Store {
    tables: HashMap<u64, Vec<u64>>,
    next: u64,
    room: usize,
}

#[derive(Clone)]
struct Shared(Rc<RefCell<Store>>);

impl Shared {
    fn with_room(room: usize) -> Shared {
        Shared(Rc::new(RefCell::new(Store { room, next: 1 << 50, ..Store::default() })))
    }

    fn count(&self) -> usize {
        self.0.borrow().tables.len()
    }

    fn has_empty_table_but(&self, root: u64) -> bool {
        let store = self.0.borrow();
        store.tables.iter().any(|(table, entries)| *table != root && entries.iter().all(|entry| *entry == 0))
    }
}

impl Tables for Shared {
    fn take(&mut self) -> Option<u64> {
        let mut store = self.0.borrow_mut();
        if store.tables.len() == store.room {
            return None;
        }
        store.next += PAGE;
        let table = store.next;
        store.tables.insert(table, std::vec![0; 512]);
        Some(table)
    }
    fn give(&mut self, table: u64) {
        assert!(self.0.borrow_mut().tables.remove(&table).is_some(), "given back twice");
    }
    fn get(&self, table: u64, index: u64) -> u64 {
        self.0.borrow().tables[&table][index as usize]
    }
    fn set(&mut self, table: u64, index: u64, entry: u64) {
        assert!(entry == 0 || entry & USER != 0, "an entry without its user bit");
        self.0.borrow_mut().tables.get_mut(&table).expect("a table that was given back")[index as usize] = entry;
    }
}

/// The grants, as a list of ranges.
#[derive(Default)]
struct Model(Vec<(u64, u64, MapFlags)>);

impl Model {
    fn rights_of(&self, address: u64) -> Option<MapFlags> {
        self.0.iter().find(|(start, end, _)| (*start..*end).contains(&address)).map(|(_, _, rights)| *rights)
    }
    fn map(&mut self, start: u64, end: u64, rights: MapFlags) -> Result<(), MapError> {
        if self.0.iter().any(|(from, to, _)| *from < end && start < *to) {
            return Err(MapError::Occupied);
        }
        self.0.push((start, end, rights));
        Ok(())
    }
    fn unmap(&mut self, start: u64, end: u64) {
        let before = std::mem::take(&mut self.0);
        for (from, to, rights) in before {
            for (from, to) in [(from, to.min(start)), (from.max(end), to)] {
                if from < to {
                    self.0.push((from, to, rights));
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Act {
    Map(u64, u64, MapFlags),
    Unmap(u64, u64),
}

/// Starts and lengths near the borders of all three sizes of entries.
fn ranges() -> impl Strategy<Value = (u64, u64)> {
    let sizes = prop_oneof![Just(PAGE), Just(2 << 20), Just(1u64 << 30), Just(1u64 << 39)];
    let lengths = prop_oneof![Just(PAGE), Just(2 << 20), Just(1u64 << 30)];
    (sizes, 0u64..4, 0u64..3, lengths, 1u64..4, 0u64..3)
        .prop_map(|(size, at, pages, length, count, more)| (size * at + pages * PAGE, length * count + more * PAGE))
}

fn acts() -> impl Strategy<Value = Act> {
    let rights = (0u32..8).prop_map(|bits| {
        let flag = |bit: u32, right| if bits >> bit & 1 == 1 { right } else { MapFlags::empty() };
        flag(0, MapFlags::WRITE) | flag(1, MapFlags::EXECUTE) | flag(2, MapFlags::DEVICE)
    });
    prop_oneof![
        (ranges(), rights).prop_map(|((start, bytes), rights)| Act::Map(start, bytes, rights)),
        ranges().prop_map(|(start, bytes)| Act::Unmap(start, bytes)),
    ]
}

fn region(start: u64, bytes: u64) -> MemoryRegion {
    MemoryRegion { start: Pa(start), bytes }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Grants and takes away at random, sometimes without memory for tables: rights are the model's, and all frames come back.
    #[test]
    fn a_tree_grants_what_a_list_of_ranges_does(
        acts in prop::collection::vec(acts(), 1..40),
        room in prop_oneof![Just(1000usize), 1usize..14],
        gibibytes in any::<bool>(),
    ) {
        let store = Shared::with_room(room);
        let largest = if gibibytes { Largest::OneGibibyte } else { Largest::TwoMebibytes };
        let mut tree = Tree::new(store.clone(), largest).expect("room for the root");
        let mut model = Model::default();
        let mut borders = Vec::new();
        for act in acts {
            let (start, bytes) = match act { Act::Map(start, bytes, _) | Act::Unmap(start, bytes) => (start, bytes) };
            let end = start + bytes;
            match act {
                Act::Map(_, _, rights) => match tree.map(region(start, bytes), rights) {
                    Err(MapError::OutOfMemory) => prop_assert!(store.count() <= room && room < 1000),
                    answer => prop_assert_eq!(answer, model.map(start, end, rights)),
                },
                Act::Unmap(..) => match tree.unmap(region(start, bytes)) {
                    Err(MapError::OutOfMemory) => prop_assert!(store.count() == room),
                    answer => {
                        prop_assert_eq!(answer, Ok(()));
                        model.unmap(start, end);
                    }
                },
            }
            borders.extend([start, end, (start + end) / 2]);
            for border in &borders {
                for address in [border.saturating_sub(1), *border, border + 4095, border + 4096] {
                    prop_assert_eq!(tree.rights_of(address), model.rights_of(address), "at {:#x}", address);
                }
            }
            prop_assert!(!store.has_empty_table_but(tree.root()), "an empty table stays");
        }
        drop(tree);
        prop_assert_eq!(store.count(), 0);
    }
}

#[test]
fn a_grant_takes_the_largest_entries() {
    let store = Shared::with_room(1000);
    let mut tree = Tree::new(store.clone(), Largest::OneGibibyte).expect("room");
    // Up to 1 GiB by pages and 2 MiB, then two entries of 1 GiB, then pages again.
    let start = (1 << 30) - (2 << 20) - PAGE;
    tree.map(region(start, PAGE + (2 << 20) + (2 << 30) + PAGE), MapFlags::WRITE).expect("free");
    // The root, one of the third level, two of the second (first and fourth gibibyte), two of the last.
    assert_eq!(store.count(), 6);
    assert_eq!(tree.rights_of((2 << 30) + 5), Some(MapFlags::WRITE));
    // One page out of the middle of 1 GiB costs two tables.
    tree.unmap(region((2 << 30) + (6 << 20) + PAGE, PAGE)).expect("room");
    assert_eq!(store.count(), 8);
    assert_eq!(tree.rights_of((2 << 30) + (6 << 20) + PAGE), None);
    assert_eq!(tree.rights_of((2 << 30) + (6 << 20)), Some(MapFlags::WRITE));
    tree.unmap(region(0, ADDRESS_END)).expect("no memory needed");
    assert_eq!(store.count(), 1);
}

#[test]
fn ranges_that_no_table_can_hold_are_refused() {
    let mut tree = Tree::new(Shared::with_room(1000), Largest::OneGibibyte).expect("room");
    for (start, bytes) in [(1, PAGE), (0, 1), (0, 0), (ADDRESS_END - PAGE, 2 * PAGE), (!0xfff, PAGE), (PAGE, !0xfff)] {
        assert_eq!(tree.map(region(start, bytes), MapFlags::WRITE), Err(MapError::BadAddress), "{start:#x}+{bytes:#x}");
        assert_eq!(tree.unmap(region(start, bytes)), Err(MapError::BadAddress), "{start:#x}+{bytes:#x}");
    }
    assert_eq!(tree.rights_of(u64::MAX), None);
}

#[test]
fn marks_of_the_processor_are_found() {
    const LOT: u64 = 2 << 20;
    let store = Shared::with_room(10);
    let mut tree = Tree::new(store.clone(), Largest::TwoMebibytes).unwrap();
    tree.map(region(LOT, 3 * LOT), MapFlags::WRITE).unwrap();
    assert!(!tree.is_written(region(LOT, 3 * LOT)));
    let mark = |entry: &mut u64| *entry |= if *entry & LARGE != 0 && *entry & ADDRESS == 2 * LOT { DIRTY } else { 0 };
    store.0.borrow_mut().tables.values_mut().flatten().for_each(mark);
    let written = [LOT, 2 * LOT, 3 * LOT, 9 * LOT].map(|start| tree.is_written(region(start, LOT)));
    assert_eq!(written, [false, true, false, false]);
    assert!(tree.is_written(region(1, LOT)), "no range of pages");
}
