//! A rate kept as a point in time: how far the amounts charged so far reach at that rate.
//!
//! The generic cell rate algorithm (ITU-T I.371, virtual scheduling): each unit moves `time` by 1 / rate, so no timer has to add
//! tokens. Times are in 2^-32 ns: 100 years are below 2^94, and the product of an amount and an interval (both below 2^64) fits
//! 128 bits; the sum saturates. The interval is rounded against the holder for limits and for the holder for
//! reservations; the error is rate / 2^62, less than 1e-6 up to 10^12 per second.
const FRACTION_BITS: u32 = 32;
const SECOND: u64 = 1_000_000_000 << FRACTION_BITS;

/// Progress at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Time per unit; 0 = no rate given.
    interval: u64,
    time: u128,
}

impl Pace {
    /// Keeps to at most a rate per second; 0 = no limit.
    pub fn at_most(rate_per_s: u64) -> Self {
        let interval = if rate_per_s == 0 { 0 } else { SECOND.div_ceil(rate_per_s) };
        Pace { interval, time: 0 }
    }

    /// Keeps to at least a rate per second; 0 = nothing promised.
    pub fn at_least(rate_per_s: u64) -> Self {
        Pace { interval: SECOND.checked_div(rate_per_s).unwrap_or(0), time: 0 }
    }

    /// Says whether a rate was given.
    pub fn has_rate(&self) -> bool {
        self.interval != 0
    }

    /// Forgets time that was not used.
    #[inline]
    pub fn catch_up(&mut self, now_ns: u64) {
        self.time = self.time.max(u128::from(now_ns) << FRACTION_BITS);
    }

    /// Moves by an amount.
    #[inline]
    pub fn advance(&mut self, amount: u64) {
        self.time = self.time.saturating_add(u128::from(amount) * u128::from(self.interval));
    }

    /// Moves by an amount, but not beyond a point in time unless it is there already.
    pub fn advance_until(&mut self, amount: u64, latest_ns: u64) {
        let latest = self.time.max(u128::from(latest_ns) << FRACTION_BITS);
        self.advance(amount);
        self.time = self.time.min(latest);
    }

    /// Returns the first nanosecond at which the pace is at most `burst` ahead of the time.
    #[inline]
    pub fn due_at_ns(&self, burst: u64) -> u64 {
        let ahead = u128::from(burst) * u128::from(self.interval);
        let due = self.time.saturating_sub(ahead);
        let due_ns = due.saturating_add((1 << FRACTION_BITS) - 1) >> FRACTION_BITS;
        u64::try_from(due_ns).unwrap_or(u64::MAX)
    }

    /// Takes over the amount by which an earlier pace was ahead of now; with the same rate also that by which it is behind.
    pub fn inherit(&mut self, earlier: &Pace, now_ns: u64) {
        if self.interval == earlier.interval {
            self.time = earlier.time;
            return;
        }
        let now = u128::from(now_ns) << FRACTION_BITS;
        let ahead = earlier.time.saturating_sub(now);
        let units = match earlier.interval {
            0 => 0,
            interval => ahead.div_ceil(u128::from(interval)),
        };
        self.time = now.saturating_add(units.saturating_mul(u128::from(self.interval)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_per_second_is_one_per_million_nanoseconds() {
        let mut pace = Pace::at_most(1000);
        pace.catch_up(5);
        pace.advance(3);
        assert_eq!(pace.due_at_ns(0), 3_000_005);
        assert_eq!(pace.due_at_ns(1), 2_000_005);
        assert_eq!(pace.due_at_ns(10), 0);
    }

    #[test]
    fn sevenths_are_rounded_against_a_limit_and_for_a_reservation() {
        let (mut limit, mut reservation) = (Pace::at_most(7), Pace::at_least(7));
        limit.advance(70_000_000_000);
        reservation.advance(70_000_000_000);
        let exact_ns = 10_000_000_000_000_000_000;
        assert!((exact_ns + 1..exact_ns + 20).contains(&limit.due_at_ns(0)));
        assert!((exact_ns - 20..exact_ns).contains(&reservation.due_at_ns(0)));
    }

    #[test]
    fn a_new_rate_inherits_the_amount_not_the_time() {
        let mut slow = Pace::at_most(1000);
        slow.advance(10);
        let mut fast = Pace::at_most(10_000);
        fast.inherit(&slow, 0);
        assert!(fast.due_at_ns(0).abs_diff(1_000_000) <= 100_000, "{}", fast.due_at_ns(0));
    }

    #[test]
    fn no_rate_is_never_ahead() {
        let mut free = Pace::at_most(0);
        free.advance(u64::MAX);
        assert_eq!(free.due_at_ns(0), 0);
    }
}
