//! Prints the time of PACORA's solve and of a heartbeat into its fit.
//!
//! ```sh
//! cargo run --release -p gyre-broker --example bench
//! ```

use std::hint::black_box;
use std::time::Instant;

use gyre_broker::ResourceSet;
use gyre_broker::pacora::fit::Fit;
use gyre_broker::pacora::programme::{Load, Programme};
use gyre_broker::pacora::response::Response;
use gyre_broker::resource::Resource;

/// A seeded stream of numbers (a linear congruence).
struct Seed(u64);

impl Seed {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn main() {
    println!("solve (best of 5 each, 60 programmes; goal <= 100 us for 8 x 4):");
    solves::<4>(8);
    solves::<2>(11);
    solves::<4>(16);
    println!("a heartbeat into the fit and 5 sweeps (goal <= 2 us):");
    fits(&[Resource::Cpu, Resource::Link]);
    fits(&Resource::ALL[..4]);
    fits(&Resource::ALL);
}

fn programme<const R: usize>(seed: &mut Seed, tenants: usize) -> Programme<R> {
    let mut programme = Programme::new(1e-4);
    for _ in 0..tenants {
        let mut response = Response { base: seed.unit() * 5.0, pairs: [[0.0; R]; R] };
        for i in 0..R {
            for j in i..R {
                response.pairs[i][j] = if seed.unit() < 0.5 { seed.unit() * 3.0 } else { 0.0 };
            }
        }
        let deadline_ms = if seed.unit() < 0.7 { 10.0 + 60.0 * seed.unit() } else { 0.0 };
        let penalty = 0.1 + seed.unit() * 3.0;
        programme.add(Load { response, deadline_ms, penalty, least: [0.002; R], most: [1.0; R] });
    }
    programme
}

fn solves<const R: usize>(tenants: usize) {
    let mut seed = Seed(1);
    let (mut times, mut steps) = (Vec::new(), 0);
    for _ in 0..60 {
        let programme = programme::<R>(&mut seed, tenants);
        let timed = || {
            let start = Instant::now();
            let optimum = black_box(&programme).solve();
            (start.elapsed().as_nanos() as f64 / 1e3, optimum.map_or(0, |optimum| optimum.steps))
        };
        let runs: Vec<(f64, u32)> = (0..5).map(|_| timed()).collect();
        times.push(runs.iter().map(|run| run.0).fold(f64::INFINITY, f64::min));
        steps += runs[0].1;
    }
    times.sort_by(f64::total_cmp);
    println!(
        "  {tenants:2} tenants x {R} resources: median {:.0} us, 90th percentile {:.0} us, {} Newton steps",
        times[30],
        times[54],
        steps / 60
    );
}

fn fits(resources: &[Resource]) {
    const ROUNDS: u32 = 200_000;
    let mut seed = Seed(2);
    let mut fit = Fit::new(ResourceSet::of(resources));
    let parts: Vec<[f64; 5]> = (0..64).map(|_| [(); 5].map(|()| 0.05 + 0.4 * seed.unit())).collect();
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        for round in 0..ROUNDS {
            let granted = &parts[round as usize % parts.len()];
            fit.learn(black_box(granted), 3.0 + 2.0 / granted[0], 1);
            fit.sweep(5);
            black_box(&fit);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
    }
    println!("  {} resources: {best:.0} ns; {} bytes a tenant", resources.len(), size_of::<Fit>());
}
