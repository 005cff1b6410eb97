//! The meaning of lines: a frame, or pages that are given back.
//!
//! A frame: `token` is the bytes in the slot, the first word the bytes in pages, the next four words the numbers of the pages, 16 bits each.
//! Returned pages: `token` says how many, the words their numbers.

use crate::layout::{FRAME_PAGES_MAX, SLOT_BYTES};
use gyre_line::Message;
use gyre_machine::PAGE_BYTES;

/// Kind of a line that is a frame.
const FRAME: u16 = 1;
/// Kind of a line that gives pages back.
const RETURN: u16 = 2;
/// Numbers in a word.
const WORD_NUMBERS: usize = 4;
/// Numbers in a line that gives pages back.
pub(crate) const RETURNS_MAX: usize = 24;

/// A frame in an arena. Read from a line it is a claim: [`Descriptor::read`] has checked only that it agrees with itself.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Descriptor {
    /// Bytes in the slot.
    pub head_bytes: usize,
    /// Bytes in pages.
    pub rest_bytes: usize,
    pages: [u16; FRAME_PAGES_MAX],
}

/// Returns how many pages so many bytes take.
pub(crate) fn pages_of(bytes: usize) -> usize {
    bytes.div_ceil(PAGE_BYTES)
}

impl Descriptor {
    /// Describes a frame; `pages` are as many as [`pages_of`] its bytes in pages.
    pub(crate) fn new(head_bytes: usize, rest_bytes: usize, pages: &[u16]) -> Descriptor {
        let mut descriptor = Descriptor { head_bytes, rest_bytes, ..Descriptor::default() };
        descriptor.pages.iter_mut().zip(pages).for_each(|(place, page)| *place = *page);
        descriptor
    }

    /// Returns the numbers of its pages.
    pub(crate) fn pages(&self) -> &[u16] {
        self.pages.get(..pages_of(self.rest_bytes)).unwrap_or(&[])
    }

    pub(crate) fn message(&self) -> Message {
        let mut words = [0; 6];
        words[0] = self.rest_bytes as u64;
        pack(&self.pages, &mut words[1..]);
        Message { kind: FRAME, token: self.head_bytes as u32, words, ..Message::default() }
    }

    /// Reads a line's copy; `None` if it is no frame, or longer than frames are.
    pub(crate) fn read(message: &Message) -> Option<Descriptor> {
        let head_bytes = message.token as usize;
        let rest_bytes = usize::try_from(message.words[0]).ok()?;
        let is_sane = message.kind == FRAME
            && (1..=SLOT_BYTES).contains(&head_bytes)
            && rest_bytes <= FRAME_PAGES_MAX.saturating_mul(PAGE_BYTES);
        let mut descriptor = Descriptor { head_bytes, rest_bytes, ..Descriptor::default() };
        unpack(&message.words[1..], &mut descriptor.pages);
        is_sane.then_some(descriptor)
    }
}

/// Makes the line that gives pages back, at most [`RETURNS_MAX`].
pub(crate) fn return_message(pages: &[u16]) -> Message {
    let mut words = [0; 6];
    let pages = pages.get(..RETURNS_MAX).unwrap_or(pages);
    pack(pages, &mut words);
    Message { kind: RETURN, token: pages.len() as u32, words, ..Message::default() }
}

/// Returns the numbers in a line that gives pages back; none if it is another line.
pub(crate) fn returned_pages(message: &Message) -> impl Iterator<Item = u16> + use<> {
    let count = if message.kind == RETURN { (message.token as usize).min(RETURNS_MAX) } else { 0 };
    let mut pages = [0; RETURNS_MAX];
    unpack(&message.words, &mut pages);
    pages.into_iter().take(count)
}

fn pack(numbers: &[u16], words: &mut [u64]) {
    for (word, numbers) in words.iter_mut().zip(numbers.chunks(WORD_NUMBERS)) {
        *word = numbers.iter().rev().fold(0, |word, number| word << 16 | u64::from(*number));
    }
}

fn unpack(words: &[u64], numbers: &mut [u16]) {
    for (word, numbers) in words.iter().zip(numbers.chunks_mut(WORD_NUMBERS)) {
        let mut rest = *word;
        for number in numbers {
            *number = rest as u16;
            rest >>= 16;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_gives_back_its_frame(head in 1usize..=512, rest in 0usize..=65_536, pages: [u16; 16]) {
            let descriptor = Descriptor::new(head, rest, &pages[..pages_of(rest)]);
            prop_assert_eq!(descriptor.pages(), &pages[..pages_of(rest)]);
            prop_assert_eq!(Descriptor::read(&descriptor.message()), Some(descriptor));
        }

        #[test]
        fn any_line_is_a_frame_within_bounds_or_none(kind in 0u16..4, token: u32, words: [u64; 6]) {
            let message = Message { kind, token, words, ..Message::default() };
            if let Some(read) = Descriptor::read(&message) {
                prop_assert!(read.head_bytes <= SLOT_BYTES && read.pages().len() <= FRAME_PAGES_MAX);
                prop_assert!(read.pages().len() * PAGE_BYTES >= read.rest_bytes);
            }
            prop_assert!(returned_pages(&message).count() <= RETURNS_MAX);
        }

        #[test]
        fn a_line_gives_back_its_pages(pages in proptest::collection::vec(any::<u16>(), 0..=24)) {
            prop_assert_eq!(returned_pages(&return_message(&pages)).collect::<Vec<_>>(), pages);
        }
    }
}
