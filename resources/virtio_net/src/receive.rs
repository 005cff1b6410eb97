//! Frames from the device: buffers posted ahead, given upward by reference and replaced.

use crate::device::{HEADER_BYTES, NetDeviceStatistics};
use alloc::vec::Vec;
use gyre_machine::{DeviceError, PAGE_BYTES};
use gyre_object::{Bytes, Page};
use gyre_virtio::{Piece, Ring};

/// Bytes of a buffer: two to a page, each longer than the longest frame.
const BUFFER_BYTES: usize = PAGE_BYTES / 2;

/// The receive ring.
pub(crate) struct Receiver {
    ring: Ring<Bytes>,
    /// The second half of a page whose first half was posted.
    spare: Option<Bytes>,
    pub(crate) statistics: NetDeviceStatistics,
    dead: bool,
}

impl Receiver {
    pub(crate) fn new(ring: Ring<Bytes>) -> Receiver {
        Receiver { ring, spare: None, statistics: NetDeviceStatistics::default(), dead: false }
    }

    /// Posts buffers until the ring is full.
    pub(crate) fn fill(&mut self) -> Result<(), DeviceError> {
        while self.ring.has_room(1) {
            let buffer = self.buffer().ok_or(DeviceError::OutOfMemory)?;
            self.post(buffer);
        }
        Ok(())
    }

    fn buffer(&mut self) -> Option<Bytes> {
        if let Some(spare) = self.spare.take() {
            return Some(spare);
        }
        let page = Page::zeroed().ok()?;
        self.spare = Some(Bytes::new(page.clone(), BUFFER_BYTES, BUFFER_BYTES));
        Some(Bytes::new(page, 0, BUFFER_BYTES))
    }

    fn post(&mut self, buffer: Bytes) {
        let piece = Piece::write(buffer.pa(), BUFFER_BYTES as u32);
        // Only as many buffers as the ring holds are ever made, so it has room.
        let _ = self.ring.push(&[piece], buffer);
    }

    /// Shows posted buffers to the device; true where it wants to be notified.
    pub(crate) fn publish(&mut self) -> bool {
        self.ring.publish()
    }

    /// Takes up to `frames_max` received frames, without the device's header; asks for an interrupt where there are none.
    pub(crate) fn take(&mut self, frames_max: usize) -> Vec<Bytes> {
        let mut frames = Vec::new();
        while frames.len() < frames_max && !self.dead {
            match self.ring.pop() {
                Ok(Some(used)) => self.replace(used.token, used.bytes as usize, &mut frames),
                Ok(None) if frames.is_empty() && self.ring.listen() => {}
                Ok(None) => break,
                Err(_) => self.die(),
            }
        }
        frames
    }

    /// Gives a frame upward and posts a fresh buffer in its place; without memory the frame is dropped and its buffer posted again.
    fn replace(&mut self, full: Bytes, bytes: usize, frames: &mut Vec<Bytes>) {
        let Some(fresh) = self.buffer() else {
            self.statistics.dropped_frames += 1;
            return self.post(full);
        };
        self.post(fresh);
        if bytes > HEADER_BYTES {
            self.statistics.received_frames += 1;
            self.statistics.received_bytes += (bytes - HEADER_BYTES) as u64;
            frames.push(full.slice(HEADER_BYTES, bytes));
        }
    }

    /// A device that breaks the rules is not believed any more.
    fn die(&mut self) {
        self.dead = true;
        self.statistics.faults += 1;
    }
}
