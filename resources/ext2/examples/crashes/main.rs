//! Many crashes of the file system in the simulator: one machine for each seed, stopped at a random time with torn
//! and reordered writes, repaired by e2fsck, mounted again, everything that was synced compared, and the rest checked
//! for damage.
//!
//! ```text
//!   cargo run --release -p gyre-ext2 --example crashes -- [SEEDS] [FIRST SEED] [--json FILE] [--commit COMMIT]
//! ```
//!
//! Prints the seeds that lost something and why, and fails if there are some. With `--json`, it writes counts of
//! operations and comparisons there.

#[path = "../../tests/crash/mod.rs"]
#[allow(dead_code, unused_imports, reason = "its tests are not used here")]
mod crash;
mod sums;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::ops::Range;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use sums::Sums;

/// Seeds of one process: the memory that simulated machines leave behind goes with it.
const SEEDS_PER_PROCESS: u64 = 100;
/// Most workers at once, each below a directory of its own.
const WORKERS_MAX: usize = 3;
/// Seeds after which it is said how far it is.
const SEEDS_PER_LINE: u64 = 500;

/// The arguments of the command line.
struct Arguments {
    seeds: Range<u64>,
    json: Option<String>,
    commit: Option<String>,
    is_part: bool,
}

impl Arguments {
    fn read() -> Arguments {
        let (mut numbers, mut read) = (Vec::new(), Arguments { seeds: 0..0, json: None, commit: None, is_part: false });
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match &word[..] {
                "--json" => read.json = words.next(),
                "--commit" => read.commit = words.next(),
                "--part" => read.is_part = true,
                _ => numbers.push(word.parse().expect("SEEDS, FIRST SEED, --json FILE or --commit COMMIT")),
            }
        }
        let (count, first) = (numbers.first().unwrap_or(&10_000), numbers.get(1).unwrap_or(&0));
        read.seeds = *first..first + count;
        read
    }

    fn head(&self) -> String {
        let commit = self.commit.as_ref().map(|commit| format!("  \"commit\": \"{commit}\",\n")).unwrap_or_default();
        format!(
            "{commit}  \"seeds\": {},\n  \"first_seed\": {},\n",
            self.seeds.end - self.seeds.start,
            self.seeds.start
        )
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::read();
    if arguments.is_part {
        print!("{}", run(arguments.seeds).lines());
        return ExitCode::SUCCESS;
    }
    let started = Instant::now();
    let sums = run_in_parts(arguments.seeds.clone(), started);
    let crashes = sums.crashes();
    println!("{crashes} crashes, {} seeds with losses: {:?}", sums.losses.len(), sums.losses);
    if let Some(file) = &arguments.json {
        std::fs::write(file, sums.json(&arguments.head(), started.elapsed().as_secs_f64()))
            .expect("the file is written");
    }
    ExitCode::from(u8::from(!sums.losses.is_empty()))
}

fn run_in_parts(seeds: Range<u64>, started: Instant) -> Sums {
    let mut sums = Sums::default();
    for first in seeds.clone().step_by(SEEDS_PER_PROCESS as usize) {
        let part = first..seeds.end.min(first + SEEDS_PER_PROCESS);
        let done = part.end - seeds.start;
        add_part(part, &mut sums);
        if done % SEEDS_PER_LINE == 0 {
            let seconds = started.elapsed().as_secs_f64();
            eprintln!("{done} seeds, {} with losses, {seconds:.0} s", sums.losses.len());
        }
    }
    sums
}

/// Runs seeds in another process. A loss ends it: then each seed has its own.
fn add_part(seeds: Range<u64>, sums: &mut Sums) {
    let own = std::env::current_exe().expect("the program knows its path");
    let words = [(seeds.end - seeds.start).to_string(), seeds.start.to_string(), "--part".into()];
    let output = Command::new(own).args(words).stderr(Stdio::inherit()).output().expect("it runs again");
    if output.status.success() {
        sums.add_lines(&String::from_utf8_lossy(&output.stdout));
    } else if seeds.end - seeds.start == 1 {
        sums.losses.push(seeds.start);
    } else {
        seeds.for_each(|seed| add_part(seed..seed + 1, sums));
    }
}

fn run(seeds: Range<u64>) -> Sums {
    let images = crash::images(2 * 1024);
    let mut sums = Sums::default();
    for seed in seeds {
        let style = crash::STYLES[seed as usize / 2 % crash::STYLES.len()];
        let workers = 1 + seed as usize / 8 % WORKERS_MAX;
        sums.add(&crash::run(seed, &images[seed as usize % 2], 1, style, workers));
    }
    sums
}
