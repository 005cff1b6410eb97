//! The memory of a plain cell: lots that its process sees as shared memory, at ring 3 and by its ordinary page table.
//!
//! A lot has a *place*, the address at which it would lie if physical address 0 were at the window: [`PlainMemory::lots`] lists them. It is cut
//! into pages, so that the process may show any of them elsewhere too (mremap(2) with no old bytes). The pages are nobody's to pay for but the
//! cell's, as a whole.
//!
//! [`PlainMemory::take`] takes a lot back from whatever shows it: the process finds nothing there afterwards (SIGBUS). It waits until devices
//! have let go of its pages, and joins them to one lot again. Memory that the process has unmapped wholly is gone for it; the lots are here.
//!
//! Left out: clearing, and whose the lots are next.

use crate::lines::{Lines, PageFacts};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Range;
use gyre_address_space::{
    AddressSpace, MapRequest, Options, PageIndex, Place, Provider, Rights, SharedMemory, SpaceError,
};
use gyre_cell_abi::{LOT_BYTES, LOTS_MAX};
use gyre_message::sleep_ns;
use gyre_object::{Page, SpinLock};

/// Bytes of addresses that the window covers: no lot lies at 0.
const WINDOW_BYTES: u64 = LOT_BYTES * (LOTS_MAX as u64 + 1);
/// The pause between two looks whether pages are let go, ns.
const LOOK_NS: u64 = 20_000;

/// A lot in pages.
struct CutLot {
    /// Its place.
    at: u64,
    /// The payer of the whole, for [`Page::join`].
    owner: u32,
    pages: Vec<Page>,
}

impl CutLot {
    fn part(&self) -> Range<u64> {
        self.at..self.at.saturating_add(LOT_BYTES)
    }
}

/// The memory of a plain cell.
pub struct PlainMemory {
    /// The shared page; there are no lines.
    pub lines: Lines,
    space: Weak<AddressSpace>,
    memory: Weak<SharedMemory>,
    lots: SpinLock<Vec<CutLot>>,
}

impl PlainMemory {
    /// Makes memory without lots that a space may show as `memory` ([`SharedMemory::of_comings`]).
    pub fn new(lines: Lines, space: &Arc<AddressSpace>, memory: &Arc<SharedMemory>) -> PlainMemory {
        let (space, memory) = (Arc::downgrade(space), Arc::downgrade(memory));
        PlainMemory { lines, space, memory, lots: SpinLock::new(Vec::new()) }
    }

    /// Maps the window and writes the facts of the shared page; the space shows it. Answers the address of the window's beginning.
    ///
    /// # Errors
    /// [`SpaceError`].
    pub async fn show(&self, space: &AddressSpace, tsc_hz: u64) -> Result<u64, SpaceError> {
        let memory = self.memory.upgrade().ok_or(SpaceError::NoMemory)?;
        let request = MapRequest {
            place: Place::Anywhere(0),
            bytes: WINDOW_BYTES,
            rights: Rights::READ | Rights::WRITE,
            rights_max: Rights::all(),
            options: Options::SHARED | Options::NOT_INHERITED | Options::NO_RESERVE,
            provider: Provider::Memory(memory),
            first_index: PageIndex::FIRST,
        };
        let window = space.map(request).await?;
        self.lines.begin(&PageFacts { window, root: 0, free: LOT_BYTES, tsc_hz });
        Ok(window)
    }

    /// Takes the window away, also from a mapping that the process has made of a part of it there.
    ///
    /// # Errors
    /// [`SpaceError`].
    pub async fn hide(&self, space: &AddressSpace, window: u64) -> Result<(), SpaceError> {
        let Some(memory) = self.memory.upgrade() else { return Ok(()) };
        space.unmap_shared(window, WINDOW_BYTES, &memory).await
    }

    /// Adds a lot at a free place; answers the place.
    ///
    /// # Errors
    /// The lot, if there are as many as there can be, if somebody else holds it, or if the process does not have the memory any more. One caller at a time.
    pub fn add(&self, lot: Page) -> Result<u64, Page> {
        let Some(memory) = self.memory.upgrade() else { return Err(lot) };
        let Some(at) = self.free_place() else { return Err(lot) };
        let (owner, pages) = lot.split_uncharged()?;
        let pages: Vec<Page> = pages.collect();
        memory.put(at, pages.iter().cloned());
        let mut lots = self.lots.lock();
        lots.push(CutLot { at, owner, pages });
        self.write_lots(&lots);
        Ok(at)
    }

    fn free_place(&self) -> Option<u64> {
        let lots = self.lots.lock();
        let mut places = (1..=LOTS_MAX as u64).map(|number| number.saturating_mul(LOT_BYTES));
        places.find(|at| lots.iter().all(|lot| lot.at != *at))
    }

    fn write_lots(&self, lots: &[CutLot]) {
        self.lines.write_lots(lots.iter().map(|lot| lot.at));
    }

    /// Returns the places of its lots, in the order in which they came.
    pub fn lots(&self) -> Vec<u64> {
        self.lots.lock().iter().map(|lot| lot.at).collect()
    }

    /// Returns how many lots it has.
    pub fn lot_count(&self) -> usize {
        self.lots.lock().len()
    }

    /// Takes the lot of a place back, as one piece that still has the cell's bytes; `None` if there is none. One caller at a time.
    pub async fn take(&self, at: u64) -> Option<Page> {
        let part = self.lots.lock().iter().find(|lot| lot.at == at)?.part();
        loop {
            self.withdraw(part.clone()).await;
            match self.join(at)? {
                Some(lot) => return Some(lot),
                // A device has a page still, or a fault was under way.
                None => sleep_ns(LOOK_NS).await,
            }
        }
    }

    /// Takes a part out of the process's reach.
    async fn withdraw(&self, part: Range<u64>) {
        let Some(memory) = self.memory.upgrade() else { return };
        memory.remove(part.clone()).await;
        if let Some(space) = self.space.upgrade() {
            space.forget_shared(&memory, part).await;
        }
    }

    /// Makes the lot of a place one piece and takes it out, if nobody else holds a page of it; the outer `None` if there is no such lot.
    fn join(&self, at: u64) -> Option<Option<Page>> {
        let mut lots = self.lots.lock();
        let place = lots.iter().position(|lot| lot.at == at)?;
        let CutLot { owner, pages, .. } = lots.remove(place);
        match Page::join(pages, owner) {
            Ok(lot) => {
                self.write_lots(&lots);
                Some(Some(lot))
            }
            Err(pages) => {
                lots.insert(place, CutLot { at, owner, pages });
                Some(None)
            }
        }
    }
}
