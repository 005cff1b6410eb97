//! Frames to the device: scattered pieces in one chain, held until the device has read them.

use crate::device::HEADER_BYTES;
use alloc::vec::Vec;
use gyre_interface::link::OutFrame;
use gyre_machine::DeviceError;
use gyre_object::{Bytes, Page};
use gyre_virtio::{Full, Piece, Ring};

/// Most pieces of a frame, the device's header included.
pub(crate) const PIECES_MAX: u16 = 16;

/// The transmit ring.
pub(crate) struct Transmitter {
    ring: Ring<OutFrame>,
    /// The header before every frame: no offloads, so it is all zero and shared.
    header: Bytes,
    depth: u16,
    pub(crate) sent_frames: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) dead: bool,
}

impl Transmitter {
    pub(crate) fn new(ring: Ring<OutFrame>, depth: u16) -> Result<Transmitter, DeviceError> {
        let page = Page::zeroed().map_err(|_| DeviceError::OutOfMemory)?;
        let header = Bytes::new(page, 0, HEADER_BYTES);
        Ok(Transmitter { ring, header, depth, sent_frames: 0, sent_bytes: 0, dead: false })
    }

    pub(crate) fn has_room(&self) -> bool {
        self.dead || (self.ring.in_flight() < self.depth && self.ring.has_room(usize::from(PIECES_MAX)))
    }

    /// Puts a frame into the ring; gives it back where there is no room.
    pub(crate) fn push(&mut self, frame: OutFrame) -> Result<(), OutFrame> {
        let bytes: usize = frame.pieces.iter().map(Bytes::len).sum();
        let mut pieces = Vec::with_capacity(frame.pieces.len() + 1);
        pieces.push(Piece::read(self.header.pa(), HEADER_BYTES as u32));
        let filled = frame.pieces.iter().filter(|piece| !piece.is_empty());
        pieces.extend(filled.map(|piece| Piece::read(piece.pa(), piece.len() as u32)));
        self.ring.push(&pieces, frame).map_err(|Full(frame)| frame)?;
        self.sent_frames += 1;
        self.sent_bytes += bytes as u64;
        Ok(())
    }

    /// Shows pushed frames to the device; true where it wants to be notified.
    pub(crate) fn publish(&mut self) -> bool {
        self.ring.publish()
    }

    /// Frees what the device has read; true where that was anything. Interrupts that were asked for stay asked for: whoever waits is
    /// woken by them, whoever frees the room.
    pub(crate) fn take_back(&mut self) -> bool {
        let mut any = false;
        while !self.dead {
            match self.ring.pop() {
                Ok(Some(used)) => {
                    drop(used.token);
                    any = true;
                }
                Ok(None) => break,
                Err(_) => self.dead = true,
            }
        }
        any
    }

    /// Asks for an interrupt when the device has read a frame: somebody waits for room.
    pub(crate) fn listen(&mut self) {
        while !self.dead && self.ring.listen() {
            self.take_back();
            if self.has_room() {
                return;
            }
        }
    }
}
