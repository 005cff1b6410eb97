//! Wake-ups from other cores: a bit per task. Setting one cannot fail, takes no memory, and twice is once.

use crate::sync::{AtomicU64, Ordering};
use alloc::boxed::Box;

/// A set of small numbers that others add to and one takes out of.
pub(crate) struct WakeBits {
    words: Box<[AtomicU64]>,
    /// A bit per word that may hold something.
    summary: Box<[AtomicU64]>,
    /// A bit per word of the summary: one load says that there is nothing.
    top: AtomicU64,
}

impl WakeBits {
    /// Makes an empty set of numbers below `count`, at most 64^3.
    pub(crate) fn new(count: usize) -> WakeBits {
        assert!(count <= 64 * 64 * 64);
        let words = count.div_ceil(64);
        let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        WakeBits { words: zeros(words), summary: zeros(words.div_ceil(64)), top: AtomicU64::new(0) }
    }

    /// Adds a number; one beyond the set's end is ignored.
    pub(crate) fn set(&self, number: u32) {
        let word = number as usize / 64;
        let (Some(bits), Some(summary)) = (self.words.get(word), self.summary.get(word / 64)) else {
            return;
        };
        // From below: a reader that sees a bit above sees all that it stands for.
        bits.fetch_or(1 << (number % 64), Ordering::Release);
        summary.fetch_or(1 << (word % 64), Ordering::Release);
        self.top.fetch_or(1 << (word / 64 % 64), Ordering::Release);
    }

    /// Returns true if `take` would find something.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.top.load(Ordering::Acquire) != 0
    }

    /// Takes all numbers out, smallest first within what it finds.
    pub(crate) fn take(&self, mut found: impl FnMut(u32)) {
        for group in ones(self.top.swap(0, Ordering::AcqRel)) {
            let Some(summary) = self.summary.get(group as usize) else {
                continue;
            };
            for word in ones(summary.swap(0, Ordering::AcqRel)) {
                let word = group * 64 + word;
                let Some(bits) = self.words.get(word as usize) else {
                    continue;
                };
                for bit in ones(bits.swap(0, Ordering::AcqRel)) {
                    found(word * 64 + bit);
                }
            }
        }
    }
}

/// Returns the numbers of the bits that are set.
pub(crate) fn ones(mut bits: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn what_was_set_is_taken_once() {
        let bits = WakeBits::new(10_000);
        for number in [0, 63, 64, 9_999, 63, 10_000_000] {
            bits.set(number);
        }
        assert!(bits.is_ready());
        let mut taken = Vec::new();
        bits.take(|number| taken.push(number));
        assert_eq!(taken, [0, 63, 64, 9_999]);
        assert!(!bits.is_ready());
    }
}
