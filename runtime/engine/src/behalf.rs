//! Work at another activity's expense ([`Grant`]): the cycles of a service's thread go to the payer's row of the ledger.
//!
//! The thread keeps its place in the schedule: its turns are charged to its own queue, else a service's locks would be held by whoever
//! pays least. Its memory and the requests that it makes stay its own, too. A grant that ends in the middle of a stay is split there, to the cycle.
//!
//! Protocol of use: `compute::run_for` pays for the program; for the kernel's work in the calls of a thread take a [`Engine::mark`]
//! where its poll begins or its payer changes, and [`Engine::settle_grant`] where that ends. All in the thread's own poll.

use crate::engine::{COMPUTE, Engine};
use gyre_account::{Column, Grant, current};

/// The cycles in the row of the current activity and resource at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark(pub u64);

impl Engine {
    /// Gives the program's time since the last stamp up to `now` to whoever granted it.
    #[inline]
    pub(crate) fn divert(&self, grant: Option<&Grant>, now: u64) {
        if let Some(grant) = grant {
            self.divert_to(grant, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn divert_to(&self, grant: &Grant, now: u64) {
        if !self.accounts.activities.exists(grant.payer()) {
            grant.revoke();
            return;
        }
        let line = self.line();
        let paid = grant.spend(now.saturating_sub(line.last()));
        line.divert(grant.payer(), COMPUTE, paid);
    }

    /// Notes how much the activity and resource that work here have used.
    pub fn mark(&self) -> Mark {
        let (activity, resource) = current();
        let line = self.line();
        line.restamp();
        Mark(line.table().cell(activity, resource).get(Column::Cycles))
    }

    /// Gives what they have used since a mark to whoever granted it, and answers a new mark.
    pub fn settle_grant(&self, mark: Mark, grant: &Grant) -> Mark {
        let now = self.mark();
        if !self.accounts.activities.exists(grant.payer()) {
            grant.revoke();
            return now;
        }
        let (activity, resource) = current();
        let paid = grant.spend(now.0.saturating_sub(mark.0));
        self.line().transfer(activity, grant.payer(), resource, paid);
        Mark(now.0.wrapping_sub(paid))
    }
}
