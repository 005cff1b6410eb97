//! The console, and the kernel's log on it: the serial port of a machine, or the ring that a zone shares with its supervisor.

use crate::lock::SpinLock;
use crate::serial;
use crate::zone::inside;
use core::fmt::Write;
use core::sync::atomic::{AtomicU8, Ordering};

/// The place that printed bytes go to.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Sink {
    /// Nobody: boot does not yet know whose machine this is.
    Nobody,
    /// The serial port.
    Serial,
    /// The ring in the zone's page.
    ZonePage,
}

static SINK: AtomicU8 = AtomicU8::new(Sink::Nobody as u8);
/// Held by the core that prints: an instance's own, also if several print on one machine.
static OUTPUT: SpinLock<()> = SpinLock::new(());

/// Starts the console and the log on it.
pub(crate) fn start(sink: Sink) {
    if sink == Sink::Serial {
        serial::start();
    }
    SINK.store(sink as u8, Ordering::Release);
    let _ = log::set_logger(&ConsoleLog);
    log::set_max_level(log::LevelFilter::Info);
}

fn is(sink: Sink) -> bool {
    SINK.load(Ordering::Relaxed) == sink as u8
}

/// Writes bytes to the console. Lines of different cores do not mix when each is written by one call.
pub fn console_write(bytes: &[u8]) {
    OUTPUT.with(|()| write_to_sink(bytes));
}

fn write_to_sink(bytes: &[u8]) {
    if is(Sink::Serial) {
        bytes.iter().for_each(|byte| serial::write_byte(*byte));
    } else if let Some(page) = inside::zone_page() {
        page.console.print(bytes);
    }
}

/// Looks at the console's lock before a line is written beside its holder's: some milliseconds.
const ASIDE_LOOKS: u32 = 1_000_000;

/// Says a line from an NMI, whose core may hold the console: then the line stands in the middle of another one.
pub(crate) fn say_aside(target: &str, words: core::fmt::Arguments<'_>) {
    let mut line = Line::of(log::Level::Warn, target, words);
    let bytes = line.ended();
    OUTPUT.alone_or_beside(ASIDE_LOOKS, || write_to_sink(bytes));
}

/// Reads what the console has received; returns how many bytes. Never waits. A zone's console receives nothing.
pub fn console_read(into: &mut [u8]) -> usize {
    if !is(Sink::Serial) {
        return 0;
    }
    let received = into.iter_mut().map_while(|place| serial::read_byte().map(|byte| *place = byte));
    received.count()
}

/// Takes the console from whoever holds it. For a core that dies.
pub(crate) fn seize() {
    OUTPUT.break_open();
}

/// A line that is built up and then written at once. The part that does not fit is cut.
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

    /// A line of the log.
    fn of(level: log::Level, target: &str, words: core::fmt::Arguments<'_>) -> Line {
        let microseconds = crate::time::microseconds_since_boot();
        let (seconds, rest) = (microseconds / 1_000_000, microseconds % 1_000_000);
        let mut line = Line::new();
        let _ = write!(line, "[{seconds:5}.{rest:06}] {level:5} {} {target}: {words}", crate::core_index());
        line
    }

    /// Its bytes, with a line end.
    fn ended(&mut self) -> &[u8] {
        let end = self.length.min(Line::BYTES - 2);
        self.bytes[end] = b'\r';
        self.bytes[end + 1] = b'\n';
        &self.bytes[..end + 2]
    }

    /// Writes it to the console, with a line end.
    pub(crate) fn finish(mut self) {
        console_write(self.ended());
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
        let target = record.target().strip_prefix("gyre_").unwrap_or(record.target());
        Line::of(record.level(), target, *record.args()).finish();
    }

    fn flush(&self) {}
}
