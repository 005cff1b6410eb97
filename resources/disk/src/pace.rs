//! How fast a disk moves bytes, as seen: a flush counts for the bytes that the disk would have moved meanwhile.

use core::sync::atomic::{AtomicU64, Ordering};

/// The estimate before a disk has moved anything, bytes per second.
const FIRST_BYTES_PER_S: u64 = 100_000_000;
/// A request changes the estimate by one part of so many.
const INERTIA: u64 = 32;
/// A flush counts as so many bytes at least: a sector's write.
const FLUSH_BYTES_MIN: u64 = 512;
/// A flush counts as so many bytes at most: a device that stands still for long must not shut a tenant out for ever.
const FLUSH_BYTES_MAX: u64 = 8 << 20;

/// A running estimate of bytes per second of the device's time.
pub(crate) struct Pace {
    bytes_per_s: AtomicU64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { bytes_per_s: AtomicU64::new(FIRST_BYTES_PER_S) }
    }
}

impl Pace {
    /// Notes a request. Two cores that do so at once lose one of them, which does no harm to an estimate.
    pub(crate) fn note(&self, bytes: u64, device_ns: u64) {
        if bytes == 0 || device_ns == 0 {
            return;
        }
        let seen = u128::from(bytes).saturating_mul(1_000_000_000).checked_div(u128::from(device_ns)).unwrap_or(0);
        let seen = seen.min(1 << 40) as u64;
        let before = self.bytes_per_s.load(Ordering::Relaxed);
        let after = before.saturating_sub(before / INERTIA).saturating_add(seen / INERTIA);
        self.bytes_per_s.store(after.max(1), Ordering::Relaxed);
    }

    /// Returns how many bytes the device moves in so many ns.
    pub(crate) fn bytes_in(&self, device_ns: u64) -> u64 {
        let bytes =
            u128::from(self.bytes_per_s.load(Ordering::Relaxed)).saturating_mul(u128::from(device_ns)) / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX).clamp(FLUSH_BYTES_MIN, FLUSH_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_is_worth_what_the_disk_would_have_moved() {
        let pace = Pace::default();
        (0..1000).for_each(|_| pace.note(4096, 409_600));
        let bytes = pace.bytes_in(10_000_000);
        assert!(bytes.abs_diff(100_000) < 2_000, "10 MB/s for 10 ms is 100 kB, not {bytes}");
    }

    #[test]
    fn a_flush_is_never_free_and_never_endless() {
        let pace = Pace::default();
        assert_eq!(pace.bytes_in(0), FLUSH_BYTES_MIN);
        assert_eq!(pace.bytes_in(u64::MAX), FLUSH_BYTES_MAX);
        (0..10_000).for_each(|_| pace.note(1, u64::MAX));
        assert_eq!(pace.bytes_in(1), FLUSH_BYTES_MIN);
    }
}
