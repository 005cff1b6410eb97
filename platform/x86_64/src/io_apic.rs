//! The I/O APIC, for the one legacy interrupt that matters: input on the console (Intel 82093AA).

use crate::acpi::Tables;
use crate::apic;
use crate::instructions::outb;
use crate::kernel_map;
use crate::serial;
use crate::user_entry::VECTOR_FIRST_EVENT;
use gyre_platform::Events;

/// Silences the old PICs and sends the serial port's interrupt to this core.
pub(crate) fn start(tables: &Tables) {
    // SAFETY: masks all lines of both 8259s, which nobody uses.
    unsafe { outb(0x21, 0xff) };
    // SAFETY: as above.
    unsafe { outb(0xa1, 0xff) };
    let Some((pa, first)) = tables.io_apic else { return };
    let Ok(registers) = kernel_map::map_device(pa, 32) else { return };
    let (interrupt, level, low) = tables.serial_interrupt;
    let write = |index: u32, value: u32| {
        // SAFETY: the select and window registers of the I/O APIC, mapped above.
        unsafe { (registers as *mut u32).write_volatile(index) };
        // SAFETY: as above.
        unsafe { ((registers + 16) as *mut u32).write_volatile(value) };
    };
    let Some(pin) = interrupt.checked_sub(first).filter(|pin| *pin < 24) else { return };
    let vector = VECTOR_FIRST_EVENT as u32 + Events::CONSOLE.trailing_zeros();
    write(0x10 + 2 * pin + 1, apic::id() << 24);
    write(0x10 + 2 * pin, vector | u32::from(low) << 13 | u32::from(level) << 15);
    serial::enable_receive_interrupt();
}
