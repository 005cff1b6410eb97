//! The places of rings and bells in the control words, and of slots among the pages.
//!
//! For each direction: a ring of frames, a ring of returned pages (the other way), the bell of who reads frames, the bell of who waits for
//! room. The first pages of a direction are slots for the heads of frames, one for each line of its ring.

use crate::arena::Side;
use core::sync::atomic::AtomicU64;
use gyre_line::{BellAt, LINES, Receiver, Ring, Sender, words_of};
use gyre_machine::PAGE_BYTES;

/// Bytes of a slot: a frame that is not longer takes no page.
pub(crate) const SLOT_BYTES: usize = 512;
/// Slots in a page.
const PAGE_SLOTS: usize = PAGE_BYTES / SLOT_BYTES;
/// Pages of slots.
pub(crate) const SLOT_PAGES: usize = LINES / PAGE_SLOTS;
/// Pages of the longest frame, beside its slot.
pub(crate) const FRAME_PAGES_MAX: usize = 16;
/// The fewest pages of a direction: slots, and room for two of the longest frames in each half.
pub const PAGES_MIN: usize = SLOT_PAGES + 4 * FRAME_PAGES_MAX;

/// Words of a ring.
const RING_WORDS: usize = words_of(LINES);
/// Words of a bell: a cache line of its own.
const BELL_WORDS: usize = 8;
const DIRECTION_WORDS: usize = 2 * RING_WORDS + 2 * BELL_WORDS;
/// Pages of control words.
pub const CONTROL_PAGES: usize = (2 * DIRECTION_WORDS * size_of::<u64>()).div_ceil(PAGE_BYTES);

const _: () = assert!(SLOT_PAGES * PAGE_SLOTS == LINES);

/// Makes the rings of an arena empty. Called once by the maker of the memory, before either end is attached. False if there are too few words.
#[must_use]
pub fn prepare(control: &[AtomicU64]) -> bool {
    let directions = [Direction::of(control, Side::First), Direction::of(control, Side::Second)];
    directions.into_iter().all(|direction| direction.is_some_and(|direction| direction.clear()))
}

/// The words of one direction.
#[derive(Clone, Copy)]
pub(crate) struct Direction<'a> {
    frames: &'a [AtomicU64],
    returns: &'a [AtomicU64],
    /// Of who reads frames.
    pub frames_bell: BellAt<'a>,
    /// Of who waits for room.
    pub room_bell: BellAt<'a>,
}

impl<'a> Direction<'a> {
    /// Returns the direction in which `sender` sends; `None` if the words end before.
    pub(crate) fn of(control: &'a [AtomicU64], sender: Side) -> Option<Direction<'a>> {
        let first = match sender {
            Side::First => 0,
            Side::Second => DIRECTION_WORDS,
        };
        let (frames, rest) = control.get(first..)?.split_at_checked(RING_WORDS)?;
        let (returns, rest) = rest.split_at_checked(RING_WORDS)?;
        let (frames_bell, room_bell) = (BellAt(rest.first()?), BellAt(rest.get(BELL_WORDS)?));
        Some(Direction { frames, returns, frames_bell, room_bell })
    }

    fn clear(&self) -> bool {
        self.frames_bell.come_back();
        self.room_bell.come_back();
        Ring::<LINES>::place(self.frames) && Ring::<LINES>::place(self.returns)
    }

    pub(crate) fn frame_sender(&self, position: u32) -> Option<Sender<'a>> {
        Sender::resume(self.frames, position)
    }

    pub(crate) fn frame_receiver(&self, position: u32) -> Option<Receiver<'a>> {
        Receiver::resume(self.frames, position)
    }

    pub(crate) fn return_sender(&self, position: u32) -> Option<Sender<'a>> {
        Sender::resume(self.returns, position)
    }

    pub(crate) fn return_receiver(&self, position: u32) -> Option<Receiver<'a>> {
        Receiver::resume(self.returns, position)
    }
}

/// Returns the page and the offset of the slot of a position in a ring of frames.
pub(crate) fn slot_of(position: u32) -> (usize, usize) {
    let slot = position as usize % LINES;
    (slot / PAGE_SLOTS, (slot % PAGE_SLOTS).saturating_mul(SLOT_BYTES))
}
