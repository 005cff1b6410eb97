//! The solver meets the optimum that a search of a grid finds, and always stays inside of the walls.

mod rig;

use gyre_broker::pacora::programme::{Load, Programme};
use gyre_broker::pacora::response::Response;
use rig::Seed;

const PRICE: f64 = 1e-3;
const LEAST: f64 = 0.004;

fn load<const R: usize>(seed: &mut Seed) -> Load<R> {
    let mut response = Response { base: seed.unit() * 5.0, pairs: [[0.0; R]; R] };
    for i in 0..R {
        for j in i..R {
            response.pairs[i][j] = if seed.unit() < 0.6 { seed.unit() * 3.0 } else { 0.0 };
        }
    }
    let deadline_ms = if seed.unit() < 0.7 { 2.0 + 20.0 * seed.unit() } else { 0.0 };
    let limit = if seed.unit() < 0.3 { 0.2 + 0.5 * seed.unit() } else { 1.0 };
    Load { response, deadline_ms, penalty: 0.1 + seed.unit() * 3.0, least: [LEAST; R], most: [limit; R] }
}

fn programme<const R: usize>(seed: &mut Seed, loads: usize) -> Programme<R> {
    let mut programme = Programme::new(PRICE);
    for _ in 0..loads {
        programme.add(load(seed)).expect("there is a place");
    }
    programme
}

/// Checks the walls and returns the objective.
fn solved<const R: usize>(programme: &Programme<R>) -> f64 {
    let optimum = programme.solve().expect("there is an optimum");
    assert!(optimum.steps <= 80, "{} steps", optimum.steps);
    let parts = &optimum.parts[..programme.loads().len()];
    for r in 0..R {
        assert!(parts.iter().map(|parts| parts[r]).sum::<f64>() <= 1.0);
        for (load, parts) in programme.loads().iter().zip(parts) {
            assert!(parts[r] >= load.least[r] && parts[r] <= load.most[r]);
        }
    }
    programme.objective(parts)
}

/// Compares with a grid of `steps` parts a resource: the grid cannot be better by more than 1 %.
fn compare(found: f64, grid: f64) {
    assert!(found <= grid * 1.01 + 2e-4, "found {found}, the grid {grid}");
}

fn values(most: f64, room: f64, steps: u32) -> impl Iterator<Item = f64> {
    let step = move |n: u32| LEAST + (1.0 - LEAST) * f64::from(n) / f64::from(steps);
    (0..=steps).map(step).take_while(move |part| *part <= most.min(room))
}

#[test]
fn two_tenants_and_one_resource() {
    let mut seed = Seed(1);
    for _ in 0..60 {
        let programme = programme::<1>(&mut seed, 2);
        let most: Vec<f64> = programme.loads().iter().map(|load| load.most[0]).collect();
        let mut best = f64::INFINITY;
        for a in values(most[0], 1.0 - LEAST, 800) {
            for b in values(most[1], 1.0 - a, 800) {
                best = best.min(programme.objective(&[[a], [b]]));
            }
        }
        let found = solved(&programme);
        compare(found, best);
        assert!(found >= best * 0.99 - 2e-3, "a fine grid cannot be much worse: found {found}, the grid {best}");
    }
}

#[test]
fn three_tenants_and_one_resource() {
    let mut seed = Seed(2);
    for _ in 0..20 {
        let programme = programme::<1>(&mut seed, 3);
        let most: Vec<f64> = programme.loads().iter().map(|load| load.most[0]).collect();
        let mut best = f64::INFINITY;
        for a in values(most[0], 1.0 - 2.0 * LEAST, 100) {
            for b in values(most[1], 1.0 - LEAST - a, 100) {
                for c in values(most[2], 1.0 - a - b, 100) {
                    best = best.min(programme.objective(&[[a], [b], [c]]));
                }
            }
        }
        compare(solved(&programme), best);
    }
}

#[test]
fn two_tenants_and_two_resources() {
    let mut seed = Seed(3);
    for _ in 0..20 {
        let programme = programme::<2>(&mut seed, 2);
        let most: Vec<f64> = programme.loads().iter().map(|load| load.most[0]).collect();
        let mut best = f64::INFINITY;
        for a in values(most[0], 1.0 - LEAST, 30) {
            for b in values(most[1], 1.0 - a, 30) {
                for c in values(most[0], 1.0 - LEAST, 30) {
                    for d in values(most[1], 1.0 - c, 30) {
                        best = best.min(programme.objective(&[[a, c], [b, d]]));
                    }
                }
            }
        }
        compare(solved(&programme), best);
    }
}

#[test]
fn no_small_move_is_better_for_many_tenants() {
    let mut seed = Seed(4);
    for loads in [4, 8, 16] {
        for _ in 0..10 {
            let programme = programme::<4>(&mut seed, loads);
            let found = solved(&programme);
            let optimum = programme.solve().expect("there is an optimum");
            for from in 0..loads {
                for to in 0..loads {
                    for r in 0..4 {
                        let mut parts = optimum.parts;
                        parts[from][r] -= 0.01;
                        parts[to][r] += 0.01;
                        let is_inside = parts[from][r] >= LEAST && parts[to][r] <= programme.loads()[to].most[r];
                        if is_inside && from != to {
                            compare(found, programme.objective(&parts[..loads]));
                        }
                    }
                }
            }
        }
    }
}
