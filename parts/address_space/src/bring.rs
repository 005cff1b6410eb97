//! Bringing pages of a file: the one that a fault needs, and those around it that are in memory.
//!
//! The look under the lock that finds a page absent makes a [`Window`]: the absent pages of its mapping in the same
//! 64 KiB. One look at the file system (a visit, no message) takes those that are in memory, and they are placed under
//! one lock and counted once. Only if the needed page is not in memory a message asks for it, and for those around it if
//! the mapping does not miss much more than it hits ([`crate::misses`]); its neighbours are looked for when it has come.
//!
//! Pages around a fault are a guess: their entries are not marked as used, and the file cache notes no use of them.
//! Nothing but the file's pages of the mapping as it is then is placed, none behind the file's end, and none in the
//! place of another one. So a file that becomes shorter meanwhile (`shorten`, which notes the size first) shows
//! nothing behind its end.

use crate::page_index::PageIndex;
use crate::pages::BLOCK_BYTES;
use crate::region::{MappedFile, PAGE, Provider, Region};
use crate::space::State;
use crate::{AddressSpace, FaultError};
use alloc::sync::Arc;
use gyre_interface::around::{AROUND_PAGES, Around, first_places};
use gyre_interface::files::Pattern;
use gyre_machine::{MapFlags, Pa, Va};
use gyre_object::Page;

/// Bytes of a window, which starts at a multiple of them unless its mapping starts behind that (as on Linux,
/// mm/memory.c, `do_fault_around`).
const WINDOW_BYTES: u64 = AROUND_PAGES as u64 * PAGE;

/// Bytes that a fault may have read with its page: 128 KiB as on Linux (VM_READAHEAD_PAGES), from a multiple of them
/// on, so that windows lie wholly in what was read.
const READ_BYTES: u64 = 32 * PAGE;

/// The pages that one fault may bring.
pub(crate) struct Window {
    file: Arc<MappedFile>,
    /// The address of its first page.
    start: u64,
    /// The file's page there.
    first: PageIndex,
    /// The place of the page that the fault needs.
    needed: u8,
    /// A bit for each page that is absent.
    absent: u16,
    reading: Reading,
    /// The way in which the program goes through the mapping.
    pattern: Pattern,
}

/// The pages of a mapping that may be read with a needed one that is not in memory.
#[derive(Clone, Copy)]
struct Reading {
    first: PageIndex,
    pages: u8,
}

impl Reading {
    /// Returns those around an address of a region that starts at `start`.
    fn around(address: u64, start: u64, region: &Region) -> Reading {
        let from = (address & !(READ_BYTES - 1)).max(start);
        let end = (address | (READ_BYTES - 1)).saturating_add(1).min(region.end);
        Reading { first: region.index_of(start, from), pages: (end.saturating_sub(from) / PAGE) as u8 }
    }
}

/// The outcome of placing a window's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Placed {
    /// How many came.
    pub(crate) pages: usize,
    /// The needed one is among them.
    pub(crate) has_needed: bool,
}

impl Window {
    /// Returns the window around a page of a region that starts at `start`; `absent` says which pages from an address
    /// on are not there.
    pub(crate) fn around(
        address: u64,
        start: u64,
        region: &Region,
        file: &Arc<MappedFile>,
        absent: impl FnOnce(u64) -> u16,
    ) -> Window {
        let from = (address & !(WINDOW_BYTES - 1)).max(start);
        // All its pages lie in one block, and in the range of one table.
        let block_end = (from | (BLOCK_BYTES - 1)).saturating_add(1);
        let end = from.saturating_add(WINDOW_BYTES).min(block_end).min(region.end);
        Window {
            file: file.clone(),
            start: from,
            first: region.index_of(start, from),
            needed: (address.saturating_sub(from) / PAGE) as u8,
            absent: absent(from) & first_places(end.saturating_sub(from) / PAGE),
            reading: Reading::around(address, start, region),
            pattern: region.options.pattern(),
        }
    }

    /// Returns the file that its pages are of.
    pub(crate) fn file(&self) -> &MappedFile {
        &self.file
    }

    fn index_at(&self, place: usize) -> PageIndex {
        self.first.plus(place as u64).unwrap_or(PageIndex::LAST)
    }

    fn index(&self) -> PageIndex {
        self.index_at(usize::from(self.needed))
    }

    fn is_reached(&self) -> bool {
        self.file.reaches(self.index())
    }

    /// Notes that the needed page is not in memory; returns how it is to be read.
    fn missed(&self) -> Pattern {
        match self.pattern {
            Pattern::Usual if self.file.misses.note_miss() => {
                Pattern::Around { first: self.reading.first.get(), pages: self.reading.pages }
            }
            said => said,
        }
    }

    /// Takes from memory what is asked for, if the file system shows that now; and the file's size before, if that is
    /// needed.
    fn look(&self, around: &mut Around) {
        let (client, node) = (self.file.client, self.file.node);
        let _ = client.visit(|near| {
            if !self.is_reached()
                && let Some(Ok(attributes)) = near.attributes(node)
            {
                self.file.size.note(attributes.size_bytes);
            }
            near.to_map(node, around);
        });
    }

    /// Returns its pages that `region`, which starts at `start`, still shows: a bit for each.
    fn shown_by(&self, start: u64, region: &Region) -> u16 {
        let address = self.start.saturating_add(u64::from(self.needed).saturating_mul(PAGE));
        let is_it = matches!(&region.provider, Provider::File(shown) if Arc::ptr_eq(shown, &self.file));
        if !is_it || region.index_of(start, address) != self.index() {
            return 0;
        }
        let before = first_places(start.saturating_sub(self.start) / PAGE);
        first_places(region.end.saturating_sub(self.start) / PAGE) & !before
    }
}

impl AddressSpace {
    /// Places the needed page and those around it if it is in memory; `None` if a message must ask for it.
    ///
    /// # Errors
    /// [`FaultError::OutOfMemory`]. Nothing is placed then.
    pub(crate) fn bring_at_once(&self, window: &Window) -> Result<Option<Placed>, FaultError> {
        let mut around = Around::new(window.first.get(), window.absent).needing(window.needed);
        window.look(&mut around);
        if !around.has_needed() || !window.is_reached() {
            return Ok(None);
        }
        window.file.misses.note_hit();
        self.place_all(window, &mut around).map(Some)
    }

    /// Asks the file for the needed page, and places it with those around it.
    ///
    /// # Errors
    /// [`FaultError`]: the file's, or for want of memory.
    pub(crate) async fn bring(&self, window: &Window) -> Result<Placed, FaultError> {
        self.counters.count(|counters| &counters.faults_waited);
        let (file, index) = (&window.file, window.index());
        if !window.is_reached() {
            let attributes = file.client.attributes(file.node).await?;
            file.size.note(attributes.size_bytes);
            if !window.is_reached() {
                return Err(FaultError::BeyondEnd);
            }
        }
        let page = file.client.page(file.node, index.get(), window.missed()).await?;
        // Only now: nothing may come between an answer and the place that it is for.
        let beside = window.absent & !1u16.checked_shl(u32::from(window.needed)).unwrap_or(0);
        let mut around = Around::new(window.first.get(), beside);
        window.look(&mut around);
        around.put(window.needed, page);
        self.place_all(window, &mut around)
    }

    /// Puts pages in their places, unless the mapping changed meanwhile, the file became shorter or another thread was
    /// faster.
    fn place_all(&self, window: &Window, around: &mut Around) -> Result<Placed, FaultError> {
        let placed = self.state.lock().put_window(window, around)?;
        let beside = placed.pages.saturating_sub(usize::from(placed.has_needed));
        self.counters.count_many(|counters| &counters.neighbours, beside as u64);
        Ok(placed)
    }
}

impl State {
    fn put_window(&mut self, window: &Window, around: &mut Around) -> Result<Placed, FaultError> {
        self.note_shown(window.start);
        let State { regions, pages: present, table, .. } = self;
        let address = window.start.saturating_add(u64::from(window.needed).saturating_mul(PAGE));
        let Some((start, region)) = regions.find(address) else { return Ok(Placed { pages: 0, has_needed: false }) };
        let reached = first_places(window.file.pages().saturating_sub(window.first.get()));
        let places = around.found() & window.shown_by(start, region) & present.absent(window.start) & reached;
        let pages = around.pages();
        if !region.rights.is_empty() {
            let page = |place: usize| pages.get(place).and_then(Option::as_ref);
            let frame = |place| page(place).map_or(Pa(0), Page::pa);
            let flags = |place| page(place).and_then(|page| region.flags(page)).unwrap_or(MapFlags::empty());
            table.map_few(Va(window.start), u64::from(places), frame, flags)?;
        }
        present.insert_few(window.start, pages, places);
        let has_needed = u32::from(places).checked_shr(u32::from(window.needed)).is_some_and(|bits| bits & 1 == 1);
        Ok(Placed { pages: places.count_ones() as usize, has_needed })
    }
}
