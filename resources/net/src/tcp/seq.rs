//! Sequence numbers: 32 bits that wrap (RFC 9293 section 3.4).

use core::ops::{Add, Sub};

/// A sequence number. Comparisons hold between numbers less than 2^31 apart.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash, Debug)]
pub struct Seq(pub u32);

impl Add<u32> for Seq {
    type Output = Seq;
    fn add(self, bytes: u32) -> Seq {
        Seq(self.0.wrapping_add(bytes))
    }
}

impl Sub<u32> for Seq {
    type Output = Seq;
    fn sub(self, bytes: u32) -> Seq {
        Seq(self.0.wrapping_sub(bytes))
    }
}

impl Seq {
    /// Returns the bytes from `earlier` to here; zero if `earlier` is later.
    pub fn since(self, earlier: Seq) -> u32 {
        if self.before(earlier) {
            return 0;
        }
        self.0.wrapping_sub(earlier.0)
    }

    /// Returns whether this lies before `other`.
    pub fn before(self, other: Seq) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Returns whether this lies behind `other`.
    pub fn after(self, other: Seq) -> bool {
        other.before(self)
    }

    /// Returns whether this is not behind `other`.
    pub fn until(self, other: Seq) -> bool {
        !self.after(other)
    }

    /// Returns the later one.
    pub fn max(self, other: Seq) -> Seq {
        if self.before(other) { other } else { self }
    }

    /// Returns the earlier one.
    pub fn min(self, other: Seq) -> Seq {
        if self.before(other) { self } else { other }
    }
}
