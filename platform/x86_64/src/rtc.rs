//! The battery-backed clock (Motorola MC146818), read once at boot.

use crate::instructions::{inb, outb};

fn register(index: u8) -> u8 {
    // SAFETY: selects and reads a register of the clock; bit 7 keeps NMIs as they are (on).
    unsafe {
        outb(0x70, index);
        inb(0x71)
    }
}

/// Seconds, minutes, hours, day, month, year as the chip keeps them.
fn registers() -> [u8; 6] {
    [0, 2, 4, 7, 8, 9].map(register)
}

/// Most looks at the clock: an update takes 2 ms, and an emulator that gets no processor leaves it under way for seconds.
const LOOKS_MAX: u32 = 5_000_000;
/// A bus without a device answers this.
const NOBODY: u8 = 0xff;

/// Reads the clock; 0 if there is none.
pub(crate) fn seconds_since_1970() -> u64 {
    for _ in 0..LOOKS_MAX {
        // Register A says whether an update is going on; two equal readings tell that none came between.
        match register(10) {
            NOBODY => return 0,
            state if state & 0x80 != 0 => {
                core::hint::spin_loop();
                continue;
            }
            _ => {}
        }
        let (first, second) = (registers(), registers());
        if first == second {
            return decode(first, register(11)).unwrap_or(0);
        }
    }
    0
}

fn decode(raw: [u8; 6], format: u8) -> Option<u64> {
    let afternoon = raw[2] & 0x80 != 0;
    let number = |value: u8| if format & 4 != 0 { value } else { (value >> 4) * 10 + (value & 15) };
    let [second, minute, _, day, month, year] = raw.map(|value| u64::from(number(value)));
    let mut hour = u64::from(number(raw[2] & 0x7f));
    if format & 2 == 0 {
        hour = hour % 12 + if afternoon { 12 } else { 0 };
    }
    let valid =
        second < 60 && minute < 60 && hour < 24 && (1..=31).contains(&day) && (1..=12).contains(&month) && year < 100;
    valid.then(|| (days_since_1970(2000 + year, month, day) * 24 + hour) * 3600 + minute * 60 + second)
}

/// Days of the Gregorian calendar, with years that begin in March.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468
}
