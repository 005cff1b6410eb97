//! The places of rings and words in the control pages, and of what among the pages of a direction.
//!
//! For each side: the ring in which it sends, the bell of who reads that, and the word in which it says which shared pages it holds.

use core::sync::atomic::{AtomicU64, Ordering};
use gyre_line::{BellAt, LINES, Receiver, Ring, Sender, words_of};
use gyre_machine::PAGE_BYTES;
use gyre_zone_link::Side;

/// Pages of a direction for messages on their way.
pub const DATA_PAGES: usize = 36;
/// Pages of a side that programs map, for all channels that it opens.
pub const SHARED_PAGES: usize = 16;
/// Pages of a direction.
pub const PAGES: usize = DATA_PAGES + SHARED_PAGES;

const RING_WORDS: usize = words_of(LINES);
/// A cache line of its own.
const WORD_WORDS: usize = 8;
const SIDE_WORDS: usize = RING_WORDS + 2 * WORD_WORDS;
/// Pages of control words.
pub const CONTROL_PAGES: usize = (2 * SIDE_WORDS * size_of::<u64>()).div_ceil(PAGE_BYTES);

/// Set in the word of a side that has come.
const PRESENT: u64 = 1 << 63;

/// Makes the rings empty. Called by the maker of the memory, before either side is attached. False if there are too few words.
#[must_use]
pub fn prepare(control: &[AtomicU64]) -> bool {
    [Side::First, Side::Second].into_iter().all(|side| Words::of(control, side).is_some_and(|words| words.clear()))
}

/// The words of what one side says.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    ring: &'a [AtomicU64],
    /// Of who reads the ring.
    pub bell: BellAt<'a>,
    held: &'a AtomicU64,
}

impl<'a> Words<'a> {
    /// Returns the words of a side; `None` if they end before.
    pub(crate) fn of(control: &'a [AtomicU64], side: Side) -> Option<Words<'a>> {
        let first = match side {
            Side::First => 0,
            Side::Second => SIDE_WORDS,
        };
        let (ring, rest) = control.get(first..)?.split_at_checked(RING_WORDS)?;
        Some(Words { ring, bell: BellAt(rest.first()?), held: rest.get(WORD_WORDS)? })
    }

    fn clear(&self) -> bool {
        self.bell.come_back();
        self.held.store(0, Ordering::Release);
        Ring::<LINES>::place(self.ring)
    }

    pub(crate) fn sender(&self, position: u32) -> Option<Sender<'a>> {
        Sender::resume(self.ring, position)
    }

    pub(crate) fn receiver(&self, position: u32) -> Option<Receiver<'a>> {
        Receiver::resume(self.ring, position)
    }

    /// Says that the side is there, and holds these pages.
    pub(crate) fn say_held(&self, pages: u64) {
        self.held.store(pages | PRESENT, Ordering::Release);
    }

    /// Returns the pages that the side holds; `None` before it has come.
    pub(crate) fn held(&self) -> Option<u64> {
        let word = self.held.load(Ordering::Acquire);
        (word & PRESENT != 0).then_some(word & !PRESENT)
    }
}
