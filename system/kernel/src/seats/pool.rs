//! Memory and cores for cells: what there is, and who holds it.
//!
//! A core is known by its slot. A lot is a run of frames that this instance took at boot; it is clear whenever nobody holds it.
//!
//! All parts of a cell are granted together or not at all; more lots may be granted later, and each part may be given back alone.
//! Accounts of who holds a part, and since when, are those of `gyre_leases`.
//!
//! The owner may have the pool hold less or more ([`CellPool::resize`]). A lot that goes back to the machine is the supervisor's in the accounts; if
//! it comes again it is one of those that there were at boot, for the windows of cells know those places.
//!
//! The infrastructure pays for lots that nobody holds, the process of a cell for its own.

use crate::base::Base;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use gyre_account::{Activities, ActivityId};
use gyre_interface::leases::{CELLS_MAX, Dirt, Goods, Holder, Kind, LeaseError, Lots, Move, Parts, Terms, Wish};
use gyre_leases::Pool;
use gyre_linux::Errno;
use gyre_machine::Pa;
use gyre_object::{Page, SpinLock};

/// Frames of a lot, as a power of two.
const LOT_ORDER: u8 = 9;
const LOT_BYTES: u64 = gyre_cell_abi::LOT_BYTES;

struct State {
    leases: Pool,
    /// Lots that nobody holds, by number.
    lots: BTreeMap<u64, Page>,
}

/// Memory and cores for cells.
pub struct CellPool {
    state: SpinLock<State>,
    activities: &'static Activities,
    /// The places of its lots.
    places: Vec<Pa>,
}

/// The parts that nobody has.
pub struct Free {
    /// Cores, by slot.
    pub cores: Vec<u32>,
    /// Bytes.
    pub bytes: u64,
    /// Bytes of all lots that are kept.
    pub pool_bytes: u64,
}

/// The parts that a cell is to begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// Cores.
    pub cores: u32,
    /// Lots.
    pub lots: u32,
}

/// The parts of one cell.
pub struct Leased {
    /// The number of the cell.
    pub number: u16,
    /// The slots of its cores.
    pub slots: Vec<usize>,
    /// Its lots.
    pub lots: Vec<Page>,
    /// The payer for them.
    pub payer: ActivityId,
}

fn holder(number: u16) -> Holder {
    Holder::Cell(number)
}

fn number_of(page: &Page) -> u64 {
    page.pa().0.checked_div(LOT_BYTES).unwrap_or(0)
}

fn bytes_of(lots: usize) -> u64 {
    (lots as u64).saturating_mul(LOT_BYTES)
}

fn move_of(from: Holder, to: Holder, goods: Goods) -> Move {
    Move { from, to, goods, terms: Terms::Kept }
}

/// Returns lots one by one as parts.
fn parts_of(lots: &[Page]) -> Parts {
    let runs = lots.iter().map(|lot| Lots { first: number_of(lot), count: 1 });
    Parts { lots: runs.collect(), ..Parts::default() }
}

impl CellPool {
    /// Takes `bytes` bytes for cells; the cores are all but the resident one. `None` if there is not so much in whole lots.
    pub fn new(base: &'static Base, bytes: u64) -> Option<CellPool> {
        let count = usize::try_from(bytes.checked_div(LOT_BYTES)?).ok()?;
        let pages: Option<Vec<Page>> = (0..count).map(|_| Page::zeroed_run(LOT_ORDER).ok()).collect();
        let pages = pages?;
        let lots = parts_of(&pages).lots;
        let cores = (1..base.engine.cores()).filter_map(|slot| u32::try_from(slot).ok()).collect();
        let mut leases = Pool::new(Parts { cores, lots: lots.clone(), ..Parts::default() }, gyre_x86_64::now());
        lots.into_iter().try_for_each(|lot| leases.cleaned(lot)).ok()?;
        let places = pages.iter().map(Page::pa).collect();
        let lots = pages.into_iter().map(|page| (number_of(&page), page)).collect();
        let state = SpinLock::new(State { leases, lots });
        Some(CellPool { state, activities: &base.engine.accounts().activities, places })
    }

    /// The places at which a lot can lie.
    pub fn places(&self) -> impl Iterator<Item = Pa> + '_ {
        self.places.iter().copied()
    }

    /// Takes cores and lots, all or nothing, and charges them to an activity.
    ///
    /// # Errors
    /// EAGAIN if too many of the cores that could be had are taken, ENODEV if there never are so many, ENOMEM.
    pub fn take(&self, want: Want, payer: ActivityId) -> Result<Leased, Errno> {
        let payer = self.charge(want.lots as usize, payer)?;
        let taken = self.take_parts(want);
        if taken.is_err() {
            self.credit(want.lots as usize, payer);
        }
        let (number, parts, lots) = taken?;
        let slots = parts.cores.iter().filter_map(|core| usize::try_from(*core).ok()).collect();
        Ok(Leased { number, slots, lots, payer })
    }

    fn take_parts(&self, want: Want) -> Result<(u16, Parts, Vec<Page>), Errno> {
        let mut state = self.state.lock();
        let is_free = |number: &u16| state.leases.parts(holder(*number)).is_empty();
        let number = (0..CELLS_MAX as u16).find(is_free).ok_or(Errno::EAGAIN)?;
        let wish = Wish { cores: want.cores, lots: want.lots, dirt: Dirt::Refused, ..Wish::default() };
        let parts = state.take(number, wish)?;
        let lots = state.pages(&parts);
        Ok((number, parts, lots))
    }

    /// Returns what nobody has.
    pub fn free(&self) -> Free {
        let state = self.state.lock();
        let cores = state.leases.parts(Holder::Free).cores;
        Free { cores, bytes: bytes_of(state.lots.len()), pool_bytes: bytes_of(state.kept(self.places.len())) }
    }

    /// Takes more lots for a cell.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn take_more(&self, number: u16, lots: u32, payer: ActivityId) -> Result<Vec<Page>, Errno> {
        let payer = self.charge(lots as usize, payer)?;
        let mut state = self.state.lock();
        let parts = state.take(number, Wish { lots, dirt: Dirt::Refused, ..Wish::default() });
        let pages = parts.map(|parts| state.pages(&parts));
        drop(state);
        if pages.is_err() {
            self.credit(lots as usize, payer);
        }
        pages
    }

    /// Takes back lots of a cell that have been cleared.
    pub fn give(&self, number: u16, lots: Vec<Page>, payer: ActivityId) {
        self.credit(lots.len(), payer);
        let mut state = self.state.lock();
        let parts = parts_of(&lots);
        let runs = parts.lots.clone();
        state.give(number, Goods::These(parts));
        for run in runs {
            let _ = state.leases.cleaned(run);
        }
        state.lots.extend(lots.into_iter().map(|page| (number_of(&page), page)));
    }

    /// Takes a core for a cell that goes on.
    ///
    /// # Errors
    /// EAGAIN if none is free.
    pub fn take_core(&self, number: u16) -> Result<usize, Errno> {
        let parts = self.state.lock().take(number, Wish { cores: 1, ..Wish::default() })?;
        parts.cores.first().and_then(|core| usize::try_from(*core).ok()).ok_or(Errno::EAGAIN)
    }

    /// Takes back a core of a cell that goes on.
    pub fn give_core(&self, number: u16, slot: usize) {
        let cores = u32::try_from(slot).into_iter().collect();
        self.state.lock().give(number, Goods::These(Parts { cores, ..Parts::default() }));
    }

    /// Keeps so many bytes, as far as lots are free here or in the machine; returns how many it keeps now. Never waits.
    ///
    /// # Errors
    /// EINVAL for bytes that are no whole lots.
    pub fn resize(&self, bytes: u64) -> Result<u64, Errno> {
        let wanted = bytes.checked_div(LOT_BYTES).filter(|_| bytes.is_multiple_of(LOT_BYTES)).ok_or(Errno::EINVAL)?;
        let wanted = usize::try_from(wanted).map_err(|_| Errno::EINVAL)?;
        let kept = self.state.lock().kept(self.places.len());
        if wanted < kept {
            let gone = self.state.lock().release(kept.saturating_sub(wanted));
            // Outside of the lock.
            drop(gone);
        } else {
            self.refill(wanted.saturating_sub(kept));
        }
        Ok(bytes_of(self.state.lock().kept(self.places.len())))
    }

    /// Takes lots from the machine that the pool had before.
    fn refill(&self, count: usize) {
        // Lots that lie elsewhere are held until the end, so that others are found.
        let mut others = Vec::new();
        let mut found = 0usize;
        // The infrastructure pays for them, whoever asked.
        let asker = gyre_account::set_current_activity(ActivityId::INFRASTRUCTURE);
        for _ in 0..self.places.len() {
            let Some(page) = (found < count).then(|| Page::zeroed_run(LOT_ORDER).ok()).flatten() else { break };
            match self.state.lock().accept(page) {
                None => found = found.saturating_add(1),
                Some(page) => others.push(page),
            }
        }
        gyre_account::set_current_activity(asker);
    }

    /// Takes back the cores of a cell, which has given its lots.
    pub fn end(&self, number: u16) {
        self.state.lock().give(number, Goods::All);
    }

    fn charge(&self, lots: usize, payer: ActivityId) -> Result<ActivityId, Errno> {
        let payer = self.activities.charge_memory(payer, bytes_of(lots)).map_err(|_| Errno::ENOMEM)?;
        self.activities.credit_memory(ActivityId::INFRASTRUCTURE, bytes_of(lots));
        Ok(payer)
    }

    fn credit(&self, lots: usize, payer: ActivityId) {
        self.activities.charge_object_memory(ActivityId::INFRASTRUCTURE, bytes_of(lots));
        self.activities.credit_memory(payer, bytes_of(lots));
    }
}

impl State {
    fn take(&mut self, number: u16, wish: Wish) -> Result<Parts, Errno> {
        let has_cores = self.leases.cores(gyre_x86_64::now()).len() >= wish.cores as usize;
        let moves = [move_of(Holder::Free, holder(number), Goods::Any(wish))];
        let taken = self.leases.exchange(&moves, gyre_x86_64::now()).map_err(|error| match error {
            LeaseError::Lacking { kind: Kind::Core, .. } if has_cores => Errno::EAGAIN,
            LeaseError::Lacking { kind: Kind::Core, .. } => Errno::ENODEV,
            _ => Errno::ENOMEM,
        })?;
        taken.into_iter().next().ok_or(Errno::ENOMEM)
    }

    /// Lots of the pool, of so many that there were at boot.
    fn kept(&self, all: usize) -> usize {
        let away: u32 = self.leases.parts(Holder::Supervisor).lots.iter().map(|run| run.count).sum();
        all.saturating_sub(away as usize)
    }

    /// Takes up to so many free lots out; the machine has them once they are dropped.
    fn release(&mut self, count: usize) -> Vec<Page> {
        let numbers: Vec<u64> = self.lots.keys().rev().take(count).copied().collect();
        let pages: Vec<Page> = numbers.iter().filter_map(|number| self.lots.get(number).cloned()).collect();
        let moves = [move_of(Holder::Free, Holder::Supervisor, Goods::These(parts_of(&pages)))];
        match self.leases.exchange(&moves, gyre_x86_64::now()) {
            Ok(_) => numbers.iter().filter_map(|number| self.lots.remove(number)).collect(),
            Err(error) => {
                log::error!("free lots of the pool of cells cannot go: {error:?}");
                Vec::new()
            }
        }
    }

    /// Takes a clear lot of the machine in; gives it back if the pool did not have it before.
    fn accept(&mut self, page: Page) -> Option<Page> {
        let parts = parts_of(core::slice::from_ref(&page));
        let runs = parts.lots.clone();
        let moves = [move_of(Holder::Supervisor, Holder::Free, Goods::These(parts))];
        if self.leases.exchange(&moves, gyre_x86_64::now()).is_err() {
            return Some(page);
        }
        runs.into_iter().for_each(|run| _ = self.leases.cleaned(run));
        self.lots.insert(number_of(&page), page);
        None
    }

    fn give(&mut self, number: u16, goods: Goods) {
        let moves = [move_of(holder(number), Holder::Free, goods)];
        if let Err(error) = self.leases.exchange(&moves, gyre_x86_64::now()) {
            log::error!("cell {number} gives back what it does not hold: {error:?}");
        }
    }

    /// Takes the pages of lots out.
    fn pages(&mut self, parts: &Parts) -> Vec<Page> {
        let numbers = parts.lots.iter().flat_map(|run| run.first..run.first.saturating_add(u64::from(run.count)));
        numbers.filter_map(|number| self.lots.remove(&number)).collect()
    }
}
