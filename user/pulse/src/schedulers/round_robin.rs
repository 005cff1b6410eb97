//! Each thread in turn, a tick long; one queue for all virtual cores.

use std::collections::VecDeque;

use crate::{Held, Scheduler, Spin, THREADS_MAX, Vcore};

/// The policy.
pub struct RoundRobin {
    queue: Spin<VecDeque<Held>>,
}

impl RoundRobin {
    /// An empty one, which lives as long as the program.
    pub fn leaked() -> &'static RoundRobin {
        Box::leak(Box::new(RoundRobin { queue: Spin::new(VecDeque::with_capacity(THREADS_MAX)) }))
    }
}

impl Scheduler for RoundRobin {
    fn ready(&self, _core: Vcore, held: Held) {
        self.queue.with(|queue| queue.push_back(held));
    }

    fn enter(&self, _core: Vcore) -> Option<Held> {
        self.queue.with(VecDeque::pop_front)
    }

    fn tick(&self, _core: Vcore, running: Held) -> Option<Held> {
        self.queue.with(|queue| {
            queue.push_back(running);
            queue.pop_front()
        })
    }

    fn yielded(&self, core: Vcore, running: Held) -> Option<Held> {
        self.tick(core, running)
    }
}
