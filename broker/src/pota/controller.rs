//! A PI controller by pole placement: `r = r + (1 - p) / b e(k) - a (1 - p) / b e(k-1)`.

use super::estimator::Estimator;
use crate::number::within;

/// The pole: the part of an error that is left after a window.
pub const POLE: f64 = 0.3;
/// Allocations are whole multiples of this part of the machine.
pub const STEP: f64 = 0.01;
/// The target is raised by this part, because a third of all seconds would lie a little below it.
pub const HEADROOM: f64 = 0.02;
/// The least allocation.
pub const LEAST: f64 = 0.05;

/// A rate and its target, in one unit.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// The rate of the last window.
    pub measured: f64,
    /// The rate that is asked for.
    pub target: f64,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    rate: f64,
    error: f64,
}

/// The controller of one tenant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Controller {
    estimator: Estimator,
    last: Option<Last>,
}

impl Controller {
    /// Returns the rate that is really aimed at.
    pub fn aim(&self, target: f64) -> f64 {
        target * (1.0 + HEADROOM)
    }

    /// Returns the rate that the whole machine would settle at.
    pub fn whole(&self) -> f64 {
        self.estimator.b() / (1.0 - self.estimator.a())
    }

    /// Learns from a window in which the part `granted` was held; returns the part for the next one.
    pub fn next(&mut self, rate: Rate, granted: f64) -> f64 {
        if let Some(last) = self.last {
            self.estimator.learn(last.rate, granted, rate.measured);
        }
        let error = self.aim(rate.target) - rate.measured;
        let before = self.last.map_or(0.0, |last| last.error);
        let gain = (1.0 - POLE) / self.estimator.b();
        let wanted = granted + gain * error - self.estimator.a() * gain * before;
        self.last = Some(Last { rate: rate.measured, error });
        within(libm::ceil(wanted / STEP) * STEP, LEAST, 1.0)
    }
}
