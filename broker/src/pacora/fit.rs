//! The fit: a tenant's response time as a function of its parts, learnt response by response.
//!
//! `tau(a) = w0 + sum of w_ij / sqrt(a_i a_j)`, all weights at least zero: convex, and more of a resource never slows anybody down.
//! The weights are the non-negative least squares of the samples with memory: a normal matrix and some sweeps of coordinate descent.
//! Without variation of the parts the weights are not identified; 4 % of noise on what is granted suffices.

use super::picked;
use super::response::Response;
use crate::number::{root, within};
use crate::resource::{Parts, RESOURCES, ResourceSet};

/// Memory: the weight of a sample when the next one comes.
pub const MEMORY: f64 = 0.96;
/// A sample counts as so many responses at most: a busy tenant's last look would otherwise be all that is known of it.
pub const BEATS_MAX: u64 = 8;
/// Samples count as taken at this part at least.
pub const PART_MIN: f64 = 1e-3;
/// Responses are believed up to this, in milliseconds.
const RESPONSE_MAX_MS: f64 = 1e6;
/// Terms of the function with all resources.
const TERMS_MAX: usize = 1 + RESOURCES * (RESOURCES + 1) / 2;
/// Keeps a division by an empty normal matrix finite.
const RIDGE: f64 = 1e-9;

/// The knowledge of a tenant's function.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    resources: ResourceSet,
    terms: usize,
    normal: [[f64; TERMS_MAX]; TERMS_MAX],
    right: [f64; TERMS_MAX],
    weights: [f64; TERMS_MAX],
}

impl Fit {
    /// Returns the fit of a tenant of which nothing is known, over `resources`.
    pub fn new(resources: ResourceSet) -> Fit {
        let count = resources.count();
        let mut normal = [[0.0; TERMS_MAX]; TERMS_MAX];
        for (i, row) in normal.iter_mut().enumerate() {
            row[i] = 1e-6;
        }
        let terms = 1 + count * (count + 1) / 2;
        Fit { resources, terms, normal, right: [0.0; TERMS_MAX], weights: [0.0; TERMS_MAX] }
    }

    /// Learns the mean of `beats` responses, which count as one each; what is no positive number is left out.
    pub fn learn(&mut self, granted: &Parts, response_ms: f64, beats: u64) {
        let is_valid = response_ms >= 0.0 && granted.iter().all(|part| part.is_finite());
        if !is_valid {
            return;
        }
        let response_ms = within(response_ms, 0.0, RESPONSE_MAX_MS);
        let terms = self.terms(granted);
        let count = self.terms;
        let times = beats.clamp(1, BEATS_MAX);
        let (memory, fresh) = remembered(times);
        for (i, row) in self.normal.iter_mut().enumerate().take(count) {
            for (cell, term) in row.iter_mut().zip(&terms).take(count) {
                *cell = memory * *cell + fresh * terms[i] * term;
            }
            self.right[i] = memory * self.right[i] + fresh * terms[i] * response_ms;
        }
    }

    /// Improves the weights by `sweeps` of coordinate descent. The part of the right side that the weights leave is kept, so a weight that
    /// does not move, as most do that are zero, costs nothing.
    pub fn sweep(&mut self, sweeps: u32) {
        let mut left = self.right;
        for (row, weight) in self.normal.iter().zip(&self.weights).filter(|(_, weight)| **weight != 0.0) {
            take(&mut left, row, *weight);
        }
        for _ in 0..sweeps {
            for (i, row) in self.normal.iter().enumerate().take(self.terms) {
                let before = self.weights[i];
                let wanted = within((left[i] + row[i] * before) / (row[i] + RIDGE), 0.0, RESPONSE_MAX_MS);
                if wanted != before {
                    self.weights[i] = wanted;
                    take(&mut left, row, wanted - before);
                }
            }
        }
    }

    /// Returns the function; `R` must be the number of resources of the fit, or it is zero.
    pub fn response<const R: usize>(&self) -> Response<R> {
        let mut response = Response::ZERO;
        if R != self.resources.count() {
            return response;
        }
        let mut weights = self.weights.iter();
        response.base = weights.next().copied().unwrap_or(0.0);
        for i in 0..R {
            for (cell, weight) in response.pairs[i][i..].iter_mut().zip(weights.by_ref()) {
                *cell = *weight;
            }
        }
        response
    }

    fn terms(&self, granted: &Parts) -> [f64; TERMS_MAX] {
        let count = self.resources.count();
        let roots = picked(self.resources, granted).map(|part| 1.0 / root(part));
        let mut terms = [1.0; TERMS_MAX];
        let mut at = 1;
        for i in 0..count {
            for j in i..count {
                terms[at] = roots[i] * roots[j];
                at += 1;
            }
        }
        terms
    }
}

/// Returns the weight of what was known before `times` equal samples, and that of all of them together.
fn remembered(times: u64) -> (f64, f64) {
    (0..times).fold((1.0, 0.0), |(memory, fresh), _| (memory * MEMORY, fresh * MEMORY + 1.0))
}

/// Takes a row of the normal matrix, which is a column of it too, so often from what is left.
fn take(left: &mut [f64; TERMS_MAX], row: &[f64; TERMS_MAX], times: f64) {
    left.iter_mut().zip(row).for_each(|(left, cell)| *left -= times * cell);
}
