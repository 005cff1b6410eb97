//! The programme: minimise the sum of `penalty_p max(0, tau_p(a_p) - deadline_p)` and a small price of all parts, with
//! `sum of a_pr <= capacity_r` and `least <= a_pr <= most`.
//!
//! Penalties are divided by their sum, so the objective is in milliseconds. The barrier method ([`super::newton`]) replaces each wall by a
//! logarithm of the weight 1/t and lets t grow, until what the logarithms add is below [`GAP`].
//! With the variable `u >= max(0, g)` for `g = tau - deadline`, the best u has a closed form, so only the parts are unknown.
//!
//! Called once a window by [`super`]; it has no state and takes no memory. Left out: integer parts, which the plan rounds.

use super::newton::Newton;
use super::response::Response;
use crate::number::{ln, root};

/// Most tenants of a programme.
pub const LOADS_MAX: usize = 16;
/// Largest error of the objective, in milliseconds of a penalty of 1.
pub const GAP: f64 = 1e-4;
/// The weight of the objective grows by this factor a round.
const GROWTH: f64 = 30.0;
/// Most rounds; 7 suffice for 16 tenants with 4 resources.
const ROUNDS_MAX: u32 = 12;
/// Least parts reach at most this part of the way to a limit, and their sum to the capacity.
const LEAST_OF_WALL: f64 = 0.9;
/// From this part of a wall on nothing is left below it.
const USED_UP: f64 = 0.98;
/// From this multiple of its deadline on a response is late.
const MISSED: f64 = 1.01;
/// The least penalty beside penalties that sum up to 1.
const PENALTY_MIN: f64 = 1e-9;

/// One tenant of the programme.
#[derive(Clone, Copy, Debug)]
pub struct Load<const R: usize> {
    /// How its response time depends on its parts.
    pub response: Response<R>,
    /// Milliseconds up to which nothing is lost.
    pub deadline_ms: f64,
    /// The cost of a millisecond beyond.
    pub penalty: f64,
    /// The least parts.
    pub least: [f64; R],
    /// The largest parts; from 1.0 on there is no such wall.
    pub most: [f64; R],
}

impl<const R: usize> Load<R> {
    const NONE: Load<R> =
        Load { response: Response::ZERO, deadline_ms: 0.0, penalty: 0.0, least: [0.0; R], most: [0.0; R] };
}

/// The optimum.
#[derive(Clone, Copy, Debug)]
pub struct Optimum<const R: usize> {
    /// The parts of each load, in the order in which they were added.
    pub parts: [[f64; R]; LOADS_MAX],
    /// Newton steps that it took.
    pub steps: u32,
}

/// All tenants and what there is for them.
#[derive(Clone, Debug)]
pub struct Programme<const R: usize> {
    loads: [Load<R>; LOADS_MAX],
    count: usize,
    pub(super) capacity: [f64; R],
    pub(super) price: f64,
}

impl<const R: usize> Programme<R> {
    /// Returns the programme of nobody over the whole machine, with the price of a whole resource.
    pub fn new(price: f64) -> Programme<R> {
        Programme { loads: [Load::NONE; LOADS_MAX], count: 0, capacity: [1.0; R], price }
    }

    /// Takes parts away that somebody outside of the programme holds.
    pub fn set_aside(&mut self, parts: [f64; R]) {
        for (capacity, part) in self.capacity.iter_mut().zip(parts) {
            *capacity -= part;
        }
    }

    /// Adds a tenant; returns its place, or nothing if all are taken.
    pub fn add(&mut self, load: Load<R>) -> Option<usize> {
        let place = self.count;
        *self.loads.get_mut(place)? = load;
        self.count += 1;
        Some(place)
    }

    /// Returns the tenants.
    pub fn loads(&self) -> &[Load<R>] {
        &self.loads[..self.count]
    }

    /// Returns the objective at `parts`, in milliseconds of a penalty of 1.
    pub fn objective(&self, parts: &[[f64; R]]) -> f64 {
        let total = self.penalties();
        let each = self.loads().iter().zip(parts).map(|(load, parts)| {
            let late = (load.response.at(parts) - load.deadline_ms).max(0.0);
            let price: f64 =
                parts.iter().zip(&self.capacity).map(|(part, capacity)| self.price * part / capacity).sum();
            weight(load, total) * late + price
        });
        each.sum()
    }

    /// Says whether somebody misses its deadline at an optimum because others hold what it lacks, and not because of its own limit.
    pub fn is_short(&self, optimum: &Optimum<R>) -> bool {
        let parts = &optimum.parts[..self.count];
        let is_used_up = |r: usize| parts.iter().map(|parts| parts[r]).sum::<f64>() >= USED_UP * self.capacity[r];
        let misses = |(load, parts): (&Load<R>, &[f64; R])| {
            let is_late = load.deadline_ms > 0.0 && load.response.at(parts) > MISSED * load.deadline_ms;
            is_late && (0..R).any(|r| is_used_up(r) && parts[r] < USED_UP * load.most[r])
        };
        self.loads().iter().zip(parts).any(misses)
    }

    /// Returns the optimum; nothing if there is no room, or if the numbers leave the range of floats.
    pub fn solve(&self) -> Option<Optimum<R>> {
        let walls = self.walled();
        let mut parts = walls.start()?;
        let count = walls.constraints();
        let (mut newton, mut sharpness) = (Newton::default(), 1.0);
        for _ in 0..ROUNDS_MAX {
            newton.round(&walls, &mut parts, sharpness);
            if count / sharpness < GAP {
                break;
            }
            sharpness *= GROWTH;
        }
        let is_sound = parts[..self.count].iter().flatten().all(|part| part.is_finite() && *part >= 0.0);
        is_sound.then_some(Optimum { parts, steps: newton.steps })
    }

    /// Returns the programme in the form in which it is solved: penalties sum up to 1, and the least parts leave room to each wall.
    fn walled(&self) -> Programme<R> {
        let total = self.penalties();
        let mut walled = self.clone();
        for load in &mut walled.loads[..self.count] {
            load.penalty = weight(load, total);
            for r in 0..R {
                load.least[r] = load.least[r].min(LEAST_OF_WALL * load.most[r]);
            }
        }
        for r in 0..R {
            let scale = (LEAST_OF_WALL * self.capacity[r] / walled.least_sum(r)).min(1.0);
            for load in &mut walled.loads[..self.count] {
                load.least[r] *= scale;
            }
        }
        walled
    }

    fn least_sum(&self, r: usize) -> f64 {
        self.loads().iter().map(|load| load.least[r]).sum()
    }

    fn penalties(&self) -> f64 {
        self.loads().iter().map(|load| load.penalty).sum()
    }

    /// Returns a point inside of all walls.
    fn start(&self) -> Option<[[f64; R]; LOADS_MAX]> {
        let mut parts = [[0.0; R]; LOADS_MAX];
        for r in 0..R {
            let each = 0.9 * (self.capacity[r] - self.least_sum(r)) / self.count as f64;
            for (parts, load) in parts.iter_mut().zip(self.loads()) {
                parts[r] = load.least[r] + each.min(0.5 * (load.most[r] - load.least[r]));
                let is_inside = parts[r] > load.least[r] && load.least[r] > 0.0;
                if !is_inside {
                    return None;
                }
            }
        }
        (self.count > 0).then_some(parts)
    }

    /// Returns the number of walls, limits of less than the machine among them, and twice the tenants for their u.
    fn constraints(&self) -> f64 {
        let limits = self.loads().iter().flat_map(|load| load.most).filter(|most| *most < 1.0).count();
        (2 * self.count + self.count * R + R + limits) as f64
    }

    /// Returns the barrier function, infinite outside of the walls.
    pub(super) fn barrier(&self, parts: &[[f64; R]; LOADS_MAX], sharpness: f64) -> f64 {
        let mut value = 0.0;
        let mut slack = self.capacity;
        for (load, parts) in self.loads().iter().zip(parts) {
            let mut room = 1.0;
            for r in 0..R {
                let (below, above) = (parts[r] - load.least[r], load.most[r] - parts[r]);
                let is_limited = load.most[r] < 1.0;
                if below <= 0.0 || (is_limited && above <= 0.0) {
                    return f64::INFINITY;
                }
                room *= if is_limited { below * above } else { below };
                slack[r] -= parts[r];
            }
            let late = Lateness::of(load.response.at(parts) - load.deadline_ms, sharpness * load.penalty);
            value += late.weight * late.u - ln(room * late.u * late.above);
        }
        for (slack, capacity) in slack.iter().zip(&self.capacity) {
            value += sharpness * self.price * (1.0 - slack / capacity);
        }
        let is_inside = slack.iter().all(|slack| *slack > 0.0);
        if is_inside { value - ln(slack.iter().product()) } else { f64::INFINITY }
    }
}

/// The weight of a load beside penalties of the sum `total`.
fn weight<const R: usize>(load: &Load<R>, total: f64) -> f64 {
    let relative = if total > 0.0 { load.penalty / total } else { 0.0 };
    relative.max(PENALTY_MIN)
}

/// The best `u` for a lateness of `g`, with the weight of the objective.
pub(super) struct Lateness {
    pub(super) weight: f64,
    pub(super) u: f64,
    /// u - g, without the cancellation.
    pub(super) above: f64,
}

impl Lateness {
    pub(super) fn of(g: f64, weight: f64) -> Lateness {
        let scaled = weight * g;
        let length = root(scaled * scaled + 4.0);
        // (length + scaled) (length - scaled) = 4: the small one of the two follows from the large one
        let large = length + scaled.abs();
        let small = 4.0 / large;
        let (plus, minus) = if scaled >= 0.0 { (large, small) } else { (small, large) };
        Lateness { weight, u: (2.0 + plus) / (2.0 * weight), above: (2.0 + minus) / (2.0 * weight) }
    }
}
