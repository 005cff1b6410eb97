//! Congestion control: NewReno (RFC 5681) and CUBIC (RFC 9438), in integers: bytes, milliseconds.
//!
//! Events: [`Congestion::acknowledged`], [`Congestion::lost`] (fast recovery begins), [`Congestion::timed_out`],
//! [`Congestion::idled`]; [`Congestion::window`] answers the bytes that may be on the way. It sees neither segments
//! nor clock: amounts and times are arguments.
//!
//! Phases: slow start below the threshold, avoidance above it. A loss halves (NewReno) or takes 0.7 of (CUBIC) the
//! window; a timer leaves one segment. To add an algorithm: a variant of [`Algorithm`], its growth in
//! [`Congestion::acknowledged`], its cut in [`Congestion::lost`].

/// Which algorithm governs the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// RFC 5681.
    NewReno,
    /// RFC 9438.
    Cubic,
}

/// Largest window, bytes.
pub const WINDOW_BYTES_MAX: u32 = 16 << 20;
/// Segments of the initial window (RFC 6928).
const INITIAL_SEGMENTS: u32 = 10;
/// Longest time that the cubic function looks back, ms; keeps its products within 64 bits.
const AGE_MS_MAX: u64 = 100_000;

/// CUBIC's state of an epoch between two losses.
#[derive(Clone, Copy, Default, Debug)]
struct Cubic {
    /// Window before the last reduction, bytes (W_max).
    window_max: u32,
    /// Time of the first growth after it.
    epoch_ns: Option<u64>,
    /// Time from the epoch's start until `window_max` is reached again, ms (K).
    rise_ms: u64,
    /// Window at the epoch's start, bytes.
    epoch_window: u32,
    /// The window that NewReno would have by now, bytes (W_est), and a remainder of the division.
    friendly: u32,
}

/// The congestion window of one connection: at most [`WINDOW_BYTES_MAX`] and a few segments, which are at most 64 KiB.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    algorithm: Algorithm,
    segment: u32,
    window: u32,
    threshold: u32,
    /// Bytes acknowledged that have not yet moved the window by a whole step (RFC 3465).
    credit: u32,
    cubic: Cubic,
}

impl Congestion {
    /// Returns the state of a new connection with segments of `segment` bytes.
    pub fn new(algorithm: Algorithm, segment: u32) -> Congestion {
        let segment = segment.max(1);
        Congestion {
            algorithm,
            segment,
            window: segment.saturating_mul(INITIAL_SEGMENTS),
            threshold: WINDOW_BYTES_MAX,
            credit: 0,
            cubic: Cubic::default(),
        }
    }

    /// Returns the window, bytes.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Returns the slow start threshold, bytes.
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    /// Grows the window for data acknowledged outside of fast recovery, while the window was the sender's limit.
    pub fn acknowledged(&mut self, bytes: u32, round_trip_ns: u64, now_ns: u64) {
        if self.window < self.threshold {
            self.slow_start(bytes);
        } else {
            match self.algorithm {
                Algorithm::NewReno => self.avoid(bytes),
                Algorithm::Cubic => self.grow_cubic(bytes, round_trip_ns, now_ns),
            }
        }
        self.window = self.window.min(WINDOW_BYTES_MAX);
    }

    /// Grows in slow start: RFC 5681 equation 2, with the limit of RFC 3465 at two segments.
    fn slow_start(&mut self, bytes: u32) {
        self.window = self.window.saturating_add(bytes.min(self.segment.saturating_mul(2)));
    }

    /// Grows by one segment per window acknowledged (RFC 5681 section 3.1).
    fn avoid(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes);
        if self.credit >= self.window {
            self.credit = self.credit.saturating_sub(self.window);
            self.window = self.window.saturating_add(self.segment);
        }
    }

    /// Grows as CUBIC does (RFC 9438 sections 4.2 to 4.5).
    fn grow_cubic(&mut self, bytes: u32, round_trip_ns: u64, now_ns: u64) {
        let epoch_ns = *self.cubic.epoch_ns.get_or_insert(now_ns);
        if epoch_ns == now_ns {
            self.start_epoch();
        }
        let age_ms = now_ns.saturating_sub(epoch_ns) / 1_000_000;
        let target = self.cubic_window(age_ms.saturating_add(round_trip_ns / 1_000_000));
        self.grow_friendly(bytes);
        if self.cubic_window(age_ms) < self.cubic.friendly {
            self.window = self.window.max(self.cubic.friendly);
            return;
        }
        let target = target.clamp(self.window, self.window.saturating_add(self.window / 2));
        let step = product(target.saturating_sub(self.window), bytes).saturating_add(self.credit.into());
        let Some(window) = core::num::NonZero::new(u64::from(self.window)) else { return };
        self.credit = (step % window) as u32;
        self.window = self.window.saturating_add((step / window) as u32);
    }

    fn start_epoch(&mut self) {
        self.credit = 0;
        self.cubic.epoch_window = self.window;
        self.cubic.friendly = self.window;
        self.cubic.window_max = self.cubic.window_max.max(self.window);
        // K = cbrt((W_max - cwnd) / C) in seconds, with C = 0.4 segments per s^3
        let missing = product(self.cubic.window_max.saturating_sub(self.window), 10) / 4;
        let cube = missing.saturating_mul(1_000_000_000).checked_div(self.segment.into()).unwrap_or(0);
        self.cubic.rise_ms = cube_root(cube);
    }

    /// Returns W_cubic(t) in bytes, t in ms since the epoch began.
    fn cubic_window(&self, age_ms: u64) -> u32 {
        let (age, rise) = (age_ms.min(AGE_MS_MAX), self.cubic.rise_ms.min(AGE_MS_MAX));
        let distance = age.abs_diff(rise);
        let cube = distance.saturating_pow(3) / 1_000_000;
        let bytes = cube.saturating_mul(product(self.segment, 4)) / 10_000;
        let bytes = u32::try_from(bytes).unwrap_or(WINDOW_BYTES_MAX).min(WINDOW_BYTES_MAX);
        if age < rise {
            self.cubic.window_max.saturating_sub(bytes).max(self.segment)
        } else {
            self.cubic.window_max.saturating_add(bytes).min(WINDOW_BYTES_MAX)
        }
    }

    /// Grows the estimate of NewReno's window: alpha = 3 (1 - 0.7) / (1 + 0.7) = 9/17 segments per window until W_max, then 1.
    fn grow_friendly(&mut self, bytes: u32) {
        let friendly = self.cubic.friendly;
        let step = product(bytes, self.segment).checked_div(friendly.into()).unwrap_or(0);
        let step = if friendly < self.cubic.window_max { step.saturating_mul(9) / 17 } else { step };
        self.cubic.friendly = friendly.saturating_add(step as u32).min(WINDOW_BYTES_MAX);
    }

    /// Begins fast recovery: the window falls to the new threshold.
    pub fn lost(&mut self, flight: u32) {
        self.reduce(flight);
        self.window = self.threshold;
    }

    /// Takes note of an expired retransmission timer: the window falls to one segment (RFC 5681 section 3.1).
    pub fn timed_out(&mut self, flight: u32) {
        self.reduce(flight);
        self.window = self.segment;
    }

    fn reduce(&mut self, flight: u32) {
        self.credit = 0;
        let floor = self.segment.saturating_mul(2);
        match self.algorithm {
            Algorithm::NewReno => self.threshold = (flight / 2).max(floor),
            Algorithm::Cubic => {
                // fast convergence (RFC 9438 section 4.7): leave room for newcomers
                self.cubic.window_max = if self.window < self.cubic.window_max {
                    (product(self.window, 17) / 20) as u32
                } else {
                    self.window
                };
                self.cubic.epoch_ns = None;
                let base = self.window.min(flight.max(floor));
                self.threshold = ((product(base, 7) / 10) as u32).max(floor);
            }
        }
    }

    /// Starts again from the initial window, after nothing was sent for longer than a timeout (RFC 5681 section 4.1).
    pub fn idled(&mut self) {
        self.threshold = self.threshold.max((self.window / 4).saturating_mul(3));
        self.window = self.window.min(self.segment.saturating_mul(INITIAL_SEGMENTS));
        self.cubic.epoch_ns = None;
    }
}

/// Returns the product of two numbers of 32 bits.
#[expect(clippy::arithmetic_side_effects, reason = "64 bits hold every product of two numbers of 32 bits")]
fn product(a: u32, b: u32) -> u64 {
    u64::from(a) * u64::from(b)
}

/// Returns the integer cube root.
fn cube_root(value: u64) -> u64 {
    let mut root = 0u64;
    for shift in (0..22).rev() {
        let candidate = root | 1 << shift;
        if candidate.checked_pow(3).is_some_and(|cube| cube <= value) {
            root = candidate;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn cube_roots_are_exact_from_below() {
        for value in [0, 1, 7, 8, 26, 27, 1_000_000_000, (1 << 40) - 1, 1 << 60] {
            let root = cube_root(value);
            assert!(root.pow(3) <= value && (root + 1).pow(3) > value, "{value}");
        }
    }

    #[test]
    fn slow_start_doubles_the_window_in_a_round_trip() {
        let mut congestion = Congestion::new(Algorithm::NewReno, 1000);
        (0..10).for_each(|_| congestion.acknowledged(1000, MS, 0));
        assert_eq!(congestion.window(), 20_000);
    }

    #[test]
    fn new_reno_grows_by_one_segment_per_window_after_a_loss() {
        let mut congestion = Congestion::new(Algorithm::NewReno, 1000);
        congestion.lost(20_000);
        assert_eq!(congestion.window(), 10_000);
        (0..10).for_each(|_| congestion.acknowledged(1000, MS, 0));
        assert_eq!(congestion.window(), 11_000);
    }

    #[test]
    fn cubic_falls_to_seven_tenths_and_returns_to_the_old_window_after_k() {
        let mut congestion = Congestion::new(Algorithm::Cubic, 1000);
        congestion.window = 1_000_000;
        congestion.lost(1_000_000);
        assert_eq!(congestion.window(), 700_000);
        // K = cbrt(300 / 0.4) = 9.086 s
        let mut now = 0;
        while congestion.window() < 995_000 {
            (0..congestion.window() / 1000).for_each(|_| congestion.acknowledged(1000, 100 * MS, now));
            now += 100 * MS;
        }
        assert!((5_000..9_400).contains(&(now / MS)), "{} ms", now / MS);
        let start = congestion.window();
        (0..30).for_each(|_| congestion.acknowledged(1000, 100 * MS, now));
        assert!(congestion.window() - start < 5_000, "flat around the old maximum");
    }

    #[test]
    fn a_timeout_leaves_one_segment() {
        let mut congestion = Congestion::new(Algorithm::Cubic, 1000);
        congestion.timed_out(10_000);
        assert_eq!((congestion.window(), congestion.threshold()), (1000, 7000));
    }
}
