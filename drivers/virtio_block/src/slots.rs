//! Headers and answers of requests, in memory that the device reaches.
//!
//! ```text
//!   0  header: what the device is asked to do (at most 64 bytes)     64  answer: what the device says of it (at most 128 bytes)
//! ```

use alloc::vec::Vec;
use gyre_machine::{DeviceError, DmaBuffer, Pa};
use gyre_virtio::Piece;

const SLOT_BYTES: usize = 256;
const ANSWER_OFFSET: usize = 64;
/// Longest header.
pub(crate) const HEADER_BYTES_MAX: usize = ANSWER_OFFSET;
/// Longest answer.
pub(crate) const ANSWER_BYTES_MAX: usize = 128;

const _: () = assert!(ANSWER_OFFSET + ANSWER_BYTES_MAX <= SLOT_BYTES);

/// A header and an answer for each request that can be in a queue. Each byte is reached alone, since the device may write meanwhile: only
/// as many as there are.
pub(crate) struct Slots {
    memory: DmaBuffer,
    free: Vec<u16>,
    header_bytes: usize,
    answer_bytes: usize,
}

impl Slots {
    /// Slots for headers and answers of so many bytes.
    pub(crate) fn new(count: u16, header_bytes: usize, answer_bytes: usize) -> Result<Slots, DeviceError> {
        let memory = DmaBuffer::allocate(usize::from(count) * SLOT_BYTES).map_err(|_| DeviceError::OutOfMemory)?;
        let (header_bytes, answer_bytes) = (header_bytes.min(HEADER_BYTES_MAX), answer_bytes.min(ANSWER_BYTES_MAX));
        Ok(Slots { memory, free: (0..count).rev().collect(), header_bytes, answer_bytes })
    }

    /// Takes a slot, writes the header and fills the answer with `unwritten`, which no device answers.
    pub(crate) fn take(&mut self, header: &[u8], unwritten: u8) -> Option<u16> {
        let slot = self.free.pop()?;
        self.memory.write_bytes(offset_of(slot, 0), header.get(..self.header_bytes).unwrap_or(header));
        self.answer_bytes_of(slot).for_each(|at| self.memory.write_u8(at, unwritten));
        Some(slot)
    }

    pub(crate) fn give_back(&mut self, slot: u16) {
        self.free.push(slot);
    }

    pub(crate) fn header(&self, slot: u16) -> Piece {
        Piece::read(self.at(slot, 0), self.header_bytes as u32)
    }

    pub(crate) fn answer_piece(&self, slot: u16) -> Piece {
        Piece::write(self.at(slot, ANSWER_OFFSET), self.answer_bytes as u32)
    }

    /// A copy of what the device wrote: it may go on writing.
    pub(crate) fn answer(&self, slot: u16) -> [u8; ANSWER_BYTES_MAX] {
        let mut copy = [0; ANSWER_BYTES_MAX];
        copy.iter_mut().zip(self.answer_bytes_of(slot)).for_each(|(byte, at)| *byte = self.memory.read_u8(at));
        copy
    }

    /// The offsets of the bytes of an answer.
    fn answer_bytes_of(&self, slot: u16) -> core::ops::Range<usize> {
        let start = offset_of(slot, ANSWER_OFFSET);
        start..start.saturating_add(self.answer_bytes)
    }

    #[expect(clippy::arithmetic_side_effects, reason = "the byte lies in the buffer, which lies in memory")]
    fn at(&self, slot: u16, offset: usize) -> Pa {
        Pa(self.memory.pa().0 + offset_of(slot, offset) as u64)
    }
}

/// Returns the place of a slot's byte in the memory of all.
#[expect(clippy::arithmetic_side_effects, reason = "a number of 16 bits times 256, and an offset in a slot")]
fn offset_of(slot: u16, offset: usize) -> usize {
    usize::from(slot) * SLOT_BYTES + offset
}
