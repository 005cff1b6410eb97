//! The x86-64 machine, made safe: boot, cores, time, interrupts, memory, page tables, user mode, PCI.
//!
//! The functions are those of `gyre-sim`; only here are [`entry!`], [`start_cores`], [`zone`], PCI and MSI-X. Everything but the
//! start is callable from any core. The kernel runs with interrupts off and one stack per core; see [`interrupts`].
//!
//! On a host target only the parts that touch no hardware exist, with their tests.
#![no_std]
#![warn(missing_docs)]
#![cfg_attr(not(target_os = "none"), allow(dead_code, reason = "the pure parts are compiled for their tests"))]

#[cfg(target_os = "none")]
extern crate alloc;

mod acpi;
mod boot;
pub mod guest;
mod list;
mod memory;
mod paging;
mod rate;
mod zone;

#[cfg(target_os = "none")]
mod apic;
#[cfg(target_os = "none")]
mod begin_again;
#[cfg(target_os = "none")]
mod console;
#[cfg(target_os = "none")]
mod copy;
mod copy_way;
#[cfg(target_os = "none")]
mod core_local;
#[cfg(target_os = "none")]
mod debug;
#[cfg(target_os = "none")]
mod descriptors;
#[cfg(target_os = "none")]
mod dma;
#[cfg(target_os = "none")]
mod entropy;
#[cfg(target_os = "none")]
mod exception;
#[cfg(target_os = "none")]
mod extended;
#[cfg(target_os = "none")]
mod guard;
#[cfg(target_os = "none")]
mod held;
#[cfg(target_os = "none")]
mod instructions;
#[cfg(target_os = "none")]
pub mod interrupts;
#[cfg(target_os = "none")]
mod io_apic;
#[cfg(target_os = "none")]
mod kernel_map;
#[cfg(target_os = "none")]
mod lock;
#[cfg(target_os = "none")]
mod mmio;
#[cfg(target_os = "none")]
mod msix;
#[cfg(target_os = "none")]
mod note;
#[cfg(target_os = "none")]
mod online;
#[cfg(target_os = "none")]
mod page_table;
#[cfg(target_os = "none")]
mod panic;
#[cfg(target_os = "none")]
mod pci;
#[cfg(target_os = "none")]
mod pci_assign;
mod pci_lengths;
#[cfg(target_os = "none")]
mod power;
#[cfg(target_os = "none")]
mod report;
#[cfg(target_os = "none")]
mod rtc;
#[cfg(target_os = "none")]
mod serial;
#[cfg(target_os = "none")]
mod smp;
#[cfg(target_os = "none")]
mod time;
#[cfg(target_os = "none")]
mod turns;
#[cfg(target_os = "none")]
mod user;
#[cfg(target_os = "none")]
mod user_entry;
#[cfg(target_os = "none")]
mod watch;

#[cfg(all(target_os = "none", feature = "attacks"))]
pub use self::zone::attacks::attempt;
#[cfg(target_os = "none")]
pub use self::{
    apic::{clear_timer, ring_core, ring_link, set_timer, wake_core},
    begin_again::begin_again,
    boot::start::{boot_module, command_line, command_line_value, is_supervisor, zone},
    console::{console_read, console_write},
    core_local::{core_count, core_index, hardware_id, online_cores, post_event_here, take_events},
    debug::has_breakpoints,
    dma::{DmaBuffer, dma_fence},
    entropy::{add_random, fill_random},
    guard::{failure_point, guarded, last_failure, set_judge},
    held::{change_lock_word, clear_held_locks, count_held, discount_held, held_locks, lock_word, lock_word_of},
    interrupts::{idle, interrupt_window},
    kernel_map::{check_rights, count_low_pages, stack_bytes_unused},
    memory::frame::{Frame, set_memory_meter, viewing},
    memory::leaving::LotUse,
    memory::lots::{
        JoinError, begin_leaving, finish_leaving, forget_lots, has_left, join_lots, lot_use, own_lots, stay,
    },
    memory::memory_statistics,
    memory::raw::{empty_frame_cache, free_bytes, set_frame_floor},
    mmio::Mmio,
    msix::{
        attach_interrupt, detach_interrupt, interrupt_entries, move_interrupts, reserve_line, rest_interrupt,
        return_interrupts,
    },
    note::{note, noted},
    online::{come_online, go_offline, park_registers},
    page_table::{PageTable, TableRoot, flush_all_local, flush_page_local},
    panic::PANIC_CODE,
    pci::{ListedFunction, PciDevice, pci_devices, pci_listing},
    power::refuse,
    smp::{Arrival, NotStarted, fetch_core, give_up_core, start_cores},
    time::{boot_cycles, clock_scale, cycles_per_ms, now, set_wall_clock_ns, timer_rate, wall_clock_ns},
    turns::{replace_turns, take_turn, turns_left},
    user::{UserContext, enter_user},
    watch::{
        STUCK_CODE, ask_to_end, asked_to_end, end_unreachable, forget_asked, knock, knocks_answered_by, mark_work,
        pass_safe_point, ran_since_asked, set_end_hook, show_stuck, work_mark, work_mark_of,
    },
    zone::breach::{Breach, Deed},
    zone::calls::{CorePlace, NoAnswer, ZoneEntry, call_core, core_place, park_core},
    zone::clearing::{ClearError, Clearing, clear_lots},
    zone::crossing::return_core,
    zone::devices::{DeviceStuck, settle},
    zone::end::end_instance,
    zone::functions::join_function,
    zone::image::{PristineImage, pristine_image},
    zone::inside::{beat, ring_supervisor, supervisor_asks_to_end, tell_standing, zone_page, zone_plan},
    zone::instance::Instance,
    zone::instance_plan::{InstancePlan, PlanError},
    zone::lots::{LotState, last_holder, lot_state},
    zone::making::prepare_instance,
    zone::pool::{LOT_BYTES, Pool, pool},
    zone::reset::{Force, Progress, Reset, reset_core, reset_core_by},
    zone::shared_lot::{ShareError, SharedLot, share_lot},
    zone::stop::{Stop, StopError},
    zone::wall::has_walls,
};
pub use memory::MemoryStatistics;

/// Declares the kernel's main function, which runs on the boot core once the machine is set up: `fn() -> !`.
///
/// ```ignore
/// gyre_x86_64::entry!(main);
/// fn main() -> ! { gyre_x86_64::end_instance(0) }
/// ```
///
/// Words of the command line that this kernel knows, beside those of the platform, are declared with it:
/// `entry!(main, words: ["crash"])`. Others are warned of.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        $crate::entry!($main, words: []);
    };
    ($main:path, words: [$($word:literal),*]) => {
        #[allow(unsafe_code, reason = "the platform finds the binary's words by their name")]
        #[unsafe(no_mangle)]
        fn gyre_kernel_words() -> &'static [&'static str] {
            &[$($word),*]
        }
        #[allow(unsafe_code, reason = "the platform finds the binary's main function by its name")]
        #[unsafe(no_mangle)]
        fn gyre_kernel_main() -> ! {
            let main: fn() -> ! = $main;
            main()
        }
    };
}
