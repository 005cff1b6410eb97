//! An input read as the numbers of a test's steps.

/// Numbers at which code goes wrong.
const EXTREMES: &[u64] = &[
    0,
    1,
    2,
    7,
    8,
    9,
    63,
    64,
    512,
    1448,
    1500,
    4095,
    4096,
    4097,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];
/// First bytes below this are a number themselves, those below [`LONG`] the place of an extreme one, others come before four bytes.
const EXTREME: u8 = 160;
const LONG: u8 = 240;

/// Reads an input from its beginning. Behind its end everything is zero.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// Begins to read.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns true behind the last byte.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> u8 {
        let first = self.rest.split_first();
        first.map_or(0, |(byte, rest)| {
            self.rest = rest;
            *byte
        })
    }

    /// Returns a number, often a small or an extreme one.
    pub fn number(&mut self) -> u64 {
        let first = self.byte();
        match first {
            0..EXTREME => u64::from(first),
            EXTREME..LONG => EXTREMES[usize::from(first - EXTREME) % EXTREMES.len()],
            LONG.. => u64::from(u32::from_le_bytes([0; 4].map(|_: u8| self.byte()))),
        }
    }

    /// Returns a number below a limit by one byte; 0 if the limit is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()).checked_rem(limit).unwrap_or(0)
    }

    /// Returns one of some by one byte.
    ///
    /// # Panics
    /// If there are none.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Returns true once in so many.
    pub fn hits(&mut self, one_in: u8) -> bool {
        self.byte().checked_rem(one_in) == Some(one_in.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_read_to_its_end_and_then_zero() {
        let mut input = Input::new(&[7, EXTREME, LONG, 1, 2, 0, 0, 10, 3]);
        assert_eq!((input.number(), input.number(), input.number()), (7, 0, 0x201));
        assert_eq!((input.below(4), input.one_of(&[1, 2])), (2, 2));
        assert!(input.is_over() && input.byte() == 0 && input.number() == 0 && !input.hits(8));
    }
}
