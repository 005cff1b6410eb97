//! The bound of a suite: one that works on and on without a new line of output hangs, and is ended with everything that it has started.
//!
//! * It counts processor time of its process tree, so that a host that is busy or pauses ends nothing.
//! * A tree that waits for ever takes none. For it there is a second bound, by the clock; of a pause of the host it counts one step.
//! * While a compiler runs in the tree nothing counts: it says nothing until it is done, and its time becomes that of its parents then.

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::processes;

/// Time between two looks at a tree, and the most that one of them counts.
const LOOK: Duration = Duration::from_secs(2);
const STEP_MAX: Duration = Duration::from_secs(5);
/// Time that a suite has to end in order.
const GRACE: Duration = Duration::from_secs(30);
const COMPILERS: &[&str] = &["cargo", "rustc", "rust-lld"];

/// How long a suite may say nothing.
#[derive(Clone, Copy)]
pub struct Bound {
    /// Processor time of its tree.
    processor: Duration,
    /// Time that passed.
    clock: Duration,
}

impl Bound {
    /// That of a usual run.
    pub const USUAL: Self = Self { processor: Duration::from_secs(900), clock: Duration::from_secs(1800) };
    /// That of a search: a single property test or mutator takes a while.
    pub const SEARCH: Self = Self { processor: Duration::from_secs(3 * 3600), clock: Duration::from_secs(6 * 3600) };
}

/// Everything that a look at a tree sees.
#[derive(Clone, Copy)]
struct Look {
    /// Lines that it has written so far.
    lines: u64,
    /// Processor time of its processes so far.
    time: Duration,
    /// Time since the last look.
    step: Duration,
    /// Whether a compiler is at work.
    compiles: bool,
}

/// Adds up a tree's silence.
struct Silence {
    bound: Bound,
    cores: u32,
    last: Look,
    processor: Duration,
    clock: Duration,
}

impl Silence {
    fn new(bound: Bound, cores: u32) -> Self {
        let last = Look { lines: 0, time: Duration::ZERO, step: Duration::ZERO, compiles: false };
        Self { bound, cores, last, processor: Duration::ZERO, clock: Duration::ZERO }
    }

    /// Looks once more; answers words if a bound is reached.
    fn look(&mut self, look: Look) -> Option<String> {
        let last = std::mem::replace(&mut self.last, look);
        if look.lines != last.lines || look.compiles {
            (self.processor, self.clock) = (Duration::ZERO, Duration::ZERO);
            return None;
        }
        let step = look.step.min(STEP_MAX);
        // No tree takes more than all cores give: what is above that is time of children that others have counted.
        self.processor += look.time.saturating_sub(last.time).min(step * self.cores);
        self.clock += step;
        let (processor, clock) = (self.processor.as_secs(), self.clock.as_secs());
        let is_over = self.processor >= self.bound.processor || self.clock >= self.bound.clock;
        is_over.then(|| {
            format!("it hangs: no new line in {processor} s of processor time, {clock} s by the clock; it was ended")
        })
    }
}

/// Watches a process until somebody says that it is over, or drops the other end. A process that hangs is ended, and so is everything that
/// it has started; the answer says so.
pub fn watch(root: u32, bound: Bound, lines: &AtomicU64, is_over: &Receiver<()>) -> Option<String> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get().try_into().unwrap_or(1));
    let (mut silence, mut before) = (Silence::new(bound, cores), Instant::now());
    while is_over.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let all = processes::all();
        let tree = processes::tree(&all, root);
        let now = Instant::now();
        let look = Look {
            lines: lines.load(Ordering::Relaxed),
            time: tree.iter().map(|process| process.time()).sum(),
            step: now - std::mem::replace(&mut before, now),
            compiles: tree.iter().any(|process| COMPILERS.contains(&process.name.as_str())),
        };
        if let Some(words) = silence.look(look) {
            end(root, is_over);
            return Some(words);
        }
    }
    None
}

/// Ends a tree: in order, or by force after a while.
fn end(root: u32, is_over: &Receiver<()>) {
    let first: Vec<u32> = signal(root, Signal::SIGTERM);
    // Those that were children of what has ended are in the tree no more.
    if is_over.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
        signal(root, Signal::SIGKILL);
        first.into_iter().for_each(|id| send(id, Signal::SIGKILL));
    }
}

fn signal(root: u32, signal: Signal) -> Vec<u32> {
    let all = processes::all();
    let ids: Vec<u32> = processes::tree(&all, root).iter().map(|process| process.id).collect();
    ids.iter().for_each(|id| send(*id, signal));
    ids
}

fn send(id: u32, signal: Signal) {
    if let Ok(id) = id.try_into() {
        let _ = kill(Pid::from_raw(id), signal);
    }
}

#[cfg(test)]
mod tests {
    use std::{process::Command, sync::mpsc};

    use super::*;

    const STEP: Duration = Duration::from_secs(2);

    fn looks(step: Duration, share: u32, look: impl Fn(Look) -> Look) -> u32 {
        let mut silence = Silence::new(Bound::USUAL, 2);
        (1..2000)
            .find(|count| {
                let usual = Look { lines: 1, time: step * share * *count, step, compiles: false };
                silence.look(look(usual)).is_some()
            })
            .unwrap_or(0)
    }

    #[test]
    fn work_without_a_line_hangs_after_its_processor_time_and_waiting_after_a_longer_one() {
        let all = (Bound::USUAL.processor.as_secs() / STEP.as_secs()) as u32;
        assert_eq!(looks(STEP, 1, |look| look), all + 1, "the first look saw a line");
        assert_eq!(looks(STEP, 2, |look| look), all / 2 + 1, "two cores");
        assert_eq!(looks(STEP, 9, |look| look), all / 2 + 1, "no more than two cores give");
        assert_eq!(looks(STEP, 0, |look| look), 901, "it waits for ever");
    }

    #[test]
    fn lines_compilers_and_pauses_of_the_host_are_no_hang() {
        assert_eq!(looks(STEP, 1, |look| Look { lines: look.time.as_secs() / 200, ..look }), 0, "a line at times");
        assert_eq!(looks(STEP, 2, |look| Look { compiles: true, ..look }), 0, "a compiler");
        let mut silence = Silence::new(Bound::USUAL, 2);
        let pause = Look { lines: 0, time: Duration::ZERO, step: Duration::from_secs(7200), compiles: false };
        assert!((0..100).all(|_| silence.look(pause).is_none()), "the host was away");
    }

    #[test]
    fn a_process_that_hangs_is_ended_with_its_children() {
        let mut child = Command::new("sh").args(["-c", "sleep 100 & wait"]).spawn().unwrap();
        let bound = Bound { processor: Duration::from_secs(1), clock: Duration::from_secs(1) };
        let (over, is_over) = mpsc::channel();
        let id = child.id();
        let watcher = std::thread::spawn(move || watch(id, bound, &AtomicU64::new(0), &is_over));
        let status = child.wait().unwrap();
        drop(over);
        assert!(!status.success() && watcher.join().unwrap().unwrap().contains("it hangs"));
    }
}
