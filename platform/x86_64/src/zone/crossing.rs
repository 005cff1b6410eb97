//! The way of a core out of this zone, to its supervisor's parking loop.
//!
//! The code that changes page tables must lie at one address in both: the page of the plan's `parking_entry` does. The kernel's own table has
//! no page in the lower half, so a table of its own is made for the crossing, as for the trampoline of a lone kernel's cores.

use super::{cores, inside, wall_calls};
use crate::instructions::halt_forever;
use crate::memory::raw;
use crate::paging::{ACCESSED, GLOBAL, PRESENT, WRITE, copy_entries, find_or_make, is_under_boot_mapping};
use crate::{apic, debug, kernel_map, page_table};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_platform::{OutOfMemory, PAGE_BYTES, ZonePlan};

/// The page table of crossings; 0 before it is made.
static ROOT: AtomicU64 = AtomicU64::new(0);

/// The physical address of the page table with which cores come and go; 0 if the plan has no parking loop. Cores come through a wall with
/// the kernel's own.
pub(crate) fn root() -> u64 {
    if inside::is_walled() { kernel_map::root() } else { ROOT.load(Ordering::Acquire) }
}

/// Makes the page table of crossings. Boot core, once memory can be had.
///
/// # Errors
/// [`OutOfMemory`].
pub(crate) fn prepare(plan: &ZonePlan) -> Result<(), OutOfMemory> {
    if plan.parking_entry == 0 {
        return Ok(());
    }
    let page = plan.parking_entry / PAGE_BYTES as u64 * PAGE_BYTES as u64;
    let new_table = || raw::take_frames(0, true);
    let root = new_table().ok_or(OutOfMemory)?;
    // SAFETY: the kernel's half, and a fresh root.
    unsafe { copy_entries(kernel_map::root(), root, 256, 256) };
    // SAFETY: the new root is ours.
    let slot = unsafe { find_or_make(root, page, 1, PRESENT | WRITE | ACCESSED, new_table) }.ok_or(OutOfMemory)?;
    slot.set((page | PRESENT | ACCESSED) & !GLOBAL);
    ROOT.store(root, Ordering::Release);
    Ok(())
}

/// Gives a core that has left this zone while it runs ([`crate::go_offline`]) back to the supervisor: it waits at its box again.
pub fn return_core() -> ! {
    leave()
}

/// Gives this core back to the supervisor; halts it for ever if there is no way there. Callable in any state.
pub(crate) fn leave() -> ! {
    // The way leads over addresses that programs may have.
    debug::rest();
    if inside::is_walled() {
        apic::silence();
        wall_calls::leave();
    }
    let (Some(plan), Some(place)) = (inside::zone_plan(), cores::box_here()) else { halt_forever() };
    apic::silence();
    if root() != 0 {
        page_table::load_root(root());
    } else if plan.parking_entry == 0 || !is_under_boot_mapping() {
        halt_forever();
    }
    cross(plan, place)
}

fn cross(plan: &ZonePlan, box_address: u64) -> ! {
    // SAFETY: the page of the entry is mapped at its address in the root that is loaded, boot's or that of crossings, and in the parking
    // loop's; this core needs nothing of this kernel any more.
    unsafe {
        asm!("cli", "jmp {entry}", entry = in(reg) plan.parking_entry, in("rdi") plan.parking_root, in("rsi") box_address, options(noreturn))
    }
}
