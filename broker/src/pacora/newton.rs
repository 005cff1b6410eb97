//! Newton's method on the barrier function.
//!
//! The second derivatives are one block of R x R per tenant, coupled by the capacities only. Each block is solved alone, and the
//! coupling is a system of R unknowns (Woodbury's formula), so a step costs tenants x R^3.

use super::linear::Triangle;
use super::programme::{LOADS_MAX, Lateness, Load, Programme};

/// Most steps of a round.
const STEPS_MAX: u32 = 30;
/// Halvings of a step after which a round ends.
const HALVINGS_MAX: u32 = 20;
/// A round ends when the barrier function would fall by less than this.
const FALL_MIN: f64 = 1e-3;
/// A step goes at most this part of the way to a wall.
const WAY_MAX: f64 = 0.95;

type Points<const R: usize> = [[f64; R]; LOADS_MAX];

/// Counts the steps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Newton {
    pub(super) steps: u32,
}

struct Direction<const R: usize> {
    towards: Points<R>,
    fall: f64,
}

/// The barrier function of one sharpness, and its value before a step.
struct Height {
    sharpness: f64,
    value: f64,
}

struct Block<const R: usize> {
    triangle: Triangle<R>,
    gradient: [f64; R],
}

impl Newton {
    /// Goes to the minimum of the barrier function for one sharpness.
    pub(super) fn round<const R: usize>(&mut self, programme: &Programme<R>, parts: &mut Points<R>, sharpness: f64) {
        let mut value = programme.barrier(parts, sharpness);
        for _ in 0..STEPS_MAX {
            self.steps += 1;
            let slack = slack(programme, parts);
            let direction = direction(programme, parts, &slack, sharpness);
            let is_downhill = direction.fall >= FALL_MIN && direction.fall.is_finite();
            if !is_downhill {
                return;
            }
            let Some(lower) = step(programme, parts, &slack, &direction, Height { sharpness, value }) else {
                return;
            };
            value = lower;
        }
    }
}

fn slack<const R: usize>(programme: &Programme<R>, parts: &Points<R>) -> [f64; R] {
    let mut slack = programme.capacity;
    for parts in &parts[..programme.loads().len()] {
        for r in 0..R {
            slack[r] -= parts[r];
        }
    }
    slack
}

fn direction<const R: usize>(
    programme: &Programme<R>,
    parts: &Points<R>,
    slack: &[f64; R],
    sharpness: f64,
) -> Direction<R> {
    let mut triangles = [Triangle::ZERO; LOADS_MAX];
    let (mut gradients, mut towards) = ([[0.0; R]; LOADS_MAX], [[0.0; R]; LOADS_MAX]);
    let (mut coupling, mut right) = ([[0.0; R]; R], [0.0; R]);
    for r in 0..R {
        coupling[r][r] = slack[r] * slack[r];
    }
    let push: [f64; R] = core::array::from_fn(|r| 1.0 / slack[r] + sharpness * programme.price / programme.capacity[r]);
    for (p, load) in programme.loads().iter().enumerate() {
        let Block { triangle, gradient } = block(load, &parts[p], sharpness, &push);
        towards[p] = triangle.solve(&gradient);
        triangle.add_inverse_to(&mut coupling);
        for r in 0..R {
            right[r] += towards[p][r];
        }
        (triangles[p], gradients[p]) = (triangle, gradient);
    }
    let shared = Triangle::of(coupling).solve(&right);
    let mut fall = 0.0;
    for p in 0..programme.loads().len() {
        let coupled = triangles[p].solve(&shared);
        for r in 0..R {
            towards[p][r] = coupled[r] - towards[p][r];
            fall -= towards[p][r] * gradients[p][r];
        }
    }
    Direction { towards, fall }
}

/// Returns the second derivatives and the gradient of one tenant.
fn block<const R: usize>(load: &Load<R>, parts: &[f64; R], sharpness: f64, push: &[f64; R]) -> Block<R> {
    let slopes = load.response.slopes(parts);
    let late = Lateness::of(slopes.value - load.deadline_ms, sharpness * load.penalty);
    // the multiplier of tau <= deadline + u, and how far u follows tau
    let multiplier = 1.0 / late.above;
    let curvature = multiplier * multiplier;
    let free = 1.0 / (late.u * late.u);
    let stiff = curvature * free / (free + curvature);
    let (mut matrix, mut gradient) = (slopes.hessian, *push);
    for i in 0..R {
        for (cell, slope) in matrix[i].iter_mut().zip(&slopes.gradient) {
            *cell = multiplier * *cell + stiff * slopes.gradient[i] * slope;
        }
        let below = 1.0 / (parts[i] - load.least[i]);
        matrix[i][i] += below * below;
        gradient[i] += multiplier * slopes.gradient[i] - below;
        if load.most[i] < 1.0 {
            let above = 1.0 / (load.most[i] - parts[i]);
            matrix[i][i] += above * above;
            gradient[i] += above;
        }
    }
    Block { triangle: Triangle::of(matrix), gradient }
}

/// Goes a step; returns the barrier function there, or nothing if it did not fall.
fn step<const R: usize>(
    programme: &Programme<R>,
    parts: &mut Points<R>,
    slack: &[f64; R],
    direction: &Direction<R>,
    height: Height,
) -> Option<f64> {
    let mut way = way_to_walls(programme, parts, slack, direction);
    for _ in 0..HALVINGS_MAX {
        let mut next = *parts;
        for (next, towards) in next.iter_mut().zip(&direction.towards) {
            for r in 0..R {
                next[r] += way * towards[r];
            }
        }
        let after = programme.barrier(&next, height.sharpness);
        if after <= height.value - 0.1 * way * direction.fall {
            *parts = next;
            return Some(after);
        }
        way *= 0.5;
    }
    None
}

/// Returns how far a step may go, at most 1, so that it stays inside of every wall.
fn way_to_walls<const R: usize>(
    programme: &Programme<R>,
    parts: &Points<R>,
    slack: &[f64; R],
    direction: &Direction<R>,
) -> f64 {
    let mut way = 1.0f64;
    for r in 0..R {
        let mut sum = 0.0;
        for ((load, parts), towards) in programme.loads().iter().zip(parts).zip(&direction.towards) {
            sum += towards[r];
            if towards[r] < 0.0 {
                way = way.min(WAY_MAX * (parts[r] - load.least[r]) / -towards[r]);
            } else if load.most[r] < 1.0 && towards[r] > 0.0 {
                way = way.min(WAY_MAX * (load.most[r] - parts[r]) / towards[r]);
            }
        }
        if sum > 0.0 {
            way = way.min(WAY_MAX * slack[r] / sum);
        }
    }
    way
}
