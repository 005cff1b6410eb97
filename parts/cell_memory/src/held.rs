//! The frames that a cell holds: lots, which are its own, and pages of its process.
//!
//! A call's copy looks here once for each level of the table and once for the page itself. So lots are found by where they were found last,
//! and only then by a look at all of them.
//!
//! * A lot lies at a multiple of its size, so its start is told by an address alone.
//! * Pages of the process are of 4 KiB or 2 MiB, and are found by the order of their addresses.

use crate::entry::PAGE;
use crate::tables::LOT;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;
use core::cell::Cell;
use gyre_address_space::Seen;
use gyre_machine::{MapFlags, MemoryRegion, Pa};
use gyre_object::Page;

/// Rights of a cell to its lots.
const ALL: MapFlags = MapFlags::WRITE.union(MapFlags::EXECUTE);

/// Memory for the nested table of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Whole pages.
    pub range: MemoryRegion,
    /// Rights beside reading.
    pub rights: MapFlags,
}

/// A frame, or some in a row, with the rights of the cell to it.
struct Pin {
    page: Page,
    rights: MapFlags,
    /// The kernel has found it by an address, and may have written there.
    is_reached: Cell<bool>,
}

impl Pin {
    fn new(page: Page, rights: MapFlags) -> Pin {
        Pin { page, rights, is_reached: Cell::new(false) }
    }
}

/// A lot that a cell does not hold any more.
pub struct TakenLot {
    /// Its frames.
    pub page: Page,
    /// The kernel may have written there, for the cell or for a device of it.
    pub is_reached: bool,
}

impl TakenLot {
    fn of(pin: Pin) -> TakenLot {
        TakenLot { page: pin.page, is_reached: pin.is_reached.get() }
    }
}

/// A lot by its start, a multiple of its size.
struct Lot {
    start: u64,
    pin: Pin,
}

impl Lot {
    fn holds(&self, pa: u64) -> bool {
        pa & !(LOT - 1) == self.start
    }
}

/// Places in the list of lots that looks remember.
const REMEMBERED: usize = 64;

/// The frames that a cell holds.
pub struct Held {
    /// Pages of the process, by physical address.
    pins: BTreeMap<u64, Pin>,
    /// The lots, in the order in which they came.
    lots: Vec<Lot>,
    /// Places at which lots were found before, by their number: a walk reads tables and memory by turns.
    remembered: [Cell<u16>; REMEMBERED],
}

impl Default for Held {
    fn default() -> Self {
        Self { pins: BTreeMap::new(), lots: Vec::new(), remembered: [const { Cell::new(0) }; REMEMBERED] }
    }
}

impl Held {
    /// Adds a lot; the cell may do with it what it likes.
    pub fn add_lot(&mut self, lot: Page) -> Grant {
        let start = lot.pa().0;
        self.lots.push(Lot { start, pin: Pin::new(lot, ALL) });
        Grant { range: MemoryRegion { start: Pa(start), bytes: LOT }, rights: ALL }
    }

    /// Takes the lot out that begins at a physical address; `None` if it is none of this cell's.
    pub fn remove_lot(&mut self, start: u64) -> Option<TakenLot> {
        let place = self.lots.iter().position(|lot| lot.start == start)?;
        Some(TakenLot::of(self.lots.remove(place).pin))
    }

    /// Takes all lots out.
    pub fn take_lots(&mut self) -> Vec<TakenLot> {
        let lots = core::mem::take(&mut self.lots);
        lots.into_iter().map(|lot| TakenLot::of(lot.pin)).collect()
    }

    /// The starts of the lots, in the order in which they came.
    pub fn lots(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.lots.iter().map(|lot| lot.start)
    }

    /// Holds a page of the process with these rights; those that it had stay. Answers the grant if that is more than before.
    pub fn pin(&mut self, page: &Page, rights: MapFlags) -> Option<Grant> {
        let rights = rights & ALL;
        let start = page.pa().0;
        let range = MemoryRegion { start: Pa(start), bytes: page.len() as u64 };
        match self.pins.entry(start) {
            Entry::Vacant(place) => {
                place.insert(Pin::new(page.clone(), rights));
                Some(Grant { range, rights })
            }
            Entry::Occupied(mut place) => {
                let rights = rights | place.get().rights;
                let is_more = rights != place.get().rights;
                // The frame may be another page's by now: its holder changes, too.
                is_more.then(|| _ = place.insert(Pin::new(page.clone(), rights)));
                is_more.then_some(Grant { range, rights })
            }
        }
    }

    /// Returns everything that it holds.
    pub fn grants(&self) -> impl Iterator<Item = Grant> + '_ {
        let lots = self.lots.iter().map(|lot| (lot.start, &lot.pin));
        lots.chain(self.pins.iter().map(|(start, pin)| (*start, pin))).map(|(start, pin)| Grant {
            range: MemoryRegion { start: Pa(start), bytes: pin.page.len() as u64 },
            rights: pin.rights,
        })
    }

    /// Returns the frame that holds a physical address; `None` if the cell does not hold it.
    pub fn find(&self, pa: u64) -> Option<Seen> {
        let (pin, offset) = self.spot(pa)?;
        let bytes = pin.page.len().saturating_sub(offset);
        Some(Seen { page: pin.page.clone(), offset, bytes, rights: pin.rights })
    }

    /// Returns the lot that holds a physical address.
    fn lot_of(&self, pa: u64) -> Option<&Lot> {
        let place = self.remembered.get(usize::try_from(pa / LOT).ok()? % REMEMBERED)?;
        if let Some(lot) = self.lots.get(usize::from(place.get())).filter(|lot| lot.holds(pa)) {
            return Some(lot);
        }
        let found = self.lots.iter().position(|lot| lot.holds(pa))?;
        place.set(u16::try_from(found).unwrap_or(0));
        self.lots.get(found)
    }

    fn spot(&self, pa: u64) -> Option<(&Pin, usize)> {
        if let Some(lot) = self.lot_of(pa) {
            lot.pin.is_reached.set(true);
            return Some((&lot.pin, usize::try_from(pa % LOT).ok()?));
        }
        let (start, pin) = self.pins.range(..=pa).next_back()?;
        let offset = usize::try_from(pa.checked_sub(*start)?).ok()?;
        pin.is_reached.set(true);
        (offset < pin.page.len()).then_some((pin, offset))
    }

    /// Returns the lot that holds so many bytes from a physical address on, and the place in it; `None` if none of the cell's holds all.
    pub fn find_in_lot(&self, pa: u64, bytes: u64) -> Option<(Page, usize)> {
        let seen = self.find(pa).filter(|seen| self.lots().any(|start| start == seen.page.pa().0))?;
        let end = (seen.offset as u64).checked_add(bytes)?;
        (end <= seen.page.len() as u64).then_some((seen.page, seen.offset))
    }

    /// Reads a word of a table; `None` outside of what the cell holds.
    pub(crate) fn read(&self, pa: u64) -> Option<u64> {
        let (pin, offset) = self.spot(pa)?;
        let mut word = [0; 8];
        (pin.page.read(offset, &mut word) == word.len()).then(|| u64::from_le_bytes(word))
    }

    /// Writes a word of a table if the cell may write there.
    pub(crate) fn write(&self, pa: u64, value: u64) -> Option<()> {
        let (pin, offset) = self.spot(pa).filter(|(pin, _)| pin.rights.contains(MapFlags::WRITE))?;
        (pin.page.write(offset, &value.to_le_bytes()) == 8).then_some(())
    }
}

const _: () = assert!(LOT.is_multiple_of(PAGE) && LOT.is_power_of_two());
