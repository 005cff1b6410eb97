//! A split ring, driver's side (virtio 1.2, 2.7), in one frame of the cell. The kernel writes the used ring; its numbers are checked by who
//! uses them.

use core::sync::atomic::{Ordering, fence};

use gyre_cell_abi::device::QUIET;

use crate::memory::{PAGE_BYTES, Window};

/// Entries of a ring.
pub const ENTRIES: u16 = 32;

const AVAILABLE: u64 = 1024;
const USED: u64 = 2048;

/// A descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its number.
    pub number: u64,
    /// The physical address of its memory.
    pub physical: u64,
    /// The bytes there.
    pub bytes: u64,
    /// Its flags.
    pub flags: u16,
    /// The number of the next one, if there is one.
    pub next: u64,
}

/// A chain that the kernel is done with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Used {
    /// Its first descriptor.
    pub head: u64,
    /// Bytes that were written to it.
    pub bytes: u64,
}

/// The ring.
#[derive(Debug)]
pub struct Split {
    base: u64,
    /// Chains published and taken back so far, both wrapping.
    asked: u16,
    seen: u16,
}

impl Split {
    /// Makes an empty ring in a frame.
    pub fn new<W: Window + ?Sized>(window: &mut W, base: u64) -> Self {
        window.clear(base, PAGE_BYTES);
        Self { base, asked: 0, seen: 0 }
    }

    /// Physical addresses of descriptors, available and used ring.
    pub fn parts(&self) -> [u64; 3] {
        [self.base, self.base + AVAILABLE, self.base + USED]
    }

    /// Writes half a word of two bytes.
    fn write_short<W: Window + ?Sized>(&self, window: &mut W, at: u64, value: u16) {
        let (place, shift) = (self.base + at / 8 * 8, at % 8 * 8);
        let word = window.read(place) & !(0xffff << shift) | u64::from(value) << shift;
        window.write(place, word);
    }

    /// Writes a descriptor.
    pub fn describe<W: Window + ?Sized>(&self, window: &mut W, part: Part) {
        window.write(self.base + part.number * 16, part.physical);
        window.write(self.base + part.number * 16 + 8, part.bytes | u64::from(part.flags) << 32 | part.next << 48);
    }

    /// Publishes a chain. Returns whether the kernel is to be told.
    pub fn publish<W: Window + ?Sized>(&mut self, window: &mut W, head: u64) -> bool {
        self.write_short(window, AVAILABLE + 4 + u64::from(self.asked % ENTRIES) * 2, head as u16);
        self.asked = self.asked.wrapping_add(1);
        fence(Ordering::Release);
        self.write_short(window, AVAILABLE + 2, self.asked);
        // Published before the wish is read, as the kernel says its wish before it looks.
        fence(Ordering::SeqCst);
        window.read(self.base + USED) as u16 & QUIET == 0
    }

    /// Returns whether the kernel is done with a chain that was not taken back.
    pub fn has_used<W: Window + ?Sized>(&self, window: &W) -> bool {
        (window.read(self.base + USED) >> 16) as u16 != self.seen
    }

    /// Takes back a chain, if the kernel is done with one.
    pub fn take<W: Window + ?Sized>(&mut self, window: &W) -> Option<Used> {
        if !self.has_used(window) {
            return None;
        }
        fence(Ordering::Acquire);
        let at = self.base + USED + u64::from(self.seen % ENTRIES) * 8;
        self.seen = self.seen.wrapping_add(1);
        Some(Used { head: window.read(at) >> 32, bytes: window.read(at + 8) & 0xffff_ffff })
    }
}
