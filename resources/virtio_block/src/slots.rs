//! Headers and status bytes of requests, in memory that the device reaches (virtio 1.2 §5.2.6).
//!
//! ```text
//!   0  type u32    4  reserved u32    8  first sector u64    16  status u8 (device writes)
//! ```

use crate::request::Kind;
use alloc::vec::Vec;
use gyre_machine::{DeviceError, DmaBuffer, Pa};
use gyre_virtio::Piece;

const SLOT_BYTES: usize = 32;
const HEADER_BYTES: u32 = 16;
const STATUS_OFFSET: usize = 16;
/// No status that a device gives: it has not written any.
const STATUS_NONE: u8 = 0xff;

/// A header and a status byte for each request that can be at the device.
pub(crate) struct Slots {
    memory: DmaBuffer,
    free: Vec<u16>,
}

impl Slots {
    pub(crate) fn new(count: u16) -> Result<Slots, DeviceError> {
        let memory = DmaBuffer::allocate(usize::from(count) * SLOT_BYTES).map_err(|_| DeviceError::OutOfMemory)?;
        Ok(Slots { memory, free: (0..count).rev().collect() })
    }

    /// Takes a slot and writes the header.
    pub(crate) fn take(&mut self, kind: Kind, first_sector: u64) -> Option<u16> {
        let slot = self.free.pop()?;
        let at = usize::from(slot) * SLOT_BYTES;
        self.memory.write_u32(at, kind.code());
        self.memory.write_u32(at + 4, 0);
        self.memory.write_u64(at + 8, first_sector);
        self.memory.write_u8(at + STATUS_OFFSET, STATUS_NONE);
        Some(slot)
    }

    pub(crate) fn give_back(&mut self, slot: u16) {
        self.free.push(slot);
    }

    pub(crate) fn header(&self, slot: u16) -> Piece {
        Piece::read(self.at(slot, 0), HEADER_BYTES)
    }

    pub(crate) fn status_piece(&self, slot: u16) -> Piece {
        Piece::write(self.at(slot, STATUS_OFFSET), 1)
    }

    /// The status that the device wrote.
    pub(crate) fn status(&self, slot: u16) -> u8 {
        self.memory.read_u8(usize::from(slot) * SLOT_BYTES + STATUS_OFFSET)
    }

    fn at(&self, slot: u16, offset: usize) -> Pa {
        Pa(self.memory.pa().0 + (usize::from(slot) * SLOT_BYTES + offset) as u64)
    }
}
