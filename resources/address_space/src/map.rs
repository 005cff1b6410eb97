//! Changing mappings: map, unmap, protect, move.

use crate::advise::Populate;
use crate::page_index::PageIndex;
use crate::region::{MappedFile, Options, PAGE, Provider, Region, Rights, SharedMemory};
use crate::space::{LockFuture, REGIONS_MAX, Shrunk, State};
use crate::{AddressSpace, SpaceError};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_machine::{MapFlags, USER_END, Va, address::USER_START};
use gyre_object::Page;

/// Where a mapping goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Near this address if there is room, else anywhere; 0 for no wish.
    Anywhere(u64),
    /// Exactly here, replacing what is there.
    Fixed(u64),
    /// Exactly here, or not at all.
    FixedNew(u64),
}

/// A mapping that is asked for.
pub struct MapRequest {
    /// Where.
    pub place: Place,
    /// How long, bytes; rounded up to pages.
    pub bytes: u64,
    /// What the program may do.
    pub rights: Rights,
    /// What it may be given later.
    pub rights_max: Rights,
    /// What else.
    pub options: Options,
    /// Where pages come from.
    pub provider: Provider,
    /// The provider's page that the first page shows.
    pub first_index: PageIndex,
}

/// Where a mapping moves to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// It stays.
    Never,
    /// It may move where it cannot grow.
    IfNeeded,
    /// It moves there, replacing what is there.
    To(u64),
}

/// `bytes` rounded up to pages.
pub(crate) fn pages_of(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(PAGE)
}

/// The end of a range of pages, checked.
fn range(address: u64, bytes: u64) -> Result<(u64, u64), SpaceError> {
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
        let mut shrunk = Shrunk::default();
        let mut dirtied = Vec::new();
        let (start, lock_future) = {
            let mut guard = self.state.lock();
            let state = &mut *guard;
            request.check_pages(bytes)?;
            let start = state.place(&request, bytes, self.layout.map_top)?;
            let end = start.checked_add(bytes).ok_or(SpaceError::NoMemory)?;
            let replaced = state.regions.bytes_in(start, end);
            state.check_limits(bytes, replaced, &request)?;
            dirtied = state.dirty_pages(start, end).unwrap_or(dirtied);
            state.evict_range(start, end, &mut shrunk);
            state.regions.take(start, end);
            let mut region = request.into_region(end);
            region
                .options
                .set(Options::LOCKED, region.options.contains(Options::LOCKED) || state.lock_future != LockFuture::No);
            state.regions.insert(start, region);
            state.cover_leaving(start, end, &mut shrunk);
            (start, state.lock_future)
        };
        self.counters.count(|counters| &counters.fresh_regions);
        if !shrunk.stale.is_empty() {
            self.counters.count(|counters| &counters.fresh_flushes);
        }
        self.settle(shrunk).await;
        tell(dirtied).await;
        if lock_future == LockFuture::Resident {
            // What cannot be had comes, or fails, by faults.
            let _ = Box::pin(self.populate(start, bytes, Populate::Own)).await;
        }
        Ok(start)
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
        // What cannot be mapped now for want of memory is met again by a fault.
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
        let (shrunk, dirtied) = self.state.lock().remove(start, end);
        self.settle(shrunk).await;
        tell(dirtied).await;
        Ok(())
    }

    /// Removes everything: the end of a program.
    pub async fn clear(&self) {
        self.thin_out(0, USER_END).await;
        let (shrunk, dirtied) = self.state.lock().remove(0, USER_END);
        self.settle(shrunk).await;
        tell(dirtied).await;
    }

    /// Changes the rights of a range.
    ///
    /// # Errors
    /// [`SpaceError::NotMapped`] for a hole, [`SpaceError::Denied`] where a file forbids it; nothing changes then.
    pub async fn protect(&self, address: u64, bytes: u64, rights: Rights) -> Result<(), SpaceError> {
        let (start, end) = range(address, bytes)?;
        let mut shrunk = Shrunk::default();
        {
            let mut guard = self.state.lock();
            let state = &mut *guard;
            if !state.regions.covers(start, end) {
                return Err(SpaceError::NotMapped);
            }
            let parts = state.regions.parts(start, end);
            if parts.iter().any(|(_, _, region)| !region.rights_max.contains(rights)) {
                return Err(SpaceError::Denied);
            }
            state.split_range(start, end, &mut shrunk);
            state.regions.change(start, end, |region| region.rights = rights);
            for (start, end, _) in parts {
                state.apply_rights(start, end, &mut shrunk);
            }
        }
        self.settle(shrunk).await;
        Ok(())
    }

    /// Grows, shrinks or moves one mapping; answers its new start.
    ///
    /// # Errors
    /// [`SpaceError`].
    pub async fn remap(&self, address: u64, old_bytes: u64, new_bytes: u64, target: Move) -> Result<u64, SpaceError> {
        let (start, old_end) = range(address, old_bytes)?;
        let new_bytes = pages_of(new_bytes).filter(|bytes| *bytes > 0 && *bytes < USER_END);
        let new_bytes = new_bytes.ok_or(SpaceError::Invalid)?;
        let old_bytes = old_end.saturating_sub(start);
        if old_bytes == 0 {
            return Err(SpaceError::Invalid);
        }
        if target == Move::Never || target == Move::IfNeeded {
            if new_bytes <= old_bytes {
                if new_bytes < old_bytes {
                    self.unmap(start.saturating_add(new_bytes), old_bytes.saturating_sub(new_bytes)).await?;
                }
                return Ok(start);
            }
            let mut shrunk = Shrunk::default();
            let grown = {
                let mut state = self.state.lock();
                state.cover_leaving(old_end, start.saturating_add(new_bytes), &mut shrunk);
                state.grow(start, old_end, new_bytes)?
            };
            if grown {
                self.settle(shrunk).await;
                return Ok(start);
            }
        }
        let to = match target {
            Move::Never => return Err(SpaceError::NoMemory),
            Move::IfNeeded => None,
            Move::To(to) => Some(range(to, new_bytes)?.0),
        };
        self.move_region((start, old_end), to, new_bytes).await
    }

    async fn move_region(
        &self,
        (start, old_end): (u64, u64),
        to: Option<u64>,
        new_bytes: u64,
    ) -> Result<u64, SpaceError> {
        let overlap = |to: u64| to < old_end && start < to.saturating_add(new_bytes);
        if to.is_some_and(|to| overlap(to) || to < USER_START) {
            return Err(SpaceError::Invalid);
        }
        let top = self.layout.map_top;
        let (to, shrunk, dirtied) = self.state.lock().relocate((start, old_end), to, new_bytes, top)?;
        self.settle(shrunk).await;
        tell(dirtied).await;
        Ok(to)
    }
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

    /// A free range below the top of mappings, or where that is full, above it.
    fn gap_for(&self, bytes: u64, top: u64) -> Result<u64, SpaceError> {
        self.gap(bytes, USER_START, top, USER_END).ok_or(SpaceError::NoMemory)
    }

    fn check_limits(&self, bytes: u64, replaced: u64, request: &MapRequest) -> Result<(), SpaceError> {
        let mapped = self.regions.bytes(|_| true).saturating_sub(replaced).saturating_add(bytes);
        let private = !request.options.contains(Options::SHARED);
        let data = private && request.rights.contains(Rights::WRITE);
        if mapped > self.limits.mapped_bytes || self.regions.len() > REGIONS_MAX - 2 || data && self.exceeds_data(bytes)
        {
            return Err(SpaceError::NoMemory);
        }
        Ok(())
    }

    /// True where `bytes` more of private writable memory are beyond the limit.
    fn exceeds_data(&self, bytes: u64) -> bool {
        let private = |region: &Region| !region.is_shared() && region.rights.contains(Rights::WRITE);
        self.limits.data_bytes != u64::MAX && self.regions.bytes(private).saturating_add(bytes) > self.limits.data_bytes
    }

    fn remove(&mut self, start: u64, end: u64) -> (Shrunk, Vec<(Arc<MappedFile>, u64)>) {
        let mut shrunk = Shrunk::default();
        let dirtied = self.dirty_pages(start, end).unwrap_or_default();
        self.evict_range(start, end, &mut shrunk);
        self.regions.take(start, end);
        if !shrunk.stale.is_empty() {
            self.leaving.add(start, end);
            shrunk.leaving.push((start, end));
        }
        (shrunk, dirtied)
    }

    /// Shared pages of files in the range that the program may have written; `None` where no such file is mapped there.
    pub(crate) fn dirty_pages(&self, start: u64, end: u64) -> Option<Vec<(Arc<MappedFile>, u64)>> {
        let mut dirty = None;
        for (from, to, region) in self.regions.parts(start, end) {
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

    /// Gives the pages in the range the rights of their region, as far as these shrink; what grows comes by faults.
    fn apply_rights(&mut self, start: u64, end: u64, shrunk: &mut Shrunk) {
        let Some((_, region)) = self.regions.find(start) else {
            return;
        };
        let region = region.clone();
        let addresses: Vec<u64> = self.pages.addresses(start, end).collect();
        for address in addresses {
            let flags = self.pages.get(address).and_then(|page| region.flags(page));
            let before = match flags {
                None => self.table.unmap(Va(address)),
                Some(flags) => self.table.protect(Va(address), flags),
            };
            let kept = flags.unwrap_or(MapFlags::empty());
            let rights = MapFlags::WRITE | MapFlags::EXECUTE | MapFlags::USER;
            if before.is_some_and(|before| !kept.contains(before.flags & rights)) {
                shrunk.stale.push(address);
            }
        }
    }

    /// Extends the mapping that ends at `old_end` if what follows is free.
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

    fn check_growth(&self, region: &Region, bytes: u64) -> Result<(), SpaceError> {
        let data = !region.is_shared() && region.rights.contains(Rights::WRITE);
        let too_much = self.regions.bytes(|_| true).saturating_add(bytes) > self.limits.mapped_bytes
            || data && self.exceeds_data(bytes);
        match too_much {
            true => Err(SpaceError::NoMemory),
            false => Ok(()),
        }
    }

    /// A copy of the one region that holds the range, cut to start at it.
    fn whole(&self, start: u64, end: u64) -> Result<Region, SpaceError> {
        let (first, region) = self.regions.find(start).ok_or(SpaceError::Fault)?;
        if region.end < end {
            return Err(SpaceError::Fault);
        }
        let mut region = region.clone();
        region.first_index = region.index_of(first, start);
        Ok(region)
    }

    /// Moves a mapping and its pages.
    #[allow(clippy::type_complexity, reason = "used once, in the line above its meaning")]
    fn relocate(
        &mut self,
        from: (u64, u64),
        to: Option<u64>,
        new_bytes: u64,
        top: u64,
    ) -> Result<(u64, Shrunk, Vec<(Arc<MappedFile>, u64)>), SpaceError> {
        let mut region = self.whole(from.0, from.1)?;
        region.first_index.plus(new_bytes / PAGE).ok_or(SpaceError::Invalid)?;
        let old_bytes = from.1.saturating_sub(from.0);
        if new_bytes > old_bytes {
            self.check_growth(&region, new_bytes.saturating_sub(old_bytes))?;
        }
        let to = match to {
            Some(to) => to,
            None => self.gap_for(new_bytes, top)?,
        };
        let end = to.checked_add(new_bytes).ok_or(SpaceError::Invalid)?;
        let (mut shrunk, mut dirtied) = self.remove(to, end);
        self.cover_leaving(to, end, &mut shrunk);
        self.split_range(from.0, from.1, &mut shrunk);
        let moved = old_bytes.min(new_bytes);
        let (tail, tail_dirtied) = self.remove(from.0.saturating_add(moved), from.1);
        shrunk.merge(tail);
        dirtied.extend(tail_dirtied);
        self.regions.take(from.0, from.1);
        self.leaving.add(from.0, from.1);
        shrunk.leaving.push((from.0, from.1));
        region.end = end;
        self.regions.insert(to, region);
        self.move_pages(from.0, from.0.saturating_add(moved), to, &mut shrunk);
        Ok((to, shrunk, dirtied))
    }

    fn move_pages(&mut self, start: u64, end: u64, to: u64, shrunk: &mut Shrunk) {
        let addresses: Vec<u64> = self.pages.addresses(start, end).collect();
        for address in addresses {
            let before = self.table.unmap(Va(address));
            let Some(page) = self.pages.remove(address) else {
                continue;
            };
            let target = to.saturating_add(address.saturating_sub(start));
            if let Some(before) = before {
                shrunk.stale.push(address);
                self.note_shown(target);
                // Where the table has no room the page is shown by the next fault.
                let _ = self.table.map(Va(target), page.pa(), before.flags);
            }
            self.pages.insert(target, page);
        }
    }
}
