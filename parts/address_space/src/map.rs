//! Changing mappings: map, unmap, protect, grow. Moves are in [`crate::relocate`].
//!
//! Each change has two halves. Under the lock it changes regions, page table and pages, and gathers everything taken
//! away in a [`Withdrawn`]; then, without the lock, all cores that may have stale translations flush them, and only then
//! the pages are freed. A mapping that only adds needs no flush. Long removals go in pieces, so that no core is kept.
//!
//! Places: a mapping goes to a free range of the core's own part, or to the place that the program names. Checks come
//! first, so that a refused change changes nothing. Shared pages of files that were written are told to the file
//! system before they go.

use crate::duplicate::{Copying, PIECE_REGIONS};
use crate::page_index::PageIndex;
use crate::pages::PIECE_BYTES;
use crate::populate::Populate;
use crate::region::{MappedFile, Options, PAGE, Provider, Region, Rights, SharedMemory};
use crate::relocate::Relocation;
use crate::space::{LockFuture, REGIONS_MAX, StalePages, State, Withdrawn};
use crate::{AddressSpace, SpaceError};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_machine::{MapFlags, PageTable, USER_END, Va, address::USER_START};
use gyre_object::Page;

/// Huge pages that are split in one piece at most.
const PIECE_HUGE: usize = 4;
/// A range up to this size is one piece, whatever lies in it: it has no more pages than a piece may have mappings.
const SMALL_BYTES: u64 = PIECE_REGIONS as u64 * PAGE;

/// The place of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Near this address if there is room, else anywhere; 0 for no wish.
    Anywhere(u64),
    /// Exactly here; older mappings are replaced.
    Fixed(u64),
    /// Exactly here, or not at all.
    FixedNew(u64),
}

/// A mapping that is asked for.
pub struct MapRequest {
    /// The place that it is to have.
    pub place: Place,
    /// How long, bytes; rounded up to pages.
    pub bytes: u64,
    /// The program's rights.
    pub rights: Rights,
    /// The most rights that it may get later.
    pub rights_max: Rights,
    /// Its other properties.
    pub options: Options,
    /// The provider of its pages.
    pub provider: Provider,
    /// The provider's page that the first page shows.
    pub first_index: PageIndex,
}

/// The target of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// It stays.
    Never,
    /// It may move if it cannot grow.
    IfNeeded,
    /// It moves there; older mappings are replaced.
    To(u64),
}

/// `bytes` rounded up to pages.
pub(crate) fn pages_of(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(PAGE)
}

/// Returns the end of a range of pages, checked.
pub(crate) fn range(address: u64, bytes: u64) -> Result<(u64, u64), SpaceError> {
    let bytes = pages_of(bytes).ok_or(SpaceError::Invalid)?;
    let end = address.checked_add(bytes).ok_or(SpaceError::Invalid)?;
    if !address.is_multiple_of(PAGE) || end > USER_END {
        return Err(SpaceError::Invalid);
    }
    Ok((address, end))
}

impl AddressSpace {
    /// Makes a mapping and answers its start. A fresh region needs no flush.
    ///
    /// # Errors
    /// [`SpaceError`].
    pub async fn map(&self, request: MapRequest) -> Result<u64, SpaceError> {
        if request.bytes == 0 {
            return Err(SpaceError::Invalid);
        }
        let bytes = pages_of(request.bytes).ok_or(SpaceError::NoMemory)?;
        let top = self.layout.map_top;
        self.make_way(&request, bytes, top).await;
        let most_bytes = self.flush.most_bytes();
        let make = |state: &mut State| {
            state.most_bytes = most_bytes;
            state.map(request, bytes, top)
        };
        let Made { start, lock_future, withdrawn, dirtied } = self.change(make).await?;
        self.counters.count(|counters| &counters.fresh_regions);
        if !withdrawn.stale.is_empty() {
            self.counters.count(|counters| &counters.fresh_flushes);
        }
        self.flush_and_free(withdrawn).await;
        tell(dirtied).await;
        if lock_future == LockFuture::Resident {
            // Pages that cannot be had now come, or fail, by faults.
            let _ = Box::pin(self.populate(start, bytes, Populate::Own)).await;
        }
        Ok(start)
    }

    /// Frees the pages that a mapping is to replace, in pieces, if it can be made.
    async fn make_way(&self, request: &MapRequest, bytes: u64, top: u64) {
        let Place::Fixed(start) = request.place else { return };
        let can_be = bytes > PIECE_BYTES && self.state.lock().check(request, bytes, top).is_ok();
        if can_be {
            self.thin_out(start, start.saturating_add(bytes)).await;
        }
    }

    /// Shows pages to the program, read-only for ever, at an address of the system's choice (2013 paper, Fig. 7). A fresh region: no core
    /// can know it, so nothing is flushed.
    ///
    /// # Errors
    /// [`SpaceError::NoMemory`].
    pub async fn expose(&self, pages: Vec<Page>) -> Result<u64, SpaceError> {
        let bytes = (pages.len() as u64).saturating_mul(PAGE);
        let request = MapRequest {
            place: Place::Anywhere(0),
            bytes,
            rights: Rights::READ,
            rights_max: Rights::READ,
            options: Options::SHARED,
            provider: Provider::Memory(Arc::new(SharedMemory::of_pages(pages))),
            first_index: PageIndex::FIRST,
        };
        let start = self.map(request).await?;
        // Pages that cannot be mapped now for want of memory come by faults.
        let _ = self.populate(start, bytes, Populate::Own).await;
        Ok(start)
    }

    /// Removes all mappings in the range; holes are fine.
    ///
    /// # Errors
    /// [`SpaceError::Invalid`].
    pub async fn unmap(&self, address: u64, bytes: u64) -> Result<(), SpaceError> {
        let (start, end) = range(address, bytes)?;
        if start == end {
            return Err(SpaceError::Invalid);
        }
        self.thin_out(start, end).await;
        let (withdrawn, dirtied) = self.change(|state| state.remove(start, end)).await;
        self.flush_and_free(withdrawn).await;
        tell(dirtied).await;
        Ok(())
    }

    /// Removes everything: the end of a program.
    pub async fn clear(&self) {
        self.thin_out(0, USER_END).await;
        let (withdrawn, dirtied) = self.state.lock().remove(0, USER_END);
        self.flush_and_free(withdrawn).await;
        tell(dirtied).await;
    }

    /// Changes the rights of a range.
    ///
    /// # Errors
    /// [`SpaceError::NotMapped`] for a hole, [`SpaceError::Denied`] if a file forbids it; nothing changes then.
    pub async fn protect(&self, address: u64, bytes: u64, rights: Rights) -> Result<(), SpaceError> {
        let (start, end) = range(address, bytes)?;
        // Nobody maps, unmaps or copies between the pieces of a large range.
        let is_large = end.saturating_sub(start) > PIECE_BYTES;
        let most_bytes = self.flush.most_bytes();
        let _still = if is_large { Some(Copying::begin(self).await) } else { None };
        let begin = |state: &mut State| -> Result<(u64, Withdrawn), SpaceError> {
            state.most_bytes = most_bytes;
            state.protect(start, end, rights)?;
            let mut withdrawn = Withdrawn::default();
            let at = state.apply_piece(start, end, &mut withdrawn);
            Ok((at, withdrawn))
        };
        let begun = if is_large { begin(&mut self.state.lock()) } else { self.change(begin).await };
        let (mut at, withdrawn) = begun?;
        self.flush_and_free(withdrawn).await;
        while at < end {
            gyre_message::yield_now().await;
            let mut withdrawn = Withdrawn::default();
            at = self.state.lock().apply_piece(at, end, &mut withdrawn);
            self.flush_and_free(withdrawn).await;
        }
        Ok(())
    }

    /// Grows, shrinks or moves one mapping; returns its new start. With 0 old bytes a shared one stays, and what it shows is shown at another
    /// place too (mremap(2); Linux: mm/mremap.c).
    ///
    /// # Errors
    /// [`SpaceError`].
    pub async fn remap(&self, address: u64, old_bytes: u64, new_bytes: u64, target: Move) -> Result<u64, SpaceError> {
        let (start, old_end) = range(address, old_bytes)?;
        let new_bytes = pages_of(new_bytes).filter(|bytes| *bytes > 0 && *bytes < USER_END);
        let new_bytes = new_bytes.ok_or(SpaceError::Invalid)?;
        let old_bytes = old_end.saturating_sub(start);
        if old_bytes == 0 {
            return Box::pin(self.show_again(start, new_bytes, target)).await;
        }
        if target == Move::Never || target == Move::IfNeeded {
            if new_bytes <= old_bytes {
                if new_bytes < old_bytes {
                    self.unmap(start.saturating_add(new_bytes), old_bytes.saturating_sub(new_bytes)).await?;
                }
                return Ok(start);
            }
            let mut withdrawn = Withdrawn::default();
            let grow = |state: &mut State| {
                state.cover_stale_ranges(old_end, start.saturating_add(new_bytes), &mut withdrawn);
                state.grow(start, old_end, new_bytes)
            };
            let grown = self.change(grow).await?;
            if grown {
                self.flush_and_free(withdrawn).await;
                return Ok(start);
            }
        }
        let to = match target {
            Move::Never => return Err(SpaceError::NoMemory),
            Move::IfNeeded => None,
            Move::To(to) => Some(range(to, new_bytes)?.0),
        };
        self.relocate(Relocation { start, end: old_end, to, bytes: new_bytes }).await
    }
}

impl AddressSpace {
    /// Maps what a shared mapping shows from an address on at another place too, with the same rights.
    async fn show_again(&self, address: u64, bytes: u64, target: Move) -> Result<u64, SpaceError> {
        let region = self.state.lock().whole(address, address)?;
        if !region.is_shared() {
            return Err(SpaceError::Invalid);
        }
        let place = match target {
            Move::Never => return Err(SpaceError::NoMemory),
            Move::IfNeeded => Place::Anywhere(0),
            // The new place may begin at the address or end there, as on Linux.
            Move::To(to) if to < address && address < range(to, bytes)?.1 => return Err(SpaceError::Invalid),
            Move::To(to) => Place::Fixed(range(to, bytes)?.0),
        };
        let Region { rights, rights_max, options, provider, first_index, .. } = region;
        self.map(MapRequest { place, bytes, rights, rights_max, options, provider, first_index }).await
    }
}

/// Gives the page at an address its rights in the table, as far as they shrink; rights that grow come by faults.
fn apply_rights(table: &mut PageTable, address: u64, flags: Option<MapFlags>, stale: &mut StalePages) {
    let before = match flags {
        None => table.unmap(Va(address)),
        Some(flags) => table.protect(Va(address), flags),
    };
    let kept = flags.unwrap_or(MapFlags::empty());
    let rights = MapFlags::WRITE | MapFlags::EXECUTE | MapFlags::USER;
    if before.is_some_and(|before| !kept.contains(before.flags & rights)) {
        stale.push(address);
    }
}

/// A mapping that was made, and the pages that went for it.
struct Made {
    start: u64,
    lock_future: LockFuture,
    withdrawn: Withdrawn,
    dirtied: Vec<(Arc<MappedFile>, u64)>,
}

/// Tells files which of their pages were written through mappings that are gone. Their errors come with the next sync.
pub(crate) async fn tell(dirtied: Vec<(Arc<MappedFile>, u64)>) {
    for (file, index) in dirtied {
        let _ = file.client.page_dirtied(file.node, index).await;
    }
}

impl MapRequest {
    fn check_pages(&self, bytes: u64) -> Result<(), SpaceError> {
        self.first_index.plus(bytes / PAGE).map(|_| ()).ok_or(SpaceError::TooFar)
    }

    fn into_region(self, end: u64) -> Region {
        Region {
            end,
            rights: self.rights,
            rights_max: self.rights_max,
            options: self.options,
            provider: self.provider,
            first_index: self.first_index,
        }
    }
}

impl State {
    fn map(&mut self, request: MapRequest, bytes: u64, top: u64) -> Result<Made, SpaceError> {
        let (start, end) = self.check(&request, bytes, top)?;
        let (mut withdrawn, mut dirtied) = (Withdrawn::default(), Vec::new());
        if self.regions.overlaps(start, end) {
            dirtied = self.dirty_pages(start, end).unwrap_or_default();
            self.evict_range(start, end, &mut withdrawn);
            self.regions.discard(start, end);
        }
        let mut region = request.into_region(end);
        let is_locked = region.options.contains(Options::LOCKED) || self.lock_future != LockFuture::No;
        region.options.set(Options::LOCKED, is_locked);
        self.regions.insert(start, region);
        self.cover_stale_ranges(start, end, &mut withdrawn);
        Ok(Made { start, lock_future: self.lock_future, withdrawn, dirtied })
    }

    /// Returns where a mapping can be made.
    fn check(&self, request: &MapRequest, bytes: u64, top: u64) -> Result<(u64, u64), SpaceError> {
        request.check_pages(bytes)?;
        let start = self.place(request, bytes, top)?;
        let end = start.checked_add(bytes).ok_or(SpaceError::NoMemory)?;
        let replaced = self.regions.bytes_in(start, end);
        self.check_limits(bytes, replaced, request)?;
        Ok((start, end))
    }

    /// Gives the mappings of a range other rights; their pages follow ([`State::apply_piece`]).
    fn protect(&mut self, start: u64, end: u64, rights: Rights) -> Result<(), SpaceError> {
        let (mut more, mut covered, mut is_denied) = (0_u64, start, false);
        for (from, to, region) in self.regions.overlapping(start, end) {
            if from > covered {
                return Err(SpaceError::NotMapped);
            }
            covered = to;
            is_denied |= !region.rights_max.contains(rights);
            if !region.is_data() && region.is_data_with(rights) {
                more = more.saturating_add(to.saturating_sub(from));
            }
        }
        if covered < end {
            return Err(SpaceError::NotMapped);
        }
        if is_denied {
            return Err(SpaceError::Denied);
        }
        if more > self.most_bytes {
            return Err(SpaceError::NoMemory);
        }
        self.regions.change(start, end, |region| region.rights = rights);
        Ok(())
    }

    /// Gives the first pages from `start` on the rights of their mappings; returns the end of what was done.
    fn apply_piece(&mut self, start: u64, end: u64, withdrawn: &mut Withdrawn) -> u64 {
        let is_small = end.saturating_sub(start) <= SMALL_BYTES;
        let stop = if is_small { end } else { self.stop_of_piece(start, end) };
        self.split_range(start, stop, withdrawn);
        let State { regions, pages, table, .. } = self;
        for (from, to, region) in regions.overlapping(start, stop) {
            for (address, page) in pages.singles(from, to) {
                apply_rights(table, address, region.flags(page), &mut withdrawn.stale);
            }
        }
        stop
    }

    /// Returns the end of the first piece of the pages and mappings in a range.
    pub(crate) fn stop_of_piece(&self, start: u64, end: u64) -> u64 {
        let singles = self.pages.end_of_piece(start, end);
        let huge = self.pages.huge_starts(start, end).nth(PIECE_HUGE);
        let regions = self.regions.nth_start(start, PIECE_REGIONS);
        let stops = [singles, huge, regions].into_iter().flatten();
        stops.filter(|stop| *stop > start).min().map_or(end, |stop| stop.min(end))
    }

    fn place(&self, request: &MapRequest, bytes: u64, top: u64) -> Result<u64, SpaceError> {
        match request.place {
            Place::Anywhere(hint) => {
                let hint = hint & !(PAGE - 1);
                let end = hint.checked_add(bytes).filter(|end| *end <= USER_END);
                match end {
                    Some(end) if hint >= USER_START && !self.regions.overlaps(hint, end) => Ok(hint),
                    _ => self.gap_for(bytes, top),
                }
            }
            Place::Fixed(address) | Place::FixedNew(address) => {
                let end = address.checked_add(bytes).filter(|end| *end <= USER_END);
                let end = end.ok_or(SpaceError::NoMemory)?;
                if !address.is_multiple_of(PAGE) {
                    return Err(SpaceError::Invalid);
                }
                if address < USER_START {
                    return Err(SpaceError::Permission);
                }
                let taken = self.regions.overlaps(address, end);
                match request.place {
                    Place::FixedNew(_) if taken => Err(SpaceError::Exists),
                    _ => Ok(address),
                }
            }
        }
    }

    /// Returns a free range below the top of mappings, or if that is full, above it.
    pub(crate) fn gap_for(&self, bytes: u64, top: u64) -> Result<u64, SpaceError> {
        self.gap(bytes, USER_START, top, USER_END).ok_or(SpaceError::NoMemory)
    }

    fn check_limits(&self, bytes: u64, replaced: u64, request: &MapRequest) -> Result<(), SpaceError> {
        let mapped = self.regions.mapped_bytes().saturating_sub(replaced).saturating_add(bytes);
        let private = !request.options.contains(Options::SHARED);
        let data = private && request.rights.contains(Rights::WRITE);
        if data && !request.options.contains(Options::NO_RESERVE) && bytes > self.most_bytes {
            return Err(SpaceError::NoMemory);
        }
        if mapped > self.limits.mapped_bytes || self.regions.len() > REGIONS_MAX - 2 || data && self.exceeds_data(bytes)
        {
            return Err(SpaceError::NoMemory);
        }
        let is_locked = request.options.contains(Options::LOCKED) || self.lock_future != LockFuture::No;
        if is_locked { self.check_locked(bytes) } else { Ok(()) }
    }

    /// Returns whether `bytes` more of private writable memory are beyond the limit.
    fn exceeds_data(&self, bytes: u64) -> bool {
        let private = |region: &Region| !region.is_shared() && region.rights.contains(Rights::WRITE);
        self.limits.data_bytes != u64::MAX && self.regions.bytes(private).saturating_add(bytes) > self.limits.data_bytes
    }

    pub(crate) fn remove(&mut self, start: u64, end: u64) -> (Withdrawn, Vec<(Arc<MappedFile>, u64)>) {
        let mut withdrawn = Withdrawn::default();
        let dirtied = self.dirty_pages(start, end).unwrap_or_default();
        self.evict_range(start, end, &mut withdrawn);
        self.regions.discard(start, end);
        if !withdrawn.stale.is_empty() {
            self.stale_ranges.add(start, end);
            withdrawn.stale_ranges.push((start, end));
        }
        (withdrawn, dirtied)
    }

    /// Returns shared pages of files in the range that the program may have written; `None` if no such file is mapped
    /// there.
    pub(crate) fn dirty_pages(&self, start: u64, end: u64) -> Option<Vec<(Arc<MappedFile>, u64)>> {
        let mut dirty = None;
        for (from, to, region) in self.regions.overlapping(start, end) {
            let (Provider::File(file), true) = (&region.provider, region.is_shared()) else {
                continue;
            };
            let first = self.regions.find(from).map_or(from, |(first, _)| first);
            let dirty = dirty.get_or_insert_with(Vec::new);
            dirty.extend(
                self.pages
                    .addresses(from, to)
                    .filter(|at| self.is_writable(*at))
                    .map(|at| (file.clone(), region.index_of(first, at).get())),
            );
        }
        dirty
    }

    fn is_writable(&self, address: u64) -> bool {
        self.table.query(Va(address)).is_some_and(|mapping| mapping.flags.contains(MapFlags::WRITE))
    }

    /// Extends the mapping that ends at `old_end` if the range behind it is free.
    fn grow(&mut self, start: u64, old_end: u64, new_bytes: u64) -> Result<bool, SpaceError> {
        let region = self.whole(start, old_end)?;
        region.first_index.plus(new_bytes / PAGE).ok_or(SpaceError::Invalid)?;
        let new_end = start.checked_add(new_bytes).filter(|end| *end <= USER_END);
        let Some(new_end) = new_end.filter(|end| !self.regions.overlaps(old_end, *end)) else {
            return Ok(false);
        };
        self.check_growth(&region, new_end.saturating_sub(old_end))?;
        let mut more = region;
        more.first_index = more.index_of(start, old_end);
        more.end = new_end;
        self.regions.insert(old_end, more);
        Ok(true)
    }

    pub(crate) fn check_growth(&self, region: &Region, bytes: u64) -> Result<(), SpaceError> {
        let data = !region.is_shared() && region.rights.contains(Rights::WRITE);
        let too_much = self.regions.mapped_bytes().saturating_add(bytes) > self.limits.mapped_bytes
            || data && self.exceeds_data(bytes)
            || region.is_data() && bytes > self.most_bytes;
        match too_much {
            true => Err(SpaceError::NoMemory),
            false if region.options.contains(Options::LOCKED) => self.check_locked(bytes),
            false => Ok(()),
        }
    }

    /// Returns a copy of the one region that holds the range, cut to start at it.
    pub(crate) fn whole(&self, start: u64, end: u64) -> Result<Region, SpaceError> {
        let (first, region) = self.regions.find(start).ok_or(SpaceError::Fault)?;
        if region.end < end {
            return Err(SpaceError::Fault);
        }
        let mut region = region.clone();
        region.first_index = region.index_of(first, start);
        Ok(region)
    }
}
