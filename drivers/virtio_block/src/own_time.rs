//! The time that a device had for its requests, as its looks count it.
//!
//! A host may let the whole machine stand still, and the device with it. The clock goes on meanwhile, and at the end of such a pause a look may come
//! before the answer that was ready. So the time between two looks counts as one period at most, however long it was.

use core::sync::atomic::{AtomicU64, Ordering};

/// Time that advances with looks, cycles.
#[derive(Default)]
pub(crate) struct OwnTime {
    passed: AtomicU64,
    looked_at: AtomicU64,
}

impl OwnTime {
    /// Notes a look; answers how much time has passed.
    pub(crate) fn look(&self, now_cycles: u64, period_cycles: u64) -> u64 {
        let since = now_cycles.saturating_sub(self.looked_at.swap(now_cycles, Ordering::Relaxed));
        let counted = since.min(period_cycles);
        self.passed.fetch_add(counted, Ordering::Relaxed).saturating_add(counted)
    }

    /// The end of a time that begins now. It is a period longer, since the next look may count a whole period at once.
    pub(crate) fn deadline(&self, timeout_cycles: u64, period_cycles: u64) -> u64 {
        self.passed.load(Ordering::Relaxed).saturating_add(timeout_cycles).saturating_add(period_cycles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = 10;
    const TIMEOUT: u64 = 40;

    #[test]
    fn a_request_is_late_after_its_time_in_looks() {
        let time = OwnTime::default();
        time.look(1000, PERIOD);
        let deadline = time.deadline(TIMEOUT, PERIOD);
        let late_at = (1..).find(|look| time.look(1000 + look * PERIOD, PERIOD) >= deadline);
        assert_eq!(late_at, Some((TIMEOUT + PERIOD) / PERIOD));
    }

    #[test]
    fn a_pause_of_any_length_counts_as_one_period() {
        let time = OwnTime::default();
        let deadline = time.deadline(TIMEOUT, PERIOD);
        assert!(time.look(1 << 60, PERIOD) < deadline);
        assert!(time.look(1 << 61, PERIOD) < deadline);
    }

    #[test]
    fn looks_without_time_between_them_count_nothing() {
        let time = OwnTime::default();
        let first = time.look(500, PERIOD);
        assert!((0..1000).all(|_| time.look(500, PERIOD) == first));
    }
}
