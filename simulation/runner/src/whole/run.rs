//! A seed: a life, and after a crash another one with what is left on the disk.

use crate::arguments::Cores;
use crate::reached::Reached;
use crate::whole::image;
use crate::whole::life::{End, live};
use crate::whole::plan::Plan;
use gyre_engine::simulate::Moves;

/// The outcome of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Depends on every turn of every life.
    pub trace: u64,
    /// Turns.
    pub steps: u64,
    /// Things done with files.
    pub done: u64,
    /// Exchanges over TCP with all their bytes.
    pub whole: u64,
    /// Exchanges that ended with an error.
    pub broken: u64,
    /// The machine stopped in the middle.
    pub has_crashed: bool,
    /// Cores that left and came back.
    pub moves: Moves,
    /// Resources that worked for tenants, and those whose work failed.
    pub reached: Reached,
}

/// Returns the plan of a seed, for people.
pub fn describe(seed: u64) -> String {
    format!("{:?}", Plan::new(seed).with_failure())
}

/// Runs a seed.
///
/// # Panics
/// If an invariant does not hold; the message says which.
pub fn run(seed: u64, cores: Cores) -> Outcome {
    let plan = Plan::new(seed).with(cores).with_failure();
    let image = image::disk(plan.tenants.iter().map(|tenant| tenant.block_bytes));
    let first = live(plan.clone(), image, Vec::new());
    let mut image = first.image.clone();
    let is_hurt = |index| first.has_crashed || first.has_failed || first.failed_tenant == Some(index);
    check_disk(&mut image, &plan, is_hurt);
    let mut outcome = Outcome::of(&first);
    if first.has_crashed {
        let memory = first.memory;
        let again = plan.after_crash();
        let handle = std::thread::spawn(move || live(again, image, memory));
        let second = handle.join().expect("the life after the crash holds");
        let mut image = second.image.clone();
        check_disk(&mut image, &plan, |_| false);
        outcome.add(&Outcome::of(&second));
    }
    outcome
}

/// Checks the file systems of a disk, and repairs those of tenants that may be broken.
///
/// # Panics
/// If one is broken that may not be.
pub fn check_disk(image: &mut [u8], plan: &Plan, may_repair: impl Fn(usize) -> bool) {
    for index in 0..plan.tenants.len() {
        let checked = image::check(image, index, may_repair(index));
        assert!(checked.is_ok(), "file system of tenant {index}: {}", checked.unwrap_err());
    }
}

impl Outcome {
    fn of(end: &End) -> Outcome {
        Outcome {
            trace: end.trace,
            steps: end.steps,
            done: end.done,
            whole: end.ends.whole,
            broken: end.ends.broken,
            has_crashed: end.has_crashed,
            moves: end.moves,
            reached: end.reached.clone(),
        }
    }

    fn add(&mut self, other: &Outcome) {
        self.trace = self.trace.rotate_left(1) ^ other.trace;
        self.steps += other.steps;
        self.done += other.done;
        self.whole += other.whole;
        self.broken += other.broken;
        self.reached.add(&other.reached);
        self.moves.left += other.moves.left;
        self.moves.busy += other.moves.busy;
        self.moves.joined += other.moves.joined;
    }
}
