//! The kernel's half of the address space: made once by the boot core, shared by all page tables.
//!
//! ```text
//! 0xffff_8000_0000_0000  direct map of the zone's memory     read, write; boot modules read
//! 0xffff_c000_0000_0000  device memory                       read, write, uncached; grows
//! 0xffff_d000_0000_0000  descriptions of frames              read, write
//! 0xffff_e000_0000_0000  stacks, 1 MiB apart, guards between read, write
//! 0xffff_ffff_8000_0000  image: text read+execute, constants read, data read+write
//! ```
//! The image's frames are in no other mapping. Root entries of all areas exist from the start, so a new page table copies them
//! once and never looks again. No page is both writable and executable, none is a user page: [`check_rights`] walks and says so.

use crate::boot::early;
use crate::descriptors::{INTERRUPT_STACK_BYTES, INTERRUPT_STACKS};
use crate::lock::SpinLock;
use crate::memory::raw;
use crate::paging::*;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_platform::{MemoryRegion, OutOfMemory, PAGE_BYTES};

const PAGE: u64 = PAGE_BYTES as u64;
const DATA: u64 = PRESENT | WRITE | NO_EXECUTE | GLOBAL | ACCESSED | DIRTY;
const CONSTANT: u64 = PRESENT | NO_EXECUTE | GLOBAL | ACCESSED;
const CODE: u64 = PRESENT | GLOBAL | ACCESSED;
const UPPER: u64 = PRESENT | WRITE | ACCESSED;

/// Bytes of a core's stack. One system call polled through all its layers was seen to take 45 KiB in a quick build, and handlers run
/// inside each other as long as the engine sees room (`INLINE_STACK_BYTES`).
pub(crate) const STACK_BYTES: u64 = 256 << 10;
const STACK_STRIDE: u64 = 1 << 20;

unsafe extern "C" {
    static gyre_image_start: u8;
    static gyre_rodata_start: u8;
    static gyre_data_start: u8;
    static gyre_image_end: u8;
}

static ROOT: AtomicU64 = AtomicU64::new(0);
static NEXT_DEVICE: SpinLock<u64> = SpinLock::new(DEVICE_MAP);

/// First and last address of the image as linked.
pub(crate) fn image_bounds() -> (u64, u64) {
    ((&raw const gyre_image_start) as u64, (&raw const gyre_image_end) as u64)
}

/// True for addresses in the kernel's text.
pub(crate) fn in_text(address: u64) -> bool {
    ((&raw const gyre_image_start) as u64..(&raw const gyre_rodata_start) as u64).contains(&address)
}

/// Physical address of the root without user pages.
pub(crate) fn root() -> u64 {
    ROOT.load(Ordering::Acquire)
}

/// True if a page is mapped at a kernel address.
pub(crate) fn is_mapped(va: u64) -> bool {
    let root = root();
    // SAFETY: kernel tables are never freed.
    va >= DIRECT_MAP && root != 0 && unsafe { find(root, va) }.is_some_and(|(slot, _)| slot.get() & PRESENT != 0)
}

fn new_table() -> Option<u64> {
    early::take_page().or_else(|| raw::take_frames(0, true))
}

fn map_page(va: u64, pa: u64, rights: u64) -> Result<(), OutOfMemory> {
    map_page_from(va, pa | rights, &mut new_table)
}

fn map_page_from(va: u64, entry: u64, supply: &mut dyn FnMut() -> Option<u64>) -> Result<(), OutOfMemory> {
    // SAFETY: kernel tables are never freed; new tables are zeroed frames of ours.
    let slot = unsafe { find_or_make(root(), va, 1, UPPER, supply) }.ok_or(OutOfMemory)?;
    slot.set(entry);
    Ok(())
}

fn map_range(va: u64, pa: u64, bytes: u64, rights: u64) -> Result<(), OutOfMemory> {
    let mut done = 0;
    while done < bytes {
        let (va, pa) = (va + done, pa + done);
        if va % LARGE_BYTES == 0 && pa % LARGE_BYTES == 0 && bytes - done >= LARGE_BYTES {
            // SAFETY: as in `map_page`.
            let slot = unsafe { find_or_make(root(), va, 2, UPPER, new_table) }.ok_or(OutOfMemory)?;
            slot.set(pa | rights | LARGE);
            done += LARGE_BYTES;
        } else {
            map_page(va, pa, rights)?;
            done += PAGE;
        }
    }
    Ok(())
}

/// Makes the kernel's half. `delta` is the distance of the image from its link address; `shared` is memory that is not free and yet written.
///
/// # Errors
/// [`OutOfMemory`] if the boot memory is too small.
pub(crate) fn build(
    delta: u64,
    memory: &[MemoryRegion],
    modules: &[MemoryRegion],
    shared: Option<MemoryRegion>,
) -> Result<(), OutOfMemory> {
    ROOT.store(new_table().ok_or(OutOfMemory)?, Ordering::Release);
    let sections = [
        ((&raw const gyre_image_start) as u64, (&raw const gyre_rodata_start) as u64, CODE),
        ((&raw const gyre_rodata_start) as u64, (&raw const gyre_data_start) as u64, CONSTANT),
        ((&raw const gyre_data_start) as u64, (&raw const gyre_image_end) as u64, DATA),
    ];
    for (start, end, rights) in sections {
        map_range(start, start - IMAGE_MAP + delta, end - start, rights)?;
    }
    for region in memory {
        map_range(DIRECT_MAP + region.start.0, region.start.0, region.bytes, DATA)?;
        map_frame_info(region)?;
    }
    for module in modules {
        let start = module.start.0 / PAGE * PAGE;
        let end = (module.start.0 + module.bytes).next_multiple_of(PAGE);
        map_range(DIRECT_MAP + start, start, end - start, CONSTANT)?;
    }
    if let Some(region) = shared {
        map_range(DIRECT_MAP + region.start.0, region.start.0, region.bytes, DATA)?;
    }
    for area in [DEVICE_MAP, FRAME_INFO, STACKS] {
        // SAFETY: as in `map_page`.
        unsafe { find_or_make(root(), area, 3, UPPER, new_table) }.ok_or(OutOfMemory)?;
    }
    Ok(())
}

/// Maps the descriptions of all lots in which the region has a part: the allocator looks at a frame's neighbours.
fn map_frame_info(region: &MemoryRegion) -> Result<(), OutOfMemory> {
    map_frame_info_from(region, &mut new_table)
}

fn map_frame_info_from(region: &MemoryRegion, supply: &mut dyn FnMut() -> Option<u64>) -> Result<(), OutOfMemory> {
    let start = raw::info_address(region.start.0 / LARGE_BYTES * LARGE_BYTES);
    let end = raw::info_address((region.start.0 + region.bytes).next_multiple_of(LARGE_BYTES));
    for va in (start..end).step_by(PAGE_BYTES) {
        // Two regions may lie in one lot, and a lot may have been here before.
        if !is_mapped(va) {
            let page = supply().ok_or(OutOfMemory)?;
            map_page_from(va, page | DATA, supply)?;
        }
    }
    Ok(())
}

/// Whose memory lies in a region that was to be mapped beside this instance's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Foreign {
    /// Another's; it is mapped now.
    Mapped,
    /// This instance's, some of it at least: nothing was changed.
    Own,
}

/// Maps whole lots of other holders at their place in the direct map, and describes their frames as foreign.
///
/// # Errors
/// [`OutOfMemory`] if there is none for tables.
pub(crate) fn map_foreign(region: &MemoryRegion) -> Result<Foreign, OutOfMemory> {
    NEXT_DEVICE.with(|_| {
        let mut pages = (region.start.0..region.start.0 + region.bytes).step_by(PAGE_BYTES);
        if pages.any(|pa| is_mapped(DIRECT_MAP + pa) && !is_known_foreign(pa)) || is_image(region) {
            return Ok(Foreign::Own);
        }
        map_frame_info(region)?;
        raw::note_foreign(region);
        map_range(DIRECT_MAP + region.start.0, region.start.0, region.bytes, DATA)?;
        Ok(Foreign::Mapped)
    })
}

fn is_known_foreign(pa: u64) -> bool {
    is_mapped(raw::info_address(pa)) && raw::is_foreign(pa)
}

/// True if a region meets the image, which the direct map leaves out.
pub(crate) fn is_image(region: &MemoryRegion) -> bool {
    let (start, end) = image_bounds();
    let first = slot_of(start).map_or(0, |slot| (slot.get() & ADDRESS) / LARGE_BYTES * LARGE_BYTES);
    let last = first + (end - start);
    region.start.0 < last && first < region.start.0 + region.bytes
}

/// Maps whole lots of memory that come to the instance. Those that are mapped already are not new.
///
/// # Errors
/// [`OutOfMemory`] for tables; then none is mapped that was not before.
pub(crate) fn map_lots(region: &MemoryRegion) -> Result<(), OutOfMemory> {
    let lots = || (region.start.0..region.start.0 + region.bytes).step_by(LARGE_BYTES as usize);
    let mapped = lots().try_for_each(|pa| set_entry(DIRECT_MAP + pa, 2, pa | DATA | LARGE));
    if mapped.is_err() {
        unmap_lots(region);
    }
    mapped
}

/// Takes lots out of the direct map. Each core flushes global translations before others get the memory.
pub(crate) fn unmap_lots(region: &MemoryRegion) {
    for pa in (region.start.0..region.start.0 + region.bytes).step_by(LARGE_BYTES as usize) {
        if let Some(slot) = slot_of(DIRECT_MAP + pa) {
            slot.set(0);
        }
    }
}

/// Maps the descriptions of lots in pages of `supply`, zeroed.
///
/// # Errors
/// [`OutOfMemory`] if the supply ends.
pub(crate) fn describe_lots(region: &MemoryRegion, supply: &mut dyn FnMut() -> Option<u64>) -> Result<(), OutOfMemory> {
    NEXT_DEVICE.with(|_| map_frame_info_from(region, supply))
}

/// Maps the stacks of a core and returns the top of its main stack and of its interrupt stacks. Everything between them stays
/// unmapped, so that an overflow faults.
///
/// # Errors
/// [`OutOfMemory`].
pub(crate) fn map_stacks(core: usize) -> Result<(u64, [u64; INTERRUPT_STACKS]), OutOfMemory> {
    let base = STACKS + core as u64 * STACK_STRIDE;
    let main = base + STACK_STRIDE / 2;
    map_fresh(main, STACK_BYTES)?;
    let mut interrupt = [0; INTERRUPT_STACKS];
    for (number, top) in interrupt.iter_mut().enumerate() {
        let start = base + (number as u64 + 1) * (64 << 10);
        map_fresh(start, INTERRUPT_STACK_BYTES as u64)?;
        *top = start + INTERRUPT_STACK_BYTES as u64;
    }
    Ok((main + STACK_BYTES, interrupt))
}

fn map_fresh(start: u64, bytes: u64) -> Result<(), OutOfMemory> {
    for va in (start..start + bytes).step_by(PAGE_BYTES) {
        if !is_mapped(va) {
            map_page(va, new_table().ok_or(OutOfMemory)?, DATA)?;
        }
    }
    Ok(())
}

/// Maps device memory, uncached, and returns the address of its first byte. Never unmapped.
///
/// # Errors
/// [`OutOfMemory`] if there is none for tables.
pub(crate) fn map_device(pa: u64, bytes: u64) -> Result<u64, OutOfMemory> {
    let first = pa / PAGE * PAGE;
    let length = (pa + bytes).next_multiple_of(PAGE) - first;
    NEXT_DEVICE.with(|next| {
        // Starting at the same offset within 2 MiB lets large pages be used.
        let va = *next + (first.wrapping_sub(*next) % LARGE_BYTES);
        map_range(va, first, length, DATA | UNCACHED)?;
        *next = (va + length + PAGE).next_multiple_of(PAGE);
        Ok(va + (pa - first))
    })
}

/// Maps a page of 2 MiB at an address of the device area, with this entry.
///
/// # Errors
/// [`OutOfMemory`] if there is none for tables.
pub(crate) fn map_lot(va: u64, entry: u64) -> Result<(), OutOfMemory> {
    set_entry(va, 2, entry)
}

/// Maps a page of 4 KiB at an address of the device area, with this entry.
///
/// # Errors
/// As [`map_lot`].
pub(crate) fn map_shared(va: u64, entry: u64) -> Result<(), OutOfMemory> {
    set_entry(va, 1, entry)
}

fn set_entry(va: u64, level: u32, entry: u64) -> Result<(), OutOfMemory> {
    NEXT_DEVICE.with(|_| {
        // SAFETY: kernel tables are never freed, and one core at a time makes new ones here.
        let slot = unsafe { find_or_make(root(), va, level, UPPER, new_table) }.ok_or(OutOfMemory)?;
        slot.set(entry);
        Ok(())
    })
}

/// The entry that maps a kernel address.
pub(crate) fn slot_of(va: u64) -> Option<Slot> {
    // SAFETY: kernel tables are never freed.
    unsafe { find(root(), va) }.map(|(slot, _)| slot)
}

/// Returns the first fault in the rights of the kernel's half: a page that is writable and executable, or a user page.
pub fn check_rights() -> (usize, usize) {
    let (mut writable_code, mut user) = (0, 0);
    // SAFETY: kernel tables are never freed.
    unsafe {
        for_each_leaf(root(), 256, 512, &mut |leaf| {
            writable_code += usize::from(leaf.rights & WRITE != 0 && leaf.rights & NO_EXECUTE == 0);
            user += usize::from(leaf.rights & USER != 0);
        });
    }
    (writable_code, user)
}

/// Pages of the lower half in the kernel's own table: none once the boot's identity map is gone.
pub fn count_low_pages() -> usize {
    let mut count = 0;
    // SAFETY: kernel tables are never freed.
    unsafe { for_each_leaf(root(), 0, 256, &mut |_| count += 1) };
    count
}

/// The top of the main stack of a core.
pub(crate) fn stack_top(core: usize) -> u64 {
    STACKS + core as u64 * STACK_STRIDE + STACK_STRIDE / 2 + STACK_BYTES
}

/// Bytes of this core's stack that were never used; the lower end of a stack starts as zeros.
pub fn stack_bytes_unused() -> usize {
    let start = STACKS + crate::core_index() as u64 * STACK_STRIDE + STACK_STRIDE / 2;
    // SAFETY: the core's own stack, mapped at boot; words below the stack pointer are only read.
    let word = |place: u64| unsafe { (place as *const u64).read_volatile() };
    (start..start + STACK_BYTES).step_by(8).take_while(|place| word(*place) == 0).count() * 8
}
