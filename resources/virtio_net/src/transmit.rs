//! The sending half.

use crate::device::{LinkStatistics, NetOptions, VirtioNet};
use crate::header::{HEADER_BYTES, header_of};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use gyre_interface::link::{LinkError, OutFrame, Receipt};
use gyre_machine::{DeviceError, DmaBuffer, Pa, now};
use gyre_message::{Call, Reply, reply_pair};
use gyre_object::Bytes;
use gyre_virtio::features::{EVENT_INDEX, INDIRECT_DESCRIPTORS};
use gyre_virtio::{Doorbell, Full, Piece, Ring, RingOptions};

/// Pieces of a frame besides the device's header; frames of more are copied together.
const PIECES_MAX: usize = 9;
/// Bytes between two headers.
const HEADER_STEP: usize = 16;

const _: () = assert!(HEADER_BYTES <= HEADER_STEP);

/// A frame at the device: its memory must stay.
pub(crate) struct Sending {
    slot: u16,
    since_cycles: u64,
    /// Held until the device is done with it.
    pieces: Vec<Bytes>,
}

type Waiting = (OutFrame, Reply<Result<(), LinkError>>);
/// Who must be told, without the lock, that a frame was taken.
type Taken = (Reply<Result<(), LinkError>>, Option<Receipt>);

/// What changes.
pub(crate) struct Sender {
    pub(crate) ring: Ring<Sending>,
    pub(crate) doorbell: Option<Doorbell>,
    pub(crate) is_dead: bool,
    headers: DmaBuffer,
    free: Vec<u16>,
    waiting: VecDeque<Waiting>,
    /// Frames that a device which does not reset may still read.
    kept: Vec<Sending>,
    frames: u64,
    bytes: u64,
    waits: u64,
}

impl Sender {
    pub(crate) fn new(size_max: u16, features: u64, options: &NetOptions) -> Result<Sender, DeviceError> {
        let indirect = features & INDIRECT_DESCRIPTORS != 0;
        let pieces_max = PIECES_MAX as u16 + 1;
        let frames = options.send_frames.clamp(1, 1024);
        let entries = if indirect { frames } else { frames.saturating_mul(pieces_max) };
        let size = size_max.min(entries.checked_next_power_of_two().unwrap_or(0x8000));
        if !indirect && size < pieces_max {
            return Err(DeviceError::Protocol);
        }
        let event_index = features & EVENT_INDEX != 0;
        let mut ring = Ring::new(size, RingOptions { indirect, event_index, pieces_max })?;
        ring.hush();
        Ok(Sender {
            ring,
            doorbell: None,
            is_dead: false,
            headers: DmaBuffer::allocate(usize::from(frames) * HEADER_STEP).map_err(|_| DeviceError::OutOfMemory)?,
            free: (0..frames).collect(),
            waiting: VecDeque::new(),
            kept: Vec::new(),
            frames: 0,
            bytes: 0,
            waits: 0,
        })
    }

    /// Gives a frame to the device, or back where there is no room. The device sees it after `publish`. The frame's receipt is for
    /// dropping without the lock.
    fn push(&mut self, frame: OutFrame) -> Result<Option<Receipt>, OutFrame> {
        let Some(slot) = self.free.last().copied().filter(|_| self.ring.has_room(frame.pieces.len() + 1)) else {
            return Err(frame);
        };
        let at = usize::from(slot) * HEADER_STEP;
        self.headers.write_bytes(at, &header_of(&frame));
        let mut pieces = Vec::with_capacity(frame.pieces.len() + 1);
        pieces.push(Piece::read(Pa(self.headers.pa().0 + at as u64), HEADER_BYTES as u32));
        let data = frame.pieces.iter().filter(|piece| !piece.is_empty());
        pieces.extend(data.map(|piece| Piece::read(piece.pa(), piece.len() as u32)));
        let bytes = bytes_of(&frame);
        let OutFrame { pieces: held, checksum, segment, receipt } = frame;
        let sending = Sending { slot, since_cycles: now(), pieces: held };
        if let Err(Full(sending)) = self.ring.push(&pieces, sending) {
            return Err(OutFrame { pieces: sending.pieces, checksum, segment, receipt });
        }
        self.free.pop();
        self.frames += 1;
        self.bytes += bytes as u64;
        Ok(receipt)
    }

    /// True where frames wait for room.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// True where the device has at most `half` frames left to send; else it is asked to tell then.
    pub(crate) fn has_sent_half(&mut self, half: u16) -> bool {
        let used = self.ring.used();
        let excess = self.ring.in_flight().saturating_sub(used).saturating_sub(half);
        excess == 0 || self.ring.listen_after(used + excess)
    }

    /// Asks to be told once half of what the device has is sent: an interrupt is worth many frames, and the device never runs dry.
    /// True where that is so already.
    fn listen_for_half(&mut self) -> bool {
        self.ring.listen_after(self.ring.in_flight().div_ceil(2))
    }

    /// True where the longest frame fits and none waits.
    fn has_room(&self) -> bool {
        self.waiting.is_empty() && !self.free.is_empty() && self.ring.has_room(PIECES_MAX + 1)
    }

    /// Takes back what the device has sent; the memory is for dropping without the lock.
    fn reclaim(&mut self, done: &mut Vec<Sending>) -> Result<(), DeviceError> {
        while let Some(used) = self.ring.pop()? {
            self.free.push(used.token.slot);
            done.push(used.token);
        }
        Ok(())
    }

    /// Gives waiting frames to the device as far as there is room, in order; their senders are answered by the caller.
    fn push_waiting(&mut self, answers: &mut Vec<Taken>) {
        while let Some((frame, reply)) = self.waiting.pop_front() {
            match self.push(frame) {
                Ok(receipt) => answers.push((reply, receipt)),
                Err(frame) => {
                    self.waiting.push_front((frame, reply));
                    return;
                }
            }
        }
    }

    /// True where the device has held a frame since before `limit`, cycles.
    pub(crate) fn is_older_than(&self, limit: u64) -> bool {
        self.ring.tokens().any(|sending| sending.since_cycles < limit)
    }

    /// The device was reset: the frames that it had are lost.
    pub(crate) fn on_reset(&mut self, alive: bool) {
        let lost = self.ring.clear();
        self.ring.hush();
        self.free.extend(lost.iter().map(|sending| sending.slot));
        if !alive {
            self.kept.extend(lost);
        }
    }

    pub(crate) fn count_into(&self, statistics: &mut LinkStatistics) {
        statistics.sent_frames = self.frames;
        statistics.sent_bytes = self.bytes;
        statistics.waits = self.waits;
        statistics.sending = self.ring.in_flight();
    }
}

impl VirtioNet {
    /// True where the device takes a frame now. Where it does not, an interrupt follows when half of its ring is free: whoever suspends
    /// the resource on `false` resumes it then. A device that failed has room: it answers with an error.
    pub fn has_room(&self) -> bool {
        let mut done = Vec::new();
        let mut sender = self.sender.lock();
        let mut intact = sender.is_dead || sender.reclaim(&mut done).is_ok();
        let mut room = !intact || sender.is_dead || sender.has_room();
        // what the device has sent before it was asked to tell would not interrupt any more
        if !room && sender.listen_for_half() {
            intact = sender.reclaim(&mut done).is_ok();
            room = !intact || sender.has_room();
        }
        drop(sender);
        if !intact {
            self.recover();
        }
        room
    }

    /// True once at least half of the device's room for frames is free: worth going on with what was suspended. Where it is not, an
    /// interrupt follows when it is.
    pub fn is_half_free(&self) -> bool {
        let mut done = Vec::new();
        let mut sender = self.sender.lock();
        let half = self.options.send_frames / 2;
        loop {
            if sender.is_dead || !sender.waiting.is_empty() {
                return true;
            }
            if sender.reclaim(&mut done).is_err() {
                drop(sender);
                self.recover();
                return true;
            }
            let excess = sender.ring.in_flight().saturating_sub(half);
            if excess == 0 {
                return true;
            }
            if !sender.ring.listen_after(excess) {
                return false;
            }
        }
    }

    /// Gives a frame to the device, or lets it wait for room: then the answer of the call is awaited.
    pub(crate) fn submit(&self, frame: OutFrame) -> Option<Call<Result<(), LinkError>>> {
        let mut done = Vec::new();
        let mut sender = self.sender.lock();
        let intact = !sender.is_dead && sender.reclaim(&mut done).is_ok();
        if intact && sender.waiting.is_empty() {
            match sender.push(frame) {
                Ok(receipt) => {
                    let (notify, was_idle) = (sender.ring.publish(), sender.ring.in_flight() == 1);
                    self.leave(sender, notify, was_idle);
                    drop(receipt);
                    return None;
                }
                Err(frame) => return Some(self.wait_for_room(sender, frame)),
            }
        }
        let is_dead = sender.is_dead;
        let call = self.wait_for_room(sender, frame);
        match (intact, is_dead) {
            (true, _) => {}
            (false, true) => self.go_on_sending(),
            (false, false) => self.recover(),
        }
        Some(call)
    }

    fn leave(&self, sender: gyre_object::LockGuard<'_, Sender>, notify: bool, was_idle: bool) {
        let doorbell = sender.doorbell;
        drop(sender);
        if let (true, Some(doorbell)) = (notify, doorbell) {
            self.transport.notify(doorbell);
        }
        if was_idle {
            self.busy.wake_all();
        }
    }

    fn wait_for_room(
        &self,
        mut sender: gyre_object::LockGuard<'_, Sender>,
        frame: OutFrame,
    ) -> Call<Result<(), LinkError>> {
        let (reply, call) = reply_pair();
        sender.waits += 1;
        sender.waiting.push_back((frame, reply));
        let is_ready = sender.listen_for_half();
        drop(sender);
        if is_ready {
            // the device was done before it could be asked to tell
            self.go_on_sending();
        }
        call
    }

    /// Takes back what was sent, where nobody else is at it: memory should not wait for the next frame.
    pub(crate) fn reclaim_sent(&self) {
        let mut done = Vec::new();
        let Some(mut sender) = self.sender.try_lock() else {
            return;
        };
        let intact = sender.is_dead || sender.reclaim(&mut done).is_ok();
        drop(sender);
        if !intact {
            self.recover();
        }
    }

    /// Takes back what was sent and gives the device what waits.
    pub fn go_on_sending(&self) {
        let (mut done, mut answers) = (Vec::new(), Vec::new());
        let mut sender = self.sender.lock();
        loop {
            if sender.is_dead {
                let waiting = core::mem::take(&mut sender.waiting);
                drop(sender);
                return waiting.into_iter().for_each(|(_, reply)| reply.send(Err(LinkError::Device)));
            }
            if sender.reclaim(&mut done).is_err() {
                drop(sender);
                return self.recover();
            }
            sender.push_waiting(&mut answers);
            if sender.waiting.is_empty() {
                sender.ring.hush();
                break;
            }
            if !sender.listen_for_half() {
                break;
            }
        }
        let notify = sender.ring.publish();
        self.leave(sender, notify, false);
        answers.into_iter().for_each(|(reply, _receipt)| reply.send(Ok(())));
    }
}

/// Bytes of a frame.
pub(crate) fn bytes_of(frame: &OutFrame) -> usize {
    frame.pieces.iter().map(Bytes::len).sum()
}

/// Joins the pieces of a frame that has more than a chain takes.
pub(crate) fn joined(frame: OutFrame) -> Result<OutFrame, LinkError> {
    if frame.pieces.len() <= PIECES_MAX {
        return Ok(frame);
    }
    let mut flat = Vec::with_capacity(bytes_of(&frame));
    frame.pieces.iter().for_each(|piece| flat.extend_from_slice(piece.as_slice()));
    let whole = Bytes::copy_from(&flat).map_err(|_| LinkError::OutOfMemory)?;
    Ok(OutFrame { pieces: alloc::vec![whole], ..frame })
}
