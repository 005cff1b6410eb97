//! Giving memory back that can be had again: pages of files, which the file cache holds too (2013 paper, section IV-D).
//!
//! A hand goes round the pages of files, as in the clock algorithm (Corbató, "A Paging Experiment with the Multics System", 1969). A page that
//! was used since the hand passed it loses the mark of use and stays; one that was not goes. So each call costs as much as it gives, and on
//! its way what it spares; nothing is looked at twice before all the rest was.
//!
//! * A page that the program may write is dirty in its file's cache, and is written back there before it goes.
//! * Pages that a program wrote for itself, locked ones, and those of file systems in memory stay: nobody could give them again, or nothing is
//!   gained.
//! * A page that its file has lost, since it became shorter, is free at once.
//! * Cores that hold a translation do not mark its page again: it only seems unused, and comes back by a fault.

use crate::AddressSpace;
use crate::given::{Given, Rest, file_of};
use crate::region::PAGE;
use crate::space::{State, Withdrawn};
use alloc::vec::Vec;
use gyre_interface::memory::Effort;
use gyre_machine::{MapFlags, Va};
use gyre_object::Page;

/// Regions and pages that are looked at under one lock.
const LOOKS: usize = 512;
/// Pages that are looked at once for each wanted one.
const LOOKS_FOR_EACH: usize = 4;
/// Pages that a program loses for each wanted one, if others show them, too, before others are asked.
const HIDDEN_FOR_EACH: usize = 8;
/// Ends of the space that the hand passes before nothing can be had: from where it is to the end, and twice around.
const ENDS_MAX: usize = 3;

/// Memory that a program has given back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GivenBack {
    /// Bytes that the program does not show any more.
    pub hidden_bytes: u64,
    /// Of them, bytes that are free now. Others must be written first, or another program shows them.
    pub free_bytes: u64,
}

/// The outcome of a look at a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Forgotten {
    /// It stays.
    No,
    /// The program does not show it any more; its file, or another program, still holds it.
    FilesToo,
    /// Nobody else held it: its file has become shorter, and its mappings are about to hear of it ([`AddressSpace::shorten`]).
    WhollyFree,
}

/// A search for pages to give.
struct Sweep {
    wanted_pages: usize,
    free_pages: usize,
    hidden_pages: usize,
    hidden_pages_max: usize,
    /// How often the hand has passed the end of the space.
    ends: usize,
    /// Pages that were hidden last.
    last: Given,
}

impl Sweep {
    fn new(bytes: u64, effort: Effort) -> Sweep {
        let wanted_pages = (bytes / PAGE).max(1) as usize;
        let hidden_pages_max = match effort {
            Effort::Usual => wanted_pages.saturating_mul(HIDDEN_FOR_EACH),
            Effort::Thorough => usize::MAX,
        };
        Sweep { wanted_pages, free_pages: 0, hidden_pages: 0, hidden_pages_max, ends: 0, last: Given::default() }
    }

    fn goes_on(&self) -> bool {
        self.free_pages < self.wanted_pages && self.hidden_pages < self.hidden_pages_max && self.ends < ENDS_MAX
    }

    /// Notes a page that was hidden and is free.
    fn note_free(&mut self) {
        self.hidden_pages = self.hidden_pages.saturating_add(1);
        self.free_pages = self.free_pages.saturating_add(1);
    }

    /// Pages that may be hidden before it is seen how many of them are free.
    fn wants_now(&self) -> usize {
        self.wanted_pages.saturating_sub(self.free_pages).saturating_sub(self.last.count())
    }
}

impl AddressSpace {
    /// Forgets file pages that the program has not used for long, until about `bytes` are free; their files drop those that nobody else shows,
    /// dirty ones once they are on the disk.
    pub async fn give_back(&self, bytes: u64, effort: Effort) -> GivenBack {
        let mut sweep = Sweep::new(bytes, effort);
        while sweep.goes_on() {
            let mut withdrawn = Withdrawn::default();
            self.state.lock().sweep(&mut sweep, &mut withdrawn);
            self.flush_and_free(withdrawn).await;
            let last = core::mem::take(&mut sweep.last);
            sweep.hidden_pages = sweep.hidden_pages.saturating_add(last.count());
            let free_bytes = last.drop_unused().await;
            sweep.free_pages = sweep.free_pages.saturating_add((free_bytes / PAGE) as usize);
            gyre_message::yield_now().await;
        }
        let bytes = |pages: usize| (pages as u64).saturating_mul(PAGE);
        GivenBack { hidden_bytes: bytes(sweep.hidden_pages), free_bytes: bytes(sweep.free_pages) }
    }
}

impl State {
    /// Goes on with a search for [`LOOKS`] looks. Pages of a program that edits its page table itself stay.
    fn sweep(&mut self, sweep: &mut Sweep, withdrawn: &mut Withdrawn) {
        let mut looks = LOOKS;
        while looks > 0 && sweep.goes_on() && sweep.wants_now() > 0 {
            match self.next_of_files(&mut looks).filter(|_| self.view.is_none()) {
                Some(rest) => self.sweep_rest(&rest, &mut looks, sweep, withdrawn),
                None if looks == 0 => {}
                None => (self.hand, sweep.ends) = (0, sweep.ends.saturating_add(1)),
            }
        }
    }

    /// Returns the rest, from the hand on, of the first region whose pages may go, and moves the hand there; none at the end of the space, or of
    /// the looks.
    fn next_of_files(&mut self, looks: &mut usize) -> Option<Rest> {
        let mut found = None;
        let mut hand = self.hand;
        for (start, region) in self.regions.iter_from(self.hand).take(*looks) {
            *looks = looks.saturating_sub(1);
            if let Some(file) = file_of(region) {
                hand = hand.max(start);
                found = Some(Rest { start: hand, end: region.end, file, first: region.index_of(start, hand) });
                break;
            }
            hand = region.end;
        }
        self.hand = hand;
        found
    }

    fn sweep_rest(&mut self, rest: &Rest, looks: &mut usize, sweep: &mut Sweep, withdrawn: &mut Withdrawn) {
        let most = sweep.wants_now().saturating_mul(LOOKS_FOR_EACH).min(*looks);
        let addresses: Vec<u64> = self.pages.addresses(rest.start, rest.end).take(most).collect();
        let is_all = addresses.len() < most;
        *looks = looks.saturating_sub(addresses.len());
        for address in addresses {
            if sweep.wants_now() == 0 {
                return;
            }
            self.hand = address.saturating_add(PAGE);
            match self.forget_unused(address, withdrawn) {
                Forgotten::FilesToo => sweep.last.note(&rest.file, rest.index_of(address)),
                Forgotten::WhollyFree => sweep.note_free(),
                Forgotten::No => {}
            }
        }
        if is_all {
            self.hand = rest.end;
        }
    }

    /// Takes one page out if it was not used since the last look; else marks it as unused.
    pub(crate) fn forget_unused(&mut self, address: u64, withdrawn: &mut Withdrawn) -> Forgotten {
        // Pages that a program wrote for itself could not be given again.
        let Some(is_files_too) = self.pages.get(address).filter(|page| !page.is_own()).map(Page::is_shared) else {
            return Forgotten::No;
        };
        let flags = self.table.query(Va(address)).map_or(MapFlags::empty(), |mapping| mapping.flags);
        // Nobody will use a page that its file has lost.
        if is_files_too && flags.contains(MapFlags::ACCESSED) {
            self.table.protect(Va(address), flags.difference(MapFlags::ACCESSED));
            return Forgotten::No;
        }
        self.evict(address, withdrawn);
        if is_files_too { Forgotten::FilesToo } else { Forgotten::WhollyFree }
    }
}
