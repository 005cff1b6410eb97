//! The serial console: a 16550 at the first port of a PC, and the kernel's log on it.

use crate::instructions::{inb, outb};
use crate::lock::SpinLock;
use core::fmt::Write;
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

static OUTPUT: SpinLock<()> = SpinLock::new(());
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
    let _ = log::set_logger(&ConsoleLog);
    log::set_max_level(log::LevelFilter::Info);
}

/// Lets received bytes raise the console's interrupt.
pub(crate) fn enable_receive_interrupt() {
    // SAFETY: the port is the console's.
    unsafe { outb(INTERRUPT_ENABLE, 1) };
}

/// Writes bytes to the console. Lines of different cores do not mix when each is written by one call.
pub fn console_write(bytes: &[u8]) {
    OUTPUT.with(|()| bytes.iter().for_each(|byte| write_byte(*byte)));
}

/// Reads what the console has received; returns how many bytes. Never waits.
pub fn console_read(into: &mut [u8]) -> usize {
    let mut count = 0;
    while count < into.len() {
        // SAFETY: the ports are the console's.
        if unsafe { inb(LINE_STATUS) } & 1 == 0 {
            break;
        }
        // SAFETY: as above.
        into[count] = unsafe { inb(DATA) };
        count += 1;
    }
    count
}

/// Takes the console from whoever holds it. For a core that dies.
pub(crate) fn seize() {
    OUTPUT.break_open();
}

fn write_byte(byte: u8) {
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

/// A line that is built up and then written at once. What does not fit is cut.
pub(crate) struct Line {
    bytes: [u8; Line::BYTES],
    length: usize,
}

impl Line {
    const BYTES: usize = 512;

    /// An empty line.
    pub(crate) const fn new() -> Line {
        Line { bytes: [0; Line::BYTES], length: 0 }
    }

    /// Writes it to the console, with a line end.
    pub(crate) fn finish(mut self) {
        self.length = self.length.min(Line::BYTES - 2);
        self.bytes[self.length] = b'\r';
        self.bytes[self.length + 1] = b'\n';
        console_write(&self.bytes[..self.length + 2]);
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for byte in text.bytes() {
            if self.length < Line::BYTES - 2 {
                self.bytes[self.length] = if byte == b'\n' { b' ' } else { byte };
                self.length += 1;
            }
        }
        Ok(())
    }
}

struct ConsoleLog;

impl log::Log for ConsoleLog {
    fn enabled(&self, metadata: &log::Metadata) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &log::Record) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let microseconds = crate::time::microseconds_since_boot();
        let target = record.target().strip_prefix("gyre_").unwrap_or(record.target());
        let mut line = Line::new();
        let _ = write!(
            line,
            "[{:5}.{:06}] {:5} {} {}: {}",
            microseconds / 1_000_000,
            microseconds % 1_000_000,
            record.level(),
            crate::core_index(),
            target,
            record.args()
        );
        line.finish();
    }

    fn flush(&self) {}
}
