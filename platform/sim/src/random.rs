//! A stream of numbers from a seed (SplitMix64).

/// The stream.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A stream of its own for each purpose, so that a draw in one does not shift the others.
    pub fn new(seed: u64, purpose: u64) -> Random {
        Random(seed.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ purpose.rotate_left(32))
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// True in so many of 1000.
    pub fn per_mille(&mut self, part: u64) -> bool {
        self.below(1000) < part
    }
}
