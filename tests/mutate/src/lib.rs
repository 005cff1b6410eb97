//! A fuzzer within `cargo test`: [`run`] replays a corpus, then changes its inputs at random, so and so often.
//!
//! Built as it is, it changes inputs blindly. Built with counters at the edges of the code, an input that reaches a new edge is kept and
//! changed again. Both work on stable Rust; with counters, in a target folder of its own:
//!
//! ```sh
//! RUSTFLAGS="-C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=3 -C llvm-args=-sanitizer-coverage-inline-8bit-counters" \
//!     FUZZ_SECONDS=600 FUZZ_KEEP=1 cargo test --target x86_64-unknown-linux-gnu --target-dir target/fuzz -p gyre-linux random
//! ```
//!
//! With `FUZZ_SECONDS` set, inputs are changed for so long, else as often as the test says, so that a slow host tries what a fast one does.
//! `FUZZ_SEED` is the first number of the generator (1), `FUZZ_KEEP=1` writes inputs that reached new code into the corpus.
//! `FUZZ_LESS=8` removes inputs from the corpus that reach fewer than 8 edges which longer ones do not; it needs counters. Code of a
//! debug build is slow: a search finds more with `-C opt-level=2` among the flags.
#![deny(unsafe_op_in_unsafe_fn)]

mod change;
mod computed;
mod edges;
mod input;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

pub use computed::Computed;
use edges::Edges;
use fastrand::Rng;
pub use input::Input;

/// No input may compute for longer.
const HANG: Duration = Duration::from_secs(20);
/// No input may wait for longer without computing.
const STANDSTILL: Duration = Duration::from_secs(1200);

/// Replays an input that is good and the corpus in a folder, then changes inputs `tries` times, or for `FUZZ_SECONDS`. `one` panics if an input
/// shows a fault.
///
/// # Panics
/// When an input made `one` panic: says to which file that input was written. An input that does not come to its end ends the process.
pub fn run(target: &str, corpus: &Path, first: &[u8], tries: u64, one: impl Fn(&[u8])) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (seconds, seed) = (number("FUZZ_SECONDS").map(Duration::from_secs), number("FUZZ_SEED").unwrap_or(1));
    let watch = Watch::start(target);
    let mut edges = Edges::of_this_program();
    let mut inputs = read(corpus);
    // The longest ones reach most: few of them are a corpus.
    inputs.sort_by_key(|input| std::cmp::Reverse(input.len()));
    inputs.insert(0, first.to_vec());
    let replayed = inputs.len();
    for input in &inputs {
        let known = edges.seen();
        tried(target, &watch, input, &one);
        edges.take_new();
        if number("FUZZ_LESS").is_some_and(|least| ((edges.seen() - known) as u64) < least) {
            let _ = std::fs::remove_file(corpus.join(name_of(input)));
        }
    }
    let (mut random, started, mut tried_so_far) = (Rng::with_seed(seed), Instant::now(), 0u64);
    while seconds.map_or(tried_so_far < tries, |seconds| started.elapsed() < seconds) {
        let input = change::changed(&inputs, &mut random);
        tried(target, &watch, &input, &one);
        tried_so_far += 1;
        if edges.take_new() > 0 {
            keep(corpus, &input);
            inputs.push(input);
        }
    }
    watch.end();
    println!(
        "{target}: {replayed} inputs that were there, {tried_so_far} changed ones in {} ms, {} kept, {} edges",
        started.elapsed().as_millis(),
        inputs.len() - replayed,
        edges.seen()
    );
}

fn tried(target: &str, watch: &Watch, input: &[u8], one: &impl Fn(&[u8])) {
    watch.begin(input);
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| one(input))) {
        println!("{target}: an input that fails: {}", write_failure(target, input));
        std::panic::resume_unwind(panic);
    }
}

fn read(corpus: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> =
        std::fs::read_dir(corpus).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

/// Returns a name by contents (FNV-1a).
fn name_of(input: &[u8]) -> String {
    let hash = input
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}")
}

fn keep(corpus: &Path, input: &[u8]) {
    if std::env::var_os("FUZZ_KEEP").is_some() {
        let _ = std::fs::create_dir_all(corpus).and_then(|()| std::fs::write(corpus.join(name_of(input)), input));
    }
}

fn write_failure(target: &str, input: &[u8]) -> String {
    let path = std::env::temp_dir().join(format!("{target}-{}", name_of(input)));
    match std::fs::write(&path, input) {
        Ok(()) => path.display().to_string(),
        Err(error) => format!("{input:02x?} ({error})"),
    }
}

/// The input that is tried now, and how many were before.
type Tried = (u64, Vec<u8>);

/// A thread that ends the process when an input does not come to its end.
struct Watch {
    now: Arc<Mutex<Tried>>,
    over: Arc<AtomicBool>,
}

impl Watch {
    fn start(target: &str) -> Self {
        let watch = Self { now: Arc::default(), over: Arc::default() };
        let (now, over, target) = (watch.now.clone(), watch.over.clone(), target.to_owned());
        let computed = Computed::by_this_thread();
        std::thread::spawn(move || {
            let look = || (now.lock().map_or(0, |now| now.0), computed.so_far(), Instant::now());
            let mut first = look();
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(200));
                let last = look();
                if last.0 != first.0 {
                    first = last;
                } else if last.1.saturating_sub(first.1) > HANG || last.2 - first.2 > STANDSTILL {
                    let input = now.lock().map_or_else(|_| vec![], |now| now.1.clone());
                    println!("{target}: an input without end: {}", write_failure(&target, &input));
                    std::process::exit(101);
                }
            }
        });
        watch
    }

    fn begin(&self, input: &[u8]) {
        self.now.lock().iter_mut().for_each(|now| {
            now.0 += 1;
            now.1.clear();
            now.1.extend_from_slice(input);
        });
    }

    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_behind_a_byte_is_found_and_told() {
        let found = catch_unwind(|| {
            run("mutate-itself", Path::new("/nonexistent"), &[0; 8], 100_000, |input| assert!(!input.contains(&0xff)))
        });
        assert!(found.is_err());
    }
}
