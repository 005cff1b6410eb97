//! Looks for damaged images on which calls end in ways that no image of the corpus shows (`tests/hostile/corpus`), and keeps the smallest.
//!
//! ```text
//!   cargo run --release -p gyre-ext2 --example fuzz -- [--for 60s] [--seed N]
//! ```
//! A panic or a walk without end stops the run with the image as text, which then belongs into the corpus, too.

#[path = "../tests/hostile/mod.rs"]
#[allow(dead_code, unused_imports, reason = "its tests are not used here")]
mod hostile;
#[path = "../tests/support/mod.rs"]
mod support;

use hostile::Fuzzer;
use std::time::{Duration, Instant};

/// Images of one process: the memory that they leave behind goes with it.
const IMAGES_PER_PROCESS: usize = 2000;

/// Returns the word behind an option on the command line.
fn option(name: &str) -> Option<String> {
    std::env::args().skip_while(|word| word != name).nth(1)
}

fn main() {
    let seconds = option("--for").and_then(|text| text.trim_end_matches('s').parse().ok()).unwrap_or(60);
    let seed: u64 = option("--seed").and_then(|text| text.parse().ok()).unwrap_or(1);
    let time = Duration::from_secs(seconds);
    if std::env::args().any(|word| word == "--part") {
        let mut fuzzer = Fuzzer::new(seed);
        let tried = fuzzer.grow(IMAGES_PER_PROCESS, time);
        println!("{tried} damaged images with seed {seed}, calls have ended in {} ways", fuzzer.ways());
        return;
    }
    let started = Instant::now();
    for seed in seed.. {
        let left = time.saturating_sub(started.elapsed()).as_secs();
        if left == 0 {
            break;
        }
        let own = std::env::current_exe().expect("the program knows its path");
        let words = ["--for".into(), left.to_string(), "--seed".into(), seed.to_string(), "--part".into()];
        let status = std::process::Command::new(own).args(words).status();
        assert!(status.is_ok_and(|status| status.success()), "seed {seed}");
    }
}
