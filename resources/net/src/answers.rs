//! How long a tenant's servers take to answer: for each connection that came from outside, from the last segment of a request to the first
//! byte of its answer.
//!
//! Each core counts in lines of its own, without a lock: a segment with data costs a store in its connection's line, an answer one clock
//! and two stores. Totals since the start; readers take differences.
//!
//! A request that waits in the tenant's queues counts from the moment when the card's reader found its owner.

use crate::alarm::NEVER;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::array;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_contract::goals::{self, BUCKETS, bucket_of};
use gyre_machine::core_index;

/// Cores that count apart; a core beyond them shares the last place.
const PLACES: usize = gyre_contract::bounds::CORES_MAX as usize;

/// One core's counters.
#[repr(align(64))]
struct Counts {
    sum_ns: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// See the module.
pub(crate) struct Answers(Box<[Counts]>);

impl Default for Answers {
    fn default() -> Answers {
        let counts = |_| Counts { sum_ns: AtomicU64::new(0), buckets: array::from_fn(|_| AtomicU64::new(0)) };
        Answers((0..PLACES).map(counts).collect())
    }
}

impl Answers {
    fn count(&self, took_ns: u64) {
        let Some(here) = self.0.get(core_index().min(PLACES.saturating_sub(1))) else {
            return;
        };
        // Only this core writes here, and nothing interrupts it: a load and a store are an addition.
        let add = |counter: &AtomicU64, amount| {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        };
        add(&here.sum_ns, took_ns);
        if let Some(bucket) = here.buckets.get(bucket_of(took_ns)) {
            add(bucket, 1);
        }
    }

    /// Returns the totals of all cores.
    pub(crate) fn totals(&self) -> goals::Answers {
        let sum =
            |counter: &dyn Fn(&Counts) -> u64| self.0.iter().fold(0u64, |sum, one| sum.wrapping_add(counter(one)));
        let bucket = |at: usize| sum(&|one| one.buckets.get(at).map_or(0, |count| count.load(Ordering::Relaxed)));
        let buckets: Vec<u64> = (0..BUCKETS).map(bucket).collect();
        goals::Answers { sum_ns: sum(&|one| one.sum_ns.load(Ordering::Relaxed)), buckets }
    }
}

/// A connection's question that waits for an answer.
pub(crate) struct Question {
    answers: &'static Answers,
    /// When its last segment came; [`NEVER`] while none waits.
    asked_ns: AtomicU64,
}

impl Question {
    pub(crate) fn new(answers: &'static Answers) -> Question {
        Question { answers, asked_ns: AtomicU64::new(NEVER) }
    }

    /// Data came.
    pub(crate) fn on_segment(&self, came_ns: u64) {
        self.asked_ns.store(came_ns, Ordering::Relaxed);
    }

    /// The user sends: only the first time after a question counts.
    pub(crate) fn on_answer(&self, now_ns: impl FnOnce() -> u64) {
        let asked_ns = self.asked_ns.load(Ordering::Relaxed);
        if asked_ns != NEVER {
            self.asked_ns.store(NEVER, Ordering::Relaxed);
            self.answers.count(now_ns().saturating_sub(asked_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_once_from_the_last_segment_of_its_question() {
        let answers: &'static Answers = Box::leak(Box::default());
        let question = Question::new(answers);
        question.on_answer(|| unreachable!("nobody has asked"));
        question.on_segment(1_000_000);
        question.on_segment(3_000_000);
        question.on_answer(|| 5_000_000);
        question.on_answer(|| unreachable!("it is answered"));
        let totals = answers.totals();
        assert_eq!((totals.count(), totals.sum_ns), (1, 2_000_000));
        assert_eq!(totals.buckets.get(bucket_of(2_000_000)), Some(&1));
    }
}
