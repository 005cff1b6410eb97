//! Runs the grid under many seeds, each twice, and checks its invariants: a chain of invented stages, and the whole machine. See README.md.
#![forbid(unsafe_code)]

mod arguments;
mod stages;
mod whole;

use arguments::{Arguments, World};
use std::fmt::Debug;
use std::process::{Command, ExitCode};

/// Worlds live as long as their process; so many seeds are run in one.
const SEEDS_PER_PROCESS: u64 = 8;

fn main() -> ExitCode {
    let Some(arguments) = Arguments::parse(std::env::args().skip(1)) else {
        eprintln!("{}", arguments::USAGE);
        return ExitCode::from(2);
    };
    if arguments.is_worker {
        return work(&arguments);
    }
    if !whole::is_possible() {
        println!("the whole machine is left out: mke2fs and e2fsck are not installed (Debian package e2fsprogs)");
    }
    let Arguments { from, seeds, .. } = arguments;
    let failed = (0..seeds.div_ceil(SEEDS_PER_PROCESS)).any(|part| {
        let first = from + part * SEEDS_PER_PROCESS;
        !spawn_worker(&arguments, first, SEEDS_PER_PROCESS.min(from + seeds - first))
    });
    if failed {
        return ExitCode::FAILURE;
    }
    println!("{seeds} seeds from {from} on: all invariants hold, each run twice with the same trace");
    ExitCode::SUCCESS
}

fn spawn_worker(arguments: &Arguments, from: u64, seeds: u64) -> bool {
    let Ok(program) = std::env::current_exe() else {
        return false;
    };
    let worker = Arguments { from, seeds, is_worker: true, ..*arguments };
    Command::new(program).args(worker.words()).status().is_ok_and(|status| status.success())
}

fn work(arguments: &Arguments) -> ExitCode {
    let is_possible = whole::is_possible();
    for seed in arguments.from..arguments.from + arguments.seeds {
        let runs_stages = arguments.world != Some(World::Whole);
        let runs_whole = is_possible && arguments.world != Some(World::Stages);
        if runs_stages && !report(seed, "stages", stages::run) || runs_whole && !report(seed, "whole", whole::run) {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Runs a seed twice and prints what it came to; false where it fails.
fn report<T: Debug + PartialEq + Send + 'static + Summary>(seed: u64, world: &'static str, run: fn(u64) -> T) -> bool {
    std::panic::set_hook(Box::new(move |panic| {
        eprintln!("{panic}");
        tell_failure(seed, world, "failed");
    }));
    let (Some(first), Some(second)) = (in_thread(seed, run), in_thread(seed, run)) else {
        return false;
    };
    if first != second {
        tell_failure(seed, world, &format!("is not deterministic: {first:?} and {second:?}"));
        return false;
    }
    println!("seed {seed:>5}  {world:<6}  {}", first.summary());
    true
}

/// Says which seed it was and how to run it again. A panic may end the process, so its hook calls this.
fn tell_failure(seed: u64, world: &str, what: &str) {
    if world == "whole" {
        eprintln!("{}", whole::describe(seed));
    }
    eprintln!(
        "seed {seed} {what} (world: {world}); run it again with `cargo run -p gyre-sim-runner -- --seed {seed} --only {world}`"
    );
}

/// A line about a run.
trait Summary {
    fn summary(&self) -> String;
}

impl Summary for stages::Outcome {
    fn summary(&self) -> String {
        let stages::Outcome { trace, steps, requests, cut_short, failures } = self;
        format!(
            "trace {trace:016x}  {steps:>7} turns  {requests:>6} requests, {cut_short} cut short, {failures} failures"
        )
    }
}

impl Summary for whole::Outcome {
    fn summary(&self) -> String {
        let whole::Outcome { trace, steps, done, whole, broken, has_crashed } = self;
        let end = if *has_crashed { ", crashed" } else { "" };
        format!(
            "trace {trace:016x}  {steps:>7} turns  {done:>6} file operations, {whole} exchanges, {broken} cut short{end}"
        )
    }
}

/// A machine of its own per thread.
fn in_thread<T: Send + 'static>(seed: u64, run: fn(u64) -> T) -> Option<T> {
    std::thread::spawn(move || run(seed)).join().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_seeds_of_the_stages_hold_and_repeat() {
        for seed in 1..=3 {
            let first = in_thread(seed, stages::run).unwrap();
            assert_eq!(Some(first), in_thread(seed, stages::run));
            // A tenant for whom the kernel fails asks no more.
            assert!(first.requests > 50 || first.failures > 0, "seed {seed} asked {} times only", first.requests);
        }
    }

    #[test]
    fn failures_for_one_tenant_leave_the_others_whole_and_repeat() {
        let mut failures = 0;
        for seed in 100..124 {
            let first = in_thread(seed, stages::run).unwrap();
            assert_eq!(Some(first), in_thread(seed, stages::run));
            failures += first.failures;
        }
        assert!(failures > 3, "the kernel failed {failures} times only");
    }

    #[test]
    fn a_few_seeds_of_the_whole_machine_hold_and_repeat() {
        for seed in (1..=3).filter(|_| whole::is_possible()) {
            let first = in_thread(seed, whole::run).unwrap();
            assert_eq!(Some(first), in_thread(seed, whole::run));
            assert!(first.done > 10, "seed {seed} did {} things with files only", first.done);
        }
    }
}
