//! Rates that a time stamp counter may have.

/// Rates, in kHz, that are believed: 100 MHz to 10 GHz. No x86-64 processor or emulator ticks slower or faster.
const PLAUSIBLE_KHZ: core::ops::Range<u64> = 100_000..10_000_000;

/// The range in words, for the error message.
pub(crate) const EXPECTED: &str = "the clock's rate in kHz, 100000 to 9999999";

/// The rate, in kHz, if it can be one.
pub(crate) fn plausible(khz: u64) -> Option<u64> {
    PLAUSIBLE_KHZ.contains(&khz).then_some(khz)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_processors_are_believed_and_others_are_not() {
        assert_eq!([100_000, 2_400_000, 9_999_999].map(plausible), [Some(100_000), Some(2_400_000), Some(9_999_999)]);
        assert_eq!([0, 1, 99_999, 10_000_000, u64::MAX].map(plausible), [None; 5]);
    }
}
