//! Entries and walks of four-level page tables (SDM vol. 3, 4.5), used for the kernel's half and for programs alike.
//!
//! The kernel's half has five areas: the direct map of the zone's memory, device memory, descriptions of frames,
//! stacks, and the image. Their starts are the constants below.
//!
//! * [`reach`] turns a physical address into one that the kernel reads: the address itself under the loader's map,
//!   later its place in the direct map.
//! * A [`Slot`] is one entry. Hardware sets ACCESSED and DIRTY in it at any time, so reads are volatile and a removal
//!   swaps.
//! * [`find`] walks without making tables; [`find_or_make`] takes frames for those that are missing.
//!
//! Walks are bounded by the four levels. The unsafe functions want a root of this kernel whose tables nobody frees
//! meanwhile.

use core::sync::atomic::{AtomicU64, Ordering};

/// Start of the direct map: physical address 0 would be here. Only the zone's memory is mapped.
pub(crate) const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;
/// Start of the area for device memory.
pub(crate) const DEVICE_MAP: u64 = 0xffff_c000_0000_0000;
/// Start of the array of frame descriptions.
pub(crate) const FRAME_INFO: u64 = 0xffff_d000_0000_0000;
/// Start of the kernel stacks.
pub(crate) const STACKS: u64 = 0xffff_e000_0000_0000;
/// Address at which physical address 0 would lie in the image's mapping.
pub(crate) const IMAGE_MAP: u64 = 0xffff_ffff_8000_0000;

pub(crate) const PRESENT: u64 = 1;
pub(crate) const WRITE: u64 = 1 << 1;
pub(crate) const USER: u64 = 1 << 2;
/// Write-through and no cache together select uncached memory in the PAT as reset leaves it.
pub(crate) const UNCACHED: u64 = 1 << 3 | 1 << 4;
pub(crate) const ACCESSED: u64 = 1 << 5;
pub(crate) const DIRTY: u64 = 1 << 6;
/// In the second level: a page of 2 MiB.
pub(crate) const LARGE: u64 = 1 << 7;
pub(crate) const GLOBAL: u64 = 1 << 8;
/// Free for software.
pub(crate) const MARK: u64 = 1 << 9;
pub(crate) const NO_EXECUTE: u64 = 1 << 63;
/// The address in an entry.
pub(crate) const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Bytes of a large page.
pub(crate) const LARGE_BYTES: u64 = 2 << 20;
const ENTRIES: u64 = 512;

/// The offset from a physical address to the mapping that reaches it: 0 under the loader's identity map, then [`DIRECT_MAP`].
static REACH: AtomicU64 = AtomicU64::new(0);

/// Changes how physical memory is reached; boot only.
pub(crate) fn reach_through_direct_map() {
    REACH.store(DIRECT_MAP, Ordering::Release);
}

/// True as long as boot's mapping is loaded, in which the first 4 GiB lie at their own addresses.
pub(crate) fn is_under_boot_mapping() -> bool {
    REACH.load(Ordering::Relaxed) == 0
}

/// The address under which the kernel reaches memory of its zone.
#[inline(always)]
pub(crate) fn reach(pa: u64) -> u64 {
    REACH.load(Ordering::Relaxed) + pa
}

/// One entry of one table.
#[derive(Clone, Copy)]
pub(crate) struct Slot(*mut u64);

impl Slot {
    /// Entry `index` of the table at `table`.
    ///
    /// # Safety
    /// `table` must be a page table of this kernel that is not freed while the slot is used.
    #[inline(always)]
    pub(crate) unsafe fn of(table: u64, index: u64) -> Slot {
        Slot((reach(table) + index % ENTRIES * 8) as *mut u64)
    }

    /// The entry `count` places behind it, of the same table: the index wraps at the table's end.
    #[inline(always)]
    pub(crate) fn ahead(self, count: u64) -> Slot {
        let table = self.0.addr() & !(ENTRIES as usize * 8 - 1);
        let offset = self.0.addr().wrapping_add(count as usize * 8) & (ENTRIES as usize * 8 - 1);
        Slot(self.0.with_addr(table | offset))
    }

    /// Its value. Hardware may set ACCESSED and DIRTY at any time, hence volatile.
    #[inline(always)]
    pub(crate) fn get(self) -> u64 {
        // SAFETY: `of` was promised a table.
        unsafe { self.0.read_volatile() }
    }

    /// Replaces it.
    #[inline(always)]
    pub(crate) fn set(self, value: u64) {
        // SAFETY: as above; whoever changes a table owns it.
        unsafe { self.0.write_volatile(value) }
    }

    /// Replaces it at once and returns what was there, with the last marks of the hardware.
    #[inline(always)]
    pub(crate) fn swap(self, value: u64) -> u64 {
        // SAFETY: an aligned word of a table; hardware changes entries by atomic operations too.
        unsafe { AtomicU64::from_ptr(self.0) }.swap(value, Ordering::AcqRel)
    }
}

/// Copies `count` entries from `first` on from one table to another.
///
/// # Safety
/// Both must be tables of this kernel; the target is the caller's alone and the source does not change meanwhile.
pub(crate) unsafe fn copy_entries(from: u64, into: u64, first: u64, count: u64) {
    let (from, into) = (
        (reach(from) as *const u64).wrapping_add(first as usize),
        (reach(into) as *mut u64).wrapping_add(first as usize),
    );
    // SAFETY: as the caller says.
    unsafe { core::ptr::copy_nonoverlapping(from, into, count as usize) };
}

/// The first `count` entries of a table that nothing changes any more.
///
/// # Safety
/// As said; the table must live as long as the slice is used.
pub(crate) unsafe fn entries_of<'a>(table: u64, count: usize) -> &'a [u64] {
    // SAFETY: as the caller says.
    unsafe { core::slice::from_raw_parts(reach(table) as *const u64, count) }
}

/// Index into the table of `level` (4 is the root).
#[inline(always)]
pub(crate) fn index(va: u64, level: u32) -> u64 {
    va >> (3 + 9 * level) & (ENTRIES - 1)
}

/// Finds the entry that maps `va`: of the last level, or of a large page. `None` if a table is missing.
///
/// # Safety
/// `root` must be a root of this kernel's tables, and nobody frees tables meanwhile.
#[inline]
pub(crate) unsafe fn find(root: u64, va: u64) -> Option<(Slot, u32)> {
    let mut table = root;
    for level in (2..=4).rev() {
        // SAFETY: the root, or a table that a present entry names.
        let slot = unsafe { Slot::of(table, index(va, level)) };
        let entry = slot.get();
        if entry & PRESENT == 0 {
            return None;
        }
        if entry & LARGE != 0 && level < 4 {
            return Some((slot, level));
        }
        table = entry & ADDRESS;
    }
    // SAFETY: as above.
    Some((unsafe { Slot::of(table, index(va, 1)) }, 1))
}

/// Finds the entry of `level` for `va` and makes the tables on the way; `upper` are the rights of upper entries. `None` if
/// `new_table` has none left.
///
/// # Safety
/// As for [`find`]; `new_table` must give zeroed frames that are the table's from then on.
#[inline]
pub(crate) unsafe fn find_or_make(
    root: u64,
    va: u64,
    level: u32,
    upper: u64,
    mut new_table: impl FnMut() -> Option<u64>,
) -> Option<Slot> {
    let mut table = root;
    for at in (level + 1..=4).rev() {
        // SAFETY: the root, or a table that a present entry names.
        let slot = unsafe { Slot::of(table, index(va, at)) };
        let mut entry = slot.get();
        if entry & PRESENT == 0 {
            entry = new_table()? | upper;
            slot.set(entry);
        }
        table = entry & ADDRESS;
    }
    // SAFETY: as above.
    Some(unsafe { Slot::of(table, index(va, level)) })
}

/// A leaf that was found by [`for_each_leaf`].
pub(crate) struct Leaf {
    /// Rights of all entries on the way: user and write as granted by all, no-execute if any says so.
    pub(crate) rights: u64,
}

/// Calls `visit` for each present page of the root's entries `first..last`.
///
/// # Safety
/// As for [`find`].
pub(crate) unsafe fn for_each_leaf(root: u64, first: u64, last: u64, visit: &mut dyn FnMut(&Leaf)) {
    for number in first..last {
        // SAFETY: as the caller says.
        let entry = unsafe { Slot::of(root, number) }.get();
        let base = number << 39 | if number >= 256 { 0xffff << 48 } else { 0 };
        if entry & PRESENT != 0 {
            // SAFETY: a present entry names a table.
            unsafe { visit_table(entry & ADDRESS, base, 3, entry, visit) };
        }
    }
}

/// # Safety
/// As for [`find`], with a table of `level`.
// recursion: at most 3, because a page table has four levels and the first is walked by the caller
unsafe fn visit_table(table: u64, base: u64, level: u32, rights: u64, visit: &mut dyn FnMut(&Leaf)) {
    for number in 0..ENTRIES {
        // SAFETY: as the caller says.
        let entry = unsafe { Slot::of(table, number) }.get();
        if entry & PRESENT == 0 {
            continue;
        }
        let va = base | number << (3 + 9 * level);
        let rights = rights & entry & (USER | WRITE) | (rights | entry) & NO_EXECUTE;
        if level == 1 || entry & LARGE != 0 {
            visit(&Leaf { rights });
        } else {
            // SAFETY: a present entry that is no page names a table.
            unsafe { visit_table(entry & ADDRESS, va, level - 1, rights, visit) };
        }
    }
}
