//! Each virtual core runs its own threads, the newest first; one without any takes the oldest of another.

use std::collections::VecDeque;

use crate::{Held, Scheduler, Spin, THREADS_MAX, Vcore};

/// The policy.
pub struct WorkStealing {
    deques: Vec<Spin<VecDeque<Held>>>,
}

impl WorkStealing {
    /// An empty one for so many virtual cores, which lives as long as the program.
    pub fn leaked(cores: usize) -> &'static WorkStealing {
        let deques = (0..cores.max(1)).map(|_| Spin::new(VecDeque::with_capacity(THREADS_MAX))).collect();
        Box::leak(Box::new(WorkStealing { deques }))
    }

    fn own(&self, core: Vcore) -> &Spin<VecDeque<Held>> {
        &self.deques[core.0 % self.deques.len()]
    }

    fn steal(&self, core: Vcore) -> Option<Held> {
        let count = self.deques.len();
        (1..count).find_map(|step| self.deques[(core.0 + step) % count].with(VecDeque::pop_front))
    }
}

impl Scheduler for WorkStealing {
    fn ready(&self, core: Vcore, held: Held) {
        self.own(core).with(|deque| deque.push_back(held));
    }

    fn enter(&self, core: Vcore) -> Option<Held> {
        self.own(core).with(VecDeque::pop_back).or_else(|| self.steal(core))
    }

    fn tick(&self, core: Vcore, running: Held) -> Option<Held> {
        // The one that ran becomes the oldest: others that share the core have their turn.
        let next = self.own(core).with(VecDeque::pop_back);
        match next {
            None => Some(running),
            Some(next) => {
                self.own(core).with(|deque| deque.push_front(running));
                Some(next)
            }
        }
    }

    fn yielded(&self, core: Vcore, running: Held) -> Option<Held> {
        self.tick(core, running)
    }
}
