//! A fuzzer within `cargo test`: [`run`] replays a corpus, then changes its inputs at random for some seconds.
//!
//! Built as it is, it changes inputs blindly. Built with counters at the edges of the code, an input that reaches a new edge is kept and
//! changed again. Both work on stable Rust; with counters, in a target folder of its own:
//!
//! ```sh
//! RUSTFLAGS="-C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=3 -C llvm-args=-sanitizer-coverage-inline-8bit-counters" \
//!     FUZZ_SECONDS=600 FUZZ_KEEP=1 cargo test --target x86_64-unknown-linux-gnu --target-dir target/fuzz -p gyre-linux random
//! ```
//!
//! `FUZZ_SECONDS` is how long inputs are changed (2), `FUZZ_SEED` the first number of the generator (1), `FUZZ_KEEP=1` writes inputs that reached new
//! code into the corpus.
#![deny(unsafe_op_in_unsafe_fn)]

mod change;
mod edges;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use edges::Edges;
use fastrand::Rng;

/// No input may take longer.
const HANG: Duration = Duration::from_secs(20);

/// Replays an input that is good and the corpus in a folder, then changes inputs for `FUZZ_SECONDS`. `one` panics if an input shows a fault.
///
/// # Panics
/// When an input made `one` panic: says to which file that input was written. An input that does not come to its end ends the process.
pub fn run(target: &str, corpus: &Path, first: &[u8], one: impl Fn(&[u8])) {
    let number = |name: &str, other: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other);
    let (seconds, seed) = (number("FUZZ_SECONDS", 2), number("FUZZ_SEED", 1));
    let watch = Watch::start(target);
    let mut edges = Edges::of_this_program();
    let mut inputs = read(corpus);
    inputs.push(first.to_vec());
    let replayed = inputs.len();
    for input in &inputs {
        tried(target, &watch, input, &one);
        edges.take_new();
    }
    let (mut random, started, mut tries) = (Rng::with_seed(seed), Instant::now(), 0u64);
    while started.elapsed() < Duration::from_secs(seconds) {
        let input = change::changed(&inputs, &mut random);
        tried(target, &watch, &input, &one);
        tries += 1;
        if edges.take_new() > 0 {
            keep(corpus, &input);
            inputs.push(input);
        }
    }
    watch.end();
    println!(
        "{target}: {replayed} inputs that were there, {tries} changed ones, {} kept, {} edges",
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

/// The input that is tried now, and the time since which it is tried.
type Tried = Option<(Instant, Vec<u8>)>;

/// A thread that ends the process when an input does not come to its end.
struct Watch {
    now: Arc<Mutex<Tried>>,
    over: Arc<AtomicBool>,
}

impl Watch {
    fn start(target: &str) -> Self {
        let watch = Self { now: Arc::default(), over: Arc::default() };
        let (now, over, target) = (watch.now.clone(), watch.over.clone(), target.to_owned());
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(200));
                let late =
                    now.lock().ok().and_then(|now| now.as_ref().filter(|(since, _)| since.elapsed() > HANG).cloned());
                if let Some((_, input)) = late.filter(|_| !over.load(Ordering::Relaxed)) {
                    println!("{target}: an input without end: {}", write_failure(&target, &input));
                    std::process::exit(101);
                }
            }
        });
        watch
    }

    fn begin(&self, input: &[u8]) {
        self.now.lock().iter_mut().for_each(|now| **now = Some((Instant::now(), input.to_vec())));
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
            run("mutate-itself", Path::new("/nonexistent"), &[0; 8], |input| assert!(!input.contains(&0xff)))
        });
        assert!(found.is_err());
    }
}
