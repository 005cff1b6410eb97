//! A network card: two rings of frames, each with a buffer for each descriptor.
//!
//! Protocol of use: all buffers for frames to come are offered from the start. [`Card::receive`] tells of the oldest frame, and
//! [`Card::release`] offers its buffer again. [`Card::take_slot`], fill it, [`Card::send`].
//!
//! Left out: memory of the program as a source or target, which would save a copy; checksums and segments, which the kernel's card does not
//! do for cells.

use gyre_cell_abi::{
    card::{CardFacts, CardRequest},
    device::WRITE,
};

use super::split::{ENTRIES, Part, Split};
use crate::memory::Window;

/// Frames of each direction that have a buffer.
pub const FRAMES: usize = ENTRIES as usize;
/// Bytes of a buffer: the longest frame fits.
pub const FRAME_BYTES: u64 = 2048;
/// Frames of memory of the buffers of a direction, as a power of two.
pub const FRAMES_ORDER: u8 = 4;
const _: () = assert!(FRAMES as u64 * FRAME_BYTES == 4096 << FRAMES_ORDER);

/// A frame in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Its buffer.
    pub slot: usize,
    /// The physical address of the buffer.
    pub physical: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// One direction: the ring and the first address of its buffers.
#[derive(Debug)]
pub struct Direction {
    ring: Split,
    buffers: u64,
}

impl Direction {
    /// Makes an empty ring in a frame, for buffers at an address.
    pub fn new<W: Window + ?Sized>(window: &mut W, ring: u64, buffers: u64) -> Self {
        Self { ring: Split::new(window, ring), buffers }
    }

    fn physical(&self, slot: usize) -> u64 {
        self.buffers + slot as u64 * FRAME_BYTES
    }

    /// Gives the kernel a buffer. Returns whether the kernel is to be told.
    fn give<W: Window + ?Sized>(&mut self, window: &mut W, slot: usize, [bytes, flags]: [u64; 2]) -> bool {
        let (number, physical) = (slot as u64, self.physical(slot));
        self.ring.describe(window, Part { number, physical, bytes, flags: flags as u16, next: 0 });
        self.ring.publish(window, number)
    }
}

/// A card that was opened.
#[derive(Debug)]
pub struct Card {
    /// Its address, and how long frames may be.
    pub facts: CardFacts,
    receive: Direction,
    send: Direction,
    /// Buffers for frames to send that the kernel does not have, a bit each.
    free: u32,
    must_ring: bool,
}

impl Card {
    /// Makes a card of two empty directions, and offers all buffers for frames to come.
    pub fn new<W: Window + ?Sized>(window: &mut W, receive: Direction, send: Direction) -> Self {
        let mut card = Self { facts: CardFacts::default(), receive, send, free: u32::MAX, must_ring: false };
        (0..FRAMES).for_each(|slot| card.release(window, slot));
        card
    }

    /// Describes it to the kernel.
    pub fn describe(&self, device: u32) -> CardRequest {
        CardRequest {
            size: size_of::<CardRequest>() as u32,
            device,
            entries: ENTRIES.into(),
            reserved: 0,
            receive: self.receive.ring.parts(),
            send: self.send.ring.parts(),
        }
    }

    /// Returns whether the kernel is to be told of frames since the last question.
    pub fn takes_bell(&mut self) -> bool {
        core::mem::replace(&mut self.must_ring, false)
    }

    /// Returns whether a frame has come, or a buffer is free again.
    pub fn has_news<W: Window + ?Sized>(&self, window: &W) -> bool {
        self.receive.ring.has_used(window) || self.send.ring.has_used(window)
    }

    /// Returns whether a frame has come.
    pub fn can_receive<W: Window + ?Sized>(&self, window: &W) -> bool {
        self.receive.ring.has_used(window)
    }

    /// Returns whether a frame can be sent now.
    pub fn can_send<W: Window + ?Sized>(&self, window: &W) -> bool {
        self.free != 0 || self.send.ring.has_used(window)
    }

    /// Takes the oldest frame that has come.
    pub fn receive<W: Window + ?Sized>(&mut self, window: &W) -> Option<Frame> {
        let used = self.receive.ring.take(window)?;
        let slot = used.head as usize % FRAMES;
        Some(Frame { slot, physical: self.receive.physical(slot), bytes: used.bytes.min(FRAME_BYTES) })
    }

    /// Offers the buffer of a frame again. The kernel looks at such buffers when a frame comes, so it need not be told.
    pub fn release<W: Window + ?Sized>(&mut self, window: &mut W, slot: usize) {
        self.receive.give(window, slot, [FRAME_BYTES, WRITE.into()]);
    }

    /// Returns a buffer for a frame to send, which stays free until [`Card::send`]; `None` if the kernel has all.
    pub fn take_slot<W: Window + ?Sized>(&mut self, window: &W) -> Option<Frame> {
        // Each turn takes back a buffer that the kernel has.
        while let Some(used) = self.send.ring.take(window) {
            self.free |= 1 << (used.head as usize % FRAMES);
        }
        let slot = self.free.trailing_zeros() as usize;
        (slot < FRAMES).then(|| Frame { slot, physical: self.send.physical(slot), bytes: FRAME_BYTES })
    }

    /// Sends so many bytes of a buffer.
    pub fn send<W: Window + ?Sized>(&mut self, window: &mut W, slot: usize, bytes: u64) {
        self.free &= !(1 << (slot % FRAMES));
        self.must_ring |= self.send.give(window, slot, [bytes, 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Memory, START};

    const RINGS: [u64; 2] = [START + (1 << 20), START + (1 << 20) + 4096];
    const BUFFERS: [u64; 2] = [START + (3 << 19), START + (3 << 19) + (1 << 16)];
    const USED: u64 = 2048;

    fn card() -> (Memory, Card) {
        let (mut memory, _) = Memory::with_lots(2);
        let [receive, send] = [0, 1].map(|at| Direction::new(&mut memory, RINGS[at], BUFFERS[at]));
        let card = Card::new(&mut memory, receive, send);
        (memory, card)
    }

    /// The kernel is done with chain number `count` of a ring.
    fn answer(memory: &mut Memory, ring: usize, count: u16, [head, bytes]: [u64; 2]) {
        let at = RINGS[ring] + USED + u64::from((count - 1) % ENTRIES) * 8;
        let before = memory.read(at) & 0xffff_ffff;
        memory.write(at, before | head << 32);
        memory.write(at + 8, memory.read(at + 8) & !0xffff_ffff | bytes);
        let first = memory.read(RINGS[ring] + USED) & !0xffff_0000;
        memory.write(RINGS[ring] + USED, first | u64::from(count) << 16);
    }

    fn available(memory: &Memory, ring: usize) -> u16 {
        (memory.read(RINGS[ring] + 1024) >> 16) as u16
    }

    #[test]
    fn all_buffers_are_offered_and_frames_come_in_order() {
        let (mut memory, mut card) = card();
        assert_eq!((available(&memory, 0), card.receive(&memory)), (32, None));
        answer(&mut memory, 0, 1, [5, 60]);
        answer(&mut memory, 0, 2, [0, 1514]);
        assert!(card.has_news(&memory));
        let frame = card.receive(&memory).unwrap();
        assert_eq!(frame, Frame { slot: 5, physical: BUFFERS[0] + 5 * 2048, bytes: 60 });
        card.release(&mut memory, 5);
        assert_eq!(available(&memory, 0), 33);
        assert_eq!(card.receive(&memory).map(|frame| [frame.slot as u64, frame.bytes]), Some([0, 1514]));
        assert!(!card.has_news(&memory) && card.receive(&memory).is_none());
    }

    #[test]
    fn a_buffer_is_the_kernels_until_it_is_done() {
        let (mut memory, mut card) = card();
        for slot in 0..FRAMES {
            assert_eq!(card.take_slot(&memory).map(|frame| frame.slot), Some(slot));
            card.send(&mut memory, slot, 60);
        }
        assert!(card.takes_bell() && !card.takes_bell());
        assert_eq!((card.take_slot(&memory), available(&memory, 1)), (None, 32));
        answer(&mut memory, 1, 1, [9, 0]);
        assert!(card.has_news(&memory));
        assert_eq!(card.take_slot(&memory).map(|frame| frame.physical), Some(BUFFERS[1] + 9 * 2048));
        assert_eq!(memory.read(RINGS[1] + 16), BUFFERS[1] + 2048);
    }

    #[test]
    fn numbers_of_the_kernel_stay_within_the_buffers() {
        let (mut memory, mut card) = card();
        answer(&mut memory, 0, 1, [u64::from(u32::MAX), u64::from(u32::MAX)]);
        let frame = card.receive(&memory).unwrap();
        assert!(frame.slot < FRAMES && frame.bytes <= FRAME_BYTES);
    }
}
