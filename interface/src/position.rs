//! The place of a byte in a file.

/// A byte's place in a file, from 0 to 2^63-1 (`loff_t`, lseek(2)). A program's number becomes a `Position` at the
/// entry of a call; later sums answer `None` beyond the range, so no arithmetic on it can overflow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Position(u64);

impl Position {
    /// The first byte.
    pub const START: Position = Position(0);
    /// The last place. No file has a byte there: a read finds its end, a write is refused (EFBIG).
    pub const LAST: Position = Position(i64::MAX as u64);

    /// Returns the place with this number; `None` beyond [`Position::LAST`], as for negative numbers.
    pub const fn new(at: u64) -> Option<Position> {
        if at <= Position::LAST.0 { Some(Position(at)) } else { None }
    }

    /// Returns its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the place `bytes` further on; `None` beyond the range.
    pub const fn plus(self, bytes: u64) -> Option<Position> {
        match self.0.checked_add(bytes) {
            Some(at) => Position::new(at),
            None => None,
        }
    }

    /// Returns the place `bytes` further on, or [`Position::LAST`] beyond the range.
    pub const fn advanced(self, bytes: u64) -> Position {
        match self.plus(bytes) {
            Some(at) => at,
            None => Position::LAST,
        }
    }

    /// Returns the bytes from here to `end`; 0 if that lies before.
    pub const fn until(self, end: Position) -> u64 {
        end.0.saturating_sub(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_numbers_are_no_places() {
        assert_eq!(Position::new(u64::MAX - 49), None);
        assert_eq!(Position::new(1 << 63), None);
        assert_eq!(Position::new((1 << 63) - 1), Some(Position::LAST));
    }

    #[test]
    fn sums_end_at_the_last_place() {
        let near = Position::new(Position::LAST.get() - 10).unwrap();
        assert_eq!(near.plus(10), Some(Position::LAST));
        assert_eq!((near.plus(11), near.plus(u64::MAX)), (None, None));
        assert_eq!(near.advanced(u64::MAX), Position::LAST);
        assert_eq!((near.until(Position::LAST), Position::LAST.until(near)), (10, 0));
    }
}
