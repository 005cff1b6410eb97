//! A clock that says when a frame has left a link of a given rate.

use std::time::{Duration, Instant};

/// How much time may be caught up after the host did not run us: bounds the burst.
const CATCH_UP: Duration = Duration::from_millis(20);

/// The moment until which the link is busy.
pub struct Clock {
    bits_per_second: u64,
    busy_until: Instant,
}

impl Clock {
    /// Makes an idle link.
    pub fn new(bits_per_second: u64) -> Self {
        Self { bits_per_second: bits_per_second.max(1), busy_until: Instant::now() }
    }

    /// Waits until a frame of this length has left.
    pub fn pass(&mut self, bytes: usize) {
        let now = Instant::now();
        let until = self.advance(now, bytes);
        if let Some(wait) = until.checked_duration_since(now) {
            std::thread::sleep(wait);
        }
    }

    /// Lets a frame pass if the link is free now.
    pub fn try_pass(&mut self, bytes: usize) -> bool {
        let now = Instant::now();
        let is_free = self.busy_until <= now;
        if is_free {
            self.advance(now, bytes);
        }
        is_free
    }

    /// Returns when a frame that comes now has left. Pure: the tests need no time.
    fn advance(&mut self, now: Instant, bytes: usize) -> Instant {
        let earliest = now.checked_sub(CATCH_UP).unwrap_or(now);
        let ns = (bytes as u128 * 8 * 1_000_000_000).div_ceil(u128::from(self.bits_per_second));
        let takes = Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
        self.busy_until = self.busy_until.max(earliest) + takes;
        self.busy_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saturated_link_passes_exactly_its_rate() {
        let mut clock = Clock::new(20_000_000);
        let start = clock.busy_until;
        let mut now = start;
        for _ in 0..10_000 {
            now = clock.advance(now, 1514);
        }
        let seconds = (now - start).as_secs_f64();
        let rate = 10_000.0 * 1514.0 * 8.0 / seconds;
        assert!((rate - 20_000_000.0).abs() < 20.0, "{rate}");
    }

    #[test]
    fn an_idle_link_saves_up_no_more_than_it_may_catch_up() {
        let mut clock = Clock::new(8_000_000);
        let now = clock.busy_until + Duration::from_secs(10);
        let mut sent = 0;
        while clock.advance(now, 1000) <= now {
            sent += 1;
        }
        assert_eq!(sent, 20, "20 ms at one frame of 1000 bytes per ms");
    }
}
