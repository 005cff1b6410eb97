//! Virtual time in fixed point: how much service a client has had, divided by its weight.
//!
//! A tag is a `u128` in units of 2^-40 of the metric. A client of weight w that consumes `amount` moves by
//! `amount * floor(2^40 / w)`; the rounding is below w / 2^40, 1e-6 of the share for the largest weight.
//! No overflow: 100 years of cycles at 5 GHz are below 2^64, of bytes at 1 TB/s below 2^72, so tags stay below 2^112. A record
//! that lies about its amount can at most saturate the tag of its own client.
use crate::policy::{PolicyError, WEIGHT_MAX};

/// Fraction bits of a tag.
pub const FRACTION_BITS: u32 = 40;

/// A point in virtual time.
pub type Tag = u128;

/// A weight, kept as its inverse so that charging multiplies and never divides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    value: u32,
    inverse: u64,
}

impl Weight {
    /// Checks a weight.
    ///
    /// # Errors
    /// `InvalidParams` outside 1 ..= [`WEIGHT_MAX`].
    pub fn new(value: u32) -> Result<Self, PolicyError> {
        match value {
            1..=WEIGHT_MAX => Ok(Weight { value, inverse: (1 << FRACTION_BITS) / u64::from(value) }),
            _ => Err(PolicyError::InvalidParams),
        }
    }

    /// Returns the weight as given.
    pub fn value(self) -> u32 {
        self.value
    }

    /// Returns the amount that moves a client of this weight by at most `distance`; rounded down, by a millionth at
    /// most.
    pub fn amount(self, distance: Tag) -> u64 {
        u64::try_from(distance.saturating_mul(u128::from(self.value)) >> FRACTION_BITS).unwrap_or(u64::MAX)
    }

    /// Returns how far `amount` moves a client of this weight. The product of two 64-bit numbers cannot overflow.
    #[inline]
    pub fn distance(self, amount: u64) -> Tag {
        u128::from(amount) * u128::from(self.inverse)
    }
}
