//! A right to work at another activity's expense: a payer grants a service so many cycles, and what the service spends by it is the
//! payer's on the ledger.
//!
//! ```text
//!   payer grants --> Grant { left } --spend(used)--> so many of them are the payer's; the rest stays with whoever used them
//!                       ^ passed on: a grant of a service's own, which takes from both
//! ```
//! Invariants: nobody spends more than was granted, on however many cores; a chain has at most [`DEPTH_MAX`] grants; after
//! [`Grant::revoke`] nothing is taken any more. May be called: by anybody, never waits, allocates only when made.

use crate::ActivityId;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// Longest chain of grants, the first one included.
pub const DEPTH_MAX: usize = 4;

/// Cycles that a service has spent at a payer's expense, for the bill.
pub type Spent = Arc<AtomicU64>;

/// See the module.
// recursion: at most DEPTH_MAX, because a longer chain is refused where it is passed on
#[derive(Debug)]
pub struct Grant {
    payer: ActivityId,
    /// Cycles that may still be spent.
    left: AtomicU64,
    spent: Spent,
    /// The grant that this one was made from, if it was passed on.
    from: Option<Arc<Grant>>,
    depth: usize,
}

impl Grant {
    /// Grants so many cycles of an activity; `spent` is told what is spent.
    #[must_use]
    pub fn new(payer: ActivityId, cycles: u64, spent: Spent) -> Grant {
        Grant { payer, left: AtomicU64::new(cycles), spent, from: None, depth: 1 }
    }

    /// Grants so many cycles of what somebody else granted; `None` if that chain is as long as it may be.
    #[must_use]
    pub fn pass_on(from: &Arc<Grant>, cycles: u64, spent: Spent) -> Option<Grant> {
        (from.depth < DEPTH_MAX).then(|| Grant {
            payer: from.payer,
            left: AtomicU64::new(cycles),
            spent,
            from: Some(from.clone()),
            depth: from.depth.saturating_add(1),
        })
    }

    /// Returns who pays.
    pub fn payer(&self) -> ActivityId {
        self.payer
    }

    /// Returns the cycles that may still be spent: the least of the chain.
    pub fn left(&self) -> u64 {
        self.chain().map(|grant| grant.left.load(Ordering::Relaxed)).min().unwrap_or(0)
    }

    /// Takes up to `cycles`, each grant of the chain those that the one behind it has; answers how many are the payer's.
    pub fn spend(&self, cycles: u64) -> u64 {
        let taken = self.chain().fold(cycles, |wanted, grant| grant.take_own(wanted));
        if taken > 0 {
            self.spent.fetch_add(taken, Ordering::Relaxed);
        }
        taken
    }

    /// Takes the grant back; answers what was left.
    pub fn revoke(&self) -> u64 {
        self.left.swap(0, Ordering::Relaxed)
    }

    fn take_own(&self, wanted: u64) -> u64 {
        let left =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(wanted)));
        left.unwrap_or(0).min(wanted)
    }

    /// This grant and those it was made from, at most [`DEPTH_MAX`].
    fn chain(&self) -> impl Iterator<Item = &Grant> {
        core::iter::successors(Some(self), |grant| grant.from.as_deref()).take(DEPTH_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYER: ActivityId = ActivityId(7);

    #[test]
    fn no_more_is_spent_than_was_granted() {
        let spent = Spent::default();
        let grant = Grant::new(PAYER, 100, spent.clone());
        assert_eq!([30, 60, 50, 1].map(|used| grant.spend(used)), [30, 60, 10, 0]);
        assert_eq!((grant.left(), spent.load(Ordering::Relaxed)), (0, 100));
    }

    #[test]
    fn many_cores_together_spend_no_more() {
        let spent = Spent::default();
        let grant = Grant::new(PAYER, 10_000, spent.clone());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| _ = grant.spend(7)));
            }
        });
        assert_eq!((grant.left(), spent.load(Ordering::Relaxed)), (0, 10_000));
    }

    #[test]
    fn a_grant_that_is_passed_on_takes_from_both_and_is_bounded_by_both() {
        let spent = [(); 2].map(|()| Spent::default());
        let first = Arc::new(Grant::new(PAYER, 100, spent[0].clone()));
        let second = Grant::pass_on(&first, 1000, spent[1].clone()).unwrap();
        assert_eq!((second.payer(), second.left(), second.spend(40), first.left()), (PAYER, 100, 40, 60));
        assert_eq!((second.spend(500), first.spend(1)), (60, 0));
        assert_eq!(spent.map(|spent| spent.load(Ordering::Relaxed)), [0, 100]);
    }

    #[test]
    fn a_chain_is_bounded() {
        let mut last = Arc::new(Grant::new(PAYER, 1, Spent::default()));
        for _ in 1..DEPTH_MAX {
            last = Arc::new(Grant::pass_on(&last, 1, Spent::default()).unwrap());
        }
        assert!(Grant::pass_on(&last, 1, Spent::default()).is_none());
    }

    #[test]
    fn who_revokes_the_first_ends_the_chain() {
        let first = Arc::new(Grant::new(PAYER, 100, Spent::default()));
        let second = Grant::pass_on(&first, 50, Spent::default()).unwrap();
        assert_eq!((first.revoke(), second.spend(10), second.left()), (100, 0, 0));
    }
}
