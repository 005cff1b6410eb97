//! Newest: who became ready last runs next, as its memory is still in the caches; who gives way runs last.

use super::{FIBERS_MAX, FiberId, Scheduler};

/// The policy.
#[derive(Clone, Copy, Debug)]
pub struct Newest {
    stack: [FiberId; FIBERS_MAX],
    count: usize,
}

impl Default for Newest {
    fn default() -> Self {
        Self { stack: [0; FIBERS_MAX], count: 0 }
    }
}

impl Scheduler for Newest {
    fn add(&mut self, fiber: FiberId) {
        if let Some(place) = self.stack.get_mut(self.count) {
            *place = fiber;
            self.count += 1;
        }
    }

    fn give_way(&mut self, fiber: FiberId) {
        if self.count < FIBERS_MAX {
            self.stack.copy_within(..self.count, 1);
            self.stack[0] = fiber;
            self.count += 1;
        }
    }

    fn next(&mut self) -> Option<FiberId> {
        self.count = self.count.checked_sub(1)?;
        self.stack.get(self.count).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_runs_first_and_who_gives_way_last() {
        let mut fibers = Newest::default();
        (0..3).for_each(|fiber| fibers.add(fiber));
        fibers.give_way(9);
        let order: Vec<_> = std::iter::from_fn(|| fibers.next()).collect();
        assert_eq!(order, [2, 1, 0, 9]);
    }
}
