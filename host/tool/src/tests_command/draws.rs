//! Numbers drawn from a seed: splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).

use std::{fs::File, io::Read as _};

use crate::failure::{Context as _, Result};

/// A sequence of numbers that follows from its seed.
pub struct Draws(u64);

impl Draws {
    /// Begins a sequence.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns the next number, from the first to the last one of a range.
    pub fn within(&mut self, [first, last]: [u64; 2]) -> u64 {
        first + self.next() % (last - first + 1)
    }
}

/// Draws a seed of up to nine digits, so that a person can copy it.
///
/// # Errors
/// When the host gives no random bytes.
pub fn seed() -> Result<u32> {
    let mut bytes = [0; 8];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.context(|| "cannot read /dev/urandom".into())?;
    Ok(u32::try_from(u64::from_ne_bytes(bytes) % 1_000_000_000).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_their_seed_and_stay_in_range() {
        // Those of the reference program (prng.di.unimi.it/splitmix64.c).
        let mut draws = Draws::new(1_234_567);
        assert_eq!([draws.next(), draws.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        let drawn: Vec<u64> = (0..200).map(|_| draws.within([20, 60])).collect();
        assert!(drawn.iter().all(|number| (20..=60).contains(number)) && drawn.contains(&20) && drawn.contains(&60));
        assert!(seed().unwrap() < 1_000_000_000);
    }
}
