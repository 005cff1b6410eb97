//! Chance under a seed: SplitMix64.

use std::f64::consts::TAU;

/// A seeded stream of numbers.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Returns the stream of a seed; `stream` makes several of one seed.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Chance {
        let mut chance = Chance(seed ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        chance.unit();
        chance
    }

    /// Returns a number from 0 up to 1.
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a waiting time whose mean is 1.
    pub fn wait(&mut self) -> f64 {
        -(1.0 - self.unit()).max(1e-12).ln()
    }

    /// Returns an amount of work whose mean is 1 and whose logarithm deviates by `sigma`.
    pub fn work(&mut self, sigma: f64) -> f64 {
        let gauss = (-2.0 * self.unit().max(1e-12).ln()).sqrt() * (TAU * self.unit()).cos();
        (sigma * gauss - sigma * sigma / 2.0).exp()
    }
}
