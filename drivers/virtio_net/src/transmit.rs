//! The sending half: a ring whose chains are frames, the headers that the driver puts before them, and what waits for room.
//!
//! A frame takes one of three ways:
//!
//! ```text
//!   push_whole   a chain of its own, behind a header
//!   cutting      a large segment that the device does not cut: each part is a chain; what has no room is cut when it has
//!   waiting      there is no room, or something waits already: frames leave in their order
//! ```
//!
//! `reclaim` takes back what the device has sent, at each frame and each interrupt for room. Memory and answers are let go of after the lock is
//! opened, since they may send messages. `room` decides when the device interrupts. A device that breaks the rules is reset: what it had is lost, what waits is
//! sent then; one that does it again at once is dead.

use crate::device::{AfterReset, LinkStatistics, NetOptions, VirtioNet, count};
use crate::header::{HEADER_BYTES, header_of};
use crate::room::Half;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::{ActivityId, current_activity, set_current_activity};
use gyre_interface::link::{LinkError, OutFrame, Receipt};
use gyre_machine::{DeviceError, DmaBuffer, Pa, now};
use gyre_message::{Call, Reply, reply_pair};
use gyre_object::{Bytes, LockGuard};
use gyre_segments::{Cutter, HEADERS_BYTES_MAX};
use gyre_virtio::features::{EVENT_INDEX, INDIRECT_DESCRIPTORS};
use gyre_virtio::{Doorbell, Full, Piece, Ring, RingOptions};

/// Pieces of a frame besides the device's header, as many as pages of the longest segment; frames of more are copied together.
const PIECES_MAX: usize = 17;
/// With the device's header.
const CHAIN_PIECES_MAX: u16 = PIECES_MAX as u16 + 1;
/// Bytes between two headers: the device's, and behind it the headers of a frame that was cut here.
const HEADER_STEP: usize = 128;

const _: () = assert!(HEADER_BYTES + HEADERS_BYTES_MAX <= HEADER_STEP);

/// A frame at the device: its memory must stay.
pub(crate) struct Sending {
    slot: u16,
    since_cycles: u64,
    held: Held,
}

/// Held until the device is done with it.
enum Held {
    Frame(Vec<Bytes>),
    /// The payload of the segment that the frame was cut from.
    Part(#[expect(dead_code, reason = "held, not read")] Arc<Vec<Bytes>>),
}

/// A segment of which the ring has taken a part, or nothing yet.
struct Cutting {
    cutter: Cutter,
    /// Its sender, who pays: the rest is cut when there is room, in any turn.
    payer: ActivityId,
}

type Waiting = (OutFrame, Reply<Result<(), LinkError>>);
/// The sender that must be told, without the lock, that its frame was taken.
type Taken = (Reply<Result<(), LinkError>>, Option<Receipt>);

/// The state of the sending half; its lock is the device's.
pub(crate) struct Sender {
    pub(crate) ring: Ring<Sending>,
    pub(crate) doorbell: Option<Doorbell>,
    pub(crate) is_dead: bool,
    headers: DmaBuffer,
    free: Vec<u16>,
    /// Returns true if the device cuts segments itself.
    cuts: bool,
    /// Before all that waits.
    cutting: Option<Cutting>,
    waiting: VecDeque<Waiting>,
    /// Frames that a device which does not reset may still read.
    kept: Vec<Sending>,
    frames: u64,
    bytes: u64,
    waits: u64,
    /// How long the frame that was taken back last was at the device.
    pub(crate) stay_cycles: u64,
}

impl Sender {
    pub(crate) fn new(size_max: u16, features: u64, options: &NetOptions) -> Result<Sender, DeviceError> {
        let indirect = features & INDIRECT_DESCRIPTORS != 0;
        let pieces_max = CHAIN_PIECES_MAX;
        let frames = options.send_frames.clamp(1, 1024);
        let entries = if indirect { frames } else { frames.saturating_mul(pieces_max) };
        let size = size_max.min(entries.checked_next_power_of_two().unwrap_or(0x8000));
        if !indirect && size < pieces_max {
            return Err(DeviceError::Protocol);
        }
        let event_index = features & EVENT_INDEX != 0;
        let mut ring = Ring::new(size, RingOptions { indirect, event_index, pieces_max, counts_all: false })?;
        ring.hush();
        Ok(Sender {
            ring,
            doorbell: None,
            is_dead: false,
            headers: DmaBuffer::allocate(usize::from(frames) * HEADER_STEP).map_err(|_| DeviceError::OutOfMemory)?,
            free: (0..frames).collect(),
            cuts: crate::device::cuts(features),
            cutting: None,
            waiting: VecDeque::new(),
            kept: Vec::new(),
            frames: 0,
            bytes: 0,
            waits: 0,
            stay_cycles: u64::MAX,
        })
    }

    /// Gives a frame to the device, or back if there is no room. The device sees it after `publish`. The frame's receipt is for
    /// dropping without the lock. Of a segment that is cut here, the ring takes what it has room for.
    fn push(&mut self, frame: OutFrame) -> Result<Option<Receipt>, OutFrame> {
        if frame.segment.is_none() || self.cuts {
            return self.push_whole(frame);
        }
        if self.cutting.is_some() || self.free.is_empty() {
            return Err(frame);
        }
        match Cutter::new(frame) {
            Ok(cutter) => {
                self.cutting = Some(Cutting { cutter, payer: current_activity() });
                Ok(self.go_on_cutting())
            }
            // no segment that can be cut: lost like any malformed frame
            Err(mut frame) => Ok(frame.receipt.take()),
        }
    }

    fn push_whole(&mut self, frame: OutFrame) -> Result<Option<Receipt>, OutFrame> {
        let chain_pieces = frame.pieces.len().saturating_add(1);
        let Some(slot) = self.free.last().copied().filter(|_| self.ring.has_room(chain_pieces)) else {
            return Err(frame);
        };
        let at = usize::from(slot) * HEADER_STEP;
        self.headers.write_bytes(at, &header_of(frame.checksum, frame.segment));
        let mut chain = Chain::new(self.header_piece(at, HEADER_BYTES), chain_pieces);
        let data = frame.pieces.iter().filter(|piece| !piece.is_empty());
        data.for_each(|piece| chain.add(Piece::read(piece.pa(), piece.len() as u32)));
        let (frames, bytes) = (frame.frames(), frame.link_bytes());
        let OutFrame { pieces: held, checksum, segment, receipt } = frame;
        let sending = Sending { slot, since_cycles: now(), held: Held::Frame(held) };
        if let Err(Full(Sending { held: Held::Frame(pieces), .. })) = self.ring.push(chain.pieces(), sending) {
            return Err(OutFrame { pieces, checksum, segment, receipt });
        }
        self.free.pop();
        count(&mut self.frames, frames as u64);
        count(&mut self.bytes, bytes as u64);
        Ok(receipt)
    }

    #[expect(clippy::arithmetic_side_effects, reason = "the header lies in the buffer, which lies in memory")]
    fn header_piece(&self, at: usize, bytes: usize) -> Piece {
        Piece::read(Pa(self.headers.pa().0 + at as u64), bytes as u32)
    }

    /// Cuts frames off the segment that is under way, as many as there is room for; its receipt once the last has left.
    fn go_on_cutting(&mut self) -> Option<Receipt> {
        let mut cutting = self.cutting.take()?;
        let before = set_current_activity(cutting.payer);
        let since_cycles = now();
        while !cutting.cutter.is_done() && self.cut_one(&mut cutting.cutter, since_cycles) {}
        set_current_activity(before);
        if cutting.cutter.is_done() {
            return cutting.cutter.into_receipt();
        }
        self.cutting = Some(cutting);
        None
    }

    /// Gives the device the next frame of a segment. Returns false if it has no room.
    fn cut_one(&mut self, cutter: &mut Cutter, since_cycles: u64) -> bool {
        let pieces = cutter.next_pieces();
        // many small pieces are more than a chain takes: they are copied
        let fits = pieces <= PIECES_MAX;
        let chain_pieces = if fits { pieces.saturating_add(1) } else { 2 };
        let Some(slot) = self.free.last().copied().filter(|_| self.ring.has_room(chain_pieces)) else {
            return false;
        };
        let at = usize::from(slot) * HEADER_STEP;
        let headers_bytes = cutter.headers().len();
        let header = self.header_piece(at, HEADER_BYTES.saturating_add(headers_bytes));
        let mut chain = Chain::new(header, chain_pieces);
        let mut copy = Vec::new();
        let payload_bytes = cutter.cut(|piece, from, to| match fits {
            true => chain.add(part_of(piece, from, to)),
            false => copy.extend_from_slice(piece.as_slice().get(from..to).unwrap_or(&[])),
        });
        self.headers.write_bytes(at, &header_of(cutter.checksum(), None));
        self.headers.write_bytes(at.saturating_add(HEADER_BYTES), cutter.headers());
        let mut held = Held::Part(cutter.payload());
        if !fits {
            // lost like a frame on the way if there is no memory
            let Ok(flat) = Bytes::copy_from(&copy) else { return true };
            chain.add(Piece::read(flat.pa(), flat.len() as u32));
            held = Held::Frame(alloc::vec![flat]);
        }
        if self.ring.push(chain.pieces(), Sending { slot, since_cycles, held }).is_ok() {
            self.free.pop();
            count(&mut self.frames, 1);
            count(&mut self.bytes, headers_bytes.saturating_add(payload_bytes) as u64);
        }
        true
    }

    /// Returns true if frames wait for room.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty() || self.cutting.is_some()
    }

    /// Returns true if the longest frame fits, or the first of a segment that is cut, and none waits.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_waited_for() && !self.free.is_empty() && self.ring.has_room(PIECES_MAX + 1)
    }

    /// Takes back what the device has sent; the memory is for dropping without the lock.
    fn reclaim(&mut self, done: &mut Vec<Sending>) -> Result<(), DeviceError> {
        let taken = done.len();
        while let Some(used) = self.ring.pop()? {
            self.free.push(used.token.slot);
            done.push(used.token);
        }
        if let Some(last) = done.get(taken..).and_then(<[_]>::last) {
            self.stay_cycles = now().saturating_sub(last.since_cycles);
        }
        Ok(())
    }

    /// Gives waiting frames to the device as far as there is room, in order; their senders are answered by the caller.
    fn push_waiting(&mut self, answers: &mut Vec<Taken>, receipts: &mut Vec<Option<Receipt>>) {
        receipts.push(self.go_on_cutting());
        if self.cutting.is_some() {
            return;
        }
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

    /// Returns true if the device has held a frame since before `limit`, cycles.
    pub(crate) fn is_older_than(&self, limit: u64) -> bool {
        self.ring.tokens().any(|sending| sending.since_cycles < limit)
    }

    /// The device was reset: the frames that it had are lost.
    pub(crate) fn on_reset(&mut self, outcome: AfterReset) {
        let lost = self.ring.clear();
        self.rest();
        self.free.extend(lost.iter().map(|sending| sending.slot));
        if outcome == AfterReset::Silent {
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
    /// Locks the sending half and takes back what the device has sent into `done`, which is dropped after the lock. Returns `None` if the device has failed.
    pub(crate) fn reclaimed(&self, done: &mut Vec<Sending>) -> Option<LockGuard<'_, Sender>> {
        let mut sender = self.sender.lock();
        if sender.is_dead {
            return None;
        }
        if sender.reclaim(done).is_err() {
            drop(sender);
            self.recover();
            return None;
        }
        Some(sender)
    }

    /// Gives a frame to the device, or lets it wait for room: then the answer of the call is awaited.
    pub(crate) fn submit(&self, frame: OutFrame) -> Option<Call<Result<(), LinkError>>> {
        let mut done = Vec::new();
        let mut sender = self.sender.lock();
        let intact = !sender.is_dead && sender.reclaim(&mut done).is_ok();
        if intact && !sender.is_waited_for() {
            match sender.push(frame) {
                Ok(receipt) => {
                    self.pushed(sender);
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
            (false, true) => self.send_waiting(),
            (false, false) => self.recover(),
        }
        Some(call)
    }

    /// Tells the device of what was pushed. If a part of a segment waits, it asks the device to tell of room.
    fn pushed(&self, mut sender: LockGuard<'_, Sender>) {
        let notify = sender.ring.publish();
        let is_sent = sender.cutting.is_some() && sender.listen() == Half::Sent;
        self.leave(sender, notify);
        if is_sent {
            self.send_waiting();
        }
    }

    fn leave(&self, sender: LockGuard<'_, Sender>, notify: bool) {
        let doorbell = sender.doorbell;
        drop(sender);
        if let (true, Some(doorbell)) = (notify, doorbell) {
            self.transport.notify(doorbell);
        }
    }

    fn wait_for_room(&self, mut sender: LockGuard<'_, Sender>, frame: OutFrame) -> Call<Result<(), LinkError>> {
        let (reply, call) = reply_pair();
        count(&mut sender.waits, 1);
        sender.waiting.push_back((frame, reply));
        let half = sender.listen();
        drop(sender);
        if half == Half::Sent {
            // the device was done before it could be asked to tell
            self.send_waiting();
        }
        call
    }

    /// Takes back what was sent, unless another core is at it: memory should not wait for the next frame.
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
    pub(crate) fn send_waiting(&self) {
        let (mut done, mut answers, mut receipts) = (Vec::new(), Vec::new(), Vec::new());
        let mut sender = self.sender.lock();
        let mut is_again = false;
        loop {
            if sender.is_dead {
                let (waiting, _cutting) = (core::mem::take(&mut sender.waiting), sender.cutting.take());
                drop(sender);
                return waiting.into_iter().for_each(|(_, reply)| reply.send(Err(LinkError::Device)));
            }
            if sender.reclaim(&mut done).is_err() {
                // A device that breaks the rules right after its reset is given up: it chooses no depth and no length here.
                sender.is_dead |= is_again;
                if !sender.is_dead {
                    drop(sender);
                    self.reset();
                    is_again = true;
                    sender = self.sender.lock();
                }
                continue;
            }
            sender.push_waiting(&mut answers, &mut receipts);
            if !sender.is_waited_for() {
                sender.rest();
                break;
            }
            if sender.listen() == Half::IsTold {
                break;
            }
        }
        let notify = sender.ring.publish();
        self.leave(sender, notify);
        self.stop_gathering();
        answers.into_iter().for_each(|(reply, _receipt)| reply.send(Ok(())));
    }
}

/// The pieces of a frame for the ring, the device's header first. Few as a rule: those are not cleared before.
enum Chain {
    Short([Piece; SHORT], usize),
    Long(Vec<Piece>),
}

/// Bytes `from` to `to` of a piece of payload.
#[expect(clippy::arithmetic_side_effects, reason = "both lie in the piece, which lies in memory")]
fn part_of(piece: &Bytes, from: usize, to: usize) -> Piece {
    Piece::read(Pa(piece.pa().0 + from as u64), to.saturating_sub(from) as u32)
}

/// Header and payload of a frame of whole pages.
const SHORT: usize = 4;

impl Chain {
    fn new(header: Piece, pieces: usize) -> Chain {
        if pieces <= SHORT {
            return Chain::Short([header; SHORT], 1);
        }
        let mut all = Vec::with_capacity(pieces);
        all.push(header);
        Chain::Long(all)
    }

    fn add(&mut self, piece: Piece) {
        match self {
            Chain::Long(pieces) => pieces.push(piece),
            Chain::Short(pieces, count) => {
                if let Some(place) = pieces.get_mut(*count) {
                    *place = piece;
                    *count = count.saturating_add(1);
                }
            }
        }
    }

    fn pieces(&self) -> &[Piece] {
        match self {
            Chain::Long(pieces) => pieces,
            Chain::Short(pieces, count) => pieces.get(..*count).unwrap_or(&[]),
        }
    }
}

/// Joins the pieces of a frame that has more than a chain takes.
pub(crate) fn joined(frame: OutFrame) -> Result<OutFrame, LinkError> {
    if frame.pieces.len() <= PIECES_MAX {
        return Ok(frame);
    }
    let mut flat = Vec::with_capacity(frame.bytes());
    frame.pieces.iter().for_each(|piece| flat.extend_from_slice(piece.as_slice()));
    let whole = Bytes::copy_from(&flat).map_err(|_| LinkError::OutOfMemory)?;
    Ok(OutFrame { pieces: alloc::vec![whole], ..frame })
}
