//! The end of a kernel that found itself wrong: say where, stop every core, end the machine with an exit code.

use crate::console;
use crate::guard;
use crate::zone::end::{end_instance, write_last_words, write_place};
use core::fmt::{Display, Formatter};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_platform::{FailedAt, Verdict};
use log::error;

/// Exit code of a machine whose kernel panicked; QEMU's debug exit makes 203 of it.
pub const PANIC_CODE: u8 = 101;

static DYING: AtomicBool = AtomicBool::new(false);
/// Frames of the trace; deeper ones are cut.
pub(crate) const TRACE_DEPTH: usize = 32;

#[panic_handler]
fn on_panic(info: &PanicInfo) -> ! {
    let (rip, rbp): (u64, u64);
    // SAFETY: reads two registers.
    unsafe { core::arch::asm!("lea {}, [rip]", "mov {}, rbp", out(reg) rip, out(reg) rbp, options(nomem, nostack)) };
    let reason = match guard::judge(FailedAt::Call) {
        Verdict::Contain => guard::give_up(&Told(info), rip, rbp),
        Verdict::EndMachine(reason) => reason,
    };
    begin_dying();
    write_last_words(format_args!("{}; not contained: {reason}", Told(info)));
    error!(target: "panic", "{}", Told(info));
    error!(target: "panic", "{reason}: the failure cannot be contained");
    print_trace(rip, rbp);
    stop_machine()
}

/// A panic in one line.
struct Told<'a>(&'a PanicInfo<'a>);

impl Display for Told<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        let message = self.0.message();
        match self.0.location() {
            Some(place) => write!(f, "{message} at {}:{}", place.file(), place.line()),
            None => write!(f, "{message}"),
        }
    }
}

/// True once a core has begun to die.
pub(crate) fn dying() -> bool {
    DYING.load(Ordering::Acquire)
}

/// Stops the other cores and takes the console. A second failure on the way down ends the machine at once.
pub(crate) fn begin_dying() {
    if DYING.swap(true, Ordering::AcqRel) {
        end_instance(PANIC_CODE);
    }
    guard::forget_stack();
    crate::apic::stop_other_cores();
    console::seize();
}

/// Ends the machine after a dump.
pub(crate) fn stop_machine() -> ! {
    error!(target: "panic", "the machine stops with code {PANIC_CODE}");
    end_instance(PANIC_CODE)
}

/// Prints the places of calls, found through frame pointers, as lines `trace: N 0xADDRESS`. `gyre run` shows names, files and lines below
/// each, from the kernel's ELF file; for a log from elsewhere `gyre symbolise` does.
pub(crate) fn print_trace(rip: u64, rbp: u64) {
    for (depth, place) in core::iter::once(rip).chain(Places(rbp)).take(TRACE_DEPTH).enumerate() {
        error!(target: "trace", "{depth} {place:#018x}");
        write_place(depth, place);
    }
}

/// The places of calls above a frame, through frame pointers.
pub(crate) struct Places(pub(crate) u64);

impl Iterator for Places {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        let rbp = self.0;
        if !rbp.is_multiple_of(8) || !crate::kernel_map::is_mapped(rbp) || !crate::kernel_map::is_mapped(rbp + 8) {
            return None;
        }
        // SAFETY: both words are mapped kernel memory.
        let [next, address] = unsafe { *(rbp as *const [u64; 2]) };
        // Frames lie above each other; 0 stops at the check of the mapping.
        self.0 = if next > rbp { next } else { 0 };
        // One less: the last byte of the call, not the line after it.
        crate::kernel_map::in_text(address).then(|| address - 1)
    }
}
