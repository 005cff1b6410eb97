//! A response-time function: `tau(a) = base + sum over i <= j of pairs_ij / sqrt(a_i a_j)`, convex in the parts `a` above zero.

use crate::number::root;

/// The function of one tenant over `R` resources.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Response<const R: usize> {
    /// Milliseconds that no resource shortens.
    pub base: f64,
    /// Milliseconds per pair of resources with i <= j; the rest is zero.
    pub pairs: [[f64; R]; R],
}

/// A function's value, gradient and second derivatives at one point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slopes<const R: usize> {
    pub(super) value: f64,
    pub(super) gradient: [f64; R],
    pub(super) hessian: [[f64; R]; R],
}

impl<const R: usize> Response<R> {
    /// The function that is zero everywhere.
    pub const ZERO: Response<R> = Response { base: 0.0, pairs: [[0.0; R]; R] };

    /// Returns the response time with the parts `parts`, in milliseconds.
    pub fn at(&self, parts: &[f64; R]) -> f64 {
        let x = parts.map(|part| 1.0 / root(part));
        let mut value = self.base;
        for i in 0..R {
            for j in i..R {
                value += self.pairs[i][j] * x[i] * x[j];
            }
        }
        value
    }

    /// Returns the value with its derivatives.
    pub(super) fn slopes(&self, parts: &[f64; R]) -> Slopes<R> {
        let x = parts.map(|part| 1.0 / root(part));
        let inverse = x.map(|x| x * x);
        let mut slopes = Slopes { value: self.base, gradient: [0.0; R], hessian: [[0.0; R]; R] };
        for i in 0..R {
            let own = self.pairs[i][i] * inverse[i];
            slopes.value += own;
            slopes.gradient[i] -= own * inverse[i];
            slopes.hessian[i][i] += 2.0 * own * inverse[i] * inverse[i];
            for j in i + 1..R {
                let both = self.pairs[i][j] * x[i] * x[j];
                slopes.value += both;
                slopes.gradient[i] -= 0.5 * both * inverse[i];
                slopes.gradient[j] -= 0.5 * both * inverse[j];
                slopes.hessian[i][i] += 0.75 * both * inverse[i] * inverse[i];
                slopes.hessian[j][j] += 0.75 * both * inverse[j] * inverse[j];
                let cross = 0.25 * both * inverse[i] * inverse[j];
                slopes.hessian[i][j] += cross;
                slopes.hessian[j][i] += cross;
            }
        }
        slopes
    }
}
