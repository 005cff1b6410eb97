//! Linear systems of `R` unknowns by Cholesky's method.

use crate::number::root;

/// A lower triangle `L` with `L L^T` = the matrix it was made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Triangle<const R: usize> {
    cells: [[f64; R]; R],
    /// One divided by the diagonal: a product is cheaper than a quotient.
    inverse: [f64; R],
}

impl<const R: usize> Triangle<R> {
    /// The triangle of nothing.
    pub(super) const ZERO: Triangle<R> = Triangle { cells: [[0.0; R]; R], inverse: [0.0; R] };

    /// Returns the triangle of a positive definite matrix; a diagonal that rounding made negative counts as a tiny one.
    pub(super) fn of(mut cells: [[f64; R]; R]) -> Triangle<R> {
        let mut inverse = [0.0; R];
        for i in 0..R {
            for j in 0..=i {
                let known: f64 = (0..j).map(|k| cells[i][k] * cells[j][k]).sum();
                let value = cells[i][j] - known;
                if i == j {
                    inverse[i] = 1.0 / root(value.max(1e-300));
                } else {
                    cells[i][j] = value * inverse[j];
                }
            }
        }
        Triangle { cells, inverse }
    }

    /// Solves `L L^T x = right`.
    pub(super) fn solve(&self, right: &[f64; R]) -> [f64; R] {
        let mut x = *right;
        for i in 0..R {
            for k in 0..i {
                x[i] -= self.cells[i][k] * x[k];
            }
            x[i] *= self.inverse[i];
        }
        for i in (0..R).rev() {
            for k in i + 1..R {
                x[i] -= self.cells[k][i] * x[k];
            }
            x[i] *= self.inverse[i];
        }
        x
    }

    /// Adds the inverse of `L L^T` to `sum`.
    pub(super) fn add_inverse_to(&self, sum: &mut [[f64; R]; R]) {
        let columns = self.inverse_columns();
        for i in 0..R {
            for j in 0..=i {
                let cell: f64 = (i..R).map(|k| columns[i][k] * columns[j][k]).sum();
                sum[i][j] += cell;
                if i != j {
                    sum[j][i] += cell;
                }
            }
        }
    }

    /// Returns the columns of the inverse of `L`.
    fn inverse_columns(&self) -> [[f64; R]; R] {
        let mut columns = [[0.0; R]; R];
        for (c, column) in columns.iter_mut().enumerate() {
            column[c] = self.inverse[c];
            for i in c + 1..R {
                let sum: f64 = (c..i).map(|k| self.cells[i][k] * column[k]).sum();
                column[i] = -sum * self.inverse[i];
            }
        }
        columns
    }
}
