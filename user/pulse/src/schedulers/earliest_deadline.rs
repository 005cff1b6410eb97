//! The thread that must be done first runs, also by the deadlines of those who wait for its mutexes.

use crate::{Held, Scheduler, Spin, THREADS_MAX, Vcore};

/// The policy. Threads without a deadline run last, each in turn.
pub struct EarliestDeadline {
    /// In the order in which they came: the first of equals runs.
    waiting: Spin<Vec<Held>>,
}

impl EarliestDeadline {
    /// An empty one, which lives as long as the program.
    pub fn leaked() -> &'static EarliestDeadline {
        Box::leak(Box::new(EarliestDeadline { waiting: Spin::new(Vec::with_capacity(THREADS_MAX)) }))
    }
}

/// Deadlines may be inherited while a thread waits, so they are looked at when one is chosen.
fn first(waiting: &mut Vec<Held>) -> Option<Held> {
    let at = (0..waiting.len()).min_by_key(|&at| waiting[at].deadline_ns())?;
    Some(waiting.remove(at))
}

impl Scheduler for EarliestDeadline {
    fn ready(&self, _core: Vcore, held: Held) {
        self.waiting.with(|waiting| waiting.push(held));
    }

    fn enter(&self, _core: Vcore) -> Option<Held> {
        self.waiting.with(first)
    }

    fn tick(&self, _core: Vcore, running: Held) -> Option<Held> {
        self.waiting.with(|waiting| {
            waiting.push(running);
            first(waiting)
        })
    }

    fn yielded(&self, core: Vcore, running: Held) -> Option<Held> {
        self.tick(core, running)
    }
}
