//! When interrupts are let in: in user mode and here, nowhere else.

use crate::core_local::this_core;
use core::arch::asm;

/// Lets pending interrupts in; returns with interrupts off.
#[inline]
pub fn interrupt_window() {
    // SAFETY: the entry code only sets bits of this core's event word. The instruction after STI still runs without interrupts.
    unsafe { asm!("sti", "nop", "cli", options(nostack)) };
}

/// Waits for an interrupt; returns at once if events wait to be taken.
///
/// A wake-up between the look and the halt is not lost: interrupts stay off until the halt itself (STI's shadow, SDM vol. 2 STI).
#[inline]
pub fn idle() {
    if this_core().events.get() != 0 {
        return;
    }
    // SAFETY: as above.
    unsafe { asm!("sti", "hlt", "cli", options(nostack)) };
}
