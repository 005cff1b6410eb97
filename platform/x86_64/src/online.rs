//! Cores that leave the instance and come back to the slots that they had.
//!
//! A core that leaves has no program, no task and no interrupt line of the layers above. Here it gives back the frames that it keeps, leaves
//! the page tables of programs, so that no flush waits for it, and takes its bit out of the mask: no core interrupts it from then on. Its
//! slabs stay with the slot; what others free of them meanwhile waits for its return.
//!
//! Left out: where the core goes, and the state of the processor at its return (descriptors, page attributes, interrupt controller), which is
//! the parking code's.

use crate::core_local::{count_slot, set_offline, set_online, this_core};
use crate::memory::{heap, raw};
use crate::{apic, debug, extended, instructions, kernel_map, page_table};
use core::sync::atomic::Ordering;

/// Takes the calling core out of the instance. It still runs on its stack, in the kernel's own page table, with its timer disarmed.
pub fn go_offline() {
    apic::clear_timer();
    debug::rest();
    extended::park_registers();
    page_table::load_root(kernel_map::root());
    page_table::leave_dropped_table();
    heap::collect_here();
    raw::empty_frame_cache();
    set_offline();
}

/// The calling core runs the instance from now on, in the slot that its GS base names.
pub fn come_online() {
    let core = this_core();
    core.events.set(0);
    core.user_segments.set((0, 0, 0));
    core.extended_owner.store(0, Ordering::Release);
    set_online();
    count_slot();
    page_table::load_root(kernel_map::root());
    instructions::flush_global();
}

/// Saves the registers of the program that stopped on this core last, so that it may go on at another core.
pub fn park_registers() {
    extended::park_registers();
}
