//! Where a byte is in a file.

/// A byte's place in a file, from 0 to 2^63-1 (`loff_t`, lseek(2)). A number that a program chose becomes one by [`Position::new`] at the
/// entry of a call; sums after that answer where they leave the range, so that no arithmetic on it can overflow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Position(u64);

impl Position {
    /// The first byte.
    pub const START: Position = Position(0);
    /// The last place that there is. No file has a byte there: reading finds its end, writing is refused (EFBIG).
    pub const LAST: Position = Position(i64::MAX as u64);

    /// A place by its number; `None` beyond [`Position::LAST`], which is what negative numbers are.
    pub const fn new(at: u64) -> Option<Position> {
        if at <= Position::LAST.0 { Some(Position(at)) } else { None }
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The place so many bytes on; `None` where there is none.
    pub const fn plus(self, bytes: u64) -> Option<Position> {
        match self.0.checked_add(bytes) {
            Some(at) => Position::new(at),
            None => None,
        }
    }

    /// The place so many bytes on, or [`Position::LAST`] where there is none.
    pub const fn advanced(self, bytes: u64) -> Position {
        match self.plus(bytes) {
            Some(at) => at,
            None => Position::LAST,
        }
    }

    /// Bytes from here to `end`; none where that lies before.
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
