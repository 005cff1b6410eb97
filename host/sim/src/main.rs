//! Runs the grid under many seeds, each twice, and checks its invariants. See README.md.
#![forbid(unsafe_code)]

mod grid;
mod random;
mod workload;
mod world;

use std::process::{Command, ExitCode};
use world::{Outcome, run};

/// Worlds live as long as their process; so many are run in one.
const SEEDS_PER_PROCESS: u64 = 8;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(from), Some(seeds)) = (number(&arguments, "--from", 1), number(&arguments, "--seeds", 100)) else {
        eprintln!("usage: gyre-sim-runner [--from SEED] [--seeds COUNT]");
        return ExitCode::from(2);
    };
    if arguments.iter().any(|argument| argument == "--worker") {
        return work(from, seeds);
    }
    let failed = (0..seeds.div_ceil(SEEDS_PER_PROCESS)).any(|part| {
        let first = from + part * SEEDS_PER_PROCESS;
        !spawn_worker(first, SEEDS_PER_PROCESS.min(from + seeds - first))
    });
    if failed {
        return ExitCode::FAILURE;
    }
    println!("{seeds} seeds from {from} on: all invariants hold, each run twice with the same trace");
    ExitCode::SUCCESS
}

fn number(arguments: &[String], name: &str, default: u64) -> Option<u64> {
    match arguments.iter().position(|argument| argument == name) {
        Some(at) => arguments.get(at + 1)?.parse().ok(),
        None => Some(default),
    }
}

fn spawn_worker(from: u64, seeds: u64) -> bool {
    let Ok(program) = std::env::current_exe() else {
        return false;
    };
    let arguments = ["--worker", "--from", &from.to_string(), "--seeds", &seeds.to_string()].map(String::from);
    Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
}

fn work(from: u64, seeds: u64) -> ExitCode {
    for seed in from..from + seeds {
        let (Some(first), Some(second)) = (in_thread(seed), in_thread(seed)) else {
            eprintln!("seed {seed} failed: run it again with --from {seed} --seeds 1");
            return ExitCode::FAILURE;
        };
        if first != second {
            eprintln!("seed {seed} is not deterministic: {first:?} and {second:?}");
            return ExitCode::FAILURE;
        }
        println!(
            "seed {seed:>5}  trace {:016x}  {:>7} turns  {:>6} requests, {} cut short",
            first.trace, first.steps, first.requests, first.cut_short
        );
    }
    ExitCode::SUCCESS
}

/// A machine of its own per thread.
fn in_thread(seed: u64) -> Option<Outcome> {
    std::thread::spawn(move || run(seed)).join().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_seeds_hold_and_repeat() {
        for seed in 1..=3 {
            let first = in_thread(seed).unwrap();
            assert_eq!(Some(first), in_thread(seed));
            assert!(first.requests > 50, "seed {seed} asked {} times only", first.requests);
        }
    }
}
