//! Page tables of programs. The lower half is a table's own, the upper half is the kernel's, shared by all.
//!
//! * A [`PageTable`] is changed by one holder (`&mut`). A [`TableRoot`] keeps the root whole while cores run in it,
//!   also after the table was dropped.
//! * The caller flushes: after rights shrink, and before a frame that was mapped is used again. New mappings need no
//!   flush. Large and single pages are joined and split without a moment in which an address leads elsewhere.
//! * A core says by two words which root it uses and which it is about to use, so that a flush reaches it in between.
//! * States of a root: held, dropped while a core has it loaded (it is on the list of dropped ones), freed. A core
//!   leaves a dropped table when it takes its events.
//!
//! Frames that are mapped belong to the callers; tables are frames of the activity that caused them. Source: SDM vol.
//! 3, 4.5.

use crate::core_local::{block_of, online, this_core};
use crate::instructions::{invlpg, read_cr3, write_cr3};
use crate::kernel_map;
use crate::lock::SpinLock;
use crate::memory::{buddy::NONE, frame::Frame, raw};
use crate::paging::*;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_platform::{MapError, MapFlags, Mapping, PAGE_BYTES, Pa, USER_END, Va};

const UPPER: u64 = PRESENT | WRITE | USER | ACCESSED;
/// Root entries that belong to the program.
const USER_ENTRIES: u64 = 256;

/// The page table of one address space. The kernel half is shared by all tables and never changed through this.
///
/// Holds no references to the frames it maps: callers do. Its own frames are charged to whoever caused them.
pub struct PageTable {
    root: TableRoot,
}

/// The root that a core loads to run in an address space. It stays whole as long as it is held, also while the [`PageTable`] is
/// locked, changed or already dropped.
///
/// Holders are counted in the description of the root's frame, so that making a table allocates nothing that could not be refused.
pub struct TableRoot(u64);

impl Clone for TableRoot {
    fn clone(&self) -> TableRoot {
        let before = raw::info_of(self.0).prev.fetch_add(1, Ordering::Relaxed);
        assert!(before < u32::MAX / 2, "too many holders of a page table");
        TableRoot(self.0)
    }
}

impl TableRoot {
    /// Loads the table on this core, unless it is loaded.
    #[inline]
    pub(crate) fn load(&self) {
        if this_core().loaded_root.load(Ordering::Relaxed) != self.0 {
            load_root(self.0);
        }
    }

    /// Returns the mapping of the page that holds `va`, at this moment.
    #[inline]
    pub(crate) fn query(&self, va: Va) -> Option<Mapping> {
        let (slot, level) = find_user(self.0, va)?;
        let entry = slot.get();
        let mut mapping = mapping_of(entry);
        if level == 2 {
            mapping.pa = Pa((entry & ADDRESS & !(LARGE_BYTES - 1)) | va.page_start().0 & (LARGE_BYTES - 1));
        }
        (entry & PRESENT != 0).then_some(mapping)
    }
}

impl PageTable {
    /// Makes a table without user mappings.
    ///
    /// # Errors
    /// [`MapError::OutOfMemory`].
    pub fn new() -> Result<PageTable, MapError> {
        let root = take_table().ok_or(MapError::OutOfMemory)?;
        // SAFETY: the kernel's half of its root, which never changes any more, and that of a fresh root.
        unsafe { copy_entries(kernel_map::root(), root, USER_ENTRIES, USER_ENTRIES) };
        raw::info_of(root).prev.store(1, Ordering::Relaxed);
        Ok(PageTable { root: TableRoot(root) })
    }

    /// Returns the root that a core loads to run in this address space.
    pub fn root(&self) -> TableRoot {
        self.root.clone()
    }

    /// Maps one user page. Does not flush: a page that was not mapped is in no TLB.
    ///
    /// # Errors
    /// [`MapError`].
    pub fn map(&mut self, va: Va, pa: Pa, flags: MapFlags) -> Result<(), MapError> {
        if is_bad_frame(pa) {
            return Err(MapError::BadAddress);
        }
        let slot = self.slot_for(va)?;
        if slot.get() & PRESENT != 0 {
            return Err(MapError::Occupied);
        }
        slot.set(entry_of(pa, flags));
        Ok(())
    }

    /// Maps user pages that lie together: those with a bit in `places`, the lowest one for `va`, all in the range of one table of the
    /// last level. `frame` and `flags` say what comes to a place. Does not flush: pages that were not mapped are in no TLB.
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
        if u64::from(u64::BITS - places.leading_zeros()) > room || places_of(places).any(|at| is_bad_frame(frame(at))) {
            return Err(MapError::BadAddress);
        }
        if places == 0 {
            return Ok(());
        }
        let slot = self.slot_for(va)?;
        if places_of(places).any(|at| slot.ahead(at as u64).get() & PRESENT != 0) {
            return Err(MapError::Occupied);
        }
        places_of(places).for_each(|at| slot.ahead(at as u64).set(entry_of(frame(at), flags(at))));
        Ok(())
    }

    /// The slot of a user page, with the tables on the way.
    #[inline]
    fn slot_for(&mut self, va: Va) -> Result<Slot, MapError> {
        if va.0 >= USER_END || va.page_offset() != 0 {
            return Err(MapError::BadAddress);
        }
        // SAFETY: `&mut self` keeps the tables; new ones are zeroed frames of ours.
        unsafe { find_or_make(self.root.0, va.0, 1, UPPER, take_table) }.ok_or(MapError::OutOfMemory)
    }

    /// Maps 2 MiB at once, where nothing is mapped. Does not flush. Answers the empty table of single pages that was there, if one was:
    /// cores may still look into it, so the caller flushes a page of the range before it is freed.
    ///
    /// # Errors
    /// [`MapError`].
    pub fn map_large(&mut self, va: Va, pa: Pa, flags: MapFlags) -> Result<Option<Frame>, MapError> {
        if va.0 >= USER_END
            || !va.0.is_multiple_of(LARGE_BYTES)
            || !pa.0.is_multiple_of(LARGE_BYTES)
            || pa.0 & !ADDRESS != 0
        {
            return Err(MapError::BadAddress);
        }
        // SAFETY: `&mut self` keeps the tables; new ones are zeroed frames of ours.
        let slot = unsafe { find_or_make(self.root.0, va.0, 2, UPPER, take_table) }.ok_or(MapError::OutOfMemory)?;
        let before = slot.get();
        if before & PRESENT != 0 && (before & LARGE != 0 || !is_empty_table(before & ADDRESS)) {
            return Err(MapError::Occupied);
        }
        slot.swap(entry_of(pa, flags) | LARGE);
        // SAFETY: made by `take_table`, in no table any more.
        Ok((before & PRESENT != 0).then(|| unsafe { Frame::from_pa(before & ADDRESS) }))
    }

    /// Maps the large page that starts at `va` in `other` too, which has nothing there; both lose the right to write it. Answers whether
    /// it could be written here: then the caller flushes TLBs.
    ///
    /// # Errors
    /// [`MapError::BadAddress`] if no large page starts there; others as for [`PageTable::map_large`]. Nothing changes then.
    pub fn share_large(&mut self, other: &mut PageTable, va: Va) -> Result<bool, MapError> {
        let from = self.find_large(va).ok_or(MapError::BadAddress)?;
        // SAFETY: `&mut other` keeps its tables; new ones are zeroed frames of ours.
        let into = unsafe { find_or_make(other.root.0, va.0, 2, UPPER, take_table) }.ok_or(MapError::OutOfMemory)?;
        if into.get() & PRESENT != 0 {
            return Err(MapError::Occupied);
        }
        let entry = from.get();
        if entry & WRITE != 0 {
            from.swap(entry & !WRITE);
        }
        into.set(entry & !(WRITE | ACCESSED | DIRTY));
        Ok(entry & WRITE != 0)
    }

    /// Replaces rights and marks of the large page that starts at `va`; returns what was there before. The caller flushes when rights
    /// shrink.
    pub fn protect_large(&mut self, va: Va, flags: MapFlags) -> Option<Mapping> {
        let slot = self.find_large(va)?;
        let pa = Pa(slot.get() & ADDRESS & !(LARGE_BYTES - 1));
        Some(mapping_of(slot.swap(entry_of(pa, flags) | LARGE) & !LARGE))
    }

    /// Removes a large page that starts at `va` and returns what was there. The caller flushes TLBs before the frames are reused.
    pub fn unmap_large(&mut self, va: Va) -> Option<Mapping> {
        let slot = self.find_large(va)?;
        Some(mapping_of(slot.swap(0) & !LARGE))
    }

    /// Replaces a large page by single pages with the same rights. No flush is needed: every address leads where it led.
    ///
    /// # Errors
    /// [`MapError::OutOfMemory`]; [`MapError::BadAddress`] if no large page starts there.
    pub fn split_large(&mut self, va: Va) -> Result<(), MapError> {
        let slot = self.find_large(va).ok_or(MapError::BadAddress)?;
        let table = take_table().ok_or(MapError::OutOfMemory)?;
        let entry = slot.get() & !LARGE;
        for index in 0..LARGE_BYTES / PAGE_BYTES as u64 {
            // SAFETY: a fresh table of ours.
            unsafe { Slot::of(table, index) }.set(entry + index * PAGE_BYTES as u64);
        }
        slot.swap(table | UPPER);
        Ok(())
    }

    fn find_large(&self, va: Va) -> Option<Slot> {
        if va.0 >= USER_END || !va.0.is_multiple_of(LARGE_BYTES) {
            return None;
        }
        // SAFETY: inner tables live as long as their root.
        let (slot, level) = unsafe { find(self.root.0, va.0) }?;
        (level == 2 && slot.get() & (PRESENT | LARGE) == PRESENT | LARGE).then_some(slot)
    }

    /// Removes a page and returns what was there. The caller flushes TLBs before the frame is reused.
    pub fn unmap(&mut self, va: Va) -> Option<Mapping> {
        let slot = self.find(va).filter(|slot| slot.get() & PRESENT != 0)?;
        Some(mapping_of(slot.swap(0)))
    }

    /// Removes all pages from `start` to `end` and tells `removed` of each. The caller flushes TLBs before the frames are reused.
    pub fn unmap_range(&mut self, start: Va, end: Va, mut removed: impl FnMut(Va)) {
        let remove = |first, count| {
            let Some(slot) = self.find(Va(first)) else { return Ok(()) };
            for number in 0..count {
                let slot = slot.ahead(number);
                if slot.get() & PRESENT != 0 {
                    slot.swap(0);
                    removed(Va(first + number * PAGE_BYTES as u64));
                }
            }
            Ok(())
        };
        // It takes no memory, so it cannot fail.
        let _ = for_each_table(start, end, remove);
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
        for_each_table(start, end, |first, count| {
            let Some(from) = self.find(Va(first)) else { return Ok(()) };
            // SAFETY: `&mut other` keeps its tables; new ones are zeroed frames of ours.
            let into =
                unsafe { find_or_make(other.root.0, first, 1, UPPER, take_table) }.ok_or(MapError::OutOfMemory)?;
            for number in 0..count {
                let from = from.ahead(number);
                let entry = from.get();
                if entry & PRESENT == 0 {
                    continue;
                }
                if entry & WRITE != 0 {
                    from.swap(entry & !WRITE);
                    lost(Va(first + number * PAGE_BYTES as u64));
                }
                into.ahead(number).set(entry & !(WRITE | ACCESSED | DIRTY));
            }
            Ok(())
        })
    }

    /// Replaces rights and marks of a present page; returns what was there before. The caller flushes when rights shrink.
    pub fn protect(&mut self, va: Va, flags: MapFlags) -> Option<Mapping> {
        let slot = self.find(va)?;
        let before = slot.get();
        if before & PRESENT == 0 {
            return None;
        }
        Some(mapping_of(slot.swap(entry_of(Pa(before & ADDRESS), flags))))
    }

    /// Returns the mapping of the page that holds `va`.
    #[inline]
    pub fn query(&self, va: Va) -> Option<Mapping> {
        self.root.query(va)
    }

    /// Whether the program may write the page that holds `va`; `None` if nothing is mapped.
    #[inline]
    pub fn writable(&self, va: Va) -> Option<bool> {
        let (slot, _) = find_user(self.root.0, va)?;
        let entry = slot.get();
        (entry & PRESENT != 0).then_some(entry & WRITE != 0)
    }

    /// How many pages from the one that holds `va` on, at most `count`, the program may write, as far as one table of the last level
    /// maps them.
    pub fn writable_pages(&self, va: Va, count: usize) -> usize {
        let Some(first) = self.find(va) else { return 0 };
        let in_table = (LARGE_BYTES - va.0 % LARGE_BYTES).div_ceil(PAGE_BYTES as u64);
        let may = |number: &u64| first.ahead(*number).get() & (PRESENT | WRITE) == PRESENT | WRITE;
        (0..in_table.min(count as u64)).take_while(may).count()
    }

    /// The cores whose TLB may hold pages of this table, as a bit mask (those on which it is loaded now).
    pub fn active_cores(&self) -> u64 {
        active_cores(self.root.0)
    }

    /// Pages that a program could write and execute, for tests.
    pub fn count_writable_code(&self) -> usize {
        let mut count = 0;
        // SAFETY: `&self` keeps the tables.
        unsafe {
            for_each_leaf(self.root.0, 0, USER_ENTRIES, &mut |leaf| {
                count += usize::from(leaf.rights & WRITE != 0 && leaf.rights & NO_EXECUTE == 0);
            });
        }
        count
    }

    #[inline]
    fn find(&self, va: Va) -> Option<Slot> {
        find_user(self.root.0, va).filter(|(_, level)| *level == 1).map(|(slot, _)| slot)
    }
}

/// Calls `each` with the first page and the number of pages of each part of a range that one table of the last level maps.
fn for_each_table(start: Va, end: Va, mut each: impl FnMut(u64, u64) -> Result<(), MapError>) -> Result<(), MapError> {
    let end = end.0.min(USER_END);
    let mut at = start.page_start().0;
    while at < end {
        let stop = end.min((at | (LARGE_BYTES - 1)) + 1);
        each(at, (stop - at).div_ceil(PAGE_BYTES as u64))?;
        at = stop;
    }
    Ok(())
}

/// The places that have a bit, in order.
#[inline(always)]
fn places_of(bits: u64) -> impl Iterator<Item = usize> {
    let mut left = bits;
    core::iter::from_fn(move || {
        let place = (left != 0).then(|| left.trailing_zeros() as usize)?;
        left &= left.wrapping_sub(1);
        Some(place)
    })
}

/// True for an address at which no frame starts.
fn is_bad_frame(pa: Pa) -> bool {
    !pa.0.is_multiple_of(PAGE_BYTES as u64) || pa.0 & !ADDRESS != 0
}

/// True if a table of the last level maps nothing.
fn is_empty_table(table: u64) -> bool {
    // SAFETY: a table that an upper entry names.
    (0..LARGE_BYTES / PAGE_BYTES as u64).all(|index| unsafe { Slot::of(table, index) }.get() & PRESENT == 0)
}

/// The slot of a user page below a root that somebody holds, and its level: 1, or 2 for a large page.
#[inline]
fn find_user(root: u64, va: Va) -> Option<(Slot, u32)> {
    if va.0 >= USER_END {
        return None;
    }
    // SAFETY: inner tables live as long as their root.
    unsafe { find(root, va.0) }
}

impl Drop for TableRoot {
    fn drop(&mut self) {
        if raw::info_of(self.0).prev.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        if this_core().loaded_root.load(Ordering::Relaxed) == self.0 {
            load_root(kernel_map::root());
        }
        let elsewhere = active_cores(self.0);
        if elsewhere == 0 {
            free_tables(self.0);
            return;
        }
        // Other cores still have it loaded, though none runs in it. They leave it when they look at their events; the last frees it.
        DROPPED.with(|head| {
            raw::info_of(self.0).next.store(*head, Ordering::Relaxed);
            *head = frame_number(self.0);
        });
        DROPPED_COUNT.fetch_add(1, Ordering::SeqCst);
        online().filter(|core| elsewhere >> core & 1 == 1).for_each(crate::wake_core);
    }
}

/// Roots of tables that were dropped while another core had them loaded, linked through their descriptions.
static DROPPED: SpinLock<u32> = SpinLock::new(NONE);
static DROPPED_COUNT: AtomicUsize = AtomicUsize::new(0);

fn frame_number(pa: u64) -> u32 {
    (pa / PAGE_BYTES as u64) as u32
}

/// Leaves this core's table if it was dropped, and frees dropped tables that no core has loaded.
#[inline(always)]
pub(crate) fn leave_dropped_table() {
    if DROPPED_COUNT.load(Ordering::Relaxed) != 0 {
        sweep_dropped();
    }
}

#[cold]
fn sweep_dropped() {
    let loaded = this_core().loaded_root.load(Ordering::Relaxed);
    let mut unused = NONE;
    DROPPED.with(|head| {
        let mut kept = NONE;
        let mut at = *head;
        while at != NONE {
            let root = u64::from(at) * PAGE_BYTES as u64;
            let info = raw::info_of(root);
            let next = info.next.load(Ordering::Relaxed);
            if root == loaded {
                load_root(kernel_map::root());
            }
            let list = if active_cores(root) == 0 { &mut unused } else { &mut kept };
            info.next.store(*list, Ordering::Relaxed);
            *list = at;
            at = next;
        }
        *head = kept;
    });
    while unused != NONE {
        let root = u64::from(unused) * PAGE_BYTES as u64;
        unused = raw::info_of(root).next.load(Ordering::Relaxed);
        DROPPED_COUNT.fetch_sub(1, Ordering::SeqCst);
        free_tables(root);
    }
}

fn active_cores(root: u64) -> u64 {
    let uses = |core: usize| {
        let block = block_of(core);
        block.entering_root.load(Ordering::SeqCst) == root || block.loaded_root.load(Ordering::SeqCst) == root
    };
    online().filter(|core| uses(*core)).fold(0, |mask, core| mask | 1 << core)
}

/// Loads a root on this core. Both words say so until the old one is gone, so that whoever changes either table sees this core.
pub(crate) fn load_root(root: u64) {
    let core = this_core();
    core.entering_root.store(root, Ordering::SeqCst);
    // SAFETY: every root has the kernel's half.
    unsafe { write_cr3(root) };
    core.loaded_root.store(root, Ordering::SeqCst);
}

fn take_table() -> Option<u64> {
    Frame::allocate(0).ok().map(Frame::into_pa)
}

fn free_tables(root: u64) {
    // SAFETY: nobody has the table loaded, and its owner is gone.
    unsafe { free_below(root, 4) };
}

/// # Safety
/// The table of `level` must be a user table that nobody uses any more.
// recursion: at most 4, because a page table has four levels
unsafe fn free_below(table: u64, level: u32) {
    let count = if level == 4 { USER_ENTRIES } else { 2 * USER_ENTRIES };
    if level > 1 {
        // SAFETY: as the caller says; hardware does not look any more.
        let entries = unsafe { entries_of(table, count as usize) };
        // Most entries are empty: eight at a look.
        for entries in entries.chunks(8).filter(|entries| entries.iter().fold(0, |any, entry| any | entry) != 0) {
            // A large page is its owner's, as single pages are.
            for entry in entries.iter().filter(|entry| **entry != 0 && (level > 2 || **entry & LARGE == 0)) {
                // SAFETY: any other entry of an upper level names a table of its own.
                unsafe { free_below(entry & ADDRESS, level - 1) };
            }
        }
    }
    // SAFETY: made by `take_table`, freed once.
    drop(unsafe { Frame::from_pa(table) });
}

const BITS: [(MapFlags, u64); 6] = [
    (MapFlags::WRITE, WRITE),
    (MapFlags::USER, USER),
    (MapFlags::DEVICE, UNCACHED),
    (MapFlags::MARK, MARK),
    (MapFlags::ACCESSED, ACCESSED),
    (MapFlags::DIRTY, DIRTY),
];

#[inline]
fn entry_of(pa: Pa, flags: MapFlags) -> u64 {
    let mut entry = pa.0 | PRESENT | if flags.contains(MapFlags::EXECUTE) { 0 } else { NO_EXECUTE };
    // Unrolled: a fold over an iterator that filters costs three times as much, in each copy to a program.
    for (flag, bits) in BITS {
        entry |= if flags.contains(flag) { bits } else { 0 };
    }
    entry
}

#[inline]
fn mapping_of(entry: u64) -> Mapping {
    let mut flags = if entry & NO_EXECUTE == 0 { MapFlags::EXECUTE } else { MapFlags::empty() };
    for (flag, bits) in BITS {
        flags |= if entry & bits != 0 { flag } else { MapFlags::empty() };
    }
    Mapping { pa: Pa(entry & ADDRESS), flags }
}

/// Flushes one page of the current table from this core's TLB.
#[inline]
pub fn flush_page_local(va: Va) {
    invlpg(va.0);
}

/// Flushes all user pages from this core's TLB.
#[inline]
pub fn flush_all_local() {
    // SAFETY: loads what is loaded.
    unsafe { write_cr3(read_cr3()) };
}
