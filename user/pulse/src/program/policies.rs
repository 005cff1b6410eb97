//! Each policy with threads that compute, on one virtual core and on two: none is lost, and registers come back whole. Each computes until its
//! virtual core has had a tick, however late that is on a busy host.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use gyre_pulse::{
    Error, Options, Scheduler, Way,
    mutex::Mutex,
    now_ns, run,
    schedulers::{EarliestDeadline, RoundRobin, SpeedBalancing, WorkStealing},
    spawn, ticks,
};

const THREADS: u64 = 12;
const ROUNDS: u64 = 300_000;
const TICK: Duration = Duration::from_millis(1);
/// A tick that has not come by then does not come.
const LATEST_NS: u64 = 60_000_000_000;

fn compute() -> f64 {
    (0..ROUNDS).fold(1.0, |value, at| black_box(value * 1.000_000_1 + (at % 7) as f64 * 1e-9))
}

/// Computes until a tick has come; true if all of it was right.
fn compute_to_a_tick(expected: u64) -> bool {
    let until = now_ns().saturating_add(LATEST_NS);
    let mut is_right = compute().to_bits() == expected;
    while ticks().is_ok_and(|ticks| ticks == 0) && now_ns() < until {
        is_right &= compute().to_bits() == expected;
    }
    is_right
}

fn right(policy: &'static dyn Scheduler, cores: usize) -> Result<(u64, u64), Error> {
    let (expected, right) = (compute().to_bits(), Arc::new(AtomicU64::new(0)));
    let (counted, entered) = (right.clone(), Arc::new(Mutex::new(0u64)));
    let report = run(policy, Options::new(cores, TICK), move || {
        for _ in 0..THREADS {
            let (right, entered) = (counted.clone(), entered.clone());
            let spawned = spawn(move || {
                let is_right = compute_to_a_tick(expected) && entered.with(|entered| *entered += 1).is_ok();
                right.fetch_add(u64::from(is_right), Ordering::Relaxed);
            });
            assert!(spawned.is_ok(), "there is room for the threads");
        }
    })?;
    Ok((right.load(Ordering::Relaxed), report.ticks))
}

pub(crate) fn show() -> Result<(), Error> {
    println!("policies: way-{} 0", if Way::of_kernel() == Way::Native { "native" } else { "signals" });
    for cores in [1, 2] {
        let policies: [(&str, &'static dyn Scheduler); 4] = [
            ("round-robin", RoundRobin::leaked()),
            ("earliest-deadline", EarliestDeadline::leaked()),
            ("speed-balancing", SpeedBalancing::leaked(cores)),
            ("work-stealing", WorkStealing::leaked(cores)),
        ];
        for (name, policy) in policies {
            let (right, ticks) = right(policy, cores)?;
            println!("policies: {name}-{cores} {right}");
            println!("policies: {name}-{cores}-ticks {ticks}");
        }
    }
    Ok(())
}
