//! Ending the machine.

use crate::acpi;
use crate::instructions::{halt_forever, outb, outl, outw};
use crate::zone::end;

/// QEMU's `isa-debug-exit` device: the process exits with `code * 2 + 1`.
const DEBUG_EXIT: u16 = 0xf4;
/// The keyboard controller's command port; 0xfe pulls the reset line.
const KEYBOARD_COMMAND: u16 = 0x64;

/// Exit code of an instance that could not start and has said why; QEMU's debug exit makes 7 of it.
pub(crate) const NO_START_CODE: u8 = 3;

/// Ends an instance that cannot start, and says why.
pub fn refuse(reason: impl core::fmt::Display) -> ! {
    log::error!(target: "platform", "the machine cannot start: {reason}");
    end::write_last_words(&reason);
    end::end_instance(NO_START_CODE)
}

/// Ends the machine with an exit code. Tries, in this order: the emulator's debug exit, ACPI soft-off, reset.
pub(crate) fn shut_down(code: u8) -> ! {
    // SAFETY: without the device the write is ignored.
    unsafe { outl(DEBUG_EXIT, u32::from(code)) };
    if let Some((port, sleep_type)) = acpi::tables().and_then(|tables| tables.soft_off) {
        // SAFETY: the firmware names the port and value that turn the machine off (ACPI 6.5, 4.8.3.2).
        unsafe { outw(port, sleep_type << 10 | 1 << 13) };
    }
    // SAFETY: resets the machine, which is wanted; QEMU runs with -no-reboot.
    unsafe { outb(KEYBOARD_COMMAND, 0xfe) };
    halt_forever()
}
