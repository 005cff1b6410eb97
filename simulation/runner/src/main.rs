//! Runs the grid under many seeds, each twice, and checks its invariants: a chain of invented stages, and the whole machine. See README.md.
//!
//! * A parent starts a process for every [`SEEDS_PER_PROCESS`] seeds, since worlds live as long as their process. A
//!   process that fails has printed its seed and the words that run it again.
//! * Each seed runs a chain of stages and a whole machine; every fourth one cells too, every eighth one two machines on
//!   one clock. With `--instances COUNT` it runs so many instead, with `--instances linked` two linked machines.
//! * Every eighth seed runs stages and the whole machine once more with cores that leave and come back, one of 64 two
//!   linked machines so. With `--cores moving` all seeds do, and no world is run with cores that stay.
//! * Each world runs twice, in a thread of its own, and both outcomes must be equal. Several machines are compared
//!   with each alone instead.
//! * `tell_rate` measures a stream over a link and over loopback; it is no check.
//!
//! Exit code 0 says that all invariants hold.
#![forbid(unsafe_code)]

mod arguments;
mod reached;
mod stages;
mod whole;

use arguments::{Arguments, Cores, Instances, World};
use gyre_engine::simulate::Moves;
use reached::{Reached, Sums};
use std::fmt::Debug;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use whole::Hit;

/// Worlds live as long as their process; so many seeds are run in one.
const SEEDS_PER_PROCESS: u64 = 8;
/// With so many seeds work of each resource fails in one of them.
const SEEDS_FOR_ALL: u64 = 45;
/// One seed of so many has two machines, beside its worlds with one.
const INSTANCES_EVERY: u64 = 8;
/// So many there.
const INSTANCES_BESIDE: usize = 2;
/// One seed of so many has cells, beside its other worlds.
const CELLS_EVERY: u64 = 4;
/// Which of the seeds with two machines: none in which tenants want the whole link.
const INSTANCES_AT: u64 = 4;
/// One seed of so many runs once more with cores that move.
const MOVING_EVERY: u64 = 8;
/// Which: none whose tenants keep tasks on every core, as cores stay then, nor one whose kernel fails.
const MOVING_AT: u64 = 6;
/// One seed of so many runs two linked machines with cores that move: one among those of the gate.
const LINKED_EVERY: u64 = 64;
/// Which: one whose second machine is killed.
const LINKED_AT: u64 = 5;

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(refusal) => {
            eprintln!("{refusal}");
            return ExitCode::from(2);
        }
    };
    if arguments.is_rate {
        return tell_rate();
    }
    if arguments.is_worker {
        return work(&arguments);
    }
    if !whole::is_possible() {
        println!("the whole machine is left out: mke2fs and e2fsck are not installed (Debian package e2fsprogs)");
    }
    let Arguments { from, seeds, .. } = arguments;
    let mut sums = Sums::default();
    let at_once = seeds_at_once(arguments.instances);
    let failed = (0..seeds.div_ceil(at_once)).any(|part| {
        let first = from + part * at_once;
        !spawn_worker(&arguments, first, at_once.min(from + seeds - first), &mut sums)
    });
    if failed || !reach_all(&arguments, &sums) {
        return ExitCode::FAILURE;
    }
    let trace = match arguments.instances {
        Instances::One => "each run twice with the same trace",
        Instances::Many(_) => "each instance is what it is alone",
        Instances::Linked => "each run twice with the same traces",
    };
    println!("{seeds} seeds from {from} on: all invariants hold, {trace}");
    ExitCode::SUCCESS
}

/// Seeds that one process runs: fewer of those with many machines.
fn seeds_at_once(instances: Instances) -> u64 {
    match instances {
        Instances::Many(count) => SEEDS_PER_PROCESS / count as u64,
        Instances::One | Instances::Linked => SEEDS_PER_PROCESS,
    }
}

fn spawn_worker(arguments: &Arguments, from: u64, seeds: u64, sums: &mut Sums) -> bool {
    let Ok(program) = std::env::current_exe() else {
        return false;
    };
    let worker = Arguments { from, seeds, is_worker: true, ..*arguments };
    let Ok(mut child) = Command::new(program).args(worker.words()).stdout(Stdio::piped()).spawn() else {
        return false;
    };
    let said = child.stdout.take().map(BufReader::new);
    for line in said.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
        if !sums.read(&line) {
            println!("{line}");
        }
    }
    child.wait().is_ok_and(|status| status.success())
}

/// With as many seeds as the gate has, work of each resource must have failed; says so, or which did not. False then.
fn reach_all(arguments: &Arguments, sums: &Sums) -> bool {
    if arguments.seeds < SEEDS_FOR_ALL || arguments.instances != Instances::One {
        return true;
    }
    let missing = sums.missing();
    println!("{}", sums.tell());
    if !missing.is_empty() {
        eprintln!("work of these resources never failed: {}", missing.join(", "));
    }
    missing.is_empty()
}

fn work(arguments: &Arguments) -> ExitCode {
    let hold = (arguments.from..arguments.from + arguments.seeds).all(|seed| match arguments.instances {
        Instances::Linked => report(seed, arguments.cores, LINKED, whole::run_zones),
        _ => run_seed(arguments, seed) && run_moving(arguments, seed),
    });
    if hold { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the worlds of a seed; false if one fails.
fn run_seed(arguments: &Arguments, seed: u64) -> bool {
    let is_alone = arguments.instances == Instances::One;
    let may_be_whole = arguments.has(World::Whole) && whole::is_possible();
    let is_due = arguments.world == Some(World::Cells) || seed % CELLS_EVERY == 0;
    let runs_cells = is_alone && is_due && arguments.has(World::Cells) && arguments.cores == Cores::Still;
    let count = match arguments.instances {
        Instances::Many(count) => Some(count),
        _ => (seed % INSTANCES_EVERY == INSTANCES_AT).then_some(INSTANCES_BESIDE),
    };
    let runs_instances = count.filter(|_| may_be_whole);
    (!is_alone || run_alone(arguments, seed, arguments.cores))
        && (!runs_cells || report(seed, Cores::Still, "cells", |seed, _| whole::run_cells(seed)))
        && runs_instances.is_none_or(|count| report_instances(seed, arguments.cores, count))
}

/// Runs the stages and the whole machine of a seed; false if one fails.
fn run_alone(arguments: &Arguments, seed: u64, cores: Cores) -> bool {
    (!arguments.has(World::Stages) || report(seed, cores, "stages", stages::run))
        && (!(arguments.has(World::Whole) && whole::is_possible()) || report(seed, cores, "whole", whole::run))
}

/// Runs the worlds whose cores can move once more, with cores that do, in some seeds; false if one fails.
fn run_moving(arguments: &Arguments, seed: u64) -> bool {
    if arguments.instances != Instances::One || arguments.cores == Cores::Moving {
        return true;
    }
    let runs_linked = arguments.has(World::Whole) && seed % LINKED_EVERY == LINKED_AT;
    (seed % MOVING_EVERY != MOVING_AT || run_alone(arguments, seed, Cores::Moving))
        && (!runs_linked || report(seed, Cores::Moving, LINKED, whole::run_zones))
}

/// Runs a seed with several machines, each of which is compared with a run alone, and prints what they came to; false if it fails.
fn report_instances(seed: u64, cores: Cores, count: usize) -> bool {
    let Some(world) = COUNTS.get(count).copied() else { return false };
    tell_failures_of(seed, cores, world);
    let run = move |seed, cores| whole::run_instances(seed, cores, count);
    let Some(outcome) = in_thread(seed, cores, run) else { return false };
    println!("{}  {}", title(seed, cores, world), outcome.summary());
    true
}

/// The name of a world with two linked machines.
const LINKED: &str = "linked";

/// Parts of 64 KiB that a stream has whose rate is measured.
const RATE_PARTS: usize = 8192;
/// How often it is measured; the best counts.
const RATE_ROUNDS: usize = 5;

/// Measures a stream over the link of two instances and over the loopback of one, in turns.
fn tell_rate() -> ExitCode {
    use whole::rate::{Way, ns_for_each};
    let measure = |way| std::thread::spawn(move || ns_for_each(way, RATE_PARTS)).join().unwrap_or(u64::MAX);
    let rounds: Vec<[u64; 2]> = (0..RATE_ROUNDS).map(|_| [measure(Way::Loopback), measure(Way::Link)]).collect();
    let best = |index: usize| rounds.iter().map(|round| round[index]).min().unwrap_or(u64::MAX).max(1);
    let (loopback, link) = (best(0), best(1));
    println!(
        "64 KiB of a stream: loopback {loopback} ns, link {link} ns, ratio {:.2}; rounds {rounds:?}",
        loopback as f64 / link as f64
    );
    ExitCode::SUCCESS
}

/// The names of worlds with so many machines.
const COUNTS: [&str; whole::INSTANCES_MAX + 1] =
    ["none", "one", "two", "three", "four", "five", "six", "seven", "eight"];

fn tell_failures_of(seed: u64, cores: Cores, world: &'static str) {
    std::panic::set_hook(Box::new(move |panic| {
        eprintln!("{panic}");
        tell_failure(seed, cores, world, "failed");
    }));
}

/// Runs a seed twice and prints what it came to; false if it fails.
fn report<T: Debug + PartialEq + Send + 'static + Summary>(
    seed: u64,
    cores: Cores,
    world: &'static str,
    run: fn(u64, Cores) -> T,
) -> bool {
    tell_failures_of(seed, cores, world);
    let (Some(first), Some(second)) = (in_thread(seed, cores, run), in_thread(seed, cores, run)) else {
        return false;
    };
    if first != second {
        tell_failure(seed, cores, world, &format!("is not deterministic: {first:?} and {second:?}"));
        return false;
    }
    println!("{}  {}", title(seed, cores, world), first.summary());
    if let Some(reached) = first.reached() {
        println!("{}", reached.line(world));
    }
    true
}

/// Names a world of a seed: no two runs of a gate have one name.
fn title(seed: u64, cores: Cores, world: &str) -> String {
    match cores {
        Cores::Still => format!("seed {seed:>5}  {world:<6}"),
        Cores::Moving => format!("seed {seed:>5}  {world:<6}  cores moving"),
    }
}

/// Says which seed it was and how to run it again. A panic may end the process, so its hook calls this.
fn tell_failure(seed: u64, cores: Cores, world: &str, what: &str) {
    if world != "stages" {
        eprintln!("{}", whole::describe(seed));
    }
    let words = again(seed, cores, world);
    eprintln!("seed {seed} {what} (world: {world}); run it again with `cargo run -p gyre-simulation -- {words}`");
}

/// Returns the words that run a world of a seed again, as it was.
fn again(seed: u64, cores: Cores, world: &str) -> String {
    let count = COUNTS.iter().position(|name| *name == world);
    let words = match (world, count) {
        (_, Some(count)) => format!("--instances {count}"),
        (LINKED, _) => "--instances linked".into(),
        _ => format!("--only {world}"),
    };
    let moving = if cores == Cores::Moving { " --cores moving" } else { "" };
    format!("--seed {seed} {words}{moving}")
}

/// Says how often cores moved, if they did.
fn moved(moves: &Moves) -> String {
    let Moves { left, busy, joined } = moves;
    if left + busy == 0 { String::new() } else { format!(", cores left {left}, stayed {busy}, came {joined}") }
}

/// A line about a run.
trait Summary {
    fn summary(&self) -> String;

    /// The resources that it reached, if the kernel may fail in it.
    fn reached(&self) -> Option<&Reached> {
        None
    }
}

impl Summary for stages::Outcome {
    fn summary(&self) -> String {
        let stages::Outcome { trace, steps, requests, cut_short, failures, moves, reached: _ } = self;
        format!(
            "trace {trace:016x}  {steps:>7} turns  {requests:>6} requests, {cut_short} cut short, {failures} failures{}",
            moved(moves)
        )
    }

    fn reached(&self) -> Option<&Reached> {
        Some(&self.reached)
    }
}

impl Summary for whole::Outcome {
    fn summary(&self) -> String {
        let whole::Outcome { trace, steps, done, whole, broken, has_crashed, moves, reached } = self;
        let end = if *has_crashed { ", crashed" } else { "" };
        let names = reached.failed.iter().cloned().collect::<Vec<_>>().join(", ");
        let failed = if names.is_empty() { names } else { format!(", failed in {names}") };
        format!(
            "trace {trace:016x}  {steps:>7} turns  {done:>6} file operations, {whole} exchanges, {broken} cut short{end}{failed}{}",
            moved(moves)
        )
    }

    fn reached(&self) -> Option<&Reached> {
        Some(&self.reached)
    }
}

impl Summary for whole::CellsOutcome {
    fn summary(&self) -> String {
        let whole::CellsOutcome { trace, steps, whole, broken } = self;
        format!("trace {trace:016x}  {steps:>7} turns  {whole} cells came to their end, {broken} were killed or lied")
    }
}

impl Summary for whole::InstancesOutcome {
    fn summary(&self) -> String {
        let whole::InstancesOutcome { traces, steps, hit, failed } = self;
        let traces: Vec<String> = traces.iter().map(|trace| format!("{trace:016x}")).collect();
        let end = match (hit, failed) {
            (Hit::Nobody, _) => String::new(),
            (Hit::Killed { number, at_ns }, _) => format!(", instance {number} killed at {} us", at_ns / 1000),
            (Hit::Failed { number }, Some(end)) => format!(", instance {number} failed: end of the {end:?}"),
            (Hit::Failed { number }, None) => format!(", instance {number} never came to fail"),
        };
        format!("trace {}  {steps:>7} turns, as alone{}", traces.join(" "), end.to_lowercase())
    }
}

impl Summary for whole::ZonesOutcome {
    fn summary(&self) -> String {
        let whole::ZonesOutcome { traces, abroad, at_home, channels, link, event } = self;
        let exchanges =
            format!("{} exchanges abroad, {} cut short, {} at home", abroad.whole, abroad.broken, at_home.whole);
        let channels = format!("{} channels, {} cut short", channels.whole, channels.broken);
        format!(
            "trace {:016x} {:016x}  {exchanges}; {channels}; {} frames, {} interrupts repeated; {event:?}",
            traces[0], traces[1], link.sent_frames, link.repeated_rings
        )
    }
}

/// Runs a machine of its own in a thread.
fn in_thread<T: Send + 'static>(
    seed: u64,
    cores: Cores,
    run: impl FnOnce(u64, Cores) -> T + Send + 'static,
) -> Option<T> {
    std::thread::spawn(move || run(seed, cores)).join().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_run_again_by_its_words_and_nothing_else_is() {
        let worlds = [("stages", World::Stages), ("whole", World::Whole), ("cells", World::Cells)];
        let read = |words: String| Arguments::parse(words.split_whitespace().map(String::from)).unwrap();
        for cores in [Cores::Still, Cores::Moving] {
            for (name, world) in worlds {
                let words = read(again(22, cores, name));
                assert_eq!((words.from, words.seeds, words.cores), (22, 1, cores));
                assert_eq!((words.world, words.instances), (Some(world), Instances::One));
            }
            let counts = (2..COUNTS.len()).map(|count| (COUNTS[count], Instances::Many(count)));
            for (name, instances) in counts.chain([(LINKED, Instances::Linked)]) {
                let words = read(again(22, cores, name));
                assert_eq!((words.cores, words.world, words.instances), (cores, None, instances));
            }
        }
    }

    #[test]
    fn a_few_seeds_of_the_stages_hold_and_repeat() {
        for seed in 1..=3 {
            let first = in_thread(seed, Cores::Still, stages::run).unwrap();
            assert_eq!(Some(&first), in_thread(seed, Cores::Still, stages::run).as_ref());
            // A tenant for whom the kernel fails asks no more.
            assert!(first.requests > 50 || first.failures > 0, "seed {seed} asked {} times only", first.requests);
        }
    }

    #[test]
    fn failures_for_one_tenant_leave_the_others_whole_and_repeat() {
        let mut failures = 0;
        for seed in 100..124 {
            let first = in_thread(seed, Cores::Still, stages::run).unwrap();
            assert_eq!(Some(&first), in_thread(seed, Cores::Still, stages::run).as_ref());
            failures += first.failures;
        }
        assert!(failures > 3, "the kernel failed {failures} times only");
    }

    #[test]
    fn cores_leave_and_come_back_in_the_middle_of_the_stages() {
        let mut moves = Moves::default();
        for seed in 1..=12 {
            let first = in_thread(seed, Cores::Moving, stages::run).unwrap();
            assert_eq!(Some(&first), in_thread(seed, Cores::Moving, stages::run).as_ref());
            moves = Moves { left: moves.left + first.moves.left, joined: moves.joined + first.moves.joined, busy: 0 };
        }
        assert!(moves.left > 20 && moves.joined > 10, "{moves:?}");
    }

    #[test]
    fn a_few_seeds_of_the_whole_machine_hold_and_repeat() {
        for seed in (1..=3).filter(|_| whole::is_possible()) {
            let first = in_thread(seed, Cores::Still, whole::run).unwrap();
            assert_eq!(Some(&first), in_thread(seed, Cores::Still, whole::run).as_ref());
            assert!(first.done > 10, "seed {seed} did {} things with files only", first.done);
        }
    }
}
