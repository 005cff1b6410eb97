//! The end of a kernel that found itself wrong: say where, stop every core, end the machine with an exit code.

use crate::console;
use crate::power::shut_down;
use core::sync::atomic::{AtomicBool, Ordering};
use log::error;

/// Exit code of a machine whose kernel panicked; QEMU's debug exit makes 203 of it.
pub const PANIC_CODE: u8 = 101;

static DYING: AtomicBool = AtomicBool::new(false);
/// Frames of the trace; deeper ones are cut.
const TRACE_DEPTH: usize = 32;

#[panic_handler]
fn on_panic(info: &core::panic::PanicInfo) -> ! {
    begin_dying();
    match info.location() {
        Some(place) => error!(target: "panic", "{} at {}:{}", info.message(), place.file(), place.line()),
        None => error!(target: "panic", "{}", info.message()),
    }
    let (rip, rbp): (u64, u64);
    // SAFETY: reads two registers.
    unsafe { core::arch::asm!("lea {}, [rip]", "mov {}, rbp", out(reg) rip, out(reg) rbp, options(nomem, nostack)) };
    print_trace(rip, rbp);
    stop_machine()
}

/// True once a core has begun to die.
pub(crate) fn dying() -> bool {
    DYING.load(Ordering::Acquire)
}

/// Stops the other cores and takes the console. A second failure on the way down ends the machine at once.
pub(crate) fn begin_dying() {
    if DYING.swap(true, Ordering::AcqRel) {
        shut_down(PANIC_CODE);
    }
    crate::apic::stop_other_cores();
    console::seize();
}

/// Ends the machine after a dump.
pub(crate) fn stop_machine() -> ! {
    error!(target: "panic", "the machine stops with code {PANIC_CODE}");
    shut_down(PANIC_CODE)
}

/// Prints the places of calls, found through frame pointers, as lines `trace: N 0xADDRESS`. `gyre run` shows names, files and lines below
/// each, from the kernel's ELF file; for a log from elsewhere `gyre symbolise` does.
pub(crate) fn print_trace(rip: u64, mut rbp: u64) {
    error!(target: "trace", "0 {rip:#018x}");
    for depth in 1..TRACE_DEPTH {
        if !rbp.is_multiple_of(8) || !crate::kernel_map::is_mapped(rbp) || !crate::kernel_map::is_mapped(rbp + 8) {
            return;
        }
        // SAFETY: both words are mapped kernel memory.
        let [next, address] = unsafe { *(rbp as *const [u64; 2]) };
        if !crate::kernel_map::in_text(address) {
            return;
        }
        // One less: the last byte of the call, not the line after it.
        error!(target: "trace", "{depth} {:#018x}", address - 1);
        if next <= rbp {
            return;
        }
        rbp = next;
    }
}
