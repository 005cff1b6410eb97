//! The kernel's words about an error of its own, kept until they are told.

use core::fmt::Write;

/// Bytes kept of a message; the rest is cut.
const MESSAGE_BYTES: usize = 240;
/// Places kept of a trace.
const TRACE_PLACES: usize = 24;

/// The work above a point was given up: nothing that it had on the stack was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GivenUp;

/// At which instruction work has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailedAt {
    /// At a call: what it had open is counted.
    Call,
    /// At any instruction: a change may have been made and not be counted yet.
    Anywhere,
}

/// Whether a failure ends only the work in hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The work is given up; the machine goes on.
    Contain,
    /// The machine must end, and why.
    EndMachine(&'static str),
}

/// A kernel failure: its message and the places of the calls that led there.
#[derive(Clone, Copy)]
pub struct Failure {
    message: [u8; MESSAGE_BYTES],
    message_bytes: usize,
    trace: [u64; TRACE_PLACES],
    places: usize,
}

impl Failure {
    /// One without a message and a trace.
    pub const fn new() -> Failure {
        Failure { message: [0; MESSAGE_BYTES], message_bytes: 0, trace: [0; TRACE_PLACES], places: 0 }
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        let bytes = self.message.get(..self.message_bytes).unwrap_or(&[]);
        match core::str::from_utf8(bytes) {
            Ok(text) => text,
            // Cut within a character.
            Err(error) => core::str::from_utf8(bytes.get(..error.valid_up_to()).unwrap_or(&[])).unwrap_or(""),
        }
    }

    /// Addresses of code, the innermost first.
    pub fn trace(&self) -> &[u64] {
        self.trace.get(..self.places).unwrap_or(&[])
    }

    /// Notes the next outer place; deeper ones than are kept are cut.
    pub fn push_place(&mut self, address: u64) {
        if let Some(place) = self.trace.get_mut(self.places) {
            *place = address;
            self.places += 1;
        }
    }
}

impl Default for Failure {
    fn default() -> Failure {
        Failure::new()
    }
}

impl Write for Failure {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.message.get_mut(self.message_bytes..).unwrap_or(&mut []);
        let count = room.len().min(text.len());
        if let (Some(to), Some(from)) = (room.get_mut(..count), text.as_bytes().get(..count)) {
            to.copy_from_slice(from);
            self.message_bytes += count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_too_long_is_cut_between_characters() {
        let mut failure = Failure::new();
        for _ in 0..100 {
            write!(failure, "a\u{e4}").unwrap();
        }
        assert_eq!(failure.message().len(), MESSAGE_BYTES);
        let mut failure = Failure::new();
        (0..100).for_each(|_| write!(failure, "\u{20ac}\u{e4}").unwrap());
        assert!(failure.message().len() <= MESSAGE_BYTES && failure.message().starts_with("\u{20ac}\u{e4}"));
    }

    #[test]
    fn a_trace_too_deep_is_cut() {
        let mut failure = Failure::new();
        (0..100).for_each(|place| failure.push_place(place));
        assert_eq!(failure.trace().len(), TRACE_PLACES);
        assert_eq!(failure.trace()[3], 3);
    }
}
