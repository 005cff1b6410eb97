//! The end of an instance: of the machine if the machine is its own, otherwise of this zone alone.
//!
//! A zone writes its code, its last words and the trace of its failure to the page, rings its supervisor, and gives its cores back.

use super::{crossing, inside};
use crate::{apic, power};
use core::fmt::{Display, Write};
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_platform::zone_page::{ZONE_TRACE_MAX, ZONE_WORDS_BYTES};
use gyre_platform::{ZoneLife, ZonePage};

static ENDING: AtomicBool = AtomicBool::new(false);

/// Ends this instance with an exit code: the machine, if it has the machine for itself or supervises it; a zone ends alone.
pub fn end_instance(code: u8) -> ! {
    match inside::zone_page() {
        Some(page) => end_zone(page, code),
        None => power::shut_down(code),
    }
}

/// True once the cores of this zone are given back: an NMI says so to each.
pub(crate) fn is_ending() -> bool {
    ENDING.load(Ordering::Acquire)
}

fn end_zone(page: &ZonePage, code: u8) -> ! {
    if ENDING.swap(true, Ordering::AcqRel) {
        // Another core ends it, or this one has failed meanwhile.
        crossing::leave();
    }
    let has_failed = crate::panic::dying();
    if !has_failed {
        apic::stop_other_cores();
    }
    page.life.code.store(u32::from(code), Ordering::Relaxed);
    page.life.state.store(if has_failed { ZoneLife::PANICKED } else { ZoneLife::ENDED }, Ordering::Release);
    inside::ring_supervisor();
    crossing::leave()
}

/// True of a zone that has written last words.
pub(crate) fn has_last_words() -> bool {
    inside::zone_page().is_some_and(|page| page.life.words_count.load(Ordering::Acquire) != 0)
}

/// Writes a zone's last words. The first ones stay: what follows is their consequence.
pub(crate) fn write_last_words(words: impl Display) {
    let Some(page) = inside::zone_page() else { return };
    if page.life.words_count.load(Ordering::Relaxed) == 0 {
        let mut writer = Words { page, count: 0 };
        // Words that are too long are cut, which is no error.
        let _ = write!(writer, "{words}");
        page.life.words_count.store(writer.count as u32, Ordering::Release);
    }
}

/// Writes a place of the trace of the failure that ends a zone.
pub(crate) fn write_place(depth: usize, place: u64) {
    let Some(page) = inside::zone_page() else { return };
    if let Some(slot) = page.life.trace.get(depth) {
        slot.store(place, Ordering::Relaxed);
        page.life.trace_count.store((depth + 1).min(ZONE_TRACE_MAX) as u32, Ordering::Release);
    }
}

struct Words {
    page: &'static ZonePage,
    count: usize,
}

impl Write for Words {
    /// Writes whole letters as long as there is room.
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for letter in text.chars() {
            let mut bytes = [0; 4];
            let bytes = letter.encode_utf8(&mut bytes).as_bytes();
            if self.count + bytes.len() > ZONE_WORDS_BYTES {
                return Err(core::fmt::Error);
            }
            for byte in bytes {
                self.page.life.words[self.count].store(*byte, Ordering::Relaxed);
                self.count += 1;
            }
        }
        Ok(())
    }
}
