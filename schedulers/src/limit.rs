//! A rate and a burst that are never exceeded by more than one charge: a token bucket whose cost is known after
//! service.
//!
//! Service may begin while there are tokens or just none left; the charge may make them negative, and waiting pays
//! back. No tokens come in while a bucket is full. So with a burst smaller than the inflow during one service the
//! limit could never be reached. The bucket therefore holds at least the largest charge so far.
//!
//! Over any interval of t seconds: charged <= max(burst, L) + limit * t + L, with L the largest charge.
use crate::pace::Pace;

/// Progress of one client under its limit.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pace: Pace,
    burst: u64,
    charge_max: u64,
}

impl Limit {
    /// Begins with a full bucket; `limit_per_s` = 0 is no limit.
    pub fn new(limit_per_s: u64, burst: u64) -> Self {
        let pace = Pace::at_most(limit_per_s);
        Limit { pace, burst, charge_max: 0 }
    }

    /// Says whether there is one.
    pub fn is_set(&self) -> bool {
        self.pace.has_rate()
    }

    /// Takes the tokens an earlier limit held, or its debt.
    pub fn inherit(&mut self, earlier: &Limit, now_ns: u64) {
        self.pace.inherit(&earlier.pace, now_ns);
        self.charge_max = earlier.charge_max;
    }

    /// Takes tokens.
    #[inline]
    pub fn charge(&mut self, amount: u64, now_ns: u64) {
        self.pace.catch_up(now_ns);
        self.pace.advance(amount);
        self.charge_max = self.charge_max.max(amount);
    }

    /// Takes tokens for service on another core. How large its parts were is not known, so the bucket does not grow by it.
    pub fn charge_elsewhere(&mut self, amount: u64, now_ns: u64) {
        self.pace.catch_up(now_ns);
        self.pace.advance(amount);
    }

    /// Returns from when on service may begin, in nanoseconds; 0 if it always might have.
    #[inline]
    pub fn due_at_ns(&self) -> u64 {
        self.pace.due_at_ns(self.burst.max(self.charge_max))
    }
}
