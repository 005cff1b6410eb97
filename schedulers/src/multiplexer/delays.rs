//! Delays counted by their size, so that a median can be told without keeping each of them.

use core::sync::atomic::{AtomicU32, Ordering};

/// Classes: four for each power of two up to 2^32 ns.
const CLASSES: usize = 128;

/// A histogram of delays in nanoseconds that every core may add to.
#[derive(Debug)]
pub struct Delays([AtomicU32; CLASSES]);

impl Default for Delays {
    fn default() -> Delays {
        Delays::new()
    }
}

impl Delays {
    /// Makes an empty one.
    #[must_use]
    pub const fn new() -> Delays {
        Delays([const { AtomicU32::new(0) }; CLASSES])
    }

    /// Counts a delay, ns.
    pub fn note(&self, ns: u64) {
        if let Some(class) = self.0.get(class_of(ns)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts them.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|class| u64::from(class.load(Ordering::Relaxed))).sum()
    }

    /// The delay that `permille` thousandths of them do not exceed, ns, as exact as its class: a fifth of itself. 0 if there is none.
    pub fn quantile_ns(&self, permille: u64) -> u64 {
        let wanted = self.count().saturating_mul(permille).div_ceil(1000).max(1);
        let mut sum = 0u64;
        for (class, count) in self.0.iter().enumerate() {
            sum = sum.saturating_add(u64::from(count.load(Ordering::Relaxed)));
            if sum >= wanted {
                return middle_of(class);
            }
        }
        0
    }
}

/// Four classes for each power of two: its number, and the two bits below the first one.
fn class_of(ns: u64) -> usize {
    let ns = ns.clamp(4, u64::from(u32::MAX));
    let power = 63u32.saturating_sub(ns.leading_zeros());
    let part = ns >> power.saturating_sub(2) & 3;
    (power as usize).saturating_mul(4).saturating_add(part as usize).min(CLASSES.saturating_sub(1))
}

fn middle_of(class: usize) -> u64 {
    let (power, part) = (class / 4, class as u64 % 4);
    let unit = 1u64 << power.saturating_sub(2);
    unit.saturating_mul(4u64.saturating_add(part)).saturating_add(unit / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_as_exact_as_a_class() {
        let delays = Delays::new();
        (1..=1000u64).for_each(|number| delays.note(number * 1_000));
        assert_eq!(delays.count(), 1000);
        for (permille, about) in [(500, 500_000u64), (900, 900_000)] {
            let found = delays.quantile_ns(permille);
            assert!(found.abs_diff(about) * 5 <= about, "{permille}: {found}");
        }
        assert_eq!(Delays::new().quantile_ns(500), 0);
        delays.note(u64::MAX);
        delays.note(0);
    }
}
