//! Recursive least squares with memory for `t(k+1) = a t(k) + b r(k)`.

use crate::number::within;

/// Memory: the weight of the last window in the next one.
pub const MEMORY: f64 = 0.97;
/// The largest `a`: above it the pole would be slower than a phase of the program.
const A_MAX: f64 = 0.9;
/// The least `b`: more of the resource never slows a program down.
const B_MIN: f64 = 1.0;
/// The largest `b`: a rate a hundred times the target with a hundredth of the machine.
const B_MAX: f64 = 1e6;
/// The largest trace of the covariance; without excitation it would grow for ever.
const TRACE_MAX: f64 = 1e4;

/// The estimate of `a` and `b`.
#[derive(Clone, Copy, Debug)]
pub struct Estimator {
    a: f64,
    b: f64,
    covariance: [[f64; 2]; 2],
}

impl Default for Estimator {
    fn default() -> Estimator {
        Estimator { a: 0.0, b: 30.0, covariance: [[1.0, 0.0], [0.0, 1000.0]] }
    }
}

impl Estimator {
    /// Returns how much of a rate stays in the next window.
    pub fn a(&self) -> f64 {
        self.a
    }

    /// Returns the rate that the whole machine adds.
    pub fn b(&self) -> f64 {
        self.b
    }

    /// Learns that `before` and the part `granted` led to `after`. Begins anew if the numbers have left the range of floats.
    pub fn learn(&mut self, before: f64, granted: f64, after: f64) {
        let x = [before, granted];
        let row = |row: [f64; 2]| row[0] * x[0] + row[1] * x[1];
        let px = [row(self.covariance[0]), row(self.covariance[1])];
        let divisor = MEMORY + x[0] * px[0] + x[1] * px[1];
        let gain = [px[0] / divisor, px[1] / divisor];
        let error = after - self.a * before - self.b * granted;
        if !(gain[0] * error).is_finite() || !(gain[1] * error).is_finite() {
            *self = Estimator::default();
            return;
        }
        self.a = within(self.a + gain[0] * error, 0.0, A_MAX);
        self.b = within(self.b + gain[1] * error, B_MIN, B_MAX);
        for (i, row) in self.covariance.iter_mut().enumerate() {
            for (j, cell) in row.iter_mut().enumerate() {
                *cell = (*cell - gain[i] * px[j]) / MEMORY;
            }
        }
        self.bound();
    }

    /// Keeps the covariance from blowing up.
    fn bound(&mut self) {
        let trace = self.covariance[0][0] + self.covariance[1][1];
        if trace <= TRACE_MAX {
            return;
        }
        for cell in self.covariance.iter_mut().flatten() {
            *cell *= TRACE_MAX / trace;
        }
    }
}
