//! Round robin: ready clients take turns in the order of their numbers, at any cost of a turn.
//!
//! **Bound**: between two turns of a ready client every other client is served at most once.
//! **Starvation**: none, by the bound. **Work conserving**: yes.
//! The cheapest policy; for queues of one activity, if turns are about equal or shares do not matter.
use crate::bitmap::Bitmap;
use crate::inline::Allowance;
use crate::list::Listed;
use crate::order::{Flat, Order};
use crate::policy::{ClientIndex, ClientParams, Grace, Metric, Policy, PolicyError, Readiness};

/// The policy on the list.
pub const LISTED: Listed = Listed {
    name: "round-robin",
    short: &["rr"],
    about: "each in turn, whatever a turn costs",
    promise: "every other client once between two turns",
    starves: "nobody",
    rests: "no",
    source: "-",
    parameters: &[],
    keeps: &[],
    divide: None,
    build: |setup| Box::new(policy(Params { metric: setup.metric, ..Params::default() })),
};
use alloc::boxed::Box;

/// Parameters of round robin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Params {
    /// The metric of `slack`.
    pub metric: Metric,
    /// Amount that may be served inline between two choices while others wait.
    pub slack: u64,
}

/// Makes the policy.
pub fn policy(params: Params) -> impl Policy {
    Flat::new(LISTED.name, params.metric, move |_| RoundRobin::new(params))
}

/// The order of one core.
#[derive(Debug)]
pub struct RoundRobin {
    ready: Bitmap,
    /// The client after the one served last.
    next: ClientIndex,
    inline: Allowance,
}

impl RoundRobin {
    /// Makes an order without clients.
    pub fn new(params: Params) -> Self {
        RoundRobin { ready: Bitmap::default(), next: 0, inline: Allowance::new(params.slack) }
    }
}

impl Order for RoundRobin {
    fn add(&mut self, client: ClientIndex, _: &ClientParams, _: u64) -> Result<(), PolicyError> {
        self.ready.reserve(client)
    }

    fn update(&mut self, _: ClientIndex, _: &ClientParams, _: u64) -> Result<(), PolicyError> {
        Ok(())
    }

    fn remove(&mut self, _: ClientIndex, _: u64) {}

    #[inline]
    fn enter(&mut self, client: ClientIndex, _: u64) {
        self.ready.insert(client);
    }

    fn leave(&mut self, client: ClientIndex, _: u64) {
        self.ready.remove(client);
    }

    #[inline]
    fn take(&mut self, _: u64) -> Option<ClientIndex> {
        self.inline.renew();
        let client = self.ready.next(self.next).or_else(|| self.ready.next(0))?;
        self.ready.remove(client);
        self.next = client + 1;
        Some(client)
    }

    #[inline]
    fn charge(&mut self, _: ClientIndex, amount: u64, _: u64) {
        self.inline.spend(amount);
    }

    #[inline]
    fn readiness(&self, _: u64) -> Readiness {
        if self.ready.is_empty() { Readiness::Never } else { Readiness::Now }
    }

    fn entitled(&self, _: ClientIndex, _: u64) -> bool {
        self.ready.is_empty() || self.inline.is_left()
    }

    fn grace(&self, _: ClientIndex, _: u64) -> Grace {
        if self.ready.is_empty() { Grace::FOR_EVER } else { Grace::of_amount(self.inline.spare()) }
    }
}

#[cfg(test)]
mod tests;
