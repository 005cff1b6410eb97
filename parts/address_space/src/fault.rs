//! Demand paging: making a page resident with the right that is needed.
//!
//! A fault looks under the space's lock and decides on one [`Step`]: done, make a page of zeroes, copy a shared page,
//! ask the provider, flush, or fail. It does the step without the lock if it must wait, then looks again, since
//! everything may have changed. The loop ends when the page is resident with the needed right or the access is
//! refused.
//!
//! The race of copy-on-write, in [`AddressSpace::step_write`]: (1) if other cores may have the old entry, it is
//! removed and flushed first, so that none reads the old page while one writes the new one; (2) the next look puts a
//! copy in its place; (3) the old page is freed after the flush. Pages of files come by [`crate::bring`], under the
//! activity of the faulting thread.
//!
//! Called by the loop of threads, and by copies from and to user memory.

use crate::bring::Window;
use crate::gather::Wish;
use crate::huge::HUGE;
use crate::page_index::PageIndex;
use crate::region::Options;
use crate::region::{MappedFile, PAGE, Provider, Region, SharedMemory};
use crate::space::{State, Withdrawn};
use crate::telling::{Ticket, Told};
use crate::view::Mappings;
use crate::{AddressSpace, FaultError};
use alloc::boxed::Box;
use alloc::sync::Arc;
use gyre_machine::{Access, MapFlags, Va};
use gyre_object::Page;

/// Unmapped bytes kept below a growing stack (Linux: 256 pages).
const GUARD_BYTES: u64 = 256 * PAGE;
/// Bytes that a fault asks room for: a page, and tables for it.
const ROOM_BYTES: u64 = 4 * PAGE;
/// Times that one fault asks for room: other tasks may take the room that was made for it.
const ROOMS_MAX: usize = 8;
/// Rounds of one fault: each ends in progress unless another thread undoes it.
const ROUNDS_MAX: usize = 64;

/// The next step, as one look under the lock decides it.
enum Step {
    /// The page is there with the right.
    Done,
    /// It is there; another page left its place.
    Replaced(Withdrawn),
    /// Flush, then look again.
    Flush(Withdrawn),
    /// It is there, another page may have left its place; the 2 MiB from an address on are worth being one page now.
    Gather(u64, Withdrawn),
    /// Bring a page of a file, with those around it.
    Ask(Window),
    /// Tell the file that its page is about to be written, then allow it, unless the page is clean or gone by then.
    Tell(Arc<MappedFile>, PageIndex, Ticket),
}

impl AddressSpace {
    /// Makes the page that holds `address` resident with the right that `access` needs. Waits for the provider if
    /// needed.
    ///
    /// # Errors
    /// [`FaultError`].
    pub async fn fault(&self, address: u64, access: Access) -> Result<(), FaultError> {
        self.fault_of(address, access, Mappings::Seen).await
    }

    pub(crate) async fn fault_of(&self, address: u64, access: Access, of: Mappings) -> Result<(), FaultError> {
        for _ in 0..ROOMS_MAX {
            match self.fault_once(address, access, of).await {
                Err(FaultError::OutOfMemory) if self.flush.make_room(ROOM_BYTES).await => {}
                result => return result,
            }
        }
        Err(FaultError::OutOfMemory)
    }

    async fn fault_once(&self, address: u64, access: Access, of: Mappings) -> Result<(), FaultError> {
        let address = Va(address).page_start().0;
        if !Va(address).is_user() {
            return Err(FaultError::NotMapped);
        }
        self.counters.count(|counters| &counters.faults);
        for _ in 0..ROUNDS_MAX {
            match self.step(address, access, of)? {
                Step::Done => return Ok(()),
                Step::Replaced(withdrawn) => return Ok(self.flush_and_free(withdrawn).await),
                Step::Flush(withdrawn) => self.flush_and_free(withdrawn).await,
                Step::Gather(at, withdrawn) => {
                    self.flush_and_free(withdrawn).await;
                    // If it cannot be they stay single pages.
                    let _ = Box::pin(self.gather(at, Wish::None)).await;
                    return Ok(());
                }
                Step::Ask(window) => {
                    let placed = match self.bring_at_once(&window)? {
                        Some(placed) => placed,
                        None => self.bring(&window).await?,
                    };
                    window.file().count(placed.pages).await;
                    // A page to write is looked at again.
                    if placed.has_needed && access != Access::Write {
                        return Ok(());
                    }
                }
                Step::Tell(file, index, ticket) => {
                    let mut open = OpenTelling { space: self, ticket: Some(ticket) };
                    file.client.page_dirtied(file.node, index.get()).await?;
                    if open.allow_write(address, &file, index) == Told::InTime {
                        file.count(1).await;
                    }
                }
            }
        }
        // Another thread of this program keeps taking the page away: the program may try again.
        Ok(())
    }

    fn step(&self, address: u64, access: Access, of: Mappings) -> Result<Step, FaultError> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if of == Mappings::Seen && state.view.is_some() {
            return Err(FaultError::NotMapped);
        }
        let (start, region) = state.region_for(address)?;
        if !region.allows(access) {
            return Err(FaultError::Denied);
        }
        if let Some(allowed) = state.huge_allows(address, access) {
            if allowed || (access == Access::Write && state.own_huge(address, &region)) {
                return Ok(Step::Done);
            }
            let mut withdrawn = Withdrawn::default();
            state.split_range(address, address.saturating_add(PAGE), &mut withdrawn);
            return Ok(Step::Flush(withdrawn));
        }
        let index = region.index_of(start, address);
        match (state.pages.get(address).cloned(), access) {
            (Some(page), Access::Write) => self.step_write(state, address, page, (start, &region), index),
            (Some(page), _) => state.show(address, &page, &region).map(|()| Step::Done),
            (None, _) => state.step_absent(address, start, &region, index),
        }
    }

    /// Makes a present page writable.
    fn step_write(
        &self,
        state: &mut State,
        address: u64,
        page: Page,
        (start, region): (u64, &Region),
        index: PageIndex,
    ) -> Result<Step, FaultError> {
        let mapping = state.table.query(Va(address));
        if mapping.is_some_and(|mapping| mapping.flags.contains(MapFlags::WRITE)) {
            return Ok(Step::Done);
        }
        if let (Provider::File(file), true) = (&region.provider, region.is_shared()) {
            return Ok(Step::Tell(file.clone(), index, state.tellings.begin(address)));
        }
        // This function and the map of pages hold it; anybody else is another program, a cache or a view.
        let owned = region.is_shared() || page.holders() <= 2;
        if owned {
            drop(page);
            state.show_writable(address, region)?;
            return Ok(match state.completed(address, start, region) {
                Some(at) => Step::Gather(at, Withdrawn::default()),
                None => Step::Done,
            });
        }
        let own = 1 << gyre_machine::core_index();
        let mut withdrawn = Withdrawn::default();
        if mapping.is_some() && state.table.active_cores() & !own != 0 {
            // (1) Other cores may read the old page: none may while a first one writes the new page.
            state.table.unmap(Va(address));
            withdrawn.stale.push(address);
            return Ok(Step::Flush(withdrawn));
        }
        // (2) No other core has the old entry: a copy takes its place.
        let copy = page.copy()?;
        self.counters.count(|counters| &counters.copies);
        state.evict(address, &mut withdrawn);
        drop(page);
        state.install(address, copy, region)?;
        Ok(match state.completed(address, start, region) {
            Some(at) => Step::Gather(at, withdrawn),
            // (3) The old page is freed once no core can reach it.
            None => Step::Replaced(withdrawn),
        })
    }
}

/// A telling that is under way; it ends when this is dropped, also with a thread that is killed.
struct OpenTelling<'a> {
    space: &'a AddressSpace,
    /// None once it has ended.
    ticket: Option<Ticket>,
}

impl OpenTelling<'_> {
    /// Lets the program write a shared page of a file that was told of it, unless the file may count it as clean again.
    fn allow_write(&mut self, address: u64, file: &Arc<MappedFile>, index: PageIndex) -> Told {
        let mut guard = self.space.state.lock();
        let state = &mut *guard;
        let told = self.ticket.take().map_or(Told::TooEarly, |ticket| state.tellings.end(ticket));
        if told == Told::InTime
            && let Some(region) = state.shows(address, file, index)
            && region.allows(Access::Write)
            && state.pages.get(address).is_some()
        {
            let _ = state.show_writable(address, &region);
        }
        told
    }
}

impl Drop for OpenTelling<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.space.state.lock().tellings.end(ticket);
        }
    }
}

impl State {
    /// Returns the region of an address, after growing a stack down to it if one may.
    fn region_for(&mut self, address: u64) -> Result<(u64, Region), FaultError> {
        if let Some((start, region)) = self.regions.find(address) {
            return Ok((start, region.clone()));
        }
        let (start, stack) = self
            .regions
            .next_above(address)
            .filter(|(_, region)| region.options.contains(Options::GROWS_DOWN))
            .ok_or(FaultError::NotMapped)?;
        let too_long = stack.end.saturating_sub(address) > self.limits.stack_bytes;
        let too_near =
            self.regions.last_below(address).is_some_and(|(_, below)| below.end.saturating_add(GUARD_BYTES) > address);
        let more = start.saturating_sub(address);
        let grown = self.regions.mapped_bytes().saturating_add(more);
        // As on Linux a file has nothing before its first page.
        let has_pages = matches!(stack.provider, Provider::Anonymous) || stack.first_index.offset_bytes() >= more;
        let too_locked = stack.options.contains(Options::LOCKED) && self.check_locked(more).is_err();
        if !has_pages || too_long || too_near || too_locked || grown > self.limits.mapped_bytes {
            return Err(FaultError::NotMapped);
        }
        self.regions.grow_down(start, address);
        self.regions.find(address).map(|(start, region)| (start, region.clone())).ok_or(FaultError::NotMapped)
    }

    /// Returns a page that is not there: made, found, or to be asked for.
    fn step_absent(&mut self, address: u64, start: u64, region: &Region, index: PageIndex) -> Result<Step, FaultError> {
        let page = match &region.provider {
            Provider::Anonymous => return self.make_page(address, start, region),
            Provider::Memory(memory) => memory.page(index)?,
            Provider::File(file) => {
                let absent = |from| self.pages.absent(from);
                return Ok(Step::Ask(Window::around(address, start, region, file, absent)));
            }
        };
        self.install(address, page, region)?;
        Ok(Step::Done)
    }

    /// Returns a page of zeroes, or a huge one.
    fn make_page(&mut self, address: u64, start: u64, region: &Region) -> Result<Step, FaultError> {
        if let Some(withdrawn) = self.install_huge(start, region, address) {
            return Ok(Step::Replaced(withdrawn));
        }
        self.install(address, Page::zeroed()?, region)?;
        Ok(match self.pages.is_block_full(address).then(|| self.gatherable(address, start, region)).flatten() {
            Some(at) => Step::Gather(at, Withdrawn::default()),
            None => Step::Done,
        })
    }

    /// Returns the address of the 2 MiB that may be gathered now that a page has become the program's own. Only the
    /// last page of 2 MiB looks at its neighbours.
    fn completed(&self, address: u64, start: u64, region: &Region) -> Option<u64> {
        if address % HUGE != HUGE - PAGE {
            return None;
        }
        self.gatherable(address, start, region)
    }

    /// Maps a page that is held, for reading or running; it may be mapped with fewer rights already.
    fn show(&mut self, address: u64, page: &Page, region: &Region) -> Result<(), FaultError> {
        let flags = region.flags(page).ok_or(FaultError::Denied)?;
        self.note_shown(address);
        match self.table.query(Va(address)) {
            None => self.table.map(Va(address), page.pa(), flags)?,
            Some(mapping) => {
                self.table.protect(Va(address), flags | mapping.flags & MapFlags::WRITE);
            }
        }
        Ok(())
    }

    /// Maps a page that is held, for writing.
    fn show_writable(&mut self, address: u64, region: &Region) -> Result<(), FaultError> {
        self.note_shown(address);
        let page = self.pages.get(address).ok_or(FaultError::NotMapped)?;
        let flags = region.flags(page).ok_or(FaultError::Denied)? | MapFlags::WRITE;
        if self.table.query(Va(address)).is_none() {
            self.table.map(Va(address), page.pa(), flags)?;
        } else {
            self.table.protect(Va(address), flags);
        }
        Ok(())
    }

    /// Returns the region at `address` if it still shows that page of that file.
    fn shows(&self, address: u64, file: &Arc<MappedFile>, index: PageIndex) -> Option<Region> {
        let (start, region) = self.regions.find(address)?;
        let Provider::File(shown) = &region.provider else {
            return None;
        };
        (Arc::ptr_eq(shown, file) && region.index_of(start, address) == index).then(|| region.clone())
    }
}

impl SharedMemory {
    /// Returns the page at an index, made if there is none yet. The kernel's memory has no pages but those that it was given.
    fn page(&self, index: PageIndex) -> Result<Page, FaultError> {
        let mut pages = self.pages.lock();
        if let Some(page) = pages.get(index.offset_bytes()) {
            return Ok(page.clone());
        }
        if self.is_the_kernels() {
            return Err(FaultError::BeyondEnd);
        }
        let page = Page::fixed()?;
        pages.insert(index.offset_bytes(), page.clone());
        self.note_page();
        Ok(page)
    }
}
