//! Round robin: who has waited longest runs next.

use super::{FIBERS_MAX, FiberId, Scheduler};

/// The policy.
#[derive(Clone, Copy, Debug)]
pub struct RoundRobin {
    ring: [FiberId; FIBERS_MAX],
    first: usize,
    count: usize,
}

impl Default for RoundRobin {
    fn default() -> Self {
        Self { ring: [0; FIBERS_MAX], first: 0, count: 0 }
    }
}

impl Scheduler for RoundRobin {
    fn add(&mut self, fiber: FiberId) {
        self.ring[(self.first + self.count) % FIBERS_MAX] = fiber;
        self.count = (self.count + 1).min(FIBERS_MAX);
    }

    fn next(&mut self) -> Option<FiberId> {
        self.count = self.count.checked_sub(1)?;
        let fiber = self.ring[self.first];
        self.first = (self.first + 1) % FIBERS_MAX;
        Some(fiber)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fibers_run_in_the_order_in_which_they_came() {
        let mut fibers = RoundRobin::default();
        for round in 0..FIBERS_MAX {
            (0..3).for_each(|fiber| fibers.add(fiber + round));
            let order: Vec<_> = std::iter::from_fn(|| fibers.next()).collect();
            assert_eq!(order, [round, round + 1, round + 2]);
        }
    }
}
