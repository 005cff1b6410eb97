//! The receiving half.

use crate::buffers::{BUFFER_BYTES, Buffer, Buffers};
use crate::device::{LinkStatistics, NetOptions, VirtioNet};
use crate::header::HEADER_BYTES;
use alloc::vec::Vec;
use gyre_machine::DeviceError;
use gyre_object::Bytes;
use gyre_virtio::features::EVENT_INDEX;
use gyre_virtio::{Doorbell, Full, Piece, Ring, RingOptions};

/// Buffers are posted anew when this part of the ring lacks them: a doorbell costs more than many buffers.
const POST_PART: u16 = 16;

/// What changes.
pub(crate) struct Receiver {
    pub(crate) ring: Ring<Buffer>,
    pub(crate) doorbell: Option<Doorbell>,
    pub(crate) is_dead: bool,
    buffers: Buffers,
    /// Buffers that a device which does not reset may still write to.
    kept: Vec<Buffer>,
    frames: u64,
    bytes: u64,
    malformed: u64,
}

impl Receiver {
    pub(crate) fn new(size_max: u16, features: u64, options: &NetOptions) -> Result<Receiver, DeviceError> {
        let wanted = options.receive_buffers.max(2).checked_next_power_of_two().unwrap_or(0x8000);
        let options =
            RingOptions { indirect: false, event_index: features & EVENT_INDEX != 0, pieces_max: 1, counts_all: false };
        Ok(Receiver {
            ring: Ring::new(size_max.min(wanted), options)?,
            doorbell: None,
            is_dead: false,
            buffers: Buffers::default(),
            kept: Vec::new(),
            frames: 0,
            bytes: 0,
            malformed: 0,
        })
    }

    /// True where enough buffers are missing to be worth telling the device.
    fn lacks_buffers(&self) -> bool {
        self.ring.size() - self.ring.in_flight() >= (self.ring.size() / POST_PART).max(1)
    }

    /// Posts buffers until the ring is full or memory is short; true where the device wants to be told.
    fn post(&mut self) -> bool {
        while self.ring.has_room(1) && !self.is_dead {
            let Ok(buffer) = self.buffers.take() else {
                break;
            };
            let piece = Piece::write(buffer.pa(), BUFFER_BYTES as u32);
            if let Err(Full(buffer)) = self.ring.push(&[piece], buffer) {
                self.buffers.rest(buffer);
                break;
            }
        }
        self.ring.publish()
    }

    /// Takes up to `batch` frames.
    fn take(&mut self, batch: usize) -> Result<Vec<Bytes>, DeviceError> {
        let mut frames = Vec::with_capacity(batch.min(usize::from(self.ring.used())));
        while frames.len() < batch
            && let Some(used) = self.ring.pop()?
        {
            let end = used.bytes as usize;
            if end > HEADER_BYTES {
                let frame = used.token.view(HEADER_BYTES, end);
                self.frames += 1;
                self.bytes += frame.len() as u64;
                frames.push(frame);
            } else {
                self.malformed += 1;
            }
            self.buffers.rest(used.token);
        }
        Ok(frames)
    }

    /// The device was reset; where it did not come back, it may still write to its buffers.
    pub(crate) fn on_reset(&mut self, alive: bool) {
        let buffers = self.ring.clear();
        match alive {
            true => buffers.into_iter().for_each(|buffer| self.buffers.rest(buffer)),
            false => self.kept.extend(buffers),
        }
    }

    pub(crate) fn count_into(&self, statistics: &mut LinkStatistics) {
        statistics.received_frames = self.frames;
        statistics.received_bytes = self.bytes;
        statistics.malformed = self.malformed;
    }
}

impl VirtioNet {
    /// Gives the device buffers for frames to come.
    pub(crate) fn post_buffers(&self) {
        let (notify, doorbell) = {
            let mut receiver = self.receiver.lock();
            (receiver.lacks_buffers() && receiver.post(), receiver.doorbell)
        };
        if let (true, Some(doorbell)) = (notify, doorbell) {
            self.transport.notify(doorbell);
        }
    }

    /// Frames that have arrived, at most a batch; `None` where there are none and an interrupt will tell.
    pub(crate) fn take_frames(&self) -> Option<Result<Vec<Bytes>, DeviceError>> {
        let taken = {
            let mut receiver = self.receiver.lock();
            if receiver.is_dead {
                return Some(Err(DeviceError::Protocol));
            }
            let mut taken = receiver.take(self.options.batch);
            // an index that moved meanwhile would not interrupt any more
            if taken.as_ref().is_ok_and(Vec::is_empty) && receiver.ring.listen() {
                taken = receiver.take(self.options.batch);
            }
            taken
        };
        match taken {
            Ok(frames) if frames.is_empty() => None,
            Ok(frames) => {
                self.post_buffers();
                self.reclaim_sent();
                Some(Ok(frames))
            }
            Err(error) => {
                self.recover();
                Some(Err(error))
            }
        }
    }
}
