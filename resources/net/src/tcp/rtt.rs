//! Round-trip time and retransmission timeout (RFC 6298).

/// Timeout before the first measurement, ns (RFC 6298 rule 2.1).
pub const TIMEOUT_INITIAL_NS: u64 = 1_000_000_000;
/// Shortest timeout, ns. RFC 6298 rule 2.4 says a second; current systems use 200 ms, and delayed acknowledgments
/// stay below it.
pub const TIMEOUT_MIN_NS: u64 = 200_000_000;
/// Longest timeout, ns (RFC 6298 rule 2.5).
pub const TIMEOUT_MAX_NS: u64 = 60_000_000_000;
/// Granularity of our clock in the formula, ns.
const GRANULARITY_NS: u64 = 1_000_000;

/// The measured delay of the path.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip {
    smoothed_ns: Option<u64>,
    variation_ns: u64,
    timeout_ns: u64,
    backoff: u32,
}

impl Default for RoundTrip {
    fn default() -> RoundTrip {
        RoundTrip { smoothed_ns: None, variation_ns: 0, timeout_ns: TIMEOUT_INITIAL_NS, backoff: 0 }
    }
}

impl RoundTrip {
    /// Takes a measurement of a segment that was sent once (Karn), ns.
    pub fn measured(&mut self, sample_ns: u64) {
        let sample_ns = sample_ns.min(TIMEOUT_MAX_NS);
        let smoothed = match self.smoothed_ns {
            None => {
                self.variation_ns = sample_ns / 2;
                sample_ns
            }
            Some(smoothed) => {
                self.variation_ns = weighted(3, self.variation_ns, smoothed.abs_diff(sample_ns));
                weighted(7, smoothed, sample_ns)
            }
        };
        self.smoothed_ns = Some(smoothed);
        let spread = self.variation_ns.saturating_mul(4).max(GRANULARITY_NS);
        self.timeout_ns = smoothed.saturating_add(spread).clamp(TIMEOUT_MIN_NS, TIMEOUT_MAX_NS);
        self.backoff = 0;
    }

    /// Returns the timeout now, with back-off, ns.
    pub fn timeout_ns(&self) -> u64 {
        (self.timeout_ns << self.backoff.min(16)).min(TIMEOUT_MAX_NS)
    }

    /// Doubles the timeout (RFC 6298 rule 5.5).
    pub fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1).min(16);
    }

    /// Takes note that new data was acknowledged: the next timeout is not doubled any more.
    pub fn progressed(&mut self) {
        self.backoff = 0;
    }

    /// Returns how long a silence after the last segment is normal, ns: two round trips and their variation.
    pub fn quiet_ns(&self) -> u64 {
        self.smoothed_ns().saturating_mul(2).saturating_add(self.variation_ns.saturating_mul(4))
    }

    /// Returns the smoothed round trip, ns; zero before the first measurement.
    pub fn smoothed_ns(&self) -> u64 {
        self.smoothed_ns.unwrap_or(0)
    }
}

/// Returns the mean of the former value, `parts` times, and a new sample once.
fn weighted(parts: u64, before_ns: u64, sample_ns: u64) -> u64 {
    before_ns.saturating_mul(parts).saturating_add(sample_ns).checked_div(parts.saturating_add(1)).unwrap_or(before_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_the_measurements_and_doubles_on_loss() {
        let mut rtt = RoundTrip::default();
        assert_eq!(rtt.timeout_ns(), TIMEOUT_INITIAL_NS);
        rtt.measured(400_000_000);
        assert_eq!(rtt.timeout_ns(), 1_200_000_000); // 400 + 4 * 200 ms
        rtt.back_off();
        assert_eq!(rtt.timeout_ns(), 2_400_000_000);
        (0..40).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout_ns(), TIMEOUT_MAX_NS);
        (0..100).for_each(|_| rtt.measured(1_000_000));
        assert_eq!(rtt.timeout_ns(), TIMEOUT_MIN_NS);
    }
}
