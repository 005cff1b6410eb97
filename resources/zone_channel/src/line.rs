//! The lines that two trunks send each other.
//!
//! A channel's key is a number of who opened it; [`MINE`] marks, at each side, those that it opened itself. A line carries the key as its
//! receiver knows it.

use alloc::vec::Vec;
use gyre_channel::{ChannelError, MESSAGE_BYTES_MAX};
use gyre_line::Message;
use gyre_machine::PAGE_BYTES;

/// Messages of a channel that are under way in each direction, at most.
pub const WINDOW: u32 = 2;
/// The mark of a key of a channel that this side opened.
pub(crate) const MINE: u32 = 1 << 31;
/// Pages of the longest message.
pub(crate) const MESSAGE_PAGES: usize = MESSAGE_BYTES_MAX / PAGE_BYTES;

/// The meaning of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Line {
    /// A channel is asked for: its names lie in a page of messages, and the bits name shared pages of the asker.
    Open { page: u16, bytes: u16, shared: u32 },
    /// The answer to that.
    Answer(Result<(), ChannelError>),
    /// A message lies in these pages.
    Data(Data),
    /// These pages of messages are free again.
    Done(Vec<u16>),
    /// A message was read: there is room for one more.
    Room,
    /// The channel has ended.
    Close,
}

/// A message on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Data {
    /// Its length.
    pub bytes: usize,
    /// The pages in which it lies, in order.
    pub pages: Vec<u16>,
}

const ERRORS: [ChannelError; 7] = [
    ChannelError::Again,
    ChannelError::Invalid,
    ChannelError::Refused,
    ChannelError::Forbidden,
    ChannelError::NoMemory,
    ChannelError::Unreachable,
    ChannelError::Ended,
];

impl Line {
    /// Writes it down for the other side, for a channel with this key here.
    pub(crate) fn encode(&self, key: u32) -> Message {
        let (kind, words) = match self {
            Line::Open { page, bytes, shared } => {
                (1, [u64::from(*page), u64::from(*bytes), u64::from(*shared), 0, 0, 0])
            }
            Line::Answer(result) => {
                let number =
                    |error| ERRORS.iter().position(|known| *known == error).map_or(1, |place| place.saturating_add(1));
                (2, [result.map_or_else(number, |()| 0) as u64, 0, 0, 0, 0, 0])
            }
            Line::Data(data) => (3, page_words(data.bytes, &data.pages)),
            Line::Done(pages) => (4, page_words(0, pages)),
            Line::Room => (5, [0; 6]),
            Line::Close => (6, [0; 6]),
        };
        Message { kind, token: key ^ MINE, words, ..Message::default() }
    }

    /// Reads one that the other side sent; `None` for whatever is none. Pages are not checked but for their number.
    pub(crate) fn decode(message: &Message) -> Option<Line> {
        let [first, second, third, ..] = message.words;
        Some(match message.kind {
            1 => Line::Open {
                page: u16::try_from(first).ok()?,
                bytes: u16::try_from(second).ok().filter(|bytes| usize::from(*bytes) <= PAGE_BYTES)?,
                shared: u32::try_from(third).ok()?,
            },
            2 if first == 0 => Line::Answer(Ok(())),
            2 => Line::Answer(Err(*ERRORS.get(usize::try_from(first).ok()?.checked_sub(1)?)?)),
            3 => {
                let (bytes, pages) = pages_of(message.words)?;
                let fits = (1..=MESSAGE_BYTES_MAX).contains(&bytes) && bytes.div_ceil(PAGE_BYTES) == pages.len();
                fits.then_some(Line::Data(Data { bytes, pages }))?
            }
            4 => Line::Done(pages_of(message.words)?.1),
            5 => Line::Room,
            6 => Line::Close,
            _ => return None,
        })
    }
}

/// Packs a length and at most [`MESSAGE_PAGES`] pages: four to a word.
fn page_words(bytes: usize, pages: &[u16]) -> [u64; 6] {
    let mut words = [0; 6];
    let [length, rest @ ..] = &mut words;
    *length = bytes as u64 | (pages.len() as u64) << 32;
    for (word, four) in rest.iter_mut().zip(pages.chunks(4)) {
        *word = four.iter().rev().fold(0, |sum, page| sum << 16 | u64::from(*page));
    }
    words
}

fn pages_of(words: [u64; 6]) -> Option<(usize, Vec<u16>)> {
    let [length, rest @ ..] = words;
    let count = usize::try_from(length >> 32).ok().filter(|count| *count <= MESSAGE_PAGES)?;
    let all = rest.iter().flat_map(|word| [0, 16, 32, 48].map(|shift| (*word >> shift) as u16));
    Some((length as u32 as usize, all.take(count).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_written_are_read_and_nonsense_is_none() {
        let data = Data { bytes: 4097, pages: std::vec![3, 65_535] };
        let longest = Data { bytes: MESSAGE_BYTES_MAX, pages: (0..16).collect() };
        let mut all = std::vec![
            Line::Open { page: 9, bytes: 4096, shared: u32::MAX },
            Line::Answer(Ok(())),
            Line::Data(data),
            Line::Data(longest.clone()),
            Line::Done(longest.pages),
            Line::Room,
            Line::Close,
        ];
        all.extend(ERRORS.map(|error| Line::Answer(Err(error))));
        for line in all {
            let message = line.encode(7 | MINE);
            assert_eq!((Line::decode(&message), message.token), (Some(line), 7));
        }
        for (kind, words) in [
            (0, [0; 6]),
            (7, [0; 6]),
            (1, [u64::MAX; 6]),
            (2, [8; 6]),
            (3, [1; 6]),
            (3, [4097 | 1 << 32; 6]),
            (4, [17 << 32; 6]),
        ] {
            assert_eq!(Line::decode(&Message { kind, words, ..Message::default() }), None, "{kind}");
        }
    }
}
