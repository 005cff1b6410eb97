//! The price of a tick with a switch of threads: time of two threads that compute, less that of their work. If time counts instructions
//! (`-icount shift=0`), so does the price.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use gyre_pulse::{Error, Options, now_ns, run, schedulers::RoundRobin, spawn};

/// Ticks of one measurement.
const TICKS: u64 = 300;
const BATCHES: usize = 5;
/// Rounds of work between looks at the clock.
const ROUNDS: u64 = 64;
const PERIODS_US: [u64; 3] = [1_000, 250, 100];

#[inline(never)]
pub(crate) fn work(rounds: u64) {
    for at in 0..rounds {
        black_box(at);
    }
}

/// Works until a time; answers the rounds.
fn work_until(end_ns: u64) -> u64 {
    let mut pieces = 0;
    while now_ns() < end_ns {
        work(ROUNDS);
        pieces += 1;
    }
    pieces
}

/// Time of a piece of work, in 1,024ths of a nanosecond, without ticks: the least of some batches.
fn piece() -> u64 {
    let batch = |_| {
        let begun = now_ns();
        let pieces = work_until(begun + 4_000_000);
        (now_ns() - begun) * 1024 / pieces.max(1)
    };
    (0..8).map(batch).min().unwrap_or(0)
}

/// One batch: the price of a tick, and the time between ticks; both ns.
fn batch(period_us: u64) -> Result<(u64, u64), Error> {
    let (pieces, elapsed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted, took) = (pieces.clone(), elapsed.clone());
    let each = piece();
    let report = run(RoundRobin::leaked(), Options::new(1, Duration::from_micros(period_us)), move || {
        let is_over = Arc::new(AtomicBool::new(false));
        let (other, theirs) = (is_over.clone(), counted.clone());
        let begun = now_ns();
        let end = begun + TICKS * period_us * 1000;
        let spawned = spawn(move || {
            theirs.fetch_add(work_until(end), Ordering::Relaxed);
            other.store(true, Ordering::Relaxed);
        });
        counted.fetch_add(work_until(end), Ordering::Relaxed);
        took.store(now_ns() - begun, Ordering::Relaxed);
        assert!(spawned.is_ok(), "there is room for one more thread");
    })?;
    let ticks = report.ticks.max(1);
    let worked = pieces.load(Ordering::Relaxed) * each / 1024;
    let elapsed = elapsed.load(Ordering::Relaxed);
    Ok((elapsed.saturating_sub(worked) / ticks, elapsed / ticks))
}

/// Measures each period, the best of some batches.
pub(crate) fn measure() -> Result<(), Error> {
    for period_us in PERIODS_US {
        let batches = (0..BATCHES).map(|_| batch(period_us)).collect::<Result<Vec<_>, Error>>()?;
        let price = batches.iter().map(|(price, _)| *price).min().unwrap_or(0);
        let mut intervals: Vec<u64> = batches.iter().map(|(_, interval)| *interval).collect();
        intervals.sort_unstable();
        println!("ticks: tick-{period_us} {price}");
        println!("ticks: interval-{period_us} {}", intervals[BATCHES / 2]);
    }
    Ok(())
}
