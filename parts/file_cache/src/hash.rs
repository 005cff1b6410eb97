//! Hashing for tables whose keys come from tenants: seeded at random, so that no tenant can choose colliding names.

use core::hash::{BuildHasher, Hasher};

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes hashers of one seed.
#[derive(Clone, Copy)]
pub(crate) struct Seed(u64, u64);

impl Seed {
    /// Returns a fresh seed.
    pub(crate) fn random() -> Seed {
        let mut bytes = [0; 16];
        gyre_machine::fill_random(&mut bytes);
        let (low, high) = bytes.split_at(8);
        let value = |half: &[u8]| half.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        Seed(value(low), value(high) | 1)
    }
}

impl BuildHasher for Seed {
    type Hasher = Mixer;
    fn build_hasher(&self) -> Mixer {
        Mixer { state: self.0, key: self.1 }
    }
}

/// Multiplies to 128 bits and folds: each input bit reaches all output bits.
pub(crate) struct Mixer {
    state: u64,
    key: u64,
}

#[expect(clippy::arithmetic_side_effects, reason = "128 bits hold every product of two numbers of 64 bits")]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ (wide >> 64) as u64
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let word = chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.write_u64(word);
        }
        self.write_u64(bytes.len() as u64);
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        self.state = fold(self.state ^ value ^ MULTIPLIER, self.key ^ self.state.rotate_left(32));
    }
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
    fn finish(&self) -> u64 {
        fold(self.state ^ self.key, MULTIPLIER)
    }
}
