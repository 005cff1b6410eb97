//! A page table as a map, for host tests of address spaces.
//!
//! It refuses what the hardware's table refuses, so that tests meet the same errors.
//! * Single pages and large ones are kept apart, by their first address.
//! * Nobody marks pages as accessed or changed here, and no core holds old translations: a flush does nothing.
//! * Frames of tests lie anywhere in the host's memory, so large pages need no alignment.
//!
//! Left out: tables of their own, which could run out of memory, and other cores.

use crate::frame::Frame;
use gyre_platform::{MapError, MapFlags, Mapping, PAGE_BYTES, Pa, USER_END, Va};
use std::collections::BTreeMap;

/// The page table of one address space. The kernel half is shared by all tables and never changed through this.
pub struct PageTable {
    pages: BTreeMap<u64, Mapping>,
    large: BTreeMap<u64, Mapping>,
}

/// Bytes of a large page.
const LARGE_BYTES: u64 = 2 << 20;

/// The root that a core loads to run in an address space; stays whole as long as it is held.
#[derive(Clone)]
pub struct TableRoot;

impl PageTable {
    /// Makes a table without user mappings.
    ///
    /// # Errors
    /// [`MapError::OutOfMemory`].
    pub fn new() -> Result<PageTable, MapError> {
        Ok(PageTable { pages: BTreeMap::new(), large: BTreeMap::new() })
    }

    /// The root that a core loads to run in this address space.
    pub fn root(&self) -> TableRoot {
        TableRoot
    }

    /// Maps one user page. Does not flush: a page that was not mapped is in no TLB.
    ///
    /// # Errors
    /// [`MapError`].
    pub fn map(&mut self, va: Va, pa: Pa, flags: MapFlags) -> Result<(), MapError> {
        if va.0 >= USER_END || va.page_offset() != 0 || pa.0 % PAGE_BYTES as u64 != 0 {
            return Err(MapError::BadAddress);
        }
        if self.pages.contains_key(&va.0) {
            return Err(MapError::Occupied);
        }
        self.pages.insert(va.0, Mapping { pa, flags });
        Ok(())
    }

    /// Maps user pages with a bit in `places`, the lowest one for `va`, all in the range of one table of the last level.
    ///
    /// # Errors
    /// [`MapError`]. No page is mapped then.
    pub fn map_few(
        &mut self,
        va: Va,
        places: u64,
        frame: impl Fn(usize) -> Pa,
        flags: impl Fn(usize) -> MapFlags,
    ) -> Result<(), MapError> {
        let room = (LARGE_BYTES - va.0 % LARGE_BYTES) / PAGE_BYTES as u64;
        if va.0 >= USER_END || va.page_offset() != 0 || u64::from(u64::BITS - places.leading_zeros()) > room {
            return Err(MapError::BadAddress);
        }
        let entry = |place| (va.0 + (place * PAGE_BYTES) as u64, Mapping { pa: frame(place), flags: flags(place) });
        let entries: Vec<(u64, Mapping)> = (0..64).filter(|place| places >> place & 1 == 1).map(entry).collect();
        if entries.iter().any(|(at, _)| self.query(Va(*at)).is_some()) {
            return Err(MapError::Occupied);
        }
        self.pages.extend(entries);
        Ok(())
    }

    /// Maps 2 MiB at once, if nothing is mapped there. Does not flush. A test's frames lie anywhere, so `pa` need not be aligned. There are
    /// no tables here that could be left over.
    ///
    /// # Errors
    /// [`MapError`].
    pub fn map_large(&mut self, va: Va, pa: Pa, flags: MapFlags) -> Result<Option<Frame>, MapError> {
        if va.0 >= USER_END || !va.0.is_multiple_of(LARGE_BYTES) {
            return Err(MapError::BadAddress);
        }
        if self.pages.range(va.0..va.0 + LARGE_BYTES).next().is_some() || self.large.contains_key(&va.0) {
            return Err(MapError::Occupied);
        }
        self.large.insert(va.0, Mapping { pa, flags });
        Ok(None)
    }

    /// Maps the large page that starts at `va` in `other` too, which has nothing there; both lose the right to write it. Answers whether
    /// it could be written here: then the caller flushes TLBs.
    ///
    /// # Errors
    /// [`MapError::BadAddress`] if no large page starts; others as for [`PageTable::map_large`]. Nothing changes then.
    pub fn share_large(&mut self, other: &mut PageTable, va: Va) -> Result<bool, MapError> {
        let mapping = self.large.get_mut(&va.0).ok_or(MapError::BadAddress)?;
        let kept = mapping.flags - MapFlags::WRITE;
        other.map_large(va, mapping.pa, kept - MapFlags::ACCESSED - MapFlags::DIRTY)?;
        Ok(core::mem::replace(&mut mapping.flags, kept) != kept)
    }

    /// Replaces rights and marks of the large page that starts at `va`; returns what was there before.
    pub fn protect_large(&mut self, va: Va, flags: MapFlags) -> Option<Mapping> {
        let mapping = self.large.get_mut(&va.0)?;
        let before = *mapping;
        mapping.flags = flags;
        Some(before)
    }

    /// Removes a large page that starts at `va` and returns what was there.
    pub fn unmap_large(&mut self, va: Va) -> Option<Mapping> {
        self.large.remove(&va.0)
    }

    /// Replaces a large page by single pages with the same rights.
    ///
    /// # Errors
    /// [`MapError::BadAddress`] if no large page starts.
    pub fn split_large(&mut self, va: Va) -> Result<(), MapError> {
        let whole = self.large.remove(&va.0).ok_or(MapError::BadAddress)?;
        for offset in (0..LARGE_BYTES).step_by(PAGE_BYTES) {
            self.pages.insert(va.0 + offset, Mapping { pa: Pa(whole.pa.0 + offset), ..whole });
        }
        Ok(())
    }

    /// Removes a page and returns what was there. The caller flushes TLBs before the frame is reused.
    pub fn unmap(&mut self, va: Va) -> Option<Mapping> {
        self.pages.remove(&va.0)
    }

    /// Removes all pages from `start` to `end` and tells `removed` of each. The caller flushes TLBs before the frames are reused.
    pub fn unmap_range(&mut self, start: Va, end: Va, mut removed: impl FnMut(Va)) {
        let mut tail = self.pages.split_off(&start.0);
        let mut rest = tail.split_off(&end.0);
        self.pages.append(&mut rest);
        tail.into_keys().for_each(|at| removed(Va(at)));
    }

    /// Maps the pages from `start` to `end` in `other` too, which has none there; both lose the right to write them. Tells `lost` of
    /// each page that could be written here: the caller flushes TLBs.
    ///
    /// # Errors
    /// [`MapError`]; some pages may have lost the right then.
    pub fn share_range(
        &mut self,
        other: &mut PageTable,
        start: Va,
        end: Va,
        lost: &mut dyn FnMut(Va),
    ) -> Result<(), MapError> {
        if start.0 > end.0 || end.0 > USER_END {
            return Err(MapError::BadAddress);
        }
        for (at, mapping) in self.pages.range_mut(start.0..end.0) {
            if mapping.flags.contains(MapFlags::WRITE) {
                mapping.flags -= MapFlags::WRITE;
                lost(Va(*at));
            }
            other.map(Va(*at), mapping.pa, mapping.flags - MapFlags::ACCESSED - MapFlags::DIRTY)?;
        }
        Ok(())
    }

    /// Replaces rights and marks of a present page; returns what was there before. The caller flushes when rights shrink.
    pub fn protect(&mut self, va: Va, flags: MapFlags) -> Option<Mapping> {
        let mapping = self.pages.get_mut(&va.0)?;
        let before = *mapping;
        mapping.flags = flags;
        Some(before)
    }

    /// The mapping of the page that holds `va`.
    pub fn query(&self, va: Va) -> Option<Mapping> {
        let large = || {
            let whole = self.large.get(&(va.0 & !(LARGE_BYTES - 1)))?;
            Some(Mapping { pa: Pa(whole.pa.0 + va.page_start().0 % LARGE_BYTES), ..*whole })
        };
        self.pages.get(&va.page_start().0).copied().or_else(large)
    }

    /// Whether the program may write the page that holds `va`; `None` if nothing is mapped.
    pub fn writable(&self, va: Va) -> Option<bool> {
        self.query(va).map(|mapping| mapping.flags.contains(MapFlags::WRITE))
    }

    /// How many pages from the one that holds `va` on, at most `count`, the program may write.
    pub fn writable_pages(&self, va: Va, count: usize) -> usize {
        let start = va.page_start().0;
        let may = |number: &usize| self.writable(Va(start + (*number * PAGE_BYTES) as u64)) == Some(true);
        (0..count).take_while(may).count()
    }

    /// The cores whose TLB may hold pages of this table, as a bit mask (those on which it is loaded now).
    pub fn active_cores(&self) -> u64 {
        0
    }
}

/// Flushes one page of the current table from this core's TLB.
pub fn flush_page_local(_va: Va) {}

/// Flushes all user pages from this core's TLB.
pub fn flush_all_local() {}
