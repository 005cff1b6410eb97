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
mod list;
mod memory;
mod rate;

macro_rules! machine_modules {
    ($($(#[$attribute:meta])* $visible:vis mod $name:ident;)*) => {$(
        #[cfg(target_os = "none")]
        $(#[$attribute])*
        $visible mod $name;
    )*};
}

machine_modules! {
    mod apic;
    mod console;
    mod copy;
    mod core_local;
    mod descriptors;
    mod dma;
    mod entropy;
    mod exception;
    mod extended;
    mod guard;
    mod instructions;
    pub mod interrupts;
    mod io_apic;
    mod kernel_map;
    mod lock;
    mod mmio;
    mod msix;
    mod page_table;
    mod paging;
    mod panic;
    mod pci;
    mod pci_assign;
    mod power;
    mod rtc;
    mod smp;
    mod time;
    mod user;
    mod user_entry;
    mod watch;
}

#[cfg(target_os = "none")]
pub use self::{
    apic::{clear_timer, set_timer, wake_core},
    boot::start::{boot_module, command_line, command_line_value, zone},
    console::{console_read, console_write},
    core_local::{core_count, core_index, take_events},
    dma::{DmaBuffer, dma_fence},
    entropy::{add_random, fill_random},
    guard::{check_stack, guarded, last_failure, set_judge},
    interrupts::{idle, interrupt_window},
    kernel_map::{check_rights, count_low_pages, stack_bytes_unused},
    memory::frame::{Frame, set_memory_meter, viewing},
    memory::memory_statistics,
    memory::raw::{free_bytes, set_frame_floor},
    mmio::Mmio,
    msix::{attach_interrupt, detach_interrupt, interrupt_entries},
    page_table::{PageTable, TableRoot, flush_all_local, flush_page_local},
    panic::PANIC_CODE,
    pci::{ListedFunction, PciDevice, pci_devices, pci_listing},
    power::{NO_START_CODE, shut_down},
    smp::start_cores,
    time::{boot_cycles, clock_scale, cycles_per_ms, now, set_wall_clock_ns, wall_clock_ns},
    user::{UserContext, enter_user},
    watch::{
        STUCK_CODE, ask_to_end, asked_to_end, end_unreachable, forget_asked, mark_work, safe_point, set_end_hook,
        show_stuck, work_mark, work_mark_of,
    },
};
pub use memory::MemoryStatistics;

/// Declares the kernel's main function, which runs on the boot core once the machine is set up: `fn() -> !`.
///
/// ```ignore
/// gyre_x86_64::entry!(main);
/// fn main() -> ! { gyre_x86_64::shut_down(0) }
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
