//! A ring of lines with one sender and one receiver.
//!
//! A line's head holds its sequence number. At position `p` (counted from 0, modulo 2^32) the line `p % N` goes through three states:
//!
//! 1. free: the number is `p`; the sender may write it.
//! 2. full: the number is `p + 1`; the receiver may read it.
//! 3. free for the next round: the number is `p + N`.
//!
//! Each side keeps its position to itself. A number that is none of these is the peer's nonsense: to the sender the line is not free, to the
//! receiver it is not full.

use crate::message::{Message, WORDS};
use crate::sync::{AtomicU64, Ordering};

/// Lines of a ring: one page.
pub const LINES: usize = 64;

/// Words of a line: head, names, and those of the message.
const LINE_WORDS: usize = 2 + WORDS;
const HEAD: usize = 0;
const NAMES: usize = 1;
const FIRST: usize = 2;

/// 64 bytes.
type Line = [AtomicU64; LINE_WORDS];

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == 64 && size_of::<Ring>() == 4096);

fn is_at(line: &Line, sequence: u32) -> bool {
    line[HEAD].load(Ordering::Acquire) as u32 == sequence
}

/// Makes the lines of a ring empty, in order.
fn clear<'a>(lines: impl Iterator<Item = &'a Line>) {
    for (index, line) in (0u32..).zip(lines) {
        line[HEAD].store(u64::from(index), Ordering::Release);
    }
}

/// Returns the lines of a ring that lies in shared words; `None` if it has not exactly so many.
fn lines_of<const N: usize>(words: &[AtomicU64]) -> Option<&[Line; N]> {
    let (lines, rest) = words.as_chunks::<LINE_WORDS>();
    lines.try_into().ok().filter(|_| rest.is_empty())
}

/// The shared memory of a ring. `N` is a power of two and at least 2; a page holds 64.
#[cfg_attr(not(loom), repr(C, align(64)))]
pub struct Ring<const N: usize = LINES> {
    lines: [Line; N],
}

/// Words of a ring with so many lines, for who places one in memory of another shape.
#[must_use]
pub const fn words_of(lines: usize) -> usize {
    lines.saturating_mul(LINE_WORDS)
}

/// The receiver has not taken enough yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl<const N: usize> Ring<N> {
    const MASK: usize = {
        assert!(N >= 2 && N.is_power_of_two() && N <= 1 << 16);
        N - 1
    };

    /// Makes an empty ring.
    #[must_use]
    pub fn new() -> Self {
        let ring = Self { lines: core::array::from_fn(|_| core::array::from_fn(|_| AtomicU64::new(0))) };
        ring.reset();
        ring
    }

    /// Makes the ring empty again, for new owners at both ends. Neither end may be in use.
    pub fn reset(&self) {
        clear(self.lines.iter());
    }

    /// Makes an empty ring of words in shared memory. Neither end may be in use. False if they are not [`words_of`] its lines.
    #[must_use]
    pub fn place(words: &[AtomicU64]) -> bool {
        lines_of::<N>(words).map(|lines| clear(lines.iter())).is_some()
    }

    fn at(lines: &[Line; N], position: u32) -> &Line {
        // The mask keeps the index below N.
        &lines[position as usize & Self::MASK]
    }
}

impl<const N: usize> Default for Ring<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// The sending end; there is one for each ring.
pub struct Sender<'a, const N: usize = LINES> {
    lines: &'a [Line; N],
    position: u32,
}

impl<'a, const N: usize> Sender<'a, N> {
    /// Takes the sending end of an empty ring.
    #[must_use]
    pub fn new(ring: &'a Ring<N>) -> Self {
        Self { lines: &ring.lines, position: 0 }
    }

    /// Takes the sending end of a ring in shared words, where an earlier taker left it ([`Sender::position`]; 0 at first). `None` if the
    /// words are not those of a ring.
    #[must_use]
    pub fn resume(words: &'a [AtomicU64], position: u32) -> Option<Self> {
        lines_of(words).map(|lines| Self { lines, position })
    }

    /// Returns how many messages were sent, modulo 2^32.
    #[must_use]
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Returns true if at least so many lines are free; 1 to `N` make sense. A receiver frees lines in order.
    #[must_use]
    pub fn has_room_for(&self, lines: u32) -> bool {
        let last = self.position.wrapping_add(lines).wrapping_sub(1);
        is_at(Ring::<N>::at(self.lines, last), last)
    }

    /// Returns true if the receiver has taken all messages.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let last = self.position.wrapping_sub(1);
        !is_at(Ring::<N>::at(self.lines, last), self.position)
    }

    /// Takes the sending end of a ring at the position that its last holder left it at.
    #[must_use]
    pub fn at(ring: &'a Ring<N>, position: u32) -> Self {
        Self { lines: &ring.lines, position }
    }

    /// Puts a message into the ring. Look at the receiver's [`Bell`](crate::Bell) afterwards.
    ///
    /// # Errors
    /// [`Full`] if the receiver has not taken the message of a round ago; nothing is written.
    pub fn send(&mut self, message: &Message) -> Result<(), Full> {
        let line = Ring::<N>::at(self.lines, self.position);
        if !is_at(line, self.position) {
            return Err(Full);
        }
        line[NAMES].store(message.names(), Ordering::Relaxed);
        for (place, word) in line[FIRST..].iter().zip(message.words) {
            place.store(word, Ordering::Relaxed);
        }
        self.position = self.position.wrapping_add(1);
        line[HEAD].store(message.head(self.position), Ordering::Release);
        Ok(())
    }
}

/// The receiving end; there is one for each ring.
pub struct Receiver<'a, const N: usize = LINES> {
    lines: &'a [Line; N],
    position: u32,
}

impl<'a, const N: usize> Receiver<'a, N> {
    /// Takes the receiving end of an empty ring.
    #[must_use]
    pub fn new(ring: &'a Ring<N>) -> Self {
        Self { lines: &ring.lines, position: 0 }
    }

    /// Takes the receiving end of a ring in shared words, where an earlier taker left it ([`Receiver::position`]; 0 at first). `None` if the
    /// words are not those of a ring.
    #[must_use]
    pub fn resume(words: &'a [AtomicU64], position: u32) -> Option<Self> {
        lines_of(words).map(|lines| Self { lines, position })
    }

    /// Returns how many messages were received, modulo 2^32.
    #[must_use]
    pub fn position(&self) -> u32 {
        self.position
    }

    /// Takes the receiving end of a ring at the position that its last holder left it at.
    #[must_use]
    pub fn at(ring: &'a Ring<N>, position: u32) -> Self {
        Self { lines: &ring.lines, position }
    }

    /// Takes the next message, copied before it is looked at: a peer that changes the line later changes nothing here.
    pub fn receive(&mut self) -> Option<Message> {
        let message = self.peek()?;
        self.free();
        Some(message)
    }

    /// Returns a copy of the next message and leaves its line full: what belongs to the line is the receiver's until [`Receiver::free`].
    #[must_use]
    pub fn peek(&self) -> Option<Message> {
        let line = Ring::<N>::at(self.lines, self.position);
        let head = line[HEAD].load(Ordering::Acquire);
        if head as u32 != self.position.wrapping_add(1) {
            return None;
        }
        let rest = line.get(FIRST..).unwrap_or(&[]);
        let words = core::array::from_fn(|index| rest.get(index).map_or(0, |word| word.load(Ordering::Relaxed)));
        Some(Message::of(head, line[NAMES].load(Ordering::Relaxed), words))
    }

    /// Gives the line of the message that was looked at back to the sender.
    pub fn free(&mut self) {
        let line = Ring::<N>::at(self.lines, self.position);
        let next_round = self.position.wrapping_add(N as u32);
        line[HEAD].store(u64::from(next_round), Ordering::Release);
        self.position = self.position.wrapping_add(1);
    }

    /// Returns true if a message waits.
    #[must_use]
    pub fn has_some(&self) -> bool {
        is_at(Ring::<N>::at(self.lines, self.position), self.position.wrapping_add(1))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(number: u64) -> Message {
        Message { kind: 1, words: [number; 6], ..Message::default() }
    }

    #[test]
    fn a_full_ring_refuses_and_takes_again_after_one_is_received() {
        let ring = Ring::<4>::new();
        let (mut sender, mut receiver) = (Sender::new(&ring), Receiver::new(&ring));
        (0..4).for_each(|number| sender.send(&message(number)).unwrap());
        assert_eq!(sender.send(&message(4)), Err(Full));
        assert_eq!(receiver.receive(), Some(message(0)));
        assert_eq!(sender.send(&message(4)), Ok(()));
        let rest: Vec<_> = core::iter::from_fn(|| receiver.receive()).map(|message| message.words[0]).collect();
        assert_eq!(rest, [1, 2, 3, 4]);
    }

    #[test]
    fn an_end_goes_on_at_the_position_that_it_was_left_at() {
        let ring = Ring::<4>::new();
        let (mut sent, mut received) = (0, 0);
        for number in 0..9 {
            let mut sender = Sender::at(&ring, sent);
            sender.send(&message(number)).unwrap();
            sent = sender.position();
            let mut receiver = Receiver::at(&ring, received);
            assert_eq!(receiver.receive(), Some(message(number)));
            received = receiver.position();
        }
    }

    #[test]
    fn a_ring_of_shared_words_goes_on_where_it_was_left() {
        let words: Vec<AtomicU64> = (0..words_of(4)).map(|_| AtomicU64::new(9)).collect();
        assert!(Ring::<4>::place(&words) && !Ring::<4>::place(&words[1..]));
        assert!(Sender::<4>::resume(&words[8..], 0).is_none());
        let (mut sent, mut received) = (0, 0);
        for number in 0..10 {
            let mut sender = Sender::<4>::resume(&words, sent).unwrap();
            assert!(sender.is_drained() && sender.has_room_for(4));
            sender.send(&message(number)).unwrap();
            assert!(!sender.is_drained() && !sender.has_room_for(4) && sender.has_room_for(3));
            sent = sender.position();
            let mut receiver = Receiver::<4>::resume(&words, received).unwrap();
            assert_eq!((receiver.peek(), receiver.peek()), (Some(message(number)), Some(message(number))));
            receiver.free();
            received = receiver.position();
        }
    }

    #[test]
    fn positions_go_on_past_their_last_number() {
        let ring = Ring::<2>::new();
        let start = u32::MAX - 1;
        for (slot, line) in ring.lines.iter().enumerate() {
            line[HEAD].store(u64::from(start.wrapping_add(slot as u32)), Ordering::Relaxed);
        }
        let mut sender = Sender { lines: &ring.lines, position: start };
        let mut receiver = Receiver { lines: &ring.lines, position: start };
        for number in 0..10 {
            sender.send(&message(number)).unwrap();
            assert_eq!(receiver.receive(), Some(message(number)));
        }
    }

    #[test]
    fn two_threads_pass_a_hundred_thousand_messages_in_order() {
        let ring = Ring::<64>::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut sender = Sender::new(&ring);
                for number in 0..100_000 {
                    while sender.send(&message(number)).is_err() {
                        std::thread::yield_now();
                    }
                }
            });
            let mut receiver = Receiver::new(&ring);
            let mut next = 0;
            while next < 100_000 {
                match receiver.receive() {
                    Some(found) => {
                        assert_eq!(found, message(next));
                        next += 1;
                    }
                    None => std::thread::yield_now(),
                }
            }
        });
    }

    proptest! {
        /// A peer writes numbers of its choice into the heads, at any time.
        #[test]
        fn nonsense_in_the_lines_neither_panics_nor_repeats_without_end(steps: Vec<(u8, u8, u64)>) {
            let ring = Ring::<8>::new();
            let (mut sender, mut receiver) = (Sender::new(&ring), Receiver::new(&ring));
            let mut received = 0;
            for (action, slot, value) in &steps {
                match action % 3 {
                    0 => ring.lines[usize::from(*slot) % 8][HEAD].store(*value, Ordering::Relaxed),
                    1 => drop(sender.send(&message(*value))),
                    _ => received += usize::from(receiver.receive().is_some()),
                }
            }
            prop_assert!(received <= steps.len());
        }
    }
}
