//! The serial port: a 16550 at the first port of a PC.

use crate::instructions::{inb, outb};
use core::sync::atomic::{AtomicBool, Ordering};

const PORT: u16 = 0x3f8;
const DATA: u16 = PORT;
const INTERRUPT_ENABLE: u16 = PORT + 1;
const FIFO_CONTROL: u16 = PORT + 2;
const LINE_CONTROL: u16 = PORT + 3;
const MODEM_CONTROL: u16 = PORT + 4;
const LINE_STATUS: u16 = PORT + 5;
/// A transmitter that stays busy for so many reads is broken: its bytes are dropped, the machine goes on.
const PATIENCE: u32 = 100_000;

static BROKEN: AtomicBool = AtomicBool::new(false);

/// Sets 115200 baud, 8 bits, no parity, FIFOs on, interrupts off.
pub(crate) fn start() {
    let settings = [
        (INTERRUPT_ENABLE, 0),
        (LINE_CONTROL, 0x80),
        (DATA, 1),
        (INTERRUPT_ENABLE, 0),
        (LINE_CONTROL, 0x03),
        (FIFO_CONTROL, 0xc7),
        (MODEM_CONTROL, 0x0b),
    ];
    for (port, value) in settings {
        // SAFETY: the ports are the console's.
        unsafe { outb(port, value) };
    }
}

/// Lets received bytes raise the port's interrupt.
pub(crate) fn enable_receive_interrupt() {
    // SAFETY: the port is the console's.
    unsafe { outb(INTERRUPT_ENABLE, 1) };
}

/// Takes a byte that was received.
pub(crate) fn read_byte() -> Option<u8> {
    // SAFETY: the ports are the console's.
    if unsafe { inb(LINE_STATUS) } & 1 == 0 {
        return None;
    }
    // SAFETY: as above.
    Some(unsafe { inb(DATA) })
}

/// Writes a byte, once the transmitter has room.
pub(crate) fn write_byte(byte: u8) {
    if BROKEN.load(Ordering::Relaxed) {
        return;
    }
    for _ in 0..PATIENCE {
        // SAFETY: the ports are the console's.
        if unsafe { inb(LINE_STATUS) } & 0x20 != 0 {
            // SAFETY: as above.
            unsafe { outb(DATA, byte) };
            return;
        }
        core::hint::spin_loop();
    }
    BROKEN.store(true, Ordering::Relaxed);
}
