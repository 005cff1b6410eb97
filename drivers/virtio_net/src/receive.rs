//! The receiving half: a ring whose chains are empty buffers, and the frames that the device has written into them.
//!
//! States of the ring, seen from who reads:
//!
//! ```text
//!   listening   no frame is there; the device interrupts at the next one, or when some have gathered while senders are told soon
//!   hushed      frames are there; the device interrupts no more until the reader finds the ring empty
//!   starved     the device has no buffer, since memory is short: nothing comes, so the reader looks again after a while
//! ```
//!
//! Buffers are posted when a part of the ring lacks them, after frames were taken. A device that names a chain that it does not have is reset.

use crate::buffers::{BUFFER_BYTES, Buffer, Buffers};
use crate::device::{AfterReset, LinkStatistics, NetOptions, VirtioNet, count};
use crate::header::HEADER_BYTES;
use alloc::vec::Vec;
use gyre_machine::DeviceError;
use gyre_object::Bytes;
use gyre_virtio::features::EVENT_INDEX;
use gyre_virtio::{Doorbell, Full, Piece, Ring, RingOptions};

/// Buffers are posted anew when this part of the ring lacks them: a doorbell costs more than many buffers.
const POST_PART: u16 = 16;

/// Frames that gather for one interrupt while the sending side is backlogged, at most.
const GATHERED_FRAMES_MAX: u16 = 16;

/// The state of the receiving half; its lock is the device's.
pub(crate) struct Receiver {
    pub(crate) ring: Ring<Buffer>,
    pub(crate) doorbell: Option<Doorbell>,
    pub(crate) is_dead: bool,
    /// The function is not here: nothing is wrong, and nothing comes.
    pub(crate) is_away: bool,
    /// An interrupt was asked for after several frames; one for frames sent comes before.
    gathers: bool,
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
            is_away: false,
            gathers: false,
            buffers: Buffers::default(),
            kept: Vec::new(),
            frames: 0,
            bytes: 0,
            malformed: 0,
        })
    }

    /// Returns true if enough buffers are missing to be worth telling the device.
    fn lacks_buffers(&self) -> bool {
        self.ring.size().saturating_sub(self.ring.in_flight()) >= (self.ring.size() / POST_PART).max(1)
    }

    /// Posts buffers until the ring is full or memory is short; returns true if the device wants to be told.
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

    /// Returns true if frames wait to be taken; no more interrupts for them until the reader has looked. If there are none, the ring
    /// listens for the next one: the interrupt was for frames that were sent.
    pub(crate) fn has_arrived(&mut self) -> bool {
        if self.is_away {
            return false;
        }
        let is_news = self.is_dead || self.ring.is_ready() || core::mem::take(&mut self.gathers) && self.ring.listen();
        if is_news {
            self.gathers = false;
            self.ring.hush();
        }
        is_news
    }

    /// Asks for an interrupt at the next frame, or if they `gather`, when some have; returns true if they are there already.
    fn listen(&mut self, gather: bool) -> bool {
        self.gathers = gather;
        match gather {
            true => self.ring.listen_after(GATHERED_FRAMES_MAX.min(self.ring.size() / 4)),
            false => self.ring.listen(),
        }
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
                count(&mut self.frames, 1);
                count(&mut self.bytes, frame.len() as u64);
                frames.push(frame);
            } else {
                count(&mut self.malformed, 1);
            }
            self.buffers.rest(used.token);
        }
        Ok(frames)
    }

    /// Takes back the buffers of a device that was reset. One that did not come back may still write to them.
    pub(crate) fn on_reset(&mut self, outcome: AfterReset) {
        let buffers = self.ring.clear();
        match outcome {
            AfterReset::Alive => buffers.into_iter().for_each(|buffer| self.buffers.rest(buffer)),
            AfterReset::Silent => self.kept.extend(buffers),
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

    /// Tries once more to post buffers; returns true if the device still has none.
    #[cold]
    fn stays_starved(&self) -> bool {
        self.post_buffers();
        self.receiver.lock().ring.in_flight() == 0
    }

    /// The interrupt that frames gathered for may not come: the next one tells of itself.
    pub(crate) fn stop_gathering(&self) {
        let is_news = {
            let mut receiver = self.receiver.lock();
            receiver.gathers && !self.sender.lock().tells_soon() && receiver.has_arrived()
        };
        if is_news {
            self.arrived.wake_all();
        }
    }

    /// Frames that have arrived, at most a batch; `None` if there are none and an interrupt will tell. An error if memory is so short that the
    /// device has no buffer: who reads looks again after a while. While senders wait for the
    /// device, that is the one for half of its ring: what is answered now could not leave before, and one interrupt, one turn of the
    /// reader and one message to each connection are enough for all that has gathered.
    pub(crate) fn take_frames(&self) -> Option<Result<Vec<Bytes>, DeviceError>> {
        let (taken, is_starved) = {
            let mut receiver = self.receiver.lock();
            if receiver.is_away {
                return None;
            }
            if receiver.is_dead {
                return Some(Err(DeviceError::Protocol));
            }
            loop {
                let taken = receiver.take(self.options.batch);
                let is_none = taken.as_ref().is_ok_and(Vec::is_empty);
                // the sender's interrupt is seen to come under the receiver's lock: it looks here when it does
                // an index that moved meanwhile would not interrupt any more
                if !is_none || !receiver.listen(self.sender.lock().tells_soon()) {
                    break (taken, receiver.ring.in_flight() == 0);
                }
            }
        };
        match taken {
            // no frame comes into a ring without buffers, and so no interrupt that would have them posted
            Ok(frames) if frames.is_empty() && is_starved && self.stays_starved() => {
                Some(Err(DeviceError::OutOfMemory))
            }
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
