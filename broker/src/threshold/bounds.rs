//! The numbers of the threshold law: bounds, parts and times. They come from a user, so each is made finite and put in its range.

use crate::number::within;

/// The largest percentile that is named in a reason, in milliseconds.
pub(super) const MEASURED_MAX_MS: f64 = 1e9;

/// The numbers of the law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Above it the service is late, in milliseconds.
    pub upper_ms: f64,
    /// Below it the service has more than it needs, in milliseconds.
    pub lower_ms: f64,
    /// The part of the machine that a step moves: one core, or a tenth of one.
    pub step: f64,
    /// The least part of the service.
    pub service_least: f64,
    /// The least part of the batch tenant.
    pub batch_least: f64,
    /// Answers in a window below which its percentile says nothing.
    pub beats_min: u64,
    /// Least time between two steps, in nanoseconds.
    pub pause_ns: u64,
    /// Least time between a step and one back, in nanoseconds.
    pub turn_ns: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            upper_ms: 200.0,
            lower_ms: 160.0,
            step: 0.0125,
            service_least: 0.05,
            batch_least: 0.05,
            beats_min: 300,
            pause_ns: 10_000_000_000,
            turn_ns: 30_000_000_000,
        }
    }
}

impl Bounds {
    /// Makes each number finite and not negative.
    pub(super) fn believed(self) -> Bounds {
        let ms = |value| within(value, 0.0, MEASURED_MAX_MS);
        let part = |value| within(value, 0.0, 1.0);
        Bounds {
            upper_ms: ms(self.upper_ms),
            lower_ms: ms(self.lower_ms),
            step: part(self.step),
            service_least: part(self.service_least),
            batch_least: part(self.batch_least),
            beats_min: self.beats_min.max(1),
            ..self
        }
    }
}
