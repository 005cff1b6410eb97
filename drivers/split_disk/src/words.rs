//! The meaning of lines.
//!
//! | kind | token | words |
//! |---|---|---|
//! | 1 read, 2 write, 3 flush | slot | disk, first sector, bytes |
//! | 4 answer | slot | 0, or the number of an error |

use crate::layout::{SLOT_BYTES, SLOTS};
use gyre_device::Operation;
use gyre_interface::block::{BlockError, SECTOR_BYTES};
use gyre_line::Message;

const ANSWER: u16 = 4;
const OPERATIONS: [(u16, Operation); 3] = [(1, Operation::Read), (2, Operation::Write), (3, Operation::Flush)];
/// Errors by their numbers, from 1 on.
const ERRORS: [BlockError; 5] =
    [BlockError::Io, BlockError::OutOfRange, BlockError::Unsupported, BlockError::OutOfMemory, BlockError::Gone];

/// A request in a slot. Read from a line it is a claim: [`Ask::read`] has checked only that it agrees with itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The slot with its memory.
    pub slot: usize,
    /// The disk, by its place in the table.
    pub disk: usize,
    /// The work.
    pub operation: Operation,
    /// The first sector on the disk.
    pub first_sector: u64,
    /// Whole sectors in the slot, bytes; none of a flush.
    pub bytes: usize,
}

impl Ask {
    /// Writes it down.
    #[must_use]
    pub fn message(&self) -> Message {
        let kind = OPERATIONS.iter().find(|(_, operation)| *operation == self.operation).map_or(0, |(kind, _)| *kind);
        let words = [self.disk as u64, self.first_sector, self.bytes as u64, 0, 0, 0];
        Message { kind, token: self.slot as u32, words, ..Message::default() }
    }

    /// Reads a line's copy; `None` if it is no request, or one that does not fit into its slot.
    #[must_use]
    pub fn read(message: &Message) -> Option<Ask> {
        let operation = OPERATIONS.iter().find(|(kind, _)| *kind == message.kind).map(|(_, operation)| *operation)?;
        let [disk, first_sector, bytes, ..] = message.words;
        let (slot, bytes) = (slot_of(message)?, usize::try_from(bytes).ok()?);
        let is_sound = match operation {
            Operation::Flush => bytes == 0,
            _ => bytes > 0 && bytes <= SLOT_BYTES && bytes.is_multiple_of(SECTOR_BYTES),
        };
        is_sound.then_some(Ask { slot, disk: usize::try_from(disk).ok()?, operation, first_sector, bytes })
    }
}

/// The end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Its slot, which is the front end's again.
    pub slot: usize,
    /// The result; what was read is in the slot.
    pub result: Result<(), BlockError>,
}

impl Answer {
    /// Writes it down.
    #[must_use]
    pub fn message(&self) -> Message {
        let number = |error| ERRORS.iter().position(|one| *one == error).unwrap_or(0).saturating_add(1);
        let word = self.result.err().map_or(0, number) as u64;
        Message { kind: ANSWER, token: self.slot as u32, words: [word, 0, 0, 0, 0, 0], ..Message::default() }
    }

    /// Reads a line's copy; `None` if it is no answer.
    #[must_use]
    pub fn read(message: &Message) -> Option<Answer> {
        let slot = slot_of(message).filter(|_| message.kind == ANSWER)?;
        let [word, ..] = message.words;
        let result = match usize::try_from(word).ok()?.checked_sub(1) {
            None => Ok(()),
            Some(place) => Err(*ERRORS.get(place)?),
        };
        Some(Answer { slot, result })
    }
}

fn slot_of(message: &Message) -> Option<usize> {
    usize::try_from(message.token).ok().filter(|slot| *slot < SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_gives_back_its_request(slot in 0..SLOTS, disk in 0usize..64, work in 0usize..3, first_sector: u64, sectors in 1usize..=128) {
            let operation = OPERATIONS[work].1;
            let bytes = if operation == Operation::Flush { 0 } else { sectors * SECTOR_BYTES };
            let ask = Ask { slot, disk, operation, first_sector, bytes };
            prop_assert_eq!(Ask::read(&ask.message()), Some(ask));
            prop_assert_eq!(Answer::read(&ask.message()), None);
        }

        #[test]
        fn any_line_is_a_request_within_its_slot_or_none(kind in 0u16..6, token in 0u32..64, words: [u64; 6]) {
            let message = Message { kind, token, words, ..Message::default() };
            if let Some(ask) = Ask::read(&message) {
                prop_assert!(ask.slot < SLOTS && ask.bytes <= SLOT_BYTES && ask.bytes % SECTOR_BYTES == 0);
            }
            prop_assert!(Answer::read(&message).is_none_or(|answer| answer.slot < SLOTS));
        }
    }

    #[test]
    fn a_line_gives_back_its_answer() {
        let results = ERRORS.into_iter().map(Err).chain([Ok(())]);
        for result in results {
            let answer = Answer { slot: 7, result };
            assert_eq!(Answer::read(&answer.message()), Some(answer));
        }
    }
}
