//! Many crashes of the file system in the simulator: one machine for each seed, stopped at a random moment with torn and reordered writes,
//! repaired by e2fsck, mounted again, everything that was synced compared.
//!
//! ```text
//!   cargo run --release -p gyre-ext2 --example crashes [SEEDS] [FIRST SEED]
//! ```
//! A seed that loses something ends the run with its number.

#[path = "../tests/crash.rs"]
#[allow(dead_code, reason = "its test is not used here")]
mod crash;

use std::time::Instant;

fn argument(place: usize, usual: u64) -> u64 {
    std::env::args().nth(place).and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Seeds of one process: what a simulated machine leaves in memory goes with it.
const SEEDS_PER_PROCESS: u64 = 100;

fn main() {
    let (seeds, first) = (argument(1, 10_000), argument(2, 0));
    if std::env::args().nth(3).is_some() {
        return run(first..first + seeds);
    }
    let started = Instant::now();
    let mut lost = 0;
    let mut at = first;
    while at < first + seeds {
        let count = SEEDS_PER_PROCESS.min(first + seeds - at);
        let own = std::env::current_exe().expect("the program knows its path");
        let status = std::process::Command::new(own).args([count.to_string(), at.to_string(), "part".into()]).status();
        lost += u64::from(!status.is_ok_and(|status| status.success()));
        at += count;
        if (at - first) % 1000 == 0 || at == first + seeds {
            println!("{} crashes, {lost} hundreds with losses, {:.0} s", at - first, started.elapsed().as_secs_f64());
        }
    }
    assert_eq!(lost, 0, "something that was synced was lost");
}

fn run(seeds: std::ops::Range<u64>) {
    let images = crash::images(2 * 1024);
    let style = |seed: u64| if seed / 2 % 4 == 0 { crash::MOVES } else { crash::ALL };
    let losses: Vec<u64> = seeds
        .filter(|seed| {
            std::panic::catch_unwind(|| crash::run(*seed, &images[*seed as usize % 2], 1, style(*seed))).is_err()
        })
        .collect();
    assert!(losses.is_empty(), "seeds with losses: {losses:?}");
}
