//! The memory of a cell that lives.
//!
//! Protocol of use: [`CellMemory::new`] from lots and the shared page, [`CellMemory::upload`] for each page of the process, [`CellMemory::begin`];
//! then [`CellMemory::pin`], lots that come and go, and [`View::find`] by calls; at the end [`CellMemory::take_lots`].

use crate::entry;
use crate::held::{Grant, Held, TakenLot};
use crate::lines::{Lines, PageFacts};
use crate::tables::{LOT, NoRoom, Tables, WINDOW, empty_slot, last_table, walk};
use alloc::vec::Vec;
use gyre_address_space::{Seen, Shown, View};
use gyre_machine::{MapFlags, PAGE_BYTES, Pa};
use gyre_object::{Page, SpinLock};

/// A page that a cell may reach from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pinned {
    /// The entry for its page table.
    pub entry: u64,
    /// The grant by the nested table, if there must be another one.
    pub grant: Option<Grant>,
}

struct State {
    held: Held,
    tables: Tables,
}

/// The memory of a cell.
pub struct CellMemory {
    state: SpinLock<State>,
    /// The shared page and its lines.
    pub lines: Lines,
}

impl CellMemory {
    /// Makes the memory of a cell that has not begun. Lots are clear; later ones lie at some of the addresses `possible`.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn new(lots: Vec<Page>, lines: Lines, possible: impl Iterator<Item = Pa>) -> Result<CellMemory, NoRoom> {
        let mut held = Held::default();
        for lot in lots {
            held.add_lot(lot);
        }
        let tables = Tables::new(&held, possible)?;
        Ok(CellMemory { state: SpinLock::new(State { held, tables }), lines })
    }

    /// Maps a page of the process as it was.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn upload(&self, shown: &Shown) -> Result<(), NoRoom> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.held.pin(&shown.page, shown.rights);
        state.tables.show(&state.held, shown)
    }

    /// Fills the shared page; returns the root, with which the cell begins.
    pub fn begin(&self, tsc_hz: u64) -> Pa {
        let state = self.state.lock();
        let facts = PageFacts { window: WINDOW, root: state.tables.root().0, free: state.tables.free().0, tsc_hz };
        self.lines.begin(&facts);
        self.lines.write_lots(state.held.lots());
        state.tables.root()
    }

    /// Returns everything that the cell may reach.
    pub fn grants(&self) -> Vec<Grant> {
        self.state.lock().held.grants().collect()
    }

    /// Lets the cell reach the page of its process that holds an address.
    pub fn pin(&self, shown: &Shown, address: u64) -> Pinned {
        let grant = self.state.lock().held.pin(&shown.page, shown.rights);
        let within = address.saturating_sub(shown.address) & !(entry::PAGE - 1);
        Pinned { entry: entry::leaf(shown.page.pa().0.saturating_add(within), shown.rights), grant }
    }

    /// Holds those pages of the process for which the cell's table has an empty entry; they lie in one last table, that of the first page.
    /// `grant` adds them to the nested table, then the entries are written. The cell may change its table at any time: words of its own memory
    /// are all that is written.
    pub fn show_around(&self, pages: &[Shown], mut grant: impl FnMut(Grant) -> bool) {
        let Some(first) = pages.first().map(|shown| shown.address) else { return };
        let Some((table, wanted)) = self.pin_around(pages, first) else { return };
        let granted: Vec<&Shown> =
            wanted.into_iter().filter(|(_, more)| more.is_none_or(&mut grant)).map(|(shown, _)| shown).collect();
        let held = &self.state.lock().held;
        for shown in granted {
            if let Some(slot) = empty_slot(held, table, shown.address) {
                let _ = held.write(slot, entry::leaf(shown.page.pa().0, shown.rights));
            }
        }
    }

    fn pin_around<'a>(&self, pages: &'a [Shown], first: u64) -> Option<(u64, Vec<(&'a Shown, Option<Grant>)>)> {
        let held = &mut self.state.lock().held;
        let table = last_table(held, self.lines.root(), first)?;
        let is_small = |shown: &&Shown| shown.page.len() == PAGE_BYTES && shown.address / LOT == first / LOT;
        let empty: Vec<&Shown> =
            pages.iter().filter(is_small).filter(|shown| empty_slot(held, table, shown.address).is_some()).collect();
        let pinned = empty.into_iter().map(|shown| (shown, held.pin(&shown.page, shown.rights)));
        Some((table, pinned.collect()))
    }

    /// Adds a clear lot.
    ///
    /// # Errors
    /// The lot, if it lies where none was possible.
    pub fn add_lot(&self, lot: Page) -> Result<Grant, Page> {
        let mut state = self.state.lock();
        let start = lot.pa().0;
        let grant = state.held.add_lot(lot.clone());
        if state.tables.show_lot(&state.held, start).is_err() {
            state.held.remove_lot(start);
            return Err(lot);
        }
        self.lines.write_lots(state.held.lots());
        Ok(grant)
    }

    /// Takes a lot out; `None` if it is none of the cell's, or the first one.
    pub fn remove_lot(&self, start: u64) -> Option<TakenLot> {
        let mut state = self.state.lock();
        if state.held.lots().next() == Some(start) {
            return None;
        }
        let lot = state.held.remove_lot(start)?;
        // The cell may have replaced the table.
        let _ = state.tables.hide_lot(&state.held, start);
        self.lines.write_lots(state.held.lots());
        Some(lot)
    }

    /// Takes all lots out, once the cell is over: it shows nothing more.
    pub fn take_lots(&self) -> Vec<TakenLot> {
        self.state.lock().held.take_lots()
    }

    /// Returns the number of its lots.
    pub fn lot_count(&self) -> usize {
        self.state.lock().held.lots().len()
    }

    /// Returns the lot that holds so many bytes from a physical address on, and the place in it; `None` if none of the cell's holds all.
    pub fn find_in_lot(&self, pa: u64, bytes: u64) -> Option<(Page, usize)> {
        self.state.lock().held.find_in_lot(pa, bytes)
    }

    /// Returns true if the cell holds the frame at a physical address with the right to write it.
    pub fn may_write(&self, pa: Pa) -> bool {
        self.state.lock().held.find(pa.0).is_some_and(|seen| seen.rights.contains(MapFlags::WRITE))
    }
}

impl View for CellMemory {
    fn find(&self, address: u64) -> Option<Seen> {
        walk(&self.state.lock().held, self.lines.root(), address)
    }
}
