//! The queue of a disk, driver's side (virtio 1.2, 2.7 and 5.2.6). It lies in one block of frames of the cell.
//!
//! Each slot has three descriptors, a header and a status of its own. The kernel writes the used ring; its numbers are checked all the same.

use gyre_cell_abi::device::{DeviceRequest, HEADER_BYTES, NEXT, SECTOR_BYTES, WRITE, kind, status};

use super::{
    Buffer,
    split::{ENTRIES, Part, Split},
};
use crate::memory::{PAGE_BYTES, Window};

/// Requests that can be under way.
pub const SLOTS: usize = 8;
/// Frames of the ring, as a power of two.
pub const RING_ORDER: u8 = 1;

const DESCRIPTORS_OF_SLOT: u64 = 3;
const _: () = assert!(SLOTS as u64 * DESCRIPTORS_OF_SLOT <= ENTRIES as u64);
const HEADERS: u64 = PAGE_BYTES;
const HEADER_STRIDE: u64 = 32;
/// The place of the status behind a header.
const STATUS: u64 = HEADER_BYTES as u64;

/// A slot whose request has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The slot.
    pub slot: usize,
    /// The status, [`status`].
    pub status: u8,
}

/// The queue.
#[derive(Debug)]
pub struct Ring {
    base: u64,
    split: Split,
}

impl Ring {
    /// Makes the queue in `1 << RING_ORDER` frames.
    pub fn new<W: Window + ?Sized>(window: &mut W, base: u64) -> Self {
        window.clear(base + HEADERS, PAGE_BYTES);
        Self { base, split: Split::new(window, base) }
    }

    /// Describes it to the kernel.
    pub fn describe(&self, device: u32) -> DeviceRequest {
        let [descriptors, available, used] = self.split.parts();
        let size = size_of::<DeviceRequest>() as u32;
        DeviceRequest { size, device, entries: ENTRIES.into(), reserved: 0, descriptors, available, used }
    }

    /// Asks for something with the memory of a buffer; the slot has no request under way. Returns whether the kernel is to be told.
    pub fn ask<W: Window + ?Sized>(&mut self, window: &mut W, slot: usize, kind: u32, buffer: &Buffer) -> bool {
        let first = slot as u64 * DESCRIPTORS_OF_SLOT;
        let header = self.base + HEADERS + slot as u64 * HEADER_STRIDE;
        window.write(header, kind.into());
        window.write(header + 8, buffer.start / SECTOR_BYTES);
        window.write(header + STATUS, 0xff);
        let data = if kind == kind::FLUSH { 2 } else { 1 };
        let direction = if kind == kind::READ { WRITE } else { 0 };
        for (number, physical, bytes, flags, next) in [
            (first, header, HEADER_BYTES.into(), NEXT, first + data),
            (first + 1, buffer.physical, buffer.bytes, NEXT | direction, first + 2),
            (first + 2, header + STATUS, 1, WRITE, 0),
        ] {
            self.split.describe(window, Part { number, physical, bytes, flags, next });
        }
        self.split.publish(window, first)
    }

    /// Takes an answer, if there is one.
    pub fn take<W: Window + ?Sized>(&mut self, window: &W) -> Option<Answer> {
        let used = self.split.take(window)?;
        let slot = (used.head / DESCRIPTORS_OF_SLOT) as usize % SLOTS;
        let status = window.read(self.base + HEADERS + slot as u64 * HEADER_STRIDE + STATUS) as u8;
        Some(Answer { slot, status })
    }
}

impl Answer {
    /// Returns whether it is done.
    pub fn is_well(self) -> bool {
        self.status == status::DONE
    }
}
